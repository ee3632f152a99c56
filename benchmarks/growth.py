r"""Time and memory against sentence length, labels, batch and corpus, with exponents.

    python -m benchmarks.growth
    python -m benchmarks.growth --axes T --systems GRN --tokens 500 1000 2000 4000

T: one sentence of T tokens. Each system and length runs in a separate process. `peak`
is its peak host memory, with compiler and libraries but without an accelerator's
memory. `scratch` is XLA's temporary memory beside weights, inputs and results, which is
the part that grows. Programs that would need more than --memory MiB are compiled but
not run. `plain gates` is the memory for the gradient of GRN's gates in the plain form:
three arrays of T·T·400. L: labels, batches of 32 sentences of 32 tokens. B: sentences
of 32 tokens. C: the corpus once, twice, four and eight times: an epoch in batches of
32, and tagging from strings to strings; `peak` is again for a separate process. C uses
only the first of --systems, since the loop over a corpus is the same for all.

A figure with exponent e grows as the size to the power e: least squares of the
logarithms over all sizes, and over the three largest.
"""

from __future__ import annotations

import dataclasses
import functools
import statistics
import time
from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np

from benchmarks import alone, corpus, ours
from benchmarks.measure import Report, compare
from jaxner import tagging
from jaxner.data.splits import Split

LENGTHS = (128, 256, 512, 1024, 2048, 4096, 8192)
TYPES = (1, 4, 9, 18, 36)
BATCHES = (1, 4, 16, 64, 256)
COPIES = (1, 2, 4, 8)
DEFAULT = ("GRN", "ID-CNN", "BiLSTM-CRF", "Att-BiLSTM-CNN", "UANet")
_BATCH, _TOKENS = 32, 32
_MIB = 2**20
# Fitted figures, in the order of the columns.
FIGURES = ("step, s", "tag, s", "step scratch, MiB", "tag scratch, MiB", "peak, MiB")


def exponent(sizes: Sequence[float], values: Sequence[float | None]) -> float | None:
    """Returns e of value = c · size^e, fitted by least squares of the logarithms.

    Args:
        sizes: Sizes above 0.
        values: Measured values; None and values not above 0 are ignored.

    Returns:
        e; None for fewer than two sizes.

    Example:
        >>> round(exponent([1, 2, 4], [3.0, 12.0, 48.0]), 6)
        2.0
    """
    pairs = [(s, v) for s, v in zip(sizes, values, strict=True) if v and v > 0]
    if len({size for size, _ in pairs}) < 2:
        return None
    x, y = np.log(np.array(pairs)).T
    return float(np.polyfit(x, y, 1)[0])


def exponents(axis: str, rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Returns the exponents of each system's figures against the column `axis`."""
    fitted = []
    for system in dict.fromkeys(row["system"] for row in rows):
        its = [row for row in rows if row["system"] == system]
        for span, first in (("all", 0), ("largest 3", -3)):
            found = {}
            for name in FIGURES:  # skipped sizes have no figure
                has = [row for row in its if row.get(name) is not None][first:]
                sizes = [float(row[axis]) for row in has]
                found[name] = exponent(sizes, [_number(row[name]) for row in has])
            fitted.append({"system": system, "axis": axis, "sizes": span, **found})
    return fitted


def _number(cell: Any) -> float | None:
    return getattr(cell, "median", cell)  # of an interval


def scratch_mb(compiled: Any) -> float:
    """Returns XLA's memory for intermediate results, in MiB."""
    return compiled.memory_analysis().temp_size_in_bytes / _MIB


def _needed_mb(compiled: Any) -> float:
    found = compiled.memory_analysis()
    sizes = found.argument_size_in_bytes, found.output_size_in_bytes
    return (found.temp_size_in_bytes + sum(sizes)) / _MIB


# --- T: a process for each length ----------------------------------------------------


def one_length(
    system: str, dataset: str, limit: int, length: int, memory: float, quick: bool
) -> dict[str, Any]:
    """Returns times of a step on one long sentence and of its tagging."""
    config = ours.config_of(system, quick)
    train = corpus.load(dataset, "train", limit)
    params = ours.tagger(config, train)
    batch = ours.batch_of(params, train, length, 1)
    row: dict[str, Any] = {"system": system, "T": length, "left out": ""}
    for name, make in (
        ("tag", functools.partial(ours.tag_of, params, batch)),
        ("step", functools.partial(ours.step_of, config, params, batch)),
    ):
        compiled, run = make()
        row[f"{name} scratch, MiB"] = scratch_mb(compiled)
        if _needed_mb(compiled) > memory:
            row[f"{name}, s"] = None
            row["left out"] += f" {name}: {_needed_mb(compiled):,.0f} MiB"
        else:
            row[f"{name}, s"] = _median_seconds(run, 1 if quick else 5)
    return row


def _median_seconds(run: Callable[[], Any], count: int) -> float:
    jax.block_until_ready(run())
    taken = []
    for _ in range(count):
        start = time.perf_counter()
        jax.block_until_ready(run())
        taken.append(time.perf_counter() - start)
        if sum(taken) > 30:
            break
    return statistics.median(taken)


def _shared(system: str, options: Any) -> dict[str, Any]:
    return {
        "system": system,
        "dataset": options.dataset,
        "limit": options.limit,
        "quick": options.quick,
    }


def by_length(options: Any) -> list[dict[str, Any]]:
    """Returns a row for each system and length."""
    rows = []
    for system in options.systems:
        for length in options.tokens:
            gates = 3 * length**2 * 400 * 4 / _MIB if system == "GRN" else None
            found: dict[str, Any]
            try:
                found = alone.call(
                    "benchmarks.growth:one_length",
                    {
                        **_shared(system, options),
                        "length": length,
                        "memory": options.memory,
                    },
                )
            except alone.FailedError as error:
                found = {"left out": str(error)}
            found["peak, MiB"] = found.get("peak_mb")
            cells: dict[str, Any] = {name: found.get(name) for name in FIGURES}
            row = {"system": system, "T": length, **cells, "plain gates, MiB": gates}
            rows.append({**row, "left out": found["left out"].strip() or None})
    return rows


# --- L and B: one process, in turn ---------------------------------------------------


def grid(
    options: Any, axis: str, points: Sequence[tuple[int, int, int]]
) -> list[dict[str, Any]]:
    """Returns rows of all systems at points of (size, entity types, sentences)."""
    train = corpus.load(options.dataset, "train", options.limit)
    rows = []
    for system in options.systems:
        config = ours.config_of(system, options.quick)
        runs: dict[str, Callable[[], Any]] = {}
        cells: dict[int, dict[str, Any]] = {}
        for size, types, count in points:
            names = [f"T{i}" for i in range(types)]
            params = ours.tagger(config, train, names)
            batch = ours.batch_of(params, train, _TOKENS, count)
            step, runs[f"{size} step"] = ours.step_of(config, params, batch)
            tag, runs[f"{size} tag"] = ours.tag_of(params, batch)
            cells[size] = {
                "step scratch, MiB": scratch_mb(step),
                "tag scratch, MiB": scratch_mb(tag),
            }
        timings = compare(runs, next(iter(runs)), options.rounds)
        for size, found in cells.items():
            times = {f"{n}, s": timings[f"{size} {n}"].seconds for n in ("step", "tag")}
            rows.append({"system": system, axis: size, **times, **found})
    return rows


# --- C: the corpus several times -----------------------------------------------------


def repeated(split: Split, copies: int) -> Split:
    """Returns a split repeated `copies` times."""
    return dataclasses.replace(split, examples=split.examples * copies)


def both_of(system: str, train: Split, quick: bool) -> dict[str, Callable[[], Any]]:
    """Returns functions that train on a corpus once, and that tag it."""
    config = ours.config_of(system, quick)
    params = ours.tagger(config, train)
    return {
        "step": ours.epoch_of(config, train, _BATCH),
        "tag": lambda: tagging.tag(params, [e.tokens for e in train.examples]),
    }


def corpus_alone(
    system: str, dataset: str, limit: int, copies: int, quick: bool
) -> dict[str, Any]:
    """Trains and tags once, to measure memory."""
    train = repeated(corpus.load(dataset, "train", limit), copies)
    for run in both_of(system, train, quick).values():
        run()
    return {}


def by_corpus(options: Any) -> list[dict[str, Any]]:
    """Returns rows for the corpus once, twice, four and eight times."""
    train = corpus.load(options.dataset, "train", options.limit)
    rows = []
    for system in options.systems[:1]:
        runs: dict[str, Callable[[], Any]] = {}
        for copies in options.copies:
            made = both_of(system, repeated(train, copies), options.quick)
            runs |= {f"{copies} {name}": run for name, run in made.items()}
        timings = compare(runs, next(iter(runs)), options.rounds)
        for copies in options.copies:
            found = alone.call(
                "benchmarks.growth:corpus_alone",
                {**_shared(system, options), "copies": copies},
            )
            tokens = copies * corpus.count_tokens(train)
            times = [timings[f"{copies} {n}"].seconds for n in ("step", "tag")]
            row = {"system": system, "C": tokens, "step, s": times[0]}
            rows.append({**row, "tag, s": times[1], "peak, MiB": found["peak_mb"]})
    return rows


def main(argv: list[str] | None = None) -> None:
    """Runs the benchmark."""
    made = corpus.parser(__doc__)
    made.add_argument("--axes", nargs="+", default=[*"TLBC"], choices=[*"TLBC"])
    made.add_argument("--systems", nargs="+", default=None, choices=ours.SYSTEMS)
    made.add_argument("--tokens", type=int, nargs="+", default=None)
    made.add_argument("--copies", type=int, nargs="+", default=None)
    made.add_argument(
        "--memory", type=float, default=4096, help="maximum MiB per program"
    )
    options = corpus.parse(made, argv)
    quick = options.quick
    options.systems = options.systems or (["GRN"] if quick else [*DEFAULT])
    options.tokens = sorted(options.tokens or ((16, 32) if quick else LENGTHS))
    options.copies = sorted(options.copies or ((1, 2) if quick else COPIES))
    types, batches = ((1, 4), (1, 2)) if quick else (TYPES, BATCHES)
    measured: dict[str, tuple[str, Callable[[], list[dict[str, Any]]]]] = {
        "T": ("T: tokens of a sentence", lambda: by_length(options)),
        "L": (
            f"L: labels; {_BATCH} sentences of {_TOKENS} tokens",
            lambda: grid(options, "L", [(4 * n + 1, n, _BATCH) for n in types]),
        ),
        "B": (
            f"B: sentences of {_TOKENS} tokens",
            lambda: grid(options, "B", [(count, 4, count) for count in batches]),
        ),
        "C": (
            f"C: tokens of a corpus; an epoch in batches of {_BATCH}, and tagging",
            lambda: by_corpus(options),
        ),
    }
    report = Report(options.json)
    fitted = []
    for axis in options.axes:
        title, measure = measured[axis]
        rows = measure()
        report.table(title, rows)
        fitted += exponents(axis, rows)
    report.table("exponents", fitted)


if __name__ == "__main__":
    main()
