"""Ctrl-C and SIGTERM at any time: no traceback, and nothing lost."""

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from jaxner.training import signals, train
from tests import tiny
from tests.training.test_train import assert_same_run

ROOT = Path(__file__).parents[2]
IMPORTED = " jaxlib."  # while it imports JAX


def command(corpus, workdir, *arguments):
    values = [f"--config.{name}={value}" for name, value in tiny.SMALL.items()]
    values += [f"--config.data.dir={corpus}", f"--workdir={workdir}", *arguments]
    return [sys.executable, "-m", "jaxner", "train", "--config=grn", *values]


def stopped_at(line, number, command, **environment):
    """Starts a command, signals once it prints a line, and returns how it ended."""
    process = subprocess.Popen(
        command,
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env={**os.environ, **environment},
    )
    said = ""
    while line not in said:
        more = process.stdout.readline()
        assert more, said
        said += more
    process.send_signal(number)
    start = time.monotonic()
    said += process.communicate(timeout=60)[0]
    return process.returncode, said, time.monotonic() - start


@pytest.mark.parametrize(
    ("line", "number"),
    [
        (IMPORTED, signal.SIGINT),
        (IMPORTED, signal.SIGTERM),
        (" train: ", signal.SIGTERM),  # while it builds
        pytest.param("to compile", signal.SIGINT, marks=pytest.mark.slow),
        pytest.param("Scored dev", signal.SIGTERM, marks=pytest.mark.slow),
    ],
)
def test_a_command_ends_without_a_traceback(line, number, corpus, tmp_path):
    # Nothing is found compiled: compiling takes its time.
    environment = {"JAX_ENABLE_COMPILATION_CACHE": "0"}
    if line == IMPORTED:
        environment["PYTHONPROFILEIMPORTTIME"] = "1"  # Python prints each import
    status, said, seconds = stopped_at(
        line, number, command(corpus, tmp_path / "run"), **environment
    )
    saved = status == 128 + number
    assert saved or status == -number, said
    assert said.count("Stopped; the same command resumes") == saved
    if line != "to compile":  # what follows it may or may not be training
        assert saved == (line == "Scored dev")
    assert "Traceback" not in said
    assert "Everything is in" not in said
    assert seconds < 30  # on a busy machine, too


_AT_AN_IMPORT = """
import os, runpy, sys
number, wanted, door, *rest = sys.argv[1:]
first = {"jaxner", "jaxner.__main__"}

class Finder:
    def find_spec(name, path=None, target=None):
        if name == wanted or (wanted == "any" and name not in {*first, "_signal"}):
            os.kill(os.getpid(), int(number))

sys.path.insert(0, os.getcwd())
sys.meta_path.insert(0, Finder)
sys.argv = [door, *rest]
if door.endswith(".py"):
    exec(compile(open(door).read(), door, "exec"), {"__name__": "__main__"})
elif door == "jaxner":
    runpy.run_module(door, run_name="__main__", alter_sys=True)
else:  # as the console script does
    from jaxner.__main__ import main
    main()
"""


@pytest.mark.parametrize("door", ["train.py", "evaluate.py", "jaxner", "console"])
@pytest.mark.parametrize("at", ["any", "socket", "threading", "rich"])
def test_a_command_can_be_stopped_from_its_first_statement_on(door, at):
    rest = {"train.py": [], "evaluate.py": ["--workdir", "x"]}
    rest = rest.get(door, ["check", "x"])
    number = signal.SIGTERM if at == "socket" else signal.SIGINT
    found = subprocess.run(
        [sys.executable, "-c", _AT_AN_IMPORT, str(int(number)), at, door, *rest],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    assert (found.stderr, found.stdout) == ("", "")
    assert found.returncode == -number


_STUCK = """
import hashlib, sys, threading
from jaxner.__main__ import end_at_signals
from jaxner.training import signals
if sys.argv[1] == "command":
    end_at_signals()
with signals.stop_requests(lambda line: print(line, flush=True)):
    threading.Timer(0.5, print, ["ready"], {"flush": True}).start()
    hashlib.pbkdf2_hmac("md5", b"", b"", 10**9)  # minutes in C, as XLA compiles
"""


@pytest.mark.parametrize("where", ["command", "notebook"])
def test_the_second_signal_ends_a_command_that_is_stuck(where):
    with subprocess.Popen(
        [sys.executable, "-c", _STUCK, where],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout.readline() == "ready\n"
        process.send_signal(signal.SIGINT)
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(timeout=0.5)
        if where == "command":  # the first says that it waits
            assert "again ends at once" in process.stdout.readline()
        process.send_signal(signal.SIGINT)
        status = None
        with contextlib.suppress(subprocess.TimeoutExpired):
            status = process.wait(timeout=10 if where == "command" else 0.5)
        process.kill()
    assert status == (130 if where == "command" else None)


@pytest.mark.parametrize("at", [1, 3])
def test_stopped_while_scoring_equals_uninterrupted(
    at, finished, corpus, tmp_path, monkeypatch
):
    config, label, calls = tiny.config(corpus), train.tagging.label_split, []

    def scoring(*given, **options):
        calls.append(given)
        if len(calls) == at:
            os.kill(os.getpid(), signal.SIGINT)
        return label(*given, **options)

    with monkeypatch.context() as patch:
        patch.setattr(train.tagging, "label_split", scoring)
        with pytest.raises(SystemExit) as stop:
            train.main_run(config, tmp_path / "run")
    assert stop.value.code == 130
    assert not (tmp_path / "run" / "result.json").exists()
    train.main_run(config, tmp_path / "run")
    assert_same_run(tmp_path / "run", finished)


def test_afterwards_all_is_as_before():
    def state():
        wakeup = signal.set_wakeup_fd(-1)
        signal.set_wakeup_fd(wakeup)
        return [wakeup, *(signal.getsignal(x) for x in signals._WATCHED)]

    def inside():
        with signals.stop_requests():
            return state()

    before = state()
    program = inside()
    assert program[0] == before[0]  # that of asyncio, perhaps
    assert program[1:] != before[1:]
    assert state() == before
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    try:
        assert inside()[0] not in (-1, before[0])
        assert state() == [before[0], signal.SIG_DFL, before[2]]
    finally:
        signal.signal(signal.SIGINT, before[1])


def test_what_a_shell_ignores_stays_ignored():
    code = """
import signal
from jaxner.__main__ import end_at_signals
end_at_signals()
print(signal.getsignal(signal.SIGINT).name)
"""
    for ignored, name in (("", "SIG_DFL"), ("trap '' INT;", "SIG_IGN")):
        shell = f'{ignored} exec "$0" -c "$1"'
        done = subprocess.run(
            ["sh", "-c", shell, sys.executable, code],
            cwd=ROOT,
            capture_output=True,
            text=True,
        )
        assert done.stdout == f"{name}\n", done.stderr


def test_another_thread_trains_without_signals():
    found = []

    def ask():
        with signals.stop_requests() as stop:
            found.append(bool(stop))

    thread = threading.Thread(target=ask)
    thread.start()
    thread.join()
    assert found == [False]
