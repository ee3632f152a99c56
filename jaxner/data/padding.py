"""Padding: batches of sentences, their precomputed vectors and their word pieces.

Shape letters: `B` sentences, `T` tokens, `U` distinct words, `C` characters; `S` layers
of `D` dimensions; `W` windows of `P` pieces, `Q` pieces of the longest token.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from jaxner.data import unique_words
from jaxner.data.shapes import Shape
from jaxner.types import Pieces, Sentence

if TYPE_CHECKING:
    from jaxtyping import Int

    AnyArray = Any  # a NumPy array on the host, a JAX array on the device


class Block(NamedTuple):
    """Sentences of a batch that are computed together.

    Attributes:
        sentences: Padded to one of few shapes; they share their distinct words.
        labels: Label ids; 0 under padding.
        rows: The place of each in the batch, which decides its dropout masks.
    """

    sentences: Sentence
    labels: Int[AnyArray, "B T"]
    rows: Int[AnyArray, " B"]


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


def pad(
    sentences: Sequence[Sentence],
    shape: Shape,
    count: int | None = None,
    pieces: PieceShape | None = None,
) -> Sentence:
    """Makes one batch of sentences that fit into it; they share their distinct words.

    Args:
        sentences: Without padding.
        shape: What the batch is padded to.
        count: What the number of sentences is padded to, by sentences without tokens.
        pieces: What their word pieces are padded to; None for one of few shapes.

    Returns:
        A `Sentence` of arrays [B, T], but for `chars` [U, C]; and of vectors and word
        pieces, if there are any, as in `data.padding`.

    Example:
        >>> ids, chars = np.array([5]), np.array([[0, 0], [7, 8]])
        >>> one = Sentence(ids, chars, np.array([1]), ids > 0)
        >>> batch = pad([one], Shape(tokens=2, words=3, chars=3))
        >>> batch.words.tolist(), batch.chars.tolist()
        ([[5, 0]], [[0, 0, 0], [7, 8, 0], [0, 0, 0]])
    """
    words, index = unique_words.merge(sentences)
    chars = unique_words.rows(words + [b""] * (shape.words - len(words)), shape.chars)
    batch = stack(sentences, shape.tokens, count, pieces)
    joined = np.zeros(batch.words.shape, np.int32)
    for i, own in enumerate(index):
        joined[i, : len(own)] = own
    return batch._replace(chars=chars, char_index=joined)


def stack(
    sentences: Sequence[Sentence],
    length: int,
    count: int | None = None,
    pieces: PieceShape | None = None,
) -> Sentence:
    """Makes one batch of sentences, each of which keeps its own distinct words.

    Args:
        sentences: Without padding.
        length: What the number of tokens is padded to.
        count: As in `pad`.
        pieces: As in `pad`.

    Returns:
        A `Sentence` of arrays [B, T], but for `chars` [B, U, C]: every field has the
        batch axis, so that a plain `jax.vmap` maps over it.
    """
    count = len(sentences) if count is None else count
    sizes = np.array([s.chars.shape for s in sentences] or [(1, 1)])
    all_caps = np.zeros((count, length), np.int32)
    batch = Sentence(
        np.zeros((count, length), np.int32),
        np.zeros((count, *sizes.max(axis=0)), np.int32),
        np.zeros((count, length), np.int32),
        np.zeros((count, length), bool),
        all_caps,
        pad_vectors([s.vectors for s in sentences], length, count),
        pad_pieces([s.pieces for s in sentences], length, count, pieces),
    )
    for i, (words, chars, index, mask, caps, *_) in enumerate(sentences):
        batch.words[i, : len(words)] = words
        batch.chars[i, : chars.shape[0], : chars.shape[1]] = chars
        batch.char_index[i, : len(words)] = index
        batch.mask[i, : len(words)] = mask
        if caps is not None:
            all_caps[i, : len(words)] = caps
    return batch


def without_tokens(sentence: Sentence) -> Sentence:
    """Returns the sentence without any token."""
    words, chars, index, mask, caps, vectors, pieces = sentence
    return Sentence(
        words[:0],
        chars[:1, :1],
        index[:0],
        mask[:0],
        None if caps is None else caps[:0],
        None if vectors is None else np.asarray(vectors)[:0],
        pieces and Pieces(*(array[:0, :0] for array in pieces)),
    )


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


def stack_trees(trees: Sequence[Any]) -> Any:
    """Stacks the arrays of tuples that are alike."""
    first = trees[0]
    if first is None:
        return None
    if isinstance(first, tuple):
        fields = (stack_trees(parts) for parts in zip(*trees, strict=True))
        return type(first)(*fields)  # type: ignore
    return np.stack(trees)
