"""Drawings by matplotlib: inline SVG for the page, or files.

In SVG, lines and text have the colour of the page's text, so that a drawing fits light
and dark pages.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import textwrap
import warnings
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np

from jaxner import errors
from jaxner.errors import InputError

SUFFIXES = (".png", ".pdf", ".svg")
# Placeholders, which `_svg` replaces: the page's text colour, and faint lines.
_INK = "#010203"
_FAINT = "#040506"
_COLOURS = ("#3b82c4", "#d9772f", "#3f9a63", "#b0569e", "#8a7a3d", "#6b6fb5")
_SIZE = (4.4, 2.9)  # inches
for _prefix, _space in (("", "2000/svg"), ("xlink", "1999/xlink")):
    ElementTree.register_namespace(_prefix, f"http://www.w3.org/{_space}")

Lines = Mapping[str, Sequence[Sequence[Any]]]


def check(path: str) -> None:
    """Checks, before any other work, that a plot can be written.

    Raises:
        InputError: The file has an unknown suffix.
        ImportError: matplotlib is not installed.
    """
    if Path(path).suffix.lower() not in SUFFIXES:
        raise InputError(
            f"Expected a plot with the suffix {', '.join(SUFFIXES)}, got {path!r}"
        )
    require("A plot")


def require(what: str) -> None:
    """Raises ImportError if matplotlib is not installed."""
    try:
        import matplotlib  # noqa: F401
    except ImportError:
        raise errors.needs(what, "matplotlib") from None


def curves(
    lines: Lines,
    across: str,
    up: str,
    *,
    diagonal: bool = False,
    best: Mapping[str, Any] | None = None,
) -> str:
    """Draws a line for each name, as an SVG element.

    Args:
        lines: By name, pairs (x, y); points whose y is None are skipped.
        across: Label of the x-axis.
        up: Label of the y-axis.
        diagonal: Whether to draw x = y, too.
        best: By name, the x of the point to mark with a star.
    """
    with _drawing() as (figure, axis):
        if diagonal:
            axis.plot([0, 1], [0, 1], color=_FAINT, linestyle="--", linewidth=1)
        _curves(axis, lines, across, up, best or {})
        return _svg(figure)


def _curves(
    axis: Any, lines: Lines, across: str, up: str, best: Mapping[str, Any]
) -> None:
    for (name, points), colour in zip(lines.items(), _COLOURS * 9, strict=False):
        known = [(x, y) for x, y in points if y is not None and not np.isnan(y)]
        xs, ys = [x for x, _ in known], [y for _, y in known]
        shape = "o" if len(known) < 40 else None
        style = {"color": colour, "marker": shape, "markersize": 3}
        axis.plot(xs, ys, label=_clipped(name, 30), **style)
        for x, y in known:
            if x == best.get(name):
                axis.plot([x], [y], "*", color=colour, markersize=11)
    _label(axis, across, up, legend=len(lines) > 1)


def reliability(bins: Mapping[str, tuple[Sequence[Any], Sequence[Any]]]) -> str:
    """Draws accuracy over confidence (a reliability diagram), a line for each name."""
    lines = {name: list(zip(*sides, strict=True)) for name, sides in bins.items()}
    return curves(lines, "predicted probability", "share that is right", diagonal=True)


def bars(groups: Sequence[str], values: Mapping[str, Sequence[Any]], up: str) -> str:
    """Draws a bar for each group and name; a value of None has height 0."""
    with _drawing() as (figure, axis):
        width = 0.8 / max(len(values), 1)
        places = np.arange(len(groups))
        for i, (name, column) in enumerate(values.items()):
            heights = [0.0 if x is None else x for x in column]
            shift = (i - (len(values) - 1) / 2) * width
            style = {"color": _COLOURS[i % len(_COLOURS)], "label": _clipped(name, 30)}
            axis.bar(places + shift, heights, width * 0.92, **style)
        names = [textwrap.fill(_clipped(name, 40), 14) for name in groups]
        axis.set_xticks(places, names)
        _label(axis, "", up, legend=len(values) > 1)
        return _svg(figure)


def heat_maps(
    maps: Mapping[str, Any],
    rows: Sequence[str],
    columns: Sequence[str],
    label: str,
    path: str | None = None,
) -> str:
    """Draws matrices with words on both axes; white is 0, darker is larger.

    All maps share one scale, shown by a colour bar.

    Args:
        maps: By title, matrices `[rows, columns]` with values from 0 up.
        rows: Words on the y-axis.
        columns: Words on the x-axis.
        label: Label of the colour bar.
        path: A file to write; else an SVG element is returned.

    Raises:
        InputError: There are no maps, rows or columns.

    References:
        Chen et al. (2019), Figure 4; Li et al. (2020), the attention heat maps.
    """
    if not (maps and rows and columns):
        raise InputError("Expected at least one map with a row and a column")
    across = min(len(maps), 3)
    down = -(-len(maps) // across)
    rows, columns = ([_clipped(word) for word in side] for side in (rows, columns))
    longest = 0.075 * max(map(len, (*rows, *columns)))  # inches
    width = max(0.24 * len(columns), 1.4) + longest + 0.4
    height = max(0.24 * len(rows), 0.7) + longest + 0.6
    size = (width * across + 0.8, max(height * down, 2.2))
    top = max([1e-9, *(float(np.max(x, initial=0.0)) for x in maps.values())])
    with _drawing(size, down, across) as (figure, axes):
        image: Any = None
        for axis, (title, matrix) in zip(np.ravel(axes), maps.items(), strict=False):
            image = axis.imshow(np.asarray(matrix), cmap="Blues", vmin=0.0, vmax=top)
            axis.set_xticks(range(len(columns)), columns, rotation=90, fontsize=8)
            axis.set_yticks(range(len(rows)), rows, fontsize=8)
            axis.tick_params(length=0)
            axis.set_title(title, fontsize=9)
        for axis in np.ravel(axes)[len(maps) :]:
            axis.set_visible(False)
        figure.colorbar(image, ax=axes, shrink=0.7).set_label(label)
        return _finished(figure, path)


def sweep(path: str, panels: Sequence[tuple[Lines, str]], up: str, title: str) -> None:
    """Draws scores over Γ and over M side by side, as in UANet's Figure 4.

    The paper's figure shows differences from the first point; this one shows scores.
    `panels` has the lines of each panel, and the label of its x-axis.
    """
    size = (4.5 * len(panels), 3.4)
    with _drawing(size, 1, len(panels)) as (figure, axes):
        figure.suptitle(title)
        for axis, (lines, across) in zip(np.ravel(axes), panels, strict=True):
            _curves(axis, lines, across, up, {})
            if across.endswith("M"):
                values = [x for x, _ in next(iter(lines.values()))]
                axis.set_xscale("log", base=2)
                axis.set_xticks(values, [f"{value:g}" for value in values])
        _finished(figure, path)


def _clipped(text: str, most: int = 18) -> str:
    """Shortens a text for a drawing, and replaces control characters."""
    text = "".join(c if c.isprintable() else "·" for c in text[: most + 1])
    return text if len(text) <= most else f"{text[: most - 1]}…"


@contextlib.contextmanager
def _drawing(
    size: tuple[float, float] = _SIZE, down: int = 1, across: int = 1
) -> Iterator[tuple[Any, Any]]:
    require("A drawing")
    import matplotlib

    matplotlib.use("Agg")  # no screen is needed
    from matplotlib import pyplot

    style: Any = {
        **{f"{name}.color": _INK for name in ("text", "xtick", "ytick")},
        **{"axes.labelcolor": _INK, "axes.edgecolor": _FAINT, "grid.color": _FAINT},
        **{"svg.fonttype": "none", "svg.hashsalt": "jaxner", "font.size": 9},
        **{"text.parse_math": False, "axes.unicode_minus": False},
        **{"axes.spines.top": False, "axes.spines.right": False},
        "font.family": "sans-serif",
    }
    with matplotlib.rc_context(style), warnings.catch_warnings():
        # Browsers have the glyphs that matplotlib's font lacks.
        warnings.filterwarnings("ignore", message="Glyph")
        figure, axes = pyplot.subplots(down, across, figsize=size, layout="constrained")
        for axis in np.ravel(axes):
            axis.patch.set_alpha(0.0)
        try:
            yield figure, axes
        finally:
            pyplot.close(figure)


def _label(axis: Any, across: str, up: str, legend: bool) -> None:
    axis.set_xlabel(across)
    axis.set_ylabel(up)
    axis.grid(alpha=0.25, axis="y")
    axis.set_axisbelow(True)
    if legend:
        place = {"loc": "lower left", "bbox_to_anchor": (0.0, 1.0)}
        axis.legend(frameon=False, ncols=3, fontsize=8, labelcolor=_INK, **place)


def _finished(figure: Any, path: str | None) -> str:
    """Writes a drawing to a file, or returns it as an SVG element."""
    if path is None:
        return _svg(figure)
    figure.savefig(path, dpi=150, facecolor="white")
    return ""


def _svg(figure: Any) -> str:
    """Returns a drawing as an SVG element with unique ids and the page's colours."""
    file = io.StringIO()
    figure.savefig(file, format="svg", transparent=True, metadata={"Date": None})
    text = file.getvalue()
    prefix = f"d{hashlib.sha256(text.encode()).hexdigest()[:8]}-"
    replacements = {
        "url(#": f"url(#{prefix}",
        _INK: "currentColor",
        _FAINT: "var(--faint)",
    }
    root = ElementTree.fromstring(text)
    for about in root.findall("{*}metadata"):
        root.remove(about)
    for element in root.iter():
        for name, value in element.items():
            if name == "id":
                value = prefix + value
            elif name.endswith("href") and value.startswith("#"):
                value = f"#{prefix}{value[1:]}"
            for before, after in replacements.items():
                value = value.replace(before, after)
            element.set(name, value)
    return ElementTree.tostring(root, encoding="unicode")
