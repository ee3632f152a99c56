"""The papers' optimizers, built from Optax's parts."""

from __future__ import annotations

import dataclasses
import functools
import inspect
from collections.abc import Mapping
from typing import Annotated, Any

import jax
import jax.numpy as jnp
import optax

from jaxner.fields import Momentum, OneOf, Positive, Share, Weight
from jaxner.training import clipping


def adam_eps_hat(
    learning_rate: optax.ScalarOrSchedule,
    b1: float = 0.9,
    b2: float = 0.999,
    eps: float = 1e-8,
) -> optax.GradientTransformation:
    """Returns Adam with epsilon added before the bias correction of √v.

    The step is α_t m_t / (√v_t + ε), where α_t = α √(1 - β2^t) / (1 - β1^t), as in
    TensorFlow. `optax.adam` adds ε to √v_t / √(1 - β2^t), where the same ε damps a step
    less: 32 times less in the first step, for β2 = 0.999. Strubell et al.'s (2017) ε of
    1e-4 or 1e-6 is for the form here.

    Args:
        learning_rate: α, or a schedule over steps.
        b1: β1, decay of the mean m of the gradient.
        b2: β2, decay of the mean v of the squared gradient.
        eps: ε (the paper's ε̂).

    References:
        Kingma and Ba, "Adam: A Method for Stochastic Optimization", ICLR 2015, end of
        section 2. TensorFlow's operation `ApplyAdam`.

    Example:
        >>> import jax.numpy as jnp
        >>> tx = adam_eps_hat(0.1, b1=0.0, b2=0.75, eps=1.0)
        >>> grad = jnp.array(2.0)  # m = 2, v = 1, α_1 = 0.05
        >>> updates, state = tx.update(grad, tx.init(grad))
        >>> round(float(updates), 6)
        -0.05
    """
    return _adam_like(learning_rate, b1, b2, eps, nesterov=False)


def nadam(
    learning_rate: optax.ScalarOrSchedule,
    b1: float = 0.9,
    b2: float = 0.999,
    eps: float = 1e-8,
) -> optax.GradientTransformation:
    """Returns Adam with Nesterov momentum, as in TensorFlow's contrib package.

    The step is α_t (β1 m_t + (1 - β1) g_t) / (√v_t + ε), with the α_t and the ε of
    `adam_eps_hat`. `optax.nadam` corrects the bias of m_t by 1 - β1^(t+1), but that of
    g_t by 1 - β1^t as here, which shortens its first steps; and it adds ε to the
    corrected √v_t. Neither has the momentum schedule of Dozat's report, which Keras
    follows.

    Args:
        learning_rate: α, or a schedule over steps.
        b1: β1, decay of the mean m of the gradient g.
        b2: β2, decay of the mean v of the squared gradient.
        eps: ε.

    References:
        Dozat, "Incorporating Nesterov Momentum into Adam", ICLR workshop 2016. The
        operation `ApplyAdam` with `use_nesterov`, which `tf.contrib.opt.NadamOptimizer`
        runs.

    Example:
        >>> import jax.numpy as jnp
        >>> tx = nadam(0.1, b1=0.5, b2=0.75, eps=1.0)
        >>> grad = jnp.array(2.0)  # m = 1, v = 1, α_1 = 0.1
        >>> updates, state = tx.update(grad, tx.init(grad))
        >>> round(float(updates), 6)
        -0.075
    """
    return _adam_like(learning_rate, b1, b2, eps, nesterov=True)


def _adam_like(learning_rate, b1, b2, eps, nesterov):
    """Returns Adam in the form whose only bias correction is that of α."""

    def init(params):
        zeros = optax.tree.zeros_like
        return optax.ScaleByAdamState(
            jnp.zeros((), jnp.int32), mu=zeros(params), nu=zeros(params)
        )

    def update(updates, state, params=None):
        del params
        count = optax.safe_increment(state.count)
        mu = optax.tree.update_moment(updates, state.mu, b1, 1)
        nu = optax.tree.update_moment(updates, state.nu, b2, 2)
        # Nesterov's look-ahead: m as if the same gradient came again.
        ahead = optax.tree.update_moment(updates, mu, b1, 1) if nesterov else mu
        scale = jnp.sqrt(1 - b2**count) / (1 - b1**count)

        def step(m, v):
            return scale.astype(m.dtype) * m / (jnp.sqrt(v) + eps)

        steps = jax.tree.map(step, ahead, nu)
        return steps, optax.ScaleByAdamState(count, mu=mu, nu=nu)

    return optax.chain(
        optax.GradientTransformation(init, update),
        optax.scale_by_learning_rate(learning_rate),
    )


OPTIMIZERS = {
    "adam": optax.adam,
    "adam_eps_hat": adam_eps_hat,
    "adamw": optax.adamw,
    "nadam": nadam,
    "sgd": optax.sgd,
}


@dataclasses.dataclass(frozen=True)
class Options:
    """Options of an optimizer, besides its `name`, which is one of `OPTIMIZERS`.

    None means the default of the named optimizer.

    Attributes:
        learning_rate: Initial rate; with a warm-up, the highest rate.
        decay: Decay of the rate over epochs; see `inverse_epoch_decay`.
        warmup: Share of the steps in which the rate rises; see `warmup_linear`.
        clip_norm: Maximum norm of the gradient; 0 for no limit.
        clip: One of `clipping.CLIPS`: clip all parts of the optimizer together (the
            default), or each part separately.
        weight_decay: Weight of the parameters added to the clipped gradient; for
            "adamw", added to the step.
        momentum: Momentum of "sgd".
        nesterov: Whether "sgd" uses Nesterov momentum.
        b1: Decay of the mean of the gradient, in Adam's family.
        b2: Decay of the mean of the squared gradient, in Adam's family.
        eps: Added to the root of that mean, in Adam's family.
        eps_root: Added below the root, in Adam's family.
    """

    learning_rate: Weight = 0.01
    decay: Weight | None = None
    warmup: Share | None = None
    clip_norm: Weight | None = None
    clip: Annotated[str, OneOf(clipping.CLIPS)] | None = None
    weight_decay: Weight | None = None
    momentum: Momentum | None = None
    nesterov: bool | None = None
    b1: Momentum | None = None
    b2: Momentum | None = None
    eps: Positive | None = None
    eps_root: Weight | None = None


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


def warmup_linear(learning_rate: float, warmup: float, num_steps: int):
    """Returns a schedule that rises linearly to a rate, then falls linearly to zero.

    Args:
        learning_rate: Highest rate.
        warmup: Share of the steps in which the rate rises.
        num_steps: Number of steps in the run.

    Example:
        >>> schedule = warmup_linear(1.0, 0.2, num_steps=10)
        >>> [float(schedule(step)) for step in (0, 1, 2, 6, 10)]
        [0.0, 0.5, 1.0, 0.5, 0.0]
    """
    rise = round(warmup * num_steps)
    return optax.join_schedules(
        [
            optax.linear_schedule(0.0, learning_rate, rise),
            optax.linear_schedule(learning_rate, 0.0, num_steps - rise),
        ],
        [rise],
    )


def build(
    options: Mapping[str, Any], steps_per_epoch: int, num_epochs: int | None = None
) -> optax.GradientTransformation:
    """Returns the optimizer of a config's options.

    Args:
        options: `name`, those of `Options`, and `parts`, such options for the
            parameters below a path ("refinement", "bert").
        steps_per_epoch: Number of batches.
        num_epochs: Epochs of the run; needed for `warmup`.

    Raises:
        ValueError: The name or an option is unknown; or, from `init`, a part has no
            parameters below its path.

    Example:
        >>> tx = build({"name": "sgd", "learning_rate": 0.1, "momentum": 0.9}, 10)
        >>> state = tx.init({"w": 1.0})
    """
    return _build(_freeze(options), steps_per_epoch, num_epochs)


def _freeze(options: Mapping[str, Any]) -> tuple[tuple[str, Any], ...]:
    """Returns options in a hashable form, without those that are None."""
    return tuple(
        (name, _freeze(value) if isinstance(value, Mapping) else value)
        for name, value in sorted(options.items())
        if value is not None
    )


@functools.cache  # equal options give the same object and share compiled steps
def _build(items: tuple[tuple[str, Any], ...], steps_per_epoch: int, num_epochs):
    options = dict(items)
    clip_norm, parts = options.pop("clip_norm", 0.0), dict(options.pop("parts", ()))
    clip = options.pop("clip", clipping.CLIPS[0])
    if clip not in clipping.CLIPS:
        known = ", ".join(clipping.CLIPS)
        raise ValueError(f"Unknown optimizer.clip {clip!r}; known: {known}")
    if clip == "parts" and not (parts and clip_norm):
        raise ValueError(
            "optimizer.clip='parts' needs optimizer.parts and optimizer.clip_norm"
        )
    make = functools.partial(_one, steps_per_epoch=steps_per_epoch, epochs=num_epochs)
    optimizer = make("optimizer", options)
    if parts:
        own = {
            path: make(f"optimizer.parts.{path}", dict(part))
            for path, part in parts.items()
        }
        choose = functools.partial(clipping.part_of_each, paths=tuple(parts))
        optimizer = optax.partition({**own, clipping.REST: optimizer}, choose)
        clipped = clipping.clip_parts(tuple(parts), clip_norm, clip, steps_per_epoch)
        return optax.chain(clipped, optimizer)
    if not clip_norm:
        return optimizer
    return optax.chain(optax.clip_by_global_norm(clip_norm), optimizer)


def _one(
    section: str, options: dict[str, Any], steps_per_epoch: int, epochs: int | None
):
    """Returns the optimizer of one section, without clipping."""
    name, rate = options.pop("name"), options.pop("learning_rate")
    if name not in OPTIMIZERS:
        known = ", ".join(sorted(OPTIMIZERS))
        raise ValueError(f"Unknown optimizer {name!r}; known: {known}")
    known = list(inspect.signature(OPTIMIZERS[name]).parameters)[1:]
    schedule = _schedule(section, rate, options, steps_per_epoch, epochs)
    if section != "optimizer" and "clip_norm" in options:
        raise ValueError(
            f"{section}.clip_norm: all parts share one limit; set optimizer.clip_norm, "
            "and optimizer.clip='parts' to clip each part separately"
        )
    decay = 0.0 if "weight_decay" in known else options.pop("weight_decay", 0.0)
    for option in options:
        if option not in known:
            own = [n for n in known if n not in ("weight_decay", "mask", "mu_dtype")]
            raise ValueError(
                f"Unknown option {section}.{option} of {name}; known: learning_rate, "
                "decay, warmup, weight_decay, clip_norm, clip, parts, "
                f"{', '.join(own)}"
            )
    optimizer = OPTIMIZERS[name](schedule, **options)
    if not decay:
        return optimizer
    return optax.chain(optax.add_decayed_weights(decay), optimizer)


def _schedule(section, rate, options, steps_per_epoch, epochs):
    decay, warmup = options.pop("decay", None), options.pop("warmup", None)
    if warmup is None:
        return inverse_epoch_decay(rate, decay or 0.0, steps_per_epoch)
    if decay or not 0 <= warmup <= 1 or epochs is None:
        raise ValueError(
            f"{section}.warmup is a share of all steps: expected a number from 0 to 1, "
            f"a number of epochs, and no decay; got warmup={warmup}, decay={decay} and "
            f"{epochs} epochs"
        )
    return warmup_linear(rate, warmup, steps_per_epoch * epochs)
