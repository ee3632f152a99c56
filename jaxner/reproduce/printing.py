"""Printing and storing results: tables, notes on published values, JSON."""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.table import Table
from rich.text import Text

from jaxner import writing
from jaxner.evaluation import plots
from jaxner.reproduce.figures import Figure
from jaxner.terminal import LineConsole

console = LineConsole()


def check(options: argparse.Namespace) -> None:
    """Raises an error, before any work, if an output file cannot be written.

    Raises:
        OSError: An output file cannot be written; see `jaxner.writing.check`.
        ValueError, ImportError: As `plots.check`.
    """
    files = [getattr(options, name, None) for name in ("plot", "json")]
    for path in files:
        writing.check(path)
    if getattr(options, "plot", None):
        plots.check(options.plot)


def show(
    title: str, rows: list[dict[str, Any]], figure: Figure, options: argparse.Namespace
) -> None:
    """Prints a table and its published values; stores both for `--json`."""
    console.print(table(title, rows))
    notes(figure)
    write(options, {"title": title, "rows": rows}, figure)


def notes(figure: Figure) -> None:
    """Prints the source of the published values, and which are missing."""
    for line in figure.notes():
        say(line)


def table(title: str, rows: Sequence[dict[str, Any]]) -> Table:
    """Returns rows as a table, with their keys as columns.

    Example:
        >>> table("words", [{"word": "Rome"}]).row_count
        1
    """
    made = Table(title=Text(title), title_justify="left")
    for column in rows[0] if rows else ():
        is_text = all(isinstance(row[column], str) for row in rows)
        made.add_column(Text(column), justify="left" if is_text else "right")
    for row in rows:
        made.add_row(*(Text(cell(value)) for value in row.values()))
    return made


def cell(value: Any) -> str:
    """Returns a cell as text; a dash for None.

    Example:
        >>> cell(91.4), cell(0.018), cell(1234), cell(None), cell("O")
        ('91.40', '0.018', '1,234', '–', 'O')
    """
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return "–"
    if isinstance(value, dict):
        return " ".join(map(cell, value.values()))
    if isinstance(value, float):
        return f"{value:.3f}" if 0 < abs(value) < 1 else f"{value:.2f}"
    return f"{value:,}" if isinstance(value, int) else str(value)


def write(options: argparse.Namespace, found: dict[str, Any], figure: Figure) -> None:
    """Stores measured and published values in the file of `--json`."""
    if options.json:
        about = {"workdir": options.workdir, "split": getattr(options, "split", None)}
        content = plain({**about, **found, "published": figure.to_dict()})
        text = json.dumps(content, indent=2, ensure_ascii=False) + "\n"
        Path(options.json).write_text(text, "utf-8")


def plain(value: Any) -> Any:
    """Returns values with null for numbers that are not finite, for JSON.

    Example:
        >>> plain({"u": [float("nan"), 1.0]})
        {'u': [None, 1.0]}
    """
    if isinstance(value, dict):
        return {name: plain(item) for name, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def say(text: str) -> None:
    """Prints a line."""
    console.print(text, markup=False)
