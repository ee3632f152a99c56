r"""Microseconds of the host for a training step, and milliseconds from epoch to epoch.

    python -m benchmarks.host --dataset conll2003
    XLA_FLAGS=--xla_force_host_platform_device_count=8 \
      python -m benchmarks.host --dataset conll2003 --devices 8

A CNN-BiLSTM-CRF is trained as `train.py` does, in one block and as configured, but its
programs compute nothing. `plan` is an epoch's, divided by its steps, and `call` starts
the programs: the median, without the wait for each step that simulated devices need.
`tail` is from the last step of an epoch to the next epoch, with checkpoints and scores,
of labels that are all O; `waits` is what the wall clock adds to it. All else is the
time of the main thread, which other work on the machine changes less.
"""

import collections
import contextlib
import functools
import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from typing import Any
from unittest import mock

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks import measure, worker
from jaxner import tagging
from jaxner.data.batching import Batches
from jaxner.training import monitor, step, train


def program(function: Callable[..., Any], argnums: Any, *static: str) -> Any:
    """Compiles a function that takes as many arrays as the one it replaces."""
    options: Any = {"donate_argnums": argnums, "static_argnames": static}
    return jax.jit(function, keep_unused=True, **options)


@functools.cache
def block_program(recipe: Any, shape: Any, is_whole: bool, *_: Any) -> Any:
    """Replaces the program for blocks of a shape."""
    if is_whole:
        return program(lambda _, state, *rest: end(state)[0], 1)
    return program(lambda sums, *_: sums, 0)


def ends(recipe: Any) -> tuple[Any, Any]:
    """Replaces what begins the sums of a step, and what ends it."""
    return jax.jit(lambda x: (jnp.zeros(1), x)), program(end, (0, 1))


def end(state, sums=None):
    """Returns the state after a step that changes nothing."""
    return state._replace(step=state.step + 1), sums


def label(params, batch, key, *, function, options, platform):
    """Replaces the prediction for a batch."""
    return jnp.zeros_like(batch.words)


def measured(config: Any) -> dict[str, float]:
    """Trains; returns medians, all but `call` without the first epoch."""
    times: dict[str, list[float]] = collections.defaultdict(list)  # seconds, by call
    marks: list[tuple[float, float]] = []  # at both ends of each epoch
    begin, advance = monitor.Monitor.begin, monitor.Monitor.advance

    def mark() -> None:
        marks.append((time.thread_time(), time.perf_counter()))

    def timed(name: str, method: Callable[..., Any]) -> Callable[..., Any]:
        def run(*args: Any) -> Any:
            start = time.thread_time()
            result = method(*args)
            times[name].append(time.thread_time() - start)
            return result

        return run

    def begins(show: monitor.Monitor, *args: Any) -> None:
        mark()
        begin(show, *args)

    def advances(show: monitor.Monitor, *args: Any) -> None:
        advance(show, *args)
        if args[2] == show._steps:
            mark()

    changes: list[tuple[Any, str, Any]] = [
        (Batches, "plan", timed("plan", Batches.plan)),
        (step.Step, "__call__", timed("call", step.Step.__call__)),
        (monitor.Monitor, "begin", begins),
        (monitor.Monitor, "advance", advances),
        (step, "program", block_program),
        (step, "ends", ends),
        (tagging, "_batch", program(label, (), "function", "options", "platform")),
        (jax, "block_until_ready", lambda arrays: arrays),
    ]
    with contextlib.ExitStack() as stack, tempfile.TemporaryDirectory() as folder:
        for change in changes:
            stack.enter_context(mock.patch.object(*change))
        train.main_run(config, f"{folder}/run", quiet=True)
    parts = np.diff(marks, axis=0)  # an epoch, its tail, …
    epoch, tail = (np.median(x, axis=0).tolist() for x in (parts[2::2], parts[3::2]))
    steps = len(times["call"]) / config.num_epochs
    return {
        "step, µs": 1e6 * epoch[0] / steps,
        "plan": 1e6 * statistics.median(times["plan"][1:]) / steps,
        "call": 1e6 * statistics.median(times["call"]),
        "tail, ms": 1e3 * tail[0],
        "waits": 1e3 * (tail[1] - tail[0]),
    }


def main(argv: Sequence[str] | None = None) -> None:
    parser = measure.parser(__doc__)
    parser.add_argument("--batch", type=int, nargs="+", default=[10, 32, 128])
    parser.add_argument("--devices", type=int)
    options = measure.parse(parser, argv)
    report, rows = measure.Report(options.json), []
    changes = {"data.vectors": None, "data.train_words": True, "patience": 0}
    changes |= {"num_epochs": 2 + options.rounds, "num_devices": options.devices}
    for batch in options.batch[: 1 if options.quick else None]:
        for blocks in (1, None):
            sizes = {"batch_size": batch, "num_blocks": blocks}
            text = f"cnn_bilstm_crf:{options.dataset}"
            row = {"batch": batch, "blocks": blocks or "as configured"}
            rows.append(row | measured(worker.config_of(text, changes | sizes)))
    report.table(f"the host's time, {options.dataset}", rows)


if __name__ == "__main__":
    main()
