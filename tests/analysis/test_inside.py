"""Heat maps: attention weights and relation strengths of one sentence."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxner
from jaxner import models, tagging
from jaxner.data import vocabulary as vocab

WORDS = ("Rome", "is", "old", "and", "big")
PLAIN = {"name": "grn", "hidden_dim": 4, "relation": "none"}
ATTENTION = {"name": "attention", "num_heads": 2, "head_dim": 3}
CHAIN = {"name": "chain", "first": PLAIN, "then": ATTENTION}
RELATION = {"name": "grn", "hidden_dim": 4}


def tagger(encoder, **lexical):
    vocabulary, _ = vocab.build([WORDS], ["LOC"], **lexical)
    options = {
        "representation": {"words": {"dim": 4}, "chars": None},
        "encoder": encoder,
        "head": {"name": "softmax"},
    }
    model = jaxner.build(vocabulary, **options)
    return tagging.Tagger(models.init(model, jax.random.key(0)), model, vocabulary)


@pytest.fixture(scope="module")
def attentive():
    return tagger(CHAIN)


def intermediates(params, tokens):
    sentence = jax.tree.map(jnp.asarray, params.vocabulary.encode(tokens))
    return models.apply_stages(params.model, params.weights, sentence)[1]


@pytest.mark.parametrize("length", [1, 3])
def test_attention_of_a_sentence(attentive, length):
    tokens = [WORDS[i % len(WORDS)] for i in range(length)]
    weights = jaxner.attention(attentive, tokens)
    assert weights.shape == (2, length, length)
    assert isinstance(weights, np.ndarray)
    assert (weights > 0).all()
    np.testing.assert_allclose(weights.sum(axis=2), 1.0, atol=1e-6)
    expected = intermediates(attentive, tokens)["attention"]
    np.testing.assert_allclose(weights, expected, atol=1e-6)
    if length > 1:
        assert weights.std() > 1e-4  # else nothing was compared


def test_relations_of_a_sentence():
    params = tagger(RELATION)
    tokens = list(WORDS)
    scores = jaxner.relations(params, tokens)
    assert scores.shape == (5, 5)
    assert scores.min() >= 0
    assert scores.max() <= 1 + 1e-6
    out = intermediates(params, tokens)
    expected = models.relation_scores(out, jnp.ones(5, bool))
    np.testing.assert_allclose(scores, expected, atol=1e-6)


def test_nothing_to_show_for_no_tokens(attentive):
    assert jaxner.attention(attentive, []).shape == (2, 0, 0)
    assert jaxner.relations(tagger(RELATION), []).shape == (0, 0)


def test_a_tagger_of_documents_shows_the_sentence_alone():
    """Its maps have rows for the words, and none for separators."""
    weights = jaxner.attention(tagger(CHAIN, documents=True), list(WORDS))
    assert weights.shape == (2, 5, 5)
    np.testing.assert_allclose(weights.sum(axis=2), 1.0, atol=1e-6)


def test_taggers_without_say_so(attentive):
    plain = tagger(PLAIN)
    with pytest.raises(
        ValueError, match="no attention; heat maps of attention need the encoder"
    ):
        jaxner.attention(plain, ["Rome"])
    with pytest.raises(ValueError, match="no relation layer"):
        jaxner.relations(attentive, ["Rome"])
