"""The tables in Markdown: published figures, and ours from the lines of the results."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from jaxner.reproduce import verdicts
from jaxner.reproduce.published import Cell, Published
from jaxner.reproduce.record import CONLLEVAL
from jaxner.reproduce.results import FAILED, Line
from jaxner.reproduce.verdicts import Verdict, finished

COMMAND = "jaxner reproduce --tables --write"
BEGIN, END = f"<!-- systems: {COMMAND} -->\n", "<!-- /systems -->\n"
_TOLD_APART = ("num_epochs", "patience")  # overrides that have a column

_HEAD = f"""# Results

Made by `{COMMAND}` from the lines beside this file; do not edit.

Figures are percent on the test set, entity F1 or, for tags, accuracy. *Published* is
the paper's, with its own vectors. *Measured* is the mean of our runs ± their standard
deviation (their number), under the rule of the paper's own scorer; *conlleval* the same
under conlleval's, where the rules differ. Dev picks the epoch, by conlleval's rule;
*epochs* has each run's best one and how many were allowed.
"""


def readme(published: Published, lines: Sequence[Line]) -> str:
    """Lays out the README's short table: the main systems of each paper.

    Args:
        published: Cells of the tables.
        lines: Those of all runs.
    """
    columns = ("paper", "system", "config", "published", "measured")
    rows = [
        [cell.paper, *_row(cell, lines)[:4]]
        for cell in published.cells.values()
        if cell.main
    ]
    return _markdown(columns, rows)


def systems(published: Published, lines: Sequence[Line]) -> str:
    """Lays out the tables of all systems, one for each paper.

    Args:
        published: Cells of the tables.
        lines: Those of all runs.
    """
    columns = ("system", "config", "published", "measured", "difference")
    parts = []
    for table, paper in published.papers.items():
        rows = [_row(x, lines)[:5] for x in published.of_table(table)]
        parts.append(f"## {paper}\n\n{_markdown(columns, rows)}")
    return "\n".join(parts)


def inserted(text: str, table: str) -> str:
    """Returns a text with the table between its two marks.

    Raises:
        ValueError: It has not both marks.

    Example:
        >>> inserted(f"a\\n{BEGIN}old\\n{END}z", "new\\n").splitlines()[2:-2]
        ['', 'new', '']
    """
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not (begin and end):
        raise ValueError(f"Expected the lines {BEGIN!r} and {END!r} in the text")
    return f"{before}{begin}\n{table}\n{end}{after}"


def report(
    published: Published, lines: Sequence[Line], compared: Mapping[str, float]
) -> str:
    """Lays out all that is known: a table and the claims' verdicts for each paper.

    Args:
        published: Cells and claims.
        lines: Those of all runs.
        compared: As in `verdicts.verdict`.
    """
    columns = ("system", "config", "published", "measured", "difference")
    columns += ("conlleval", "dev", "epochs", "rule")
    parts = [_HEAD]
    for table, paper in published.papers.items():
        cells = published.of_table(table)
        parts.append(f"## {paper}\n")
        parts.append(_markdown(columns, [_row(cell, lines) for cell in cells]))
        if notes := _notes(published, table, lines):
            parts.append("".join(f"- {note}\n" for note in notes))
        found = [
            verdicts.verdict(claim, published, lines, compared)
            for claim in published.claims
            if claim.table == table
        ]
        parts.append(_verdicts(found))
    return "\n".join(parts)


def summary(lines: Iterable[Line], rule: str, split: str = "test") -> str:
    """Writes mean, standard deviation and number of finished runs.

    Example:
        >>> runs = [{"test": {"strict": x}} for x in (90.0, 91.0)]
        >>> summary(runs, "strict"), summary(runs[:1], "strict"), summary([], "strict")
        ('90.50 ± .71 (2)', '90.00 (1)', '')
    """
    figures = [line[split][rule] for line in lines]
    if not figures:
        return ""
    spread = f" ± {_small(statistics.stdev(figures))}" if len(figures) > 1 else ""
    return f"{statistics.fmean(figures):.2f}{spread} ({len(figures)})"


def published_figure(cell: Cell) -> str:
    """Writes what the paper has.

    Example:
        >>> published_figure(Cell("a/b", "a", "A", "A", "a:b", published=91.4, deviation=0.16))
        '91.40 ± .16'
    """  # noqa: E501 - the example is one line
    if cell.published is None:
        return ""
    if not cell.verified:
        return f"≈ {cell.published:g} (unverified)"
    spread = f" ± {_small(cell.deviation)}" if cell.deviation is not None else ""
    return f"{cell.published:.2f}{spread}"


def _row(cell: Cell, lines: Sequence[Line]) -> list[str]:
    mine = finished(cell, lines)
    is_apart = mine and cell.figure == "f1" and cell.rule != CONLLEVAL
    return [
        cell.system,
        f"`{cell.config.replace(':', '.py:', 1)}`",
        published_figure(cell),
        summary(mine, cell.rule),
        _difference(cell, mine),
        summary(mine, CONLLEVAL) if is_apart else "",
        summary(mine, cell.rule, "dev"),
        _epochs(mine),
        cell.rule,
    ]


def _difference(cell: Cell, mine: Sequence[Line]) -> str:
    if cell.published is None or not mine:
        return ""
    mean = statistics.fmean(line["test"][cell.rule] for line in mine)
    return f"{mean - cell.published:+.2f}".replace("-", "−")


def _epochs(mine: Sequence[Line]) -> str:
    if not mine:
        return ""
    best = ", ".join(str(line["best_epoch"]) for line in mine)
    last = mine[-1]
    patience = f", patience {last['patience']}" if last["patience"] else ""
    return f"{best} of {last['num_epochs']}{patience}"


def _notes(published: Published, table: str, lines: Sequence[Line]) -> list[str]:
    """Lists what the table's columns have no room for."""
    cells = published.of_table(table)
    notes = [published.notes[table]] if published.notes[table] else []
    notes += [f"`{cell.id}`: {cell.note}" for cell in cells if cell.note]
    ids = {cell.id for cell in cells}
    notes += [
        f"{x.system}, beside `{x.cell}`: dev {x.dev:.2f}, test {x.test:.2f}; {x.note}."
        for x in published.references
        if x.cell in ids
    ]
    settings: dict[str, list[str]] = {}
    for cell in cells:
        for line in finished(cell, lines):
            changed = _changed(line["overrides"])
            if changed and cell.id not in settings.setdefault(changed, []):
                settings[changed].append(cell.id)
    notes += [
        f"Run with `{changed}`: {', '.join(f'`{name}`' for name in names)}."
        for changed, names in settings.items()
    ]
    notes += [
        f"Failed: `{x['cell']}`, seed {x['seed']}: {x['error']}"
        for x in lines
        if x["cell"] in ids and x["status"] == FAILED
    ]
    return notes


def _changed(overrides: Mapping[str, Any]) -> str:
    return " ".join(f"{k}={v}" for k, v in overrides.items() if k not in _TOLD_APART)


def _verdicts(found: Sequence[Verdict]) -> str:
    columns = ("better", "worse", "source", "difference", "runs", "p", "verdict")
    rows = []
    for its in found:
        gap = "" if its.difference is None else f"{its.difference:+.2f}"
        p = "" if its.p is None else f"{its.p:.3f} ({its.test})"
        runs = f"{its.numbers[0]}, {its.numbers[1]}"
        claim, gap = its.claim, gap.replace("-", "−")
        names = f"`{claim.better}`", f"`{claim.worse}`"
        rows.append([*names, claim.where, gap, runs, p, its.word])
    return "Orders that the paper claims:\n\n" + _markdown(columns, rows)


def _small(deviation: float) -> str:
    return f"{deviation:.2f}".removeprefix("0")


def _markdown(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [" | ".join(columns), "| ".join(["--- "] * len(columns)).strip()]
    lines += [" | ".join(x.replace("|", "\\|") for x in row) for row in rows]
    return "".join(f"| {line} |\n" for line in lines)
