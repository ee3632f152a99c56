"""Measures the uncertainty of a tagger's labels by Monte Carlo dropout.

Runs a tagger several times with dropout, in the parts that its config names in
`mc_dropout.parts`. Works for every head with label probabilities (all but "seq2seq").
Shape letters: `B` sentences, `M` passes, `T` tokens, `L` labels.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Annotated, Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from jaxner import inference, models, tagging
from jaxner.fields import Range, checked
from jaxner.inference import Uncertainty as Uncertainty
from jaxner.models import check_key
from jaxner.tagger import Ensemble, Tagger
from jaxner.types import Sentence

_Passes = Annotated[int, Range(least=1, most=10_000)]


@checked
def sample(
    params: Tagger,
    tokens: Any,
    key: Array,
    num_samples: _Passes = 8,
    *,
    documents: Sequence[Hashable] | None = None,
    vectors: Any = None,
) -> Any:
    """Returns the label probabilities of several passes with dropout.

    For a tagger with a refinement, these are passes of the draft. Source: Gal and
    Ghahramani, "Dropout as a Bayesian Approximation", ICML 2016.

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
        ValueError: `num_samples` is below 1, or `params` is an ensemble.

    Example:
        >>> import jax
        >>> from jaxner import load
        >>> samples = sample(load("runs/grn"), ["Rome", "fell"], jax.random.key(0), 3)
        >>> samples.shape[:2]
        (3, 2)
    """
    found = _over(_samples, params, tokens, key, num_samples, documents, vectors)
    # `over` needs tokens on the first axis. Results for strings are on the host.
    library = jnp if isinstance(tokens, Sentence) else np
    return jax.tree.map(lambda array: library.moveaxis(array, -2, -3), found)


@checked
def uncertainty(
    params: Tagger,
    tokens: Any,
    key: Array,
    num_samples: _Passes = 8,
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
        ValueError: `num_samples` is below 1, or `params` is an ensemble.

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
    check_key(key)
    if isinstance(params, Ensemble):
        raise ValueError(
            "Passes with dropout are of one tagger, not of an ensemble: call it with "
            "ensemble.member(0). jaxner.marginals(ensemble, tokens) averages over the "
            "members."
        )
    return tagging.over(
        one,
        params,
        tokens,
        key,
        documents=documents,
        vectors=vectors,
        passes=num_samples,
        num_samples=num_samples,
    )


def _probabilities(params, sentence, key, num_samples):
    """Computes the probabilities `[M, T, L]` of all passes, without temperature.

    A threshold of the uncertainty is chosen on the scores as they were trained.
    """
    keys = models.pass_keys(models.sentence_key(key, sentence), num_samples)
    drawn = models.sample(params.model, params.weights, sentence, keys)
    return models.probabilities(drawn, sentence.mask)


def _samples(params, sentence, key, num_samples):
    return jnp.moveaxis(_probabilities(params, sentence, key, num_samples), 0, 1)


def _summary(params, sentence, key, num_samples):
    return inference.summarise(_probabilities(params, sentence, key, num_samples))
