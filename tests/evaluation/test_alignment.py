"""Partial matches (SemEval-2013), by hand and against a slow reading."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from jaxner.data import schemes
from jaxner.evaluation import alignment, coded, reading

LABELS = ["O", *(f"{p}-{kind}" for kind in "AB" for p in "BIES")]
SENTENCES = st.lists(st.lists(st.sampled_from(LABELS), max_size=8), max_size=4)


def counts(gold, predicted):
    its = coded.code([gold.split()], [predicted.split()])
    found = alignment.counts(its, "conlleval", "BIOES")[0].tolist()
    return dict(zip(alignment.COLUMNS, found, strict=True))


@pytest.mark.parametrize(
    ("gold", "predicted", "strict", "exact", "overlap", "same"),
    [
        # The scenarios of the task: all right, spurious, missed, wrong type, wrong
        # boundary, both wrong.
        ("B-A E-A", "B-A E-A", 1, 1, 1, 1),
        ("O O", "B-A E-A", 0, 0, 0, 0),
        ("B-A E-A", "O O", 0, 0, 0, 0),
        ("B-A E-A", "B-B E-B", 0, 1, 1, 0),
        ("B-A I-A E-A", "O B-A E-A", 0, 0, 1, 1),
        ("B-A I-A E-A", "O B-B E-B", 0, 0, 1, 0),
        # Of two that overlap with one gold span, only one has it as a partner.
        ("B-A I-A E-A", "S-A O S-A", 0, 0, 1, 1),
        # The one of its type before the one that comes first.
        ("B-A I-A E-A", "S-B O S-A", 0, 0, 1, 1),
        # One with equal boundaries before one that overlaps.
        ("S-A B-A E-A", "B-A E-A O", 0, 0, 1, 1),
        ("O B-A E-A", "O B-B E-B", 0, 1, 1, 0),
    ],
)
def test_known_cases(gold, predicted, strict, exact, overlap, same):
    found = counts(gold, predicted)
    assert (found["strict"], found["exact"]) == (strict, exact)
    assert (found["overlap"], found["type"]) == (overlap, same)
    assert found["gold"] == len(schemes.to_spans(gold.split()))
    assert found["predicted"] == len(schemes.to_spans(predicted.split()))


def slowly(gold, predicted):
    """Pairs spans one after the other, by the rule of the module's docstring."""
    gold, free = list(gold), set(range(len(gold)))
    partners = {}
    overlaps = lambda a, b: a.start < b.end and b.start < a.end  # noqa: E731
    for fits in (
        lambda a, b: (a.start, a.end) == (b.start, b.end),
        lambda a, b: overlaps(a, b) and a.type == b.type,
        overlaps,
    ):
        for i, span in enumerate(predicted):
            if i in partners:
                continue
            for j in sorted(free):
                if fits(span, gold[j]):
                    partners[i] = j
                    free.discard(j)
                    break
    return [partners.get(i, -1) for i in range(len(predicted))]


@given(SENTENCES)
def test_partners_are_those_of_a_slow_reading(predicted):
    gold = [labels[::-1] for labels in predicted]
    its = coded.code(gold, predicted)
    sides = [
        reading.read(side, its.layout, "conlleval")
        for side in (its.gold, its.predicted)
    ]
    found = alignment.align(*sides)
    offsets = its.layout.offsets
    first = [0, 0]
    for offset, right, labels in zip(offsets, gold, predicted, strict=True):
        spans = [schemes.to_spans(row) for row in (right, labels)]
        expected = slowly(*spans)
        here = found[first[1] : first[1] + len(expected)]
        here = np.where(here >= 0, here - first[0], here)
        assert here.tolist() == expected, offset
        first = [a + len(b) for a, b in zip(first, spans, strict=True)]


@given(SENTENCES)
def test_ways_to_match_are_ordered(predicted):
    gold = [labels[::-1] for labels in predicted]
    its = coded.code(gold, predicted)
    strict, exact, overlap, same, found, right = alignment.counts(
        its, "conlleval", "BIOES"
    ).T
    assert (strict <= exact).all()
    assert (exact <= overlap).all()
    assert (strict <= same).all()
    assert (same <= overlap).all()
    assert (overlap <= np.minimum(found, right)).all()
