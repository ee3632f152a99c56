"""Makes the golden files of `test_fence.py` from the library as it is.

    python -m tests.golden.make_fence [systems] [runs] [answers] [doors]

Stored runs are those of the library before its rebuilding: they stay as they are.
"""

import json
import re
import shutil
import sys
import tempfile
from pathlib import Path

import jaxner
from tests import (
    conftest,  # noqa: F401  the environment of the tests, before JAX
    fence,
)

CORPUS = {"train": 6, "dev": 2}
STORED_CORPUS = {"train": 40, "dev": 6, "test": 12}
NUM_TEXTS = 12

_CNN = {
    "model.representation.words.dim": 8,
    "model.representation.chars.dim": 4,
    "model.representation.chars.num_filters": 4,
    "model.representation.dropout": 0.1,
}
_UANET = {
    **_CNN,
    "model.representation.chars.dropout": 0.0,
    "model.encoder.hidden_dim": 8,
    "optimizer.learning_rate": 0.1,
}
_REFINEMENT = {
    "model.refinement.num_layers": 2,
    "model.refinement.head_dim": 4,
    "model.refinement.label_dim": 6,
    "model.refinement.threshold": 0.3,
    "optimizer.parts.refinement.learning_rate": 5e-3,
}
_CROSS = {
    **{name: value for name, value in _CNN.items() if "dropout" not in name},
    "optimizer.learning_rate": 0.02,
}
_RATE = {"optimizer.learning_rate": 0.1}
_HEAD = {"model.head.dropout": 0.1}
STORED = {
    "grn": ("grn.py", {**_CNN, **_HEAD, **_RATE, "model.encoder.hidden_dim": 12}),
    "grn_vectors": (
        "grn.py:sample,elmo,relation=attention",
        {**_CNN, **_HEAD, **_RATE, "model.encoder.hidden_dim": 12},
    ),
    "idcnn": (
        "idcnn.py:sample,document,noshare",
        {
            "model.representation.words.dim": 8,
            "model.encoder.hidden_dim": 12,
            "optimizer.learning_rate": 0.02,
        },
    ),
    "bilstm": (
        "bilstm.py:sample,crf",
        {
            "model.representation.words.dim": 8,
            "model.encoder.first.hidden_dim": 8,
            "model.encoder.then.hidden_dim": 8,
            "optimizer.learning_rate": 0.05,
        },
    ),
    "parallel_rnn": (
        "parallel_rnn.py:sample,units=4,size=8",
        {
            "model.representation.words.dim": 8,
            "model.representation.chars.dim": 4,
            "model.representation.chars.hidden_dim": 4,
            "optimizer.learning_rate": 0.02,
        },
    ),
    "cross_bilstm": (
        "cross_bilstm.py:sample,model=cross",
        {**_CROSS, "model.encoder.hidden_dim": 6},
    ),
    "direction_bilstm": (
        "cross_bilstm.py:sample,model=direction",
        {**_CROSS, "model.encoder.hidden_dim": 6},
    ),
    "att_bilstm": (
        "cross_bilstm.py:sample,model=att",
        {**_CROSS, "model.encoder.first.hidden_dim": 10},
    ),
    "lan": (
        "lan.py:sample,layers=2",
        {
            "model.representation.words.dim": 8,
            "model.representation.chars.dim": 4,
            "model.representation.chars.hidden_dim": 4,
            "model.encoder.hidden_dim": 10,
        },
    ),
    "ncrfpp_intnet": (
        "ncrfpp.py:sample,chars=intnet,crf",
        {
            "model.representation.words.dim": 8,
            "model.representation.chars.num_filters": 8,
            "model.representation.chars.growth": 4,
            "model.encoder.hidden_dim": 8,
            **_RATE,
        },
    ),
    "variational": ("uanet.py:sample,model=variational,crf", _UANET),
    "transformer": (
        "uanet.py:sample,model=transformer",
        {
            **_CNN,
            "model.encoder.head_dim": 4,
            "model.encoder.num_layers": 1,
            "optimizer.learning_rate": 0.01,
        },
    ),
    "uanet": ("uanet.py", {**_UANET, **_REFINEMENT}),
    "seq2seq": (
        "seq2seq.py:sample,beam=2",
        {
            **_CNN,
            **_HEAD,
            "model.encoder.hidden_dim": 8,
            "model.head.tag_dim": 6,
            "model.head.hidden_dim": 8,
        },
    ),
    "bert": (
        "bert.py:sample,pool=mean",
        {"optimizer.learning_rate": 0.02, "optimizer.parts.bert.learning_rate": 5e-3},
    ),
}
"""Config and changes of each stored run."""


def systems(folder: Path) -> None:
    """Trains each system of the table for three steps, one an epoch."""
    corpus = fence.write_corpus(folder / "corpus", CORPUS)
    golden, trees = {}, {}
    for number, (system, config) in enumerate(_distinct().items()):
        words = config.model.representation.words
        dim = 100 if words is None else words.dim
        inputs = folder / f"inputs-{dim}"
        if not inputs.exists():
            fence.write_inputs(corpus, inputs, dim)
        run = fence.trained(fence.small(system, corpus, inputs), folder / str(number))
        tree = fence.weights_tree(jaxner.load(run))
        key = json.dumps(tree)
        golden[system] = {
            "losses": [float(f"{loss:.7g}") for loss in fence.losses(run)],
            "weights": trees.get(key, tree),
        }
        trees.setdefault(key, system)
        shutil.rmtree(run)
        _write(fence.SYSTEMS, golden)


def _distinct() -> dict:
    """Returns the systems whose models differ by more than rates of dropout.

    Of the sizes of parallel RNNs, which are many, only the extreme ones.
    """
    chosen, models = {}, set()
    for system in fence.systems():
        config = fence.config_of(system)
        unit = config.data.unit
        parts = [config.model.to_dict(), config.objective.to_dict(), unit]
        model = json.dumps(json.loads(json.dumps(parts), parse_float=_sign))
        is_size = ",size=" in system and not re.search("=(1024|256|8$)", system)
        if model not in models and not is_size:
            models.add(model)
            chosen[system] = config
    return chosen


def _sign(number: str) -> bool:
    return float(number) > 0


def runs(folder: Path) -> None:
    """Trains and stores a small run of each encoder and head."""
    corpus = fence.write_corpus(folder / "corpus", STORED_CORPUS)
    inputs = fence.write_inputs(corpus, folder / "inputs", 8)
    for name, (system, changes) in STORED.items():
        config = fence.small(system, corpus, inputs, changes)
        config.num_epochs = 10
        run = fence.trained(config, folder / name)
        shutil.rmtree(run / "checkpoints" / "latest")  # to load a run, its best does
        for path in (run / ".lock", *run.glob("predictions-*")):
            path.unlink(missing_ok=True)
        fence.pack(run, fence.RUNS / f"{name}.zip")


def answers(folder: Path) -> None:
    """Asks the stored runs about the first sentences of the embedded test split."""
    texts = [tokens for tokens, _ in fence.sentences("test")[:NUM_TEXTS]]
    golden = {}
    for name in STORED:
        tagger = jaxner.load(fence.unpack(name, folder / name))
        golden[name] = fence.answers(tagger, texts, fence.vectors(tagger, texts))
    _write(fence.ANSWERS, golden)


def doors(folder: Path) -> None:
    """Lists public names, commands and options."""
    commands = {command: fence.options_of(command) for command in fence.COMMANDS}
    _write(fence.DOORS, {"jaxner": fence.public_names(), "commands": commands})


def _write(file: Path, golden: dict) -> None:
    """Writes JSON with a line for each innermost entry."""
    lines = []
    for name, value in golden.items():
        if isinstance(value, dict):
            own = [f"  {json.dumps(k)}: {json.dumps(v)}" for k, v in value.items()]
            lines.append(f"{json.dumps(name)}: {{\n" + ",\n".join(own) + "\n}")
        else:
            lines.append(f"{json.dumps(name)}: {json.dumps(value)}")
    file.write_text("{\n" + ",\n".join(lines) + "\n}\n", "utf-8")


if __name__ == "__main__":
    for part in sys.argv[1:] or ("systems", "runs", "answers", "doors"):
        with tempfile.TemporaryDirectory() as place:
            globals()[part](Path(place))
