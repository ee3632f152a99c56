"""Calibration figures, against plain loops and scikit-learn."""

import json

import numpy as np
import pytest
from sklearn.calibration import calibration_curve
from sklearn.metrics import brier_score_loss, precision_recall_curve

from jaxner.evaluation import calibration as honest
from jaxner.evaluation.report import Prediction


@pytest.fixture(scope="module")
def predictions():
    rng = np.random.default_rng(0)
    chances = rng.beta(3, 1, 3000).round(3)
    return chances, rng.random(3000) < chances**2


def test_figures_are_those_of_sklearn(predictions):
    chances, correct = predictions
    result = honest.calibration(chances, correct, num_bins=8)
    bins = result.reliability
    share, mean = calibration_curve(correct, chances, n_bins=8)
    is_full = bins.counts > 0
    np.testing.assert_allclose(bins.accuracy[is_full], share)
    np.testing.assert_allclose(bins.confidence[is_full], mean)
    assert (len(bins.counts), bins.counts.sum()) == (8, 3000)
    gaps = np.abs(share - mean)
    assert result.error == pytest.approx(np.average(gaps, weights=bins.counts[is_full]))
    assert result.largest_error == pytest.approx(gaps.max())
    assert result.brier == pytest.approx(brier_score_loss(correct, chances))
    assert result.mean == pytest.approx(chances.mean())
    assert result.share == pytest.approx(correct.mean())


def test_curve_is_that_of_sklearn(predictions):
    chances, correct = predictions
    misses = 500  # gold entities that were not predicted
    gold = int(correct.sum()) + misses
    curve = honest.threshold_curve(chances, correct, gold)
    precision, recall, thresholds = precision_recall_curve(correct, chances)
    np.testing.assert_allclose(curve.thresholds, thresholds[::-1])
    np.testing.assert_allclose(curve.precision, precision[:-1][::-1])
    scale = correct.sum() / gold
    np.testing.assert_allclose(curve.recall, recall[:-1][::-1] * scale)
    assert curve.kept[-1] == 3000


def test_thresholds_reach_what_is_wanted(predictions):
    chances, correct = predictions
    gold = int(correct.sum())
    curve = honest.threshold_curve(chances, correct, gold)
    for target in (0.7, 0.8, 0.9):
        threshold = curve.for_precision(target)
        assert correct[chances >= threshold].mean() >= target
        lower = curve.thresholds[curve.thresholds < threshold]
        assert all(correct[chances >= t].mean() < target for t in lower)
        threshold = curve.for_recall(target)
        assert correct[chances >= threshold].sum() / gold >= target
        higher = curve.thresholds[curve.thresholds > threshold]
        assert all(correct[chances >= t].sum() / gold < target for t in higher)
    assert curve.for_precision(1.1) is None
    assert curve.for_recall(1.1) is None


def test_nothing_at_all_is_undefined_and_not_zero():
    empty = honest.calibration([], [])
    assert np.isnan(empty.error)
    assert np.isnan(empty.brier)
    assert empty.to_dict()["expected_calibration_error"] is None
    json.dumps(empty.to_dict(), allow_nan=False)
    assert honest.threshold_curve([], [], 3).for_precision(0.5) is None
    no_gold = honest.threshold_curve([0.5], [False], 0)
    assert np.isnan(no_gold.recall).all()
    json.dumps(no_gold.to_dict(), allow_nan=False)
    for function in (honest.calibration, honest.threshold_curve):
        with pytest.raises(ValueError, match=r"at (least 1|most 0)"):  # no bin, gold
            function([0.5], [True], 0)


def test_entities_are_matched_sentence_by_sentence():
    gold = [["B-A", "O", "B-B", "I-B"], ["O"], ["B-A"]]
    entities = (0, 2, 4, "B"), (0, 0, 1, "B"), (1, 0, 1, "A"), (2, 0, 1, "A")
    chances = dict(zip(entities, (0.9, 0.8, 0.7, 0.6), strict=True))
    prediction = Prediction(None, gold, gold, "BIO", entity_certainty=chances)
    assert prediction.outcomes()[1] == [True, False, False, True]
