"""Kinds of errors and groups of entities, counted by hand and against the scorer."""

import collections

import numpy as np
import pytest

from jaxner.data.schemes import Span
from jaxner.evaluation import breakdowns, errors, scoring
from jaxner.evaluation.counts import Counts
from tests.evaluation.test_scoring import random_corpus

GOLD = [
    ["B-A", "E-A", "O", "S-B", "B-A", "I-A", "E-A"],
    ["O", "S-A", "O", "B-B", "E-B"],
]
FOUND = [
    ["B-A", "E-A", "O", "S-A", "O", "B-A", "E-A"],
    ["S-B", "O", "O", "O", "S-A"],
]


def test_each_kind_is_found():
    pairs = errors.pairs(GOLD, FOUND)
    assert [(p.sentence, p.name) for p in pairs if p.kind] == [
        (0, "type: B as A"),
        (0, "boundary: A"),
        (1, "spurious: B"),
        (1, "missed: A"),
        (1, "boundary and type: B as A"),
    ]
    assert pairs[0] == (0, Span(0, 2, "A"), Span(0, 2, "A"))
    assert errors.counts(pairs) == dict.fromkeys(errors.KINDS, 1)
    assert errors.largest(pairs)[0] == ("boundary and type: B as A", 1)


def test_confusion_counts_types_and_o():
    table = errors.confusion(errors.pairs(GOLD, FOUND), ["A", "B"])
    np.testing.assert_array_equal(table, [[2, 0, 1], [2, 0, 0], [0, 1, 0]])


@pytest.mark.parametrize("rule", ["conlleval", "strict"])
def test_pairs_are_those_that_are_scored(rule):
    gold, predicted = random_corpus("BIOES", sentences=300)
    found = errors.pairs(gold, predicted, rule, "BIOES")
    overall = scoring.score(gold, predicted, rule=rule, scheme="BIOES").overall
    assert sum(p.kind is None for p in found) == overall.correct
    assert sum(p.gold is not None for p in found) == overall.gold
    assert sum(p.predicted is not None for p in found) == overall.predicted
    assert found == sorted(found, key=lambda p: p.sentence)
    lengths = breakdowns.by_length(found)
    assert [row.group for row in lengths] == ["1", "2", "3+"]
    assert sum((row.counts for row in lengths), Counts()) == overall
    rows = breakdowns.by_sentence_length(found, gold, [2, 5])
    assert sum((row.counts for row in rows), Counts()) == overall


def test_rules_without_lengths_are_refused():
    with pytest.raises(ValueError, match="take one of conlleval, strict"):
        errors.pairs(GOLD, FOUND, "ncrfpp")


TOKENS = [
    ["New", "York", "and", "Rome", "Old", "New", "Rome"],
    ["a", "b", "c", "d", "e"],
]


def test_groups_by_training():
    known = breakdowns.mentions(
        [["New", "York"], ["Rome"]] * 2, [["B-A", "E-A"], ["S-B"]] * 2
    )
    assert known == collections.Counter({"New York": 2, "Rome": 2})
    found = errors.pairs(GOLD, FOUND)
    rows = dict(breakdowns.by_frequency(found, TOKENS, known, [0, 1]))
    assert rows["2+"] == Counts(1, 2, 2)
    assert rows["1"] == Counts(0, 0, 0)
    assert rows["0"] == Counts(0, 3, 3)
    words = {"New", "York", "Rome", "b"}
    rows = dict(breakdowns.by_known_words(found, TOKENS, words, {*words, "Old", "d"}))
    assert rows["in training"] == Counts(1, 3, 3)
    assert rows["in the vectors only"] == Counts(0, 0, 1)
    assert rows["in neither"] == Counts(0, 2, 1)
