"""Headline figures with intervals, and F1 under each rule, as JSON and tables.

`summarise` returns all figures of a prediction as one dictionary, for JSON files;
`headline_table` and `rules_table` lay them out.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rich.table import Table
from rich.text import Text

from jaxner.data import schemes
from jaxner.evaluation import coded, intervals, rules, scoring, tally
from jaxner.evaluation.coded import Labels
from jaxner.evaluation.comparing import Difference
from jaxner.evaluation.counts import percent, shown
from jaxner.evaluation.intervals import Interval


def summarise(
    gold: Labels,
    predicted: Labels,
    *,
    rule: str = "conlleval",
    scheme: str | None = None,
    rounds: int = intervals.ROUNDS,
    level: float = intervals.LEVEL,
    seed: int = 0,
) -> dict[str, Any]:
    """Computes all headline figures of predicted spans, with intervals.

    Args:
        gold: The gold labels of each sentence.
        predicted: The predicted labels of each sentence.
        rule: Rule for reading spans, one of `rules.RULES`.
        scheme: Scheme of the labels; None: detected from `gold`.
        rounds: Rounds of the bootstrap.
        level: Confidence level of the intervals, from 0 to 1.
        seed: Seed of the bootstrap.

    Returns:
        JSON values, None where undefined: `scores` (see `Scores.to_dict`), `figures`
        (by name: value, low and high in percent), `by_rule` (F1 and counts under each
        rule that reads the scheme), and `intervals` (rounds, level and seed).

    Raises:
        ValueError: As `scoring.score`.

    Example:
        >>> found = summarise([["B-A", "O"]], [["I-A", "O"]], rounds=10)
        >>> [found["by_rule"][rule]["f1"] for rule in ("conlleval", "strict")]
        [100.0, 0.0]
    """
    scheme = schemes.detect(gold) if scheme is None else scheme
    scores = scoring.score(gold, predicted, rule=rule, scheme=scheme)
    its = tally.of_spans(gold, predicted, rule, scheme)
    found = intervals.bootstrap(its, rounds=rounds, level=level, seed=seed)
    return {
        "scores": scores.to_dict(),
        "figures": {name: in_percent(x) for name, x in found.items()},
        "by_rule": by_rule(gold, predicted, scheme),
        "intervals": {"rounds": rounds, "level": level, "seed": seed},
    }


def by_rule(gold: Labels, predicted: Labels, scheme: str) -> dict[str, dict[str, Any]]:
    """Computes precision, recall, F1 and counts under each rule that reads a scheme."""
    labels = coded.code(gold, predicted)
    found = {}
    for rule in rules.RULES:
        try:
            rules.check(rule, scheme)
        except ValueError:
            continue  # the rule is undefined for this scheme
        found[rule] = scoring.score_coded(labels, rule, scheme).overall.to_dict()
    return found


def with_intervals(
    gold: Labels, predicted: Labels, rule: str, scheme: str
) -> dict[str, dict[str, float | None]]:
    """Computes all figures of labels or tags, with intervals.

    Returns:
        By name: value, low and high in percent.

    Example:
        >>> found = with_intervals([["B-A", "O"]], [["B-A", "O"]], "strict", "BIO")
        >>> found["f1"]
        {'value': 100.0, 'low': 100.0, 'high': 100.0}
    """
    if scheme == schemes.TAGS:
        its = tally.of_tags(gold, predicted)
    else:
        its = tally.of_spans(gold, predicted, rule, scheme)
    return {n: in_percent(x) for n, x in intervals.bootstrap(its).items()}


def interval_line(name: str, its: Mapping[str, float | None]) -> str:
    """Returns a figure and its interval as a line.

    Example:
        >>> interval_line("F1", {"value": 90.0, "low": 89.0, "high": None})
        'F1 90.00, 95 % interval by the bootstrap over sentences: 89.00 to –'
    """
    value, low, high = ("–" if x is None else f"{x:.2f}" for x in its.values())
    about = f"{100 * intervals.LEVEL:g} % interval by the bootstrap over sentences"
    return f"{name} {value}, {about}: {low} to {high}"


def in_percent(interval: Interval) -> dict[str, float | None]:
    """Returns an interval as a dictionary, in percent."""
    return {name: percent(x) for name, x in interval._asdict().items()}


def headline_table(figures: Mapping[str, Interval], level: float, caption: str = ""):
    """Returns a table of figures and intervals, in percent.

    Args:
        figures: What `intervals.bootstrap` returned.
        level: Confidence level of the intervals, from 0 to 1.
        caption: Text below the table.
    """
    table = Table(caption=Text(caption) if caption else None)
    table.add_column("figure")
    table.add_column("%", justify="right")
    table.add_column(f"{100 * level:g} % interval", justify="right")
    for name, its in figures.items():
        bounds = "–" if its.low is None else f"{shown(its.low)} to {shown(its.high)}"
        table.add_row(Text(name), shown(its.value), bounds)
    return table


def rules_table(found: Mapping[str, Mapping[str, Any]], caption: str = "") -> Table:
    """Returns a table of what `by_rule` returned."""
    table = Table(caption=Text(caption) if caption else None)
    table.add_column("rule")
    for name in ("precision", "recall", "F1", "gold", "predicted", "correct"):
        table.add_column(name, justify="right")
    for rule, its in found.items():
        figures = [its[name] for name in ("precision", "recall", "f1")]
        cells = ["–" if x is None else f"{x:.2f}" for x in figures]
        numbers = [f"{its[name]:,}" for name in ("gold", "predicted", "correct")]
        table.add_row(rule, *cells, *numbers)
    return table


def difference_table(found: Mapping[str, Difference], level: float, caption: str):
    """Returns a table of what `comparing.compare` returned, in percentage points.

    Args:
        found: Differences by figure. The table has p-values by bootstrap, permutation
            and, with several runs on both sides, Welch's t-test.
        level: Confidence level of the intervals, from 0 to 1.
        caption: Text below the table: what was compared, and how.
    """
    table = Table(caption=Text(caption))
    table.add_column("figure", no_wrap=True)
    has_seeds = any(its.welch is not None for its in found.values())
    columns = ["a", "b", "a - b", f"{100 * level:g} % interval", "p boot", "p perm"]
    for name in [*columns, *(["p Welch"] if has_seeds else [])]:
        table.add_column(name, justify="right", no_wrap=True)
    for name, its in found.items():
        bounds = "–" if its.low is None else f"{shown(its.low)} to {shown(its.high)}"
        tests = [its.bootstrap, its.permutation, *([its.welch] if has_seeds else [])]
        table.add_row(
            Text(name),
            *map(shown, (its.first, its.second, its.difference)),
            bounds,
            *("–" if p is None else f"{p:.4f}" for p in tests),
        )
    return table
