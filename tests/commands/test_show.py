"""Text shown with its entities, in the terminal and as a page."""

import html
import io
import json
import re

import pytest

import jaxner
from jaxner.answers import highlights
from jaxner.answers.entities import Entity
from jaxner.errors import InputError
from tests.commands.test_streams import documented


@pytest.fixture(scope="module")
def text(params, dev):
    """A text in which the tiny tagger finds entities, and what a page must escape."""
    texts = [" ".join(example.tokens) for example in dev.examples]
    entities = jaxner.entities(params, texts, raw=True)
    hits = [t for t, answer in zip(texts, entities, strict=True) if answer][:3]
    assert hits
    return "\n\n".join([*hits, "Milan <b> beat  Ajax & Rome\n"])


def without_marks(text, entities):
    assert entities
    for e in entities:
        percent = min(int(100 * e.probability), 99)
        mark = f"{e.text} {e.type}\u00a0{percent}%"
        assert mark in text
        text = text.replace(mark, e.text, 1)
    return text.strip()


def test_terminal_and_page_show_text_and_entities(tiny_run, params, text, file, run):
    path = file(text, "a.txt")
    arguments = "show", tiny_run, path
    entities = jaxner.entities(params, text)
    output = run(*arguments)[1]
    assert f"Loading {tiny_run} (" in output
    quiet = run(*arguments, "-q")[1]
    assert quiet == "".join(x for x in output.splitlines(True) if "Loading" not in x)
    assert without_marks(quiet, entities) == text.strip()
    run(*arguments, "-o", path.with_suffix(".html"))
    page = path.with_suffix(".html").read_text("utf-8")
    assert not re.search("src=|href=|<script", page)  # it needs no network
    assert "background-color" in page
    assert "unicode-bidi: plaintext" in page  # Hebrew and Arabic keep their order
    body = html.unescape(re.sub("<[^>]*>", "", page[page.index("<pre>") :]))
    assert without_marks(body, entities) == text.strip()
    rows = json.loads(run(*arguments, "--json", "-q")[1])
    assert {*rows[0]} == {*documented("show")}
    assert rows == [pytest.approx(entity._asdict()) for entity in entities]


def test_a_notebook_draws_a_text_once(params, text, monkeypatch):
    drawings = []
    monkeypatch.setattr("rich.console._is_jupyter", lambda: True)
    monkeypatch.setattr("rich.jupyter.display", lambda *x: drawings.append(x))
    view, entities = jaxner.show(params, text), jaxner.entities(params, text)
    assert without_marks(repr(view), entities) == text.strip()
    page = view._repr_html_()
    assert "background-color" in page
    assert "&lt;b&gt;" in page
    assert "<html" not in page
    assert "unicode-bidi: plaintext" in page
    assert not drawings  # but what the notebook draws of the text


@pytest.mark.parametrize("name", ["a.conll", "a.JSONL", "a.csv"])
def test_columns_and_json_are_no_raw_text(name, tiny_run, file, run):
    status, output = run("show", tiny_run, file("Rome B-LOC\n", name))
    assert status == 2
    assert "reads raw text: jaxner tag reads columns" in output
    assert "Rome" in run("show", tiny_run, file("Rome\n", "a.conll.TXT"), "-q")[1]


def test_options_of_show(tiny_run, params, text, run, monkeypatch):
    with pytest.raises(InputError, match="no n_best"):  # whose entities overlap
        jaxner.show(params, text, n_best=2)
    data = io.BytesIO(text.encode("utf-8-sig"))
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(data, "ascii"))
    options = ["--min-probability=1", "--one-sentence-a-line", "--tokenizer=words"]
    assert run("show", tiny_run, "-q", *options)[1].strip() == text.strip()


def test_what_would_steer_a_terminal_is_replaced():
    entity = Entity("a\x1b[2J", 0, 1, 0, 5, "X", 1.0)
    types = [*"ABCDEFGHX"]  # more than there are colours
    result = highlights.highlighted("a\x1b[2J\x9bz\ud800\t", [entity], types)
    assert result.plain == "a\ufffd[2J X\xa099%\ufffdz\ufffd\t"
