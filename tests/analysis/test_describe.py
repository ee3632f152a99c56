"""The report of a trained tagger: `jaxner report`."""

import json
import shutil

import numpy as np
import pytest

from jaxner.runs import Workdir
from tests.marks import slow


@pytest.mark.parametrize("decoding", ["viterbi", *slow("sampled")])
def test_report_of_a_run(tiny_run, answer, tmp_path, decoding):
    page = tmp_path / "report.html"
    options = [f"--decoding={decoding}", *["--seed=4"] * (decoding == "sampled")]
    options += ["--rule=conlleval", "--split=test"]
    scores = answer("evaluate", tiny_run, *options)
    answer("report", tiny_run, *options, "--output", page)
    (run,) = json.loads(page.with_suffix(".json").read_text("utf-8"))["runs"]
    for key in ("f1", "predicted", "ill_formed"):
        assert run["scores"][key] == scores[key]
    assert run["decoding"]["name"] == decoding
    assert run["decoding"].get("seed") == (4 if decoding == "sampled" else None)
    assert run["learning"] == Workdir(tiny_run).metrics()
    assert run["best_epoch"] == Workdir(tiny_run).read_json("result.json")["best_epoch"]
    assert run["sha256"] == scores["sha256"]
    (picture,) = run["pictures"]
    assert picture["title"] == "Relations of the GRN"
    shape = np.shape(next(iter(picture["maps"].values())))
    assert shape == (len(picture["rows"]), len(picture["columns"]))
    for kind, count in (("tokens", "tokens"), ("entities", "predicted")):
        assert 0 <= run["calibration"][kind]["expected_calibration_error"] <= 1
        assert run["calibration"][kind]["count"] == scores[count]
    text = page.read_text("utf-8")
    assert "Learning curve" in text
    assert "The star is the epoch that is kept." in text  # the best one or the last
    assert text.count('data-head="T">1.0000<') == 2  # it is not calibrated
    assert ("Decoding: <strong>sampled</strong>" in text) == (decoding == "sampled")


@pytest.mark.slow
def test_calibration_is_shown_before_and_after(tiny_run, answer, tmp_path, run):
    warm = shutil.copytree(tiny_run, tmp_path / "warm")
    run("calibrate", warm, "--risk=0.99", "--type=PER")
    content = Workdir(warm).read_json("calibration.json")
    page = tmp_path / "report.html"
    report = answer("report", tiny_run, warm, "--output", page)
    cold, run = report["runs"]
    assert [cold["name"], run["name"]] == [tiny_run.name, "warm"]
    (sides,) = report["comparisons"]
    figure = sides["figures"]["f1"]
    assert (figure["difference"], figure["permutation"]) == (0.0, 1.0)
    assert "calibration_before" not in cold
    (promise,), (row,) = content["guarantees"]["types"], run["guarantees"]
    for key in ("type", "threshold", "measured", "sentences"):
        assert row[key] == promise[key]
    assert "<h3>Guarantees</h3>" in page.read_text("utf-8")
    assert run["temperature"] == [pytest.approx(content["temperature"], rel=1e-6)]
    assert json.loads(page.with_suffix(".json").read_text("utf-8")) == report
    for kind in ("tokens", "entities"):
        for name, side in {"_before": "before", "": "after"}.items():
            value = run[f"calibration{name}"][kind]["brier"]
            assert value == pytest.approx(content["dev"][side][kind]["brier"], abs=1e-5)
        brier = run["calibration_before"][kind]["brier"]
        assert brier == pytest.approx(cold["calibration"][kind]["brier"], abs=1e-6)


@pytest.mark.slow
def test_the_report_of_restarts(tiny_run, answer, tmp_path):
    folder, page = tmp_path / "both", tmp_path / "report.html"
    for seed in (0, 7):
        shutil.copytree(tiny_run, folder / f"seed-{seed}")
    shutil.copy(tiny_run / "config.json", folder)
    single = answer("evaluate", tiny_run, "--rule=conlleval")
    for restart, name in (("7", "restart 7"), ("all", "ensemble of 2")):
        options = folder, "--restart", restart, "--rule=conlleval"
        scores = answer("evaluate", *options)
        answer("report", *options, "--output", page)
        report = json.loads(page.with_suffix(".json").read_text("utf-8"))
        assert report["title"].startswith(f"both, {name} on")
        (run,) = report["runs"]
        assert run["scores"]["f1"] == scores["f1"]
        text = page.read_text("utf-8")
        assert ("This is an ensemble of 2" in text) == (restart == "all")
        assert ("Relations of the GRN" in text) == (restart != "all")
        assert ("whose README.md has" in text) == (restart != "all")
        if restart == "7":
            assert scores["f1"] == single["f1"]
            assert run["learning"]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.*is not the dev file")  # of the stored run
def test_attention_is_shown(att_run, answer, tmp_path):
    (run,) = answer("report", att_run, "--output", tmp_path / "report.html")["runs"]
    (picture,) = run["pictures"]
    assert picture["title"] == "Attention"
    assert len(picture["maps"]) > 1
