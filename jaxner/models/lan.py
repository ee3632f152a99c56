"""The label attention network: BiLSTM layers that attend to label vectors.

Cui and Zhang, "Hierarchically-Refined Label Attention Network for Sequence Labeling",
EMNLP 2019; sizes and rates as in their code. Shape letters: `T` tokens, `D` input
features, `L` labels, `H` features of a BiLSTM; `m` heads; `N` layers but the last.
"""

from __future__ import annotations

import flax.linen as nn
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from jaxner.fields import Depth, Derived, Positive, Rate, Real, Size
from jaxner.models import layers
from jaxner.models.layers import Encoded, Features, Mask


class LabelAttention(nn.Module):
    """Stacked BiLSTMs, each with attention from tokens to label vectors.

    In each layer but the last, queries come from the BiLSTM's features, keys and values
    from the label vectors. The next layer reads the features, concatenated with the sum
    of features and attention output. In the last layer, the attention scores of a
    single head are the scores of the labels. All layers share the label vectors.

    As in the authors' code: queries, keys and values pass a ReLU; every BiLSTM but the
    first starts with the final state of the first; dropout applies to the features
    after each BiLSTM and to the attention weights of all layers but the last.

    Attributes:
        num_layers: Number of BiLSTMs.
        hidden_dim: State size of one direction; a label vector has twice as many.
        num_heads: Heads of every layer but the last.
        dropout: Dropout rate on the features of every BiLSTM.
        weight_dropout: Dropout rate on the attention weights.
        initializer: How the LSTM kernels are drawn, as in encoder bilstm.
        forget_bias: Initial bias of the forget gates.
        kernel_initializer: How queries, keys and values are drawn.
        label_bound: Label vectors are drawn from U(-label_bound, label_bound).
    """

    num_labels: Derived
    num_layers: Depth = 3
    hidden_dim: Size = 200
    num_heads: Size = 5
    dropout: Rate = 0.5
    weight_dropout: Rate = 0.5
    initializer: layers.LSTM = "glorot"
    forget_bias: Real = 1.0
    kernel_initializer: layers.Kernel = "kaiming"
    label_bound: Positive = 0.0025

    def check(self) -> None:
        """Raises ValueError if the features do not divide into heads."""
        if 2 * self.hidden_dim % self.num_heads:
            raise ValueError(
                f"{2 * self.hidden_dim} features are not divisible by "
                f"num_heads={self.num_heads} of LabelAttention; choose a divisor of "
                "2 · hidden_dim"
            )

    @nn.compact
    def __call__(self, x: Features, mask: Mask, *, train: bool) -> Encoded:
        """Returns the scores of the labels, zero under padding, for a `ScoresHead`.

        The intermediates hold `label_attention` `[N, m, T, L]`, before dropout.
        """
        bound = layers.symmetric_uniform(self.label_bound)
        shape = (self.num_labels, 2 * self.hidden_dim)
        labels = self.param("labels", bound, shape)
        sizes = self.hidden_dim, self.initializer, self.forget_bias
        first, attention = None, []
        for layer in range(1, self.num_layers + 1):
            weights = layers.Cells(*sizes, name=f"lstm{layer}")(x.shape[1])
            states, end = layers.bilstm(x[:, None, None], mask, *weights, carry=first)
            first = end if first is None else first
            features = states.reshape(mask.shape[0], shape[1])
            features = layers.dropout(self.dropout, features, train)
            if layer < self.num_layers:
                name = f"attention{layer}"
                answers, shares = self._attend(features, labels, name, train)
                attention.append(shares)
                x = jnp.concatenate([features, answers + features], axis=1)
        scores = self._scores(features, labels, f"attention{self.num_layers}", 1)[0]
        arrays = {"label_attention": jnp.stack(attention)} if attention else {}
        return jnp.where(mask[:, None], scores, 0.0), arrays

    def _project(self, x, name, num_heads):
        linear = layers.dense(x.shape[1], self.kernel_initializer, name)
        return jax.nn.relu(linear(x)).reshape(
            x.shape[0], num_heads, x.shape[1] // num_heads
        )

    def _scores(self, features, labels, name, num_heads) -> Float[Array, "m T L"]:
        queries = self._project(features, f"{name}_query", num_heads)
        keys = self._project(labels, f"{name}_key", num_heads)
        return jnp.einsum("tmk,lmk->mtl", queries, keys) / queries.shape[2] ** 0.5

    def _attend(self, features, labels, name, train):
        """Returns attention to the labels' values, and its weights before dropout."""
        scores = self._scores(features, labels, name, self.num_heads)
        weights = jax.nn.softmax(scores, axis=2)
        # Tokens on the first axis, so that masks do not depend on the padding.
        by_token = weights.swapaxes(0, 1)
        thinned_weights = layers.dropout(self.weight_dropout, by_token, train)
        values = self._project(labels, f"{name}_value", self.num_heads)
        answers = jnp.einsum("tml,lmk->tmk", thinned_weights, values)
        return answers.reshape(answers.shape[0], features.shape[1]), weights
