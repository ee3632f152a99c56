"""Intervals and paired tests of figures that are functions of counts per sentence.

Every figure is a function of counts summed over sentences, so one matrix product
resamples sentences, or swaps them between two systems. Some rounds are computed at a
time, so memory stays bounded for large texts.

With one run on each side, sentences are the units: the bootstrap resamples them, and
the permutation test swaps the predictions of the two systems. This says nothing about
other seeds. With several runs on a side (seeds), figures are means over runs: the
bootstrap also resamples runs, and the permutation test exchanges runs between the
sides.

Sources: Efron and Tibshirani (1993), the percentile interval; Berg-Kirkpatrick, Burkett
and Klein (2012), without shifting: the percentile interval of the difference, inverted;
Yeh (2000) for swapping sentences; Reimers and Gurevych (2017) for comparing seeds.

Shape letters: `S` sentences, `C` counts, `R` rounds, `F` figures.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
import operator
from collections.abc import Iterator, Sequence
from itertools import chain
from typing import Any, NamedTuple

import numpy as np

from jaxner.data import schemes
from jaxner.data.schemes import TAGS
from jaxner.errors import InputError
from jaxner.evaluation import errors, scoring
from jaxner.evaluation.scoring import Labels

ROUNDS = 1_000
"""Rounds of the bootstrap for an interval."""
TEST_ROUNDS = 10_000
"""Rounds of a test."""
LEVEL = 0.95
_AT_ONCE = 1 << 22  # draws in memory
_Number = np.ndarray | np.number  # of many resamples, or of one


@dataclasses.dataclass(frozen=True)
class Tally:
    """Counts of each sentence, and the figures that follow from their sums.

    Attributes:
        counts: Counts of each sentence, `[S, C]`.
        columns: Names of the counts, `C`.
        types: Entity types with figures of their own, such as "f1 PER".

    Example:
        >>> counts = np.array([[1, 1, 1], [0, 1, 0]])
        >>> Tally(counts, ("correct", "predicted", "gold")).of_all["precision"]
        0.5
    """

    counts: np.ndarray
    columns: tuple[str, ...]
    types: tuple[str, ...] = ()

    def figures(self, totals: np.ndarray) -> dict[str, Any]:
        """Computes the figures from counts summed over sentences, `[..., C]`.

        Returns:
            Fractions by name, `[...]`; nan where undefined.
        """
        of = dict(zip(self.columns, np.moveaxis(totals, -1, 0), strict=True))
        found: dict[str, Any] = {}
        if "correct" in of:
            for kind in ("", *(f" {x}" for x in self.types)):
                spans = (of[f"{x}{kind}"] for x in ("correct", "predicted", "gold"))
                found |= _f1("{}" + kind, *spans)
        if self.types:
            f1 = np.stack([found[f"f1 {kind}"] for kind in self.types])
            gold = np.stack([of[f"gold {kind}"] for kind in self.types])
            for name, weight in (("macro f1", ~np.isnan(f1)), ("weighted f1", gold)):
                sums = (np.nan_to_num(f1) * weight).sum(0)
                found[name] = _share(sums, weight.sum(0))
        if "matches gold" in of:
            sides = of["matches predicted"], of["matches gold"]
            for name in errors.MATCHES:
                hits = of.get(f"matches {name}")
                if hits is None:  # an overlap counts half, equal boundaries fully
                    hits = (of["matches overlap"] + of["matches exact"]) / 2
                found |= _f1(f"{name} match {{}}", hits, *sides)
        for column in self.columns:
            if column.startswith("all "):
                name = column.removeprefix("all ")
                found[name] = _share(of[f"right {name}"], of[column])
        return found

    @property
    def of_all(self) -> dict[str, float | None]:
        """The figures over all sentences, by name; None where undefined."""
        values = self.figures(self.counts.sum(0).astype(np.float64))
        return {name: _defined(x) for name, x in values.items()}


def _share(part: _Number, whole: _Number) -> _Number:
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.where(whole > 0, part / whole, np.nan)


def _f1(
    name: str, correct: _Number, predicted: _Number, gold: _Number
) -> dict[str, _Number]:
    return {
        name.format("precision"): _share(correct, predicted),
        name.format("recall"): _share(correct, gold),
        name.format("f1"): _share(2 * correct, predicted + gold),
    }


def tally(
    gold: Labels,
    predicted: Labels,
    rule: str = "conlleval",
    scheme: str | None = None,
    *,
    types: Sequence[str] = (),
    new: Sequence[Sequence[bool]] | None = None,
) -> Tally:
    """Counts entities, or tags, per sentence.

    Partial matches follow the rule if its spans have lengths, else "conlleval".

    Args:
        gold: As in `scoring.score`.
        predicted: As in `scoring.score`.
        rule: As in `scoring.score`.
        scheme: As in `scoring.score`.
        types: Entity types that get figures even if the labels lack them.
        new: For tags, whether each token's word is out of vocabulary, if known.

    Example:
        >>> counts = tally([["B-PER", "O"], ["O"]], [["B-PER", "O"], ["B-PER"]])
        >>> counts.of_all["precision"], counts.of_all["recall"]
        (0.5, 1.0)
    """
    known = scoring.check_labels(gold, predicted, scheme)
    scheme = schemes.detect(gold) if scheme is None else scheme
    if scheme == TAGS:
        return _of_tags(gold, predicted, new)
    kinds = tuple(sorted({*known, *types}))
    spans = scoring.count(gold, predicted, rule, scheme, kinds)
    table: dict[str, np.ndarray] = {}
    for place, name in enumerate(("correct", "predicted", "gold")):
        table[name] = spans[..., place].sum(1)
        for column, kind in enumerate(kinds):
            table[f"{name} {kind}"] = spans[:, column, place]
    of = rule if rule in scoring.WITH_LENGTHS else "conlleval"
    found = errors.pairs(gold, predicted, of, scheme)
    for name, column in errors.matches(found, len(gold)).items():
        table[f"matches {name}"] = column
    lengths = [len(labels) for labels in gold]
    prefixes = [np.array([x[0] for x in chain(*s)], "U1") for s in (gold, predicted)]
    table |= _tokens("token accuracy", lengths, _right(gold, predicted))
    for letter in "OBIESLU":
        if (chosen := prefixes[0] == letter).any():
            right = prefixes[1] == letter
            table |= _tokens(f"chunk recall {letter}", lengths, right, chosen)
    return Tally(np.stack([*table.values()], axis=1), tuple(table), kinds)


def _of_tags(
    gold: Labels, predicted: Labels, new: Sequence[Sequence[bool]] | None
) -> Tally:
    lengths, right = [len(tags) for tags in gold], _right(gold, predicted)
    table = _tokens("accuracy", lengths, right)
    if new is not None:
        unknown = np.array(list(chain(*new)), bool)
        table |= _tokens("oov accuracy", lengths, right, unknown)
        table |= _tokens("known accuracy", lengths, right, ~unknown)
    return Tally(np.stack([*table.values()], axis=1), tuple(table))


def _right(gold: Labels, predicted: Labels) -> np.ndarray:
    return np.array(list(map(operator.eq, chain(*gold), chain(*predicted))), bool)


def _tokens(
    name: str,
    lengths: Sequence[int],
    right: np.ndarray,
    chosen: np.ndarray | None = None,
) -> dict[str, np.ndarray]:
    """Returns the right and all chosen tokens of each sentence."""
    sentence = np.repeat(np.arange(len(lengths)), lengths)
    chosen = np.ones(len(sentence), bool) if chosen is None else chosen
    parts = {f"right {name}": chosen & right, f"all {name}": chosen}
    return {
        column: np.bincount(sentence[which], minlength=len(lengths))
        for column, which in parts.items()
    }


# --- Intervals ------------------------------------------------------------------------


class Interval(NamedTuple):
    """A figure and its bounds, as fractions; None where undefined."""

    value: float | None
    low: float | None
    high: float | None


def bootstrap(
    counted: Tally, *, rounds: int = ROUNDS, level: float = LEVEL, seed: int = 0
) -> dict[str, Interval]:
    """Computes an interval for each figure of a tally, by the bootstrap.

    Args:
        counted: What `tally` returned.
        rounds: Number of resampled sets of sentences.
        level: Share of the rounds whose figure lies within the bounds.
        seed: Seed of the draws; equal seeds give equal bounds.

    Returns:
        By name, the figure over all sentences and its bounds. Rounds in which a figure
        is undefined do not count for it.

    Example:
        >>> counts = tally([["B-A"], ["O"]] * 50, [["B-A"], ["B-A"]] * 50)
        >>> found = bootstrap(counts)["precision"]
        >>> found.value, round(found.low, 1), round(found.high, 1)
        (0.5, 0.4, 0.6)
    """
    _check(rounds, level)
    counts = counted.counts.astype(np.float64)
    totals = np.concatenate([x @ counts for x in _draws(len(counts), rounds, seed)])
    drawn = counted.figures(totals)
    return {
        name: Interval(value, *_bounds(drawn[name], level))
        for name, value in counted.of_all.items()
    }


def _check(rounds: int, level: float) -> None:
    if rounds < 1 or not 0 < level < 1:
        raise InputError(
            f"Expected at least one round and a level between 0 and 1, got {rounds} "
            f"and {level}"
        )


def _draws(size: int, rounds: int, seed: int) -> Iterator[np.ndarray]:
    """Yields how often some rounds draw each sentence, `[r, S]`."""
    generator = np.random.default_rng(seed)
    for count in _chunks(rounds, size, _AT_ONCE):
        if not size:
            yield np.zeros((count, 0))
            continue
        places = generator.integers(size, size=(count, size))
        places += size * np.arange(count)[:, None]
        drawn = np.bincount(places.ravel(), minlength=count * size)
        yield drawn.reshape(count, size).astype(np.float64)


def _chunks(rounds: int, size: int, most: int) -> Iterator[int]:
    step = max(1, min(rounds, most // max(size, 1)))
    for begin in range(0, rounds, step):
        yield min(step, rounds - begin)


def _bounds(values: np.ndarray, level: float) -> list[float | None]:
    """Returns the quantiles of the defined values that enclose a share of them."""
    known = values[~np.isnan(values)]
    if not len(known):
        return [None, None]
    return np.quantile(known, ((1 - level) / 2, (1 + level) / 2)).tolist()


def _defined(value: Any) -> float | None:
    return None if np.isnan(value) else float(value)


# --- Tests ----------------------------------------------------------------------------


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
    rounds: int = TEST_ROUNDS,
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
        InputError: A side has no run; or gold spans or tokens differ; or `rounds` or
            `level` is out of range.

    Example:
        >>> gold, none = [["B-A"], ["O"]] * 20, [["O"], ["O"]] * 20
        >>> sides = [tally(gold, x, types=["A"]) for x in (gold, none)]
        >>> found = compare(sides[:1], sides[1:], rounds=1000)["f1"]
        >>> found.difference, found.bootstrap, round(found.permutation, 3)
        (1.0, 0.001, 0.001)
    """
    if not (first and second):
        raise InputError("Expected a run or more on each side")
    _check(rounds, level)
    _check_same([*first, *second])
    runs = [
        [x.figures(x.counts.sum(0).astype(float)) for x in s] for s in (first, second)
    ]
    names = [n for n in runs[0][0] if all(n in run for side in runs for run in side)]
    values = [
        np.array([[r[n] for n in names] for r in side]) for side in runs
    ]  # [r, F]
    means = [side.mean(0) for side in values]
    drawn = _resampled(first, second, names, rounds, seed)
    if len(first) == len(second) == 1:
        moved = _swapped(first[0], second[0], names, rounds, seed)
    else:
        moved = _exchanged(np.concatenate(values), len(first), rounds, seed)
    found = {}
    for i, name in enumerate(names):
        gap = means[0][i] - means[1][i]
        cells = [_defined(x) for x in (means[0][i], means[1][i], gap)]
        cells += _bounds(drawn[:, i], level)
        cells += [_inverted(drawn[:, i]), _beyond(moved[:, i], gap)]
        sides = [side[:, i].tolist() for side in values]
        is_known = min(map(len, sides)) > 1 and not np.isnan(gap)
        found[name] = Difference(*cells, welch=welch(*sides) if is_known else None)
    return found


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


def _check_same(tallies: Sequence[Tally]) -> None:
    one = tallies[0]
    same = [c for c in one.columns if c.startswith("gold") or c in _ALL_TOKENS]
    for other in tallies[1:]:
        if len(one.counts) != len(other.counts):
            raise InputError(
                f"Expected systems on the same sentences, got {len(one.counts)} and "
                f"{len(other.counts)} sentences"
            )
        for column in same:
            if column not in other.columns:
                raise InputError(f"Only one of the systems counts {column!r}")
            sides = [t.counts[:, t.columns.index(column)] for t in (one, other)]
            for i in np.flatnonzero(sides[0] != sides[1]):
                raise InputError(
                    f"Expected systems on the same sentences, but sentence {i} "
                    f"(counted from 0) has {sides[0][i]} and {sides[1][i]} in the "
                    f"count {column!r}"
                )


_ALL_TOKENS = ("all token accuracy", "all accuracy")


def _chosen(counted: Tally, totals: np.ndarray, names: Sequence[str]) -> np.ndarray:
    figures = counted.figures(totals)
    return np.stack([figures[name] for name in names], axis=-1)


def _resampled(
    first: Sequence[Tally],
    second: Sequence[Tally],
    names: Sequence[str],
    rounds: int,
    seed: int,
) -> np.ndarray:
    """Returns differences for resampled sentences and runs, `[R, F]`."""
    generator = np.random.default_rng((seed, 1))
    differences = []
    for drawn in _draws(len(first[0].counts), rounds, seed):
        means = []
        for side in (first, second):
            runs = np.stack([_chosen(t, drawn @ t.counts, names) for t in side])
            which = generator.integers(len(side), size=(len(side), len(drawn)))
            means.append(runs[which, np.arange(len(drawn))].mean(0))
        differences.append(means[0] - means[1])
    return np.concatenate(differences)


def _swapped(
    first: Tally, second: Tally, names: Sequence[str], rounds: int, seed: int
) -> np.ndarray:
    """Returns differences with the systems swapped in random sentences, `[R, F]`."""
    generator = np.random.default_rng((seed, 2))
    columns = [c for c in first.columns if c in second.columns]
    places = [[t.columns.index(c) for c in columns] for t in (first, second)]
    gap = second.counts[:, places[1]] - first.counts[:, places[0]]
    differences = []
    for count in _chunks(rounds, len(gap), 2 * _AT_ONCE):
        swaps = generator.integers(2, size=(count, len(gap))).astype(np.float64)
        moved = swaps @ gap.astype(np.float64)
        sides = []
        for counted, at, sign in ((first, places[0], 1), (second, places[1], -1)):
            totals = np.tile(counted.counts.sum(0).astype(np.float64), (count, 1))
            totals[:, at] += sign * moved
            sides.append(_chosen(counted, totals, names))
        differences.append(sides[0] - sides[1])
    return np.concatenate(differences)


def _exchanged(figures: np.ndarray, count: int, rounds: int, seed: int) -> np.ndarray:
    """Returns differences of means with other runs on the first side, `[R, F]`.

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


def _inverted(drawn: np.ndarray) -> float | None:
    """Returns twice the share of rounds in which the sign is the less frequent one."""
    known = drawn[~np.isnan(drawn)]
    if not len(known):
        return None
    behind = float(np.mean(known < 0) + np.mean(known == 0) / 2)
    return max(2 * min(behind, 1 - behind), 1 / len(known))


def _beyond(moved: np.ndarray, difference: float) -> float | None:
    """Returns the share of permutations with at least the observed difference."""
    known = moved[~np.isnan(moved)]
    if np.isnan(difference) or not len(known):
        return None
    # The observed division counts as one of the permutations.
    beyond = np.sum(np.abs(known) >= abs(difference) - 1e-12)
    return float((beyond + 1) / (len(known) + 1))
