"""Drafts of a LAN: the attention of a layer, its entropy, and the final labels."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxner
from jaxner import models
from jaxner.analysis import drafts
from jaxner.data import corpora
from jaxner.data import vocabulary as vocab
from jaxner.evaluation import detection
from tests.marks import slow


@pytest.fixture(scope="module")
def split():
    found = corpora.load("sample", "dev")
    return dataclasses.replace(found, examples=found.examples[:3])


@pytest.fixture(scope="module")
def lan(split):
    vocabulary, _ = vocab.build([e.tokens for e in split.examples], ["PER", "LOC"])
    model = jaxner.build(
        vocabulary,
        representation={"words": {"dim": 6}, "chars": None},
        encoder={"name": "lan", "hidden_dim": 4, "num_layers": 3, "num_heads": 2},
        head={"name": "scores"},
    )
    weights = jaxner.init(model, jax.random.key(3))
    # Label vectors begin almost equal; larger ones make labels differ.
    weights = jax.tree.map(lambda leaf: leaf * 3, weights)
    return jaxner.Tagger(weights, model, vocabulary)


def attention(lan, tokens):
    sentence = jax.tree.map(jnp.asarray, lan.vocabulary.encode(tokens))
    out = models.apply_with_intermediates(lan.model, lan.weights, sentence)[1]
    return np.asarray(out["label_attention"], np.float64)[:, :, : len(tokens)]


@pytest.mark.parametrize("layer", [*slow(1, 2), None])
def test_without_dropout_the_draft_is_the_mean_attention_of_its_layer(
    lan, split, layer
):
    found = drafts.traces(lan, split, samples=0, layer=layer)
    expected = jaxner.tag(lan, [e.tokens for e in split.examples])
    assert [trace.final for trace in found] == expected
    for trace, example in zip(found, split.examples, strict=True):
        chances = attention(lan, example.tokens)[(layer or 2) - 1].mean(axis=0)
        np.testing.assert_allclose(chances.sum(axis=1), 1, rtol=1e-5)
        entropy = -(chances * np.log(chances)).sum(axis=1)
        np.testing.assert_allclose(trace.uncertainty, entropy, rtol=1e-4)
        labels = lan.vocabulary.decode(chances.argmax(axis=1).tolist())
        assert trace.draft == labels


def test_passes_with_dropout_depend_on_the_key_alone(lan, split):
    runs = [
        drafts.traces(lan, split, samples=3, key=jax.random.key(seed))
        for seed in (0, 0, 1)
    ]
    assert runs[0] == runs[1]
    assert runs[0] != runs[2]


def test_a_layer_that_is_not_there(lan, split):
    with pytest.raises(ValueError, match=r"layer from 1 to 2 .*got 3"):
        drafts.traces(lan, split, layer=3)


def test_table_1_counts_each_kind_of_change():
    gold = [["A", "B", "C", "A"]]
    trace = drafts.Trace(
        draft=["A", "A", "A", "B"],
        refined=["B", "B", "B", "B"],
        uncertainty=[0.5, 0.7, 0.1, 0.3],
        final=["A", "B", "A", "B"],
    )
    table = drafts.table1(gold, [trace])
    assert table.changes[:3] == (1, 1, 1)
    assert table.final[:3] == (1, 0, 0)
    assert (table.detection.wrong, table.detection.right) == (3, 1)
    assert table.detection.auroc == pytest.approx(1 / 3)


def test_changes_need_one_value_for_each_token():
    with pytest.raises(ValueError, match="uncertainties, got 3, 3, 2, 3"):
        detection.changes(["ABC"], ["ACB"], ["BB"], np.zeros(3))
