"""Writes a report as one HTML file, and the same content as JSON.

The page loads no other files and runs no scripts. Everything that comes from a text or
a run is escaped. The templates are in `templates/`.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from jaxner import __version__, errors, outputs
from jaxner.errors import InputError
from jaxner.evaluation import drawings, report
from jaxner.evaluation.report import Value
from jaxner.outputs import AnyPath
from jaxner.wording import printable

_TILES = ("accuracy", "known accuracy", "oov accuracy", "f1", "precision", "recall")
_TILES += ("macro f1", "exact match f1", "token accuracy")
"""The headline figures of a run."""


def check(path: AnyPath, sources: Sequence[AnyPath] = ()) -> None:
    """Checks, before any other work, that a report of some sources can be written."""
    if Path(path).suffix.lower() not in (".html", ".htm"):
        raise InputError(f"Expected a report with the suffix .html, got {str(path)!r}")
    outputs.check(*files(path), sources=sources)
    outputs.check_side(files(path)[1], path, {"title", "runs"})
    errors.optional("matplotlib", "A report", "jinja2")


def write(path: AnyPath, content: Value) -> list[Path]:
    """Writes a report: the page, and beside it the same content as JSON.

    `content` has `title`, `runs` (each with `name` and what `report.describe` returned)
    and `comparisons`.

    Example:
        >>> import tempfile
        >>> labels = report.Prediction([["Rome"]], [["B-LOC"]], [["O"]], "BIO")
        >>> run = {"name": "mine", **report.describe(labels, rounds=5)}
        >>> path = Path(tempfile.mkdtemp(), "report.html")
        >>> [file.name for file in write(path, {"title": "Mine", "runs": [run]})]
        ['report.html', 'report.json']
    """
    as_json = json.dumps(content, indent=1, ensure_ascii=False)
    paths = files(path)
    for file, text in zip(paths, (html(content), as_json), strict=True):
        outputs.write_text(file, text.removesuffix("\n") + "\n")
    return paths


def files(path: AnyPath) -> list[Path]:
    """Returns the files of a report: the page, and its content as JSON."""
    return [Path(path), Path(path).with_suffix(".json")]


def html(content: Value) -> str:
    """Returns a report as one HTML page."""
    jinja2 = errors.optional("jinja2", "A report")
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("jaxner.evaluation"),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["shown"] = report.shown
    environment.globals |= {"report": report, "drawings": drawings}
    environment.globals |= {"tiles": _TILES, "version": __version__}
    runs = content["runs"]
    by_type = {run["name"]: run["scores"]["by_type"] for run in runs}
    is_few = len({kind for rows in by_type.values() for kind in rows}) <= 12
    groups = {"By type": by_type} if is_few else {}
    for part in runs[0].get("groups", ()):
        groups[part] = {run["name"]: run["groups"].get(part, {}) for run in runs}
    tokens = {
        x["name"]: x["calibration"]["tokens"] for x in runs if x.get("calibration")
    }
    page = environment.get_template("page.html.j2")
    return printable(page.render(content, groups=groups, tokens=tokens))
