"""Batches contain every sentence once, in few shapes, and never change its result."""

import dataclasses

import jax
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import jaxner
from jaxner import batched, models, tagging
from jaxner.data import corpora, vocab
from jaxner.types import batch_axes
from tests.sentences import spelled

SIZES = st.lists(st.tuples(st.integers(0, 200), st.integers(1, 300)), max_size=40)


@given(SIZES, st.integers(1, 8))
@settings(max_examples=80, deadline=None)
def test_plan(sizes, passes):
    taken, most = [], batched._TOKENS["cpu"]
    for (length, width), size, rows in batched._plan(sizes, passes):
        assert 1 <= len(rows) <= size == 1 << (size.bit_length() - 1)
        within = size * length * max(passes, width * most // batched._CHARS) <= most
        assert size == 1 or within
        for i in rows:
            tokens, chars = sizes[i]
            assert tokens <= length
            assert chars <= width
        taken += rows
    assert sorted(taken) == list(range(len(sizes)))


def test_a_corpus_has_little_padding_in_few_shapes():
    rng = np.random.default_rng(0)
    lengths = np.minimum(rng.geometric(1 / 14, 3000), 120)
    plan = list(batched._plan([(n, 9) for n in lengths.tolist()], 1))
    positions = sum(length * size for (length, _), size, _ in plan)
    assert 1 - lengths.sum() / positions < 0.25
    assert len({(shape, size) for shape, size, _ in plan}) <= 14


@pytest.mark.parametrize("length", range(1, 200))
def test_lengths_are_rounded_up_by_half_at_the_most(length):
    tokens, _ = batched.round_up(length, 5)
    assert length <= tokens <= max(16, 1.5 * length)
    assert tokens == 8 or length > 8


@pytest.mark.parametrize(("width", "rounded"), [(1, 1), (2, 24), (25, 128), (129, 256)])
def test_characters_are_rounded_up_where_they_are_read(width, rounded):
    assert batched.round_up(3, width)[1] == rounded


@pytest.fixture
def sentences(corpus):
    examples = corpora.load(None, "dev", directory=corpus).examples
    return [list(example.tokens) for example in examples]


def emissions(params, sentences):
    @jax.jit
    def compute(batch):
        def one(sentence):
            return models.apply(params.model, params.weights, sentence).emissions

        return jax.vmap(one, in_axes=(batch_axes(batch),))(batch)

    encoded = tagging.encode_each(params, sentences)
    return batched.over_documents(params, compute, encoded)


def test_neither_batch_mates_nor_the_order_change_a_score(params, sentences):
    text = [*sentences[:12], []]
    together = emissions(params, text)
    backwards = emissions(params, text[::-1])[::-1]
    for i, tokens in enumerate(text):
        (alone,) = emissions(params, [tokens])
        assert alone.shape[0] == len(tokens)
        np.testing.assert_allclose(together[i], alone, rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(backwards[i], alone, rtol=1e-4, atol=1e-5)


def test_labels_do_not_depend_on_batch_mates(params, sentences):
    together = jaxner.tag(params, [*sentences, []])
    assert together[:-1] == [jaxner.tag(params, tokens) for tokens in sentences]
    assert together[-1] == []


@pytest.mark.parametrize("parts", [("encoder",), ("representation",)])
def test_passes_with_dropout_do_not_depend_on_batch_mates(parts, params, sentences):
    """Those among the characters draw a mask for each token, in each pass."""
    chars = params.model.representation.chars.clone(dropout=0.5)
    model = params.model.clone(
        representation=params.model.representation.clone(chars=chars, dropout=0.0),
        mc_dropout=models.MCDropout(num_samples=2, parts=parts),
    )
    params = dataclasses.replace(params, model=model)
    text = [["Rome", "Rome", "Rome", "Rome"], *sentences[:2]]
    together = jaxner.sample(params, text, jax.random.key(0), 2)
    for tokens, found in zip(text, together, strict=True):
        alone = jaxner.sample(params, [tokens], jax.random.key(0), 2)[0]
        for ours, theirs in zip(*map(jax.tree.leaves, (found, alone)), strict=True):
            np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-6)


@pytest.fixture
def batches(monkeypatch):
    """Collects the batches."""
    read, pad = [], batched.padding.pad

    def padded(*arguments):
        read.append(pad(*arguments))
        return read[-1]

    monkeypatch.setattr(batched.padding, "pad", padded)
    return read


def test_a_batch_reads_each_of_its_words_once(params, sentences, batches):
    jaxner.tag(params, sentences)
    for batch in batches:
        real = batch.chars[batch.chars.any(axis=1)]
        assert len(np.unique(real, axis=0)) == len(real)
        used = np.unique(batch.char_index[batch.mask])
        assert len(used) == len(real)
    tokens = sum(map(len, sentences))
    assert sum((b.chars > 0).any(axis=1).sum() for b in batches) < 0.8 * tokens


def test_a_text_without_characters_to_read_has_none(params, sentences, batches):
    representation = params.model.representation.clone(chars=None)
    model = params.model.clone(representation=representation)
    params = dataclasses.replace(params, model=model)
    batched.over_documents(
        params, lambda b: b.words, tagging.encode_each(params, sentences[:9])
    )
    for batch in batches:
        assert not batch.chars.any()
        assert batch.chars.shape[1] == 1


LONG = "Rome" * 75_000


@pytest.mark.parametrize("times", [1, 30])
def test_a_very_long_word_takes_bounded_memory(params, sentences, batches, times):
    text = [*sentences[:12] * times, ["In", LONG, "it", *["rained"] * 20], []]
    encoded = tagging.encode_each(params, text)
    most = vocab.MAX_CHARACTERS
    assert max(sentence.chars.shape[1] for sentence in encoded) == most
    labels = jaxner.tag(params, text)
    assert max(batch.chars.shape[1] for batch in batches) == most
    assert max(batch.chars.size for batch in batches) <= batched._CHARS
    # The others are not read beside it, and their labels are what they were.
    wide = [batch for batch in batches if batch.chars.shape[1] == most]
    assert sum(int(batch.mask.any(axis=1).sum()) for batch in wide) < 12
    assert jaxner.tag(params, text[:12]) == labels[:12]
    cut = [[token[:most] for token in tokens] for tokens in text[-2:]]
    assert jaxner.tag(params, cut) == labels[-2:]


class Computed:
    """Counts the results on the device."""

    there = most = 0

    def __init__(self, array):
        self.array = array
        Computed.there += 1
        Computed.most = max(Computed.most, Computed.there)

    def __array__(self, *args, **options):
        Computed.there -= 1
        return self.array


@pytest.mark.parametrize("count", [1, 15, 16, 17, 50])
def test_few_batches_are_under_way_at_once(count, monkeypatch):
    monkeypatch.setattr(Computed, "there", 0)
    monkeypatch.setattr(Computed, "most", 0)
    monkeypatch.setattr(batched, "_TOKENS", {"cpu": 8})  # a batch is one sentence
    chars = np.ones((4, 1), np.int32)
    text = [spelled(i + np.arange(4), chars, chars[:, 0] > 0) for i in range(count)]
    found = batched.over(lambda batch: Computed(batch.words), text)
    assert [row.tolist() for row in found] == [s.words.tolist() for s in text]
    assert (Computed.there, Computed.most) == (0, min(count, batched._PENDING))


def test_labels_go_with_their_sentences():
    rng = np.random.default_rng(0)
    encoded, labels = [], []
    for length in rng.integers(0, 40, 60):
        ids = rng.integers(2, 99, length).astype(np.int32)
        encoded.append(spelled(ids, np.ones((length, 3), np.int32), ids > 0, ids))
        labels.append(ids * 7)
    found = batched.over(
        lambda batch, labels: labels - 7 * batch.words, encoded, labels=labels
    )
    assert [len(one) for one in found] == [len(ids) for ids in labels]
    assert not any(one.any() for one in found)
