"""Heads and composed encoders, against NumPy."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxner import inference, models
from jaxner.models import Chain, DirectionHead, Head, Projection
from jaxner.models.idcnn import IDCNN
from tests.sentences import spelled

LABELS, DIM = 4, 6


def init(module, *inputs):
    return module.init(jax.random.key(0), *inputs, train=False)


def draw_weights(module, *inputs, seed=0):
    rng = np.random.default_rng(seed)
    return jax.tree.map(
        lambda leaf: jnp.asarray(rng.normal(size=leaf.shape), leaf.dtype),
        jax.eval_shape(lambda: init(module, *inputs)),
    )


@jax.jit(static_argnames=("module", "train"))
def apply(module, weights, *inputs, key=None, train=False):
    rngs = None if key is None else {"dropout": key}
    return module.apply(weights, *inputs, train=train, rngs=rngs)


def draw(length=5, dim=DIM):
    x = np.random.default_rng(length).normal(size=(length, dim))
    return jnp.asarray(x, jnp.float32)


def in_float64(weights):
    return jax.tree.map(lambda a: np.asarray(a, np.float64), weights["params"])


def dense(p, x):
    return np.asarray(x, np.float64) @ p["kernel"] + p["bias"]


def softmax(scores):
    odds = np.exp(scores)
    return odds / odds.sum(axis=1, keepdims=True)


# --- Heads ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("head", "own"),
    [
        (Head(LABELS), {"transitions", "start", "end"}),
        (Head(LABELS, boundaries=False), {"transitions"}),
        (Head(LABELS, transitions=False), set()),
        (Head(LABELS, transitions=False, boundaries=False), set()),
    ],
)
def test_linear_heads_equal_numpy(head, own):
    x = draw()
    weights = draw_weights(head, x)
    assert set(weights["params"]) == {"emissions"} | own
    found = apply(head, weights, x)
    p = in_float64(weights)
    np.testing.assert_allclose(
        found.emissions, dense(p["emissions"], x), rtol=1e-5, atol=1e-5
    )
    shapes = {"transitions": (LABELS, LABELS), "start": (LABELS,), "end": (LABELS,)}
    for name, shape in shapes.items():
        values = getattr(found, name)
        if name in own:
            np.testing.assert_array_equal(values, weights["params"][name])
            assert values.shape == shape
        elif not head.transitions:
            assert values is None
        else:  # a first or last label costs nothing
            np.testing.assert_array_equal(values, np.zeros(shape))


def test_direction_head_averages_two_softmaxes():
    head, x = DirectionHead(LABELS), draw()
    weights = draw_weights(head, x)
    p = in_float64(weights)
    assert jax.tree.map(jnp.shape, weights["params"]) == {
        name: {"kernel": (DIM // 2, LABELS), "bias": (LABELS,)}
        for name in ("forward", "backward")
    }
    forward = softmax(dense(p["forward"], x[:, : DIM // 2]))
    backward = softmax(dense(p["backward"], x[:, DIM // 2 :]))
    found = apply(head, weights, x)
    assert found[1:] == (None, None, None)
    expected = (forward + backward) / 2
    np.testing.assert_allclose(jnp.exp(found.emissions), expected, rtol=1e-5)
    # They are log-probabilities, so the partition function is 1, and Viterbi takes
    # what the summed probabilities prefer.
    mask = jnp.ones(len(x), bool)
    assert float(inference.log_partition(found, mask)) == pytest.approx(0, abs=1e-5)
    np.testing.assert_array_equal(
        inference.viterbi(found, mask), (forward + backward).argmax(axis=1)
    )


@pytest.mark.parametrize(
    "head",
    [Head(LABELS, dropout=0.4), DirectionHead(LABELS, dropout=0.4)],
)
def test_dropout_acts_on_the_way_in(head):
    """An identity in place of the layer shows its input."""
    x = jnp.ones((400, 2 * LABELS))
    weights = draw_weights(head, x)
    quiet = apply(head, weights, x).emissions
    np.testing.assert_array_equal(quiet, jnp.broadcast_to(quiet[:1], quiet.shape))
    noisy = apply(head, weights, x, key=jax.random.key(0), train=True).emissions
    assert len(np.unique(noisy, axis=0)) > 50
    if isinstance(head, Head):
        eye = jnp.eye(2 * LABELS, LABELS)
        p = {**weights["params"], "emissions": {"kernel": eye, "bias": jnp.zeros(4)}}
        found = apply(head, {"params": p}, x, key=jax.random.key(0), train=True)
        np.testing.assert_allclose(np.unique(found.emissions), [0, 1 / 0.6], rtol=1e-6)
        assert float((found.emissions > 0).mean()) == pytest.approx(0.6, abs=0.06)


# --- Stages ---------------------------------------------------------------------------


def tagger(head, encoder=None):
    return models.build(
        num_labels=LABELS,
        num_trained_words=9,
        num_frozen_words=0,
        num_chars=4,
        representation={"words": {"dim": 3}, "chars": None, "dropout": 0.0},
        encoder=encoder or {"name": "idcnn", "hidden_dim": 5, "num_blocks": 3},
        head={"dropout": 0.0, **head},
    )


SENTENCE = spelled(
    jnp.array([3, 4, 5]), jnp.ones((3, 1), int), jnp.ones(3, bool), jnp.ones(3, int)
)


def random_weights(model):
    rng = np.random.default_rng(0)
    shapes = jax.eval_shape(lambda: models.init(model, jax.random.key(0)))
    return jax.tree.map(lambda leaf: jnp.asarray(rng.normal(size=leaf.shape)), shapes)


run_stages = jax.jit(models.apply_stages, static_argnames="model")


@pytest.mark.parametrize("per_stage", [False, True])
@pytest.mark.parametrize("name", ["softmax", "crf"])
def test_stages_have_one_head_or_one_each(name, per_stage):
    model = tagger({"name": name, "per_stage": per_stage})
    weights = random_weights(model)
    found, _ = run_stages(model, weights, SENTENCE)
    x = weights["params"]["representation"]["words"]["trained"][SENTENCE.words]
    stages, _ = model.encoder.apply(
        {"params": weights["params"]["encoder"]}, x, SENTENCE.mask, train=False
    )
    heads = ["earlier_heads_0", "earlier_heads_1"] if per_stage else ["head", "head"]
    for potentials, features, head in zip(found, stages, [*heads, "head"], strict=True):
        p = weights["params"][head]
        expected = dense(in_float64({"params": p})["emissions"], features)
        np.testing.assert_allclose(potentials.emissions, expected, rtol=1e-4, atol=1e-4)
        if name == "crf":
            for own in ("transitions", "start", "end"):
                np.testing.assert_array_equal(getattr(potentials, own), p[own])
    last = models.apply(model, weights, SENTENCE)
    np.testing.assert_allclose(
        last.emissions, found[-1].emissions, rtol=1e-5, atol=1e-5
    )


# --- Projection and chain -------------------------------------------------------------


@pytest.mark.parametrize(
    "chain", [Chain(IDCNN(4), Projection(3)), Chain(IDCNN(4), IDCNN(4))]
)
def test_receptive_field_of_a_chain_is_what_a_label_depends_on(chain):
    reach = chain.receptive_field // 2
    x, mask, middle = jnp.ones((31, 2)), jnp.ones(31, bool), 15
    shapes = draw_weights(chain, x, mask)
    weights = jax.tree.map(lambda leaf: jnp.abs(leaf) / 10, shapes)

    @jax.jit
    @jax.grad
    def gradient(x):
        features, _ = chain.apply(weights, x, mask, train=False)
        return jnp.sum(features[-1][middle])

    seen = np.flatnonzero(np.asarray(gradient(x)).any(axis=1))
    assert (seen.min(), seen.max()) == (middle - reach, middle + reach)
