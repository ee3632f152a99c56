"""Optimizer steps: the only place where training uses `jit`.

A step adds the gradients of its batch's blocks, one block after another, and then
updates the parameters once. Shape letters: `B` sentences, `T` tokens.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, Float, Int

from jaxner import devices, models
from jaxner.data.batching import Block
from jaxner.training import objectives, resident
from jaxner.training.cluster import ALONE, Placement
from jaxner.types import Sentence


class State(NamedTuple):
    """Everything that a run needs to continue, besides its config.

    Attributes:
        step: Optimizer steps so far; determines dropout masks and the following
            batches.
        params: The trained arrays.
        opt_state: State of the optimizer.
        loss: Sum of batch losses since the start of the epoch, in nats; on the device,
            so that no step waits for the host.
    """

    step: Int[Array, ""]
    params: Any
    opt_state: Any
    loss: Float[Array, ""]


class Sums(NamedTuple):
    """Sums over the blocks of a batch so far.

    Attributes:
        grads: Gradients, with the structure of the parameters.
        loss: Loss in nats.
    """

    grads: Any
    loss: Float[Array, ""]


class Recipe(NamedTuple):
    """The constants of all steps, for which programs are compiled.

    Attributes:
        model: What `models.build` returned.
        tx: The optimizer.
        objective: Terms of the loss.
        sizes: Divisors of the sums over a batch.
    """

    model: models.Model
    tx: optax.GradientTransformation
    objective: objectives.Objective
    sizes: objectives.Sizes


def character_rows(model: models.Model) -> str:
    """Returns the rows of characters that a model needs, one of `batching.CHARS`."""
    readers = models.character_readers(model)
    if not readers:
        return "none"
    return "token" if any(getattr(r, "dropout", 0) for r in readers) else "distinct"


def init(params: Any, tx: optax.GradientTransformation) -> State:
    """Returns the state before the first step."""
    # Separate arrays, since a donated state must not contain a buffer twice.
    return State(jnp.zeros((), jnp.int32), params, tx.init(params), jnp.zeros(()))


def reset_loss(state: State) -> State:
    """Returns the state at the beginning of an epoch."""
    zeros = np.zeros(state.loss.shape, np.float32)
    return state._replace(loss=devices.put_like(zeros, state.loss))


def count(state: State) -> int:
    """Returns the number of steps, which is the same for all restarts."""
    return int(np.max(state.step))


def no_sums(params: Any) -> Sums:
    """Returns the sums before the first block."""
    return Sums(jax.tree.map(jnp.zeros_like, params), jnp.zeros(()))


def add_block(
    recipe: Recipe,
    params: Any,
    frozen: Any,
    block: Block,
    step: Int[Array, ""],
    key: Array,
    sums: Sums,
) -> Sums:
    """Returns sums with the loss and the gradients of a block added.

    Args:
        recipe: Model, optimizer and objective.
        params: The trained arrays.
        frozen: The frozen weights and, beside them, a table of precomputed vectors if
            there is one (see `resident`).
        block: Sentences of the batch.
        step: Optimizer steps so far.
        key: Key of the run, to be folded with the step.
        sums: Sums over the earlier blocks.
    """

    weights, block = resident.looked_up(frozen, block)

    def loss_of(params):
        return objectives.sentence_loss(
            recipe.model,
            {"params": params, "frozen": weights},
            *block,
            jax.random.fold_in(key, step),
            recipe.objective,
            recipe.sizes,
        )

    loss, grads = jax.value_and_grad(loss_of)(params)
    # XLA adds rows of a table in place, without a table of zeros.
    return Sums(jax.tree.map(jnp.add, sums.grads, grads), sums.loss + loss)


def apply(recipe: Recipe, state: State, sums: Sums) -> State:
    """Returns the state after an update with the sums over all blocks of a batch."""
    penalty, by_weights = jax.value_and_grad(objectives.weight_loss, argnums=1)(
        recipe.model, state.params, recipe.objective
    )
    grads = jax.tree.map(jnp.add, sums.grads, by_weights)
    updates, opt_state = recipe.tx.update(grads, state.opt_state, state.params)
    params = optax.apply_updates(state.params, updates)
    return State(state.step + 1, params, opt_state, state.loss + sums.loss + penalty)


def update(
    recipe: Recipe, state: State, frozen: Any, blocks: Sequence[Block], key: Array
) -> State:
    """Returns the state after an update on one batch.

    Args:
        recipe: Model, optimizer and objective.
        state: State before the step.
        frozen: The frozen weights.
        blocks: The batch.
        key: Key of the run, to be folded with the step.
    """
    sums = no_sums(state.params)
    for block in blocks:
        sums = add_block(recipe, state.params, frozen, block, state.step, key, sums)
    return apply(recipe, state, sums)


@functools.partial(
    jax.jit, static_argnames=("model", "tx", "objective"), donate_argnames="state"
)
def train_step(
    model: models.Model,
    tx: optax.GradientTransformation,
    state: State,
    frozen: Any,
    batch: Sentence,
    labels: Int[Array, "B T"],
    key: Array,
    *,
    objective: objectives.Objective,
) -> State:
    """Returns the state after a compiled `update`, for your own loop; donates `state`.

    A mean divides by the sizes of the batch. The arguments are those of `Recipe` and
    `update`.
    """
    sizes = objectives.sizes_of(batch)
    block = Block(batch, labels, jnp.arange(labels.shape[0]))
    return update(Recipe(model, tx, objective, sizes), state, frozen, [block], key)


class Programs(NamedTuple):
    """The compiled parts of a run's steps.

    Donation reuses memory: of the sums for the next block, of the state for the next
    step, and of the sums for the next batch.

    Attributes:
        begin: `no_sums`.
        add: `add_block`; donates the sums.
        apply: `apply`, and empty sums; donates the state and the sums.
    """

    begin: Any
    add: Any
    apply: Any


@functools.cache  # runs with equal recipes share traced programs
def programs(recipe: Recipe, place: Placement = ALONE) -> Programs:
    """Returns the programs of a run, or of several restarts at once.

    Args:
        recipe: Model, optimizer and objective.
        place: Placement of arrays. With an axis of seeds, every argument has this axis,
            except `count` and frozen weights that all seeds share.
    """

    def again(state: State, sums: Sums) -> tuple[State, Sums]:
        return apply(recipe, state, sums), jax.tree.map(jnp.zeros_like, sums)

    add, begin = functools.partial(add_block, recipe), no_sums
    if place.num_seeds:
        frozen = 0 if place.own_frozen else None
        begin = jax.vmap(begin)
        add = jax.vmap(add, in_axes=(0, frozen, 0, 0, 0, 0))
        again = jax.vmap(again)
    like_sums, like_state = place.shardings(), place.shardings(State)
    both = None if place.mesh is None else (like_state, like_sums)
    return Programs(
        jax.jit(begin, out_shardings=like_sums),
        jax.jit(add, donate_argnums=5, out_shardings=like_sums),
        jax.jit(again, donate_argnums=(0, 1), out_shardings=both),
    )
