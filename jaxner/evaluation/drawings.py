"""Drawings of a report's values by matplotlib, as inline SVG.

Lines and text have the colour of the page's text, so that a drawing fits light
and dark pages.
"""

from __future__ import annotations

import io
import itertools
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any
from xml.dom import minidom

import numpy as np

from jaxner import errors
from jaxner.evaluation.report import Value
from jaxner.wording import one_line

# Placeholders, which `_drawn` replaces: the page's text colour, and faint lines.
_INK = "#010203"
_FAINT = "#040506"
_COLOURS = ("#3b82c4", "#d9772f", "#3f9a63", "#b0569e", "#8a7a3d", "#6b6fb5")
_MIN_COUNT = 10  # predictions that a bin needs to be drawn


def learning(runs: Sequence[Value], figure: str) -> str:
    """Draws the dev figure of each epoch, where it is defined."""
    key = f"dev_{figure.lower()}"
    lines = {
        run["name"]: [(x["epoch"], x.get(key)) for x in run.get("learning", ())]
        for run in runs
    }
    best = {run["name"]: run.get("best_epoch") for run in runs}
    return curves(lines, "epoch", f"dev {figure} (%)", best=best)


def reliability(sides: Mapping[str, Value]) -> str:
    """Draws confidence and accuracy of the bins with enough predictions."""
    lines = {}
    for name, side in sides.items():
        bins = side["bins"]
        min_count = min(_MIN_COUNT, max(bins["counts"], default=0))
        points = zip(bins["confidence"], bins["accuracy"], bins["counts"], strict=True)
        lines[name] = [(x, y) for x, y, n in points if n and n >= min_count]
    x_label, y_label = "predicted probability", "share that is right"
    return curves(lines, x_label, y_label, diagonal=True)


def curves(
    lines: Mapping[str, Sequence[Sequence[Any]]],
    x_label: str,
    y_label: str,
    *,
    diagonal: bool = False,
    best: Mapping[str, Any] | None = None,
) -> str:
    """Draws lines as an SVG element, with gaps where y is None.

    `diagonal` adds x = y; `best` has the x of the points to mark with a star, by name.
    """
    points = {name: np.array(x, float).reshape(-1, 2) for name, x in lines.items()}

    def plot(figure: Any, axis: Any) -> None:
        if diagonal:
            axis.plot([0, 1], [0, 1], color=_FAINT, linestyle="--", linewidth=1)
        for name, line in points.items():
            shape = "o" if len(line) < 40 else None
            axis.plot(*line.T, marker=shape, label=_in_legend(name))
        axis.locator_params(axis="x", integer=x_label == "epoch")
        _label(axis, x_label, y_label, legend=len(lines) > 1)
        for name, star in (best or {}).items():
            stars = points[name][points[name][:, 0] == star]
            axis.plot(*stars.T, "*", color=_INK, markersize=11)

    return _drawn(plot)


def bars(rows: Mapping[str, Mapping[str, Value]]) -> str:
    """Draws the F1 of each group, for each name; without one, the bar has height 0."""
    groups = list(dict.fromkeys(itertools.chain(*rows.values())))

    def plot(figure: Any, axis: Any) -> None:
        axis.set_ylim(0, 100)  # else of bars without height
        axis.set_autoscaley_on(
            any(x.get("f1") for r in rows.values() for x in r.values())
        )
        width = 0.8 / max(len(rows), 1)
        places = np.arange(len(groups))
        for i, (name, row) in enumerate(rows.items()):
            shift = (i - (len(rows) - 1) / 2) * width
            heights = [row.get(x, {}).get("f1") or 0.0 for x in groups]
            axis.bar(places + shift, heights, 0.92 * width, label=_in_legend(name))
        names = [*map(_clipped, groups)]
        axis.set_xticks(places, names, rotation=90 if len(" ".join(names)) > 50 else 0)
        _label(axis, "", "F1 (%)", legend=len(rows) > 1)

    return _drawn(plot)


def heat_maps(
    maps: Mapping[str, Any], rows: Sequence[str], columns: Sequence[str], label: str
) -> str:
    """Draws matrices with words on both axes; white is 0, darker is larger.

    `maps` has matrices `[rows, columns]` by title, with values from 0 up. All share one
    scale, shown by a colour bar with a label. As Chen et al. (2019), Figure 4, and the
    attention heat maps of Li et al. (2020).
    """
    num_columns = min(len(maps), 3)
    num_rows = -(-len(maps) // num_columns)
    rows, columns = ([_clipped(word) for word in side] for side in (rows, columns))
    longest = 0.075 * max(map(len, (*rows, *columns)))  # inches
    width = max(0.24 * len(columns), 1.4) + longest + 0.4
    height = max(0.24 * len(rows), 0.7) + longest + 0.6
    size = (width * num_columns + 0.8, max(height * num_rows, 2.2))
    top = max([1e-9, *(float(np.max(x, initial=0.0)) for x in maps.values())])

    def plot(figure: Any, axes: Any) -> None:
        image: Any = None
        for axis, (title, matrix) in zip(np.ravel(axes), maps.items(), strict=False):
            image = axis.imshow(np.asarray(matrix), cmap="Blues", vmin=0.0, vmax=top)
            axis.set_xticks(range(len(columns)), columns, rotation=90, fontsize=8)
            axis.set_yticks(range(len(rows)), rows, fontsize=8)
            axis.tick_params(length=0)
            axis.set_title(_clipped(title, 40), fontsize=9)
        for axis in np.ravel(axes)[len(maps) :]:
            axis.set_visible(False)
        figure.colorbar(image, ax=axes, shrink=0.7).set_label(label)

    return _drawn(plot, size, (num_rows, num_columns))


def _clipped(text: str, limit: int = 18) -> str:
    text = one_line(text)
    return text if len(text) <= limit else f"{text[: limit - 1]}…"


def _in_legend(name: str) -> str:
    return f" {_clipped(name, 24)}"  # matplotlib hides what begins with "_"


def _label(axis: Any, x_label: str, y_label: str, legend: bool) -> None:
    axis.set_xlabel(x_label)
    axis.set_ylabel(y_label)
    axis.grid(alpha=0.25, axis="y")
    axis.set_axisbelow(True)
    if legend:
        position = {"loc": "lower left", "bbox_to_anchor": (0.0, 1.0)}
        axis.legend(frameon=False, ncols=2, fontsize=8, labelcolor=_INK, **position)


def _drawn(
    plot: Callable[[Any, Any], None],
    size: tuple[float, float] = (4.4, 2.9),  # inches
    shape: tuple[int, int] = (1, 1),  # rows and columns of axes
) -> str:
    """Returns what a function plots as SVG, whose references are hashes of content."""
    matplotlib = errors.optional("matplotlib", "A drawing")
    from matplotlib.figure import Figure  # without pyplot, which has a backend

    style: Any = {
        **{f"{name}.color": _INK for name in ("text", "xtick", "ytick")},
        **{"axes.labelcolor": _INK, "axes.edgecolor": _FAINT, "grid.color": _FAINT},
        **{"svg.fonttype": "none", "svg.hashsalt": "jaxner", "font.size": 9},
        **{"text.parse_math": False, "axes.unicode_minus": False},
        **{"axes.spines.top": False, "axes.spines.right": False},
        **{"axes.prop_cycle": matplotlib.cycler(color=_COLOURS)},
        **{"font.family": "sans-serif", "lines.markersize": 3},
    }
    file = io.BytesIO()
    with matplotlib.rc_context(style), warnings.catch_warnings():
        # Browsers have the glyphs that matplotlib's font lacks.
        warnings.filterwarnings("ignore", message="Glyph")
        figure = Figure(figsize=size, layout="constrained")
        axes = figure.subplots(*shape)
        for axis in np.ravel(axes):
            axis.patch.set_alpha(0.0)
        plot(figure, axes)
        metadata = dict.fromkeys(("Date", "Creator", "Format", "Type"))  # none
        figure.savefig(file, format="svg", transparent=True, metadata=metadata)
    root: Any = minidom.parseString(file.getvalue()).documentElement
    # Attributes alone: a text that looks like a colour stays as it is.
    for element in root.getElementsByTagName("*"):
        for name, value in element.attributes.items():
            value = value.replace(_INK, "currentColor").replace(_FAINT, "var(--faint)")
            element.setAttribute(name, value)
    return root.toxml()
