"""The distinct words of a text, as characters, so that each is read once.

Shape letters: `T` tokens, `U` distinct words, `C` characters.
"""

from __future__ import annotations

import collections
import itertools
import math
from collections.abc import Sequence

import numpy as np

from jaxner.types import Sentence


def distinct(
    sentences: Sequence[Sentence],
) -> tuple[list[bytes], list[np.ndarray]]:
    """Finds the words that are spelled differently.

    Args:
        sentences: Without padding, as `Lexicon.encode` returns them.

    Returns:
        The character ids of each word, as the bytes of int32 without the zeros at their
        end, so that a long word makes no other one longer; `rows` gives them as an
        array. The first word has no characters, and so is that of padding and of
        separators. And for each sentence which of them its tokens are, [T].

    Example:
        >>> chars = np.array([[5, 6], [5, 0], [5, 6]])
        >>> ids = np.arange(2, 5)
        >>> words, places = distinct([Sentence(ids, chars, ids > 0)])
        >>> rows(words, 2).tolist(), places[0].tolist()
        ([[0, 0], [5, 6], [5, 0]], [1, 2, 1])
    """
    numbers: dict[bytes, int] = collections.defaultdict(itertools.count().__next__)
    places, number = [], numbers.__getitem__
    number(b"")
    for sentence in sentences:
        count, width = sentence.chars.shape
        # As strings NumPy gives them without the zeros at their end. Looking them up
        # takes no longer than comparing sums with random weights, and is exact.
        chars = np.ascontiguousarray(sentence.chars, np.int32)
        spelled = chars.view(f"S{4 * width}").ravel().tolist() if width else []
        found = map(number, spelled or itertools.repeat(b"", count))
        places.append(np.fromiter(found, np.int32, count))
    return list(numbers), places


def length(word: bytes) -> int:
    """Counts the characters of a word that `distinct` returned."""
    return -(-len(word) // 4)


def rows(words: Sequence[bytes], width: int) -> np.ndarray:
    """Gives the character ids of words, [U, C].

    Args:
        words: Those that `distinct` returned, or some of them.
        width: The characters of each, C; longer words are cut off.

    Example:
        >>> rows([b"", np.array([5, 6], np.int32).tobytes()], 3).tolist()
        [[0, 0, 0], [5, 6, 0]]
    """
    joined = b"".join([word[: 4 * width].ljust(4 * width, b"\0") for word in words])
    return np.frombuffer(joined, np.int32).reshape(len(words), width)


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


def rooms(places: np.ndarray, count: int) -> tuple[int, int]:
    """Foresees how many distinct words a batch has, the first word of all included.

    Args:
        places: Word numbers of each sentence, [N, T].
        count: Sentences in a batch.

    Returns:
        A number that hardly any random batch exceeds, and one that none does; the two
        are equal where the first would be hardly smaller.

    Example:
        >>> rooms(np.array([[1, 2], [3, 0], [3, 3]]), 2)
        (4, 4)
    """
    ordered = np.sort(places, axis=1)
    is_new = np.diff(ordered, axis=1, prepend=0) != 0  # 0 is counted at the end
    together = np.sort(is_new.sum(axis=1))[-count:].sum()
    most = 1 + int(min(together, np.count_nonzero(np.unique(places))))
    rng = np.random.default_rng(0)
    draws = [rng.permutation(len(places))[:count] for _ in range(64)]
    counts = [len(np.unique(places[rows])) for rows in draws]
    usual = 8 * math.ceil(1.1 * (max(counts) + 1) / 8)
    return (most if most <= 1.1 * usual else usual), most
