"""Heads: from the features of each token to the potentials of the label sequence.

Shape letters: `T` tokens, `H` features, `L` labels.
"""

from __future__ import annotations

from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from jaxner.fields import Derived, Rate, Real, check_fields
from jaxner.models import layers
from jaxner.types import Potentials


class Head(nn.Module):
    """Scores labels by a linear layer, and label pairs if it is a CRF.

    `start` and `end` take the place of the START and STOP labels that the code of Chen
    et al. (2019) adds to the label set, with scores of -10,000 for what must not be:
    the same model, without two labels that no token has. All begin at 0, as there.

    Attributes:
        num_labels: Size of the label set.
        transitions: Whether neighbouring labels depend on each other (a CRF).
        boundaries: Whether the first and the last label have scores of their own.
            Without them a CRF is Strubell et al.'s (2017).
        dropout: Probability of zeroing a feature on the way in.
        initializer: How the linear layer is drawn, one of `layers.KERNELS`.
        bias: What its bias begins at.
    """

    num_labels: Derived
    transitions: bool = True
    boundaries: bool = True
    dropout: Rate = 0.5
    initializer: layers.Kernel = "kaiming"
    bias: Real = 0.0

    def __post_init__(self):
        check_fields(self)
        super().__post_init__()

    @nn.compact
    def __call__(self, x: Float[Array, " T H"], *, train: bool) -> Potentials:
        """Returns the potentials of the sentence."""
        x = nn.Dropout(self.dropout)(x, deterministic=not train)
        emissions = nn.Dense(
            self.num_labels,
            kernel_init=layers.KERNELS[self.initializer](1),
            bias_init=nn.initializers.constant(self.bias),
            name="emissions",
        )(x)
        if not self.transitions:
            return Potentials(emissions)
        return _chain(self, emissions)


def _chain(head: Any, emissions: Float[Array, " T L"]) -> Potentials:
    """Adds the scores of label pairs, which are parameters of the head."""
    size, zeros = head.num_labels, nn.initializers.zeros
    glorot = layers.KERNELS["glorot"](1)
    transitions = head.param(
        "transitions", zeros if head.boundaries else glorot, (size, size)
    )
    if not head.boundaries:
        return Potentials(emissions, transitions, jnp.zeros(size), jnp.zeros(size))
    return Potentials(
        emissions,
        transitions=transitions,
        start=head.param("start", zeros, (size,)),
        end=head.param("end", zeros, (size,)),
    )


class ScoresHead(nn.Module):
    """Takes the features as they are for the scores of the labels.

    For an encoder that ends in scores, such as `LabelAttention`.

    Attributes:
        num_labels: Size of the label set.
        transitions: Whether neighbouring labels depend on each other (a CRF).
        boundaries: See `Head`.
    """

    num_labels: Derived
    transitions: bool = False
    boundaries: bool = True

    @nn.compact
    def __call__(self, x: Float[Array, " T H"], *, train: bool) -> Potentials:
        """Returns the potentials of the sentence.

        Raises:
            ValueError: There is not one feature for each label.
        """
        del train  # there is nothing to drop: it would be a label's score
        if x.shape[1] != self.num_labels:
            raise ValueError(
                f"ScoresHead takes one feature for each of the {self.num_labels} "
                f"labels, got {x.shape[1]}; use the encoder 'lan', or another head"
            )
        return _chain(self, x) if self.transitions else Potentials(x)


class DirectionHead(nn.Module):
    """Classifies each direction of a BiLSTM by itself, and averages the probabilities.

    The form of Chiu and Nichols (2016), which Li, Fu and Ma (2020) found to be worse
    than one softmax of the summed scores. (A sum and a mean of two decide the same.)
    The halves of the features are the directions of a BiLSTM whose layers do not cross;
    of any other encoder they are halves and nothing more.

    Attributes:
        num_labels: Size of the label set.
        dropout: Probability of zeroing a feature on the way in.
        initializer: How the linear layers are drawn, one of `layers.KERNELS`.
    """

    num_labels: Derived
    dropout: Rate = 0.5
    initializer: layers.Kernel = "kaiming"

    def __post_init__(self):
        check_fields(self)
        super().__post_init__()

    @nn.compact
    def __call__(self, x: Float[Array, " T H"], *, train: bool) -> Potentials:
        """Returns log-probabilities as the potentials of the sentence.

        Args:
            x: The first half of the features is the forward direction's.
            train: Whether features are dropped.
        """
        if x.shape[1] % 2:
            raise ValueError(
                f"Expected an even number of features, half for each direction, got "
                f"{x.shape[1]}"
            )
        x = nn.Dropout(self.dropout)(x, deterministic=not train)
        scores = [
            nn.Dense(
                self.num_labels, kernel_init=layers.KERNELS[self.initializer](1), name=n
            )(half)
            for n, half in zip(
                ("forward", "backward"), jnp.split(x, 2, axis=1), strict=True
            )
        ]
        log_probabilities = jax.nn.log_softmax(jnp.stack(scores), axis=2)
        return Potentials(jax.nn.logsumexp(log_probabilities, axis=0) - jnp.log(2.0))
