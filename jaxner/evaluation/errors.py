"""Errors of entities by kind, and scores of groups of entities.

Gold and predicted spans of a sentence are paired: first those with equal boundaries,
then overlaps with equal types, then other overlaps, each from left to right. A pair
with equal boundaries and different types is a type error, one with equal types and
different boundaries a boundary error. A gold span without a partner is missed, a
predicted one spurious.

Source: Segura-Bedmar, Martínez and Herrero-Zazo, "SemEval-2013 Task 9" (2013), for the
matches; the task does not say how to pair several overlapping spans.
"""

from __future__ import annotations

import bisect
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from itertools import chain
from typing import NamedTuple

import numpy as np

from jaxner import fields
from jaxner.data.formats import Example
from jaxner.data.schemes import Span, to_spans
from jaxner.evaluation import scoring
from jaxner.evaluation.scoring import Counts, Labels

KINDS = ("boundary", "type", "boundary and type", "missed", "spurious")
"""The kinds of errors."""
BOUNDARY, TYPE, BOTH, MISSED, SPURIOUS = KINDS
OUTSIDE = "no entity"  # in confusions; a type may be called O
# Maxima of the groups of entities, but for the last group of each kind.
LENGTHS = (1, 2, 3, 4)  # tokens (Li et al.)
# Tokens of the sentence (Gui et al., 2020, Figure 3, whose text has only 15 and 30).
SENTENCES = (7, 15, 22, 30)
FREQUENCIES = (0, 1, 4, 19)  # in training


class Pair(NamedTuple):
    """A gold span (None: spurious) and a predicted one (None: missed) of a sentence."""

    sentence: int
    gold: Span | None
    predicted: Span | None

    @property
    def kind(self) -> str | None:
        """The kind of error, one of `KINDS`; None if both spans are equal."""
        if self.gold is None or self.predicted is None:
            return SPURIOUS if self.gold is None else MISSED
        is_moved = self.gold[:2] != self.predicted[:2]
        if self.gold.type != self.predicted.type:
            return BOTH if is_moved else TYPE
        return BOUNDARY if is_moved else None

    @property
    def spans(self) -> list[Span]:
        """The one or two spans."""
        return [span for span in (self.gold, self.predicted) if span]

    @property
    def name(self) -> str:
        """The error in words, with its types, such as "boundary and type: A as B"."""
        types = dict.fromkeys(span.type for span in self.spans)
        return f"{self.kind}: {' as '.join(types)}"


def align(gold: Sequence[Span], predicted: Sequence[Span]) -> list[Span | None]:
    """Returns the gold partner of each predicted span, or None, of a sentence.

    The spans of a side are in order and do not overlap.
    """
    free = {span[:2]: span for span in gold}
    starts, ends = ([span[side] for span in gold] for side in (0, 1))
    partners = [free.pop(span[:2], None) for span in predicted]
    for same_type in (True, False):
        for i, span in enumerate(predicted):
            if partners[i] is None:
                first = bisect.bisect_right(ends, span.start)
                for candidate in gold[first : bisect.bisect_left(starts, span.end)]:
                    is_fit = span.type == candidate.type or not same_type
                    if is_fit and free.pop(candidate[:2], None):
                        partners[i] = candidate
                        break
    return partners


def pairs(
    gold: Labels, predicted: Labels, rule: str = "conlleval", scheme: str = "BIOES"
) -> list[Pair]:
    """Pairs the spans of both sides, each once, from left to right.

    Raises:
        InputError: As `scoring.score`; or the rule is not in `scoring.WITH_LENGTHS`.

    Example:
        >>> matches = pairs([["S-A", "O", "S-B"]], [["S-B", "S-A", "O"]])
        >>> [pair.name for pair in matches]
        ['type: A as B', 'spurious: A', 'missed: B']
    """
    note = "under others, not every span has a length"
    fields.check_word("rule of pairs", rule, scoring.WITH_LENGTHS, note)
    scoring.check_labels(gold, predicted, scheme)
    read = scoring.reader(rule, scheme)
    result = []
    for i, sides in enumerate(zip(gold, predicted, strict=True)):
        right, guesses = map(read, sides)
        partners = align(right, guesses)
        rows = [Pair(i, *x) for x in zip(partners, guesses, strict=True)]
        missed_spans = {*right} - {*partners}
        rows += [Pair(i, span, None) for span in right if span in missed_spans]
        result += sorted(rows, key=lambda pair: pair.spans[0].start)
    return result


def counts(alignment: Iterable[Pair]) -> dict[str, int]:
    """Counts errors of each kind."""
    numbers = Counter(pair.kind for pair in alignment)
    return {kind: numbers[kind] for kind in KINDS}


def largest(alignment: Iterable[Pair]) -> list[tuple[str, int]]:
    """Counts errors of each kind and type, most frequent first."""
    numbers = Counter(pair.name for pair in alignment if pair.kind)
    return sorted(numbers.items(), key=lambda item: (-item[1], item[0]))


def confusion(alignment: Iterable[Pair]) -> dict[str, dict[str, int]]:
    """Counts pairs by gold type and predicted type; boundaries may differ.

    `OUTSIDE` stands for the gold span of spurious ones, the predicted one of missed; it
    is absent if there are neither, as among tags.
    """
    kinds = ([x.type if x else OUTSIDE for x in pair[1:]] for pair in alignment)
    cells = Counter((gold, predicted) for gold, predicted in kinds)
    types = sorted({*chain(*cells)}, key=lambda x: (x == OUTSIDE, x))
    return {x: {y: cells[x, y] for y in types} for x in types}


MATCHES: dict[str, dict[str | None, float]] = {
    "strict": {None: 1.0},
    "exact": {None: 1.0, TYPE: 1.0},
    "partial": {None: 1.0, TYPE: 1.0, BOUNDARY: 0.5, BOTH: 0.5},
    "type": {None: 1.0, BOUNDARY: 1.0},
}
"""How much a pair counts by its kind: equal boundaries and type; equal boundaries;
overlap, which counts half unless the boundaries are equal; overlap with equal types."""


def matches(alignment: Iterable[Pair], sentences: int) -> dict[str, np.ndarray]:
    """Returns correct, predicted and gold spans by each match, `[sentences, 3]`."""
    rows = [(pair.sentence, pair.kind) for pair in alignment]
    indices = np.array([sentence for sentence, _ in rows], np.int64)

    def total(points: list) -> np.ndarray:
        return np.bincount(indices, np.array(points, float), sentences)

    predicted, gold = (total([x != kind for _, x in rows]) for kind in KINDS[3:])
    return {
        name: np.stack([total([points.get(x, 0) for _, x in rows]), predicted, gold], 1)
        for name, points in MATCHES.items()
    }


# --- Groups of entities ---------------------------------------------------------------


def by_range(
    alignment: Iterable[Pair],
    bounds: Sequence[int],
    number: Callable[[int, Span], int],
    least: int = 1,
) -> dict[str, Counts]:
    """Counts entities by a number, such as a length, in ranges up to each bound."""
    firsts = least, *(x + 1 for x in bounds)
    ranges = zip(firsts, bounds, strict=False)
    names = [str(x) if x == last else f"{x}–{last}" for x, last in ranges]
    names.append(f"{firsts[-1]}+")
    cells: Counter[tuple[str, str | None]] = Counter()
    for pair in alignment:
        gold, predicted = (
            span and names[bisect.bisect_left(bounds, number(pair.sentence, span))]
            for span in (pair.gold, pair.predicted)
        )
        cells.update([("gold", gold), ("predicted", predicted)])
        cells["correct", gold] += pair.kind is None
    sides = Counts._fields
    return {name: Counts(*(cells[side, name] for side in sides)) for name in names}


def by_length(alignment: Iterable[Pair]) -> dict[str, Counts]:
    """Counts entities by their number of tokens."""
    return by_range(alignment, LENGTHS, lambda _, span: span.end - span.start)


def by_sentence_length(alignment: Iterable[Pair], gold: Labels) -> dict[str, Counts]:
    """Counts entities by the number of tokens in their sentence."""
    return by_range(alignment, SENTENCES, lambda sentence, _: len(gold[sentence]))


def by_frequency(
    alignment: Iterable[Pair], tokens: Labels, training: Iterable[Example]
) -> dict[str, Counts]:
    """Counts entities by how often the same string is an entity in training."""
    occurrences = Counter(
        " ".join(example.tokens[span.start : span.end])
        for example in training
        for span in to_spans(example.labels)
    )

    def frequency(sentence: int, span: Span) -> int:
        return occurrences[" ".join(tokens[sentence][span.start : span.end])]

    return by_range(alignment, FREQUENCIES, frequency, least=0)
