"""The n best labellings, draws and the entropy of all, against enumeration."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jax.test_util import check_grads

from jaxner import inference
from jaxner.data import schemes
from jaxner.inference import Constraints, independent, messages
from jaxner.types import Autoregressive, Potentials
from tests.inference.test_crf import enumerate_scores, log_sum_exp, potentials

n_best = jax.jit(inference.n_best, static_argnums=2)
labelling_entropy = jax.jit(inference.labelling_entropy)
score = jax.jit(inference.score)
NUM_DRAWS = 4000


@jax.jit
def draw_many(p, mask):
    keys = jax.random.split(jax.random.key(1), NUM_DRAWS)
    return jax.vmap(lambda key: inference.sample(p, mask, key))(keys)


def build(length, size, seed, is_crf, dtype=np.float64, scale=1.0):
    """Potentials, and the enumeration's arguments: zeros without a chain."""
    p = potentials(length, size, seed, scale, dtype)
    if is_crf:
        return p, p
    zeros = jax.tree.map(jnp.zeros_like, p)
    return Potentials(p.emissions), zeros._replace(emissions=p.emissions)


def numpy_entropy(scores):
    chances = np.exp(scores - log_sum_exp(scores))
    return -sum(p * np.log(p) for p in chances if p > 0)


SIZES = ((1, 1, 0), (1, 3, 2), (2, 2, 0), (3, 3, 1), (5, 2, 2))


@pytest.mark.parametrize("is_crf", [True, False])
@pytest.mark.parametrize(("length", "size", "padding"), SIZES)
def test_n_best_equals_sorted_enumeration(float64, length, size, padding, is_crf):
    """With more places than labellings, too."""
    p, full = build(length + padding, size, 4 + length, is_crf, scale=3.0)
    mask = jnp.arange(length + padding) < length
    labellings, scores = enumerate_scores(full, length)
    order = np.argsort(-scores)
    for n in (1, 4, 40):
        found, its_scores = n_best(p, mask, n)
        assert found.dtype == jnp.int32
        count = min(n, len(scores))
        np.testing.assert_allclose(its_scores[:count], scores[order[:count]])
        expected = [[*labellings[i], *[0] * padding] for i in order[:count]]
        assert found[:count].tolist() == expected
        assert not found[count:].any()
        assert (its_scores[count:] == -np.inf).all()


@pytest.mark.parametrize("is_crf", [True, False])
def test_the_first_of_equals_is_that_of_viterbi(is_crf):
    p, _ = build(4, 3, 0, is_crf, np.float32)
    p = jax.tree.map(jnp.zeros_like, p)
    mask = jnp.ones(4, bool)
    found, scores = n_best(p, mask, 5)
    assert found[0].tolist() == inference.viterbi(p, mask).tolist() == [0, 0, 0, 0]
    assert len({tuple(labels) for labels in found.tolist()}) == 5
    assert not scores.any()


@pytest.mark.parametrize("is_crf", [True, False])
def test_long_lists_are_sorted_and_keep_their_digits(unchecked, is_crf):
    p, _ = build(3000, 5, 0, is_crf, np.float32)
    mask = jnp.ones(3000, bool)
    found, scores = n_best(p, mask, 8)
    assert found[0].tolist() == jax.jit(inference.viterbi)(p, mask).tolist()
    assert (np.diff(scores) <= 0).all()
    emissions = np.asarray(p.emissions, np.float64)
    exact = np.take_along_axis(emissions[None], np.asarray(found)[..., None], 2).sum(1)
    if is_crf:
        transitions, ids = np.asarray(p.transitions, np.float64), np.asarray(found)
        exact = exact[:, 0] + transitions[ids[:, :-1], ids[:, 1:]].sum(1)
        exact += np.asarray(p.start)[ids[:, 0]] + np.asarray(p.end)[ids[:, -1]]
    assert (np.diff(exact.ravel()) < 1e-4).all()
    np.testing.assert_allclose(scores, exact.ravel(), rtol=1e-6)


@pytest.mark.parametrize("size", [messages.FEW, messages.FEW + 1])
def test_viterbi_is_the_first_of_the_list_whatever_the_number_of_labels(size):
    p = potentials(12, size, dtype=np.float32, scale=2.0)
    for length in (12, 9, 1):
        mask = jnp.arange(12) < length
        found, _ = n_best(p, mask, 1)
        best = jax.jit(inference.viterbi)(p, mask)
        assert best.tolist() == found[0].tolist()
        assert len(set(best.tolist())) > 1 or length == 1


def test_what_is_forbidden_is_no_labelling():
    p = potentials(4, 3, dtype=np.float32, scale=20.0)
    cycle = jnp.roll(jnp.eye(3, dtype=bool), 1, axis=1)
    free = jnp.ones(3, bool)
    ruled = inference.constrain(p, Constraints(free, cycle, free))
    found, scores = n_best(ruled, jnp.ones(4, bool), 5)
    paths = {tuple((k + i) % 3 for i in range(4)) for k in range(3)}
    assert {tuple(labels) for labels in found[:3].tolist()} == paths
    assert np.isfinite(scores[:3]).all()
    assert (scores[3:] == -np.inf).all()
    assert not found[3:].any()
    nothing = inference.constrain(p, Constraints(~free, cycle, free))
    assert (n_best(nothing, jnp.ones(4, bool), 2)[1] == -np.inf).all()


@pytest.mark.parametrize("is_crf", [True, False])
@pytest.mark.parametrize(("length", "size", "padding"), SIZES)
@pytest.mark.parametrize("scale", [1.0, 100.0])
def test_entropy_equals_enumeration(float64, length, size, padding, is_crf, scale):
    p, full = build(length + padding, size, 2, is_crf, scale=scale)
    mask = jnp.arange(length + padding) < length
    _, scores = enumerate_scores(full, length)
    found = float(labelling_entropy(p, mask))
    assert found == pytest.approx(numpy_entropy(scores), rel=1e-11, abs=1e-13)
    tokens = inference.entropy(inference.marginals(p, mask)).sum()
    assert -1e-12 <= found <= tokens + 1e-9
    if not is_crf:
        assert found == pytest.approx(float(tokens), abs=1e-9)


@pytest.mark.parametrize("is_crf", [True, False])
def test_gradient_of_entropy_equals_finite_differences(float64, is_crf):
    p, _ = build(5, 3, 2, is_crf)
    mask = jnp.arange(5) < 4
    kernel = jax.jit(lambda q: inference.labelling_entropy(q, mask))
    check_grads(kernel, (p,), order=2, modes=["rev", "fwd"])


def test_entropy_of_long_sentences_in_float32(unchecked):
    p32 = potentials(10_000, 9, seed=1, dtype=np.float32)
    mask = np.ones(10_000, bool)
    found = float(labelling_entropy(p32, mask))
    with jax.enable_x64(True):
        p64 = jax.tree.map(lambda x: jnp.asarray(np.asarray(x), jnp.float64), p32)
        exact = float(labelling_entropy(p64, mask))
    assert found == pytest.approx(exact, rel=3e-6)


def test_one_allowed_path_has_no_entropy_and_is_always_drawn():
    p = potentials(5, 3, dtype=np.float32, scale=100.0)
    cycle = jnp.roll(jnp.eye(3, dtype=bool), 1, axis=1)
    only = Constraints(jnp.arange(3) == 1, cycle, jnp.ones(3, bool))
    ruled, mask = inference.constrain(p, only), jnp.ones(5, bool)
    assert float(labelling_entropy(ruled, mask)) == pytest.approx(0, abs=1e-6)
    slope = jax.jit(jax.grad(inference.labelling_entropy))(ruled, mask)
    assert all(jnp.isfinite(leaf).all() for leaf in jax.tree.leaves(slope))
    assert (draw_many(ruled, mask) == jnp.array([1, 2, 0, 1, 2])[None]).all()
    assert n_best(ruled, mask, 2)[0][0].tolist() == [1, 2, 0, 1, 2]


@pytest.mark.parametrize("is_crf", [True, False])
def test_draws_have_their_probabilities(is_crf):
    p, full = build(4, 2, 6, is_crf, np.float32)
    mask = jnp.arange(4) < 3
    labellings, scores = enumerate_scores(full, 3)
    chances = np.exp(scores - log_sum_exp(scores))
    draws = np.asarray(draw_many(p, mask))
    assert not draws[:, 3].any()
    ids = draws[:, :3] @ np.array([4, 2, 1])
    counts = np.bincount(ids, minlength=8)
    expected = np.array([NUM_DRAWS * c for c in chances])
    assert [a * 4 + b * 2 + c for a, b, c in labellings] == list(range(8))
    # Pearson's statistic with 7 degrees of freedom: below 24.3 with p = 0.999.
    assert ((counts - expected) ** 2 / expected).sum() < 24.3


@pytest.mark.parametrize("is_crf", [True, False])
def test_padding_changes_no_draw_and_no_list(is_crf):
    p, _ = build(6, 3, 0, is_crf, np.float32)
    short = p._replace(emissions=p.emissions[:4])
    dirty = p._replace(emissions=p.emissions.at[4:].set(1e4))
    mask = jnp.arange(6) < 4
    for seed in range(5):
        key = jax.random.key(seed)
        expected = inference.sample(short, mask[:4], key).tolist()
        assert inference.sample(dirty, mask, key).tolist() == [*expected, 0, 0]
    one, its_scores = n_best(short, mask[:4], 3)
    other, scores = n_best(dirty, mask, 3)
    np.testing.assert_array_equal(one, other[:, :4])
    np.testing.assert_array_equal(its_scores, scores)
    assert labelling_entropy(short, mask[:4]) == pytest.approx(
        float(labelling_entropy(dirty, mask)), rel=1e-6
    )


@pytest.mark.parametrize("is_crf", [True, False])
@pytest.mark.parametrize("length", [0, 3])
def test_a_sentence_without_a_token(is_crf, length):
    p, _ = build(length, 3, 0, is_crf, np.float32)
    mask = jnp.zeros(length, bool)
    found, scores = inference.n_best(p, mask, 3)
    assert found.shape == (3, length)
    assert not found.any()
    assert scores.tolist() == [0.0, -np.inf, -np.inf]
    drawn = inference.sample(p, mask, jax.random.key(0))
    assert drawn.tolist() == [0] * length
    assert inference.labelling_entropy(p, mask) == 0
    slope = jax.grad(inference.labelling_entropy)(p, mask)
    assert all(not leaf.any() for leaf in jax.tree.leaves(slope))


@pytest.mark.parametrize("is_crf", [True, False])
@pytest.mark.parametrize("scheme", schemes.SCHEMES)
def test_constrained_draws_and_lists_are_never_ill_formed(scheme, is_crf):
    names = schemes.label_names(["PER", "LOC"], scheme)
    constraints = Constraints(*map(jnp.asarray, schemes.allowed(names, scheme)))
    p, _ = build(5, len(names), 1, is_crf, np.float32, scale=4.0)
    ruled, mask = inference.constrain(p, constraints), jnp.arange(5) < 4
    listed, scores = n_best(ruled, mask, 20)
    assert np.isfinite(scores).all()
    drawn = draw_many(ruled, mask)[:200]

    def ill_formed(rows):
        tags = [[names[i] for i in row[:4]] for row in rows.tolist()]
        return sum(bool(schemes.violations(row, scheme)) for row in tags)

    assert ill_formed(listed) == ill_formed(drawn) == 0
    assert ill_formed(draw_many(p, mask)[:200])  # else nothing was put to the test


@pytest.mark.parametrize("is_crf", [True, False])
def test_constrained_sums_are_those_of_the_legal_labellings(float64, is_crf):
    p, full = build(4, 3, 5, is_crf)
    allowed = jnp.array([[1, 1, 0], [0, 1, 1], [1, 0, 0]], bool)
    start, end = jnp.array([True, True, False]), jnp.array([True, False, True])
    ruled = inference.constrain(p, Constraints(start, allowed, end))
    mask = jnp.ones(4, bool)
    labellings, scores = enumerate_scores(full, 4)
    legal = [
        i
        for i, y in enumerate(labellings)
        if start[y[0]] and end[y[-1]] and all(allowed[a] for a in itertools.pairwise(y))
    ]
    assert 3 < len(legal) < len(labellings)
    total = log_sum_exp(scores[legal])
    expected = np.zeros((4, 3))
    for i in legal:
        expected[range(4), labellings[i]] += np.exp(scores[i] - total)
    assert float(inference.log_partition(ruled, mask)) == pytest.approx(total)
    np.testing.assert_allclose(inference.marginals(ruled, mask), expected, atol=1e-12)
    found = float(labelling_entropy(ruled, mask))
    assert found == pytest.approx(numpy_entropy(scores[legal]), rel=1e-11)
    listed, its_scores = n_best(ruled, mask, len(legal) + 2)
    order = sorted(legal, key=lambda i: -scores[i])
    assert [tuple(y) for y in listed[:-2].tolist()] == [labellings[i] for i in order]
    assert (its_scores[-2:] == -np.inf).all()
    drawn = {tuple(y) for y in draw_many(ruled, mask).tolist()}
    assert drawn <= {labellings[i] for i in legal}


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 10_000), st.integers(1, 3), st.integers(1, 4), st.booleans())
def test_n_best_and_entropy_of_random_sizes(seed, size, length, is_crf):
    p, full = build(4, size, seed, is_crf, np.float32, scale=2.0)
    mask = jnp.arange(4) < length
    _, scores = enumerate_scores(full, length)
    found, its_scores = n_best(p, mask, 6)
    count = min(6, len(scores))
    np.testing.assert_allclose(its_scores[:count], -np.sort(-scores)[:count], atol=1e-4)
    for labels, value in zip(found[:count], its_scores[:count], strict=True):
        assert float(score(p, labels, mask)) == pytest.approx(float(value), abs=1e-5)
    assert float(labelling_entropy(p, mask)) == pytest.approx(
        numpy_entropy(scores), abs=1e-5
    )


def test_jit_vmap_and_grad_change_nothing():
    ps = [potentials(5, 3, seed=s, dtype=np.float32) for s in range(3)]
    masks = jnp.arange(5)[None, :] < jnp.array([[5], [2], [0]])
    batch = ps[0]._replace(emissions=jnp.stack([p.emissions for p in ps]))
    axes = (Potentials(0, None, None, None), 0)
    kernels = (
        lambda p, mask: inference.n_best(p, mask, 3),
        lambda p, mask: inference.sample(p, mask, jax.random.key(0)),
        jax.value_and_grad(inference.labelling_entropy),
    )
    for kernel in kernels:
        together, alone = jax.jit(jax.vmap(kernel, axes)), jax.jit(kernel)
        each = [
            alone(ps[0]._replace(emissions=p.emissions), mask)
            for p, mask in zip(ps, masks, strict=True)
        ]
        expected = jax.tree.map(lambda *leaves: jnp.stack(leaves), *each)
        jax.tree.map(
            lambda x, y: np.testing.assert_allclose(x, y, rtol=2e-6, atol=2e-6),
            together(batch, masks),
            expected,
        )


def test_independent_labels_need_no_scan():
    p, mask = Potentials(jnp.zeros((5, 3))), jnp.ones(5, bool)
    labels, key = jnp.zeros(5, jnp.int32), jax.random.key(0)
    kernels = [
        independent.log_partition,
        independent.viterbi,
        independent.marginals,
        independent.labelling_entropy,
        lambda p, mask: independent.sample(p, mask, key),
        lambda p, mask: independent.score(p, labels, mask),
    ]
    for kernel in kernels:
        text = str(jax.make_jaxpr(kernel)(p, mask))
        assert "scan" not in text
        assert "while" not in text


def test_what_cannot_be_answered_says_so():
    p, mask = potentials(2, 2, dtype=np.float32), jnp.ones(2, bool)
    with pytest.raises(
        ValueError, match="number of labellings must be at least 1, got 0"
    ):
        inference.n_best(p, mask, 0)
    zero = jnp.zeros
    head = Autoregressive(
        zero((2, 2)), None, zero((3, 4, 1)), zero((1, 4, 1)), zero((1, 2)), None, None,
        zero(1),
    )  # fmt: skip
    for name, rest in (
        ("n_best", (1,)),
        ("sample", (jax.random.key(0),)),
        ("labelling_entropy", ()),
    ):
        with pytest.raises(ValueError, match=f"{name} needs sums or maxima over all"):
            getattr(inference, name)(head, mask, *rest)
