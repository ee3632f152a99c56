"""CRF kernels against enumeration of all labellings, in float64."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.test_util import check_grads

from jaxner import inference
from jaxner.data import schemes
from jaxner.inference import FORBIDDEN, Constraints, crf
from jaxner.types import Potentials


def potentials(length, size, seed=0, scale=1.0, dtype=np.float64):
    rng = np.random.default_rng(seed)
    draw = lambda *shape: jnp.asarray(scale * rng.normal(size=shape), dtype)  # noqa: E731
    return Potentials(draw(length, size), draw(size, size), draw(size), draw(size))


def enumerate_scores(p, length):
    """The score of every labelling of the first `length` tokens, by plain loops."""
    emissions, transitions, start, end = (np.asarray(a, np.float64) for a in p)
    labellings = list(itertools.product(range(emissions.shape[1]), repeat=length))
    scores = []
    for labels in labellings:
        total = start[labels[0]] + end[labels[-1]]
        total += sum(emissions[t, y] for t, y in enumerate(labels))
        total += sum(transitions[a, b] for a, b in itertools.pairwise(labels))
        scores.append(total)
    return labellings, np.array(scores)


def log_sum_exp(scores):
    top = scores.max()
    return top + np.log(np.exp(scores - top).sum())


# Compiled once for each shape: an eager scan would be compiled at every call.
log_partition = jax.jit(crf.log_partition)
marginals = jax.jit(crf.marginals)
viterbi = jax.jit(inference.viterbi)
score_of = jax.jit(crf.score)
gradient_of = jax.jit(jax.grad(crf.log_partition))

CASES = [(1, 1), (1, 3), (2, 2), (3, 4), (5, 3), (6, 2)]


@pytest.mark.parametrize(("length", "size"), CASES)
@pytest.mark.parametrize("padding", [0, 3])
@pytest.mark.parametrize("scale", [1.0, 100.0])
def test_kernels_equal_enumeration(float64, length, size, padding, scale):
    p = potentials(length + padding, size, seed=length * 7 + size, scale=scale)
    mask = jnp.arange(length + padding) < length
    labellings, scores = enumerate_scores(p, length)
    total = log_sum_exp(scores)
    assert log_partition(p, mask) == pytest.approx(total, rel=1e-12)

    best = labellings[int(scores.argmax())]
    found = viterbi(p, mask)
    assert tuple(found[:length].tolist()) == best
    assert not found[length:].any()

    expected = np.zeros((length + padding, size))
    for labels, score in zip(labellings, scores, strict=True):
        for t, label in enumerate(labels):
            expected[t, label] += np.exp(score - total)
    np.testing.assert_allclose(marginals(p, mask), expected, atol=1e-10)

    for labels, score in list(zip(labellings, scores, strict=True))[
        :: max(1, len(labellings) // 9)
    ]:
        padded = jnp.array([*labels, *[0] * padding])
        assert score_of(p, padded, mask) == pytest.approx(score, rel=1e-12)


@pytest.mark.parametrize(("length", "size"), CASES)
def test_gradient_is_the_expected_count(float64, length, size):
    p = potentials(length + 2, size, seed=3)
    mask = jnp.arange(length + 2) < length
    labellings, scores = enumerate_scores(p, length)
    chances = np.exp(scores - log_sum_exp(scores))
    transitions, start, end = np.zeros((size, size)), np.zeros(size), np.zeros(size)
    for labels, chance in zip(labellings, chances, strict=True):
        start[labels[0]] += chance
        end[labels[-1]] += chance
        for a, b in itertools.pairwise(labels):
            transitions[a, b] += chance
    gradient = gradient_of(p, mask)
    np.testing.assert_allclose(gradient.transitions, transitions, atol=1e-12)
    np.testing.assert_allclose(gradient.start, start, atol=1e-12)
    np.testing.assert_allclose(gradient.end, end, atol=1e-12)
    np.testing.assert_allclose(gradient.emissions, marginals(p, mask), atol=1e-12)


def test_gradients_equal_finite_differences(float64):
    p = potentials(6, 3, seed=5)
    mask = jnp.arange(6) < 4
    check_grads(lambda q: log_partition(q, mask), (p,), order=2, modes=["rev"])


def test_second_derivative_is_the_covariance(float64):
    p = potentials(3, 2, seed=8)
    mask = jnp.ones(3, bool)
    labellings, scores = enumerate_scores(p, 3)
    chances = np.exp(scores - log_sum_exp(scores))
    counts = np.array([np.eye(2)[list(labels)].ravel() for labels in labellings])
    mean = chances @ counts
    covariance = (counts * chances[:, None]).T @ counts - np.outer(mean, mean)

    def total(emissions):
        return log_partition(p._replace(emissions=emissions), mask)

    # Reverse over reverse: a custom backward pass has no forward mode.
    hessian = jax.jit(jax.jacrev(jax.grad(total)))(p.emissions).reshape(6, 6)
    np.testing.assert_allclose(hessian, covariance, atol=1e-12)


def test_empty_sentence_has_one_labelling():
    for p in (potentials(4, 3, dtype=np.float32), potentials(0, 3, dtype=np.float32)):
        mask = jnp.zeros(p.emissions.shape[0], bool)
        labels = jnp.zeros(p.emissions.shape[0], jnp.int32)
        for kernels in (p, Potentials(p.emissions)):
            assert inference.log_partition(kernels, mask) == 0
            assert inference.score(kernels, labels, mask) == 0
            assert not inference.marginals(kernels, mask).any()
            assert not inference.viterbi(kernels, mask).any()
            gradient = jax.grad(inference.log_partition)(kernels, mask)
            assert all(not leaf.any() for leaf in jax.tree.leaves(gradient))


def test_padding_may_hold_anything():
    p = potentials(5, 3, dtype=np.float32)
    mask = jnp.arange(5) < 3
    dirty = p._replace(emissions=p.emissions.at[3:].set(1e4))
    short = p._replace(emissions=p.emissions[:3])
    for other, its_mask in ((dirty, mask), (short, mask[:3])):
        assert log_partition(other, its_mask) == log_partition(p, mask)
        np.testing.assert_array_equal(
            viterbi(other, its_mask)[:3], viterbi(p, mask)[:3]
        )
        np.testing.assert_array_equal(
            marginals(other, its_mask)[:3], marginals(p, mask)[:3]
        )


@pytest.mark.parametrize("scale", [1.0, 100.0])
def test_one_allowed_path(scale):
    size, length = 4, 6
    p = potentials(length, size, scale=scale, dtype=np.float32)
    cycle = jnp.roll(jnp.eye(size, dtype=bool), 1, axis=1)
    only = Constraints(jnp.arange(size) == 1, cycle, jnp.ones(size, bool))
    forced = crf.constrain(p, only)
    mask = jnp.ones(length, bool)
    path = (1 + jnp.arange(length)) % size
    np.testing.assert_array_equal(viterbi(forced, mask), path)
    np.testing.assert_allclose(marginals(forced, mask), jnp.eye(size)[path])
    total, gradient = log_partition(forced, mask), gradient_of(forced, mask)
    assert total == pytest.approx(float(score_of(forced, path, mask)), rel=1e-6)
    assert all(jnp.isfinite(leaf).all() for leaf in jax.tree.leaves(gradient))
    np.testing.assert_allclose(gradient.emissions, jnp.eye(size)[path])


def test_forbidden_transitions_leave_gradients_finite():
    p = potentials(8, 5, dtype=np.float32)
    # Label 4 cannot be reached, and label 3 cannot be left.
    transitions = p.transitions.at[:, 4].set(FORBIDDEN).at[3, :].set(FORBIDDEN)
    p = p._replace(transitions=transitions, start=p.start.at[4].set(FORBIDDEN))
    mask = jnp.arange(8) < 6
    gradient = gradient_of(p, mask)
    assert all(jnp.isfinite(leaf).all() for leaf in jax.tree.leaves(gradient))
    assert not gradient.emissions[:, 4].any()
    np.testing.assert_allclose(gradient.emissions.sum(1)[:6], 1, atol=1e-6)


@pytest.mark.parametrize("length", [1, 7, 2000, 10_000])
def test_float32_is_accurate_for_long_sentences(length):
    p32 = potentials(length, 9, seed=1, dtype=np.float32)
    mask = np.ones(length, bool)
    total = log_partition(p32, mask)
    found = marginals(p32, mask)
    with jax.enable_x64(True):
        p64 = jax.tree.map(lambda leaf: jnp.asarray(np.asarray(leaf), jnp.float64), p32)
        exact = log_partition(p64, mask)
        exact_marginals = marginals(p64, mask)
    assert total == pytest.approx(float(exact), rel=3e-7)
    np.testing.assert_allclose(found, exact_marginals, atol=2e-5)
    np.testing.assert_allclose(found.sum(axis=1), 1, atol=1e-4)


def test_vmap_and_jit_change_nothing():
    ps = [potentials(6, 4, seed=s, dtype=np.float32) for s in range(3)]
    batch = jax.tree.map(lambda *leaves: jnp.stack(leaves), *ps)
    masks = jnp.arange(6)[None, :] < jnp.array([[6], [3], [0]])
    for kernel in (crf.log_partition, crf.marginals, crf.viterbi):
        together = jax.jit(jax.vmap(kernel))(batch, masks)
        for p, mask, found in zip(ps, masks, together, strict=True):
            np.testing.assert_allclose(found, kernel(p, mask), rtol=2e-6, atol=1e-6)


@pytest.mark.parametrize("is_crf", [True, False])
@pytest.mark.parametrize("scheme", schemes.SCHEMES)
def test_constrained_decoding_is_never_ill_formed(scheme, is_crf):
    names = schemes.label_names(["PER", "LOC"], scheme)
    constraints = Constraints(*map(jnp.asarray, schemes.allowed(names, scheme)))
    ill_formed_before = 0
    for seed in range(30):
        p = potentials(7, len(names), seed=seed, scale=30.0, dtype=np.float32)
        p = p if is_crf else Potentials(p.emissions)
        mask = jnp.arange(7) < 1 + seed % 7
        for q, is_constrained in (
            (p, False),
            (inference.constrain(p, constraints), True),
        ):
            ids = viterbi(q, mask)[: int(mask.sum())]
            wrong = schemes.violations([names[i] for i in ids], scheme)
            if is_constrained:
                assert not wrong
            ill_formed_before += bool(wrong)
    assert ill_formed_before  # else the constraints were not put to the test


def test_independent_labels_equal_a_crf_without_transitions(float64):
    p = potentials(5, 3)
    zeros = jax.tree.map(jnp.zeros_like, p)._replace(emissions=p.emissions)
    alone = Potentials(p.emissions)
    mask = jnp.arange(5) < 4
    labels = jnp.array([0, 2, 1, 1, 0])
    assert inference.log_partition(alone, mask) == pytest.approx(
        float(log_partition(zeros, mask)), rel=1e-12
    )
    assert inference.score(alone, labels, mask) == pytest.approx(
        float(score_of(zeros, labels, mask)), rel=1e-12
    )
    np.testing.assert_allclose(
        inference.marginals(alone, mask), marginals(zeros, mask), atol=1e-12
    )
    np.testing.assert_array_equal(inference.viterbi(alone, mask), viterbi(zeros, mask))


def test_independent_labels_need_no_scan():
    p, mask = Potentials(jnp.zeros((5, 3))), jnp.ones(5, bool)
    for kernel in (inference.log_partition, inference.viterbi, inference.marginals):
        assert "scan" not in str(jax.make_jaxpr(kernel)(p, mask))
