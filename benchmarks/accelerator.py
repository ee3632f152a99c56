r"""Measures the gain by this machine's accelerator, in bounded time.

    python -m benchmarks.accelerator --json accelerator.json
    python -m benchmarks.accelerator --minutes 3 --only systems seeds

systems: training of each system at batch 10, 32, 128 and 512: steps and tokens per
second. seeds: tokens per second of K restarts in one program. bfloat16: the same
systems in both precisions. tagging: tokens
per second, strings to strings. lstm, relation, crf: the kernels against their plain
forms, PyTorch where it is installed, and, as `limit`, the share of the fastest matrix
product or copy that this device does in the same time.

Rows are written to the JSON file one by one, and parts take turns, so a run that is cut
keeps some of each. No row is begun that is expected to end after the time is up.
"""

from __future__ import annotations

import importlib.util
import itertools
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import jax
import jax.numpy as jnp

from benchmarks import corpus, crf, kernels, ours
from benchmarks.measure import Report, compare
from jaxner import tagging
from jaxner.data.splits import Split
from jaxner.training import cluster

Row = dict[str, Any]
BATCHES = (10, 32, 128, 512)
SEEDS = (1, 2, 5, 10)
PRECISE = ("GRN", ours.SAME_SIZE, "ID-CNN")  # systems in both precisions
_SECONDS = 2.0  # a row's sample lasts about so long
_FIRST = 30.0  # what a row is expected to take before any has been measured


def speed(run: Callable[[], int], seconds: float = _SECONDS) -> tuple[float, float]:
    """Calls a run again and again; its tokens per second, and seconds to compile."""
    start = time.perf_counter()
    run()
    first = time.perf_counter() - start
    tokens, start = 0, time.perf_counter()
    while (taken := time.perf_counter() - start) < seconds or not tokens:
        tokens += run()
    return tokens / taken, first


def epoch(system: str, train: Split, batch: int, quick: bool, **options: Any):
    """Returns what trains a system for an epoch, on batches of one shape."""
    place = options.pop("place", cluster.ALONE)
    config = ours.config_of(system, quick)
    config.data.num_shapes = 1
    config.update_from_flattened_dict(options)
    return ours.epoch_of(config, train, batch, place=place)


def systems(train: Split, quick: bool) -> Iterator[Callable[[], Row]]:
    """Yields what measures each row."""
    steps = {batch: -(-len(train.examples) // batch) for batch in BATCHES}
    tokens = corpus.count_tokens(train)
    for batch, name in itertools.product(BATCHES, ours.SYSTEMS):

        def measure(name=name, batch=batch) -> Row:
            rate, first = speed(epoch(name, train, batch, quick))
            row = {"system": name, "batch": batch, "tokens/s": rate}
            return {**row, "steps/s": rate * steps[batch] / tokens, "first, s": first}

        yield measure


def seeds(train: Split, quick: bool) -> Iterator[Callable[[], Row]]:
    """Yields what measures each row."""
    for batch, count in itertools.product((10, 32), SEEDS):

        def measure(batch=batch, count=count) -> Row:
            place = cluster.Placement(None, count)
            rate, first = speed(epoch("GRN", train, batch, quick, place=place))
            row = {"system": "GRN", "batch": batch, "seeds": count}
            return {**row, "tokens/s": rate, "first, s": first}

        yield measure


def bfloat16(train: Split, quick: bool) -> Iterator[Callable[[], Row]]:
    """Yields what measures each row."""
    for batch, name in itertools.product((32, 128), PRECISE):

        def measure(name=name, batch=batch) -> Row:
            row: Row = {"system": name, "batch": batch}
            for dtype in ("float32", "bfloat16"):
                options = {"model.dtype": dtype}
                row[dtype], _ = speed(epoch(name, train, batch, quick, **options))
            return {**row, "× float32": row["bfloat16"] / row["float32"]}

        yield measure


def tag(train: Split, quick: bool) -> Iterator[Callable[[], Row]]:
    """Yields what measures each row."""
    sentences = [list(example.tokens) for example in train.examples]
    tokens = corpus.count_tokens(train)
    for name in ours.SYSTEMS:

        def measure(name=name) -> Row:
            params = ours.tagger(ours.config_of(name, quick), train)

            def run() -> int:
                tagging.tag(params, sentences)
                return tokens

            rate, first = speed(run)
            return {"system": name, "tokens/s": rate, "first, s": first}

        yield measure


def kernel(rows: Callable[[], Iterable[Mapping[str, Any]]], cost: Any = None):
    """Returns what yields the one measurement of a kernel's rows."""

    def measurements(train: Split, quick: bool) -> Iterator[Callable[[], list[Row]]]:
        del train, quick

        def measure() -> list[Row]:
            found = [dict(row) for row in rows()]
            if cost is None:
                return found
            limit = kernels.peak()
            for row in found:
                share = cost(row) / limit / row[kernels.OURS].seconds.median
                row["limit"] = share
            return found

        yield measure

    return measurements


def copied() -> float:
    """Returns how many bytes a second this device reads and writes in a copy."""
    array = jnp.ones(1 << 26)
    run = jax.jit(lambda x: x + 1)
    seconds = compare({"copy": lambda: run(array)}, "copy", 3)["copy"].seconds.median
    return 2 * array.nbytes / seconds


def relation_rows() -> list[Row]:
    """Measures the relation layer; its limit is to read and write its arrays once."""
    rate, found = copied(), kernels.time_relation(False, 3)
    for row in found:
        arrays = 4 if row["pass"] == kernels.PASSES[0] else 7  # of B × T × 400 floats
        least = arrays * 4 * 400 * row["B"] * row["T"] / rate
        row["limit"] = least / row[kernels.OURS].seconds.median
    return found


def crf_rows() -> list[Row]:
    """Measures the CRF's operations against a plain scan and pytorch-crf."""
    sizes = [(9, 32, 32), (37, 32, 32), (9, 128, 128)]
    names = [crf.OURS, crf.PLAIN]
    if all(map(importlib.util.find_spec, crf.MODULES[crf.PYTORCH])):
        names.append(crf.PYTORCH)
    limits = crf.Limits(rounds=3)
    return [
        {"operation": operation, **row}
        for number, operation in enumerate(crf.OPERATIONS)
        for row in crf.rows(sizes, number, names, limits)
    ]


SECTIONS: dict[str, Callable[[Split, bool], Iterator[Callable[[], Any]]]] = {
    "systems": systems,
    "seeds": seeds,
    "bfloat16": bfloat16,
    "tagging": tag,
    "lstm": kernel(lambda: kernels.time_lstm(True, 3), kernels.products),
    "relation": kernel(relation_rows),
    "crf": kernel(crf_rows),
}


def in_turn(parts: Mapping[str, Iterator[Any]]) -> Iterator[tuple[str, Any]]:
    """Yields from each part in turn, until none has more."""
    left = dict(parts)
    while left:
        for name in list(left):
            try:
                yield name, next(left[name])
            except StopIteration:
                del left[name]


def main(argv: list[str] | None = None) -> None:
    """Runs the measurements of the command line."""
    made = corpus.parser(__doc__)
    made.add_argument("--minutes", type=float, default=8.5, help="for all rows")
    made.add_argument("--only", nargs="+", choices=SECTIONS, default=list(SECTIONS))
    options = corpus.parse(made, argv)
    report = Report(options.json)
    train = corpus.load(options.dataset, "train", options.limit)
    end = time.monotonic() + 60 * options.minutes
    parts = {name: SECTIONS[name](train, options.quick) for name in options.only}
    longest: dict[str, float] = {}
    left_out = 0
    for name, measure in in_turn(parts):
        start = time.monotonic()
        if start + longest.get(name, min(_FIRST, 6 * options.minutes)) > end:
            left_out += 1
            continue
        found = measure()
        for row in found if isinstance(found, list) else [found]:
            report.row(name, row)
        taken = time.monotonic() - start
        longest[name] = max(longest.get(name, 0.0), taken)
    if left_out:
        report.say(f"The time was up: {left_out} measurements were left out")


if __name__ == "__main__":
    main()
