"""Signals at random moments of a run, and the same command again."""

from __future__ import annotations

import random
import shutil
import signal
import subprocess
import sys
import time
from typing import Any

from benchmarks.abuse.victim import SMALL, Victim, environment, jaxner_command, state


def attack(victim: Victim, seed: int, count: int) -> tuple[str, list[dict[str, Any]]]:
    """Sends each signal at `count` moments; returns a title and the rows of a table."""
    expected, rng, rows = state(victim.reference), random.Random(seed), []
    start = time.monotonic()  # the reference has compiled, which takes longer
    jaxner_command(victim.command(victim.folder / "timed"))
    seconds = time.monotonic() - start
    for number in (signal.SIGKILL, signal.SIGTERM, signal.SIGINT):
        row = {"signal": number.name, "runs": 0, "over before": 0}
        row |= {"right status": 0, "identical": 0, "wrong": 0}
        for _ in range(count):
            after = rng.uniform(0.1, seconds)
            outcome = _one(victim, number, after, expected)
            row["runs"] += 1
            for name in outcome:
                row[name] += 1
            row["wrong"] += not {"right status", "identical"} <= outcome
        rows.append(row)
    return "kills: signals at random moments, then the same command again", rows


def _one(victim: Victim, number: int, after: float, expected: dict) -> set[str]:
    """Sends one signal; returns what was right afterwards."""
    path = victim.folder / "killed"
    shutil.rmtree(path, ignore_errors=True)
    process = subprocess.Popen(
        [sys.executable, "-m", "jaxner", *victim.command(path)],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env=environment(),
    )
    outcome = set()
    try:
        said, _ = process.communicate(timeout=after)
        outcome |= {"over before", "right status"}
    except subprocess.TimeoutExpired:
        process.send_signal(number)
        said, _ = process.communicate(timeout=120)
        killed = process.returncode == -signal.SIGKILL and number == signal.SIGKILL
        lines = said.splitlines() or [""]
        stopped = process.returncode == 128 + number and "Stopped" in lines[-1]
        # Outside training, where nothing is to be saved, the system ends it.
        trains = "epoch   1" in said and f"epoch   {SMALL['num_epochs']}" not in said
        outside = process.returncode in (-number, 0) and not trains
        if killed or stopped or (outside and "Traceback" not in said):
            outcome.add("right status")
    again = jaxner_command(victim.command(path))
    if again.returncode == 0 and state(path) == expected:
        outcome.add("identical")
    return outcome
