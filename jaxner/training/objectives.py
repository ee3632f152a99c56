"""Objectives: what training minimises, in nats. `B` sentences, `T` tokens."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from jaxner import inference, models
from jaxner.types import Potentials, Sentence, Weights

REDUCTIONS = ("sentence", "token", "sum")
"""How the papers add sentences up: the mean over the sentences of a batch, the mean
over its tokens, or the sum. Published learning rates are tied to them."""


def negative_log_likelihood(
    potentials: Potentials, labels: Int[Array, " T"], mask: Bool[Array, " T"]
) -> Float[Array, ""]:
    """Computes -log p(labels | sentence), in nats; 0 for a sentence without tokens.

    Example:
        >>> import jax.numpy as jnp
        >>> potentials, one = Potentials(jnp.zeros((1, 2))), jnp.array([True])
        >>> float(jnp.exp(-negative_log_likelihood(potentials, jnp.array([0]), one)))
        0.5
    """
    gold = inference.score(potentials, labels, mask)
    return inference.log_partition(potentials, mask) - gold


def batch_loss(
    model: models.Tagger,
    weights: Weights,
    batch: Sentence,
    labels: Int[Array, "B T"],
    key: Array | None,
    reduction: str = "sentence",
) -> Float[Array, ""]:
    """Computes the loss of one batch; sentences without tokens do not count.

    Args:
        model: What `models.build` returned.
        weights: Its weights.
        batch: Sentences with a leading batch axis.
        labels: Label ids; ignored under padding.
        key: Source of the dropout masks, one for each sentence; None for no dropout.
        reduction: One of `REDUCTIONS`.

    Raises:
        ValueError: The reduction is unknown.
    """

    def one(sentence, labels, key):
        potentials = models.apply(model, weights, sentence, key)
        return negative_log_likelihood(potentials, labels, sentence.mask)

    keys = None if key is None else jax.random.split(key, labels.shape[0])
    losses = jax.vmap(one, in_axes=(0, 0, None if key is None else 0))(
        batch, labels, keys
    )
    total = jnp.sum(losses)
    if reduction == "sum":
        return total
    if reduction == "token":
        return total / jnp.maximum(jnp.sum(batch.mask), 1)
    if reduction == "sentence":
        return total / jnp.maximum(jnp.sum(batch.mask[:, 0]), 1)
    raise ValueError(f"Unknown reduction {reduction!r}; known: {', '.join(REDUCTIONS)}")
