"""Scores of groups of entities: by length, frequency in training, or unknown words.

A group's precision counts its predicted entities, its recall its gold entities. A
correct entity is in the same group on both sides.
"""

from __future__ import annotations

import collections
from collections.abc import Callable, Iterable, Sequence, Set
from typing import NamedTuple

from jaxner.data.schemes import Span, to_spans
from jaxner.evaluation.counts import Counts
from jaxner.evaluation.errors import Pair

Labels = Sequence[Sequence[str]]
Group = Callable[[int, Span], str]

LENGTHS = (1, 2)
"""Maximum length in tokens of the entities in each group but the last: 1, 2, 3+."""
SENTENCES = (7, 15, 22, 30)
"""Maximum length in tokens of the sentences in each group but the last (Gui et al.,
2020, Figure 3)."""
FREQUENCIES = (0, 1, 4, 19)
"""Maximum frequency in training of the entities in each group but the last."""
IN_TRAINING, IN_VECTORS, UNKNOWN = UNKNOWN_CLASSES = (
    "in training",
    "in the vectors only",
    "in neither",
)


class Row(NamedTuple):
    """A group of entities and its counts.

    Attributes:
        group: The name of the group.
        counts: Correct, predicted and gold entities.
    """

    group: str
    counts: Counts


def by_group(found: Iterable[Pair], group: Group, order: Sequence[str]) -> list[Row]:
    """Counts entities by group.

    Args:
        found: What `errors.pairs` returned.
        group: Maps a sentence's index and a span to the name of its group.
        order: The names of all groups.

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
            its = numbers[group(pair.sentence, pair.gold)]
            its[2] += 1
            its[0] += pair.kind is None
    return [Row(name, Counts(*its)) for name, its in numbers.items()]


def by_length(found: Iterable[Pair], bounds: Sequence[int] = LENGTHS) -> list[Row]:
    """Counts entities by their number of tokens."""
    names, name = ranges(bounds, 1)
    return by_group(found, lambda _, span: name(span.end - span.start), names)


def by_sentence_length(
    found: Iterable[Pair], gold: Labels, bounds: Sequence[int] = SENTENCES
) -> list[Row]:
    """Counts entities by the number of tokens in their sentence."""
    names, name = ranges(bounds, 1)
    return by_group(found, lambda where, _: name(len(gold[where])), names)


def mentions(tokens: Labels, labels: Labels) -> collections.Counter[str]:
    """Counts how often each string is an entity of a text.

    Args:
        tokens: The tokens of each sentence.
        labels: The labels of each sentence, in any scheme.
    """
    found: collections.Counter[str] = collections.Counter()
    for words, own in zip(tokens, labels, strict=True):
        found.update(" ".join(words[s.start : s.end]) for s in to_spans(own))
    return found


def by_frequency(
    found: Iterable[Pair],
    tokens: Labels,
    known: collections.Counter[str],
    bounds: Sequence[int] = FREQUENCIES,
) -> list[Row]:
    """Counts entities by how often their string is an entity in training.

    Args:
        found: What `errors.pairs` returned.
        tokens: The tokens of each sentence.
        known: What `mentions` returned for the training text.
        bounds: Maximum frequency in each group but the last, ascending.
    """
    names, name = ranges(bounds, 0)

    def group(where: int, span: Span) -> str:
        return name(known[" ".join(tokens[where][span.start : span.end])])

    return by_group(found, group, names)


def by_known_words(
    found: Iterable[Pair], tokens: Labels, known: Set[str], in_vectors: Set[str]
) -> list[Row]:
    """Counts entities by their least known word, after Ma and Hovy (2016).

    Args:
        found: What `errors.pairs` returned.
        tokens: The tokens of each sentence.
        known: Words of the training text.
        in_vectors: Words with a pretrained vector.
    """

    def group(where: int, span: Span) -> str:
        words = tokens[where][span.start : span.end]
        return UNKNOWN_CLASSES[max(word_class(w, known, in_vectors) for w in words)]

    return by_group(found, group, UNKNOWN_CLASSES)


def word_class(word: str, known: Set[str], in_vectors: Set[str]) -> int:
    """Returns the index of a word's class in `UNKNOWN_CLASSES`."""
    return 0 if word in known else 1 if word in in_vectors else 2


def ranges(bounds: Sequence[int], least: int) -> tuple[list[str], Callable[[int], str]]:
    """Returns the names of ranges, and a function from a number to its range's name.

    Args:
        bounds: The last number of each range but the last, ascending.
        least: The first number of the first range.

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

    def name(number: int) -> str:
        return names[sum(number > bound for bound in bounds)]

    return names, name
