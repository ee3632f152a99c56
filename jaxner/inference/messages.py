"""The messages of a linear chain, and log Z and its derivatives from them.

There are two forms. The exact form keeps the log of p(label at t | potentials up to t)
and costs L² exponentials for each token. The fast form keeps that probability itself,

    reached = a_t E,    a_{t+1} = reached ∘ w_{t+1} / c_{t+1},
    E = exp(transitions - their maximum),    w_t = exp(emissions_t - their maximum),

so that a token costs one product with a matrix shared by all tokens and, under
`jax.vmap`, by all sentences; the logs of the normalisers c and the maxima are summed at
the end.

Underflow in the fast form, and when the form is used. Let R be the range (maximum less
minimum) of the transitions or of `end`, whichever is larger, and δ the least normal
number. Emissions and `start` may be anything.

1. No entry of E is below e^-R and a_t sums to one, so all entries of `reached` are in
   [e^-R, 1]. The best emission has w = 1, so c ≥ e^-R. Neither divisor can vanish.
2. Two labels i and k of a token share their future except for the transition out of
   them (or `end`), so the scores of their futures differ by at most R nats. A label
   with a share q of the mass of a_t thus has a posterior of at most q e^R: no label can
   survive only because all others have no future.
3. What underflows before the division by c is below δ, so the share of its label is
   below δ e^R and its posterior below δ e^2R. What underflows in a term of `reached` is
   below δ beside a sum of at least e^-R.
4. Backwards, p_t = a_t ∘ E (p_{t+1} / reached). A quotient is at most e^R. A posterior
   that underflows is below δ and adds at most δ e^R to any other.

So log Z and the posteriors each change by at most T L δ e^2R. The fast form is used if
e^2R ≤ e^-14 ε / δ, with ε the precision of the type: R ≤ 28.7 for float32 and 329 for
float64. The underflow in a token is then at most L millionths of a rounding error, and
nothing overflows, since no quotient exceeds e^R. For larger R, and for NaN, the exact
form is used. It needs no bound, since its softmaxes subtract their own maxima.

References:
    Rabiner, "A Tutorial on Hidden Markov Models", Proc. IEEE 77(2), 1989, V.A: scaling.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.custom_batching import custom_vmap
from jax.nn import logsumexp
from jaxtyping import Array, Bool, Float

from jaxner.inference.varying import varying
from jaxner.types import Potentials

# Up to this number of labels, sums and maxima over labels are written out, so that XLA
# fuses them with the rest of the loop's body, which is faster than separate calls.
FEW = 20


class Messages(NamedTuple):
    """The results of the forward pass that the backward pass needs.

    Attributes:
        is_fast: Whether the other fields belong to the fast form.
        alphas: p(label at t | potentials up to t); its log in the exact form. Under
            padding, repeats the last token's.
        reached: Divisors of the fast form; zero in the exact form.
    """

    is_fast: Bool[Array, ""]
    alphas: Float[Array, "T L"]
    reached: Float[Array, "N L"]


def chain(potentials: Potentials) -> tuple[Array, Array, Array, Array]:
    """Returns emissions, transitions, start and end.

    Raises:
        ValueError: The potentials are for independent labels.
    """
    emissions, transitions, start, end = potentials
    if transitions is None or start is None or end is None:
        raise ValueError(
            "Expected the potentials of a CRF, got those of independent labels "
            "(transitions=None). The functions of jaxner.inference take both."
        )
    return emissions, transitions, start, end


def largest_range(dtype: Any) -> float:
    """Returns the largest R, in nats, for which the fast form is used.

    Example:
        >>> round(largest_range(jnp.float32), 1), round(largest_range(jnp.float64), 1)
        (28.7, 329.2)
    """
    kind = jnp.finfo(dtype)
    return (math.log(float(kind.eps)) - math.log(float(kind.tiny))) / 2 - 7


def _is_narrow(potentials: Potentials) -> Bool[Array, ""]:
    _, transitions, _, end = chain(potentials)
    limit = largest_range(potentials.emissions.dtype)
    ranges = [jnp.max(x) - jnp.min(x) for x in (transitions, end)]
    return (ranges[0] <= limit) & (ranges[1] <= limit)


@custom_vmap
def _everywhere(flag: Bool[Array, ""]) -> Bool[Array, ""]:
    """Returns whether the flag is set for all sentences of the batch.

    A `cond` whose predicate differs within a batch computes both branches for the whole
    batch. This predicate never differs: a batch with separate transitions uses the
    exact form if one sentence needs it.
    """
    return flag


@_everywhere.def_vmap
def _everywhere_in_batch(axis_size: int, is_batched: Any, flag: Any) -> Any:
    del axis_size, is_batched
    return _everywhere(jnp.all(flag)), False


def times(
    vector: Float[Array, " L"], matrix: Float[Array, "L L"]
) -> Float[Array, " L"]:
    """Returns the product of vector and matrix, in a fast form for few labels."""
    if matrix.shape[0] <= FEW:
        return jnp.sum(vector[:, None] * matrix, axis=0)
    # By default, accelerators would round to fewer digits.
    return jnp.dot(vector, matrix, precision=jax.lax.Precision.HIGHEST)


def _filter_fast(potentials: Potentials, mask: Bool[Array, " T"]):
    emissions, transitions, start, end = chain(potentials)
    top = jnp.max(transitions)
    factors = jnp.exp(transitions - top)

    def normalise(scores, weights):
        peak = jnp.max(scores)
        scaled = weights * jnp.exp(scores - peak)
        norm = jnp.sum(scaled)
        return scaled / norm, jnp.log(norm) + peak

    def step(alpha, inputs):
        emission, is_token = inputs
        reached = times(alpha, factors)
        following, norm = normalise(emission, reached)
        alpha = jnp.where(is_token, following, alpha)
        return alpha, (alpha, reached, jnp.where(is_token, norm + top, 0.0))

    scores = start + emissions[0]
    first, first_norm = normalise(scores, jnp.ones_like(scores))
    last, scanned = jax.lax.scan(step, first, (emissions[1:], mask[1:]))
    alphas, reached, norms = scanned
    total = first_norm + jnp.sum(norms) + normalise(end, last)[1]
    return jnp.concatenate([first[None], alphas]), reached, total


def _filter_exactly(potentials: Potentials, mask: Bool[Array, " T"]):
    emissions, transitions, start, end = chain(potentials)

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
    alphas = jnp.concatenate([first[None], alphas])
    return alphas, jnp.zeros_like(alphas[1:]), total


def _smooth_fast(potentials: Potentials, alphas, reached, mask) -> Potentials:
    _, transitions, _, end = chain(potentials)
    factors = jnp.exp(transitions - jnp.max(transitions))
    last = alphas[-1] * jnp.exp(end - jnp.max(end))

    def step(following, inputs):
        alpha, reached, follows = inputs
        posterior = alpha * times(following / reached, factors.T)
        posterior = jnp.where(follows, posterior, following)
        return posterior, posterior

    last = last / jnp.sum(last)
    inputs = (alphas[:-1], reached, mask[1:])
    _, posteriors = jax.lax.scan(step, last, inputs, reverse=True)
    posteriors = jnp.concatenate([posteriors, last[None]])
    # Each is linear in the next, so one division corrects accumulated rounding.
    posteriors = posteriors / jnp.sum(posteriors, axis=1, keepdims=True)
    quotients = jnp.where(mask[1:, None], posteriors[1:] / reached, 0.0)
    products = jnp.dot(alphas[:-1].T, quotients, precision=jax.lax.Precision.HIGHEST)
    return _expected(posteriors, factors * products, last, mask)


def _smooth_exactly(potentials: Potentials, alphas, reached, mask) -> Potentials:
    """p(y_t) = Σ_j p(y_t | y_{t+1} = j, the past) p(y_{t+1} = j): nothing cancels."""
    del reached
    _, transitions, _, end = chain(potentials)
    last = jax.nn.softmax(alphas[-1] + end)

    def step(carry, inputs):
        following, counts = carry
        alpha, follows = inputs
        back = jax.nn.softmax(alpha[:, None] + transitions, axis=0)
        pairs = jnp.where(follows, back * following[None, :], 0.0)
        posterior = jnp.where(follows, jnp.sum(pairs, axis=1), following)
        return (posterior, counts + pairs), posterior

    first = varying((last, jnp.zeros_like(transitions)), last, transitions, mask)
    inputs = (alphas[:-1], mask[1:])
    (_, counts), posteriors = jax.lax.scan(step, first, inputs, reverse=True)
    posteriors = jnp.concatenate([posteriors, last[None]])
    return _expected(posteriors, counts, last, mask)


def _expected(posteriors, counts, last, mask) -> Potentials:
    posteriors = jnp.where(mask[:, None], posteriors, 0.0)
    return Potentials(posteriors, counts, posteriors[0], jnp.where(mask[0], last, 0.0))


def _filter(
    potentials: Potentials, mask: Bool[Array, " T"]
) -> tuple[Float[Array, ""], Messages]:
    # Derivatives use the rules below and never go through the loops here.
    potentials = jax.lax.stop_gradient(potentials)
    is_fast = _everywhere(_is_narrow(potentials))
    alphas, reached, total = jax.lax.cond(
        is_fast, _filter_fast, _filter_exactly, potentials, mask
    )
    total = jnp.where(mask[0], total, 0.0)
    return total, Messages(is_fast, alphas, reached)


@jax.custom_vjp
def _log_partition(potentials: Potentials, mask: Bool[Array, " T"]):
    # Separate from `_filter`, so that no loop stores unused messages.
    total = jax.lax.cond(
        _everywhere(_is_narrow(potentials)),
        lambda: _filter_fast(potentials, mask)[2],
        lambda: _filter_exactly(potentials, mask)[2],
    )
    return jnp.where(mask[0], total, 0.0)


def _log_partition_forward(potentials: Potentials, mask: Bool[Array, " T"]):
    total, messages = _filter(potentials, mask)
    # Attach the rule again, for derivatives of functions of value and slope.
    total = _with_slope(total, potentials, mask, messages)
    return total, (potentials, mask, messages)


def _log_partition_backward(residuals, cotangent):
    # The gradient of log Z is the expected count of each potential.
    gradient = _expectations(*residuals)
    return jax.tree.map(lambda g: cotangent * g, gradient), None


_log_partition.defvjp(_log_partition_forward, _log_partition_backward)


@jax.custom_vjp
def _with_slope(total, potentials, mask, messages):
    return total


def _with_slope_forward(total, potentials, mask, messages):
    total = _with_slope(total, potentials, mask, messages)
    return total, (potentials, mask, messages)


def _with_slope_backward(residuals, cotangent):
    return (None, *_log_partition_backward(residuals, cotangent), None)


_with_slope.defvjp(_with_slope_forward, _with_slope_backward)


@jax.custom_vjp
def _expectations(potentials, mask, messages: Messages) -> Potentials:
    _, alphas, reached = messages
    is_fast = _everywhere(messages.is_fast)
    return jax.lax.cond(
        is_fast, _smooth_fast, _smooth_exactly, potentials, alphas, reached, mask
    )


def _expectations_forward(potentials, mask, messages):
    return _expectations(potentials, mask, messages), (potentials, mask)


def _expectations_backward(residuals, cotangent):
    # The expectations are the gradient of log Z, so their Jacobian is symmetric: their
    # derivative in a direction is also the gradient of their product with it.
    potentials, mask = residuals

    # In the exact form, since the error of the fast form's derivative has no bound.
    def compute(potentials):
        alphas, reached, _ = _filter_exactly(potentials, mask)
        return _smooth_exactly(potentials, alphas, reached, mask)

    return jax.jvp(compute, (potentials,), (cotangent,))[1], None, None


_expectations.defvjp(_expectations_forward, _expectations_backward)


def log_partition(potentials: Potentials, mask: Bool[Array, " T"]) -> Float[Array, ""]:
    """Returns log Z for at least one token; see `crf.log_partition`."""
    return _log_partition(varying(potentials, potentials.emissions, mask), mask)


def marginals(potentials: Potentials, mask: Bool[Array, " T"]) -> Float[Array, "T L"]:
    """Returns p(label at t) for at least one token; see `crf.marginals`."""
    potentials = varying(potentials, potentials.emissions, mask)
    _, messages = _filter(potentials, mask)
    return _expectations(potentials, mask, messages).emissions


def filter_exactly(
    potentials: Potentials, mask: Bool[Array, " T"]
) -> Float[Array, "T L"]:
    """Returns log p(label at t | potentials up to t), repeated under padding."""
    return _filter_exactly(potentials, mask)[0]
