"""Heads: from the features of each token to the potentials of the label sequence.

Shape letters: `T` tokens, `H` features, `L` labels.
"""

from __future__ import annotations

import flax.linen as nn
from jaxtyping import Array, Float

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
        dropout: Probability of zeroing a feature on the way in.
    """

    num_labels: int
    transitions: bool = True
    dropout: float = 0.5

    @nn.compact
    def __call__(self, x: Float[Array, " T H"], *, train: bool) -> Potentials:
        """Returns the potentials of the sentence."""
        x = nn.Dropout(self.dropout)(x, deterministic=not train)
        emissions = nn.Dense(
            self.num_labels, kernel_init=layers.kaiming_uniform, name="emissions"
        )(x)
        if not self.transitions:
            return Potentials(emissions)
        size, zeros = self.num_labels, nn.initializers.zeros
        return Potentials(
            emissions,
            transitions=self.param("transitions", zeros, (size, size)),
            start=self.param("start", zeros, (size,)),
            end=self.param("end", zeros, (size,)),
        )
