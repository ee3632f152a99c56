"""Plots, by matplotlib (the extra `plots`)."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

SUFFIXES = (".png", ".pdf", ".svg")


def check(path: str) -> None:
    """Checks, before any work is done, that a plot can be written.

    Raises:
        ValueError: The file has an unknown suffix.
        ImportError: There is no matplotlib.
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
    """Draws what changes with Γ and with M, as UANet's Figure 4 does.

    The figure of the paper shows differences from the first point; here are the scores.

    Args:
        path: The file.
        by_threshold: Points with `threshold`, `draft`, `refined` and `score`; may be
            empty.
        by_samples: Points with `samples`, `draft`, `refined` and `score`.
        figure: What a score is.
        title: Of the plot.

    References:
        Gui et al., "Uncertainty-Aware Label Refinement for Sequence Labeling", EMNLP
        2020, Figure 4.
    """
    name = {"f1": "F1", "accuracy": "accuracy"}[figure]
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
                continue  # there is a draft alone
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


def _pyplot():
    try:
        import matplotlib
    except ImportError:
        raise ImportError(
            "Plots need matplotlib: pip install 'jaxner[plots]'"
        ) from None
    matplotlib.use("Agg")  # no screen is needed
    from matplotlib import pyplot

    return pyplot
