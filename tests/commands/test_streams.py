"""Every command: odd names, streams as outputs, and an output that is no console."""

import functools
import io
import json
import os
import shutil
import stat
import sys

import pytest

from jaxner import cli
from jaxner.runs import Workdir
from tests import tiny

# What a shell, rich, a comma list or UTF-8 takes for something else.
ODD = os.fsdecode("run (1), [/b] :eyes: 'é' ~ ".encode() + b"\xff")
SMALL = " ".join(f"--config.{name}={value}" for name, value in tiny.SMALL.items())
WRITES = {
    "check --json": "check {a} --json={out}",
    "check --html": "check {a} --vectors={vectors} --html={out}",
    "convert": "convert {a} {out} --to=conll",
    "convert to spaCy": "convert {a} {out} --to=spacy",
    "score": "score {scored} --rounds=5 --json={out}",
    "compare": "compare {scored} {b} --rounds=5 --json={out}",
    "show": "show {text} --workdir={run} --html={out}",
    "select": "select --workdir={run} --input={text} --to=label-studio --output={out}",
    "tag": "tag --workdir={run} --input={text} --to=conll --output={out}",
    "tag --rejects": "tag --workdir={run} --input={bad} --output=/dev/null "
    "--to=conll --rejects={out}",
    "evaluate": "evaluate --workdir={run} --data={a} --json={out}",
    "evaluate --output": "evaluate --workdir={run} --split=dev --output={out}",
    "calibrate": "calibrate --workdir={run} --json={out}",
    "sweep": "sweep --workdir={refined} --thresholds=0 --samples=1 --json={out}",
    "export": "export --workdir={run} --output={out}",
}
PRINTS = {
    "train": f"train --config=grn --config.data.dir={{folder}} {SMALL} --workdir={{x}}",
    "options": "options grn",
    "serve": "serve --workdir={run} --port=0",
    "help": "--help",
    **{k: x.partition(" --json")[0] for k, x in WRITES.items() if "json=" in x},
    "select": WRITES["select"].replace("{out}", "{x}"),
    "convert": "convert {a} - --to=conll",
    "show": "show {text} --workdir={run}",
    "tag": "tag --workdir={run} --input={text} --output=/dev/stdout",
    "export": "export --workdir={run} --onnx={x}.onnx",
}


def test_each_command_has_a_line():
    for lines, silent in ((WRITES, {"train", "options", "serve"}), (PRINTS, set())):
        assert {line.split()[0] for line in lines.values()} >= {*cli.COMMANDS} - silent


@pytest.fixture(scope="module")
def places(finished, refining, corpus, tmp_path_factory):
    """Files in a folder of an odd name, by what they stand for in a line."""
    folder = tmp_path_factory.mktemp("x") / ODD
    shutil.copytree(corpus, folder)
    places = {"folder": folder}
    for name, source in {"run": finished, "refined": refining}.items():
        copy = Workdir(shutil.copytree(source, folder / name))
        config = copy.read_json("config.json")
        config["data"]["dir"] = str(folder)
        copy.write_json("config.json", config)
        places[name] = copy.path
    contents = {
        "a.conll": "Ms B-PER\nPreston I-PER\nleft O\nÉvian B-LOC\n",
        "b.conll": "Ms B-PER O\nleft O O\n",
        "scored.conll": "Ms B-PER B-PER\nleft O O\n",
        "text.txt": "Ms Preston left Évian.\n",
        "bad.txt": "Ms Preston.\n\udce9\n",
        "vectors": "ms 1 2\n",
    }
    for name, content in contents.items():
        places[name.partition(".")[0]] = path = folder / name
        path.write_bytes(content.encode("utf-8", "surrogateescape"))
    return places


def words(line, **places):
    return [word.format(**places) for word in line.split()]


SLOW = {"export": pytest.mark.slow}  # it compiles what it exports


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=SLOW.get(name, ())) for name in WRITES]
)
def test_outputs(name, places, capfd, tmp_path, monkeypatch):
    """A file of an odd name and standard output get the same, a device stays one."""
    monkeypatch.chdir(tmp_path)
    os.mknod("null", 0o600 | stat.S_IFCHR, os.stat(os.devnull).st_rdev)
    shown = {}
    for out in (places["folder"] / "out", "-", "null"):
        cli.run(words(WRITES[name], **places, out=out))
        shown[str(out)] = capfd.readouterr()
    file = places["folder"] / "out"
    data = file.read_bytes()
    file.unlink()
    if "json" in name or name == "calibrate":
        assert json.loads(shown["-"].out) == json.loads(data)
        tables = shown["null"].out.replace("\\udcff", "?")
        assert shown["-"].err.replace("\\udcff", "?") == tables
    elif name not in ("export", "convert to spaCy"):
        assert shown["-"].out == data.decode()
    assert len(shown["-"].out) > 20
    assert stat.S_ISCHR(os.stat("null").st_mode)
    assert os.listdir() == ["null"]


@pytest.fixture
def printed(capfd, monkeypatch):
    """Runs a command with another standard output; returns status, output and error."""

    def call(file, arguments, encoding="utf-8"):
        before, status = os.dup(1), 0
        os.dup2(file, 1)
        stream = io.TextIOWrapper(os.fdopen(os.dup(1), "wb"), encoding)
        monkeypatch.setattr(sys, "stdout", stream)
        try:
            cli.run(arguments)
        except SystemExit as error:
            status = error.code
        finally:
            stream.close()  # as at the end of a process
            os.dup2(before, 1)
            os.close(before)
            monkeypatch.undo()
        return status, capfd.readouterr().err

    return call


@pytest.mark.filterwarnings("ignore:.*socket")  # which the end of the process closes
@pytest.mark.parametrize("name", PRINTS)
def test_a_closed_pipe_and_a_full_disk(name, places, printed, tmp_path):
    reading, writing = os.pipe()
    os.close(reading)
    line = functools.partial(words, PRINTS[name], **places)
    status, told = printed(writing, line(x=tmp_path / "x"))
    assert (status, "Error" in told) == (141, False)
    os.close(writing)
    with open("/dev/full", "wb", buffering=0) as full:
        status, told = printed(full.fileno(), line(x=tmp_path / "y"))
    assert status == 1
    assert told.splitlines()[-1].endswith("No space left on device")


@pytest.mark.parametrize("name", sorted(PRINTS.keys() - {"train", "serve", "export"}))
def test_an_encoding_that_lacks_letters(name, places, printed, tmp_path):
    """Results are UTF-8 all the same; what is shown has escapes."""
    line = words(PRINTS[name], **places, x=tmp_path / "x")
    with (tmp_path / "out").open("wb") as file:
        status, told = printed(file.fileno(), line, "ascii")
    assert status == 0, told
    text = (tmp_path / "out").read_bytes()
    if name in ("convert", "tag"):
        assert "Évian" in text.decode("utf-8")
    else:
        assert text.decode("ascii")
        assert ("\\xc9vian" in text.decode("ascii")) == (name == "show")
