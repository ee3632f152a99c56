"""Multi-head self-attention over the features of another encoder.

Li, Fu and Ma, "Remedying BiLSTM-CNN Deficiency in Modeling Cross-Context for NER",
2019 (arXiv 1908.11046; AAAI 2020 under another title): the attention of
Att-BiLSTM-CNN. Shape letters: `T` tokens, `D` input features, `H` features; `m` heads
of `d` dimensions.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import flax.linen as nn
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from jaxner.fields import Size, check_fields
from jaxner.types import FORBIDDEN

# Up to WHOLE tokens, all scores of a sentence are in memory at once, which is faster;
# longer sentences hold the scores of BLOCK queries at a time.
WHOLE, BLOCK = 512, 256

# A kernel [D, m, d] holds the paper's W^1 to W^m, each drawn as a separate D × d
# matrix. Drawn as one D × m·d matrix, their values would be smaller.
_glorot_per_head = nn.initializers.glorot_uniform(in_axis=0, out_axis=2, batch_axis=1)


def by_blocks(
    gather: Callable[[Int[Array, ""], Float[Array, "m n k"]], Float[Array, "n ..."]],
    queries: Float[Array, "m T k"],
    size: int,
) -> Float[Array, "T ..."]:
    """Returns attention computed block by block of queries, in memory linear in T.

    At most `[m, n, T]` scores exist at a time. The backward pass recomputes the scores
    of each block instead of storing all of them. Every block sees all keys, so its
    softmax is complete.

    Args:
        gather: Returns the results of a block of queries, given the index of its first.
        queries: Queries of all tokens.
        size: Queries in a block, n; zero after the last token.

    Example:
        >>> import jax.numpy as jnp
        >>> rows = lambda start, block: start + jnp.arange(1.0 * block.shape[1])
        >>> by_blocks(rows, jnp.zeros((1, 5, 2)), size=2).tolist()
        [0.0, 1.0, 2.0, 3.0, 4.0]
    """
    heads, length, dim = queries.shape
    count = -(-length // size)
    padding = ((0, 0), (0, count * size - length), (0, 0))
    blocks = jnp.pad(queries, padding).reshape(heads, count, size, dim)
    run = jax.checkpoint(lambda block: gather(*block), prevent_cse=False)
    found = jax.lax.map(run, (size * jnp.arange(count), jnp.moveaxis(blocks, 1, 0)))
    return found.reshape(count * size, *found.shape[2:])[:length]


class SelfAttention(nn.Module):
    """Multi-head self-attention whose output is appended to its input.

    Memory is linear in T, forward and backward, unless the caller uses the weights. As
    in the paper, there is no output projection, residual sum or dropout of the weights.
    Padding keys get a finite score; the authors' -inf gives NaN in a sentence without
    tokens.

    Attributes:
        num_heads: Number of heads, m.
        head_dim: Dimensions of each head, d; None for D / m, as in the paper.
        keep: Parts of [H; C^1; …; C^m] to keep, with zeros for the others: "hidden",
            "context" (all heads), "context1" to "context{m}"; None for all parts. The
            parameters are the same for any choice, so that one trained model gives the
            paper's entity-chunking table. Applies in training too. A single name may be
            a plain string.
    """

    num_heads: Size = 5
    head_dim: Size | None = None
    keep: str | Sequence[str] | None = None

    receptive_field = None  # all tokens decide every label

    def __post_init__(self):
        check_fields(self)
        if self.keep is not None:
            # A tuple, so that models compare and hash by value.
            given = (self.keep,) if isinstance(self.keep, str) else self.keep
            self.keep = tuple(given)
            _check_parts(self.keep, self.num_heads)
        super().__post_init__()

    @nn.compact
    def __call__(
        self, x: Float[Array, " T D"], mask: Bool[Array, " T"], *, train: bool
    ) -> tuple[Float[Array, " T H"], dict[str, Array]]:
        """Returns [x; C^1; …; C^m], H = D + m·d, zero under padding, and intermediates.

        The intermediate `attention` holds the weights α^i, `[m, T, T]`: the row of a
        token sums to 1 over the tokens; rows and columns under padding are zero.
        """
        del train  # dropout is in the encoder below and in the head
        head_dim = self._head_dim(x.shape[1])
        queries, keys, values = (
            jnp.einsum("td,dmk->mtk", x, self._kernel(name, x.shape[1], head_dim))
            for name in ("query", "key", "value")
        )

        def attend(queries):
            scores = jnp.einsum("mtk,msk->mts", queries, keys) / head_dim**0.5
            scores = jnp.where(mask[None, None, :], scores, FORBIDDEN)
            return jnp.where(mask[None, None, :], jax.nn.softmax(scores, axis=-1), 0.0)

        # In a long sentence, only heat maps use all weights at once.
        weights = jnp.where(mask[None, :, None], attend(queries), 0.0)
        if len(x) <= WHOLE:
            contexts = jnp.einsum("mts,msk->tmk", weights, values)
        else:
            contexts = by_blocks(
                lambda _, block: jnp.einsum("mts,msk->tmk", attend(block), values),
                queries,
                BLOCK,
            )
        hidden, contexts = self._kept(x, contexts)
        contexts = contexts.reshape(len(x), self.num_heads * head_dim)
        features = jnp.concatenate([hidden, contexts], axis=1)
        return jnp.where(mask[:, None], features, 0.0), {"attention": weights}

    def _head_dim(self, size):
        if self.head_dim is not None:
            return self.head_dim
        if size % self.num_heads:
            raise ValueError(
                f"{size} features are not divisible by num_heads={self.num_heads} of "
                "SelfAttention; set head_dim, or choose a divisor"
            )
        return size // self.num_heads

    def _kernel(self, name, size, head_dim):
        return self.param(name, _glorot_per_head, (size, self.num_heads, head_dim))

    def _kept(self, hidden, contexts):
        """Returns the parts with zeros in those that `keep` does not name."""
        if self.keep is None:
            return hidden, contexts
        keep = set(self.keep)
        heads = [
            not keep.isdisjoint(("context", f"context{i + 1}"))
            for i in range(self.num_heads)
        ]
        kept = jnp.array(heads)[None, :, None]
        hidden = hidden if "hidden" in keep else jnp.zeros_like(hidden)
        return hidden, jnp.where(kept, contexts, 0.0)


def _check_parts(keep: tuple[str, ...], num_heads: int) -> None:
    known = ["hidden", "context", *(f"context{i + 1}" for i in range(num_heads))]
    for part in keep:
        if part not in known:
            raise ValueError(
                f"Unknown part {part!r} in keep of SelfAttention; known: "
                f"{', '.join(known)}"
            )
