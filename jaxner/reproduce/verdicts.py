"""Whether the orders that the papers claim hold here.

Where both systems have two runs or more, Welch's t-test compares the runs. Where one
has a single run, a paired bootstrap over the sentences of test compares one run of
each: that says nothing of other seeds, so the verdict says so.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from jaxner.evaluation import comparing, rules, tally
from jaxner.evaluation.comparing import welch as welch
from jaxner.reproduce import record
from jaxner.reproduce.plan import Job
from jaxner.reproduce.published import Cell, Claim, Published
from jaxner.reproduce.results import DONE, Line

LEVEL = 0.05
ROUNDS = 10_000
HOLDS, FAILS, OPEN = "holds", "does not hold", "not yet decidable"


class Verdict(NamedTuple):
    """What our runs say of a claim.

    Attributes:
        claim: The claim.
        word: `HOLDS`, `FAILS` or `OPEN`.
        difference: Mean of the better system less that of the other; None if one has
            no run.
        p: Of no difference, on both sides; None without a test.
        test: What gave p.
        numbers: How many runs each has.
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
    """Judges a claim by the lines of finished runs.

    Args:
        claim: The claim.
        published: The cells that it names.
        lines: Those of all runs.
        compared: p of the bootstrap by pairs of runs; see `bootstrap`.

    Returns:
        The verdict: an order holds or does not where p is below 0.05.
    """
    cells = [published.cell(name) for name in (claim.better, claim.worse)]
    rule = common_rule(*cells)
    sides = [finished(cell, lines) for cell in cells]
    numbers = len(sides[0]), len(sides[1])
    if not all(numbers):
        return Verdict(claim, OPEN, None, None, "", numbers)
    figures = [[line["test"][rule] for line in side] for side in sides]
    difference = statistics.fmean(figures[0]) - statistics.fmean(figures[1])
    if min(numbers) > 1:
        p, test = welch(*figures), "Welch"
    else:
        p = compared.get(pair_name(sides[0][0], sides[1][0], rule))
        test = "" if p is None else "bootstrap, one seed"
    if p is None or p >= LEVEL:
        return Verdict(claim, OPEN, difference, p, test, numbers)
    word = HOLDS if difference > 0 else FAILS
    return Verdict(claim, word, difference, p, test, numbers)


def bootstrap(
    first: np.ndarray, second: np.ndarray, rounds: int = ROUNDS, seed: int = 0
) -> float:
    """Returns p of a paired bootstrap over sentences, on both sides.

    Args:
        first: Correct, predicted and gold spans of each sentence, `[sentences, 3]`.
        second: The same of another run, for the same sentences.
        rounds: How many times sentences are drawn.
        seed: Of the draws.

    Raises:
        ValueError: The runs have other sentences.
    """
    one, other = (tally.of_counts(counts) for counts in (first, second))
    return comparing.bootstrap([one], [other], "f1", rounds=rounds, seed=seed)


def compare(
    published: Published, lines: Sequence[Line], runs: Path, known: Mapping[str, float]
) -> dict[str, float]:
    """Compares single runs of a claim's systems by the predictions kept beside them.

    Args:
        published: Claims and cells.
        lines: Those of all runs.
        runs: The folder of all runs; pairs whose predictions are not there are left.
        known: What was found before, which is not done again.

    Returns:
        p by pairs of runs, `known` among them.
    """
    found: dict[str, float] = {}
    for claim in published.claims:
        better, worse = published.cell(claim.better), published.cell(claim.worse)
        sides = finished(better, lines), finished(worse, lines)
        if not all(sides) or min(map(len, sides)) > 1:
            continue
        rule, first, second = common_rule(better, worse), sides[0][0], sides[1][0]
        name = pair_name(first, second, rule)
        try:
            found[name] = (
                known[name]
                if name in known
                else bootstrap(
                    _counts(better, rule, first, runs),
                    _counts(worse, rule, second, runs),
                )
            )
        except FileNotFoundError:
            continue
    return found


def common_rule(first: Cell, second: Cell) -> str:
    """Returns the rule under which both are compared: their own, else conlleval's."""
    return first.rule if first.rule == second.rule else record.CONLLEVAL


def pair_name(better: Line, worse: Line, rule: str) -> str:
    """Names two runs by what they are and what they reached."""
    runs = [f"{x['cell']} {x['seed']} {x['test'][rule]}" for x in (better, worse)]
    return f"{rule}: {runs[0]} > {runs[1]}"


def _counts(cell: Cell, rule: str, line: Line, runs: Path) -> np.ndarray:
    folder = Job(cell, line["seed"]).folder(runs)
    counts = record.sentence_counts(cell, rule, folder, "test")
    figure = 100 * (rules.total(counts).f1 or 0.0)
    if abs(figure - line["test"][rule]) > 1e-3:
        raise ValueError(
            f"{folder} has predictions of F1 {figure:.4f}, the results have "
            f"{line['test'][rule]}: they are of different runs"
        )
    return counts


def finished(cell: Cell, lines: Sequence[Line]) -> list[Line]:
    """Returns the lines of a cell's finished runs, by their seeds."""
    mine = [x for x in lines if x["cell"] == cell.id and x["status"] == DONE]
    return sorted(mine, key=lambda line: line["seed"])
