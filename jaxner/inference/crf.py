"""Inference over the labellings of one sentence: a CRF's, or of independent labels.

Lafferty, McCallum and Pereira, "Conditional Random Fields", ICML 2001; Rabiner, "A
Tutorial on Hidden Markov Models", Proc. IEEE 77(2), 1989. Shape letters: `T` tokens,
`L` labels, `N` labellings.

For a CRF, every kernel is a scan that takes O(T·L²) time; on accelerators, log Z, its
gradient, marginals and Viterbi are trees where memory allows (see `tree`). Messages are
normalised at each token and the normalisers are summed once, at the end: float32 stays
exact to rounding for thousands of tokens. Marginals are never exp(alpha + beta - log
Z), which loses all digits in float32.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, TypeVar

import jax
import jax.numpy as jnp
from jax.nn import log_softmax, logsumexp, softmax
from jaxtyping import Array, Bool, Float, Int, Key, PyTree

from jaxner import devices, fields
from jaxner.inference import tree
from jaxner.types import FORBIDDEN, Potentials

R = TypeVar("R")
HIGHEST = jax.lax.Precision.HIGHEST  # accelerators would round products to 8 or 10 bits
Mask = Bool[Array, " T"]
# At most L, as a tree takes T·L³ time; and T·L², of which it holds several arrays for
# each sentence of a batch, here of up to 4 MB.
TREE_LABELS, TREE_SCORES = 100, 1 << 20


class Constraints(NamedTuple):
    """What a scheme allows: labels at start and end, and j after i, at `[i, j]`."""

    start: Bool[Array, " L"]
    transitions: Bool[Array, "L L"]
    end: Bool[Array, " L"]


def is_chain(potentials: Potentials) -> bool:
    """Returns whether labels depend on each other; not where there is no token."""
    is_given = any(scores is not None for scores in potentials[1:])
    return is_given and potentials.emissions.shape[0] > 0


def chain(potentials: Potentials) -> tuple[Array, Array, Array, Array]:
    """Returns emissions, transitions, start and end, of one dtype; zeros for None."""
    size = potentials.emissions.shape[-1]
    dtype = jnp.result_type(*jax.tree.leaves(potentials), float)
    dtype = jnp.float32 if dtype == jnp.float16 else dtype  # which holds `FORBIDDEN`

    def filled(scores: Array | None, rank: int) -> Array:
        if scores is None:
            return jnp.zeros((size,) * rank, dtype)
        return jnp.asarray(scores, dtype)

    emissions, transitions, start, end = map(filled, potentials, (2, 2, 1, 1))
    return emissions, transitions, start, end


def _for_target(
    scan: Callable[[Potentials, Mask], R],
    by_tree: Callable[[Potentials, Mask], R],
    potentials: Potentials,
    mask: Mask,
) -> R:
    """Calls a kernel in the form for the target; a tree needs a known length."""
    potentials = varying(Potentials(*chain(potentials)), potentials.emissions, mask)
    length, size = potentials.emissions.shape
    is_known = isinstance(length, int)  # else symbolic, in `jax.export`
    if not is_known or size > TREE_LABELS or length * size**2 > TREE_SCORES:
        return scan(potentials, mask)
    return devices.by_target(potentials, mask, cpu=scan, default=by_tree)


def varying(tree: PyTree, *like: Array) -> PyTree:
    """Returns arrays that vary over the manual axes (of `jax.shard_map`) of others.

    JAX demands it of what a loop carries first, and of the arguments of a function with
    its own derivative. Outside of `jax.shard_map` nothing changes.
    """

    def axes(array: Array) -> frozenset[str]:
        kind = jax.typeof(array)
        mat = getattr(kind, "mat", None)  # of newer versions of JAX
        return frozenset(kind.vma if mat is None else mat.varying)

    all_axes = frozenset().union(*map(axes, like))

    def spread(leaf: Array) -> Array:
        new_axes = tuple(sorted(all_axes - axes(leaf)))
        return jax.lax.pcast(leaf, new_axes, to="varying") if new_axes else leaf

    return jax.tree.map(spread, tree)


# --- Potentials -----------------------------------------------------------------------


def constrain(potentials: Potentials, constraints: Constraints) -> Potentials:
    """Returns potentials whose best labelling obeys constraints, if any labelling does.

    Independent potentials become a chain whose allowed transitions score 0. For an
    autoregressive head, the beam search obeys, and probabilities do not change.

    Example:
        >>> independent = Potentials(jnp.array([[0.0, 4.0], [0.0, 5.0]]))
        >>> edges = jnp.array([True, True])
        >>> may_follow = jnp.array([[True, True], [True, False]])
        >>> no_repeat = Constraints(edges, may_follow, edges)
        >>> viterbi(constrain(independent, no_repeat), edges).tolist()
        [0, 1]
    """
    emissions, transitions, start, end = chain(potentials)
    return Potentials(
        emissions,
        jnp.where(constraints.transitions, transitions, FORBIDDEN),
        jnp.where(constraints.start, start, FORBIDDEN),
        jnp.where(constraints.end, end, FORBIDDEN),
    )


def at_temperature(
    potentials: Potentials, temperature: float | Float[Array, ""]
) -> Potentials:
    """Returns all scores divided by a temperature (Guo et al., ICML 2017)."""
    return jax.tree.map(lambda scores: scores / temperature, potentials)


def score(
    potentials: Potentials, labels: Int[Array, " T"], mask: Mask
) -> Float[Array, ""]:
    """Returns the score of one labelling, in nats; normalised only for 'seq2seq'."""
    emissions, transitions, start, end = chain(potentials)
    label_scores = jnp.take_along_axis(emissions, labels[:, None], axis=1)[:, 0]
    total = jnp.sum(label_scores, where=mask)
    if not is_chain(potentials):
        return total
    total = total + jnp.sum(transitions[labels[:-1], labels[1:]], where=mask[1:])
    last = labels[jnp.maximum(jnp.sum(mask) - 1, 0)]
    return jnp.where(mask[0], total + start[labels[0]] + end[last], 0.0)


# --- Sums -----------------------------------------------------------------------------


def forward(potentials: Potentials, mask: Mask):
    """Returns log p(label at t | the past), repeated under padding, and log Z."""
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
    return jnp.concatenate([first[None], alphas]), jnp.where(mask[0], total, 0.0)


def expected(potentials: Potentials, alphas: Float[Array, "T L"], mask: Mask):
    """Returns the expected count of each potential, which is the gradient of log Z."""
    # p(y_t) = Σ_j p(y_t | y_{t+1} = j, the past) p(y_{t+1} = j): nothing cancels.
    _, transitions, _, end = chain(potentials)

    def back(carry, inputs):
        next_chances, counts = carry
        alpha, follows = inputs
        pairs = softmax(alpha[:, None] + transitions, axis=0) * next_chances[None]
        pairs = jnp.where(follows, pairs, 0.0)
        chances = jnp.where(follows, jnp.sum(pairs, axis=1), next_chances)
        return (chances, counts + pairs), chances

    last = softmax(alphas[-1] + end)
    carry = varying((last, jnp.zeros_like(transitions)), last, transitions, mask)
    inputs = alphas[:-1], mask[1:]
    (_, counts), chances = jax.lax.scan(back, carry, inputs, reverse=True)
    chances = jnp.concatenate([chances, last[None]])
    # Each is linear in the next, so one division corrects accumulated rounding.
    chances = chances / jnp.sum(chances, axis=1, keepdims=True)
    chances = jnp.where(mask[:, None], chances, 0.0)
    return Potentials(chances, counts, chances[0], jnp.where(mask[0], last, 0.0))


@jax.custom_vjp
def _log_partition(potentials: Potentials, mask: Mask) -> Float[Array, ""]:
    return forward(potentials, mask)[1]


def _log_partition_forward(potentials: Potentials, mask: Mask):
    alphas, total = forward(potentials, mask)
    return total, (potentials, alphas, mask)


def _log_partition_backward(residuals, cotangent):
    counts = expected(*residuals)
    return jax.tree.map(lambda count: cotangent * count, counts), None


_log_partition.defvjp(_log_partition_forward, _log_partition_backward)


def log_partition(potentials: Potentials, mask: Mask) -> Float[Array, ""]:
    """Returns log Z, the log of the summed exponentiated scores, in nats.

    All scores have to be finite (`FORBIDDEN` is). For a CRF, the gradient comes from
    the posteriors and needs O(T·L) memory; forward mode raises TypeError (`jax.jvp`,
    `jax.jacfwd`, `jax.linearize`), while reverse over reverse mode is exact.

    Example:
        >>> even, mask = Potentials(jnp.zeros((2, 4))), jnp.ones(2, bool)
        >>> round(float(log_partition(even, mask)), 4)  # log 4²
        2.7726
    """
    if not is_chain(potentials):
        return jnp.sum(logsumexp(potentials.emissions, axis=-1), where=mask)
    return _for_target(_log_partition, tree.log_partition, potentials, mask)


def marginals(potentials: Potentials, mask: Mask) -> Float[Array, "T L"]:
    """Returns p(label at t); zero under padding."""
    if not is_chain(potentials):
        return jnp.where(mask[:, None], softmax(potentials.emissions), 0.0)

    def scan(potentials, mask):
        return expected(potentials, forward(potentials, mask)[0], mask).emissions

    return _for_target(scan, tree.marginals, potentials, mask)


def labelling_entropy(potentials: Potentials, mask: Mask) -> Float[Array, ""]:
    """Returns the entropy of the distribution over whole labellings, in nats.

    At most the sum of the tokens' entropies, with equality for independent labels.
    Method: Mann and McCallum, "Efficient Computation of Entropy Gradient for
    Semi-Supervised Conditional Random Fields", NAACL 2007.
    """
    if not is_chain(potentials):
        logs = log_softmax(potentials.emissions)
        return -jnp.sum(jnp.exp(logs) * logs, where=mask[:, None])
    _, transitions, _, end = chain(potentials)
    alphas, _ = forward(potentials, mask)
    chances = expected(potentials, alphas, mask).emissions

    def given_next(alpha):
        logs = log_softmax(alpha[:, None] + transitions, axis=0)
        return -jnp.sum(jnp.exp(logs) * logs, axis=0)

    last = log_softmax(alphas[-1] + end)
    terms = chances[1:] * jax.lax.map(given_next, alphas[:-1])
    total = jnp.sum(terms) - jnp.sum(jnp.exp(last) * last)
    return jnp.where(mask[0], total, 0.0)


# --- Labellings -----------------------------------------------------------------------


def viterbi(potentials: Potentials, mask: Mask) -> Int[Array, " T"]:
    """Returns the best labelling; 0 under padding.

    Of equal labellings, a CPU takes the lowest label ids, from the last token on. The
    beam search of an autoregressive head may miss the best.
    """
    if not is_chain(potentials):
        best = jnp.argmax(potentials.emissions, axis=-1)
        return jnp.where(mask, best.astype(jnp.int32), 0)
    return _for_target(_viterbi, tree.viterbi, potentials, mask)


def _viterbi(potentials: Potentials, mask: Mask) -> Int[Array, " T"]:
    emissions, transitions, start, end = chain(potentials)

    def step(best, inputs):
        emission, is_token = inputs
        scores = jnp.max(best[:, None] + transitions, axis=0) + emission
        # Scores that grow with T would swamp the differences that decide.
        best = jnp.where(is_token, scores - jnp.max(scores), best)
        return best, best

    first = start + emissions[0]
    last, bests = jax.lax.scan(step, first, (emissions[1:], mask[1:]))
    history = jnp.concatenate([first[None], bests])[:-1]
    return _trace_back(history, transitions, mask, jnp.argmax(last + end))


def _trace_back(scores: Float[Array, "S L"], transitions, mask, final):
    """Returns the labels on the best way back; back-pointers would cost more."""

    def back(next_label, inputs):
        scores, follows = inputs
        previous = jnp.argmax(scores + transitions[:, next_label]).astype(jnp.int32)
        label = jnp.where(follows, previous, next_label)
        return label, label

    final = final.astype(jnp.int32)
    _, labels = jax.lax.scan(back, final, (scores, mask[1:]), reverse=True)
    return jnp.where(mask, jnp.append(labels, final), 0)


def n_best(
    potentials: Potentials, mask: Mask, n: int
) -> tuple[Int[Array, "N T"], Float[Array, " N"]]:
    """Returns the n best labellings and their scores, in nats, best first; n is static.

    The first is that of `viterbi`, or scores the same. If fewer than n are not
    forbidden, the others have score -inf and label 0 everywhere. Time is
    O(T·n·L² log(n·L)), memory O(T·n·L).
    Method: Seshadri and Sundberg, "List Viterbi decoding algorithms with applications",
    IEEE Trans. Communications 42, 1994: the parallel algorithm.

    Raises:
        ValueError: n is below 1.

    Example:
        >>> potentials = Potentials(jnp.array([[2.0, 0.0], [0.0, 1.0]]))
        >>> [array.tolist() for array in n_best(potentials, jnp.ones(2, bool), 2)]
        [[[0, 1], [0, 0]], [3.0, 2.0]]
    """
    fields.check("n", n, fields.Size)
    emissions, transitions, start, end = chain(potentials)
    if not mask.shape[0]:
        return jnp.zeros((n, 0), jnp.int32), jnp.full(n, -jnp.inf).at[0].set(0.0)
    size = emissions.shape[-1]
    indices = jnp.arange(size * n, dtype=jnp.int32)

    def step(best, inputs):
        emission, is_token = inputs
        totals = best[None] + transitions.T[:, :, None]  # [L after, L before, n]
        scores, origins = jax.lax.top_k(totals.reshape(size, size * n), n)
        scores = scores + emission[:, None]
        best = jnp.where(is_token, scores - jnp.max(scores), best)
        return best, jnp.where(is_token, origins.astype(jnp.int32).ravel(), indices)

    first = (start + emissions[0])[:, None]
    first = jnp.where(jnp.arange(n)[None] == 0, first, -jnp.inf)
    first = varying(first, transitions, mask)
    last, origins = jax.lax.scan(step, first, (emissions[1:], mask[1:]))
    ends, final = jax.lax.top_k((last + end[:, None]).ravel(), n)

    def back(places, origins):
        return origins[places], places

    begin, places = jax.lax.scan(back, final.astype(jnp.int32), origins, reverse=True)
    labels = jnp.concatenate([begin[None], places]).T // n
    scores = jax.vmap(lambda labels: score(potentials, labels, mask))(labels)
    exists = jnp.isfinite(ends) & (mask[0] | (jnp.arange(n) == 0))
    exists = exists & (scores > FORBIDDEN / 1e6)  # at any temperature
    # The rounding of long sums may have swapped close scores.
    scores = jax.lax.cummin(jnp.where(exists, scores, -jnp.inf))
    return jnp.where(exists[:, None] & mask[None], labels, 0), scores


def sample(potentials: Potentials, mask: Mask, key: Key[Array, ""]) -> Int[Array, " T"]:
    """Returns a labelling drawn by its probability; 0 under padding.

    `jax.vmap` over keys computes the messages once. Padding changes no draw. Method:
    Scott, "Bayesian Methods for Hidden Markov Models", JASA 97(457), 2002.
    """
    emissions, transitions, _, end = chain(potentials)

    def gumbel(t):  # argmax(scores + noise) is a draw from their softmax
        token_key = jax.random.fold_in(key, t)
        # In bfloat16, too few values could be drawn.
        kind = jnp.promote_types(emissions.dtype, jnp.float32)
        return jax.random.gumbel(token_key, emissions.shape[1:], kind)

    noise = jax.vmap(gumbel)(jnp.arange(mask.shape[0]))
    if not is_chain(potentials):
        return viterbi(Potentials(emissions + noise), mask)
    alphas, _ = forward(potentials, mask)
    last = jnp.maximum(jnp.sum(mask) - 1, 0)
    final = jnp.argmax(alphas[-1] + end + noise[last])
    return _trace_back(alphas[:-1] + noise[:-1], transitions, mask, final)
