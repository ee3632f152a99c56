"""Intervals and paired tests of figures that are functions of counts per sentence.

Figures are functions of sums of counts over sentences, so one matrix product resamples
sentences, or swaps them between systems: some rounds at a time, to bound the memory.

With one run on each side, sentences are the units: the bootstrap resamples them, and
the permutation test swaps the predictions of the two systems. This says nothing about
other seeds. With several runs on a side (seeds), figures are means over runs: the
bootstrap also resamples runs, and the permutation test exchanges runs between the
sides.

Sources: Efron and Tibshirani (1993), the percentile interval; Berg-Kirkpatrick, Burkett
and Klein (2012), without shifting: the percentile interval of the difference, inverted;
Yeh (2000) for swapping sentences; Reimers and Gurevych (2017) for comparing seeds.

Shape letters: `S` sentences, `R` rounds, `G` groups of spans or tokens, `F` figures.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import math
import statistics
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from itertools import chain
from typing import Any, NamedTuple

import numpy as np

from jaxner.errors import InputError
from jaxner.evaluation import errors, scoring
from jaxner.evaluation.errors import Pair
from jaxner.evaluation.scoring import Labels, Scores, defined
from jaxner.fields import Chance, Size, checked

ROUNDS = 1_000  # of the bootstrap for an interval
TEST_ROUNDS = 10_000
LEVEL = 0.95
_BLOCK = 1 << 22  # draws in memory


@dataclasses.dataclass(frozen=True)
class Tally:
    """Counts of each sentence, and the figures of their sums.

    `groups` has correct, predicted and gold spans, `[S, 3]`, of all spans, those of a
    type, those of a match; or tokens, as `scoring.count_tokens` counts them. A key
    names the figures. The `num_types` groups after the first are types; with them,
    there are two more figures, "macro f1" and "weighted f1".
    """

    groups: Mapping[tuple[str, ...], np.ndarray]
    num_types: int = 0

    @functools.cached_property
    def counts(self) -> np.ndarray:
        """The counts of all groups, `[S, G, 3]`."""
        return np.stack([*self.groups.values()], axis=1).astype(np.float64)

    @property
    def names(self) -> list[str]:
        """The names of the figures, in order."""
        means = ("macro f1", "weighted f1") if self.num_types else ()
        return [*chain(*self.groups), *means]

    def figures(self, totals: np.ndarray) -> np.ndarray:
        """Returns the figures, `[..., F]`, of sums `[..., G, 3]`; nan: undefined."""
        values = scoring.figures(totals)
        columns = [values[..., i, : len(x)] for i, x in enumerate(self.groups)]
        if self.num_types:
            types = slice(1, 1 + self.num_types)
            columns.append(scoring.means(values[..., types, 2], totals[..., types, :]))
        return np.concatenate(columns, axis=-1)

    @property
    def of_all(self) -> dict[str, float | None]:
        """The figures over all sentences, by name; None where undefined."""
        figures = defined(self.figures(self.counts.sum(0)))
        return dict(zip(self.names, figures, strict=True))


def _names(prefix: str = "", suffix: str = "") -> tuple[str, ...]:
    return tuple(f"{prefix}{figure}{suffix}" for figure in scoring.FIGURES)


def of_scores(
    scores: Scores, alignment: Iterable[Pair], types: Iterable[str] = ()
) -> Tally:
    """Returns the tally of scores and, for matches, of pairs; see `tally`."""
    tokens = {(x.replace("_", " "),): y for x, y in scores.token_counts.items()}
    if scores.has_tags:
        return Tally(tokens)
    table = dict(zip(scores.types, np.moveaxis(scores.counts, 1, 0), strict=False))
    kinds = sorted({*scores.by_type, *types})  # others have no figure
    counts = {kind: table.get(kind, scores.counts[:, 0] * 0) for kind in kinds}
    groups = {_names(): scores.counts.sum(1)}
    groups |= {_names(suffix=f" {kind}"): x for kind, x in counts.items()}
    for name, match_counts in errors.matches(alignment, len(scores.counts)).items():
        groups[_names(f"{name} match ")] = match_counts
    accuracy = {("token accuracy",): scores.token_counts["accuracy"]}
    return Tally(groups | accuracy, len(counts))


def tally(
    gold: Labels,
    predicted: Labels,
    rule: str = "conlleval",
    scheme: str | None = None,
    *,
    tokens: Labels | None = None,
    known_words: Set[str] | None = None,
    types: Sequence[str] = (),
) -> Tally:
    """Counts entities, or tags, per sentence.

    Takes what `scoring.score` does, and entity types that get figures even if the
    labels lack them. Partial matches follow the rule if its spans have lengths, else
    "conlleval".

    Example:
        >>> counts = tally([["B-PER", "O"], ["O"]], [["B-PER", "O"], ["B-PER"]])
        >>> counts.of_all["precision"], counts.of_all["recall"]
        (0.5, 1.0)
    """
    options: dict[str, Any] = {"tokens": tokens, "known_words": known_words}
    scores = scoring.score(gold, predicted, rule=rule, scheme=scheme, **options)
    span_rule = scoring.with_lengths(rule)
    alignment = errors.pairs(gold, predicted, span_rule, scores.scheme)
    return of_scores(scores, alignment, types)


# --- Intervals ------------------------------------------------------------------------


class Interval(NamedTuple):
    """A figure and its bounds, as fractions; None where undefined."""

    value: float | None
    low: float | None
    high: float | None


@checked
def bootstrap(
    run: Tally, *, rounds: Size = ROUNDS, level: Chance = LEVEL, seed: int = 0
) -> dict[str, Interval]:
    """Computes an interval for each figure of a run, by the bootstrap.

    `level` is the share of the rounds whose figure lies within the bounds; rounds in
    which it is undefined do not count. Equal seeds give equal bounds. A figure of one
    sentence, such as that of a rare type, has none: all its draws are the same.

    Example:
        >>> counts = tally([["B-A"], ["O"]] * 50, [["B-A"], ["B-A"]] * 50)
        >>> precision = bootstrap(counts)["precision"]
        >>> precision.value, round(precision.low, 1), round(precision.high, 1)
        (0.5, 0.4, 0.6)
    """
    draws = _draws(len(run.counts), rounds, seed)
    totals = np.concatenate([np.tensordot(x, run.counts, 1) for x in draws])
    figures = np.where(_draws_differ([run]), run.figures(totals), np.nan)
    columns = zip(run.of_all.items(), figures.T, strict=True)
    return {name: Interval(x, *_bounds(values, level)) for (name, x), values in columns}


def _draws_differ(runs: Sequence[Tally]) -> np.ndarray:
    """Returns which figures, `[F]`, several sentences determine, in a run or more."""
    numbers = []  # of sentences with each figure
    for run in runs:
        parts = np.array_split(run.counts, 1 + run.counts.size // _BLOCK)
        numbers.append(sum((~np.isnan(run.figures(x))).sum(0) for x in parts))
    return np.max(numbers, axis=0) > 1


def _draws(size: int, rounds: int, seed: int) -> Iterator[np.ndarray]:
    """Yields how often some rounds draw each sentence, `[r, S]`."""
    generator = np.random.default_rng(seed)
    for count in _chunks(rounds, size, _BLOCK):
        places = generator.integers(max(size, 1), size=(count, size))
        places += size * np.arange(count)[:, None]
        counts = np.bincount(places.ravel(), minlength=count * size)
        yield counts.reshape(count, size).astype(np.float64)


def _chunks(rounds: int, size: int, limit: int) -> Iterator[int]:
    step = max(1, min(rounds, limit // max(size, 1)))
    for begin in range(0, rounds, step):
        yield min(step, rounds - begin)


def _bounds(values: np.ndarray, level: float) -> list[float | None]:
    """Returns the quantiles of the defined values that enclose a share of them."""
    values = values[~np.isnan(values)]
    if not len(values):
        return [None, None]
    return np.quantile(values, ((1 - level) / 2, (1 + level) / 2)).tolist()


# --- Tests ----------------------------------------------------------------------------


class Difference(NamedTuple):
    """The difference of a figure, a fraction; None where undefined.

    `first` and `second` are figures of the systems, means of several runs; `difference`
    is first minus second, and `low` and `high` are its bounds by the bootstrap.
    `bootstrap`, `permutation` and `welch` (None with a single run on a side) are
    two-sided p-values; the null hypothesis is no difference.
    """

    first: float | None
    second: float | None
    difference: float | None
    low: float | None
    high: float | None
    bootstrap: float | None
    permutation: float | None
    welch: float | None = None


@checked
def compare(
    first: Sequence[Tally],
    second: Sequence[Tally],
    *,
    rounds: Size = TEST_ROUNDS,
    level: Chance = LEVEL,
    seed: int = 0,
) -> dict[str, Difference]:
    """Compares two systems, figure by figure; returns the differences by name.

    A side is the tally of each run, of the same sentences and types on both sides.
    `rounds` are those of the bootstrap and of the permutation test.

    Raises:
        InputError: A side has no run; or gold spans or tokens differ; or `rounds` or
            `level` is out of range.

    Example:
        >>> gold, misses = [["B-A"], ["O"]] * 20, [["O"], ["O"]] * 20
        >>> sides = [tally(gold, x, types=["A"]) for x in (gold, misses)]
        >>> gap = compare(sides[:1], sides[1:], rounds=1000)["f1"]
        >>> gap.difference, gap.bootstrap, round(gap.permutation, 3)
        (1.0, 0.001, 0.001)
    """
    if not (first and second):
        raise InputError("Expected a run or more on each side")
    runs = [*first, *second]
    _check_same(runs)
    common = [x for x in runs[0].groups if all(x in run.groups for run in runs)]
    types = runs[0].num_types
    sides = [
        [Tally({x: run.groups[x] for x in common}, types) for run in side]
        for side in (first, second)
    ]
    values = [np.stack([x.figures(x.counts.sum(0)) for x in side]) for side in sides]
    means = [side.mean(0) for side in values]
    differ = _draws_differ([*chain(*sides)])
    resamples = np.where(differ, _resampled(sides, rounds, seed), np.nan)
    if len(runs) == 2:
        exchanges = _swapped(sides[0][0], sides[1][0], rounds, seed)
    else:
        exchanges = _exchanged(np.concatenate(values), len(first), rounds, seed)
    points = np.stack([*means, means[0] - means[1]], axis=1)
    differences = {}
    for i, name in enumerate(sides[0][0].names):
        cells = defined(points[i])
        cells += [*_bounds(resamples[:, i], level), _inverted(resamples[:, i])]
        cells.append(_beyond(exchanges[:, i], points[i, 2]))
        has_runs = min(map(len, sides)) > 1 and cells[2] is not None
        p = welch(*(side[:, i].tolist() for side in values)) if has_runs else None
        differences[name] = Difference(*cells, welch=p)
    return differences


def welch(first: Sequence[float], second: Sequence[float]) -> float:
    """Returns the two-sided p-value of Welch's t-test; each side needs two runs."""
    # Imported here, because SciPy's statistics take a second to import.
    from scipy import stats

    if len({*first}) == len({*second}) == 1:  # no variance: t is undefined
        return float(first[0] == second[0])
    # From means and deviations: of values, SciPy warns if a side has no variance.
    sides = [[statistics.mean(x), statistics.stdev(x), len(x)] for x in (first, second)]
    test: Any = stats.ttest_ind_from_stats(*sides[0], *sides[1], equal_var=False)
    return float(test.pvalue)


def _check_same(runs: Sequence[Tally]) -> None:
    """Raises an error unless all runs have the same gold spans and tokens."""
    sizes = {len(run.counts): None for run in runs}
    if len(sizes) > 1:
        raise InputError(
            "Expected systems on the same sentences, got "
            f"{' and '.join(map(str, sizes))} sentences"
        )
    for group, counts in runs[0].groups.items():
        if group in (("oov accuracy",), ("known accuracy",)):  # of the training text
            continue
        for run in runs[1:]:
            if group not in run.groups:
                raise InputError(f"Only one system has the figure {group[-1]!r}")
            totals = run.groups[group][:, 2]
            for i in np.flatnonzero(counts[:, 2] != totals):
                raise InputError(
                    f"Expected systems on the same sentences, but sentence {i} "
                    f"(counted from 0) has {counts[i, 2]} and {totals[i]} gold spans "
                    "or tokens"
                )


def _resampled(sides: Sequence[list[Tally]], rounds: int, seed: int) -> np.ndarray:
    """Returns differences for resampled sentences and runs, `[R, F]`."""
    generator = np.random.default_rng((seed, 1))
    differences = []
    for counts in _draws(len(sides[0][0].counts), rounds, seed):
        means = []
        for side in sides:
            runs = np.stack(
                [x.figures(np.tensordot(counts, x.counts, 1)) for x in side]
            )
            rows = generator.integers(len(side), size=(len(side), len(counts)))
            means.append(runs[rows, np.arange(len(counts))].mean(0))
        differences.append(means[0] - means[1])
    return np.concatenate(differences)


def _swapped(first: Tally, second: Tally, rounds: int, seed: int) -> np.ndarray:
    """Returns differences with the systems swapped in random sentences, `[R, F]`."""
    generator = np.random.default_rng((seed, 2))
    gap = second.counts - first.counts
    differences = []
    for count in _chunks(rounds, len(gap), 2 * _BLOCK):
        swaps = generator.integers(2, size=(count, len(gap))).astype(np.float64)
        shift = np.tensordot(swaps, gap, 1)
        new_figures = first.figures(first.counts.sum(0) + shift)
        differences.append(new_figures - second.figures(second.counts.sum(0) - shift))
    return np.concatenate(differences)


def _exchanged(figures: np.ndarray, count: int, rounds: int, seed: int) -> np.ndarray:
    """Returns differences with runs exchanged in all ways, or random ones, `[R, F]`."""
    size = len(figures)
    if math.comb(size, count) <= rounds:
        # The first is the observed division; `_beyond` counts it.
        divisions = list(itertools.combinations(range(size), count))[1:]
    else:
        generator = np.random.default_rng((seed, 3))
        divisions = [generator.permutation(size)[:count] for _ in range(rounds)]
    weights = np.full((len(divisions), size), -1.0 / (size - count))
    np.put_along_axis(weights, np.array(divisions), 1.0 / count, axis=1)
    return weights @ figures


def _inverted(differences: np.ndarray) -> float | None:
    """Returns twice the share of rounds in which the sign is the less frequent one."""
    differences = differences[~np.isnan(differences)]
    if not len(differences):
        return None
    share = float(np.mean(differences < 0) + np.mean(differences == 0) / 2)
    return max(2 * min(share, 1 - share), 1 / len(differences))


def _beyond(differences: np.ndarray, difference: float) -> float | None:
    """Returns the share of permutations with at least the observed difference."""
    differences = differences[~np.isnan(differences)]
    if np.isnan(difference) or not len(differences):
        return None
    # The observed division counts as one of the permutations.
    count = np.sum(np.abs(differences) >= abs(difference) - 1e-12)
    return float((count + 1) / (len(differences) + 1))
