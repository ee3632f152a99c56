"""Means over several passes: of Monte Carlo dropout, or of the taggers of an ensemble.

Shape letters: `M` passes, `T` tokens, `L` labels.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from jaxner.types import Potentials

_RANKS = (2, 2, 1, 1)  # ranks of the potentials of one pass


def mean_over_passes(
    compute: Callable[[Potentials], Any], potentials: Potentials
) -> Any:
    """Returns the mean over passes of any probabilities.

    The passes are those of Monte Carlo dropout, or the taggers of an ensemble. Their
    mixture is a distribution over labellings. Its probabilities (of labels, spans or
    labellings) are means over the passes.

    Args:
        compute: Maps the potentials of one pass to a tree of arrays.
        potentials: Potentials of all passes: emissions `[M, T, L]`; the other arrays
            also have the leading axis, or are the same in all passes.

    Returns:
        The mean of what `compute` returns.

    Example:
        >>> import jax.numpy as jnp
        >>> from jaxner import inference
        >>> passes = Potentials(jnp.array([[[9.0, -9.0]], [[-9.0, 9.0]]]))
        >>> mask = jnp.ones(1, bool)
        >>> mean = mean_over_passes(lambda one: inference.marginals(one, mask), passes)
        >>> mean.tolist()
        [[0.5, 0.5]]
    """
    each = each_pass(compute, potentials)
    return jax.tree.map(lambda array: jnp.mean(array, axis=0), each)


def each_pass(compute: Callable[[Potentials], Any], potentials: Potentials) -> Any:
    """Applies a function to each pass.

    Args:
        compute: As in `mean_over_passes`.
        potentials: As in `mean_over_passes`.

    Returns:
        What `compute` returns, with a leading axis `M`.

    Example:
        >>> import jax.numpy as jnp
        >>> passes = Potentials(jnp.zeros((3, 5, 2)), jnp.zeros((2, 2)))
        >>> each_pass(lambda one: one.emissions.sum(), passes).shape
        (3,)
    """
    return jax.vmap(compute, in_axes=(_axes(potentials),))(potentials)


def one_pass(potentials: Potentials, number: Any) -> Potentials:
    """Returns the potentials of one of several passes.

    Args:
        potentials: As in `mean_over_passes`.
        number: Index of the pass; may be traced.

    Example:
        >>> import jax.numpy as jnp
        >>> passes = Potentials(jnp.zeros((3, 5, 2)), jnp.zeros((2, 2)))
        >>> [a.shape for a in one_pass(passes, 1) if a is not None]
        [(5, 2), (2, 2)]
    """
    chosen: Any = (
        array if array is None or axis is None else array[number]
        for array, axis in zip(potentials, _axes(potentials), strict=True)
    )
    return Potentials(*chosen)


def _axes(potentials: Potentials) -> Potentials:
    axes: Any = (
        None if array is None or array.ndim == rank else 0
        for array, rank in zip(potentials, _RANKS, strict=True)
    )
    return Potentials(*axes)
