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

from jaxner.fields import OneOf, Size
from jaxner.models import layers
from jaxner.models.layers import Encoded, Features, Mask

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

    @property
    def receptive_field(self) -> int | None:
        """Number of tokens that decide one label; None for all tokens."""
        if self.relation == "none":
            return max(CONTEXTS[self.context], default=1)
        return None

    @nn.compact
    def __call__(self, x: Features, mask: Mask, *, train: bool) -> Encoded:
        """Returns the features of each token, zero under padding, and intermediates.

        The intermediates are `relation_from` and `relation_to`, `[T, H]` ("attention":
        `[T, 1]`): eq. 4's relation score is r_ij = relation_from_i + relation_to_j.
        """
        del train  # dropout is in the representation and in the head
        branches = [
            layers.Convolution(self.hidden_dim, width, name=f"conv{width}")(x)
            for width in CONTEXTS[self.context]
        ]
        if branches:
            # Eq. 3. tanh is monotonic: after the maximum, it is computed once. A
            # pairwise maximum has a cheap gradient.
            x = jnp.tanh(functools.reduce(jnp.maximum, branches))
            x = jnp.where(mask[:, None], x, 0.0)
        if self.relation == "none":
            return x, {}
        fused, out = self._relate(x, mask)
        return jnp.where(mask[:, None], jnp.tanh(fused), 0.0), out

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


@jax.custom_vjp
def gated_sum(
    a: Float[Array, "T H"], b: Float[Array, "T H"], x: Float[Array, "T H"]
) -> Float[Array, "T H"]:
    """Returns Σ_j σ(a_i + b_j) ⊙ x_j for every i (eq. 6); x is zero under padding.

    Forward and backward scan over the tokens and hold one `[T, H]` slice of the gates
    at a time: memory is O(T·H), while the plain form's gradient takes O(T²·H). Time is
    O(T²·H). Reverse-mode differentiation of the gradient raises an error.
    """
    return _forward(a, b, x)[0]


def _zero(x):
    # In bfloat16 a total of some hundred terms would lose what is added to it.
    return jnp.zeros_like(x, jnp.promote_types(x.dtype, jnp.float32))


def _forward(a, b, x):
    def by(gate, left, right):
        def add(total, inputs):
            right_j, x_j = inputs
            return total + gate(left, right_j[None]) * x_j[None], None

        return jax.lax.scan(add, _zero(x), (right, x))[0].astype(x.dtype)

    return _by_fast_or_exact_gate(by, a, b), (a, b, x)


def _backward(residuals, cotangent):
    a, b, x = residuals

    # Step k adds token k both as receiver and as contributor. This computes each gate
    # twice, but needs no sum over an axis, which would have to store a slice of
    # products.
    def by(gate, left, right):
        def add(totals, inputs):
            grad_a, grad_b, grad_x = totals
            left_k, cotangent_k, right_k, x_k = inputs
            gates = gate(left, right_k[None])
            grad_a = grad_a + gates * (1 - gates) * x_k[None]
            gates = gate(left_k[None], right)
            by_x = gates * cotangent_k[None]
            return (grad_a, grad_b + by_x * (1 - gates), grad_x + by_x), None

        zero = _zero(x)
        inputs = (left, cotangent, right, x)
        totals, _ = jax.lax.scan(add, (zero, zero, zero), inputs)
        grads = totals[0] * cotangent, totals[1] * x, totals[2]
        return tuple(grad.astype(x.dtype) for grad in grads)

    return _by_fast_or_exact_gate(by, a, b)


# exp(±87) is a normal float32. If `a` spans more than 140 nats, clipping would count.
_LARGEST, _WIDEST = 87.0, 140.0


def _by_fast_or_exact_gate(by, a, b):
    """Returns `by(gate, left, right)` with T exponentials instead of T² where exact.

    σ(a_i + b_j) = 1 / (1 + e^(-a_i) e^(-b_j)): training takes 0.8 of the time. The
    exact gate runs in a loop of at most one step: under `vmap` it is skipped if no
    sentence needs it, whereas `cond` would compute both branches.
    """
    low = jnp.min(a, 0, keepdims=True, initial=jnp.inf)
    high = jnp.max(a, 0, keepdims=True, initial=-jnp.inf)
    centre = (low + high) / 2
    left = jnp.exp(-jnp.clip(a - centre, -_LARGEST, _LARGEST))
    right = jnp.exp(-jnp.clip(b + centre, -_LARGEST, _LARGEST))
    fast = by(lambda left, right: 1 / (1 + left * right), left, right)

    def compute_exactly(carry):
        # XLA hoists whatever does not depend on the carry, and always computes it.
        asked = jnp.where(carry[0], a, 0.0)
        return carry[0] & False, by(lambda a, b: jax.nn.sigmoid(a + b), asked, b)

    start = (jnp.max(high - low) > _WIDEST, fast)
    return jax.lax.while_loop(lambda carry: carry[0], compute_exactly, start)[1]


gated_sum.defvjp(_forward, _backward)


def relation_scores(out: dict[str, Array], mask: Bool[Array, " T"]):
    """Returns how strongly each token relates to each other, from a `GRN`'s output.

    Row i of `[T, T]` holds the L2 norm over features of the gates σ(r_ij), normalised
    to [0, 1] over the sentence; zero under padding (Figure 4). The paper does not say
    whether the norm comes before or after the sigmoid; after, a closed gate means no
    relation.
    """

    def row(from_i):
        gates = jax.nn.sigmoid(from_i[None] + out["relation_to"])
        return jnp.linalg.norm(gates, axis=1)

    pairs = mask[:, None] & mask[None, :]
    norms = jax.lax.map(row, out["relation_from"])
    low = jnp.min(jnp.where(pairs, norms, jnp.inf))
    high = jnp.max(jnp.where(pairs, norms, -jnp.inf))
    spread = jnp.where(high > low, high - low, 1.0)
    return jnp.where(pairs, (norms - low) / spread, 0.0)
