"""Keeps the precomputed vectors of a training text on the device, as one table.

ELMo vectors have 12 kB per token, most of what a step would otherwise copy to the
device. With a table, sentences contain row numbers instead of vectors. If a table is
too large for the device, each step copies the vectors of its batch.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxner.data.batching import Block
from jaxner.types import Sentence

TABLE = "resident"
"""The name of the table among the frozen weights."""
SHARE = 0.25  # maximum share of a device's memory, unless requested


def split_off(
    sentences: Sequence[Sentence], choice: bool | None
) -> tuple[Sequence[Sentence], np.ndarray | None]:
    """Moves the vectors of sentences into a table, if they should be on the device.

    Args:
        sentences: Sentences of the training text, without padding.
        choice: Whether to make a table; None: if it needs at most `SHARE` of an
            accelerator's memory. On a CPU, there is nothing to copy.

    Returns:
        The sentences with row numbers instead of vectors, and the table `[tokens + 1,
        S, D]`, whose row 0 is zero; or the unchanged sentences and None.

    Example:
        >>> ids = np.array([1, 2])
        >>> one = Sentence(ids, ids, ids, ids > 0, vectors=np.ones((2, 3, 4)))
        >>> found, table = split_off([one, one], True)
        >>> found[1].vectors.tolist(), table.shape
        ([3, 4], (5, 3, 4))
    """
    if sentences[0].vectors is None:
        return sentences, None
    lengths = [len(sentence.words) for sentence in sentences]
    shape = np.shape(sentences[0].vectors)[1:]
    size = 4 * (sum(lengths) + 1) * int(np.prod(shape))
    if choice is None:
        choice = size <= SHARE * _memory()
    if not choice:
        return sentences, None
    table, ends = np.zeros((sum(lengths) + 1, *shape), np.float32), np.cumsum(lengths)
    found = []
    for sentence, length, end in zip(sentences, lengths, ends, strict=True):
        rows = np.arange(end - length, end, dtype=np.int32) + 1
        table[rows] = np.asarray(sentence.vectors)
        found.append(sentence._replace(vectors=rows))
    return found, table


def _memory() -> float:
    """Returns the size of an accelerator's memory in bytes; 0 for a CPU."""
    device = jax.local_devices()[0]
    statistics = None if device.platform == "cpu" else device.memory_stats()
    return float((statistics or {}).get("bytes_limit", 0))


def looked_up(frozen: dict[str, Any], block: Block) -> tuple[dict[str, Any], Block]:
    """Returns the frozen weights, and a block with its vectors; works under `jit`.

    Args:
        frozen: The frozen weights, with the table, if there is one.
        block: A block with vectors, or with rows of the table.
    """
    if TABLE not in frozen:
        return frozen, block
    vectors = jnp.asarray(frozen[TABLE])[block.sentences.vectors]
    weights = {name: value for name, value in frozen.items() if name != TABLE}
    return weights, block._replace(sentences=block.sentences._replace(vectors=vectors))
