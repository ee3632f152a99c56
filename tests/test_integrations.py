"""Taggers in pipelines of spaCy, Presidio and Ray, and in notebooks."""

import functools
import itertools
import json
import socket
import sys
from pathlib import Path
from typing import Any
from unittest.mock import ANY

import pytest

import jaxner
from jaxner.answers import mentions
from jaxner.data import corpora, formats
from jaxner.errors import InputError
from tests import tiny
from tests.growth import LINEAR, growth

spacy = pytest.importorskip("spacy")
EXAMPLES = corpora.load("sample", "dev").examples
SHORT = [" ".join(e.tokens) for e in EXAMPLES if 8 < len(e.tokens) <= 16]  # one shape
TEXTS = ["\n ".join(SHORT[:6]), "", " \n", SHORT[6]]


@pytest.fixture
def nlp(tiny_run):
    nlp = spacy.blank("en")
    nlp.add_pipe("jaxner", config={"workdir": str(tiny_run), "num_samples": 2})
    return nlp


def spans(doc):
    rows = ((e.text, e.label_, e.start_char, e._.probability) for e in doc.ents)
    return [(*row, pytest.approx(chance)) for *row, chance in rows]


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


@pytest.mark.parametrize("text", [*TEXTS[:3], "It rained.", "a\n\n b"])
def test_tokens_without_an_entity_are_outside(nlp, text):
    doc = nlp(text)
    assert doc.has_annotation("ENT_IOB")
    indices = {token.i for span in doc.ents for token in span}
    assert all((token.ent_iob == 2) == (token.i not in indices) for token in doc)
    assert not any(span[i].is_space for span in doc.ents for i in (0, -1))


@pytest.mark.parametrize("kind", ["blocked", "missing", "outside"])
def test_only_blocked_tokens_stay_out_of_entities(nlp, kind):
    first, *rest = nlp(TEXTS[0]).ents
    doc = nlp.make_doc(TEXTS[0])
    part = [doc[first.end - 1 : first.end]]
    doc.set_ents([], **{kind: part}, default="missing")
    expected = rest if kind == "blocked" else [first, *rest]
    assert [*map(str, nlp(doc).ents)] == [*map(str, expected)]
    if kind == "blocked":  # for components after this one, too
        assert (doc[first.end - 1].ent_iob, doc[first.end - 1].ent_type) == (3, 0)


def test_sentences_and_merged_tokens_are_those_of_the_document(nlp, params):
    words = ["Milan", "beat", "\u2003", "New York", "in", "Milan", "."]
    doc = spacy.tokens.Doc(spacy.Vocab(), words=words)
    for token in doc:
        token.is_sent_start = token.i in (0, 5)
    parts = [formats.Example((*words[:2], *words[3:5])), formats.Example((*words[5:],))]
    split = corpora.Split("", "", Path(), parts, "BIO", "")
    first, second = jaxner.entities(params, split)
    expected = [(e.start + (e.start > 1), e.end + (e.end > 2)) for e in first]
    expected += [(e.start + 5, e.end + 5) for e in second]
    doc = nlp.get_pipe("jaxner")(doc)
    assert [(span.start, span.end) for span in doc.ents] == expected


def test_pipelines_are_scored_and_merged_as_with_spacys_own(nlp):
    doc = nlp(TEXTS[0])
    gold = {"entities": [(e.start_char, e.end_char, e.label_) for e in doc.ents[1:]]}
    example = spacy.training.Example.from_dict(nlp.make_doc(TEXTS[0]), gold)
    scores = nlp.evaluate([example])
    assert scores["ents_r"] == 1 > scores["ents_p"] > 0
    copy = spacy.tokens.Doc(nlp.vocab).from_bytes(doc.to_bytes())
    with copy.retokenize() as retokenizer:
        for span in copy.ents:
            retokenizer.merge(span)
    assert spans(copy) == spans(doc)
    assert all(len(span) == 1 for span in copy.ents)


def test_a_pipeline_is_saved_with_its_tagger(nlp, params, tmp_path):
    nlp.to_disk(tmp_path)
    nlp.to_disk(tmp_path)  # in place of the first
    config = spacy.util.load_config(tmp_path / "config.cfg")
    config["components"]["jaxner"]["workdir"] = "nowhere"
    empty = spacy.util.load_model_from_config(config, auto_fill=True)
    blank = spacy.blank("en")
    blank.add_pipe("jaxner")  # without a folder
    copies = spacy.load(tmp_path), empty.from_bytes(nlp.to_bytes())
    for copy in (*copies, blank.from_disk(tmp_path)):
        assert spans(copy(TEXTS[0])) == spans(nlp(TEXTS[0]))
        assert copy.meta["labels"] == {"jaxner": [*jaxner.entity_types(params)]}
    for name in ("vocabulary.json", "model.json"):  # folders of others
        (tmp_path / "jaxner" / name).unlink()
        with pytest.raises(FileExistsError):
            nlp.to_disk(tmp_path)


def test_batches_that_fail_go_to_the_error_handler(tiny_run):
    nlp, errors = spacy.blank("en"), []
    config = {"workdir": str(tiny_run), "min_probability": 3}
    nlp.add_pipe("jaxner", name="ours", config=config)
    with pytest.raises(InputError):
        [*nlp.pipe(TEXTS)]
    nlp.set_error_handler(lambda name, pipe, docs, _: errors.append((name, len(docs))))
    assert [*nlp.pipe(TEXTS[:3], batch_size=2)] == []
    assert errors == [("ours", 2), ("ours", 1)]


@pytest.mark.slow
def test_processes_forked_after_jax_ran_are_refused(tiny_run):
    """They would hang for ever; those forked before it ran do not."""
    script = """if True:
        import multiprocessing, sys, jax, jaxner, spacy
        multiprocessing.set_start_method("fork")
        def ask(name):
            try:
                getattr(jaxner, name)(*arguments[name])
            except RuntimeError as error:
                return "spawn" in str(error)
        nlp, texts = spacy.blank("en"), ["Rome fell."] * 4
        nlp.add_pipe("jaxner", config={"workdir": sys.argv[1]})
        fresh = [*nlp.pipe(texts, n_process=2, batch_size=2)]
        jax.numpy.zeros(3).sum()  # of which no array is left
        try:
            [*nlp.pipe(texts, n_process=2, batch_size=2)]
        except ValueError as error:
            print("spawn" in str(error))
        assert nlp(texts[0]).to_json() == fresh[3].to_json()
        tagger = nlp.get_pipe("jaxner").tagger
        arguments = {"load": [sys.argv[1]], "tag": [tagger, ["Rome"]]}
        arguments |= {"train": [[]], "from_pretrained": ["hub"]}
        batch = jaxner.encode(tagger, [["Rome"]])
        arguments |= {name: [tagger, batch] for name in ("marginals", "entities")}
        arguments["loss"] = [tagger.model, tagger.weights, batch, 0 * batch.words]
        with multiprocessing.Pool(1) as pool:
            print(pool.map(ask, arguments))
    """
    command = (sys.executable, "-c", script, tiny_run)
    assert tiny.output_of(*command, timeout=200) == f"True\n{[True] * 7}\n"


def test_long_documents_take_linear_time(tiny_run, monkeypatch):
    """All but the model, which has its own tests."""
    entity = mentions.Entity("Milan", 0, 1, 0, 5, "LOC", 0.5)
    monkeypatch.setattr(
        jaxner, "entities", lambda _, split, **options: [[entity]] * len(split.examples)
    )
    nlp = spacy.blank("en")
    pipe = nlp.add_pipe("jaxner", config={"workdir": str(tiny_run)})

    assert growth(pipe, lambda n: nlp.make_doc("Milan won. " * n), 1000) < LINEAR


def test_presidio_gets_exact_probabilities(params):
    presidio = pytest.importorskip("presidio_analyzer")
    from presidio_analyzer.nlp_engine import SpacyNlpEngine

    from jaxner.integrations.presidio import TYPES, Recognizer

    recognizer = Recognizer(params, types={"LOC": "PLACE"}, n_best=5)
    german = Recognizer(params, language="de")
    assert {"PLACE", "PERSON"} <= {*recognizer.supported_entities}
    engine, languages = SpacyNlpEngine(), ["en", "de"]
    engine.nlp = {language: spacy.blank(language) for language in languages}
    registry = presidio.RecognizerRegistry([recognizer, german], None, languages)
    analyzer = presidio.AnalyzerEngine(registry, engine, supported_languages=languages)
    mentions = jaxner.entities(params, TEXTS[0], n_best=5)
    people = [e for e in mentions if e.type == "PER"]
    expected = {(e.start_char, e.end_char): e.probability for e in people}
    results = recognizer.analyze(TEXTS[0], ["PERSON"])
    assert {(r.start, r.end): r.score for r in results} == expected
    assert len(recognizer.analyze(TEXTS[0], [])) == len(mentions)
    results = analyzer.analyze(TEXTS[0], "en", entities=["PERSON"])
    assert results
    assert all(expected[r.start, r.end] == r.score for r in results)
    best = max(results, key=lambda r: r.score)
    call = functools.partial(analyzer.analyze, TEXTS[0], "en", entities=["PERSON"])
    assert {r.score for r in call(score_threshold=best.score)} == {best.score}
    recognizer.context = ["clinic"]
    assert max(r.score for r in call(context=["clinic"])) > best.score
    kinds = {TYPES.get(e.type, e.type) for e in jaxner.entities(params, TEXTS[0])}
    assert {r.entity_type for r in analyzer.analyze(TEXTS[0], "de")} == kinds
    wrong: Any = ({"types": {"PERSON": "X"}}, {"n_bests": 3}, {"min_probability": 3})
    for options in wrong:
        with pytest.raises((InputError, TypeError)):
            Recognizer(params, **options)


@pytest.mark.slow
def test_ray_maps_and_serves_a_tagger(tiny_run, params, tmp_path):
    pytest.importorskip("ray.data")
    pytest.importorskip("ray.serve")
    lines = ["Rome beat Milan .", "It rained ."]
    texts = [lines[0], "Milan won. " * 400]  # more tokens than a batch has
    bodies = ["{", '{"text": 3}', *(json.dumps({"text": text}) for text in texts)]
    (tmp_path / "in.txt").write_text("\n".join(lines))
    script = """if True:
        import concurrent.futures, json, sys
        from pathlib import Path
        import httpx, ray
        from ray import serve
        from examples import ray_data, ray_serve

        workdir, folder, port, *bodies = sys.argv[1:]
        url = f"http://127.0.0.1:{port}"
        ask = lambda body: httpx.post(url, content=body, timeout=99).json()
        try:
            ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
            ray_data.main(workdir, f"{folder}/in.txt", f"{folder}/out")
            serve.start(http_options={"host": "127.0.0.1", "port": int(port)})
            serve.run(ray_serve.Tagger.bind(workdir))
            with concurrent.futures.ThreadPoolExecutor() as pool:
                answers = [*pool.map(ask, bodies)]
            Path(folder, "answers.json").write_text(json.dumps(answers))
        finally:
            serve.shutdown()
            ray.shutdown()
    """
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    command = (sys.executable, "-c", script, tiny_run, tmp_path, port, *bodies)
    tiny.output_of(*command, timeout=300)
    *refusals, first, second = json.loads((tmp_path / "answers.json").read_text())
    assert ["error" in answer for answer in refusals] == [True, True]
    for text, answer in zip(texts, (first, second), strict=True):
        entities = [e._asdict() for e in jaxner.entities(params, text)]
        assert [{**e, "probability": ANY} for e in entities] == answer["entities"]
    (file,) = (tmp_path / "out").iterdir()
    rows = [json.loads(line) for line in file.read_text().splitlines()]
    assert [" ".join(row["tokens"]) for row in rows] == lines
    labels = jaxner.tag(params, [row["tokens"] for row in rows])
    assert [row["labels"] for row in rows] == [[*names] for names in labels]
