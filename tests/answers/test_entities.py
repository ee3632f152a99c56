"""Entities of raw text, tokens and arrays, and their probabilities."""

import functools

import jax
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import jaxner
from jaxner import entity_types
from jaxner.data import schemes, tokens
from tests.marks import slow
from tests.test_decoding import SENTENCES, enumerated, tiny

TEXT = "Rome beat  Milan. Ms Preston — of Rome, too — left!\n\nMilan"


@pytest.fixture(scope="module")
def params():
    return tiny("crf", ("LOC", "PER"), scheme="BIO")


def expected_spans(params, sentence):
    """The probability of each span, by enumeration."""
    labellings, chances, _ = enumerated(params, sentence)
    found = {}
    for labels, chance in zip(labellings, chances, strict=True):
        for span in schemes.to_spans(params.vocabulary.decode(labels)):
            found[span] = found.get(span, 0.0) + chance
    return found


def test_probabilities_are_those_of_enumeration(params):
    total = 0
    for sentence in (SENTENCES[0], SENTENCES[2], ["Rome"]):
        expected = expected_spans(params, sentence)
        found = jaxner.entities(params, sentence)
        spans = schemes.to_spans(jaxner.tag(params, sentence))
        assert [(e.start, e.end, e.type) for e in found] == spans
        total += len(found)
        for entity, span in zip(found, spans, strict=True):
            assert entity.probability == pytest.approx(expected[span], rel=1e-4)
        many = jaxner.entities(params, sentence, n_best=50)
        assert len(many) > len(found)
        assert len({e[:7] for e in many}) == len(many)
        for e in many:
            chance = expected[e.start, e.end, e.type]
            assert e.probability == pytest.approx(chance, rel=1e-3)
        likely = jaxner.entities(params, sentence, n_best=50, min_probability=0.2)
        assert likely == [e for e in many if e.probability >= 0.2]
        assert {e[:6] for e in found} <= {e[:6] for e in many}
    assert total > 1


def test_raw_text_keeps_its_offsets(params):
    found = jaxner.entities(params, TEXT)
    assert found
    for e in found:
        assert TEXT[e.start_char : e.end_char] == e.text
    flat = tokens.tokenise(TEXT)
    for e in found:
        assert e.start_char == flat[e.start].start
        assert e.end_char == flat[e.end - 1].end
    parts = tokens.read(TEXT)
    assert len(parts) == 3
    before, expected = 0, []
    for part in parts:
        words = [t.text for t in part]
        own = jaxner.entities(params, words)
        expected += [(e.start + before, e.end + before, e.type) for e in own]
        before += len(part)
    assert [(e.start, e.end, e.type) for e in found] == expected
    whole = jaxner.entities(params, TEXT, split_sentences=False)
    assert whole == jaxner.entities(params, TEXT, tokeniser=lambda t: [
        [(x.start, x.end) for x in tokens.tokenise(t)]
    ])  # fmt: skip


@settings(
    max_examples=60,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(st.text(st.characters(), max_size=24))
def test_offsets_hold_for_any_text(params, text):
    for e in jaxner.entities(params, text, n_best=3):
        assert text[e.start_char : e.end_char] == e.text
        assert 0 <= e.start < e.end
        assert 0 <= e.probability <= 1
    words = text.split()
    joined = " ".join(words)
    for e in jaxner.entities(params, words):
        assert joined[e.start_char : e.end_char] == e.text
        assert e.text == " ".join(words[e.start : e.end])


def test_several_texts_and_sentences(params):
    texts = [TEXT, "", "Rome", " \n"]
    found = jaxner.entities(params, texts, raw=True)
    assert [len(one) > 0 for one in found][1::2] == [False, False]
    assert same(found[0], jaxner.entities(params, TEXT))
    assert same(found[2], jaxner.entities(params, "Rome"))
    many = jaxner.entities(params, SENTENCES)
    assert len(many) == 4
    assert many[1] == []
    for sentence, own in zip(SENTENCES, many, strict=True):
        assert same(own, jaxner.entities(params, sentence))
    assert jaxner.entities(params, "") == []
    assert jaxner.entities(params, []) == []
    assert jaxner.entities(params, [], raw=True) == []


def same(left, right):
    chances = ([e.probability for e in side] for side in (left, right))
    np.testing.assert_allclose(*chances, rtol=1e-4)
    return [e[:6] for e in left] == [e[:6] for e in right]


@pytest.mark.parametrize("n_best", [4, *slow(1)])
def test_arrays_under_jit_and_vmap(params, n_best):
    batch = jaxner.encode(params, SENTENCES)
    run = functools.partial(jaxner.entities, n_best=n_best)
    arrays = jax.jit(run)(params, batch)
    assert arrays.start.shape == ((4, 9) if n_best == 1 else (4, 4, 9))
    mapped = jax.jit(jax.vmap(run, in_axes=(None, 0)))(params, batch)
    jax.tree.map(
        lambda x, y: np.testing.assert_allclose(x, y, rtol=1e-5), arrays, mapped
    )
    names = entity_types(params)
    for i, sentence in enumerate(SENTENCES):
        one = jax.tree.map(lambda a, i=i: np.asarray(a[i]).reshape(-1, 9), arrays)
        read = {
            (s, int(one.end[n, s]), names[one.type[n, s]]): float(one.probability[n, s])
            for n, s in np.argwhere(one.start)
        }
        expected = jaxner.entities(params, sentence, n_best=n_best)
        assert set(read) == {(e.start, e.end, e.type) for e in expected}
        for e in expected:
            chance = read[e.start, e.end, e.type]
            assert chance == pytest.approx(e.probability, rel=1e-4)
        if n_best == 1 and sentence:
            length = len(sentence)
            marginals = np.asarray(jaxner.marginals(params, sentence))
            labels = one.labels[0, :length]
            chosen = marginals[range(length), labels]
            np.testing.assert_allclose(
                one.label_probability[0, :length], chosen, rtol=1e-4
            )
            assert not one.label_probability[0, length:].any()
    few = jaxner.entities(params, batch, min_probability=0.9)
    assert not (few.start & (few.probability < 0.9)).any()
    assert (few.type[~few.start] == -1).all()
    assert not few.end[~few.start].any()


def test_means_over_passes(params):
    key = jax.random.key(0)
    found = jaxner.entities(params, SENTENCES[0], num_samples=6, key=key, n_best=9)
    plain = jaxner.entities(params, SENTENCES[0], n_best=9)
    assert [e[:6] for e in found] == [e[:6] for e in plain]
    assert found != plain


def test_documents(params):
    """A tagger of documents reads a raw text as one, and tokens as they are grouped."""
    words = [["Rome", "beat", "Milan"]]
    vocabulary, _ = jaxner.build_vocabulary(words, ["LOC"], documents=True)
    model = jaxner.build(
        vocabulary,
        representation={"words": {"dim": 6}, "chars": None},
        encoder={"name": "projection", "hidden_dim": 8},
        head={"name": "crf"},
    )
    tagger = jaxner.Tagger(jaxner.init(model, jax.random.key(3)), model, vocabulary)
    text = "Rome beat Milan. Milan lost. Rome won."
    found = jaxner.entities(tagger, text, n_best=5)
    assert found
    assert all(text[e.start_char : e.end_char] == e.text for e in found)
    sentences = [[t.text for t in part] for part in tokens.read(text)]
    grouped = jaxner.entities(tagger, sentences, documents=[0, 0, 0], n_best=5)
    assert sum(map(len, grouped)) == len(found)
    assert any(e.start >= len(sentences[0]) for e in found)
    for own, sentence in zip(grouped, sentences, strict=True):
        assert all(e.text == " ".join(sentence[e.start : e.end]) for e in own)
    ids = jaxner.encode(tagger, sentences[1])  # separators stand around it
    arrays = jaxner.entities(tagger, ids)
    alone = jaxner.entities(tagger, sentences[1])
    assert np.flatnonzero(arrays.start).tolist() == [e.start + 1 for e in alone]
    assert arrays.end[arrays.start].tolist() == [e.end + 1 for e in alone]
    with pytest.raises(ValueError, match="labels documents as one"):
        jaxner.n_best(tagger, ["Rome"])


def test_raw_texts_are_read_alike_by_all_names_of_a_tokenizer(params):
    texts = ["Rome beat Milan.", "Rain fell in Rome."]
    several = jaxner.entities(params, texts)
    for entities, text in zip(several, texts, strict=True):
        assert same(entities, jaxner.entities(params, text))
    cut = jaxner.entities(params, texts[0], tokenizer="whitespace")
    for options in (
        {"tokeniser": "whitespace"},
        {"tokenizer": str.split},
        {"tokeniser": str.split},
    ):
        assert jaxner.entities(params, texts[0], **options) == cut
    read = [[t.text for t in s] for s in tokens.read(TEXT)]  # as `jaxner tag` does
    labels = jaxner.tag(params, read)
    spans = [span for y in labels for span in schemes.to_spans(y)]
    assert len(jaxner.entities(params, TEXT)) == len(spans)
    for function in (jaxner.tag, jaxner.marginals, jaxner.n_best):
        with pytest.raises(ValueError, match="white space"):
            function(params, texts)


def test_static_arguments_name_what_jit_needs(params):
    batch, key = jaxner.encode(params, SENTENCES), jax.random.key(0)
    for call, name in (
        (lambda n: jaxner.n_best(params, batch, n), "n"),
        (lambda n: jaxner.entities(params, batch, n_best=n), "n_best"),
        (lambda n: jaxner.uncertainty(params, batch, key, n), "num_samples"),
    ):
        with pytest.raises(TypeError, match=f"{name} .*static_argnums"):
            jax.jit(call)(2)
    best = jax.jit(jaxner.n_best, static_argnames="n")(params, batch, n=2)
    assert best.labels.shape[:2] == (4, 2)


def test_wrong_options_are_refused(params):
    tagger = tiny("softmax", ("NOUN", "VERB"), scheme="tags")
    with pytest.raises(ValueError, match="a tag"):
        jaxner.entities(tagger, "Rome fell")
    refused = [
        (ValueError, "Rome", {"n_best": 0}),
        *((ValueError, "Rome", {"min_probability": p}) for p in (-1.0, 2.0, np.nan)),
        (ValueError, "Rome", {"n_best": 2, "decoding": "max_marginal"}),
        (ValueError, "Rome", {"tokeniser": lambda text: ["Milan"]}),
        (ValueError, "Rome", {"tokenizer": "words2"}),
        (TypeError, "Rome", {"tokenizer": "words", "tokeniser": "words"}),
        (TypeError, "Rome", {"documents": [0]}),
        (TypeError, ["Rome"], {"tokeniser": str.split}),
        (TypeError, ["Rome", 3], {"raw": True}),
    ]
    for kind, text, options in refused:
        with pytest.raises(kind):
            jaxner.entities(params, text, **options)
