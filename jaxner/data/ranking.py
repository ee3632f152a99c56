"""The order of a vocabulary's words: trained, occurring once, frozen."""

from __future__ import annotations

import collections
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from jaxner.data import features
from jaxner.data.vectors import Vectors
from jaxner.types import WordVectors


class Ranks(NamedTuple):
    """The words of a vocabulary in the order of their ids.

    Attributes:
        trained: Words with trained vectors, the most frequent first.
        frozen: All others.
        first_once: Index in `trained + frozen` of the first word that occurs once in
            the training text.
        num_once: Number of such words, which are consecutive.
    """

    trained: list[str]
    frozen: list[str]
    first_once: int
    num_once: int


def counted(
    tokens: collections.Counter[str], change: Callable[[str], str]
) -> collections.Counter[str]:
    """Returns the counts of tokens after a change, such as lower-casing.

    Example:
        >>> counted(collections.Counter({"Rome": 2, "rome": 1}), str.lower)
        Counter({'rome': 3})
    """
    counts: collections.Counter[str] = collections.Counter()
    for token, count in tokens.items():
        counts[change(token)] += count
    return counts


def rank(
    tokens: collections.Counter[str],
    given: Sequence[str],
    frequent: Sequence[str] | None,
    case: tuple[bool, bool],
) -> Ranks:
    """Returns the words of a vocabulary in the order of their ids.

    Only words that some training token maps to can receive gradients; these are the
    trained words. Words that occur once are the last of them. If no word is trained,
    words that occur once come first.

    Args:
        tokens: Normalised tokens of the training text.
        given: Words with a vector, in the order of their file.
        frequent: Training words to include even without a vector; None to train no
            vector and include only the given words.
        case: As in `features.look_up`.

    Example:
        >>> tokens = collections.Counter(["a", "b", "a", "c"])
        >>> rank(tokens, ["x", "c"], ["a"], (False, False))
        Ranks(trained=['a', 'c'], frozen=['x'], first_once=1, num_once=1)
        >>> rank(tokens, ["x", "c"], None, (False, False))
        Ranks(trained=[], frozen=['c', 'x'], first_once=0, num_once=1)
    """
    known = dict.fromkeys((*given, *(frequent or ())))
    used: collections.Counter[str] = collections.Counter()
    for token, count in tokens.items():
        found = features.look_up(token, known, case)
        if found is not None:
            used[found] += count
    once = sum(count == 1 for count in used.values())
    if frequent is None:
        return Ranks([], sorted(given, key=lambda word: used[word] != 1), 0, once)
    trained = sorted(used, key=lambda word: (-used[word], word))
    frozen = [word for word in given if word not in used]
    return Ranks(trained, frozen, len(trained) - once, once)


def align(
    words: Sequence[str],
    num_trained: int,
    vectors: Vectors,
    given: Mapping[str, int],
    counts: collections.Counter[str],
    case: tuple[bool, bool],
) -> WordVectors:
    """Returns the vectors of a file in the order of a vocabulary's words.

    Args:
        words: Words of the vocabulary.
        num_trained: Number of trained words, which come first.
        vectors: Vectors of the file.
        given: Index of each word in the file.
        counts: Counts of words in the training text.
        case: As in `features.look_up`.
    """
    sources = [features.look_up(word, given, case) for word in words[:num_trained]]
    rows = np.array([i for i, word in enumerate(sources) if word is not None], np.int64)
    trained = vectors.values[[given[word] for word in sources if word is not None]]
    frozen = vectors.values[[given[word] for word in words[num_trained:]]]
    matched = {w for w in counts if features.look_up(w, given, case) is not None}
    return WordVectors(
        rows=rows,
        trained=trained,
        frozen=frozen,
        types_matched=len(matched) / max(len(counts), 1),
        tokens_matched=sum(counts[w] for w in matched) / max(counts.total(), 1),
    )
