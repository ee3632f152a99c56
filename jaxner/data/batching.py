"""Batches of few fixed shapes, so that few programs are compiled.

Shape letters: `B` sentences, `T` tokens, `C` characters. All arrays are NumPy's.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from jaxner.data.padding import PieceShape, pad_pieces, pad_vectors, piece_shape
from jaxner.types import Sentence


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


def shapes(sentences: Sequence[Sentence], count: int) -> tuple[Shape, ...]:
    """Chooses the shapes that a corpus is padded to.

    Most words are short, so the few sentences with the longest words get shapes of
    their own: else all would be padded to the longest word of the corpus.

    Args:
        sentences: The corpus, without padding.
        count: Number of shapes for the bulk; at most a third of it (at least one) is
            added for sentences with a word longer than 95 % of sentences have.

    Returns:
        Shapes in ascending order; every sentence fits one.
    """
    lengths = np.array([s.words.shape[0] for s in sentences])
    widths = np.array([s.chars.shape[1] for s in sentences])
    narrow = widths <= np.quantile(widths, 0.95, method="inverted_cdf")
    chosen = []
    for group, buckets in ((narrow, count), (~narrow, max(count // 3, 1))):
        if group.any():
            width = int(widths[group].max())
            chosen += [Shape(n, width) for n in bounds(lengths[group], buckets)]
    return tuple(sorted(chosen))


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


class _Bucket(NamedTuple):
    sentences: Sentence  # but for the vectors
    labels: np.ndarray
    vectors: list[Any]  # of each sentence; they may be read from a file when needed


@dataclasses.dataclass(frozen=True)
class Batches:
    """A training corpus, padded once and cut into batches anew in every epoch.

    A batch holds sentences of one bucket. Which ones, and the order of the batches, are
    random, and a function of the seed and the epoch alone; the number of batches is the
    same in every epoch.

    Attributes:
        buckets: The padded sentences of each shape.
        batch_size: Sentences in a batch; the last one of a bucket is filled up with
            sentences without tokens.
        num_sentences: In the corpus.
        num_tokens: In the corpus.
        unit: What a sentence here is: a "sentence" or a "document".
    """

    buckets: tuple[_Bucket, ...]
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
        num_shapes: int = 6,
        unit: str = "sentence",
    ) -> Batches:
        """Pads a corpus.

        Args:
            sentences: Without padding.
            labels: The label ids of each sentence.
            batch_size: Sentences in a batch.
            num_shapes: About how many shapes there are; see `shapes`.
            unit: What a sentence here is.

        Raises:
            ValueError: There is no sentence.
        """
        if not sentences:
            raise ValueError("Expected at least one training sentence, got none.")
        if batch_size < 1 or num_shapes < 1:
            raise ValueError(
                "Expected a batch size and a number of shapes of at least 1, got "
                f"{batch_size} and {num_shapes}."
            )
        chosen = shapes(sentences, num_shapes)
        members: dict[Shape, list[int]] = {shape: [] for shape in chosen}
        for i, sentence in enumerate(sentences):
            length, width = sentence.chars.shape
            fits = (s for s in chosen if s.tokens >= length and s.chars >= width)
            members[min(fits, key=lambda s: s.tokens * s.chars)].append(i)
        buckets = []
        for shape, chosen_ids in members.items():
            if chosen_ids:
                padded = np.zeros((len(chosen_ids), shape.tokens), np.int32)
                for row, i in zip(padded, chosen_ids, strict=True):
                    row[: len(labels[i])] = labels[i]
                here = [sentences[i] for i in chosen_ids]
                vectors = [sentence.vectors for sentence in here]
                buckets.append(_Bucket(_pad_all(here, shape), padded, vectors))
        tokens = sum(len(s.words) for s in sentences)
        return cls(tuple(buckets), batch_size, len(sentences), tokens, unit)

    @property
    def num_batches(self) -> int:
        """Batches, that is optimizer steps, in an epoch."""
        return sum(-(-len(b.labels) // self.batch_size) for b in self.buckets)

    @property
    def shapes(self) -> tuple[Shape, ...]:
        """The shapes in use; each is compiled once."""
        return tuple(Shape(*b.sentences.chars.shape[1:]) for b in self.buckets)

    @property
    def padding_share(self) -> float:
        """Share of the token positions of an epoch that hold no token."""
        positions = sum(
            -(-len(b.labels) // self.batch_size) * self.batch_size * b.labels.shape[1]
            for b in self.buckets
        )
        return 1 - self.num_tokens / positions

    def summary(self) -> str:
        """Says in a line how the corpus is cut."""
        return (
            f"{self.num_batches:,} batches an epoch of {self.batch_size} {self.unit}s, "
            f"{len(self.shapes)} shapes to compile, {self.padding_share:.1%} padding"
        )

    def epoch(
        self, seed: int, epoch: int, *, skip: int = 0
    ) -> Iterator[tuple[Sentence, np.ndarray]]:
        """Yields the batches of one epoch: sentences, and label ids [B, T].

        Args:
            seed: Of the run.
            epoch: Which one.
            skip: Batches to leave out at the beginning, when a run resumes.
        """
        rng = np.random.default_rng((seed, epoch))
        plan = []
        for bucket in self.buckets:
            order = rng.permutation(len(bucket.labels))
            starts = range(0, len(order), self.batch_size)
            plan += [(bucket, order[i : i + self.batch_size]) for i in starts]
        for i in rng.permutation(len(plan))[skip:]:
            bucket, rows = plan[i]

            def take(array, rows=rows):
                return _fill_rows(array[rows], self.batch_size)

            batch = _map(take, bucket.sentences)
            vectors = [bucket.vectors[row] for row in rows]
            vectors = pad_vectors(vectors, batch.words.shape[1], self.batch_size)
            yield batch._replace(vectors=vectors), take(bucket.labels)


def _pad_all(sentences: Sequence[Sentence], shape: Shape) -> Sentence:
    """Pads a whole bucket, but for the vectors: those are too many for the memory."""
    pieces = [s.pieces for s in sentences if s.pieces is not None]
    return pad(
        [s._replace(vectors=None) for s in sentences],
        shape,
        pieces=piece_shape(pieces) if pieces else None,
    )


def _map(change: Callable[[np.ndarray], np.ndarray], fields: Any) -> Any:
    """Changes every array of a tuple of arrays, tuples and None."""
    if isinstance(fields, tuple):
        return type(fields)(*(_map(change, field) for field in fields))  # type: ignore
    return None if fields is None else change(fields)


def _fill_rows(array: np.ndarray, count: int) -> np.ndarray:
    missing = count - len(array)
    if not missing:
        return array
    return np.concatenate([array, np.zeros((missing, *array.shape[1:]), array.dtype)])
