"""Drawings of a report as inline SVG, by matplotlib (the extra `report`).

Lines and text have the colour of the page's text, so that a drawing fits light and dark
pages.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import textwrap
import warnings
from collections.abc import Iterator, Mapping, Sequence
from typing import Any
from xml.etree import ElementTree

import numpy as np

# Placeholders, which `_svg` replaces: the page's text colour, and faint lines.
_INK = "#010203"
_FAINT = "#040506"
_COLOURS = ("#3b82c4", "#d9772f", "#3f9a63", "#b0569e", "#8a7a3d", "#6b6fb5")
_SIZE = (4.4, 2.9)  # inches
for _prefix, _space in (("", "2000/svg"), ("xlink", "1999/xlink")):
    ElementTree.register_namespace(_prefix, f"http://www.w3.org/{_space}")


def curves(
    lines: Mapping[str, Sequence[Any]],
    across: str,
    up: str,
    *,
    diagonal: bool = False,
    best: Mapping[str, Any] | None = None,
) -> str:
    """Draws a line for each name.

    Args:
        lines: By name, pairs (x, y); points whose y is None are skipped.
        across: Label of the x-axis.
        up: Label of the y-axis.
        diagonal: Whether to draw x = y, too.
        best: By name, the x of the point to mark with a star.

    Returns:
        The SVG element.
    """
    with _drawing() as (figure, axis):
        if diagonal:
            axis.plot([0, 1], [0, 1], color=_FAINT, linestyle="--", linewidth=1)
        for (title, points), colour in zip(lines.items(), _COLOURS * 9, strict=False):
            name = _clipped(title, 30)
            known = [(x, y) for x, y in points if y is not None]
            xs, ys = zip(*known, strict=True) if known else ((), ())
            shape = "o" if len(known) < 40 else None
            axis.plot(
                xs,
                ys,
                color=colour,
                marker=shape,
                markersize=3,
                label=_clipped(name, 30),
            )
            mark = (best or {}).get(title)
            chosen = [(x, y) for x, y in known if x == mark]
            axis.plot(*zip(*chosen, strict=True), "*", color=colour, markersize=11) if (
                chosen
            ) else None
        return _finish(figure, axis, across, up, legend=len(lines) > 1)


def bars(groups: Sequence[str], values: Mapping[str, Sequence[Any]], up: str) -> str:
    """Draws a bar for each group and name; a value of None has height 0."""
    with _drawing() as (figure, axis):
        width = 0.8 / max(len(values), 1)
        places = np.arange(len(groups))
        for i, (title, its) in enumerate(values.items()):
            name = _clipped(title, 30)
            heights = [0.0 if x is None else x for x in its]
            shift = (i - (len(values) - 1) / 2) * width
            colour = _COLOURS[i % len(_COLOURS)]
            axis.bar(
                places + shift,
                heights,
                width * 0.92,
                color=colour,
                label=_clipped(name, 30),
            )
        axis.set_xticks(
            places, [textwrap.fill(_clipped(name, 40), 14) for name in groups]
        )
        return _finish(figure, axis, "", up, legend=len(values) > 1)


def reliability(
    bins: Mapping[str, tuple[Sequence[Any], Sequence[Any]]],
) -> str:
    """Draws accuracy over confidence (a reliability diagram), a line for each name."""
    lines = {
        name: [
            (x, y)
            for x, y in zip(predicted, true, strict=True)
            if x is not None and y is not None
        ]
        for name, (predicted, true) in bins.items()
    }
    return curves(lines, "predicted probability", "share that is right", diagonal=True)


def heat_maps(
    maps: Mapping[str, Any],
    rows: Sequence[str],
    columns: Sequence[str],
    label: str,
) -> str:
    """Draws matrices with words on both axes; darker is larger.

    Args:
        maps: By title, matrices `[rows, columns]` with values from 0 up.
        rows: Words on the y-axis.
        columns: Words on the x-axis.
        label: Label of the colour bar.

    References:
        Chen et al. (2019), Figure 4; Li et al. (2020), the attention heat maps.
    """
    across = min(len(maps), 3)
    down = -(-len(maps) // across)
    rows, columns = ([_clipped(word) for word in side] for side in (rows, columns))
    longest = max(map(len, (*rows, *columns)), default=0)
    side = max(0.24 * max(len(rows), len(columns)) + 0.075 * longest + 0.4, 2.2)
    size = (side * across + 0.8, side * down)
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
        return _svg(figure)


def _clipped(text: str, most: int = 18) -> str:
    """Shortens a text for a drawing, and replaces control characters."""
    text = "".join(c if c.isprintable() else "·" for c in text[: most + 1])
    return text if len(text) <= most else f"{text[: most - 1]}…"


def is_there() -> bool:
    """Returns whether matplotlib is installed."""
    try:
        import matplotlib  # noqa: F401
    except ImportError:
        return False
    return True


@contextlib.contextmanager
def _drawing(
    size: tuple[float, float] = _SIZE, down: int = 1, across: int = 1
) -> Iterator[tuple[Any, Any]]:
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
        figure, axes = pyplot.subplots(
            down, across, figsize=size, layout="constrained", squeeze=True
        )
        figure.patch.set_alpha(0.0)
        for axis in np.ravel(axes):
            axis.patch.set_alpha(0.0)
        try:
            yield figure, axes
        finally:
            pyplot.close(figure)


def _finish(figure: Any, axis: Any, across: str, up: str, legend: bool) -> str:
    axis.set_xlabel(across)
    axis.set_ylabel(up)
    axis.grid(alpha=0.25, axis="y")
    axis.set_axisbelow(True)
    if legend:
        place = {"loc": "lower left", "bbox_to_anchor": (0.0, 1.0)}
        axis.legend(frameon=False, ncols=3, fontsize=8, labelcolor=_INK, **place)
    return _svg(figure)


def _svg(figure: Any) -> str:
    """Returns a drawing as an SVG element with unique ids and the page's colours."""
    file = io.StringIO()
    figure.savefig(file, format="svg", transparent=True, metadata={"Date": None})
    text = file.getvalue()
    own = f"d{hashlib.sha256(text.encode()).hexdigest()[:8]}-"
    root = ElementTree.fromstring(text)
    for about in root.findall("{*}metadata"):
        root.remove(about)
    for element in root.iter():
        for name, value in element.items():
            if name == "id":
                value = own + value
            elif name.endswith("href") and value.startswith("#"):
                value = f"#{own}{value[1:]}"
            for before, after in (
                ("url(#", f"url(#{own}"),
                (_INK, "currentColor"),
                (_FAINT, "var(--faint)"),
            ):
                value = value.replace(before, after)
            element.set(name, value)
    return ElementTree.tostring(root, encoding="unicode")
