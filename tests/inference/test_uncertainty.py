"""Uncertainty of labels against sums written out, and its ranges."""

import jax
import jax.numpy as jnp
import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from jaxner import inference

PASSES, TOKENS, LABELS = 5, 4, 3


def numpy_summary(samples, labels):
    """Each quantity by its formula, token by token, in double precision.

    Labels are given, since rounding decides between equal means.
    """
    rows = []
    tokens = np.asarray(samples, np.float64).transpose(1, 0, 2)
    for token, label in zip(tokens, np.asarray(labels).tolist(), strict=True):
        mean = sum(token) / len(token)
        assert mean[label] > max(mean) - 1e-6
        total = -sum(p * np.log(p) for p in mean if p > 0)
        nats = [-sum(p * np.log(p) for p in row if p > 0) for row in token]
        votes = sum(row.argmax() == label for row in token)
        expected = sum(nats) / len(nats)
        rows.append((label, mean, total, expected, total - expected, votes / len(nats)))
    return [np.stack(column) for column in zip(*rows, strict=True)]


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 1000), st.sampled_from([0.0, 1.0, 30.0]))
def test_summary_equals_its_formulas_and_stays_in_range(seed, sharpness):
    scores = np.random.default_rng(seed).normal(size=(PASSES, TOKENS, LABELS))
    samples = jax.nn.softmax(jnp.asarray(scores * sharpness, jnp.float32))
    summary = inference.summarise(samples)
    for x, right in zip(summary, numpy_summary(samples, summary.labels), strict=True):
        np.testing.assert_allclose(x, right, atol=2e-6)
    assert (summary.entropy <= np.log(LABELS) + 1e-6).all()
    assert (summary.mutual_information >= 0).all()
    values = inference.summarise(samples.at[:, 2:].set(0.0))
    for value, whole in zip(values, summary, strict=True):
        np.testing.assert_array_equal(value[:2], whole[:2])
        assert not np.asarray(value)[2:].any()


def test_entropy_of_certain_and_impossible_labels_has_a_finite_gradient():
    assert float(inference.entropy(jnp.array([1.0, 0.0, 0.0]))) == 0
    slope = jax.grad(lambda x: inference.entropy(jax.nn.softmax(x)))
    assert np.isfinite(slope(jnp.array([200.0, 0.0, 0.0]))).all()
