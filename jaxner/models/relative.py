"""Self-attention with relative positions, as in UANet.

Gui et al., "Uncertainty-Aware Label Refinement for Sequence Labeling", EMNLP 2020, eq.
7, on the relative positions of Dai et al., "Transformer-XL", ACL 2019.

Shape letters: `T` tokens, `m` heads of `k` dimensions, `d` = m · k features, `D` and
`E` features of queries and keys, `P` positions or distances.
"""

from __future__ import annotations

import flax.linen as nn
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from jaxner.fields import EvenSize, Rate, Size, check_fields
from jaxner.models import layers
from jaxner.models.attention import BLOCK, WHOLE, by_blocks
from jaxner.types import FORBIDDEN

# U(±1/√fan-in), PyTorch's default, as in the authors' code.
fan_in_uniform = layers.KERNELS["torch"](1)
# The same for the kernel of all heads, `[D, m, k]`.
_uniform_heads = nn.initializers.variance_scaling(
    1 / 3, "fan_in", "uniform", in_axis=0, out_axis=(1, 2)
)


def sinusoids(positions: Float[Array, " P"], dim: int) -> Float[Array, " P {dim}"]:
    """Returns R: sines, then cosines of positions at dim / 2 frequencies.

    The frequencies fall geometrically from 1 to 1/10,000, both included, as in
    tensor2tensor and the code of Gui et al.; Vaswani et al.'s formula does not reach
    the last one.

    Args:
        positions: Positions or distances; may be negative.
        dim: Even number of dimensions.

    Example:
        >>> import jax.numpy as jnp
        >>> sinusoids(jnp.array([0.0]), 4).tolist()
        [[0.0, 0.0, 1.0, 1.0]]
    """
    half = dim // 2
    frequencies = 1e4 ** (-jnp.arange(half) / max(half - 1, 1))
    angles = positions[:, None] * frequencies[None]
    return jnp.concatenate([jnp.sin(angles), jnp.cos(angles)], axis=1)


def shift(by_distance: Float[Array, "m n P"]) -> Float[Array, "m n T"]:
    """Returns scores by pair from scores by distance: `[i, j]` is the score of j - i.

    Row i starts i values further left than row 0. Reading the flat array from its n-th
    value on, in rows shorter by one, gives just that. This is one copy, and so is its
    gradient; gathering each value would be much slower.

    Args:
        by_distance: Scores of n tokens for distances -n to T, P = n + T + 1.

    Example:
        >>> import jax.numpy as jnp
        >>> shift(jnp.array([[[-2, -1, 0, 1, 2], [-2, -1, 0, 1, 2.0]]])).tolist()
        [[[0.0, 1.0], [-1.0, 0.0]]]
    """
    heads, rows, count = by_distance.shape
    flat = by_distance.reshape(heads, rows * count)[:, rows:]
    return flat.reshape(heads, rows, count - 1)[:, :, : count - rows - 1]


class RelativeAttention(nn.Module):
    """Attention whose scores depend on content and on the distance between tokens.

    The score of query i and key j is ((q_i + u) · k_j + (q_i + v) · r_{j-i}) / √k, with
    r = W_r R. There is no bias and no output projection. The paper's distance is i - j,
    and the authors' code adds 257 to every distance. Both are equivalent to ours with
    another W_r, since they only rotate or mirror the sine and cosine of each frequency.
    Sentences may have any length. The largest array holds the scores by distance of a
    block of n queries, `[m, n, n + T + 1]`: memory is linear in T, forward and
    backward. A sentence of up to `attention.WHOLE` tokens is one block.

    Attributes:
        num_heads: Number of heads, m.
        head_dim: Dimensions of each head, k; even.
        dropout: Dropout rate on the attention weights.
    """

    num_heads: Size = 7
    head_dim: EvenSize = 160
    dropout: Rate = 0.05

    def __post_init__(self):
        check_fields(self)
        super().__post_init__()

    @nn.compact
    def __call__(
        self,
        queries: Float[Array, " T D"],
        keys: Float[Array, " T E"],
        mask: Bool[Array, " T"],
        *,
        train: bool,
        position: Float[Array, "k k"] | None = None,
    ) -> Float[Array, " T d"]:
        """Returns the attention output of each token, heads side by side.

        Args:
            queries: Features of the tokens, for queries.
            keys: Features of the same tokens, for keys and values.
            mask: False under padding, where the output is zero.
            train: Whether to apply dropout.
            position: W_r^T; None for the module's own parameter.
        """
        q, k, v = (
            jnp.einsum("td,dmk->mtk", x, self._kernel(name, x.shape[1]))
            for name, x in (("query", queries), ("key", keys), ("value", keys))
        )
        if position is None:
            size = (self.head_dim, self.head_dim)
            position = self.param("position", fan_in_uniform, size)
        biases = self._bias("content_bias"), self._bias("position_bias")
        key = self.make_rng("dropout") if train and self.dropout else None
        length = len(mask)
        # Blocks of queries from token 0, n, 2 n, … see distances from -n, -2 n, ….
        rows = length if length <= WHOLE else BLOCK
        furthest = rows * -(-length // max(rows, 1))
        # Does not depend on the sentence, so `vmap` computes it once for a batch.
        # Not in bfloat16, which cannot tell 257 from 258.
        exact = jnp.promote_types(queries.dtype, jnp.float32)
        distances = jnp.arange(-furthest, length + 1, dtype=exact)
        waves = sinusoids(distances, self.head_dim).astype(queries.dtype)
        relative = waves @ position

        def gather(start, q):
            begin = furthest - rows - start
            near = jax.lax.dynamic_slice_in_dim(relative, begin, rows + length + 1)
            weights = _weigh(q, k, near, mask, *biases)
            if key is not None:
                weights = layers.drop_rows(weights, key, self.dropout, start)
            return jnp.einsum("tsm,msk->tmk", weights, v)

        contexts = gather(0, q) if length <= WHOLE else by_blocks(gather, q, rows)
        contexts = contexts.reshape(length, self.num_heads * self.head_dim)
        return jnp.where(mask[:, None], contexts, 0.0)

    def _kernel(self, name, size):
        return self.param(name, _uniform_heads, (size, self.num_heads, self.head_dim))

    def _bias(self, name):
        """Returns u or v, Xavier-normal as a matrix of heads by dimensions."""
        shape = (self.num_heads, self.head_dim)
        return self.param(name, nn.initializers.glorot_normal(), shape)[:, None, :]


def _weigh(q, k, relative, mask, content_bias, position_bias) -> Float[Array, "n T m"]:
    """Returns the weights of all keys for a block of queries."""
    by_content = jnp.einsum("mtk,msk->mts", q + content_bias, k)
    by_distance = jnp.einsum("mtk,pk->mtp", q + position_bias, relative)
    scores = (by_content + shift(by_distance)) / q.shape[2] ** 0.5
    scores = jnp.where(mask[None, None, :], scores, FORBIDDEN)
    return jnp.moveaxis(jax.nn.softmax(scores, axis=-1), 0, 2)
