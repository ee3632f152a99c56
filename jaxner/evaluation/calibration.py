"""Calibration of probabilities: reliability, calibration error, and thresholds.

A prediction is a probability and whether it was correct. For a token: whether its
predicted label is the gold label; for an entity: whether it is a gold entity.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np


class Reliability(NamedTuple):
    """Confidence and accuracy of predictions in K bins of equal width.

    Attributes:
        edges: Edges of the bins, `[K + 1]`, from 0 to 1.
        counts: Number of predictions in each bin, `[K]`.
        confidence: Mean probability in each bin, `[K]`; nan in empty bins.
        accuracy: Share of correct predictions in each bin, `[K]`; nan in empty bins.
    """

    edges: np.ndarray
    counts: np.ndarray
    confidence: np.ndarray
    accuracy: np.ndarray

    @property
    def error(self) -> float:
        """The expected calibration error, 0 to 1; nan without predictions.

        The mean over the bins, weighted by their counts, of the absolute difference
        between confidence and accuracy. Source: Naeini, Cooper and Hauskrecht,
        "Obtaining Well Calibrated Probabilities Using Bayesian Binning", AAAI 2015.
        """
        if not self.counts.sum():
            return float("nan")
        gaps = np.abs(self.confidence - self.accuracy)
        return float(np.nansum(gaps * self.counts) / self.counts.sum())

    @property
    def largest_error(self) -> float:
        """The maximum calibration error: the largest difference in any bin."""
        gaps = np.abs(self.confidence - self.accuracy)[self.counts > 0]
        return float(gaps.max()) if len(gaps) else float("nan")


class Calibration(NamedTuple):
    """How well probabilities match outcomes.

    Attributes:
        reliability: Confidence and accuracy by bin.
        brier: Brier score: mean squared difference between the probability and the
            outcome (0 or 1); 0 at best, 0.25 if all probabilities are 0.5.
        mean: Mean probability.
        share: Share of correct predictions.
    """

    reliability: Reliability
    brier: float
    mean: float
    share: float

    @property
    def error(self) -> float:
        """The expected calibration error; see `Reliability.error`."""
        return self.reliability.error

    def to_dict(self) -> dict[str, object]:
        """Returns the figures and the bins as JSON values; nan becomes None."""
        bins = self.reliability._asdict()
        return {
            "count": int(self.reliability.counts.sum()),
            "expected_calibration_error": _plain(self.error),
            "maximum_calibration_error": _plain(self.reliability.largest_error),
            "brier": _plain(self.brier),
            "mean_probability": _plain(self.mean),
            "share_right": _plain(self.share),
            "bins": {name: [_plain(x) for x in bins[name]] for name in bins},
        }


class ThresholdCurve(NamedTuple):
    """Precision and recall of the entities at or above each threshold.

    Thresholds descend, so the last one keeps all entities.

    Attributes:
        thresholds: The distinct probabilities.
        precision: Share of the kept entities that are correct.
        recall: Share of the gold entities that are found; nan without gold entities.
        kept: Number of kept entities.
    """

    thresholds: np.ndarray
    precision: np.ndarray
    recall: np.ndarray
    kept: np.ndarray

    @property
    def f1(self) -> np.ndarray:
        """F1 at each threshold; 0 if precision and recall are 0, nan if one is nan."""
        total = self.precision + self.recall
        product = 2 * self.precision * self.recall
        return np.where(total == 0, 0.0, product / np.where(total == 0, 1.0, total))

    def for_precision(self, wanted: float) -> float | None:
        """Returns the lowest threshold with at least this precision; None without one.

        It keeps the most entities.

        Args:
            wanted: Precision, from 0 to 1.
        """
        return self._last(self.precision >= wanted)

    def for_recall(self, wanted: float) -> float | None:
        """Returns the highest threshold with at least this recall; None without one.

        It keeps the fewest entities.

        Args:
            wanted: Recall, from 0 to 1.
        """
        places = np.flatnonzero(self.recall >= wanted)
        return float(self.thresholds[places[0]]) if len(places) else None

    def _last(self, fits: np.ndarray) -> float | None:
        places = np.flatnonzero(fits)
        return float(self.thresholds[places[-1]]) if len(places) else None

    def to_dict(self) -> dict[str, list[float | None]]:
        """Returns the curve as JSON values; nan becomes None."""
        return {
            name: [_plain(x) for x in column] for name, column in self._asdict().items()
        }


def _plain(value: Any) -> float | None:
    return float(value) if np.isfinite(value) else None


def reliability(
    probabilities: Sequence[float] | np.ndarray,
    correct: Sequence[bool] | np.ndarray,
    num_bins: int = 15,
) -> Reliability:
    """Sorts predictions into bins of equal width.

    Args:
        probabilities: Probability of each prediction, from 0 to 1.
        correct: Whether each prediction is correct.
        num_bins: Number of bins, K. A probability on an edge falls into the lower bin;
            0 into the first.

    Returns:
        Confidence and accuracy of each bin.

    Raises:
        ValueError: The arguments differ in length, a probability is outside [0, 1], or
            `num_bins` is below 1.

    Example:
        >>> found = reliability([0.9, 0.8, 0.1], [True, False, False], num_bins=2)
        >>> found.counts.tolist(), found.accuracy.tolist(), round(found.error, 4)
        ([1, 2], [0.0, 0.5], 0.2667)
    """
    chances, came_true = _checked(probabilities, correct)
    if num_bins < 1:
        raise ValueError(f"Expected at least one bin, got {num_bins}")
    edges = np.linspace(0.0, 1.0, num_bins + 1)
    places = np.searchsorted(edges[1:-1], chances)
    counts = np.bincount(places, minlength=num_bins)
    sums = np.bincount(places, weights=chances, minlength=num_bins)
    right = np.bincount(places, weights=came_true, minlength=num_bins)
    with np.errstate(invalid="ignore"):
        return Reliability(edges, counts, sums / counts, right / counts)


def calibration(
    probabilities: Sequence[float] | np.ndarray,
    correct: Sequence[bool] | np.ndarray,
    num_bins: int = 15,
) -> Calibration:
    """Measures how well probabilities match outcomes.

    Args:
        probabilities: Probability of each prediction, from 0 to 1.
        correct: Whether each prediction is correct.
        num_bins: As in `reliability`.

    Returns:
        Calibration error by bin, Brier score and means; nan without predictions.

    Raises:
        ValueError: As `reliability`.

    Example:
        >>> found = calibration([0.5, 0.5], [True, False])
        >>> found.error, found.brier
        (0.0, 0.25)
    """
    chances, came_true = _checked(probabilities, correct)
    bins = reliability(chances, came_true, num_bins)
    if not len(chances):
        return Calibration(bins, *[float("nan")] * 3)
    brier = float(np.mean((chances - came_true) ** 2))
    return Calibration(bins, brier, float(chances.mean()), float(came_true.mean()))


def threshold_curve(
    probabilities: Sequence[float] | np.ndarray,
    correct: Sequence[bool] | np.ndarray,
    num_gold: int,
) -> ThresholdCurve:
    """Computes precision and recall at each threshold on the entities' probabilities.

    Args:
        probabilities: Probability of each predicted entity, from 0 to 1.
        correct: Whether each is a gold entity, as `match` returns it.
        num_gold: Number of gold entities.

    Raises:
        ValueError: As `reliability`; or more entities are right than there are.

    Example:
        >>> curve = threshold_curve([0.9, 0.6, 0.4], [True, True, False], num_gold=4)
        >>> curve.for_precision(0.9), curve.for_recall(0.2), curve.for_recall(0.9)
        (0.6, 0.9, None)
    """
    chances, came_true = _checked(probabilities, correct)
    if np.sum(came_true) > num_gold:
        raise ValueError(
            f"Expected at most {num_gold} right entities, as many as are gold, got "
            f"{np.sum(came_true)}."
        )
    order = np.argsort(-chances, kind="stable")
    chances, came_true = chances[order], came_true[order]
    is_last = np.append(np.diff(chances) != 0, True)[: len(chances)]
    kept = np.arange(1, len(chances) + 1)[is_last]
    right = np.cumsum(came_true)[is_last]
    recall = right / num_gold if num_gold else np.full(len(kept), np.nan)
    return ThresholdCurve(chances[is_last], right / kept, recall, kept)


def match(
    gold: Iterable[Iterable[tuple[int, int, str]]],
    predicted: Iterable[Iterable[tuple[int, int, str]]],
) -> np.ndarray:
    """Returns whether each predicted span is a gold span of its sentence.

    Args:
        gold: The gold spans of each sentence: first token, last token plus one, type.
        predicted: The predicted spans of each sentence.

    Returns:
        One bool for each predicted span of all sentences, in order.

    Raises:
        ValueError: The sides differ in their number of sentences.

    Example:
        >>> match([[(0, 1, "LOC")]], [[(0, 1, "LOC"), (1, 2, "PER")]]).tolist()
        [True, False]
    """
    found = [
        tuple(span) in right
        for right, own in (
            ({tuple(span) for span in g}, p)
            for g, p in zip(gold, predicted, strict=True)
        )
        for span in own
    ]
    return np.array(found, bool)


def _checked(probabilities, correct) -> tuple[np.ndarray, np.ndarray]:
    chances = np.asarray(probabilities, float).ravel()
    came_true = np.asarray(correct, bool).ravel()
    if len(chances) != len(came_true):
        raise ValueError(
            f"Expected as many outcomes as probabilities, got {len(came_true)} and "
            f"{len(chances)}"
        )
    wrong = chances[~((chances >= 0) & (chances <= 1))]
    if len(wrong):
        raise ValueError(f"Expected probabilities from 0 to 1, got {wrong[0]}")
    return chances, came_true.astype(float)
