"""Temperatures fitted on a split, and calibration before and after."""

import dataclasses
import json
import re

import jax
import numpy as np
import pytest

import jaxner
from jaxner.answers import temperature
from jaxner.answers.temperature import Fit, fit, measure
from jaxner.data import corpora, formats
from jaxner.runs import Workdir
from tests.test_decoding import tiny

ATTENTION = {"name": "attention", "num_heads": 2, "head_dim": 3}


def drawn_split(params, temperature, folder, count=400):
    """Sentences whose labels are drawn from the tagger's own distribution."""
    rng = np.random.default_rng(0)
    words = ["Rome", "beat", "Milan", "Ms", "Preston", "x"]
    sentences = [list(rng.choice(words, rng.integers(1, 7))) for _ in range(count)]
    truth = dataclasses.replace(params, temperature=temperature)

    def draw(sentence, key):
        return jaxner.tag(truth, sentence, decoding="sampled", key=key)

    keys = jax.random.split(jax.random.key(0), count)
    ids = jax.jit(jax.vmap(draw))(jaxner.encode(params, sentences), keys)
    pairs, decode = zip(sentences, ids.tolist(), strict=True), params.vocabulary.decode
    rows = [zip(words, decode(row[: len(words)]), strict=True) for words, row in pairs]
    formats.write_columns(folder / "drawn.conll", rows)
    return corpora.read(folder / "drawn.conll", scheme=params.vocabulary.scheme)


@pytest.mark.parametrize(("head", "temperature"), [("crf", 0.5), ("softmax", 2.0)])
def test_the_temperature_of_the_truth_is_found(head, temperature, tmp_path):
    """Tags, since `to_scheme` would make ill-formed spans well-formed."""
    params = tiny(head, ("A", "B", "C"), scheme="tags")
    split = drawn_split(params, temperature, tmp_path)
    result = fit(params, split)
    assert result.temperature == pytest.approx(temperature, rel=0.15)
    assert result.after < result.before
    assert (result.sentences, result.left_out) == (400, 0)
    tagger = dataclasses.replace(params, temperature=result.temperature)
    old, new = (measure(p, split) for p in (params, tagger))
    assert new.tokens.error < old.tokens.error
    assert new.tokens.error < 0.05
    assert new.tokens.brier < old.tokens.brier
    assert new.entities is None
    assert new.curve is None


def likelihood(tagger, split):
    """Mean negative logarithm of the marginals of the gold labels."""
    chances = jaxner.marginals(tagger, [list(e.tokens) for e in split.examples])
    ids = (tagger.vocabulary.label_ids(list(e.labels)) for e in split.examples)
    logs = [np.log(p[range(len(x)), x]) for p, x in zip(chances, ids, strict=True)]
    return -np.concatenate(logs).mean()


@pytest.mark.parametrize(
    "options", [None, {"num_samples": 3, "parts": ("representation",)}]
)
def test_the_likelihood_is_exact(options, tmp_path):
    """Under one distribution, and under the mixture of several passes."""
    params = tiny("crf", ("A", "B"), scheme="tags", mc_dropout=options)
    split = drawn_split(params, 1.0, tmp_path, count=5)
    result = fit(params, split)

    def loss(temperature):
        return likelihood(dataclasses.replace(params, temperature=temperature), split)

    assert result.before == pytest.approx(loss(1.0), rel=1e-3)
    assert result.after == pytest.approx(loss(result.temperature), rel=1e-3)
    for factor in (0.97, 1.03):
        assert loss(result.temperature * factor) >= result.after - 1e-6


def test_a_sentence_that_is_left_out_stays_in_its_document(tmp_path):
    tagger = tiny("crf", documents=True, encoder=ATTENTION)
    rows = [[("Rome", "S-LOC"), ("x", "O")], [("Milan", "S-X")], [("Rome", "S-LOC")]]
    formats.write_columns(tmp_path / "a.conll", rows, documents=[1, 1, 2])
    sentences = [[token for token, _ in row] for row in rows]
    chances = jaxner.marginals(tagger, sentences, documents=[1, 1, 2])
    names = tagger.vocabulary.label_names
    pairs = (pair for i in (0, 2) for pair in zip(chances[i], rows[i], strict=True))
    gold = [row[names.index(label)] for row, (_, label) in pairs]
    result = fit(tagger, corpora.read(tmp_path / "a.conll"))
    assert result.before == pytest.approx(-np.log(gold).mean(), rel=1e-5)
    assert (result.sentences, result.left_out) == (2, 1)


def test_where_there_is_nothing_to_measure_or_to_fit(params, tmp_path):
    formats.write_columns(tmp_path / "a.conll", [[("Rome", "B-DRAGON")]])
    split = corpora.read(tmp_path / "a.conll")
    with pytest.raises(ValueError, match="no probabilities to measure"):
        measure(tiny("seq2seq"), split)
    with pytest.raises(ValueError, match="nothing to fit a temperature on"):
        fit(params, split)


def test_without_errors_the_best_temperature_is_the_lowest(params, tmp_path):
    tokens = [["Rome", "fell"], ["Milan", "beat"]]
    rows = [[*zip(x, params.tag(x), strict=True)] for x in tokens]
    formats.write_columns(tmp_path / "own.conll", rows)
    split = corpora.read(tmp_path / "own.conll", scheme=params.vocabulary.scheme)
    assert fit(params, split).temperature == temperature.LOWEST
    assert temperature._minimised(lambda _: 2.0) == (1, 2, 2)  # where all are equal


def test_the_command_keeps_the_temperature(copied_run, tmp_path, run):
    text = ["Ms", "Preston", "left", "Lakeside"]
    old = jaxner.load(copied_run)
    figures = tmp_path / "figures.json"
    options = "--json", figures, "--precision=0.05", "--recall=1"
    _, output = run("calibrate", copied_run, *options)
    content = json.loads(figures.read_text())
    (shown,) = re.findall("min_probability=(.+) keeps", output)  # for a later call
    assert 0 <= content["thresholds"]["precision"] - float(shown) < 1e-6
    new = jaxner.load(copied_run)
    assert new.temperature == content["temperature"] != 1.0
    record = Workdir(copied_run).read_json("calibration.json")
    assert record["step"] is not None
    for side in ("before", "after"):
        figure = record["dev"][side]["entities"]
        assert sum(figure["bins"]["counts"]) == figure["count"]
    assert len(content["curve"]["thresholds"]) == len(content["curve"]["recall"])
    card = (copied_run / "README.md").read_text("utf-8")
    assert f"Temperature {record['temperature']:.4g}" in card
    assert jaxner.tag(new, text) == jaxner.tag(old, text)
    chances = [jaxner.marginals(p, text) for p in (old, new)]
    assert np.abs(chances[0] - chances[1]).max() > 1e-4


@pytest.mark.parametrize(("value", "reason"), [(0.06, "rises"), (0.05, "lowest")])
def test_a_temperature_that_is_worse_or_the_lowest_is_not_kept(
    value, reason, copied_run, run, monkeypatch
):
    monkeypatch.setattr(temperature, "fit", lambda *_: Fit(value, 2.0, 1.9, 48, 0))
    for flags, expected in (([], 1.0), (["--keep-temperature"], value)):
        _, output = run("calibrate", copied_run, *flags)
        assert ("the temperature stays 1" in output) == (expected == 1)
        assert (reason in output) == (expected == 1)
        record = Workdir(copied_run).read_json("calibration.json")
        assert (record["temperature"], record["fitted"]) == (expected, value)
        assert float(jaxner.load(copied_run).temperature) == pytest.approx(expected)
