"""Plots, by matplotlib (the extra `plots`)."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from jaxner import errors

SUFFIXES = (".png", ".pdf", ".svg")
_NAMES = {"f1": "F1", "accuracy": "accuracy"}


def check(path: str) -> None:
    """Checks, before any other work, that a plot can be written.

    Raises:
        ValueError: The file has an unknown suffix.
        ImportError: matplotlib is not installed.
    """
    if Path(path).suffix.lower() not in SUFFIXES:
        raise ValueError(
            f"Expected a plot with the suffix {', '.join(SUFFIXES)}, got {path!r}"
        )
    _pyplot()


def sweep(
    path: str,
    by_threshold: Sequence[Any],
    by_samples: Sequence[Any],
    figure: str,
    title: str = "",
) -> None:
    """Draws scores over Γ and over M, as in UANet's Figure 4.

    The paper's figure shows differences from the first point; this one shows scores.

    Args:
        path: The file.
        by_threshold: Points with `threshold` (nats), `draft`, `refined` and `score`
            (percent); may be empty.
        by_samples: Points with `samples`, `draft`, `refined` and `score`.
        figure: The kind of score: "f1" or "accuracy".
        title: Title of the plot.

    References:
        Gui et al., "Uncertainty-Aware Label Refinement for Sequence Labeling", EMNLP
        2020, Figure 4.
    """
    name = _NAMES[figure]
    panels = [
        (points, [getattr(p, field) for p in points], axis)
        for points, field, axis in (
            (by_threshold, "threshold", "threshold Γ (nats)"),
            (by_samples, "samples", "passes M"),
        )
        if points
    ]
    figure_, axes = _pyplot().subplots(
        1, len(panels), figsize=(4.5 * len(panels), 3.4), squeeze=False
    )
    figure_.suptitle(title)
    for ax, (points, values, label) in zip(axes[0], panels, strict=True):
        for field, name_of_line, style in (
            ("draft", "draft", "--"),
            ("refined", "refinement", ":"),
            ("score", "mixed by Γ", "-"),
        ):
            if field != "draft" and not by_threshold:
                continue  # the tagger has only a draft
            scores = [getattr(p, field) for p in points]
            ax.plot(values, scores, style, marker="o", markersize=3, label=name_of_line)
        ax.set_xlabel(label)
        ax.set_ylabel(f"{name} (%)")
        ax.grid(alpha=0.3)
        if label.endswith("M"):
            ax.set_xscale("log", base=2)
            ax.set_xticks(values, [str(value) for value in values])
        ax.legend(frameon=False)
    figure_.tight_layout()
    figure_.savefig(path, dpi=150)
    _pyplot().close(figure_)


def by_length(
    path: str,
    ranges: Sequence[str],
    scores: Mapping[str, Sequence[float]],
    items: Sequence[int],
    what: str,
    figure: str,
) -> None:
    """Draws scores by length, one line per run, above the number of items.

    Args:
        path: The file.
        ranges: Names of the ranges of lengths.
        scores: By the name of the run, its score in each range, in percent; nan leaves
            a gap.
        items: Number of sentences or mentions in each range.
        what: The items: "sentences" or "mentions".
        figure: The kind of score: "f1" or "accuracy".

    References:
        Gui et al. (2020), Figure 3, right.
    """
    drawing, ax = _pyplot().subplots(figsize=(6.0, 3.8))
    places = range(len(ranges))
    counts = ax.twinx()
    counts.bar(places, items, width=0.6, color="0.9", zorder=0)
    counts.set_ylabel(what, color="0.45")
    counts.locator_params(axis="y", integer=True)
    counts.tick_params(axis="y", colors="0.45")
    ax.set_zorder(counts.get_zorder() + 1)
    ax.patch.set_visible(False)
    for (name, values), marker in zip(scores.items(), "osD^vPX*<>" * 9, strict=False):
        ax.plot(places, values, marker=marker, markersize=5, label=name)
    ax.set_xticks(places, ranges)
    ax.set_xlabel(f"length of {what} (tokens)")
    ax.set_ylabel(f"{_NAMES[figure]} (%)")
    ax.grid(alpha=0.3, axis="y")
    ax.legend(frameon=False, loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=2)
    drawing.tight_layout()
    drawing.savefig(path, dpi=150)
    _pyplot().close(drawing)


def heat_maps(
    path: str,
    maps: Mapping[str, np.ndarray],
    rows: Sequence[str],
    columns: Sequence[str],
    label: str,
) -> None:
    """Draws matrices with words on both axes; white is 0, darker is larger.

    All maps share one scale, shown by a colour bar.

    Args:
        path: The file.
        maps: By title, matrices `[rows, columns]` with values from 0 to 1.
        rows: Words on the y-axis.
        columns: Words on the x-axis.
        label: Label of the colour bar.

    Raises:
        ValueError: There are no maps, rows or columns.

    References:
        Chen et al. (2019), Figure 4; Li et al. (2020), the attention heat maps.
    """
    if not (maps and rows and columns):
        raise ValueError("Expected at least one map with a row and a column")
    across = min(len(maps), 3)
    down = -(-len(maps) // across)
    cell = 0.34  # inches: words in 9 points do not touch
    longest = 0.085 * max(map(len, (*rows, *columns)))
    width = max(cell * len(columns), 1.6) + longest + 0.4
    height = max(cell * len(rows), 0.7) + longest + 0.6
    drawing, axes = _pyplot().subplots(
        down,
        across,
        figsize=(width * across + 1.0, max(height * down, 2.2)),
        squeeze=False,
        layout="constrained",
    )
    top = max(float(np.max(matrix)) for matrix in maps.values())
    image: Any = None
    for ax, (title, matrix) in zip(axes.flat, maps.items(), strict=False):
        image = ax.imshow(matrix, cmap="Blues", vmin=0.0, vmax=top or 1.0)
        ax.set_xticks(range(len(columns)), columns, rotation=90, fontsize=9)
        ax.set_yticks(range(len(rows)), rows, fontsize=9)
        ax.set_xticks(np.arange(len(columns) - 1) + 0.5, minor=True)
        ax.set_yticks(np.arange(len(rows) - 1) + 0.5, minor=True)
        ax.grid(which="minor", color="white", linewidth=0.8)
        ax.tick_params(which="both", length=0)
        if title:
            ax.set_title(title, fontsize=10)
    for ax in list(axes.flat)[len(maps) :]:
        ax.set_visible(False)
    # As thick as a cell, however large the maps are.
    tall = max(height * down, 2.2)
    bar = drawing.colorbar(image, ax=axes, aspect=max(tall / cell, 8), pad=0.03)
    bar.set_label(label, fontsize=9 + 2 * (len(maps) > 1))
    drawing.savefig(path, dpi=150)
    _pyplot().close(drawing)


def _pyplot():
    try:
        import matplotlib
    except ImportError:
        raise errors.needs("A plot", "matplotlib") from None
    matplotlib.use("Agg")  # no screen is needed
    from matplotlib import pyplot

    return pyplot
