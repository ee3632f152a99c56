"""Tagging: all forms of input, and batches that never change a result."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxner
from jaxner import driver, models, tagging
from jaxner.data import vocabulary as vocab
from jaxner.errors import InputError


@pytest.fixture(scope="module")
def sentences(dev):
    return [list(example.tokens) for example in dev.examples]


@pytest.fixture(scope="module")
def labels(params, sentences):
    return jaxner.tag(params, sentences)


def test_strings_in_strings_out(params, sentences, labels):
    assert [len(row) for row in labels] == [len(s) for s in sentences]
    names = {label for row in labels for label in row}
    assert {"O"} < names <= {*params.vocabulary.label_names}
    assert jaxner.tag(params, sentences[0]) == labels[0]
    assert jaxner.tag(params, tuple(sentences[0])) == labels[0]
    assert jaxner.tag(params, np.array(sentences[0])) == labels[0]
    # A tagger of sentences needs no documents.
    assert jaxner.tag(params, sentences, documents=[0] * len(sentences)) == labels


def test_empty_input(params):
    assert jaxner.tag(params, []) == []
    assert jaxner.tag(params, [[]]) == [[]]
    assert jaxner.tag(params, [["Rome"], [], ["x", "y"]])[1] == []
    assert len(jaxner.tag(params, [""])) == 1
    tag = jax.jit(jaxner.tag)
    assert tag(params, jaxner.encode(params, [[], []])).shape == (2, 0)
    assert tag(params, params.vocabulary.encode([])).shape == (0,)


def test_nothing_is_truncated(params, sentences, labels):
    long = [token for sentence in sentences for token in sentence] * 4
    assert len(long) > 2000
    rows = jaxner.tag(params, [long, sentences[0]])
    assert len(rows[0]) == len(long)
    assert rows[1] == labels[0]


def test_a_split_is_tagged_as_its_sentences(params, dev, labels):
    gold, predicted = tagging.label_split(params, dev)
    assert predicted == labels
    assert [len(row) for row in gold] == [len(row) for row in labels]
    rows = [params.vocabulary.encode(e.tokens) for e in dev.examples]
    assert tagging.tag(params, rows) == labels
    ids = jax.jit(jaxner.tag)(params, jaxner.encode(params, dev))
    assert params.vocabulary.decode(ids[0, : len(labels[0])].tolist()) == labels[0]


def test_under_jit_and_vmap(params, sentences):
    batch = jaxner.encode(params, sentences)
    expected = jax.jit(jaxner.tag)(params, batch)
    rows = jax.jit(jax.vmap(jaxner.tag, in_axes=(None, 0)))(params, batch)
    np.testing.assert_array_equal(rows, expected)
    pairs = jax.tree.map(lambda leaf: jnp.stack([leaf, leaf]), batch)
    stack = jax.jit(jax.vmap(jaxner.tag, in_axes=(None, 0)))(params, pairs)
    np.testing.assert_array_equal(stack[1], expected)
    for call in (jaxner.tag, lambda _, text: jaxner.entities(params, text)):
        with pytest.raises(TypeError, match=r"inside jax\.jit .*encode"):
            jax.jit(lambda params, call=call: call(params, sentences))(params)


def test_texts_are_not_taken_for_tokens(params):
    texts = ["Milan beat Ajax.", "Rain fell in Rome."]
    doors = (jaxner.tag, jaxner.entities, jaxner.marginals, jaxner.n_best)
    for door in (*doors, jaxner.encode):
        pairs = (["Rome", "a\nb"], ["Rome", "fell \n"])
        for tokens in (texts, [texts], [[texts[0]], ["Rome"]], *pairs):
            with pytest.raises(InputError, match="with white space"):
                door(params, tokens)
    # Blanks around a token, and what only looks like them, are the caller's.
    assert len(jaxner.tag(params, ["Rome ", "\n", "10\u202f000", ""])) == 4


@pytest.fixture
def batches(monkeypatch):
    results, pad = [], tagging.batching.pad

    def spy(*arguments):
        results.append(pad(*arguments))
        return results[-1]

    monkeypatch.setattr(tagging.batching, "pad", spy)
    return results


def test_passes_with_dropout_do_not_depend_on_batch_mates(params, sentences, batches):
    """Those among the characters draw a mask for each token, in each pass."""
    words = params.model.representation
    words = words.clone(chars=words.chars.clone(dropout=0.5), dropout=0.0)
    noise = models.MCDropout(num_samples=2, parts=("representation",))
    model = params.model.clone(representation=words, mc_dropout=noise)
    params = dataclasses.replace(params, model=model)
    text = [["Rome", "Rome", "Constantinople", "Rome"], *sentences[:2]]
    rows = jaxner.sample(params, text * 20, jax.random.key(0), 2)
    assert any(batch.long is not None for batch in batches)
    for tokens, passes in zip(text, rows, strict=False):
        single = jaxner.sample(params, [tokens], jax.random.key(0), 2)[0]
        np.testing.assert_allclose(passes, single, rtol=1e-4, atol=1e-6)


def test_a_batch_reads_each_of_its_words_once(params, sentences, batches):
    jaxner.tag(params, sentences)
    for batch in batches:
        real = batch.chars[batch.chars.any(axis=1)]
        assert len(np.unique(real, axis=0)) == len(real)
        assert len(np.unique(batch.char_index[batch.mask])) == len(real)
    tokens = sum(map(len, sentences))
    assert sum((b.chars > 0).any(axis=1).sum() for b in batches) < 0.8 * tokens


def test_an_accelerator_compiles_few_shapes():
    """Of quantiles of CoNLL-2003's sentences, and of the longest word of each."""
    rng, shapes = np.random.default_rng(0), set()
    shares, lengths = [0, 0.05, 0.5, 0.95, 0.995, 1], [1, 2, 9, 38, 55, 124]
    for count in (3250, 3453):
        tokens = np.interp(rng.random(count), shares, lengths).astype(int).tolist()
        chars = np.clip(rng.lognormal(2.18, 0.3, count), 1, 60).astype(int).tolist()
        sizes = [*zip(tokens, chars, strict=True)]
        plan = driver.plan(sizes, driver._TOKENS["gpu"], fills=True)
        shapes |= {(size, rows) for size, rows, _ in plan}
    assert len(shapes) <= 8


def test_a_text_takes_sizes_worth_their_programs(params, sentences, labels, batches):
    sizes = [(length, 5) for length in (3, 3, 20, 30, 60)]
    assert driver.few_sizes(sizes, cost=200) == [(64, 24)] * 5
    shapes = driver.few_sizes(sizes * 100, cost=100)
    assert {*shapes} == {(size, 24) for size in (8, 24, 32, 64)}
    wide = driver.few_sizes([(3, 5), (3, 25), (60, 5)], cost=200)
    assert wide == [(64, 24), (32, 128), (64, 24)]
    count = len(sentences)
    assert jaxner.tag(params, sentences * 50) == labels * 50
    long = {batch.words.shape[1] for batch in batches}
    batches.clear()
    assert jaxner.tag(params, sentences) == labels
    assert count < driver._LONG_TEXT <= 50 * count
    assert len(long) <= len({batch.words.shape[1] for batch in batches})


def test_an_accelerator_tags_as_a_cpu(params, sentences, labels, monkeypatch):
    monkeypatch.setattr(driver.devices, "platform_of", lambda _: "gpu")
    monkeypatch.setattr(driver, "_TOKENS", {"gpu": 64})
    assert jaxner.tag(params, sentences) == labels


def test_a_very_long_word_takes_bounded_memory(params, sentences, batches):
    text = [*sentences[:12] * 30, ["In", "Rome" * 75_000, "it", *["rained"] * 20], []]
    labels = jaxner.tag(params, text)
    most = vocab.MAX_CHARACTERS
    assert max(batch.chars.shape[1] for batch in batches) == most
    assert max(batch.chars.size for batch in batches) <= driver._CHARS
    # The others are not read beside it, and their labels are what they were.
    wide = [batch for batch in batches if batch.chars.shape[1] == most]
    assert sum(int(batch.mask.any(axis=1).sum()) for batch in wide) < 12
    assert jaxner.tag(params, text[:12]) == labels[:12]
    prefixes = [[token[:most] for token in tokens] for tokens in text[-2:]]
    assert jaxner.tag(params, prefixes) == labels[-2:]


def test_long_sentences_of_a_quadratic_tagger_are_said_before(
    params, sentences, monkeypatch, recwarn
):
    long, short = [*sentences[0], *sentences[1], *sentences[2]], sentences[5]
    monkeypatch.setattr(driver, "_LONG", len(long) - 1)
    with pytest.warns(UserWarning, match=f"{len(long):,} tokens"):
        assert jaxner.entities(params, [long, short])
    jaxner.tag(params, short)
    linear = dataclasses.replace(params.model.encoder, relation="none")
    assert params.is_quadratic
    assert not params.model.clone(encoder=linear).is_quadratic
    chain = models.Chain(linear, models.SelfAttention())
    assert params.model.clone(encoder=chain).is_quadratic
    assert not recwarn
