"""Vectors computed beforehand, and contextual parts of a representation."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxner import models
from jaxner.models.representation import Vectors
from jaxner.types import Pieces
from tests.sentences import spelled

ENCODER = {
    "vocab_size": 12,
    "hidden_size": 6,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "intermediate_size": 8,
    "max_position_embeddings": 10,
}


FIRST = {"pool": "first"}


def draw(tokens=4, seed=0):
    rng = np.random.default_rng(seed)
    return jnp.asarray(rng.normal(size=(tokens, 3, 5)), jnp.float32)


@pytest.mark.parametrize(
    ("layer", "shares"),
    [
        ("top", [0, 0, 1]),
        ("average", [1 / 3, 1 / 3, 1 / 3]),
        (0, [1, 0, 0]),
        (1, [0, 1, 0]),
    ],
)
def test_layers_without_weights(layer, shares):
    vectors = draw()
    model = Vectors(3, 5, layer)
    assert not model.init(jax.random.key(0), vectors)
    right = np.einsum("tsd,s->td", np.asarray(vectors, float), shares)
    np.testing.assert_allclose(model.apply({}, vectors), right, rtol=1e-6, atol=1e-6)


def test_the_learned_mix():
    vectors, model = draw(), Vectors(3, 5)
    weights = model.init(jax.random.key(0), vectors)
    begins = model.apply(weights, vectors)
    np.testing.assert_allclose(begins, vectors.mean(axis=1), rtol=1e-5, atol=1e-6)
    own = {"shares": jnp.array([0.3, -1.0, 2.0]), "scale": jnp.array(1.7)}
    assert jax.tree.map(jnp.shape, weights["params"]) == jax.tree.map(jnp.shape, own)
    powers = np.exp([0.3, -1.0, 2.0])
    right = 1.7 * sum(
        p / powers.sum() * np.asarray(vectors[:, k]) for k, p in enumerate(powers)
    )
    found = model.apply({"params": own}, vectors)
    np.testing.assert_allclose(found, right, rtol=1e-5, atol=1e-6)


def build(words=True, vectors=True, bert=FIRST):
    return models.build(
        num_labels=3,
        num_trained_words=9,
        num_frozen_words=0,
        num_chars=1,
        representation={
            "words": {"dim": 2} if words else None,
            "chars": None,
            "vectors": {"layer": "mix"} if vectors else None,
            "bert": bert,
            "dropout": 0.0,
        },
        encoder={"name": "identity"},
        head={"name": "softmax", "dropout": 0.0},
        vector_sizes=(3, 5) if vectors else None,
        encoder_sizes=ENCODER if bert else None,
    )


def sentence(tokens, padding=0):
    """A sentence of at most three tokens; its last piece is under padding."""
    size = tokens + padding
    words = np.where(np.arange(size) < tokens, np.arange(size) + 2, 0)
    ids = np.array([[1, 4, 5, 6, 2, 0, 0]], np.int32)
    positions = np.where(np.arange(size) < tokens, np.arange(size) + 1, -1)[:, None]
    vectors = np.zeros((size, 3, 5), np.float32)
    vectors[:tokens] = draw(3)[:tokens]
    pieces = Pieces(ids, ids > 0, positions.astype(np.int32))
    parts = (words.astype(np.int32), np.zeros((size, 1), np.int32))
    full = spelled(*parts, np.arange(size) < tokens, None, vectors, pieces)
    return jax.tree.map(jnp.asarray, full)


def test_parts_are_laid_side_by_side_and_padding_changes_nothing():
    model = build()
    weights = models.init(
        model, jax.random.key(0)
    )  # needs no sentence with such fields
    assert weights["params"]["head"]["emissions"]["kernel"].shape == (2 + 5 + 6, 3)

    def represent(bound, one):
        return bound.representation(one, train=False)

    apply = jax.jit(lambda one: model.apply(weights, one, method=represent))
    found = apply(sentence(3))
    vectors = sentence(3).vectors.mean(axis=1)
    np.testing.assert_allclose(found[:, 2:7], vectors, rtol=1e-5, atol=1e-6)
    assert found[:, 7:].any(axis=1).all()
    padded = apply(sentence(3, padding=2))
    np.testing.assert_allclose(padded[:3], found, rtol=1e-5, atol=1e-6)
    assert not padded[3:].any()
