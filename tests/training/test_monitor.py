"""Progress of a run: it moves on a terminal, and lines are short."""

import io
import re
import time

import pytest
from rich.console import Console

from jaxner.evaluation import report
from jaxner.evaluation.scoring import score
from jaxner.training import monitor
from jaxner.wording import counted


def console(terminal):
    return Console(
        file=io.StringIO(), force_terminal=terminal, width=80, highlight=False
    )


def test_a_wait_moves_on_a_terminal():
    shown = console(True)
    with monitor.waiting(shown, "Reading the data"):
        time.sleep(0.3)
        first = len(shown.file.getvalue())
        time.sleep(0.5)
        assert len(shown.file.getvalue()) > first  # while this thread does nothing
    assert "Reading the data" in shown.file.getvalue()


def test_a_wait_is_a_line_in_a_log():
    shown = console(False)
    with monitor.waiting(shown, "Reading the data"):
        pass
    assert shown.file.getvalue() == "Reading the data …\n"


@pytest.mark.parametrize("terminal", [True, False])
def test_compiling_and_scoring_are_shown(terminal):
    shown = console(terminal)
    with monitor.Monitor(shown, steps_per_epoch=4, num_epochs=2) as show:
        show.begin(0, 0)
        with show.compiling("Compiling shape 2 of 3 (10 sentences × 40 tokens)"):
            time.sleep(0.3)
        show.advance(100, 8.0, 4)
        show.compiled(3, 3)
        show.compiled(3, 3)
        with show.scoring():
            time.sleep(0.3)
        with show.scoring():
            pass
    text = shown.file.getvalue()
    assert len(re.findall(r"Compiled 3 programs in 0\.[345] s", text)) == 1
    assert text.count("Scored dev in") == 1
    assert ("Compiling shape 2 of 3 (10 sentences × 40 tokens)" in text) is terminal
    assert ("Scoring dev" in text) is terminal


def test_the_line_of_an_epoch_fits_80_columns():
    shown = console(False)
    wide = [["B-PER", "I-PER"]] * 70
    scores = score(wide, [["I-PER", "I-LOC"]] * 70)
    metrics = {"epoch": 120, "loss": 123.45678, "seconds": 1234.6, "step": 7}
    with monitor.Monitor(shown, 4, 120) as show:
        show.report(metrics, report.short_line(scores), is_best=True)
    (line,) = shown.file.getvalue().splitlines()
    assert len(line) <= 80
    assert line.endswith("140 ill-formed  *")


def test_plurals_are_right():
    assert counted(1, "shape") == "1 shape"
    assert counted(0, "batch", "batches") == "0 batches"
    assert counted(1200, "word") == "1,200 words"
