"""Optimizer steps: the only place where training uses `jit`.

A step adds the gradients of its batch's blocks, one block after another, and then
updates the parameters once; of a batch of one block, both are one program. Restarts
(`K`, at least one) are a leading axis of the state, of the keys and of every block.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Int

from jaxner import models
from jaxner.data.batching import Plan, Shape
from jaxner.training import objectives, optimizers
from jaxner.training.cluster import ALONE, Placement
from jaxner.training.corpus import Arrays, take


class State(NamedTuple):
    """Everything that a run needs to continue, besides its config.

    `step`, the number of steps so far, determines dropout masks and the next batches.
    `sums` are metrics since the start of the epoch: the `loss` of the batches in nats
    and, for the parts of an optimizer, `gradient_norm_…`. They stay on the device, so
    that no step waits for the host.
    """

    step: Int[Array, ""]
    params: Any
    opt_state: Any
    sums: dict[str, Array]


class Recipe(NamedTuple):
    """The constants of all steps; `parts` are paths of the parts of the optimizer."""

    model: models.Model
    tx: optax.GradientTransformation
    objective: objectives.Objective
    sizes: objectives.Sizes
    parts: tuple[str, ...] = ()
    place: Placement = ALONE


def init(
    params: Any, tx: optax.GradientTransformation, parts: tuple[str, ...] = ()
) -> State:
    """Returns the state before the first step, without the axis of restarts."""
    names = [*parts, optimizers.REST] if parts else []
    names = ["loss", *(f"gradient_norm_{name}" for name in names)]
    sums = {name: jnp.zeros(()) for name in names}
    return State(jnp.zeros((), jnp.int32), params, tx.init(params), sums)


def loss_and_gradient(
    recipe: Recipe, shape: Shape, params: Any, step: Array, *operands: Any
):
    """Returns a block's loss and gradient, without the terms of the weights alone.

    `operands` are the vectors of the block's tokens, if they do not lie on the device;
    the plan of the epoch, the key of the run, its frozen weights, the arrays of its
    corpus, and the number of the block in its batch.
    """
    vectors, plan, key, frozen, arrays, number = operands
    block = plan.steps[step % len(plan.steps)] + number
    batch, labels, places = take(arrays, plan, block, shape, vectors, recipe.place)
    key = jax.random.fold_in(key, step)
    options = places, key, recipe.objective, recipe.sizes

    def loss_of(params):
        weights = {"params": params, "frozen": frozen}
        return objectives.sentence_loss(recipe.model, weights, batch, labels, *options)

    return jax.value_and_grad(loss_of)(params)


def whole(recipe: Recipe, shape: Shape, state: State, *operands: Any) -> State:
    """Returns the state after a step on a batch of one block."""
    added = loss_and_gradient(recipe, shape, state.params, state.step, *operands)
    return update(recipe, state, *added)


def update(recipe: Recipe, state: State, loss: Any, grads: Any) -> State:
    """Returns the state after an update with the sums over all blocks of a batch."""
    of_weights = jax.value_and_grad(objectives.weight_loss, argnums=1)
    penalty, by_weights = of_weights(recipe.model, state.params, recipe.objective)
    grads = jax.tree.map(jnp.add, grads, by_weights)
    new = {"loss": loss + penalty}
    if recipe.parts:
        norms = optimizers.part_norms(grads, recipe.parts)
        new |= {f"gradient_norm_{name}": norm for name, norm in norms.items()}
    updates, opt_state = recipe.tx.update(grads, state.opt_state, state.params)
    params = optax.apply_updates(state.params, updates)
    sums = jax.tree.map(jnp.add, state.sums, new)
    return State(state.step + 1, params, opt_state, sums)


class Step:
    """Takes the steps of a run, or of several restarts at once.

    `num_blocks` is the largest number of blocks in a batch. `frozen` has an axis of
    restarts unless `is_shared`, as with one; `keys` are `[K]`. `compiling` returns a
    context for the call of a program, by the shape of its block, None for an update
    alone.
    """

    def __init__(
        self,
        recipe: Recipe,
        num_blocks: int,
        frozen: Any,
        arrays: Arrays,
        keys: Array,
        is_shared: bool = True,
        compiling: Callable[[Any], Any] = contextlib.nullcontext,
    ):
        self._programs = _programs(recipe, is_shared)
        # CPU devices share their threads: several programs at once may wait for each
        # other's for ever.
        mesh = recipe.place.mesh
        is_simulated = mesh is not None and mesh.devices.flat[0].platform == "cpu"
        self._wait = jax.block_until_ready if is_simulated else lambda arrays: arrays
        self._keys, self._rest = keys, (frozen, arrays)
        numbers = [jnp.int32(number) for number in range(num_blocks)]
        self._numbers = recipe.place.everywhere(numbers)
        self._sums: Any = None  # zeros between steps, whose memory is used again
        self._compiling = compiling

    def __call__(
        self, state: State, plan: Plan, blocks: Sequence[tuple[Shape, Any]]
    ) -> State:
        """Returns the state after a step; donates `state`.

        The arguments are what `Corpus.epoch` yields. The step that comes next in the
        plan is that of the state.
        """
        whole, begin, add, end = self._programs
        rest = plan, self._keys, *self._rest
        if len(self._numbers) == 1:
            ((shape, vectors),) = blocks
            with self._compiling(shape):
                operands = state, vectors, *rest, self._numbers[0]
                return self._wait(whole(shape, *operands))
        if self._sums is None:
            self._sums = begin(state.params)
        for (shape, vectors), number in zip(blocks, self._numbers, strict=False):
            operands = self._sums, state.params, state.step, vectors, *rest, number
            with self._compiling(shape):
                self._sums = self._wait(add(shape, *operands))  # donates the sums
        with self._compiling(None):
            state, self._sums = self._wait(end(state, self._sums))
        return state


@functools.cache  # runs with equal recipes share compiled programs
def _programs(recipe: Recipe, is_shared: bool):
    """Returns a step of one block; empty sums, the sums with a block, an update."""
    place = recipe.place

    def begin(params):
        return jnp.zeros(()), jax.tree.map(jnp.zeros_like, params)

    def add(recipe, shape, sums, *operands):
        new = loss_and_gradient(recipe, shape, *operands)
        # XLA adds rows of a table in place, without a table of zeros.
        return jax.tree.map(jnp.add, sums, new)

    def end(state, sums):
        return update(recipe, state, *sums), jax.tree.map(jnp.zeros_like, sums)

    def mapped(function, shape, *operands):
        function = functools.partial(function, recipe, shape)
        *stacked, frozen, arrays, number = operands
        if len(stacked[-1]) > 1:
            axes = *(0 for _ in stacked), None if is_shared else 0, None, None
            return jax.vmap(function, axes, **place.restarts)(*operands)
        # On a CPU, products with an axis of size 1 take a tenth longer.
        single = jax.tree.map(lambda leaf: leaf[0], stacked)
        return jax.tree.map(
            lambda leaf: leaf[None], function(*single, frozen, arrays, number)
        )

    def program(function, out):
        options: Any = {"static_argnums": 0, "donate_argnums": 1, "out_shardings": out}
        return jax.jit(functools.partial(mapped, function), **options)

    sums: Any = place.of_weights
    same: Any = place.whole
    state = place.mesh and State(same, sums, sums, same)
    ends: Any = state and (state, sums)
    return (
        program(whole, state),
        jax.jit(jax.vmap(begin), out_shardings=sums),
        program(add, sums),
        jax.jit(jax.vmap(end), donate_argnums=(0, 1), out_shardings=ends),
    )
