"""Placement of arrays on several devices, and fetching them to the host.

A computation runs where its weights are: on one device by default, or on all devices of
a mesh, with the sentences of a batch split over them.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jax.experimental import multihost_utils
from jax.sharding import Mesh, NamedSharding, PartitionSpec

if TYPE_CHECKING:
    from jaxtyping import PyTree

R = TypeVar("R")
_target: ContextVar[str | None] = ContextVar("target", default=None)
_is_used = _is_forked = False  # in this process, since the import of this module


def check_fork() -> None:
    """Raises RuntimeError if this process was forked after JAX ran: it would hang."""
    if _is_forked:
        raise RuntimeError(
            "JAX ran before this process was forked, and would hang in it. Use one "
            "process (no n_process in spaCy), since JAX uses all cores; or call "
            "multiprocessing.set_start_method('spawn') first."
        )


def _note_use(event: str, duration_secs: float, **kwargs: str | int) -> None:
    global _is_used
    _is_used = True


def _note_fork() -> None:
    global _is_forked
    _is_forked = _is_used


# JAX reports each function that it traces or compiles.
jax.monitoring.register_event_duration_secs_listener(_note_use)
if hasattr(os, "register_at_fork"):  # not on Windows
    os.register_at_fork(after_in_child=_note_fork)


def compiler_options(runs_once: bool = False) -> dict[str, bool | int] | None:
    """Returns options of `jax.jit`, which are not allowed inside of another program.

    Less of XLA's effort compiles a program in three quarters of the time, and without
    emitters of fusions, which JAX can do without up to 0.10, in half: for one that runs
    once, or that tags on a CPU, as fast. A step of training would take longer.
    """
    is_cpu = jax.default_backend() == "cpu"
    options: dict[str, bool | int] = {}
    if runs_once or is_cpu:
        options["xla_backend_optimization_level"] = 1
    if is_cpu and jax.__version_info__ < (0, 11):
        options["xla_cpu_use_fusion_emitters"] = False
    flags = os.environ.get("XLA_FLAGS", "")
    return {name: x for name, x in options.items() if name not in flags} or None


def target() -> str | None:
    """Returns the one platform for which this code traces a program, if it is known."""
    return _target.get()


@contextmanager
def targeting(platform: str) -> Iterator[None]:
    """Tells `by_target` the platform; a function under `jax.jit` needs it as static."""
    token = _target.set(platform)
    try:
        yield
    finally:
        _target.reset(token)


def by_target(*operands: PyTree, cpu: Callable[..., R], default: Callable[..., R]) -> R:
    """Computes in the form for a CPU, or in that for accelerators.

    JAX traces both, as a program may be lowered for another platform than this one. If
    the target is known, only its form is traced, in half the time. Results are the same
    in both forms.
    """
    if platform := target():
        return (cpu if platform == "cpu" else default)(*operands)
    return jax.lax.platform_dependent(*operands, cpu=cpu, default=default)


def precision() -> str:
    """Returns JAX's precision of matrix products of float32, by default the highest."""
    config: Any = jax.config
    return config.jax_default_matmul_precision or "highest"


def mesh_of(weights: PyTree) -> Mesh | None:
    """Returns the mesh of some weights; None if they are on one device."""
    for leaf in jax.tree.leaves(weights):
        sharding = getattr(leaf, "sharding", None)
        if isinstance(sharding, NamedSharding) and sharding.mesh.size > 1:
            mesh: Any = sharding.mesh
            return mesh
    return None


def platform_of(weights: PyTree) -> str:
    """Returns the platform where some weights are: "cpu", "gpu" or "tpu"."""
    for leaf in jax.tree.leaves(weights):
        if isinstance(leaf, jax.Array) and not isinstance(leaf, Tracer):
            return next(iter(leaf.devices())).platform
    return jax.default_backend()


def split(arrays: PyTree, mesh: Mesh) -> PyTree:
    """Returns arrays with their first axis split over all devices of a mesh."""
    return put(arrays, NamedSharding(mesh, PartitionSpec(mesh.axis_names)))


def put(arrays: PyTree, sharding: NamedSharding | None) -> PyTree:
    """Returns placed arrays; each process has them whole and copies its own part."""
    _note_use("put", 0.0)  # which JAX does not report
    if sharding is None:
        return jax.device_put(arrays)
    if sharding.is_fully_addressable:
        return jax.device_put(arrays, sharding)

    def place(array):
        if jnp.issubdtype(array.dtype, jax.dtypes.prng_key):
            data = place(jax.random.key_data(array))
            return jax.random.wrap_key_data(data, impl=jax.random.key_impl(array))
        whole = fetch(array)
        return jax.make_array_from_callback(
            whole.shape, sharding, lambda index: whole[index]
        )

    return jax.tree.map(place, arrays)


def largest(values: Sequence[float]) -> Sequence[float]:
    """Returns the largest of each value over all processes, which all must ask."""
    if jax.process_count() == 1:
        return values
    rows = multihost_utils.process_allgather(np.asarray(values, np.float32))
    return np.max(rows, axis=0).tolist()


def fetch(arrays: PyTree) -> PyTree:
    """Returns whole arrays on the host, from any devices and hosts."""

    def gather(array):
        is_split = isinstance(array, jax.Array) and not (
            array.is_fully_addressable or array.is_fully_replicated
        )
        if is_split:
            return multihost_utils.process_allgather(array, tiled=True)
        return np.asarray(array)

    return jax.tree.map(gather, arrays)
