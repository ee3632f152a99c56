"""Optimizer steps: the only place where training meets `jit`.

A step adds the gradients of the blocks of its batch, one block after the other, and
then updates the parameters once. Shape letters: `B` sentences, `T` tokens.
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
from jaxner.training import objectives
from jaxner.training.cluster import ALONE, Placement
from jaxner.types import Sentence


class State(NamedTuple):
    """All that a run needs to go on, besides its config.

    Attributes:
        step: Optimizer steps so far; decides the dropout masks and the batches to come.
        params: The trained arrays.
        opt_state: The optimizer's.
        loss: Sum of the batch losses since the epoch began, in nats. Kept on the
            device, so that no step waits for the host.
    """

    step: Int[Array, ""]
    params: Any
    opt_state: Any
    loss: Float[Array, ""]


class Sums(NamedTuple):
    """What the blocks of a batch have added up so far.

    Attributes:
        grads: Like the parameters.
        loss: In nats.
    """

    grads: Any
    loss: Float[Array, ""]


class Recipe(NamedTuple):
    """What stays the same in all steps, and what programs are compiled for.

    Attributes:
        model: What `models.build` returned.
        tx: The optimizer.
        objective: What is minimised.
        sizes: What sums over a batch are divided by.
    """

    model: models.Model
    tx: optax.GradientTransformation
    objective: objectives.Objective
    sizes: objectives.Sizes


def character_rows(model: models.Model) -> str:
    """Returns how a model wants characters listed, one of `batching.CHARS`."""
    readers = models.character_readers(model)
    if not readers:
        return "none"
    return "token" if any(getattr(r, "dropout", 0) for r in readers) else "distinct"


def init(params: Any, tx: optax.GradientTransformation) -> State:
    """Returns the state before the first step."""
    # One array each: the state is donated, and a buffer cannot be donated twice.
    return State(jnp.zeros((), jnp.int32), params, tx.init(params), jnp.zeros(()))


def reset_loss(state: State) -> State:
    """Returns the state at the beginning of an epoch."""
    zeros = np.zeros(state.loss.shape, np.float32)
    return state._replace(loss=devices.put_like(zeros, state.loss))


def count(state: State) -> int:
    """Returns how many steps were taken; all restarts take as many."""
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
    """Adds the loss and the gradients of a block.

    Args:
        recipe: What is trained, and how.
        params: The trained arrays.
        frozen: The weights that no step changes.
        block: Sentences of the batch.
        step: Optimizer steps so far.
        key: The run's; the step is folded in.
        sums: Of the blocks before it.
    """

    def loss_of(params):
        return objectives.sentence_loss(
            recipe.model,
            {"params": params, "frozen": frozen},
            *block,
            jax.random.fold_in(key, step),
            recipe.objective,
            recipe.sizes,
        )

    loss, grads = jax.value_and_grad(loss_of)(params)
    # XLA adds the rows of a table where they stand, and makes no table of zeros first.
    return Sums(jax.tree.map(jnp.add, sums.grads, grads), sums.loss + loss)


def apply(recipe: Recipe, state: State, sums: Sums) -> State:
    """Updates the parameters once, given the sums over all blocks of a batch."""
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
    """Updates the parameters on one batch.

    Args:
        recipe: What is trained, and how.
        state: Before the step.
        frozen: The weights that no step changes.
        blocks: The batch.
        key: The run's; the step number is folded in.
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
    """Compiles `update`, for a loop of one's own; `state` is given up.

    The divisor of a mean is what the batch holds. The arguments are those of `Recipe`
    and of `update`.
    """
    sizes = objectives.sizes_of(batch)
    block = Block(batch, labels, jnp.arange(labels.shape[0]))
    return update(Recipe(model, tx, objective, sizes), state, frozen, [block], key)


class Programs(NamedTuple):
    """The parts of a run's steps under `jit`.

    What is given up is used again: the sums by the next block, the state by the next
    step, and the sums' memory by the sums of the next batch.

    Attributes:
        begin: `no_sums`.
        add: `add_block`; gives up the sums.
        apply: `apply`, and empty sums; gives up the state and the sums.
        several: `several`; gives up the state.
    """

    begin: Any
    add: Any
    apply: Any
    several: Any


@functools.cache  # runs of equal recipes share what JAX has traced
def programs(recipe: Recipe, place: Placement = ALONE) -> Programs:
    """Returns the programs of a run, or of several restarts at once.

    Args:
        recipe: What is trained, and how.
        place: Where arrays lie. With an axis of seeds, every argument has it, but for
            `count`, and for frozen weights that all seeds share.
    """

    def again(state: State, sums: Sums) -> tuple[State, Sums]:
        return apply(recipe, state, sums), jax.tree.map(jnp.zeros_like, sums)

    add, many = (functools.partial(f, recipe) for f in (add_block, several))
    begin = no_sums
    if place.num_seeds:
        frozen = 0 if place.own_frozen else None
        begin = jax.vmap(begin)
        add = jax.vmap(add, in_axes=(0, frozen, 0, 0, 0, 0))
        again = jax.vmap(again)
        many = jax.vmap(many, in_axes=(0, frozen, 0, None, 0))
    like_sums, like_state = place.shardings(), place.shardings(State)
    both = None if place.mesh is None else (like_state, like_sums)
    return Programs(
        jax.jit(begin, out_shardings=like_sums),
        jax.jit(add, donate_argnums=5, out_shardings=like_sums),
        jax.jit(again, donate_argnums=(0, 1), out_shardings=both),
        jax.jit(many, donate_argnums=0, out_shardings=like_state),
    )


def several(
    recipe: Recipe,
    state: State,
    frozen: Any,
    batches: Block,
    count: Int[Array, ""],
    key: Array,
) -> State:
    """Updates the parameters on several batches of one shape, in one call.

    Args:
        recipe: What is trained, and how.
        state: Before the steps.
        frozen: The weights that no step changes.
        batches: One block each, with a leading axis.
        count: How many of them are taken.
        key: The run's.
    """

    def one(i, state):
        block = jax.tree.map(lambda array: array[i], batches)
        return update(recipe, state, frozen, [block], key)

    return jax.lax.fori_loop(0, count, one, state)
