"""Runs sentences of any length through a compiled function, in few batch shapes.

Shape letters: `B` sentences, `T` tokens, `U` distinct words, `C` characters.
"""

from __future__ import annotations

import bisect
import collections
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from typing import Any

import jax
import numpy as np
from jax.sharding import Mesh

from jaxner import devices, models
from jaxner.arguments import check_documents
from jaxner.data import documents as joining
from jaxner.data import padding, shapes
from jaxner.tagger import Tagger
from jaxner.types import Sentence

# Maximum positions and characters in a batch of several sentences. On a CPU, larger
# batches do not fit its caches and are slower.
_TOKENS = {"cpu": 1 << 11, "gpu": 1 << 14, "tpu": 1 << 14}
_CHARS = 1 << 17
_FEW_WORDS = 1 << 8
_SHORT_WORD = 24  # characters
# Maximum number of batches in flight: enough to keep a device busy without holding the
# results of the whole text there.
_PENDING = 16


def over_documents(
    params: Tagger,
    compute: Callable[..., Any],
    sentences: Sequence[Sentence],
    documents: Sequence[Hashable] | None = None,
    passes: int = 0,
    labels: Sequence[np.ndarray] | None = None,
) -> list[Any]:
    """Returns what `over` returns, for taggers of documents or of sentences.

    Args:
        params: What `load` returned.
        compute: As in `over`.
        sentences: As in `over`.
        documents: The document of each sentence; None: each sentence is a document.
        passes: Number of passes with dropout; 0: one pass without dropout.
        labels: As in `over`; separators in a document get the last label.

    Raises:
        ValueError: The numbers of documents and sentences differ.
    """
    check_documents(documents, len(sentences))
    if not models.character_readers(params.model):
        none = np.zeros((1, 1), np.int32)
        sentences = [
            s._replace(chars=none, char_index=np.zeros_like(s.char_index))
            for s in sentences
        ]
    mesh = devices.mesh_of(params.weights)
    platform = devices.platform_of(params.weights)
    if not params.vocabulary.reads_documents:
        _warn_of_longest(params, sentences, passes)
        return over(compute, sentences, passes, mesh, labels, platform)
    each = range(len(sentences)) if documents is None else documents
    members = joining.groups(each)
    joined = [joining.join([sentences[i] for i in group]) for group in members]
    if labels is not None:
        last = len(params.vocabulary.label_names) - 1
        labels = [joining.join_labels([labels[i] for i in g], last) for g in members]
    results: list[Any] = [None] * len(sentences)
    _warn_of_longest(params, joined, passes)
    found = over(compute, joined, passes, mesh, labels, platform)
    for group, tree in zip(members, found, strict=True):
        lengths = [len(sentences[i].words) for i in group]
        leaves, structure = jax.tree.flatten(tree)
        parts = [joining.split(leaf, lengths) for leaf in leaves]
        for i, *its in zip(group, *parts, strict=True):
            results[i] = jax.tree.unflatten(structure, its)
    return results


def _warn_of_longest(params: Tagger, sentences: Sequence[Sentence], passes: int):
    longest = max((len(s.words) for s in sentences), default=0)
    models.warn_of_long(params.model, round_up(longest, 1)[0], passes)


def over(
    compute: Callable[..., Any],
    sentences: Sequence[Sentence],
    passes: int = 0,
    mesh: Mesh | None = None,
    labels: Sequence[np.ndarray] | None = None,
    platform: str = "cpu",
) -> list[Any]:
    """Returns the results of a function for each sentence, in the order of the input.

    Sorts sentences by length, cuts them into batches of similar numbers of tokens, and
    pads each batch to one of few shapes. The sentences of a batch share their distinct
    words.

    Args:
        compute: Maps a batch, as `padding.pad` returns it, to a tree of arrays
            `[B, T, …]`.
        sentences: Sentences without padding, as `Vocabulary.encode` returns them.
        passes: Number of passes per sentence in one call; reduces the batch size
            accordingly.
        mesh: The devices of the weights, if several: each batch is split over all.
        labels: Label ids of each sentence; `compute` receives them as a second
            argument, `[B, T]`, 0 under padding.
        platform: Where `compute` runs, which determines the size of a batch.

    Returns:
        For each sentence a tree of NumPy arrays `[T, …]` without padding.

    Example:
        >>> ids, chars = np.array([2, 3]), np.array([[0, 0], [5, 6], [5, 0]])
        >>> one = Sentence(ids, chars, np.array([1, 2]), ids > 0)
        >>> over(lambda batch: 2 * batch.words, [one])[0].tolist()
        [4, 6]
    """
    results: list[Any] = [None] * len(sentences)

    def computed(rows: list[int], batch: Sentence) -> Any:
        if labels is None:
            return compute(batch)
        ids = np.zeros(batch.words.shape, np.int32)
        for row, i in enumerate(rows):
            ids[row, : len(labels[i])] = labels[i]
        return compute(batch, ids)

    for rows, arrays in _fetched(
        (rows, computed(rows, batch))
        for rows, batch in _batches(sentences, passes, mesh, platform)
    ):
        for row, i in enumerate(rows):
            length = len(sentences[i].words)
            results[i] = jax.tree.map(lambda a, r=row, n=length: a[r][:n], arrays)
    return results


def _batches(
    sentences: Sequence[Sentence], passes: int, mesh: Mesh | None, platform: str
) -> Iterator[tuple[list[int], Sentence]]:
    """Yields the indices of the sentences in each batch, and the batch."""
    sizes = [(len(s.words), s.chars.shape[1]) for s in sentences]
    parts = 1 if mesh is None else mesh.size
    own = None if mesh is None else devices.own_parts(mesh)
    for (tokens, chars), count, rows in _plan(sizes, max(passes, 1), parts, platform):
        here = [sentences[i] for i in rows]
        # In large batches, half of the tokens are padding or repeated words.
        words = count * tokens + 1
        if words > _FEW_WORDS and sum(len(s.chars) for s in here) <= words // 2:
            words //= 2
        count, words = (-(-n // parts) * parts for n in (count, words))
        here = padding.of_parts(here, count, parts, own)
        batch = padding.pad(here, shapes.Shape(tokens, words, chars), count)
        yield rows, batch if mesh is None else devices.split(batch, mesh)


def _fetched(computed: Iterable[tuple[Any, Any]]) -> Iterator[tuple[Any, Any]]:
    """Yields results fetched from the device while later batches compute."""
    pending: collections.deque[tuple[Any, Any]] = collections.deque()
    for one in computed:
        pending.append(one)
        if len(pending) == _PENDING:
            yield _fetch(*pending.popleft())
    while pending:
        yield _fetch(*pending.popleft())


def _fetch(which: Any, computed: Any) -> tuple[Any, Any]:
    return which, devices.fetch(computed)


def _plan(
    sizes: Sequence[tuple[int, int]],
    passes: int,
    parts: int = 1,
    platform: str = "cpu",
) -> Iterator[tuple[tuple[int, int], int, list[int]]]:
    """Yields the padded size, the number of rows and the sentences of each batch.

    The longest sentences come first. The number of rows is a power of two; spare rows
    take the next shorter sentences.

    Args:
        sizes: Tokens of each sentence, and characters of its longest word.
        passes: As in `over`.
        parts: Number of devices that share a batch; each takes a full share.
        platform: As in `over`.
    """
    rounded = [round_up(*size) for size in sizes]
    sizes = [(chars, tokens) for tokens, chars in rounded]
    order = sorted(range(len(sizes)), key=sizes.__getitem__)
    while order:
        tokens, chars = rounded[order[-1]]
        most = parts * _largest(tokens, chars, passes, platform)
        shorter = bisect.bisect_left(order, sizes[order[-1]], key=sizes.__getitem__)
        count = min(most, _next_power(len(order) - shorter))
        rows = [order.pop()]
        while order and len(rows) < count and rounded[order[-1]][0] <= tokens:
            rows.append(order.pop())
        yield (tokens, chars), count, rows


def round_up(tokens: int, chars: int) -> tuple[int, int]:
    """Returns sizes rounded up, so that sentences share few compiled programs.

    Tokens: 8, 16, 24, 32, 48, 64, …. Characters: 24 (most words are short), 128, 256,
    …, or 1 if the model reads no characters.

    Example:
        >>> round_up(17, 9)
        (24, 24)
    """
    padded = max(8, _next_power(tokens))
    if padded > 16 and tokens <= 3 * padded // 4:
        padded = 3 * padded // 4
    width = _SHORT_WORD if chars <= _SHORT_WORD else max(128, _next_power(chars))
    return padded, width if chars > 1 else 1


def _largest(tokens: int, chars: int, passes: int, platform: str) -> int:
    most = _TOKENS.get(platform, 1 << 12)
    positions = min(most // passes, _CHARS // chars)
    return 1 << (max(1, positions // tokens).bit_length() - 1)


def _next_power(count: int) -> int:
    return 1 << max(count - 1, 0).bit_length()
