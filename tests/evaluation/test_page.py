"""Reports show the counts, load no other files, and escape all text."""

import dataclasses
import re
from xml.etree import ElementTree

import numpy as np
import pytest

from jaxner.data import schemes
from jaxner.data.formats import Example
from jaxner.evaluation import drawings, errors, report, scoring
from jaxner.evaluation import page as pages
from jaxner.evaluation.report import Prediction, describe
from jaxner.wording import one_line
from tests.evaluation.test_scoring import random_corpus

HOSTILE = "<script>alert('x')</script>\x00\x1b\x7f\u202e"
NAMES = ["$x$", "__init__", "#010203", "url(#a)", ' id="#"', "</svg>&lt;", "a\x00\x1fb"]


@pytest.fixture(scope="module")
def prediction():
    gold, predicted = random_corpus("BIOES", sentences=60, well_formed=True)
    draws = np.random.default_rng(0)
    chances = {
        (i, *span): float(draws.random())
        for i, labels in enumerate(predicted)
        for span in schemes.to_spans(labels)
    }
    return Prediction(
        [[f"w{draws.integers(50)}" for _ in labels] for labels in gold],
        gold,
        predicted,
        "BIOES",
        certainty=[draws.random(len(labels)).tolist() for labels in gold],
        entity_certainty=chances,
        training=[Example(("w1", "w2"), ("B-PER", "O"))],
    )


def run_of(prediction, name):
    run = describe(prediction, rounds=20)
    hot = {"": [[0.0, 1.0], [0.5, 0.2]]}
    maps = {"title": "Relations", "note": HOSTILE, "maps": hot}
    maps |= {"rows": [HOSTILE, "$x$\x00"], "columns": ["a & b", "$"], "label": "s"}
    return {
        "name": name,
        **run,
        "calibration_before": run["calibration"],
        "temperature": [1.25],
        "learning": [{"epoch": i, "loss": 9.0 / i, "dev_f1": 50 + i} for i in (1, 2)],
        "best_epoch": 2,
        "pictures": [maps],
        **{"file": HOSTILE, "sha256": "ab", "folder": name},
    }


def test_nothing_is_fetched_or_run_and_all_is_escaped(prediction):
    words = [[HOSTILE, *row[1:]] for row in prediction.tokens]
    hostile = dataclasses.replace(prediction, tokens=words)
    comparison = report.compare([prediction], [hostile], rounds=20)
    runs = [run_of(hostile, f"runs/{HOSTILE}"), run_of(prediction, "runs/two")]
    sides = {"first": "a", "second": "b", **comparison}
    text = pages.html(
        {"title": f"test {HOSTILE}", "runs": runs, "comparisons": [sides]}
    )
    assert "&lt;script&gt;" in text
    assert not re.search(r"<(script|link|img|iframe|object)\b|<[^>]* on\w+=", text)
    assert not re.search(r"url\((?!#)|@import|https?://(?!www\.w3\.org)", text)
    addresses = re.findall(r'\b(?:href|src|action)="([^"]*)"', text)
    assert all(x.startswith(("#", "data:image/png;")) for x in addresses)
    ids = {f"#{name}" for name in re.findall(r'\bid="([^"]*)"', text)}
    assert {x for x in addresses if x[0] == "#"} <= ids
    assert text.count("<h1") == 1
    assert 'name="viewport"' in text
    assert "prefers-color-scheme: dark" in text
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202e]", text)
    scores = scoring.score(prediction.gold, prediction.predicted, scheme="BIOES")
    for figure in (scores.f1, scores.macro.f1, scores.by_type["LOC"].recall):
        assert f"{100 * figure:.2f}" in text


@pytest.mark.parametrize("name", NAMES)
def test_drawings_have_names_as_they_are_and_no_backend(name, monkeypatch):
    matplotlib = pytest.importorskip("matplotlib")
    monkeypatch.setitem(matplotlib.rcParams, "backend", "svg")
    pictures = drawings.curves({name: [(0, 1)], "b": [(1, 1)]}, "x", "y")
    pictures += drawings.bars({name: {name: {"f1": 1.0}}, "b": {name: {"f1": 2.0}}})
    pictures += drawings.heat_maps({name: [[1.0]]}, [name], [name], "s")
    elements = ElementTree.fromstring(f"<p>{pictures}</p>").iter()
    texts = [(element.text or "").strip() for element in elements]
    assert texts.count(one_line(name)) == 6
    assert matplotlib.rcParams["backend"] == "svg"


def test_a_table_of_confusions_has_the_worst_of_many_types():
    gold = [[f"S-{i:03}"] for i in range(200)]
    predicted = [["S-000"] if i in (7, 150) else row for i, row in enumerate(gold)]
    run = describe(Prediction(None, gold, predicted, "BIOES"), rounds=2)
    table = report.confusion_table(run)
    assert {"000", "007", "150"} < {*table.columns}
    assert errors.OUTSIDE not in table.columns  # nothing is missed or spurious
    assert all(len(row) == len(table.columns) == 7 for row in table.rows)
    assert ["007", 1] in [row[:2] for row in table.rows]


def test_examples_show_gold_beside_predicted(prediction):
    run = describe(prediction, rounds=2)
    for kind, examples in run["examples"].items():
        for row in examples:
            assert row["error"].startswith(kind)
            sides = row["gold"], row["predicted"]
            marks = sum(p["focus"] for side in sides for p in side)
            assert marks == (1 if kind in ("missed", "spurious") else 2)
            left, right = ([p["text"] for p in side] for side in sides)
            assert " ".join(left) == " ".join(right)
            assert all([*left, *right])
            assert " ".join(left) in " ".join(prediction.tokens[row["sentence"]])
    chances = [x["probability"] for x in run["confident_mistakes"]]
    assert chances == sorted(chances, reverse=True)
    assert all(x["error"] for x in run["confident_mistakes"])
    hits = [x["probability"] for x in run["uncertain_hits"]]
    assert hits == sorted(hits)
    assert not any(x["error"] for x in run["uncertain_hits"])


def test_tags_and_files_without_tokens_have_pages_too():
    gold, predicted = [["NN", "VB"], ["NN"]], [["NN", "NN"], ["NN"]]
    rows = [Example(("a",), ("NN",))]
    prediction = Prediction([["a", "b"], ["c"]], gold, predicted, "tags", training=rows)
    run = describe(prediction, rounds=5)
    assert list(run["errors"]["largest"]) == ["type: VB as NN"]
    text = pages.html({"title": "t", "runs": [{"name": "x", **run}]})
    assert "oov accuracy" in text
    assert "66.67" in text
    run = describe(Prediction(None, [["B-A", "O"]], [["O", "O"]], "BIO"), rounds=5)
    assert "–" in pages.html({"title": "t", "runs": [{"name": "x", **run}]})
    empty = describe(Prediction([], [], [], "BIO"), rounds=2)
    text = pages.html({"title": "t", "runs": [{"name": "x", **empty}]})
    assert "–" in text
    assert "Confusion" not in text


@pytest.mark.parametrize(("scheme", "means"), [("BIO", 3), ("tags", 0)])
def test_a_table_has_the_most_frequent_of_very_many_types(scheme, means):
    labels = [[f"B-{number:03}"] for number in [*range(102), 101]]
    words = [["a"]] * len(labels)
    run = describe(Prediction(words, labels, labels, scheme), rounds=2)
    table = report.types_table(run)
    names = [row[0] for row in table.rows]
    assert len(names) == 100 + means
    assert [name[-3:] for name in names[98:100]] == ["098", "101"]
    assert "2 rarer ones are not shown" in table.note
