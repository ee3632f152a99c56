"""Progress of a run: it moves on a terminal, and lines are short."""

import io
import itertools
import re
import time

import pytest
from rich.console import Console

from jaxner.data.batching import Shape
from jaxner.training import monitor


def console(terminal):
    options = {"force_terminal": terminal, "width": 80, "highlight": False}
    return Console(file=io.StringIO(), **options)


@pytest.mark.parametrize("terminal", [True, False])
def test_compiling_and_scoring_are_shown(terminal):
    output = console(terminal)
    with monitor.Monitor(output, 4, num_epochs=2, num_programs=3) as show:
        show.begin(0, 0)
        short, long = (Shape(n, 1, 1, rows=8) for n in (40, 80))
        for program in (short, long, None):
            with show.compiling(program):
                time.sleep(0.3)
        show.advance(100, [8.0], 4)
        for _ in range(2):
            with show.doing("Scoring dev"):
                time.sleep(0.3)
    text = output.file.getvalue()
    assert len(re.findall(r"Compiled 3 programs in \d+\.\d s", text)) == 1
    parts = "8 × 40 tokens", "8 × 80 tokens", "update"
    names = [f"{number} of 3: {part}" for number, part in enumerate(parts, 1)]
    assert [text.count(f"Compiling {name} …") for name in names] == 3 * [1 - terminal]
    assert all(f"Compiling {name}" in text for name in names)
    assert ("Scoring dev" in text) is terminal


@pytest.mark.parametrize("first", [None, 2.0])  # that of an earlier process
@pytest.mark.parametrize("loss", [float("nan"), float("inf"), 2001.0])
def test_a_loss_that_is_none_or_a_thousand_times_the_first_is_an_error(loss, first):
    with monitor.Monitor(console(False), steps_per_epoch=2, num_epochs=1) as show:
        show.first_loss = first
        show.begin(0, 0)
        total = 1000.0 if first else 2.0
        show.advance(1, [total], 1)
        with pytest.raises(FloatingPointError, match="another folder"):
            show.advance(1, [total + 2 * loss], 2)
        show.first_loss = 1e-9  # near 0: it may grow
        show.advance(1, [1.0], 2)


def test_a_run_is_looked_at_twice_a_second(monkeypatch):
    """After as many steps as the slowest process takes in that time, at most 128."""
    clock, slowest = [0.0], [0.0]
    monkeypatch.setattr(monitor.time, "perf_counter", lambda: clock[0])
    monkeypatch.setattr(monitor.devices, "largest", lambda x: [max(*x, *slowest)])
    looks = []
    with monitor.Monitor(console(False), steps_per_epoch=450, num_epochs=1) as show:
        show.begin(0, 0)
        for step in range(1, 450):
            clock[0] += 2**-3 if step <= 21 else 2**-12
            slowest[0] = 0.25 if step > 300 else 0.0
            if show.advance(1, [1.0], step):
                looks.append(step)
    assert looks[:7] == [1, 5, 9, 13, 17, 21, 25]
    assert looks[7:9] == [25 + 128, 25 + 2 * 128]
    assert {b - a for a, b in itertools.pairwise(looks[10:])} == {2}
