"""Runs models on meshes with Explicit axes, the default of `jax.make_mesh`.

There JAX needs the sharding of every gather. Models know no shardings, so they run with
Auto axes, whose shardings the compiler chooses.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import jax
from jax.sharding import AbstractMesh, AxisType, Mesh, NamedSharding, PartitionSpec
from jaxtyping import Array, PyTree

R = TypeVar("R")


def automatic(function: Callable[..., R], operands: PyTree) -> Callable[..., R]:
    """Returns a function of one sentence that runs with Auto axes, not Explicit ones.

    It is `function` itself unless an array of `operands` is on a mesh with such axes.
    Axes of `jax.vmap` keep their sharding; the result for a sentence is not sharded.
    """
    mesh = _explicit_mesh(operands)
    if mesh is None:
        return function
    kinds = zip(mesh.axis_names, mesh.axis_types, strict=True)
    axes = tuple(name for name, kind in kinds if kind == AxisType.Explicit)
    whole = NamedSharding(mesh, PartitionSpec())
    auto: Any = jax.sharding.auto_axes(function, axes=axes, out_sharding=whole)
    return auto


def beside(like: Array, arrays: PyTree) -> PyTree:
    """Shards the first axis of arrays as that of `like`, as `jax.vmap` demands."""
    mesh = _explicit_mesh(like)
    if mesh is None:
        return arrays
    first = jax.typeof(like).sharding.spec[0]
    return jax.sharding.reshard(arrays, NamedSharding(mesh, PartitionSpec(first)))


def _explicit_mesh(operands: PyTree) -> AbstractMesh | Mesh | None:
    """Returns the mesh of the first array on one with an Explicit axis, or None."""
    for leaf in jax.tree.leaves(operands):
        sharding = getattr(jax.typeof(leaf), "sharding", None)
        mesh = getattr(sharding, "mesh", None)
        if mesh is not None and AxisType.Explicit in mesh.axis_types:
            return mesh
    return None
