"""The fast form of the CRF's sums against the exact one, at the border of its guard."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jaxner import inference
from jaxner.inference import FORBIDDEN, crf, messages
from jaxner.types import Potentials
from tests.inference.test_crf import enumerate_scores, log_sum_exp, potentials

LIMIT = messages.largest_range(np.float32)


def value_and_gradient(p, mask):
    return jax.value_and_grad(crf.log_partition)(p, mask)


compute = jax.jit(value_and_gradient)
is_narrow = jax.jit(messages._is_narrow)


def numpy_expectations(p, length):
    """log Z, p(label at t) and the expected transitions, by enumeration in float64."""
    labellings, scores = enumerate_scores(p, length)
    total = log_sum_exp(scores)
    size = p.emissions.shape[1]
    chances, pairs = np.zeros((length, size)), np.zeros((size, size))
    for labels, chance in zip(labellings, np.exp(scores - total), strict=True):
        for t, label in enumerate(labels):
            chances[t, label] += chance
        for a, b in itertools.pairwise(labels):
            pairs[a, b] += chance
    return total, chances, pairs


def adversary(kind, reach, size=3, length=5, scale=1.0):
    """Potentials whose transitions (or `end`) range over `reach` nats."""
    p = potentials(length, size, seed=3, scale=scale, dtype=np.float32)
    p = p._replace(end=p.end / scale)  # emissions and start may be anything
    high = jnp.asarray(reach, jnp.float32)
    if kind == "random":
        x = p.transitions - p.transitions.min()
        return p._replace(transitions=x * (high / x.max()))
    if kind == "disconnected":  # to stay is the best by far, and emissions forbid it
        best = jnp.arange(length) % size
        emissions = jnp.where(best[:, None] == jnp.arange(size)[None], scale * 90.0, 0)
        return p._replace(emissions=emissions, transitions=high * jnp.eye(size))
    if kind != "random":
        p = p._replace(transitions=p.transitions / scale)
    if kind == "trap":  # what the emissions prefer has no future, late
        emissions = p.emissions.at[:, 0].add(scale * 60.0)
        emissions = emissions.at[-1].set(jnp.array([0.0, 0.0, 85.0 * scale]))
        transitions = jnp.zeros((size, size)).at[0, 2].set(-high)
        return p._replace(emissions=emissions, transitions=transitions)
    if kind == "end":
        return p._replace(end=jnp.array([0.0, -high, -high / 2]))
    if kind == "emissions forbid":
        emissions = p.emissions.at[1:4, 0].set(FORBIDDEN).at[2, 1].set(FORBIDDEN)
        return p._replace(emissions=emissions, transitions=high * jnp.eye(size))
    raise ValueError(kind)


KINDS = ("random", "disconnected", "trap", "end", "emissions forbid")


@pytest.mark.parametrize("scale", [1.0, 100.0, 1000.0])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("side", [0.999, 1.001])
def test_both_sides_of_the_border_equal_enumeration(kind, side, scale):
    """The form that computes and, inside, the exact one, against float64."""
    p = adversary(kind, LIMIT * side, scale=scale)
    assert bool(is_narrow(p)) == (side < 1)
    mask = jnp.ones(5, bool)
    total, chances, pairs = numpy_expectations(p, 5)
    value, gradient = compute(p, mask)
    assert float(value) == pytest.approx(total, rel=2e-6, abs=2e-5)
    np.testing.assert_allclose(gradient.emissions, chances, atol=3e-5)
    np.testing.assert_allclose(gradient.transitions, pairs, atol=1e-4)
    np.testing.assert_allclose(gradient.start, chances[0], atol=3e-5)
    np.testing.assert_allclose(gradient.end, chances[-1], atol=3e-5)


@pytest.mark.parametrize("size", [3, 21])  # a sum, and a matrix product
@pytest.mark.parametrize("scale", [1.0, 30.0])
def test_forms_agree_inside_the_border_for_float64(float64, size, scale):
    """Even where the transitions range over 300 nats."""
    p = potentials(40, size, seed=1, scale=scale)
    p = p._replace(transitions=p.transitions.at[0, 0].set(300.0 - 100 * scale / 30))
    assert messages.largest_range(np.float64) > 300
    assert is_narrow(p)
    mask = jnp.arange(40) < 37

    def exactly(p, mask):
        alphas, reached, total = messages._filter_exactly(p, mask)
        return total, messages._smooth_exactly(p, alphas, reached, mask)

    total, gradient = jax.jit(exactly)(p, mask)
    value, found = compute(p, mask)
    assert float(value) == pytest.approx(float(total), rel=1e-13)
    jax.tree.map(
        lambda x, y: np.testing.assert_allclose(x, y, atol=1e-11), found, gradient
    )


@pytest.mark.slow
@settings(max_examples=40, deadline=None)
@given(
    st.integers(0, 10_000),
    st.sampled_from([1, 2, 4]),
    st.sampled_from([(1, 0), (2, 1), (4, 0), (4, 3)]),
    st.sampled_from([0.1, 5.0, 60.0]),
    st.sampled_from([0.0, 0.3, 0.7]),
)
def test_random_masks_and_scales_equal_enumeration(seed, size, lengths, scale, forbid):
    """Forbidden entries anywhere; nothing is NaN, even where all is forbidden."""
    length, padding = lengths
    p = potentials(length + padding, size, seed, scale, np.float32)
    rng = np.random.default_rng(seed)
    p = jax.tree.map(
        lambda x: jnp.where(rng.random(x.shape) < forbid / 2, FORBIDDEN, x), p
    )
    mask = jnp.arange(length + padding) < length
    value, gradient = compute(p, mask)
    assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves((value, gradient)))
    total, chances, _ = numpy_expectations(p, length)
    if total > FORBIDDEN / 2:
        assert float(value) == pytest.approx(total, rel=1e-5, abs=1e-4)
        found = np.asarray(gradient.emissions)
        np.testing.assert_allclose(found[:length], chances, atol=1e-3)
    assert not gradient.emissions[length:].any()


@pytest.mark.parametrize("size", [9, 37])
@pytest.mark.parametrize("narrow", [True, False])
def test_ten_thousand_tokens_in_float32(unchecked, size, narrow):
    p32 = potentials(10_000, size, seed=1, dtype=np.float32)
    if not narrow:
        p32 = p32._replace(transitions=p32.transitions.at[1, 2].set(FORBIDDEN))
    assert bool(is_narrow(p32)) == narrow
    mask = np.ones(10_000, bool)
    value, gradient = jax.jit(value_and_gradient)(p32, mask)
    with jax.enable_x64(True):
        p64 = jax.tree.map(lambda x: jnp.asarray(np.asarray(x), jnp.float64), p32)
        exact, slope = jax.jit(value_and_gradient)(p64, mask)
    assert float(value) == pytest.approx(float(exact), rel=3e-7)
    np.testing.assert_allclose(gradient.emissions, slope.emissions, atol=2e-5)
    np.testing.assert_allclose(gradient.transitions, slope.transitions, rtol=1e-4)


@pytest.mark.parametrize("shared", [True, False])
@pytest.mark.parametrize("wide", [False, True])
def test_batches_with_shared_and_with_own_transitions(shared, wide):
    ps = [potentials(6, 4, seed=s, dtype=np.float32) for s in range(3)]
    if shared:
        ps = [ps[0]._replace(emissions=p.emissions) for p in ps]
    if wide:  # one sentence, or all, need the exact form
        own = ps[-1].transitions.at[0, 1].set(FORBIDDEN)
        ps = [
            p._replace(transitions=own) if shared or i == 1 else p
            for i, p in enumerate(ps)
        ]
    masks = jnp.arange(6)[None, :] < jnp.array([[6], [3], [0]])
    batch = jax.tree.map(lambda *leaves: jnp.stack(leaves), *ps)
    axes = Potentials(0, None, None, None) if shared else Potentials(0, 0, 0, 0)
    if shared:
        batch = ps[0]._replace(emissions=batch.emissions)

    def total(batch):
        return jnp.sum(jax.vmap(crf.log_partition, (axes, 0))(batch, masks))

    found, slope = jax.jit(jax.value_and_grad(total))(batch)
    each = [compute(p, mask) for p, mask in zip(ps, masks, strict=True)]
    assert float(found) == pytest.approx(float(sum(v for v, _ in each)), rel=1e-6)
    stacked = jax.tree.map(lambda *leaves: jnp.stack(leaves), *(g for _, g in each))
    expected = jax.tree.map(lambda x: x if not shared else x.sum(0), stacked)
    expected = expected._replace(emissions=stacked.emissions)
    jax.tree.map(
        lambda x, y: np.testing.assert_allclose(x, y, rtol=1e-5, atol=2e-6),
        slope,
        expected,
    )


def test_no_branch_of_a_batch_is_computed_for_nothing():
    """`cond` stays a `cond` under `vmap`, even with transitions that differ."""
    p = potentials(4, 3, dtype=np.float32)
    batch = jax.tree.map(lambda x: jnp.stack([x, x]), p)
    masks = jnp.ones((2, 4), bool)
    for axes in (Potentials(0, 0, 0, 0), Potentials(0, None, None, None)):
        given = batch if axes.start == 0 else p._replace(emissions=batch.emissions)
        each = jax.vmap(value_and_gradient, (axes, 0))
        assert str(jax.make_jaxpr(each)(given, masks)).count("cond[") == 2


def covariance(p, length):
    """The covariance of the emissions' counts, by enumeration."""
    labellings, scores = enumerate_scores(p, length)
    chances = np.exp(scores - log_sum_exp(scores))
    size = p.emissions.shape[1]
    counts = np.array([np.eye(size)[list(y)].ravel() for y in labellings])
    mean = chances @ counts
    return (counts * chances[:, None]).T @ counts - np.outer(mean, mean)


@pytest.mark.parametrize("wide", [False, True])
def test_second_derivatives_in_both_forms(float64, wide):
    p, mask = potentials(4, 2, seed=8), jnp.arange(4) < 3
    if wide:
        p = p._replace(transitions=p.transitions.at[0, 1].set(FORBIDDEN))
    expected = covariance(p, 3)

    def slope_of(kernel):
        return lambda x: kernel(p._replace(emissions=x), mask)

    slope = jax.grad(slope_of(crf.log_partition))
    for first in (slope, slope_of(crf.marginals)):
        found = jax.jit(jax.jacrev(first))(p.emissions)[:3, :, :3].reshape(6, 6)
        np.testing.assert_allclose(found, expected, atol=1e-12)

    # A product of value and slope needs the value's own derivative within the second.
    def product(x):
        value, gradient = jax.value_and_grad(slope_of(crf.log_partition))(x)
        return value * gradient[1, 0]

    value, gradient = slope_of(crf.log_partition)(p.emissions), slope(p.emissions)
    row = np.zeros((4, 2))
    row[:3] = expected.reshape(3, 2, 3, 2)[1, 0]
    np.testing.assert_allclose(
        jax.jit(jax.grad(product))(p.emissions),
        gradient * gradient[1, 0] + value * row,
        atol=1e-12,
    )


def test_third_derivatives_equal_finite_differences(float64):
    p, mask = potentials(3, 2, seed=2), jnp.ones(3, bool)

    def total(x):
        return crf.log_partition(p._replace(emissions=x), mask)

    second = jax.jit(jax.jacrev(jax.grad(total)))
    third = jax.jit(jax.jacrev(jax.jacrev(jax.grad(total))))(p.emissions)
    step = jnp.zeros_like(p.emissions).at[1, 0].set(1e-6)
    numeric = (second(p.emissions + step) - second(p.emissions - step)) / 2e-6
    np.testing.assert_allclose(third[..., 1, 0], numeric, atol=1e-8)


def test_forward_mode_is_refused():
    p, mask = potentials(3, 2, dtype=np.float32), jnp.ones(3, bool)
    for kernel in (inference.log_partition, inference.marginals):
        with pytest.raises(TypeError, match="forward-mode"):
            jax.jvp(lambda q, kernel=kernel: kernel(q, mask), (p,), (p,))


def test_nan_is_not_hidden():
    p = potentials(3, 2, dtype=np.float32)
    p = p._replace(transitions=p.transitions.at[0, 0].set(jnp.nan))
    assert np.isnan(crf.log_partition(p, jnp.ones(3, bool)))


def test_what_stands_under_padding_may_be_nan():
    p, mask = potentials(5, 3, dtype=np.float32), jnp.arange(5) < 3
    dirty = p._replace(emissions=p.emissions.at[3:].set(jnp.nan))
    for one, other in zip(
        *(jax.tree.leaves(compute(q, mask)) for q in (p, dirty)), strict=True
    ):
        np.testing.assert_array_equal(one, other)


def test_a_thousand_tokens_lose_a_millionth(float64):
    """The README's claim about the gradient, for a model's scores in the fast form."""
    rng = np.random.default_rng(0)
    shapes = (1024, 9), (9, 9), (9,), (9,)
    scores = Potentials(*(jnp.asarray(rng.normal(size=shape)) for shape in shapes))
    mask, slope = jnp.ones(1024, bool), jax.jit(jax.grad(crf.log_partition))
    exact = slope(scores, mask)
    ours = slope(jax.tree.map(lambda x: x.astype(jnp.float32), scores), mask)
    for found, wanted in zip(ours, exact, strict=True):
        assert (found.dtype, wanted.dtype) == (jnp.float32, jnp.float64)
        assert np.abs(found - wanted).max() <= 1e-6 * np.abs(wanted).max()


def products(jaxpr):
    """Yields the matrix products of a traced program, of loops and branches too."""
    for equation in jaxpr.eqns:
        if equation.primitive.name == "dot_general":
            yield equation
        for value in equation.params.values():
            for part in value if isinstance(value, (list, tuple)) else [value]:
                inner = getattr(part, "jaxpr", part)
                if hasattr(inner, "eqns"):
                    yield from products(inner)


@pytest.mark.parametrize(
    "compute",
    [
        value_and_gradient,
        crf.marginals,
        crf.viterbi,
        crf.labelling_entropy,
        lambda p, mask: crf.n_best(p, mask, 2),
        lambda p, mask: crf.sample(p, mask, jax.random.key(0)),
        jax.grad(crf.labelling_entropy),
        jax.grad(lambda p, mask: jnp.sum(crf.marginals(p, mask) ** 2)),
    ],
    ids=lambda f: getattr(f, "__name__", "other"),
)
def test_no_product_is_left_to_the_precision_of_a_device(compute):
    """By default an accelerator rounds what it multiplies to 10 or 8 bits."""
    size = messages.FEW + 1  # fewer labels are summed over
    arguments = potentials(4, size, dtype=np.float32), jnp.ones(4, bool)
    with jax.default_matmul_precision(None):
        traced = jax.make_jaxpr(compute)(*arguments)
    highest = (jax.lax.Precision.HIGHEST,) * 2
    found = list(products(traced.jaxpr))
    # These are known to have some, so that the search is known to find them.
    assert found or compute not in (value_and_gradient, crf.labelling_entropy)
    for product in found:
        assert product.params["precision"] == highest
