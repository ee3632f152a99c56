"""Padding of contextual inputs: vectors that were computed beforehand, and word pieces.

Shape letters: `B` sentences, `T` tokens; `S` layers of `D` dimensions; `W` windows of
`P` pieces, `Q` pieces of the longest token.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from jaxner.types import Pieces


class PieceShape(NamedTuple):
    """The padded size of word pieces: windows, pieces of each, and those of a token."""

    windows: int
    pieces: int
    longest: int


def piece_shape(pieces: Sequence[Pieces], *, few: bool = False) -> PieceShape:
    """Finds the size that the word pieces of some sentences are padded to.

    Args:
        pieces: Of each sentence.
        few: Whether sizes are rounded up to powers of two, so that many groups of
            sentences share few shapes.
    """
    sizes = np.array([(*p.windows.shape, p.places.shape[1]) for p in pieces])
    most = sizes.max(axis=0).tolist()
    if few:
        floors = (1, 16, 4)
        most = [max(n, _next_power(i)) for n, i in zip(floors, most, strict=True)]
    return PieceShape(*most)


def pad_vectors(vectors: Sequence[Any], length: int, count: int) -> np.ndarray | None:
    """Stacks precomputed vectors; None where there are none.

    Args:
        vectors: Of each sentence, [T, S, D], or what `np.asarray` makes such arrays of.
        length: What the number of tokens is padded to.
        count: What the number of sentences is padded to.

    Returns:
        An array [B, T, S, D].
    """
    arrays = [np.asarray(array) for array in vectors if array is not None]
    if not arrays:
        return None
    padded = np.zeros((count, length, *arrays[0].shape[1:]), np.float32)
    for row, array in zip(padded, arrays, strict=False):
        row[: len(array)] = array
    return padded


def pad_pieces(
    pieces: Sequence[Pieces | None],
    length: int,
    count: int,
    shape: PieceShape | None = None,
) -> Pieces | None:
    """Stacks word pieces; None where there are none.

    Args:
        pieces: Of each sentence.
        length: What the number of tokens is padded to.
        count: What the number of sentences is padded to.
        shape: What windows and pieces are padded to; None for one of few shapes.

    Returns:
        Arrays [B, W, P], [B, W, P] and [B, T, Q].
    """
    given = [one for one in pieces if one is not None]
    if not given:
        return None
    shape = shape or piece_shape(given, few=True)
    size = (count, shape.windows, shape.pieces)
    places = np.full((count, length, shape.longest), -1, np.int32)
    padded = Pieces(np.zeros(size, np.int32), np.zeros(size, bool), places)
    for i, (windows, mask, own) in enumerate(given):
        rows, width = windows.shape
        padded.windows[i, :rows, :width] = windows
        padded.mask[i, :rows, :width] = mask
        places[i, : len(own), : own.shape[1]] = rehoused(own, width, shape.pieces)
    return padded


def rehoused(
    places: np.ndarray, width: int, new_width: int, offset: int = 0
) -> np.ndarray:
    """Gives the places of pieces anew for windows of another width.

    Args:
        places: As in `Pieces`, for windows of `width` pieces.
        width: Of the old windows.
        new_width: Of the new ones.
        offset: Windows that stand before them.

    Example:
        >>> rehoused(np.array([[1, 4], [5, -1]]), 3, 10).tolist()
        [[1, 11], [12, -1]]
    """
    moved = (places // width + offset) * new_width + places % width
    return np.where(places < 0, -1, moved).astype(np.int32)


def _next_power(count: int) -> int:
    return 1 << max(count - 1, 0).bit_length()
