"""The kernels of `jaxner.inference.crf` for labels that are independent given the
sentence: sums and argmaxes over tokens, without any scan but that of `n_best`.

Shape letters: `T` tokens, `L` labels, `N` labellings.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, Key

from jaxner.inference import labellings
from jaxner.types import Potentials


def score(
    potentials: Potentials, labels: Int[Array, " T"], mask: Bool[Array, " T"]
) -> Float[Array, ""]:
    """Returns the unnormalised score of one labelling, in nats; see `crf.score`.

    Example:
        >>> import jax.numpy as jnp
        >>> potentials = Potentials(jnp.array([[1.0, 0.0], [0.0, 2.0]]))
        >>> float(score(potentials, jnp.array([0, 1]), jnp.array([True, True])))
        3.0
    """
    chosen = jnp.take_along_axis(potentials.emissions, labels[:, None], axis=1)[:, 0]
    return jnp.sum(jnp.where(mask, chosen, 0.0))


def log_partition(potentials: Potentials, mask: Bool[Array, " T"]) -> Float[Array, ""]:
    """Returns the sum of the tokens' logsumexps, in nats; see `crf.log_partition`.

    Example:
        >>> import jax.numpy as jnp
        >>> total = log_partition(Potentials(jnp.zeros((3, 2))), jnp.ones(3, bool))
        >>> round(float(jnp.exp(total)), 4)
        8.0
    """
    norms = jax.nn.logsumexp(potentials.emissions, axis=-1)
    return jnp.sum(jnp.where(mask, norms, 0.0))


def marginals(potentials: Potentials, mask: Bool[Array, " T"]) -> Float[Array, "T L"]:
    """Returns p(label at t); zero under padding.

    Example:
        >>> import jax.numpy as jnp
        >>> marginals(Potentials(jnp.zeros((2, 2))), jnp.array([True, False])).tolist()
        [[0.5, 0.5], [0.0, 0.0]]
    """
    probabilities = jax.nn.softmax(potentials.emissions, axis=-1)
    return jnp.where(mask[:, None], probabilities, 0.0)


def viterbi(potentials: Potentials, mask: Bool[Array, " T"]) -> Int[Array, " T"]:
    """Returns the best label of each token; 0 under padding.

    Example:
        >>> import jax.numpy as jnp
        >>> potentials = Potentials(jnp.array([[2.0, 0.0], [0.0, 1.0]]))
        >>> viterbi(potentials, jnp.array([True, True])).tolist()
        [0, 1]
    """
    best = jnp.argmax(potentials.emissions, axis=-1).astype(jnp.int32)
    return jnp.where(mask, best, 0)


def n_best(
    potentials: Potentials, mask: Bool[Array, " T"], n: int
) -> tuple[Int[Array, "N T"], Float[Array, " N"]]:
    """Returns the n best labellings and their scores, in nats; see `crf.n_best`.

    Example:
        >>> import jax.numpy as jnp
        >>> potentials = Potentials(jnp.array([[2.0, 0.0], [0.0, 1.0]]))
        >>> best, scores = n_best(potentials, jnp.array([True, True]), 2)
        >>> best.tolist(), scores.tolist()
        ([[0, 1], [0, 0]], [3.0, 2.0])
    """
    return labellings.ranked(potentials, mask, n, _n_best, score)


def _n_best(potentials: Potentials, mask: Bool[Array, " T"], n: int):
    """Returns the n best labellings, extending the n best prefixes token by token."""
    itself = jnp.arange(n, dtype=jnp.int32)

    def step(best, inputs):
        emission, is_token = inputs
        totals = (emission[:, None] + best[None]).ravel()
        scores, places = jax.lax.top_k(totals, n)
        labels, origins = jnp.divmod(places.astype(jnp.int32), n)
        best = jnp.where(is_token, scores - scores[0], best)
        return best, (labels, jnp.where(is_token, origins, itself))

    first = jnp.full(n, -jnp.inf, potentials.emissions.dtype).at[0].set(0.0)
    _, (labels, origins) = jax.lax.scan(step, first, (potentials.emissions, mask))

    def back(places, inputs):
        labels, origins = inputs
        return origins[places], labels[places]

    _, found = jax.lax.scan(back, itself, (labels, origins), reverse=True)
    return jnp.where(mask[None], found.T, 0)


def sample(
    potentials: Potentials, mask: Bool[Array, " T"], key: Key[Array, ""]
) -> Int[Array, " T"]:
    """Returns a labelling drawn by its probability; see `crf.sample`.

    Example:
        >>> import jax, jax.numpy as jnp
        >>> potentials = Potentials(jnp.array([[0.0, 99.0], [99.0, 0.0]]))
        >>> sample(potentials, jnp.array([True, True]), jax.random.key(0)).tolist()
        [1, 0]
    """
    emissions = potentials.emissions
    noise = labellings.gumbels(key, emissions)
    return viterbi(Potentials(emissions + noise), mask)


def labelling_entropy(
    potentials: Potentials, mask: Bool[Array, " T"]
) -> Float[Array, ""]:
    """Returns the sum of the tokens' entropies, in nats; see `crf.labelling_entropy`.

    Example:
        >>> import jax.numpy as jnp
        >>> total = labelling_entropy(Potentials(jnp.zeros((3, 2))), jnp.ones(3, bool))
        >>> round(float(jnp.exp(total)), 4)
        8.0
    """
    logs = jax.nn.log_softmax(potentials.emissions, axis=-1)
    return -jnp.sum(jnp.where(mask[:, None], jnp.exp(logs) * logs, 0.0))
