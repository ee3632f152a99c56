"""Sentences of any lengths through a compiled function, in batches of few shapes.

Shape letters: `B` sentences, `T` tokens, `C` characters.
"""

from __future__ import annotations

import bisect
import collections
import functools
import math
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from typing import Any

import jax
import numpy as np

from jaxner import models
from jaxner.data import batching, spelling
from jaxner.data import documents as joining
from jaxner.params import Params
from jaxner.types import Sentence

# A batch has at most so many positions, and characters, or is one sentence. On a CPU
# more of them leave its caches and are slower.
_TOKENS = {"cpu": 1 << 11, "gpu": 1 << 14, "tpu": 1 << 14}
_CHARS = 1 << 17
# Distinct words are read so many at a time, and apart from the sentences where a text
# has so many tokens that most of its words occur again (or where a sentence has more
# characters than a batch may, being padded to its longest word).
_WORDS = 1 << 9
_LONG_TEXT = 1 << 12
# So many batches are under way at most: enough to keep a device busy, and what they
# compute need not lie there until the whole text is done.
_PENDING = 16

Spell = Callable[[Any], tuple[Any, ...]]
"""From the characters of words, [U, C], to their features, as `models.spell`."""

Features = tuple[np.ndarray | None, ...]
"""Those of distinct words, [U, F]; None of a representation without characters."""


def over_documents(
    params: Params,
    compute: Callable[[Sentence], Any],
    sentences: Sequence[Sentence],
    documents: Sequence[Hashable] | None = None,
    passes: int = 0,
) -> list[Any]:
    """Does the same as `over`, for a tagger of documents or of sentences.

    Args:
        params: What `load` returned.
        compute: As in `over`.
        sentences: As in `over`.
        documents: The document of each sentence; without them each is one.
        passes: With dropout; 0: one without.

    Raises:
        ValueError: The documents are not as many as the sentences.
    """
    if documents is not None and len(documents) != len(sentences):
        raise ValueError(
            f"Expected the document of each of {len(sentences)} sentences, got "
            f"{len(documents)} documents."
        )
    if not models.can_spell(params.model, is_noisy=False):  # no characters are read
        sentences = [s._replace(chars=s.chars[:, :0]) for s in sentences]
    is_noisy = bool(passes) and "representation" in params.model.sampling.parts
    spell = None
    if models.can_spell(params.model, is_noisy=is_noisy):
        spell = functools.partial(_spell, params)
    if not params.lexicon.reads_documents:
        return over(compute, sentences, passes, spell)
    each = range(len(sentences)) if documents is None else documents
    members = joining.groups(each)
    groups = [[sentences[i].chars.shape for i in group] for group in members]
    sizes = [(sum(n + 1 for n, _ in its) + 1, max(c for _, c in its)) for its in groups]
    sentences, features = _spelled_once(spell, sentences, sizes)
    joined = [joining.join([sentences[i] for i in group]) for group in members]
    results: list[Any] = [None] * len(sentences)
    computed = _over(compute, joined, passes, features)
    for group, tree in zip(members, computed, strict=True):
        lengths = [len(sentences[i].words) for i in group]
        leaves, structure = jax.tree.flatten(tree)
        parts = [joining.split(leaf, lengths) for leaf in leaves]
        for i, *its in zip(group, *parts, strict=True):
            results[i] = jax.tree.unflatten(structure, its)
    return results


@jax.jit
def _spell(params: Params, chars):
    return params.model.apply(params.weights, chars, method="spell")


def over(
    compute: Callable[[Sentence], Any],
    sentences: Sequence[Sentence],
    passes: int = 0,
    spell: Spell | None = None,
) -> list[Any]:
    """Computes something of each sentence; answers in the order of the input.

    Sentences are sorted by length, cut into batches of about as many tokens, and padded
    to one of few shapes.

    Args:
        compute: From a batch to a tree of arrays `[B, T, …]`.
        sentences: Without padding, as `Lexicon.encode` returns them.
        passes: How many times a sentence goes through the model at once; batches are
            the smaller for it.
        spell: Reads the characters of words. If it is given, and the text is long or
            has a sentence that is large for a very long word, each distinct word is
            read once, and the batches hold its features in the place of its characters.
            Then memory grows with the longest word; without it, with the tokens of a
            sentence times the characters of its longest word, and, if there is dropout
            among these, times the passes.

    Returns:
        For each sentence a tree of NumPy arrays of its own length, `[T, …]`.

    Example:
        >>> ids, chars = np.array([2, 3]), np.array([[5, 6], [5, 0]])
        >>> found = over(lambda batch: 2 * batch.words, [Sentence(ids, chars, ids > 0)])
        >>> found[0].tolist()
        [4, 6]
    """
    sizes = [s.chars.shape for s in sentences]
    sentences, features = _spelled_once(spell, sentences, sizes)
    return _over(compute, sentences, passes, features)


def _spelled_once(
    spell: Spell | None,
    sentences: Sequence[Sentence],
    sizes: Sequence[tuple[int, ...]],
) -> tuple[Sequence[Sentence], Features | None]:
    """Reads each distinct word once, if that is less to compute or to hold.

    Args:
        spell: As in `over`.
        sentences: As in `over`.
        sizes: Tokens of each that is computed as one, and characters of its longest
            word.

    Returns:
        The sentences, and the features of the words; the `chars` of a token then are
        its word's number alone. Or the sentences as they are, and None.
    """
    is_long = sum(len(s.words) for s in sentences) >= _LONG_TEXT
    is_wide = any(math.prod(shape_for(*size)) > _CHARS for size in sizes)
    if spell is None or not (is_long or is_wide):
        return sentences, None
    words, places = spelling.distinct(sentences)
    numbered = zip(sentences, places, strict=True)
    return [s._replace(chars=its[:, None]) for s, its in numbered], _read(spell, words)


def _over(
    compute: Callable[[Sentence], Any],
    sentences: Sequence[Sentence],
    passes: int,
    features: Features | None,
) -> list[Any]:
    """Does what `over` does, of what `_spelled_once` returned."""
    results: list[Any] = [None] * len(sentences)
    batches = _batches(sentences, passes, features)
    for rows, arrays in _fetched((rows, compute(batch)) for rows, batch in batches):
        for row, i in enumerate(rows):
            length = len(sentences[i].words)
            results[i] = jax.tree.map(lambda a, r=row, n=length: a[r][:n], arrays)
    return results


def _batches(
    sentences: Sequence[Sentence], passes: int, features: Features | None
) -> Iterator[tuple[list[int], Sentence]]:
    """Yields the batches, and which sentences are in each."""
    sizes = [s.chars.shape for s in sentences]
    if features is not None:
        sizes = [(count, 0) for count, _ in sizes]
    for shape, size, rows in _plan(sizes, max(passes, 1)):
        if features is not None:  # `chars` are numbers of words
            shape = shape._replace(chars=1)
        batch = batching.pad([sentences[i] for i in rows], shape, size)
        if features is not None:
            where = batch.chars[:, :, 0]
            found = tuple(f if f is None else f[where] for f in features)
            batch = batch._replace(chars=batch.chars[:, :, :0], spelling=found)
        yield rows, batch


def _fetched(computed: Iterable[tuple[Any, Any]]) -> Iterator[tuple[Any, Any]]:
    """Fetches what is computed from the device, while others are under way."""
    pending: collections.deque[tuple[Any, Any]] = collections.deque()
    for one in computed:
        pending.append(one)
        if len(pending) == _PENDING:
            yield _fetch(*pending.popleft())
    while pending:
        yield _fetch(*pending.popleft())


def _fetch(which: Any, computed: Any) -> tuple[Any, Any]:
    return which, jax.tree.map(np.asarray, computed)


def _plan(
    sizes: Sequence[tuple[int, int]], passes: int
) -> Iterator[tuple[batching.Shape, int, list[int]]]:
    """Yields the shape, the number of rows and the sentences of each batch.

    The longest come first. Rows that a batch has in addition, since their number is a
    power of two, go to the next shorter sentences.

    Args:
        sizes: Tokens of each sentence, and characters of its longest word.
        passes: As in `over`.
    """
    shapes = [shape_for(*size) for size in sizes]
    sizes = [(shape.chars, shape.tokens) for shape in shapes]
    order = sorted(range(len(sizes)), key=sizes.__getitem__)
    while order:
        shape = shapes[order[-1]]
        most = _largest(shape, passes)
        shorter = bisect.bisect_left(order, sizes[order[-1]], key=sizes.__getitem__)
        size = min(most, _next_power(len(order) - shorter))
        rows = [order.pop()]
        while order and len(rows) < size and shapes[order[-1]].tokens <= shape.tokens:
            rows.append(order.pop())
        yield shape, size, rows


def _read(spell: Spell, words: Sequence[bytes]) -> Features:
    """Reads distinct words, those of about the same length together."""
    features = []
    for chunk, parts in _fetched((i, spell(chars)) for i, chars in _chunks(words)):
        if not features:
            features = [
                p if p is None else np.zeros((len(words), p.shape[1]), p.dtype)
                for p in parts
            ]
        for array, part in zip(features, parts, strict=True):
            if array is not None:
                array[chunk] = part[: len(chunk)]
    return tuple(features)


def _chunks(words: Sequence[bytes]) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yields some words, [N], and their characters, [U, C]; U is N or larger."""
    lengths, of = np.unique([*map(spelling.length, words)], return_inverse=True)
    widths = np.array([shape_for(1, n or 1).chars for n in lengths.tolist()])[of]
    for width in np.unique(widths).tolist():
        alike = np.flatnonzero(widths == width)
        count = min(_WORDS, max(1, _CHARS // width))
        for start in range(0, len(alike), count):
            chunk = alike[start : start + count]
            given = [words[i] for i in chunk] + [b""] * (count - len(chunk))
            yield chunk, spelling.rows(given, width)


def shape_for(length: int, width: int) -> batching.Shape:
    """Rounds sizes up, so that many sentences share few compiled programs.

    Tokens to 8, 12, 16, 24, 32, 48, …, characters to 16, 32, 64, …; words without any
    characters stay so.
    """
    tokens = max(8, _next_power(length))
    if tokens > 8 and length <= 3 * tokens // 4:
        tokens = 3 * tokens // 4
    return batching.Shape(tokens, max(16, _next_power(width)) if width else 0)


def _largest(shape: batching.Shape, passes: int) -> int:
    tokens, chars = shape
    most = _TOKENS.get(jax.default_backend(), 1 << 12)
    positions = min(most // passes, _CHARS // max(chars, 1))
    return 1 << (max(1, positions // tokens).bit_length() - 1)


def _next_power(count: int) -> int:
    return 1 << max(count - 1, 0).bit_length()
