"""The papers' optimizers, from Optax's parts."""

from __future__ import annotations

import dataclasses
import functools
import inspect
import json
from collections.abc import Mapping, Sequence, Set
from typing import Annotated, Any, Literal

import jax
import jax.numpy as jnp
import optax
from jaxtyping import PyTree

from jaxner import devices, fields
from jaxner.fields import Count, Momentum, OneOf, Part, Positive, Share, Weight

SHARED = ("clip_norm", "clip", "parts")
"""Options that parts do not have."""

_LAYERS = "['layers']"

REST = "rest"
"""The parameters below the path of no part."""


def _adam_like(
    nesterov: bool,
    learning_rate: optax.ScalarOrSchedule,
    b1: float = 0.9,
    b2: float = 0.999,
    eps: float = 1e-8,
) -> optax.GradientTransformation:
    """Returns Adam as in TensorFlow, whose only bias correction is that of the rate.

    With ε added before the bias correction of √v, the step is α_t m_t / (√v_t + ε),
    where α_t = α √(1 - β2^t) / (1 - β1^t). The ε of `optax.adam` damps the first step
    32 times less; Strubell et al.'s (2017) 1e-4 and 1e-6 are for the form here.

    With Nesterov momentum, as `tf.contrib.opt.NadamOptimizer`, β1 m_t + (1 - β1) g_t
    stands for m_t. `optax.nadam` corrects the bias of m_t by 1 - β1^(t+1), which
    shortens its first steps. Neither has the momentum schedule of Dozat's report.

    References:
        Kingma and Ba, "Adam", ICLR 2015, section 2, end (ε̂); Dozat, "Incorporating
        Nesterov Momentum into Adam", ICLR workshop 2016; TensorFlow's `ApplyAdam`.

    Example:
        >>> tx = adam_eps_hat(0.1, b1=0.0, b2=0.75, eps=1.0)
        >>> grad = jnp.array(2.0)  # m = 2, v = 1, α_1 = 0.05
        >>> updates, state = tx.update(grad, tx.init(grad))
        >>> round(float(updates), 6)
        -0.05
    """

    def update(updates, state, params=None):
        del params
        count = optax.safe_increment(state.count)
        mu = optax.tree.update_moment(updates, state.mu, b1, 1)
        nu = optax.tree.update_moment(updates, state.nu, b2, 2)
        # Nesterov's look-ahead: m as if the same gradient came again.
        momentum = optax.tree.update_moment(updates, mu, b1, 1) if nesterov else mu
        scale = jnp.sqrt(1 - b2**count) / (1 - b1**count)

        def step(m, v):
            return scale.astype(m.dtype) * m / (jnp.sqrt(v) + eps)

        steps = jax.tree.map(step, momentum, nu)
        return steps, optax.ScaleByAdamState(count, mu=mu, nu=nu)

    return optax.chain(
        optax.GradientTransformation(optax.scale_by_adam().init, update),
        optax.scale_by_learning_rate(learning_rate),
    )


adam_eps_hat = functools.partial(_adam_like, False)
nadam = functools.partial(_adam_like, True)
adam_eps_hat.__doc__ = nadam.__doc__ = _adam_like.__doc__
OPTIMIZERS = {
    "adam": optax.adam,
    "adam_eps_hat": adam_eps_hat,
    "adamw": optax.adamw,
    "nadam": nadam,
    "sgd": optax.sgd,
}


@dataclasses.dataclass(frozen=True)
class Options:
    """Options of an optimizer; None means the default of the named one.

    Attributes:
        name: The optimizer.
        learning_rate: Initial rate; with a warm-up, the highest rate.
        decay: The rate of an epoch (from 0) is learning_rate / (1 + decay · epoch).
        warmup: Share of the steps in which the rate rises, before it falls to zero,
            both linearly.
        clip_norm: Maximum norm of the gradient; 0 for no limit.
        clip: Clip the gradients of all parts together ("joint", the default), or those
            of each part alone ("parts").
        weight_decay: Weight of the parameters added to the clipped gradient; for
            "adamw", added to the step.
        momentum: Momentum of "sgd".
        nesterov: Whether momentum is Nesterov's, in "sgd", "adam" and "adamw".
        b1: Decay of the mean of the gradient, in Adam's family.
        b2: Decay of the mean of the squared gradient, in Adam's family.
        eps: Added to the root of the mean squared gradient, in Adam's family.
        eps_root: Added to the mean squared gradient below the root, in "adam", "adamw".
        layer_decay: Each layer of a pretrained encoder moves by this share of the layer
            above; the piece vectors move least (Howard and Ruder, ACL 2018).
        frozen_layers: Number of lowest layers of a pretrained encoder that keep their
            weights, as its piece vectors do.
        parts: Such options for some weights, by the path to these.
    """

    name: Annotated[str, OneOf(sorted(OPTIMIZERS))] = "sgd"
    learning_rate: Weight = 0.01
    decay: Weight | None = None
    warmup: Share | None = None
    clip_norm: Weight | None = None
    clip: Literal["joint", "parts"] | None = None
    weight_decay: Weight | None = None
    momentum: Momentum | None = None
    nesterov: bool | None = None
    b1: Momentum | None = None
    b2: Momentum | None = None
    eps: Positive | None = None
    eps_root: Weight | None = None
    layer_decay: Share | None = None
    frozen_layers: Count | None = None
    parts: Annotated[
        Mapping[str, Mapping[str, Any]] | None,
        Part(Options, is_many=True),  # pyright: ignore[reportUndefinedVariable]
    ] = None


def own_options(name: str) -> Set[str]:
    """Returns the names of the options that an optimizer itself takes."""
    parameters = inspect.signature(OPTIMIZERS[name]).parameters
    return parameters.keys() & {field.name for field in dataclasses.fields(Options)}


def schedule(
    rate: float,
    steps_per_epoch: int,
    num_epochs: int | None = None,
    decay: float = 0.0,
    warmup: float | None = None,
) -> optax.Schedule:
    """Returns the rate by step; the arguments are those of `Options` and `build`.

    Example:
        >>> rate = schedule(0.02, steps_per_epoch=10, decay=0.02)
        >>> [round(float(rate(step)), 6) for step in (0, 9, 10, 500)]
        [0.02, 0.02, 0.019608, 0.01]
        >>> warm = schedule(1.0, steps_per_epoch=5, num_epochs=2, warmup=0.2)
        >>> [float(warm(step)) for step in (0, 1, 2, 6, 10)]
        [0.0, 0.5, 1.0, 0.5, 0.0]
    """
    if warmup is None:
        return lambda step: rate / (1 + decay * jnp.floor_divide(step, steps_per_epoch))
    if decay or num_epochs is None:
        raise ValueError("optimizer.warmup needs a number of epochs, and no decay")
    num_steps = steps_per_epoch * num_epochs
    rise = round(warmup * num_steps)
    climb = optax.linear_schedule(0.0, rate, rise)
    descent = optax.linear_schedule(rate, 0.0, num_steps - rise)
    return optax.join_schedules([climb, descent], [rise])


def build(
    options: Mapping[str, Any], steps_per_epoch: int, num_epochs: int | None = None
) -> optax.GradientTransformation:
    """Returns the optimizer of a config's options; equal options give the same object.

    The options are `name`, those of `Options`, and `parts`: such options for the
    parameters at a path ("refinement", "head/transitions"). All parts share
    `clip_norm`. A `warmup` needs `num_epochs`.

    Raises:
        ValueError: The name or an option is unknown; or, from `init`, a part has no
            parameters below its path.
    """

    def plain(value):  # of NumPy or JAX, or another kind of mapping
        return value.tolist() if hasattr(value, "tolist") else dict(value)

    text = json.dumps(options, sort_keys=True, default=plain)
    return _build(text, steps_per_epoch, num_epochs)


@functools.cache  # so that runs share compiled steps
def _build(text: str, steps_per_epoch: int, num_epochs: int | None):
    def choices(section):
        return {name: value for name, value in section.items() if value is not None}

    options = json.loads(text, object_hook=choices)
    clip_norm, parts = options.pop("clip_norm", 0.0), options.pop("parts", {})
    is_separate = options.pop("clip", "joint") == "parts"
    if is_separate and not (parts and clip_norm):
        raise ValueError(
            "optimizer.clip='parts' needs optimizer.parts and optimizer.clip_norm"
        )
    clip = clip_to(clip_norm) if clip_norm else optax.identity()

    def of_part(section, options):
        tx = _single(section, options, steps_per_epoch, num_epochs)
        return optax.chain(clip, tx) if is_separate else tx

    tx = of_part("optimizer", options)
    if parts:
        txs = {p: of_part(f"optimizer.parts.{p}", o) for p, o in parts.items()}
        choose = functools.partial(part_of_each, paths=tuple(parts))
        tx = optax.partition({**txs, REST: tx}, choose)
    whole = tx if is_separate or not clip_norm else optax.chain(clip, tx)

    def update(updates, state, params=None):
        with jax.numpy_dtype_promotion("standard"):  # Optax mixes dtypes
            return whole.update(updates, state, params)

    return optax.GradientTransformation(whole.init, update)


def _single(section: str, options: dict[str, Any], steps_per_epoch: int, num_epochs):
    """Returns the optimizer of one section, without clipping."""
    name, rate = options.pop("name"), options.pop("learning_rate")
    fields.check_word("optimizer", name, sorted(OPTIMIZERS))
    settings = {x: options.pop(x) for x in own_options(name) & options.keys()}
    times = {x: options.pop(x) for x in ("decay", "warmup") if x in options}
    rates = schedule(rate, steps_per_epoch, num_epochs, **times)
    slower = by_layer(options.pop("layer_decay", 1.0), options.pop("frozen_layers", 0))
    # AdamW has its own; elsewhere, decay is part of the clipped gradient.
    decay = options.pop("weight_decay", 0.0)
    for option in options:
        known = own_options(name) | {"decay", "warmup", "weight_decay"}
        known |= {"layer_decay", "frozen_layers"}
        known |= {"clip_norm", "clip", "parts"} if section == "optimizer" else set()
        names = ", ".join(sorted(known))
        raise ValueError(f"Unknown option {section}.{option} of {name}; known: {names}")
    steps = [optax.add_decayed_weights(decay)] if decay else []
    steps += [OPTIMIZERS[name](rates, **settings), *slower]
    return optax.chain(*steps) if steps[1:] else steps[0]


def by_layer(decay: float, frozen: int) -> list[optax.GradientTransformation]:
    """Returns what `layer_decay` and `frozen_layers` do to updates; [] for nothing."""
    if decay == 1 and not frozen:
        return []

    def update(updates, params=None):
        del params
        paths, _ = jax.tree_util.tree_flatten_with_path(updates)
        names = {jax.tree_util.keystr(path): leaf for path, leaf in paths}
        layers = [name for name in names if _LAYERS in name]
        if not layers:
            raise ValueError(
                "optimizer: layer_decay and frozen_layers need a part with the layers "
                "of a pretrained encoder, such as parts.bert"
            )
        count, encoder = len(names[layers[0]]), layers[0].partition(_LAYERS)[0]
        # Of the piece vectors, and of each layer.
        shares = decay ** jnp.arange(count, -1, -1.0)
        is_frozen = jnp.arange(count + 1) < (frozen and frozen + 1)
        shares = jnp.where(is_frozen, 0.0, shares)

        def scale(path, leaf):
            name = jax.tree_util.keystr(path)
            if _LAYERS in name:
                return leaf * shares[1:].reshape(-1, *(1,) * (leaf.ndim - 1))
            is_below = not any(part in name for part in ("final_norm", "head_"))
            return leaf * shares[0] if is_below and name.startswith(encoder) else leaf

        return jax.tree_util.tree_map_with_path(scale, updates)

    return [optax.stateless(update)]


def norm(tree: PyTree) -> jax.Array:
    """Returns the Euclidean norm of a tree; one sum on an accelerator, not one each."""

    def whole(leaves):
        rows = [jnp.ravel(leaf) for leaf in leaves]
        return jnp.linalg.norm(jnp.concatenate([jnp.zeros(0, "float32"), *rows]))

    leaves = jax.tree.leaves(tree)
    return devices.by_target(leaves, cpu=optax.tree.norm, default=whole)


def clip_to(limit: float) -> optax.GradientTransformation:
    """Returns `optax.clip_by_global_norm` by our `norm`."""

    def update(updates, params=None):
        del params
        size = norm(updates)

        def clip(leaf):
            return jnp.where(size < limit, leaf, leaf / size.astype(leaf.dtype) * limit)

        return jax.tree.map(clip, updates)

    return optax.stateless(update)


def part_of_each(params: PyTree, paths: Sequence[str]) -> PyTree[str]:
    """Returns the part of every parameter: the longest path to it, or `REST`.

    A path may begin anywhere in the tree, and end at one array: "bert" also matches a
    refinement's own, "head/transitions" what a CRF knows of label pairs.
    """
    matches = set()

    def part(path, leaf):
        del leaf
        name = jax.tree_util.keystr(path, simple=True, separator="/")
        matching_paths = [p for p in paths if f"/{p}/" in f"/{name}/"]
        matches.update(matching_paths)
        return max(matching_paths, key=len, default=REST)

    labels = jax.tree_util.tree_map_with_path(part, params)
    if absent_paths := [path for path in paths if path not in matches]:
        raise ValueError(
            f"optimizer.parts has {absent_paths[0]!r}, but the model has no parameters "
            f"below this path; its top level has {', '.join(sorted(params))}"
        )
    return labels


def part_norms(grads: PyTree, paths: Sequence[str]) -> dict[str, jax.Array]:
    """Returns the gradient's norm for each part and `REST`, before clipping."""
    labels = jax.tree.leaves(part_of_each(grads, paths))
    pairs = list(zip(jax.tree.leaves(grads), labels, strict=True))
    return {
        path: norm([leaf for leaf, part in pairs if part == path])
        for path in (*paths, REST)
    }
