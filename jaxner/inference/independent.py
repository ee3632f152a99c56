"""The kernels of `jaxner.inference.crf` for labels that are independent given the
sentence: sums and argmaxes over tokens, without any scan but that of `n_best`.

Shape letters: `T` tokens, `L` labels, `N` labellings.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, Key

from jaxner.types import FORBIDDEN, Potentials

Mask = Bool[Array, " T"]


def score(
    potentials: Potentials, labels: Int[Array, " T"], mask: Mask
) -> Float[Array, ""]:
    """Returns the unnormalised score of one labelling, in nats."""
    chosen = jnp.take_along_axis(potentials.emissions, labels[:, None], axis=1)[:, 0]
    return jnp.sum(chosen, where=mask)


def log_partition(potentials: Potentials, mask: Mask) -> Float[Array, ""]:
    """Returns the sum of the tokens' logsumexps, in nats."""
    return jnp.sum(jax.nn.logsumexp(potentials.emissions, axis=-1), where=mask)


def marginals(potentials: Potentials, mask: Mask) -> Float[Array, "T L"]:
    """Returns p(label at t); zero under padding."""
    return jnp.where(mask[:, None], jax.nn.softmax(potentials.emissions), 0.0)


def viterbi(potentials: Potentials, mask: Mask) -> Int[Array, " T"]:
    """Returns the best label of each token; 0 under padding."""
    best = jnp.argmax(potentials.emissions, axis=-1).astype(jnp.int32)
    return jnp.where(mask, best, 0)


def n_best(
    potentials: Potentials, mask: Mask, n: int
) -> tuple[Int[Array, "N T"], Float[Array, " N"]]:
    """Returns the n best labellings and their scores, in nats, best first.

    Extends the n best prefixes token by token.
    """
    if n < 1:
        raise ValueError(f"The number of labellings must be at least 1, got {n}")
    emissions = potentials.emissions
    same = jnp.arange(n, dtype=jnp.int32)

    def step(best, inputs):
        emission, is_token = inputs
        scores, places = jax.lax.top_k((emission[:, None] + best[None]).ravel(), n)
        labels, origins = jnp.divmod(places.astype(jnp.int32), n)
        best = jnp.where(is_token, scores - scores[0], best)
        return best, (labels, jnp.where(is_token, origins, same))

    def back(places, inputs):
        labels, origins = inputs
        return origins[places], labels[places]

    first = jnp.where(same == 0, 0.0, -jnp.inf).astype(emissions.dtype)
    first, same = varying((first, same), emissions, mask)
    last, inputs = jax.lax.scan(step, first, (emissions, mask))
    _, labels = jax.lax.scan(back, same, inputs, reverse=True)
    labels = labels.T
    scores = jax.vmap(lambda labels: score(potentials, labels, mask))(labels)
    return ranked(labels, scores, jnp.isfinite(last), mask)


def ranked(
    labels: Int[Array, "N T"],
    scores: Float[Array, " N"],
    exists: Bool[Array, " N"],
    mask: Mask,
) -> tuple[Int[Array, "N T"], Float[Array, " N"]]:
    """Returns labels, and scores that are -inf for what is no labelling or forbidden.

    The rounding of long sums may have swapped close scores, which are put right.
    """
    exists = exists & (scores > FORBIDDEN / 2)
    scores = jax.lax.cummin(jnp.where(exists, scores, -jnp.inf))
    return jnp.where(exists[:, None] & mask[None], labels, 0), scores


def gumbels(key: Key[Array, ""], like: Float[Array, "T L"]) -> Float[Array, "T L"]:
    """Returns noise such that argmax(scores + noise) is a draw from their softmax.

    A token's noise depends only on its position, so padding changes no draw.
    """

    def draw(t):
        return jax.random.gumbel(jax.random.fold_in(key, t), like.shape[1:], like.dtype)

    return jax.vmap(draw)(jnp.arange(like.shape[0]))


def varying(tree: Any, *like: Array) -> Any:
    """Returns arrays that vary over the manual axes (of `jax.shard_map`) of others.

    JAX demands it of what a loop carries first, and of the arguments of a function with
    its own derivative. Outside of `jax.shard_map` nothing changes.

    Args:
        tree: Such as zeros, or weights that all devices share.
        like: Arrays that the loop or function combines with them.
    """
    axes = frozenset().union(*map(_manual_axes, like))

    def spread(leaf: Array) -> Array:
        missing = tuple(sorted(axes - _manual_axes(leaf)))
        return jax.lax.pcast(leaf, missing, to="varying") if missing else leaf

    return jax.tree.map(spread, tree) if axes else tree


def _manual_axes(array: Any) -> frozenset[str]:
    kind: Any = jax.typeof(array)  # versions of JAX have either attribute
    return frozenset(kind.mat.varying if hasattr(kind, "mat") else kind.vma)


def sample(potentials: Potentials, mask: Mask, key: Key[Array, ""]) -> Int[Array, " T"]:
    """Returns a labelling drawn by its probability; 0 under padding."""
    emissions = potentials.emissions
    return viterbi(Potentials(emissions + gumbels(key, emissions)), mask)


def labelling_entropy(potentials: Potentials, mask: Mask) -> Float[Array, ""]:
    """Returns the sum of the tokens' entropies, in nats."""
    logs = jax.nn.log_softmax(potentials.emissions)
    return -jnp.sum(jnp.exp(logs) * logs, where=mask[:, None])
