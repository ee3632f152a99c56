"""Sentences in batches: every one once, in few shapes, the same whatever they are."""

import dataclasses

import jax
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import jaxner
from jaxner import batched, models, tagging
from jaxner.data import corpora
from tests.sentences import spelled

SIZES = st.lists(st.tuples(st.integers(0, 200), st.integers(1, 40)), max_size=40)


@given(SIZES, st.integers(1, 8))
@settings(max_examples=80, deadline=None)
def test_plan(sizes, passes):
    taken, most = [], batched._TOKENS[jax.default_backend()]
    for shape, size, rows in batched._plan(sizes, passes):
        assert 1 <= len(rows) <= size == 1 << (size.bit_length() - 1)
        within = size * shape.tokens * passes <= most
        assert size == 1 or within
        for i in rows:
            tokens, chars = sizes[i]
            assert tokens <= shape.tokens
            assert chars <= shape.chars
        taken += rows
    assert sorted(taken) == list(range(len(sizes)))


def test_a_corpus_has_little_padding_in_few_shapes():
    rng = np.random.default_rng(0)
    lengths = np.minimum(rng.geometric(1 / 14, 3000), 120)
    plan = list(batched._plan([(n, 9) for n in lengths.tolist()], 1))
    positions = sum(shape.tokens * size for shape, size, _ in plan)
    assert 1 - lengths.sum() / positions < 0.25
    assert len({(shape, size) for shape, size, _ in plan}) <= 14


@pytest.mark.parametrize("length", range(1, 200))
def test_lengths_are_rounded_up_by_half_at_the_most(length):
    tokens = batched.shape_for(length, 5).tokens
    assert length <= tokens <= max(8, 1.5 * length)


def test_words_without_characters_stay_so():
    assert batched.shape_for(3, 0).chars == 0


@pytest.fixture
def sentences(corpus):
    examples = corpora.load(None, "dev", directory=corpus).examples
    return [list(example.tokens) for example in examples]


def emissions(params, sentences):
    @jax.jit
    def compute(batch):
        def one(sentence):
            return models.apply(params.model, params.weights, sentence).emissions

        return jax.vmap(one)(batch)

    encoded = tagging.encode_each(params, sentences)
    return batched.over_documents(params, compute, encoded)


def test_a_long_text_is_labelled_alike_word_by_word(params, sentences, monkeypatch):
    read = []
    spell = batched._spell
    monkeypatch.setattr(batched, "_spell", lambda p, c: read.append(c) or spell(p, c))
    before = emissions(params, sentences[:12])
    assert not read
    monkeypatch.setattr(batched, "_LONG_TEXT", 1)
    monkeypatch.setattr(batched, "_WORDS", 16)
    after = emissions(params, sentences[:12])
    for ours, theirs in zip(after, before, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-5)
    words = [row[row > 0].tobytes() for chunk in read for row in np.asarray(chunk)]
    distinct = {token for tokens in sentences[:12] for token in tokens}
    given = [word for word in words if word]
    assert len(given) == len(set(given)) <= len(distinct)


def test_labels_do_not_depend_on_how_long_the_text_is(params, sentences, monkeypatch):
    before = jaxner.tag(params, [*sentences, []])
    monkeypatch.setattr(batched, "_LONG_TEXT", 1)
    assert jaxner.tag(params, [*sentences, []]) == before


@pytest.mark.parametrize("parts", [("encoder",), ("representation",)])
def test_passes_with_dropout_among_the_characters_read_every_token(
    parts, refining, sentences, monkeypatch
):
    params = jaxner.load(refining)
    chars = params.model.representation.chars.clone(dropout=0.5)
    model = params.model.clone(
        representation=params.model.representation.clone(chars=chars),
        mc_dropout=models.MCDropout(num_samples=2, parts=parts),
    )
    params = dataclasses.replace(params, model=model)
    read = []
    spell = batched._spell
    monkeypatch.setattr(batched, "_spell", lambda p, c: read.append(c) or spell(p, c))
    before = jaxner.tag(params, sentences[:3])
    monkeypatch.setattr(batched, "_LONG_TEXT", 1)
    assert jaxner.tag(params, sentences[:3]) == before
    assert bool(read) == (parts == ("encoder",))


def test_words_of_any_length_are_read_in_bounded_memory():
    sizes = []

    def spell(batch):
        sizes.append(batch.shape)
        return (np.ones((len(batch), 2), np.float32), None)

    short, long = np.ones(5, np.int32).tobytes(), np.ones(8000, np.int32).tobytes()
    words = [short] * 590 + [long] * 10
    first, second = batched._read(spell, words)
    assert first.shape == (600, 2)
    assert first.all()
    assert second is None
    assert max(rows * width for rows, width in sizes) <= batched._CHARS


@pytest.fixture
def arrays(monkeypatch):
    """Gathers the shapes of the characters that are read, by word and by sentence."""
    read = {"words": [], "sentences": []}
    spell, pad = batched._spell, batched.batching.pad

    def spelled(params, chars):
        read["words"].append(chars.shape)
        return spell(params, chars)

    def padded(*arguments):
        batch = pad(*arguments)
        read["sentences"].append(batch.chars.shape)
        return batch

    monkeypatch.setattr(batched, "_spell", spelled)
    monkeypatch.setattr(batched.batching, "pad", padded)
    return read


LONG = "Rome" * 5000


@pytest.mark.parametrize("times", [1, 30])
def test_a_very_long_word_widens_no_other(
    params, sentences, arrays, monkeypatch, times
):
    text = [*sentences[:12] * times, ["In", LONG, "it", *["rained"] * 20], []]
    assert (sum(map(len, text)) >= batched._LONG_TEXT) == (times > 1)
    labels = jaxner.tag(params, text)
    assert (4, 1 << 15) in arrays["words"]
    taken = arrays["words"] + arrays["sentences"]
    assert max(np.prod(shape) for shape in taken) <= batched._CHARS
    monkeypatch.setattr(batched, "_CHARS", 1 << 40)
    monkeypatch.setattr(batched, "_LONG_TEXT", 1 << 40)
    arrays["words"].clear()
    last = slice(-2, None)  # the others would be padded to the long word, too
    assert jaxner.tag(params, text[last]) == labels[last]
    assert jaxner.tag(params, text[:12]) == labels[:12]
    assert not arrays["words"]


def test_text_with_words_of_usual_length_is_read_by_sentence(params, sentences, arrays):
    jaxner.tag(params, sentences[:12])
    assert not arrays["words"]


class Computed:
    """Counts the results that lie on the device."""

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


def test_few_chunks_of_words_are_under_way_at_once(monkeypatch):
    monkeypatch.setattr(Computed, "there", 0)
    monkeypatch.setattr(Computed, "most", 0)
    monkeypatch.setattr(batched, "_WORDS", 2)
    words = [np.int32(i).tobytes() for i in range(1, 100)]
    (found,) = batched._read(lambda chars: (Computed(chars[:, :1]),), words)
    assert found[:, 0].tolist() == list(range(1, 100))
    assert (Computed.there, Computed.most) == (0, batched._PENDING)
