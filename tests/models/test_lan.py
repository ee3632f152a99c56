"""The label attention network against an independent NumPy reading."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxner import models
from jaxner.models.heads import ScoresHead
from jaxner.models.lan import LabelAttention

LABELS, DIM, SIZE = 5, 3, 2
LAN = LabelAttention(LABELS, hidden_dim=SIZE, num_heads=2)


def init(model, dim=DIM):
    x, mask = jnp.zeros((1, dim)), jnp.ones(1, bool)
    return model.init(jax.random.key(0), x, mask, train=False)


def draw_weights(model, seed=0):
    rng = np.random.default_rng(seed)
    return jax.tree.map(
        lambda leaf: jnp.asarray(rng.normal(size=leaf.shape), leaf.dtype),
        jax.eval_shape(lambda: init(model)),
    )


def draw_sentence(length, padding=0, seed=0):
    rng = np.random.default_rng(seed)
    x = np.zeros((length + padding, DIM), np.float32)
    x[:length] = rng.normal(size=(length, DIM))
    return jnp.asarray(x), jnp.arange(length + padding) < length


def apply(model, weights, x, mask, key=None):
    rngs = None if key is None else {"dropout": key}
    return model.apply(weights, x, mask, train=key is not None, rngs=rngs)[0]


run = jax.jit(apply, static_argnums=0)


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def numpy_bilstm(p, rows, begin):
    """The outputs [forward; backward], and the (h, c) that each direction ends with."""
    outputs, ends = [], []
    for direction, order in ((0, 1), (1, -1)):
        w, u, b = (p[name][direction, 0] for name in ("input", "recurrent", "bias"))
        h, c = begin[direction]
        states = []
        for x in rows[::order]:
            i, f, o, g = (x @ w[:, k] + h @ u[:, k] + b[k] for k in range(4))
            c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
            h = sigmoid(o) * np.tanh(c)
            states.append(h)
        outputs.append(np.array(states)[::order])
        ends.append((h, c))
    return np.concatenate(outputs, axis=1), ends


def numpy_lan(p, rows, num_layers, num_heads):
    def project(x, name):
        return np.maximum(x @ p[name]["kernel"] + p[name]["bias"], 0)

    first = None
    for layer in range(1, num_layers + 1):
        begin = first or [(np.zeros(SIZE), np.zeros(SIZE))] * 2
        features, ends = numpy_bilstm(p[f"lstm{layer}"], rows, begin)
        first = first or ends
        queries = project(features, f"attention{layer}_query")
        keys = project(p["labels"], f"attention{layer}_key")
        if layer == num_layers:
            return queries @ keys.T / np.sqrt(2 * SIZE)
        values = project(p["labels"], f"attention{layer}_value")
        width = 2 * SIZE // num_heads
        gathered = []
        for head in range(num_heads):
            part = slice(head * width, (head + 1) * width)
            odds = np.exp(queries[:, part] @ keys[:, part].T / np.sqrt(width))
            weights = odds / odds.sum(axis=1, keepdims=True)
            gathered.append(weights @ values[:, part])
        answers = np.concatenate(gathered, axis=1) + features
        rows = np.concatenate([features, answers], axis=1)


@pytest.mark.parametrize(("num_layers", "num_heads"), [(1, 2), (2, 4), (3, 2)])
def test_forward_pass_equals_numpy(num_layers, num_heads):
    model = LAN.clone(num_layers=num_layers, num_heads=num_heads)
    weights = draw_weights(model)
    x, mask = draw_sentence(4, padding=2)
    p = jax.tree.map(lambda leaf: np.asarray(leaf, np.float64), weights["params"])
    expected = numpy_lan(p, np.asarray(x[:4], np.float64), num_layers, num_heads)
    found = run(model, weights, x, mask)
    assert found.shape == (6, LABELS)
    np.testing.assert_allclose(found[:4], expected, rtol=1e-4, atol=1e-4)
    assert not found[4:].any()


@pytest.mark.parametrize("rate", ["dropout", "weight_dropout"])
def test_each_rate_acts_in_training_alone(rate):
    x, mask = draw_sentence(4)
    weights = draw_weights(LAN)
    model = LAN.clone(**{"dropout": 0.0, "weight_dropout": 0.0, rate: 0.5})
    quiet = run(model, weights, x, mask)
    np.testing.assert_array_equal(run(LAN, weights, x, mask), quiet)
    noisy = [run(model, weights, x, mask, jax.random.key(k)) for k in (0, 1)]
    assert not np.allclose(noisy[0], quiet)
    assert not np.allclose(noisy[0], noisy[1])
    if rate == "weight_dropout":  # there are none in the last layer
        one = model.clone(num_layers=1)
        weights = draw_weights(one)
        noisy = run(one, weights, x, mask, jax.random.key(0))
        np.testing.assert_array_equal(noisy, run(one, weights, x, mask))


def test_its_scores_are_the_potentials():
    options = {"name": "lan", "hidden_dim": 4, "num_layers": 2, "num_heads": 2}
    sizes = {"num_labels": LABELS, "num_trained_words": 9, "num_frozen_words": 0}
    parts = {"representation": {"words": {"dim": DIM}, "dropout": 0.0}}
    model = models.build(
        num_chars=2, encoder=options, head={"name": "scores"}, **sizes, **parts
    )
    assert model.encoder == LAN.clone(hidden_dim=4, num_layers=2)
    assert model.head == ScoresHead(LABELS)
    assert set(
        jax.eval_shape(lambda: models.init(model, jax.random.key(0)))["params"]
    ) == {
        "representation",
        "encoder",
    }
    scores = jnp.asarray(np.random.default_rng(0).normal(size=(3, LABELS)))
    assert ScoresHead(LABELS).apply({}, scores, train=True).emissions is scores
    head = ScoresHead(LABELS, transitions=True)
    potentials, weights = head.init_with_output(jax.random.key(0), scores, train=False)
    assert set(weights["params"]) == {"transitions", "start", "end"}
    assert potentials.emissions is scores
    assert potentials.transitions.shape == (LABELS, LABELS)
    with pytest.raises(ValueError, match="each of the 5 labels, got 4; use the encode"):
        ScoresHead(LABELS).apply({}, scores[:, :4], train=False)


def test_intermediates_are_the_distributions_over_labels():
    weights = draw_weights(LAN)
    x, mask = draw_sentence(4)
    _, out = LAN.apply(weights, x, mask, train=False)
    p = jax.tree.map(lambda leaf: np.asarray(leaf, np.float64), weights["params"])
    begin = [(np.zeros(SIZE), np.zeros(SIZE))] * 2
    features, _ = numpy_bilstm(p["lstm1"], np.asarray(x, np.float64), begin)

    def project(rows, name):
        return np.maximum(rows @ p[name]["kernel"] + p[name]["bias"], 0)

    queries = project(features, "attention1_query").reshape(4, 2, SIZE)
    keys = project(p["labels"], "attention1_key").reshape(LABELS, 2, SIZE)
    odds = np.exp(np.einsum("tmk,lmk->mtl", queries, keys) / np.sqrt(SIZE))
    expected = odds / odds.sum(axis=2, keepdims=True)
    assert out["label_attention"].shape == (2, 2, 4, LABELS)
    np.testing.assert_allclose(out["label_attention"][0], expected, rtol=1e-4)
