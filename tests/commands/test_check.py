"""`jaxner check` prints its findings, and its status suits scripts."""

import dataclasses
import json
import shutil

import numpy as np
import pytest

from jaxner import __main__ as program
from jaxner.analysis import describe
from jaxner.data import corpora, formats
from jaxner.runs import Workdir

GOOD = "Rome B-LOC\nwins O\n"


def run(*arguments):
    """Returns the status."""
    try:
        program.main(["check", *map(str, arguments), "--cache=off"])
    except SystemExit as end:
        return end.code
    return 0


def put(folder, name, text):
    path = folder / name
    path.write_text(text)
    return path


def test_files(tmp_path, capsys):
    good = put(tmp_path, "good.conll", GOOD)
    assert run(good) == 0
    told = capsys.readouterr().out
    assert "1 sentence, 2 tokens, 1 entity of 1 type, BIO" in told
    assert "0 errors, 0 warnings, 0 notes" in told
    odd = put(tmp_path, "odd.conll", GOOD + "\n\xa0 O\n")
    assert run(good, odd) == 0
    assert f"warning: {odd}:4: 1 token without" in capsys.readouterr().out
    assert run(good, odd, "--strict") == 2
    bad = put(tmp_path, "bad.conll", GOOD + "alone\n" * 30)
    assert run(good, bad, "--limit=3") == 1
    told = capsys.readouterr().out
    assert told.count("error: ") == 3
    assert f"error: {bad}:3: expected 2 columns, got 1: 'alone'" in told
    assert "30 errors, 0 warnings, 0 notes (--limit shows more)" in told


def test_bad_labels_do_not_end_the_check(tmp_path, capsys):
    lines = ["Rome Q-LOC", "x ZZ", "", "Oslo B-LOC", "", "\xa0 O", "", "y !!"]
    path = put(tmp_path, "bad.conll", "\n".join(lines) + "\n")
    assert run(path, "--json", tmp_path / "found.json") == 1
    told = capsys.readouterr().out
    for line in (1, 2, 8):
        assert f"error: {path}:{line}: Label" in told
    assert f"warning: {path}:6: 1 token without" in told
    assert "2 sentences, 2 tokens" in told
    assert "sentences with such labels are left out of all further checks" in told
    assert "3 errors, 1 warning, 1 note" in told
    content = json.loads((tmp_path / "found.json").read_text())
    levels = [finding["level"] for finding in content["findings"]]
    assert levels.count("error") == 3
    many = put(tmp_path, "many.conll", "a ?\n\n" * 40 + GOOD)
    assert run(many, "--limit=4") == 1
    told = capsys.readouterr().out
    assert told.count("error: ") == 4
    assert "40 errors, 0 warnings, 1 note (--limit shows more)" in told


def test_a_folder_is_a_corpus(corpus, tmp_path, capsys):
    assert run(corpus, "--json", tmp_path / "found.json") == 0
    assert "of the tokens of test are not in train" in capsys.readouterr().out
    content = json.loads((tmp_path / "found.json").read_text())
    assert [split["split"] for split in content["splits"]] == ["train", "dev", "test"]
    assert {"level", "check", "line"} <= content["findings"][0].keys()
    part = tmp_path / "part"
    part.mkdir()
    put(part, "train.conll", GOOD)
    assert run(part) == 0
    assert f"warning: {part}: there is no dev file" in capsys.readouterr().out
    (part / "train.conll").unlink()
    assert run(part) == 1
    assert "expected train, dev or test files, got none" in capsys.readouterr().out


def test_brat_and_vectors(tmp_path, capsys):
    folder = tmp_path / "brat"
    folder.mkdir()
    put(folder, "a.txt", "Rome wins\n")
    put(folder, "a.ann", "T1\tLOC 0 4\tRome\n")
    vectors = put(tmp_path, "v.txt", "rome 1 2\nother 1 2\n")
    assert run(folder, "--vectors", vectors) == 0
    told = capsys.readouterr().out
    assert "50.0% of the distinct words and 50.0% of the tokens have a vector" in told


def test_a_page_escapes_what_is_in_the_data(tmp_path):
    pytest.importorskip("jinja2")
    path = put(tmp_path, "a.conll", GOOD + "<script>\xa0alert</script>\xa0 O\n")
    assert run(path, "--html", tmp_path / "a.html") == 0
    page = (tmp_path / "a.html").read_text()
    assert "&lt;script&gt;" in page
    assert "<script" not in page
    assert "of 1 type, BIO" in page


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "Expected a FILE or FOLDER to check, or --workdir of a run"),
        (["a", "--json=nowhere/a"], "There is no folder to write nowhere/a into"),
        (["a", "--unfit=widen"], "error: a: No file a"),
        (["a", "--split=dev"], "--split is for the run of --workdir"),
    ],
)
def test_what_cannot_be_done_is_told(tmp_path, monkeypatch, capsys, arguments, message):
    monkeypatch.chdir(tmp_path)
    assert run(*arguments) == 1
    assert message in "".join(capsys.readouterr())


def test_a_tagger_lists_probable_errors(finished, tmp_path, capsys):
    """A label that is changed on purpose is found among the first."""
    import jaxner

    params = jaxner.load(finished)
    examples = corpora.load("sample", "train").examples[:40]
    predicted = jaxner.tag(params, [list(e.tokens) for e in examples])
    rows = [
        list(zip(e.tokens, p, strict=True))
        for e, p in zip(examples, predicted, strict=True)
    ]
    path = tmp_path / "a.conll"
    formats.write_columns(path, rows)
    agreed = describe.suspects(params, corpora.read(path, scheme="BIOES"))
    word, label = rows[7][0]
    other = "S-LOC" if label != "S-LOC" else "S-PER"
    rows[7][0] = (word, other)
    formats.write_columns(path, rows)
    assert run("--workdir", finished, path, "--json", tmp_path / "a.json") == 0
    told = capsys.readouterr().out
    assert "that the tagger labels otherwise, best first" in told
    found = json.loads((tmp_path / "a.json").read_text())["suspects"]
    assert len(found) > len(agreed)
    line = 1 + sum(len(row) + 1 for row in rows[:7])
    (its,) = [s for s in found if s["line"] == line and s["labels"][0] == other]
    assert 0 <= its["probability"] < 0.5
    assert its["predicted"][0] != other
    assert [s["probability"] for s in found] == sorted(s["probability"] for s in found)
    assert {s["file"] for s in found} == {str(path)}
    other_file = tmp_path / "b.conll"
    other_file.write_bytes(path.read_bytes())
    assert run("--workdir", finished, path, other_file, "--limit", 4) == 0
    told = capsys.readouterr().out
    assert f"{path}:" in told
    assert f"{other_file}:" in told


def test_an_unreadable_file_is_not_replaced_by_the_run(finished, tmp_path, capsys):
    (tmp_path / "empty.conll").touch()
    assert run("--workdir", finished, tmp_path / "empty.conll") == 1
    told = capsys.readouterr().out
    assert "expected lines of tokens" in told
    assert "p = " not in told


def test_probabilities_are_those_of_the_tagger(finished, tmp_path):
    import jaxner

    params = dataclasses.replace(jaxner.load(finished), temperature=2.5)
    tokens = corpora.load("sample", "train").examples[0].tokens
    formats.write_columns(
        tmp_path / "a.conll", [[(token, "S-LOC") for token in tokens]]
    )
    split = corpora.read(tmp_path / "a.conll", scheme="BIOES")
    column = params.vocabulary.label_names.index("S-LOC")
    for tagger in (params, jaxner.tagger.ensemble([params, params])):
        wanted = np.asarray(jaxner.marginals(tagger, [list(tokens)])[0])[:, column]
        found = describe.suspects(tagger, split)
        assert found
        for its in found:
            least = wanted[its.start : its.end].min()
            assert its.probability == pytest.approx(least, rel=1e-3)


def test_a_split_of_the_run_is_the_default(finished, capsys):
    assert run("--workdir", finished, "--limit=2") == 0
    assert capsys.readouterr().out.count(": p = ") == 2


def test_its_words_are_looked_up_in_vectors(finished, tmp_path, capsys):
    put(tmp_path, "vectors.txt", "the 1 2\n")
    vectors = tmp_path / "vectors.txt"
    assert run("--workdir", finished, "--split=test", "--vectors", vectors) == 0
    told = capsys.readouterr().out
    assert "of the tokens have a vector in vectors.txt" in told
    assert "test.conll" in told


def test_files_are_read_as_the_run_read_its_own(finished, tmp_path, capsys):
    folder = shutil.copytree(finished, tmp_path / "run")
    config = Workdir(folder).read_json("config.json")
    config["data"] |= {"token_column": 1, "comments": "# "}
    Workdir(folder).write_json("config.json", config)
    path = put(tmp_path, "a.conll", "# id = 7\n1 Ms O\n2 Preston B-PER\n")
    given = ("--workdir", folder, path)
    assert run(*given) == 0
    assert "1 sentence, 2 tokens, 1 entity of 1 type" in capsys.readouterr().out
    assert run(*given, "--comments=x") == 1
    assert "expected 4 columns, got 3" in capsys.readouterr().out
