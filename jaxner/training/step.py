"""Optimizer steps: the only place where training meets `jit`.

Shape letters: `B` sentences, `T` tokens.
"""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float, Int

from jaxner import models
from jaxner.data import batching
from jaxner.data.batching import Bucket, Rows
from jaxner.training import objectives
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


def init(params: Any, tx: optax.GradientTransformation) -> State:
    """Returns the state before the first step."""
    # One array each: the state is donated, and a buffer cannot be donated twice.
    return State(jnp.zeros((), jnp.int32), params, tx.init(params), jnp.zeros(()))


def reset_loss(state: State) -> State:
    """Returns the state at the beginning of an epoch."""
    return state._replace(loss=jnp.zeros(()))


class Recipe(NamedTuple):
    """What stays the same in all steps, and what programs are compiled for.

    Attributes:
        model: What `models.build` returned.
        tx: The optimizer.
        objective: What is minimised.
    """

    model: models.Tagger
    tx: optax.GradientTransformation
    objective: objectives.Objective


def update(
    recipe: Recipe,
    state: State,
    frozen: Any,
    batch: Sentence,
    labels: Int[Array, "B T"],
    key: Array,
    spelled: tuple[Array, Array] | None = None,
) -> State:
    """Updates the parameters on one batch.

    Args:
        recipe: What is trained, and how.
        state: Before the step.
        frozen: The weights that no step changes.
        batch: Sentences with a leading batch axis.
        labels: Their label ids.
        key: The run's; the step number is folded in.
        spelled: The characters of the distinct words of the batch, [W, C], and which of
            them each token is, [B, T]; see `models.spell`. None: the batch has its own.
    """
    model, tx, objective = recipe
    step_key = jax.random.fold_in(key, state.step)

    def loss_of(params):
        weights = {"params": params, "frozen": frozen}
        given = batch
        if spelled is not None:
            given = models.spell(model, weights, batch, *spelled)
        return objectives.batch_loss(model, weights, given, labels, step_key, objective)

    loss, grads = jax.value_and_grad(loss_of)(state.params)
    updates, opt_state = tx.update(grads, state.opt_state, state.params)
    params = optax.apply_updates(state.params, updates)
    return State(state.step + 1, params, opt_state, state.loss + loss)


@functools.partial(
    jax.jit, static_argnames=("model", "tx", "objective"), donate_argnames="state"
)
def train_step(
    model: models.Tagger,
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

    The arguments are those of `Recipe` and of `update`.
    """
    recipe = Recipe(model, tx, objective)
    return update(recipe, state, frozen, batch, labels, key)


@functools.partial(jax.jit, static_argnames="recipe", donate_argnames="state")
def train_steps(
    recipe: Recipe,
    state: State,
    frozen: Any,
    bucket: Bucket,
    rows: Rows,
    count: Int[Array, ""],
    key: Array,
) -> State:
    """Updates the parameters on several batches, one after the other, in one call.

    Args:
        recipe: What is trained, and how.
        state: Given up: its memory is used again.
        frozen: The weights that no step changes.
        bucket: Where the sentences are.
        rows: Which of them each batch takes.
        count: How many of the batches are taken.
        key: The run's.
    """

    def one(i, state):
        batch, labels = batching.take(bucket, rows, i)
        spelled = None
        if rows.words is not None and rows.places is not None:
            spelled = bucket.chars[rows.words[i]], rows.places[i]
        return update(recipe, state, frozen, batch, labels, key, spelled)

    if rows.rows.shape[0] == 1:
        return one(0, state)
    return jax.lax.fori_loop(0, count, one, state)
