"""Means over several passes, and the uncertainty of labels that they show, in nats.

Passes are those of Monte Carlo dropout, or the taggers of an ensemble. Their mixture is
a distribution over labellings, whose probabilities (of labels, spans or labellings) are
the means over the passes. Shape letters: `M` passes, `T` tokens, `L` labels.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from jaxner.types import Potentials
from jaxner.types import Uncertainty as Uncertainty

R = TypeVar("R")
_RANKS = (2, 2, 1, 1)  # ranks of the potentials of one pass


def each_pass(compute: Callable[[Potentials], R], potentials: Potentials) -> R:
    """Returns `compute`'s tree of arrays for each pass, with a leading axis `M`.

    Emissions are `[M, T, L]`; the other potentials also have the leading axis, or are
    the same in all passes.

    Example:
        >>> passes = Potentials(jnp.zeros((3, 5, 2)), jnp.zeros((2, 2)))
        >>> each_pass(lambda p: p.emissions.sum(), passes).shape
        (3,)
    """
    return jax.vmap(compute, in_axes=(_axes(potentials),))(potentials)


def mean_over_passes(compute: Callable[[Potentials], R], potentials: Potentials) -> R:
    """Returns the mean over passes of what `compute` returns; see `each_pass`."""
    values = each_pass(compute, potentials)
    return jax.tree.map(lambda array: jnp.mean(array, axis=0), values)


def one_pass(potentials: Potentials, number: int | Array) -> Potentials:
    """Returns the potentials of the pass with a number, which may be traced."""
    return Potentials._make(
        array if array is None or axis is None else array[number]
        for array, axis in zip(potentials, _axes(potentials), strict=True)
    )


def _axes(potentials: Potentials) -> Potentials:
    """Returns 0 for the fields that have an axis of passes, else None."""
    return Potentials._make(
        None if array is None or array.ndim == rank else 0
        for array, rank in zip(potentials, _RANKS, strict=True)
    )


def logs(probabilities: Float[Array, "*S"]) -> Float[Array, "*S"]:
    """Returns ln p; of an impossible event, that of the smallest float: finite."""
    return jnp.log(jnp.maximum(probabilities, jnp.finfo(probabilities.dtype).tiny))


def entropy(probabilities: Float[Array, "*S L"]) -> Float[Array, "*S"]:
    """Returns -Σ p ln p over the last axis; an impossible label adds nothing."""
    possible = jnp.where(probabilities > 0, probabilities, 1.0)  # finite gradients
    return jnp.sum(jax.scipy.special.entr(possible), axis=-1)


def summarise(samples: Float[Array, "M T L"]) -> Uncertainty:
    """Returns a summary of the label probabilities in each pass; zero under padding.

    For the mutual information see Houlsby, Huszár, Ghahramani and Lengyel, "Bayesian
    Active Learning for Classification and Preference Learning", 2011 (arXiv 1112.5745).

    Example:
        >>> split = summarise(jnp.array([[[1.0, 0.0]], [[0.0, 1.0]]]))
        >>> round(float(split.mutual_information[0]), 4), float(split.vote_share[0])
        (0.6931, 0.5)
    """
    mean = jnp.mean(samples, axis=0)
    labels = jnp.argmax(mean, axis=-1).astype(jnp.int32)
    total, mean_entropy = entropy(mean), jnp.mean(entropy(samples), axis=0)
    votes = jnp.mean(jnp.argmax(samples, axis=-1) == labels[None], axis=0)
    present = jnp.sum(mean, axis=-1) > 0
    return Uncertainty(
        labels=labels,
        probabilities=mean,
        entropy=total,
        expected_entropy=mean_entropy,
        # Never negative by Jensen's inequality, except for rounding errors.
        mutual_information=jnp.maximum(total - mean_entropy, 0.0),
        vote_share=jnp.where(present, votes, 0.0),
    )
