"""Takes the steps of a run over its training corpus."""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxner.data.batching import Batches, Shape
from jaxner.tagging import Tagger
from jaxner.training import resident, step
from jaxner.training.cluster import ALONE, Placement
from jaxner.wording import counted

Compiling = Callable[[str], contextlib.AbstractContextManager]
"""Makes a context for a compilation, from what is compiled."""


class Corpus:
    """Takes the steps of a run, or of several restarts at once.

    Its programs, one for each shape, compile when a step needs them for the first time.
    Threads that compile all of them in the background would delay the first step by
    half, and end the first epoch no sooner (see docs/speed.md).

    Attributes:
        batches: The training corpus.
        steps_per_call: Number of steps in one call.
        frozen: The frozen weights, placed.
        place: Placement of arrays.
    """

    def __init__(
        self,
        batches: Batches,
        recipe: step.Recipe,
        frozen: Any,
        *,
        seed: int | Sequence[int],
        table: Any = None,
        steps_per_call: int = 1,
        place: Placement = ALONE,
    ):
        """Prepares the steps; nothing is compiled yet.

        Args:
            batches: The training corpus.
            recipe: Model, optimizer and objective.
            frozen: The frozen weights.
            seed: Seed of the run, or of each restart; determines masks and the order of
                batches.
            table: Precomputed vectors of the text, if they are on the device; see
                `resident.split_off`.
            steps_per_call: Number of steps in one call, over batches padded to the same
                shape. This saves the time between calls on a GPU or TPU.
            place: Placement of arrays; `num_seeds` is the number of restarts.

        Raises:
            ValueError: `steps_per_call` is below 1, or batches have several blocks.
        """
        if steps_per_call < 1:
            raise ValueError(
                f"steps_per_call must be at least 1, got {steps_per_call}: the number "
                "of batches in one call"
            )
        if steps_per_call > 1 and batches.rows < batches.batch_size:
            raise ValueError(
                f"steps_per_call={steps_per_call} takes batches of one block: set "
                "--config.num_blocks=1, or steps_per_call=1"
            )
        self.batches, self.steps_per_call = batches, steps_per_call
        self.place, self.frozen = place, place.frozen(frozen)
        self._given = self.frozen
        if table is not None:
            table = place.everywhere(jnp.asarray(table))
            self._given = {**self.frozen, resident.TABLE: table}
        self._jits = step.programs(recipe, place)
        self._seeds = (seed,) if isinstance(seed, int) else tuple(seed)
        keys = [jax.random.fold_in(jax.random.key(s), 1) for s in self._seeds]
        self._key = place.weights(jnp.stack(keys) if place.num_seeds else keys[0])
        self._programs: dict[Shape | None, Any] = {}  # None: the optimizer's step
        self._sums: step.Sums | None = None

    def placed(self, tagger: Tagger) -> Tagger:
        """Returns a tagger with the frozen weights of the steps."""
        weights = {**tagger.weights, "frozen": self.frozen}
        return dataclasses.replace(tagger, weights=weights)

    def num_compiled(self) -> tuple[int, int]:
        """Returns the numbers of compiled programs and of all programs."""
        count = len(self.batches.shapes) + (self.steps_per_call == 1)
        return len(self._programs), count

    def epoch(
        self,
        state: step.State,
        epoch: int,
        skip: int = 0,
        compiling: Compiling = contextlib.nullcontext,
    ) -> Iterator[tuple[step.State, int, int]]:
        """Takes the steps of an epoch; donates `state`.

        Args:
            state: The state before the epoch.
            epoch: Index of the epoch, from 0.
            skip: Number of batches already taken, when a run resumes.
            compiling: The context of each compilation. If it suppresses an exception
                within, the epoch ends without that step.

        Yields:
            The state after each call, its number of steps, and its number of tokens in
            all restarts together.
        """
        order = [self.batches.draw(seed, epoch, skip=skip) for seed in self._seeds]
        drawn = zip(*order, strict=True)
        while group := list(itertools.islice(drawn, self.steps_per_call)):
            every = itertools.chain.from_iterable(group)
            tokens = sum(len(self.batches.labels[i]) for one in every for i in one)
            take = self._take_one if self.steps_per_call == 1 else self._take_several
            new = take(state, self._blocks(group), len(group), compiling)
            if new is None:
                return
            state = new
            yield state, len(group), tokens

    def _blocks(self, group) -> list[tuple[Shape, Any]]:
        """Returns the padded blocks of a call, for all seeds, with their shapes."""
        if self.steps_per_call == 1:
            if self.place.num_seeds:
                return self.batches.alike(group[0])
            return self.batches.blocks(group[0][0])
        padded = group + group[:1] * (self.steps_per_call - len(group))
        flat = [one for own in zip(*padded, strict=True) for one in own]  # by seeds
        ((shape, batches),) = self.batches.alike(flat)
        return [(shape, self._by_seed(batches))]

    def _take_one(self, state: step.State, blocks, count: int, compiling: Compiling):
        """Returns the state after a step; None if a compilation was broken off."""
        del count
        begin = self._jits.begin
        sums = begin(state.params) if self._sums is None else self._sums
        self._sums = None  # it is donated
        for shape, block in blocks:
            block = self.place.batches(block)
            given = state.params, self._given, block, state.step, self._key, sums
            program = self._program(shape, self._jits.add, given, compiling)
            if program is None:
                return None
            sums = program(*given)
        program = self._program(None, self._jits.apply, (state, sums), compiling)
        if program is None:
            return None
        state, self._sums = program(state, sums)
        return state

    def _take_several(
        self, state: step.State, blocks, count: int, compiling: Compiling
    ):
        """Returns the state after a call; None if a compilation was broken off."""
        ((shape, batches),) = blocks
        batches = self.place.batches(batches, several=True)
        steps = self.place.everywhere(np.int32(count))
        given = state, self._given, batches, steps, self._key
        program = self._program(shape, self._jits.several, given, compiling)
        return None if program is None else program(*given)

    def _program(
        self, shape: Shape | None, function: Any, given: tuple, compiling: Compiling
    ):
        """Returns a program, compiled before its first call.

        Compiled apart from the call, it can be broken off: nothing is donated yet.
        """
        if shape not in self._programs:
            with compiling(self._name(shape)):
                self._programs[shape] = function.lower(*given).compile()
        return self._programs.get(shape)

    def _name(self, shape: Shape | None) -> str:
        if shape is None:
            return "Compiling the optimizer's step"
        shapes = self.batches.shapes
        return (
            f"Compiling shape {shapes.index(shape) + 1} of {len(shapes)} "
            f"({counted(self.batches.rows, self.batches.unit)} × "
            f"{counted(shape.tokens, 'token')})"
        )

    def _by_seed(self, batches: Any) -> Any:
        """Adds the axis of seeds, if there are restarts, before that of batches."""
        if not self.place.num_seeds:
            return batches
        lead = len(self._seeds), self.steps_per_call
        return jax.tree.map(lambda a: a.reshape(lead + a.shape[1:]), batches)
