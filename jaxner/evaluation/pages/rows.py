"""Rows of a report's tables, as strings: the filters of its templates."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any

from jaxner.evaluation.report import UNDEFINED

Value = dict[str, Any]
NONE = "–"


def number(value: int | None) -> str:
    """Formats an integer; a dash for None.

    Example:
        >>> number(1234), number(None)
        ('1,234', '–')
    """
    return NONE if value is None else f"{value:,}"


def fixed(value: int | float | None, digits: int = 2) -> str:
    """Formats a number with fixed decimals; a dash for None.

    Example:
        >>> fixed(1.234), fixed(None)
        ('1.23', '–')
    """
    return NONE if value is None else f"{value:.{digits}f}"


def interval(low: int | float | None, high: int | float | None) -> str:
    """Formats the bounds of an interval; a dash for None.

    Example:
        >>> interval(1.0, 2.0), interval(None, None)
        ('1.00 to 2.00', '–')
    """
    return NONE if low is None else f"{fixed(low)} to {fixed(high)}"


def has_tags(run: Value) -> bool:
    """Returns whether the labels of a run are tags."""
    return "rule" not in run["scores"]


def figure_name(run: Value) -> str:
    """Returns the name of the main figure."""
    return "accuracy" if has_tags(run) else "F1"


def main(runs: Sequence[Value]) -> Value:
    """Returns the rows of the runs' main figures."""
    rows = []
    for run in runs:
        key = "accuracy" if has_tags(run) else "f1"
        its, scores = run["figures"][key], run["scores"]
        precision = fixed(scores.get("precision"))
        cells = [precision, fixed(scores.get("recall"))]
        bounds = interval(its["low"], its["high"])
        ill_formed = number(scores.get("ill_formed"))
        rows.append([run["name"], fixed(its["value"]), bounds, *cells, ill_formed])
    rules = sorted({run["scores"].get("rule", "tags") for run in runs})
    return {"name": figure_name(runs[0]), "rows": rows, "rules": ", ".join(rules)}


def learning(run: Value) -> list[tuple[Any, Any]]:
    """Returns the dev figure of each epoch, where it is defined."""
    key = "dev_accuracy" if has_tags(run) else "dev_f1"
    points = [(its["epoch"], its.get(key)) for its in run.get("learning", ())]
    return [(x, y) for x, y in points if y is not None]


def tiles(run: Value) -> list[Value]:
    """Returns the headline figures of a run."""
    names = {
        "accuracy": "accuracy",
        "known accuracy": "known words",
        "oov accuracy": "out of vocabulary",
        "f1": "F1",
        "precision": "precision",
        "recall": "recall",
        "macro f1": "macro F1",
        "exact match f1": "boundary F1",
        "token accuracy": "token accuracy",
    }
    found = []
    for key, name in names.items():
        if key in run["figures"]:
            its = run["figures"][key]
            note = interval(its["low"], its["high"])
            found.append({"name": name, "value": fixed(its["value"]), "note": note})
    return found


def type_rows(run: Value) -> list[list[str]]:
    """Returns a row for each type, for all types, and for the means over types."""
    keys = ("precision", "recall", "f1")
    counts = ("gold", "predicted", "correct")
    rows = [
        [
            its["type"],
            *(fixed(its[key]) for key in keys),
            interval(its["low"], its["high"]),
            *(number(its[key]) for key in counts),
        ]
        for its in run["types"]
    ]
    scores, figures = run["scores"], run["figures"]
    if not has_tags(run):
        of_all = figures["f1"]
        bounds = interval(of_all["low"], of_all["high"])
        cells = [fixed(scores[key]) for key in keys]
        numbers = [number(scores[key]) for key in counts]
        rows.append(["all types (micro)", *cells, bounds, *numbers])
        for mean in ("macro", "weighted"):
            cells = [fixed(scores[f"{mean}_{key}"]) for key in keys]
            its = figures[f"{mean} f1"]
            bounds = interval(its["low"], its["high"])
            rows.append([f"{mean} mean", *cells, bounds, "", "", ""])
    return rows


def type_note(run: Value) -> str:
    """Returns how means count undefined figures; empty if there are no means."""
    return "" if has_tags(run) else UNDEFINED


def rule_rows(run: Value) -> list[list[str]]:
    """Returns a row for each rule."""
    return [
        [
            rule,
            *(fixed(its[key]) for key in ("precision", "recall", "f1")),
            *(number(its[key]) for key in ("predicted", "correct")),
        ]
        for rule, its in run["by_rule"].items()
    ]


def figure_rows(run: Value) -> list[list[str]]:
    """Returns the rows of other figures, such as partial matches and means."""
    types = {its["type"] for its in run["types"]}
    rows = []
    for name, its in run["figures"].items():
        head, _, kind = name.partition(" ")
        of_type = head in ("precision", "recall", "f1") and (not kind or kind in types)
        partial = "match precision" in name or "match recall" in name
        if not of_type and not partial:
            bounds = interval(its["low"], its["high"])
            rows.append([name.replace("f1", "F1"), fixed(its["value"]), bounds])
    return rows


def group_rows(part: Value) -> list[list[str]]:
    """Returns a row for each group of a breakdown."""
    return [
        [
            its["group"],
            *(fixed(its[key]) for key in ("precision", "recall", "f1")),
            *(number(its[key]) for key in ("gold", "predicted")),
        ]
        for its in part["rows"]
    ]


def error_rows(run: Value) -> list[list[str]]:
    """Returns the rows of the most frequent errors."""
    return [
        [its["error"], number(its["count"]), fixed(its["share"], 1)]
        for its in run["errors"]["largest"]
    ]


def calibration_columns(run: Value) -> list[str]:
    """Returns the names of the sides that are compared: before and after, or neither.

    Example:
        >>> calibration_columns({"temperature": [1.25], "calibration_before": {1: 2}})
        ['before (T = 1)', 'after (T = 1.25)']
        >>> calibration_columns({"temperature": [], "calibration_before": {}})
        ['']
    """
    if not run["calibration_before"]:
        return [""]
    degrees = ", ".join(f"{x:.4g}" for x in run["temperature"])
    return ["before (T = 1)", f"after (T = {degrees})"]


def calibration_rows(run: Value) -> list[list[str]]:
    """Returns the calibration of tokens and of entities, a column for each side."""
    names = {
        "expected_calibration_error": "ECE",
        "brier": "Brier score",
        "mean_probability": "mean p",
        "share_right": "share right",
    }
    sides = [run["calibration_before"], run["calibration"]]
    sides = [side for side in sides if side]
    rows = []
    for of in run["calibration"]:
        counts = [number(side[of]["count"]) for side in sides]
        rows.append([of, *counts])
        for key, name in names.items():
            rows.append([f"{of}: {name}", *(fixed(side[of][key], 4) for side in sides)])
    return rows


def compared(one: Value) -> list[list[str]]:
    """Returns the rows of a comparison, in percentage points."""
    rows = []
    for name, its in one["figures"].items():
        values = [its[key] for key in ("first", "second", "difference", "low", "high")]
        first, second, gap, low, high = (x and 100 * x for x in values)
        tests = [fixed(its[key], 4) for key in ("bootstrap", "permutation")]
        cells = [fixed(first), fixed(second), fixed(gap), interval(low, high), *tests]
        rows.append([name.replace("f1", "F1"), *cells])
    return rows


def cells(rows: Iterable[Iterable[Any]]) -> list[list[str]]:
    """Formats cells of any type."""
    return [
        [
            NONE if x is None else fixed(x) if isinstance(x, float) else str(x)
            for x in row
        ]
        for row in rows
    ]


def pretty(value: Any) -> str:
    """Formats a value as indented JSON."""
    return json.dumps(value, indent=2, ensure_ascii=False)


FILTERS = {
    its.__name__: its
    for its in (
        *(number, fixed, tiles, type_rows, type_note, rule_rows, figure_rows),
        *(group_rows, error_rows, calibration_rows, calibration_columns, compared),
        *(cells, pretty),
    )
}
