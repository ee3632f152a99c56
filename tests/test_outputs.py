"""What users name as an output: refused before the work, or written whole."""

import contextlib
import errno
import functools
import gzip
import itertools
import json
import os
import re
import resource
import signal
import socket
import stat
import warnings
from pathlib import Path

import pytest

from jaxner import outputs
from jaxner.errors import InputError
from jaxner.outputs import Output

# --- Names ---------------------------------------------------------------------------


def test_streams_are_told_from_files(tmp_path):
    os.mkfifo(tmp_path / "fifo")
    for name, target in {"out": "/dev/stdout", "chain": "out", "loop": "loop"}.items():
        (tmp_path / name).symlink_to(target)
    numbers = {"-": 1, "/dev/stdout": 1, "/proc/self/fd/12": 12, tmp_path / "chain": 1}
    numbers |= {"/dev/../dev/stderr": 2, tmp_path / "loop": None, "/dev/fd": None}
    numbers |= {"./-": None, "": None, tmp_path / "fifo": None, "/dev/null": None}
    for path, number in numbers.items():
        is_special = str(path).endswith(("fifo", "null"))
        assert outputs.descriptor(path) == number
        assert outputs.is_stream(path) == (is_special or number is not None)


@pytest.mark.parametrize("size", [10, 10**6])
def test_a_full_disk_names_the_file(size, tmp_path):
    """Whether writing, flushing or closing finds out."""
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    path = tmp_path / "file"

    def write_chunks():
        with Output(path, {}) as output:
            resource.setrlimit(resource.RLIMIT_FSIZE, (3, limits[1]))
            output.commit("x" * size, state={})

    try:
        for write in (write_chunks, lambda: outputs.write_text(path, "x" * size)):
            with pytest.raises(OSError, match="File too large") as error:
                write()
            assert error.value.filename == str(path)
        with pytest.raises(OSError, match="input") as error, outputs.writing(path):
            raise OSError(errno.EIO, "of the input")
        assert error.value.filename is None
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, handler)


def test_what_cannot_be_written_is_refused(tmp_path, monkeypatch):
    """Under any name; the commands' tests have folders and files that are missing."""
    (tmp_path / "file").touch()
    for path in ("", None, tmp_path / "new", tmp_path / "file", "/dev/null", "-"):
        outputs.check(path, sources=[None, "", "-", tmp_path, tmp_path / "nowhere"])
    reading, writing = os.pipe()
    outputs.check(f"/dev/fd/{writing}")
    os.set_blocking(reading, False)
    with pytest.raises(BlockingIOError):  # nothing was written
        os.read(reading, 1)
    for number in (reading, writing):
        os.close(number)
        with pytest.raises(OSError, match="Bad file descriptor"):
            outputs.check(f"/dev/fd/{number}")
    monkeypatch.chdir(tmp_path)
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind("socket")
        for kind, name in {"socket": "socket", "folder": tmp_path}.items():
            with pytest.raises(InputError, match=f"got the {kind} {name}"):
                outputs.check(name)
    with pytest.raises(FileNotFoundError, match="no folder to write"):
        outputs.check(tmp_path / "no" / "file")
    for parent, paths in {"file": ["file"], ".": ["file", "new"]}.items():
        folder = tmp_path / parent
        monkeypatch.setattr(os, "access", lambda path, _, folder=folder: path != folder)
        outputs.check("/dev/null")
        for path in paths:
            with pytest.raises(PermissionError, match=path):
                outputs.check(tmp_path / path)


@pytest.mark.parametrize(
    ("paths", "sources"),
    [
        (["file"], ["file"]),
        (["./link"], ["file"]),
        (["hard"], ["link"]),
        (["fifo"], ["fifo"]),
        (["file", "hard"], []),
        (["new", "dangling"], []),
        (["fifo", "fifo"], []),
        (["-", "-"], []),
        (["-", "/dev/stdout"], []),
        (["/dev/zero", "/dev/zero"], []),
        (["new", "new.part"], []),
        (["new"], ["new.part"]),
        (["file"], ["-"]),
    ],
)
def test_no_output_is_an_input_or_another_output(paths, sources, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    os.mkdir("folder")
    os.mkfifo("fifo")
    for name in ("file", "new.part"):
        Path(name).touch()
    os.link("file", "hard")
    os.symlink("file", "link")
    os.symlink("new", "dangling")
    sides = {"sides": outputs.SIDES} if "." in "".join(paths + sources) else {}
    with open("file") as file:
        descriptor = os.dup(0)
        os.dup2(file.fileno(), 0)
        with pytest.raises(InputError, match=f"got {[*sources, *paths][0]} and "):
            outputs.check(*paths, sources=sources, **sides)
        os.dup2(descriptor, 0)
        os.close(descriptor)
    outputs.check(*paths[:1], sources=sources[1:], **sides)
    outputs.check("other", "new", *["/dev/null"] * 2, sources=["file"])
    outputs.check("fifo", "fifo.part", sides=outputs.SIDES)
    # A terminal is read and written at once; only its results must not be mixed.
    outputs.check("/dev/zero", sources=["/dev/zero"])


# --- Writing -------------------------------------------------------------------------


def test_a_file_is_replaced_with_the_usual_permissions(tmp_path):
    path = tmp_path / ("a" * 250)  # of 255 characters that a name may have
    outputs.write_text(path, "1")
    outputs.write_text(path, "é\udcff")
    assert path.read_text("utf-8") == "é\\udcff"
    (tmp_path / "b").touch()
    modes = {stat.S_IMODE(path.stat().st_mode) for path in tmp_path.iterdir()}
    assert len(modes) == 1
    path.chmod(0o600)
    outputs.write_text(path, "2")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


@pytest.mark.skipif(os.geteuid() != 0, reason="only root makes, and harms, devices")
def test_special_files_are_written_and_stay(tmp_path):
    os.mknod(tmp_path / "null", 0o666 | stat.S_IFCHR, os.stat(os.devnull).st_rdev)
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "link").symlink_to("null")
    (tmp_path / "chain").symlink_to("link")
    modes = {path.name: path.lstat().st_mode for path in tmp_path.iterdir()}
    for path in tmp_path.iterdir():
        reading = path.name == "fifo" and os.open(path, os.O_RDONLY | os.O_NONBLOCK)
        outputs.write_text(path, "é")
        with Output(path, {}, rejects=tmp_path / "link") as output:
            output.commit("1", "2", state={"n": 1})
            assert {p.name: p.lstat().st_mode for p in tmp_path.iterdir()} == modes
        if reading:
            assert os.read(reading, 9) == "é1".encode()
            os.close(reading)
    with Output(tmp_path / "a", {}, rejects=tmp_path / "null") as output:
        output.commit("1", "2", state={})
    assert (tmp_path / "a").read_text() == "1"
    (tmp_path / "a").unlink()
    assert {p.name: p.lstat().st_mode for p in tmp_path.iterdir()} == modes


def test_an_open_file_is_continued(tmp_path, capfd):
    """As a shell's `{ echo head; jaxner … /dev/stdout; } > file` does."""
    with (tmp_path / "a").open("w") as file:
        print("head", file=file, flush=True)
        outputs.write_text(f"/dev/fd/{file.fileno()}", "body\n")
        print("foot", file=file)
    assert (tmp_path / "a").read_text() == "head\nbody\nfoot\n"
    print("before", end=" ")
    outputs.write_text("-", "é after")
    assert capfd.readouterr().out == "before é after"


def test_texts_are_read_as_utf_8(tmp_path, monkeypatch):
    (tmp_path / "a").write_bytes("é\r\nb".encode())
    with (tmp_path / "a").open(encoding="ascii") as file:
        monkeypatch.setattr("sys.stdin", file)
        for path in (tmp_path / "a", Path("-")):
            assert outputs.read_text(path) == "é\nb"
    (tmp_path / "a").write_bytes(b"\xe9")
    with pytest.raises(InputError, match="a: expected text in UTF-8"):
        outputs.read_text(tmp_path / "a")
    assert outputs.expanded("~nobody-has-this/x") == Path("~nobody-has-this/x")
    assert outputs.expanded("~/x") == Path.home() / "x"


# --- Files that grow -----------------------------------------------------------------

CALLS = ("fsync", "replace", "unlink")


def killed_at(call, work):
    """Does some work in a process that is killed before a call; returns its status."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # JAX warns: the child must not use it
        child = os.fork()
    if not child:
        calls = itertools.count(1)

        def wrapped(function, *arguments, **options):
            if next(calls) == call:
                os.kill(os.getpid(), signal.SIGKILL)
            return function(*arguments, **options)

        for name in CALLS:
            setattr(os, name, functools.partial(wrapped, getattr(os, name)))
        with contextlib.suppress(FileExistsError):
            work()
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def grow(folder, chunks=2, name="out", **options):
    """Writes chunks, and as many records that are rejected."""
    with Output(folder / name, {}, rejects=folder / "bad", **options) as output:
        for i in range(output.state.get("chunks", 0), chunks):
            output.commit(f"{i} é\n", f"bad {i}\n", state={"chunks": i + 1})
    return output.state


def whole(folder, chunks=2, name="out"):
    """Whether there is all that `grow` writes, and nothing else."""
    names = {path.name for path in folder.iterdir() if path.suffix != ".lock"}
    if names != {name, "bad"}:
        return False
    data = (folder / name).read_bytes()
    if name.endswith(".gz"):
        assert not any(data[4:8])  # no time: equal content gives equal bytes
        data = gzip.decompress(data)
    assert data.decode() == "".join(f"{i} é\n" for i in range(chunks))
    return (folder / "bad").read_text() == "".join(f"bad {i}\n" for i in range(chunks))


@pytest.mark.parametrize(
    ("name", "chunks", "overwrite"),
    [("out", 0, False), ("out", 2, True), ("out.gz", 2, False)],
)
def test_a_kill_between_any_two_calls_costs_nothing(tmp_path, name, chunks, overwrite):
    """Of a run, and of the one that resumes it or starts over."""
    for call in itertools.count(1):
        folder = tmp_path / str(call)
        folder.mkdir()
        if overwrite:
            (folder / name).write_text("old")
        work = functools.partial(grow, folder, chunks, name, overwrite=overwrite)
        if not killed_at(call, work):
            assert call > 8  # all calls were met
            break
        if (part := folder / f"{name}.part").exists():
            with part.open("ab") as file:
                file.write(b"half a li" * 99)  # of a write that was under way
        killed_at(1 + call % 4, work)
        if not whole(folder, chunks, name):
            work()
            assert len(list(folder.iterdir())) == 2
        assert whole(folder, chunks, name)
    assert whole(folder, chunks, name)


def test_no_open_file_is_renamed_and_none_before_it_is_on_disk(tmp_path, monkeypatch):
    safe, moves = set(), []
    real = {name: getattr(os, name) for name in CALLS}

    def fsync(file):
        safe.add(os.readlink(f"/proc/self/fd/{file}"))
        real["fsync"](file)

    def changing(name, *paths, **options):
        with os.scandir("/proc/self/fd") as entries:
            handles = [os.path.realpath(entry.path) for entry in entries]
        assert not {*map(str, paths)} & {*handles}
        moves.extend(map(str, paths[: name == "replace"]))
        real[name](*paths, **options)

    monkeypatch.setattr(os, "fsync", fsync)
    for name in CALLS[1:]:
        monkeypatch.setattr(os, name, functools.partial(changing, name))
    grow(tmp_path)
    outputs.write_text(tmp_path / "text", "1")
    outputs.append_line(tmp_path / "lines", "1")
    assert {*moves} | {str(tmp_path / "lines")} == safe
    assert len(moves) == 6  # two files, the journal thrice, the text
    # What is written beside the output has its name before.
    assert moves[3:5] == [str(tmp_path / f"{name}.part") for name in ("bad", "out")]
    with pytest.raises(ZeroDivisionError), outputs.writing(tmp_path / "text"):
        raise ZeroDivisionError
    assert (tmp_path / "text").read_text() == "1"
    assert {p.name for p in tmp_path.iterdir()} == {"out", "bad", "text", "lines"}


def test_only_the_same_work_goes_on(tmp_path):
    path = tmp_path / "a"
    part, journal = tmp_path / "a.part", tmp_path / "a.journal"

    def stop(fact=1):
        with Output(path, {"x": fact, "y": 2}) as output:
            output.commit("some\n", state={"n": len(output.state)})
            raise EOFError

    for count in (0, 1, 1, 0):
        with pytest.raises(EOFError):
            stop()
        assert json.loads(journal.read_text())["done"] == {"n": count}
        if len(part.read_bytes()) == 15:
            part.unlink()
    with pytest.raises(FileExistsError, match="begun with another x;"):
        stop(fact=2)
    part.write_text("shor")
    with pytest.raises(InputError, match=r"a\.part: shorter than it was"):
        stop()
    part.rename(path)  # of another size than the journal's, so of another run
    with pytest.raises(FileExistsError, match="a exists: use --overwrite"):
        stop()
    journal.write_text("{")
    with pytest.raises(InputError, match=r"a\.journal: damaged"):
        stop()
    assert grow(tmp_path, name="a", overwrite=True) == {"chunks": 2}
    assert whole(tmp_path, name="a")
    second = Output(tmp_path / "b", {}, rejects=tmp_path / "c")
    for name in "bc":
        output = Output(tmp_path / name, {})
        with output, pytest.raises(FileExistsError, match="Another process"):
            second.__enter__()
        assert not list(tmp_path.glob("*.lock"))
        (tmp_path / name).unlink()


# --- Commands ------------------------------------------------------------------------


READS = [
    "check {file} -o {file}",
    "check {file} -o {folder}/x --json={folder}/./x",
    "score {json} -o {folder}/a.html",
    "convert {brat}/a.ann -o {brat}/a.txt",
    "convert {brat} -o {brat}/a.txt --to=jsonl",
    "check {brat} --json={brat}/a.ann",
    "check {brat} -o {brat}/a.ann",
    "tag {run} {json} -o {folder}/x --rejects={folder}/./x",
    "report {run} --split={json} -o {folder}/a.html",
    "evaluate {run} -o {dev}",
    "evaluate {run} --json={dev}",
    "export-onnx {run} -o {folder}/a.json",
]
OWNED = [
    "export {run} -o {run}/config.json",
    "export-onnx {run} -o {run}/vocabulary.onnx",
    "report {run} -o {run}/result.html",
    "score {file} -o {run}/config.html",
    "convert {file} -o {run}/metrics.jsonl",
    "check {file} --json={run}/environment.json",
    "convert {file} -o {run}/calibration.json --to=jsonl",
    "convert {file} -o {run}/predictions-dev.conll",
    "convert {file} -o {run}/data/train.jsonl",
]


@pytest.mark.parametrize("line", [*READS, *OWNED])
def test_no_command_replaces_what_it_reads_or_a_run_has(
    line, tmp_path, copied_run, corpus, run
):
    file, json, brat = (tmp_path / name for name in ("train.conll", "a.json", "brat"))
    file.write_text("Rome B-LOC B-LOC\nfell O O\n")
    json.write_text('{"tokens": ["Rome"], "labels": ["B-LOC"]}\n')
    brat.mkdir()
    (brat / "a.txt").write_text("Rome fell")
    (brat / "a.ann").write_text("T1\tLOC 0 4\tRome\n")
    (copied_run / "data").mkdir()
    names = {"file": file, "folder": tmp_path, "run": copied_run, "json": json}
    names |= {"brat": brat, "dev": corpus / "dev.conll"}

    def contents():
        files = filter(Path.is_file, [names["dev"], *tmp_path.rglob("*")])
        return {path: path.read_bytes() for path in files}

    old = contents()
    output = run(*line.format(**names).split())[1]
    refusals = "Expected two files|is not what --json wrote|would be replaced"
    assert re.search(refusals if line in READS else "belongs to the run ", output)
    assert contents() == old


def test_a_run_is_told_from_other_folders(copied_run, tmp_path):
    folder = tmp_path / "restarts"
    (folder / "checkpoints").mkdir(parents=True)
    outputs.check(folder / "result.json")  # of anyone
    copied_run.rename(folder / "seed-0")
    for name in ("result.json", "seed-0/model.json", "seed-0/../config.json"):
        with pytest.raises(InputError, match="belongs to the run "):
            outputs.check(folder / name)
    outputs.check(folder / "report.json", folder / "seed-0" / "report.html")


def test_a_file_that_nobody_named_replaces_only_its_like(tmp_path, run):
    file, content = tmp_path / "labels.conll", tmp_path / "page.json"
    file.write_text("Rome B-LOC B-LOC\n")
    command = "score", file, "--rounds=5", "-o", tmp_path / "page.html"
    for text in ("[1]", '{"title": "mine"}', "title runs"):
        content.write_text(text)
        assert "page.json: would be replaced" in run(*command)[1]
        assert content.read_text() == text
    content.write_text("")
    for _ in range(2):
        assert run(*command)[0] == 0
        assert "runs" in content.read_text()
