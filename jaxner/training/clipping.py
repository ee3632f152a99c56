"""Gradient clipping and gradient norms for parameters with several optimizers."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float, Int

REST = ""
"""Name for the parameters below no path."""

CLIPS = ("joint", "parts")
"""Clip gradients by their global norm, or each part of an optimizer by its own."""


def part_of_each(params: Any, paths: tuple[str, ...]) -> Any:
    """Returns the part of every parameter: the longest path above it.

    A path may begin anywhere in the tree: "bert" matches the representation's, and that
    of a refinement with its own representation.
    """
    used = set()

    def part(path, leaf):
        del leaf
        name = jax.tree_util.keystr(path, simple=True, separator="/")
        below = [p for p in paths if f"/{p}/" in f"/{name}"]
        used.update(below)
        return max(below, key=len, default=REST)

    labels = jax.tree_util.tree_map_with_path(part, params)
    for path in paths:
        if path not in used:
            raise ValueError(
                f"optimizer.parts has {path!r}, but the model has no parameters below "
                f"this path; its top level has {', '.join(sorted(params))}"
            )
    return labels


class NormsState(NamedTuple):
    """The state of `clip_parts`.

    Attributes:
        count: Steps since the start of the epoch.
        sums: Sums of the norms over these steps, for each part and the rest.
    """

    count: Int[Array, ""]
    sums: dict[str, Float[Array, ""]]


def clip_parts(
    paths: tuple[str, ...], clip_norm: float, clip: str, steps_per_epoch: int
) -> optax.GradientTransformation:
    """Returns a transformation that clips gradients and records norms before clipping.

    Clip and record share the sums of squares, so that the record is free.

    Args:
        paths: Paths of the parts; all other parameters are "rest".
        clip_norm: Maximum norm; 0 for no limit.
        clip: One of `CLIPS`.
        steps_per_epoch: The record restarts after this many steps.

    Raises:
        ValueError: From `init`, if a path has no parameters below it.

    Example:
        >>> import jax.numpy as jnp
        >>> grads = {"a": {"w": jnp.array([3.0, 4.0])}, "b": jnp.array([0.5])}
        >>> tx = clip_parts(("a",), clip_norm=1.0, clip="parts", steps_per_epoch=9)
        >>> updates, state = tx.update(grads, tx.init(grads))
        >>> updates["b"].tolist(), gradient_norms(state)
        ([0.5], {'a': 5.0, 'rest': 0.5})
    """

    def init(params):
        part_of_each(params, paths)
        sums = {name: jnp.zeros(()) for name in _norm_names(paths)}
        return NormsState(jnp.zeros((), jnp.int32), sums)

    def update(updates, state, params=None):
        del params
        labels = part_of_each(updates, paths)
        squares = {name: jnp.zeros(()) for name in (*paths, REST)}
        for name, leaf in zip(
            jax.tree.leaves(labels), jax.tree.leaves(updates), strict=True
        ):
            squares[name] += jnp.sum(jnp.square(leaf.astype(jnp.float32)))
        norms = {name: jnp.sqrt(square) for name, square in squares.items()}
        if clip == "joint":
            joint = jnp.sqrt(jnp.sum(jnp.stack(list(squares.values()))))
            limited = dict.fromkeys(norms, joint)
        else:
            limited = norms

        def scale(name, leaf):
            # As in Optax: unchanged below the limit, and no division by zero.
            norm = limited[name]
            clipped = (leaf / norm.astype(leaf.dtype)) * clip_norm
            return jnp.where(norm < clip_norm, leaf, clipped)

        if clip_norm:
            updates = jax.tree.map(scale, labels, updates)
        is_over = state.count >= steps_per_epoch
        sums = {
            name: jnp.where(is_over, 0.0, state.sums[name]) + norms[path]
            for name, path in zip(_norm_names(paths), (*paths, REST), strict=True)
        }
        count = jnp.where(is_over, 0, state.count) + 1
        return updates, NormsState(count, sums)

    return optax.GradientTransformation(init, update)


def _norm_names(paths: tuple[str, ...]) -> tuple[str, ...]:
    return (*paths, "rest")


def gradient_norms(opt_state: Any) -> dict[str, float]:
    """Returns the mean gradient norms recorded in the state of an optimizer.

    Args:
        opt_state: State of an optimizer from `optim.build`.

    Returns:
        For each part of the optimizer and the "rest", the norm of the gradient before
        clipping: the mean over the steps since the start of the epoch. Empty for an
        optimizer without parts, or before the first step.
    """
    leaves = jax.tree.leaves(opt_state, is_leaf=lambda x: isinstance(x, NormsState))
    means: dict[str, float] = {}
    for state in leaves:
        if isinstance(state, NormsState) and (count := int(state.count)):
            means |= {name: float(sum_) / count for name, sum_ in state.sums.items()}
    return means
