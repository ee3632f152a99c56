"""No record is lost or written twice, whenever a run is killed."""

import dataclasses
import gzip
import io
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import jax
import numpy as np
import pytest

import jaxner
from jaxner import __main__ as program
from jaxner import streaming, tagging
from jaxner.data import corpora, formats, streams
from jaxner.data import vocabulary as vocab
from jaxner.runs import Workdir

LINES = [f"line {i} " + "x " * (i % 7) for i in range(60)]
TEXT = "\n".join(LINES)


class Killed(BaseException):
    """Stands for the end of a process."""


@pytest.fixture
def stub(monkeypatch):
    """A tagger that computes nothing: each token's label is O."""

    vocabulary, _ = vocab.build([["line"]], ["X"], scheme="BIO")
    tagger = object.__new__(jaxner.Tagger)
    object.__setattr__(tagger, "vocabulary", vocabulary)

    def label_ids(params, sentences, **_):
        return [np.zeros_like(sentence.words) for sentence in sentences]

    monkeypatch.setattr(tagging, "label_ids", label_ids)
    return tagger


def go(stub, path, text=TEXT, identity=None, rejects=None, overwrite=False, **options):
    source = streams.Source(io.BytesIO(text.encode()), "text")
    sink = streams.Sink("text", "jsonl")
    choices = {"rejects": rejects, "overwrite": overwrite}
    with streaming.Output(path, identity or {"a": 1}, **choices) as output:
        options = {"stops": rejects is None, "chunk": 16, **options}
        return streaming.tag_file(stub, source, sink, output, **options)


def texts(path):
    data = path.read_bytes()
    data = gzip.decompress(data) if path.suffix == ".gz" else data
    return [json.loads(line)["text"] for line in data.decode().splitlines()]


@pytest.mark.parametrize("name", ["out.jsonl", "out.jsonl.gz"])
@pytest.mark.parametrize("call", range(0, 40, 3))
def test_a_run_goes_on_where_it_was_killed(stub, tmp_path, monkeypatch, name, call):
    path = tmp_path / name
    calls = 0
    fsync = os.fsync

    def deadly(number):
        nonlocal calls
        calls += 1
        if calls == call:
            raise Killed
        fsync(number)

    monkeypatch.setattr(os, "fsync", deadly)
    try:
        go(stub, path)
        killed = False
    except Killed:
        killed = True
        assert not path.exists()
        with (tmp_path / f"{name}.part").open("ab") as file:
            file.write(b"half a li")  # of a write that was under way
    if killed:
        done = go(stub, path)
        assert (done.records, done.sentences) == (60, 60)
    assert texts(path) == LINES
    assert [p.name for p in tmp_path.iterdir()] == [name]


def test_shards_share_the_records(stub, tmp_path):
    for i in range(3):
        go(stub, tmp_path / str(i), shard=(i, 3))
    assert [texts(tmp_path / str(i)) for i in range(3)] == [
        LINES[i::3] for i in range(3)
    ]


def test_a_chunk_ends_with_a_document(stub, tmp_path, monkeypatch):
    vocabulary, _ = vocab.build([["line"]], ["X"], scheme="BIO", documents=True)
    object.__setattr__(stub, "vocabulary", vocabulary)
    asked = []

    def label_ids(params, sentences, documents, **_):
        asked.append(documents)
        return [np.zeros_like(sentence.words) for sentence in sentences]

    monkeypatch.setattr(tagging, "label_ids", label_ids)
    text = "".join(
        "-DOCSTART- O\n\n" + "a b c\nd e f\n\n" * count for count in (5, 1, 1, 1, 1)
    )
    for name, marked in (("a", text), ("b", text.replace("-DOCSTART- O\n", ""))):
        source = streams.Source(io.BytesIO(marked.encode()), "conll")
        sink = streams.Sink("conll", "conll")
        with streaming.Output(tmp_path / name, {}) as output:
            streaming.tag_file(stub, source, sink, output, chunk=4)
    assert asked[:3] == [[1] * 5, [2, 3], [4, 5]]
    assert asked[3:] == [None] * 5
    rows = (tmp_path / "a").read_text().splitlines()
    assert rows.count("-DOCSTART- O") == 5
    assert rows.count("a b c O") == 9


def test_bad_records_end_a_run_that_goes_on_once_they_are_mended(stub, tmp_path):
    path = tmp_path / "a"
    lines = [*LINES[:30], "x" * 300, *LINES[30:]]

    def attempt(lines, **options):
        source = streams.Source(
            io.BytesIO("\n".join(lines).encode()), "text", max_line=200
        )
        with streaming.Output(path, {}, **options) as output:
            stops = "rejects" not in options
            sink = streams.Sink("text", "jsonl")
            return streaming.tag_file(stub, source, sink, output, stops=stops, chunk=16)

    for _ in range(2):
        with pytest.raises(ValueError, match="line 31: a line of more than 200 bytes"):
            attempt(lines)
        assert json.loads((tmp_path / "a.journal").read_text())["records"] == 30
    attempt([*LINES[:30], "mended", *LINES[30:]])
    assert texts(path) == [*LINES[:30], "mended", *LINES[30:]]
    path.unlink()
    done = attempt(lines, rejects=tmp_path / "bad")
    assert texts(path) == LINES
    bad = json.loads((tmp_path / "bad").read_text())
    assert (bad["line"], done.bad) == (31, 1)
    assert "1 bad record" in done.summary()
    path.unlink()
    with pytest.raises(FileExistsError, match="bad is there already"):
        attempt(lines, rejects=tmp_path / "bad")


def test_another_run_does_not_go_on_with_this_one(stub, tmp_path, monkeypatch):
    path = tmp_path / "a"

    def stop(done):
        if done.records > 20:
            raise Killed

    with pytest.raises(Killed):
        go(stub, path, log=stop)
    with pytest.raises(FileExistsError, match="begun with another a; give the same"):
        go(stub, path, identity={"a": 2})
    with pytest.raises(ValueError, match=r"first \d\d records have changed"):
        go(stub, path, text=TEXT.replace("line 3", "line three"))
    with pytest.raises(ValueError, match="input has 2 records"):
        go(stub, path, text="a\nb")
    (tmp_path / "a.journal").write_text("{")
    with pytest.raises(ValueError, match=r"a\.journal is damaged"):
        go(stub, path)
    go(stub, path, overwrite=True)
    assert texts(path) == LINES
    with pytest.raises(FileExistsError, match="a is there already; --overwrite"):
        go(stub, path)


def test_two_processes_do_not_write_one_file(tmp_path):
    with (
        streaming.Output(tmp_path / "a", {}),
        pytest.raises(FileExistsError, match="Another process is writing"),
        streaming.Output(tmp_path / "a", {}),
    ):
        pass


CHILD = """
import sys, time
sys.path.insert(0, {root!r})
from types import SimpleNamespace
import jax
import numpy as np
from jaxner import streaming, tagging
from jaxner.data import streams
def encode(tokens):
    return SimpleNamespace(words=np.zeros(len(tokens), np.int32))
def decode(ids):
    return ["O" for _ in ids]
def label_ids(params, sentences, **_):
    time.sleep(0.002)
    return [sentence.words for sentence in sentences]
tagging.label_ids = label_ids
stub = SimpleNamespace(vocabulary=SimpleNamespace(
    encode=encode, decode=decode, reads_documents=False))
print("ready", flush=True)
with streams.opened(sys.argv[1]) as file:
    source = streams.Source(file, "text")
    sink = streams.Sink("text", "jsonl")
    with streaming.Output(sys.argv[2], {{}}) as output:
        streaming.tag_file(stub, source, sink, output, chunk=32)
"""


@pytest.mark.slow
@pytest.mark.parametrize("name", ["out.jsonl", "out.jsonl.gz"])
def test_killed_at_random_moments(tmp_path, name):
    lines = [f"line {i} of many" for i in range(6000)]
    source, path = tmp_path / "in.txt", tmp_path / name
    source.write_text("\n".join(lines))
    child = textwrap.dedent(CHILD.format(root=str(Path(__file__).parents[1])))
    command = [sys.executable, "-c", child, str(source), str(path)]
    draw, kills = random.Random(0), 0
    while not path.exists():
        with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
            assert process.stdout.readline() == b"ready\n"
            time.sleep(draw.uniform(0.0, 0.7))
            process.send_signal(signal.SIGKILL)
            kills += process.wait() == -signal.SIGKILL
    assert texts(path) == lines
    assert kills > 3


def test_the_command_labels_as_tag_does(finished, tmp_path, capsys):
    examples = corpora.load("sample", "dev").examples[:40]
    source = tmp_path / "in.conll.gz"
    text = "".join("".join(f"{t}\n" for t in e.tokens) + "\n" for e in examples)
    source.write_bytes(gzip.compress(text.encode()))
    out = tmp_path / "out-{shard}.conll"
    for shard in ("0/2", "1/2"):
        arguments = ["--workdir", finished, "--input", source, "--output", out]
        program.main(["tag", *map(str, arguments), "--shard", shard, "--cache=off"])
    assert "Done: " in capsys.readouterr().err
    expected = jaxner.tag(jaxner.load(finished), [list(e.tokens) for e in examples])
    for i in range(2):
        rows = (tmp_path / f"out-{i}.conll").read_text().split("\n\n")[:-1]
        labels = [[row.split(" ")[1] for row in s.splitlines()] for s in rows]
        assert labels == expected[i::2]
    with pytest.raises(SystemExit):
        program.main(["tag", *map(str, arguments), "--shard=1/2", "--cache=off"])
    assert "is there already; --overwrite" in capsys.readouterr().out


def standard_input(data):
    return io.TextIOWrapper(io.BufferedReader(io.BytesIO(data)))


def test_text_through_the_command(finished, tmp_path, capsys, monkeypatch):
    data = "Ms Preston left Lakeside.\n\xe9\n".encode("latin-1")
    monkeypatch.setattr(
        sys, "stdin", io.TextIOWrapper(io.BufferedReader(io.BytesIO(data)))
    )
    arguments = ["--workdir", str(finished), "--input=-", "--cache=off"]
    with pytest.raises(SystemExit):
        program.main(["tag", *arguments, "--output=-"])
    told = capsys.readouterr().out
    assert told.startswith('{"text": "Ms Preston left Lakeside.", "spans": [')
    assert "-, line 2: byte 0xe9 is not utf-8" in told
    monkeypatch.setattr(
        sys, "stdin", io.TextIOWrapper(io.BufferedReader(io.BytesIO(data)))
    )
    monkeypatch.chdir(tmp_path)
    program.main(["tag", *arguments, "--output=a.conll", "--to=conll", "--rejects=bad"])
    assert (tmp_path / "a.conll").read_text().startswith("Ms\t")
    assert json.loads((tmp_path / "bad").read_text())["line"] == 2


def test_bad_records_beside_standard_output(finished, tmp_path, capsys):
    (tmp_path / "in.txt").write_bytes(b"Ms Preston left.\n\xe9\nYes.\n")
    given = ["--workdir", finished, "--input", tmp_path / "in.txt", "--output=-"]
    given += ["--rejects", tmp_path / "bad", "--cache=off"]
    program.main(["tag", *map(str, given)])
    texts = [json.loads(line)["text"] for line in capsys.readouterr().out.splitlines()]
    assert texts == ["Ms Preston left.", "Yes."]
    bad = json.loads((tmp_path / "bad").read_text())
    assert (bad["line"], bad["problem"]) == (2, "byte 0xe9 is not utf-8")
    with pytest.raises(SystemExit):
        program.main(["tag", *map(str, given)])
    assert "bad is there already; --overwrite" in capsys.readouterr().out
    program.main(["tag", *map(str, given), "--overwrite"])
    assert len((tmp_path / "bad").read_text().splitlines()) == 1
    with pytest.raises(SystemExit):
        program.main(["tag", *map(str, given), "--rejects", str(tmp_path)])
    assert "Expected a file to write, got the folder" in capsys.readouterr().out


def test_other_weights_are_another_tagger(finished):
    params = jaxner.load(finished)
    assert streaming.identity(params) == streaming.identity(jaxner.load(finished))
    trained = jax.tree.map(lambda leaf: leaf + 1, params.weights)
    other = dataclasses.replace(params, weights=trained)
    assert streaming.identity(params) != streaming.identity(other)


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("a.conllu", [], "looks like conllu, which cannot be tagged as it is"),
        ("a.csv", [], "looks like csv"),
        ("a.tsv", [], "looks like tsv"),
        ("a.txt", ["--token-column=0"], "--token-column is for columns"),
        ("a.txt", ["--comments=#"], "--comments is for columns"),
        ("a.conll", ["--encoding=utf-16"], "convert the text to UTF-8"),
        ("a.conll", ["--sentences"], "are for raw text, and columns have tokens"),
        ("a.conll", ["--tokeniser=blanks"], "are for raw text"),
    ],
)
def test_what_a_format_has_no_use_for(
    name, options, message, finished, tmp_path, capsys
):
    (tmp_path / name).write_text("token\tlabel\nRome\tO\n")
    given = ["--workdir", finished, "--input", tmp_path / name, *options]
    given += ["--output", tmp_path / "out.conll", "--cache=off"]
    with pytest.raises(SystemExit):
        program.main(["tag", *map(str, given)])
    assert message in capsys.readouterr().out
    assert not (tmp_path / "out.conll").exists()


def test_columns_are_read_as_the_run_read_its_files(finished, tmp_path, capsys):
    run = shutil.copytree(finished, tmp_path / "run")
    config = Workdir(run).read_json("config.json")
    config["data"] |= {"token_column": 1, "comments": "# ", "encoding": "latin-1"}
    Workdir(run).write_json("config.json", config)
    source = tmp_path / "in.conll"
    source.write_bytes("# id\n1 Ms\n2 Prestón\n".encode("latin-1"))
    given = ["--workdir", run, "--input", source, "--cache=off", "--output"]

    def tokens(*options):
        out = tmp_path / f"out{len(options)}.jsonl"
        program.main(["tag", *map(str, [*given, out, *options])])
        return json.loads(out.read_text())["tokens"]

    assert tokens() == ["Ms", "Prestón"]
    assert tokens("--token-column=0", "--comments=x") == ["#", "1", "2"]
    source.write_text("Rome\n")
    with pytest.raises(SystemExit):
        tokens("--overwrite")
    assert "or give the file's --token-column." in capsys.readouterr().out


def test_documents_of_columns_as_json(finished, tmp_path):
    (tmp_path / "in.conll").write_text("-DOCSTART-\n\nRome\n\n-DOCSTART-\n\nYes\n")
    given = ["--workdir", finished, "--input", tmp_path / "in.conll"]
    given += ["--output", tmp_path / "out.jsonl", "--cache=off"]
    program.main(["tag", *map(str, given)])
    found = [json.loads(x) for x in (tmp_path / "out.jsonl").read_text().splitlines()]
    assert [(x["document"], x["tokens"]) for x in found] == [
        (1, ["Rome"]),
        (2, ["Yes"]),
    ]
    read = formats.read(tmp_path / "out.jsonl").examples
    assert [e.document for e in read] == [1, 2]
