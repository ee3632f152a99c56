"""`jaxner convert` rewrites files, and reports what it cannot write."""

import json

import pytest

from jaxner.data import formats

TEXT = "Ada I-Person-Name\nPreston I-Person-Name\nleft O\n\nAjax I-ORG\nAjax B-ORG\n"


@pytest.fixture
def source(file):
    return file(TEXT, "eng.train")


def test_formats_and_schemes(source, tmp_path, run):
    _, output = run("convert", source, "-o", tmp_path / "a.jsonl", "--scheme=BIOES")
    first, second = (tmp_path / "a.jsonl").read_text().splitlines()
    assert json.loads(first)["labels"] == ["B-Person-Name", "E-Person-Name", "O"]
    assert json.loads(second)["labels"] == ["S-ORG", "S-ORG"]
    assert "eng.train: 2 sentences, 5 tokens, 3 entities of 2 types, IOB1" in output
    assert f"Reading {source} as columns (--format conll)" in output
    folder = tmp_path / "brat"
    run("convert", tmp_path / "a.jsonl", "-o", folder, "--to=brat")
    assert {path.name for path in folder.iterdir()} == {"00001.txt", "00001.ann"}
    assert (folder / "00001.ann").read_text() == (
        "T1\tPerson-Name 0 11\tAda Preston\nT2\tORG 17 21\tAjax\nT3\tORG 22 26\tAjax\n"
    )
    run("convert", folder, "-o", tmp_path / "b.conllu.gz")
    target = tmp_path / "c.conll"
    run("convert", tmp_path / "b.conllu.gz", "--scheme=IOB1", "-o", target)
    assert target.read_text().strip().endswith(TEXT.strip())


def test_what_comes_back_otherwise_is_said(file, tmp_path, run):
    table = file("Ann\tB-PER\nleft\tO\nNew York\tI-LOC\n", "a.conll")
    _, output = run("convert", table, "-o", tmp_path / "brat", "--to=brat")
    assert "Made 1 ill-formed label well-formed\n" in output
    assert "Tokens with blanks, which come back as several: 1\n" in output


def test_sentences_before_the_first_document_stay_before_it(tmp_path, run):
    text = "Anna B-PER\n\nBen O\n\n-DOCSTART- O\n\nBob B-PER\n\nleft O\n\n"
    (tmp_path / "pre.conll").write_text(text)
    places = {"a_conll": [1, 1, 2, 2], "a.spacy": [1, 2, 3, 3]}
    for name in (*places, "a.tsv", "a.conllu", "a.jsonl"):
        run("convert", tmp_path / "pre.conll", "-o", tmp_path / name)
        documents = [e.document for e in formats.read(tmp_path / name).examples]
        assert documents == places.get(name, [0, 0, 1, 1])


def test_spans_come_back_with_the_tokens_that_were_written(tmp_path, run):
    """The tokenizer would cut `U.S.-based` in three."""
    text = "U.S.-based\tB-MISC\n\ufeffDubbz\tB-PER\nwon\tO\n"
    source = tmp_path / "a.tsv"
    source.write_text(f"token\tlabel\n{text}")
    (tmp_path / "brat").mkdir()
    for form in ("brat", "jsonl-spans"):
        options = [f"--to={form}"] if form != "brat" else []  # a folder shows it
        _, output = run("convert", source, "-o", tmp_path / form, *options)
        assert ("--tokenizer whitespace" in output) == (form == "brat")
        options = [f"--format={form.removesuffix('-spans')}"]
        options += ["--tokenizer=whitespace"] * (form == "brat")
        run("convert", tmp_path / form, "-o", tmp_path / "b.tsv", *options)
        table = (tmp_path / "b.tsv").read_text()
        assert all(f"{row}\n" in table for row in text.splitlines())
        assert len(table.strip().splitlines()) == 4  # with the header
