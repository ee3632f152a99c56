"""Writes a report as one HTML file, and the same content as JSON and CSV.

The page loads no other files and runs no scripts. Everything that comes from a text or
a run is escaped. The templates are in `templates/`.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from jaxner import disk, errors
from jaxner.errors import InputError
from jaxner.evaluation import drawings, report
from jaxner.evaluation.report import Value
from jaxner.evaluation.scoring import jaxner_version

# Parts that a run may lack, such as those from probabilities or a run folder.
_DICTS = ("by_rule", "confusion", "calibration", "calibration_before", "thresholds")
_LISTS = ("breakdowns", "learning", "speed", "pictures", "tables", "uncertain_text")
_OPTIONAL: Value = {
    **{name: {} for name in (*_DICTS, "about")},
    **dict.fromkeys((*_LISTS, "confident_mistakes", "uncertain_hits"), ()),
    **{"span_rule": None, "decoding": None, "inside_note": "", "best_epoch": None},
}
_ENOUGH = 10  # predictions that a bin needs to be drawn
_TILES = {
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
"""The headline figures of a run."""


def check(
    path: str | os.PathLike[str], *sources: str | os.PathLike[str] | None
) -> None:
    """Checks, before any other work, that a report can be written.

    Raises:
        ImportError: matplotlib or jinja2 is missing.
        OSError: One of the files cannot be written; see `jaxner.disk.check`.
        InputError: The name does not end with `.html`, or a file is a source.
    """
    if Path(path).suffix.lower() not in (".html", ".htm"):
        raise InputError(f"Expected a report with the suffix .html, got {str(path)!r}")
    for file in _files(path):
        disk.check(file, *sources)
    drawings.require("A report")
    _jinja2()


def write(path: str | os.PathLike[str], content: Value) -> list[Path]:
    """Writes a report: the page, and beside it the same content as JSON and CSV.

    Args:
        path: The file of the page.
        content: `title`, `runs` (each with `name` and what `report.describe` returned)
            and `comparisons`.

    Example:
        >>> import tempfile
        >>> one = report.Prediction([["Rome"]], [["B-LOC"]], [["O"]], "BIO")
        >>> run = {"name": "mine", **report.describe(one, rounds=5)}
        >>> path = Path(tempfile.mkdtemp(), "report.html")
        >>> [file.name for file in write(path, {"title": "Mine", "runs": [run]})]
        ['report.html', 'report.json', 'report.csv']
    """
    texts = (
        html(content),
        json.dumps(content, indent=1, ensure_ascii=False),
        report.lines(content),
    )
    files = _files(path)
    for file, text in zip(files, texts, strict=True):
        file.write_text(text if text.endswith("\n") else text + "\n", "utf-8")
    return files


def _files(path: str | os.PathLike[str]) -> list[Path]:
    return [Path(path), *(Path(path).with_suffix(x) for x in (".json", ".csv"))]


def html(content: Value) -> str:
    """Returns a report as one HTML page."""
    jinja2 = _jinja2()
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("jaxner.evaluation"),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )
    environment.filters |= {"number": report.number, "fixed": report.fixed}
    environment.globals |= {"report": report, "tiles": _tiles, "pretty": _pretty}
    runs = [_OPTIONAL | run for run in content["runs"]]
    return environment.get_template("page.html.j2").render(
        title=content["title"],
        comparisons=content.get("comparisons", ()),
        runs=runs,
        version=jaxner_version(),
        drawings=[_drawn(run) for run in runs],
        overlaid=_overlaid(runs) if len(runs) > 1 else {},
        plain_table=_plain_table,
    )


def _tiles(run: Value) -> list[tuple[str, str, str]]:
    """Returns the headline figures of a run: name, value and bounds."""
    return [
        (name, report.fixed(x["value"]), report.interval(x["low"], x["high"]))
        for key, name in _TILES.items()
        if (x := run["figures"].get(key))
    ]


def _pretty(value: Any) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False)


def _plain_table(columns: list[str], rows: Sequence[Sequence[Any]], note: str = ""):
    """Returns a table of cells of any type."""

    def cell(value: Any) -> str:
        is_number = value is None or isinstance(value, float)
        return report.fixed(value) if is_number else str(value)

    return report.Table(columns, [list(map(cell, row)) for row in rows], note)


def _learning(run: Value) -> list[tuple[Any, Any]]:
    """Returns the dev figure of each epoch, where it is defined."""
    key = "dev_accuracy" if report.has_tags(run) else "dev_f1"
    points = [(epoch["epoch"], epoch.get(key)) for epoch in run["learning"]]
    return [(x, y) for x, y in points if y is not None]


def _drawn(run: Value) -> Value:
    """Draws the available parts of one run."""
    drawn: Value = dict.fromkeys(("thresholds", "learning", "loss"))
    drawn["pictures"] = [_picture(x) for x in run["pictures"]]
    drawn["calibration"] = [
        _safe(drawings.reliability({of: _bins(x) for of, x in side.items()}))
        for side in (run["calibration_before"], run["calibration"])
        if side
    ]
    if curve := run["thresholds"]:
        lines = {
            name: list(zip(curve["thresholds"], curve[name], strict=True))
            for name in ("precision", "recall")
        }
        drawn["thresholds"] = _safe(drawings.curves(lines, "probability", "share"))
    if run["learning"]:
        best, name = {"dev": run["best_epoch"]}, f"dev {report.main_figure(run)} (%)"
        points = {"dev": _learning(run)}
        drawn["learning"] = _safe(drawings.curves(points, "epoch", name, best=best))
        losses = {"loss": [(x["epoch"], x.get("loss")) for x in run["learning"]]}
        drawn["loss"] = _safe(drawings.curves(losses, "epoch", "loss"))
    drawn["breakdowns"] = [
        _bars([row["group"] for row in part["rows"]], {"F1": part["rows"]})
        for part in run["breakdowns"]
    ]
    return drawn


def _overlaid(runs: Sequence[Value]) -> Value:
    """Draws the figures of several runs side by side."""
    drawn: Value = dict.fromkeys(("learning", "types", "calibration"))
    lines = {run["name"]: _learning(run) for run in runs if run["learning"]}
    best = {run["name"]: run["best_epoch"] for run in runs}
    if lines:
        name = f"dev {report.main_figure(runs[0])} (%)"
        drawn["learning"] = _safe(drawings.curves(lines, "epoch", name, best=best))
    types = sorted({row["type"] for run in runs for row in run["types"]})
    if len(types) <= 12:
        values = {}
        for run in runs:
            rows = {row["type"]: row for row in run["types"]}
            values[run["name"]] = [rows.get(kind, {"f1": None}) for kind in types]
        drawn["types"] = _bars(types, values)
    drawn["breakdowns"] = []
    for part in runs[0]["breakdowns"]:
        rows = {
            run["name"]: other["rows"]
            for run in runs
            for other in run["breakdowns"]
            if other["name"] == part["name"]
        }
        groups = [row["group"] for row in part["rows"]]
        drawn["breakdowns"].append((part["name"], _bars(groups, rows)))
    bins = {
        run["name"]: _bins(run["calibration"]["tokens"])
        for run in runs
        if run["calibration"]
    }
    if bins:
        drawn["calibration"] = _safe(drawings.reliability(bins))
    return drawn


def _bars(groups: Sequence[str], rows: dict[str, list[Value]]) -> Any:
    values = {name: [row["f1"] for row in each] for name, each in rows.items()}
    return _safe(drawings.bars(groups, values, "F1 (%)"))


def _bins(calibration: Value) -> tuple[list[Any], list[Any]]:
    """Returns confidence and accuracy of the bins with enough predictions."""
    bins = calibration["bins"]
    enough = min(_ENOUGH, max(bins["counts"], default=0))
    kept = [i for i, n in enumerate(bins["counts"]) if n and n >= enough]
    return [bins["confidence"][i] for i in kept], [bins["accuracy"][i] for i in kept]


def _picture(picture: Value) -> Value:
    if picture["kind"] == "heat maps":
        names = ("maps", "rows", "columns", "label")
        drawn = drawings.heat_maps(*(picture[name] for name in names))
    else:
        drawn = drawings.curves(*(picture[name] for name in ("lines", "across", "up")))
    return picture | {"drawing": _safe(drawn)}


def _safe(drawing: str) -> Any:
    """Marks a drawing as safe HTML: matplotlib has already escaped its text."""
    import markupsafe

    return markupsafe.Markup(drawing)


def _jinja2() -> Any:
    try:
        import jinja2
    except ImportError:
        raise errors.needs("A report", "jinja2") from None
    return jinja2
