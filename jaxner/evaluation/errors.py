"""Errors of entities by kind, scores of groups of entities, and changed tokens.

Gold and predicted spans of a sentence are paired: first those with equal boundaries,
then overlaps with equal types, then other overlaps, each from left to right. A pair
with equal boundaries and different types is a type error, one with equal types and
different boundaries a boundary error. A gold span without a partner is missed, a
predicted one spurious.

Source: Segura-Bedmar, Martínez and Herrero-Zazo, "SemEval-2013 Task 9" (2013), for the
matches; the task does not say how to pair several overlapping spans.
"""

from __future__ import annotations

import collections
from collections.abc import Callable, Iterable, Sequence, Set
from itertools import chain
from typing import NamedTuple

import numpy as np

from jaxner.data.schemes import Span, to_spans
from jaxner.errors import InputError
from jaxner.evaluation import scoring
from jaxner.evaluation.scoring import Counts, Labels

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
LENGTHS = (1, 2)
"""Maximum length in tokens of the entities in each group but the last: 1, 2, 3+."""
SENTENCES = (7, 15, 22, 30)
"""Maximum length in tokens of the sentences in each group but the last (Gui et al.,
2020, Figure 3, whose text gives only the bounds 15 and 30)."""
MENTIONS = (1, 2, 3, 4)
"""Maximum length in tokens of the mentions in each group but the last (Li et al.)."""
FREQUENCIES = (0, 1, 4, 19)
"""Maximum frequency in training of the entities in each group but the last."""
WORD_CLASSES = ("in training", "in the vectors only", "in neither")
"""What is known of a word, the best first."""


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
        types = [span.type for span in (self.gold, self.predicted) if span]
        return f"{self.kind}: {' as '.join(dict.fromkeys(types))}"


def align(gold: Sequence[Span], predicted: Sequence[Span]) -> list[Span | None]:
    """Returns the gold partner of each predicted span of a sentence; None without one.

    Example:
        >>> spans = [Span(0, 2, "A"), Span(4, 5, "A")]
        >>> align(spans, [Span(1, 3, "A"), Span(4, 5, "B"), Span(6, 7, "B")])
        [Span(start=0, end=2, type='A'), Span(start=4, end=5, type='A'), None]
    """
    partners: list[Span | None] = [None] * len(predicted)
    free = {span[:2]: span for span in gold}
    for i, span in enumerate(predicted):
        partners[i] = free.pop(span[:2], None)
    for same_type in (True, False):
        for i, span in enumerate(predicted):
            if partners[i] is None:
                for other in free.values():
                    overlaps = other.start < span.end and span.start < other.end
                    if overlaps and (span.type == other.type or not same_type):
                        partners[i] = free.pop(other[:2])
                        break
    return partners


def pairs(
    gold: Labels, predicted: Labels, rule: str = "conlleval", scheme: str = "BIOES"
) -> list[Pair]:
    """Pairs the spans of both sides, from left to right.

    Args:
        gold: The gold labels of each sentence.
        predicted: The predicted labels of each sentence.
        rule: One of `scoring.WITH_LENGTHS`.
        scheme: Scheme of the labels.

    Returns:
        Pairs with every span of both sides, each once.

    Raises:
        InputError: As `scoring.score`; or the rule has spans without a length.

    Example:
        >>> found = pairs([["S-A", "O", "S-B"]], [["S-B", "S-A", "O"]])
        >>> [pair.name for pair in found]
        ['type: A as B', 'spurious: A', 'missed: B']
    """
    if rule not in scoring.WITH_LENGTHS:
        raise InputError(
            f"Under rule {rule!r} not every span has a length; take one of "
            f"{', '.join(scoring.WITH_LENGTHS)}"
        )
    scoring.check_labels(gold, predicted, scheme)
    read = scoring.reader(rule, scheme)
    found = []
    for i, sides in enumerate(zip(gold, predicted, strict=True)):
        right, guessed = map(read, sides)
        partners = align(right, guessed)
        rows = [Pair(i, *x) for x in zip(partners, guessed, strict=True)]
        rows += [Pair(i, span, None) for span in right if span not in partners]
        found += sorted(rows, key=_place)
    return found


def _place(pair: Pair) -> int:
    span = pair.predicted if pair.gold is None else pair.gold
    return span.start if span else 0


def counts(found: Iterable[Pair]) -> dict[str, int]:
    """Counts errors of each kind.

    Example:
        >>> counts([Pair(0, Span(0, 1, "A"), None)])["missed"]
        1
    """
    numbers = collections.Counter(pair.kind for pair in found)
    return {kind: numbers[kind] for kind in KINDS}


def largest(found: Iterable[Pair]) -> list[tuple[str, int]]:
    """Counts errors of each kind and type, most frequent first."""
    numbers = collections.Counter(pair.name for pair in found if pair.kind)
    return sorted(numbers.items(), key=lambda item: (-item[1], item[0]))


def confusion(found: Iterable[Pair], types: Sequence[str]) -> np.ndarray:
    """Counts the pairs of each gold and predicted type; boundaries may differ.

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
            places[span.type] if span else len(types)
            for span in (pair.gold, pair.predicted)
        )
        table[row, column] += 1
    return table


MATCHES = ("strict", "exact", "partial", "type")
"""Equal boundaries and type; equal boundaries; overlap, which counts half unless the
boundaries are equal; overlap with equal types."""


def matches(found: Iterable[Pair], sentences: int) -> dict[str, np.ndarray]:
    """Returns the matches and spans of each sentence, by name `[sentences]`."""
    listed = list(found)
    both = [pair for pair in listed if pair.gold and pair.predicted]
    chosen = {
        "strict": [pair for pair in both if pair.kind is None],
        "exact": [pair for pair in both if pair.kind in (None, TYPE)],
        "overlap": both,
        "type": [pair for pair in both if pair.kind in (None, BOUNDARY)],
        "predicted": [pair for pair in listed if pair.predicted],
        "gold": [pair for pair in listed if pair.gold],
    }
    return {
        name: np.bincount(
            np.array([pair.sentence for pair in pairs], np.int64), minlength=sentences
        )
        for name, pairs in chosen.items()
    }


# --- Groups of entities ---------------------------------------------------------------


class Row(NamedTuple):
    """A group of entities or sentences, and its counts.

    Precision counts the group's predicted entities, recall its gold entities. A correct
    entity is in the same group on both sides.

    Attributes:
        group: The name of the group.
        counts: Correct, predicted and gold entities; for tags, tokens.
        items: Number of sentences, or of gold entities, in the group.
    """

    group: str
    counts: Counts
    items: int


def by_group(
    found: Iterable[Pair], group: Callable[[int, Span], str], order: Sequence[str]
) -> list[Row]:
    """Counts entities by group.

    `group` maps a sentence's index and a span to one of the names in `order`.

    Example:
        >>> rows = by_group([Pair(0, Span(0, 2, "A"), None)], lambda i, s: s.type, "A")
        >>> rows[0].counts.gold
        1
    """
    numbers = {name: [0, 0, 0] for name in order}
    for pair in found:
        if pair.predicted is not None:
            numbers[group(pair.sentence, pair.predicted)][1] += 1
        if pair.gold is not None:
            row = numbers[group(pair.sentence, pair.gold)]
            row[2] += 1
            row[0] += pair.kind is None
    return [Row(name, Counts(*row), row[2]) for name, row in numbers.items()]


def by_length(found: Iterable[Pair], bounds: Sequence[int] = LENGTHS) -> list[Row]:
    """Counts entities by their number of tokens."""
    names, name = ranges(bounds, 1)
    return by_group(found, lambda _, span: name(span.end - span.start), names)


def by_sentence_length(
    spans: np.ndarray, gold: Labels, bounds: Sequence[int] = SENTENCES
) -> list[Row]:
    """Counts entities by the number of tokens in their sentence.

    `spans` is what `scoring.count` returned; `bounds` ascend from 1.

    Example:
        >>> gold, predicted = [["S-LOC"], ["O", "S-PER"]], [["O"], ["O", "S-PER"]]
        >>> rows = by_sentence_length(scoring.count(gold, predicted), gold, [1])
        >>> [(row.group, row.counts.f1) for row in rows]
        [('1', 0.0), ('2+', 1.0)]
    """
    if list(bounds) != sorted(set(bounds)) or min(bounds, default=1) < 1:
        raise InputError(f"Expected ascending bounds from 1, got {list(bounds)}")
    names, _ = ranges(bounds, 1)
    places = np.searchsorted(bounds, [len(labels) for labels in gold])
    chosen = [places == i for i in range(len(names))]
    return [
        Row(name, scoring.total(spans[which]), int(which.sum()))
        for name, which in zip(names, chosen, strict=True)
    ]


def mentions(tokens: Labels, labels: Labels) -> collections.Counter[str]:
    """Counts how often each string is an entity of a text."""
    found: collections.Counter[str] = collections.Counter()
    for words, row in zip(tokens, labels, strict=True):
        found.update(" ".join(words[s.start : s.end]) for s in to_spans(row))
    return found


def by_frequency(
    found: Iterable[Pair], tokens: Labels, known: collections.Counter[str]
) -> list[Row]:
    """Counts entities by how often their string is an entity in training.

    `known` is what `mentions` returned for the training text.
    """
    names, name = ranges(FREQUENCIES, 0)

    def group(where: int, span: Span) -> str:
        return name(known[" ".join(tokens[where][span.start : span.end])])

    return by_group(found, group, names)


def by_known_words(
    found: Iterable[Pair], tokens: Labels, known: Set[str], in_vectors: Set[str]
) -> list[Row]:
    """Counts entities by their least known word, after Ma and Hovy (2016).

    `known` are words of the training text, `in_vectors` have a pretrained vector.
    """

    def unknown(word: str) -> int:
        return 0 if word in known else 1 if word in in_vectors else 2

    def group(where: int, span: Span) -> str:
        return WORD_CLASSES[max(map(unknown, tokens[where][span.start : span.end]))]

    return by_group(found, group, WORD_CLASSES)


def ranges(bounds: Sequence[int], least: int) -> tuple[list[str], Callable[[int], str]]:
    """Returns the names of ranges, and a function from a number to its range's name.

    Example:
        >>> names, name = ranges([1, 4], 1)
        >>> names, name(3), name(9)
        (['1', '2–4', '5+'], '2–4', '5+')
    """
    firsts = [least, *(bound + 1 for bound in bounds)]
    names = [
        str(first) if first == last else f"{first}–{last}"
        for first, last in zip(firsts, bounds, strict=False)
    ]
    names.append(f"{firsts[-1]}+")
    return names, lambda number: names[sum(number > bound for bound in bounds)]


# --- Tokens ---------------------------------------------------------------------------


class Recall(NamedTuple):
    """Numbers of tokens, and of those found."""

    gold: int
    found: int

    @property
    def share(self) -> float | None:
        """The recall, from 0 to 1; None without such tokens."""
        return scoring.ratio(self.found, self.gold)


def chunk_recall(gold: Labels, predicted: Labels) -> dict[str, Recall]:
    """Returns how often each prefix is found at the right token, for any type.

    Returns:
        For each prefix of the gold labels (O, S, B, I, E in BIOES), its recall.

    Example:
        >>> found = chunk_recall([["B-PER", "E-PER", "O"]], [["B-LOC", "O", "O"]])
        >>> {prefix: recall.share for prefix, recall in found.items()}
        {'O': 1.0, 'B': 1.0, 'E': 0.0}

    References:
        Li, Fu and Ma (2020), section "Entity-Chunking".
    """
    scoring.check_labels(gold, predicted)
    sides = (chain.from_iterable(side) for side in (gold, predicted))
    numbers = collections.Counter((a[0], b[0]) for a, b in zip(*sides, strict=True))
    found = {
        prefix: Recall(
            sum(n for (a, _), n in numbers.items() if a == prefix),
            numbers[prefix, prefix],
        )
        for prefix in "OSUBIEL"
    }
    return {prefix: recall for prefix, recall in found.items() if recall.gold}


class Changes(NamedTuple):
    """Counts of tokens whose label changed (Gui et al., 2020, Table 1).

    Attributes:
        mended: Wrong before, right after.
        broken: Right before, wrong after.
        moved: Wrong before and after, with different labels.
        mended_uncertainty: Mean uncertainty of mended tokens; nan without any.
        broken_uncertainty: Mean uncertainty of broken tokens; nan without any.
    """

    mended: int
    broken: int
    moved: int
    mended_uncertainty: float
    broken_uncertainty: float


def changes(
    gold: Labels, before: Labels, after: Labels, uncertainty: np.ndarray
) -> Changes:
    """Returns the changes between two labellings.

    Args:
        gold: The gold labels of each sentence.
        before: The labels before the change.
        after: The labels after it.
        uncertainty: Uncertainty of each token of all sentences, `[N]`.

    Example:
        >>> gold, before, after = ["ABC"], ["ACB"], ["BBA"]
        >>> changes(gold, before, after, np.array([0.1, 0.9, 0.5]))[:3]
        (1, 1, 1)
    """
    sides = [np.array(list(chain(*side)), object) for side in (gold, before, after)]
    sizes = [*map(len, sides), np.size(uncertainty)]
    if len(set(sizes)) > 1:
        raise InputError(
            "Expected as many gold labels, labels before and after, and uncertainties, "
            f"got {', '.join(map(str, sizes))}"
        )
    right, old, new = sides
    mended = (old != right) & (new == right)
    broken = (old == right) & (new != right)
    moved = (old != right) & (new != right) & (old != new)
    means = [
        float(np.mean(uncertainty[x])) if x.any() else float("nan")
        for x in (mended, broken)
    ]
    return Changes(*(int(x.sum()) for x in (mended, broken, moved)), *means)
