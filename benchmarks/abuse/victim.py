"""A small run to attack, and what it looks like when nothing is wrong."""

from __future__ import annotations

import functools
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import jax
import numpy as np
from ml_collections import ConfigDict

import jaxner
from jaxner import tagging
from jaxner.configuration import shipped
from jaxner.data import conll, corpora
from jaxner.workdir import Workdir

SMALL = {
    "num_epochs": 3,
    "batch_size": 4,
    "data.num_shapes": 1,
    "model.representation.words.dim": 8,
    "model.encoder.hidden_dim": 16,
    "optimizer.learning_rate": 0.1,
}
_SENTENCES = 48


class Victim:
    """A short finished run in its own folder, and copies of it.

    Args:
        folder: Where everything is written.
    """

    def __init__(self, folder: Path):
        self.folder, self.corpus = folder, folder / "corpus"
        self.corpus.mkdir(parents=True, exist_ok=True)
        for split in ("train", "dev", "test"):
            examples = corpora.load("sample", split).examples[:_SENTENCES]
            rows = [zip(e.tokens, e.labels or (), strict=True) for e in examples]
            conll.write(self.corpus / f"{split}.conll", rows)

    def config(self, corpus: Path | None = None) -> ConfigDict:
        """Returns the config of the run; perhaps of another corpus."""
        config = shipped.load("grn")
        config.data.dir = str(corpus or self.corpus)
        config.update_from_flattened_dict(SMALL)
        return config

    def command(self, workdir: Path) -> list[str]:
        """Returns the command that trains in a folder."""
        values = SMALL | {"data.dir": self.corpus}
        given = [f"--config.{name}={value}" for name, value in values.items()]
        return ["train", "--config=grn", *given, f"--workdir={workdir}"]

    @functools.cached_property
    def reference(self) -> Path:
        """The folder of a run that nothing disturbed."""
        path = self.folder / "reference"
        done = jaxner_command(self.command(path))
        if done.returncode:
            raise RuntimeError(f"The victim does not even train: {done.stdout}")
        return path

    def copy(self, name: str) -> Path:
        """Copies the reference; one of that name is replaced."""
        path = self.folder / name
        shutil.rmtree(path, ignore_errors=True)
        shutil.copytree(self.reference, path)
        return path

    @functools.cached_property
    def sentences(self) -> list[list[str]]:
        """Sentences whose labels must stay the same."""
        split = corpora.load(None, "test", directory=self.corpus)
        return [list(example.tokens) for example in split.examples]

    def labels(self, path: Path) -> list[list[str]]:
        """Loads a run and labels the sentences."""
        return tagging.tag(jaxner.load(path), self.sentences)


def state(path: Path) -> dict[str, Any]:
    """Returns what must not differ between two runs, as plain values."""
    run = Workdir(path)
    result = run.read_json("result.json")
    for name in ("seconds", "peak_memory_mb"):
        result.pop(name, None)
    timed = ("seconds", "saving_seconds")
    history = [{k: v for k, v in m.items() if k not in timed} for m in run.metrics()]
    weights = jax.tree.leaves(jaxner.load(path).weights)
    return {
        "result": json.dumps(result, sort_keys=True),
        "history": json.dumps(history, sort_keys=True),
        "weights": [np.asarray(leaf).tobytes() for leaf in weights],
    }


def jaxner_command(
    arguments: list[str], **options: Any
) -> subprocess.CompletedProcess[str]:
    """Runs `python -m jaxner` to its end."""
    return subprocess.run(
        [sys.executable, "-m", "jaxner", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        check=False,
        env=environment(),
        **options,
    )


def environment() -> dict[str, str]:
    """Returns the environment of the commands: lines are not wrapped."""
    return {**os.environ, "PYTHONUNBUFFERED": "1"}
