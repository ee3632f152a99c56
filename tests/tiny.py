"""A run that takes seconds: a corner of the embedded corpus, and a small GRN."""

import functools
import json
import subprocess
import tempfile
from pathlib import Path

from configs import grn
from jaxner.data import corpora, formats
from jaxner.runs import Workdir
from tests.golden import make_encoders

# What makes the GRN's config small. Scripts are given the same, as flags: so they find
# the programs compiled that the tests have run already.
SMALL = {
    "batch_size": 4,
    "data.num_shapes": 1,
    "model.representation.words.dim": 8,
    "model.encoder.hidden_dim": 32,
    "model.representation.dropout": 0.1,
    "model.head.dropout": 0.1,
    "optimizer.learning_rate": 0.1,
}


# What builds a small model of words alone.
PARTS = {
    "representation": {"words": {"dim": 8}, "chars": None},
    "encoder": {"name": "grn", "hidden_dim": 8},
    "head": {"name": "softmax"},
}


@functools.cache
def pretrained_folder() -> str:
    """The folder of a small encoder, without weights and vocabulary."""
    folder = Path(tempfile.mkdtemp())
    (folder / "config.json").write_text(json.dumps(make_encoders.SMALL))
    return str(folder)


def output_of(*command, **options):
    """What a command prints, which succeeds."""
    options = {"capture_output": True, "text": True, **options}
    process = subprocess.run([*map(str, command)], **options)
    assert process.returncode == 0, process.stdout + process.stderr
    return process.stdout


def with_data(folder, **options):
    """Changes options of the data of a run; returns its folder."""
    run = Workdir(folder)
    config = run.read_json("config.json")
    config["data"] |= options
    run.write_json("config.json", config)
    return run.path


def write_corpus(
    folder: Path,
    sentences: int = 48,
    documents: bool = False,
    lengths: range = range(13, 17),
) -> Path:
    """Writes sentences of similar length, so that few programs are compiled.

    They are the first of each split of the embedded corpus; where its documents begin
    is written only on demand.
    """
    folder.mkdir(parents=True, exist_ok=True)
    for split in ("train", "dev", "test"):
        examples = corpora.load("sample", split).examples
        examples = [e for e in examples if len(e.tokens) in lengths][:sentences]
        rows = [zip(e.tokens, e.labels, strict=True) for e in examples]
        numbers = [e.document for e in examples] if documents else None
        formats.write_columns(folder / f"{split}.conll", rows, documents=numbers)
    return folder


def config(folder: Path, num_epochs: int = 3, arg: str = ""):
    config = grn.get_config(arg)
    config.num_epochs = num_epochs
    config.data.dir = str(folder)
    config.update_from_flattened_dict(SMALL)
    return config


def plain_config(folder: Path, num_epochs: int = 3, arg: str = ""):
    """The config of a tagger of single words, whose programs compile in no time."""
    plain = config(folder, num_epochs, f"sample,encoder=projection,chars=none{arg}")
    plain.optimizer.learning_rate = 0.06
    return plain
