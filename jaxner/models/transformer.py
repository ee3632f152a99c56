"""Self-attention with relative positions: the Rel-Transformer, and UANet's two streams.

Gui et al., "Uncertainty-Aware Label Refinement for Sequence Labeling", EMNLP 2020, eq.
7-8. Where paper and authors' code differ, the default is the code, which gave the
published figures. Kernels and biases are drawn from U(±1/√fan-in), as there (PyTorch's
default).

Shape letters: `T` tokens, `m` heads of `k` dimensions, `d` = m · k features, `D` and
`E` input features of words and labels.
"""

from __future__ import annotations

from typing import Annotated

import flax.linen as nn
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from jaxner.fields import Depth, EvenSize, OneOf, Rate, Size, check_fields
from jaxner.models import layers
from jaxner.models.relative import RelativeAttention, fan_in_uniform

FORMS = ("code", "paper")

_EPSILON = 1e-12  # of layer normalisation


class RelativeLayer(nn.Module):
    """Attention and a feed-forward network, each with a residual sum.

    With "code": h' = LN(attention(h) + h), and the output is LN(h' + FFN(h')). With
    "paper", literally eq. 8: o = LN(Linear(attention(h)) + h), and the output is
    FFN(o). FFN: d → 2 d → d, ReLU.

    Attributes:
        num_heads: Number of heads.
        head_dim: Dimensions of each head, even.
        dropout: Rate after each linear layer of the feed-forward network.
        attention_dropout: Rate on the attention weights.
        form: "code" or "paper".
    """

    num_heads: Size = 7
    head_dim: EvenSize = 160
    dropout: Rate = 0.15
    attention_dropout: Rate = 0.05
    form: Annotated[str, OneOf(FORMS)] = "code"

    def __post_init__(self):
        check_fields(self)
        super().__post_init__()

    @nn.compact
    def __call__(
        self,
        x: Float[Array, " T d"],
        mask: Bool[Array, " T"],
        *,
        train: bool,
        keys: Float[Array, " T d"] | None = None,
        position: Float[Array, "k k"] | None = None,
    ) -> Float[Array, " T d"]:
        """Returns new features of each token, zero under padding.

        Args:
            x: Features of the tokens that attend; d must be num_heads · head_dim.
            mask: False under padding.
            train: Whether to apply dropout.
            keys: Features that tokens attend to, also used in the residual sum; None
                for x.
            position: See `RelativeAttention`.
        """
        dim = self.num_heads * self.head_dim
        if x.shape[1] != dim:
            raise ValueError(
                f"Expected num_heads · head_dim = {dim} features in RelativeLayer, got "
                f"{x.shape[1]}; project them first"
            )
        keys = x if keys is None else keys
        h = _attention(self, "attention")(x, keys, mask, train=train, position=position)
        if self.form == "paper":
            h = _dense(dim, dim, "projection")(h)
        h = nn.LayerNorm(_EPSILON, use_fast_variance=False, name="norm1")(h + keys)
        fed = jax.nn.relu(_dense(dim, 2 * dim, "widen")(h))
        fed = nn.Dropout(self.dropout)(fed, deterministic=not train)
        fed = _dense(2 * dim, dim, "narrow")(fed)
        fed = nn.Dropout(self.dropout)(fed, deterministic=not train)
        if self.form == "code":
            norm = nn.LayerNorm(_EPSILON, use_fast_variance=False, name="norm2")
            fed = norm(h + fed)
        return jnp.where(mask[:, None], fed, 0.0)


class RelativeTransformer(nn.Module):
    """The encoder of Rel-Transformer, a baseline of UANet: a projection, then layers.

    Attributes:
        num_layers: Number of layers.
        num_heads: Number of heads.
        head_dim: Dimensions of each head, even.
        dropout: Rate inside the feed-forward networks.
        attention_dropout: Rate on the attention weights.

    Example:
        >>> import jax, jax.numpy as jnp
        >>> model = RelativeTransformer(num_heads=2, head_dim=4)
        >>> x, mask = jnp.ones((3, 5)), jnp.array([True, True, False])
        >>> weights = model.init(jax.random.key(0), x, mask, train=False)
        >>> features, _ = model.apply(weights, x, mask, train=False)
        >>> features.shape, bool(features[2].any())
        ((3, 8), False)
    """

    num_layers: Depth = 2
    num_heads: Size = 7
    head_dim: EvenSize = 160
    dropout: Rate = 0.15
    attention_dropout: Rate = 0.05

    receptive_field = None  # all tokens decide every label

    def __post_init__(self):
        check_fields(self)
        super().__post_init__()

    @nn.compact
    def __call__(
        self, x: Float[Array, " T D"], mask: Bool[Array, " T"], *, train: bool
    ) -> tuple[Float[Array, " T d"], dict[str, Array]]:
        """Returns the features, zero under padding, and no intermediates."""
        x = _dense(x.shape[1], self.num_heads * self.head_dim, "input")(x)
        for number in range(1, self.num_layers + 1):
            x = _layer(self, f"layer{number}")(x, mask, train=train)
        return x, {}


class TwoStream(nn.Module):
    """UANet's refinement: words attend to words and to the draft labels.

    N - 1 plain layers on the words give h. One more such layer on h gives Hx; attention
    with queries from h and keys from the labels gives Hl. Both streams are first
    projected to d. The authors' attention modules start as copies of one draw; ours are
    drawn independently.

    "code": Hl is the output of attention with its own parameters, without residual sum,
    normalisation or feed-forward network. "paper", literally eq. 7-8: all layers are
    `RelativeLayer`s with "paper"; Hl = FFN(LN(Linear(a_l) + labels)) has its own
    parameters except for W_r, which both streams of the last layer share (the W_kR of
    eq. 7).

    Attributes:
        num_layers: Number of layers, N; the last one has two streams.
        num_heads: Number of heads.
        head_dim: Dimensions of each head, even.
        dropout: Rate inside the feed-forward networks.
        attention_dropout: Rate on the attention weights.
        labels: Whether the label stream exists; False is the paper's ablation "without
            label information".
        form: "code" or "paper".

    Example:
        >>> import jax, jax.numpy as jnp
        >>> model = TwoStream(num_heads=2, head_dim=4)
        >>> inputs = jnp.ones((3, 5)), jnp.ones((3, 6)), jnp.ones(3, bool)
        >>> weights = model.init(jax.random.key(0), *inputs, train=False)
        >>> model.apply(weights, *inputs, train=False).shape
        (3, 16)
    """

    num_layers: Depth = 2
    num_heads: Size = 7
    head_dim: EvenSize = 160
    dropout: Rate = 0.15
    attention_dropout: Rate = 0.05
    labels: bool = True
    form: Annotated[str, OneOf(FORMS)] = "code"

    def __post_init__(self):
        check_fields(self)
        super().__post_init__()

    @nn.compact
    def __call__(
        self,
        words: Float[Array, " T D"],
        labels: Float[Array, " T E"] | None,
        mask: Bool[Array, " T"],
        *,
        train: bool,
    ) -> Float[Array, " T H"]:
        """Returns [Hx; Hl], H = 2 d, zero under padding; Hx alone without labels.

        Args:
            words: Features of the words.
            labels: Vectors of the draft labels; None where the attribute is False.
            mask: False under padding.
            train: Whether to apply dropout.
        """
        dim = self.num_heads * self.head_dim
        h = _dense(words.shape[1], dim, "input")(words)
        for number in range(1, self.num_layers):
            h = _layer(self, f"layer{number}")(h, mask, train=train)
        last = _layer(self, f"layer{self.num_layers}")
        if not self.labels:
            return last(h, mask, train=train)
        if labels is None:
            raise ValueError("TwoStream with labels=True needs vectors of draft labels")
        y = _dense(labels.shape[1], dim, "label_input")(labels)
        if self.form == "code":
            by_words = last(h, mask, train=train)
            by_labels = _attention(self, "label_attention")(h, y, mask, train=train)
        else:
            size = (self.head_dim, self.head_dim)
            shared = self.param("position", fan_in_uniform, size)
            by_words = last(h, mask, train=train, position=shared)
            labelled = _layer(self, "label_layer")
            by_labels = labelled(h, mask, train=train, keys=y, position=shared)
        return jnp.concatenate([by_words, by_labels], axis=1)


def _attention(module, name: str) -> RelativeAttention:
    return RelativeAttention(
        module.num_heads, module.head_dim, module.attention_dropout, name=name
    )


def _layer(module, name: str) -> RelativeLayer:
    return RelativeLayer(
        module.num_heads,
        module.head_dim,
        module.dropout,
        module.attention_dropout,
        getattr(module, "form", "code"),
        name=name,
    )


def _dense(fan_in: int, size: int, name: str) -> nn.Dense:
    bias = layers.symmetric_uniform(fan_in**-0.5)
    return nn.Dense(size, kernel_init=fan_in_uniform, bias_init=bias, name=name)
