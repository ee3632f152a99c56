"""Optimizer steps: the only place where training uses `jit`.

A step adds the gradients of its batch's blocks, one block after another, and then
updates the parameters once; of a batch of one block, both are one program. Restarts
(`K`, at least one) are a leading axis of the state, of the keys and of every block.

Programs compile in threads, the first that are needed first, while others run.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Iterable, Sequence
from concurrent import futures
from contextlib import AbstractContextManager, nullcontext
from typing import NamedTuple

import jax
import jax.numpy as jnp
import optax
from jax import stages
from jaxtyping import Array, Float, Int, PyTree

from jaxner import models
from jaxner.data.batching import Plan, Shape
from jaxner.training import objectives, optimizers
from jaxner.training.cluster import ONE_DEVICE, Placement
from jaxner.training.corpus import Arrays, take

Params = PyTree[Array]
Compiling = Callable[[Shape | None], AbstractContextManager[None]]


class State(NamedTuple):
    """Everything that a run needs to continue, besides its config.

    `step`, the number of steps so far, determines dropout masks and the next batches.
    `sums` are metrics since the start of the epoch: the `loss` of the batches in nats
    and, for the parts of an optimizer, `gradient_norm_…`. They stay on the device, so
    that no step waits for the host.
    """

    step: Int[Array, ""]
    params: Params
    opt_state: optax.OptState
    sums: dict[str, Array]


class Recipe(NamedTuple):
    """The constants of all steps; `parts` are paths of the parts of the optimizer."""

    model: models.Model
    tx: optax.GradientTransformation
    objective: objectives.Objective
    sizes: objectives.Sizes
    parts: tuple[str, ...] = ()
    place: Placement = ONE_DEVICE


def init(
    params: Params, tx: optax.GradientTransformation, parts: tuple[str, ...] = ()
) -> State:
    """Returns the state before the first step, without the axis of restarts."""
    names = [*parts, optimizers.REST] if parts else []
    names = ["loss", *(f"gradient_norm_{name}" for name in names)]
    sums = {name: jnp.zeros(()) for name in names}
    return State(jnp.zeros((), jnp.int32), params, tx.init(params), sums)


class Sums(NamedTuple):
    """Sums over the blocks of a batch so far, and the number of these blocks."""

    number: Int[Array, ""]
    loss: Float[Array, ""]
    grads: Params


def zeros(params: Params) -> Sums:
    """Returns the sums over no block."""
    grads = jax.tree.map(jnp.zeros_like, params)
    return Sums(jnp.zeros((), jnp.int32), jnp.zeros(()), grads)


def add(
    recipe: Recipe,
    shape: Shape,
    sums: Sums,
    params: Params,
    step: Int[Array, ""],
    vectors: Float[Array, "B T L D"] | None,
    plan: Plan,
    key: Array,
    frozen: Params,
    arrays: Arrays,
) -> Sums:
    """Returns sums with the next block of a step, but without terms of weights alone.

    `vectors` are those of the block's tokens, if they do not lie on the device; `key`
    is the run's.
    """
    block = plan.steps[step % len(plan.steps)] + sums.number
    batch, labels, places = take(arrays, plan, block, shape, vectors, recipe.place)
    weights, key = {"params": params, "frozen": frozen}, jax.random.fold_in(key, step)
    options = batch, labels, places, key, recipe.objective, recipe.sizes
    # XLA drops the gradient of what is frozen.
    loss = jax.value_and_grad(objectives.sentence_loss, argnums=1, allow_int=True)
    value, grads = loss(recipe.model, weights, *options)
    # XLA adds rows of a table in place, without a table of zeros.
    grads = jax.tree.map(jnp.add, sums.grads, grads["params"])
    return Sums(sums.number + 1, sums.loss + value, grads)


def update(recipe: Recipe, state: State, sums: Sums) -> State:
    """Returns the state after an update with the sums over all blocks of a batch."""
    of_weights = jax.value_and_grad(objectives.weight_loss, argnums=1)
    penalty, by_weights = of_weights(recipe.model, state.params, recipe.objective)
    grads = jax.tree.map(jnp.add, sums.grads, by_weights)
    new = {"loss": sums.loss + penalty}
    if recipe.parts:
        norms = optimizers.part_norms(grads, recipe.parts)
        new |= {f"gradient_norm_{name}": norm for name, norm in norms.items()}
    updates, opt_state = recipe.tx.update(grads, state.opt_state, state.params)
    params = optax.apply_updates(state.params, updates)
    metrics = jax.tree.map(jnp.add, state.sums, new)
    return State(state.step + 1, params, opt_state, metrics)


class Step:
    """Takes the steps of a run, or of several restarts at once; a context.

    `shapes` are those of all blocks, and each batch is one block if it `is_whole`.
    `frozen` has an axis of restarts unless `is_shared`, as with one; `keys` are `[K]`.
    `compiling` returns a context for the call of a program, by the shape of its block,
    None for an update alone.
    """

    def __init__(
        self,
        recipe: Recipe,
        shapes: Iterable[Shape],
        is_whole: bool,
        frozen: Params,
        arrays: Arrays,
        keys: Array,
        is_shared: bool = True,
        compiling: Compiling = nullcontext,
    ):
        self._programs = _programs(recipe, is_shared)
        # CPU devices share their threads: several programs at once may wait for each
        # other's for ever.
        mesh = recipe.place.mesh
        is_simulated = mesh is not None and mesh.devices.flat[0].platform == "cpu"
        self._wait = jax.block_until_ready if is_simulated else lambda arrays: arrays
        self._shapes, self._is_whole = shapes, is_whole
        self._keys, self._rest = keys, (frozen, arrays)
        self._sums: Sums | None = None  # zeros between steps: the memory stays
        self._compiling = compiling
        self._threads = futures.ThreadPoolExecutor(_num_threads())
        self._executables: dict[Shape | None, futures.Future[stages.Compiled]] = {}

    def __enter__(self) -> Step:
        return self

    def __exit__(self, *error: object) -> None:
        self._threads.shutdown(cancel_futures=True)

    def __call__(
        self, state: State, plan: Plan, blocks: Sequence[tuple[Shape, Array | None]]
    ) -> State:
        """Returns the state after a step; donates `state`.

        The arguments are what `Corpus.epoch` yields. The step that comes next in the
        plan is that of the state.
        """
        _, begin, _, end = self._programs
        if self._sums is None and not self._is_whole:
            self._sums = begin(state.params)
        if not self._executables:
            self._foresee(state, plan, blocks)
        for shape, vectors in blocks:
            result = self._run(shape, *self._call_of(shape, vectors, state, plan))
            if self._is_whole:
                return result
            self._sums = result
        state, self._sums = self._run(None, end, state, self._sums)
        return state

    def _call_of(
        self, shape: Shape, vectors: Array | None, state: State, plan: Plan
    ) -> tuple[stages.Wrapped, *tuple[PyTree, ...]]:
        """Returns the program for a block and its operands."""
        whole, _, add, _ = self._programs
        rest = vectors, plan, self._keys, *self._rest
        if self._is_whole:
            return whole, shape, state, *rest
        return add, shape, self._sums, state.params, state.step, *rest  # donates sums

    def _run(
        self, name: Shape | None, program: stages.Wrapped, *operands: PyTree
    ) -> PyTree:
        """Returns what a program returns, once it has compiled."""
        with self._compiling(name):
            if name not in self._executables:
                self._begin(name, program, *operands)
            self._executables[name].result()
            return self._wait(program(*operands))

    def _begin(
        self, name: Shape | None, program: stages.Wrapped, *operands: PyTree
    ) -> None:
        """Compiles a program in a thread; `jit` finds later what this has made."""
        task = self._threads.submit(lambda: program.lower(*operands).compile())
        self._executables[name] = task

    def _foresee(
        self, state: State, plan: Plan, blocks: Sequence[tuple[Shape, Array | None]]
    ) -> None:
        """Begins to compile all programs, those of the next step first.

        But for shapes whose vectors are not there yet.
        """
        vectors = dict(blocks)
        if None in vectors.values():
            vectors |= {x: None for x in self._shapes if x not in vectors}
        for shape, values in vectors.items():
            self._begin(shape, *self._call_of(shape, values, state, plan))
            if shape == blocks[-1][0] and not self._is_whole:
                self._begin(None, self._programs[-1], state, self._sums)


def _num_threads() -> int:
    """Returns how many programs compile at once: one in each of several processes.

    They would wait for each other for ever if they compiled in different orders.
    """
    if jax.process_count() > 1:
        return 1
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 2


@functools.cache  # runs with equal recipes share compiled programs
def _programs(recipe: Recipe, is_shared: bool):
    """Returns a step of one block; sums of none, sums with a block, an update."""
    place = recipe.place

    def whole(recipe, shape, state, *rest):
        sums = zeros(state.params), state.params, state.step
        return update(recipe, state, add(recipe, shape, *sums, *rest))

    def end(state, sums):
        return update(recipe, state, sums), zeros(state.params)

    def mapped(function, shape, *operands):
        function = functools.partial(function, recipe, shape)
        *stacked_inputs, frozen, arrays = operands
        if len(stacked_inputs[-1]) > 1:
            axes = *(0 for _ in stacked_inputs), None if is_shared else 0, None
            name = place.restart_axis
            return jax.vmap(function, axes, spmd_axis_name=name)(*operands)
        # On a CPU, products with an axis of size 1 take a tenth longer.
        single = jax.tree.map(lambda leaf: leaf[0], stacked_inputs)
        out = function(*single, frozen, arrays)
        return jax.tree.map(lambda leaf: leaf[None], out)

    def program(function, out):
        function = functools.partial(mapped, function)
        return jax.jit(function, static_argnums=0, donate_argnums=1, out_shardings=out)

    weights: PyTree = place.of_weights
    sharding: PyTree = place.whole
    sums = place.mesh and Sums(sharding, weights, weights)
    state = place.mesh and State(sharding, weights, weights, sharding)
    ends: PyTree = place.mesh and (state, sums)
    return (
        program(whole, state),
        jax.jit(jax.vmap(zeros), out_shardings=sums),
        program(add, sums),
        jax.jit(jax.vmap(end), donate_argnums=(0, 1), out_shardings=ends),
    )
