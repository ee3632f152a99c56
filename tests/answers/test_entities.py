"""Entities and probabilities of text, tokens and arrays, of one tagger and several."""

import dataclasses
import functools

import jax
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import jaxner
from jaxner.data import schemes, tokens
from jaxner.tagger import ensemble
from tests.marks import slow
from tests.test_decoding import SENTENCES, enumerated, tiny

TEXT = "Rome beat  Milan. Ms Preston — of Rome, too — left!\n\nMilan"


@pytest.fixture(scope="module")
def params():
    return tiny("crf", ("LOC", "PER"), scheme="BIO")


@pytest.fixture(scope="module")
def members(params):
    """Two taggers that differ in their weights and their temperature."""
    keys = iter(jax.random.split(jax.random.key(7), 100))

    def moved(x):
        return 0.8 * x + 0.5 * jax.random.normal(next(keys), x.shape)

    weights = jax.tree.map(moved, params.weights)
    return [params, dataclasses.replace(params, weights=weights, temperature=2.0)]


@pytest.fixture(scope="module")
def pair(members):
    return ensemble(members)


def mixture(members, sentence):
    """Every labelling of a sentence, and its mean probability, by enumeration."""
    rows = [enumerated(member, sentence) for member in members]
    labels = map(members[0].vocabulary.decode, rows[0][0])
    return dict(zip(map(tuple, labels), np.mean([e[1] for e in rows], 0), strict=True))


def chances_in(arrays, names, length):
    rows = jax.tree.map(lambda a: np.asarray(a).reshape(-1, length), arrays)
    return {
        (s, int(rows.end[n, s]), names[rows.type[n, s]]): float(rows.probability[n, s])
        for n, s in np.argwhere(rows.start)
    }


def same(left, right):
    chances = ([e.probability for e in side] for side in (left, right))
    np.testing.assert_allclose(*chances, rtol=1e-4)
    return [e[:6] for e in left] == [e[:6] for e in right]


@pytest.mark.parametrize("count", [1, 2])
def test_probabilities_are_those_of_enumeration(members, pair, count):
    tagger, members = (members[0], members[:1]) if count == 1 else (pair, members)
    total = 0
    for sentence in (SENTENCES[0], ["Rome"]):
        expected = {}
        for labels, chance in mixture(members, sentence).items():
            for span in schemes.to_spans(labels):
                expected[span] = expected.get(span, 0.0) + chance
        entities = jaxner.entities(tagger, sentence)
        spans = schemes.to_spans(jaxner.tag(tagger, sentence))
        assert [(e.start, e.end, e.type) for e in entities] == spans
        total += len(entities)
        candidates = jaxner.entities(tagger, sentence, n_best=50)
        assert len({e[:7] for e in candidates}) == len(candidates) > len(entities)
        for e in [*entities, *candidates]:
            chance = expected[e.start, e.end, e.type]
            assert e.probability == pytest.approx(chance, rel=1e-3)
        assert {e[:6] for e in entities} <= {e[:6] for e in candidates}
    assert total > 1
    subset = jaxner.entities(tagger, ["Rome"], n_best=50, min_probability=0.2)
    assert subset == [e for e in candidates if e.probability >= 0.2]


def test_the_best_labellings_are_those_of_the_mixture(members, pair):
    right = mixture(members, SENTENCES[2])
    whole = jaxner.n_best(pair, SENTENCES[2], len(right) + 3)
    assert sorted(tuple(answer.labels) for answer in whole) == sorted(right)
    for answer in whole:
        chance = right[tuple(answer.labels)]
        assert answer.probability == pytest.approx(chance, rel=1e-3, abs=1e-6)
    chances = [answer.probability for answer in jaxner.n_best(pair, SENTENCES[2], 3)]
    np.testing.assert_allclose(chances, sorted(right.values())[:-4:-1], rtol=1e-3)
    for answer in jaxner.n_best(pair, SENTENCES[2], 5, constrained=True):
        assert not schemes.violations(answer.labels, "BIO")


def test_raw_text_keeps_its_offsets(params):
    entities = jaxner.entities(params, TEXT)
    flat, parts = tokens.tokenise(TEXT), tokens.read(TEXT)
    assert len(parts) == 3
    offset, expected = 0, []
    for part in parts:
        mentions = jaxner.entities(params, [t.text for t in part])
        expected += [(e.start + offset, e.end + offset, e.type) for e in mentions]
        offset += len(part)
    assert [(e.start, e.end, e.type) for e in entities] == expected
    assert all(e.start_char == flat[e.start].start for e in entities)
    whole = jaxner.entities(params, TEXT, split_sentences=False)
    offsets = [[(token.start, token.end) for token in flat]]
    assert whole == jaxner.entities(params, TEXT, tokenizer=lambda _: offsets)


@settings(max_examples=12, suppress_health_check=[*HealthCheck])
@given(st.text(st.characters(), max_size=24))
def test_offsets_hold_for_any_text(params, text):
    for e in jaxner.entities(params, text, n_best=3):
        assert text[e.start_char : e.end_char] == e.text
        assert 0 <= e.start < e.end
        assert 0 <= e.probability <= 1
    words = text.split()
    for e in jaxner.entities(params, words):
        assert " ".join(words)[e.start_char : e.end_char] == e.text
        assert e.text == " ".join(words[e.start : e.end])


def test_several_texts_and_sentences(params):
    texts = [TEXT, "", "Rome", " \n"]
    lists = jaxner.entities(params, texts, raw=True)
    assert [len(entities) > 0 for entities in lists][1::2] == [False, False]
    assert same(lists[0], jaxner.entities(params, TEXT))
    assert same(lists[2], jaxner.entities(params, "Rome"))
    assert lists == jaxner.entities(params, tuple(texts), raw=True)
    for array in (np.array(texts), np.array(texts, object)):
        assert lists == jaxner.entities(params, array, raw=True)
    answers = jaxner.entities(params, SENTENCES)
    for sentence, entities in zip(SENTENCES, answers, strict=True):
        assert same(entities, jaxner.entities(params, sentence))
    assert jaxner.entities(params, "") == []
    assert jaxner.entities(params, []) == []


@pytest.mark.parametrize(("name", "n_best"), [("params", 4), *slow(("pair", 1))])
def test_arrays_under_jit_and_vmap(request, name, n_best):
    tagger = request.getfixturevalue(name)
    batch = jaxner.encode(tagger, SENTENCES)
    run = functools.partial(jaxner.entities, n_best=n_best)
    arrays = jax.jit(run)(tagger, batch)
    assert arrays.start.shape == ((4, 9) if n_best == 1 else (4, 4, 9))
    stack = jax.jit(jax.vmap(run, in_axes=(None, 0)))(tagger, batch)
    close = functools.partial(np.testing.assert_allclose, rtol=1e-5)
    jax.tree.map(close, arrays, stack)
    names = jaxner.entity_types(tagger)
    answers = jaxner.entities(tagger, SENTENCES, n_best=n_best)
    for i, (sentence, entities) in enumerate(zip(SENTENCES, answers, strict=True)):
        chances = chances_in(jax.tree.map(lambda a, i=i: a[i], arrays), names, 9)
        expected = {(e.start, e.end, e.type): e.probability for e in entities}
        assert chances == pytest.approx(expected, rel=1e-4)
        if n_best == 1 and sentence:
            marginals = np.asarray(jaxner.marginals(tagger, sentence))
            values = marginals[range(len(marginals)), arrays.labels[i, : len(sentence)]]
            chances = arrays.label_probability[i]
            np.testing.assert_allclose(chances[: len(sentence)], values, rtol=1e-4)
            assert not chances[len(sentence) :].any()
    subset = jax.jit(functools.partial(run, min_probability=0.9))(tagger, batch)
    assert not (subset.start & (subset.probability < 0.9)).any()
    assert (subset.type[~subset.start] == -1).all()
    assert not subset.end[~subset.start].any()


def test_documents():
    """A tagger of documents reads a raw text as one, and tokens as they are grouped."""
    tagger = tiny("crf", documents=True)
    text = "Rome beat Milan. Milan lost. Rome won."
    entities = jaxner.entities(tagger, text)
    assert entities
    assert all(text[e.start_char : e.end_char] == e.text for e in entities)
    sentences = [[t.text for t in part] for part in tokens.read(text)]
    groups = jaxner.entities(tagger, sentences, documents=[0, 0, 0])
    assert sum(map(len, groups)) == len(entities)
    assert any(e.start >= len(sentences[0]) for e in entities)
    for row, sentence in zip(groups, sentences, strict=True):
        assert all(e.text == " ".join(sentence[e.start : e.end]) for e in row)
    ids = jaxner.encode(tagger, sentences[1])  # separators stand around it
    arrays = jax.jit(jaxner.entities)(tagger, ids)
    mentions = jaxner.entities(tagger, sentences[1])
    assert np.flatnonzero(arrays.start).tolist() == [e.start + 1 for e in mentions]
    assert arrays.end[arrays.start].tolist() == [e.end + 1 for e in mentions]
    with pytest.raises(ValueError, match="labels documents as one"):
        jaxner.n_best(tagger, ["Rome"])


def test_labellings_too_improbable_for_their_float_exist(params):
    """Of a long sentence, each labelling has a probability below all floats."""
    doubtful = dataclasses.replace(params, temperature=100.0)
    tokens = ["Rome", "beat", "Milan"] * 40
    entities = jaxner.entities(doubtful, tokens, n_best=2)
    pair = ensemble([doubtful, doubtful])
    assert jaxner.entities(pair, tokens, n_best=2) == entities != []
    for tagger in (doubtful, pair):
        assert [x.probability for x in jaxner.n_best(tagger, tokens, 2)] == [0, 0]


def test_wrong_options_are_refused(params, pair):
    tagger = tiny("softmax", ("NOUN", "VERB"), scheme="tags")
    with pytest.raises(ValueError, match="a tag"):
        jaxner.entities(tagger, "Rome fell")
    for text, options in (
        ("Rome", {"n_best": 2, "decoding": "max_marginal"}),
        ("Rome", {"documents": [0]}),
        (["Rome"], {"tokenizer": str.split}),
        (["Rome", 3], {"raw": True}),
    ):
        with pytest.raises((TypeError, ValueError)):
            jaxner.entities(params, text, **options)
    variant = dataclasses.replace(params, model=params.model.clone(remat=True))
    for wrong in ([], [params, "runs/grn"], "runs/grn", [params, variant]):
        with pytest.raises((TypeError, ValueError)):
            ensemble(wrong)
    with pytest.raises(ValueError, match=r"member\(0\)"):
        jaxner.entities(pair, "Rome fell", num_samples=3)
    with pytest.raises(ValueError, match=r"member\(0\)"):
        jaxner.uncertainty(pair, ["Rome"], jax.random.key(0))
