"""Sentences to annotate: the uncertain and the different ones, as tools read them."""

import json

import numpy as np
import pytest

import jaxner
from jaxner.analysis import selection
from jaxner.data import corpora, formats
from jaxner.errors import InputError
from tests import tiny as tiny_files
from tests.test_decoding import tiny


def test_uncertainty_is_the_mean_surprise_of_labels(params, dev):
    """Of all sentences of a split, the first one twice."""
    examples = dev.examples
    pieces = [formats.Example(e.tokens) for e in [*examples, examples[0]]]
    choices = selection.select(params, pieces, len(pieces))
    uncertainties = [choice.uncertainty for choice in choices]
    assert uncertainties == sorted(uncertainties, reverse=True)
    texts = [choice.example.tokens for choice in choices]
    assert len({*texts}) == len(texts) > 3
    tokens = list(texts[0])
    chances = jaxner.marginals(params, tokens)
    ids = params.vocabulary.label_ids(params.tag(tokens))
    expected = -np.log(chances[range(len(ids)), ids]).mean()
    assert uncertainties[0] == pytest.approx(expected, rel=1e-4)


def test_few_of_many_are_different_ones(params):
    group = [("Rome", "fell", "again", *["x"] * n) for n in range(1, 5)]
    pieces = [formats.Example(words) for words in [*group, ("Milan", "beat", "Ajax")]]
    choices = selection.select(params, pieces, 2)
    assert sum(choice.example.tokens[0] == "Rome" for choice in choices) == 1


def test_columns_are_read_as_the_run_read_its_files(copied_run, tmp_path, run):
    tiny_files.with_data(copied_run, token_column=1, comments="#")
    (tmp_path / "a.conll").write_text("# 1\n1 Milan x\n2 won y\n")
    run("select", copied_run, tmp_path / "a.conll", "-o", tmp_path / "a.json")
    (task,) = json.loads((tmp_path / "a.json").read_text("utf-8"))
    assert task["data"]["text"] == "Milan won"
    options = ["--to=label-studio", "--token-column=0", "-q"]
    _, text = run("select", copied_run, tmp_path / "a.conll", "-o-", *options)
    assert json.loads(text)[0]["data"]["text"] == "1 2"


def test_tools_read_what_is_written(params, tiny_run, dev, tmp_path, run):
    texts = [" ".join(example.tokens) for example in dev.examples[:9]]
    (tmp_path / "a.txt").write_text("\n".join(texts), "utf-8")
    options = ["--no-sentences", "--tokenizer=whitespace", "--budget=4"]
    options += [tiny_run, tmp_path / "a.txt"]
    for name in ("a.json", "a.jsonl", "brat"):
        _, output = run("select", *options, "--output", tmp_path / name)
    assert "4 sentences of 9, for brat" in output
    tasks = json.loads((tmp_path / "a.json").read_text("utf-8"))
    expected = []
    for task in tasks:
        text, (prediction,) = task["data"]["text"], task["predictions"]
        entities = jaxner.entities(params, text.split())
        for item, entity in zip(prediction["result"], entities, strict=True):
            value = item["value"]
            fields = entity.start_char, entity.end_char, entity.text
            assert (value["start"], value["end"], value["text"]) == fields
            assert value["labels"] == [entity.type]
            assert item["score"] == pytest.approx(entity.probability, abs=1e-5)
        expected.append((text.split(), [(e.start, e.end, e.type) for e in entities]))
    assert any(spans for _, spans in expected)
    for name in ("a.jsonl", "brat"):
        result = corpora.read(tmp_path / name, tokenizer="whitespace")
        spans = [formats.schemes.to_spans(e.labels) for e in result.examples]
        words = [list(e.tokens) for e in result.examples]
        assert [*zip(words, spans, strict=True)] == expected


def test_offsets_are_those_that_a_tool_counts(tmp_path):
    example = formats.Example(("\U0001f600", "Rome", "fell"), ("O", "B-LOC", "O"))
    choice = selection.Choice(example, 0.5, [0.9])
    for tool in ("doccano", "label-studio"):
        selection.write(tmp_path / tool, [choice], tool)
    content = json.loads((tmp_path / "doccano").read_text("utf-8"))
    assert content["label"] == [[3, 7, "LOC"]]
    (task,) = json.loads((tmp_path / "label-studio").read_text("utf-8"))
    (result,) = task["predictions"][0]["result"]
    assert (result["value"]["start"], result["value"]["end"]) == (2, 6)
    copy = corpora.read(tmp_path / "doccano", format="jsonl", offsets="utf-16")
    assert copy.examples[0].labels == example.labels


def test_taggers_of_tags_and_empty_texts_are_refused(params):
    with pytest.raises(InputError, match="no sentences"):
        selection.select(params, [], 3)
    with pytest.raises(InputError, match="no entities"):
        selection.select(tiny("crf", ("A",), scheme="tags"), [], 3)
