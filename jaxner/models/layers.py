"""Small parts that several models share. `T` positions, `D` features, `K` taps."""

from __future__ import annotations

import flax.linen as nn
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

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


def windows(x: Float[Array, " T D"], width: int, dilation: int = 1):
    """Lays the `width` neighbours of each position side by side, zeros outside.

    A convolution is then one matrix product, whose gradient is as fast inside a loop as
    outside of one; `conv_general_dilated` is not, on a CPU.

    Args:
        x: Features of a sequence.
        width: Number of taps, odd.
        dilation: Distance between taps, in positions.

    Returns:
        `[T, width · D]`, the leftmost tap first.

    Example:
        >>> import jax.numpy as jnp
        >>> windows(jnp.array([[1.0], [2.0], [3.0]]), 3).tolist()
        [[0.0, 1.0, 2.0], [1.0, 2.0, 3.0], [2.0, 3.0, 0.0]]
    """
    reach = dilation * (width // 2)
    padded = jnp.pad(x, ((reach, reach), (0, 0)))
    length = x.shape[0]
    taps = [padded[dilation * k : dilation * k + length] for k in range(width)]
    return jnp.concatenate(taps, axis=1)
