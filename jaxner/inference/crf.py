"""Linear-chain CRF kernels over one sentence, as `lax.scan`; `jax.vmap` adds the batch.

Shape letters: `T` tokens, `L` labels. Costs are O(T·L²) time and, with gradient, O(T·L)
memory. Everything stays in the log domain and is normalised at each token: the messages
are log probabilities and the normalisers are summed once at the end, which keeps
float32 exact to rounding for long sentences. No marginal is ever formed as
exp(alpha + beta - log Z), which loses all digits in float32.

Padding stands on the right, and what stands there is ignored. A sentence without a
token has exactly one labelling, the empty one: its score and log partition are 0.

References:
    Lafferty, McCallum and Pereira, "Conditional Random Fields", ICML 2001.
    Rabiner, "A Tutorial on Hidden Markov Models", Proc. IEEE 77(2), 1989.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax.nn import logsumexp
from jaxtyping import Array, Bool, Float, Int

from jaxner.types import FORBIDDEN, Potentials


class Constraints(NamedTuple):
    """What the label scheme allows; True where allowed."""

    start: Bool[Array, " L"]
    transitions: Bool[Array, "L L"]
    end: Bool[Array, " L"]


def constrain(potentials: Potentials, constraints: Constraints) -> Potentials:
    """Forbids what the constraints rule out.

    Independent potentials become those of a chain whose allowed transitions score 0.

    Args:
        potentials: Those of a CRF or of independent labels.
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
    emissions, transitions, start, end = _chain(potentials)
    return Potentials(
        emissions,
        jnp.where(constraints.transitions, transitions, FORBIDDEN),
        jnp.where(constraints.start, start, FORBIDDEN),
        jnp.where(constraints.end, end, FORBIDDEN),
    )


def _chain(potentials: Potentials):
    emissions, transitions, start, end = potentials
    if transitions is None or start is None or end is None:
        raise ValueError(
            "Expected the potentials of a CRF, got those of independent labels "
            "(transitions=None). The functions of jaxner.inference take both."
        )
    return emissions, transitions, start, end


def score(
    potentials: Potentials, labels: Int[Array, " T"], mask: Bool[Array, " T"]
) -> Float[Array, ""]:
    """Scores one labelling, unnormalised, in nats.

    Args:
        potentials: Those of a CRF.
        labels: Label ids; ignored under padding.
        mask: True at the tokens.

    Example:
        >>> import jax.numpy as jnp
        >>> emissions = jnp.array([[1.0, 0.0], [0.0, 2.0]])
        >>> potentials = Potentials(emissions, jnp.eye(2), jnp.ones(2), jnp.zeros(2))
        >>> float(score(potentials, jnp.array([0, 1]), jnp.array([True, True])))
        4.0
    """
    emissions, transitions, start, end = _chain(potentials)
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


def _filter(
    potentials: Potentials, mask: Bool[Array, " T"]
) -> tuple[Float[Array, "T L"], Float[Array, ""]]:
    """Returns log p(label at t | potentials up to t), and the log partition.

    Under padding the messages of the last token are repeated.
    """
    emissions, transitions, start, end = _chain(potentials)

    def step(alpha, inputs):
        emission, is_token = inputs
        scores = logsumexp(alpha[:, None] + transitions, axis=0) + emission
        norm = logsumexp(scores)
        alpha = jnp.where(is_token, scores - norm, alpha)
        return alpha, (alpha, jnp.where(is_token, norm, 0.0))

    scores = start + emissions[0]
    first_norm = logsumexp(scores)
    first = scores - first_norm
    last, (alphas, norms) = jax.lax.scan(step, first, (emissions[1:], mask[1:]))
    total = first_norm + jnp.sum(norms) + logsumexp(last + end)
    return jnp.concatenate([first[None], alphas]), jnp.where(mask[0], total, 0.0)


def _smooth(
    potentials: Potentials, alphas: Float[Array, "T L"], mask: Bool[Array, " T"]
) -> tuple[Float[Array, "T L"], Float[Array, "L L"], Float[Array, " L"]]:
    """Returns p(label at t), the expected transition counts, and p(last label).

    Going backwards, p(y_t) = Σ_j p(y_t | y_{t+1} = j, the past) p(y_{t+1} = j): sums
    and products of probabilities only, so nothing can overflow or cancel.
    """
    _, transitions, _, end = _chain(potentials)
    last = jax.nn.softmax(alphas[-1] + end)

    def step(carry, inputs):
        following, counts = carry
        alpha, follows = inputs
        back = jax.nn.softmax(alpha[:, None] + transitions, axis=0)
        pairs = jnp.where(follows, back * following[None, :], 0.0)
        posterior = jnp.where(follows, jnp.sum(pairs, axis=1), following)
        return (posterior, counts + pairs), posterior

    (_, counts), posteriors = jax.lax.scan(
        step, (last, jnp.zeros_like(transitions)), (alphas[:-1], mask[1:]), reverse=True
    )
    posteriors = jnp.concatenate([posteriors, last[None]])
    return jnp.where(mask[:, None], posteriors, 0.0), counts, last


@jax.custom_vjp
def _log_partition(potentials: Potentials, mask: Bool[Array, " T"]):
    return _filter(potentials, mask)[1]


def _log_partition_forward(potentials: Potentials, mask: Bool[Array, " T"]):
    alphas, total = _filter(potentials, mask)
    return total, (potentials, alphas, mask)


def _log_partition_backward(residuals, cotangent):
    # The gradient of log Z is the expected count of each potential.
    potentials, alphas, mask = residuals
    posteriors, counts, last = _smooth(potentials, alphas, mask)
    last = jnp.where(mask[0], last, 0.0)
    gradient = Potentials(posteriors, counts, posteriors[0], last)
    return jax.tree.map(lambda g: cotangent * g, gradient), None


_log_partition.defvjp(_log_partition_forward, _log_partition_backward)


def log_partition(potentials: Potentials, mask: Bool[Array, " T"]) -> Float[Array, ""]:
    """Computes the log of the summed exponentiated scores of all labellings, in nats.

    Its gradient is computed from the posteriors and needs O(T·L) memory. Second
    derivatives (reverse mode over reverse mode) are exact too.

    Args:
        potentials: Those of a CRF, finite (`FORBIDDEN` counts as finite).
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
    if not potentials.emissions.shape[0]:
        return jnp.zeros((), potentials.emissions.dtype)
    return _log_partition(potentials, mask)


def marginals(potentials: Potentials, mask: Bool[Array, " T"]) -> Float[Array, "T L"]:
    """Computes p(label at t); zero under padding.

    Args:
        potentials: Those of a CRF.
        mask: True at the tokens.

    Example:
        >>> import jax.numpy as jnp
        >>> potentials = Potentials(
        ...     jnp.zeros((3, 2)), jnp.zeros((2, 2)), jnp.zeros(2), jnp.zeros(2)
        ... )
        >>> marginals(potentials, jnp.array([True, True, False])).tolist()
        [[0.5, 0.5], [0.5, 0.5], [0.0, 0.0]]
    """
    if not potentials.emissions.shape[0]:
        return potentials.emissions
    alphas, _ = _filter(potentials, mask)
    return _smooth(potentials, alphas, mask)[0]


def viterbi(potentials: Potentials, mask: Bool[Array, " T"]) -> Int[Array, " T"]:
    """Finds the best labelling; 0 under padding, the lowest label id among equals.

    The forward scan keeps the best scores and the backward scan recomputes the argmax
    along the best path alone, which is cheaper than keeping L² back-pointers.

    Args:
        potentials: Those of a CRF.
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
    emissions, transitions, start, end = _chain(potentials)
    if not emissions.shape[0]:
        return jnp.zeros(0, jnp.int32)

    def forward(best, inputs):
        emission, is_token = inputs
        scores = jnp.max(best[:, None] + transitions, axis=0) + emission
        # The maximum is taken out at each token: scores that grow with T would swallow
        # the differences that decide.
        best = jnp.where(is_token, scores - jnp.max(scores), best)
        return best, best

    first = start + emissions[0]
    last, bests = jax.lax.scan(forward, first, (emissions[1:], mask[1:]))
    final = jnp.argmax(last + end).astype(jnp.int32)

    def backward(following, inputs):
        best, follows = inputs
        previous = jnp.argmax(best + transitions[:, following]).astype(jnp.int32)
        label = jnp.where(follows, previous, following)
        return label, label

    history = jnp.concatenate([first[None], bests])[:-1]
    _, labels = jax.lax.scan(backward, final, (history, mask[1:]), reverse=True)
    return jnp.where(mask, jnp.append(labels, final), 0)
