"""The start-up benchmark; no test depends on how long anything takes."""

import json
import sys

import pytest

from benchmarks import alone, startup

TALK = """
import sys, time
print("noise")
print("#mark first step", flush=True)
time.sleep(0.2)
print("#mark all shapes", flush=True)
sys.exit({})
"""


def test_what_a_process_announces_is_timed_in_its_order():
    found = startup.marks([sys.executable, "-c", TALK.format(0)])
    assert list(found) == [startup.STEP, startup.SHAPES]
    assert found[startup.SHAPES] - found[startup.STEP] > 0.1


@pytest.mark.parametrize("code", [TALK.format(3), "print('nothing')"])
def test_a_process_that_fails_or_is_silent_is_an_error(code):
    with pytest.raises(alone.FailedError, match="ended with"):
        startup.marks([sys.executable, "-c", code])


def test_the_first_round_fills_caches_and_does_not_count():
    calls = []

    def run(name):
        calls.append(name)
        return {startup.STEP: float(len(calls))}

    runs = {name: lambda n=name: run(n) for name in "ab"}
    found = startup.in_turn(runs, 2)
    assert "".join(calls) == "ba" + "ab" + "ba"
    assert [len(took) for took in found.values()] == [2, 2]


def test_ratios_are_of_the_first_mark_round_by_round():
    found = {
        "ours": [{"x": 1.0, "y": 3.0}, {"x": 2.0, "y": 9.0}],
        "rival": [{"x": 2.0}, {"x": 6.0}],
    }
    ours, rival = startup.rows_of(found, "rival")
    assert ours["× rival"].median == 2.5
    assert ours["y, s"].median == 6.0
    assert rival["y, s"] is None


def test_targets_are_met_or_not():
    found = {"GRN, cold": [{startup.STEP: 19.0}], "GRN, warm": [{startup.STEP: 7.0}]}
    rows = startup.verdicts(found, "GRN", "sample")
    assert [row["verdict"] for row in rows] == ["met", "not met"]
    assert startup.verdicts(found, "GRN", "wnut17") == []


@pytest.mark.slow
def test_startup(tmp_path):
    path = tmp_path / "found.json"
    startup.main(["--quick", "--peers", "--json", str(path)])
    tables = json.loads(path.read_text())
    training, tagging = (tables[title] for title in tables if "from the start" in title)
    assert [row["system"] for row in training] == ["GRN, cold", "GRN, warm"]
    for row in training:
        seconds = [row[f"{m}, s"]["median"] for m in (startup.STEP, startup.SHAPES)]
        assert 0 < seconds[0] <= seconds[1]
    assert len(tagging) == 2
