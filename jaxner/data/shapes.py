"""Chooses padded sizes: few programs to compile, and little padding.

All functions do arithmetic on sizes before padding: tokens, distinct words, and
characters of the longest word, [N, 3].
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

_WORTHWHILE = 1.05  # minimum ratio of costs without and with one more shape
_USUAL, _MORE = 0.98, 1.5  # a shape holds _MORE times the _USUAL quantile of characters


class Shape(NamedTuple):
    """The padded size of a block of sentences.

    Attributes:
        tokens: Tokens of each sentence.
        words: Distinct words of all sentences, including the empty word.
        chars: Characters of each word.
    """

    tokens: int
    words: int
    chars: int


def bounds(lengths: Sequence[int] | np.ndarray, count: int) -> list[int]:
    """Returns bounds that minimise the padding.

    Args:
        lengths: Length of each sequence.
        count: Maximum number of bounds.

    Returns:
        At most `count` ascending bounds; the last is the largest length. No other
        choice of as many bounds needs less padding.

    Example:
        >>> bounds([1, 1, 2, 9, 10], 2)
        [2, 10]
    """
    sizes, counts = np.unique(np.maximum(lengths, 1), return_counts=True)
    total = np.concatenate([[0], np.cumsum(counts)])
    # best[j]: cost of the sizes before j; each round adds a bound.
    best = np.concatenate([[0.0], np.full(len(sizes), np.inf)])
    choices = []
    for _ in range(min(count, len(sizes))):
        # A bound for sizes i..j pads all of them to size j.
        costs = best[:-1, None] + (total[None, 1:] - total[:-1, None]) * sizes[None, :]
        costs = np.where(np.tri(len(sizes), dtype=bool).T, costs, np.inf)
        choices.append(np.argmin(costs, axis=0))
        best = np.concatenate([[np.inf], np.min(costs, axis=0)])
    chosen, end = [], len(sizes)
    for choice in reversed(choices):
        chosen.append(int(sizes[end - 1]))
        end = int(choice[end - 1])
    return chosen[::-1]


def choose(sizes: np.ndarray, largest: Shape, count: int) -> list[Shape]:
    """Returns shapes of blocks, as few as keep the padding low.

    A shape holds the words and characters of nearly all blocks of its length; the other
    blocks use a longer shape. Most words are short, so only the two longest shapes hold
    the longest word of the corpus.

    Args:
        sizes: Tokens, distinct words and characters of a sample of blocks.
        largest: Shape that holds every block.
        count: Maximum number of shapes; returns fewer if another shape would save less
            than a twentieth of the token positions.

    Returns:
        Ascending shapes, the last of which is `largest`.

    Raises:
        ValueError: `count` is below 1.

    Example:
        >>> choose(np.array([[5, 4, 6], [9, 7, 6], [9, 7, 6]]), Shape(20, 30, 9), 3)
        [Shape(tokens=5, words=4, chars=6), Shape(tokens=9, words=7, chars=9), \
Shape(tokens=20, words=30, chars=9)]
    """
    if count < 1:
        raise ValueError(f"Expected at least 1 shape, got num_shapes={count}.")
    best, least = [largest], _positions(sizes, [largest])
    for number in range(2, count + 1):
        shapes = _shapes(sizes, largest, number)
        cost = _positions(sizes, shapes)
        if cost * _WORTHWHILE < least:
            best, least = shapes, cost
    return best


def _shapes(sizes: np.ndarray, largest: Shape, count: int) -> list[Shape]:
    tokens = bounds(np.append(sizes[:, 0], largest.tokens), count)
    shapes, below = [], 0
    for i, bound in enumerate(tokens[:-1]):
        inside = sizes[(sizes[:, 0] > below) & (sizes[:, 0] <= bound)]
        _, words, chars = inside.max(axis=0).tolist()
        if i < len(tokens) - 2:
            chars = min(chars, int(_MORE * np.quantile(inside[:, 2], _USUAL)))
        else:
            chars = largest.chars
        shapes.append(Shape(bound, words, chars))
        below = bound
    return [*shapes, largest]


def fit(size: Sequence[int], shapes: Sequence[Shape]) -> int:
    """Returns the index of the first shape that holds a block.

    Raises:
        ValueError: No shape holds the block.

    Example:
        >>> fit((5, 4, 8), [Shape(5, 4, 6), Shape(9, 9, 9)])
        1
    """
    for number, shape in enumerate(shapes):
        if all(need <= has for need, has in zip(size, shape, strict=True)):
            return number
    raise ValueError(f"No shape holds a block of {tuple(size)}; the largest: {shape}")


def _positions(sizes: np.ndarray, shapes: Sequence[Shape]) -> int:
    """Returns the number of token positions per row of the blocks, with padding."""
    return sum(shapes[fit(size, shapes)].tokens for size in sizes.tolist())
