"""Old spellings of commands work, and say the new one in a line."""

import json
import os
import shlex
from pathlib import Path

import pytest

from jaxner import cli, spellings
from jaxner.errors import UsageError
from jaxner.runs import Workdir

# Old lines and new ones, without `jaxner`.
LINES = {
    "train --config grn": "train grn",
    "train --config=grn:sample,crf --workdir=a --config.x=1 --config.y 2": (
        "train grn:sample,crf -o a --config.x 1 --config.y 2"
    ),
    "options grn": "options grn",
    "evaluate --workdir a": "evaluate a --split test",
    "evaluate --workdir a --split dev": "evaluate a --split dev",
    "evaluate --workdir=a --data b.conll --output c": (
        "evaluate a --split b.conll -o c"
    ),
    "evaluate --workdir a --json s.json": "evaluate a --split test --json > s.json",
    "evaluate --workdir a --model x=1": "evaluate a --model x=1 --split test",
    "evaluate --workdir a,b --report c.html": ("report a b -o c.html --split test"),
    "evaluate --workdir with,comma --report c.html": (
        "report with,comma -o c.html --split test"
    ),
    "tag --workdir a --input b --output c --from text": ("tag a b -o c --format text"),
    "tag --output - --input - --workdir 'a b'": "tag 'a b' - -o -",
    "tag --workdir a --input b --output c --no-overwrite": "tag a b -o c",
    "show b.txt --workdir a --html c.html": "show a b.txt -o c.html",
    "calibrate --workdir a --risk 0.1 --no_test": "calibrate a --risk 0.1",
    "serve --model a.zip": "serve a.zip",
    "export --workdir a --onnx b.onnx": "export-onnx a -o b.onnx",
    "export --refresh a.zip --output b.zip": "refresh a.zip -o b.zip",
    "check a b --json=c --from conll": "check a b --format conll --json > c",
    "check a --json new.json": "check a --json > new.json",
    "convert a b --from brat": "convert a --format brat -o b",
    "score a --report b.html --json c.json": "score a -o b.html --json > c.json",
    "compare a,b c": "compare a b --against c",
    "compare with,comma c": "compare with,comma c",
}


@pytest.fixture
def line(tmp_path, monkeypatch):
    """Reads a line in a folder with some files; the name of one has a comma."""
    monkeypatch.chdir(tmp_path)
    Path("with,comma").mkdir()
    Path("b.conll").touch()
    Path("data.json").write_text('[{"text": "Rome"}]\n')

    def read(text):
        name, *words = shlex.split(text)
        return spellings.modern(name, cli.parser_of(cli.function_of(name)), words)

    return read


@pytest.mark.parametrize("old", LINES)
def test_an_old_line_and_the_new_one(old, line, capsys):
    result, new = line(old), LINES[old]
    result.say(is_script=False)
    output = capsys.readouterr().err
    if old == new:
        assert output == ""
    else:
        start = "Old spelling, gone with the next release. Use: jaxner"
        assert output == f"{start} {new}\n"
    parser = cli.parser_of(cli.function_of(result.name))
    second = line(new.partition(" --json >")[0])  # the shell's part
    assert not second.old
    assert parser.parse(result.words) == parser.parse(second.words)
    assert str(result.json or "") == new.partition(" > ")[2]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("evaluate --workdir a --report b.html --output c", "jaxner report"),
        ("evaluate --workdir a --report b.html --json c.json", "jaxner report"),
        ("export --workdir a --onnx b.onnx --output c.zip", "jaxner export-onnx"),
        ("check a --json data.json", "two things"),
        ("score a --json data.json", "data.json: exists"),
        ("evaluate --workdir", "--workdir: expected one argument"),
        ("train grn --config", "--config: expected one argument"),
    ],
)
def test_a_line_that_means_two_things_is_refused(text, message, line):
    with pytest.raises(ValueError, match=message) as error:
        line(text)
    assert isinstance(error.value, UsageError) == ("exists" not in message)


@pytest.mark.parametrize("script", ["train", "evaluate"])
def test_the_scripts_of_a_clone_keep_their_options(script, line, capsys):
    old = {"train": "--config configs/grn.py", "evaluate": "--workdir a"}[script]
    rest = {"train": "--workdir a", "evaluate": ""}[script]
    line(f"{script} {old} {rest}").say(is_script=True)
    assert capsys.readouterr().err == ""
    line(f"{script} {old} --from x").say(is_script=True)
    assert "--format x" in capsys.readouterr().err


def test_an_old_line_does_what_it_did(tiny_run, tmp_path, run, monkeypatch):
    monkeypatch.chdir(tmp_path)
    _, output = run("evaluate", "--workdir", tiny_run, "--json", "s.json")
    new = f"jaxner evaluate {tiny_run} --split test --json > s.json\n"
    assert output.count("Old spelling") == output.count(new) == 1
    scores = json.loads(Path("s.json").read_text())
    assert scores["f1"] == Workdir(tiny_run).read_json("result.json")["test"]["f1"]
    assert run("evaluate", "--workdir", tiny_run, "--json", "s.json")[0] == 0  # again
    Path("a.conll").write_text("Rome B-LOC B-LOC\n")
    os.rename("a.conll", "a,b")
    for name in ("convert", "compare"):
        words = ["--to=jsonl"] if name == "convert" else ["a,b", "--rounds=5"]
        assert run(name, "a,b", *words)[0] == 0
