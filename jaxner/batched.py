"""Sentences of any lengths through a compiled function, in batches of few shapes.

Shape letters: `B` sentences, `T` tokens, `C` characters.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Any

import jax
import numpy as np

from jaxner.data import batching
from jaxner.data import documents as joining
from jaxner.data.vocab import Lexicon
from jaxner.types import Sentence

# A batch has at most so many positions (or is one sentence), so that memory stays
# bounded whatever the corpus.
_TOKENS = 1 << 12
_CHARS = 1 << 17


def over_documents(
    lexicon: Lexicon,
    compute: Callable[[Sentence], Any],
    sentences: Sequence[Sentence],
    documents: Sequence[Hashable] | None = None,
    passes: int = 1,
) -> list[Any]:
    """Does the same as `over`, for a lexicon of documents or of sentences.

    Args:
        lexicon: Says which of them are read as one.
        compute: As in `over`.
        sentences: As in `over`.
        documents: The document of each sentence; without them each is one.
        passes: As in `over`.

    Raises:
        ValueError: The documents are not as many as the sentences.
    """
    if documents is not None and len(documents) != len(sentences):
        raise ValueError(
            f"Expected the document of each of {len(sentences)} sentences, got "
            f"{len(documents)} documents."
        )
    if not lexicon.reads_documents:
        return over(compute, sentences, passes)
    each = range(len(sentences)) if documents is None else documents
    members = joining.groups(each)
    joined = [joining.join([sentences[i] for i in group]) for group in members]
    results: list[Any] = [None] * len(sentences)
    for group, tree in zip(members, over(compute, joined, passes), strict=True):
        lengths = [len(sentences[i].words) for i in group]
        leaves, structure = jax.tree.flatten(tree)
        parts = [joining.split(leaf, lengths) for leaf in leaves]
        for i, *its in zip(group, *parts, strict=True):
            results[i] = jax.tree.unflatten(structure, its)
    return results


def over(
    compute: Callable[[Sentence], Any],
    sentences: Sequence[Sentence],
    passes: int = 1,
) -> list[Any]:
    """Computes something of each sentence; answers in the order of the input.

    Sentences are put together by length, and each is padded to one of few shapes.

    Args:
        compute: From a batch to a tree of arrays `[B, T, …]`.
        sentences: Without padding, as `Lexicon.encode` returns them.
        passes: How many times a sentence goes through the model at once; batches are
            the smaller for it.

    Returns:
        For each sentence a tree of NumPy arrays of its own length, `[T, …]`.
    """
    groups: dict[batching.Shape, list[int]] = {}
    for i, sentence in enumerate(sentences):
        groups.setdefault(shape_for(*sentence.chars.shape), []).append(i)
    pending: list[tuple[list[int], Any]] = []
    for shape, members in groups.items():
        size = min(_largest(shape, max(passes, 1)), _next_power(len(members)))
        for start in range(0, len(members), size):
            chunk = members[start : start + size]
            batch = batching.pad([sentences[i] for i in chunk], shape, size)
            pending.append((chunk, compute(batch)))
    results: list[Any] = [None] * len(sentences)
    for chunk, computed in pending:  # all are under way before the first is awaited
        arrays = jax.tree.map(np.asarray, computed)
        for row, i in enumerate(chunk):
            length = len(sentences[i].words)
            results[i] = jax.tree.map(lambda a, r=row, n=length: a[r][:n], arrays)
    return results


def shape_for(length: int, width: int) -> batching.Shape:
    """Rounds up to powers of two, so that lengths share compiled programs."""
    return batching.Shape(max(8, _next_power(length)), max(16, _next_power(width)))


def _largest(shape: batching.Shape, passes: int) -> int:
    tokens, chars = shape
    count = max(1, min(_TOKENS // (tokens * passes), _CHARS // (tokens * chars)))
    return 1 << (count.bit_length() - 1)


def _next_power(count: int) -> int:
    return 1 << max(count - 1, 0).bit_length()
