"""The encoder of the gated relation network, and its ablations.

Chen, Lin, Ding, Lou, Zhang and Karlsson, "GRN: Gated Relation Network to Enhance
Convolutional Neural Network for Named Entity Recognition", AAAI 2019. Equation numbers
are the paper's. Shape letters: `T` tokens, `D` input features, `H` features.

Departures: relations are averaged over the real tokens of a sentence, and padding is
zero in the convolutions. In the authors' code padding is a trained vector, which
convolutions near the end of a shorter sentence see, so that a sentence's labels depend
on its batch.
"""

from __future__ import annotations

import functools
from typing import Annotated

import flax.linen as nn
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from jaxner.fields import OneOf, Size, check_fields
from jaxner.models import layers
from jaxner.models.convolution import Convolution
from jaxner.models.relation import gated_sum

CONTEXTS = {"all": (1, 3, 5), "branch3": (3,), "none": ()}
RELATIONS = ("gated", "attention", "fusion", "none")


class GRN(nn.Module):
    """Local context by convolutions, then global context by gated relations.

    Attributes:
        hidden_dim: Features of the context layer.
        context: Convolutions of the context layer: "all" (widths 1, 3 and 5),
            "branch3" (width 3 alone), "none" (relations of the input itself).
        relation: "gated" (eq. 6), "attention" (GAttN, eq. 7), "fusion" (DFN, eq. 5), or
            "none" (the context layer's output, without the tanh of eq. 8).
    """

    hidden_dim: Size = 400
    context: Annotated[str, OneOf(CONTEXTS)] = "all"
    relation: Annotated[str, OneOf(RELATIONS)] = "gated"

    def __post_init__(self):
        check_fields(self)
        super().__post_init__()

    @property
    def receptive_field(self) -> int | None:
        """Number of tokens that decide one label; None for all tokens."""
        if self.relation == "none":
            return max(CONTEXTS[self.context], default=1)
        return None

    @nn.compact
    def __call__(
        self, x: Float[Array, " T D"], mask: Bool[Array, " T"], *, train: bool
    ) -> tuple[Float[Array, " T H"], dict[str, Array]]:
        """Returns the features of each token, zero under padding, and intermediates.

        The intermediates are `relation_from` and `relation_to`, `[T, H]` ("attention":
        `[T, 1]`): eq. 4's relation score is r_ij = relation_from_i + relation_to_j.
        """
        del train  # dropout is in the representation and in the head
        x = self._context(x, mask)
        if self.relation == "none":
            return x, {}
        fused, out = self._relate(x, mask)
        return jnp.where(mask[:, None], jnp.tanh(fused), 0.0), out

    def _context(self, x, mask):
        """Eq. 3: the maximum over convolutions of several widths, after a tanh."""
        if not CONTEXTS[self.context]:
            return x
        branches = [
            Convolution(
                self.hidden_dim,
                width,
                kernel_init=layers.kaiming_uniform,
                name=f"conv{width}",
            )(x)
            for width in CONTEXTS[self.context]
        ]
        # tanh is monotonic: after the maximum, it is computed once. A pairwise maximum
        # has a cheap gradient; among equal branches the last gets half.
        best = jnp.tanh(functools.reduce(jnp.maximum, branches))
        return jnp.where(mask[:, None], best, 0.0)

    def _relate(self, x, mask):
        """Eq. 4-7, the weight matrix of [x_i; x_j] split into its two halves."""
        size = x.shape[1]
        # The authors' code draws these layers and their biases by PyTorch's default,
        # U(±1/√fan-in). One of the two biases is redundant, as there.
        init = layers.symmetric_uniform(size**-0.5)

        def half(name):
            outputs = 1 if self.relation == "attention" else size
            return nn.Dense(outputs, kernel_init=init, bias_init=init, name=name)(x)

        from_i, to_j = half("from"), half("to")
        count = jnp.maximum(jnp.sum(mask), 1)
        if self.relation == "gated":
            total = gated_sum(from_i, to_j, x)
        elif self.relation == "attention":
            total = jax.nn.sigmoid(from_i + to_j.T) @ x
        else:
            offered = jnp.where(mask[:, None], to_j, 0.0)
            total = count * from_i + jnp.sum(offered, axis=0, keepdims=True)
        return total / count, {"relation_from": from_i, "relation_to": to_j}


def relation_scores(out: dict[str, Array], mask: Bool[Array, " T"]):
    """Returns how strongly each token relates to each other token, for a heat map.

    Args:
        out: The intermediates of a `GRN`.
        mask: True at the tokens.

    Returns:
        `[T, T]`: row i holds the L2 norm over features of the gates σ(r_ij), normalised
        to [0, 1] over the sentence; zero under padding.

    References:
        Chen et al. (2019), Figure 4. The paper does not say whether the norm comes
        before or after the sigmoid. We take it after: a closed gate then means no
        relation.
    """

    def row(from_i):
        return jnp.linalg.norm(
            jax.nn.sigmoid(from_i[None] + out["relation_to"]), axis=1
        )

    pairs = mask[:, None] & mask[None, :]
    norms = jax.lax.map(row, out["relation_from"])
    low = jnp.min(jnp.where(pairs, norms, jnp.inf))
    high = jnp.max(jnp.where(pairs, norms, -jnp.inf))
    spread = jnp.where(high > low, high - low, 1.0)
    return jnp.where(pairs, (norms - low) / spread, 0.0)
