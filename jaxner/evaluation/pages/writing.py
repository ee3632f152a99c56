"""Writes a report as one HTML file, and the same content as JSON and CSV.

The page loads no other files and runs no scripts. Everything that comes from a text or
a run is escaped. The templates are in `templates/`.
"""

from __future__ import annotations

import csv
import io
import json
import os
from collections.abc import Iterator
from pathlib import Path
from types import MappingProxyType
from typing import Any

from jaxner import errors, writing
from jaxner.evaluation.pages import drawings, rows
from jaxner.evaluation.scoring import jaxner_version

Value = dict[str, Any]
# Parts that a run may lack, such as those from probabilities or a run folder.
NOTHING = MappingProxyType({})
_OPTIONAL: Value = {
    **dict.fromkeys(("by_rule", "confusion", "calibration", "about"), NOTHING),
    "calibration_before": NOTHING,
    "temperature": (),
    "thresholds": NOTHING,
    **dict.fromkeys(("breakdowns", "learning", "speed", "pictures", "tables"), ()),
    **dict.fromkeys(("confident_mistakes", "uncertain_hits", "uncertain_text"), ()),
    "span_rule": None,
    "decoding": None,
    "inside_note": "",
    "best_epoch": None,
}
_ENOUGH = 10  # predictions that a bin needs to be drawn


def check(
    path: str | os.PathLike[str], *sources: str | os.PathLike[str] | None
) -> None:
    """Checks, before any other work, that a report can be written.

    Args:
        path: The file of the page.
        sources: Files that none of its three files must replace.

    Raises:
        ImportError: matplotlib or jinja2 is missing; the message names the extra.
        OSError: One of the files cannot be written; see `jaxner.writing.check`.
        ValueError: The name does not end with `.html`, or a file is a source.
    """
    if Path(path).suffix.lower() not in (".html", ".htm"):
        raise ValueError(f"Expected a report with the suffix .html, got {str(path)!r}")
    for file in _files(path):
        writing.check(file, *sources)
    if not drawings.is_there():
        raise errors.needs("A report", "matplotlib")
    _jinja2()


def write(path: str | os.PathLike[str], report: Value) -> list[Path]:
    """Writes a report: the page, and beside it the same content as JSON and CSV.

    Args:
        path: The file of the page.
        report: `title`, `runs` and `comparisons`, as `commands.reporting` gathers them.

    Returns:
        The paths of the three files.

    Raises:
        ImportError: matplotlib or jinja2 is missing.

    Example:
        >>> import tempfile
        >>> from jaxner.evaluation import describing
        >>> one = describing.Prediction([["Rome"]], [["B-LOC"]], [["O"]], "BIO")
        >>> run = {"name": "mine", **describing.describe(one, rounds=5)}
        >>> path = Path(tempfile.mkdtemp(), "report.html")
        >>> [file.name for file in write(path, {"title": "Mine", "runs": [run]})]
        ['report.html', 'report.json', 'report.csv']
    """
    files = _files(path)
    content = json.dumps(report, indent=1, ensure_ascii=False)
    for file, text in zip(files, (html(report), content, table(report)), strict=True):
        file.write_text(text if text.endswith("\n") else text + "\n", "utf-8")
    return files


def _files(path: str | os.PathLike[str]) -> list[Path]:
    """Returns the paths of the page, and of its content as JSON and as CSV."""
    page = Path(path)
    return [page, page.with_suffix(".json"), page.with_suffix(".csv")]


def html(report: Value) -> str:
    """Returns a report as one HTML page.

    Raises:
        ImportError: matplotlib or jinja2 is missing.
    """
    jinja2 = _jinja2()
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("jaxner.evaluation.pages"),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )
    environment.filters |= rows.FILTERS
    page = environment.get_template("page.html.j2")
    runs = [_OPTIONAL | run for run in report["runs"]]
    return page.render(
        report={"jaxner": jaxner_version(), "comparisons": [], **report, "runs": runs},
        main=rows.main(runs),
        drawings=[_drawn(run) for run in runs],
        overlaid=_overlaid(runs) if len(runs) > 1 else {},
    )


def table(report: Value) -> str:
    """Returns all figures of a report as CSV: run, table, row, column, value."""
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(("run", "table", "row", "column", "value"))
    for run in report["runs"]:
        for line in _lines(run):
            writer.writerow((run["name"], *line))
    for one in report.get("comparisons", ()):
        name = f"{one['first']} against {one['second']}"
        for figure, its in one["figures"].items():
            for column, value in its.items():
                writer.writerow((name, "comparison", figure, column, value))
    return file.getvalue()


def _lines(run: Value) -> Iterator[tuple[str, str, str, Any]]:
    for name in ("figures", "by_rule"):
        for row, its in run.get(name, {}).items():
            for column, value in its.items():
                yield name, row, column, value
    for its in run.get("types", ()):
        for column, value in its.items():
            if column != "type":
                yield "types", its["type"], column, value
    for part in run.get("breakdowns", ()):
        for its in part["rows"]:
            for column, value in its.items():
                if column != "group":
                    yield part["name"], its["group"], column, value
    confusion = run.get("confusion", {"types": [], "counts": []})
    for row, counts in zip(confusion["types"], confusion["counts"], strict=True):
        for column, value in zip(confusion["types"], counts, strict=True):
            yield "confusion", row, column, value
    for its in run["errors"]["largest"]:
        yield "errors", its["error"], "count", its["count"]
    for name in ("calibration_before", "calibration"):
        for row, its in run.get(name, {}).items():
            for column, value in its.items():
                if not isinstance(value, (dict, list)):
                    yield name.replace("_", " "), row, column, value
    for its in run.get("learning", ()):
        for column, value in its.items():
            yield "learning", f"epoch {its['epoch']}", column, value
    for row, value in run.get("speed", ()):
        yield "speed", row, "", value


def _drawn(run: Value) -> dict[str, Any]:
    """Draws the available parts of one run."""
    found: dict[str, Any] = {"pictures": [_picture(x) for x in run.get("pictures", ())]}
    found["calibration"] = [
        _safe(drawings.reliability({of: _bins(its) for of, its in side.items()}))
        for side in (run.get("calibration_before"), run.get("calibration"))
        if side
    ]
    if curve := run.get("thresholds"):
        lines = {
            name: list(zip(curve["thresholds"], curve[name], strict=True))
            for name in ("precision", "recall")
        }
        found["thresholds"] = _safe(drawings.curves(lines, "probability", "share"))
    if learning := run.get("learning"):
        points = rows.learning(run)
        best = {"dev": run.get("best_epoch")}
        name = rows.figure_name(run)
        drawn = drawings.curves({"dev": points}, "epoch", f"dev {name} (%)", best=best)
        found["learning"] = _safe(drawn)
        losses = [(x["epoch"], x.get("loss")) for x in learning]
        found["loss"] = _safe(drawings.curves({"loss": losses}, "epoch", "loss"))
    found["breakdowns"] = [
        _safe(
            drawings.bars(groups, {"F1": [row["f1"] for row in part["rows"]]}, "F1 (%)")
        )
        for part in run.get("breakdowns", ())
        for groups in [[row["group"] for row in part["rows"]]]
    ]
    empty = dict.fromkeys(("calibration", "thresholds", "learning", "loss"))
    return empty | found


def _overlaid(runs: list[Value]) -> dict[str, Any]:
    """Draws the figures of several runs side by side."""
    name = rows.figure_name(runs[0])
    lines = {run["name"]: rows.learning(run) for run in runs if run.get("learning")}
    best = {run["name"]: run.get("best_epoch") for run in runs}
    found: dict[str, Any] = dict.fromkeys(("learning", "types", "calibration"))
    if lines:
        drawn = drawings.curves(lines, "epoch", f"dev {name} (%)", best=best)
        found["learning"] = _safe(drawn)
    types = sorted({row["type"] for run in runs for row in run["types"]})
    if len(types) <= 12:
        values = {
            run["name"]: [by_type.get(kind) for kind in types]
            for run in runs
            for by_type in [{row["type"]: row["f1"] for row in run["types"]}]
        }
        found["types"] = _safe(drawings.bars(types, values, "F1 (%)"))
    found["breakdowns"] = []
    for part in runs[0].get("breakdowns", ()):
        groups = [row["group"] for row in part["rows"]]
        its = {
            run["name"]: [row["f1"] for row in other["rows"]]
            for run in runs
            for other in run.get("breakdowns", ())
            if other["name"] == part["name"]
        }
        drawn = _safe(drawings.bars(groups, its, "F1 (%)"))
        found["breakdowns"].append({"name": part["name"], "drawing": drawn})
    bins = {
        run["name"]: _bins(run["calibration"]["tokens"])
        for run in runs
        if run.get("calibration")
    }
    if bins:
        found["calibration"] = _safe(drawings.reliability(bins))
    return found


def _bins(its: Value) -> tuple[list[Any], list[Any]]:
    """Returns confidence and accuracy of the bins with enough predictions."""
    bins = its["bins"]
    enough = min(_ENOUGH, max(bins["counts"], default=0))
    kept = [i for i, count in enumerate(bins["counts"]) if count >= enough]
    return [bins["confidence"][i] for i in kept], [bins["accuracy"][i] for i in kept]


def _picture(its: Value) -> dict[str, Any]:
    if its["kind"] == "heat maps":
        drawn = drawings.heat_maps(
            its["maps"], its["rows"], its["columns"], its["label"]
        )
    else:
        drawn = drawings.curves(its["lines"], its["across"], its["up"])
    return {"title": its["title"], "note": its["note"], "drawing": _safe(drawn)}


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
