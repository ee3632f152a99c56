"""How sure a tagger is of its labels, by Monte Carlo dropout.

Any tagger can be asked whose head gives each label a probability (all but "seq2seq"):
it is run several times with dropout switched on, in the parts that its config names in
`mc_dropout.parts`. Shape letters: `B` sentences, `M` passes, `T` tokens, `L` labels.
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
    """Computes the label probabilities of several passes with dropout.

    Of a tagger with a refinement, these are the passes of its draft.

    Args:
        params: What `load` returned.
        tokens: As in `tag`: one sentence, several, or what `encode` returned.
        key: Of the masks. Each sentence has its own, which depend on the key and on its
            words, but neither on its batch nor on the padding.
        num_samples: Passes, M. Under `jit` it is static. Those of fewer passes are the
            first of more.
        documents: As in `tag`.
        vectors: As in `tag`.

    Returns:
        `[M, T, L]`: marginals, if the head is a CRF; zero under padding. A list of such
        arrays for several sentences; `[B, M, T, L]` for an encoded batch.

    Raises:
        TypeError: `tokens` is none of these.
        ValueError: There are no passes.

    Example:
        >>> import jax
        >>> from jaxner import load
        >>> samples = sample(load("runs/grn"), ["Rome", "fell"], jax.random.key(0), 3)
        >>> samples.shape[:2]
        (3, 2)
    """
    found = _over(_samples, params, tokens, key, num_samples, documents, vectors)
    # Tokens stood first, as `batched.over` wants it. Strings come back on the host.
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
    """Tells how uncertain each label is.

    Of a tagger with a refinement, it is the draft that is asked, and `labels` are the
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
        TypeError: `tokens` is none of these.
        ValueError: There are no passes.

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
    """Maps a function of one encoded sentence over whatever `tokens` is."""
    if num_samples < 1:
        raise ValueError(f"Expected at least one pass, got num_samples={num_samples}")
    if isinstance(tokens, Sentence):
        if documents is not None or vectors is not None:
            raise TypeError(
                "Encoded sentences take no documents and no vectors: give strings."
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
