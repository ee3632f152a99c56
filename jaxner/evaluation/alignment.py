"""Pairs predicted with gold spans, and counts partial matches.

Source: Segura-Bedmar, Martínez and Herrero-Zazo, "SemEval-2013 Task 9" (2013), which
defines four ways to match, `MATCHES`. The task does not say how to pair several
overlapping spans. Here each span has at most one partner: first pairs with equal
boundaries, then overlaps with equal types, then other overlaps, each from left to
right.
"""

from __future__ import annotations

import numpy as np

from jaxner.evaluation import reading
from jaxner.evaluation.coded import Coded
from jaxner.evaluation.reading import Spans

MATCHES = ("strict", "exact", "partial", "type")
"""Equal boundaries and type; equal boundaries; overlap, which counts half unless the
boundaries are equal; overlap with equal types."""


def align(gold: Spans, predicted: Spans) -> np.ndarray:
    """Returns the gold partner of each predicted span.

    Args:
        gold: Gold spans, by a rule of `rules.WITH_LENGTHS`.
        predicted: Predicted spans.

    Returns:
        The index of each predicted span's gold partner; -1 without one.

    Example:
        >>> gold = Spans(*map(np.array, ([0, 4], [1, 4], [0, 0])))
        >>> align(gold, Spans(*map(np.array, ([1, 4], [2, 4], [0, 1])))).tolist()
        [0, 1]
    """
    partners = np.full(len(predicted.start), -1)
    free = np.ones(len(gold.start), bool)
    place = np.searchsorted(gold.start, predicted.start)
    inside = np.flatnonzero(place < len(free))
    its = place[inside]
    equal = gold.start[its] == predicted.start[inside]
    equal &= gold.last[its] == predicted.last[inside]
    partners[inside[equal]] = its[equal]
    free[its[equal]] = False
    alone = np.flatnonzero(partners < 0)
    # The spans of one side never overlap, so their last tokens ascend, too.
    begins = np.searchsorted(gold.last, predicted.start[alone])
    ends = np.searchsorted(gold.start, predicted.last[alone], side="right")
    near = begins < ends
    rest = list(zip(alone[near].tolist(), begins[near], ends[near], strict=True))
    for of_one_type in (True, False):
        for i, begin, end in rest:
            if partners[i] >= 0:
                continue
            for j in range(begin, end):
                same = gold.type[j] == predicted.type[i]
                if free[j] and (same or not of_one_type):
                    partners[i], free[j] = j, False
                    break
    return partners


COLUMNS = ("strict", "exact", "overlap", "type", "predicted", "gold")
"""Columns of `counts`: spans that match in each way (any overlap), and all spans."""


def counts(labels: Coded, rule: str, scheme: str) -> np.ndarray:
    """Returns the partial matches of each sentence.

    Args:
        labels: Gold and predicted labels.
        rule: One of `rules.WITH_LENGTHS`.
        scheme: Scheme of the labels.

    Returns:
        Counts in the order of `COLUMNS`, `[sentences, 6]`.

    Raises:
        ValueError: As `reading.read`.
    """
    layout = labels.layout
    gold = reading.read(labels.gold, layout, rule, scheme)
    predicted = reading.read(labels.predicted, layout, rule, scheme)
    partners = align(gold, predicted)
    paired = np.flatnonzero(partners >= 0)
    theirs = reading.chosen(gold, partners[paired])
    ours = reading.chosen(predicted, paired)
    exact = (theirs.start == ours.start) & (theirs.last == ours.last)
    same = theirs.type == ours.type
    places = layout.sentence[ours.start]
    which = [places[exact & same], places[exact], places, places[same]]
    which += [layout.sentence[side.start] for side in (predicted, gold)]
    size = len(layout.lengths)
    return np.stack([np.bincount(x, minlength=size) for x in which], axis=1)
