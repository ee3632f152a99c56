"""Self-attention with relative positions: the Rel-Transformer, and UANet's refinement.

Gui, Ye, Zhang, Li, Fei, Gong and Huang, "Uncertainty-Aware Label Refinement for
Sequence Labeling", EMNLP 2020, eq. 7-8, on the relative positions of Dai et al.,
"Transformer-XL", ACL 2019. Where paper and authors' code differ, the default is the
code, which gave the published figures. Kernels and biases are drawn from U(±1/√fan-in),
as there (PyTorch's default).

Shape letters: `T` tokens, `m` heads of `k` dimensions, `d` = m · k features, `D` and
`E` input features of words and labels (queries and keys), `L` labels, `P` positions or
distances.
"""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

import flax.linen as nn
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from jaxner import fields
from jaxner.fields import Depth, EvenSize, Field, Positive, Rate, Real, Size
from jaxner.models import layers
from jaxner.models.bilstm import BLOCK, by_blocks, is_short
from jaxner.models.layers import Encoded, Features, Mask
from jaxner.types import FORBIDDEN, Options, Potentials

_EPSILON = 1e-12  # of layer normalisation
# U(±1/√fan-in) for the kernel of all heads, `[D, m, k]`.
_uniform_heads = layers.uniform(1 / 3, in_axis=0, out_axis=(1, 2))


def sinusoids(positions: Float[Array, " P"], dim: int) -> Float[Array, " P {dim}"]:
    """Returns R: sines, then cosines of positions at dim / 2 frequencies.

    These fall geometrically from 1 to 1/10,000, both included, as in Gui et al.'s code.
    """
    half = dim // 2
    frequencies = 1e4 ** (-jnp.arange(half) / max(half - 1, 1))
    angles = positions[:, None] * frequencies[None]
    return jnp.concatenate([jnp.sin(angles), jnp.cos(angles)], axis=1)


def shift(by_distance: Float[Array, "m n P"]) -> Float[Array, "m n T"]:
    """Returns scores by pair from scores by distance: `[i, j]` is the score of j - i.

    The scores are those of n tokens for distances -n to T, P = n + T + 1. Row i starts
    i values further left than row 0: the flat array in rows shorter by one. This is one
    copy, and so is its gradient; a gather is slower.
    """
    heads, rows, count = by_distance.shape
    flat = by_distance.reshape(heads, rows * count)[:, rows:]
    return flat.reshape(heads, rows, count - 1)[:, :, : count - rows - 1]


class _Attentive(nn.Module):
    """What modules with relative attention have in common.

    Attributes:
        num_heads: Number of heads.
        head_dim: Dimensions of each head, even.
        dropout: Rate inside the feed-forward networks.
        attention_dropout: Rate on the attention weights.
    """

    num_heads: Size = 7
    head_dim: EvenSize = 160
    dropout: Rate = 0.15
    attention_dropout: Rate = 0.05

    def attention(self, name: str) -> RelativeAttention:
        rates = self.dropout, self.attention_dropout
        return RelativeAttention(self.num_heads, self.head_dim, *rates, name=name)

    def layer(self, name: str, form: str = "code") -> RelativeLayer:
        rates = self.dropout, self.attention_dropout
        return RelativeLayer(self.num_heads, self.head_dim, *rates, form, name=name)


class RelativeAttention(_Attentive):
    """Attention whose scores depend on content and on the distance between tokens.

    The score of query i and key j is ((q_i + u) · k_j + (q_i + v) · r_{j-i}) / √k, with
    r = W_r R; no bias, no output projection; memory linear in T. The paper's distance
    is i - j; the authors' code adds 257 to it: both are ours with another W_r.
    """

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
        """Returns the output of each token, heads side by side; zero under padding.

        `keys` are also the values; `position` is W_r^T, by default the module's own.
        """
        heads = (self.num_heads, self.head_dim)
        q, k, v = (
            jnp.einsum(
                "td,dmk->mtk", x, self.param(name, _uniform_heads, (x.shape[1], *heads))
            )
            for name, x in (("query", queries), ("key", keys), ("value", keys))
        )
        if position is None:
            position = _position(self)
        # u and v, Xavier-normal as matrices of heads by dimensions.
        u, v_bias = (
            self.param(name, layers.glorot_normal, heads)[:, None, :]
            for name in ("content_bias", "position_bias")
        )
        rate = self.attention_dropout
        key = self.make_rng("dropout") if train and rate else None
        length = mask.shape[0]
        # Blocks of queries from token 0, n, 2 n, … see distances from -n, -2 n, ….
        rows = length if is_short(length) else BLOCK
        furthest = length if is_short(length) else rows * -(-length // rows)
        # Does not depend on the sentence, so `vmap` computes it once for a batch.
        # Not in bfloat16, which cannot tell 257 from 258.
        exact = jnp.promote_types(queries.dtype, jnp.float32)
        distances = jnp.arange(-furthest, length + 1, dtype=exact)
        waves = sinusoids(distances, self.head_dim).astype(queries.dtype)
        relative = waves @ position

        def gather(start, q):
            begin = furthest - rows - start
            window = jax.lax.dynamic_slice_in_dim(relative, begin, rows + length + 1)
            by_content = jnp.einsum("mtk,msk->mts", q + u, k)
            by_distance = jnp.einsum("mtk,pk->mtp", q + v_bias, window)
            scores = (by_content + shift(by_distance)) / self.head_dim**0.5
            scores = jnp.where(mask[None, None, :], scores, FORBIDDEN)
            weights = jnp.moveaxis(jax.nn.softmax(scores, axis=-1), 0, 2)
            if key is not None:
                weights = layers.drop_rows(weights, key, rate, start)
            return jnp.einsum("tsm,msk->tmk", weights, v)

        contexts = gather(0, q) if is_short(length) else by_blocks(gather, q, rows)
        contexts = contexts.reshape(length, self.num_heads * self.head_dim)
        return jnp.where(mask[:, None], contexts, 0.0)


class RelativeLayer(_Attentive):
    """Attention and a feed-forward network, each with a residual sum.

    "code": h' = LN(attention(h) + h), and the output is LN(h' + FFN(h')). "paper" (eq.
    8): o = LN(Linear(attention(h)) + h), and the output FFN(o). FFN: d → 2 d → d, ReLU.
    """

    form: str = "code"

    @nn.compact
    def __call__(
        self, x, mask: Bool[Array, " T"], *, train: bool, keys=None, position=None
    ) -> Float[Array, " T d"]:
        """Returns features; tokens attend to `keys`, the residual, by default x."""
        dim = self.num_heads * self.head_dim
        keys = x if keys is None else keys
        attention = self.attention("attention")
        h = attention(x, keys, mask, train=train, position=position)
        if self.form == "paper":
            h = _dense(dim, dim, "projection")(h)
        h = layers.norm(_EPSILON, "norm1")(h + keys)
        update = jax.nn.relu(_dense(dim, 2 * dim, "widen")(h))
        update = layers.dropout(self.dropout, update, train)
        update = _dense(2 * dim, dim, "narrow")(update)
        update = layers.dropout(self.dropout, update, train)
        if self.form == "code":
            update = layers.norm(_EPSILON, "norm2")(h + update)
        return jnp.where(mask[:, None], update, 0.0)


class RelativeTransformer(_Attentive):
    """The encoder of Rel-Transformer, a baseline of UANet: a projection, then layers.

    Attributes:
        num_layers: Number of layers.
    """

    num_layers: Depth = 2

    is_quadratic = True

    @nn.compact
    def __call__(self, x: Features, mask: Mask, *, train: bool) -> Encoded:
        """Returns the features, zero under padding, and no intermediates."""
        x = _dense(x.shape[1], self.num_heads * self.head_dim, "input")(x)
        for number in range(1, self.num_layers + 1):
            x = self.layer(f"layer{number}")(x, mask, train=train)
        return x, {}


class TwoStream(_Attentive):
    """UANet's refinement: words attend to words and to the draft labels.

    Both streams are first projected to d. N - 1 plain layers on the words give h. One
    more such layer on h gives Hx; attention with queries from h and keys from the
    labels gives Hl. The authors' attention modules start as copies of one draw.

    "code": Hl is the output of attention alone, with its own parameters. "paper",
    literally eq. 7-8: all layers are `RelativeLayer`s with "paper";
    Hl = FFN(LN(Linear(a_l) + labels)) has its own parameters but W_r, which both
    streams of the last layer share (the W_kR of eq. 7).

    Attributes:
        num_layers: Number of layers, N; the last one has two streams.
        labels: Whether the label stream exists; False is the paper's ablation "without
            label information".
        form: The layers of the authors' "code", or eq. 7-8 of the "paper".
    """

    num_layers: Depth = 2
    labels: bool = True
    form: Literal["code", "paper"] = "code"

    @nn.compact
    def __call__(
        self,
        words: Features,
        labels: Float[Array, " T E"] | None,
        mask: Mask,
        *,
        train: bool,
    ):
        """Returns [Hx; Hl], H = 2 d, zero under padding; Hx alone without labels."""
        dim = self.num_heads * self.head_dim
        h = _dense(words.shape[1], dim, "input")(words)
        for number in range(1, self.num_layers):
            h = self.layer(f"layer{number}", self.form)(h, mask, train=train)
        last = self.layer(f"layer{self.num_layers}", self.form)
        if not self.labels or labels is None:
            return last(h, mask, train=train)
        y = _dense(labels.shape[1], dim, "label_input")(labels)
        if self.form == "code":
            by_words = last(h, mask, train=train)
            by_labels = self.attention("label_attention")(h, y, mask, train=train)
        else:
            position = _position(self)
            by_words = last(h, mask, train=train, position=position)
            by_labels = self.layer("label_layer", "paper")(
                h, mask, keys=y, train=train, position=position
            )
        return jnp.concatenate([by_words, by_labels], axis=1)


def _position(module: _Attentive) -> Float[Array, "k k"]:
    size = (module.head_dim, module.head_dim)
    return module.param("position", layers.torch_uniform, size)


def _dense(fan_in: int, size: int, name: str) -> nn.Module:
    bias = layers.symmetric_uniform(fan_in**-0.5)
    return layers.dense(size, layers.torch_uniform, name, bias)


_MEANING = "Whether the refinement has its own word and character features."


class Refinement(nn.Module):
    """Scores labels from two streams, one of words and one of draft labels.

    The input for a draft label is the mean of the label vectors under the draft's
    probabilities (code), or the vector of the most probable label (eq. 7, 8). The code
    draws these from U(±600): the label stream is a hundred times as strong as words.

    Attributes:
        representation: Separate word features; None to share those of the draft.
        streams: A `TwoStream`.
        head: Scores labels from the streams' features.
        threshold: Γ, in nats: the refinement replaces draft labels with a higher
            entropy; all labels if negative. Training does not depend on it.
        label_dim: Length of a label vector.
        label_scale: Label vectors are drawn from U(±label_scale).
        soft: Whether the input for a draft label is a mean vector.
        labels: Whether draft labels are an input (the paper's "label information").
    """

    MORE: ClassVar = {
        "own_representation": Field(bool, True, _MEANING),
        **fields.of(TwoStream),
    }

    representation: nn.Module | None
    streams: nn.Module
    head: Annotated[nn.Module, fields.Part("head", "softmax")]
    threshold: Real = 0.45
    label_dim: Size = 400
    label_scale: Positive = 600.0
    soft: bool = True
    labels: bool = True

    is_quadratic = True

    @classmethod
    def from_options(cls, options: Options, sizes: object) -> Refinement:
        """Returns the module of its options and of those of its streams."""
        streams, rest = (
            {name: options[name] for name in fields.all_of(kind) if name in options}
            for kind in (TwoStream, cls)
        )
        if not options.get("own_representation", True):
            rest["representation"] = None
        return cls(**rest, streams=TwoStream(**streams))

    @nn.compact
    def __call__(
        self,
        x: Features,
        probabilities: Float[Array, " T L"],
        mask: Mask,
        *,
        train: bool,
    ) -> Potentials:
        """Returns the potentials, given words and the draft's label probabilities."""
        values = None
        if self.labels:
            size = probabilities.shape[1]
            init = layers.symmetric_uniform(self.label_scale)
            vectors = self.param("label_vectors", init, (size, self.label_dim))
            if not self.soft:
                best = jnp.argmax(probabilities, axis=1)
                probabilities = jax.nn.one_hot(best, size)
            values = jnp.where(mask[:, None], probabilities @ vectors, 0.0)
        features = self.streams(x, values, mask, train=train)
        return self.head(features, train=train)
