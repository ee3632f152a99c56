"""Sentences for tests, from the characters of each token."""

import numpy as np

from jaxner.types import Sentence


def spelled(words, chars, mask, *rest):
    """Makes a sentence in which each token has a row of characters to itself."""
    chars = np.asarray(chars)
    rows = np.concatenate([np.zeros((1, chars.shape[1]), chars.dtype), chars])
    index = np.arange(1, len(rows), dtype=np.int32)
    return Sentence(words, rows, index, mask, *rest)
