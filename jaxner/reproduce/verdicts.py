"""Decides whether our runs confirm the orders that the papers claim.

With three runs or more of both systems, Welch's t-test compares the runs and decides.
With fewer, a paired bootstrap over test sentences and runs shows how sure their
difference is, but decides nothing: they say too little about how other seeds scatter.

The bootstrap needs the counts of each sentence. Lines from before they were stored lack
them, so a comparison of some of the runs stands until one of more runs is possible.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from jaxner.evaluation import comparing, tally
from jaxner.evaluation.comparing import welch as welch
from jaxner.reproduce import record
from jaxner.reproduce.published import Cell, Claim, Published
from jaxner.reproduce.results import DONE, Line

LEVEL = 0.05
ROUNDS = 10_000
MIN_RUNS = 3  # of each system, to decide
HOLDS, FAILS, OPEN = "holds", "does not hold", "not yet decidable"


class Verdict(NamedTuple):
    """The verdict of our runs on a claim.

    Attributes:
        claim: The claim.
        word: `HOLDS`, `FAILS` or `OPEN`.
        difference: Mean of the better system minus that of the other, in points; None
            if one has no run.
        p: Two-sided p value of no difference; None without a test.
        test: Name of the test.
        numbers: Number of runs of each system: those compared, or all without a test.
    """

    claim: Claim
    word: str
    difference: float | None
    p: float | None
    test: str
    numbers: tuple[int, int]


def verdict(
    claim: Claim,
    published: Published,
    lines: Sequence[Line],
    compared: Mapping[str, float],
) -> Verdict:
    """Returns the verdict on a claim from the lines of finished runs.

    Args:
        claim: The claim.
        published: The cells that it names.
        lines: Lines of all runs.
        compared: p values of the bootstrap by the runs compared; see `compare`.

    Returns:
        The verdict; an order is decided if both systems have `MIN_RUNS` runs and
        Welch's p is below `LEVEL`.
    """
    cells = [published.cell(name) for name in (claim.better, claim.worse)]
    rule = common_rule(*cells)
    sides = [finished(cell, lines) for cell in cells]
    numbers = len(sides[0]), len(sides[1])
    if not all(numbers):
        return Verdict(claim, OPEN, None, None, "", numbers)
    if min(numbers) >= MIN_RUNS:
        p, test = welch(*(_figures(side, rule) for side in sides)), "Welch"
    else:
        p = None
        for pair in _pairs(*sides):
            p = compared.get(pair_name(*pair, rule))
            if p is not None:
                sides, numbers = pair, (len(pair[0]), len(pair[1]))
                break
        test = "bootstrap, one seed" if min(numbers) == 1 else "bootstrap"
    means = [statistics.fmean(_figures(side, rule)) for side in sides]
    difference = means[0] - means[1]
    if p is None:
        return Verdict(claim, OPEN, difference, p, "", numbers)
    word = OPEN
    if min(numbers) >= MIN_RUNS and p < LEVEL:
        word = HOLDS if difference > 0 else FAILS
    return Verdict(claim, word, difference, p, test, numbers)


def bootstrap(
    first: Sequence[np.ndarray],
    second: Sequence[np.ndarray],
    rounds: int = ROUNDS,
    seed: int = 0,
) -> float:
    """Returns the two-sided p value of a paired bootstrap over sentences and runs.

    Args:
        first: One system's runs: the correct, predicted and gold spans of each
            sentence, `[sentences, 3]`.
        second: The other system's runs on the same sentences.
        rounds: Number of resamples.
        seed: Seed of the resamples.

    Raises:
        ValueError: The runs have different sentences.
    """
    one, other = ([tally.of_counts(its) for its in side] for side in (first, second))
    return comparing.bootstrap(one, other, "f1", rounds=rounds, seed=seed)


def compare(
    published: Published, lines: Sequence[Line], known: Mapping[str, float]
) -> dict[str, float]:
    """Returns bootstrap results for claims with few runs.

    Args:
        published: Claims and cells.
        lines: Lines of all runs.
        known: Earlier results, which are not computed again.

    Returns:
        p values by the runs compared, with those of `known` that still apply: for each
        claim, of as many runs as can be compared.
    """
    found: dict[str, float] = {}
    for claim in published.claims:
        better, worse = published.cell(claim.better), published.cell(claim.worse)
        sides = finished(better, lines), finished(worse, lines)
        if not all(sides) or min(map(len, sides)) >= MIN_RUNS:
            continue
        rule = common_rule(better, worse)
        for pair in _pairs(*sides):
            name = pair_name(*pair, rule)
            if name in known:
                found[name] = known[name]
                break
            if all(_has_counts(side) for side in pair):
                one, other = ([record.counts(x, rule) for x in its] for its in pair)
                found[name] = bootstrap(one, other)
                break
    return found


def common_rule(first: Cell, second: Cell) -> str:
    """Returns the rule for comparing both: their own if equal, else conlleval's."""
    return first.rule if first.rule == second.rule else record.CONLLEVAL


def pair_name(better: Sequence[Line], worse: Sequence[Line], rule: str) -> str:
    """Returns a name for two systems' runs, from cells, seeds and figures."""
    sides = []
    for side in (better, worse):
        runs = ", ".join(f"{line['seed']} {line['test'][rule]}" for line in side)
        sides.append(f"{side[0]['cell']} {runs}")
    return f"{rule}: {sides[0]} > {sides[1]}"


def _pairs(
    better: Sequence[Line], worse: Sequence[Line]
) -> list[tuple[Sequence[Line], Sequence[Line]]]:
    """Returns what to compare, of the two systems' runs: pairs of most runs first.

    These are the first runs of both by seed, which may have been compared before, and
    those with counts.
    """
    pairs = [
        (better[: i + 1], worse[: j + 1])
        for i in range(len(better))
        for j in range(len(worse))
    ]
    counted = [[x for x in side if _has_counts([x])] for side in (better, worse)]
    if all(counted):
        pairs.append((counted[0], counted[1]))

    def size(pair: tuple[Sequence[Line], Sequence[Line]]) -> tuple[int, int]:
        numbers = len(pair[0]), len(pair[1])
        return min(numbers), sum(numbers)

    return sorted(pairs, key=size, reverse=True)


def _has_counts(side: Sequence[Line]) -> bool:
    return all(record.COUNTS in line for line in side)


def _figures(side: Sequence[Line], rule: str) -> list[float]:
    return [line["test"][rule] for line in side]


def finished(cell: Cell, lines: Sequence[Line]) -> list[Line]:
    """Returns the lines of a cell's finished runs, sorted by seed."""
    mine = [x for x in lines if x["cell"] == cell.id and x["status"] == DONE]
    return sorted(mine, key=lambda line: line["seed"])
