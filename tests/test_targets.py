"""What accelerators compute equals what CPUs compute: each form is run here."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import jaxner
from jaxner import devices, inference, tagging
from jaxner.inference import tree
from jaxner.models import layers
from jaxner.models.layers import Carry, lstm_scan
from jaxner.training import optimizers
from jaxner.types import FORBIDDEN, Potentials
from tests import fence
from tests.inference.enumeration import stack
from tests.marks import slow


@pytest.fixture
def accelerator(monkeypatch):
    """Takes the forms for accelerators, on this machine's CPU."""

    def default_form(*args, default, **_):
        return default(*args)

    jax.clear_caches()
    monkeypatch.setattr(devices, "by_target", default_form)
    yield
    jax.clear_caches()


def random_chain(length, seed):
    rng = np.random.default_rng(seed)
    pairs = np.where(rng.random((7, 7)) < 0.2, FORBIDDEN, rng.normal(size=(7, 7)))
    rows = rng.normal(size=(length, 7)), pairs, *rng.normal(size=(2, 7))
    return Potentials(*map(jnp.asarray, rows))


def answers(kernels, potentials, masks):
    """What the kernels of a module answer about each chain of a batch."""

    def compute(p, mask):
        total, counts = jax.value_and_grad(kernels.log_partition)(p, mask)
        return total, counts, kernels.marginals(p, mask), kernels.viterbi(p, mask)

    return jax.jit(jax.vmap(compute))(potentials, masks)


@pytest.mark.parametrize("length", [1, 2, 4, 9])
def test_a_chain_has_the_answers_of_the_scan(length, float64):
    chains = stack(random_chain(length, seed) for seed in range(length + 1))
    masks = jnp.arange(length)[None] < jnp.arange(length + 1)[:, None]
    pair = (answers(kernels, chains, masks) for kernels in (tree, inference))
    for left, right in zip(*map(jax.tree.leaves, pair), strict=True):
        np.testing.assert_allclose(left, right, rtol=0, atol=1e-11)


def test_a_long_chain_stays_exact_in_float32():
    with jax.enable_x64(True):
        chain, mask = stack([random_chain(2000, seed=0)]), jnp.ones((1, 2000), bool)
        exact = answers(inference, chain, mask)
    chain = jax.tree.map(lambda x: jnp.asarray(x, jnp.float32), chain)
    total, gradient, marginals, labels = answers(tree, chain, mask)
    np.testing.assert_allclose(total, exact[0], rtol=1e-6)
    for left, right in zip(gradient, exact[1], strict=True):
        np.testing.assert_allclose(left, right, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(marginals, exact[2], rtol=0, atol=1e-5)
    np.testing.assert_array_equal(labels, exact[3])


@pytest.mark.usefixtures("accelerator")
@pytest.mark.parametrize("kernel", ["log_partition", "marginals", "viterbi"])
@pytest.mark.parametrize(
    ("length", "size", "is_tree"),
    [(4, 100, True), (4, 101, False), (104, 100, True), (105, 100, False)],
)
def test_a_chain_of_many_labels_or_a_long_one_is_a_scan(kernel, length, size, is_tree):
    shapes = (length, size), (size, size), (size,), (size,)
    args = Potentials(*map(jnp.zeros, shapes)), jnp.ones(length, bool)
    program = jax.make_jaxpr(getattr(inference, kernel))(*args)
    assert ("scan[" in str(program)) != is_tree


@pytest.mark.usefixtures("accelerator")
def test_a_long_chain_takes_memory_by_its_length_and_labels():
    shapes = (2000, 80), (80, 80), (80,), (80,)
    chain = Potentials(*(jax.ShapeDtypeStruct(shape, jnp.float32) for shape in shapes))
    mask = jax.ShapeDtypeStruct((2000,), bool)
    slope = jax.value_and_grad(inference.log_partition)
    for kernel in (slope, inference.marginals, inference.viterbi):
        memory = jax.jit(kernel).lower(chain, mask).compile().memory_analysis()
        assert memory.temp_size_in_bytes < 10 * 4 * 2000 * 80


@pytest.mark.parametrize("length", [3, 8])
def test_an_unrolled_lstm_has_the_gradient_of_a_loop(length, float64):
    rng = np.random.default_rng(length)
    draws = [rng.normal(size=x) for x in ((5,), (5,), (length, 20), (5, 20), (5,))]
    *carry, gates, kernel, state_mask = map(jnp.asarray, draws)
    mask = jnp.arange(length) > 0  # padding at the front, as a backward cell meets it

    def loss(args, unroll):
        state, gates, kernel = args
        outputs, end = lstm_scan(state, gates, kernel, mask, state_mask, unroll)
        return sum(jnp.sum(jnp.sin(leaf)) for leaf in jax.tree.leaves((outputs, end)))

    args = Carry(*carry), gates, kernel
    slope = jax.jit(jax.grad(loss), static_argnums=1)
    grads = (jax.tree.leaves(slope(args, n)) for n in (8, 1))
    for grad, loop in zip(*grads, strict=True):
        np.testing.assert_allclose(grad, loop, rtol=0, atol=1e-12)


def test_a_gradient_is_clipped_by_one_sum(accelerator):
    b = {"w": 3 * jnp.ones(2), "u": jnp.ones(())}
    grads = {"a": {"w": jnp.ones((2, 3))}, "b": b}
    for limit, scale in ((2.5, 0.5), (10.0, 1.0)):
        updates, _ = optimizers.clip_to(limit).update(grads, optax.EmptyState())
        for update, grad in zip(*map(jax.tree.leaves, (updates, grads)), strict=True):
            np.testing.assert_allclose(update, scale * grad, rtol=1e-6)
    norms = optimizers.part_norms(grads, ("a", "b"))
    squares = {name: round(float(norm) ** 2, 4) for name, norm in norms.items()}
    assert squares == {"a": 6.0, "b": 19.0, "rest": 0.0}


@pytest.mark.usefixtures("accelerator")
@pytest.mark.parametrize("name", ["parallel_rnn", *slow("grn")])
def test_a_stored_run_gives_the_same_answers(name, tmp_path):
    fence.check(name, tmp_path)


def test_a_known_target_is_traced_alone_and_not_kept():
    def compute(x, kernel):
        return layers.convolve(x, kernel, 3, by_tiles=True)

    def trace():
        program = jax.make_jaxpr(lambda *args: compute(*args))  # which has no trace yet
        return str(program(jnp.ones((16, 128)), jnp.ones((384, 128))))

    def trace_for(platform):
        with devices.targeting(platform):
            return trace()

    whole, by_tiles, by_taps = trace(), trace_for("cpu"), trace_for("gpu")
    assert "platform_index" in whole
    assert "platform_index" not in by_tiles + by_taps
    assert by_tiles != by_taps
    assert trace() == whole
    assert len(by_taps) < len(by_tiles) < len(whole)


@pytest.mark.parametrize("platform", ["cpu", "gpu"])
def test_strings_are_tagged_by_a_program_of_one_platform(params, dev, platform):
    tokens = [list(example.tokens) for example in dev.examples[:2]]
    labels = jaxner.tag(params, tokens)
    batch = jaxner.encode(params, tokens)
    compute = functools.partial(tagging._batch, function=tagging.choose, options=())
    program = jax.make_jaxpr(functools.partial(compute, platform=platform))
    assert "platform_index" not in str(program(params, batch, None))
    # What it has traced is not taken where the platform is open.
    assert "platform_index" in str(jax.make_jaxpr(jaxner.tag)(params, batch))
    assert jaxner.tag(params, tokens) == labels
