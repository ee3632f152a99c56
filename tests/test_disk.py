"""Files that a command writes: refused before the work, or written whole."""

import os
import stat

import pytest

from jaxner import disk


def test_what_cannot_be_written_is_refused(tmp_path, monkeypatch):
    """Under any name; the commands' tests have folders and files that are missing."""
    (tmp_path / "folder").mkdir()
    (tmp_path / "corpus").write_text("a O\n")
    (tmp_path / "link").symlink_to(tmp_path / "corpus")
    for path in ("corpus", "folder/../corpus", "link"):
        with pytest.raises(ValueError, match="twice"):
            disk.check(tmp_path / path, None, "-", tmp_path, tmp_path / "corpus")
    for path in ("", tmp_path / "new", "/dev/null"):
        disk.check(path, tmp_path / "corpus", tmp_path)
    monkeypatch.setattr(os, "access", lambda path, mode: path != tmp_path)
    with pytest.raises(PermissionError, match="new"):
        disk.check(tmp_path / "new")


def test_a_file_is_replaced_with_the_usual_permissions(tmp_path):
    disk.write_text(tmp_path / "a", "1")
    disk.write_text(tmp_path / "a", "2")
    assert (tmp_path / "a").read_text() == "2"
    (tmp_path / "b").touch()
    modes = {stat.S_IMODE(path.stat().st_mode) for path in tmp_path.iterdir()}
    assert len(modes) == 1
    with pytest.raises(FileNotFoundError) as error:
        disk.write_text(tmp_path / "no" / "a.json", "{}")
    assert error.value.filename == str(tmp_path / "no" / "a.json")


@pytest.mark.parametrize(
    "line",
    [
        "check {file} --html={file}",
        "check {folder} --json={file}",
        "score {file} --json={file}",
        "score {json} --report={folder}/a.html",
        "compare {file} {file} --json={file}",
        "convert {file} {file}",
        "show {file} --html={file} --workdir={run}",
        "tag --input={file} --output={file} --overwrite --workdir={run}",
        "evaluate --workdir={run} --data={file} --output={file}",
        "evaluate --workdir={run} --data={json} --report={folder}/a.html",
        "evaluate --workdir={run} --split=dev --json={dev}",
    ],
)
def test_no_command_replaces_what_it_reads(line, tmp_path, finished, corpus, run):
    file, json = tmp_path / "train.conll", tmp_path / "a.json"
    file.write_text("Rome B-LOC B-LOC\nfell O O\n")
    json.write_text('{"tokens": ["Rome"], "labels": ["B-LOC"]}\n')
    names = {"file": file, "folder": tmp_path, "run": finished, "json": json}
    names["dev"] = corpus / "dev.conll"
    kept = [names[name].read_bytes() for name in ("file", "json", "dev")]
    assert "Expected two files" in run(*line.format(**names).split())[1]
    assert [names[name].read_bytes() for name in ("file", "json", "dev")] == kept
