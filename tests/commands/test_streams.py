"""Every command: odd names, streams as outputs, and an output that is no console."""

import io
import json
import os
import re
import shutil
import stat
import sys

import pytest

from jaxner import cli
from tests import tiny
from tests.marks import slow

# What a shell, rich, a comma list or UTF-8 takes for something else.
ODD = os.fsdecode("run (1), [/b] :eyes: 'é' ~ ".encode() + b"\xff")
SMALL = " ".join(f"--config.{name}={value}" for name, value in tiny.SMALL.items())
WRITES = {
    "check": "check {a} --vectors={vectors} -o {out}",
    "convert": "convert {a} -o {out} --to=conll",
    "convert to spaCy": "convert {a} -o {out} --to=spacy",
    "show": "show {run} {text} -o {out}",
    "select": "select {run} {text} --to=label-studio -o {out}",
    "tag": "tag {run} {text} --to=conll -o {out}",
    "tag --rejects": "tag {run} {bad} -o /dev/null --to=conll --rejects={out}",
    "evaluate": "evaluate {run} -o {out}",
}
SLOW = {"export": "export {run} -o {out}"}  # it compiles what it exports
JSON = {
    "check": "check {a}",
    "score": "score {scored} --rounds=5",
    "compare": "compare {scored} {b} --rounds=5",
    "show": "show {run} {text}",
    "evaluate": "evaluate {run} --split={a}",
    "calibrate": "calibrate {run} --test",
    "tag": "tag {run} {a} --gold -o /dev/null --to=conll",
}
# What the help excludes, or says of other options.
ABSENT = {"score": {"decoding", "sha256", "notes"}, "compare": {"split"}}
ABSENT["calibrate"] = {"guarantees"}
PRINTS = {
    "train": f"train grn --config.data.dir={{folder}} {SMALL} -o {{x}}",
    "options": "options grn",
    "serve": "serve {run} --port=0",
    "help": "--help",
    "completion": "completion bash",
    **{name: line for name, line in JSON.items() if name != "tag"},
    "select": WRITES["select"].replace("{out}", "-"),
    "convert": "convert {a} --to=conll",
    "tag": "tag {run} {text}",
}


def test_each_command_has_a_line():
    lines = [*(WRITES | SLOW).values(), *JSON.values(), *PRINTS.values()]
    rest = {"report", "refresh", "export-onnx", "import"}  # see the tests of each
    assert {line.split()[0] for line in lines} >= {*cli.COMMANDS} - rest


@pytest.fixture(scope="module")
def places(tiny_run, uanet_run, corpus, tmp_path_factory):
    """Files in a folder of an odd name, by what they stand for in a line."""
    folder = tmp_path_factory.mktemp("x") / ODD
    shutil.copytree(corpus, folder)
    places = {"folder": folder}
    for name, source in {"run": tiny_run, "refined": uanet_run}.items():
        copy = shutil.copytree(source, folder / name)
        places[name] = tiny.with_data(copy, dir=str(folder))
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


@pytest.mark.parametrize("name", [*WRITES, *slow("export")])
def test_outputs(name, places, capfd, tmp_path, monkeypatch):
    """A file of an odd name and standard output get the same, a device stays one."""
    monkeypatch.chdir(tmp_path)
    if os.geteuid():
        os.symlink(os.devnull, "null")
    else:  # root could replace it
        os.mknod("null", 0o600 | stat.S_IFCHR, os.stat(os.devnull).st_rdev)
    outputs, file = {}, places["folder"] / "out"
    for target in (file, "-", "null"):
        cli.run(words((WRITES | SLOW)[name], **places, out=target))
        outputs[str(target)] = capfd.readouterr()
    data = file.read_bytes()
    file.unlink()
    if name not in ("export", "convert to spaCy"):
        assert outputs["-"].out == data.decode()
    assert len(outputs["-"].out) > 20
    assert stat.S_ISCHR(os.stat("null").st_mode)
    assert os.listdir() == ["null"]


def documented(name):
    """The keys that the help of --json names; a prefix, if they end in …."""
    actions = cli.parser_of(cli.function_of(name.split()[0]))._actions
    text = next(x.help for x in actions if "--json" in x.option_strings)
    names = re.findall("`(.+?)`", text)
    return names + documented("evaluate") if "What jaxner evaluate" in text else names


@pytest.mark.parametrize("name", JSON)
def test_a_document_on_standard_output(name, places, capfd):
    """And the tables on standard error, which are left out on demand."""
    line = words(JSON[name], **places)
    cli.run(line)
    tables = capfd.readouterr().out.replace("\\udcff", "?")
    cli.run([*line, "--json"])
    output = capfd.readouterr()
    content = json.loads(output.out)
    assert isinstance(content, list if name == "show" else dict)
    if name != "show":  # test_show.py has the list
        names = [key.rstrip("…") for key in documented(name)]
        assert all(key.startswith((*names,)) for key in content), [*content]
        for key in {*names} - ABSENT.get(name, set()):
            assert f'"{key}' in output.out, key
    assert tables.strip() in output.err.replace("\\udcff", "?")
    cli.run([*line, "--json", "--quiet"])
    repeat = capfd.readouterr()
    assert repeat.err == ""
    if name != "tag":  # whose speed differs
        assert json.loads(repeat.out) == json.loads(output.out)


def printed(line, file, encoding):
    """Runs a command with another standard output; returns its status."""
    descriptor, stream, status = os.dup(1), sys.stdout, 0
    os.dup2(file, 1)
    sys.stdout = io.TextIOWrapper(os.fdopen(os.dup(1), "wb"), encoding)
    try:
        cli.run(line)
    except SystemExit as error:
        status = error.code
    finally:
        sys.stdout.close()  # as at the end of a process
        os.dup2(descriptor, 1)
        os.close(descriptor)
        sys.stdout = stream
    return status


@pytest.mark.filterwarnings("ignore:.*socket")  # which the end of the process closes
@pytest.mark.parametrize("name", PRINTS)
def test_standard_outputs(name, places, tmp_path, capfd):
    """A closed pipe, a full disk, and a console that lacks letters."""
    lines = [words(PRINTS[name], **places, x=tmp_path / x) for x in "xyz"]
    reading, writing = os.pipe()
    os.close(reading)
    with open(writing, "wb"), open("/dev/full", "wb") as full:
        assert printed(lines[0], writing, "utf-8") == 141
        assert "Error" not in capfd.readouterr().err
        assert printed(lines[1], full.fileno(), "utf-8") == 1
        assert capfd.readouterr().err.endswith("No space left on device\n")
    if name in ("train", "serve", "export"):
        return  # they would take long
    with (tmp_path / "out").open("w+b") as file:
        assert printed(lines[2], file.fileno(), "ascii") == 0
        file.seek(0)
        text = file.read()
    if name in ("convert", "tag", "select"):
        assert "Évian" in text.decode("utf-8")  # results are UTF-8 all the same
    else:
        assert (r"\xc9vian" in text.decode("ascii")) == (name == "show")
