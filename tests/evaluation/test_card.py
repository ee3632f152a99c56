"""The card of a run says what its files say."""

import ast
import html
import json
import re
import shutil

import pytest
from markdown_it import MarkdownIt

from jaxner.evaluation import predictions, scoring
from jaxner.evaluation.card import card
from jaxner.evaluation.report import Table
from jaxner.runs import Workdir
from jaxner.wording import markdown

NAMES = ["A|B", "<b>X</b>", "*bold*", "back`tick``", "__init__", "[a](b)", "&lt;"]
NAMES += ["\\|", "~~a~~", "C #", "$x$", "https://a.b", "x" * 60]
MARKDOWN = MarkdownIt().enable(["table", "strikethrough"])


def head_of(text):
    """The front matter of a card, whose values are JSON."""
    _, head, _ = text.split("---\n", 2)
    pairs = (line.partition(": ") for line in head.splitlines())
    return {key: json.loads(value) for key, _, value in pairs}


def test_a_finished_run_has_a_card(tiny_run, corpus):
    run = Workdir(tiny_run)
    text = (tiny_run / "README.md").read_text("utf-8")
    assert text == card(run)
    result, record = run.read_json("result.json"), run.read_json("environment.json")
    (model,) = head_of(text)["model-index"]
    assert model["name"] == tiny_run.name
    dev, test = model["results"]
    for split, entry in (("dev", dev), ("test", test)):
        figures = {x["type"]: x["value"] for x in entry["metrics"]}
        assert entry["dataset"]["name"] == corpus.name
        assert len({*figures.values()}) == 3  # so that none stands for another
        names = ("precision", "recall", "f1")
        assert figures == {name: round(result[split][name], 2) for name in names}
        assert result[split]["sha256"] in text
        labels = predictions.read(run.predictions(split))
        strict = scoring.score(*labels, rule="strict", scheme="BIOES").f1
        assert re.search(rf"\| strict \|.*\| {100 * strict:.2f} \|", text)
    assert record["data"]["train"]["sha256"] in text
    assert "| PER | " in text
    assert "Chen et al., GRN" in text
    assert "## Calibration" not in text


def test_a_card_has_the_figures_of_the_rule_of_the_run(tiny_run, tmp_path):
    run = Workdir(shutil.copytree(tiny_run, tmp_path / "run"))
    config = run.read_json("config.json")
    config["evaluation"]["rule"] = "strict"
    run.write_json("config.json", config)
    labels = predictions.read(run.predictions("dev"))
    f1 = 100 * scoring.score(*labels, rule="strict", scheme="BIOES").f1
    text = card(run).partition("On dev:")[2]
    assert re.search(rf"\| all types \(micro\) \|.*\| {f1:.2f} \|", text)
    assert "\nstrict rule; " in text


@pytest.mark.parametrize("name", NAMES)
def test_markdown_shows_names_as_they_are(name):
    text = Table(["type", name], [[name, 0.5]], name).markdown()
    assert "s://" not in text  # hubs would make a link of it
    page = MARKDOWN.render(f"# {markdown(name)}\n\n{text}\n- {markdown(name)}\n")
    assert page.count(f">{html.escape(name)}</") == 5


def test_a_card_has_the_name_of_any_folder(tiny_run, tmp_path):
    name = "[a] *b* ```c` |d| \"'\x1b <e>\n```\n\udcff"
    text = card(Workdir(shutil.copytree(tiny_run, tmp_path / name)))
    page = MARKDOWN.render(text)
    assert "<h1>[a] *b* ```c` |d| &quot;'\ufffd &lt;e&gt; ``` \ufffd</h1>" in page
    code = ast.walk(ast.parse(text.split("```python")[1].split("\n```\n")[0]))
    assert name in [x.value for x in code if isinstance(x, ast.Constant)]
    assert head_of(text)["model-index"][0]["name"] == name.replace("\udcff", "\ufffd")
    assert "\x1b" not in text
