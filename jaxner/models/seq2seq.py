"""A tag LSTM: a head whose labels depend on all labels before them.

Zhang, Chen, Zhao, Liu and Yin, "Learning Tag Dependencies for Sequence Tagging", IJCAI
2018. The three ways to join words and tags come from its abstract; the formulas are our
reading of it, and the sizes are ours. Shape letters: `T` tokens, `H` features, `L`
labels, `N` state size.
"""

from __future__ import annotations

from typing import Literal

import flax.linen as nn
import jax.numpy as jnp
from jaxtyping import Array, Float

from jaxner.fields import Derived, Hypotheses, Rate, Real, Size
from jaxner.models import layers
from jaxner.types import FORBIDDEN, Autoregressive


class Seq2seqHead(nn.Module):
    """A head that joins features h_t with an LSTM's state s_t over earlier labels.

    With e(y) the vector of a label and e_0 that before the first token:

    - "shared": s_t = LSTM([h_t; e(y_{t-1})], s_{t-1}), and the scores are U s_t + b.
    - "integrate": s_t = LSTM(e(y_{t-1}), s_{t-1}), which does not see the words, and
      the scores are W tanh(V [h_t; s_t] + b) + c.
    - "joint": s_t as of "integrate"; the scores are W h_t + U s_t + b.

    Training reads the gold labels. Dropout applies only to the features.

    Attributes:
        fusion: "shared": the LSTM reads features and labels; "integrate": only labels,
            and a layer joins both; "joint": only labels, and scores of both add up.
        tag_dim: Length of a label's vector.
        hidden_dim: State size, and the length of V's output.
        beam_size: Hypotheses of the beam search; 1 is greedy. Unused in training.
        dropout: Probability of zeroing a feature on the way in.
        initializer: How linear layers are drawn.
        table_initializer: How label vectors are drawn.
        lstm_initializer: How the LSTM's kernels are drawn, as in encoder bilstm.
        forget_bias: Initial bias of the forget gate.
    """

    num_labels: Derived
    fusion: Literal["shared", "integrate", "joint"] = "shared"
    tag_dim: Size = 50
    hidden_dim: Size = 200
    beam_size: Hypotheses = 1
    dropout: Rate = 0.5
    initializer: layers.Kernel = "kaiming"
    table_initializer: layers.Table = "kaiming"
    lstm_initializer: layers.LSTM = "glorot"
    forget_bias: Real = 1.0

    @nn.compact
    def __call__(self, x: Float[Array, " T H"], *, train: bool) -> Autoregressive:
        """Returns the potentials of the sentence."""
        x = layers.dropout(self.dropout, x, train)
        words, from_state, kernel, bias = self._scores(x)
        beam = jnp.where(jnp.arange(self.beam_size) == 0, 0.0, FORBIDDEN)
        beam = beam.astype(x.dtype)
        gates = self._gates(x)
        return Autoregressive(words, *gates, from_state, kernel, bias, beam)

    def _gates(self, x):
        shape = (self.num_labels + 1, self.tag_dim)
        table = self.param("tags", layers.TABLES[self.table_initializer], shape)
        size = x.shape[1] if self.fusion == "shared" else 0
        init = self.lstm_initializer, self.forget_bias
        cell = layers.Cells(self.hidden_dim, *init, num_directions=1, name="lstm")
        kernel, recurrent, bias = (leaf[0, 0] for leaf in cell(size + self.tag_dim))
        previous = jnp.einsum("pd,dgn->pgn", table, kernel[size:]) + bias[None]
        if not size:
            return None, previous, recurrent
        return jnp.einsum("th,hgn->tgn", x, kernel[:size]), previous, recurrent

    def _scores(self, x):
        init, state, labels = self.initializer, self.hidden_dim, self.num_labels

        def param(name, *shape):
            initializer = layers.KERNELS[init](1) if len(shape) > 1 else layers.zeros
            return self.param(name, initializer, shape)

        if self.fusion == "integrate":
            kernel = param("fusion_kernel", x.shape[1] + state, state)
            words = x @ kernel[: x.shape[1]] + param("fusion_bias", state)[None]
            output = param("output_kernel", state, labels), param("bias", labels)
            return (words, kernel[x.shape[1] :], *output)
        words = jnp.broadcast_to(param("bias", labels)[None], (x.shape[0], labels))
        if self.fusion == "joint":
            words = words + x @ param("word_kernel", x.shape[1], labels)
        return words, param("state_kernel", state, labels), None, None
