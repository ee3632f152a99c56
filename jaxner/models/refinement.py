"""Refinement: labels a sentence a second time, given draft labels.

Gui, Ye, Zhang, Li, Fei, Gong and Huang, "Uncertainty-Aware Label Refinement for
Sequence Labeling", EMNLP 2020. Shape letters: `T` tokens, `D` features of words, `L`
labels.
"""

from __future__ import annotations

import flax.linen as nn
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from jaxner.fields import Positive, Real, Size, check_fields
from jaxner.models import layers
from jaxner.types import Potentials


class Refinement(nn.Module):
    """Scores labels from two streams, one of words and one of draft labels.

    The input for a draft label is the mean of the label vectors under the draft's
    probabilities, as in the authors' code, or the vector of the most probable label, as
    in eq. 7 and 8.

    The label vectors are drawn from U(±600), the code's default. Next to words of unit
    scale, this makes the label stream a hundred times as strong; the learning rate of
    this part (1e-4) changes them little.

    Attributes:
        representation: Separate word features; None to share those of the draft, with
            the same weights.
        streams: `models.transformer.TwoStream`.
        head: Scores labels from the streams' features.
        threshold: Γ, in nats: the refinement replaces draft labels with a higher
            entropy; all labels if negative. Training does not depend on it.
        label_dim: Length of a label vector.
        label_scale: Label vectors are drawn from U(±label_scale).
        soft: Whether the input for a draft label is a mean vector.
        labels: Whether draft labels are an input (the paper's "label information").
    """

    representation: nn.Module | None
    streams: nn.Module
    head: nn.Module
    threshold: Real = 0.45
    label_dim: Size = 400
    label_scale: Positive = 600.0
    soft: bool = True
    labels: bool = True

    def __post_init__(self):
        check_fields(self)
        super().__post_init__()

    @nn.compact
    def __call__(
        self,
        x: Float[Array, " T D"],
        probabilities: Float[Array, "T L"],
        mask: Bool[Array, " T"],
        *,
        train: bool,
    ) -> Potentials:
        """Returns the potentials of the sentence.

        Args:
            x: Features of the words.
            probabilities: Probabilities of the draft labels; zero under padding.
            mask: False under padding.
            train: Whether to apply dropout.
        """
        read = None
        if self.labels:
            size = probabilities.shape[1]
            vectors = self.param(
                "label_vectors",
                layers.symmetric_uniform(self.label_scale),
                (size, self.label_dim),
            )
            weights = probabilities
            if not self.soft:
                weights = jax.nn.one_hot(jnp.argmax(probabilities, axis=1), size)
            read = jnp.where(mask[:, None], weights @ vectors, 0.0)
        features = self.streams(x, read, mask, train=train)
        return self.head(features, train=train)
