"""Self-attention against an independent NumPy reading of its definition."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxner.models import SelfAttention
from jaxner.models import bilstm as attention

DIM = 6


def build(**options):
    return SelfAttention(**{"num_heads": 3, **options})


def draw_weights(model, dim=DIM, seed=0):
    x, mask = jnp.zeros((1, dim)), jnp.ones(1, bool)
    weights = jax.eval_shape(lambda: init(model, 0, x, mask))
    rng = np.random.default_rng(seed)
    return jax.tree.map(
        lambda leaf: jnp.asarray(rng.normal(size=leaf.shape), leaf.dtype), weights
    )


def init(model, seed, x, mask):
    return model.init(jax.random.key(seed), x, mask, train=False)


@jax.jit(static_argnames="model")
def apply(model, weights, x, mask):
    return model.apply(weights, x, mask, train=False)


def draw(length, padding=0, seed=0):
    """Random features, under padding too: those must not matter."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(length, DIM))
    x = np.concatenate([x, 100 * rng.normal(size=(padding, DIM))])
    return jnp.asarray(x, jnp.float32), jnp.arange(length + padding) < length


def numpy_attention(weights, x):
    """The heads of the paper one after the other, one token at a time, no padding."""
    w = {k: np.asarray(v, np.float64) for k, v in weights["params"].items()}
    x = np.asarray(x, np.float64)
    parts, alphas = [x], []
    for head in range(w["query"].shape[1]):
        w_q, w_k, w_v = (w[name][:, head] for name in ("query", "key", "value"))
        rows, contexts = [], []
        for here in x:
            scores = [here @ w_q @ (x_j @ w_k) / np.sqrt(w_q.shape[1]) for x_j in x]
            alpha = np.exp(scores) / np.sum(np.exp(scores))
            rows.append(alpha)
            contexts.append(
                sum(a * (x_j @ w_v) for a, x_j in zip(alpha, x, strict=True))
            )
        alphas.append(rows)
        parts.append(np.array(contexts))
    return parts, np.array(alphas)


@pytest.mark.parametrize("head_dim", [None, 5])
@pytest.mark.parametrize("length", [1, 5])
def test_forward_pass_equals_numpy(head_dim, length):
    model = build(head_dim=head_dim)
    weights = draw_weights(model)
    x, mask = draw(length, padding=4)
    features, out = apply(model, weights, x, mask)
    parts, alphas = numpy_attention(weights, x[:length])
    expected = np.concatenate(parts, axis=1)
    np.testing.assert_allclose(features[:length], expected, rtol=1e-4, atol=1e-5)
    found = out["attention"]
    np.testing.assert_allclose(found[:, :length, :length], alphas, rtol=1e-4, atol=1e-6)
    assert not features[length:].any()
    assert not found[:, length:].any()
    assert not found[:, :, length:].any()
    np.testing.assert_allclose(found[:, :length].sum(axis=-1), 1.0, rtol=1e-6)


@jax.jit(static_argnames="model")
def gradients(model, weights, x, mask):
    def loss(weights, x):
        features, out = model.apply(weights, x, mask, train=True)
        return jnp.sum(features**2) + jnp.sum(out["attention"] ** 2)

    return jax.grad(loss, argnums=(0, 1))(weights, x)


def test_no_token_gives_no_nan():
    model = build()
    weights = draw_weights(model)
    features, out = apply(model, weights, *draw(0))
    assert features.shape == (0, 2 * DIM)
    assert out["attention"].shape == (3, 0, 0)
    features, out = apply(model, weights, *draw(0, padding=2))
    for leaf in (features, out["attention"]):
        assert not leaf.any()  # NaN would be True
    for padding in (0, 2):
        found = gradients(model, weights, *draw(0, padding))
        assert not any(leaf.any() for leaf in jax.tree.leaves(found))


@pytest.mark.parametrize(
    ("length", "padding"), [(2, 1), (4, 0), (3, 2), (7, 3), (0, 5)]
)
def test_blocks_of_queries_equal_the_whole(length, padding, monkeypatch):
    """Below, at and above the size of a block; values, weights and gradients."""
    model = build()
    weights, (x, mask) = draw_weights(model), draw(length, padding)

    @jax.jit
    def run(weights, x):
        def loss(weights, x):
            features, out = model.apply(weights, x, mask, train=True)
            return jnp.sum(jnp.sin(features)), (features, out["attention"])

        return jax.value_and_grad(loss, argnums=(0, 1), has_aux=True)(weights, x)

    expected = run(weights, x)
    jax.clear_caches()
    for name in ("WHOLE", "BLOCK"):
        monkeypatch.setattr(attention, name, 4)
    found = run(weights, x)
    for left, right in zip(*map(jax.tree.leaves, (found, expected)), strict=True):
        np.testing.assert_allclose(left, right, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("keep", "kept"),
    [
        (None, [0, 1, 2, 3]),
        ("hidden", [0]),
        ("context", [1, 2, 3]),
        ("context2", [2]),
        (("hidden", "context"), [0, 1, 2, 3]),
        (["context1", "hidden"], [0, 1]),
        (("context3", "context1"), [1, 3]),
        (("context", "context1"), [1, 2, 3]),
        ((), []),
    ],
)
def test_keep_zeroes_the_other_parts(keep, kept):
    weights = draw_weights(build())  # one set of weights serves all
    x, mask = draw(3, padding=1)
    full, whole = apply(build(), weights, x, mask)
    found, out = apply(build(keep=keep), weights, x, mask)
    hidden, *heads = np.split(np.asarray(full), [DIM, DIM + 2, DIM + 4], axis=1)
    expected = [
        part if i in kept else np.zeros_like(part)
        for i, part in enumerate((hidden, *heads))
    ]
    np.testing.assert_array_equal(found, np.concatenate(expected, axis=1))
    np.testing.assert_array_equal(out["attention"], whole["attention"])
