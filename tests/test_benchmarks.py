"""The benchmarks: intervals and ratios, and that each command runs."""

import json
import os
import subprocess
import sys

import numpy as np
import pytest

from benchmarks import deviceless, kernels, measure, startup, tagging, training
from benchmarks.measure import Interval, Timing


def test_intervals_are_order_statistics():
    assert Interval.of(range(1, 6)) == Interval(3, 1, 5)
    assert Interval.of(range(1, 16)) == Interval(8, 4, 12)


def test_rivals_take_turns_and_ratios_are_of_the_same_rounds():
    calls = []
    runs = {name: (lambda name=name: calls.append(name)) for name in "ab"}
    timings = measure.compare(runs, rounds=2)
    order = "".join(calls)
    assert order.rindex("a") > order.rindex("b")  # the second round goes backwards
    assert {len(timing.samples) for timing in timings.values()} == {2}
    slow, fast = Timing(1.0, (4.0, 9.0)), Timing(1.0, (2.0, 3.0))
    assert fast.speedup(slow) == Interval(2.5, 2.0, 3.0)
    rows = measure.rows({"a": fast, "a, before": slow}, 6, "tokens", ["none"])
    assert rows[0]["× before"].median == 2.5
    assert rows[1]["× before"] is None


PROGRAM = """
%add (x: f32[], y: f32[]) -> f32[] {
  %x = f32[] parameter(0)
  %y = f32[] parameter(1)
  ROOT %sum = f32[] add(%x, %y)
}

%fused (x: f32[8]) -> f32[2] {
  %x = f32[8]{0} parameter(0)
  %all-reduce.0 = f32[8]{0} all-reduce(%x), to_apply=%add
  ROOT %slice.0 = f32[2]{0} slice(%all-reduce.0), slice={[0:2]}
}

%body (x: (s32[], f32[8])) -> (s32[], f32[8]) {
  %x = (s32[], f32[8]) parameter(0)
  %item = f32[8]{0} get-tuple-element(%x), index=1
  %exp.0 = f32[8]{0} exponential(%item)
  %log.0 = f32[8]{0} log(%exp.0)
  ROOT %tuple.0 = (s32[], f32[8]) tuple(%item, %log.0)
}

%limits () -> s32[] {
  ROOT %five = s32[]{:T(128)} constant(5)
}

%condition (x: (s32[], f32[8])) -> pred[] {
  %x = (s32[], f32[8]) parameter(0)
  %limit = s32[] fusion(), kind=kLoop, calls=%limits
  %trip = s32[] get-tuple-element(%x), index=0
  ROOT %less = pred[] compare(%trip, %limit), direction=LT
}

%long (x: f32[8]) -> f32[8] {
  %x = f32[8]{0} parameter(0)
  %sine.0 = f32[8]{0} sine(%x)
  ROOT %cosine.0 = f32[8]{0} cosine(%sine.0)
}

ENTRY %main (x: f32[8]) -> (f32[8], bf16[16]) {
  %x = f32[8]{0:T(8,128)S(1)} parameter(0)
  %tuple.1 = (s32[], f32[8]) tuple(%x, %x)
  %loop = (s32[], f32[8]) while(%tuple.1), condition=%condition, body=%body
  %known = (s32[], f32[8]) while(%loop), condition=%condition, body=%body, \
backend_config={"known_trip_count":{"n":"3"}}
  %called = f32[8]{0} call(%x), to_apply=%long
  %chosen = f32[8]{0} conditional(%x), branch_computations={%long, %add}
  %fusion.0 = f32[2]{0} fusion(%x), kind=kInput, calls=%fused
  %start = (bf16[2]{0}, bf16[16]{0}) all-gather-start(%x), dimensions={0}
  %done = bf16[16]{0} all-gather-done(%start)
  %both = (f32[8]{0}, /*index=1*/f32[2,3]{1,0}) all-reduce(%x, %x), to_apply=%add
  %copy-start.0 = (f32[8]{0}, f32[8]{0}, u32[]) copy-start(%x)
  %copy-done.0 = f32[8]{0} copy-done(%copy-start.0)
  ROOT %tuple.2 = (f32[8], bf16[16]) tuple(%x, %done)
}
"""


def test_kernels_of_a_program():
    assert deviceless.count(PROGRAM) == {
        "kernels": (5 * 2 + 3 * 2) + (2 + 2) + 4,  # loops, chains, others
        "loops": "5×2 3×2",
        "collectives": 3,
        "collective MB": (4 * 8 + 2 * 16 + 4 * (8 + 2 * 3)) / 1e6,
    }


FILE = measure.ROOT / "results" / "deviceless.jsonl"
STORED = [json.loads(line) for line in FILE.read_text("utf-8").splitlines()]


def test_the_page_shows_the_stored_programs():
    for text in deviceless.tables(STORED).values():
        assert text in deviceless.PAGE.read_text("utf-8")


LIMITS = {"BiLSTM-CRF": (300, 120), "GRN": (250, 120), "Parallel RNN": (250, 150)}
"""Kernels of training steps on 32 sentences, and of calls that tag 32."""


@pytest.mark.parametrize("system", LIMITS)
def test_stored_programs_launch_few_kernels(system):
    which = {"system": system, "target": "h100", "batch": 32}.items()
    launched = {x["mode"]: x["kernels"] for x in STORED if which <= x.items()}
    for mode, most in zip(("train", "tag"), LIMITS[system], strict=True):
        assert launched[mode] <= most


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


@pytest.mark.slow
def test_an_order_is_measured_here_and_not_again(tmp_path):
    file = tmp_path / "rows.jsonl"
    options = ["--quick", "--targets", "here", "--json", str(file)]
    deviceless.main([*options, "--orders"])
    text = file.read_text("utf-8")
    first, second = map(json.loads, text.splitlines())
    assert first["by ms"] == first["by kernels"] == 1
    assert first["launched"] == 0  # a CPU has no streams of kernels
    assert second["by ms"] == pytest.approx(first["ms"] / second["ms"])
    deviceless.main([*options, "--orders"])  # compiles nothing
    more = ["--systems", "GRN", "--modes", "tag", "--batches", "0", "1"]
    with pytest.raises(SystemExit, match="1 rows have an error"):
        deviceless.main([*options, *more])
    *same, error, row = file.read_text("utf-8").splitlines()
    assert same == text.splitlines()
    assert "no sentences" in json.loads(error)["error"]
    assert json.loads(row)["kernels"] > 0


GRN = ("--peers", "--systems", "GRN", "--batch")
COMMANDS = {kernels: [], startup: [], tagging: [*GRN, "1", "--against", "."]}
COMMANDS[training] = [*GRN, "10", "--set", "model.dtype=bfloat16"]


@pytest.mark.slow
@pytest.mark.parametrize("module", COMMANDS)
def test_each_command_runs(module, tmp_path, monkeypatch):
    def once(runs, rounds):  # `compare`, tested above, runs each three times
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
