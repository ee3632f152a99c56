"""Ctrl-C and SIGTERM at any time: no traceback, and nothing lost."""

import contextlib
import os
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest

from jaxner.training import signals
from tests.marks import slow
from tests.training.runs import ROOT, start

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


@pytest.mark.parametrize(
    ("door", "module"),
    [
        *((door, "any") for door in ("train.py", "evaluate.py", "jaxner", "console")),
        *(("jaxner", "socket"), ("jaxner", "jaxlib")),
        *slow(("jaxner", "threading"), ("console", "rich")),
    ],
)
def test_a_command_can_be_stopped_from_its_first_statement_on(door, module):
    rest = {"train.py": [], "evaluate.py": ["--workdir", "x"]}
    rest = rest.get(door, ["options", "grn"])
    number = signal.SIGTERM if module == "socket" else signal.SIGINT
    process = start(["-c", _AT_AN_IMPORT, int(number), module, door, *rest])
    assert process.communicate()[0] == ""
    assert process.returncode == -number


_LOOP = """
import hashlib, sys, threading
from jaxner.__main__ import end_at_signals
from jaxner.training import signals
if sys.argv[1] == "command":
    end_at_signals()
with signals.stop_requests(lambda line: print(line, flush=True)):
    threading.Timer(0.5, print, ["ready"], {"flush": True}).start()
    hashlib.pbkdf2_hmac("md5", b"", b"", 10**9)  # minutes in C, as XLA compiles
"""


@pytest.mark.parametrize("program", ["command", "notebook"])
def test_the_second_signal_ends_a_command_that_is_stuck(program):
    with start(["-c", _LOOP, program]) as process:
        assert process.stdout.readline() == "ready\n"
        process.send_signal(signal.SIGINT)
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(timeout=0.5)
        if program == "command":  # the first says that it waits
            assert "again ends at once" in process.stdout.readline()
        process.send_signal(signal.SIGINT)
        status = None
        with contextlib.suppress(subprocess.TimeoutExpired):
            status = process.wait(timeout=10 if program == "command" else 0.5)
        process.kill()
    assert status == (130 if program == "command" else None)


def test_a_command_that_tags_says_that_it_stopped(tiny_run, tmp_path):
    os.mkfifo(tmp_path / "a.txt")
    words = ["tag", tiny_run, tmp_path / "a.txt", "-o", tmp_path / "a.jsonl"]
    with start(["-m", "jaxner", *words]) as process, (tmp_path / "a.txt").open("w"):
        process.send_signal(signal.SIGINT)
        *_, line = process.communicate()[0].splitlines()
    assert line == "Stopped; the same command continues from here"
    assert process.returncode == -signal.SIGINT


def test_afterwards_all_is_as_before():
    def state():
        wakeup = signal.set_wakeup_fd(-1)
        signal.set_wakeup_fd(wakeup)
        return [wakeup, *map(signal.getsignal, (signal.SIGINT, signal.SIGTERM))]

    def inside():
        with signals.stop_requests():
            return state()

    old = state()
    program = inside()
    assert program[0] == old[0]  # that of asyncio, perhaps
    assert program[1:] != old[1:]
    assert state() == old
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    try:
        assert inside()[0] not in (-1, old[0])
        assert state() == [old[0], signal.SIG_DFL, old[2]]
    finally:
        signal.signal(signal.SIGINT, old[1])


def test_what_a_shell_ignores_stays_ignored():
    code = """
import signal
from jaxner.__main__ import end_at_signals
end_at_signals()
print(signal.getsignal(signal.SIGINT).name)
"""
    for trap, name in (("", "SIG_DFL"), ("trap '' INT;", "SIG_IGN")):
        shell = ["sh", "-c", f'{trap} exec "$0" -c "$1"', sys.executable, code]
        process = subprocess.run(shell, cwd=ROOT, capture_output=True, text=True)
        assert process.stdout == f"{name}\n", process.stderr


def test_another_thread_trains_without_signals():
    def ask():
        with signals.stop_requests() as stop:
            return bool(stop)

    with ThreadPoolExecutor() as pool:
        assert pool.submit(ask).result() is False
