"""`jaxner score` and `jaxner compare`."""

import io
import json
import os
import re
import shutil
import sys

import pytest

from jaxner.commands.evaluate import seqeval_report
from jaxner.data import schemes
from jaxner.evaluation import predictions, scoring
from jaxner.evaluation.report import Prediction
from jaxner.runs import Workdir
from tests import tiny
from tests.evaluation.test_scoring import random_corpus


def write(path, gold, predicted, tokens=True):
    start = "Milan " if tokens else ""
    sentences = (zip(*rows, strict=True) for rows in zip(gold, predicted, strict=True))
    blocks = ("".join(f"{start}{a} {b}\n" for a, b in rows) for rows in sentences)
    path.write_text("\n".join(filter(None, blocks)), encoding="utf-8")
    return path


@pytest.fixture
def files(tmp_path):
    gold, predicted = random_corpus("BIOES", sentences=60, well_formed=True)
    write(tmp_path / "a.conll", gold, predicted)
    write(tmp_path / "b.conll", gold, gold, tokens=False)
    return tmp_path


def test_score(files, run):
    page = files / "report.html"
    options = "--rule", "strict", "--rounds", 50, "-o", page
    _, text = run("score", files / "a.conll", *options)
    assert re.search("Errors in context.*Milan", page.read_text("utf-8"), re.DOTALL)
    scores = json.loads(run("score", files / "a.conll", *options, "--json", "-q")[1])
    assert scores["rule"] == "strict"
    assert f"strict rule; {scores['ill_formed']} ill-formed labels in" in text
    for rule in ("conlleval", "strict", "idcnn", "ncrfpp"):
        assert f"{scores['by_rule'][rule]['f1']:.2f}" in text
    f1 = scores["figures"]["f1"]
    assert f1["low"] <= f1["value"] == scores["f1"] <= f1["high"]


def test_score_of_tags_and_of_labels_without_prefixes(tmp_path, run):
    io = [["PER", "PER", "O", "LOC"]], [["PER", "PER", "O", "O"]]
    path, page = write(tmp_path / "io.txt", *io, tokens=False), tmp_path / "io.html"
    _, text = run("score", path, "--rounds", 5, "-o", page)
    assert "50.00" in page.read_text("utf-8")
    assert "100.00" in text  # precision
    assert "50.00" in text  # recall
    bare = [["B", "I", "O"], ["B", "I", "O"]], [["B", "I", "I"], ["O", "O", "O"]]
    path = write(tmp_path / "bare.txt", *bare)
    assert "no types" in run("score", path, "--rounds", 5)[1]
    counts = json.loads(run("score", path, "--rounds", 5, "--json", "-q")[1])
    assert (counts["correct"], counts["predicted"], counts["gold"]) == (0, 1, 2)
    chinese = write(tmp_path / "m.txt", *[[["B-A", "M-A", "E-A", "W-A"]]] * 2)
    status, text = run("score", chinese, "--rounds", 5, "--json")
    assert '"accuracy": 100.0' in text
    assert "converted" not in text
    path = write(tmp_path / "lost.txt", [["B-A", "O"]], [["B-A", "I"]])
    assert f"{path}:2" in run("score", path)[1]
    path = write(tmp_path / "tags.txt", [["NN", "VB"]], [["NN", "NN"]])
    assert "50.00" in run("score", path, "--tags", "--rounds", 5)[1]
    status, text = run("score", path)
    assert status == 1
    assert f"{path}:1" in text


def test_compare(files, run, monkeypatch):
    monkeypatch.setenv("COLUMNS", "40")
    paths = (files / "b.conll", files / "a.conll")
    line = "compare", *paths, "--rounds", 200, "--all", "-q"
    _, text = run(*line)
    assert "…" not in text  # tables are whole in a pipe
    assert "partial match precision" in text
    f1 = json.loads(run(*line, "--json")[1])["figures"]["f1"]
    score = json.loads(run("score", paths[1], "--json", "-q")[1])["f1"]
    assert (f1["first"], f1["second"]) == (100, pytest.approx(score))
    assert f1["difference"] == pytest.approx(100 - score)
    assert f1["bootstrap"] <= 0.005
    copy = files / "other.conll"
    copy.write_bytes(paths[1].read_bytes())
    _, text = run("compare", paths[1], copy, "--against", paths[0], "--rounds", 50)
    assert "(runs: 2 and 1)" in text
    # As many spans are not the same spans; a system may change tokens.
    for name, content in (("gold", "a B-X O\nb O O\n"), ("token", "A O O\nb B-X O\n")):
        (files / f"{name}.conll").write_text(content)
    (files / "same.conll").write_text("\n\na O O\nb B-X B-X\n")
    line = "compare", files / "same.conll", "--rounds", 5
    status, text = run(*line, files / "gold.conll")
    assert status == 1
    assert f"{files / 'gold.conll'}:1: Expected" in text
    assert "sentence 0 (counted from 0) has other gold labels: 'a b'" in text
    status, text = run(*line, files / "token.conll")
    assert (status, "sentence 0 (counted from 0): 'A b'" in text) == (0, True)
    assert "token.conll:1: other tokens than at" in text
    assert "same.conll:3, first in" in text
    # Joined files of which one has more blank lines.
    path = files / "joined.conll"
    path.write_text("a O O\n \nb B-X \n O\n")
    status, text = run("score", path)
    assert (status, f"{path}:3: expected 3 columns" in text) == (1, True)
    assert "cat -s" in text


@pytest.mark.parametrize("other", schemes.SCHEMES)
@pytest.mark.parametrize("scheme", schemes.SCHEMES)
def test_schemes_of_both_sides_may_differ(scheme, other, tmp_path):
    gold, _ = random_corpus("BIO", sentences=9, well_formed=True)
    sides = ([schemes.convert(row, x) for row in gold] for x in (scheme, other))
    labels, _ = predictions.load(write(tmp_path / "a.conll", *sides), rule="strict")
    sides = labels.gold, labels.predicted
    scores = scoring.score(*sides, rule="strict", scheme=labels.scheme)
    assert (scores.f1, scores.ill_formed) == (1, 0)


@pytest.mark.parametrize("stray", ["E-P", "S-P", "L-P"])
def test_a_stray_prefix_is_ill_formed_and_no_other_scheme(stray, tmp_path, run):
    gold = [["B-P", "I-P", "O"]] * 50
    file = write(tmp_path / "a.conll", gold, [["B-P", stray, "O"], *gold[1:]])
    labels, _ = predictions.load(file)
    assert (labels.scheme, labels.scores.ill_formed) == ("BIO", 1)
    status, text = run("score", file, "--json", "-q")
    assert (status, {*json.loads(text)["by_rule"]}) == (0, {"conlleval", "idcnn"})
    status, text = run("score", file, "--rule=strict")
    assert (status, "has no label" in text) == (1, True)


@pytest.mark.parametrize("first", ["B-X", "I-X"])
def test_mistakes_of_a_weak_tagger_are_no_other_scheme(first, tmp_path):
    gold, predicted = [["B-X", "O"]] * 9, [[first, "O"]] + [["I-X", "O"]] * 8
    labels, _ = predictions.load(write(tmp_path / "a.conll", gold, predicted))
    assert labels.scheme == "BIO"


@pytest.mark.parametrize("scheme", schemes.SCHEMES)
def test_the_report_of_seqeval_has_our_figures(scheme):
    sides = random_corpus(scheme)
    report = seqeval_report(Prediction(None, *sides, scheme))
    counts = scoring.score(*sides, scheme=scheme).overall
    figures = [f"{x:.4f}" for x in (counts.precision, counts.recall, counts.f1)]
    assert report.partition("micro avg")[2].split()[:4] == [*figures, str(counts.gold)]
    assert "no entities" in seqeval_report(Prediction(None, [["O"]], [["O"]], scheme))


def test_evaluate_prints_the_report_of_seqeval(tiny_run, run):
    status, text = run("evaluate", tiny_run, "--seqeval")
    f1 = Workdir(tiny_run).read_json("result.json")["dev"]["f1"]
    assert status == 0
    assert text.partition("micro avg")[2].split()[2] == f"{f1 / 100:.4f}"


@pytest.mark.filterwarnings("always")
def test_another_file_than_the_one_that_was_scored_is_named(
    copied_run, corpus, tmp_path, run
):
    """A relative path is another file elsewhere; a longer train has another dev."""
    commands = "evaluate", "calibrate", "check"
    folder = shutil.copytree(corpus, tmp_path / "data")
    tiny.with_data(copied_run, dir=str(folder))
    for name in commands:
        assert "Warning" not in run(name, copied_run)[1]
    with (folder / "dev.conll").open("a") as file:
        file.write("\nRome O\n")
    for name in commands:
        assert "data/dev.conll is not the dev file" in run(name, copied_run)[1]
    (folder / "dev.conll").unlink()
    tiny.with_data(copied_run, split_dev=0.1)
    assert "sentences that the run was trained" in run("evaluate", copied_run)[1]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("B-A\n", "one column"),
        (b"B-\xdc\n", "set encoding"),
        ("w B-A B-A\nw O\n", "3 columns"),
        ("", "bad.conll"),
        ("w O O\nw X-A O\n", "bad.conll:2"),
        ("w\tB-A\t\nw\tO\tO\n", "bad.conll:1: no value in column -1: "),
        ("w\t\tB-A\nw\tO\tO\n", "bad.conll:1: no value in column -2: "),
    ],
)
def test_bad_files_say_what_is_wrong(text, message, file, run):
    status, output = run("score", file(text, "bad.conll"))
    assert status == 1
    assert message in output


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("Rome B-LOC B-LOC\nfell O O\n", (["Rome", "fell"],)),
        ("Rome NNP B-LOC B-LOC\n", (["Rome"],)),
        ("id\tword\tgold\tlabel\n1\tRome\tB-LOC\tB-LOC\n", (["Rome"],)),
        ("token gold predicted\nRome B-LOC B-LOC\n", (["Rome"],)),
        ("label word x gold guess\nO Rome O B-LOC B-LOC\n", (["Rome"],)),
        ("# word label\n\nRome B-LOC B-LOC\n", (["Rome"],)),
        ("B-LOC B-LOC\n", None),
        ("\tB-LOC\tB-LOC\n", None),
    ],
)
def test_a_pipe_is_read_once(text, tokens, run):
    """What reads it again gets nothing."""
    files = []
    for end, start in (os.pipe(), os.pipe()):
        files.append(f"/dev/fd/{end}")
        os.write(start, text.encode())
        os.close(start)
    assert predictions.read_labels(files[0], comments="#")[2] == tokens
    assert "100.00" in run("score", files[1], "--comments=#", "--rounds=5")[1]


@pytest.mark.parametrize("mark", ",;")
def test_csv_is_read_as_such(mark, file, run):
    rows = 'token,gold,predicted\nRome,B-LOC,B-LOC\nbeat,O,O\n"a,;b",O,B-LOC\n'
    rows = rows if mark == "," else rows.replace(",", ";").replace(";;", ",;")
    path = file(rows, "a.csv")
    assert predictions.read_labels(path)[2] == (["Rome", "beat", "a,;b"],)
    assert "50.00" in run("score", path, "--rounds=5")[1]
    assert "name it .csv" in run("score", file(rows.replace(";", ","), "a.txt"))[1]


def test_standard_input_is_read_as_a_file(run, monkeypatch):
    for content, message in (
        (b"Rome B-LOC B-LOC\n", "100.00"),
        (b"Rome B-LOC B-LOC\nwon O\n", "standard input:2: expected 3 columns"),
    ):
        raw = io.BufferedReader(io.BytesIO(content))
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(raw))
        text = run("score", "-")[1]
        assert message in text
        assert "Reading standard input …" in text
