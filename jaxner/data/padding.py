"""Padding: batches of sentences, their precomputed vectors and their word pieces.

Shape letters: `B` sentences, `T` tokens, `U` distinct words, `C` characters; `S` layers
of `D` dimensions; `W` windows of `P` pieces, `Q` pieces of the longest token.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from jaxner.data import unique_words
from jaxner.data.contextual import TokenVectors
from jaxner.data.shapes import Shape
from jaxner.types import Pieces, Sentence

if TYPE_CHECKING:
    from jaxtyping import Int

    AnyArray = Any  # a NumPy array on the host, a JAX array on the device


class Block(NamedTuple):
    """Sentences of a batch that go through the model together.

    Attributes:
        sentences: Sentences padded to one of few shapes, with shared distinct words.
        labels: Label ids; 0 under padding.
        rows: Index of each sentence in the batch, which determines its dropout masks.
    """

    sentences: Sentence
    labels: Int[AnyArray, "B T"]
    rows: Int[AnyArray, " B"]


class PieceShape(NamedTuple):
    """Padded size of word pieces: windows, pieces of a window, pieces of a token."""

    windows: int
    pieces: int
    longest: int


def piece_shape(pieces: Sequence[Pieces], *, few: bool = False) -> PieceShape:
    """Returns the padded size of the word pieces of some sentences.

    Args:
        pieces: Word pieces of each sentence.
        few: Whether to round sizes up to powers of two, so that many groups of
            sentences share few shapes.
    """
    sizes = np.array([(*p.windows.shape, p.positions.shape[1]) for p in pieces])
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
    """Returns one padded batch of sentences that share their distinct words.

    Args:
        sentences: Encoded sentences without padding, which must fit the shape.
        shape: Padded size of the batch.
        count: Padded number of sentences; extra sentences have no tokens.
        pieces: Padded size of the word pieces; None for one of few shapes.

    Returns:
        A `Sentence` of arrays [B, T], except `chars` [U, C]; for vectors and word
        pieces, see `pad_vectors` and `pad_pieces`.

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
    """Returns one padded batch of sentences, each with its own distinct words.

    Args:
        sentences: Encoded sentences without padding.
        length: Padded number of tokens.
        count: As in `pad`.
        pieces: As in `pad`.

    Returns:
        A `Sentence` of arrays [B, T], and `chars` [B, U, C]: every field has the batch
        axis, so that a plain `jax.vmap` maps over the batch.
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
    """Returns a sentence of the same kind without tokens."""
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
    """Returns precomputed vectors, padded and stacked; None if there are none.

    Args:
        vectors: Vectors of each sentence, [T, S, D], or objects that `np.asarray`
            converts to such arrays.
        length: Padded number of tokens.
        count: Padded number of sentences.

    Returns:
        An array [B, T, S, D].
    """
    arrays = [np.asarray(array) for array in vectors if array is not None]
    if not arrays:
        return None
    # Rows of a table that stand for vectors are integers.
    kind = np.int32 if arrays[0].dtype.kind == "i" else np.float32
    padded = np.zeros((count, length, *arrays[0].shape[1:]), kind)
    for row, array in zip(padded, arrays, strict=False):
        row[: len(array)] = array
    return padded


def of_parts(
    sentences: Sequence[Sentence], count: int, parts: int, own: frozenset[int] | None
) -> list[Sentence]:
    """Returns the sentences of a batch, with vectors for the rows of this process.

    The vectors of other rows, if they are still in a file, become zeros.

    Args:
        sentences: The first rows of the batch.
        count: Padded number of rows, a multiple of `parts`.
        parts: Number of devices that share the batch.
        own: Which of them this process has; None for all.
    """
    found = list(sentences)
    for row, sentence in enumerate(sentences):
        vectors = sentence.vectors
        if own is None or row * parts // count in own:
            continue
        if isinstance(vectors, TokenVectors):
            shape = len(sentence.words), *vectors.sizes
            unread = np.broadcast_to(np.float32(0), shape)
            found[row] = sentence._replace(vectors=unread)
    return found


def pad_pieces(
    pieces: Sequence[Pieces | None],
    length: int,
    count: int,
    shape: PieceShape | None = None,
) -> Pieces | None:
    """Returns word pieces, padded and stacked; None if there are none.

    Args:
        pieces: Word pieces of each sentence.
        length: Padded number of tokens.
        count: Padded number of sentences.
        shape: Padded size of windows and pieces; None for one of few shapes.

    Returns:
        Arrays [B, W, P], [B, W, P] and [B, T, Q].
    """
    given = [one for one in pieces if one is not None]
    if not given:
        return None
    shape = shape or piece_shape(given, few=True)
    size = (count, shape.windows, shape.pieces)
    positions = np.full((count, length, shape.longest), -1, np.int32)
    padded = Pieces(np.zeros(size, np.int32), np.zeros(size, bool), positions)
    for i, (windows, mask, own) in enumerate(given):
        rows, width = windows.shape
        padded.windows[i, :rows, :width] = windows
        padded.mask[i, :rows, :width] = mask
        positions[i, : len(own), : own.shape[1]] = reindexed(own, width, shape.pieces)
    return padded


def reindexed(
    positions: np.ndarray, width: int, new_width: int, offset: int = 0
) -> np.ndarray:
    """Returns positions of pieces for a new window width.

    Args:
        positions: As in `Pieces`, for windows of `width` pieces.
        width: Pieces of an old window.
        new_width: Pieces of a new window.
        offset: Number of new windows before these.

    Example:
        >>> reindexed(np.array([[1, 4], [5, -1]]), 3, 10).tolist()
        [[1, 11], [12, -1]]
    """
    moved = (positions // width + offset) * new_width + positions % width
    return np.where(positions < 0, -1, moved).astype(np.int32)


def _next_power(count: int) -> int:
    return 1 << max(count - 1, 0).bit_length()


def stack_trees(trees: Sequence[Any]) -> Any:
    """Returns tuples of equal structure with their arrays stacked."""
    first = trees[0]
    if first is None:
        return None
    if isinstance(first, tuple):
        fields = (stack_trees(parts) for parts in zip(*trees, strict=True))
        return type(first)(*fields)  # type: ignore
    return np.stack(trees)
