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
        each = [-sum(p * np.log(p) for p in row if p > 0) for row in token]
        votes = sum(
            max(range(len(row)), key=lambda c: row[c]) == label for row in token
        )
        expected = sum(each) / len(each)
        rows.append((label, mean, total, expected, total - expected, votes / len(each)))
    return [np.stack(column) for column in zip(*rows, strict=True)]


def draw(seed, sharpness):
    rng = np.random.default_rng(seed)
    return jax.nn.softmax(
        jnp.asarray(rng.normal(size=(PASSES, TOKENS, LABELS)) * sharpness, jnp.float32)
    )


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 1000), st.sampled_from([0.0, 1.0, 30.0]))
def test_summary_equals_its_formulas_and_stays_in_range(seed, sharpness):
    samples = draw(seed, sharpness)
    found = inference.summarise(samples)
    for one, other in zip(found, numpy_summary(samples, found.labels), strict=True):
        np.testing.assert_allclose(one, other, atol=2e-6)
    assert (found.entropy <= np.log(LABELS) + 1e-6).all()
    assert (found.mutual_information >= 0).all()
    assert (found.expected_entropy >= 0).all()
    assert ((found.vote_share > 0) & (found.vote_share <= 1)).all()


def test_padding_is_zero_in_every_field():
    samples = draw(0, 1.0).at[:, 2:].set(0.0)
    for name, value in inference.summarise(samples)._asdict().items():
        assert not np.asarray(value)[2:].any(), name
        if name != "labels":
            assert np.asarray(value)[:2].any(), name


def test_entropy_of_certain_and_impossible_labels_has_a_finite_gradient():
    certain = jnp.array([1.0, 0.0, 0.0])
    assert float(inference.entropy(certain)) == 0
    chances = jax.nn.softmax(jnp.array([200.0, 0.0, 0.0]))
    slope = jax.grad(lambda x: inference.entropy(jax.nn.softmax(x)))(
        jnp.array([20.0, 0.0, 0.0])
    )
    assert np.isfinite(chances).all()
    assert np.isfinite(slope).all()
