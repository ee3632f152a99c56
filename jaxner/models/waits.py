"""How long the longest sentences take, where work grows with the square of the length.

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
"""Seconds that a single sentence may take before there is a warning."""
_SAMPLE = 1024  # tokens
_LONG = 4096  # shorter ones are not worth the measurement


def warn_of_long(model: Any, tokens: int, passes: int = 1) -> None:
    """Warns of a sentence that will take long, with the time to expect.

    What one sentence of 1,024 tokens takes here is measured once.

    Args:
        model: What `build` returned.
        tokens: Of the longest sentence, padding included.
        passes: How many times it goes through the model.

    Warns:
        UserWarning: More than `WARN_AFTER` seconds are expected.
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
    """Measures the relation layer on one sentence of `_SAMPLE` tokens."""
    zeros = jnp.zeros((_SAMPLE, size))
    compiled = jax.jit(gated_sum).lower(zeros, zeros, zeros).compile()
    jax.block_until_ready(compiled(zeros, zeros, zeros))
    start = time.perf_counter()
    jax.block_until_ready(compiled(zeros, zeros, zeros))
    return time.perf_counter() - start
