"""The benchmarks: stored programs, and that each command runs."""

import json
import os
import subprocess
import sys

import numpy as np
import pytest

from benchmarks import (
    deviceless,
    host,
    kernels,
    measure,
    startup,
    tagging,
    training,
)
from benchmarks.measure import Timing

FILE = measure.ROOT / "results" / "deviceless.jsonl"
STORED = [json.loads(line) for line in FILE.read_text("utf-8").splitlines()]


def test_the_page_shows_the_stored_programs():
    for text in deviceless.tables(STORED).values():
        assert text in deviceless.PAGE.read_text("utf-8")


@pytest.mark.slow
def test_programs_are_those_stored(tmp_path):
    pytest.importorskip("libtpu")  # the extra `deviceless` has it
    file = tmp_path / "rows.jsonl"
    command = [sys.executable, "-m", "benchmarks.deviceless", "--json", file]
    command += ["--systems", "GRN", "--modes", "train", "--batches", "32"]
    # Without the flags of the tests, which make programs slow.
    clean = {k: v for k, v in os.environ.items() if not k.startswith(("XLA_", "JAX_"))}
    subprocess.run(command, check=True, cwd=measure.ROOT, env=clean)
    for row in map(json.loads, file.read_text("utf-8").splitlines()):
        key = {k: row[k] for k in ("system", "mode", "batch", "target")}.items()
        (there,) = [x for x in STORED if key <= x.items() and "table" not in x]
        for unit in ("kernels", "collective MB", "MB"):  # XLA changes
            assert row[unit] == pytest.approx(there[unit], rel=0.1)


GRN = ("--peers", "--systems", "GRN", "--batch")
COMMANDS = {host: [], kernels: [], startup: [], tagging: [*GRN, "1", "--against", "."]}
COMMANDS[training] = [*GRN, "10", "--set", "model.dtype=bfloat16"]


@pytest.mark.slow
@pytest.mark.parametrize("module", COMMANDS)
def test_each_command_runs(module, tmp_path, monkeypatch):
    def once(runs, rounds):  # `compare` runs each three times
        for run in runs.values():
            run()
        return dict.fromkeys(runs, Timing(1.0, (1.0,)))

    monkeypatch.setattr(measure, "compare", once)
    file = tmp_path / "figures.json"
    module.main(["--quick", "--json", str(file), *COMMANDS[module]])
    assert all(json.loads(file.read_text()).values())


def test_promises_over_random_splits_hold():
    from benchmarks.guarantees import coverage

    rng = np.random.default_rng(0)
    rows = [[(p, bool(rng.uniform() < p**0.3))] for p in rng.uniform(size=1200)]
    splits = rows[:200], rows[200:]
    risks = coverage(splits, "PER", 0.2, "misses", draws=40)
    assert len(risks) == 40
    assert 0.15 < risks.mean() <= 0.2 + 2 * risks.std() / 40**0.5
    risks = coverage(splits, "PER", 0.2, "errors", draws=40)
    assert np.mean(risks <= 0.2) >= 0.9
    assert risks.mean() > 0.1
