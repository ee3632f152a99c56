"""Calibration of probabilities, and thresholds.

A prediction is a probability and whether it was correct. For a token: whether its
predicted label is the gold label; for an entity: whether it is a gold entity.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from jaxner.errors import InputError
from jaxner.fields import Size, checked


class Reliability(NamedTuple):
    """Mean probability and share of correct predictions in K bins; nan in empty ones.

    There are K + 1 edges, from 0 to 1.
    """

    edges: np.ndarray
    counts: np.ndarray
    confidence: np.ndarray
    accuracy: np.ndarray


class Calibration(NamedTuple):
    """How well probabilities match outcomes; nan without predictions.

    Attributes:
        error: Expected calibration error, 0 to 1: the mean over the bins, weighted by
            their counts, of the difference between confidence and accuracy (Naeini,
            Cooper and Hauskrecht, AAAI 2015).
        largest_error: Maximum calibration error: the largest difference in any bin.
        brier: Brier score: mean squared difference between the probability and the
            outcome (0 or 1); 0 at best, 0.25 if all probabilities are 0.5.
        share: Share of correct predictions.
    """

    reliability: Reliability
    error: float
    largest_error: float
    brier: float
    mean: float
    share: float

    def to_dict(self) -> dict[str, Any]:
        """Returns the figures and the bins as JSON values; nan becomes None."""
        figures = {
            "count": int(self.reliability.counts.sum()),
            "expected_calibration_error": self.error,
            "maximum_calibration_error": self.largest_error,
            "brier": self.brier,
            "mean_probability": self.mean,
            "share_right": self.share,
            "bins": self.reliability,
        }
        return plain(figures)


@checked
def calibration(
    probabilities: Sequence[float] | np.ndarray,
    correct: Sequence[bool] | np.ndarray,
    num_bins: Size = 15,
) -> Calibration:
    """Measures how well probabilities match outcomes, in bins of equal width.

    A probability on an edge falls into the lower bin; 0 into the first.

    Example:
        >>> scores = calibration([0.9, 0.8, 0.1], [True, False, False], num_bins=2)
        >>> scores.reliability.counts.tolist(), scores.reliability.accuracy.tolist()
        ([1, 2], [0.0, 0.5])
        >>> round(scores.error, 4)
        0.2667
    """
    chances, came_true = _checked(probabilities, correct)
    edges = np.linspace(0.0, 1.0, num_bins + 1)
    places = np.searchsorted(edges[1:-1], chances)
    counts, sums, right = (
        np.bincount(places, weights=weights, minlength=num_bins)
        for weights in (None, chances, came_true)
    )
    with np.errstate(invalid="ignore"):
        bins = Reliability(edges, counts, sums / counts, right / counts)
    if not len(chances):
        return Calibration(bins, *[float("nan")] * 5)
    gaps = np.abs(bins.confidence - bins.accuracy)
    brier = np.mean((chances - came_true) ** 2)
    means = chances.mean(), came_true.mean()
    error = np.nansum(gaps * counts) / len(chances)
    return Calibration(bins, *map(float, (error, np.nanmax(gaps), brier, *means)))


class ThresholdCurve(NamedTuple):
    """Precision and recall of the entities at or above each threshold.

    Thresholds are the distinct probabilities, descending: the last keeps all entities.
    Recall is nan without gold entities.
    """

    thresholds: np.ndarray
    precision: np.ndarray
    recall: np.ndarray
    kept: np.ndarray

    def for_precision(self, target: float) -> float | None:
        """Returns the lowest threshold with at least this precision, or None."""
        places = np.flatnonzero(self.precision >= target)
        return float(self.thresholds[places[-1]]) if len(places) else None

    def for_recall(self, target: float) -> float | None:
        """Returns the highest threshold with at least this recall, or None."""
        places = np.flatnonzero(self.recall >= target)
        return float(self.thresholds[places[0]]) if len(places) else None

    def to_dict(self) -> dict[str, list[float | None]]:
        """Returns the curve as JSON values, figures in percent; nan becomes None."""
        percents = {"precision": 100 * self.precision, "recall": 100 * self.recall}
        return plain(self._replace(**percents))


def threshold_curve(
    probabilities: Sequence[float] | np.ndarray,
    correct: Sequence[bool] | np.ndarray,
    num_gold: int,
) -> ThresholdCurve:
    """Computes precision and recall at each threshold on the entities' probabilities.

    `correct` is whether each is a gold entity.

    Example:
        >>> curve = threshold_curve([0.9, 0.6, 0.4], [True, True, False], num_gold=4)
        >>> curve.for_precision(0.9), curve.for_recall(0.2), curve.for_recall(0.9)
        (0.6, 0.9, None)
    """
    chances, came_true = _checked(probabilities, correct)
    if np.sum(came_true) > num_gold:
        raise InputError(
            f"Expected at most {num_gold} right entities, as many as are gold, got "
            f"{np.sum(came_true)}."
        )
    order = np.argsort(-chances, kind="stable")
    chances, came_true = chances[order], came_true[order]
    is_last = np.append(np.diff(chances) != 0, True)[: len(chances)]
    counts = np.arange(1, len(chances) + 1)[is_last]
    right = np.cumsum(came_true)[is_last]
    recall = right / num_gold if num_gold else np.full(len(counts), np.nan)
    return ThresholdCurve(chances[is_last], right / counts, recall, counts)


def _checked(probabilities: object, correct: object) -> tuple[np.ndarray, np.ndarray]:
    chances = np.asarray(probabilities, float).ravel()
    came_true = np.asarray(correct, bool).ravel()
    if len(chances) != len(came_true):
        raise InputError(
            f"Expected as many outcomes as probabilities, got {len(came_true)} and "
            f"{len(chances)}"
        )
    wrong = chances[~((chances >= 0) & (chances <= 1))]
    if len(wrong):
        raise InputError(f"Expected probabilities from 0 to 1, got {wrong[0]}")
    return chances, came_true.astype(float)


def plain(value: Any) -> Any:
    """Returns arrays, numbers and named tuples as JSON values; nan becomes None."""
    if hasattr(value, "_asdict"):
        value = value._asdict()
    if isinstance(value, Mapping):
        return {str(name): plain(item) for name, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    if isinstance(value, (np.ndarray, np.generic)):
        return plain(value.tolist())
    if isinstance(value, float) and not np.isfinite(value):
        return None
    return value
