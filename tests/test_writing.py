"""Files that a command writes: refused before the work, or written whole."""

import os
import stat

import pytest

from jaxner import __main__, writing
from jaxner.data import streams
from jaxner.evaluation import pages


@pytest.mark.parametrize(
    ("path", "error", "message"),
    [
        ("no/a", FileNotFoundError, "There is no folder to write .*no/a into"),
        ("folder", IsADirectoryError, "Expected a file to write, got the folder"),
        ("corpus", ValueError, "Expected two files, got .*corpus twice"),
        ("folder/../corpus", ValueError, "Expected two files"),
        ("link", ValueError, "Expected two files"),
    ],
)
def test_what_cannot_be_written_is_refused(tmp_path, path, error, message):
    (tmp_path / "folder").mkdir()
    (tmp_path / "corpus").write_text("a O\n")
    (tmp_path / "link").symlink_to(tmp_path / "corpus")
    with pytest.raises(error, match=message):
        writing.check(tmp_path / path, None, "-", tmp_path, tmp_path / "corpus")


def test_what_can_be_written_passes(tmp_path):
    (tmp_path / "old").touch()
    for path in (None, "", tmp_path / "old", tmp_path / "new", "/dev/null"):
        writing.check(path, tmp_path / "corpus", tmp_path)


def test_a_folder_without_permission_is_told(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "access", lambda path, mode: path != tmp_path)
    with pytest.raises(PermissionError, match=r"no permission to write .*/new"):
        writing.check(tmp_path / "new")


def test_an_error_names_the_file_that_was_given(tmp_path):
    with pytest.raises(FileNotFoundError) as error:
        writing.write_text(tmp_path / "no" / "a.json", "{}")
    assert error.value.filename == str(tmp_path / "no" / "a.json")


def test_a_file_is_replaced_with_the_usual_permissions(tmp_path):
    writing.write_text(tmp_path / "a", "1")
    writing.write_text(tmp_path / "a", "2")
    assert (tmp_path / "a").read_text() == "2"
    (tmp_path / "b").touch()
    modes = {stat.S_IMODE(path.stat().st_mode) for path in tmp_path.iterdir()}
    assert len(modes) == 1


def test_a_report_replaces_no_file_that_is_read(tmp_path):
    (tmp_path / "news.json").touch()
    with pytest.raises(ValueError, match=r"got .*news.json twice"):
        pages.check(tmp_path / "news.html", tmp_path / "news.json")


@pytest.mark.parametrize(
    "arguments",
    [
        ["check", "{file}", "--html={file}"],
        ["check", "{folder}", "--json={file}"],
        ["score", "{file}", "--json={file}"],
        ["compare", "{file}", "{file}", "--json={file}"],
        ["convert", "{file}", "{file}"],
        ["show", "{file}", "--html={file}", "--workdir={run}"],
        ["tag", "--input={file}", "--output={file}", "--overwrite", "--workdir={run}"],
    ],
)
def test_no_command_replaces_what_it_reads(arguments, tmp_path, finished, capsys):
    file = tmp_path / "train.conll"
    file.write_text("Rome B-LOC B-LOC\nfell O O\n")
    kept = file.read_bytes()
    names = {"file": file, "folder": tmp_path, "run": finished}
    given = [argument.format(**names) for argument in arguments]
    with pytest.raises(SystemExit):
        __main__.main([*given, "--cache=off"])
    assert f"Expected two files, got {file} twice" in capsys.readouterr().err
    assert file.read_bytes() == kept


@pytest.mark.parametrize(
    "arguments",
    [
        ["--data={file}", "--output={file}"],
        ["--data={file}", "--report={folder}/train.html"],
        ["--split=dev", "--json={dev}"],
    ],
)
def test_evaluate_replaces_nothing_that_it_reads(
    arguments, tmp_path, finished, corpus, evaluated
):
    file, dev = tmp_path / "train.json", corpus / "dev.conll"
    file.write_text('{"tokens": ["Rome"], "labels": ["B-LOC"]}\n')
    kept = file.read_bytes(), dev.read_bytes()
    names = {"file": file, "folder": tmp_path, "dev": dev}
    with pytest.raises(ValueError, match="Expected two files"):
        evaluated("--workdir", finished, *(a.format(**names) for a in arguments))
    assert (file.read_bytes(), dev.read_bytes()) == kept


@pytest.mark.parametrize(
    ("path", "source", "format"),
    [
        ("-", "text", "jsonl"),
        ("-", "conll", "conll"),
        ("a.jsonl", "conll", "jsonl"),
        ("a.jsonl.gz", "text", "jsonl"),
        ("a.txt", "text", "conll"),
        ("a.bio", "jsonl", "conll"),
    ],
)
def test_a_name_shows_the_format(path, source, format):
    assert streams.guess_output(path, source) == format


@pytest.mark.parametrize("path", ["a", "a.csv", "a.conllu", "a.tsv", "a.ann"])
def test_a_name_without_a_format_of_tag_is_refused(path):
    with pytest.raises(ValueError, match="give --to, one of conll, jsonl; or end the"):
        streams.guess_output(path, "text")
