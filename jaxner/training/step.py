"""Optimizer steps: the only place where training uses `jit`.

A step adds the gradients of its batch's blocks, one block after another, and then
updates the parameters once; of a batch of one block, both are one program. Restarts
(`K`, at least one) are a leading axis of the state, of the keys and of every block.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Int

from jaxner import models
from jaxner.training import corpus as corpora
from jaxner.training import objectives, optimizers
from jaxner.training.cluster import ALONE, Placement


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


def init(
    params: Any, tx: optax.GradientTransformation, parts: tuple[str, ...] = ()
) -> State:
    """Returns the state before the first step, without the axis of restarts."""
    names = [*parts, optimizers.REST] if parts else []
    names = ["loss", *(f"gradient_norm_{name}" for name in names)]
    sums = {name: jnp.zeros(()) for name in names}
    return State(jnp.zeros((), jnp.int32), params, tx.init(params), sums)


def loss_and_gradient(
    recipe: Recipe, shape: Any, params: Any, step: Array, block: Any, *rest: Any
):
    """Returns a block's loss and gradient, without the terms of the weights alone.

    `rest` is the key of the run, its frozen weights and the arrays of its corpus.
    """
    key, frozen, arrays = rest
    batch, labels = corpora.take(arrays, block, shape)
    key = jax.random.fold_in(key, step)
    options = block.places, key, recipe.objective, recipe.sizes

    def loss_of(params):
        weights = {"params": params, "frozen": frozen}
        return objectives.sentence_loss(recipe.model, weights, batch, labels, *options)

    return jax.value_and_grad(loss_of)(params)


def whole(recipe: Recipe, shape: Any, state: State, block: Any, *rest: Any) -> State:
    """Returns the state after a step on a batch of one block."""
    added = loss_and_gradient(recipe, shape, state.params, state.step, block, *rest)
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

    `num_blocks` are the blocks of each batch. `frozen` has an axis of restarts unless
    `is_shared`, as with one; `keys` are `[K]`. `compiling` returns a context for the
    call of a program, by the padded shape of its block, None for an update alone.
    """

    def __init__(
        self,
        recipe: Recipe,
        num_blocks: int,
        frozen: Any,
        arrays: corpora.Arrays,
        keys: Array,
        place: Placement = ALONE,
        is_shared: bool = True,
        compiling: Callable[[Any], Any] = contextlib.nullcontext,
    ):
        self._programs = _programs(recipe, place, is_shared)
        self._num_blocks, self._rest = num_blocks, (keys, frozen, arrays)
        self._sums: Any = None  # zeros between steps, whose memory is used again
        self._place, self._compiling = place, compiling

    def __call__(
        self, state: State, blocks: Iterable[tuple[corpora.Shape, corpora.Block]]
    ) -> State:
        """Returns the state after a step on the blocks of a batch; donates `state`."""
        whole, begin, add, end = self._programs
        placed = ((shape, self._place.batches(block)) for shape, block in blocks)
        if self._num_blocks == 1:
            ((shape, block),) = placed
            with self._compiling(shape):
                return whole(shape, state, block, *self._rest)
        if self._sums is None:
            self._sums = begin(state.params)
        for shape, block in placed:
            operands = self._sums, state.params, state.step, block, *self._rest
            with self._compiling(shape):
                self._sums = add(shape, *operands)  # donates the sums
        with self._compiling(None):
            state, self._sums = end(state, self._sums)
        return state


@functools.cache  # runs with equal recipes share compiled programs
def _programs(recipe: Recipe, place: Placement, is_shared: bool):
    """Returns a step of one block; empty sums, the sums with a block, an update."""

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
        *stacked, frozen, arrays = operands
        if len(operands[-3]) > 1:
            axes = *(0 for _ in stacked), None if is_shared else 0, None
            return jax.vmap(function, axes, **place.restarts)(*operands)
        # On a CPU, products with an axis of size 1 take a tenth longer.
        single = jax.tree.map(lambda leaf: leaf[0], stacked)
        return jax.tree.map(lambda leaf: leaf[None], function(*single, frozen, arrays))

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
