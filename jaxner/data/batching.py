"""Batches: random draws from a corpus, padded to few shapes.

A batch is sorted by length and cut into blocks of equally many rows. Every block is
padded to one of few shapes, so that few programs are compiled; the gradients of the
blocks are added. Every batch is thus a draw from the whole corpus, as in the papers'
programs, with little padding.

`pad` and `join` alone know what stands where no token is. Shape letters: `B` sentences,
`T` tokens, `U` distinct words, `C` characters; `S` layers of `D` dimensions; `W`
windows of `P` pieces, `Q` pieces of the longest token (NumPy).
"""

from __future__ import annotations

import collections
import dataclasses
import functools
import itertools
from collections.abc import Hashable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import numpy as np

from jaxner.arguments import check_documents, check_vocabulary
from jaxner.data import schemes
from jaxner.data.vectors import TokenVectors
from jaxner.data.vocabulary import Vocabulary, check_text, length, spell
from jaxner.errors import InputError
from jaxner.fields import Count, OneOf, Seed, Size, checked
from jaxner.types import Pieces, Sentence
from jaxner.wording import counted, shown

if TYPE_CHECKING:
    from jaxtyping import Bool, Int

    AnyArray = Any  # a NumPy array on the host, a JAX array on the device

UNITS = ("sentence", "document")
CHARS = ("distinct", "token", "none")
"""Rows of a block's characters: one per distinct word or token, or none at all."""

_SAMPLE = 2_000  # batches for the choice of shapes
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


class PieceShape(NamedTuple):
    """Padded size of word pieces: windows, pieces of a window, pieces of a token."""

    windows: int
    pieces: int
    longest: int


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


def merge(sentences: Sequence[Sentence]) -> tuple[list[bytes], list[np.ndarray]]:
    """Returns the distinct words of sentences, the first empty, and their indices, [T].

    Example:
        >>> chars, ids = np.array([[0, 0], [5, 6], [5, 0]]), np.array([1, 2, 1])
        >>> words, (index,) = merge([Sentence(ids, chars, ids, ids > 0)])
        >>> spell(words, 2).tolist(), index.tolist()
        ([[0, 0], [5, 6], [5, 0]], [1, 2, 1])
    """
    numbers: dict[bytes, int] = collections.defaultdict(itertools.count().__next__)
    numbers[b""]
    index = []
    for sentence in sentences:
        count, width = sentence.chars.shape
        # As byte strings, NumPy drops the trailing zeros.
        chars = np.ascontiguousarray(sentence.chars, np.int32)
        words = chars.view(f"S{4 * width}").ravel().tolist() if width else [b""]
        known = np.array([numbers[word] for word in words[:count]], np.int32)
        index.append(known[sentence.char_index])
    return list(numbers), index


# Padding.


def pad(
    sentences: Sequence[Sentence],
    shape: Shape | int,
    count: int | None = None,
    pieces: PieceShape | None = None,
    index: Sequence[np.ndarray] | None = None,
) -> Sentence:
    """Returns one padded batch of sentences.

    Args:
        sentences: Encoded sentences without padding, which must fit the shape.
        shape: Padded size of a batch whose sentences share their distinct words; or the
            padded number of tokens, and each sentence keeps its own words, so that a
            plain `jax.vmap` maps over every field.
        count: Padded number of sentences; extra sentences have no tokens.
        pieces: Padded size of the word pieces; None for one of few shapes.
        index: For sentences without characters: the word of each of their tokens, as
            `char_index` of the batch; `chars` are then left to the caller.

    Returns:
        A `Sentence` of arrays [B, T], `chars` [U, C] or [B, U, C], `vectors` [B, T, S,
        D] and pieces [B, W, P], [B, W, P], [B, T, Q].

    Example:
        >>> ids, chars = np.array([5]), np.array([[0, 0], [7, 8]])
        >>> one = Sentence(ids, chars, np.array([1]), ids > 0)
        >>> batch = pad([one], Shape(tokens=2, words=3, chars=3))
        >>> batch.words.tolist(), batch.chars.tolist()
        ([[5, 0]], [[0, 0, 0], [7, 8, 0], [0, 0, 0]])
    """
    if index is not None:
        chars = None
    elif isinstance(shape, Shape):
        words, index = merge(sentences)
        chars = spell(words, shape.chars, shape.words)
    else:
        sizes = np.array([s.chars.shape for s in sentences] or [(1, 1)])
        chars = np.zeros((count or len(sentences), *sizes.max(axis=0)), np.int32)
        for row, s in zip(chars, sentences, strict=False):
            row[: s.chars.shape[0], : s.chars.shape[1]] = s.chars
    tokens = shape.tokens if isinstance(shape, Shape) else shape
    rows = len(sentences) if count is None else count
    places = _filled([len(s.words) for s in sentences], rows, tokens)
    batch = _lay(sentences, places, pieces, index)
    return batch._replace(chars=chars)


def pad_labels(
    labels: Sequence[np.ndarray], length: int, count: int | None = None
) -> Int[np.ndarray, "B T"]:
    """Returns the label ids of a batch, 0 under padding; arguments as of `pad`."""
    rows = len(labels) if count is None else count
    return _laid(labels, _filled([len(ids) for ids in labels], rows, length))


def join(sentences: Sequence[Sentence]) -> Sentence:
    """Returns the encoded sentences of one document as one, with separators.

    Separators are before, between and after the sentences, as in the code of Strubell
    et al. (2017). A separator is a token whose ids are all 0. Its label is trained, but
    no word ever gets it.

    Args:
        sentences: Encoded sentences without padding.

    Returns:
        One sequence of all tokens, with one more separator than sentences. The word
        pieces of each sentence keep their own windows.

    Example:
        >>> ids, chars = np.array([5, 6]), np.array([[0], [7], [8]])
        >>> one = Sentence(ids, chars, np.array([1, 2]), ids > 0)
        >>> join([one, one]).words.tolist()
        [0, 5, 6, 0, 5, 6, 0]
    """
    words, index = merge(sentences)
    places = _between([len(s.words) for s in sentences])
    joined = _lay(sentences, places, None, index)
    chars = spell(words, max(map(length, words)) or 1)
    return joined._replace(chars=chars, mask=np.ones(len(places), bool))


def join_labels(labels: Sequence[np.ndarray], separator: int) -> np.ndarray:
    """Returns the label ids of one document, with the label id of separators."""
    return _laid(labels, _between([len(ids) for ids in labels]), separator)


def end_to_end(
    sentences: Sequence[Sentence], index: Sequence[np.ndarray] | None = None
) -> Sentence:
    """Returns the tokens of sentences as one sequence; `index` and `chars` as of `pad`.

    Positions of word pieces are in the windows of all sentences end to end.
    """
    places = np.ones(sum(len(s.words) for s in sentences), bool)
    return _lay(sentences, places, None, index)


def joined(
    documents: Iterable[Hashable],
    sentences: Sequence[Sentence],
    labels: Sequence[np.ndarray],
    separator: int,
) -> tuple[list[Sentence], list[np.ndarray]]:
    """Returns the documents of encoded sentences, and their label ids."""
    members = groups(documents)
    return (
        [join([sentences[i] for i in group]) for group in members],
        [join_labels([labels[i] for i in group], separator) for group in members],
    )


def split(values: np.ndarray, lengths: Sequence[int]) -> list[np.ndarray]:
    """Returns the values of a document's tokens, without separators, by sentence.

    Example:
        >>> [part.tolist() for part in split(np.array([9, 1, 2, 9, 3, 9]), [2, 1])]
        [[1, 2], [3]]
    """
    ends = np.cumsum([n + 1 for n in lengths])
    return [values[end - n : end] for end, n in zip(ends, lengths, strict=True)]


def groups(documents: Iterable[Hashable]) -> list[list[int]]:
    """Returns the indices of the sentences in each document, by first sentence.

    Example:
        >>> groups([1, 1, 2])
        [[0, 1], [2]]
    """
    members: dict[Hashable, list[int]] = {}
    for i, document in enumerate(documents):
        members.setdefault(document, []).append(i)
    return list(members.values())


def _filled(lengths: Sequence[int], count: int, width: int) -> Bool[np.ndarray, "B T"]:
    """Returns which places of a batch its sentences fill."""
    ends = np.zeros(count, int)
    ends[: len(lengths)] = lengths
    return np.arange(width) < ends[:, None]


def _between(lengths: Sequence[int]) -> Bool[np.ndarray, " T"]:
    """Returns which places of a document are tokens, not separators."""
    places = np.ones(sum(lengths) + len(lengths) + 1, bool)
    places[np.cumsum([0, *(n + 1 for n in lengths)])] = False
    return places


def _laid(rows: Sequence[Any], places: np.ndarray, fill: int = 0) -> np.ndarray:
    """Returns rows end to end at the True places of a mask, and `fill` elsewhere."""
    flat = np.concatenate(rows) if rows else np.zeros(0, np.int32)
    # Float vectors become single precision, ids (also rows of a table) int32.
    kind = {"f": np.float32, "b": bool}.get(flat.dtype.kind, np.int32)
    laid = np.full((*places.shape, *flat.shape[1:]), fill, kind)
    laid[places] = flat
    return laid


def _lay(
    sentences: Sequence[Sentence],
    places: Bool[np.ndarray, "*B T"],
    shape: PieceShape | None,
    index: Sequence[np.ndarray] | None,
) -> Sentence:
    """Returns the tokens of sentences at the True places of a mask; no characters."""
    caps = [np.zeros_like(s.words) if s.caps is None else s.caps for s in sentences]
    vectors = [np.asarray(s.vectors) for s in sentences if s.vectors is not None]
    pieces = [s.pieces for s in sentences if s.pieces is not None]
    return Sentence(
        _laid([s.words for s in sentences], places),
        np.zeros((1, 1), np.int32),
        _laid([s.char_index for s in sentences] if index is None else index, places),
        _laid([s.mask for s in sentences] or [np.zeros(0, bool)], places),
        _laid(caps, places),
        _laid(vectors, places) if vectors else None,
        _lay_pieces(pieces, places, shape) if pieces else None,
    )


def _lay_pieces(
    pieces: Sequence[Pieces],
    places: Bool[np.ndarray, "*B T"],
    shape: PieceShape | None,
) -> Pieces:
    """Returns the pieces of a batch, or of a document if `places` have one axis."""
    is_batch = places.ndim == 2
    shape = shape or piece_shape(pieces, few=is_batch)
    counts = [len(p.windows) for p in pieces]
    if is_batch:
        held, offsets = _filled(counts, len(places), shape.windows), [0] * len(pieces)
    else:
        held, offsets = np.ones(sum(counts), bool), np.cumsum([0, *counts])[:-1]

    def widened(array: np.ndarray, width: int, fill: int = 0) -> np.ndarray:
        return np.pad(
            array, ((0, 0), (0, width - array.shape[1])), constant_values=fill
        )

    windows = [widened(p.windows, shape.pieces) for p in pieces]
    masks = [widened(p.mask, shape.pieces) for p in pieces]
    positions = []
    for p, offset in zip(pieces, offsets, strict=True):
        width = p.windows.shape[1]
        moved = (p.positions // width + offset) * shape.pieces + p.positions % width
        moved = np.where(p.positions < 0, -1, moved)
        positions.append(widened(moved, shape.longest, -1))
    return Pieces(
        _laid(windows, held), _laid(masks, held), _laid(positions, places, -1)
    )


def piece_shape(pieces: Sequence[Pieces], *, few: bool = False) -> PieceShape:
    """Returns the padded size of pieces; with `few`, rounded up to powers of two."""
    sizes = np.array([(*p.windows.shape, p.positions.shape[1]) for p in pieces])
    most = sizes.max(axis=0).tolist()
    if few:
        pairs = zip((1, 16, 4), most, strict=True)
        most = [max(least, 1 << max(n - 1, 0).bit_length()) for least, n in pairs]
    return PieceShape(*most)


def without_far_vectors(
    sentences: Sequence[Sentence], count: int, parts: int, near: frozenset[int] | None
) -> list[Sentence]:
    """Returns a batch's sentences; vectors in files are read for this process only.

    `parts` devices share `count` rows; this process has those of `near` (None: all).
    The vectors of other rows, if they are still in a file, become zeros.
    """
    kept = list(sentences)
    for row, sentence in enumerate(sentences):
        vectors = sentence.vectors
        is_far = near is not None and row * parts // count not in near
        if is_far and isinstance(vectors, TokenVectors):
            shape = len(sentence.words), *vectors.sizes
            kept[row] = sentence._replace(vectors=np.broadcast_to(np.float32(0), shape))
    return kept


# The choice of shapes, by sizes: tokens, distinct words, and characters of the longest
# word, [N, 3].


def bounds(lengths: Sequence[int] | np.ndarray, count: int) -> list[int]:
    """Returns at most `count` ascending bounds of lengths, with the least padding.

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
    """Returns at most `count` ascending shapes of blocks, as few as keep padding low.

    The last is `largest`, which holds every block. Another shape must save a twentieth
    of the token positions. A shape holds the words and characters of nearly all blocks
    of its length; the other blocks use a longer shape. Most words are short, so only
    the two longest shapes hold the longest word of the corpus.

    Example:
        >>> choose(np.array([[5, 4, 6], [9, 7, 6], [9, 7, 6]]), Shape(20, 30, 9), 3)
        [Shape(tokens=5, words=4, chars=6), Shape(tokens=9, words=7, chars=9), \
Shape(tokens=20, words=30, chars=9)]
    """

    def positions(shapes: Sequence[Shape]) -> int:
        return sum(shapes[fit(size, shapes)].tokens for size in sizes.tolist())

    best, least = [largest], positions([largest])
    for more in range(2, count + 1):
        shapes = _shapes(sizes, largest, more)
        cost = positions(shapes)
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
    """Returns the index of the first shape that holds a block."""
    holds = (all(n <= m for n, m in zip(size, s, strict=True)) for s in shapes)
    return next(i for i, does in enumerate(holds) if does)


@dataclasses.dataclass(frozen=True)
class Batches:
    """A training corpus and its division into batches.

    Every batch is a random draw from the whole corpus. The order depends only on the
    seed and the epoch.

    Attributes:
        sentences: Encoded sentences without padding and characters.
        labels: Label ids of each sentence.
        words: Distinct words of the corpus, in the form of `merge`.
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
        """Returns batches of a corpus, with at most `num_shapes` shapes for its sizes.

        The arguments are the attributes of `Batches`; a batch has `num_blocks` blocks.

        Raises:
            TypeError, ValueError: An argument is wrong, or `sentences` is empty.
        """
        if not sentences:
            raise InputError("The training data have no sentences")
        _check_corpus(sentences, labels)
        if chars == "none":
            sentences = [without_characters(s) for s in sentences]
        words, index = merge(sentences)
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
        _check_scheme(labels, vocabulary.scheme)
        encoded = [vocabulary.encode(tokens) for tokens in sentences]
        ids = [vocabulary.label_ids(row) for row in labels]
        _check_corpus(encoded, ids)  # before documents hide whose labels they are
        if vocabulary.reads_documents:
            numbers = range(len(encoded)) if documents is None else documents
            separator = len(vocabulary.label_names) - 1
            encoded, ids = joined(numbers, encoded, ids, separator)
        # One row per token is also correct for models with dropout on characters.
        options: Any = {"batch_size": batch_size, "num_shapes": num_shapes}
        return cls.make(encoded, ids, chars="token", **options)

    @checked
    def epoch(self, seed: Seed, epoch: Count) -> Iterator[tuple[Sentence, np.ndarray]]:
        """Yields sentences and label ids of the batches of an epoch, by block."""
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

        A run that resumes skips the first `skip` batches.
        """
        order = np.random.default_rng((seed, epoch)).permutation(len(self.sentences))
        for start in range(skip * self.batch_size, len(order), self.batch_size):
            yield order[start : start + self.batch_size]

    def blocks(self, drawn: np.ndarray) -> list[tuple[Shape, Block]]:
        """Returns the blocks of a batch from `draw`, each with its shape."""
        blocks = []
        for rows in self.cut(drawn):
            shape = self.shapes[fit(self.size(drawn[rows]), self.shapes)]
            blocks.append((shape, self._pad(drawn, rows, shape)))
        return blocks

    def padding_share(self) -> float:
        """Returns the share of padding in the token positions of sampled batches."""
        blocks = self._sampled_blocks()
        numbers = [fit(self.size(members), self.shapes) for members in blocks]
        tokens = sum(len(self.labels[i]) for members in blocks for i in members)
        longest = sum(self.shapes[i].tokens for i in numbers)
        return 1 - tokens / (self.multiple(self.rows) * longest)

    def summary(self) -> str:
        """Returns a line about batches, shapes and padding."""
        return (
            f"{counted(self.num_batches, 'batch', 'batches')} an epoch of "
            f"{counted(self.batch_size, self.unit)}, "
            f"{counted(len(self.shapes), 'shape')} to compile, "
            f"{self.padding_share():.1%} padding"
        )

    def cut(self, drawn: np.ndarray) -> list[np.ndarray]:
        """Returns the rows of each block: batch indices by ascending length."""
        order = np.argsort([len(self.labels[i]) for i in drawn], kind="stable")
        starts = range(0, len(order), self.rows)
        return [order[start : start + self.rows] for start in starts]

    def size(self, members: np.ndarray) -> tuple[int, int, int]:
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
        return np.array([length(word) for word in self.words])

    def _pad(self, drawn: np.ndarray, rows: np.ndarray, shape: Shape) -> Block:
        members, count = drawn[rows], self.multiple(self.rows)
        sentences = without_far_vectors(
            [self.sentences[i] for i in members], count, self.parts, self.own_parts
        )
        index = [self.index[i] for i in members]
        if not sentences:  # such a block has the same fields as others
            sentences, index = [_empty(self.sentences[0])], [np.zeros(0, np.int32)]
        pieces = self._piece_shapes.get(shape)
        batch = pad(sentences, shape, count, pieces, index)
        places = batch.mask
        if self.chars == "token":  # row 0 is for padding
            unique = np.append(0, batch.char_index[places])
            batch.char_index[places] = np.arange(1, len(unique))
            char_index = batch.char_index
        else:
            unique, where = np.unique(
                np.append(batch.char_index, 0), return_inverse=True
            )
            char_index = where[:-1].reshape(places.shape).astype(np.int32)
        chars = spell([self.words[i] for i in unique], shape.chars, shape.words)
        labels = pad_labels([self.labels[i] for i in members], shape.tokens, count)
        numbers = np.zeros(count, np.int32)
        numbers[: len(rows)] = rows
        return Block(
            batch._replace(chars=chars, char_index=char_index), labels, numbers
        )

    @functools.cached_property
    def _piece_shapes(self) -> dict[Shape, PieceShape]:
        pieces = [s.pieces for s in self.sentences if s.pieces is not None]
        if not pieces:
            return {}
        return {
            shape: piece_shape([p for p in pieces if len(p.positions) <= shape.tokens])
            for shape in self.shapes
        }

    def _sampled_blocks(self) -> list[np.ndarray]:
        """Returns the sentences of the blocks of some batches."""
        draws: list[np.ndarray] = []
        enough = min(_SAMPLE, 4 * self.num_batches)
        while len(draws) < enough:
            draws += self.draw(0, len(draws))
        return [drawn[rows] for drawn in draws[:enough] for rows in self.cut(drawn)]

    def _choose(self, count: int) -> tuple[Shape, ...]:
        sizes = np.array([self.size(np.array([i])) for i in range(len(self.labels))])
        tokens, _, width = sizes.max(axis=0).tolist()
        words = int(np.sort(sizes[:, 1])[-self.rows :].sum())
        if self.chars != "token":
            words = min(words, len(self.words))
        largest = Shape(tokens, words, width)
        sample = np.array([self.size(members) for members in self._sampled_blocks()])
        shapes = choose(sample, largest, count)
        return tuple(s._replace(words=self.multiple(s.words)) for s in shapes)

    def multiple(self, count: int) -> int:
        """Returns a number rounded up so that devices share it equally."""
        return -(-count // self.parts) * self.parts


def without_characters(sentence: Sentence) -> Sentence:
    """Returns a sentence for a model that reads no characters."""
    none = np.zeros((1, 1), np.int32)
    return sentence._replace(chars=none, char_index=np.zeros_like(sentence.char_index))


def _empty(sentence: Sentence) -> Sentence:
    """Returns a sentence of the same kind without tokens."""
    pieces = sentence.pieces and Pieces(*(array[:0, :0] for array in sentence.pieces))
    vectors = None if sentence.vectors is None else np.asarray(sentence.vectors)[:0]
    none = sentence.words[:0]
    return sentence._replace(
        words=none,
        char_index=none,
        mask=sentence.mask[:0],
        caps=None,
        vectors=vectors,
        pieces=pieces,
    )


def stack(trees: Sequence[Any]) -> Any:
    """Returns tuples of equal structure with their arrays stacked."""
    first = trees[0]
    if first is None:
        return None
    if isinstance(first, tuple):
        fields: Any = (stack(parts) for parts in zip(*trees, strict=True))
        return type(first)(*fields)
    return np.stack(trees)


def _check_corpus(sentences: Any, labels: Any) -> None:
    """Checks encoded sentences, and that each has as many label ids as tokens."""
    for name, values in (("sentences", sentences), ("labels", labels)):
        if not isinstance(values, (list, tuple)):
            raise TypeError(f"Expected {name} as a list, got {shown(values)}.")
    if len(labels) != len(sentences):
        raise InputError(
            f"Expected labels for each of the {counted(len(sentences), 'sentence')}, "
            f"got {len(labels)}."
        )
    for i, (sentence, ids) in enumerate(zip(sentences, labels, strict=True)):
        if not isinstance(sentence, Sentence):
            raise TypeError(
                f"Expected what Vocabulary.encode returns as sentence {i}, got "
                f"{shown(sentence)}."
            )
        ids, count = np.asarray(ids), len(sentence.words)
        if ids.shape != (count,) or (count and ids.dtype.kind not in "iu"):
            raise InputError(
                f"Expected the ids of {counted(count, 'label')} for sentence {i}, got "
                f"{ids.dtype} {list(ids.shape)}."
            )


def _check_scheme(rows: Sequence[Sequence[str]], scheme: str) -> None:
    """Raises ValueError if training labels break the scheme, TypeError if no list."""
    if isinstance(rows, str) or not hasattr(rows, "__len__"):
        raise TypeError(f"Expected labels as a list of lists, got {shown(rows)}.")
    if scheme == schemes.TAGS:
        return
    wrong = [i for i, row in enumerate(rows) if schemes.violations(row, scheme)]
    if wrong:
        raise InputError(
            f"The labels of {len(wrong):,} of {counted(len(rows), 'sentence')} break "
            f"{scheme}, first in sentence {wrong[0]}. Convert each, "
            f"jaxner.data.schemes.convert(row, {scheme!r}), or build the vocabulary "
            "with their scheme."
        )
