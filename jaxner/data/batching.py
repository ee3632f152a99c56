"""Batches: random draws from the corpus, computed in blocks of few fixed shapes.

A batch is sorted by length and cut into blocks of as many rows each. Every block is
padded to one of few shapes, so that few programs are compiled; the gradients of the
blocks are added. So every batch is a draw from the whole corpus, as in the papers'
programs, and yet little is padded.

Shape letters: `B` sentences, `T` tokens, `U` distinct words, `C` characters. All arrays
are NumPy's.
"""

from __future__ import annotations

import collections
import dataclasses
import functools
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np

from jaxner.data import padding, shapes, unique_words
from jaxner.data.padding import Block as Block
from jaxner.data.padding import PieceShape, piece_shape, stack_trees
from jaxner.data.padding import pad as pad
from jaxner.data.padding import stack as stack
from jaxner.data.shapes import Shape as Shape
from jaxner.types import Sentence

if TYPE_CHECKING:
    from jaxner.data.vocab import Vocabulary

_SAMPLE = 2_000  # batches by which shapes are chosen

CHARS = ("distinct", "token", "none")
"""How the characters of a block are listed: a row for each distinct word; one for each
token, where dropout among the characters draws a mask for each; or none at all."""


@dataclasses.dataclass(frozen=True)
class Batches:
    """A training corpus, and how it is cut into batches anew in every epoch.

    Every batch is a random draw from the whole corpus. The order is a function of the
    seed and the epoch alone.

    Attributes:
        sentences: Without padding and without characters.
        labels: The label ids of each.
        words: The distinct words of the corpus, as `unique_words` has them.
        index: Which of them the tokens of each sentence are.
        batch_size: Sentences in a batch; the last one of an epoch may have fewer.
        rows: Sentences in a block.
        shapes: What blocks are padded to, ascending; each is compiled once.
        chars: How the characters of a block are listed, one of `CHARS`.
        unit: What a sentence here is: a "sentence" or a "document".
        parts: Devices that share a block: its rows, and its distinct words, are padded
            to a multiple of them.
    """

    sentences: tuple[Sentence, ...]
    labels: tuple[np.ndarray, ...]
    words: tuple[bytes, ...]
    index: tuple[np.ndarray, ...]
    batch_size: int
    rows: int
    shapes: tuple[Shape, ...]
    chars: str = "distinct"
    unit: str = "sentence"
    parts: int = 1

    @classmethod
    def make(
        cls,
        sentences: Sequence[Sentence],
        labels: Sequence[np.ndarray],
        *,
        batch_size: int,
        num_blocks: int = 1,
        num_shapes: int = 5,
        chars: str = "distinct",
        unit: str = "sentence",
        parts: int = 1,
    ) -> Batches:
        """Chooses the shapes for a corpus.

        Args:
            sentences: Without padding.
            labels: The label ids of each.
            batch_size: Sentences in a batch.
            num_blocks: Blocks that a batch is cut into.
            num_shapes: How many shapes there may be.
            chars: One of `CHARS`.
            unit: What a sentence here is.
            parts: Devices that share a block.

        Raises:
            ValueError: There is no sentence, or a number is below 1.
        """
        if not sentences:
            raise ValueError("Expected at least one training sentence, got none.")
        for name, value in (("batch_size", batch_size), ("num_blocks", num_blocks)):
            if value < 1:
                raise ValueError(f"Expected {name} of at least 1, got {value}.")
        if chars not in CHARS:
            raise ValueError(f"Unknown chars {chars!r}; known: {', '.join(CHARS)}")
        if chars == "none":
            none = np.zeros((1, 1), np.int32)
            sentences = [
                s._replace(chars=none, char_index=np.zeros_like(s.words))
                for s in sentences
            ]
        words, index = unique_words.merge(sentences)
        batches = cls(
            tuple(s._replace(chars=s.chars[:1, :1]) for s in sentences),
            tuple(labels),
            tuple(words),
            tuple(index),
            batch_size,
            -(-batch_size // num_blocks),
            (),
            chars,
            unit,
            parts,
        )
        return dataclasses.replace(batches, shapes=batches._choose(num_shapes))

    @classmethod
    def of(
        cls,
        vocabulary: Vocabulary,
        sentences: Sequence[Sequence[str]],
        labels: Sequence[Sequence[str]],
        *,
        batch_size: int,
        num_shapes: int = 5,
    ) -> Batches:
        """Encodes a corpus for a training loop of your own.

        Args:
            vocabulary: What `build_vocabulary` returned.
            sentences: The tokens of each.
            labels: Their labels, in the vocabulary's scheme.
            batch_size: Sentences in a batch.
            num_shapes: How many shapes batches may have; each is compiled.

        Raises:
            ValueError: A label is not in the vocabulary.

        Example:
            >>> import jaxner
            >>> text, labels = [["Rome", "fell"], ["Yes"]], [["S-LOC", "O"], ["O"]]
            >>> vocabulary, _ = jaxner.build_vocabulary(text, ["LOC"])
            >>> batches = jaxner.Batches.of(vocabulary, text, labels, batch_size=2)
            >>> ((batch, ids),) = batches.epoch(seed=0, epoch=0)
            >>> batch.words.shape, ids.tolist()
            ((2, 2), [[0, 0], [4, 0]])
        """
        return cls.make(
            [vocabulary.encode(tokens) for tokens in sentences],
            [vocabulary.label_ids(row) for row in labels],
            batch_size=batch_size,
            num_shapes=num_shapes,
            chars="token",  # right for models with dropout among characters, too
        )

    def epoch(self, seed: int, epoch: int) -> Iterator[tuple[Sentence, np.ndarray]]:
        """Yields the batches of an epoch, each in one block: sentences and label ids.

        Args:
            seed: Of the run.
            epoch: Which one.
        """
        for drawn in self.draw(seed, epoch):
            for _, block in self.blocks(drawn):
                yield block.sentences, block.labels

    @property
    def num_batches(self) -> int:
        """Batches, that is optimizer steps, in an epoch."""
        return -(-len(self.sentences) // self.batch_size)

    @property
    def num_tokens(self) -> int:
        """Tokens of the corpus."""
        return sum(map(len, self.labels))

    @property
    def mean_tokens(self) -> float:
        """Tokens of a whole batch, on average."""
        return self.num_tokens / len(self.sentences) * self.batch_size

    def draw(self, seed: int, epoch: int, *, skip: int = 0) -> Iterator[np.ndarray]:
        """Yields which sentences are in each batch of an epoch.

        Args:
            seed: Of the run.
            epoch: Which one.
            skip: Batches to leave out at the beginning, when a run resumes.
        """
        order = np.random.default_rng((seed, epoch)).permutation(len(self.sentences))
        for start in range(skip * self.batch_size, len(order), self.batch_size):
            yield order[start : start + self.batch_size]

    def blocks(self, drawn: np.ndarray) -> list[tuple[Shape, Block]]:
        """Cuts a batch into blocks, each with its shape.

        Args:
            drawn: The sentences of the batch, as `draw` yields them.
        """
        found = []
        for rows in self._cut(drawn):
            shape = self.shapes[shapes.fit(self._size(drawn[rows]), self.shapes)]
            found.append((shape, self._pad(drawn, rows, shape)))
        return found

    def alike(self, group: Sequence[np.ndarray]) -> list[tuple[Shape, Block]]:
        """Cuts batches into as many blocks each, and pads those to the same shapes.

        Args:
            group: The sentences of each batch, as `draw` yields them.

        Returns:
            The shape of the first blocks, and these with a leading axis; and so on.
        """
        found = []
        for cut in zip(*map(self._cut, group), strict=True):
            members = [drawn[rows] for drawn, rows in zip(group, cut, strict=True)]
            need = np.max([self._size(own) for own in members], axis=0)
            shape = self.shapes[shapes.fit(need.tolist(), self.shapes)]
            blocks = [self._pad(*pair, shape) for pair in zip(group, cut, strict=True)]
            found.append((shape, stack_trees(blocks)))
        return found

    def example(self, shape: Shape) -> Block:
        """Returns a block of a shape, for a program to be compiled for."""
        return self._pad(np.arange(0), np.arange(0), shape)

    def expected_shapes(self) -> list[tuple[Shape, float]]:
        """Returns the shapes, and the share of the blocks that has each."""
        numbers = [shapes.fit(size, self.shapes) for size in self._sample().tolist()]
        counts = collections.Counter(numbers)
        return [(s, counts[i] / len(numbers)) for i, s in enumerate(self.shapes)]

    def padding_share(self) -> float:
        """Returns the share of the token positions that hold no token, of a draw."""
        positions = tokens = 0
        for drawn in self._drafts():
            for rows in self._cut(drawn):
                size = self._size(drawn[rows])
                rows_padded = self._multiple(self.rows)
                positions += rows_padded * self.shapes[shapes.fit(size, self.shapes)][0]
                tokens += sum(len(self.labels[i]) for i in drawn[rows])
        return 1 - tokens / positions

    def summary(self) -> str:
        """Says in a line how the corpus is cut."""
        return (
            f"{self.num_batches:,} batches an epoch of {self.batch_size} {self.unit}s, "
            f"{len(self.shapes)} shapes to compile, {self.padding_share():.1%} padding"
        )

    def _cut(self, drawn: np.ndarray) -> list[np.ndarray]:
        """Returns the rows of each block: places in the batch, by ascending length."""
        order = np.argsort([len(self.labels[i]) for i in drawn], kind="stable")
        starts = range(0, len(order), self.rows)
        return [order[start : start + self.rows] for start in starts]

    def _size(self, members: np.ndarray) -> tuple[int, int, int]:
        """Counts tokens, distinct words and characters that a block needs room for."""
        numbers = np.concatenate([self.index[i] for i in members])
        longest = max(len(self.index[i]) for i in members)
        unique, _ = unique_words.once(numbers)
        width = max(unique_words.length(self.words[i]) for i in unique)
        rows = len(numbers) + 1 if self.chars == "token" else len(unique)
        return max(longest, 1), rows, max(width, 1)

    def _pad(self, drawn: np.ndarray, rows: np.ndarray, shape: Shape) -> Block:
        members = drawn[rows]
        here = [self.sentences[i] for i in members]
        pieces, count = self._piece_shapes.get(shape), self._multiple(self.rows)
        # A block of no sentences has the same fields as all others.
        batch = stack(
            here or [padding.without_tokens(self.sentences[0])],
            shape.tokens,
            count,
            pieces,
        )
        labels, index = np.zeros((2, count, shape.tokens), np.int32)
        for k, i in enumerate(members):
            labels[k, : len(self.labels[i])] = self.labels[i]
            index[k, : len(self.index[i])] = self.index[i]
        if self.chars == "token":  # row 0 is that of the padding
            unique = np.append(0, index[batch.mask])
            index[batch.mask] = np.arange(1, len(unique))
        else:
            unique, index = unique_words.once(index)
        spelled = [self.words[i] for i in unique]
        spelled += [b""] * (shape.words - len(spelled))
        chars = unique_words.rows(spelled, shape.chars)
        places = np.zeros(count, np.int32)
        places[: len(rows)] = rows
        return Block(batch._replace(chars=chars, char_index=index), labels, places)

    @functools.cached_property
    def _piece_shapes(self) -> dict[Shape, PieceShape]:
        given = [s.pieces for s in self.sentences if s.pieces is not None]
        return {
            shape: piece_shape([p for p in given if len(p.places) <= shape.tokens])
            for shape in self.shapes * bool(given)
        }

    def _drafts(self) -> list[np.ndarray]:
        """Draws some batches, to see what their blocks are like."""
        draws: list[np.ndarray] = []
        wanted = min(_SAMPLE, 4 * self.num_batches)
        while len(draws) < wanted:
            draws += self.draw(0, len(draws))
        return draws[:wanted]

    def _sample(self) -> np.ndarray:
        return np.array(
            [
                self._size(drawn[rows])
                for drawn in self._drafts()
                for rows in self._cut(drawn)
            ]
        )

    def _choose(self, count: int) -> tuple[Shape, ...]:
        sizes = np.array([self._size(np.array([i])) for i in range(len(self.labels))])
        tokens, _, width = sizes.max(axis=0).tolist()
        words = int(np.sort(sizes[:, 1])[-self.rows :].sum())
        if self.chars != "token":
            words = min(words, len(self.words))
        largest = Shape(tokens, words, width)
        found = shapes.choose(self._sample(), largest, count)
        return tuple(s._replace(words=self._multiple(s.words)) for s in found)

    def _multiple(self, count: int) -> int:
        return -(-count // self.parts) * self.parts
