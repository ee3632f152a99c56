"""Thresholds keep their bounds on new sentences, or are refused with a reason."""

import functools
import json

import jax
import numpy as np
import pytest
from scipy import stats

import jaxner
from jaxner.answers import temperature
from jaxner.errors import InputError
from jaxner.evaluation.card import card
from jaxner.evaluation.guarantees import bounded, p_value, rows_of
from jaxner.evaluation.report import Prediction
from jaxner.runs import Workdir
from tests.test_decoding import tiny


def test_thresholds_by_hand():
    """Of 19 sentences, one of three misses may be allowed: (1 + 1) / 20."""
    rows = [[(p, True)] for p in np.linspace(0.1, 0.9, 19).round(6)]
    assert bounded(rows, "PER", 0.1, "misses").threshold == rows[1][0][0]
    assert bounded(rows, "PER", 0.05, "misses").threshold == rows[0][0][0]
    # Rounded down: a text in another batch may lose the last digit.
    finer = [[(row[0][0] + 9e-7, True)] for row in rows]
    assert bounded(finer, "PER", 0.1, "misses").threshold == rows[1][0][0]
    bound = bounded(rows * 5, "PER", 0.1, "errors")
    assert (bound.threshold, bound.measured, bound.sentences) == (0.0, 0.0, 95)
    # Below 0.5, all are wrong: the tests stop where so many errors are improbable.
    rows = [[(p, bool(p > 0.5))] for p in np.linspace(0.01, 0.99, 400)]
    bound = bounded(rows, "PER", 0.1, "errors")
    assert 0.45 < bound.threshold <= 0.5


def test_a_promise_that_cannot_be_kept_is_refused():
    rows = [[(0.5, True)]] * 18
    with pytest.raises(InputError, match=r"at least 19 sentences with such.*got 18"):
        bounded(rows, "PER", 0.05, "misses")
    with pytest.raises(InputError, match=r"at least 72 sentences with such.*got 18"):
        bounded(rows, "PER", 0.05, "errors")
    with pytest.raises(InputError, match=r"reach is 0\.2692.*n_best"):  # 7 of 26
        bounded([[(-1.0, True)]] * 6 + rows + [[(0.5, True)]], "PER", 0.1, "misses")
    with pytest.raises(InputError, match=r"least risk within reach is 0\.[56]"):
        bounded([[(0.995, i % 2 == 0)] for i in range(200)], "PER", 0.1, "errors")
    for risk, kind, confidence in (
        *((risk, "misses", 0.9) for risk in (0, 1, -1, float("nan"), "a")),
        *((0.1, "errors", confidence) for confidence in (0, 1)),
        (0.1, "miss", 0.9),
    ):
        with pytest.raises(InputError, match=r"must|Unknown"):
            bounded(rows, "PER", risk, kind, confidence)
    empty = Prediction(None, [["O"]], [["O"]], "BIO", entity_certainty={})
    with pytest.raises(InputError, match="there are none"):
        temperature.guarantees(empty, [], 0.1, of="misses")


def test_a_type_that_is_too_rare_costs_the_others_nothing():
    gold = [["B-PER"]] * 19 + [["B-LOC"]]
    certainty = {(i, 0, 1, row[0][2:]): 0.9 for i, row in enumerate(gold)}
    prediction = Prediction(None, gold, gold, "BIO", entity_certainty=certainty)
    (row,) = temperature.guarantees(prediction, [], 0.1, of="misses")
    assert (row.type, row.threshold) == ("PER", 0.9)
    for types, risk in ((["PER", "LOC"], 0.1), ([], 0.01), ([], 2)):
        with pytest.raises(InputError, match=r"for LOC needs|must be"):
            temperature.guarantees(prediction, types, risk, of="misses")


@pytest.mark.parametrize("errors", [0, 3, 11])
def test_the_p_value_is_never_below_the_exact_one(errors):
    shares = np.arange(120) < errors
    exact = stats.binom.cdf(errors, 120, 0.1)
    assert exact * (1 - 1e-9) <= p_value(shares, 0.1) <= min(1, 3 * exact)


def test_candidates_and_unfound_gold_are_rows():
    gold = [["B-PER", "I-PER", "O", "B-LOC"], ["B-PER"]]
    certainty = {(0, 0, 2, "PER"): 0.9, (0, 0, 1, "PER"): 0.1, (0, 3, 4, "LOC"): 0.8}
    prediction = Prediction(None, gold, gold, "BIO", entity_certainty=certainty)
    rows = rows_of(prediction, "PER")
    assert [*map(list, rows)] == [[(0.9, True), (0.1, False)], [(-1.0, True)]]


@pytest.mark.filterwarnings("ignore:.*is of step -1")
def test_the_command_stores_thresholds_that_tagging_takes(copied_run, tmp_path, run):
    for folder in (copied_run, tmp_path):
        with pytest.raises(InputError, match="--risk"):
            temperature.guaranteed(folder)
    words = ["--risk=0.99", "--type=PER", "--keep-temperature", "--test"]
    _, output = run("calibrate", copied_run, *words)
    assert "Without a threshold: LOC, MISC, ORG\n" in output
    record = Workdir(copied_run).read_json("calibration.json")["guarantees"]
    (row,) = record["types"]
    assert row["measured"] == row["dev"] <= 0.99
    cells = f"| {row['threshold']:.4f} | {row['dev']:.2f} | {row['test']:.2f} |"
    assert cells in (copied_run / "README.md").read_text("utf-8")
    assert "of --risk" in run("calibrate", copied_run, "--of=errors")[1]
    options = temperature.guaranteed(copied_run)
    assert options == {"min_probability": {"PER": row["threshold"]}, "n_best": 1}
    (tmp_path / "a.txt").write_text("Ms Preston left Lakeside.\nMr Smith met Ms Jones.")
    command = "tag", copied_run, tmp_path / "a.txt"
    for least in ("calibrated", f"PER={row['threshold']}"):
        flags = [f"--output={tmp_path / least[:3]}.jsonl", f"--min-probability={least}"]
        run(*command, *flags)
    first, second = (tmp_path / f"{name}.jsonl" for name in ("cal", "PER"))
    assert first.read_text() == second.read_text() != ""
    stale = Workdir(copied_run).read_json("calibration.json") | {"step": -1}
    Workdir(copied_run).write_json("calibration.json", stale)
    with pytest.raises(InputError, match="best checkpoint"):
        temperature.guaranteed(copied_run)
    assert "## Calibration" not in card(Workdir(copied_run))
    run("report", copied_run, "-o", tmp_path / "report.html")
    report = json.loads((tmp_path / "report.json").read_text())
    assert "guarantees" not in report["runs"][0]


def test_each_type_has_its_minimum():
    params = tiny("crf", ("LOC", "PER"), scheme="BIO")
    text = "Rome beat Milan x Preston x Ms Preston beat Rome x Milan"
    entities = jaxner.entities(params, text)
    kinds = {entity.type for entity in entities}
    chances = {k: [e.probability for e in entities if e.type == k] for k in kinds}
    least = {"LOC": max(chances["LOC"])}
    expected = [e for e in entities if e.probability >= least.get(e.type, 0)]
    assert 0 < len(expected) < len(entities)
    assert jaxner.entities(params, text, min_probability=least) == expected
    run = jax.jit(functools.partial(jaxner.entities, min_probability=least))
    arrays = run(params, jaxner.encode(params, text.split()))
    assert np.flatnonzero(arrays.start).tolist() == [e.start for e in expected]
    for wrong in ({"PERSON": 0.5}, {"PER": 2.0}, {"PER": float("nan")}):
        with pytest.raises(InputError, match="PER"):
            jaxner.entities(params, text, min_probability=wrong)
