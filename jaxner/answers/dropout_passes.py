"""Uncertainty of a tagger's labels, by Monte Carlo dropout.

Runs a tagger several times with dropout, in the parts that its config names in
`mc_dropout.parts`. Works for every head with label probabilities (all but "seq2seq").
Shape letters: `B` sentences, `M` passes, `T` tokens, `L` labels.
"""

from __future__ import annotations

import functools
from collections.abc import Hashable, Sequence
from typing import Any

import jax
import numpy as np
from jaxtyping import Array

from jaxner import batched, inference, models, tagging
from jaxner.inference import Uncertainty as Uncertainty
from jaxner.tagger import Tagger
from jaxner.types import Sentence, batch_axes


def sample(
    params: Tagger,
    tokens: Any,
    key: Array,
    num_samples: int = 8,
    *,
    documents: Sequence[Hashable] | None = None,
    vectors: Any = None,
) -> Any:
    """Returns the label probabilities of several passes with dropout.

    For a tagger with a refinement, these are passes of the draft.

    Args:
        params: What `load` returned.
        tokens: As in `tag`: one sentence, several, or what `encode` returned.
        key: Draws the masks. The masks of a sentence depend on the key and its words,
            not on its batch or padding.
        num_samples: Number of passes, M; static under `jit`. Fewer passes are a prefix
            of more passes.
        documents: As in `tag`.
        vectors: As in `tag`.

    Returns:
        Probabilities `[M, T, L]` (a CRF's marginals), zero under padding; a list of
        such arrays for several sentences; `[B, M, T, L]` for an encoded batch.

    Raises:
        TypeError: `tokens` has another type.
        ValueError: `num_samples` is below 1.

    Example:
        >>> import jax
        >>> from jaxner import load
        >>> samples = sample(load("runs/grn"), ["Rome", "fell"], jax.random.key(0), 3)
        >>> samples.shape[:2]
        (3, 2)
    """
    found = _over(_samples, params, tokens, key, num_samples, documents, vectors)
    # `batched.over` needs tokens on the first axis. Results for strings are on the
    # host.
    library = jax.numpy if isinstance(tokens, Sentence) else np
    return jax.tree.map(lambda array: library.moveaxis(array, -2, -3), found)


def uncertainty(
    params: Tagger,
    tokens: Any,
    key: Array,
    num_samples: int = 8,
    *,
    documents: Sequence[Hashable] | None = None,
    vectors: Any = None,
) -> Any:
    """Returns the labels and their uncertainty over several passes with dropout.

    For a tagger with a refinement, the uncertainty is the draft's, and `labels` are the
    draft's by mean probability.

    Args:
        params: What `load` returned.
        tokens: As in `tag`.
        key: As in `sample`.
        num_samples: As in `sample`.
        documents: As in `tag`.
        vectors: As in `tag`.

    Returns:
        An `Uncertainty`, whose `labels` are strings if `tokens` are; a list of them for
        several sentences; arrays with a leading batch axis for an encoded batch.

    Raises:
        TypeError: `tokens` has another type.
        ValueError: `num_samples` is below 1.

    Example:
        >>> import jax
        >>> from jaxner import load
        >>> found = uncertainty(load("runs/grn"), ["Rome", "fell"], jax.random.key(0))
        >>> len(found.labels), found.entropy.shape
        (2, (2,))
    """
    found = _over(_summary, params, tokens, key, num_samples, documents, vectors)
    if isinstance(tokens, Sentence):
        return found

    def named(one: Uncertainty) -> Uncertainty:
        return one._replace(labels=params.vocabulary.decode(one.labels.tolist()))

    return [named(one) for one in found] if isinstance(found, list) else named(found)


def _over(one, params, tokens, key, num_samples, documents, vectors) -> Any:
    """Returns the results of `one` for one sentence, several, or an encoded batch."""
    if num_samples < 1:
        raise ValueError(f"Expected at least one pass, got num_samples={num_samples}")
    if isinstance(tokens, Sentence):
        if documents is not None or vectors is not None:
            raise TypeError(
                "documents and vectors need strings, but tokens are encoded sentences"
            )
        compute = functools.partial(one, params, key, num_samples)
        batch = jax.tree.map(jax.numpy.asarray, tokens)
        if batch.words.ndim == 1:
            return compute(batch)
        return jax.vmap(compute, in_axes=(batch_axes(batch),))(batch)
    results = batched.over_documents(
        params,
        lambda batch: _batch(params, batch, key, one=one, num_samples=num_samples),
        tagging.encode_each(params, tokens, vectors),
        documents,
        num_samples,
    )
    return results[0] if tagging.is_one_sentence(tokens) else results


@functools.partial(jax.jit, static_argnames=("one", "num_samples"))
def _batch(params, batch, key, *, one, num_samples):
    compute = functools.partial(one, params, key, num_samples)
    return jax.vmap(compute, in_axes=(batch_axes(batch),))(batch)


def _probabilities(params, key, num_samples, sentence):
    keys = models.pass_keys(models.sentence_key(key, sentence), num_samples)
    drawn = models.sample(params.model, params.weights, sentence, keys)
    return models.probabilities(drawn, sentence.mask)


def _samples(*arguments):
    return jax.numpy.moveaxis(_probabilities(*arguments), 0, 1)


def _summary(*arguments):
    return inference.summarise(_probabilities(*arguments))
