"""Placement of a run's arrays on devices, and start-up of several processes.

The mesh has two axes: `seed` for restarts and `data` for the sentences of a batch.
JAX's compiler inserts the sums between devices. A run on one device has no mesh.
"""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import json
import math
import os
import warnings
from collections.abc import Iterator, Sequence
from typing import Any

import jax
import numpy as np
from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec
from jaxtyping import Array, Int, PyTree

from jaxner import devices
from jaxner.errors import InputError
from jaxner.tagger import Tagger

SEED, DATA = "seed", "data"
DETERMINISTIC = (
    "--xla_gpu_deterministic_ops=true",
    "--xla_gpu_exclude_nondeterministic_ops=true",
)
"""XLA flags for sums in a fixed order: no atomic additions, deterministic kernels."""


@dataclasses.dataclass(frozen=True)
class Placement:
    """The placement of a run's arrays; hashable, as a key for compiled programs.

    `mesh` has the devices, on the axes `SEED` and `DATA`; None for one device.
    """

    mesh: Mesh | None = None

    @property
    def num_parts(self) -> int:
        """Number of parts of a batch."""
        return 1 if self.mesh is None else self.mesh.shape[DATA]

    def sharding(self, *axes: str) -> NamedSharding | None:
        """Returns the sharding of arrays by their first axes; None on one device."""
        return self.mesh and NamedSharding(self.mesh, PartitionSpec(*axes))

    def batches(self, arrays: PyTree) -> PyTree:
        """Returns placed arrays of batches, `[K, B, …]`, split by both axes."""
        return devices.put(arrays, self.sharding(SEED, DATA))

    def split(self, array: Array) -> Array:
        """Returns an array of a batch, `[B, …]`, to be split over the devices."""
        sharding = self.sharding(DATA)
        if sharding is None:
            return array
        return jax.lax.with_sharding_constraint(array, sharding)

    def weights(self, arrays: PyTree) -> PyTree:
        """Returns placed arrays of restarts, `[K, …]`."""
        return devices.put(arrays, self.sharding(SEED))

    def everywhere(self, arrays: PyTree) -> PyTree:
        """Returns arrays placed whole on every device."""
        return devices.put(arrays, self.sharding())

    def tagger(self, tagger: Tagger) -> Tagger:
        """Returns a tagger that computes on all devices."""
        return dataclasses.replace(tagger, weights=self.everywhere(tagger.weights))

    def restart(self, arrays: PyTree, number: int) -> PyTree:
        """Returns the arrays of one restart, whole on every device."""
        return jax.jit(_restart, out_shardings=self.sharding())(arrays, number)


ONE_DEVICE = Placement()
"""One device."""


def _restart(arrays: PyTree, number: Int[Array, ""]) -> PyTree:
    return jax.tree.map(lambda array: array[number], arrays)


def placement(num_devices: int | None = None, num_seeds: int = 1) -> Placement:
    """Returns the placement of a run with restarts in one program."""
    devices = chosen_devices(num_devices)
    if len(devices) == 1:
        return ONE_DEVICE
    rows = math.gcd(num_seeds, len(devices))
    shape = rows, len(devices) // rows
    axes = (AxisType.Auto,) * 2
    return Placement(jax.make_mesh(shape, (SEED, DATA), axes, devices=devices))


def chosen_devices(count: int | None) -> Sequence[Any]:
    """Returns the devices of a run.

    Without a count these are all devices; but a single process uses only one CPU
    device, since CPU devices share the cores.

    Raises:
        InputError: JAX has fewer devices, or some process would get none.
    """
    devices = jax.devices()
    is_alone = jax.process_count() == 1
    if count is None:
        return devices[:1] if is_alone and devices[0].platform == "cpu" else devices
    floor = 1 if is_alone else len(devices)  # no process without one
    if not floor <= count <= len(devices):
        raise InputError(
            f"--config.num_devices must be from {floor} to {len(devices)} (the devices "
            f"that JAX sees), got {count}. On a CPU, "
            f"XLA_FLAGS=--xla_force_host_platform_device_count={count} simulates this "
            "number."
        )
    return devices[:count]


def blocks_of(config: Any) -> int | None:
    """Returns the number of blocks in a batch of a run; None for what is fastest.

    A CPU is faster with blocks of sentences of similar length, an accelerator with few
    large calls: launching a small step takes longer than computing it.
    """
    is_cpu = chosen_devices(config.num_devices)[0].platform == "cpu"
    return config.num_blocks or (None if is_cpu else 1)


def make_deterministic() -> None:
    """Makes a GPU add in a fixed order, so that equal runs are equal to the bit.

    Some operations become slower; an operation without a deterministic form raises an
    error. Call this before JAX computes anything. CPUs and TPUs ignore it.
    """
    flags = os.environ.get("XLA_FLAGS", "")
    new_flags = (flag for flag in DETERMINISTIC if flag not in flags)
    os.environ["XLA_FLAGS"] = " ".join([flags, *new_flags]).strip()


def join(
    coordinator: str | None = None,
    num_processes: int | None = None,
    process_id: int | None = None,
) -> None:
    """Connects this process to the others, before JAX looks for devices.

    Without arguments, JAX finds the others itself on clusters that it knows (Slurm,
    Open MPI, GKE, TPU pods). With one process, this one runs alone, even there.

    Raises:
        InputError: Arguments are missing, and JAX does not know the cluster.
    """
    if jax.distributed.is_initialized() or num_processes == 1:
        return
    # It would take SIGTERM, which `signals.stop_requests` watches while a run trains.
    jax.config.update("jax_enable_preemption_service", False)
    options = coordinator, num_processes, process_id
    is_known = options == (None, None, None)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore" if is_known else "default")
            jax.distributed.initialize(*options)
    except ValueError as error:
        if not is_known:
            raise InputError(
                f"{error} Give all three, --coordinator=HOST:PORT, --num_processes and "
                "--process_id, or none on a cluster that JAX knows."
            ) from None
    except RuntimeError as error:
        if "start RPC server" in str(error):
            # JAX crashes if nothing keeps its error.
            raise InputError(f"{coordinator}: this port is in use") from error
        # JAX is already in use: this process runs alone.
        if not (is_known and "must be called before" in str(error)):
            raise


@contextlib.contextmanager
def agreement() -> Iterator[dict[str, object]]:
    """Ends a block in all processes alike.

    With an error if it fails in one of them, or if what it puts into the dictionary, as
    JSON, differs.
    """
    facts: dict[str, object] = {}
    try:
        yield facts
    except Exception:
        with contextlib.suppress(Exception):  # they may wait elsewhere
            devices.largest([1.0, 0.0, 0.0])
        raise
    text = json.dumps(facts, sort_keys=True)
    number = float(int.from_bytes(hashlib.sha256(text.encode()).digest()[:3]))
    failure, most, least = devices.largest([0.0, number, -number])
    if failure:
        raise InputError("Another process has failed; its message says why")
    if most != -least:
        raise InputError(
            "The processes have other configs, data or versions of packages: start the "
            "same command in each"
        )


def checksum(weights: PyTree) -> str:
    """Returns the SHA-256 of weights for `agreement`; of nothing without others."""
    leaves = jax.tree.leaves(weights) if jax.process_count() > 1 else ()
    return hashlib.sha256(b"".join(np.asarray(x).tobytes() for x in leaves)).hexdigest()


def is_writer() -> bool:
    """Returns whether this process, the first, writes logs and reports."""
    return jax.process_index() == 0
