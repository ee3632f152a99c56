"""Linear-chain CRF kernels over one sentence, as `lax.scan`; `jax.vmap` adds the batch.

Shape letters: `T` tokens, `L` labels, `N` labellings. Costs are O(T·L²) time and, with
gradient, O(T·L) memory. Messages are normalised at each token and the normalisers are
summed once at the end, which keeps float32 exact to rounding for long sentences.
Marginals are never computed as exp(alpha + beta - log Z), which loses all digits in
float32. `jaxner.inference.messages` holds the sums, in a fast and in an exact form, and
`jaxner.inference.labellings` the searches.

Padding is on the right and ignored. A sentence without tokens has exactly one
labelling, the empty one, with score and log partition 0.

References:
    Lafferty, McCallum and Pereira, "Conditional Random Fields", ICML 2001.
    Rabiner, "A Tutorial on Hidden Markov Models", Proc. IEEE 77(2), 1989.
"""

from __future__ import annotations

from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, Key

from jaxner.inference import labellings, messages
from jaxner.inference.messages import chain
from jaxner.types import FORBIDDEN, Potentials


class Constraints(NamedTuple):
    """The constraints of a label scheme; True where allowed.

    Attributes:
        start: Whether a sentence may start with each label.
        transitions: Whether label j (column) may follow label i (row).
        end: Whether a sentence may end with each label.

    Example:
        >>> import jax.numpy as jnp
        >>> free = Constraints(*(jnp.ones(shape, bool) for shape in (3, (3, 3), 3)))
        >>> free.transitions.shape
        (3, 3)
    """

    start: Bool[Array, " L"]
    transitions: Bool[Array, "L L"]
    end: Bool[Array, " L"]


def constrain(potentials: Potentials, constraints: Constraints) -> Potentials:
    """Returns potentials that forbid what the constraints exclude.

    Independent potentials become a chain whose allowed transitions score 0.

    Args:
        potentials: Potentials of a CRF or of independent labels.
        constraints: `start[j]`, `transitions[i, j]` from row to column, and `end[i]`.

    Returns:
        Potentials whose best labelling obeys the constraints, if any labelling does.

    Example:
        >>> import jax.numpy as jnp
        >>> independent = Potentials(jnp.array([[0.0, 4.0], [0.0, 5.0]]))
        >>> no_repeat = Constraints(
        ...     start=jnp.array([True, True]),
        ...     transitions=jnp.array([[True, True], [True, False]]),
        ...     end=jnp.array([True, True]),
        ... )
        >>> viterbi(constrain(independent, no_repeat), jnp.array([True, True])).tolist()
        [0, 1]
    """
    if potentials.transitions is None:
        size, dtype = potentials.emissions.shape[-1], potentials.emissions.dtype
        none = jnp.zeros(size, dtype)
        free = jnp.zeros((size, size), dtype)
        potentials = Potentials(potentials.emissions, free, none, none)
    emissions, transitions, start, end = chain(potentials)
    return Potentials(
        emissions,
        jnp.where(constraints.transitions, transitions, FORBIDDEN),
        jnp.where(constraints.start, start, FORBIDDEN),
        jnp.where(constraints.end, end, FORBIDDEN),
    )


def score(
    potentials: Potentials, labels: Int[Array, " T"], mask: Bool[Array, " T"]
) -> Float[Array, ""]:
    """Returns the unnormalised score of one labelling, in nats.

    Args:
        potentials: Potentials of a CRF.
        labels: Label ids; ignored under padding.
        mask: True at the tokens.

    Example:
        >>> import jax.numpy as jnp
        >>> emissions = jnp.array([[1.0, 0.0], [0.0, 2.0]])
        >>> potentials = Potentials(emissions, jnp.eye(2), jnp.ones(2), jnp.zeros(2))
        >>> float(score(potentials, jnp.array([0, 1]), jnp.array([True, True])))
        4.0
    """
    emissions, transitions, start, end = chain(potentials)
    if not labels.shape[0]:
        return jnp.zeros((), emissions.dtype)
    chosen = jnp.take_along_axis(emissions, labels[:, None], axis=1)[:, 0]
    steps = transitions[labels[:-1], labels[1:]]
    last = labels[jnp.maximum(jnp.sum(mask) - 1, 0)]
    total = (
        jnp.sum(jnp.where(mask, chosen, 0.0))
        + jnp.sum(jnp.where(mask[1:], steps, 0.0))
        + start[labels[0]]
        + end[last]
    )
    return jnp.where(mask[0], total, 0.0)


def log_partition(potentials: Potentials, mask: Bool[Array, " T"]) -> Float[Array, ""]:
    """Returns log Z, the log of the summed exponentiated scores, in nats.

    The gradient comes from the posteriors and needs O(T·L) memory. Second derivatives
    (reverse mode over reverse mode) are exact too. Forward mode raises an error
    (`jax.jvp`, `jax.jacfwd`, `jax.hessian`).

    Args:
        potentials: Potentials of a CRF, all finite (`FORBIDDEN` is finite).
        mask: True at the tokens.

    Example:
        >>> import jax.numpy as jnp
        >>> potentials = Potentials(
        ...     jnp.zeros((3, 2)), jnp.zeros((2, 2)), jnp.zeros(2), jnp.zeros(2)
        ... )
        >>> total = log_partition(potentials, jnp.array([True, True, True]))
        >>> round(float(jnp.exp(total)), 4)  # the number of labellings
        8.0
    """
    chain(potentials)
    if not potentials.emissions.shape[0]:
        return jnp.zeros((), potentials.emissions.dtype)
    return messages.log_partition(potentials, mask)


def marginals(potentials: Potentials, mask: Bool[Array, " T"]) -> Float[Array, "T L"]:
    """Returns p(label at t); zero under padding.

    Differentiable in reverse mode, like `log_partition`.

    Args:
        potentials: Potentials of a CRF.
        mask: True at the tokens.

    Example:
        >>> import jax.numpy as jnp
        >>> potentials = Potentials(
        ...     jnp.zeros((3, 2)), jnp.zeros((2, 2)), jnp.zeros(2), jnp.zeros(2)
        ... )
        >>> marginals(potentials, jnp.array([True, True, False])).tolist()
        [[0.5, 0.5], [0.5, 0.5], [0.0, 0.0]]
    """
    chain(potentials)
    if not potentials.emissions.shape[0]:
        return potentials.emissions
    return messages.marginals(potentials, mask)


def viterbi(potentials: Potentials, mask: Bool[Array, " T"]) -> Int[Array, " T"]:
    """Returns the best labelling; 0 under padding, the lowest label id on ties.

    Args:
        potentials: Potentials of a CRF.
        mask: True at the tokens.

    Example:
        >>> import jax.numpy as jnp
        >>> potentials = Potentials(
        ...     jnp.array([[2.0, 0.0], [0.0, 1.0], [9.0, 0.0]]),
        ...     jnp.eye(2), jnp.zeros(2), jnp.zeros(2),
        ... )
        >>> viterbi(potentials, jnp.array([True, True, False])).tolist()
        [0, 0, 0]
    """
    chain(potentials)
    if not potentials.emissions.shape[0]:
        return jnp.zeros(0, jnp.int32)
    return labellings.viterbi(potentials, mask)


def n_best(
    potentials: Potentials, mask: Bool[Array, " T"], n: int
) -> tuple[Int[Array, "N T"], Float[Array, " N"]]:
    """Returns the n best labellings and their scores, in nats, best first.

    The first is the result of `viterbi`. If there are fewer than n labellings, the
    others have score -inf and label 0 everywhere. Forbidden labellings (with a score of
    `FORBIDDEN`) do not count. Time is O(T·n·L² log(n·L)), memory O(T·n·L).

    Args:
        potentials: Potentials of a CRF.
        mask: True at the tokens.
        n: Number of labellings; static.

    Returns:
        Labellings, 0 under padding, and scores as `score` computes them.

    Raises:
        ValueError: n is below 1.

    Example:
        >>> import jax.numpy as jnp
        >>> emissions = jnp.array([[2.0, 0.0], [0.0, 1.0]])
        >>> potentials = Potentials(
        ...     emissions, jnp.zeros((2, 2)), jnp.zeros(2), jnp.zeros(2)
        ... )
        >>> best, scores = n_best(potentials, jnp.array([True, True]), 2)
        >>> best.tolist(), scores.tolist()
        ([[0, 1], [0, 0]], [3.0, 2.0])

    References:
        Seshadri and Sundberg, "List Viterbi decoding algorithms with applications",
        IEEE Trans. Communications 42, 1994: the parallel algorithm.
    """
    chain(potentials)
    return labellings.ranked(potentials, mask, n, labellings.n_best, score)


def sample(
    potentials: Potentials, mask: Bool[Array, " T"], key: Key[Array, ""]
) -> Int[Array, " T"]:
    """Returns a labelling drawn by its probability; 0 under padding.

    Draws the last label first, then each label given the next. For several draws,
    `jax.vmap` over keys computes the messages only once.

    Args:
        potentials: Potentials of a CRF.
        mask: True at the tokens.
        key: The same key draws the same labels for any padding.

    Example:
        >>> import jax, jax.numpy as jnp
        >>> potentials = Potentials(
        ...     jnp.array([[0.0, 9.0], [0.0, 0.0]]), 99 * jnp.eye(2), jnp.zeros(2),
        ...     jnp.zeros(2),
        ... )
        >>> sample(potentials, jnp.array([True, True]), jax.random.key(0)).tolist()
        [1, 1]

    References:
        Scott, "Bayesian Methods for Hidden Markov Models", JASA 97(457), 2002: forward
        filtering, backward sampling.
    """
    chain(potentials)
    if not potentials.emissions.shape[0]:
        return jnp.zeros(0, jnp.int32)
    return labellings.sample(potentials, mask, key)


def labelling_entropy(
    potentials: Potentials, mask: Bool[Array, " T"]
) -> Float[Array, ""]:
    """Returns the entropy of the distribution over whole labellings, in nats.

    At most the sum of the tokens' entropies (`jaxner.inference.entropy` of the
    marginals), with equality for independent labels. Differentiable in forward and
    reverse mode.

    Args:
        potentials: Potentials of a CRF.
        mask: True at the tokens.

    Example:
        >>> import jax.numpy as jnp
        >>> potentials = Potentials(  # all labels are equal, whichever they are
        ...     jnp.zeros((5, 2)), 99 * jnp.eye(2), jnp.zeros(2), jnp.zeros(2)
        ... )
        >>> round(float(labelling_entropy(potentials, jnp.ones(5, bool))), 4)
        0.6931

    References:
        Mann and McCallum, "Efficient Computation of Entropy Gradient for
        Semi-Supervised Conditional Random Fields", NAACL 2007.
    """
    chain(potentials)
    if not potentials.emissions.shape[0]:
        return jnp.zeros((), potentials.emissions.dtype)
    return labellings.entropy(potentials, mask)
