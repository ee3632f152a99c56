"""The benchmark of the CRF kernels; no test depends on how long anything takes."""

import importlib.util
import json

import numpy as np
import pytest

from benchmarks import crf, crf_rivals, measure
from benchmarks.crf_rivals import MODULES, OURS, PLAIN, PYTORCH, RIVALS, STRUCT


@pytest.fixture
def untimed(monkeypatch):
    """Runs everything once; each call takes a second."""
    monkeypatch.setattr(measure, "_seconds", lambda run, count: (run(), 1.0)[1])


def is_there(name):
    return all(importlib.util.find_spec(m) for m in MODULES.get(name, ()))


def test_tables_have_a_row_for_each_size(untimed, tmp_path):
    path = tmp_path / "found.json"
    arguments = ["--labels", "37", "--tokens", "3", "--batch", "1", "32"]
    crf.main([*arguments, "--rounds", "1", "--json", str(path)])
    found = json.loads(path.read_text())
    there = [name for name in RIVALS if name != OURS and is_there(name)]
    for operation in crf.OPERATIONS:
        rows = found[f"{operation}: times as fast as each rival"]
        assert [(r["L"], r["T"], r["B"]) for r in rows] == [
            (37, 3, 1),
            (37, 3, 32),
        ]
        for row in rows:
            assert all(row[name]["median"] == 1.0 for name in there)
    summary = found["summary"]
    assert len(summary) == 3 * len(there)
    assert all(row["geometric mean"] == 1.0 for row in summary)
    targets = {row["target"]: row["is"] for row in found["targets"]}
    assert targets["log Z, nowhere slower than plain"] == "met"
    assert targets["log Z, L ≥ 37, B ≥ 32: ≥ 2 × plain"] == "not met"


@pytest.mark.parametrize("name", [n for n in RIVALS if n != OURS])
def test_rivals_agree(name):
    if not is_there(name):
        pytest.skip(f"{name} is not installed")
    potentials = crf.draw((4, 6, 3))
    for index, operation in enumerate(crf.OPERATIONS):
        ours, its = (RIVALS[n](potentials)[index]() for n in (OURS, name))
        crf.check(operation, potentials, {OURS: ours, name: its})


def test_wrong_answers_are_not_timed():
    potentials = crf.draw((3, 4, 2))
    total, gradient, best = (run() for run in RIVALS[OURS](potentials))
    wrong_gradient = gradient._replace(start=gradient.start + 0.1)
    wrong_best = np.asarray(best).copy()
    wrong_best[0, 0] = (wrong_best[0, 0] + 1) % 3
    for operation, right, wrong in zip(
        crf.OPERATIONS,
        (total, gradient, best),
        (total + 1, wrong_gradient, wrong_best),
        strict=True,
    ):
        crf.check(operation, potentials, {OURS: right, "x": right})
        with pytest.raises(AssertionError, match="x"):
            crf.check(operation, potentials, {OURS: right, "x": wrong})


def test_what_would_take_too_long_is_left_out_and_named(untimed, monkeypatch):
    slow = lambda *_: (9.0, 1)  # noqa: E731
    monkeypatch.setattr(crf, "estimate", slow)
    rows = list(crf.rows([(2, 3, 1)], 0, [OURS, PYTORCH], crf.Limits(1)))
    assert rows[0][PYTORCH] is None
    assert rows[0]["left out"] == "pytorch-crf (9.0 s, 0.0 GB)"


def test_missing_rivals_are_named(monkeypatch):
    def missing(name):
        raise ImportError(f"No module named '{name}'")

    said = []
    report = measure.Report()
    monkeypatch.setattr(report, "say", said.append)
    monkeypatch.setattr(crf_rivals.importlib, "import_module", missing)
    names = crf_rivals.installed((PLAIN, PYTORCH, STRUCT), report)
    assert names == [OURS, PLAIN]
    assert len(said) == 2
    assert all("pip install -e '.[benchmarks]'" in line for line in said)
