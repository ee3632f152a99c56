"""Padded sizes, so few that little is compiled, and so many that little is padded.

Everything here is arithmetic on the sizes of sentences: tokens and characters, [N, 2].
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

_WORTHWHILE = 0.01  # share of the positions that one more program has to save


class Shape(NamedTuple):
    """The padded size of a sentence: tokens, and characters of each."""

    tokens: int
    chars: int


def bounds(lengths: Sequence[int] | np.ndarray, count: int) -> list[int]:
    """Chooses bucket bounds that minimise the padding.

    Args:
        lengths: One for each sentence.
        count: How many buckets there may be.

    Returns:
        At most `count` ascending bounds; the last is the largest length. Padding every
        length to the next bound costs as little as any such choice.

    Example:
        >>> bounds([1, 1, 2, 9, 10], 2)
        [2, 10]
    """
    sizes, counts = np.unique(np.maximum(lengths, 1), return_counts=True)
    total = np.concatenate([[0], np.cumsum(counts)])
    # best[j]: cost of the sizes before j; one more bucket each round.
    best = np.concatenate([[0.0], np.full(len(sizes), np.inf)])
    choices = []
    for _ in range(min(count, len(sizes))):
        # A bucket that holds sizes i..j pads all of them to size j.
        costs = best[:-1, None] + (total[None, 1:] - total[:-1, None]) * sizes[None, :]
        costs = np.where(np.tri(len(sizes), dtype=bool).T, costs, np.inf)
        choices.append(np.argmin(costs, axis=0))
        best = np.concatenate([[np.inf], np.min(costs, axis=0)])
    chosen, end = [], len(sizes)
    for choice in reversed(choices):
        chosen.append(int(sizes[end - 1]))
        end = int(choice[end - 1])
    return chosen[::-1]


def choose(
    sizes: np.ndarray, batch_size: int, count: int, max_padding: float
) -> dict[Shape, np.ndarray]:
    """Chooses the shapes that a corpus is padded to, as few as keep the padding low.

    Args:
        sizes: Tokens of each sentence, and characters of its longest word.
        batch_size: Sentences in a batch; the last one of a shape is filled up.
        count: How many shapes there may be.
        max_padding: Share of the token positions that may be padding. If `count` shapes
            are not enough for it, so many are taken that more would save less than a
            hundredth of the positions.

    Returns:
        The shapes in ascending order, and the sentences (rows of `sizes`) of each.

    Raises:
        ValueError: `max_padding` is no share.
    """
    if not 0 <= max_padding < 1:
        raise ValueError(
            f"max_padding is a share, from 0 to below 1; got {max_padding}."
        )
    sizes = np.maximum(sizes, 1)
    best, least = {}, np.inf
    for number in range(1, count + 1):
        members = fit(sizes, candidates(sizes, number))
        counts = [(len(rows), shape.tokens) for shape, rows in members.items()]
        share = 1 - sizes[:, 0].sum() / positions(counts, batch_size)
        if share <= max_padding or share < least - _WORTHWHILE:
            best, least = members, share
        if least <= max_padding:
            break
    return best


def candidates(sizes: np.ndarray, count: int) -> list[Shape]:
    """Gives the shapes with the least padding, a corpus being as `choose` describes it.

    Most words are short, so the few sentences with the longest words get shapes of
    their own: else all would be padded to the longest word of the corpus. They are a
    quarter of the shapes (at least one of three or more), and are for sentences with a
    word longer than 95 % of sentences have.
    """
    lengths, widths = sizes.T
    narrow = widths <= np.quantile(widths, 0.95, method="inverted_cdf")
    groups = [(np.ones_like(narrow), count)]
    if count > 2 and not narrow.all():
        wide = max(count // 4, 1)
        groups = [(narrow, count - wide), (~narrow, wide)]
    chosen = []
    for group, number in groups:
        width = int(widths[group].max())
        chosen += [Shape(n, width) for n in bounds(lengths[group], number)]
    return sorted(chosen)


def fit(sizes: np.ndarray, chosen: Sequence[Shape]) -> dict[Shape, np.ndarray]:
    """Gives each sentence the smallest shape that it fits: its row in `sizes`."""
    ordered = sorted(chosen, key=lambda shape: shape.tokens * shape.chars)
    fits = np.stack([np.all(sizes <= shape, axis=1) for shape in ordered])
    first = np.argmax(fits, axis=0)
    rows = {shape: np.flatnonzero(first == k) for k, shape in enumerate(ordered)}
    return {shape: rows[shape] for shape in sorted(rows) if len(rows[shape])}


def positions(sizes: Iterable[tuple[int, int]], batch_size: int) -> int:
    """Counts token positions, given the sentences and the length of each shape."""
    return sum(-(-count // batch_size) * batch_size * n for count, n in sizes)
