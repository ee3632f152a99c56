"""Where the arrays of a run lie: devices, hosts, and who writes.

One mesh has two axes: `seed`, over which restarts are split, and `data`, over which the
sentences of a batch are. JAX's compiler adds the sums between devices. A run on one
device has no mesh, and its arrays are placed by JAX itself.
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
    """Where arrays lie; hashable, so that programs can be kept by it.

    Attributes:
        mesh: The devices, on the axes `SEED` and `DATA`; None for one device.
        num_seeds: Restarts that are trained in one program, on a leading axis of every
            array of theirs; 0: one run, without that axis.
        own_frozen: Whether each restart has frozen weights of its own.
    """

    mesh: Mesh | None = None
    num_seeds: int = 0
    own_frozen: bool = False

    @property
    def num_parts(self) -> int:
        """Parts that a batch is split into."""
        return 1 if self.mesh is None else self.mesh.shape[DATA]

    def batches(self, arrays: Any, *, several: bool = False) -> Any:
        """Places NumPy arrays of batches, split by their sentences or distinct words.

        Args:
            arrays: With a leading axis of sentences, or of distinct words; before it,
                that of the seeds, if there is one, and that of the batches.
            several: Whether there is an axis of batches.
        """
        axes = (DATA,) if not several else (None, DATA)
        return self._put(arrays, self._spec(*axes))

    def batch_types(self, arrays: Any, *, several: bool = False) -> Any:
        """Describes arrays that `batches` has placed, for a program to be compiled."""
        axes = (DATA,) if not several else (None, DATA)
        return jax.tree.map(lambda a: self._type(a, self._spec(*axes)), arrays)

    def weight_types(self, arrays: Any) -> Any:
        """Describes arrays that `weights` has placed, for a program to be compiled."""
        return jax.tree.map(lambda a: self._type(a, self._spec()), arrays)

    def weights(self, arrays: Any) -> Any:
        """Places arrays of which each seed has its own: on all devices of the seed."""
        return self._put(arrays, self._spec())

    def frozen(self, arrays: Any) -> Any:
        """Places the weights that no step changes."""
        return self.weights(arrays) if self.own_frozen else self.everywhere(arrays)

    def everywhere(self, arrays: Any) -> Any:
        """Places arrays whole on every device."""
        return self._put(arrays, PartitionSpec())

    def state(self, state: Any) -> Any:
        """Places the state of a run; what the host reads is on every device."""
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
        """Returns how a program returns arrays: like weights, or like a state.

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
        """Describes placed arrays, for a program to be compiled."""
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
    """Chooses the mesh of a run.

    Args:
        num_devices: How many devices to use; None for all, but for a CPU's, which share
            its cores: of a process that is alone one is used.
        num_seeds: As in `Placement`. The mesh has as many rows as divide both the seeds
            and the devices.

    Raises:
        ValueError: There are not so many devices, or processes would be left without.

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
            f"Expected --config.num_devices from 1 to {len(every)}, the devices that "
            f"JAX sees, got {count}. On a CPU, XLA_FLAGS=--xla_force_host_platform_"
            f"device_count={count} simulates so many."
        )
    if not alone and count < len(every):
        raise ValueError(
            f"--config.num_devices={count} would leave some of {jax.process_count()} "
            f"processes without a device: use all {len(every)}, or start fewer."
        )
    return every[:count]


def is_writer() -> bool:
    """Tells whether this process writes logs and reports: the first one does."""
    return jax.process_index() == 0
