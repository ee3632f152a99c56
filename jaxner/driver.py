"""Sentences of strings through a function of padded batches, and back; without models.

Shape letters: `B` sentences, `T` tokens.
"""

from __future__ import annotations

import bisect
import collections
import itertools
import re
import warnings
from collections.abc import Callable, Hashable, Iterator, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer

from jaxner import devices
from jaxner.arguments import check_documents
from jaxner.data import batching
from jaxner.data.batching import Shape
from jaxner.data.corpora import Split
from jaxner.data.vocabulary import is_one_sentence
from jaxner.errors import InputError
from jaxner.types import Sentence, Vectors

# Maximum positions and characters in a batch of several sentences. On a CPU, larger
# batches do not fit its caches and are slower.
_TOKENS = {"cpu": 1 << 11, "gpu": 1 << 14, "tpu": 1 << 14}
_CHARS = 1 << 17
_FEW_WORDS = 1 << 8
_LONG_TEXT = 1 << 10  # sentences for which compiling costs more than padding
# Characters of short words, which most are, and of long words.
_SHORT_WORD, _LONG_WORD = 12, 24
_LONG_SHARE = 8  # a batch reads one in so many words apart
_PROGRAM = 2  # full batches of padding that a long text takes instead of a program
# Maximum number of batches in flight: enough to keep a device busy without holding the
# results of the whole text there.
_QUEUE_LENGTH = 16
_LONG = 1 << 13  # tokens of a sentence whose pairs take long to compare
# Several words, or one with the end of its line or cell.
_TEXT = re.compile(r"\S[ \t\r\n]+\S|\S *[\t\r\n]|[\t\r\n] *\S")


def sentences_of(tokens: Any) -> tuple[list[list[str]], bool]:
    """Returns the sentences that a caller gave, and whether it was a single one."""
    is_one = is_one_sentence(tokens)
    sentences = [list(tokens)] if is_one else [list(sentence) for sentence in tokens]
    for token in itertools.chain(*sentences):
        if is_text(token):
            raise InputError(
                f"Expected tokens, got {token[:40]!r} with white space: split it "
                "into tokens; or, for texts, call jaxner.entities with raw=True."
            )
    return sentences, is_one


def is_text(token: str) -> bool:
    """Returns whether a token has white space as no token of a file has."""
    # The first test is fast, and false of hardly any token.
    return not token.isalnum() and bool(_TEXT.search(token))


def check_key(key: Any) -> None:
    """Raises TypeError unless a value is a PRNG key, of the new or the old form."""
    dtype = getattr(key, "dtype", None)
    is_new = dtype is not None and jnp.issubdtype(dtype, jax.dtypes.prng_key)
    if not (is_new or (dtype == jnp.uint32 and jnp.ndim(key) > 0)):
        raise TypeError(f"Expected a PRNG key, such as jax.random.key(0), got {key!r}")
    if shape := jnp.shape(key)[: None if is_new else -1]:
        raise TypeError(f"Expected one PRNG key, got an array of keys {list(shape)}")


def of_every(function: Callable[[Any], Any], answer: object) -> Any:
    """Applies a function to the answer about one sentence, or to each of a list."""
    return [*map(function, answer)] if isinstance(answer, list) else function(answer)


def encoded(tagger: Any, sentences: Sequence[Any], vectors: Vectors) -> list[Sentence]:
    """Returns each sentence encoded separately, without padding."""
    if vectors is None:
        vectors = [None] * len(sentences)
    if len(vectors) != len(sentences):
        raise InputError(
            f"Expected one array of vectors per sentence, {len(sentences)}, got "
            f"{len(vectors)}."
        )
    return [*map(tagger.vocabulary.encode, sentences, vectors)]


class Text(NamedTuple):
    """Encoded sentences for `over_batches`, without padding.

    Attributes:
        rows: The sentences; of a tagger of documents, the documents.
        lengths: Tokens of each sentence.
        members: The sentences of each document; None for sentences alone.
        is_one: Whether the caller gave a single sentence.
    """

    rows: Sequence[Sentence]
    lengths: Sequence[int]
    members: Sequence[Sequence[int]] | None = None
    is_one: bool = False


def text_of(
    tagger: Any,
    sentences: Any,
    documents: Sequence[Hashable] | None = None,
    vectors: Vectors = None,
) -> Text:
    """Returns encoded sentences; arguments as of `over_batches`."""
    devices.check_fork()
    rows, is_one, is_list = sentences, False, isinstance(sentences, list | tuple)
    if isinstance(sentences, Split):  # whose tokens may have white space inside
        numbers = [example.document for example in sentences.examples]
        documents = numbers if documents is None and any(numbers) else documents
        text = [example.tokens for example in sentences.examples]
        rows = encoded(tagger, text, sentences.vectors)
    elif not (is_list and sentences and isinstance(sentences[0], Sentence)):
        sentences, is_one = sentences_of(sentences)
        vectors = [vectors] if is_one and vectors is not None else vectors
        rows = encoded(tagger, sentences, vectors)
    check_documents(documents, len(rows))
    if not tagger.reads_characters:
        rows = [batching.without_characters(sentence) for sentence in rows]
    lengths = [len(sentence.words) for sentence in rows]
    if not tagger.vocabulary.reads_documents:
        return Text(rows, lengths, is_one=is_one)
    members = batching.groups(range(len(rows)) if documents is None else documents)
    rows_by_document = [batching.join([rows[i] for i in group]) for group in members]
    return Text(rows_by_document, lengths, members, is_one)


def over_batches(
    compute: Callable[[Sentence], Any],
    tagger: object,
    sentences: object,
    *,
    documents: Sequence[Hashable] | None = None,
    vectors: Vectors = None,
    passes: int = 0,
) -> Any:
    """Returns for each sentence the results `[T, …]` of a function of batches.

    As `tagging.over`, but `compute` maps a batch, whose sentences share their distinct
    words, to a tree of arrays `[B, T, …]`. `tagger` is a tagger or an exported one.
    """
    if any(isinstance(x, Tracer) for x in jax.tree.leaves((jnp.zeros(()), tagger))):
        raise TypeError(
            "Strings cannot be tagged inside jax.jit or jax.grad: encode them outside "
            "(jaxner.encode), and pass what it returns."
        )
    text = text_of(tagger, sentences, documents, vectors)
    results = trees = _in_batches(compute, tagger, text, passes)
    if text.members is not None:
        results = [None] * len(text.lengths)
        for group, document, tree in zip(text.members, text.rows, trees, strict=True):
            lengths = [text.lengths[i] for i in group]
            places = batching.split(np.arange(len(document.words)), lengths)
            for i, index in zip(group, places, strict=True):
                results[i] = jax.tree.map(lambda array, index=index: array[index], tree)
    return results[0] if text.is_one else results


def _in_batches(
    compute: Callable[[Sentence], Any],
    tagger: Any,
    text: Text,
    passes: int,
) -> list[Any]:
    """Returns the results for each row; up to `_QUEUE_LENGTH` batches are in flight."""
    sentences = text.rows
    lengths = [len(s.words) for s in sentences]
    maximum = max(lengths, default=0)
    if tagger.is_quadratic and maximum > _LONG:
        warnings.warn(
            f"A sentence has {maximum:,} tokens, and the tagger compares all pairs of "
            "them, which may take minutes. Shorter sentences take far less.",
            stacklevel=2,
        )
    results: list[Any] = [None] * len(sentences)
    queue: collections.deque[tuple[list[int], Any]] = collections.deque()

    def fetch() -> None:
        rows, arrays = queue.popleft()
        arrays = devices.fetch(arrays)
        leaves, tree = jax.tree.flatten(arrays)
        for row, i in enumerate(rows):
            parts = [leaf[row, : lengths[i]] for leaf in leaves]
            results[i] = tree.unflatten(parts)

    for rows, batch in _batches(sentences, tagger, max(passes, 1)):
        queue.append((rows, compute(batch)))
        if len(queue) == _QUEUE_LENGTH:
            fetch()
    while queue:
        fetch()
    return results


def _batches(
    sentences: Sequence[Sentence], tagger: Any, passes: int
) -> Iterator[tuple[list[int], Sentence]]:
    """Yields the indices of the sentences in each batch, and the batch."""
    mesh = devices.mesh_of(tagger.weights)
    parts = 1 if mesh is None else mesh.size
    # The time of an encoder of word pieces is that of these.
    lengths = [
        len(s.words) if s.pieces is None else s.pieces.windows.size for s in sentences
    ]
    sizes = [(n, s.chars.shape[1]) for n, s in zip(lengths, sentences, strict=True)]
    platform = devices.platform_of(tagger.weights)
    budget, is_cpu = _TOKENS.get(platform, 1 << 12) // int(passes), platform == "cpu"
    fills = not is_cpu or len(sentences) >= _LONG_TEXT
    splits = is_cpu and getattr(tagger, "reads_long_words", True)
    # Many calls may have few sentences each, and positions of word pieces take longer.
    is_long = len(sentences) >= _LONG_TEXT and sentences[0].pieces is None
    if is_long:
        sizes = few_sizes(sizes, cost=_PROGRAM * budget)
    for (tokens, chars), count, rows in plan(sizes, budget, parts, fills):
        block = [sentences[i] for i in rows]
        words, long, longest = count * tokens + 1, 0, chars
        share = words // _LONG_SHARE
        if splits and words > _FEW_WORDS and chars == _LONG_WORD:
            # A long word has a character where a short one ends.
            ends = (s.chars[:, _SHORT_WORD : _SHORT_WORD + 1] for s in block)
            if sum(map(np.count_nonzero, ends)) <= share:
                chars, long = _SHORT_WORD, share
        count, words, long = (-(-n // parts) * parts for n in (count, words, long))
        piece_rows = [s.pieces for s in block if s.pieces is not None]
        pieces = batching.piece_shape(piece_rows, is_small=True) if piece_rows else None
        if pieces and pieces.windows == 1:
            pieces = pieces._replace(pieces=tokens)
        shape = Shape(tokens, words, chars, long, longest, pieces)
        batch = batching.pad(block, shape, count)
        yield rows, batch if mesh is None else devices.split(batch, mesh)


def plan(
    sizes: Sequence[tuple[int, int]],
    limit: int,
    parts: int = 1,
    fills: bool = False,
    doublings: int = 1,
) -> Iterator[tuple[tuple[int, int], int, list[int]]]:
    """Yields the padded size, the number of rows and the sentences of each batch.

    `sizes` are tokens, and characters of the longest word. `limit` is the greatest
    number of positions in a batch of several sentences, on each of `parts` devices. A
    batch has as many rows as there are sentences of its size; or, if it `fills`, as
    there are in all: more padding, but fewer programs to compile and fewer calls. Rows
    are powers of 2, 4, …: with more `doublings` from one to the next, fewer programs.
    """
    minimum = min(2, max((chars for _, chars in sizes), default=1))  # 1: none are read
    shapes = [round_up(tokens, max(chars, minimum)) for tokens, chars in sizes]
    keys = [(chars, tokens) for tokens, chars in shapes]
    order = sorted(range(len(keys)), key=keys.__getitem__)
    while order:
        tokens, chars = shapes[order[-1]]
        share = max(1, min(limit, _CHARS // chars) // tokens)
        most_rows = parts << ((share.bit_length() - 1) // doublings * doublings)
        shorter = bisect.bisect_left(order, keys[order[-1]], key=keys.__getitem__)
        count = len(sizes) if fills else len(order) - shorter
        bits = max(count - 1, 0).bit_length()
        count = min(most_rows, 1 << (-(-bits // doublings) * doublings))
        rows = [order.pop()]
        while order and len(rows) < count and shapes[order[-1]][0] <= tokens:
            rows.append(order.pop())
        yield (tokens, chars), count, rows


def few_sizes(sizes: Sequence[tuple[int, int]], cost: int) -> list[tuple[int, int]]:
    """Returns padded sizes for sentences of some tokens and characters.

    They are those of `round_up`, but as few as cost least if a program for one more
    size costs as much as so many positions.
    """
    shapes = [round_up(*size) for size in sizes]
    widths = np.array([chars for _, chars in shapes])
    lengths = np.array([tokens for tokens, _ in shapes])
    for width in np.unique(widths):
        bucket = lengths[widths == width]
        costs = {}
        for count in range(1, len(np.unique(bucket)) + 1):
            bounds = np.array(batching.bounds(bucket, count))
            padded_lengths = bounds[np.searchsorted(bounds, bucket)]
            costs[count * cost + int(padded_lengths.sum())] = padded_lengths
        lengths[widths == width] = costs[min(costs)]
    return [*zip(lengths.tolist(), widths.tolist(), strict=True)]


def round_up(tokens: int, chars: int) -> tuple[int, int]:
    """Returns sizes rounded up, so that sentences share few compiled programs.

    Tokens: 8, 16, 24, 32, 48, 64, …. Characters: 24; for rare words, 128, 256, …, and
    at least 32 tokens; or 1 if the model reads no characters.
    """
    minimum = 8 if chars <= _LONG_WORD else 32
    length = max(minimum, _next_power(tokens))
    if length > max(16, minimum) and tokens <= 3 * length // 4:
        length = 3 * length // 4
    width = _LONG_WORD if chars <= _LONG_WORD else max(128, _next_power(chars))
    return length, width if chars > 1 else 1


def _next_power(count: int) -> int:
    return 1 << max(count - 1, 0).bit_length()
