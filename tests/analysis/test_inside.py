"""Heat maps: attention weights and relation strengths of one sentence."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxner
from jaxner import models, tagger
from tests.models import draws
from tests.test_decoding import tiny

WORDS = ["Rome", "beat", "Milan", "and", "Ms"]
PLAIN = {"name": "grn", "hidden_dim": 4, "relation": "none"}
ATTENTION = {"name": "attention", "num_heads": 2, "head_dim": 3}
CHAIN = {"name": "chain", "first": PLAIN, "then": ATTENTION}


@pytest.fixture(scope="module")
def attentive():
    return tiny("softmax", encoder=CHAIN)


def intermediates(params, tokens):
    sentence = jax.tree.map(jnp.asarray, params.vocabulary.encode(tokens))
    return draws.apply(params.model, params.weights, sentence)[1]


@pytest.mark.parametrize("length", [0, 1, 3])
def test_attention_of_a_sentence(attentive, length):
    tokens = WORDS[:length]
    weights = jaxner.attention(attentive, tokens)
    assert weights.shape == (2, length, length)
    np.testing.assert_allclose(weights.sum(axis=2), 1.0, atol=1e-6)
    expected = intermediates(attentive, tokens)["attention"]
    np.testing.assert_allclose(weights, expected, atol=1e-6)
    if length > 1:
        assert weights.std() > 1e-4  # else nothing was compared


def test_relations_of_a_sentence():
    related = tiny("softmax", encoder={"name": "grn", "hidden_dim": 4})
    scores = jaxner.relations(related, WORDS)
    expected = models.relation_scores(intermediates(related, WORDS), jnp.ones(5, bool))
    np.testing.assert_allclose(scores, expected, atol=1e-6)
    assert jaxner.relations(related, []).shape == (0, 0)


def test_a_tagger_of_documents_shows_the_sentence_alone():
    """Its maps have rows for the words, and none for separators."""
    weights = jaxner.attention(tiny("softmax", documents=True, encoder=CHAIN), WORDS)
    assert weights.shape == (2, 5, 5)
    np.testing.assert_allclose(weights.sum(axis=2), 1.0, atol=1e-6)


def test_taggers_without_say_so(attentive):
    with pytest.raises(ValueError, match="no attention"):
        jaxner.attention(tiny("softmax", encoder=PLAIN), ["Rome"])
    with pytest.raises(ValueError, match="take a member"):
        jaxner.attention(tagger.ensemble([attentive, attentive]), ["Rome"])
    with pytest.raises(ValueError, match="no relation layer"):
        jaxner.relations(attentive, ["Rome"])
    with pytest.raises(TypeError, match=r"Expected tokens, .* got Sentence\."):
        jaxner.attention(attentive, jaxner.encode(attentive, ["Rome"]))
