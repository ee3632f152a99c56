"""BERT: a pretrained Transformer encoder over word pieces.

Devlin et al., "BERT: Pre-training of Deep Bidirectional Transformers for Language
Understanding", NAACL 2019; its layers are those of Vaswani et al., "Attention Is All
You Need", NeurIPS 2017, with GELU (Hendrycks and Gimpel, 2016) for ReLU and learned
positions. Weights of a local Hugging Face folder are filled in by `jaxner.pretrained`.

Shape letters: `S` pieces of a window, `W` windows, `T` tokens, `Q` pieces of the
longest token, `H` features, `N` layers; `m` heads of `d` dimensions.
"""

from __future__ import annotations

import functools
from typing import Annotated

import flax.linen as nn
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from jaxner.fields import OneOf, Positive, Rate, Size, check_fields
from jaxner.models import layers
from jaxner.types import FORBIDDEN, Pieces

ACTIVATIONS = {
    "gelu": functools.partial(jax.nn.gelu, approximate=False),  # x Φ(x)
    "gelu_new": functools.partial(jax.nn.gelu, approximate=True),  # by tanh
    "relu": jax.nn.relu,
}
"""The activations, by their names in a Hugging Face config."""

_draw = nn.initializers.normal(0.02)


class BERT(nn.Module):
    """Encodes one window of word pieces.

    Attributes:
        vocab_size: Number of word pieces.
        hidden_size: Features of a piece, H.
        num_hidden_layers: Layers, N.
        num_attention_heads: Heads of each, m.
        intermediate_size: Features between a layer's two dense maps.
        max_position_embeddings: The most pieces in a window.
        type_vocab_size: Kinds of segments; all pieces are of the first.
        layer_norm_eps: Is added to the variance.
        hidden_act: One of `ACTIVATIONS`.
        hidden_dropout_prob: Dropout of the embeddings, and of what each half of a
            layer adds.
        attention_probs_dropout_prob: Dropout of the attention weights.
    """

    vocab_size: Size
    hidden_size: Size = 768
    num_hidden_layers: Size = 12
    num_attention_heads: Size = 12
    intermediate_size: Size = 3072
    max_position_embeddings: Size = 512
    type_vocab_size: Size = 2
    layer_norm_eps: Positive = 1e-12
    hidden_act: Annotated[str, OneOf(ACTIVATIONS)] = "gelu"
    hidden_dropout_prob: Rate = 0.1
    attention_probs_dropout_prob: Rate = 0.1

    def __post_init__(self):
        check_fields(self)
        if self.hidden_size % self.num_attention_heads:
            raise ValueError(
                f"hidden_size={self.hidden_size} of BERT does not divide by "
                f"num_attention_heads={self.num_attention_heads}"
            )
        super().__post_init__()

    @nn.compact
    def __call__(
        self, ids: Int[Array, " S"], mask: Bool[Array, " S"], *, train: bool
    ) -> tuple[Float[Array, " S H"], Float[Array, " N S H"]]:
        """Returns the features of each piece, of the last layer and of every one.

        Both are zero under padding.
        """
        x = self._embed(ids, train)
        # The layers are one loop over stacked weights, so that compiling takes as long
        # as one of them.
        stack = nn.scan(
            _Layer,
            variable_axes={"params": 0},
            split_rngs={"params": True, "dropout": True},
            in_axes=nn.broadcast,  # pyright: ignore[reportArgumentType]
            length=self.num_hidden_layers,
        )
        x, each = stack(
            self.num_attention_heads,
            self.intermediate_size,
            self.layer_norm_eps,
            self.hidden_act,
            self.hidden_dropout_prob,
            self.attention_probs_dropout_prob,
            train,
            name="layers",
        )(x, mask)
        each = jnp.where(mask[None, :, None], each, 0.0)
        return jnp.where(mask[:, None], x, 0.0), each

    def _embed(self, ids, train):
        """Sums the vectors of piece, position and segment (section 3, figure 2)."""
        table = functools.partial(nn.Embed, features=self.hidden_size)
        pieces = table(self.vocab_size, embedding_init=_draw, name="words")
        positions = table(
            self.max_position_embeddings, embedding_init=_draw, name="positions"
        )
        types = table(self.type_vocab_size, embedding_init=_draw, name="types")
        # A batch may be padded beyond the last position; nothing looks there.
        places = jnp.minimum(jnp.arange(len(ids)), self.max_position_embeddings - 1)
        x = pieces(ids) + positions(places) + types(jnp.zeros_like(ids))
        x = _norm(self.layer_norm_eps, "norm")(x)
        return nn.Dropout(self.hidden_dropout_prob)(x, deterministic=not train)


class _Layer(nn.Module):
    """One layer: self-attention and a dense network, each LayerNorm(x + f(x))."""

    num_heads: int
    intermediate_size: int
    eps: float
    activation: str
    dropout: float
    attention_dropout: float
    train: bool

    @nn.compact
    def __call__(self, x, mask):
        drop = functools.partial(nn.Dropout, deterministic=not self.train)
        y = drop(self.dropout)(self._attend(x, mask, drop))
        x = _norm(self.eps, "attention_norm")(x + y)
        y = _dense(self.intermediate_size, "intermediate")(x)
        y = _dense(x.shape[1], "output")(ACTIVATIONS[self.activation](y))
        x = _norm(self.eps, "output_norm")(x + drop(self.dropout)(y))
        return x, x

    def _attend(self, x, mask, drop):
        """Multi-head attention (Vaswani et al., section 3.2) over the true pieces."""
        length, size = x.shape
        queries, keys, values = (
            _dense(size, name)(x).reshape(length, self.num_heads, -1)
            for name in ("query", "key", "value")
        )
        scores = jnp.einsum("tmd,smd->mts", queries, keys) / queries.shape[2] ** 0.5
        scores = jnp.where(mask[None, None, :], scores, FORBIDDEN)
        weights = jnp.moveaxis(jax.nn.softmax(scores, axis=-1), 0, 2)
        weights = layers.Dropout(self.attention_dropout)(
            weights, deterministic=not self.train
        )
        contexts = jnp.einsum("tsm,smd->tmd", weights, values)
        return _dense(size, "attention_output")(contexts.reshape(length, size))


def _dense(size: int, name: str) -> nn.Dense:
    return nn.Dense(size, kernel_init=_draw, name=name)


def _norm(eps: float, name: str) -> nn.LayerNorm:
    # E[x²] − E[x]², Flax's default, loses what PyTorch's two passes keep.
    return nn.LayerNorm(eps, use_fast_variance=False, name=name)


POOLS = ("first", "mean")


class WordPieces(nn.Module):
    """Gives each token the features of its word pieces.

    A sentence too long for one window is read in several that overlap; `Pieces.places`
    says in which one each token is looked up.

    Attributes:
        encoder: Encodes the windows, one by one.
        pool: What of a token's pieces counts: the "first" one (Devlin et al., section
            5.3) or their "mean".
    """

    encoder: BERT
    pool: Annotated[str, OneOf(POOLS)] = "first"

    def __post_init__(self):
        check_fields(self)
        super().__post_init__()

    def __call__(self, pieces: Pieces, *, train: bool) -> Float[Array, " T H"]:
        """Returns the features of each token; zero where it has no piece."""
        encode = nn.vmap(
            lambda encoder, ids, mask: encoder(ids, mask, train=train)[0],
            variable_axes={"params": None},
            split_rngs={"params": False, "dropout": True},
        )
        states = encode(self.encoder, pieces.windows, pieces.mask)
        states = states.reshape(-1, states.shape[-1])
        places = pieces.places[:, :1] if self.pool == "first" else pieces.places
        present = (places >= 0)[:, :, None]
        gathered = jnp.where(present, states[jnp.maximum(places, 0)], 0.0)
        return gathered.sum(axis=1) / jnp.maximum(present.sum(axis=1), 1)
