"""BERT: a pretrained Transformer encoder over word pieces.

Devlin et al., "BERT: Pre-training of Deep Bidirectional Transformers for Language
Understanding", NAACL 2019; its layers are those of Vaswani et al., "Attention Is All
You Need", NeurIPS 2017. `models.pretrained` reads weights from a Hugging Face folder.

Shape letters: `S` pieces of a window, `W` windows, `T` tokens, `Q` pieces of the
longest token, `H` features; `m` heads of `d` dimensions.
"""

from __future__ import annotations

import functools
from typing import Annotated

import flax.linen as nn
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from jaxner.fields import Depth, OneOf, Positive, Rate, Size
from jaxner.models import layers
from jaxner.types import FORBIDDEN, Pieces

ACTIVATIONS = {
    "gelu": functools.partial(jax.nn.gelu, approximate=False),  # x Φ(x)
    "gelu_new": functools.partial(jax.nn.gelu, approximate=True),  # tanh approximation
    "relu": jax.nn.relu,
}
"""Activations by their names in a Hugging Face config."""

_draw = layers.normal(0.02)


class BERT(nn.Module):
    """Encoder of one window of word pieces; its attributes are Hugging Face's.

    `remat`: whether training keeps only the input of each layer.
    """

    vocab_size: Size
    hidden_size: Size = 768
    num_hidden_layers: Depth = 12
    num_attention_heads: Size = 12
    intermediate_size: Size = 3072
    max_position_embeddings: Size = 512
    type_vocab_size: Size = 2
    layer_norm_eps: Positive = 1e-12
    hidden_act: Annotated[str, OneOf(ACTIVATIONS)] = "gelu"
    hidden_dropout_prob: Rate = 0.1
    attention_probs_dropout_prob: Rate = 0.1
    remat: bool = False

    def check(self) -> None:
        """Raises ValueError if the features do not divide into heads."""
        if self.hidden_size % self.num_attention_heads:
            raise ValueError(
                f"hidden_size={self.hidden_size} of BERT is not divisible by "
                f"num_attention_heads={self.num_attention_heads}"
            )

    @nn.compact
    def __call__(
        self, ids: Int[Array, " S"], mask: Bool[Array, " S"], *, train: bool
    ) -> Float[Array, " S H"]:
        """Returns the features of the last layer; zero under padding."""
        x = self._embed(ids, train)
        # One loop over stacked weights: compiling takes as long as for one layer.
        layer = nn.remat(_Layer, prevent_cse=False) if self.remat else _Layer
        stack = nn.scan(
            layer,
            variable_axes={"params": 0},
            split_rngs={"params": True, "dropout": True},
            in_axes=nn.broadcast,  # pyright: ignore[reportArgumentType]
            length=self.num_hidden_layers,
        )
        sizes = self.num_attention_heads, self.intermediate_size, self.layer_norm_eps
        rates = self.hidden_dropout_prob, self.attention_probs_dropout_prob
        x, _ = stack(*sizes, self.hidden_act, *rates, train, name="layers")(x, mask)
        return jnp.where(mask[:, None], x, 0.0)

    def _embed(self, ids, train):
        """Returns the sum of piece, position and segment vectors (figure 2)."""

        def look_up(name, size, ids):
            return layers.embed(size, self.hidden_size, _draw, name)(ids)

        # A batch may be padded beyond the last position; no result depends on it.
        indices = jnp.minimum(jnp.arange(len(ids)), self.max_position_embeddings - 1)
        x = (
            look_up("words", self.vocab_size, ids)
            + look_up("positions", self.max_position_embeddings, indices)
            + look_up("types", self.type_vocab_size, jnp.zeros_like(ids))
        )
        x = layers.norm(self.layer_norm_eps, "norm")(x)
        return layers.dropout(self.hidden_dropout_prob, x, train)


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
        drop = layers.ElementDropout(self.dropout)  # made first: this decides its key
        y = drop(self._attend(x, mask), deterministic=not self.train)
        x = layers.norm(self.eps, "attention_norm")(x + y)
        y = layers.dense(self.intermediate_size, _draw, "intermediate")(x)
        y = layers.dense(x.shape[1], _draw, "output")(ACTIVATIONS[self.activation](y))
        y = layers.dropout(self.dropout, y, self.train)
        x = layers.norm(self.eps, "output_norm")(x + y)
        return x, None

    def _attend(self, x, mask):
        """Returns multi-head attention to the real pieces (Vaswani et al., 3.2)."""
        length, size = x.shape
        queries, keys, values = (
            layers.dense(size, _draw, name)(x).reshape(length, self.num_heads, -1)
            for name in ("query", "key", "value")
        )
        scores = jnp.einsum("tmd,smd->mts", queries, keys) / queries.shape[2] ** 0.5
        scores = jnp.where(mask[None, None, :], scores, FORBIDDEN)
        weights = jnp.moveaxis(jax.nn.softmax(scores, axis=-1), 0, 2)
        weights = layers.Dropout(self.attention_dropout)(
            weights, deterministic=not self.train
        )
        contexts = jnp.einsum("tsm,smd->tmd", weights, values)
        output = layers.dense(size, _draw, "attention_output")
        return output(contexts.reshape(length, size))


POOLS = ("first", "mean")


class WordPieces(nn.Module):
    """Features of tokens from their word pieces, in windows as of `Pieces`.

    Attributes:
        encoder: Encodes each window.
        pool: A token's features: "first", those of its first piece (Devlin et al.,
            section 5.3), or "mean", the mean over its pieces.
    """

    encoder: BERT
    pool: Annotated[str, OneOf(POOLS)] = "first"

    def __call__(self, pieces: Pieces, *, train: bool) -> Float[Array, " T H"]:
        """Returns the features of each token; zero for tokens without pieces."""
        encode = nn.vmap(
            lambda encoder, ids, mask: encoder(ids, mask, train=train),
            variable_axes={"params": None},
            split_rngs={"params": False, "dropout": True},
        )
        states = encode(self.encoder, pieces.windows, pieces.mask)
        states = states.reshape(-1, states.shape[-1])
        positions = pieces.positions
        if self.pool == "first":
            positions = positions[:, :1]
        present = (positions >= 0)[:, :, None]
        gathered = jnp.where(present, states[jnp.maximum(positions, 0)], 0.0)
        return gathered.sum(axis=1) / jnp.maximum(present.sum(axis=1), 1)
