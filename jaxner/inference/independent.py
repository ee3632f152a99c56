"""The kernels of `jaxner.inference.crf` for labels that are independent given the
sentence: sums and argmaxes over tokens, without any scan. `T` tokens, `L` labels.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from jaxner.types import Potentials


def score(
    potentials: Potentials, labels: Int[Array, " T"], mask: Bool[Array, " T"]
) -> Float[Array, ""]:
    """Scores one labelling, unnormalised, in nats; see `crf.score`.

    Example:
        >>> import jax.numpy as jnp
        >>> potentials = Potentials(jnp.array([[1.0, 0.0], [0.0, 2.0]]))
        >>> float(score(potentials, jnp.array([0, 1]), jnp.array([True, True])))
        3.0
    """
    chosen = jnp.take_along_axis(potentials.emissions, labels[:, None], axis=1)[:, 0]
    return jnp.sum(jnp.where(mask, chosen, 0.0))


def log_partition(potentials: Potentials, mask: Bool[Array, " T"]) -> Float[Array, ""]:
    """Computes the sum of the tokens' logsumexps, in nats; see `crf.log_partition`.

    Example:
        >>> import jax.numpy as jnp
        >>> total = log_partition(Potentials(jnp.zeros((3, 2))), jnp.ones(3, bool))
        >>> round(float(jnp.exp(total)), 4)
        8.0
    """
    norms = jax.nn.logsumexp(potentials.emissions, axis=-1)
    return jnp.sum(jnp.where(mask, norms, 0.0))


def marginals(potentials: Potentials, mask: Bool[Array, " T"]) -> Float[Array, "T L"]:
    """Computes p(label at t); zero under padding.

    Example:
        >>> import jax.numpy as jnp
        >>> marginals(Potentials(jnp.zeros((2, 2))), jnp.array([True, False])).tolist()
        [[0.5, 0.5], [0.0, 0.0]]
    """
    probabilities = jax.nn.softmax(potentials.emissions, axis=-1)
    return jnp.where(mask[:, None], probabilities, 0.0)


def viterbi(potentials: Potentials, mask: Bool[Array, " T"]) -> Int[Array, " T"]:
    """Finds the best label of each token; 0 under padding.

    Example:
        >>> import jax.numpy as jnp
        >>> potentials = Potentials(jnp.array([[2.0, 0.0], [0.0, 1.0]]))
        >>> viterbi(potentials, jnp.array([True, True])).tolist()
        [0, 1]
    """
    best = jnp.argmax(potentials.emissions, axis=-1).astype(jnp.int32)
    return jnp.where(mask, best, 0)
