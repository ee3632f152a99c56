"""What a command shows on a terminal of 80 columns: it moves, and its lines fit."""

import contextlib
import io
import os
import re
import struct
import subprocess
import sys
from pathlib import Path

import pytest

from jaxner.terminal import LineConsole
from tests import tiny

pty = pytest.importorskip("pty")  # not on Windows
fcntl = pytest.importorskip("fcntl")
termios = pytest.importorskip("termios")
ROOT = Path(__file__).parents[1]
CONFIG = "--config=grn:sample,encoder=projection"


def lines_of(text, **options):
    file = io.StringIO()
    LineConsole(file=file, width=30, **options).print(text)
    return file.getvalue().splitlines()


def test_lines_are_wrapped_between_words_on_a_terminal_alone():
    text = f"Everything is in /{'long/' * 9}run"
    whole, (first, second) = lines_of(text), lines_of(text, force_terminal=True)
    assert whole == [text]
    assert first.rstrip() == "Everything is in"
    assert second == "/long/long/lon…g/long/long/run"
    assert len(second) == 30


def test_the_cursor_is_never_hidden():
    # A signal ends a command at once: nothing would show the cursor again.
    file = io.StringIO()
    console = LineConsole(file=file, width=30, force_terminal=True)
    with console.status("Waiting"):
        pass
    assert "Waiting" in file.getvalue()
    assert "\x1b[?25l" not in file.getvalue()


def shown_by(command):
    """Returns the status and the lines of a command on a terminal of 80 columns."""
    terminal, inside = pty.openpty()
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
    process = subprocess.Popen(
        command,
        cwd=ROOT,
        env={**os.environ, "TERM": "xterm", "COLUMNS": ""},
        stdin=inside,
        stdout=inside,
        stderr=inside,
        start_new_session=True,
    )
    os.close(inside)
    shown = b""
    with contextlib.suppress(OSError):  # Linux's way to say that the process has ended
        while more := os.read(terminal, 1 << 16):
            shown += more
    os.close(terminal)
    status = process.wait()
    text = re.sub(rb"\x1b\[[0-9;?]*[A-Za-z]", b"", shown).decode()
    return status, re.split(r"[\r\n]+", text)


@pytest.mark.slow
def test_a_run_moves_and_its_lines_fit(corpus, tmp_path):
    values = {**tiny.SMALL, "optimizer.learning_rate": 1e-9, "patience": 1}
    values |= {"data.dir": corpus, "num_epochs": 3}
    flags = [f"--config.{name}={value}" for name, value in values.items()]
    workdir = tmp_path / "/".join(["a-long-path"] * 9)
    command = [sys.executable, "-m", "jaxner", "train", CONFIG, *flags]
    status, lines = shown_by([*command, f"--workdir={workdir}"])
    text = "\n".join(lines)
    assert status == 0, text
    assert max(map(len, lines)) <= 80, max(lines, key=len)
    assert re.search(r"Compiling 1 of \d", text)
    assert "Stopped: dev F1 has not improved for 1 epoch (best: " in text
    assert re.search(r"…\S+a-long-path/a-long-path$", text, re.MULTILINE)
