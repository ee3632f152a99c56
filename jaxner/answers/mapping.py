"""Maps a function of one encoded sentence over tokens in any form."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Hashable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from jaxner import batched, models, tagging
from jaxner.arguments import check_tagger
from jaxner.models import check_key
from jaxner.tagger import Tagger
from jaxner.types import Sentence, batch_axes


def over_tokens(
    one: Callable[..., Any],
    params: Tagger,
    tokens: Any,
    key: Array | None = None,
    *,
    documents: Sequence[Hashable] | None = None,
    vectors: Any = None,
    passes: int = 0,
    **options: Hashable,
) -> Any:
    """Applies a function to one sentence, several, or encoded ones.

    Args:
        one: Maps `(params, sentence, key, **options)` to a tree of arrays `[T, …]`. It
            must be a module-level function, because each new function compiles again.
        params: What `load` returned.
        tokens: As in `tag`.
        key: Passed to `one` for its draws.
        documents: As in `tag`.
        vectors: As in `tag`.
        passes: Number of passes per sentence in one call, for the batch size.
        **options: Static arguments of `one`.

    Returns:
        For one sentence, a tree of NumPy arrays without padding; a list of trees for
        several sentences; JAX arrays `[T, …]` or `[B, T, …]` for encoded ones.

    Raises:
        TypeError: `tokens` has another type; or is encoded, with documents or vectors.
    """
    check_tagger(params)
    if key is not None:
        check_key(key)
    if isinstance(tokens, Sentence):
        if documents is not None or vectors is not None:
            raise TypeError(
                "documents and vectors need strings, but tokens are encoded sentences"
            )
        rank = np.ndim(tokens.words)
        if rank not in (1, 2):
            raise TypeError(
                f"Expected encoded words of shape [T] or [B, T], got {rank} axes. Map "
                "over further axes with jax.vmap."
            )

        def whole(params: Any, sentence: Any, key: Any) -> Any:
            return one(params, sentence, key=key, **options)

        def compute(sentence: Sentence) -> Any:
            return models.automatic(whole, params, sentence, key)

        arrays = jax.tree.map(jnp.asarray, tokens)
        if rank == 1:
            return compute(arrays)
        return jax.vmap(compute, in_axes=(batch_axes(arrays),))(arrays)

    # Traced, so that another temperature does not compile again.
    degrees = jnp.asarray(params.temperature, jnp.float32)
    plain = dataclasses.replace(params, temperature=1.0)
    static = {"one": one, "options": tuple(options.items())}

    def compute_batch(batch):
        return _batch(plain, degrees, batch, key, **static)

    encoded = tagging.encode_each(params, tokens, vectors)
    found = batched.over_documents(params, compute_batch, encoded, documents, passes)
    return found[0] if tagging.is_one_sentence(tokens) else found


@functools.partial(jax.jit, static_argnames=("one", "options"))
def _batch(params, degrees, batch, key, *, one, options):
    params = dataclasses.replace(params, temperature=degrees)
    compute = functools.partial(one, params, key=key, **dict(options))
    return jax.vmap(compute, in_axes=(batch_axes(batch),))(batch)
