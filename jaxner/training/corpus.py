"""The steps of a run over its training corpus, and the programs that take them."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import jax
import numpy as np

from jaxner.data.batching import Batches, Shape
from jaxner.training import step


class Corpus:
    """Takes the steps of a run.

    The programs, one for each shape, are compiled side by side in the background, the
    most frequent shapes first; a step waits for those that it needs, and no others.

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
    ):
        """Prepares the steps; nothing is compiled yet.

        Args:
            batches: What is trained on.
            recipe: What is trained, and how.
            frozen: The weights that no step changes.
            seed: Of the run: it decides masks and the order of the batches.
            steps_per_call: Steps that are taken in one call, over batches that are
                padded alike. On a GPU or TPU that saves the time between calls.

        Raises:
            ValueError: `steps_per_call` is below 1, or batches have several blocks.
        """
        if steps_per_call < 1:
            raise ValueError(
                f"steps_per_call must be at least 1, got {steps_per_call}: so many "
                "batches are taken in one call"
            )
        if steps_per_call > 1 and batches.rows < batches.batch_size:
            raise ValueError(
                f"steps_per_call={steps_per_call} takes batches of one block: set "
                "--config.num_blocks=1, or steps_per_call=1"
            )
        self.batches, self.steps_per_call = batches, steps_per_call
        self._recipe, self._frozen, self._seed = recipe, frozen, seed
        self._key = jax.random.fold_in(jax.random.key(seed), 1)
        self._programs: dict[Shape | None, Future] = {}
        self._pool = ThreadPoolExecutor(os.cpu_count())
        self._sums: step.Sums | None = None

    def close(self) -> None:
        """Compiles nothing more."""
        self._pool.shutdown(wait=False, cancel_futures=True)

    def compile(self, state: step.State) -> None:
        """Begins to compile the programs of all shapes; returns at once.

        Args:
            state: One like those of the steps.
        """
        like = jax.tree.map(jax.typeof, state)
        shares = self.batches.expected_shapes()
        for shape, _ in sorted(shares, key=lambda pair: -pair[1]):
            self._programs[shape] = self._pool.submit(self._compile, like, shape)
        if self.steps_per_call == 1:
            self._programs[None] = self._pool.submit(self._compile_apply, like)

    def num_compiled(self) -> tuple[int, int]:
        """Counts the programs that are compiled, and all."""
        return sum(p.done() for p in self._programs.values()), len(self._programs)

    def epoch(
        self, state: step.State, epoch: int, skip: int = 0
    ) -> Iterator[tuple[step.State, int, int]]:
        """Takes the steps of an epoch; `state` is given up.

        Args:
            state: At the beginning.
            epoch: Which one.
            skip: Batches that were taken before, when a run resumes.

        Yields:
            The state after each call, how many steps it took, and how many tokens.
        """
        if not self._programs:
            self.compile(state)
        drawn = self.batches.draw(self._seed, epoch, skip=skip)
        while group := list(itertools.islice(drawn, self.steps_per_call)):
            tokens = sum(len(self.batches.labels[i]) for one in group for i in one)
            take = self._take_one if self.steps_per_call == 1 else self._take_several
            state = take(state, group)
            yield state, len(group), tokens

    def _take_one(self, state: step.State, group) -> step.State:
        sums = step.no_sums(state.params) if self._sums is None else self._sums
        for shape, block in self.batches.blocks(group[0]):
            program = self._programs[shape].result()
            sums = program(
                state.params, self._frozen, block, state.step, self._key, sums
            )
        state, self._sums = self._programs[None].result()(state, sums)
        return state

    def _take_several(self, state: step.State, group) -> step.State:
        shape, batches = self.batches.alike(group, self.steps_per_call)
        program = self._programs[shape].result()
        count = np.int32(len(group))
        return program(state, self._frozen, batches, count, self._key)

    def _compile(self, state: step.State, shape: Shape):
        block = self.batches.example(shape)
        if self.steps_per_call > 1:
            block = jax.tree.map(lambda a: np.stack([a] * self.steps_per_call), block)
            arguments = state, self._frozen, block, np.int32(1), self._key
            return step.several.lower(self._recipe, *arguments).compile()
        sums = jax.eval_shape(step.no_sums, state.params)
        arguments = state.params, self._frozen, block, state.step, self._key, sums
        return step.compiled_add.lower(self._recipe, *arguments).compile()

    def _compile_apply(self, state: step.State):
        sums = jax.eval_shape(step.no_sums, state.params)
        return step.compiled_apply.lower(self._recipe, state, sums).compile()
