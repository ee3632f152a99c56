"""Warns of long sentences in models whose work grows with the square of the length.

Shape letters: `T` tokens, `H` features.
"""

from __future__ import annotations

import functools
import time
import warnings
from typing import Any

import jax
import jax.numpy as jnp

from jaxner.models.chain import Chain
from jaxner.models.grn import GRN
from jaxner.models.relation import gated_sum

WARN_AFTER = 10.0
"""Maximum expected time of a sentence without a warning, in seconds."""
_SAMPLE = 1024  # tokens
_LONG = 4096  # tokens; shorter sentences are not worth a measurement


def warn_of_long(model: Any, tokens: int, passes: int = 1) -> None:
    """Warns of a sentence that will take long, with the expected time.

    Measures once, on this machine, the time of a sentence of 1,024 tokens.

    Args:
        model: What `build` returned.
        tokens: Tokens of the longest sentence, including padding.
        passes: Number of passes through the model.

    Warns:
        UserWarning: The expected time exceeds `WARN_AFTER`.
    """
    sizes = list(_gated(model.encoder)) if tokens >= _LONG else []
    factor = max(passes, 1) * (tokens / _SAMPLE) ** 2
    seconds = sum(factor * _seconds(size) for size in sizes)
    if seconds > WARN_AFTER:
        warnings.warn(
            f"A sentence of {tokens:,} tokens takes a GRN about {seconds:,.0f} s here: "
            "its work grows with the square of the length. Split such sentences, or "
            "take an encoder whose work grows with the length (idcnn, bilstm).",
            stacklevel=4,
        )


def _gated(encoder: Any):
    """Yields the number of features of each gated relation layer."""
    if isinstance(encoder, Chain):
        yield from _gated(encoder.first)
        yield from _gated(encoder.then)
    elif isinstance(encoder, GRN) and encoder.relation == "gated":
        yield encoder.hidden_dim


@functools.cache
def _seconds(size: int) -> float:
    """Returns the seconds of the relation layer on a sentence of `_SAMPLE` tokens."""
    zeros = jnp.zeros((_SAMPLE, size))
    compiled = jax.jit(gated_sum).lower(zeros, zeros, zeros).compile()
    jax.block_until_ready(compiled(zeros, zeros, zeros))
    start = time.perf_counter()
    jax.block_until_ready(compiled(zeros, zeros, zeros))
    return time.perf_counter() - start
