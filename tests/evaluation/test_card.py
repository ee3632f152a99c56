"""The card of a run says what its files say."""

import json
import re

from jaxner.evaluation import predictions, scoring
from jaxner.evaluation.card import card
from jaxner.runs import Workdir


def head_of(text):
    """The front matter of a card, whose values are JSON."""
    _, head, _ = text.split("---\n", 2)
    pairs = (line.partition(": ") for line in head.splitlines())
    return {key: json.loads(value) for key, _, value in pairs}


def test_a_finished_run_has_a_card(finished):
    run = Workdir(finished)
    text = (finished / "README.md").read_text("utf-8")
    assert text == card(run)
    result, about = run.read_json("result.json"), run.read_json("environment.json")
    (model,) = head_of(text)["model-index"]
    assert model["name"] == finished.name
    dev, test = model["results"]
    for split, there in (("dev", dev), ("test", test)):
        figures = {x["type"]: x["value"] for x in there["metrics"]}
        assert len({*figures.values()}) == 3  # so that none stands for another
        names = ("precision", "recall", "f1")
        assert figures == {name: round(result[split][name], 2) for name in names}
        assert result[split]["sha256"] in text
        labels = predictions.read(run.predictions(split))
        strict = scoring.score(*labels, rule="strict", scheme="BIOES").f1
        assert re.search(rf"\| strict \|.*\| {100 * strict:.2f} \|", text)
    assert about["data"]["train"]["sha256"] in text
    assert "| PER | " in text
    assert "Chen et al., GRN" in text
    assert "## Calibration" not in text
