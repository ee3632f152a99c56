"""Relative attention and its encoders against an independent NumPy reading."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxner.models import transformer as relative
from jaxner.models.transformer import (
    RelativeAttention,
    RelativeLayer,
    RelativeTransformer,
    TwoStream,
    shift,
)

WORDS, LABELS = 5, 3
SIZES = {"num_heads": 2, "head_dim": 4}
DIM = 8


def build(kind, **options):
    return kind(**{**SIZES, **options})


def inputs(model, length, padding=0, seed=0, scale=1.0):
    """Random features, under padding too: those must not matter."""
    rng = np.random.default_rng(seed)

    def features(dim):
        x = scale * rng.normal(size=(length, dim))
        x = np.concatenate([x, 100 * rng.normal(size=(padding, dim))])
        return jnp.asarray(x, jnp.float32)

    mask = jnp.arange(length + padding) < length
    dims = {RelativeAttention: [WORDS, LABELS], TwoStream: [WORDS, LABELS]}
    dims = dims.get(type(model), [DIM if isinstance(model, RelativeLayer) else WORDS])
    return *(features(dim) for dim in dims), mask


def draw_weights(model, seed=0):
    """Random weights with no zeros in them, so that no term can be forgotten."""
    rng = np.random.default_rng(seed)
    shapes = jax.eval_shape(lambda: init(model, 0))
    return jax.tree.map(
        lambda leaf: jnp.asarray(0.7 * rng.normal(size=leaf.shape), leaf.dtype), shapes
    )


def init(model, seed):
    return model.init(jax.random.key(seed), *inputs(model, 1), train=False)


def features_of(model, weights, given, key=None):
    rngs = {} if key is None else {"dropout": key}
    out = model.apply(weights, *given, train=key is not None, rngs=rngs)
    return out[0] if isinstance(model, RelativeTransformer) else out


apply = jax.jit(features_of, static_argnums=0)


def dense(p, x):
    return x @ p["kernel"] + p["bias"]


def norm(p, x):
    centred = x - x.mean(axis=1, keepdims=True)
    deviation = np.sqrt((centred**2).mean(axis=1, keepdims=True) + 1e-12)
    return centred / deviation * p["scale"] + p["bias"]


def encoding(distance, dim):
    """R of one distance, number by number."""
    angles = [distance / 10_000 ** (n / max(dim // 2 - 1, 1)) for n in range(dim // 2)]
    return np.array([*map(np.sin, angles), *map(np.cos, angles)])


def numpy_attention(p, x, y, position=None):
    """The heads one after the other, pair by pair."""
    heads = []
    position = p["position"] if position is None else position
    for head in range(p["query"].shape[1]):
        w_q, w_k, w_v = (p[name][:, head] for name in ("query", "key", "value"))
        u, v = p["content_bias"][head], p["position_bias"][head]
        size = len(u)
        rows = []
        for i, x_i in enumerate(x):
            scores = []
            for j, y_j in enumerate(y):
                r = encoding(j - i, size) @ position
                query = x_i @ w_q
                score = (query + u) @ (y_j @ w_k) + (query + v) @ r
                scores.append(score / np.sqrt(size))
            alpha = np.exp(scores) / np.sum(np.exp(scores))
            rows.append(sum(a * (y_j @ w_v) for a, y_j in zip(alpha, y, strict=True)))
        heads.append(np.array(rows))
    return np.concatenate(heads, axis=1)


def numpy_layer(p, x, form="code", keys=None, position=None):
    keys = x if keys is None else keys
    attended = numpy_attention(p["attention"], x, keys, position)
    if form == "paper":
        attended = dense(p["projection"], attended)
    h = norm(p["norm1"], attended + keys)
    fed = dense(p["narrow"], np.maximum(dense(p["widen"], h), 0))
    return fed if form == "paper" else norm(p["norm2"], h + fed)


def numpy_two_stream(p, x, y, num_layers, labels, form):
    h = dense(p["input"], x)
    for number in range(1, num_layers):
        h = numpy_layer(p[f"layer{number}"], h, form)
    last, shared = p[f"layer{num_layers}"], p.get("position")
    by_words = numpy_layer(last, h, form, position=shared)
    if not labels:
        return by_words
    y = dense(p["label_input"], y)
    if form == "code":
        by_labels = numpy_attention(p["label_attention"], h, y)
    else:
        by_labels = numpy_layer(p["label_layer"], h, form, y, shared)
    return np.concatenate([by_words, by_labels], axis=1)


def check(model, expected, length, padding, **options):
    weights = draw_weights(model)
    given = inputs(model, length, padding, **options)
    *real, _ = [np.asarray(x[:length], np.float64) for x in given]
    params = jax.tree.map(lambda leaf: np.asarray(leaf, np.float64), weights["params"])
    found = apply(model, weights, given)
    wanted = expected(params, *real)
    np.testing.assert_allclose(found[:length], wanted, rtol=1e-4, atol=2e-5)
    assert not found[length:].any()


@pytest.mark.parametrize("length", [1, 7])
def test_attention_equals_numpy(length):
    check(build(RelativeAttention), numpy_attention, length, padding=3)


@pytest.mark.parametrize("form", ["code", "paper"])
def test_layer_equals_numpy(form):
    model = build(RelativeLayer, form=form)
    check(model, lambda p, x: numpy_layer(p, x, form), 4, padding=2)


@pytest.mark.parametrize(("num_layers", "head_dim"), [(1, 4), (3, 2)])
def test_encoder_equals_numpy(num_layers, head_dim):
    def expected(params, x):
        x = dense(params["input"], x)
        for number in range(1, num_layers + 1):
            x = numpy_layer(params[f"layer{number}"], x)
        return x

    model = build(RelativeTransformer, num_layers=num_layers, head_dim=head_dim)
    check(model, expected, 4, padding=2)
    assert model.receptive_field is None


@pytest.mark.parametrize(
    ("num_layers", "labels", "form"),
    [(1, True, "code"), (2, True, "code"), (2, False, "code"), (2, True, "paper")],
)
def test_two_streams_equal_numpy(num_layers, labels, form):
    model = build(TwoStream, num_layers=num_layers, labels=labels, form=form)

    def expected(params, x, y):
        return numpy_two_stream(params, x, y, num_layers, labels, form)

    check(model, expected, 4, padding=2)


@pytest.mark.parametrize(("rows", "length"), [(0, 0), (1, 1), (7, 7), (3, 7), (1, 4)])
def test_shift_equals_brute_force(rows, length):
    rng = np.random.default_rng(0)
    by_distance = rng.normal(size=(3, rows, rows + length + 1)).astype(np.float32)
    found = shift(jnp.asarray(by_distance))
    assert found.shape == (3, rows, length)
    for i in range(rows):
        for j in range(length):
            np.testing.assert_array_equal(
                found[:, i, j], by_distance[:, i, j - i + rows]
            )


MODELS = {
    "attention": build(RelativeAttention),
    "encoder": build(RelativeTransformer, num_layers=1),
    "code": build(TwoStream, num_layers=1),
    "paper": build(TwoStream, num_layers=1, form="paper"),
}


@pytest.mark.parametrize("rates", [(0.5, 0.0), (0.0, 0.5), (0.0, 0.0)])
def test_each_rate_makes_noise_in_training_alone(rates):
    for model in (MODELS["encoder"], MODELS["code"]):
        noisy = model.clone(dropout=rates[0], attention_dropout=rates[1])
        weights, given = draw_weights(model), inputs(model, 3)
        with jax.disable_jit():
            plain = features_of(noisy, weights, given)
            found = features_of(noisy, weights, given, jax.random.key(0))
        half = found.shape[1] // 2
        first, second = (found != plain)[:, :half], (found != plain)[:, half:]
        assert first.any() == any(rates)
        in_labels = rates[1] if model == MODELS["code"] else any(rates)
        assert second.any() == bool(in_labels)


@pytest.mark.parametrize("dropout", [0.0, 0.5])
@pytest.mark.parametrize(
    ("length", "padding"), [(2, 1), (4, 0), (3, 2), (7, 3), (0, 5)]
)
def test_blocks_of_queries_equal_the_whole(length, padding, dropout, monkeypatch):
    """Below, at and above the size of a block; values, gradients, dropped weights."""
    model = build(RelativeAttention, dropout=dropout)
    weights, (*given, mask) = draw_weights(model), inputs(model, length, padding)
    key = jax.random.key(0) if dropout else None

    @jax.jit
    def run(weights, given):
        def loss(weights, given):
            features = features_of(model, weights, (*given, mask), key)
            return jnp.sum(jnp.sin(features)), features

        return jax.value_and_grad(loss, argnums=(0, 1), has_aux=True)(weights, given)

    expected = run(weights, given)
    jax.clear_caches()
    for name in ("WHOLE", "BLOCK"):
        monkeypatch.setattr(relative, name, 4)
    found = run(weights, given)
    for left, right in zip(*map(jax.tree.leaves, (found, expected)), strict=True):
        np.testing.assert_allclose(left, right, rtol=1e-4, atol=2e-5)
