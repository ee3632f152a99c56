"""Pretrained encoders: Transformers over pieces of tokens.

- BERT (Devlin et al., NAACL 2019), whose layers are those of Vaswani et al., "Attention
  Is All You Need", NeurIPS 2017; so are MiniLM's (Wang et al., NeurIPS 2020) and
  DistilBERT's (Sanh et al., 2019). ELECTRA (Clark et al., ICLR 2020) has shorter piece
  vectors; RoBERTa (Liu et al., 2019), XLM-R (Conneau et al., ACL 2020) and CamemBERT
  (Martin et al., ACL 2020) count positions from 2; MPNet (Song et al., NeurIPS 2020)
  adds a score for each distance, in buckets as of T5 (Raffel et al., JMLR 2020).
- DeBERTa-v3 (He, Gao and Chen, ICLR 2023): BERT's layers with the disentangled
  attention of He et al., "DeBERTa", ICLR 2021.
- ModernBERT (Warner et al., ACL 2025): layers of another form, with rotary positions
  (Su et al., 2021), local windows and GeGLU (Shazeer, 2020).

`models.pretrained` reads weights from a Hugging Face folder.

Shape letters: `S` pieces of a window, `W` windows, `T` tokens, `Q` pieces of the
longest token, `H` features; `m` heads of `d` dimensions.
"""

from __future__ import annotations

import functools
from typing import Annotated, ClassVar, Literal, NamedTuple

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, PyTree

from jaxner.fields import Count, Depth, Distance, Field, OneOf, Positive, Rate, Size
from jaxner.models import layers
from jaxner.types import FORBIDDEN, Options, Pieces

ACTIVATIONS = {
    "gelu": functools.partial(jax.nn.gelu, approximate=False),  # x Φ(x)
    "gelu_new": functools.partial(jax.nn.gelu, approximate=True),  # tanh approximation
    "relu": jax.nn.relu,
}
"""Activations by their names in a Hugging Face config."""

_draw = layers.normal(0.02)
_REACH = 128  # all distances from here on are in MPNet's last bucket


class LayerSizes(NamedTuple):
    """The sizes and rates of a layer; see `_Pretrained`."""

    num_attention_heads: int
    intermediate_size: int
    layer_norm_eps: float
    hidden_act: str
    hidden_dropout_prob: float
    attention_probs_dropout_prob: float


class _Pretrained(nn.Module):
    """What all encoders have in common; the names are Hugging Face's.

    `remat`: whether training keeps only the input of each layer.
    """

    vocab_size: Size
    hidden_size: Size = 768
    num_hidden_layers: Depth = 12
    num_attention_heads: Size = 12
    intermediate_size: Size = 3072
    max_position_embeddings: Size = 512
    layer_norm_eps: Positive = 1e-12
    hidden_act: Annotated[str, OneOf(ACTIVATIONS)] = "gelu"
    hidden_dropout_prob: Rate = 0.1
    attention_probs_dropout_prob: Rate = 0.1
    remat: bool = False

    def check(self) -> None:
        """Raises ValueError if the features do not divide into heads."""
        if self.hidden_size % self.num_attention_heads:
            raise ValueError(
                f"hidden_size={self.hidden_size} is not divisible by "
                f"num_attention_heads={self.num_attention_heads}"
            )

    @property
    def length(self) -> int:
        """The most pieces of a window."""
        return self.max_position_embeddings

    @nn.compact
    def __call__(
        self, ids: Int[Array, " S"], mask: Bool[Array, " S"], *, train: bool
    ) -> Float[Array, " S H"]:
        """Returns the features of the last layer; zero under padding."""
        x = self._features(ids, mask, train)
        return jnp.where(mask[:, None], x, 0.0)

    def _stack(
        self, layer: type[nn.Module], x, *inputs, by_layer: PyTree = None, train: bool
    ):
        """Returns the output of the layers, given what is the same in all of them.

        One loop over stacked weights: compiling takes as long as for one layer.
        """
        scan = nn.scan(
            nn.remat(layer, prevent_cse=False) if self.remat else layer,
            variable_axes={"params": 0},
            split_rngs={"params": True, "dropout": True},
            in_axes=(0, *(nn.broadcast,) * len(inputs)),  # pyright: ignore[reportArgumentType]
            length=self.num_hidden_layers,
        )
        sizes = LayerSizes._make(getattr(self, name) for name in LayerSizes._fields)
        return scan(sizes, train, name="layers")(x, by_layer, *inputs)[0]


def _look_up(ids, number, size, name):
    return nn.Embed(number, size, embedding_init=_draw, name=name)(ids)


class BERT(_Pretrained):
    """BERT and its siblings: absolute positions, each layer LayerNorm(x + f(x)).

    Attributes:
        type_vocab_size: Number of segments, whose first is every piece's; 0: none.
        embedding_size: Length of a piece's vector; None: `hidden_size`.
        first_position: Position of the first piece.
        relative_attention_num_buckets: Buckets of distances with a score of their own.
    """

    type_vocab_size: Count = 2
    embedding_size: Size | None = None
    first_position: Count = 0
    relative_attention_num_buckets: Count = 0

    @property
    def length(self) -> int:
        """The most pieces of a window."""
        return self.max_position_embeddings - self.first_position

    def _features(self, ids, mask, train):
        dim = self.embedding_size or self.hidden_size

        # The sum of piece, position and segment vectors (figure 2).
        # A batch may be padded beyond the last position; no result depends on it.
        places = jnp.minimum(jnp.arange(ids.shape[0]), self.length - 1)
        x = _look_up(ids, self.vocab_size, dim, "words")
        places += self.first_position
        x += _look_up(places, self.max_position_embeddings, dim, "positions")
        if self.type_vocab_size:
            x += _look_up(jnp.zeros_like(ids), self.type_vocab_size, dim, "types")
        x = layers.norm(self.layer_norm_eps, "norm")(x)
        x = layers.dropout(self.hidden_dropout_prob, x, train)
        if self.embedding_size not in (None, self.hidden_size):
            x = layers.dense(self.hidden_size, _draw, "projection")(x)
        bias = None
        if count := self.relative_attention_num_buckets:
            buckets, heads = _buckets(ids, count), self.num_attention_heads
            bias = jnp.moveaxis(_look_up(buckets, count, heads, "distances"), 2, 0)
        return self._stack(_Layer, x, mask, bias, None, train=train)


class DeBERTa(_Pretrained):
    """DeBERTa-v3: no positions in the input; attention to content and to distances.

    Attributes:
        position_buckets: Buckets of distances to one side.
    """

    max_position_embeddings: Distance = 512
    layer_norm_eps: Positive = 1e-7
    position_buckets: Size = 256

    def _features(self, ids, mask, train):
        x = _look_up(ids, self.vocab_size, self.hidden_size, "words")
        x = layers.norm(self.layer_norm_eps, "norm")(x)
        x = layers.dropout(self.hidden_dropout_prob, x, train)
        size = 2 * self.position_buckets, self.hidden_size
        table = self.param("distances", _draw, size)
        table = layers.norm(self.layer_norm_eps, "distance_norm")(table)
        limit = self.max_position_embeddings
        index = _log_buckets(ids, self.position_buckets, limit)
        return self._stack(_Layer, x, mask, None, (table, index), train=train)


class _Layer(nn.Module):
    """One layer: self-attention and a dense network, each LayerNorm(x + f(x))."""

    sizes: LayerSizes
    train: bool

    @nn.compact
    def __call__(self, x, by_layer, mask, bias, distances):
        del by_layer
        sizes = self.sizes
        # Made first: this decides its key.
        drop = nn.Dropout(sizes.hidden_dropout_prob)
        y = drop(self._attend(x, mask, bias, distances), deterministic=not self.train)
        x = layers.norm(sizes.layer_norm_eps, "attention_norm")(x + y)
        y = layers.dense(sizes.intermediate_size, _draw, "intermediate")(x)
        y = ACTIVATIONS[sizes.hidden_act](y)
        y = layers.dense(x.shape[1], _draw, "output")(y)
        y = layers.dropout(sizes.hidden_dropout_prob, y, self.train)
        return layers.norm(sizes.layer_norm_eps, "output_norm")(x + y), None

    def _attend(self, x, mask, bias, distances):
        """Returns multi-head attention to the real pieces (Vaswani et al., 3.2)."""
        size = x.shape[1]
        query, key, value = (
            layers.dense(size, _draw, name) for name in ("query", "key", "value")
        )

        def split(x):
            return x.reshape(x.shape[0], self.sizes.num_attention_heads, -1)

        q, k, v = (split(f(x)) for f in (query, key, value))
        if distances is not None:
            # Content by position, and position by content (He et al., 2021, eq. 4).
            # Without dropout on the distances, a batch computes their keys once.
            table, index = distances
            from_query = jnp.einsum("smd,pmd->msp", q, split(key(table)))
            from_key = jnp.einsum("smd,pmd->msp", k, split(query(table)))
            from_query = jnp.take_along_axis(from_query, index[None], axis=2)
            from_key = jnp.take_along_axis(from_key, index.T[None], axis=2)
            q *= 3**-0.5  # a sum of three scores
            bias = (from_query + jnp.moveaxis(from_key, 1, 2)) / (3 * q.shape[2]) ** 0.5
        rate = self.sizes.attention_probs_dropout_prob
        contexts = attend(q, k, v, mask[None], bias, rate, self.train)
        return layers.dense(size, _draw, "attention_output")(contexts)


def attend(
    q: Float[Array, "S m d"],
    k: Float[Array, "S m d"],
    v: Float[Array, "S m d"],
    mask: Bool[Array, "#S S"],
    bias: Float[Array, "m S S"] | None,
    rate: float,
    train: bool,
) -> Float[Array, "S H"]:
    """Returns softmax(q kᵀ / √d + bias) v over the pieces of a mask, heads in a row."""
    # In bfloat16, scores and their sums would be too coarse.
    kind = jnp.promote_types(q.dtype, jnp.float32)
    scores = jnp.einsum("tmd,smd->mts", q, k, preferred_element_type=kind)
    scores = scores / q.shape[2] ** 0.5
    scores = scores if bias is None else scores + bias
    scores = jnp.where(mask[None], scores, FORBIDDEN)
    weights = jnp.moveaxis(jax.nn.softmax(scores, axis=-1), 0, 2).astype(q.dtype)
    if rate and train:
        weights = layers.Dropout(rate)(weights, deterministic=False)
    contexts = jnp.einsum("tsm,smd->tmd", weights, v)
    return contexts.reshape(q.shape[0], -1)


def _distances(ids: Int[Array, " S"]) -> Int[Array, "S S"]:
    """Returns j - i for each pair of positions of some pieces."""
    places = jnp.arange(ids.shape[0])
    return places[None] - places[:, None]


def _buckets(ids: Int[Array, " S"], count: int) -> Int[Array, "S S"]:
    """Returns T5's bucket of the distance of each pair: half of them to either side.

    Half of these hold a distance each; the others grow geometrically.
    """
    distances, half = np.arange(-_REACH, _REACH + 1), count // 2
    exact, size = half // 2, np.abs(distances)
    steps = (
        np.log(np.maximum(size, 1) / exact) / np.log(_REACH / exact) * (half - exact)
    )
    bins = np.minimum(exact + steps.astype(np.int32), half - 1)
    buckets = np.where(distances > 0, half, 0) + np.where(size < exact, size, bins)
    return jnp.asarray(buckets)[jnp.clip(_distances(ids), -_REACH, _REACH) + _REACH]


def _log_buckets(ids: Int[Array, " S"], count: int, limit: int) -> Int[Array, "S S"]:
    """Returns DeBERTa's bucket of i - j for each pair, from 0 to 2 · count - 1.

    Half of the distances to either side are exact; the others grow geometrically up to
    `limit`.
    """
    distances, half = np.arange(-limit, limit + 1), count // 2
    size = np.maximum(np.abs(distances), half).astype(np.float32)
    steps = np.log(size / half) / np.log(np.float32((limit - 1) / half)) * (half - 1)
    bins = np.sign(distances) * (half + np.ceil(steps).astype(np.int32))
    is_near = np.abs(distances) <= half
    buckets = np.clip(np.where(is_near, distances, bins) + count, 0, 2 * count - 1)
    return jnp.asarray(buckets)[jnp.clip(-_distances(ids), -limit, limit) + limit]


class ModernBERT(_Pretrained):
    """ModernBERT: each layer x + f(LayerNorm(x)), without biases.

    Attributes:
        layer_types: Whether each layer sees all pieces ("full_attention"), or those of
            a window around each ("sliding_attention").
        local_attention: Width of this window.
        global_theta, local_theta: Base of the rotations' wave lengths in either layer.
        prediction_head: Whether a dense layer and a norm follow, as in its classifiers.
    """

    layer_norm_eps: Positive = 1e-5
    max_position_embeddings: Distance = 8192
    layer_types: tuple[str, ...] = ()
    local_attention: Size = 128
    global_theta: Positive = 160_000.0
    local_theta: Positive = 10_000.0
    embedding_dropout: Rate = 0.0
    prediction_head: bool = False

    def check(self) -> None:
        """Raises ValueError if the layers have no kind each that is known."""
        super().check()
        if len(self.layer_types) != self.num_hidden_layers or (
            {*self.layer_types} - {"full_attention", "sliding_attention"}
        ):
            raise ValueError(
                "layer_types must be full_attention or sliding_attention for each of "
                f"num_hidden_layers={self.num_hidden_layers}, got {self.layer_types}"
            )

    def _features(self, ids, mask, train):
        x = _look_up(ids, self.vocab_size, self.hidden_size, "words")
        x = layers.norm(self.layer_norm_eps, "norm", bias=False)(x)
        x = layers.dropout(self.embedding_dropout, x, train)
        is_global = np.array([kind == "full_attention" for kind in self.layer_types])
        by_layer = np.arange(self.num_hidden_layers), is_global
        dim = self.hidden_size // self.num_attention_heads
        thetas = self.local_theta, self.global_theta
        length = ids.shape[0]
        limit = length if isinstance(length, int) else self.max_position_embeddings
        waves = jnp.stack([_rotation(limit, dim, theta) for theta in thetas])
        waves = waves[:, :, jnp.arange(length)]
        is_near = jnp.abs(_distances(ids)) <= self.local_attention // 2
        inputs = x, mask, is_near, waves
        x = self._stack(_PreNormLayer, *inputs, by_layer=by_layer, train=train)
        x = layers.norm(self.layer_norm_eps, "final_norm", bias=False)(x)
        if self.prediction_head:
            x = layers.dense(self.hidden_size, _draw, "head_dense", bias=None)(x)
            x = ACTIVATIONS["gelu"](x)
            x = layers.norm(self.layer_norm_eps, "head_norm", bias=False)(x)
        return x


def _rotation(length: int, dim: int, theta: float) -> np.ndarray:
    """Returns cosines and sines of each position's angles, [2, S, 1, d/2]."""
    rates = theta ** -(np.arange(0, dim, 2) / dim)
    angles = np.arange(length)[:, None, None] * rates
    return np.stack([np.cos(angles), np.sin(angles)]).astype(np.float32)


class _PreNormLayer(nn.Module):
    """One layer of ModernBERT."""

    sizes: LayerSizes
    train: bool

    @nn.compact
    def __call__(self, x, by_layer, mask, is_near, waves):
        sizes, size, (number, is_global) = self.sizes, x.shape[1], by_layer

        def normed(name, x):
            return layers.norm(sizes.layer_norm_eps, name, bias=False)(x)

        def dense(name, size, x):
            return layers.dense(size, _draw, name, bias=None)(x)

        # The embeddings are normalised already.
        y = jnp.where(number == 0, x, normed("attention_norm", x))
        shape = x.shape[0], 3, sizes.num_attention_heads, -1
        y = dense("qkv", 3 * size, y).reshape(shape)
        cosine, sine = jnp.asarray(waves, x.dtype)[is_global.astype(int)]

        def turn(x):
            first, second = jnp.split(x, 2, axis=2)
            parts = first * cosine - second * sine, second * cosine + first * sine
            return jnp.concatenate(parts, axis=2)

        visible = mask[None] & (is_near | is_global)
        rate = sizes.attention_probs_dropout_prob
        q, k = turn(y[:, 0]), turn(y[:, 1])
        y = attend(q, k, y[:, 2], visible, None, rate, self.train)
        x += dense("attention_output", size, y)
        y = dense("intermediate", 2 * sizes.intermediate_size, normed("mlp_norm", x))
        y, gate = jnp.split(y, 2, axis=1)
        y = ACTIVATIONS[sizes.hidden_act](y) * gate
        y = layers.dropout(sizes.hidden_dropout_prob, y, self.train)
        return x + dense("output", size, y), None


_RATE = Field(Rate | None, None, "Rate of the encoder; None: by its config.json.")


class WordPieces(nn.Module):
    """Features of tokens from their pieces, in windows as of `Pieces`.

    Attributes:
        encoder: Maps ids and mask of a window, [S] each, to features [S, H].
        pool: A token's features: "first", those of its first piece (Devlin et al.,
            section 5.3), or "mean", the mean over its pieces.
    """

    MORE: ClassVar = {
        "encoder": Field(str | None, None, "Your encoder, package.module:Class."),
        **dict.fromkeys(("dropout", "attention_dropout"), _RATE),
    }

    encoder: nn.Module
    pool: Literal["first", "mean"] = "first"

    @classmethod
    def from_options(cls, options: Options, sizes: Options) -> WordPieces:
        """Returns the module, whose encoder `sizes["pretrained"]` makes."""
        encoder = sizes["pretrained"](
            options.get("encoder"),
            hidden_dropout_prob=options.get("dropout"),
            attention_probs_dropout_prob=options.get("attention_dropout"),
        )
        return cls(encoder, options.get("pool", "first"))

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
        vectors = jnp.where(present, states[jnp.maximum(positions, 0)], 0.0)
        counts = present.sum(axis=1, dtype=vectors.dtype)
        return vectors.sum(axis=1) / jnp.maximum(counts, 1)
