"""A process that trains or tags in turns, by public names alone.

`benchmarks.measure.Worker` starts this file in any checkout, an older one too, so it
imports nothing of the benchmarks. A line on standard input starts a turn, a line on
standard output ends it.

train   an epoch of `train.py`
tag     `jaxner.tag` of all sentences, with the sizes of a config and random weights
"""

from __future__ import annotations

import contextlib
import functools
import inspect
import io
import json
import operator
import os
import runpy
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

QUICK = {
    "data.num_shapes": 1,
    "model.representation.words.dim": 8,
    "model.encoder.hidden_dim": 8,
    "model.encoder.first.hidden_dim": 5,
    "model.refinement.num_layers": 1,
    "model.refinement.num_heads": 2,
    "model.refinement.head_dim": 8,
}
"""Options of `--quick`, for the configs that have them."""


def config_of(text: str, options: dict[str, Any]) -> Any:
    """Returns a config of the working directory's `configs/`, with changed options."""
    name, _, argument = text.partition(":")
    config = runpy.run_path(f"configs/{name}.py")["get_config"](argument)
    config.update_from_flattened_dict(options)
    return config


def quick_options(text: str) -> dict[str, Any]:
    """Returns the options in `QUICK` that a config has."""
    config, options = config_of(text, {}).to_dict(), {}
    for path, value in QUICK.items():
        with contextlib.suppress(KeyError, TypeError):  # no such section
            if functools.reduce(operator.getitem, path.split("."), config) is not None:
                options[path] = value
    return options


def build(config: Any, sentences: list[list[str]], types: list[str]) -> Any:
    """Returns a tagger with a text's words, some entity types and random weights."""
    import jax

    import jaxner

    data = config.data.to_dict()
    known = inspect.signature(jaxner.build_vocabulary).parameters
    options = {k: v for k, v in data.items() if k in known}
    options |= {"vectors": None, "min_count": 1, "train_words": True}
    options["documents"] = data.get("unit") == "document"
    vocabulary, _ = jaxner.build_vocabulary(sentences, types, **options)
    model = jaxner.build(vocabulary, **config.model.to_dict())
    return jaxner.Tagger(jaxner.init(model, jax.random.key(0)), model, vocabulary)


def training_flags(task: Any) -> list[str]:
    """Returns the flags of `train.py` for a config, a folder of files and options."""
    options = {**task["options"], "data.dir": task["corpus"], "data.vectors": ""}
    options |= {"data.train_words": True}
    name, _, argument = task["config"].partition(":")
    flags = [f"--config.{key}={value}" for key, value in options.items()]
    return ["--config", f"configs/{name}.py:{argument}", *flags]


def train(wait: Callable[[], None], done: Callable[[], None], task: Any) -> None:
    """Trains; each epoch is a turn."""
    small = quick_options(task["config"]) if task["quick"] else {}
    task["options"] = {**small, **task["options"], "seed": 0, "patience": 0}
    task["options"] |= {"num_epochs": 10_000, "data.min_count": 1}

    class Turns(io.StringIO):
        """Standard output of the training; a line of an epoch ends a turn."""

        def write(self, text: str) -> int:
            if any(line.startswith("epoch ") for line in text.splitlines()):
                done()
                wait()
            return len(text)

    sys.stdout = Turns()
    workdir = f"{tempfile.mkdtemp(dir=task['corpus'])}/run"
    sys.argv = ["train.py", *training_flags(task), "--workdir", workdir]
    wait()
    runpy.run_path("train.py", run_name="__main__")


def tag(wait: Callable[[], None], done: Callable[[], None], task: Any) -> None:
    """Tags; a turn tags all sentences, in calls of some number of them."""
    options = quick_options(task["config"]) if task["quick"] else {}
    config = config_of(task["config"], options)
    wait()
    import jaxner

    tagger = build(config, task["train"], task["types"])
    sentences = task["sentences"]
    # Each turn is a new text for a vocabulary that remembers looked-up tokens.
    forget = getattr(tagger.vocabulary, "forget", lambda: None)
    while True:
        forget()
        for start in range(0, len(sentences), task["batch"] or len(sentences)):
            stop = start + (task["batch"] or len(sentences))
            jaxner.tag(tagger, sentences[start:stop])
        done()
        wait()


def main() -> None:
    """Runs the mode of the command line."""
    answers = os.fdopen(os.dup(1), "w")

    def wait() -> None:
        if not sys.stdin.readline():
            os._exit(0)

    def done() -> None:
        answers.write("done\n")
        answers.flush()

    mode = {"train": train, "tag": tag}[sys.argv[1]]
    task = json.loads(sys.argv[2])
    if "file" in task:  # too long for a command line
        task |= json.loads(Path(task["file"]).read_text("utf-8"))
    mode(wait, done, task)


if __name__ == "__main__":
    main()
