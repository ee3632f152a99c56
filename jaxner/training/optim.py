"""Optimizers as the papers use them, put together from Optax's parts."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Mapping
from typing import Any

import jax.numpy as jnp
import optax

OPTIMIZERS = {"sgd": optax.sgd, "adam": optax.adam}


def inverse_epoch_decay(
    learning_rate: float, decay: float, steps_per_epoch: int
) -> optax.Schedule:
    """Returns the schedule learning_rate / (1 + decay · epoch), epochs from 0.

    Example:
        >>> schedule = inverse_epoch_decay(0.02, 0.02, steps_per_epoch=10)
        >>> [round(float(schedule(step)), 6) for step in (0, 9, 10, 500)]
        [0.02, 0.02, 0.019608, 0.01]
    """

    def schedule(step):
        return learning_rate / (1 + decay * jnp.floor_divide(step, steps_per_epoch))

    return schedule


def build(
    options: Mapping[str, Any], steps_per_epoch: int
) -> optax.GradientTransformation:
    """Builds an optimizer from the options of a config.

    Args:
        options: `name`, one of `OPTIMIZERS`; `learning_rate`; `decay` of it over epochs
            (see `inverse_epoch_decay`); `clip_norm`, the largest global norm of the
            gradient, or None; and the named optimizer's own arguments.
        steps_per_epoch: Number of batches.

    Raises:
        ValueError: The name or an option is unknown.

    Example:
        >>> tx = build({"name": "sgd", "learning_rate": 0.1, "momentum": 0.9}, 10)
        >>> state = tx.init({"w": 1.0})
    """
    return _build(tuple(sorted(options.items())), steps_per_epoch)


@functools.cache  # equal options give the same object, and so share compiled steps
def _build(items: tuple[tuple[str, Any], ...], steps_per_epoch: int):
    options = dict(items)
    name, rate = options.pop("name"), options.pop("learning_rate")
    decay, clip_norm = options.pop("decay", 0.0), options.pop("clip_norm", None)
    if name not in OPTIMIZERS:
        known = ", ".join(sorted(OPTIMIZERS))
        raise ValueError(f"Unknown optimizer {name!r}; known: {known}")
    known = list(inspect.signature(OPTIMIZERS[name]).parameters)[1:]
    for option in options:
        if option not in known:
            raise ValueError(
                f"Unknown option optimizer.{option} of {name}; known: learning_rate, "
                f"decay, clip_norm, {', '.join(known)}"
            )
    schedule = inverse_epoch_decay(rate, decay, steps_per_epoch)
    optimizer = OPTIMIZERS[name](schedule, **options)
    if clip_norm is None:
        return optimizer
    return optax.chain(optax.clip_by_global_norm(clip_norm), optimizer)
