"""Self-attention with relative positions, in the form of Gui et al. (UANet).

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

# U(±1/√fan-in), in which the authors' code leaves its kernels (PyTorch's own draw).
fan_in_uniform = layers.KERNELS["torch"](1)
# The same for all heads at once, whose kernel is `[D, m, k]`.
_uniform_heads = nn.initializers.variance_scaling(
    1 / 3, "fan_in", "uniform", in_axis=0, out_axis=(1, 2)
)


def sinusoids(positions: Float[Array, " P"], dim: int) -> Float[Array, " P {dim}"]:
    """Returns R: the sines, then the cosines of positions at dim / 2 frequencies.

    These fall from 1 to 1/10,000 geometrically, both included, as in tensor2tensor and
    the code of Gui et al.; in Vaswani et al.'s formula the last one is not reached.

    Args:
        positions: Or distances; negative ones too.
        dim: Even.

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
    """Turns scores by distance into scores by pair: `[i, j]` is that of j - i.

    Row i starts i values further left than row 0. That is what the flat array gives
    when it is read, from its n-th value on, in rows that are shorter by one. So this is
    one copy, and so is its gradient; to gather each value would be slower by far.

    Args:
        by_distance: For each of n tokens the distances -n to T, P = n + T + 1.

    Example:
        >>> import jax.numpy as jnp
        >>> shift(jnp.array([[[-2, -1, 0, 1, 2], [-2, -1, 0, 1, 2.0]]])).tolist()
        [[[0.0, 1.0], [-1.0, 0.0]]]
    """
    heads, rows, places = by_distance.shape
    flat = by_distance.reshape(heads, rows * places)[:, rows:]
    return flat.reshape(heads, rows, places - 1)[:, :, : places - rows - 1]


class RelativeAttention(nn.Module):
    """Attention whose scores depend on content and on the distance of two tokens.

    The score of query i and key j is ((q_i + u) · k_j + (q_i + v) · r_{j-i}) / √k, with
    r = W_r R. No bias and no output projection. The paper's distance is i - j; and the
    authors' code adds 257 to every distance. Either is the default seen through
    another W_r, since it only rotates or mirrors the sine and cosine of each frequency.
    Any length is possible. No array is larger than the scores by distance of a block
    of n queries, `[m, n, n + T + 1]`, so that memory is linear in T, forward and
    backward; a sentence of up to `attention.WHOLE` tokens is one block.

    Attributes:
        num_heads: Number of heads, m.
        head_dim: Dimensions of each head, k; even.
        dropout: Rate on the attention weights.
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
        """Returns what each token gathers from the keys, heads side by side.

        Args:
            queries: Features of the tokens that attend.
            keys: Those of the same tokens that are attended to; the values too.
            mask: False under padding, where the output is zero.
            train: Whether weights are dropped.
            position: W_r^T; None for one of its own.
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
        # Queries from the tokens 0, n, 2 n, … on see distances from -n, -2 n, … on.
        rows = length if length <= WHOLE else BLOCK
        furthest = rows * -(-length // max(rows, 1))
        # The same for all sentences of a batch, so that `vmap` leaves it one product.
        distances = jnp.arange(-furthest, length + 1, dtype=queries.dtype)
        relative = sinusoids(distances, self.head_dim) @ position

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
        """Returns u or v; as a matrix of heads by dimensions it is Xavier-normal."""
        shape = (self.num_heads, self.head_dim)
        return self.param(name, nn.initializers.glorot_normal(), shape)[:, None, :]


def _weigh(q, k, relative, mask, content_bias, position_bias) -> Float[Array, "n T m"]:
    """Returns the weights of all keys for some queries, given their distances' r."""
    by_content = jnp.einsum("mtk,msk->mts", q + content_bias, k)
    by_distance = jnp.einsum("mtk,pk->mtp", q + position_bias, relative)
    scores = (by_content + shift(by_distance)) / q.shape[2] ** 0.5
    scores = jnp.where(mask[None, None, :], scores, FORBIDDEN)
    return jnp.moveaxis(jax.nn.softmax(scores, axis=-1), 0, 2)
