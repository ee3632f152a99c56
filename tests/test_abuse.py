"""`benchmarks.abuse` distinguishes right from wrong; its attacks are slow tests."""

import json
import random

import pytest

import jaxner
from benchmarks.abuse import __main__ as abuse
from benchmarks.abuse import arguments, corpora, flips, invariance
from benchmarks.abuse.victim import Victim
from jaxner import models
from jaxner.configuration import shipped
from jaxner.data.splits import Example
from jaxner.models import options
from tests.models import test_product as product


def test_outcomes_are_told_apart():
    def fails(error):
        raise error

    assert flips.outcome(lambda: True) == "harmless"
    assert flips.outcome(lambda: False) == "other labels or scores"
    assert flips.outcome(lambda: fails(ValueError("a line"))) == "found"
    assert flips.outcome(lambda: fails(ValueError("x\n" * 161))) == "161 lines"
    assert flips.outcome(lambda: fails(KeyError("x"))).startswith("KeyError")


@pytest.mark.parametrize("kind", corpora.MUTATIONS)
def test_mutations_are_seeded_and_damage(kind):
    content = b"Rome S-LOC\nfell O\n\nYes O\n\n" * 20
    first, again, other = (
        corpora.MUTATIONS[kind](content, random.Random(seed)) for seed in (1, 1, 2)
    )
    assert first == again
    assert first != content
    if kind in ("bytes changed", "cut", "random bytes"):
        assert other != first


def test_command_lines_are_all_different(tmp_path):
    victim = Victim(tmp_path)
    victim.reference = tmp_path / "run"
    lines = [tuple(line) for line in arguments.odd(victim)]
    assert len(set(lines)) == len(lines) >= 50


@pytest.mark.parametrize("encoder", ["lan", "grn"])
def test_batch_order_and_padding_change_nothing(encoder):
    model = product.build(encoder, "crf", "words, fixed cnn, case")
    tagger = jaxner.Tagger(product.draw_weights(model), model, product.LEXICON)
    examples = [Example(("EU", "is", "A.1")[:n], None, 0, 1) for n in (1, 3, 2, 3)]
    found = invariance.differences(tagger, examples, seed=0)
    assert not found["wrong"]
    assert found["largest score"] > 0.01
    assert max(found[name] for name in ("in batches", "shuffled", "padded")) < 1e-5


def test_every_encoder_head_and_kind_of_characters_is_in_the_table():
    found = {"encoder": set(), "head": set(), "chars": set()}
    for text in invariance.SYSTEMS.values():
        for section in options.model_sections(shipped.load(text).model):
            kind = {"first": "encoder", "then": "encoder"}.get(
                part := section.path.split(".")[-1], part
            )
            if kind in found:
                found[kind].add(section.values["name"])
    assert found == {
        "encoder": set(models.ENCODERS),
        "head": set(models.HEADS),
        "chars": set(models.CHARACTERS),
    }


@pytest.mark.slow  # 20 s
def test_a_small_bert_is_measured_in_windows():
    examples = [Example(("EU", "is")[:n] * 30, None, 0, 1) for n in (1, 2)]
    tagger = invariance._tagger("bert:sample,model=crf", examples, ["LOC"], 0)
    assert tagger.vocabulary.pieces.encode(examples[1].tokens).windows.shape[0] > 1
    found = invariance.differences(tagger, examples, seed=0)
    assert not found["wrong"]
    assert found["largest score"] > 0.01


def test_a_difference_is_counted(monkeypatch):
    model = product.build("grn", "crf", "words")
    tagger = jaxner.Tagger(product.draw_weights(model), model, product.LEXICON)
    examples = [Example(("EU", "is"), None, 0, 1)]
    monkeypatch.setattr(invariance, "_largest", lambda alone, found: 0.5)
    assert invariance.differences(tagger, examples, seed=0)["wrong"] == 3


def test_an_unknown_kind_is_told(capsys):
    with pytest.raises(SystemExit):
        abuse.main(["fire"])
    assert "unknown kind fire" in capsys.readouterr().err


@pytest.mark.slow
def test_nothing_goes_wrong_in_a_small_dose(tmp_path):
    kinds = ["kills", "bytes", "corpora"]
    file = tmp_path / "figures.json"
    given = ["--kills", "1", "--mutations", "13", "--json", str(file)]
    assert not abuse.main([*kinds, *given])
    tables = json.loads(file.read_text())
    (rows,) = (rows for title, rows in tables.items() if title.startswith("corpora"))
    assert {row["damage"] for row in rows} == set(corpora.MUTATIONS)
    for row in rows:  # both commands met each kind
        assert row["evaluate: taken"] + row["evaluate: told"] == 1
        assert row["train: taken"] + row["train: told"] == 1
