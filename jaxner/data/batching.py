"""Batches: random draws from a corpus, padded to few shapes.

A batch is sorted by length and cut into blocks, many short sentences or few long ones.
Every block is padded to one of few shapes, so that few programs are compiled; the
gradients of the blocks are added. `pad` and `join` alone know what stands where no
token is.

Shape letters: `B` sentences, `T` tokens, `U` distinct words, `C` characters; `S` layers
of `D` dimensions; `W` windows of `P` pieces, `Q` pieces of the longest token (NumPy).
"""

from __future__ import annotations

import collections
import functools
import itertools
import math
from collections.abc import Hashable, Iterable, Iterator, Sequence, Sized
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from jaxner.arguments import check_documents, check_vocabulary, expect
from jaxner.data import schemes
from jaxner.data.vocabulary import Vocabulary, check_text, length, spell
from jaxner.errors import InputError
from jaxner.fields import Count, Seed, Size, checked
from jaxner.types import LongWords, Pieces, Sentence
from jaxner.wording import counted

if TYPE_CHECKING:
    from jaxtyping import Bool, Int

    from jaxner.types import AnyArray

_SAMPLE = 2_000  # batches for the choice of shapes' words
_SENTENCES, _TALLEST = 1_024, 128  # sentences for the choice of rows, also of a batch
_BOUNDS = 1_024  # lengths among which the tokens of shapes are chosen
_BLOCK = 64  # positions that cost a CPU as much as one more block
_AREAS = (32, 64, 128, 256, 512)  # positions of a block to begin with
_PROGRAM = 1_000  # positions that a shape must save an epoch, for its compilation
_USUAL, _GAIN = 0.98, 1.5  # a shape holds _GAIN times the _USUAL quantile of long words
_FIRST = 16_000  # positions that a run's first step may take in blocks of one shape
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
    rows: int = 0  # sentences; 0: as many as there are


class Plan(NamedTuple):
    """The batches of an epoch, by the numbers of what is in them.

    Shape letters: `S` steps, `P` places in all batches, `J` blocks, `N` tokens of the
    corpus in its order, `U` words of all blocks; what follows, including the lengths of
    padding at the end, is the same for all epochs. With restarts, fields have an axis
    of these in front.
    """

    rows: Int[AnyArray, " P"]  # sentences by ascending length; `len(sentences)`: none
    places: Int[AnyArray, " P"]  # of each in its batch, which determine dropout masks
    steps: Int[AnyArray, " S"]  # first block of each step
    blocks: Int[AnyArray, "2 J"]  # first place and number of sentences of each block
    index: Int[AnyArray, " N"]  # row of characters of each token in its block
    words: Int[AnyArray, " U"]  # the word of each row, block by block; 0 is padding's
    word_ranges: Int[AnyArray, "2 J"]  # their start and number in each block
    long: Int[AnyArray, " L"]  # the rows that hold long words, block by block
    long_ranges: Int[AnyArray, "2 J"]  # their start and number in each block


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
        word_rows = np.array([numbers[word] for word in words[:count]], np.int32)
        index.append(word_rows[sentence.char_index])
    return list(numbers), index


# Padding.


def pad(
    sentences: Sequence[Sentence], shape: Shape | int, count: int | None = None
) -> Sentence:
    """Returns encoded sentences as one padded batch of a shape that they fit.

    The sentences share their distinct words; if `shape` is the number of tokens, each
    keeps its own, so that a plain `jax.vmap` maps over every field. Up to `count`,
    sentences without tokens follow.
    """
    if isinstance(shape, Shape):
        return _pad_shared(sentences, *merge(sentences), shape, count)
    places = _filled([s.words for s in sentences], shape, count)
    sizes = np.array([s.chars.shape for s in sentences] or [(1, 1)])
    chars = np.zeros((len(places), *sizes.max(axis=0)), np.int32)
    for i, s in enumerate(sentences):
        chars[i, : s.chars.shape[0], : s.chars.shape[1]] = s.chars
    return _lay(sentences, places, [s.char_index for s in sentences], chars)


def _pad_shared(
    sentences: Sequence[Sentence],
    words: Sequence[bytes],
    index: Sequence[np.ndarray],
    shape: Shape,
    count: int | None,
) -> Sentence:
    """Returns a padded batch of sentences that share words; `index` is each token's."""
    chars, long = spell(words, shape.chars, shape.words), None
    if shape.long:
        rows = [i for i, word in enumerate(words) if length(word) > shape.chars]
        whole = spell([words[i] for i in rows], shape.longest, shape.long)
        rows += [shape.words] * (shape.long - len(rows))
        long = LongWords(np.array(rows, np.int32), whole)
    places = _filled(index, shape.tokens, count)
    return _lay(sentences, places, index, chars, shape.pieces)._replace(long=long)


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
    document = _lay(sentences, places, index, chars)
    return document._replace(mask=np.ones(len(places), bool))


def joined(
    documents: Iterable[Hashable],
    sentences: Sequence[Sentence],
    labels: Sequence[np.ndarray],
    separator: int,
) -> tuple[list[Sentence], list[np.ndarray]]:
    """Returns the documents of encoded sentences, and label ids, with separators."""
    members = groups(documents)
    rows = [[labels[i] for i in group] for group in members]
    return (
        [join([sentences[i] for i in group]) for group in members],
        [_laid(row, _between(row), separator) for row in rows],
    )


def end_to_end(sentences: Sequence[Sentence]) -> Sentence:
    """Returns sentences, and their windows, end to end, without their characters."""
    index = [s.char_index for s in sentences]
    places = np.ones(sum(map(len, index)), bool)
    return _lay(sentences, places, index, np.zeros((1, 1), np.int32))


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
    rows: Sequence[Sized], width: int, count: int | None = None
) -> Bool[np.ndarray, "B T"]:
    """Returns which places of a batch its rows fill; `count`: as in `pad`."""
    ends = np.zeros(len(rows) if count is None else count, int)
    ends[: len(rows)] = [len(row) for row in rows]
    return np.arange(width) < ends[:, None]


def _between(rows: Sequence[Sized]) -> Bool[np.ndarray, " T"]:
    """Returns which places of a document are tokens, not separators."""
    places = np.ones(sum(map(len, rows)) + len(rows) + 1, bool)
    places[np.cumsum([0, *(len(row) + 1 for row in rows)])] = False
    return places


def _laid(rows: Sequence[np.ndarray], places: np.ndarray, fill: int = 0) -> np.ndarray:
    """Returns rows end to end at the True places of a mask, and `fill` elsewhere."""
    flat = np.concatenate(rows) if rows else np.zeros(0, np.int32)
    # Float vectors become single precision, ids (also rows of a table) int32.
    kind = {"f": np.float32, "b": bool}.get(flat.dtype.kind, np.int32)
    result = np.full((*places.shape, *flat.shape[1:]), fill, kind)
    result[places] = flat
    return result


def _lay(
    sentences: Sequence[Sentence],
    places: Bool[np.ndarray, "*B T"],
    index: Sequence[np.ndarray],
    chars: np.ndarray,
    shape: PieceShape | None = None,
) -> Sentence:
    """Returns the tokens of sentences at the True places of a mask."""
    caps = [np.zeros_like(s.words) if s.caps is None else s.caps for s in sentences]
    vectors = [np.asarray(s.vectors) for s in sentences if s.vectors is not None]
    pieces = [s.pieces for s in sentences if s.pieces is not None]
    return Sentence(
        _laid([s.words for s in sentences], places),
        chars,
        _laid(index, places),
        _laid([s.mask for s in sentences] or [np.zeros(0, bool)], places),
        _laid(caps, places),
        _laid(vectors, places) if vectors else None,
        _lay_pieces(pieces, places, shape) if pieces else None,
    )


def _lay_pieces(pieces, places: Bool[np.ndarray, "*B T"], shape) -> Pieces:
    """Returns the pieces of a batch, or of a document if `places` have one axis."""
    is_batch = places.ndim == 2
    shape = shape or piece_shape(pieces, is_small=is_batch)
    counts = [len(p.windows) for p in pieces]
    if is_batch:
        offsets = [0] * len(pieces)
        window_mask = _filled([p.windows for p in pieces], shape.windows, len(places))
    else:
        offsets, window_mask = np.cumsum([0, *counts])[:-1], np.ones(sum(counts), bool)
    positions = []
    for p, offset in zip(pieces, offsets, strict=True):
        width = p.windows.shape[1]
        indices = (p.positions // width + offset) * shape.pieces + p.positions % width
        indices = np.where(p.positions < 0, -1, indices)
        positions.append(_widened(indices, shape.longest, -1))
    return Pieces(
        _laid([_widened(p.windows, shape.pieces) for p in pieces], window_mask),
        _laid([_widened(p.mask, shape.pieces) for p in pieces], window_mask),
        _laid(positions, places, -1),
    )


def _widened(array: np.ndarray, width: int, fill: int = 0) -> np.ndarray:
    """Returns an array whose last axis is filled up to a width."""
    padding = [(0, 0)] * (array.ndim - 1) + [(0, width - array.shape[-1])]
    return np.pad(array, padding, constant_values=fill)


def piece_shape(pieces: Sequence[Pieces], *, is_small: bool = False) -> PieceShape:
    """Returns the padded size of pieces; if `is_small`, rounded up to powers of two."""
    sizes = np.array([(*p.windows.shape, p.positions.shape[1]) for p in pieces])
    maxima = sizes.max(axis=0).tolist()
    if is_small:
        pairs = zip((1, 16, 16), maxima, strict=True)
        maxima = [max(minimum, 1 << max(n - 1, 0).bit_length()) for minimum, n in pairs]
    return PieceShape(*maxima)


def without_characters(sentence: Sentence) -> Sentence:
    """Returns a sentence for a model that reads no characters."""
    chars = np.zeros((1, 1), np.int32)
    return sentence._replace(chars=chars, char_index=np.zeros_like(sentence.char_index))


# Blocks and their shapes: what costs a CPU the least time. A model takes the time of
# its positions, padding included, however they are arranged, and each block that of
# some positions more, since it adds all gradients to a sum.


def bounds(lengths: Sequence[int] | np.ndarray, count: int) -> list[int]:
    """Returns at most `count` ascending bounds of lengths, with the least padding.

    Of more than `_BOUNDS` different lengths, only every second, third, … can be one.
    """
    sizes, counts = np.unique(np.maximum(lengths, 1), return_counts=True)
    step = -(-len(sizes) // _BOUNDS)
    part = slice((len(sizes) - 1) % step, None, step)  # the longest is one of them
    sizes, total = sizes[part], np.append(0, np.cumsum(counts)[part])
    # best[j]: cost of the sizes before j; each round adds a bound.
    best = np.concatenate([[0.0], np.full(len(sizes), np.inf)])
    choices = []
    for _ in range(min(count, len(sizes))):
        # A bound for sizes i..j pads all of them to size j.
        costs = best[:-1, None] + (total[None, 1:] - total[:-1, None]) * sizes[None, :]
        costs = np.where(np.tri(len(sizes), dtype=bool).T, costs, np.inf)
        choices.append(np.argmin(costs, axis=0))
        best = np.concatenate([[np.inf], np.min(costs, axis=0)])
    limits, end = [], len(sizes)
    for choice in reversed(choices):
        limits.append(int(sizes[end - 1]))
        end = int(choice[end - 1])
    return limits[::-1]


def choose(
    lengths: Int[np.ndarray, "N B"],
    counts: Int[np.ndarray, " N"],
    number: int,
    rows: int | None = None,
    parts: int = 1,
    num_batches: int = 1_000,
) -> list[tuple[int, int]]:
    """Returns tokens and rows of at most some shapes, at the least cost.

    Lengths and counts as in `cut`; `rows` None chooses them as well, multiples of
    `parts`. The cost includes a share of that of compiling a program for each shape.
    """
    batch, _, end = cut_equally(counts, rows or 1)
    longest = lengths[batch, end - 1]  # of blocks, or sentences
    if rows is None:
        step = -(-lengths.shape[1] // _TALLEST)
        part = slice(-(-_SENTENCES * step // lengths.shape[1]))
        lengths, counts = lengths[part, ::step], -(-counts[part] // step)
    best, least_cost = [], np.inf
    for count in range(1, number + 1):
        tokens = np.array(bounds(longest, count))
        if rows is None:
            heights, cost = rows_of(tokens, lengths, counts, parts)
        else:
            heights = np.full_like(tokens, rows)
            cost = np.mean(tokens[np.searchsorted(tokens, longest)] * rows + _BLOCK)
            cost *= len(longest) / len(counts)
        cost += count * _PROGRAM / num_batches
        if cost < least_cost:
            least_cost = cost
            best = [*zip(tokens.tolist(), heights.tolist(), strict=True)]
    return best


def rows_of(
    tokens: np.ndarray,
    lengths: np.ndarray,
    counts: np.ndarray,
    parts: int,
) -> tuple[np.ndarray, float]:
    """Returns the rows of shapes with these tokens, by steps downhill, and the cost."""
    maximum = _multiple(lengths.shape[1], parts)

    def rounded(size: float) -> int:
        return min(max(math.ceil(size / parts), 1) * parts, maximum)

    @functools.cache
    def cost_of(rows: tuple[int, ...]) -> float:
        return cut(lengths, counts, tokens, np.array(rows))[1]

    starts = (tuple(rounded(area / size) for size in tokens) for area in _AREAS)
    valleys = []
    for rows in sorted(starts, key=cost_of)[:2]:
        least_cost = np.inf
        while cost_of(rows) < least_cost:
            least_cost = cost_of(rows)
            for i, size in enumerate(rows):
                steps = size - parts, size + parts, size / 1.5, size * 1.5
                for target in map(float, steps):
                    candidate = *rows[:i], rounded(target), *rows[i + 1 :]
                    rows = min(rows, candidate, key=cost_of)
        valleys.append(rows)
    rows = min(valleys, key=cost_of)
    return np.array(rows), cost_of(rows)


def cut(
    lengths: Int[np.ndarray, "N B"],
    counts: Int[np.ndarray, " N"],
    tokens: Int[np.ndarray, " K"],
    rows: Int[np.ndarray, " K"],
) -> tuple[Int[np.ndarray, "3 J"], float]:
    """Returns the batch, start and end of each block, and the least cost of one.

    A block costs the positions of its shape, and `_BLOCK` for itself. The first
    `counts` lengths of each batch ascend.
    """
    (steps, size), step_ids = lengths.shape, np.arange(len(lengths))
    costs = (tokens * rows + _BLOCK)[:, None]
    least_costs, choice = np.zeros((size + 1, steps)), np.zeros((size + 1, steps), int)
    for end in range(1, size + 1):
        fits = lengths[:, end - 1] <= tokens[:, None]
        total = np.where(fits, least_costs[np.maximum(end - rows, 0)] + costs, np.inf)
        choice[end], least_costs[end] = total.argmin(axis=0), total.min(axis=0)
    blocks, ends = [], counts
    while ends.any():
        starts = np.maximum(ends - rows[choice[ends, step_ids]], 0)
        blocks.append(np.stack([step_ids, starts, ends])[:, ends > 0])
        ends = starts
    table = np.concatenate(blocks, axis=1)
    order = np.lexsort((table[1], table[0]))
    return table[:, order], float(least_costs[counts, step_ids].mean())


def cut_equally(counts: Int[np.ndarray, " N"], rows: int) -> Int[np.ndarray, "3 J"]:
    """Returns batches cut into blocks of some rows, the last of each perhaps fewer."""
    numbers = -(-counts // rows)
    batch = np.repeat(np.arange(len(counts)), numbers)
    start = (np.arange(len(batch)) - np.repeat(ranges(numbers)[0], numbers)) * rows
    return np.stack([batch, start, np.minimum(start + rows, counts[batch])])


def fit(sizes: Int[np.ndarray, "N 4"], shapes: Sequence[Shape]) -> np.ndarray:
    """Returns the cheapest shape for rows, tokens, words and long words; -1: none."""
    rooms = np.array([(s.rows, s.tokens, s.words, s.long) for s in shapes])
    holds = np.all(sizes[:, None] <= rooms, axis=2)
    costs = np.where(holds, rooms[:, 0] * rooms[:, 1], np.iinfo(int).max)
    return np.where(holds.any(axis=1), costs.argmin(axis=1), -1)


def ranges(counts: Iterable[int] | np.ndarray) -> Int[np.ndarray, "2 N"]:
    """Returns the start and the size of each of some ranges that lie end to end."""
    sizes = np.array([*counts], np.int32)
    return np.stack([np.cumsum(sizes, dtype=np.int32) - sizes, sizes])


class Batches:
    """A training corpus and its division into batches.

    Every batch is a random draw from the whole corpus (with a `pool`, from sentences of
    similar length), in an order that depends only on the seed and the epoch. For a
    training loop of your own, call `Batches.of`.

    Args:
        sentences: Encoded sentences without padding.
        labels: Label ids of each sentence.
        batch_size: Sentences in a batch; the last one of an epoch may have fewer.
        num_blocks: Blocks of equally many sentences in a batch; None for those that
            take a CPU the least time.
        num_shapes: Maximum number of padded sizes of blocks.
        pool: Batches whose sentences are sorted by length together before they are cut,
            so that they have little padding; the batches of an epoch are shuffled.
        chars: The rows of a block's characters: one per "distinct" word, one per
            "token" (right for models with dropout on characters, too), or "none".
        parts: Number of devices that share a block, equally.
        multiple: What the tokens of a shape are a multiple of.

    Attributes:
        words: Distinct words; see `merge`.
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
        num_blocks: int | None = 1,
        num_shapes: int = 5,
        pool: int = 1,
        chars: str = "token",
        parts: int = 1,
        multiple: int = 1,
    ):
        if not sentences:
            raise InputError("The training data have no sentences")
        if chars == "none":
            sentences = [without_characters(s) for s in sentences]
        self.words, index = merge(sentences)
        self.sentences = [s._replace(chars=s.chars[:1, :1]) for s in sentences]
        self.labels, self.chars, self.parts, self.pool = labels, chars, parts, pool
        self.batch_size, count = batch_size, len(sentences)
        if batch_size <= parts:
            num_blocks = 1  # without a sum over blocks
        self._rows = num_blocks and _multiple(-(-batch_size // num_blocks), parts)
        self._word = np.concatenate(index)
        self._by_word = np.argsort(self._word, kind="stable").astype(np.int32)
        widths = np.array([length(word) for word in self.words])
        widest = int(widths.max(initial=1))
        usual = np.quantile(widths[np.append(0, self._word)], _SHORT)
        # A second call of the reader of characters pays off for a longer rest only.
        self._width = widest if widest < 2 * usual else int(usual)
        self._widest, self._is_long = widest, widths > self._width
        self._num_long = np.count_nonzero(self._is_long[self._word])
        pieces_list = [s.pieces for s in sentences if s.pieces is not None]
        tokens = np.array([*map(len, labels)])
        self._tokens = ranges(tokens)
        self._lengths = np.array([p.windows.size for p in pieces_list] or tokens)
        # Arrays of a plan have the same length in all epochs.
        self._most = self.num_batches * min(num_blocks or batch_size, batch_size, count)
        self.bounds, self.shapes = self._choose(num_shapes), []
        for bound in self.bounds:  # sentences whose pieces fit have fewer tokens
            indices = np.flatnonzero(self._lengths <= bound.tokens)
            pieces = (
                piece_shape([pieces_list[i] for i in indices]) if pieces_list else None
            )
            longest = _multiple(int(tokens[indices].max(initial=1)), multiple)
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
        encoded_sentences = [vocabulary.encode(tokens) for tokens in sentences]
        ids = [vocabulary.label_ids(row) for row in labels]
        if vocabulary.reads_documents:
            numbers = range(len(encoded_sentences)) if documents is None else documents
            separator = len(vocabulary.label_names) - 1
            encoded_sentences, ids = joined(numbers, encoded_sentences, ids, separator)
        return cls(encoded_sentences, ids, batch_size=batch_size, num_shapes=num_shapes)

    @checked
    def epoch(self, seed: Seed, epoch: Count) -> Iterator[tuple[Sentence, np.ndarray]]:
        """Yields sentences and label ids of the batches of an epoch, by block.

        The sentences of a block share `chars`; see `jaxner.types.batch_axes`.
        """
        plan, numbers = self.plan([seed], epoch)
        plan = Plan(*(array[0] for array in plan))
        for block, number in enumerate(numbers):
            shape = self.shapes[number]
            start, count = plan.blocks[:, block]
            members = plan.rows[start : start + count]
            start, count = plan.word_ranges[:, block]
            words = [self.words[i] for i in plan.words[start : start + count]]
            index = [plan.index[i : i + n] for i, n in self._tokens[:, members].T]
            sentences = [self.sentences[i] for i in members]
            labels = [self.labels[i] for i in members]
            batch = _pad_shared(sentences, words, index, shape, shape.rows)
            yield batch, pad_labels(labels, shape.tokens, shape.rows)

    @property
    def num_batches(self) -> int:
        """Number of batches, and so of optimizer steps, in an epoch."""
        return -(-len(self.sentences) // self.batch_size)

    @property
    def num_tokens(self) -> int:
        """Number of tokens in the corpus."""
        return len(self._word)

    @property
    def mean_tokens(self) -> float:
        """Mean number of tokens in a full batch."""
        return self.num_tokens / len(self.sentences) * self.batch_size

    def draw(self, seed: int, epoch: int) -> Int[np.ndarray, "S B"]:
        """Returns the sentences of each batch of an epoch; see `Plan.rows`."""
        rng = np.random.default_rng((seed, epoch))
        count, size = len(self.sentences), self.batch_size
        order = rng.permutation(count)
        if self.pool > 1:
            pools = np.split(order, range(0, count, size * self.pool)[1:])
            pools = [p[np.argsort(self._lengths[p], kind="stable")] for p in pools]
            order = np.concatenate(pools)
        batches = np.pad(order, (0, -count % size), constant_values=count)
        batches = batches.reshape(-1, size)
        return batches[rng.permutation(len(batches))] if self.pool > 1 else batches

    @property
    def is_whole(self) -> bool:
        """Whether every batch is one block."""
        return self._rows is not None and self._rows >= self.batch_size

    def plan(
        self, seeds: Sequence[int], epoch: int
    ) -> tuple[Plan, Int[np.ndarray, " J"]]:
        """Returns an epoch's batches for each seed, and the shape of each block."""
        plan, _, numbers = self._plan(seeds, epoch, self.bounds)
        return plan, numbers

    def tokens_of(self, plan: Plan) -> Int[np.ndarray, " S"]:
        """Returns the tokens in each step of a plan, of all restarts."""
        counts = np.append(self._tokens[1], 0)[plan.rows].sum(axis=0)
        return counts.reshape(-1, self.batch_size).sum(axis=1)

    def _plan(
        self, seeds: Sequence[int], epoch: int, shapes: Sequence[Shape]
    ) -> tuple[Plan, Int[np.ndarray, "J 4"], Int[np.ndarray, " J"]]:
        """Returns the batches of an epoch, sizes of blocks, and numbers of shapes."""
        rows, places, lengths, counts = self._sort(seeds, epoch)
        members = [
            row[row < len(self.sentences)] for row in rows.reshape(len(rows), -1)
        ]
        tokens, heights = np.array([(s.tokens, s.rows) for s in shapes]).T
        maxima = counts.max(axis=0)
        if self._rows:
            step, start, end = cut_equally(maxima, self._rows)
        else:
            (step, start, end), _ = cut(lengths, maxima, tokens, heights)
        # The first step of a run waits for the programs of its blocks: for one, if all
        # have the same shape.
        number = int(np.searchsorted(tokens, lengths[0, -1]))
        blocks = cut_equally(maxima[:1], int(heights[number]))
        positions = blocks.shape[1] * heights[number] * tokens[number]
        is_uniform = epoch == 0 and not self._rows and positions <= _FIRST
        if is_uniform:
            rest = np.stack([step, start, end])[:, step > 0]
            step, start, end = np.concatenate([blocks, rest], axis=1)
        while True:
            sizes = np.clip(counts[:, step] - start, 0, end - start)
            parts = zip(*map(self._characters, members, sizes), strict=True)
            index, words, spans, long, long_spans = map(np.stack, parts)
            longest = np.maximum(lengths[step, end - 1], 1)
            word_counts = [spans[:, 1].max(axis=0), long_spans[:, 1].max(axis=0)]
            needs = np.stack([end - start, longest, *word_counts], axis=1)
            numbers = fit(needs, shapes)
            if is_uniform:
                fits = fit(needs, [shapes[number]]) == 0
                numbers[fits & (step == 0)] = number
            overflow = np.flatnonzero(numbers < 0)
            if not overflow.size:
                break
            # Blocks with more words than any shape are halved.
            middle = (start[overflow] + end[overflow]) // 2
            step = np.insert(step, overflow, step[overflow])
            start = np.insert(start, overflow + 1, middle)
            end = np.insert(end, overflow, middle)
        firsts = np.searchsorted(step, np.arange(len(lengths)))
        starts = step * self.batch_size + start
        blocks = np.stack([np.broadcast_to(starts, sizes.shape), sizes], axis=1)
        rows, places = (x.reshape(len(rows), -1) for x in (rows, places))
        firsts = np.broadcast_to(firsts, (len(rows), len(firsts)))
        blocks, spans, long_spans = (
            _widened(ranges, self._most) for ranges in (blocks, spans, long_spans)
        )
        words = _widened(words, self.num_tokens + self._most)
        fields = rows, places, firsts, blocks, index, words, spans, long, long_spans
        return Plan(*(x.astype(np.int32, copy=False) for x in fields)), needs, numbers

    def _sort(self, seeds: Sequence[int], epoch: int) -> tuple[np.ndarray, ...]:
        """Returns the sentences of batches by length, and their places, [K, S, B].

        Also returns the lengths to which all restarts must be padded, [S, B], and the
        sentences in each batch, [K, S].
        """
        batches = np.stack([self.draw(seed, epoch) for seed in seeds])
        lengths = np.append(self._lengths, np.iinfo(np.int32).max)[batches]
        places = np.argsort(lengths, axis=2, kind="stable")
        rows = np.take_along_axis(batches, places, axis=2)
        lengths = np.append(self._lengths, 0)[rows].max(axis=0)
        counts = np.count_nonzero(rows < len(self.sentences), axis=2)
        return rows, places, np.maximum.accumulate(lengths, axis=1), counts

    def _characters(
        self, members: Int[np.ndarray, " N"], sizes: Int[np.ndarray, " J"]
    ) -> tuple[np.ndarray, ...]:
        """Returns the fields of a plan from `index` on; `sizes` are those of blocks."""
        count, starts, lengths = len(sizes), *self._tokens
        block = np.empty(len(lengths), np.min_scalar_type(count))  # sorting is faster
        block[members] = np.repeat(np.arange(count, dtype=block.dtype), sizes)
        bounds, tokens = ranges(np.bincount(block, lengths, count).astype(int))
        if self.chars == "token":
            places, counts = ranges(lengths[members])
            order = np.arange(counts.sum())
            order += np.repeat(starts[members] - places, counts)
        else:
            by_word = np.repeat(block, lengths)[self._by_word]
            order = self._by_word[np.argsort(by_word, kind="stable")]
        words, is_new = self._word[order], np.ones(len(order), bool)
        if self.chars != "token":
            is_new[1:] = words[1:] != words[:-1]
            is_new[bounds[tokens > 0]] = True
            is_new &= words > 0  # the empty word is row 0
        # Each block begins with the empty word.
        number = np.zeros(1 + len(order), np.int32)
        np.cumsum(is_new, out=number[1:])
        firsts = number[bounds]
        word_ranges = ranges(1 + np.diff(firsts, append=number[-1]))
        index = np.empty(len(order), np.int32)
        index[order] = number[1:] - np.repeat(firsts, tokens)
        new = np.flatnonzero(is_new)
        block = np.repeat(np.arange(count), tokens)[new]
        table = np.zeros(len(order) + count, np.int32)
        table[number[1:][new] + block] = words[new]
        is_long = self._is_long[words[new]]
        long_ranges = ranges(np.bincount(block[is_long], minlength=count))
        long = np.zeros(1 + self._num_long, np.int32)
        long[: long_ranges[1].sum()] = index[order[new[is_long]]]
        return index, table, word_ranges, long, long_ranges

    def _choose(self, count: int) -> list[Shape]:
        """Returns the shapes for the sizes of blocks in some draws."""
        indices = np.arange(len(self.labels))
        _, _, words, _, long = self._characters(indices, np.ones_like(indices))
        single_counts = np.stack([words[1], long[1]], axis=1)
        epochs = range(-(-min(_SAMPLE, 4 * self.num_batches) // self.num_batches))
        samples = [self._sort([0], epoch) for epoch in epochs]
        lengths = np.concatenate([lengths for _, _, lengths, _ in samples])
        counts = np.concatenate([counts[0] for *_, counts in samples])
        sizes = self._rows, self.parts, self.num_batches
        forms = choose(lengths, counts, count, *sizes)
        limit = 1 + self.num_tokens + len(indices)
        shapes = [
            Shape(t, limit, self._width, limit, self._widest, rows=r) for t, r in forms
        ]
        plans = [self._plan([0], epoch, shapes)[1:] for epoch in epochs]
        needs, numbers = map(np.concatenate, zip(*plans, strict=True))
        # The last shape holds as many sentences as it has rows, whatever their words.
        rows = shapes[-1].rows
        words, long = np.sort(single_counts, axis=0)[-rows:].sum(axis=0).tolist()
        words = words if self.chars == "token" else min(words, len(self.words))
        rooms = {len(shapes) - 1: (words, long)}
        for number in {*numbers.tolist()} - {*rooms}:
            _, _, words, long = needs[numbers == number].T
            usual = int(_GAIN * np.quantile(long, _USUAL))
            rooms[number] = int(words.max()), min(int(long.max()), usual)
        return [
            shapes[i]._replace(
                words=_multiple(words, self.parts), long=_multiple(long, self.parts)
            )
            for i, (words, long) in sorted(rooms.items())
        ]


def _multiple(count: int, unit: int) -> int:
    """Returns a number rounded up to a multiple."""
    return -(-count // unit) * unit


def _check_labels(rows: Any, sentences: Sequence[Any], scheme: str) -> None:
    """Raises TypeError or InputError unless each token has a label, by the scheme."""
    expect(isinstance(rows, (list, tuple)), "labels as a list of lists", rows)
    amount = counted(len(sentences), "sentence")
    if len(rows) != len(sentences):
        raise InputError(f"Expected labels of {amount}, got {len(rows)}.")
    for i, (row, tokens) in enumerate(zip(rows, sentences, strict=True)):
        is_row = isinstance(row, (list, tuple, np.ndarray))
        expect(is_row, f"a list of labels for sentence {i}", row)
        amount = counted(len(tokens), "label")
        if len(row) != len(tokens):
            raise InputError(f"Expected {amount} for sentence {i}, got {len(row)}.")
        if scheme != schemes.TAGS and schemes.violations(row, scheme):
            raise InputError(
                f"The labels of sentence {i} break {scheme}. Convert each row with "
                f"jaxner.data.schemes.convert(row, {scheme!r})."
            )
