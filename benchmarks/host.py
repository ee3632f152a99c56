r"""Microseconds of the host for a training step, and milliseconds from epoch to epoch.

    python -m benchmarks.host --dataset conll2003
    XLA_FLAGS=--xla_force_host_platform_device_count=8 \
      python -m benchmarks.host --dataset conll2003 --devices 8

A CNN-BiLSTM-CRF is trained as `train.py` does, in one block and as configured, but its
programs compute nothing. `plan` is an epoch's, divided by its steps, and `call` starts
the programs. `tail` is from the last step of an epoch to the next epoch, with scores
and checkpoints; `waits` is what the wall clock adds to it. All else is the time of the
main thread, which other work on the machine changes less.
"""

from __future__ import annotations

import collections
import contextlib
import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from typing import Any
from unittest import mock

import jax
import jax.numpy as jnp

from benchmarks import measure, worker
from jaxner import tagging
from jaxner.data.batching import Batches
from jaxner.training import monitor, step, train


def program(function: Callable[..., Any], donated: Any, *static: str) -> Any:
    """Compiles a function that takes as many arrays as the one it replaces."""
    options: Any = {"donate_argnums": donated, "static_argnames": static}
    return jax.jit(function, keep_unused=True, **options)


def programs(recipe: step.Recipe, is_shared: bool) -> tuple[Any, ...]:
    """Replaces the programs of a step."""

    def end(state, sums=None):
        return state._replace(step=state.step + 1), sums

    whole = program(lambda shape, state, *_: end(state)[0], 1, "shape")
    add = program(lambda shape, sums, *_: sums, 1, "shape")
    return whole, jax.jit(lambda x: (jnp.zeros(1), x)), add, program(end, (0, 1))


def label(params, batch, key, *, function, options):
    """Replaces the prediction for a batch."""
    return jnp.zeros_like(batch.words)


def measured(config: Any) -> dict[str, float]:
    """Trains; returns medians over all epochs but the first, which compiles."""
    spent: dict[str, float] = collections.defaultdict(float)  # seconds
    marks: list[dict[str, float]] = []  # at both ends of each epoch

    def mark() -> None:
        clocks = {"cpu": time.thread_time(), "wall": time.perf_counter()}
        marks.append({**spent, **clocks})

    def timed(name: str, method: Callable[..., Any]) -> Callable[..., Any]:
        def run(owner: Any, *args: Any) -> Any:
            if name == "begin":
                mark()
            start = time.thread_time()
            result = method(owner, *args)
            spent[name] += time.thread_time() - start
            if name == "advance" and args[2] == owner._steps:
                spent["steps"] = owner._steps
                mark()
            return result

        return run

    methods = [(Batches, "plan"), (step.Step, "__call__")]
    methods += [(monitor.Monitor, "begin"), (monitor.Monitor, "advance")]
    changes: Any = [(x, name, timed(name, getattr(x, name))) for x, name in methods]
    changes += [(step, "_programs", programs), (train.console, "quiet", True)]
    changes += [(tagging, "_batch", program(label, (), "function", "options"))]
    with contextlib.ExitStack() as stack, tempfile.TemporaryDirectory() as folder:
        for change in changes:
            stack.enter_context(mock.patch.object(*change))
        train.main_run(config, f"{folder}/run")
    starts, ends, steps = marks[2::2], marks[3::2], spent["steps"]

    def median(name: str, left: list[Any], right: list[Any]) -> float:
        pairs = zip(left, right, strict=False)
        return statistics.median(b[name] - a[name] for a, b in pairs)

    parts = {"step, µs": "cpu", "plan": "plan", "call": "__call__"}
    row = {k: 1e6 / steps * median(x, starts, ends) for k, x in parts.items()}
    tail, wall = (1e3 * median(x, ends, starts[1:]) for x in ("cpu", "wall"))
    return row | {"tail, ms": tail, "waits": wall - tail}


def main(argv: Sequence[str] | None = None) -> None:
    """Runs the benchmark."""
    made = measure.parser(__doc__)
    made.add_argument("--batch", type=int, nargs="+", default=[10, 32, 128])
    made.add_argument("--devices", type=int)
    options = measure.parse(made, argv)
    report, rows = measure.Report(options.json), []
    changes = {"data.vectors": None, "data.train_words": True, "patience": 0}
    changes |= {"num_epochs": 2 + options.rounds, "num_devices": options.devices}
    for batch in options.batch[: 1 if options.quick else None]:
        for blocks in (1, None):
            more = {"batch_size": batch, "num_blocks": blocks}
            text = f"cnn_bilstm_crf:{options.dataset}"
            row = {"batch": batch, "blocks": blocks or "as configured"}
            rows.append(row | measured(worker.config_of(text, changes | more)))
    report.table(f"the host's time, {options.dataset}", rows)


if __name__ == "__main__":
    main()
