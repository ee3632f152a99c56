"""Sentences for tests, from the characters of each token, and what they hold."""

import jax
import jax.numpy as jnp
import numpy as np

from jaxner.types import Sentence


def spelled(words, chars, mask, *rest):
    """Makes a sentence in which each token has a row of characters to itself."""
    lib = jnp if isinstance(chars, jax.Array) else np
    rows = lib.pad(chars, ((1, 0), (0, 0)))
    return Sentence(words, rows, lib.arange(1, len(rows), dtype=lib.int32), mask, *rest)


def row_of(batch, i):
    """Returns a sentence of a padded batch, with the whole spelling of its words."""
    chars = batch.chars if batch.chars.ndim == 2 else batch.chars[i]
    if batch.long is not None:  # rows past the end are padding
        width = batch.long.chars.shape[1] - chars.shape[1]
        chars = np.pad(chars, ((0, 0), (0, width)))
        is_real = batch.long.rows < len(chars)
        chars[batch.long.rows[is_real]] = batch.long.chars[is_real]
    rest = batch._replace(chars=None, long=None)
    return jax.tree.map(lambda array: array[i], rest)._replace(chars=chars)


def content(sentence, places=slice(None)):
    """Returns what each token at some places of a sentence or document leads to."""
    rows = sentence.chars[sentence.char_index[places]]
    fields = {"chars": [tuple(row[row > 0].tolist()) for row in rows]}
    for name in ("words", "caps", "vectors"):
        if (array := getattr(sentence, name)) is not None:
            fields[name] = np.asarray(array)[places].tolist()
    if sentence.pieces is not None:
        ids, mask = (field.ravel() for field in sentence.pieces[:2])
        rows = sentence.pieces.positions[places]
        fields["pieces"] = [[(ids[i], mask[i]) for i in row if i >= 0] for row in rows]
    return fields
