"""What a command shows on a terminal of 80 columns: it moves, and its lines fit."""

import io
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from jaxner.terminal import LineConsole
from tests import tiny

ROOT = Path(__file__).parents[1]


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
    line = f"stty cols 80 rows 24; exec {shlex.join(command)}"
    environment = {**os.environ, "TERM": "xterm", "COLUMNS": ""}
    pipes = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE}
    script = ["script", "-qec", line, "/dev/null"]
    done = subprocess.run(script, cwd=ROOT, env=environment, check=False, **pipes)
    text = re.sub(rb"\x1b\[[0-9;?]*[A-Za-z]", b"", done.stdout).decode()
    return done.returncode, re.split(r"[\r\n]+", text)


@pytest.mark.skipif(sys.platform != "linux", reason="needs script of util-linux")
@pytest.mark.slow
def test_a_run_moves_and_its_lines_fit(corpus, tmp_path):
    values = {**tiny.SMALL, "optimizer.learning_rate": 1e-9, "patience": 1}
    values |= {"data.dir": corpus, "num_epochs": 3}
    flags = [f"--config.{name}={value}" for name, value in values.items()]
    workdir = tmp_path / "/".join(["a-long-path"] * 9)
    command = [sys.executable, "-m", "jaxner", "train", f"--workdir={workdir}", *flags]
    status, lines = shown_by([*command, "--config=grn:sample,encoder=projection"])
    text = "\n".join(lines)
    assert status == 0, text
    assert max(map(len, lines)) <= 80, max(lines, key=len)
    assert re.search(r"Compiling 1 of \d", text)
    assert "Stopped: dev F1 has not improved for 1 epoch (best: " in text
    assert re.search(r"…\S+a-long-path/a-long-path$", text, re.MULTILINE)
