"""The gated relation network against an independent NumPy reading of its equations."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxner import models
from jaxner.models.grn import gated_sum
from tests.sentences import spelled

SIZES = {
    "num_labels": 5,
    "num_trained_words": 12,
    "num_frozen_words": 6,
    "num_chars": 9,
}


def build(context="all", relation="gated", hidden_dim=8, **sizes):
    return models.build(
        **{**SIZES, **sizes},
        representation={
            "words": {"dim": 6},
            "chars": {"name": "cnn", "dim": 3, "num_filters": 4, "width": 3},
            "dropout": 0.5,
        },
        encoder={
            "name": "grn",
            "hidden_dim": hidden_dim,
            "context": context,
            "relation": relation,
        },
        head={"name": "crf", "dropout": 0.5},
    )


def draw_weights(model, seed=0):
    """Random weights with no zeros in them, so that no term can be forgotten."""
    rng = np.random.default_rng(seed)
    shapes = jax.eval_shape(lambda: models.init(model, jax.random.key(0)))
    return jax.tree.map(
        lambda leaf: jnp.asarray(rng.normal(size=leaf.shape), leaf.dtype), shapes
    )


apply = jax.jit(models.apply, static_argnames="model")


def draw_sentence(length, padding=0, extra_chars=0, seed=0):
    rng = np.random.default_rng(seed)
    total = length + padding
    words = np.zeros(total, np.int32)
    words[:length] = rng.integers(1, 18, length)
    chars = np.zeros((total, 5 + extra_chars), np.int32)
    for row in chars[:length]:
        count = rng.integers(1, 6)
        row[:count] = rng.integers(1, 9, count)
    return jax.tree.map(jnp.asarray, spelled(words, chars, np.arange(total) < length))


# --- The paper's equations, one token at a time --------------------------------


def convolve(rows, kernel, bias, width):
    """Eq. 2 and 3: `kernel` holds the taps from left to right, zeros outside."""
    dim, out = rows.shape[1], []
    taps = kernel.reshape(width, dim, -1)
    for i in range(len(rows)):
        total = bias.copy()
        for k in range(width):
            j = i + k - width // 2
            if 0 <= j < len(rows):
                total = total + rows[j] @ taps[k]
        out.append(total)
    return np.array(out)


def numpy_grn(weights, words, chars, context="all", relation="gated"):
    """Emissions of one sentence; `chars` is a list of lists, without padding."""
    p = jax.tree.map(lambda a: np.asarray(a, np.float64), weights["params"])
    rep, enc, head = p["representation"], p.get("encoder"), p["head"]
    frozen = np.asarray(weights["frozen"]["representation"]["words"]["vectors"])
    table = np.concatenate([rep["words"]["trained"], frozen])
    z = []
    for word, its_chars in zip(words, chars, strict=True):
        embedded = rep["chars"]["table"][its_chars]
        conv = rep["chars"]["conv"]
        features = convolve(embedded, conv["kernel"], conv["bias"], 3).max(axis=0)
        z.append(np.concatenate([table[word], features]))
    x = np.array(z)
    widths = {"all": [1, 3, 5], "branch3": [3], "none": []}[context]
    if widths:
        branches = [
            np.tanh(convolve(x, enc[f"conv{k}"]["kernel"], enc[f"conv{k}"]["bias"], k))
            for k in widths
        ]
        x = np.max(branches, axis=0)
    count = len(x)
    if relation != "none":
        fused = []
        for i in range(count):
            total = 0.0
            for j in range(count):
                r = (
                    x[i] @ enc["from"]["kernel"]
                    + enc["from"]["bias"]
                    + x[j] @ enc["to"]["kernel"]
                    + enc["to"]["bias"]
                )
                gate = 1 / (1 + np.exp(-r))
                total = total + (r if relation == "fusion" else gate * x[j])
            fused.append(np.tanh(total / count))
        x = np.array(fused)
    return x @ head["emissions"]["kernel"] + head["emissions"]["bias"]


@pytest.mark.parametrize("context", ["all", "branch3", "none"])
@pytest.mark.parametrize("relation", ["gated", "attention", "fusion", "none"])
@pytest.mark.parametrize("length", [1, 2, 7])
def test_forward_pass_equals_numpy(context, relation, length):
    model = build(context, relation)
    weights = draw_weights(model)
    sentence = draw_sentence(length, padding=4, seed=length)
    found = apply(model, weights, sentence)
    words = sentence.words[:length].tolist()
    spelling = sentence.chars[sentence.char_index[:length]]
    chars = [[c for c in row if c] for row in spelling.tolist()]
    expected = numpy_grn(weights, words, chars, context, relation)
    np.testing.assert_allclose(found.emissions[:length], expected, rtol=2e-4, atol=2e-5)
    for name in ("transitions", "start", "end"):
        np.testing.assert_array_equal(
            getattr(found, name), weights["params"]["head"][name]
        )


def plain_gated_sum(a, b, x):
    return jnp.sum(jax.nn.sigmoid(a[:, None] + b[None]) * x[None], axis=1)


@pytest.mark.parametrize("scale", [1.0, 10.0, 60.0, 80.0, 200.0, 1e4])
@pytest.mark.parametrize("offset", [0.0, 500.0])
def test_gated_sum_equals_the_plain_form(scale, offset):
    # An offset between a and b leaves the gates as they are; e^500 is no float32.
    rng = np.random.default_rng(0)
    a, b = (scale * rng.uniform(-1, 1, size=(9, 4)) for _ in range(2))
    x, weight = rng.normal(size=(2, 9, 4))
    a32, b32, x32 = (jnp.asarray(v, jnp.float32) for v in (a + offset, b - offset, x))

    def loss(function, weight, *arguments):
        return jnp.sum(function(*arguments) * weight)

    with jax.enable_x64(True):
        exact = [jnp.asarray(np.asarray(v), jnp.float64) for v in (a32, b32, x32)]
        value = plain_gated_sum(*exact)
        grads = jax.grad(loss, argnums=(2, 3, 4))(
            plain_gated_sum, jnp.asarray(weight), *exact
        )
    # Differences of arguments near 500 carry a rounding error of 3e-5 in themselves.
    tolerance = 2e-5 if not offset else 3e-4
    np.testing.assert_allclose(gated_sum(a32, b32, x32), value, atol=tolerance)
    found = jax.grad(loss, argnums=(2, 3, 4))(
        gated_sum, jnp.asarray(weight, jnp.float32), a32, b32, x32
    )
    for left, right in zip(found, grads, strict=True):
        np.testing.assert_allclose(left, right, atol=tolerance)


def test_one_wide_sentence_does_not_change_its_batch_mates():
    rng = np.random.default_rng(0)
    a, b, x = (jnp.asarray(rng.normal(size=(3, 6, 4)), jnp.float32) for _ in range(3))
    scale = jnp.array([1.0, 500.0, 1.0])[:, None, None]
    found = jax.jit(jax.vmap(gated_sum))(a * scale, b * scale, x)
    expected = jax.vmap(plain_gated_sum)(a * scale, b * scale, x)
    np.testing.assert_allclose(found, expected, atol=1e-5)
    narrow = jax.jit(jax.vmap(gated_sum))(a, b, x)
    np.testing.assert_array_equal(found[0], narrow[0])


@pytest.mark.parametrize("relation", ["gated", "attention", "fusion", "none"])
def test_no_token_and_no_sentence(relation):
    model = build("all", relation)
    weights = draw_weights(model)
    none = spelled(jnp.zeros(0, int), jnp.zeros((0, 1), int), jnp.zeros(0, bool))
    assert apply(model, weights, none).emissions.shape == (0, 5)

    def total(weights, sentence):
        return jnp.sum(models.apply(model, weights, sentence).emissions)

    gradient = jax.jit(jax.grad(total))(weights, none)
    assert not any(leaf.any() for leaf in jax.tree.leaves(gradient))
    nobody = jax.tree.map(lambda leaf: leaf[None][:0], draw_sentence(3))
    batch = jax.vmap(lambda s: models.apply(model, weights, s).emissions)(nobody)
    assert batch.shape == (0, 3, 5)


def test_relation_memory_is_linear_in_the_sentence():
    """The gradient contains no array of T·T·H numbers."""

    def temporary_bytes(length, dim=16):
        x = jax.ShapeDtypeStruct((length, dim), jnp.float32)
        loss = lambda a, b, x: jnp.sum(gated_sum(a, b, x))  # noqa: E731
        grad = jax.jit(jax.grad(loss, argnums=(0, 1, 2)))
        return grad.lower(x, x, x).compile().memory_analysis().temp_size_in_bytes

    small, large = temporary_bytes(256), temporary_bytes(1024)
    assert large < 6 * small
    assert large < 1024 * 1024 * 16


def test_dropout_is_the_same_whatever_the_padding():
    model, key = build(), jax.random.key(3)
    weights = draw_weights(model)
    short = apply(model, weights, draw_sentence(4), key).emissions
    padded = apply(model, weights, draw_sentence(4, 6, 2), key).emissions
    np.testing.assert_allclose(padded[:4], short, rtol=1e-5, atol=1e-5)
    assert not np.allclose(short, apply(model, weights, draw_sentence(4)).emissions)


def test_relation_scores_equal_numpy():
    model = build()
    weights = draw_weights(model)
    sentence = draw_sentence(5, 3)
    run = jax.jit(models.apply_with_intermediates, static_argnames="model")
    _, out = run(model, weights, sentence)
    found = models.relation_scores(out, sentence.mask)
    a, b = (np.asarray(out[k])[:5] for k in ("relation_from", "relation_to"))
    norms = np.array(
        [[np.sqrt(np.sum(1 / (1 + np.exp(-(x + y))) ** 2)) for y in b] for x in a]
    )
    expected = (norms - norms.min()) / (norms.max() - norms.min())
    np.testing.assert_allclose(found[:5, :5], expected, atol=1e-4)
    assert not found[5:].any()
    assert not found[:, 5:].any()
