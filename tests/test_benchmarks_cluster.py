"""Benchmarks of restarts, devices, saving and accelerators run and print tables."""

import json

import pytest

from benchmarks import accelerator, cluster


def test_parts_take_turns():
    parts = {"a": iter([1, 2, 3]), "b": iter([4]), "c": iter([5, 6])}
    found = [value for _, value in accelerator.in_turn(parts)]
    assert found == [1, 4, 5, 2, 6, 3]


def test_no_row_begins_after_the_time_is_up(capsys, monkeypatch):
    monkeypatch.setattr(accelerator, "_FIRST", 60.0)
    accelerator.main(["--quick", "--minutes", "0.0"])
    assert "measurements were left out" in capsys.readouterr().out


@pytest.mark.slow
def test_the_accelerators_rows_are_kept_one_by_one(tmp_path, monkeypatch):
    monkeypatch.setattr(accelerator, "_SECONDS", 0.01)
    monkeypatch.setattr(accelerator, "BATCHES", (10,))
    monkeypatch.setattr(accelerator, "SEEDS", (2,))
    monkeypatch.setattr(accelerator.ours, "SYSTEMS", only("GRN"))
    monkeypatch.setattr(accelerator, "PRECISE", ("GRN",))
    file = tmp_path / "rows.json"
    names = ["systems", "seeds", "bfloat16", "tagging"]
    accelerator.main(["--quick", "--only", *names, "--json", str(file)])
    found = json.loads(file.read_text())
    assert found["systems"][0]["steps/s"] > 0
    assert found["seeds"][0]["seeds"] == 2
    assert found["bfloat16"][0]["× float32"] > 0
    assert found["tagging"][0]["tokens/s"] > 0


def only(*names):
    return {name: accelerator.ours.SYSTEMS[name] for name in names}


@pytest.mark.slow
def test_the_cluster_benchmark_runs(tmp_path):
    file = tmp_path / "rows.json"
    options = ["--quick", "--batch", "4", "--seeds", "2", "--devices", "1", "2"]
    cluster.main([*options, "--json", str(file)])
    found = json.loads(file.read_text())
    assert found["seeds"][0]["together"]["ratio"]["median"] > 0
    assert [row["devices"] for row in found["devices"]] == [1, 2]
    assert found["saving"][0]["in the background, s"] > 0
