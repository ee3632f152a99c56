"""Comparison of two systems by paired tests on the same sentences.

With one run on each side, sentences are the units: the bootstrap resamples them, and
the permutation test swaps the predictions of the two systems. This says nothing about
other seeds. With several runs on a side (seeds), figures are means over runs: the
bootstrap also resamples runs, and the permutation test exchanges runs between the
sides.

Sources: Berg-Kirkpatrick, Burkett and Klein (2012), without shifting: the percentile
interval of the difference, inverted; Yeh (2000) for swapping sentences; Reimers and
Gurevych (2017) for comparing seeds.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from jaxner.evaluation import intervals
from jaxner.evaluation.intervals import LEVEL
from jaxner.evaluation.tally import Tally

ROUNDS = 10_000


class Difference(NamedTuple):
    """The difference of a figure between two systems; None where undefined.

    Attributes:
        first: The first system's figure, a fraction; the mean of several runs.
        second: The second system's figure.
        difference: First minus second.
        low: Lower bound of the difference, by the bootstrap.
        high: Upper bound of the difference.
        bootstrap: Two-sided p-value by the bootstrap; the null hypothesis is no
            difference.
        permutation: Two-sided p-value by the permutation test.
        welch: Two-sided p-value by Welch's t-test over runs; None with a single run on
            a side.

    Example:
        >>> Difference(0.91, 0.9, 0.01, 0.002, 0.018, 0.01, 0.012).welch is None
        True
    """

    first: float | None
    second: float | None
    difference: float | None
    low: float | None
    high: float | None
    bootstrap: float | None
    permutation: float | None
    welch: float | None = None


def compare(
    first: Sequence[Tally],
    second: Sequence[Tally],
    *,
    rounds: int = ROUNDS,
    level: float = LEVEL,
    seed: int = 0,
) -> dict[str, Difference]:
    """Compares two systems, figure by figure.

    Args:
        first: The tally of each run of the first system.
        second: Those of the second system, for the same sentences and types.
        rounds: Rounds of the bootstrap and of the permutation test.
        level: Confidence level of the bounds, from 0 to 1.
        seed: Seed of all draws.

    Returns:
        The differences, by the name of the figure.

    Raises:
        ValueError: A side has no run; or gold spans or tokens differ; or `rounds` or
            `level` is out of range.

    Example:
        >>> from jaxner.evaluation import tally
        >>> gold, none = [["B-A"], ["O"]] * 20, [["O"], ["O"]] * 20
        >>> sides = [tally.of_spans(gold, x, types=["A"]) for x in (gold, none)]
        >>> found = compare(sides[:1], sides[1:], rounds=1000)["f1"]
        >>> found.difference, found.bootstrap, round(found.permutation, 3)
        (1.0, 0.001, 0.001)
    """
    if not (first and second):
        raise ValueError("Expected a run or more on each side")
    intervals.check(rounds, level)
    _check_same([*first, *second])
    names = [n for n in first[0].names if all(n in its.names for its in second)]
    numbers = len(first), len(second)
    sides = [[_of_all(its, names) for its in side] for side in (first, second)]
    means = [_mean(np.stack(side), 0) for side in sides]
    drawn = _bootstrapped(first, second, names, rounds, seed)
    bounds = intervals.quantiles(drawn, ((1 - level) / 2, (1 + level) / 2))
    if numbers == (1, 1):
        moved = _swapped(first[0], second[0], names, rounds, seed)
    else:
        moved = _moved(np.stack([*sides[0], *sides[1]]), len(first), rounds, seed)
    found = {}
    for i, name in enumerate(names):
        difference = means[0][i] - means[1][i]
        runs = [[float(its[i]) for its in side] for side in sides]
        values = means[0][i], means[1][i], difference, *bounds[:, i]
        tests = _inverted(drawn[:, i]), _beyond(moved[:, i], difference)
        cells: list[Any] = [intervals.defined(float(x)) for x in (*values, *tests)]
        found[name] = Difference(*cells, welch=_welch(*runs))
    return found


def bootstrap(
    first: Sequence[Tally],
    second: Sequence[Tally],
    figure: str,
    *,
    rounds: int = ROUNDS,
    seed: int = 0,
) -> float:
    """Returns the bootstrap's p-value of one figure's difference; see `compare`.

    Raises:
        ValueError: As `compare`; or no such figure.
    """
    intervals.check(rounds)
    _check_same([*first, *second])
    if figure not in first[0].names:
        raise ValueError(f"Expected a figure of {first[0].names}, got {figure!r}")
    return _inverted(_bootstrapped(first, second, [figure], rounds, seed)[:, 0])


def welch(first: Sequence[float], second: Sequence[float]) -> float:
    """Returns the two-sided p-value of Welch's t-test; each side needs two runs.

    Example:
        >>> round(welch([90.1, 90.3, 90.2], [89.1, 89.2, 89.0]), 4)
        0.0002
    """
    # Imported here, because SciPy's statistics take a second to import.
    from scipy import stats

    if len({*first}) == len({*second}) == 1:  # no variance: t is undefined
        return float(first[0] == second[0])
    test: Any = stats.ttest_ind(first, second, equal_var=False)
    return float(test.pvalue)


def _welch(first: list[float], second: list[float]) -> float | None:
    if min(len(first), len(second)) < 2 or np.isnan([*first, *second]).any():
        return None
    return welch(first, second)


def _check_same(tallies: Sequence[Tally]) -> None:
    one = tallies[0]
    same = [c for c in one.columns if c.split()[0] in ("gold", "tokens")]
    for other in tallies[1:]:
        if len(one.counts) != len(other.counts):
            raise ValueError(
                f"Expected systems on the same sentences, got {len(one.counts)} and "
                f"{len(other.counts)} sentences"
            )
        for column in same:
            if column not in other.columns:
                raise ValueError(f"Only one of the systems counts {column!r}")
            its = [t.counts[:, t.columns.index(column)] for t in (one, other)]
            unlike = np.flatnonzero(its[0] != its[1])
            if len(unlike):
                raise ValueError(
                    f"Expected systems on the same sentences, but sentence {unlike[0]} "
                    f"(counted from 0) has {its[0][unlike[0]]} and {its[1][unlike[0]]} "
                    f"in the count {column!r}"
                )


def _mean(values: np.ndarray, axis: int) -> np.ndarray:
    return values.mean(axis)  # nan where a run's figure is undefined


def _figures(tally: Tally, totals: np.ndarray, names: Sequence[str]) -> np.ndarray:
    places = [tally.names.index(name) for name in names]
    return tally.figures(totals)[..., places]


def _of_all(tally: Tally, names: Sequence[str]) -> np.ndarray:
    return _figures(tally, tally.counts.sum(0).astype(np.float64), names)


def _bootstrapped(
    first: Sequence[Tally],
    second: Sequence[Tally],
    names: Sequence[str],
    rounds: int,
    seed: int,
) -> np.ndarray:
    """Returns differences for resampled sentences and runs, `[rounds, F]`."""
    generator = np.random.default_rng((seed, 1))
    differences = []
    for drawn in intervals.draws(len(first[0].counts), rounds, seed):
        means = []
        for side in (first, second):
            its = np.stack([_figures(t, drawn @ t.counts, names) for t in side])
            which = generator.integers(len(side), size=(len(side), len(drawn)))
            means.append(_mean(its[which, np.arange(len(drawn))], 0))
        differences.append(means[0] - means[1])
    return np.concatenate(differences)


def _swapped(
    first: Tally, second: Tally, names: Sequence[str], rounds: int, seed: int
) -> np.ndarray:
    """Returns differences with the systems swapped in random sentences."""
    generator = np.random.default_rng((seed, 2))
    columns = [c for c in first.columns if c in second.columns]
    places = [[t.columns.index(c) for c in columns] for t in (first, second)]
    gap = second.counts[:, places[1]] - first.counts[:, places[0]]
    gap = gap.astype(np.float64)
    size, found = len(gap), []
    step = max(1, min(rounds, (1 << 23) // max(size, 1)))
    for begin in range(0, rounds, step):
        count = min(step, rounds - begin)
        moved = generator.integers(2, size=(count, size)).astype(np.float64) @ gap
        totals = [
            np.repeat(t.counts.sum(0, keepdims=True), count, 0).astype(np.float64)
            for t in (first, second)
        ]
        totals[0][:, places[0]] += moved
        totals[1][:, places[1]] -= moved
        one, other = (
            _figures(t, x, names) for t, x in zip((first, second), totals, strict=True)
        )
        found.append(one - other)
    return np.concatenate(found)


def _moved(figures: np.ndarray, count: int, rounds: int, seed: int) -> np.ndarray:
    """Returns differences of means with other runs on the first side.

    Uses all divisions of the runs if there are at most `rounds`, else random ones.
    """
    size = len(figures)
    if math.comb(size, count) <= rounds:
        # The first is the observed division; `_beyond` counts it.
        chosen = list(itertools.combinations(range(size), count))[1:]
    else:
        generator = np.random.default_rng((seed, 3))
        chosen = [generator.permutation(size)[:count] for _ in range(rounds)]
    weights = np.full((len(chosen), size), -1.0 / (size - count))
    np.put_along_axis(weights, np.array(chosen), 1.0 / count, axis=1)
    return weights @ figures


def _inverted(drawn: np.ndarray) -> float:
    """Returns twice the share of rounds in which the sign is the less frequent one."""
    known = drawn[~np.isnan(drawn)]
    if not len(known):
        return float("nan")
    behind = float(np.mean(np.where(known < 0, 1.0, np.where(known == 0, 0.5, 0.0))))
    return max(2 * min(behind, 1 - behind), 1 / len(known))


def _beyond(moved: np.ndarray, difference: float) -> float:
    """Returns the share of permutations with at least the observed difference."""
    known = moved[~np.isnan(moved)]
    if np.isnan(difference) or not len(known):
        return float("nan")
    # The observed division counts as one of the permutations.
    beyond = np.sum(np.abs(known) >= abs(difference) - 1e-12)
    return float((beyond + 1) / (len(known) + 1))
