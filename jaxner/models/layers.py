"""Small parts shared by several models. `T` positions, `D` features, `K` taps."""

from __future__ import annotations

from typing import Annotated

import flax.linen as nn
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from jaxner.fields import OneOf, Rate

# He et al., "Delving Deep into Rectifiers", ICCV 2015, with the bound √(6 / fan-in).
kaiming_uniform = nn.initializers.variance_scaling(2.0, "fan_in", "uniform")
# The same for an embedding table [V, D], whose fan-in is the dimension D.
kaiming_embedding = nn.initializers.variance_scaling(2.0, "fan_out", "uniform")


def symmetric_uniform(bound: float) -> nn.initializers.Initializer:
    """Returns the initializer U(-bound, bound)."""

    def init(key, shape, dtype=jnp.float32, out_sharding=None):
        del out_sharding
        return jax.random.uniform(key, shape, dtype, -bound, bound)

    return init


def convolution_glorot(width: int) -> nn.initializers.Initializer:
    """Returns Glorot and Bengio's (2010) draw for a convolution as a matrix product.

    The kernel is `[width · D, H]`, and a convolution's fan-out is `width · H`.
    """

    def init(key, shape, dtype=jnp.float32, out_sharding=None):
        bound = (6 / (shape[0] + width * shape[1])) ** 0.5
        return symmetric_uniform(bound)(key, shape, dtype, out_sharding)

    return init


KERNELS = {
    "kaiming": lambda width: kaiming_uniform,
    "glorot": convolution_glorot,
    # U(±1/√fan-in), PyTorch's default for linear layers and convolutions.
    "torch": lambda width: nn.initializers.variance_scaling(1 / 3, "fan_in", "uniform"),
}
"""How the kernel of a convolution over `width` positions is drawn."""


def bias_like(initializer: str, fan_in: int) -> nn.initializers.Initializer:
    """Returns the bias initializer for a kernel initializer of `KERNELS`.

    U(±1/√fan-in), PyTorch's default, for "torch"; zero for all others.

    Args:
        initializer: One of `KERNELS`.
        fan_in: Inputs of each output.
    """
    if initializer != "torch":
        return nn.initializers.zeros
    return symmetric_uniform(fan_in**-0.5)


TABLES = {
    "kaiming": kaiming_embedding,
    "glorot": nn.initializers.glorot_uniform(),
    "normal": nn.initializers.normal(0.1),
    "lecun": nn.initializers.variance_scaling(1.0, "fan_out", "uniform"),
}
"""How an embedding table [V, D] is drawn: U(±√(6/D)), U(±√(6/(V+D))), N(0, 0.1²),
U(±√(3/D)) (Yang and Zhang, 2018)."""

ACTIVATIONS = {"none": lambda x: x, "tanh": jnp.tanh, "relu": jax.nn.relu}
"""Activations by their names in configs; all are monotonic."""

Kernel = Annotated[str, OneOf(KERNELS)]
Table = Annotated[str, OneOf(TABLES)]
Activation = Annotated[str, OneOf(ACTIVATIONS)]


class Dropout(nn.Module):
    """Dropout for arrays with padding on their first two axes.

    The mask of an element depends on its indices, not on the array's size, so that a
    pass with a given key does not depend on the padding. For arrays `[T, D]`, padded on
    the first axis only, `nn.Dropout` has this property.

    Attributes:
        rate: Probability of zeroing an element.
        stream: RNG stream of the masks; "dropout" if the stream is missing.
    """

    rate: Rate
    stream: str = "dropout"

    @nn.compact
    def __call__(self, x: Float[Array, "A B D"], *, deterministic: bool):
        """Returns the array after dropout; unchanged if `deterministic`."""
        if deterministic or not self.rate:
            return x
        stream = self.stream if self.has_rng(self.stream) else "dropout"
        return drop_rows(x, self.make_rng(stream), self.rate)


def drop_rows(
    x: Float[Array, "A B D"], key: Array, rate: float, start: Int[Array, ""] | int = 0
) -> Float[Array, "A B D"]:
    """Returns rows after dropout; row 0 has index `start` in the whole array."""

    def row(i):
        return jax.random.bernoulli(jax.random.fold_in(key, i), 1 - rate, x.shape[1:])

    kept = jax.vmap(row)(start + jnp.arange(x.shape[0]))
    return jnp.where(kept, x / (1 - rate), 0.0)


def character_rows(
    chars: Int[Array, "*T C"], num_chars: int, unknown: int = 1
) -> Int[Array, "*T C"]:
    """Returns the table rows for character ids.

    Ids from `num_chars` on are unknown characters of a known type; they get the row of
    the unknown character. See `Vocabulary.char_types`.

    Args:
        chars: Character ids.
        num_chars: Number of rows in the table.
        unknown: Row of the unknown character.
    """
    return jnp.where(chars < num_chars, chars, unknown)


def vary_alike(*arrays: Array) -> list[Array]:
    """Returns arrays that vary over the same mesh axes, for use inside `jax.shard_map`.

    JAX handles this for its own operations. A scan's initial carry must vary over the
    same axes as later carries, and so must the operands of our own primitives.

    Args:
        arrays: Float arrays.

    Returns:
        Arrays with the same values.
    """
    if not jax.sharding.get_abstract_mesh().manual_axes:
        return list(arrays)
    nothing = (jnp.sum(jnp.ravel(array)[:0]) for array in arrays)
    zero = sum(nothing, jnp.zeros(()))  # varies over all their axes
    return [array + zero.astype(array.dtype) for array in arrays]
