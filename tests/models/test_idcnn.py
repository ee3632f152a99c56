"""Iterated dilated convolutions against an independent NumPy reading of them."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxner import models
from jaxner.data import batching
from jaxner.models.idcnn import IDCNN
from tests.sentences import spelled

DIM, HIDDEN = 4, 5
PAPER = (1, 2, 1)


def build(**options):
    return IDCNN(**{"hidden_dim": HIDDEN, **options})


def init(model, dim=DIM):
    x, mask = jnp.zeros((1, dim)), jnp.ones(1, bool)
    return model.init(jax.random.key(0), x, mask, train=False)


def draw_weights(model, dim=DIM, seed=0):
    """Random weights with no zeros in them, so that no tap can be forgotten."""
    rng = np.random.default_rng(seed)
    shapes = jax.eval_shape(lambda: init(model, dim))
    return jax.tree.map(
        lambda leaf: jnp.asarray(0.5 * rng.normal(size=leaf.shape), leaf.dtype), shapes
    )


@jax.jit(static_argnames="model")
def apply(model, weights, x, mask):
    return model.apply(weights, x, mask, train=True)[0]


def draw(length, padding=0, seed=0):
    """Random features; under padding they are zero, as a representation's are."""
    x = np.random.default_rng(seed).normal(size=(length + padding, DIM))
    x[length:] = 0
    return jnp.asarray(x, jnp.float32), jnp.arange(length + padding) < length


# --- The paper's equations, one token at a time ---------------------------------------


def convolve(rows, layer, dilation):
    """Eq. 2 and 6: the taps t - δ, t and t + δ; outside of the sentence are zeros."""
    out = []
    for t in range(len(rows)):
        total = layer["bias"].copy()
        for tap, at in enumerate((t - dilation, t, t + dilation)):
            if 0 <= at < len(rows):
                size = len(rows[at])
                matrix = layer["kernel"][tap * size : (tap + 1) * size]
                total += rows[at] @ matrix
        out.append([max(value, 0.0) for value in total])
    return np.array(out)


def numpy_idcnn(weights, x, dilations, num_blocks, share):
    """Eq. 7 to 10: what each block gives, b^(1) to b^(L_b)."""
    p = jax.tree.map(lambda a: np.asarray(a, np.float64), weights["params"])
    x = convolve(np.asarray(x, np.float64), p["initial"], 1)
    stages = []
    for i in range(1, num_blocks + 1):
        block = p["block" if share else f"block{i}"]
        for j, dilation in enumerate(dilations, 1):
            x = convolve(x, block[f"conv{j}"], dilation)
        stages.append(x)
    return stages


@pytest.mark.parametrize("share", [True, False])
@pytest.mark.parametrize("num_blocks", [1, 3])
@pytest.mark.parametrize("dilations", [PAPER, (1, 1, 1), (1, 1, 1, 1), (4, 1, 3), (2,)])
def test_forward_pass_equals_numpy(dilations, num_blocks, share):
    model = build(dilations=dilations, num_blocks=num_blocks, share=share)
    weights = draw_weights(model)
    x, mask = draw(9, padding=3)
    found = apply(model, weights, x, mask)
    expected = numpy_idcnn(weights, x[:9], dilations, num_blocks, share)
    assert len(found) == model.num_stages == num_blocks
    for stage, values in zip(found, expected, strict=True):
        scale = np.abs(values).max()
        assert scale > 0
        np.testing.assert_allclose(stage[:9], values, rtol=1e-4, atol=1e-5 * scale)
        assert not stage[9:].any()


# --- What the weights are -------------------------------------------------------------


def tagger(*, per_stage=False, representation=None, **options):
    return models.build(
        num_labels=3,
        num_trained_words=9,
        num_frozen_words=0,
        num_chars=4,
        representation={
            "words": {"dim": DIM},
            "chars": None,
            "dropout": 0.0,
            **(representation or {}),
        },
        encoder={"name": "idcnn", "hidden_dim": HIDDEN, **options},
        head={"name": "softmax", "dropout": 0.0, "per_stage": per_stage},
    )


def test_one_head_for_all_stages_or_one_for_each():
    trees = [
        jax.eval_shape(lambda m=model: models.init(m, jax.random.key(0)))["params"]
        for model in (
            tagger(num_blocks=3),
            tagger(num_blocks=3, share=False, per_stage=True),
            tagger(num_blocks=1, per_stage=True),
        )
    ]
    assert [set(tree) for tree in trees] == [
        {"representation", "encoder", "head"},
        {"representation", "encoder", "head", "earlier_heads_0", "earlier_heads_1"},
        {"representation", "encoder", "head"},
    ]
    assert set(trees[1]["encoder"]) == {"initial", "block1", "block2", "block3"}
    shapes = jax.tree.map(jnp.shape, trees[1])
    assert shapes["head"] == shapes["earlier_heads_0"] == shapes["earlier_heads_1"]


# --- What decides a label -------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "field"),
    [
        ({}, 11),  # the paper's 4-layer ID-CNN
        ({"dilations": (1, 1, 1)}, 9),  # 4-layer CNN
        ({"dilations": (1, 1, 1, 1)}, 11),  # 5-layer CNN
        ({"num_blocks": 3}, 27),
        ({"num_blocks": 3, "share": False}, 27),
        ({"dilations": (2,)}, 7),
        ({"dilations": (1, 4), "num_blocks": 2}, 23),
    ],
)
def test_receptive_field_is_what_a_label_depends_on(options, field):
    model = build(**options)
    assert model.receptive_field == field
    # With positive weights and inputs, no ReLU cuts a path.
    weights = jax.tree.map(lambda leaf: jnp.abs(leaf) / 10, draw_weights(model))
    middle, length = 20, 41
    x, mask = jnp.ones((length, DIM)), jnp.ones(length, bool)

    def label(x):
        return jnp.sum(model.apply(weights, x, mask, train=False)[0][-1][middle])

    seen = np.flatnonzero(np.asarray(jax.jit(jax.grad(label))(x)).any(axis=1))
    assert seen.min() == middle - field // 2
    assert seen.max() == middle + field // 2
    assert len(seen) <= field


def test_separators_have_no_features_of_their_own_but_layers_act_on_them():
    chosen = {"caps": {"rule": "shape", "dim": 2}}
    model = tagger(num_blocks=2, representation=chosen)
    weights = draw_weights_of_tagger(model)
    words = [np.array([3, 4], np.int32), np.array([5], np.int32)]
    sentence = jax.tree.map(
        jnp.asarray,
        batching.join(
            [
                spelled(w, np.ones((len(w), 1), np.int32), w > 0, np.full_like(w, 4))
                for w in words
            ]
        ),
    )
    separators = np.array([0, 3, 5])
    assert sentence.mask.all()
    assert not sentence.words[separators].any()

    def parts(tagger, sentence):
        x = tagger.representation(sentence, train=False)
        return x, tagger.encoder(x, sentence.mask, train=False)[0]

    x, stages = model.apply(weights, sentence, method=parts)
    assert not x[separators].any()
    assert x[jnp.array([1, 2, 4])].all()
    p = jax.tree.map(lambda a: np.asarray(a, np.float64), weights["params"]["encoder"])
    first = convolve(np.asarray(x, np.float64), p["initial"], 1)
    # The bias and the neighbours act at a separator as they do at a word.
    assert (first[separators] != 0).any(axis=1).all()
    expected = numpy_idcnn({"params": p}, x, PAPER, 2, True)
    for found, values in zip(stages, expected, strict=True):
        np.testing.assert_allclose(found, values, rtol=1e-4, atol=1e-4)


def draw_weights_of_tagger(model):
    rng = np.random.default_rng(1)
    return jax.tree.map(
        lambda leaf: jnp.asarray(rng.uniform(0.1, 0.5, leaf.shape), leaf.dtype),
        jax.eval_shape(lambda: models.init(model, jax.random.key(0))),
    )
