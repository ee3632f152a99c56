"""Takes the steps of a run over its training corpus."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import jax
import jax.numpy as jnp

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
            place: Placement of arrays; `num_seeds` is the number of restarts.
        """
        self.batches = batches
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
        return len(self._programs), len(self.batches.shapes) + 1

    def epoch(
        self,
        state: step.State,
        epoch: int,
        skip: int = 0,
        compiling: Compiling = contextlib.nullcontext,
    ) -> Iterator[tuple[step.State, int]]:
        """Takes the steps of an epoch; donates `state`.

        Args:
            state: The state before the epoch.
            epoch: Index of the epoch, from 0.
            skip: Number of batches already taken, when a run resumes.
            compiling: The context of each compilation. If it suppresses an exception
                within, the epoch ends without that step.

        Yields:
            The state after each step, and its number of tokens in all restarts.
        """
        order = [self.batches.draw(seed, epoch, skip=skip) for seed in self._seeds]
        for drawn in zip(*order, strict=True):
            tokens = sum(len(self.batches.labels[i]) for one in drawn for i in one)
            new = self._step(state, drawn, compiling)
            if new is None:
                return
            state = new
            yield state, tokens

    def _step(self, state: step.State, drawn, compiling: Compiling):
        """Returns the state after a step; None if a compilation was broken off."""
        is_several = bool(self.place.num_seeds)
        cut = self.batches.alike(drawn) if is_several else self.batches.blocks(drawn[0])
        begin = self._jits.begin
        sums = begin(state.params) if self._sums is None else self._sums
        self._sums = None  # it is donated
        for shape, block in cut:
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
