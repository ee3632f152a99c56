"""The benchmarks: intervals and ratios, and that each command runs."""

import json

import pytest

from benchmarks import kernels, measure, startup, tagging, training, worker
from benchmarks.measure import SYSTEMS, Interval, Timing


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


@pytest.mark.parametrize("name", SYSTEMS)
def test_quick_shrinks_each_system(name):
    assert worker.quick_options(SYSTEMS[name])["data.num_shapes"] == 1


@pytest.mark.slow
@pytest.mark.parametrize(
    ("module", "options"),
    [
        (training, ["--peers", "--systems", "GRN", "--batch", "10"]),
        (tagging, ["--peers", "--systems", "GRN", "--batch", "1", "--against", "."]),
        (kernels, []),
        (startup, []),
    ],
)
def test_each_command_runs(module, options, tmp_path, monkeypatch):
    def once(runs, rounds):  # `compare`, tested above, runs each three times
        for run in runs.values():
            run()
        return dict.fromkeys(runs, Timing(1.0, (1.0,)))

    monkeypatch.setattr(measure, "compare", once)
    file = tmp_path / "figures.json"
    module.main(["--quick", "--json", str(file), *options])
    tables = json.loads(file.read_text())
    assert all(rows for rows in tables.values())
