"""Batches: random draws from the corpus, computed in blocks of few fixed shapes.

A batch is sorted by length and cut into blocks of equally many rows. Every block is
padded to one of few shapes, so that few programs are compiled; the gradients of the
blocks are added. Every batch is thus a draw from the whole corpus, as in the papers'
programs, with little padding.

Shape letters: `B` sentences, `T` tokens, `U` distinct words, `C` characters (NumPy).
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Hashable, Iterator, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np

from jaxner.arguments import check_documents, check_vocabulary
from jaxner.checked import checked
from jaxner.data import documents as joining
from jaxner.data import label_ids, padding, shapes, unique_words
from jaxner.data.padding import Block as Block
from jaxner.data.padding import PieceShape, piece_shape, stack_trees
from jaxner.data.padding import pad as pad
from jaxner.data.padding import stack as stack
from jaxner.data.sentences import check_corpus, check_text
from jaxner.data.shapes import Shape as Shape
from jaxner.fields import Count, OneOf, Seed, Size
from jaxner.types import Sentence
from jaxner.wording import counted

if TYPE_CHECKING:
    from jaxner.data.vocab import Vocabulary

_SAMPLE = 2_000  # batches for the choice of shapes

UNITS = ("sentence", "document")
CHARS = ("distinct", "token", "none")
"""Rows of a block's characters: one per distinct word or token, or none at all."""


@dataclasses.dataclass(frozen=True)
class Batches:
    """A training corpus and its division into batches.

    Every batch is a random draw from the whole corpus. The order depends only on the
    seed and the epoch.

    Attributes:
        sentences: Encoded sentences without padding and characters.
        labels: Label ids of each sentence.
        words: Distinct words of the corpus, in the form of `unique_words`.
        index: Indices of each sentence's tokens in `words`.
        batch_size: Sentences in a batch; the last batch of an epoch may have fewer.
        rows: Sentences in a block.
        shapes: Padded sizes of blocks, ascending; each is compiled once.
        chars: The rows of a block's characters, one of `CHARS`.
        unit: What an element of `sentences` is: a "sentence" or a "document".
        parts: Number of devices that share a block; rows and distinct words are padded
            to a multiple of this number.
        own_parts: Those of this process; None for all.
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
    own_parts: frozenset[int] | None = None

    @classmethod
    @checked
    def make(
        cls,
        sentences: Sequence[Sentence],
        labels: Sequence[np.ndarray],
        *,
        batch_size: Size,
        num_blocks: Size = 1,
        num_shapes: Size = 5,
        chars: Annotated[str, OneOf(CHARS)] = "distinct",
        unit: Annotated[str, OneOf(UNITS)] = "sentence",
        parts: Size = 1,
        own_parts: frozenset[int] | None = None,
    ) -> Batches:
        """Returns batches of a corpus, with shapes chosen for its sizes.

        Args:
            sentences: Encoded sentences without padding.
            labels: Label ids of each sentence.
            batch_size: Sentences in a batch.
            num_blocks: Blocks in a batch.
            num_shapes: Maximum number of shapes.
            chars: One of `CHARS`.
            unit: "sentence" or "document".
            parts: Number of devices that share a block.
            own_parts: Which of them this process has; None for all.

        Raises:
            TypeError, ValueError: An argument is wrong, or `sentences` is empty.
        """
        if not sentences:
            raise ValueError("The training data have no sentences")
        check_corpus(sentences, labels)
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
            own_parts,
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
        documents: Sequence[Hashable] | None = None,
    ) -> Batches:
        """Returns the batches of a corpus, for a training loop of your own.

        Args:
            vocabulary: What `build_vocabulary` returned.
            sentences: Tokens of each sentence.
            labels: Labels of each sentence, in the vocabulary's scheme.
            batch_size: Sentences in a batch.
            num_shapes: Maximum number of batch shapes; each is compiled once.
            documents: Document of each sentence, for a vocabulary of documents; by
                default, each sentence is a document. Other vocabularies ignore it.

        Raises:
            TypeError: An argument has another type.
            ValueError: A label is not in the vocabulary, or breaks its scheme; or the
                numbers of documents and sentences differ.

        Example:
            >>> import jaxner
            >>> text, labels = [["Rome", "fell"], ["Yes"]], [["S-LOC", "O"], ["O"]]
            >>> vocabulary, _ = jaxner.build_vocabulary(text, ["LOC"])
            >>> batches = jaxner.Batches.of(vocabulary, text, labels, batch_size=2)
            >>> ((batch, ids),) = batches.epoch(seed=0, epoch=0)
            >>> batch.words.shape, ids.tolist()
            ((2, 2), [[0, 0], [4, 0]])
        """
        check_vocabulary(vocabulary)
        check_text(sentences)
        check_documents(documents, len(sentences))
        label_ids.check_scheme(labels, vocabulary.scheme)
        encoded = [vocabulary.encode(tokens) for tokens in sentences]
        ids = [vocabulary.label_ids(row) for row in labels]
        check_corpus(encoded, ids)  # before documents hide whose labels they are
        if vocabulary.reads_documents:
            own = range(len(encoded)) if documents is None else documents
            separator = len(vocabulary.label_names) - 1
            encoded, ids = joining.joined(joining.groups(own), encoded, ids, separator)
        # One row per token is also correct for models with dropout on characters.
        options: Any = {"batch_size": batch_size, "num_shapes": num_shapes}
        return cls.make(encoded, ids, chars="token", **options)

    @checked
    def epoch(self, seed: Seed, epoch: Count) -> Iterator[tuple[Sentence, np.ndarray]]:
        """Yields sentences and label ids of the batches of an epoch, one block each.

        Args:
            seed: Seed of the run.
            epoch: Number of the epoch.
        """
        for drawn in self.draw(seed, epoch):
            for _, block in self.blocks(drawn):
                yield block.sentences, block.labels

    @property
    def num_batches(self) -> int:
        """Number of batches, and so of optimizer steps, in an epoch."""
        return -(-len(self.sentences) // self.batch_size)

    @property
    def num_tokens(self) -> int:
        """Number of tokens in the corpus."""
        return sum(map(len, self.labels))

    @property
    def mean_tokens(self) -> float:
        """Mean number of tokens in a full batch."""
        return self.num_tokens / len(self.sentences) * self.batch_size

    def draw(self, seed: int, epoch: int, *, skip: int = 0) -> Iterator[np.ndarray]:
        """Yields the indices of the sentences in each batch of an epoch.

        Args:
            seed: Seed of the run.
            epoch: Number of the epoch.
            skip: Number of batches to skip, when a run resumes.
        """
        order = np.random.default_rng((seed, epoch)).permutation(len(self.sentences))
        for start in range(skip * self.batch_size, len(order), self.batch_size):
            yield order[start : start + self.batch_size]

    def blocks(self, drawn: np.ndarray) -> list[tuple[Shape, Block]]:
        """Returns the blocks of a batch, each with its shape.

        Args:
            drawn: Indices of the batch's sentences, from `draw`.
        """
        found = []
        for rows in self._cut(drawn):
            shape = self.shapes[shapes.fit(self._size(drawn[rows]), self.shapes)]
            found.append((shape, self._pad(drawn, rows, shape)))
        return found

    def alike(self, group: Sequence[np.ndarray]) -> list[tuple[Shape, Block]]:
        """Returns the blocks of several batches, padded to the same shapes.

        Args:
            group: Indices of each batch's sentences, from `draw`.

        Returns:
            For the first blocks of all batches, then the second and so on: their shape,
            and the blocks stacked on a leading axis.
        """
        found = []
        for cut in zip(*map(self._cut, group), strict=True):
            members = [drawn[rows] for drawn, rows in zip(group, cut, strict=True)]
            need = np.max([self._size(own) for own in members], axis=0)
            shape = self.shapes[shapes.fit(need.tolist(), self.shapes)]
            blocks = [self._pad(*pair, shape) for pair in zip(group, cut, strict=True)]
            found.append((shape, stack_trees(blocks)))
        return found

    def padding_share(self) -> float:
        """Returns the share of padding in the token positions of sampled batches."""
        numbers, tokens = self._sampled_shapes
        longest = sum(self.shapes[i].tokens for i in numbers)
        return 1 - tokens / (self._multiple(self.rows) * longest)

    def summary(self) -> str:
        """Returns a line about batches, shapes and padding."""
        return (
            f"{counted(self.num_batches, 'batch', 'batches')} an epoch of "
            f"{counted(self.batch_size, self.unit)}, "
            f"{counted(len(self.shapes), 'shape')} to compile, "
            f"{self.padding_share():.1%} padding"
        )

    def _cut(self, drawn: np.ndarray) -> list[np.ndarray]:
        """Returns the rows of each block: batch indices by ascending length."""
        order = np.argsort([len(self.labels[i]) for i in drawn], kind="stable")
        starts = range(0, len(order), self.rows)
        return [order[start : start + self.rows] for start in starts]

    def _size(self, members: np.ndarray) -> tuple[int, int, int]:
        """Returns the tokens, distinct words and characters that a block must hold."""
        numbers = np.concatenate([self.index[i] for i in members])
        longest = max(len(self.index[i]) for i in members)
        width = int(self._widths[numbers].max(initial=1))
        unique = {0, *numbers.tolist()}  # faster than NumPy's for so few
        rows = len(numbers) + 1 if self.chars == "token" else len(unique)
        return max(longest, 1), rows, width

    @functools.cached_property
    def _widths(self) -> np.ndarray:
        """The number of characters of each distinct word."""
        return np.array([unique_words.length(word) for word in self.words])

    def _pad(self, drawn: np.ndarray, rows: np.ndarray, shape: Shape) -> Block:
        members = drawn[rows]
        pieces, count = self._piece_shapes.get(shape), self._multiple(self.rows)
        here = [self.sentences[i] for i in members]
        here = padding.of_parts(here, count, self.parts, self.own_parts)
        # A block without sentences has the same fields as others.
        here = here or [padding.without_tokens(self.sentences[0])]
        batch = stack(here, shape.tokens, count, pieces)
        labels, index = np.zeros((2, count, shape.tokens), np.int32)
        for k, i in enumerate(members):
            labels[k, : len(self.labels[i])] = self.labels[i]
            index[k, : len(self.index[i])] = self.index[i]
        if self.chars == "token":  # row 0 is for padding
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
            shape: piece_shape([p for p in given if len(p.positions) <= shape.tokens])
            for shape in self.shapes * bool(given)
        }

    @functools.cached_property
    def _sampled_shapes(self) -> tuple[list[int], int]:
        """The indices of the shapes of sampled blocks, and their number of tokens."""
        blocks = self._sampled_blocks()
        numbers = [shapes.fit(self._size(members), self.shapes) for members in blocks]
        return numbers, sum(len(self.labels[i]) for members in blocks for i in members)

    def _sampled_blocks(self) -> list[np.ndarray]:
        """Returns the sentences of the blocks of some batches."""
        draws: list[np.ndarray] = []
        wanted = min(_SAMPLE, 4 * self.num_batches)
        while len(draws) < wanted:
            draws += self.draw(0, len(draws))
        return [drawn[rows] for drawn in draws[:wanted] for rows in self._cut(drawn)]

    def _choose(self, count: int) -> tuple[Shape, ...]:
        sizes = np.array([self._size(np.array([i])) for i in range(len(self.labels))])
        tokens, _, width = sizes.max(axis=0).tolist()
        words = int(np.sort(sizes[:, 1])[-self.rows :].sum())
        if self.chars != "token":
            words = min(words, len(self.words))
        largest = Shape(tokens, words, width)
        sample = np.array([self._size(members) for members in self._sampled_blocks()])
        found = shapes.choose(sample, largest, count)
        return tuple(s._replace(words=self._multiple(s.words)) for s in found)

    def _multiple(self, count: int) -> int:
        return -(-count // self.parts) * self.parts
