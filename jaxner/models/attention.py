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

# Up to so many tokens the scores of a sentence are held as a whole, which is faster; in
# a longer one, those of so many queries at once.
WHOLE, BLOCK = 512, 256

# A kernel [D, m, d] holds the paper's W^1 to W^m, each drawn as a D × d matrix of its
# own. Drawn as one matrix D × m·d, they would be smaller.
_glorot_per_head = nn.initializers.glorot_uniform(in_axis=0, out_axis=2, batch_axis=1)


def by_blocks(
    gather: Callable[[Int[Array, ""], Float[Array, "m n k"]], Float[Array, "n ..."]],
    queries: Float[Array, "m T k"],
    size: int,
) -> Float[Array, "T ..."]:
    """Attends by one block of queries after the other, in memory linear in T.

    Scores are `[m, n, T]` at a time. The backward pass computes those of a block anew,
    where it would hold all of them. Every block sees all keys, so its softmax is whole
    and needs no guard of its own.

    Args:
        gather: What the queries of a block gather, given the place of the first.
        queries: Of all tokens.
        size: Queries of a block, n; behind the last token they are zero.

    Example:
        >>> import jax.numpy as jnp
        >>> places = lambda start, block: start + jnp.arange(1.0 * block.shape[1])
        >>> by_blocks(places, jnp.zeros((1, 5, 2)), size=2).tolist()
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
    """Lays what each head gathers from the sentence beside the features of a token.

    Memory is linear in T, forward and backward, unless the weights are asked for. As in
    the paper, no output projection, residual sum or dropout of the weights
    follows. The padding's keys are forbidden by a finite score where the authors' code
    takes -inf, which is NaN in a sentence without tokens.

    Attributes:
        num_heads: Number of heads, m.
        head_dim: Dimensions of each head, d; None for D / m, as in the paper.
        keep: Parts of [H; C^1; …; C^m] that are kept, the others being zero: "hidden",
            "context" (all heads), "context1" to "context{m}"; None for everything. The
            parameters are the same for any choice, so a trained model's parts can be
            compared without training it anew (the paper's entity-chunking table). It
            acts in training too. One name may come as a plain string.
    """

    num_heads: Size = 5
    head_dim: Size | None = None
    keep: str | Sequence[str] | None = None

    receptive_field = None  # every label is decided by all tokens

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

        Those are the weights α^i as `attention`, `[m, T, T]`: the row of a token sums
        to one over the tokens; rows and columns under padding are zero.
        """
        del train  # dropout stands in the encoder below, and before the head
        head_dim = self._head_dim(x.shape[1])
        queries, keys, values = (
            jnp.einsum("td,dmk->mtk", x, self._kernel(name, x.shape[1], head_dim))
            for name in ("query", "key", "value")
        )

        def attend(queries):
            scores = jnp.einsum("mtk,msk->mts", queries, keys) / head_dim**0.5
            scores = jnp.where(mask[None, None, :], scores, FORBIDDEN)
            return jnp.where(mask[None, None, :], jax.nn.softmax(scores, axis=-1), 0.0)

        # In a long sentence, the weights as a whole serve heat maps alone.
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
                f"{size} features do not divide by num_heads={self.num_heads} of "
                "SelfAttention; set head_dim, or take a divisor"
            )
        return size // self.num_heads

    def _kernel(self, name, size, head_dim):
        return self.param(name, _glorot_per_head, (size, self.num_heads, head_dim))

    def _kept(self, hidden, contexts):
        """Zeroes what `keep` does not name, so that all shapes stay as they were."""
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
