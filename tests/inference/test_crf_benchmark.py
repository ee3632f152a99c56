"""The benchmark of the CRF kernels; no test depends on how long anything takes."""

import importlib.util
import json
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from benchmarks import crf, crf_rivals, measure
from benchmarks.crf_rivals import MODULES, OURS, PLAIN, PYTORCH, RIVALS, STRUCT
from benchmarks.peers import threads
from jaxner.inference import messages
from jaxner.types import FORBIDDEN


@pytest.fixture
def untimed(monkeypatch):
    """Runs everything once; each call takes a second."""
    monkeypatch.setattr(measure, "_seconds", lambda run, count: (run(), 1.0)[1])
    monkeypatch.setattr(threads, "pilot", lambda run: (run(), threads.Pilot(1, 1.0))[1])


def is_there(name):
    return all(importlib.util.find_spec(m) for m in MODULES.get(name, ()))


@pytest.mark.slow
def test_tables_have_a_row_for_each_size(untimed, tmp_path):
    path = tmp_path / "found.json"
    arguments = ["--labels", "37", "--tokens", "3", "--batch", "1", "32"]
    crf.main([*arguments, "--rounds", "1", "--json", str(path)])
    found = json.loads(path.read_text())
    there = [name for name in RIVALS if name != OURS and is_there(name)]
    for operation in crf.OPERATIONS:
        title = f"{operation}, all transitions allowed: times as fast as each rival"
        rows = found[title]
        assert [(r["L"], r["T"], r["B"]) for r in rows] == [
            (37, 3, 1),
            (37, 3, 32),
        ]
        for row in rows:
            assert all(row[name]["median"] == 1.0 for name in there)
    summary = found["summary, all transitions allowed"]
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


@pytest.mark.parametrize("forbid", [False, True])
def test_the_form_that_is_timed(forbid, untimed, monkeypatch):
    given, titles = [], []
    for name in [name for name in RIVALS if is_there(name)]:

        def prepare(potentials, make=RIVALS[name]):
            given.append(potentials)
            return make(potentials)

        monkeypatch.setitem(RIVALS, name, prepare)
    report = SimpleNamespace(
        say=lambda text: None, table=lambda title, rows: titles.append(title)
    )
    limits = crf.Limits(1, forbid=forbid)
    crf.run([(3, 5, 2)], limits, report)
    assert len(given) >= 2 * len(crf.OPERATIONS)
    for potentials in given:
        on_device = jax.tree.map(jnp.asarray, potentials)
        assert bool(messages._is_narrow(on_device)) == (not forbid)
        assert (potentials.transitions[0, 2] == FORBIDDEN) == forbid
        assert np.sum(potentials.transitions == FORBIDDEN) == forbid
    which = "a transition forbidden" if forbid else "all transitions allowed"
    assert all(which in title for title in titles[:4])
    assert ("targets" in titles) == (not forbid)


@pytest.mark.parametrize("name", [n for n in RIVALS if n != OURS])
def test_rivals_agree_on_what_is_forbidden(name):
    if not is_there(name):
        pytest.skip(f"{name} is not installed")
    allowed, potentials = crf.draw((4, 6, 3)), crf.draw((4, 6, 3), forbid=True)
    for index, operation in enumerate(crf.OPERATIONS):
        ours, its = (RIVALS[n](potentials)[index]() for n in (OURS, name))
        crf.check(operation, potentials, {OURS: ours, name: its})
        if operation == "with gradient":
            assert float(its.transitions[0, 3]) == 0 == float(ours.transitions[0, 3])
    # And one that knows of nothing forbidden is found out.
    aware, unaware = RIVALS[OURS](potentials)[1](), RIVALS[name](allowed)[1]()
    with pytest.raises(AssertionError, match=name):
        crf.check("with gradient", potentials, {OURS: aware, name: unaware})


def test_of_one_label_nothing_can_be_forbidden(capsys):
    with pytest.raises(SystemExit):
        crf.main(["--forbid", "--labels", "1", "9"])
    assert "--forbid needs at least 2 labels" in capsys.readouterr().err


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
