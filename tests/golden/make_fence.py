"""Makes the golden files of `test_fence.py` from the library as it is.

    python -m tests.golden.make_fence [systems] [answers] [doors]

The stored runs are those of the library at 03a1e62, before its rebuilding.
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


def systems(folder: Path) -> None:
    """Trains each system of the table for three steps, one an epoch."""
    corpus = fence.write_corpus(folder / "corpus", fence.CORPUS)
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
        parts = json.loads(json.dumps(parts), parse_float=lambda x: float(x) > 0)
        model = json.dumps(parts)
        is_size = ",size=" in system and not re.search("=(1024|256|8$)", system)
        if model not in models and not is_size:
            models.add(model)
            chosen[system] = config
    return chosen


def answers(folder: Path) -> None:
    """Asks the stored runs about the first sentences of the embedded test split."""
    golden = {}
    for name in fence.STORED:
        tagger = jaxner.load(fence.unpack(name, folder / name))
        texts = fence.texts()
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
            members = [f"  {json.dumps(k)}: {json.dumps(v)}" for k, v in value.items()]
            lines.append(f"{json.dumps(name)}: {{\n" + ",\n".join(members) + "\n}")
        else:
            lines.append(f"{json.dumps(name)}: {json.dumps(value)}")
    file.write_text("{\n" + ",\n".join(lines) + "\n}\n", "utf-8")


if __name__ == "__main__":
    for part in sys.argv[1:] or ("systems", "answers", "doors"):
        with tempfile.TemporaryDirectory() as place:
            globals()[part](Path(place))
