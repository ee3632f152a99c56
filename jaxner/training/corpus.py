"""The training corpus on the device, and the compiled steps that run over it."""

from __future__ import annotations

import os
from collections.abc import Callable, Hashable
from concurrent import futures
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import jax
import numpy as np

from jaxner import models
from jaxner.data.batching import Batches, Block
from jaxner.training import step

# Of all runs of this process: tests and searches train many that are alike.
_programs: dict[Hashable, Any] = {}
_MOST_PROGRAMS = 256
# What decides, besides the arguments, what is compiled.
_SETTINGS = ("jax_default_matmul_precision", "jax_debug_nans", "jax_enable_x64")


class Corpus:
    """Takes the steps of a run.

    Sentences are gathered on the device; a call is told their numbers alone. (But
    precomputed vectors are too many for that, and come with the call.) The program of
    each shape is compiled before the first step, as many at a time as there are
    processor cores.

    But a batch with far more distinct words than others of its shape has a program of
    its own. To compile these, too, would take as long again, and hardly any run needs
    one: it is compiled when it is met, in the middle of an epoch.

    Attributes:
        batches: What is trained on.
        steps_per_call: Steps that are taken in one call.
    """

    def __init__(
        self,
        batches: Batches,
        recipe: step.Recipe,
        frozen: Any,
        *,
        seed: int,
        steps_per_call: int = 1,
        tell: Callable[[str], object] = lambda line: None,
    ):
        """Puts a corpus on the device.

        Args:
            batches: What is trained on.
            recipe: What is trained, and how.
            frozen: The weights that no step changes.
            seed: Of the run: it decides masks and the order of the batches.
            steps_per_call: Batches of one shape that follow each other, and whose steps
                are taken in one call. On a GPU or TPU that saves the time between
                calls; a CPU is as fast with 1, whose order is more random.
            tell: Where a line goes when a program is compiled between the steps.

        Raises:
            ValueError: `steps_per_call` is none.
        """
        if steps_per_call < 1:
            raise ValueError(
                f"steps_per_call must be at least 1, got {steps_per_call}: so many "
                "batches are taken in one call"
            )
        self.batches, self.steps_per_call = batches, steps_per_call
        self._recipe, self._frozen, self._seed = recipe, frozen, seed
        self._key = jax.random.fold_in(jax.random.key(seed), 1)
        self._tell = tell
        self._spelled_once = models.can_spell(recipe.model, is_noisy=True)
        self._buckets = [
            jax.device_put(bucket._replace(vectors=())) for bucket in batches.buckets
        ]

    @property
    def num_rare(self) -> int:
        """Programs that are compiled when a batch needs them, at the most."""
        rooms = self.batches.rooms if self._spelled_once else []
        return sum(usual < most for usual, most in rooms)

    def epoch(self, epoch: int, skip: int = 0):
        """Yields the blocks of an epoch, but for the first `skip` batches."""
        return self.batches.blocks(
            self._seed,
            epoch,
            length=self.steps_per_call,
            skip=skip,
            spelled_once=self._spelled_once,
        )

    def take_steps(self, state: step.State, block: Block) -> step.State:
        """Takes the steps of a block; the state is given up."""
        arguments = self._arguments(state, block)
        name = self._name(arguments)
        if name not in _programs:
            self._tell("Compiling the steps of one more shape …")
            self._keep(name, self._lower(arguments).compile())
        return _programs[name](*arguments)

    def compile(self, state: step.State, stop: object = None) -> int:
        """Compiles the programs of an epoch, as far as they are not yet.

        Args:
            state: One like those of the steps; it is not changed.
            stop: Becomes true when the user wants to leave off.

        Returns:
            How many were compiled.
        """
        pending: dict[Hashable, Future] = {}
        pool = ThreadPoolExecutor(os.cpu_count())
        try:
            blocks = self.batches.examples(self.steps_per_call, self._spelled_once)
            for block in blocks:
                if stop:
                    break
                arguments = self._arguments(state, block)
                name = self._name(arguments)
                if name not in _programs and name not in pending:
                    # Tracing holds Python's lock; what follows does not.
                    lowered = self._lower(arguments)
                    pending[name] = pool.submit(lowered.compile)
            while not stop and futures.wait(pending.values(), timeout=0.2).not_done:
                pass
        finally:
            # Programs that are being compiled cannot be stopped, but need no waiting
            # here; Python waits for them at its exit, unless that is `os._exit`.
            pool.shutdown(wait=False, cancel_futures=True)
        finished = [name for name, its in pending.items() if its.done()]
        done = [name for name in finished if not pending[name].cancelled()]
        for name in done:
            self._keep(name, pending[name].result())
        return len(done)

    def _arguments(self, state: step.State, block: Block) -> tuple[Any, ...]:
        bucket, count = self._buckets[block.bucket], np.int32(block.count)
        return state, self._frozen, bucket, block.rows, count, self._key

    def _name(self, arguments: tuple[Any, ...]) -> Hashable:
        """Gives all that a program depends on."""
        leaves, structure = jax.tree.flatten(arguments)
        kinds = tuple(
            (leaf.shape, leaf.dtype, getattr(leaf, "sharding", None))  # none on a host
            for leaf in leaves
        )
        settings = tuple(getattr(jax.config, name) for name in _SETTINGS)
        return self._recipe, structure, kinds, settings

    def _lower(self, arguments: tuple[Any, ...]):
        return step.train_steps.lower(self._recipe, *arguments)

    def _keep(self, name: Hashable, program: Any) -> None:
        if len(_programs) >= _MOST_PROGRAMS:
            _programs.pop(next(iter(_programs)))
        _programs[name] = program
