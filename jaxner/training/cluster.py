"""Placement of a run's arrays on devices and hosts, and which process writes.

The mesh has two axes: `seed` for restarts and `data` for the sentences of a batch.
JAX's compiler inserts the sums between devices. A run on one device has no mesh, and
JAX places its arrays.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Sequence
from typing import Any

import jax
from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec

from jaxner import devices

SEED, DATA = "seed", "data"


@dataclasses.dataclass(frozen=True)
class Placement:
    """The placement of arrays; hashable, as a key for compiled programs.

    Attributes:
        mesh: The devices, on the axes `SEED` and `DATA`; None for one device.
        num_seeds: Number of restarts in one program, on a leading axis of all their
            arrays; 0 for one run without this axis.
        own_frozen: Whether each restart has its own frozen weights.
    """

    mesh: Mesh | None = None
    num_seeds: int = 0
    own_frozen: bool = False

    @property
    def num_parts(self) -> int:
        """Number of parts of a batch."""
        return 1 if self.mesh is None else self.mesh.shape[DATA]

    def batches(self, arrays: Any, *, several: bool = False) -> Any:
        """Returns placed arrays of batches, split by sentences or distinct words.

        Args:
            arrays: NumPy arrays with an axis of sentences or distinct words, after the
                axes of seeds and batches, if any.
            several: Whether there is an axis of batches.
        """
        axes = (DATA,) if not several else (None, DATA)
        return self._put(arrays, self._spec(*axes))

    def batch_types(self, arrays: Any, *, several: bool = False) -> Any:
        """Returns types of arrays placed by `batches`, for compiling a program."""
        axes = (DATA,) if not several else (None, DATA)
        return jax.tree.map(lambda a: self._type(a, self._spec(*axes)), arrays)

    def weight_types(self, arrays: Any) -> Any:
        """Returns types of arrays placed by `weights`, for compiling a program."""
        return jax.tree.map(lambda a: self._type(a, self._spec()), arrays)

    def weights(self, arrays: Any) -> Any:
        """Returns the arrays of each seed, placed on all devices of that seed."""
        return self._put(arrays, self._spec())

    def frozen(self, arrays: Any) -> Any:
        """Returns the placed frozen weights."""
        return self.weights(arrays) if self.own_frozen else self.everywhere(arrays)

    def everywhere(self, arrays: Any) -> Any:
        """Returns arrays placed whole on every device."""
        return self._put(arrays, PartitionSpec())

    def state(self, state: Any) -> Any:
        """Returns the placed state of a run; all devices hold values for the host."""
        if self.mesh is None:
            return state
        return state._replace(
            step=self.everywhere(state.step),
            params=self.weights(state.params),
            opt_state=self.weights(state.opt_state),
            loss=self.everywhere(state.loss),
        )

    def one_seed(self, arrays: Any, number: int) -> Any:
        """Returns the arrays of one restart, whole on every device."""
        every = None
        if self.mesh is not None:
            every = NamedSharding(self.mesh, PartitionSpec())
        return _one_of(arrays, number, every)

    def shardings(self, state_type: Any = None) -> Any:
        """Returns the shardings of a program's results: those of weights or of a state.

        Args:
            state_type: The class of the state, if it is one.
        """
        if self.mesh is None:
            return None
        own = NamedSharding(self.mesh, self._spec())
        every = NamedSharding(self.mesh, PartitionSpec())
        if state_type is None:
            return own
        return state_type(step=every, params=own, opt_state=own, loss=every)

    def types(self, arrays: Any) -> Any:
        """Returns types of placed arrays, for compiling a program."""
        if self.mesh is None:
            return jax.tree.map(jax.typeof, arrays)
        return jax.tree.map(
            lambda a: jax.ShapeDtypeStruct(a.shape, a.dtype, sharding=a.sharding),
            arrays,
        )

    def _spec(self, *axes: str | None) -> PartitionSpec:
        return PartitionSpec(*((SEED,) if self.num_seeds else ()), *axes)

    def _type(self, array: Any, spec: PartitionSpec) -> Any:
        if self.mesh is None:
            return jax.ShapeDtypeStruct(array.shape, array.dtype)
        sharding = NamedSharding(self.mesh, spec)
        return jax.ShapeDtypeStruct(array.shape, array.dtype, sharding=sharding)

    def _put(self, arrays: Any, spec: PartitionSpec) -> Any:
        if self.mesh is None:
            return arrays
        return devices.put(arrays, NamedSharding(self.mesh, spec))


ALONE = Placement()
"""One run on one device."""


@functools.partial(jax.jit, static_argnames="sharding")
def _one_of(arrays: Any, number: Any, sharding: Any) -> Any:
    def one(array):
        chosen = jax.lax.dynamic_index_in_dim(array, number, keepdims=False)
        if sharding is None:
            return chosen
        return jax.lax.with_sharding_constraint(chosen, sharding)

    return jax.tree.map(one, arrays)


def placement(num_devices: int | None = None, num_seeds: int = 0) -> Placement:
    """Returns the placement of a run.

    Args:
        num_devices: Number of devices to use. None for all; a single process uses only
            one CPU device, since CPU devices share the cores.
        num_seeds: As in `Placement`. The number of mesh rows divides both seeds and
            devices.

    Raises:
        ValueError: JAX has fewer devices, or some process would get none.

    Example:
        >>> placement(1).mesh is None
        True
    """
    chosen = chosen_devices(num_devices)
    if len(chosen) == 1:
        return Placement(None, num_seeds)
    rows = math.gcd(num_seeds, len(chosen)) if num_seeds else 1
    shape = rows, len(chosen) // rows
    axes = (SEED, DATA)
    mesh = jax.make_mesh(shape, axes, (AxisType.Auto,) * 2, devices=chosen)
    return Placement(mesh, num_seeds)


def chosen_devices(count: int | None) -> Sequence[Any]:
    """Returns the devices of a run; the arguments and errors are `placement`'s."""
    every = jax.devices()
    alone = jax.process_count() == 1
    if count is None:
        return every[:1] if alone and every[0].platform == "cpu" else every
    if not 1 <= count <= len(every):
        raise ValueError(
            f"--config.num_devices must be from 1 to {len(every)} (the devices that "
            f"JAX sees), got {count}. On a CPU, "
            f"XLA_FLAGS=--xla_force_host_platform_device_count={count} simulates this "
            "number."
        )
    if not alone and count < len(every):
        raise ValueError(
            f"--config.num_devices={count} would leave some of {jax.process_count()} "
            f"processes without a device: use all {len(every)}, or start fewer."
        )
    return every[:count]


def is_writer() -> bool:
    """Returns whether this process, the first, writes logs and reports."""
    return jax.process_index() == 0
