"""Errors of entities by kind: boundary, type, missed, spurious.

`alignment.align` pairs gold and predicted spans. A pair with equal boundaries and
different types is a type error, one with equal types and different boundaries a
boundary error. A gold span without a partner is missed, a predicted one spurious.
"""

from __future__ import annotations

import collections
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from jaxner.data.schemes import Span
from jaxner.evaluation import alignment, coded, reading
from jaxner.evaluation.coded import Labels

BOUNDARY, TYPE, BOTH, MISSED, SPURIOUS = KINDS = (
    "boundary",
    "type",
    "boundary and type",
    "missed",
    "spurious",
)
"""The kinds of errors."""
OUTSIDE = "O"
"""The type of a missing span, in confusions."""


class Pair(NamedTuple):
    """A gold span and its predicted partner; one of them may be None.

    Attributes:
        sentence: Index of the sentence, from 0.
        gold: The gold span; None if the predicted span is spurious.
        predicted: The predicted span; None if the gold span is missed.
    """

    sentence: int
    gold: Span | None
    predicted: Span | None

    @property
    def kind(self) -> str | None:
        """The kind of error, one of `KINDS`; None if both spans are equal.

        Example:
            >>> Pair(0, Span(0, 2, "A"), Span(0, 1, "A")).kind
            'boundary'
        """
        if self.gold is None or self.predicted is None:
            return SPURIOUS if self.gold is None else MISSED
        moved = self.gold[:2] != self.predicted[:2]
        if self.gold.type != self.predicted.type:
            return BOTH if moved else TYPE
        return BOUNDARY if moved else None

    @property
    def name(self) -> str:
        """The error in words, with its types.

        Example:
            >>> Pair(0, Span(0, 2, "A"), Span(0, 1, "B")).name
            'boundary and type: A as B'
        """
        gold, predicted = self.gold, self.predicted
        if gold is None or predicted is None:
            return f"{self.kind}: {(gold or predicted).type}"  # type: ignore[union-attr]
        if gold.type == predicted.type:
            return f"{self.kind}: {gold.type}"
        return f"{self.kind}: {gold.type} as {predicted.type}"


def pairs(
    gold: Labels, predicted: Labels, rule: str = "conlleval", scheme: str = "BIOES"
) -> list[Pair]:
    """Pairs the spans of both sides, from left to right.

    Args:
        gold: The gold labels of each sentence.
        predicted: The predicted labels of each sentence.
        rule: One of `rules.WITH_LENGTHS`.
        scheme: Scheme of the labels.

    Returns:
        Pairs with every span of both sides, each once.

    Raises:
        ValueError: As `scoring.score`; or the rule has spans without a length.

    Example:
        >>> found = pairs([["S-A", "O", "S-B"]], [["S-B", "S-A", "O"]])
        >>> [pair.name for pair in found]
        ['type: A as B', 'spurious: A', 'missed: B']
    """
    if rule not in reading.WITH_LENGTHS:
        raise ValueError(
            f"Under rule {rule!r} not every span has a length; take one of "
            f"{', '.join(reading.WITH_LENGTHS)}"
        )
    labels = coded.code(gold, predicted)
    sides = [
        reading.read(side, labels.layout, rule, scheme)
        for side in (labels.gold, labels.predicted)
    ]
    partners = alignment.align(*sides)
    listed = [_spans(side, labels) for side in sides]
    found = [(listed[0][j] if j >= 0 else None) for j in partners.tolist()]
    rows = [
        Pair(where, right and right[1], span)
        for (where, span), right in zip(listed[1], found, strict=True)
    ]
    free = np.setdiff1d(np.arange(len(listed[0])), partners)
    rows += [Pair(listed[0][j][0], listed[0][j][1], None) for j in free.tolist()]
    return sorted(rows, key=_place)


def counts(found: Sequence[Pair]) -> dict[str, int]:
    """Counts errors of each kind.

    Example:
        >>> counts([Pair(0, Span(0, 1, "A"), None)])["missed"]
        1
    """
    numbers = collections.Counter(pair.kind for pair in found)
    return {kind: numbers[kind] for kind in KINDS}


def largest(found: Sequence[Pair]) -> list[tuple[str, int]]:
    """Counts errors of each kind and type, most frequent first."""
    numbers = collections.Counter(pair.name for pair in found if pair.kind)
    return sorted(numbers.items(), key=lambda item: (-item[1], item[0]))


def confusion(found: Sequence[Pair], types: Sequence[str]) -> np.ndarray:
    """Counts the pairs of each gold and predicted type; boundaries may differ.

    Args:
        found: What `pairs` returned.
        types: The entity types.

    Returns:
        Counts from gold type (row) to predicted type (column), `[K + 1, K + 1]` for K
        types. The last column counts missed spans, the last row spurious ones.

    Example:
        >>> confusion([Pair(0, Span(0, 1, "A"), None)], ["A"]).tolist()
        [[0, 1], [0, 0]]
    """
    places = {kind: i for i, kind in enumerate(types)}
    table = np.zeros((len(types) + 1, len(types) + 1), np.int64)
    for pair in found:
        row, column = (
            len(types) if span is None else places[span.type]
            for span in (pair.gold, pair.predicted)
        )
        table[row, column] += 1
    return table


def _place(pair: Pair) -> tuple[int, int]:
    span = pair.predicted if pair.gold is None else pair.gold
    return pair.sentence, span.start if span else 0


def _spans(side: reading.Spans, labels: coded.Coded) -> list[tuple[int, Span]]:
    """Returns each span's sentence and the span, with positions in the sentence."""
    sentence = labels.layout.sentence[side.start]
    offsets = labels.layout.offsets[sentence]
    rows = zip(
        sentence.tolist(),
        (side.start - offsets).tolist(),
        (side.last - offsets + 1).tolist(),
        side.type.tolist(),
        strict=True,
    )
    return [(where, Span(a, b, labels.types[kind])) for where, a, b, kind in rows]
