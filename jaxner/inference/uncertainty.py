"""Measures of a label's uncertainty over several passes, in nats.

Shape letters: `M` passes, `T` tokens, `L` labels.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

if TYPE_CHECKING:
    from typing import Any

    AnyArray = Any


class Uncertainty(NamedTuple):
    """A summary of several passes for each token; zero under padding.

    Attributes:
        labels: The label with the highest mean probability.
        probabilities: Mean label probabilities over the passes.
        entropy: Entropy of the mean probabilities: total uncertainty, in nats, from 0
            to log L.
        expected_entropy: Mean entropy of the passes: uncertainty in the data
            (aleatoric), in nats.
        mutual_information: Difference of the two: uncertainty in the weights
            (epistemic), in nats; 0 if all passes agree.
        vote_share: Share of the passes whose best label is that of `labels`, 0 to 1.

    Example:
        >>> import jax.numpy as jnp
        >>> found = summarise(jnp.array([[[0.9, 0.1]], [[0.8, 0.2]]]))
        >>> found.labels.tolist(), found.vote_share.tolist()
        ([0], [1.0])
    """

    labels: Int[AnyArray, " T"]
    probabilities: Float[AnyArray, "T L"]
    entropy: Float[AnyArray, " T"]
    expected_entropy: Float[AnyArray, " T"]
    mutual_information: Float[AnyArray, " T"]
    vote_share: Float[AnyArray, " T"]


def entropy(probabilities: Float[Array, "*S L"]) -> Float[Array, "*S"]:
    """Computes -Σ p ln p over the last axis; an impossible label adds nothing.

    Example:
        >>> import jax.numpy as jnp
        >>> [round(x, 4) for x in entropy(jnp.array([[0.5, 0.5], [1.0, 0.0]])).tolist()]
        [0.6931, 0.0]

    References:
        Gui et al., "Uncertainty-Aware Label Refinement for Sequence Labeling", EMNLP
        2020, eq. 5.
    """
    return jnp.sum(jax.scipy.special.entr(probabilities), axis=-1)


def summarise(samples: Float[Array, "M T L"]) -> Uncertainty:
    """Returns a summary of several passes.

    Args:
        samples: Label probabilities in each pass; zero under padding.

    Example:
        >>> import jax.numpy as jnp
        >>> split = summarise(jnp.array([[[1.0, 0.0]], [[0.0, 1.0]]]))
        >>> round(float(split.mutual_information[0]), 4), float(split.vote_share[0])
        (0.6931, 0.5)

    References:
        Houlsby, Huszár, Ghahramani and Lengyel, "Bayesian Active Learning for
        Classification and Preference Learning", 2011 (arXiv 1112.5745): the mutual
        information of a label and the weights.
    """
    mean = jnp.mean(samples, axis=0)
    present = jnp.sum(mean, axis=-1) > 0
    labels = jnp.argmax(mean, axis=-1).astype(jnp.int32)
    total, expected = entropy(mean), jnp.mean(entropy(samples), axis=0)
    votes = jnp.mean(jnp.argmax(samples, axis=-1) == labels[None], axis=0)
    return Uncertainty(
        labels,
        mean,
        total,
        expected,
        # Never negative by Jensen's inequality, except for rounding errors.
        jnp.maximum(total - expected, 0.0),
        jnp.where(present, votes, 0.0),
    )
