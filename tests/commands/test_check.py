"""`jaxner check` prints its findings, and its status suits scripts."""

import json
import re
import shutil

import pytest

import jaxner
from jaxner.data import corpora, formats
from tests import tiny

GOOD = "Rome B-LOC\nwins O\n"


def test_files(file, run):
    good = file(GOOD, "good.conll")
    status, output = run("check", good)
    assert (status, "0 errors, 0 warnings, 0 notes" in output) == (0, True)
    odd = file(GOOD + "\n\xa0 O\n", "odd.conll")
    status, output = run("check", good, odd, "--strict")
    assert status == 1
    assert f"warning: {odd}:4: " in output
    bad = file(GOOD + "alone\n" + "a B_X\nb X1\n" * 30, "bad.conll")
    status, output = run("check", good, bad, "--limit=3")
    assert (status, output.count("error: ")) == (1, 3)
    assert f"error: {bad}:3: " in output
    assert "(29 more like it: line 6, 8, 10, 12, 14, …)\n" in output
    assert "61 errors, " in output
    content = json.loads(run("check", bad, "--json", "-q")[1])
    lines = [x["line"] for x in content["findings"] if x["level"] == "error"]
    assert lines == [*range(3, 64)]
    # Texts that errors quote may hold quotes of both kinds.
    rows = [{"tokens": [word], "ner_tags": [0]} for word in ("a", "it's", "'")]
    numbers = file("\n".join(map(json.dumps, rows)) + "\n", "numbers.jsonl")
    _, output = run("check", numbers)
    assert output.count("error: ") == 1
    assert "--label-names" in output
    for text in ("für O\nÖl O\nSoße O\n", "a b-x\nb b-y\nc i-y\nd o\n"):
        _, output = run("check", file(text.encode("latin-1"), "kinds.conll"))
        assert output.count("error: ") == 1


def test_a_folder_of_restarts_is_told_from_a_corpus(tmp_path, run):
    (tmp_path / "seed-0/checkpoints").mkdir(parents=True)
    (tmp_path / "seed-0/vocabulary.json").touch()
    status, output = run("check", tmp_path)
    assert (status, "holds the restarts of seeds 0" in output) == (1, True)


def test_files_are_compared_with_the_first(file, run):
    """Whatever their names are: that is the training text."""
    text = "one O\ntwo O\nthree O\nRome B-LOC\n\n"
    first = file(text * 3 + "Ann B-PER\n", "a.train")
    _, output = run("check", first, file(text + "NATO B-ORG\n", "b.dev"), "-q")
    assert f"1 sentence of {first.with_name('b.dev')} (100.0% of" in output
    assert f"also in {first}" in output
    assert f"{first} lacks 1 type of {first.with_name('b.dev')}: ORG" in output


def test_texts_have_the_sentences_of_training(file, run):
    rows = [{"text": x, "spans": []} for x in ("Ann ran. He won.", "a " * 700)]
    path = file("\n".join(map(json.dumps, rows)), "train.jsonl")
    output = run("check", path)[1]
    assert "train.jsonl: 3 sentences, " in output
    assert "the longest sentence has 700 tokens, the median 3\n" in output
    assert "train.jsonl: 2 sentences, " in run("check", path, "--no-sentences")[1]
    assert len(corpora.load(None, "train", directory=path.parent).examples) == 3


def test_a_folder_is_a_corpus(file, corpus, tmp_path, run):
    status, output = run("check", corpus, "--json", "-q")
    content = json.loads(output)
    assert (status, content["passed"]) == (0, True)
    assert [split["split"] for split in content["splits"]] == ["train", "dev", "test"]
    file(GOOD, "train.conll")
    status, output = run("check", tmp_path, "--strict")
    assert (status, f"warning: {tmp_path}: No dev file" in output) == (1, True)
    (tmp_path / "train.conll").unlink()
    assert run("check", tmp_path)[0] == 1


def test_a_page_escapes_what_is_in_the_data(file, tmp_path, run):
    pytest.importorskip("jinja2")
    path = file(GOOD + "<script>\xa0alert</script>\xa0 O\n", "a\x1b.conll")
    assert run("check", path, "-o", tmp_path / "a.html")[0] == 0
    page = (tmp_path / "a.html").read_text()
    assert "&lt;script&gt;" in page
    assert not re.search("<script|\x1b", page)


def test_a_tagger_lists_probable_errors(tiny_run, params, corpus, tmp_path, run):
    """A label that is changed on purpose is found, with the tagger's probability."""
    train = corpora.load(None, "train", directory=corpus)
    sentences = [list(e.tokens) for e in train.examples[:12]]
    pairs = zip(sentences, jaxner.tag(params, sentences), strict=True)
    rows = [list(zip(*pair, strict=True)) for pair in pairs]
    word, label = rows[7][0]
    wrong = "S-LOC" if label != "S-LOC" else "S-PER"
    rows[7][0] = (word, wrong)
    path = tmp_path / "a.conll"
    formats.write_columns(path, rows)
    status, output = run("check", tiny_run, path, "--json", "--quiet")
    assert status == 0
    suspects = json.loads(output)["suspects"]
    line = 1 + sum(len(row) + 1 for row in rows[:7])
    (suspect,) = [s for s in suspects if s["line"] == line and s["labels"][0] == wrong]
    column = params.vocabulary.label_names.index(wrong)
    chance = jaxner.marginals(params, sentences[7:8])[0][0, column]
    assert suspect["probability"] == pytest.approx(float(chance), rel=1e-3)
    assert suspect["predicted"][0] == label
    chances = [s["probability"] for s in suspects]
    assert chances == sorted(chances)
    path.write_text("Rome B-town\nwins O\n")
    assert "does not know, and will miss: town" in run("check", tiny_run, path)[1]


def test_the_run_says_what_is_read_and_how(file, tiny_run, copied_run, run):
    vectors = file("the 1 2\n", "vectors.txt")
    options = "--limit=2", "--vectors", vectors
    status, output = run("check", tiny_run, *options)
    assert (status, output.count(": p = "), "vectors.txt" in output) == (0, 2, True)
    tiny.with_data(copied_run, token_column=1, comments="# ", encoding="latin-1")
    path = file("# id = 7\n1 Ms O\n2 Preston B-PER\n", "a.conll")
    _, output = run("check", copied_run, path)
    assert "1 sentence, 2 tokens, 1 entity" in output
    assert run("check", copied_run, path, "--comments=x")[0] == 1
    lines = file('{"text": "Zürich", "label": [[0, 6, "LOC"]]}\n', "a.jsonl")
    assert run("check", copied_run, lines)[0] == 0  # which have no columns
    assert run("evaluate", copied_run, "--split", lines)[0] == 0
    (lines.parent / "corpus").mkdir()
    shutil.copy(lines, lines.parent / "corpus" / "train.jsonl")
    assert run("check", copied_run, lines.parent / "corpus")[0] == 0
    text = file("Z\u00fcrich fell.\n", "a.txt")  # not in the encoding of the columns
    assert json.loads(run("tag", copied_run, text, "-q")[1])["text"] == "Zürich fell."
    status, output = run("check", lines, "--label-column=1")
    assert (status, output.count("a.jsonl")) == (1, 1)
    _, output = run("check", tiny_run, "--split=test", "--json", "--quiet")
    assert json.loads(output)["splits"][0]["split"] == "test"
