"""Batches: random draws from a corpus, padded to few shapes.

A batch is sorted by length and cut into blocks of equally many rows. Every block is
padded to one of few shapes, so that few programs are compiled; the gradients of the
blocks are added. `pad` and `join` alone know what stands where no token is.

Shape letters: `B` sentences, `T` tokens, `U` distinct words, `C` characters; `S` layers
of `D` dimensions; `W` windows of `P` pieces, `Q` pieces of the longest token (NumPy).
"""

from __future__ import annotations

import collections
import itertools
from collections.abc import Hashable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from jaxner.arguments import check_documents, check_vocabulary, expect
from jaxner.data import schemes
from jaxner.data.vectors import TokenVectors
from jaxner.data.vocabulary import Vocabulary, check_text, length, spell
from jaxner.errors import InputError
from jaxner.fields import Count, Seed, Size, checked
from jaxner.types import LongWords, Pieces, Sentence
from jaxner.wording import counted

if TYPE_CHECKING:
    from jaxtyping import Bool, Int

UNITS = ("sentence", "document")

_SAMPLE = 2_000  # batches for the choice of shapes
_WORTHWHILE = 1.05  # minimum ratio of costs without and with one more shape
_USUAL, _MORE = 0.98, 1.5  # a shape holds _MORE times the _USUAL quantile of long words
_SHORT = 0.99  # the share of tokens that are no long words


class PieceShape(NamedTuple):
    """Padded size of word pieces: windows, pieces of a window, pieces of a token."""

    windows: int
    pieces: int
    longest: int


class Shape(NamedTuple):
    """The padded size of a block of sentences."""

    tokens: int  # of each sentence
    words: int  # distinct ones of all sentences, including the empty word
    chars: int  # of each word but the long ones
    long: int = 0  # words that have more, read apart
    longest: int = 0  # characters of each of these
    pieces: PieceShape | None = None  # None: as large as they need


def merge(sentences: Sequence[Sentence]) -> tuple[list[bytes], list[np.ndarray]]:
    """Returns the distinct words of sentences, the first empty, and their indices, [T].

    A word is the bytes of its character ids; see `vocabulary.spell`.
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
    sentences: Sequence[Sentence], shape: Shape | int, count: int | None = None
) -> Sentence:
    """Returns encoded sentences, without padding so far, as one padded batch.

    They must fit `shape`: that of a batch whose sentences share their distinct words;
    or the number of tokens, and each sentence keeps its own words, so that a plain
    `jax.vmap` maps over every field. Up to `count`, sentences without tokens follow.
    """
    tokens, *_, pieces = shape if isinstance(shape, Shape) else (shape, None)
    places = _filled([s.words for s in sentences], tokens, count)
    if isinstance(shape, Shape):
        words, index = merge(sentences)
        chars, long = spell_apart(words, shape)
    else:
        long = None
        index = [s.char_index for s in sentences]
        sizes = np.array([s.chars.shape for s in sentences] or [(1, 1)])
        chars = np.zeros((len(places), *sizes.max(axis=0)), np.int32)
        for i, s in enumerate(sentences):
            chars[i, : s.chars.shape[0], : s.chars.shape[1]] = s.chars
    return _lay(sentences, places, index, pieces)._replace(chars=chars, long=long)


def spell_apart(
    words: Sequence[bytes], shape: Shape
) -> tuple[Int[np.ndarray, "U C"], LongWords | None]:
    """Returns the characters of distinct words, cut off, and the long words whole."""
    chars = spell(words, shape.chars, shape.words)
    if not shape.long:
        return chars, None
    rows = [i for i, word in enumerate(words) if length(word) > shape.chars]
    whole = spell([words[i] for i in rows], shape.longest, shape.long)
    rows += [shape.words] * (shape.long - len(rows))
    return chars, LongWords(np.array(rows, np.int32), whole)


def pad_labels(
    labels: Sequence[np.ndarray], length: int, count: int | None = None
) -> Int[np.ndarray, "B T"]:
    """Returns the label ids of a batch, 0 under padding; arguments as of `pad`."""
    return _laid(labels, _filled(labels, length, count))


def join(sentences: Sequence[Sentence]) -> Sentence:
    """Returns the encoded sentences of one document as one, with separators.

    As in the code of Strubell et al. (2017), these stand before, between and after the
    sentences. Their label is trained, but no word ever gets it.
    """
    words, index = merge(sentences)
    places = _between([s.words for s in sentences])
    chars = spell(words, max(map(length, words)) or 1)
    joined = _lay(sentences, places, index)
    return joined._replace(chars=chars, mask=np.ones(len(places), bool))


def join_labels(labels: Sequence[np.ndarray], separator: int) -> np.ndarray:
    """Returns the label ids of one document, with the label id of separators."""
    return _laid(labels, _between(labels), separator)


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


def end_to_end(sentences: Sequence[Sentence]) -> Sentence:
    """Returns the tokens of sentences as one sequence, without characters.

    Positions of word pieces are in the windows of all sentences end to end.
    """
    index = [s.char_index for s in sentences]
    return _lay(sentences, np.ones(sum(map(len, index)), bool), index)


def split(values: np.ndarray, lengths: Sequence[int]) -> list[np.ndarray]:
    """Returns the values of a document's tokens, without separators, by sentence."""
    ends = np.cumsum([n + 1 for n in lengths])
    return [values[end - n : end] for end, n in zip(ends, lengths, strict=True)]


def groups(documents: Iterable[Hashable]) -> list[list[int]]:
    """Returns the indices of the sentences in each document, by first sentence."""
    members: dict[Hashable, list[int]] = {}
    for i, document in enumerate(documents):
        members.setdefault(document, []).append(i)
    return list(members.values())


def _filled(
    rows: Sequence[Any], width: int, count: int | None = None
) -> Bool[np.ndarray, "B T"]:
    """Returns which places of a batch its rows fill; `count`: as in `pad`."""
    ends = np.zeros(len(rows) if count is None else count, int)
    ends[: len(rows)] = [len(row) for row in rows]
    return np.arange(width) < ends[:, None]


def _between(rows: Sequence[Any]) -> Bool[np.ndarray, " T"]:
    """Returns which places of a document are tokens, not separators."""
    places = np.ones(sum(map(len, rows)) + len(rows) + 1, bool)
    places[np.cumsum([0, *(len(row) + 1 for row in rows)])] = False
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
    index: Sequence[np.ndarray],
    shape: PieceShape | None = None,
) -> Sentence:
    """Returns the tokens of sentences at the True places of a mask; no characters."""
    caps = [np.zeros_like(s.words) if s.caps is None else s.caps for s in sentences]
    vectors = [np.asarray(s.vectors) for s in sentences if s.vectors is not None]
    pieces = [s.pieces for s in sentences if s.pieces is not None]
    return Sentence(
        _laid([s.words for s in sentences], places),
        np.zeros((1, 1), np.int32),
        _laid(index, places),
        _laid([s.mask for s in sentences] or [np.zeros(0, bool)], places),
        _laid(caps, places),
        _laid(vectors, places) if vectors else None,
        _lay_pieces(pieces, places, shape) if pieces else None,
    )


def _lay_pieces(pieces, places: Bool[np.ndarray, "*B T"], shape) -> Pieces:
    """Returns the pieces of a batch, or of a document if `places` have one axis."""
    is_batch = places.ndim == 2
    shape = shape or piece_shape(pieces, few=is_batch)
    counts = [len(p.windows) for p in pieces]
    if is_batch:
        offsets = [0] * len(pieces)
        held = _filled([p.windows for p in pieces], shape.windows, len(places))
    else:
        offsets, held = np.cumsum([0, *counts])[:-1], np.ones(sum(counts), bool)

    def widened(array: np.ndarray, width: int, fill: int = 0) -> np.ndarray:
        missing = ((0, 0), (0, width - array.shape[1]))
        return np.pad(array, missing, constant_values=fill)

    positions = []
    for p, offset in zip(pieces, offsets, strict=True):
        width = p.windows.shape[1]
        moved = (p.positions // width + offset) * shape.pieces + p.positions % width
        moved = np.where(p.positions < 0, -1, moved)
        positions.append(widened(moved, shape.longest, -1))
    return Pieces(
        _laid([widened(p.windows, shape.pieces) for p in pieces], held),
        _laid([widened(p.mask, shape.pieces) for p in pieces], held),
        _laid(positions, places, -1),
    )


def piece_shape(pieces: Sequence[Pieces], *, few: bool = False) -> PieceShape:
    """Returns the padded size of pieces; with `few`, rounded up to powers of two."""
    sizes = np.array([(*p.windows.shape, p.positions.shape[1]) for p in pieces])
    most = sizes.max(axis=0).tolist()
    if few:
        pairs = zip((1, 16, 4), most, strict=True)
        most = [max(least, 1 << max(n - 1, 0).bit_length()) for least, n in pairs]
    return PieceShape(*most)


def without_characters(sentence: Sentence) -> Sentence:
    """Returns a sentence for a model that reads no characters."""
    chars = np.zeros((1, 1), np.int32)
    return sentence._replace(chars=chars, char_index=np.zeros_like(sentence.char_index))


def first(sentence: Sentence, count: int) -> Sentence:
    """Returns the first tokens of an encoded sentence, some with other characters."""
    chars = sentence.chars[: count + 1]
    vectors, pieces = sentence.vectors, sentence.pieces
    if pieces is not None:
        positions = pieces.positions[:count]
        used = int(positions.max(initial=0)) // pieces.windows.shape[1] + 1
        pieces = Pieces(pieces.windows[:used], pieces.mask[:used], positions)
    return sentence._replace(
        words=sentence.words[:count],
        chars=chars,
        char_index=np.minimum(sentence.char_index[:count], len(chars) - 1),
        mask=sentence.mask[:count],
        caps=None if sentence.caps is None else sentence.caps[:count],
        vectors=None if vectors is None else np.asarray(vectors)[:count],
        pieces=pieces,
    )


def without_far_vectors(
    sentences: Sequence[Sentence], count: int, parts: int, near: frozenset[int] | None
) -> list[Sentence]:
    """Returns a batch's sentences; vectors in files are read for this process only.

    `parts` devices share `count` rows; this process has those of `near` (None: all).
    """
    batch = list(sentences)
    for row, sentence in enumerate(sentences):
        vectors = sentence.vectors
        is_far = near is not None and row * parts // count not in near
        if is_far and isinstance(vectors, TokenVectors):
            zeros = np.zeros((len(sentence.words), *vectors.sizes), np.float32)
            batch[row] = sentence._replace(vectors=zeros)
    return batch


# The choice of shapes, by sizes: tokens, distinct words, and long words, [N, 3].


def bounds(lengths: Sequence[int] | np.ndarray, count: int) -> list[int]:
    """Returns at most `count` ascending bounds of lengths, with the least padding."""
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
    of the token positions. A shape holds the words and long words of nearly all blocks
    of its length; the other blocks use a longer shape.
    """
    best, least = [largest], np.inf
    for number in range(1, count + 1):
        tokens = bounds(np.append(sizes[:, 0], largest.tokens), number)
        shapes = [largest]
        for below, bound in reversed([*itertools.pairwise([0, *tokens[:-1]])]):
            inside = sizes[(sizes[:, 0] > below) & (sizes[:, 0] <= bound)]
            _, words, long = inside.max(axis=0).tolist()
            long = min(long, int(_MORE * np.quantile(inside[:, 2], _USUAL)))
            shapes.insert(0, largest._replace(tokens=bound, words=words, long=long))
        cost = sum(shapes[fit(size, shapes)].tokens for size in sizes.tolist())
        if cost * _WORTHWHILE < least:
            best, least = shapes, cost
    return best


def fit(size: Sequence[int], shapes: Sequence[Shape]) -> int:
    """Returns the index of the first shape that holds a block."""
    rooms = ((s.tokens, s.words, s.long) for s in shapes)
    holds = (all(n <= m for n, m in zip(size, room, strict=True)) for room in rooms)
    return next(i for i, does in enumerate(holds) if does)


class Batches:
    """A training corpus and its division into batches.

    Every batch is a random draw from the whole corpus (with a `pool`, from sentences of
    similar length), in an order that depends only on the seed and the epoch. For a
    training loop of your own, call `Batches.of`.

    Args:
        sentences: Encoded sentences without padding.
        labels: Label ids of each sentence.
        batch_size: Sentences in a batch; the last one of an epoch may have fewer.
        num_blocks: Blocks in a batch.
        num_shapes: Maximum number of padded sizes of blocks.
        pool: Batches whose sentences are sorted by length together before they are cut,
            so that they have little padding; the batches of an epoch are shuffled.
        chars: The rows of a block's characters: one per "distinct" word, one per
            "token" (right for models with dropout on characters, too), or "none".
        parts: Number of devices that share a block, equally.

    Attributes:
        words, index: Distinct words, and those of each sentence's tokens; see `merge`.
        rows: Sentences in a block.
        shapes: Padded sizes of blocks, ascending; each is compiled once.
        bounds: What blocks of these sizes hold; their `tokens` are pieces of tokens if
            the encoder reads these, since they cost the time.
    """

    def __init__(
        self,
        sentences: Sequence[Sentence],
        labels: Sequence[np.ndarray],
        *,
        batch_size: int,
        num_blocks: int = 1,
        num_shapes: int = 5,
        pool: int = 1,
        chars: str = "token",
        parts: int = 1,
    ):
        if not sentences:
            raise InputError("The training data have no sentences")
        if chars == "none":
            sentences = [without_characters(s) for s in sentences]
        self.words, self.index = merge(sentences)
        self.sentences = [s._replace(chars=s.chars[:1, :1]) for s in sentences]
        self.labels, self.chars, self.parts, self.pool = labels, chars, parts, pool
        self.batch_size, self.rows = batch_size, -(-batch_size // num_blocks)
        self._widths = np.array([length(word) for word in self.words])
        widest = int(self._widths.max(initial=1))
        usual = np.quantile(
            self._widths[np.append(0, np.concatenate(self.index))], _SHORT
        )
        # A second call of the reader of characters pays off for a longer rest only.
        self._width = widest if widest < 2 * usual else int(usual)
        self._widest = widest
        cut = [s.pieces for s in sentences if s.pieces is not None]
        tokens = np.array([*map(len, labels)])
        self._lengths = np.array([p.windows.size for p in cut] or tokens)
        self.bounds, self.shapes = self._choose(num_shapes), []
        for bound in self.bounds:  # sentences whose pieces fit have fewer tokens
            inside = np.flatnonzero(self._lengths <= bound.tokens)
            pieces = piece_shape([cut[i] for i in inside]) if cut else None
            longest = int(tokens[inside].max(initial=1))
            self.shapes.append(bound._replace(tokens=longest, pieces=pieces))

    @classmethod
    @checked
    def of(
        cls,
        vocabulary: Vocabulary,
        sentences: Sequence[Sequence[str]],
        labels: Sequence[Sequence[str]],
        *,
        batch_size: Size,
        num_shapes: Size = 5,
        documents: Sequence[Hashable] | None = None,
    ) -> Batches:
        """Returns the batches of a corpus, for a training loop of your own.

        Args:
            vocabulary: What `build_vocabulary` returned.
            sentences: Tokens of each sentence.
            labels: Labels of each sentence, in the scheme of the vocabulary.
            documents: Document of each sentence, for a vocabulary of documents; by
                default, each sentence is a document.

        Raises:
            InputError: A label is unknown or breaks its scheme, or lengths differ.

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
        _check_labels(labels, sentences, vocabulary.scheme)
        encoded = [vocabulary.encode(tokens) for tokens in sentences]
        ids = [vocabulary.label_ids(row) for row in labels]
        if vocabulary.reads_documents:
            numbers = range(len(encoded)) if documents is None else documents
            separator = len(vocabulary.label_names) - 1
            encoded, ids = joined(numbers, encoded, ids, separator)
        return cls(encoded, ids, batch_size=batch_size, num_shapes=num_shapes)

    @checked
    def epoch(self, seed: Seed, epoch: Count) -> Iterator[tuple[Sentence, np.ndarray]]:
        """Yields sentences and label ids of the batches of an epoch, by block."""
        for drawn in self.draw(seed, epoch):
            for members in (drawn[places] for places in self.cut(drawn)):
                shape = self.shapes[fit(self.size(members), self.bounds)]
                words, index = self.rows_of(members, shape)
                chars, long = spell_apart([self.words[i] for i in words], shape)
                here = [self.sentences[i] for i in members]
                places = _filled([s.words for s in here], shape.tokens, len(index))
                rows = [s.char_index for s in here]
                batch = _lay(here, places, rows, shape.pieces)
                batch = batch._replace(chars=chars, char_index=index, long=long)
                labels = [self.labels[i] for i in members]
                yield batch, pad_labels(labels, shape.tokens, len(index))

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
        """Yields the indices of each batch of an epoch, without the first `skip`."""
        rng = np.random.default_rng((seed, epoch))
        order, size = rng.permutation(len(self.sentences)), self.batch_size
        starts = np.arange(0, len(order), size)
        if self.pool > 1:
            pools = np.split(order, starts[:: self.pool][1:])
            pools = [p[np.argsort(self._lengths[p], kind="stable")] for p in pools]
            order, starts = np.concatenate(pools), rng.permutation(starts)
        for start in starts[skip:]:
            yield order[start : start + size]

    def cut(self, drawn: np.ndarray) -> list[np.ndarray]:
        """Returns the rows of each block: batch indices by ascending length."""
        order = np.argsort(self._lengths[drawn], kind="stable")
        starts = range(0, len(order), self.rows)
        return [order[start : start + self.rows] for start in starts]

    def size(self, members: np.ndarray) -> tuple[int, int, int]:
        """Returns the tokens (see `bounds`), characters' rows and long words."""
        numbers = np.concatenate([self.index[i] for i in members])
        longest = int(self._lengths[members].max())
        rows = [0, *numbers.tolist()]
        if self.chars != "token":
            rows = list(set(rows))  # faster than NumPy's for so few
        long = int(np.count_nonzero(self._widths[rows] > self._width))
        return max(longest, 1), len(rows), long

    def rows_of(
        self, members: np.ndarray, shape: Shape
    ) -> tuple[Int[np.ndarray, " U"], Int[np.ndarray, "B T"]]:
        """Returns the word of each row of a block's characters; the row of each token.

        Row 0 is that of padding.
        """
        numbers = [self.index[i] for i in members]
        places = _filled(numbers, shape.tokens, self._multiple(self.rows))
        index = _laid(numbers, places)
        if self.chars == "token":
            words = np.append(0, index[places])
            index[places] = np.arange(1, len(words))
            return words, index
        words, where = np.unique(np.append(index, 0), return_inverse=True)
        return words, where[:-1].reshape(index.shape).astype(np.int32)

    def long_rows(self, words: np.ndarray, shape: Shape) -> Int[np.ndarray, " N"]:
        """Returns which rows of characters hold long words; `shape.words` for none."""
        rows = np.flatnonzero(self._widths[words] > self._width).astype(np.int32)
        missing = 0, shape.long - len(rows)
        return np.pad(rows, missing, constant_values=shape.words)

    def _multiple(self, count: int) -> int:
        """Returns a number rounded up so that devices share it equally."""
        return -(-count // self.parts) * self.parts

    def _choose(self, count: int) -> list[Shape]:
        """Returns the shapes for the sizes of blocks in some draws."""
        sizes = np.array([self.size(np.array([i])) for i in range(len(self.labels))])
        tokens = int(sizes[:, 0].max())
        words, long = np.sort(sizes[:, 1:], axis=0)[-self.rows :].sum(axis=0).tolist()
        if self.chars != "token":
            words = min(words, len(self.words))
        draws = (drawn for epoch in itertools.count() for drawn in self.draw(0, epoch))
        draws = itertools.islice(draws, min(_SAMPLE, 4 * self.num_batches))
        sample = [self.size(drawn[rows]) for drawn in draws for rows in self.cut(drawn)]
        largest = Shape(tokens, words, self._width, long, self._widest)
        shapes = choose(np.array(sample), largest, count)
        return [
            s._replace(words=self._multiple(s.words), long=self._multiple(s.long))
            for s in shapes
        ]


def _check_labels(rows: Any, sentences: Sequence[Any], scheme: str) -> None:
    """Raises TypeError or InputError unless each token has a label, by the scheme."""
    expect(isinstance(rows, (list, tuple)), "labels as a list of lists", rows)
    wanted = counted(len(sentences), "sentence")
    if len(rows) != len(sentences):
        raise InputError(f"Expected labels of {wanted}, got {len(rows)}.")
    for i, (row, tokens) in enumerate(zip(rows, sentences, strict=True)):
        wanted = counted(len(tokens), "label")
        if len(row) != len(tokens):
            raise InputError(f"Expected {wanted} for sentence {i}, got {len(row)}.")
        if scheme != schemes.TAGS and schemes.violations(row, scheme):
            raise InputError(
                f"The labels of sentence {i} break {scheme}. Convert each row with "
                f"jaxner.data.schemes.convert(row, {scheme!r})."
            )
