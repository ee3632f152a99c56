"""Optimizer steps: the only place where training uses `jit`.

A step adds the gradients of its batch's blocks, one block after another, and then
updates the parameters once. Restarts (`K`, at least one) are a leading axis of the
state, of the keys and of every block.
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
from jaxner.types import Sentence


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
    recipe: Recipe,
    params: Any,
    frozen: Any,
    batch: Sentence,
    labels: Any,
    rows: Int[Array, " B"],
    key: Array,
):
    """Returns a block's loss and gradient, without the terms of the weights alone."""
    model, _, objective, sizes, _ = recipe

    def loss_of(params):
        weights = {"params": params, "frozen": frozen}
        return objectives.sentence_loss(
            model, weights, batch, labels, rows, key, objective, sizes
        )

    return jax.value_and_grad(loss_of)(params)


def update(recipe: Recipe, state: State, loss: Any, grads: Any) -> State:
    """Returns the state after an update with the sums over all blocks of a batch."""
    penalty, by_weights = jax.value_and_grad(objectives.weight_loss, argnums=1)(
        recipe.model, state.params, recipe.objective
    )
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

    `frozen` has an axis of restarts unless `is_shared`; `keys` are `[K]`. `compiling`
    returns a context for the call of a program, by the padded size of its block, None
    for the update's.
    """

    def __init__(
        self,
        recipe: Recipe,
        frozen: Any,
        arrays: corpora.Arrays,
        keys: Array,
        place: Placement = ALONE,
        is_shared: bool = True,
        compiling: Callable[[Any], Any] = contextlib.nullcontext,
    ):
        self._begin, self._add, self._update = _programs(recipe, place, is_shared)
        self._rest = frozen, arrays, keys
        self._sums: Any = None  # zeros between steps, whose memory is used again
        self._place, self._compiling = place, compiling

    def __call__(
        self, state: State, blocks: Iterable[tuple[corpora.Shape, corpora.Block]]
    ) -> State:
        """Returns the state after a step on the blocks of a batch; donates `state`."""
        if self._sums is None:
            self._sums = self._begin(state.params)
        for size, block in blocks:
            block = self._place.batches(block)
            with self._compiling(size):  # the sums are donated
                sums = self._sums
                self._sums = self._add(
                    size, state.params, state.step, block, sums, *self._rest
                )
        with self._compiling(None):
            state, self._sums = self._update(state, self._sums)
        return state


@functools.cache  # runs with equal recipes share compiled programs
def _programs(recipe: Recipe, place: Placement, is_shared: bool):
    """Returns the programs of a step: empty sums, the sums with a block, the update."""

    def begin(params):
        return jnp.zeros(()), jax.tree.map(jnp.zeros_like, params)

    def add(size, params, step, block, sums, frozen, arrays, key):
        batch, labels = corpora.take(arrays, block, size)
        key = jax.random.fold_in(key, step)
        new = loss_and_gradient(
            recipe, params, frozen, batch, labels, block.places, key
        )
        # XLA adds rows of a table in place, without a table of zeros.
        return jax.tree.map(jnp.add, sums, new)

    def end(state, sums):
        return update(recipe, state, *sums), jax.tree.map(jnp.zeros_like, sums)

    def add_all(size, *operands):
        axes = (0, 0, 0, 0, None if is_shared else 0, None, 0)
        if len(operands[1]) > 1:
            mapped = jax.vmap(functools.partial(add, size), axes, **place.restarts)
            return mapped(*operands)
        # On a CPU, products with an axis of size 1 take a tenth longer.
        pairs = zip(operands, axes, strict=True)
        single = (
            tree if axis is None else jax.tree.map(lambda leaf: leaf[0], tree)
            for tree, axis in pairs
        )
        return jax.tree.map(lambda leaf: leaf[None], add(size, *single))

    sums: Any = place.of_weights
    whole: Any = place.whole
    state = place.mesh and State(whole, sums, sums, whole)
    return (
        jax.jit(jax.vmap(begin), out_shardings=sums),
        jax.jit(add_all, static_argnums=0, donate_argnums=4, out_shardings=sums),
        jax.jit(
            jax.vmap(end),
            donate_argnums=(0, 1),
            out_shardings=state and (state, sums),
        ),
    )
