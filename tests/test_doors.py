"""Taggers in pipelines of spaCy and Presidio, and in notebooks."""

import itertools

import pytest

import jaxner
from jaxner.data import corpora, formats, schemes
from jaxner.errors import InputError

spacy = pytest.importorskip("spacy")
EXAMPLES = corpora.load("sample", "dev").examples
SHORT = [" ".join(e.tokens) for e in EXAMPLES if 8 < len(e.tokens) <= 16]  # one shape
TEXTS = ["\n ".join(SHORT[:6]), "", " \n", SHORT[6]]


@pytest.fixture
def nlp(finished):
    nlp = spacy.blank("en")
    nlp.add_pipe("jaxner", config={"workdir": str(finished), "num_samples": 2})
    return nlp


def spans(doc):
    return [
        (e.text, e.label_, e.start_char, pytest.approx(e._.probability))
        for e in doc.ents
    ]


def tokens_of(text):
    """The tokens of a blank pipeline, in jaxner's sentences."""
    doc = spacy.blank("en")(text)
    places = [(t.idx, t.idx + len(t)) for t in doc if not t.is_space]
    starts = [part[0].start for part in jaxner.data.tokens.read(text)]
    bounds = itertools.pairwise([0, *starts[1:], len(text)])
    parts = [[p for p in places if start <= p[0] < end] for start, end in bounds]
    return [part for part in parts if part]


def test_a_document_has_the_entities_of_its_text(nlp, params):
    docs = [*nlp.pipe(TEXTS, batch_size=3)]
    assert [doc.text for doc in docs] == TEXTS
    for doc in docs:
        mentions = jaxner.entities(params, doc.text, tokenizer=tokens_of)
        expected = [(e.text, e.type, e.start_char, e.probability) for e in mentions]
        assert spans(doc) == expected
    assert docs[0].ents
    assert spans(docs[0]) == spans(nlp(TEXTS[0]))
    for span in docs[0].ents:
        assert 0 < span._.uncertainty["vote_share"] <= 1
        assert span._.uncertainty["entropy"] >= span._.uncertainty["mutual_information"]


def test_entities_and_sentences_of_other_components_stay(nlp):
    nlp.add_pipe("sentencizer", first=True)
    ruler = nlp.add_pipe("entity_ruler", before="jaxner")
    pattern = " ".join(TEXTS[0].split()[:3])
    ruler.add_patterns([{"label": "TOWN", "pattern": pattern}])
    first, *rest = nlp(TEXTS[0]).ents
    assert (first.text, first.label_) == (pattern, "TOWN")
    assert first._.probability is None
    assert rest
    assert all(span.start >= first.end for span in rest)


def test_a_pipeline_is_saved_with_its_tagger(nlp, tmp_path):
    nlp.to_disk(tmp_path / "pipeline")
    loaded = spacy.load(tmp_path / "pipeline")
    assert spans(loaded(TEXTS[0])) == spans(nlp(TEXTS[0]))


def test_presidio_gets_exact_probabilities(params):
    presidio = pytest.importorskip("presidio_analyzer")
    from presidio_analyzer.nlp_engine import SpacyNlpEngine

    from jaxner.doors.presidio import Recognizer

    recognizer = Recognizer(params, types={"LOC": "PLACE"}, n_best=5)
    assert {"PLACE", "PERSON"} <= {*recognizer.supported_entities}
    engine = SpacyNlpEngine()
    engine.nlp = {"en": spacy.blank("en")}
    registry = presidio.RecognizerRegistry([recognizer], supported_languages=["en"])
    analyzer = presidio.AnalyzerEngine(registry, engine, supported_languages=["en"])
    mentions = jaxner.entities(params, TEXTS[0], n_best=5)
    people = [e for e in mentions if e.type == "PER"]
    wanted = {(e.start_char, e.end_char): e.probability for e in people}
    results = recognizer.analyze(TEXTS[0], ["PERSON"])
    assert {(r.start, r.end): r.score for r in results} == wanted
    results = analyzer.analyze(TEXTS[0], "en", entities=["PERSON"])
    assert results
    assert all(wanted[r.start, r.end] == r.score for r in results)


def test_show_draws_entities_in_notebooks_and_terminals(params):
    text = f"{TEXTS[0]} <b>"
    shown, mentions = params.show(text), jaxner.entities(params, text)
    assert mentions
    html = shown._repr_html_()
    assert "&lt;b&gt;" in html
    assert "<html" not in html
    for mention in mentions:
        badge = f"{mention.type}\u00a0{int(100 * mention.probability)}%"
        assert badge in html
        assert badge in repr(shown)


def test_docbin_files_have_a_document_for_each_sentence_without_one(tmp_path):
    examples = [formats.Example(e.tokens, e.labels) for e in EXAMPLES[:9]]
    formats.write(tmp_path / "dev.spacy", examples)
    split = corpora.load(None, "dev", directory=tmp_path)
    for ours, theirs in zip(split.examples, examples, strict=True):
        assert ours.tokens == theirs.tokens
        assert ours.labels == tuple(schemes.convert(theirs.labels, "BIO"))
    assert [e.document for e in split.examples] == [*range(1, 10)]


def test_what_is_no_docbin_is_refused(tmp_path):
    (tmp_path / "a.spacy").write_bytes(b"no DocBin")
    with pytest.raises(InputError, match=r"a\.spacy.*DocBin") as error:
        formats.read(tmp_path / "a.spacy")
    assert error.value.path == tmp_path / "a.spacy"
