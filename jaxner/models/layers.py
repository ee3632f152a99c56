"""Small parts that several models share. `T` positions, `D` features, `K` taps."""

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
    """Returns the initializer of the bias that goes with a kernel of `KERNELS`.

    For "torch" it is U(±1/√fan-in), PyTorch's default; for all others, zero.

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
"""The activations that configs name; all are monotonic."""

Kernel = Annotated[str, OneOf(KERNELS)]
Table = Annotated[str, OneOf(TABLES)]
Activation = Annotated[str, OneOf(ACTIVATIONS)]


class Dropout(nn.Module):
    """Drops elements of an array whose first two axes may be padded.

    The mask of an element depends on its own place, and not on how far the axes reach,
    so that a pass with a given key is the same whatever a sentence is padded to. Of
    arrays `[T, D]`, where only the first axis is, this holds for `nn.Dropout`.

    Attributes:
        rate: Probability of zeroing an element.
        stream: What masks are drawn from; "dropout" if there is no such stream.
    """

    rate: Rate
    stream: str = "dropout"

    @nn.compact
    def __call__(self, x: Float[Array, "A B D"], *, deterministic: bool):
        """Returns what is left, scaled up; all of it if `deterministic`."""
        if deterministic or not self.rate:
            return x
        stream = self.stream if self.has_rng(self.stream) else "dropout"
        return drop_rows(x, self.make_rng(stream), self.rate)


def drop_rows(
    x: Float[Array, "A B D"], key: Array, rate: float, start: Int[Array, ""] | int = 0
) -> Float[Array, "A B D"]:
    """Drops the rows of an array from the place `start` on, as `Dropout` does all."""

    def row(i):
        return jax.random.bernoulli(jax.random.fold_in(key, i), 1 - rate, x.shape[1:])

    kept = jax.vmap(row)(start + jnp.arange(x.shape[0]))
    return jnp.where(kept, x / (1 - rate), 0.0)


def character_rows(
    chars: Int[Array, "*T C"], num_chars: int, unknown: int = 1
) -> Int[Array, "*T C"]:
    """Returns the rows of a table of character vectors for some character ids.

    Ids from `num_chars` on are characters that are not known, but whose type is; they
    have the vector of the unknown one. See `Vocabulary.char_types`.

    Args:
        chars: The ids.
        num_chars: Rows of the table.
        unknown: That of the unknown character.
    """
    return jnp.where(chars < num_chars, chars, unknown)


def vary_alike(*arrays: Array) -> list[Array]:
    """Lets arrays vary over the same axes of a mesh, inside `jax.shard_map`.

    JAX sees to it for operations of its own. What a scan begins with has to vary as
    what it goes on with, and the operands of a primitive of ours alike.

    Args:
        arrays: Of floats.

    Returns:
        The same values.
    """
    if not jax.sharding.get_abstract_mesh().manual_axes:
        return list(arrays)
    nothing = (jnp.sum(jnp.ravel(array)[:0]) for array in arrays)
    zero = sum(nothing, jnp.zeros(()))  # varies as all of them do
    return [array + zero.astype(array.dtype) for array in arrays]
