"""The benchmarks' common parts; no test depends on how long anything takes."""

import json
import math

import numpy as np
import pytest

from benchmarks import measure


def test_intervals_cover_the_median_as_often_as_they_say():
    rng = np.random.default_rng(0)
    drawn = rng.normal(size=(2000, 15))
    intervals = [measure.Interval.of(row) for row in drawn]
    covered = np.mean([i.low <= 0.0 <= i.high for i in intervals])
    assert covered >= 0.94
    assert np.mean([i.high - i.low for i in intervals]) < np.mean(np.ptp(drawn, axis=1))


def test_rivals_take_turns_and_every_second_round_goes_backwards(monkeypatch):
    calls = []
    monkeypatch.setattr(measure, "_seconds", lambda run, count: run() or 1.0)
    runs = {name: lambda n=name: calls.append(n) for name in "ab"}
    timings = measure.compare(runs, "b", rounds=3)
    # Each twice at first: one call that compiles, one that tells how long a call takes.
    # Then twice in each round: a call that is not counted, and a sample.
    assert "".join(calls) == "aabb" + "aabb" + "bbaa" + "aabb"
    assert timings["a"].ratio == measure.Interval(1.0, 1.0, 1.0)


def test_a_run_may_have_a_clock_of_its_own():
    timings = measure.compare(
        {"a": lambda: 2.0, "b": lambda: 6.0}, "b", 2, clock=lambda run, count: run()
    )
    assert (timings["a"].first, timings["a"].seconds.median) == (2.0, 2.0)
    assert timings["a"].ratio.median == 3.0


def test_an_unknown_rival_is_told():
    with pytest.raises(ValueError, match="Expected a rival among a and"):
        measure.compare({"a": int}, "b")


def test_a_report_can_be_read_back(tmp_path):
    path = tmp_path / "new" / "found.json"
    report = measure.Report(path)
    timing = measure.compare({"a": int}, "a", rounds=2)["a"]
    report.table("one", [{"L": 9, "time": timing, "none": None}])
    found = json.loads(path.read_text())
    assert found["one"][0]["time"]["seconds"]["median"] == timing.seconds.median
    assert found["machine"]["versions"]["jax"]


@pytest.mark.parametrize("backend", ["cpu", "gpu", "tpu"])
def test_a_report_says_where_devices_are_unlike(backend, monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(measure.jax, "default_backend", lambda: backend)
    report = measure.Report(tmp_path / "found.json")
    report.table("one", [{"x": 1}])
    told = " ".join(capsys.readouterr().out.split())
    stored = json.loads((tmp_path / "found.json").read_text())["machine"]
    unlike = f"JAX runs on the {backend}; PyTorch, pytorch-crf, torch-struct and spaCy"
    assert (unlike in told) == (backend != "cpu")
    assert ("Peak memory is host memory" in told) == (backend != "cpu")
    if backend == "cpu":
        assert stored["unlike devices"] is None
    else:
        assert stored["unlike devices"] in told


@pytest.mark.parametrize(
    ("cell", "text"),
    [
        (12345.6, "12,346"),
        (0.00123, "0.00123"),
        (float("nan"), "nan"),
        (7, "7"),
        ("x", "x"),
        (0.0, "0"),
    ],
)
def test_cells(cell, text):
    assert measure.show(cell) == text


def test_geometric_mean():
    assert math.isclose(measure.geometric_mean([2.0, 8.0]), 4.0)
