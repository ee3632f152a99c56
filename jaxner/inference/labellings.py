"""Whole labellings of a linear chain: the best, the n best, draws, and entropy.

Shape letters: `T` tokens, `L` labels, `N` labellings. Sums are in the exact form of
`jaxner.inference.messages`, whatever the potentials. Each function needs at least one
place in `T`; `jaxner.inference` answers for sentences without any.
"""

from __future__ import annotations

import functools
from collections.abc import Callable

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, Key

from jaxner.inference import messages
from jaxner.types import FORBIDDEN, Potentials

Mask = Bool[Array, " T"]


def viterbi(potentials: Potentials, mask: Mask) -> Int[Array, " T"]:
    """Returns the best labelling; see `crf.viterbi`.

    The forward scan keeps the best scores; the backward scan recomputes the argmax
    along the best path only, which is cheaper than storing L² back-pointers.
    """
    emissions, transitions, start, end = messages.chain(potentials)

    def forward(best, inputs):
        emission, is_token = inputs
        scores = _best_way(best, transitions) + emission
        # Subtract the maximum at each token: scores that grow with T would swamp the
        # deciding differences.
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


def _best_way(best: Float[Array, " L"], transitions: Float[Array, "L L"]):
    """Returns the best score of a path to each label."""
    if len(best) > messages.FEW:
        return jnp.max(best[:, None] + transitions, axis=0)
    # Written out, XLA fuses it with the rest of the loop's body.
    ways = [score + row for score, row in zip(best, transitions, strict=True)]
    return functools.reduce(jnp.maximum, ways)


def n_best(potentials: Potentials, mask: Mask, n: int) -> Int[Array, "N T"]:
    """Returns the n best labellings, best first; see `crf.n_best`.

    The forward scan keeps the n best prefixes that end in each label, and for each the
    index (label · n + rank) of the prefix that it extends. Missing prefixes have score
    -inf and so come last.
    """
    emissions, transitions, start, end = messages.chain(potentials)
    size = emissions.shape[-1]
    itself = jnp.arange(size * n, dtype=jnp.int32)

    def step(best, inputs):
        emission, is_token = inputs
        totals = best[None] + transitions.T[:, :, None]  # [L after, L before, n]
        scores, places = jax.lax.top_k(totals.reshape(size, size * n), n)
        scores = scores + emission[:, None]
        scores = scores - jnp.max(scores)
        origins = jnp.where(is_token, places.astype(jnp.int32).ravel(), itself)
        return jnp.where(is_token, scores, best), origins

    first = jnp.full((size, n), -jnp.inf, emissions.dtype)
    first = first.at[:, 0].set(start + emissions[0])
    last, origins = jax.lax.scan(step, first, (emissions[1:], mask[1:]))
    _, final = jax.lax.top_k((last + end[:, None]).ravel(), n)
    final = final.astype(jnp.int32)

    def back(places, origins):
        return origins[places], places

    begin, places = jax.lax.scan(back, final, origins, reverse=True)
    labels = jnp.concatenate([begin[None], places]).T // n
    return jnp.where(mask[None], labels, 0)


def ranked(
    potentials: Potentials, mask: Mask, n: int, search: Callable, score: Callable
) -> tuple[Int[Array, "N T"], Float[Array, " N"]]:
    """Returns labellings and scores, with -inf for those that are not labellings.

    These are all but the first L^length, and all forbidden ones.
    """
    if n < 1:
        raise ValueError(f"The number of labellings must be at least 1, got {n}")
    length, size = potentials.emissions.shape
    found = jnp.zeros((n, 0), jnp.int32)
    if length:
        found = search(potentials, mask, n)
    scores = jax.vmap(lambda labels: score(potentials, labels, mask))(found)
    exists = jnp.arange(n) < _count_labellings(size, n, mask)
    # Rounding of long sums may have swapped close scores.
    scores = jax.lax.cummin(jnp.where(exists, scores, -jnp.inf))
    exists = scores > FORBIDDEN / 2
    return jnp.where(exists[:, None], found, 0), jnp.where(exists, scores, -jnp.inf)


def _count_labellings(size: int, n: int, mask: Mask) -> Int[Array, ""]:
    """Returns the number of labellings, at most n."""
    powers = [1]
    while powers[-1] < n and size > 1:
        powers.append(min(n, powers[-1] * size))
    return jnp.asarray(powers, jnp.int32)[jnp.minimum(jnp.sum(mask), len(powers) - 1)]


def gumbels(key: Key[Array, ""], like: Float[Array, "T L"]) -> Float[Array, "T L"]:
    """Returns noise such that argmax(scores + noise) is a draw from their softmax.

    A token's noise depends only on its position, so padding changes no draw.
    """

    def draw(t):
        its_key = jax.random.fold_in(key, t)
        return jax.random.gumbel(its_key, like.shape[1:], like.dtype)

    return jax.vmap(draw)(jnp.arange(like.shape[0]))


def sample(potentials: Potentials, mask: Mask, key: Key[Array, ""]):
    """Returns one drawn labelling; see `crf.sample`."""
    emissions, transitions, _, end = messages.chain(potentials)
    alphas = messages.filter_exactly(potentials, mask)
    noise = gumbels(key, emissions)
    last = jnp.maximum(jnp.sum(mask) - 1, 0)
    final = jnp.argmax(alphas[-1] + end + noise[last]).astype(jnp.int32)

    def back(following, inputs):
        alpha, drawn, follows = inputs
        scores = alpha + transitions[:, following] + drawn
        label = jnp.where(follows, jnp.argmax(scores).astype(jnp.int32), following)
        return label, label

    inputs = (alphas[:-1], noise[:-1], mask[1:])
    _, labels = jax.lax.scan(back, final, inputs, reverse=True)
    return jnp.where(mask, jnp.append(labels, final), 0)


def entropy(potentials: Potentials, mask: Mask) -> Float[Array, ""]:
    """Returns the entropy over labellings; see `crf.labelling_entropy`.

    H(y) = H(y_n) + Σ_t Σ_j p(y_{t+1} = j) H(y_t | y_{t+1} = j, the past): no term is
    negative, whereas log Z minus the expected score would cancel.
    """
    _, transitions, _, end = messages.chain(potentials)
    alphas = messages.filter_exactly(potentials, mask)
    first = jax.nn.log_softmax(alphas[-1] + end)

    def back(following, inputs):
        alpha, follows = inputs
        logs = jax.nn.log_softmax(alpha[:, None] + transitions, axis=0)
        chances = jnp.exp(logs)
        conditional = -jnp.sum(chances * logs, axis=0)
        before = jnp.where(follows, messages.times(following, chances.T), following)
        before = before / jnp.sum(before)
        return before, jnp.where(follows, jnp.sum(following * conditional), 0.0)

    last = jnp.exp(first)
    inputs = (alphas[:-1], mask[1:])
    _, parts = jax.lax.scan(back, last, inputs, reverse=True)
    return jnp.where(mask[0], jnp.sum(parts) - jnp.sum(last * first), 0.0)
