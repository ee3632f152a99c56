"""Chunk recall, counted by hand, and the switches of `evaluate.py` for it."""

import dataclasses
import json
import re

import jax
import jax.numpy as jnp
import pytest

from jaxner import tagging
from jaxner.data import corpora
from jaxner.evaluation import chunks
from jaxner.evaluation.chunks import Recall

GOLD = [
    ["B-PER", "I-PER", "E-PER", "O", "S-LOC"],
    ["O", "B-ORG", "E-ORG"],
    ["S-LOC", "O"],
]
FOUND = [
    ["B-LOC", "O", "E-PER", "O", "B-LOC"],  # types do not matter, prefixes do
    ["S-PER", "B-ORG", "O"],
    ["S-MISC", "S-MISC"],
]


def test_counted_by_hand():
    found = chunks.recalls(GOLD, FOUND)
    assert found == {
        "O": Recall(3, 1),
        "S": Recall(2, 1),
        "B": Recall(2, 2),
        "I": Recall(1, 0),
        "E": Recall(2, 1),
    }
    assert list(found) == ["O", "S", "B", "I", "E"]  # the order of the paper's table
    assert [r.share for r in found.values()] == [1 / 3, 0.5, 1.0, 0.0, 0.5]
    assert sum(r.gold for r in found.values()) == 10


def test_gold_labels_alone_decide_what_is_listed():
    assert chunks.recalls([["O", "O"]], [["B-X", "O"]]) == {"O": Recall(2, 1)}
    assert chunks.recalls([], []) == {}
    assert chunks.recalls([[]], [[]]) == {}
    bilou = chunks.recalls([["U-X", "B-X", "L-X", "O"]], [["U-X", "B-X", "O", "O"]])
    assert list(bilou) == ["O", "U", "B", "L"]
    assert bilou["L"].share == 0.0
    assert Recall(0, 0).share is None


@pytest.mark.parametrize("found", [FOUND[:2], [*FOUND[:2], ["O"]]])
def test_missing_labels_are_an_error(found):
    with pytest.raises(ValueError, match=r"expected one label|Expected as many"):
        chunks.recalls(GOLD, found)


def test_table():
    laid_out = chunks.table({"O": Recall(3000, 1000), "I": Recall(1, 0)}, "[dev] x")
    assert str(laid_out.title) == "[dev] x"  # is no markup
    assert [str(column.header) for column in laid_out.columns] == [
        *("chunk label", "recall", "gold", "found")
    ]
    cells = [list(column.cells) for column in laid_out.columns]
    assert cells == [["O", "I"], ["33.33", "0.00"], ["3,000", "1"], ["1,000", "0"]]


# --- evaluate.py ---------------------------------------------------------------------


def percent(params, split):
    return {
        prefix: 100 * recall.share
        for prefix, recall in chunks.recalls(
            *tagging.label_split(params, split)
        ).items()
    }


def test_chunks_of_a_run(finished, params, corpus, evaluated, tmp_path, capsys):
    out = tmp_path / "scores.json"
    scores = evaluated(f"--workdir={finished}", "--chunks", f"--json={out}")
    assert set(scores["chunk_recall"]) == {"O", "S", "B", "I", "E"}
    split = corpora.load(None, "test", directory=corpus)
    assert scores["chunk_recall"] == percent(params, split)
    assert scores["chunk_recall"]["O"] > 50
    assert json.loads(out.read_text())["chunk_recall"] == scores["chunk_recall"]
    assert "chunk labels" in capsys.readouterr().out
    assert "chunk_recall" not in evaluated(f"--workdir={finished}")


def louder(params):
    """A run this short finds nothing, so another head makes labels of all kinds."""
    head = params.weights["params"]["head"]["emissions"]
    kernel = jax.random.normal(jax.random.key(0), head["kernel"].shape)
    changed = {"emissions": {"kernel": kernel, "bias": jnp.zeros_like(head["bias"])}}
    weights = dict(params.weights)
    weights["params"] = {**weights["params"], "head": changed}
    return dataclasses.replace(params, weights=weights)


@pytest.mark.slow
def test_parts_of_the_model_are_compared(attending, corpus, evaluated, monkeypatch):
    load = tagging.load
    monkeypatch.setattr(tagging, "load", lambda *given, **_: louder(load(*given)))
    split = corpora.load(None, "dev", directory=corpus)
    found = []
    for keep in (None, "hidden", ["hidden", "context2"]):
        value = keep if isinstance(keep, str) else json.dumps(keep)
        switch = [] if keep is None else [f"--model=encoder.then.keep={value}"]
        given = (f"--workdir={attending}", "--split=dev", "--chunks", *switch)
        found.append(evaluated(*given)["chunk_recall"])
        changes = {"encoder.then.keep": keep} if keep else None
        params = louder(load(attending, changes))
        assert found[-1] == percent(params, split)
    assert found[0] != found[1] != found[2]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("encoder.then.keep", "Expected --model path=value, got 'encoder.then.keep'"),
        ("=hidden", "Expected --model path=value, got '=hidden'"),
        ("encoder.then.keep=nothing", "Unknown part 'nothing' in keep"),
        ("encoder.then.heads=2", "Unknown option encoder.then.heads"),
        ("encoder.last.keep=hidden", "no section for the option 'encoder.last.keep'"),
        ("keep=hidden", "no section for the option 'keep'"),
        ("encoder.then.num_heads=2", "needs other weights"),
    ],
)
def test_wrong_changes_say_what_is_wrong(change, message, attending, evaluated):
    with pytest.raises(ValueError, match=re.escape(message)):
        evaluated(f"--workdir={attending}", f"--model={change}")
