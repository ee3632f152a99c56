"""A process that trains or tags in turns, by public names alone.

`benchmarks.measure.Worker` starts this file in any checkout, an older one too, so it
imports nothing of the benchmarks. The first line on standard input is the task in JSON,
each further one starts a turn. A line on standard output ends the turn: the seconds of
the steps of training.

train   an epoch of `train.py`
tag     `jaxner.tag` of all sentences, with the sizes of a config and random weights
"""

import inspect
import io
import json
import os
import runpy
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any


def config_of(text: str, options: dict[str, Any]) -> Any:
    """Returns a config of the working directory's `configs/`, with changed options."""
    name, _, argument = text.partition(":")
    config = runpy.run_path(f"configs/{name}.py")["get_config"](argument)
    config.update_from_flattened_dict(options)
    return config


def build(config: Any, sentences: list[list[str]], types: list[str]) -> Any:
    """Returns a tagger with a text's words, some entity types and random weights."""
    import jax

    import jaxner

    data = config.data.to_dict()
    parameters = inspect.signature(jaxner.build_vocabulary).parameters
    options = {k: v for k, v in data.items() if k in parameters}
    options |= {"vectors": None, "min_count": 1, "train_words": True}
    options["documents"] = data.get("unit") == "document"
    vocabulary, _ = jaxner.build_vocabulary(sentences, types, **options)
    model = jaxner.build(vocabulary, **config.model.to_dict())
    return jaxner.Tagger(jaxner.init(model, jax.random.key(0)), model, vocabulary)


def train(turn: Callable[[float], None], task: Any) -> None:
    """Trains; each epoch is a turn."""
    changes = {"data.num_shapes": 1} if task["quick"] else {}
    changes |= {"batch_size": task["batch"], "seed": 0, "patience": 0}
    changes |= {"num_epochs": 10_000, "data.dir": task["corpus"], "data.vectors": None}
    changes |= {"data.min_count": 1, "data.train_words": True, **task["changes"]}

    class Turns(io.StringIO):
        """Standard output of the training; a line of an epoch ends a turn."""

        def write(self, text: str) -> int:
            if any(line.startswith("epoch ") for line in text.splitlines()):
                # Of restarts, each has its folder.
                file, *_ = sorted(Path(workdir).rglob("metrics.jsonl"))
                last = file.read_text("utf-8").splitlines()[-1]
                turn(json.loads(last)["seconds"])
            return len(text)

    sys.stdout = Turns()
    workdir = f"{tempfile.mkdtemp(dir=task['corpus'])}/run"
    name, _, argument = task["config"].partition(":")
    sys.argv = ["train.py", f"--config=configs/{name}.py:{argument}"]
    sys.argv += [f"--config.{key}={value}" for key, value in changes.items()]
    sys.argv += ["--workdir", workdir]
    runpy.run_path("train.py", run_name="__main__")


def tag(turn: Callable[[float], None], task: Any) -> None:
    """Tags; a turn tags all sentences, in calls of some number of them."""
    import jaxner

    train, text = task["texts"]
    types = sorted({label[2:] for _, labels in train for label in labels} - {""})
    config = config_of(task["config"], task["changes"])
    tagger = build(config, [tokens for tokens, _ in train], types)
    sentences = [tokens for tokens, _ in text]
    size = task["batch"] or len(sentences)
    while True:
        tagger.vocabulary.forget()  # as if the text were new
        for start in range(0, len(sentences), size):
            jaxner.tag(tagger, sentences[start : start + size])
        turn(0.0)


def main(**modes: Callable[[Callable[[float], None], Any], None]) -> None:
    """Runs the mode of the command line."""
    answers = os.fdopen(os.dup(1), "w")

    def turn(seconds: float) -> None:
        answers.write(f"{seconds}\n")
        answers.flush()
        if not sys.stdin.readline():
            os._exit(0)

    task = json.loads(sys.stdin.readline())
    sys.stdin.readline()
    modes[sys.argv[1]](turn, task)


if __name__ == "__main__":
    main(train=train, tag=tag)
