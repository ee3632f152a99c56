"""Takes the steps of a run over its training corpus, and compiles their programs."""

from __future__ import annotations

import dataclasses
import itertools
import os
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent import futures
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxner.data.batching import Batches, Shape
from jaxner.tagging import Tagger
from jaxner.training import resident, step
from jaxner.training.cluster import ALONE, Placement
from jaxner.wording import counted

_POLL = 0.1  # seconds


class Corpus:
    """Takes the steps of a run, or of several restarts at once.

    The programs, one for each shape, compile in parallel in the background, those of
    the first step and then the most frequent ones first; a step waits only for the
    programs it needs.

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
        self._programs: dict[Shape | None, futures.Future] = {}
        self._pool = futures.ThreadPoolExecutor(os.cpu_count())
        # Tracing is Python: two threads at once would take twice as long as in turn.
        self._tracing = threading.Lock()
        self._sums: step.Sums | None = None
        self._awaited: Shape | None = None  # None: the optimizer's step

    def placed(self, tagger: Tagger) -> Tagger:
        """Returns a tagger with the frozen weights of the steps."""
        weights = {**tagger.weights, "frozen": self.frozen}
        return dataclasses.replace(tagger, weights=weights)

    def close(self) -> None:
        """Stops compiling."""
        self._pool.shutdown(wait=False, cancel_futures=True)

    def compile(self, state: step.State, first: Sequence[Shape] = ()) -> None:
        """Starts compiling the programs of all shapes, and returns at once.

        Args:
            state: A state like those of the steps.
            first: The shapes that the first step needs.
        """
        like = self.place.types(state)
        if self.steps_per_call == 1:  # every step needs it
            self._programs[None] = self._pool.submit(self._compile_apply, like)
        shares = self.batches.expected_shapes()
        often = [shape for shape, _ in sorted(shares, key=lambda pair: -pair[1])]
        for shape in dict.fromkeys([*first, *often]):
            self._programs[shape] = self._pool.submit(self._compile, like, shape)

    def num_compiled(self) -> tuple[int, int]:
        """Returns the numbers of compiled programs and of all programs."""
        return sum(p.done() for p in self._programs.values()), len(self._programs)

    def awaited(self) -> str:
        """Says which program the next step waits for."""
        shapes = [shape for shape in self._programs if shape is not None]
        if self._awaited is None:
            return "Compiling the optimizer's step"
        return (
            f"Compiling shape {shapes.index(self._awaited) + 1} of {len(shapes)} "
            f"({counted(self.batches.rows, self.batches.unit)} × "
            f"{counted(self._awaited.tokens, 'token')})"
        )

    def epoch(
        self,
        state: step.State,
        epoch: int,
        skip: int = 0,
        is_stopped: Callable[[], bool] = lambda: False,
    ) -> Iterator[tuple[step.State, int, int]]:
        """Takes the steps of an epoch; donates `state`.

        Args:
            state: The state before the epoch.
            epoch: Index of the epoch, from 0.
            skip: Number of batches already taken, when a run resumes.
            is_stopped: Called ten times per second while a step waits for its program;
                if it returns True, the epoch ends without that step.

        Yields:
            The state after each call, its number of steps, and its number of tokens in
            all restarts together.
        """
        order = [self.batches.draw(seed, epoch, skip=skip) for seed in self._seeds]
        drawn = zip(*order, strict=True)
        while group := list(itertools.islice(drawn, self.steps_per_call)):
            every = itertools.chain.from_iterable(group)
            tokens = sum(len(self.batches.labels[i]) for one in every for i in one)
            blocks = self._blocks(group)
            needed = [shape for shape, _ in blocks]
            if not self._programs:
                self.compile(state, needed)
            if not self._are_ready(needed, is_stopped):
                return
            take = self._take_one if self.steps_per_call == 1 else self._take_several
            state = take(state, blocks, len(group))
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

    def _are_ready(
        self, shapes: Sequence[Shape], is_stopped: Callable[[], bool]
    ) -> bool:
        """Waits for programs; returns False if the run was stopped before."""
        apply = [self._programs[None]] if None in self._programs else []
        needed = [*(self._programs[shape] for shape in shapes), *apply]
        while futures.wait(needed, timeout=_POLL).not_done:
            late = (shape for shape in shapes if not self._programs[shape].done())
            self._awaited = next(late, None)
            if is_stopped():
                return False
        return True

    def _take_one(self, state: step.State, blocks, count: int) -> step.State:
        del count
        begin = self._jits.begin
        sums = begin(state.params) if self._sums is None else self._sums
        for shape, block in blocks:
            program = self._programs[shape].result()
            block = self.place.batches(block)
            sums = program(
                state.params, self._given, block, state.step, self._key, sums
            )
        state, self._sums = self._programs[None].result()(state, sums)
        return state

    def _take_several(self, state: step.State, blocks, count: int) -> step.State:
        ((shape, batches),) = blocks
        batches = self.place.batches(batches, several=True)
        program = self._programs[shape].result()
        steps = self.place.everywhere(np.int32(count))
        return program(state, self._given, batches, steps, self._key)

    def _by_seed(self, batches: Any) -> Any:
        """Adds the axis of seeds, if there are restarts, before that of batches."""
        if not self.place.num_seeds:
            return batches
        lead = len(self._seeds), self.steps_per_call
        return jax.tree.map(lambda a: a.reshape(lead + a.shape[1:]), batches)

    def _compile(self, state: step.State, shape: Shape):
        block = self.batches.example(shape)
        several = self.steps_per_call > 1
        lead = (len(self._seeds),) * bool(self.place.num_seeds)
        lead += (self.steps_per_call,) * several
        block = jax.tree.map(lambda a: np.broadcast_to(a, lead + a.shape), block)
        block = self.place.batch_types(block, several=several)
        frozen, key = (self.place.types(x) for x in (self._given, self._key))
        with self._tracing:
            if several:
                count = self.place.types(self.place.everywhere(np.int32(1)))
                lowered = self._jits.several.lower(state, frozen, block, count, key)
            else:
                sums = self._sums_type(state)
                arguments = state.params, frozen, block, state.step, key, sums
                lowered = self._jits.add.lower(*arguments)
        return lowered.compile()

    def _compile_apply(self, state: step.State):
        with self._tracing:
            lowered = self._jits.apply.lower(state, self._sums_type(state))
        return lowered.compile()

    def _sums_type(self, state: step.State) -> Any:
        sums = jax.eval_shape(self._jits.begin, state.params)
        return self.place.weight_types(sums)
