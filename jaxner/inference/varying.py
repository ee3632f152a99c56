"""What varies over manual axes, those within `jax.shard_map`."""

from __future__ import annotations

from typing import Any

import jax
from jaxtyping import Array


def varying(tree: Any, *like: Array) -> Any:
    """Returns arrays that vary over the manual axes that others vary over.

    JAX wants this of a loop's first values (what a loop carries varies alike from step
    to step), and of what a function with its own gradient gets (the gradient of each
    argument varies as the argument does). Outside of `jax.shard_map` nothing changes.

    Args:
        tree: Such as zeros, or weights that all devices share.
        like: Arrays that the loop or function combines with them.

    Example:
        >>> import jax.numpy as jnp
        >>> varying(jnp.zeros(2), jnp.ones(3)).tolist()
        [0.0, 0.0]
    """
    axes = frozenset().union(*map(_manual_axes, like))

    def one(leaf: Array) -> Array:
        missing = tuple(sorted(axes - _manual_axes(leaf)))
        return jax.lax.pcast(leaf, missing, to="varying") if missing else leaf

    return jax.tree.map(one, tree) if axes else tree


def _manual_axes(array: Any) -> frozenset[str]:
    kind: Any = jax.typeof(array)  # of each version of JAX, one of the two
    return frozenset(kind.mat.varying if hasattr(kind, "mat") else kind.vma)
