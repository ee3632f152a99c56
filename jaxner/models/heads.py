"""Heads: map the features of tokens to potentials of label sequences.

Shape letters: `T` tokens, `H` features, `L` labels; `N` words of `D` dimensions.
"""

from __future__ import annotations

from typing import Annotated

import flax.linen as nn
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from jaxner import inference
from jaxner.data import schemes
from jaxner.data.vocabulary import PADDING, UNKNOWN
from jaxner.fields import Derived, FromData, Rate, Real, Size, Weight
from jaxner.models import layers
from jaxner.models.layers import Mask
from jaxner.types import Potentials


class Head(nn.Module):
    """A linear layer that scores labels; as a CRF, label pairs too.

    `start` and `end` replace the START and STOP labels in the code of Chen et al.
    (2019): the same model without two labels that no token has. All scores start at 0.

    Attributes:
        transitions: Whether pairs of neighbouring labels have scores (a CRF).
        boundaries: Whether a CRF scores the first and last label (Strubell et al.: no).
        dropout: Probability of zeroing a feature on the way in.
        initializer: How the linear layer is drawn.
        bias: Initial bias of the linear layer.
        constrained: Whether ill-formed labellings are impossible, in training too
            (Papay, Klinger and Padó, "Constraining Linear-chain CRFs to Regular
            Languages", ICLR 2022).
        grammar: Scheme and names of the labels, where `constrained`.
    """

    num_labels: Derived
    transitions: bool = True
    boundaries: bool = True
    dropout: Rate = 0.5
    initializer: layers.Kernel = "kaiming"
    bias: Real = 0.0
    constrained: bool = False
    grammar: Annotated[tuple[str, ...], FromData("constrained")] = ()

    def check(self) -> None:
        """Raises ValueError if the grammar is needed and not there."""
        if self.constrained and len(self.grammar) != 1 + self.num_labels:
            raise ValueError("constrained needs `grammar`, the scheme and all labels")

    @nn.compact
    def __call__(self, x: Float[Array, " T H"], *, train: bool) -> Potentials:
        """Returns the potentials of the sentence."""
        x = layers.dropout(self.dropout, x, train)
        linear = layers.dense(self.num_labels, self.initializer, "emissions", self.bias)
        potentials = _chain(self, linear(x))
        if not self.constrained:
            return potentials
        scheme, *names = self.grammar
        rules = inference.Constraints(*map(jnp.asarray, schemes.allowed(names, scheme)))
        return inference.constrain(potentials, rules)


def _chain(head: Head | ScoresHead, emissions: Float[Array, " T L"]) -> Potentials:
    """Returns potentials, for a CRF with the head's scores of label pairs."""
    if not head.transitions:
        return Potentials(emissions)
    size, zeros = head.num_labels, layers.zeros
    init = zeros if head.boundaries else layers.convolution_glorot(1)
    transitions = head.param("transitions", init, (size, size))
    if not head.boundaries:
        edges = jnp.zeros(size, transitions.dtype)
        return Potentials(emissions, transitions, edges, edges)
    start, end = (head.param(name, zeros, (size,)) for name in ("start", "end"))
    return Potentials(emissions, transitions, start, end)


class ScoresHead(nn.Module):
    """A head for encoders that return scores of labels, such as `LabelAttention`.

    Attributes:
        transitions: Whether neighbouring labels depend on each other (a CRF).
        boundaries: Whether a CRF scores the first and last label.
    """

    num_labels: Derived
    transitions: bool = False
    boundaries: bool = True

    @nn.compact
    def __call__(self, x: Float[Array, " T H"], *, train: bool) -> Potentials:
        """Returns the potentials of the sentence, whose scores x are."""
        del train  # dropping a feature would drop a label's score
        if x.shape[1] != self.num_labels:
            raise ValueError(
                f"ScoresHead takes one feature for each of the {self.num_labels} "
                f"labels, got {x.shape[1]}; use the encoder 'lan', or another head"
            )
        return _chain(self, x)


class DirectionHead(nn.Module):
    """Two classifiers, one for each direction of a BiLSTM, averaged in probability.

    Chiu and Nichols's (2016) form; Li, Fu and Ma (2020) found one softmax of the summed
    scores better. Features are halved: the halves are directions only of a BiLSTM whose
    layers do not cross.

    Attributes:
        dropout: Probability of zeroing a feature on the way in.
        initializer: How the linear layers are drawn.
    """

    num_labels: Derived
    dropout: Rate = 0.5
    initializer: layers.Kernel = "kaiming"

    @nn.compact
    def __call__(self, x: Float[Array, " T H"], *, train: bool) -> Potentials:
        """Returns log-probabilities as the potentials of the sentence."""
        if x.shape[1] % 2:
            raise ValueError(
                "DirectionHead takes features of two directions, half each, got "
                f"{x.shape[1]} features; use the encoder 'bilstm', or another head"
            )
        halves = jnp.split(layers.dropout(self.dropout, x, train), 2, axis=1)
        scores = [
            layers.dense(self.num_labels, self.initializer, name)(half)
            for name, half in zip(("forward", "backward"), halves, strict=True)
        ]
        logs = jax.nn.log_softmax(jnp.stack(scores), axis=2)
        return Potentials(jax.nn.logsumexp(logs, axis=0) - jnp.log(2.0))


class LanguageModel(nn.Module):
    """A second task for a BiLSTM in training: each direction predicts the next word.

    Scores are products with the words' own vectors (Press and Wolf, "Using the Output
    Embedding to Improve Language Models", EACL 2017). Only the loss depends on them.

    Attributes:
        weight: Weight of the task in the loss.
        num_words: Number of words to tell apart, the most frequent ones; all others
            count as unknown.

    References:
        Rei, "Semi-supervised Multitask Learning for Sequence Labeling", ACL 2017.
    """

    weight: Weight = 0.1
    num_words: Size = 1000

    @nn.compact
    def __call__(
        self,
        x: Float[Array, " T H"],
        words: Int[Array, " T"],
        mask: Mask,
        table: Float[Array, "N D"],
    ) -> Float[Array, " T"]:
        """Returns -log p of the words beside each token, in nats; 0 under padding."""
        table = table[: self.num_words]
        scale = table.shape[1] ** -0.5  # as in attention: standardised vectors are long
        ids = jnp.where(words < len(table), words, UNKNOWN)
        ids = jnp.where(mask, ids, PADDING)
        neighbours = jnp.pad(ids[1:], (0, 1)), jnp.pad(ids[:-1], (1, 0))
        total = jnp.zeros_like(ids, jnp.float32)  # T may be symbolic
        for name, half, targets in zip(
            ("forward", "backward"), jnp.split(x, 2, axis=1), neighbours, strict=True
        ):
            scores = layers.dense(table.shape[1], "glorot", name)(half) @ table.T
            logs = jax.nn.log_softmax(scale * scores, axis=1)
            total -= jnp.take_along_axis(logs, targets[:, None], axis=1)[:, 0]
        return jnp.where(mask, total, 0.0)
