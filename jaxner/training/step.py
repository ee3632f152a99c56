"""Optimizer steps: the only place where training uses `jit`.

A step adds the gradients of its batch's blocks, one block after another, and then
updates the parameters once; of a batch of one block, both are one program. Restarts
(`K`, at least one) are a leading axis of the state, of the keys and of every block.

Programs compile in threads, the first that are needed first, while others run.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Sequence
from concurrent import futures
from contextlib import AbstractContextManager, nullcontext
from typing import NamedTuple

import jax
import jax.numpy as jnp
import optax
from jax import stages
from jaxtyping import Array, Float, Int, PyTree

from jaxner import devices, models
from jaxner.data.batching import Plan, Shape
from jaxner.training import objectives, optimizers
from jaxner.training.cluster import ONE_DEVICE, SEED, Placement
from jaxner.training.corpus import Arrays, Corpus, take

Params = PyTree[Array]
Compiling = Callable[[Shape | None], AbstractContextManager[None]]
_NO_OPTIMIZER = optax.identity()


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
    sums = {name: jnp.zeros((), jnp.float32) for name in names}
    return State(jnp.zeros((), jnp.int32), params, tx.init(params), sums)


def placed(state: State, place: Placement) -> State:
    """Returns a state on its devices; all of these hold values for the host."""
    return State(*map(devices.put, state, _shardings(place)[0]))


class Sums(NamedTuple):
    """Sums over the blocks of a batch so far, and the number of these blocks."""

    number: Int[Array, ""]
    loss: Float[Array, ""]
    grads: Params


def zeros(params: Params) -> Sums:
    """Returns the sums over no block."""
    grads = jax.tree.map(jnp.zeros_like, params)
    return Sums(jnp.zeros((), jnp.int32), jnp.zeros((), jnp.float32), grads)


def add(
    recipe: Recipe,
    shape: Shape,
    is_alone: bool,
    sums: Sums | None,
    state: State,
    vectors: Float[Array, "*K B T L D"] | None,
    plan: Plan,
    key: Array,
    frozen: Params,
    arrays: Arrays,
) -> Sums | State:
    """Returns sums with the next block of a step, but without terms of weights alone.

    Without `sums` the block is a whole batch: returns the state after its update.
    `vectors` are those of the block's tokens, if they do not lie on the device; `key`
    is the run's. If a run `is_alone`, all but `frozen` and `arrays` have an axis of
    restarts of size 1: with it, a GPU would start a tenth more kernels.
    """
    inputs = sums, state, vectors, plan, key
    if is_alone:
        inputs = jax.tree.map(lambda leaf: leaf[0], inputs)
    sums, state, vectors, plan, key = inputs
    total = zeros(state.params) if sums is None else sums
    block = plan.steps[state.step % len(plan.steps)] + total.number
    batch, labels, places = take(arrays, plan, block, shape, vectors, recipe.place)
    weights = {"params": state.params, "frozen": frozen}
    key = jax.random.fold_in(key, state.step)
    options = batch, labels, places, key, recipe.objective, recipe.sizes
    # XLA drops the gradient of what is frozen.
    loss = jax.value_and_grad(objectives.sentence_loss, argnums=1, allow_int=True)
    value, grads = loss(recipe.model, weights, *options)
    # XLA adds rows of a table in place, without a table of zeros.
    grads = jax.tree.map(jnp.add, total.grads, grads["params"])
    new: State | Sums = Sums(total.number + 1, total.loss + value, grads)
    if sums is None:
        new = update(recipe, state, new)
    return jax.tree.map(lambda leaf: leaf[None], new) if is_alone else new


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

    `frozen` has an axis of restarts unless `is_shared`, as with one; `keys` are `[K]`.
    `compiling` returns a context for the wait for a program, by the shape of its block,
    None for an update alone.
    """

    def __init__(
        self,
        recipe: Recipe,
        corpus: Corpus,
        frozen: Params,
        keys: Array,
        is_shared: bool = True,
        compiling: Compiling = nullcontext,
    ):
        is_whole = corpus.batches.is_whole
        options = is_whole, is_shared, len(keys)
        # What only adds is the same for any optimizer, and compiles once.
        adding = recipe if is_whole else recipe._replace(tx=_NO_OPTIMIZER)
        self._begin, end = ends(recipe)
        self._programs: dict[Shape | None, stages.Wrapped] = {None: end}
        self._programs |= {
            x: program(adding, x, *options) for x in corpus.batches.shapes
        }
        # CPU devices share their threads: several programs at once may wait for each
        # other's for ever.
        mesh = recipe.place.mesh
        is_simulated = mesh is not None and mesh.devices.flat[0].platform == "cpu"
        self._wait = jax.block_until_ready if is_simulated else lambda arrays: arrays
        self._is_whole, self._keys, self._rest = is_whole, keys, (frozen, corpus.arrays)
        self._sums: Sums | None = None  # zeros between steps: the memory stays
        self._compiling = compiling
        self._threads = futures.ThreadPoolExecutor(_num_threads())
        self._executables: dict[Shape | None, futures.Future[stages.Compiled]] = {}
        self._ready: set[Shape | None] = set()

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
        if self._sums is None and not self._is_whole:
            self._sums = self._begin(state.params)
        if not self._executables:
            self._foresee(state, plan, blocks)
        for shape, vectors in blocks:
            result = self._run(shape, *self._operands(vectors, state, plan))
            if self._is_whole:
                return result
            self._sums = result
        state, self._sums = self._run(None, state, self._sums)
        return state

    def _operands(
        self, vectors: Array | None, state: State, plan: Plan
    ) -> tuple[PyTree, ...]:
        """Returns the operands of `add` for a block."""
        if not self._is_whole:  # what adds takes no part in the update
            state = state._replace(opt_state=(), sums={})
        return self._sums, state, vectors, plan, self._keys, *self._rest

    def _run(self, name: Shape | None, *operands: PyTree) -> PyTree:
        """Returns the results of a program; waits until it is compiled."""
        if name not in self._ready:
            with self._compiling(name):
                self._submit(name, *operands)
                self._executables[name].result()
            self._ready.add(name)
        return self._wait(self._programs[name](*operands))

    def _submit(self, name: Shape | None, *operands: PyTree) -> None:
        """Compiles a program in a thread; `jit` finds later what this has made."""
        if name not in self._executables:
            lower = self._programs[name].lower
            task = self._threads.submit(lambda: lower(*operands).compile())
            self._executables[name] = task

    def _foresee(
        self, state: State, plan: Plan, blocks: Sequence[tuple[Shape, Array | None]]
    ) -> None:
        """Begins to compile all programs, those of the next step first.

        But for shapes whose vectors are not there yet.
        """
        vectors = dict(blocks)
        if None in vectors.values():
            vectors |= {x: None for x in self._programs if x and x not in vectors}
        for shape, values in vectors.items():
            self._submit(shape, *self._operands(values, state, plan))
            if shape == blocks[-1][0] and not self._is_whole:
                self._submit(None, state, self._sums)


def _num_threads() -> int:
    """Returns how many programs compile at once: one in each of several processes.

    They would wait for each other for ever if they compiled in different orders.
    """
    if jax.process_count() > 1:
        return 1
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 2


@functools.cache  # runs with equal recipes share compiled programs
def program(
    recipe: Recipe, shape: Shape, is_whole: bool, is_shared: bool, number: int
) -> stages.Wrapped:
    """Returns `add` over a number of restarts, for blocks of a shape; see `Step`."""
    function, place = functools.partial(add, recipe, shape, number == 1), recipe.place
    if number > 1:
        axes = *(0,) * 5, None if is_shared else 0, None
        function = jax.vmap(function, axes, spmd_axis_name=place.mesh and SEED)
    state, sums = _shardings(place)
    output, index = (state, 1) if is_whole else (sums, 0)
    return jax.jit(function, donate_argnums=index, out_shardings=output)


@functools.cache
def ends(recipe: Recipe) -> tuple[stages.Wrapped, stages.Wrapped]:
    """Returns what begins sums over blocks, and what ends a step, over restarts."""

    def end(state, sums):
        return update(recipe, state, sums), zeros(state.params)

    shardings: PyTree = _shardings(recipe.place)
    return (
        jax.jit(jax.vmap(zeros), out_shardings=shardings[1]),
        jax.jit(jax.vmap(end), donate_argnums=(0, 1), out_shardings=shardings),
    )


def _shardings(place: Placement) -> tuple[PyTree, PyTree]:
    """Returns the shardings of a state and of sums."""
    weights: PyTree = place.sharding(SEED)
    whole: PyTree = place.sharding()
    return State(whole, weights, weights, whole), Sums(whole, weights, weights)
