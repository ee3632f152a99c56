"""Sentences for tests, from the characters of each token."""

import jax
import jax.numpy as jnp
import numpy as np

from jaxner.types import Sentence


def spelled(words, chars, mask, *rest):
    """Makes a sentence in which each token has a row of characters to itself."""
    lib = jnp if isinstance(chars, jax.Array) else np
    rows = lib.pad(chars, ((1, 0), (0, 0)))
    index = lib.arange(1, len(rows), dtype=lib.int32)
    return Sentence(words, rows, index, mask, *rest)
