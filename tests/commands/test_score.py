"""`jaxner score` and `jaxner compare`."""

import json

import pytest

from jaxner import __main__ as cli
from jaxner.data import schemes
from tests.evaluation.test_scoring import random_corpus


def write(path, gold, predicted, tokens=True):
    start = "w " if tokens else ""
    sentences = (zip(*rows, strict=True) for rows in zip(gold, predicted, strict=True))
    blocks = ("".join(f"{start}{a} {b}\n" for a, b in rows) for rows in sentences)
    path.write_text("\n".join(filter(None, blocks)), encoding="utf-8")
    return path


@pytest.fixture
def files(tmp_path):
    gold, predicted = random_corpus("BIOES", sentences=60)
    gold = [schemes.convert(labels, "BIOES") for labels in gold]
    write(tmp_path / "a.conll", gold, predicted)
    write(tmp_path / "b.conll", gold, gold, tokens=False)
    return tmp_path


def run(*arguments):
    cli.main([*map(str, arguments)])


def test_score(files, capsys):
    out = files / "scores.json"
    run("score", files / "a.conll", "--rule", "strict", "--rounds", 50, "--json", out)
    text = capsys.readouterr().out
    scores = json.loads(out.read_text())
    assert scores["rule"] == "strict"
    assert f"strict rule; {scores['ill_formed']} ill-formed labels in" in text
    for rule in ("conlleval", "strict", "idcnn", "ncrfpp"):
        assert f"{scores['by_rule'][rule]['f1']:.2f}" in text
    f1 = scores["figures"]["f1"]
    assert f1["low"] <= f1["value"] == scores["f1"] <= f1["high"]
    assert "partial match F1" in text
    assert "chunk recall B" in text


def test_report_of_a_file_with_and_without_tokens(files, capsys):
    page = files / "report.html"
    run("score", files / "b.conll", "--rounds", 5, "--report", page)
    assert "100.00" in capsys.readouterr().out
    assert "100.00" in page.read_text("utf-8")
    run("score", files / "a.conll", "--rounds", 5, "--report", page)
    (scores,) = json.loads(page.with_suffix(".json").read_text("utf-8"))["runs"]
    examples = [x for some in scores["examples"].values() for x in some]
    assert examples
    assert all(p["text"].strip("w ") == "" for x in examples for p in x["gold"])
    assert "Errors in context" in page.read_text("utf-8")


def test_score_of_tags_and_of_labels_without_prefixes(tmp_path, capsys):
    io = [["PER", "PER", "O", "LOC"]], [["PER", "PER", "O", "O"]]
    run("score", write(tmp_path / "io.txt", *io), "--rounds", 5)
    text = capsys.readouterr().out
    assert "100.00" in text  # precision
    assert "50.00" in text  # recall
    path = write(tmp_path / "tags.txt", [["NN", "VB"]], [["NN", "NN"]])
    run("score", path, "--tags", "--rounds", 5)
    assert "50.00" in capsys.readouterr().out
    with pytest.raises(SystemExit):
        run("score", path)
    text = capsys.readouterr().err
    assert f"{path}:1" in text
    assert "--tags" in text


def test_compare(files, capsys):
    out = files / "compared.json"
    paths = (files / "b.conll", files / "a.conll")
    run("compare", *paths, "--rounds", 200, "--json", out)
    text = capsys.readouterr().out
    assert "conlleval rule; ill-formed labels: 0 and" in text
    f1 = json.loads(out.read_text())["figures"]["f1"]
    assert f1["first"] == 1.0
    assert f1["bootstrap"] <= 0.005
    copy = files / "other.conll"
    copy.write_bytes(paths[1].read_bytes())
    run("compare", f"{paths[1]},{copy}", paths[0], "--rounds", 50)
    assert "(runs: 2 and 1)" in capsys.readouterr().out


def test_tables_are_whole_in_a_pipe(files, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "40")
    run("compare", files / "b.conll", files / "a.conll", "--rounds", 20, "--all")
    text = capsys.readouterr().out
    assert "…" not in text
    assert "partial match precision" in text


@pytest.mark.parametrize(
    ("command", "options", "message"),
    [
        ("compare", ["{a},{a}", "{b}"], "repeats"),
        ("compare", ["{a}", "{b}", "--split=dev"], "--split"),
        ("compare", ["{a}", "{b}", "--tags", "--rule=strict"], "are for spans"),
        ("score", ["{a}", "--tags", "--scheme=BIO"], "are for spans"),
        # The page's JSON once replaced that of --json.
        ("score", ["{a}", "--json=x.json", "--report=x.html"], "x.json twice"),
    ],
)
def test_options_without_a_use_are_refused(command, options, message, files, capsys):
    names = {name: files / f"{name}.conll" for name in "ab"}
    with pytest.raises(SystemExit):
        run(command, *(option.format(**names) for option in options))
    assert message in "".join(capsys.readouterr())


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("B-A\n", "bad.conll"),
        ("w B-A B-A\nw O\n", "3 columns"),
        ("", "bad.conll"),
        ("w O O\nw X-A O\n", "bad.conll:2"),
    ],
)
def test_bad_files_say_what_is_wrong(text, message, tmp_path, capsys):
    path = tmp_path / "bad.conll"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(SystemExit):
        run("score", path)
    assert message in "".join(capsys.readouterr())


def test_runs_that_are_not_there(tmp_path, capsys):
    (tmp_path / "run").mkdir()
    with pytest.raises(SystemExit):
        run("compare", tmp_path / "run", tmp_path / "run")
    assert "jaxner evaluate --workdir" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        run("score", tmp_path / "none.conll")
    assert "none.conll" in capsys.readouterr().err
