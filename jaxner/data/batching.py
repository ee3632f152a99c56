"""Batches of few fixed shapes, so that few programs are compiled.

Shape letters: `B` sentences, `T` tokens, `C` characters. All arrays are NumPy's.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from jaxner.data import shapes, spelling
from jaxner.data.padding import PieceShape, pad_pieces, pad_vectors, piece_shape
from jaxner.data.shapes import Shape as Shape
from jaxner.types import Sentence

if TYPE_CHECKING:
    from jaxtyping import Float, Int

    AnyArray = Any  # a NumPy array on the host, a JAX array on the device


def pad(
    sentences: Sequence[Sentence],
    shape: Shape,
    count: int | None = None,
    pieces: PieceShape | None = None,
) -> Sentence:
    """Stacks sentences of any size that fits into one batch.

    Args:
        sentences: Without padding.
        shape: What each is padded to.
        count: What the number of sentences is padded to, by sentences without tokens.
        pieces: What their word pieces are padded to; None for one of few shapes.

    Returns:
        A `Sentence` of arrays [B, T], [B, T, C], [B, T] and [B, T]; and of vectors and
        word pieces, if there are any, as in `data.padding`.

    Example:
        >>> one = Sentence(np.array([5]), np.array([[7, 8]]), np.array([True]))
        >>> pad([one], Shape(2, 3)).words.tolist()
        [[5, 0]]
    """
    count = len(sentences) if count is None else count
    all_caps = np.zeros((count, shape.tokens), np.int32)
    batch = Sentence(
        np.zeros((count, shape.tokens), np.int32),
        np.zeros((count, *shape), np.int32),
        np.zeros((count, shape.tokens), bool),
        all_caps,
        pad_vectors([s.vectors for s in sentences], shape.tokens, count),
        pad_pieces([s.pieces for s in sentences], shape.tokens, count, pieces),
    )
    for i, (words, chars, mask, caps, *_) in enumerate(sentences):
        batch.words[i, : len(words)] = words
        batch.chars[i, : len(words), : chars.shape[1]] = chars
        batch.mask[i, : len(words)] = mask
        if caps is not None:
            all_caps[i, : len(words)] = caps
    return batch


class Bucket(NamedTuple):
    """The sentences of one shape, `N` of them, with `U` distinct words.

    Attributes:
        sentences: But for characters and precomputed vectors.
        labels: Label ids; 0 under padding.
        places: Which of the words each token is.
        chars: The characters of each word; the first has none.
        vectors: Of each sentence, perhaps still in a file; on the device ().
    """

    sentences: Sentence
    labels: Int[AnyArray, "N T"]
    places: Int[AnyArray, "N T"]
    chars: Int[AnyArray, "U C"]
    vectors: Any


class Rows(NamedTuple):
    """What `K` batches take of a bucket.

    Attributes:
        rows: The sentences of each; -1 for one without tokens, which fills it up.
        vectors: Those of the sentences, if they have any.
        words: The distinct words of each batch; None if the characters of each token
            are read.
        places: Which of those each token is; None, too.
    """

    rows: Int[AnyArray, "K B"]
    vectors: Float[AnyArray, "K B T S D"] | None = None
    words: Int[AnyArray, "K W"] | None = None
    places: Int[AnyArray, "K B T"] | None = None


class Block(NamedTuple):
    """Batches of one shape, one after the other.

    Attributes:
        bucket: Number of their bucket.
        count: How many batches there are; further rows are there for the shape.
        tokens: In all of them.
        rows: What they hold.
    """

    bucket: int
    count: int
    tokens: int
    rows: Rows


def take(bucket: Bucket, rows: Rows, step: Any) -> tuple[Sentence, Any]:
    """Gathers one batch, on the host or on the device.

    Args:
        bucket: Of NumPy or of JAX arrays.
        rows: Of several batches.
        step: Which of them.

    Returns:
        The sentences, with a leading batch axis, and their label ids [B, T]. Characters
        are left out ([B, T, 0]) where `rows` names the distinct words.
    """
    chosen = rows.rows[step]

    def of(array):
        kept = (chosen >= 0).reshape(-1, *[1] * (array.ndim - 1))
        return array[chosen] * kept.astype(array.dtype)

    batch = _map(of, bucket.sentences)
    if rows.words is None:
        batch = batch._replace(chars=bucket.chars[of(bucket.places)])
    if rows.vectors is not None:
        batch = batch._replace(vectors=rows.vectors[step])
    return batch, of(bucket.labels)


@dataclasses.dataclass(frozen=True)
class Batches:
    """A training corpus, padded once and cut into batches anew in every epoch.

    A batch holds sentences of one bucket. Which ones, and the order of the batches, are
    random, and a function of the seed, the epoch and the length of a block alone; the
    number of batches is the same in every epoch.

    Attributes:
        buckets: The padded sentences of each shape.
        batch_size: Sentences in a batch; the last one of a bucket is filled up with
            sentences without tokens.
        num_sentences: In the corpus.
        num_tokens: In the corpus.
        unit: What a sentence here is: a "sentence" or a "document".
    """

    buckets: tuple[Bucket, ...]
    batch_size: int
    num_sentences: int
    num_tokens: int
    unit: str = "sentence"

    @classmethod
    def make(
        cls,
        sentences: Sequence[Sentence],
        labels: Sequence[np.ndarray],
        *,
        batch_size: int,
        num_shapes: int = 16,
        max_padding: float = 0.0,
        unit: str = "sentence",
    ) -> Batches:
        """Pads a corpus to as few shapes as keep the padding low.

        Args:
            sentences: Without padding.
            labels: The label ids of each.
            batch_size: Sentences in a batch.
            num_shapes: How many shapes there may be; each is compiled.
            max_padding: Share of the token positions that may be padding, if so many
                shapes are enough for it; fewer shapes are taken if they are.
            unit: What a sentence here is.

        Raises:
            ValueError: There is no sentence, or a number is none.
        """
        if not sentences:
            raise ValueError("Expected at least one training sentence, got none.")
        if min(batch_size, num_shapes) < 1:
            wanted = "Expected a batch size and a number of shapes of at least 1"
            raise ValueError(f"{wanted}, got {batch_size} and {num_shapes}.")
        sizes = np.array([s.chars.shape for s in sentences])
        members = shapes.choose(sizes, batch_size, num_shapes, max_padding)
        buckets = [
            _bucket(sentences, labels, ids, shape) for shape, ids in members.items()
        ]
        tokens = int(sizes[:, 0].sum())
        return cls(tuple(buckets), batch_size, len(sentences), tokens, unit)

    @property
    def num_batches(self) -> int:
        """Batches, that is optimizer steps, in an epoch."""
        return sum(-(-len(b.labels) // self.batch_size) for b in self.buckets)

    @property
    def shapes(self) -> tuple[Shape, ...]:
        """The shapes in use; each is compiled once."""
        return tuple(Shape(b.labels.shape[1], b.chars.shape[1]) for b in self.buckets)

    @property
    def padding_share(self) -> float:
        """Share of the token positions of an epoch that hold no token."""
        sizes = [(len(b.labels), b.labels.shape[1]) for b in self.buckets]
        return 1 - self.num_tokens / shapes.positions(sizes, self.batch_size)

    @functools.cached_property
    def rooms(self) -> list[tuple[int, int]]:
        """For each bucket, distinct words of hardly any batch and of none; or fewer."""
        return [spelling.rooms(b.places, self.batch_size) for b in self.buckets]

    def summary(self) -> str:
        """Says in a line how the corpus is cut."""
        return (
            f"{self.num_batches:,} batches an epoch of {self.batch_size} {self.unit}s, "
            f"{len(self.shapes)} shapes to compile, {self.padding_share:.1%} padding"
        )

    def blocks(
        self,
        seed: int,
        epoch: int,
        *,
        length: int = 1,
        skip: int = 0,
        spelled_once: bool = False,
    ) -> Iterator[Block]:
        """Yields the batches of one epoch, in blocks of one shape.

        Args:
            seed: Of the run.
            epoch: Which one.
            length: Batches in a block; a bucket's last block may have fewer.
            skip: Batches to leave out at the beginning, when a run resumes.
            spelled_once: Whether a block names the distinct words of each batch.
        """
        rng, plan = np.random.default_rng((seed, epoch)), []
        for number, bucket in enumerate(self.buckets):
            order = rng.permutation(len(bucket.labels))
            order = np.append(order, np.full(-len(order) % self.batch_size, -1))
            batches = order.reshape(-1, self.batch_size).astype(np.int32)
            starts = range(0, len(batches), length)
            plan += [(number, batches[i : i + length]) for i in starts]
        for i in rng.permutation(len(plan)):
            number, rows = plan[i]
            if skip >= len(rows):
                skip -= len(rows)
                continue
            yield self._block(number, rows[skip:], length, spelled_once)
            skip = 0

    def examples(self, length: int, spelled_once: bool) -> Iterator[Block]:
        """Yields a block of each bucket, of the shapes that those of an epoch have.

        Where words are spelled once, a block has another shape if a batch has more of
        them than the first of `rooms`.
        """
        for number, bucket in enumerate(self.buckets):
            rows = np.arange(self.batch_size, dtype=np.int32)[None]
            rows = np.where(rows < len(bucket.labels), rows, -1)
            block = self._block(number, rows, length, False)
            if spelled_once:  # whichever words these are
                shape = length, self.batch_size, bucket.labels.shape[1]
                words = np.zeros((length, self.rooms[number][0]), np.int32)
                named = block.rows._replace(
                    words=words, places=np.zeros(shape, np.int32)
                )
                block = block._replace(rows=named)
            yield block

    def _block(self, number: int, rows: np.ndarray, length: int, spelled_once: bool):
        bucket = self.buckets[number]
        given = [bucket.vectors[row] for row in rows.ravel() if row >= 0]
        tokens = int(bucket.sentences.mask[rows[rows >= 0]].sum())
        filled = np.full((length, self.batch_size), -1, np.int32)
        filled[: len(rows)] = rows
        vectors = pad_vectors(given, bucket.labels.shape[1], filled.size)
        if vectors is not None:
            vectors = vectors.reshape(*filled.shape, *vectors.shape[1:])
        block = Rows(filled, vectors)
        if spelled_once:
            words, places = self._spelled_once(number, filled)
            block = block._replace(words=words, places=places)
        return Block(number, len(rows), tokens, block)

    def _spelled_once(self, number: int, rows: np.ndarray):
        places = self.buckets[number].places[rows] * (rows >= 0)[:, :, None]
        for size in self.rooms[number]:
            found = [spelling.once(batch, size) for batch in places]
            fitting = [one for one in found if one is not None]
            if len(fitting) == len(found):
                break
        words, where = zip(*fitting, strict=True)
        return np.stack(words), np.stack(where)

    def epoch(
        self, seed: int, epoch: int, *, skip: int = 0
    ) -> Iterator[tuple[Sentence, np.ndarray]]:
        """Yields the batches of `blocks` on the host: sentences, and labels [B, T]."""
        for block in self.blocks(seed, epoch, skip=skip):
            yield take(self.buckets[block.bucket], block.rows, 0)


def _bucket(
    sentences: Sequence[Sentence],
    labels: Sequence[np.ndarray],
    ids: np.ndarray,
    shape: Shape,
) -> Bucket:
    here = [sentences[i] for i in ids]
    padded = np.zeros((2, len(ids), shape.tokens), np.int32)
    words, places = spelling.distinct(here)
    chars = spelling.rows(words, max(s.chars.shape[1] for s in here))
    for row, own, its, i in zip(*padded, places, ids, strict=True):
        row[: len(labels[i])] = labels[i]
        own[: len(its)] = its
    given = [sentence.vectors for sentence in here]
    return Bucket(_pad_all(here, shape), padded[0], padded[1], chars, given)


def _pad_all(sentences: Sequence[Sentence], shape: Shape) -> Sentence:
    """Pads a whole bucket, but for what is kept elsewhere."""
    pieces = [s.pieces for s in sentences if s.pieces is not None]
    return pad(
        [s._replace(chars=s.chars[:, :0], vectors=None) for s in sentences],
        Shape(shape.tokens, 0),
        pieces=piece_shape(pieces) if pieces else None,
    )


def _map(change: Callable[[np.ndarray], np.ndarray], fields: Any) -> Any:
    """Changes every array of a tuple of arrays, tuples and None."""
    if isinstance(fields, tuple):
        return type(fields)(*(_map(change, field) for field in fields))  # type: ignore
    return None if fields is None else change(fields)
