"""The gated relation network's encoder, and its ablations.

Chen, Lin, Ding, Lou, Zhang and Karlsson, "GRN: Gated Relation Network to Enhance
Convolutional Neural Network for Named Entity Recognition", AAAI 2019. Equation numbers
are the paper's. Shape letters: `T` tokens, `D` input features, `H` features.

Departures: the relations of a sentence are averaged over its real tokens, and words
under padding are zero for the convolutions. In the authors' code the padding word is a
trained vector that convolutions near the end of a shorter sentence see, so that a
sentence's labels depend on its batch mates.
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
    """Gathers local context by convolutions, and global context by gated relations.

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
        """Tokens that one label is decided by; None: all of them."""
        if self.relation == "none":
            return max(CONTEXTS[self.context], default=1)
        return None

    @nn.compact
    def __call__(
        self, x: Float[Array, " T D"], mask: Bool[Array, " T"], *, train: bool
    ) -> tuple[Float[Array, " T H"], dict[str, Array]]:
        """Returns the features of each token, zero under padding, and intermediates.

        Those are `relation_from` and `relation_to`, `[T, H]` ("attention": `[T, 1]`):
        the relation score of eq. 4 is r_ij = relation_from_i + relation_to_j.
        """
        del train  # dropout stands before (representation) and after (head)
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
        # tanh is monotonic, so it may follow the maximum, and is then computed once. By
        # pairs the maximum has a cheap gradient; of equal branches the last has half.
        best = jnp.tanh(functools.reduce(jnp.maximum, branches))
        return jnp.where(mask[:, None], best, 0.0)

    def _relate(self, x, mask):
        """Eq. 4-7, the weight matrix of [x_i; x_j] split into its two halves."""
        size = x.shape[1]
        # The authors' code leaves these layers, biases included, at their framework's
        # default: U(±1/√fan-in). One of the two biases is redundant, as there.
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
    """Computes how strongly each token relates to each other one, for a heat map.

    Args:
        out: The intermediates of a `GRN`.
        mask: True at the tokens.

    Returns:
        `[T, T]`: row i holds the L2 norm over features of the gates σ(r_ij), normalised
        to [0, 1] over the sentence; zero under padding.

    References:
        Chen et al. (2019), Figure 4. The text leaves open whether the norm is taken
        before or after the sigmoid; after it, a shut gate means no relation.
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
