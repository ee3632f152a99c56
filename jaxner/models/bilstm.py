"""BiLSTM encoders, and what the papers put on top of them.

Shape letters: `T` tokens, `D` input features, `H` features; `N` state size of a cell,
`K` units; `m` heads of `d` dimensions.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from typing import Annotated, Literal

import flax.linen as nn
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, PyTree

from jaxner.fields import Depth, OneOf, Part, Rate, Real, Size
from jaxner.models import layers
from jaxner.models.checks import check_returned
from jaxner.models.layers import Encoded, Features, Mask
from jaxner.types import FORBIDDEN

STREAMS = {"sentence": "dropout", "batch": "shared"}


class BiLSTM(nn.Module):
    """A bidirectional LSTM of one or more units and layers.

    Each cell has its own dropout masks, constant over time (Gal and Ghahramani, 2016).

    Attributes:
        hidden_dim: State size of one unit in one direction.
        num_units: Units that read the same input (Žukov-Gregorič et al., 2018).
        num_layers: Number of stacked layers.
        cross: Whether a cell above the first layer reads both directions of the layer
            below (Cross-BiLSTM), or only its own (Baseline-BiLSTM; Li et al., 2020).
        pool: How outputs of units combine: "concat" or "mean".
        input_dropout: Dropout rate on the inputs of every layer.
        state_dropout: Dropout rate on the state h of a cell.
        output_dropout: Dropout rate on the outputs of the last layer.
        input_mask: "unit": an input mask for each cell; "shared": one for a layer.
        dropout_scope: "sentence": each sentence has its own masks; "batch": all
            sentences of a batch share them.
        initializer: "glorot", for each gate separately; "glorot_fused", for all gates
            and both matrices as one (TensorFlow); "kaiming"; "normal", N(0, 1);
            "torch", U(±1/√N), PyTorch's default except for the biases.
        forget_bias: Initial bias of the forget gates; the other biases start at zero.
    """

    hidden_dim: Size = 200
    num_units: Size = 1
    num_layers: Depth = 1
    cross: bool = True
    pool: Literal["concat", "mean"] = "concat"
    input_dropout: Rate = 0.0
    state_dropout: Rate = 0.0
    output_dropout: Rate = 0.0
    input_mask: Literal["unit", "shared"] = "unit"
    dropout_scope: Annotated[str, OneOf(STREAMS)] = "sentence"
    initializer: layers.LSTM = "glorot"
    forget_bias: Real = 1.0

    @property
    def has_directions(self) -> bool:
        """Whether each half of the features has read only one side of a token."""
        return self.num_layers == 1 or not self.cross

    @nn.compact
    def __call__(self, x: Features, mask: Mask, *, train: bool) -> Encoded:
        """Returns features, those of all forward cells first; zero under padding."""

        def drop(rate, x, is_shared=False):
            """Multiplies by one mask for all tokens, per cell or for all cells."""
            if not (train and rate):
                return x
            key = self.make_rng(STREAMS[self.dropout_scope])
            shape = (*((1, 1) if is_shared else (2, self.num_units)), x.shape[3])
            stays = jax.random.bernoulli(key, 1 - rate, shape)
            return x * jnp.where(stays, 1 / (1 - rate), 0.0)[None]

        size, units = self.hidden_dim, self.num_units
        init = self.initializer, self.forget_bias
        x = x[:, None, None]
        for layer in range(1, self.num_layers + 1):
            if self.cross and layer > 1:
                x = jnp.concatenate([x[:, 0:1], x[:, 1:2]], axis=3)
            x = drop(self.input_dropout, x, self.input_mask == "shared")
            cells = layers.Cells(size, *init, units, name=f"layer{layer}")
            state_mask = None
            if train and self.state_dropout:
                ones = jnp.ones((1, 2, units, size), x.dtype)
                state_mask = drop(self.state_dropout, ones)[0]
            x, _ = layers.bilstm(x, mask, *cells(x.shape[3]), state_mask)
        x = drop(self.output_dropout, x)
        if self.pool == "mean":
            x = jnp.mean(x, axis=2, keepdims=True)
        return x.reshape(mask.shape[0], 2 * x.shape[2] * size), {}


class Chain(nn.Module):
    """An encoder on top of another encoder.

    Attributes:
        first: Reads the representation. If it has stages, `then` reads each of them.
        then: Reads the features of `first`.
    """

    first: Annotated[nn.Module, Part("encoder")]
    then: Annotated[nn.Module, Part("encoder")]

    @property
    def is_quadratic(self) -> bool:
        """Whether time grows with the square of a sentence's length."""
        links = self.first, self.then
        return any(getattr(link, "is_quadratic", False) for link in links)

    @property
    def num_stages(self) -> int:
        """Number of stages: those of `then` for each stage of `first`."""
        links = self.first, self.then
        return math.prod(getattr(link, "num_stages", 1) for link in links)

    def __call__(self, x: Features, mask: Mask, *, train: bool):
        """Returns the features of each token, and both encoders' intermediates."""
        first, second = self.first, self.then

        def read(encoder, x):
            output = encoder(x, mask, train=train)
            check_returned("encoder", encoder, output, mask.shape[0])
            return output

        features, arrays = read(first, x)
        if not isinstance(features, tuple):
            features, values = read(second, features)
            return features, {**arrays, **values}
        stages, values = [], {}
        for stage in features:
            features, values = read(second, stage)
            stages += features if isinstance(features, tuple) else [features]
        return tuple(stages), {**arrays, **values}


def candidate_kernels(params: PyTree[Array]) -> list[Float[Array, "K N N"]]:
    """Returns W_c, the recurrent kernel to candidates, of each layer and direction."""
    leaves = jax.tree.leaves_with_path(params)
    cells = [leaf for path, leaf in leaves if path[-1].key == "recurrent"]
    return [side[:, :, layers.CANDIDATE] for cell in cells for side in cell]


class Identity(nn.Module):
    """An encoder that returns its input, for representations such as `bert`."""

    def __call__(self, x: Features, mask: Mask, *, train: bool) -> Encoded:
        """Returns the features unchanged, and no intermediates."""
        del mask, train
        return x, {}


class Projection(nn.Module):
    """A dense layer applied to each token.

    Attributes:
        hidden_dim: Number of output features.
        activation: Applied to the output.
        bias: Initial bias.
        initializer: How the kernel is drawn.
    """

    hidden_dim: Size = 100
    activation: layers.Activation = "tanh"
    bias: Real = 0.0
    initializer: layers.Kernel = "glorot"

    @nn.compact
    def __call__(self, x: Features, mask: Mask, *, train: bool) -> Encoded:
        """Returns the features of each token; zero under padding."""
        del train
        dense = layers.dense(self.hidden_dim, self.initializer, "dense", self.bias)
        x = layers.ACTIVATIONS[self.activation](dense(x))
        return jnp.where(mask[:, None], x, 0.0), {}


# Up to WHOLE tokens, all scores of a sentence are in memory at once, which is faster;
# longer sentences hold the scores of BLOCK queries at a time.
WHOLE, BLOCK = 512, 256


def is_short(length: object) -> bool:
    """Returns whether all scores are computed at once; always if it is symbolic."""
    return not isinstance(length, int) or length <= WHOLE


# A kernel [D, m, d] holds the paper's W^1 to W^m, each drawn as a separate D × d
# matrix. Drawn as one D × m·d matrix, their values would be smaller.
_glorot_per_head = layers.uniform(1.0, "fan_avg", in_axis=0, out_axis=2, batch_axis=1)


def by_blocks(
    gather: Callable[[Int[Array, ""], Float[Array, "m n k"]], Float[Array, "n ..."]],
    queries: Float[Array, "m T k"],
    size: int,
) -> Float[Array, "T ..."]:
    """Returns attention computed block by block of queries, in memory linear in T.

    `gather` maps the index of a block's first query, and its n queries (zero after the
    last token), to results; the backward pass calls it again.
    """
    heads, length, dim = queries.shape
    count = -(-length // size)
    padding = ((0, 0), (0, count * size - length), (0, 0))
    blocks = jnp.pad(queries, padding).reshape(heads, count, size, dim)
    run = jax.checkpoint(lambda block: gather(*block), prevent_cse=False)
    rows = jax.lax.map(run, (size * jnp.arange(count), jnp.moveaxis(blocks, 1, 0)))
    return rows.reshape(count * size, *rows.shape[2:])[:length]


class SelfAttention(nn.Module):
    """Multi-head self-attention whose output is appended to its input.

    Memory is linear in T, unless the caller uses the weights. As in the paper, there is
    no output projection, residual sum or dropout of the weights (Li, Fu and Ma,
    "Remedying BiLSTM-CNN Deficiency in Modeling Cross-Context for NER", 2019, arXiv
    1908.11046; AAAI 2020 under another title).

    Attributes:
        num_heads: Number of heads, m.
        head_dim: Dimensions of each head, d; None for D / m, as in the paper.
        keep: Parts of [H; C^1; …; C^m] that are not zeroed: "hidden", "context" (all
            heads), "context1" to "context{m}"; None for all. It changes no parameters.
    """

    num_heads: Size = 5
    head_dim: Size | None = None
    keep: str | Sequence[str] | None = None

    is_quadratic = True

    def __post_init__(self):
        if self.keep is not None:  # a tuple, so that models compare by value
            self.keep = (self.keep,) if isinstance(self.keep, str) else tuple(self.keep)
        super().__post_init__()

    def check(self) -> None:
        """Raises ValueError if a part in `keep` is unknown."""
        for part in self.keep or ():
            number = re.fullmatch("context([1-9][0-9]*)", part)
            is_head = number is not None and int(number[1]) <= self.num_heads
            if not (part in ("hidden", "context") or is_head):
                raise ValueError(
                    f"Unknown part {part!r} in keep of SelfAttention; known: hidden, "
                    f"context, context1 to context{self.num_heads}"
                )

    @nn.compact
    def __call__(self, x: Features, mask: Mask, *, train: bool) -> Encoded:
        """Returns [x; C^1; …; C^m], H = D + m·d, zero under padding, and intermediates.

        The intermediate `attention` holds the weights α^i, `[m, T, T]`.
        """
        del train  # dropout is in the encoder below and in the head
        size = x.shape[1]
        if self.head_dim is None and size % self.num_heads:
            raise ValueError(
                f"{size} features are not divisible by num_heads={self.num_heads} of "
                "SelfAttention; set head_dim, or choose a divisor"
            )
        head_dim = self.head_dim or size // self.num_heads
        shape = (size, self.num_heads, head_dim)
        queries, keys, values = (
            jnp.einsum("td,dmk->mtk", x, self.param(name, _glorot_per_head, shape))
            for name in ("query", "key", "value")
        )

        def attend(queries):
            scores = jnp.einsum("mtk,msk->mts", queries, keys) / head_dim**0.5
            scores = jnp.where(mask[None, None, :], scores, FORBIDDEN)
            return jnp.where(mask[None, None, :], jax.nn.softmax(scores, axis=-1), 0.0)

        def gather(_, block):
            return jnp.einsum("mts,msk->tmk", attend(block), values)

        # In a long sentence, only heat maps use all weights at once.
        weights = jnp.where(mask[None, :, None], attend(queries), 0.0)
        if is_short(x.shape[0]):
            contexts = jnp.einsum("mts,msk->tmk", weights, values)
        else:
            contexts = by_blocks(gather, queries, BLOCK)
        if self.keep is not None:
            names = (f"context{i + 1}" for i in range(self.num_heads))
            heads = [name in self.keep or "context" in self.keep for name in names]
            contexts = jnp.where(jnp.array(heads)[None, :, None], contexts, 0.0)
            x = x if "hidden" in self.keep else jnp.zeros_like(x)
        contexts = contexts.reshape(x.shape[0], self.num_heads * head_dim)
        features = jnp.concatenate([x, contexts], axis=1)
        return jnp.where(mask[:, None], features, 0.0), {"attention": weights}
