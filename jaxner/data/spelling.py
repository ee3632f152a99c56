"""The distinct words of a text, as characters, so that each is read once.

Shape letters: `T` tokens, `U` distinct words, `C` characters.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np

from jaxner.types import Sentence


def distinct(
    sentences: Sequence[Sentence],
) -> tuple[np.ndarray, list[np.ndarray]]:
    """Finds the words that are spelled differently.

    Args:
        sentences: Without padding, as `Lexicon.encode` returns them.

    Returns:
        The character ids of each word, [U, C], C being the length of the longest one;
        the first has no characters, and so is that of padding and of separators. And
        for each sentence which of them its tokens are, [T].

    Example:
        >>> chars = np.array([[5, 6], [5, 0], [5, 6]])
        >>> ids = np.arange(2, 5)
        >>> words, places = distinct([Sentence(ids, chars, ids > 0)])
        >>> words.tolist(), places[0].tolist()
        ([[0, 0], [5, 6], [5, 0]], [1, 2, 1])
    """
    width = max((s.chars.shape[1] for s in sentences), default=1)
    ends = np.cumsum([1, *(len(s.chars) for s in sentences)])
    rows = np.zeros((ends[-1], width), np.int32)  # the first one has no characters
    for sentence, end in zip(sentences, ends[1:], strict=True):
        count, own = sentence.chars.shape
        rows[end - count : end, :own] = sentence.chars
    first, where = _classes(rows)
    places = [where[a:b].astype(np.int32) for a, b in itertools.pairwise(ends)]
    return rows[first], places


def _classes(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Finds equal rows: the first of each class, and the class of each.

    Rows are compared by a sum with random weights, in integers that wrap round, which
    takes a tenth of the time of comparing them in full. Should two that differ have the
    same sum, they are compared in full.
    """
    weights = np.random.default_rng(0).integers(0, 2**63, rows.shape[1], np.uint64)
    sums = rows.astype(np.uint64) @ weights
    _, first, where = np.unique(sums, return_index=True, return_inverse=True)
    if not np.array_equal(rows[first[where]], rows):
        _, first, where = np.unique(
            rows, axis=0, return_index=True, return_inverse=True
        )
    # In the order in which they occur.
    order = np.argsort(first)
    rank = np.empty_like(order)
    rank[order] = np.arange(len(order))
    return first[order], rank[where.ravel()]


def once(places: np.ndarray, room: int) -> tuple[np.ndarray, np.ndarray] | None:
    """Takes each of some words once.

    Args:
        places: Word numbers, of any shape.
        room: How many there may be; the rest is filled up with the first word of all.

    Returns:
        The numbers that occur, and 0; and for each place which of those it is. None if
        there are more of them than room.

    Example:
        >>> words, where = once(np.array([[7, 0], [4, 7]]), 4)
        >>> words.tolist(), where.tolist()
        ([0, 4, 7, 0], [[2, 0], [1, 2]])
    """
    found, where = np.unique(np.append(places, 0), return_inverse=True)
    if len(found) > room:
        return None
    padded = np.zeros(room, np.int32)
    padded[: len(found)] = found
    return padded, where[:-1].reshape(places.shape).astype(np.int32)
