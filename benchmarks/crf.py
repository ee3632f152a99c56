r"""The CRF kernels and their rivals: log Z, log Z with gradient, and Viterbi.

    python -m benchmarks.crf --quick
    python -m benchmarks.crf --rounds 7 --json crf.json
    python -m benchmarks.crf --labels 9 37 --tokens 128 --batch 1 32
    python -m benchmarks.crf --forbid --labels 9 37 --tokens 128

The rivals are pytorch-crf, torch-struct (`pip install -e '.[benchmarks]'`), and the
plain form in JAX: a scan of logsumexp that JAX differentiates, and Viterbi with
back-pointers. The gradient is with respect to all potentials. Scores come from a normal
distribution, and sentences have no padding. XLA uses all cores. PyTorch uses all cores
or one, whichever was faster in a pilot of 32 tokens, since its threads can spend most
of the time waiting for each other on a busy machine.

Such transitions have a small range, for which jaxner computes log Z in its fast form.
`--forbid` forbids one transition in the potentials of all rivals, as a constrained
tagger does; jaxner then uses its exact form, which costs more. The tables' titles say
which form was measured. Targets and verdicts are for the fast form only.

The benchmark first compares all results. Times exclude compilation, which has its own
column. It skips rivals that would need more than `--seconds` per call or more than
`--gigabytes`, by an estimate from 32 tokens, and prints the estimate. Ratios are
medians of the rounds' ratios, with bounds; above 1, jaxner is faster.
"""

from __future__ import annotations

import argparse
import dataclasses
import time
from collections.abc import Iterator, Sequence
from typing import Any, cast

import jax
import numpy as np

from benchmarks import measure
from benchmarks.crf_rivals import (
    MODULES,
    OURS,
    PLAIN,
    PYTORCH,
    RIVALS,
    STRUCT,
    installed,
)
from benchmarks.peers import threads
from jaxner.types import FORBIDDEN, Potentials

OPERATIONS = ("log Z", "with gradient", "Viterbi")
LABELS, TOKENS, BATCHES = (9, 17, 37, 73), (32, 128, 512, 1024), (1, 32, 128)
_PILOT_TOKENS = 32
Size = tuple[int, int, int]


def draw(size: Size, forbid: bool = False) -> Potentials:
    """Returns random scores on the host.

    Args:
        size: Labels, tokens, sentences.
        forbid: Whether to forbid the transition from the first label to the last.
    """
    labels, tokens, batch = size
    rng = np.random.default_rng(0)
    shapes = (batch, tokens, labels), (labels, labels), (labels,), (labels,)
    leaves: Any = (rng.normal(size=s).astype(np.float32) for s in shapes)
    potentials = Potentials(*leaves)
    if forbid:
        cast(Any, potentials.transitions)[0, -1] = FORBIDDEN
    return potentials


def gigabytes(name: str, operation: str, size: Size) -> float:
    """Returns an estimate of a rival's memory: some arrays over pairs of labels."""
    labels, tokens, batch = size
    pairs = 4e-9 * batch * tokens * labels**2
    if name == STRUCT:
        return 6 * pairs if operation == "log Z" else 12 * pairs
    return 3 * pairs if operation == "with gradient" else 0.0


def estimate(
    name: str, index: int, size: Size, forbid: bool = False
) -> tuple[float, int]:
    """Returns estimated seconds per call of a PyTorch rival, and its threads."""
    labels, tokens, batch = size
    few = min(tokens, _PILOT_TOKENS)
    run = RIVALS[name](draw((labels, few, batch), forbid))[index]
    found = threads.pilot(run)
    return found.seconds * tokens / few, found.threads


def score(potentials: Potentials, labels: Any) -> np.ndarray:
    """Returns the scores of labellings [B, T], in double precision."""
    emissions, transitions, start, end = (np.asarray(x, float) for x in potentials)
    labels = np.asarray(labels)
    total = np.take_along_axis(emissions, labels[:, :, None], axis=2).sum((1, 2))
    total = total + transitions[labels[:, :-1], labels[:, 1:]].sum(1)
    return total + start[labels[:, 0]] + end[labels[:, -1]]


def check(operation: str, potentials: Potentials, found: dict[str, Any]) -> None:
    """Raises AssertionError if the rivals' results differ.

    Raises:
        AssertionError: The results differ.
    """
    for name, value in found.items():
        pairs = zip(jax.tree.leaves(found[OURS]), jax.tree.leaves(value), strict=False)
        if operation == "Viterbi":  # rounding decides ties
            pairs = [(score(potentials, found[OURS]), score(potentials, value))]
        for ours, its in pairs:
            # In float32 the rivals' sums lose digits as T grows: the gradient of
            # pytorch-crf is 3e-4 off at 512 tokens, where ours is 6e-7.
            np.testing.assert_allclose(
                np.asarray(its), ours, rtol=5e-3, atol=2e-3, err_msg=name
            )


@dataclasses.dataclass(frozen=True)
class Limits:
    """The limits of a comparison.

    Attributes:
        rounds: Samples of each run.
        seconds: Maximum seconds per call of a rival.
        gigabytes: Maximum memory of a rival, in GB.
        forbid: Whether to forbid a transition.
    """

    rounds: int = 5
    seconds: float = 4.0
    gigabytes: float = 4.0
    forbid: bool = False


def compare(
    size: Size, index: int, names: Sequence[str], limits: Limits
) -> tuple[dict[str, measure.Timing], float, list[str]]:
    """Returns timings of an operation, compile times in seconds, and skipped rivals."""
    operation, potentials = OPERATIONS[index], draw(size, limits.forbid)
    runs, left_out, total = {}, [], 0.0
    for name in names:
        needed = gigabytes(name, operation, size) if name != OURS else 0.0
        seconds, count = 0.0, 0
        if name in MODULES and needed <= limits.gigabytes:
            seconds, count = estimate(name, index, size, limits.forbid)
        if needed > limits.gigabytes or seconds > limits.seconds:
            left_out.append(f"{name} ({seconds:.1f} s, {needed:.1f} GB)")
            continue
        run, total = RIVALS[name](potentials)[index], total + seconds
        runs[name] = threads.on(count, run) if count else run
    start = time.perf_counter()
    found = {OURS: jax.block_until_ready(runs[OURS]())}
    compiling = time.perf_counter() - start
    found |= {name: run() for name, run in runs.items() if name != OURS}
    check(operation, potentials, found)
    rounds = max(2, min(limits.rounds, int(20 / max(total, 0.1))))
    return measure.compare(runs, OURS, rounds), compiling, left_out


def inverse(interval: measure.Interval) -> measure.Interval:
    return measure.Interval(1 / interval.median, 1 / interval.high, 1 / interval.low)


Row = dict[str, Any]


def rows(
    sizes: Sequence[Size], index: int, names: Sequence[str], limits: Limits
) -> Iterator[Row]:
    for size in sizes:
        timings, compiling, left_out = compare(size, index, names, limits)
        labels, tokens, batch = size
        row: Row = {"L": labels, "T": tokens, "B": batch}
        ours = timings[OURS]
        row[OURS] = measure.show_seconds(ours.seconds.median)
        row["compiles"] = measure.show_seconds(compiling)
        for name in names:
            if name != OURS:
                row[name] = inverse(timings[name].ratio) if name in timings else None
        row["left out"] = "; ".join(left_out) or None
        yield row


def summary(tables: dict[str, list[Row]], names: Sequence[str]) -> list[Row]:
    """Returns the mean and the worst ratio, by operation and rival."""
    found = []
    for operation, its in tables.items():
        for name in names:
            ratios = [row for row in its if row.get(name) is not None]
            if name == OURS or not ratios:
                continue
            worst = min(ratios, key=lambda row: row[name].median)
            found.append(
                {
                    "operation": operation,
                    "rival": name,
                    "sizes": len(ratios),
                    "geometric mean": measure.geometric_mean(
                        [row[name].median for row in ratios]
                    ),
                    "worst": worst[name],
                    "at": ", ".join(f"{k} {worst[k]}" for k in "LTB"),
                }
            )
    return found


def targets(tables: dict[str, list[Row]]) -> list[Row]:
    """Returns the targets, and whether this run met them."""
    found = []

    def aim(text: str, operations: Sequence[str], rival: str, least: float, **options):
        mean, large = options.get("mean", False), options.get("large", False)
        ratios = [
            row[rival].median
            for operation in operations
            for row in tables.get(operation, ())
            if row.get(rival) is not None
            and (not large or (row["L"] >= 37 and row["B"] >= 32))
        ]
        if ratios:
            value = measure.geometric_mean(ratios) if mean else min(ratios)
            is_met = "met" if value >= least else "not met"
            found.append({"target": text, "found": value, "is": is_met})

    both = OPERATIONS[:2]
    aim("gradient, mean ≥ 5 × pytorch-crf", both[1:], PYTORCH, 5.0, mean=True)
    aim("gradient, everywhere ≥ 2 × pytorch-crf", both[1:], PYTORCH, 2.0)
    aim("log Z, L ≥ 37, B ≥ 32: ≥ 2 × plain", both[:1], PLAIN, 2.0, large=True)
    aim("gradient, L ≥ 37, B ≥ 32: ≥ 2 × plain", both[1:], PLAIN, 2.0, large=True)
    aim("log Z, nowhere slower than plain", both[:1], PLAIN, 1.0)
    aim("gradient, nowhere slower than plain", both[1:], PLAIN, 1.0)
    aim("Viterbi, mean ≥ 7 × pytorch-crf", OPERATIONS[2:], PYTORCH, 7.0, mean=True)
    aim("Viterbi, everywhere ≥ 7 × pytorch-crf", OPERATIONS[2:], PYTORCH, 7.0)
    return found


def run(
    sizes: Sequence[Size],
    limits: Limits,
    report: measure.Report,
    rivals: Sequence[str] = (PLAIN, PYTORCH, STRUCT),
) -> None:
    names = installed(rivals, report)
    which = "a transition forbidden" if limits.forbid else "all transitions allowed"
    tables: dict[str, list[Row]] = {}
    for index, operation in enumerate(OPERATIONS):
        tables[operation] = list(rows(sizes, index, names, limits))
        title = f"{operation}, {which}: times as fast as each rival"
        report.table(title, tables[operation])
    report.table(f"summary, {which}", summary(tables, names))
    if not limits.forbid:
        report.table("targets", targets(tables))


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="few and small sizes")
    parser.add_argument("--labels", type=int, nargs="+")
    parser.add_argument("--tokens", type=int, nargs="+", help="at least 2")
    parser.add_argument("--batch", type=int, nargs="+")
    known = [name for name in RIVALS if name != OURS]
    parser.add_argument("--rivals", nargs="+", choices=known, default=known)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument(
        "--seconds", type=float, default=4.0, help="maximum per call of a rival"
    )
    parser.add_argument(
        "--gigabytes", type=float, default=4.0, help="maximum per rival"
    )
    parser.add_argument("--forbid", action="store_true", help="one transition")
    parser.add_argument("--json", help="file for the figures")
    options = parser.parse_args(arguments)
    quick = options.quick
    labels = options.labels or ((9, 37) if quick else LABELS)
    tokens = options.tokens or ((32, 128) if quick else TOKENS)
    batches = options.batch or ((1, 32) if quick else BATCHES)
    sizes = [(n, t, b) for n in labels for t in tokens for b in batches]
    if options.forbid and min(labels) < 2:
        parser.error("--forbid needs at least 2 labels")
    limits = Limits(options.rounds, options.seconds, options.gigabytes, options.forbid)
    run(sizes, limits, measure.Report(options.json), options.rivals)


if __name__ == "__main__":
    main()
