"""The distinct words of a text as characters, so that a model reads each once.

A word is the bytes of its character ids (int32), so a long word does not lengthen
others. Shape letters: `T` tokens, `U` distinct words, `C` characters.
"""

from __future__ import annotations

import collections
import itertools
from collections.abc import Iterable, Sequence

import numpy as np

from jaxner.types import Sentence


def number(words: Iterable[bytes]) -> tuple[list[bytes], np.ndarray]:
    """Returns the distinct words of a text in order of occurrence, and their indices.

    Args:
        words: The word of each token.

    Returns:
        The distinct words, of which the first has no characters, and the index of each
        token's word, [T].

    Example:
        >>> unique, index = number([b"abcd", b"efgh", b"abcd"])
        >>> unique, index.tolist()
        ([b'', b'abcd', b'efgh'], [1, 2, 1])
    """
    numbers: dict[bytes, int] = collections.defaultdict(itertools.count().__next__)
    numbers[b""]
    index = np.array([numbers[word] for word in words], np.int32)
    return list(numbers), index


def merge(sentences: Sequence[Sentence]) -> tuple[list[bytes], list[np.ndarray]]:
    """Returns the distinct words of several sentences, and their indices.

    Args:
        sentences: Sentences without padding, as from `Vocabulary.encode`.

    Returns:
        The distinct words, of which the first has no characters, and for each sentence
        the indices of its tokens' words, [T].

    Example:
        >>> chars, ids = np.array([[0, 0], [5, 6], [5, 0]]), np.array([1, 2, 1])
        >>> one = Sentence(ids, chars, ids, ids > 0)
        >>> words, (index,) = merge([one])
        >>> rows(words, 2).tolist(), index.tolist()
        ([[0, 0], [5, 6], [5, 0]], [1, 2, 1])
    """
    numbers: dict[bytes, int] = collections.defaultdict(itertools.count().__next__)
    numbers[b""]
    index = []
    for sentence in sentences:
        count, width = sentence.chars.shape
        # As byte strings, NumPy drops the trailing zeros.
        chars = np.ascontiguousarray(sentence.chars, np.int32)
        spelled = chars.view(f"S{4 * width}").ravel().tolist() if width else [b""]
        known = np.array([numbers[word] for word in spelled[:count]], np.int32)
        index.append(known[sentence.char_index])
    return list(numbers), index


def length(word: bytes) -> int:
    """Returns the number of characters in a word."""
    return -(-len(word) // 4)


def rows(words: Sequence[bytes], width: int) -> np.ndarray:
    """Returns the character ids of words, [U, C].

    Args:
        words: Words from `number`.
        width: Number of characters, C; longer words are cut off.

    Example:
        >>> rows([b"", np.array([5, 6], np.int32).tobytes()], 3).tolist()
        [[0, 0, 0], [5, 6, 0]]
    """
    joined = b"".join([word[: 4 * width].ljust(4 * width, b"\0") for word in words])
    return np.frombuffer(joined, np.int32).reshape(len(words), width)


def once(index: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Returns each word index once, and the positions of the originals.

    Args:
        index: Indices of words, of any shape.

    Returns:
        The distinct indices and 0, ascending; and for each element of `index`, its
        position among these.

    Example:
        >>> words, where = once(np.array([[7, 0], [4, 7]]))
        >>> words.tolist(), where.tolist()
        ([0, 4, 7], [[2, 0], [1, 2]])
    """
    found, where = np.unique(np.append(index, 0), return_inverse=True)
    return found, where[:-1].reshape(index.shape).astype(np.int32)
