"""What tests of training compare and start: run folders, commands, vector files."""

import os
import subprocess
import sys
from pathlib import Path

import jax
import numpy as np

import jaxner
from jaxner.data import corpora
from jaxner.runs import Workdir
from jaxner.training import monitor
from tests import tiny

ROOT = Path(__file__).parents[2]


def metrics_of(folder, *names):
    """The metrics of a run's epochs, without times."""
    rest = {"seconds", *names}
    lines = Workdir(folder).metrics()
    return [{k: v for k, v in line.items() if k not in rest} for line in lines]


def losses(folder):
    return [line["loss"] for line in Workdir(folder).metrics()]


def assert_close(folder, rival, **tolerance):
    """The same loss curve to a float's accuracy, and weights that are close."""
    left, right = losses(folder), losses(rival)
    np.testing.assert_allclose(left[0], right[0], rtol=1e-6)
    np.testing.assert_allclose(left, right, rtol=1e-4)
    pair = jaxner.load(folder), jaxner.load(rival)
    for a, b in zip(*map(jax.tree.leaves, pair), strict=True):
        np.testing.assert_allclose(a, b, **tolerance)


def assert_same_run(folder, rival):
    """Bitwise the same weights, the same history, scores and labels."""
    left, right = jaxner.load(folder), jaxner.load(rival)
    assert left.vocabulary == right.vocabulary
    jax.tree.map(np.testing.assert_array_equal, left.weights, right.weights)
    assert metrics_of(folder) == metrics_of(rival)
    results = [Workdir(path).read_json("result.json") for path in (folder, rival)]
    for result in results:
        del result["seconds"]
    assert results[0] == results[1]
    for name in ("dev", "test"):
        files = [Workdir(path).predictions(name) for path in (folder, rival)]
        assert files[0].read_bytes() == files[1].read_bytes()


def command(config, folder, workdir, **changes):
    """The command, after `jaxner`, for a tiny run of a config of the GRN."""
    values = {**tiny.SMALL, "data.dir": folder, **changes}
    options = [f"--config.{name}={value}" for name, value in values.items()]
    return ["train", config, *options, f"--output={workdir}"]


def plain_command(folder, workdir, **changes):
    """The same for the run of `tiny.plain_config`."""
    config = "grn:sample,encoder=projection,chars=none"
    options = {"optimizer.learning_rate": 0.06, **changes}
    return command(config, folder, workdir, **options)


def stop_before(patch, steps, number):
    """Sends a signal to this process before some steps, counted over all runs."""
    advance, calls = monitor.Monitor.advance, []

    def advancing(self, *arguments):
        calls.append(arguments)
        if len(calls) in steps:
            os.kill(os.getpid(), number)
        return advance(self, *arguments)

    patch.setattr(monitor.Monitor, "advance", advancing)


def start(arguments, **environment):
    """Starts Python, whose standard output has all that it prints."""
    return subprocess.Popen(
        [sys.executable, *map(str, arguments)],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT), **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )


def read_until(text, process):
    """What a process has printed once that contains a text."""
    output = ""
    while text not in output:
        line = process.stdout.readline()
        assert line, output
        output += line
    return output


def sentences(folder, split):
    examples = corpora.load(None, split, directory=folder).examples
    return [example.tokens for example in examples]


def write_vectors(folder, words=("the", "of", "said"), dim=8, value=0.5):
    """Writes word vectors; returns the file's path as a config has it."""
    rows = [" ".join([word, *[str(value)] * dim]) for word in words]
    path = folder / "vectors.txt"
    path.write_text("\n".join(rows) + "\n", encoding="utf-8")
    return str(path)
