"""The encoder of the gated relation network, and its ablations.

Chen, Lin, Ding, Lou, Zhang and Karlsson, "GRN: Gated Relation Network to Enhance
Convolutional Neural Network for Named Entity Recognition", AAAI 2019. Equation numbers
are the paper's. Shape letters: `T` tokens, `D` input features, `H` features.

Departures: relations are averaged over the real tokens of a sentence, and padding is
zero in the convolutions. In the authors' code padding is a trained vector, which
convolutions near the end of a shorter sentence see, so that a sentence's labels depend
on its batch. The two halves of a relation score, a token's each, stay within ±43.
"""

from __future__ import annotations

import functools
from typing import Annotated, Literal

import flax.linen as nn
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from jaxner import devices
from jaxner.fields import OneOf, Size
from jaxner.models import layers
from jaxner.models.layers import Encoded, Features, Mask

CONTEXTS = {"all": (1, 3, 5), "branch3": (3,), "none": ()}


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
    relation: Literal["gated", "attention", "fusion", "none"] = "gated"

    @property
    def is_quadratic(self) -> bool:
        """Whether time grows with the square of a sentence's length."""
        return self.relation in ("gated", "attention")

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
        sums, arrays = self._relate(x, mask)
        return jnp.where(mask[:, None], jnp.tanh(sums), 0.0), arrays

    def _relate(self, x, mask):
        """Eq. 4-7, the weight matrix of [x_i; x_j] split into its two halves."""
        size = x.shape[1]
        # The authors' code draws these layers and their biases by PyTorch's default,
        # U(±1/√fan-in). One of the two biases is redundant, as there.
        init = layers.symmetric_uniform(size**-0.5)
        outputs = 1 if self.relation == "attention" else size
        from_i, to_j = (
            layers.dense(outputs, init, name, init)(x) for name in ("from", "to")
        )
        count = jnp.maximum(jnp.sum(mask), 1).astype(x.dtype)
        if self.relation == "gated":
            a, b = (jnp.clip(x, -_SATURATION, _SATURATION) for x in (from_i, to_j))
            total = gated_sum(a, b, x)
        elif self.relation == "attention":
            total = jax.nn.sigmoid(from_i + to_j.T) @ x
        else:
            messages = jnp.where(mask[:, None], to_j, 0.0)
            total = count * from_i + jnp.sum(messages, axis=0, keepdims=True)
        return total / count, {"relation_from": from_i, "relation_to": to_j}


# Either half of a relation score alone decides the gate to rounding from here on, and
# the product of both exponentials is still a float32.
_SATURATION = 43.0


@jax.custom_vjp
def gated_sum(
    a: Float[Array, "T H"], b: Float[Array, "T H"], x: Float[Array, "T H"]
) -> Float[Array, "T H"]:
    """Returns Σ_j σ(a_i + b_j) ⊙ x_j for every i (eq. 6); x is zero under padding.

    |a| and |b| are at most 43: σ(a_i + b_j) is 1 / (1 + e^(-a_i) e^(-b_j)), with T
    exponentials instead of T², and memory is O(T·H). On a CPU, forward and backward
    scan over the tokens; an accelerator fuses gates and sums. The gradient has no
    derivative of its own.
    """
    return _forward(a, b, x)[0]


def _exponentials(*arrays):
    # In bfloat16, exponentials and totals of some hundred terms would be too coarse.
    kind = jnp.promote_types(arrays[0].dtype, jnp.float32)
    return [jnp.exp(-array.astype(kind)) for array in arrays]


def _forward(a, b, x):
    left, right = _exponentials(a, b)

    def scan(left, right, x):
        def add(total, inputs):
            right_j, x_j = inputs
            return total + x_j[None] / (1 + left * right_j[None]), None

        return jax.lax.scan(add, jnp.zeros_like(left), (right, x))[0]

    def plain(left, right, x):
        return jnp.sum(x[None] / (1 + left[:, None] * right[None]), axis=1)

    total = devices.by_target(left, right, x, cpu=scan, default=plain)
    return total.astype(x.dtype), (a, b, x)


def _backward(residuals, cotangent):
    a, b, x = residuals
    left, right = _exponentials(a, b)

    def scan(left, right, x, cotangent):
        # Step k adds token k both as receiver and as contributor: each gate is computed
        # twice, but no sum over an axis has to store a slice of products.
        def add(totals, inputs):
            grad_a, grad_b, grad_x = totals
            left_k, right_k, x_k, cotangent_k = inputs
            gates = 1 / (1 + left * right_k[None])
            grad_a = grad_a + gates * (1 - gates) * x_k[None]
            gates = 1 / (1 + left_k[None] * right)
            by_x = gates * cotangent_k[None]
            return (grad_a, grad_b + by_x * (1 - gates), grad_x + by_x), None

        zero, inputs = jnp.zeros_like(left), (left, right, x, cotangent)
        return jax.lax.scan(add, (zero, zero, zero), inputs)[0]

    def plain(left, right, x, cotangent):
        gates = 1 / (1 + left[:, None] * right[None])
        slopes, by_x = gates * (1 - gates), gates * cotangent[:, None]
        grad_a = jnp.sum(slopes * x[None], axis=1)
        return grad_a, jnp.sum(by_x * (1 - gates), axis=0), jnp.sum(by_x, axis=0)

    inputs = left, right, x, cotangent
    sums = devices.by_target(*inputs, cpu=scan, default=plain)
    grads = sums[0] * cotangent, sums[1] * x, sums[2]
    return tuple(grad.astype(x.dtype) for grad in grads)


gated_sum.defvjp(_forward, _backward)


def relation_scores(arrays: dict[str, Array], mask: Bool[Array, " T"]):
    """Returns how strongly each token relates to each other, from a `GRN`'s output.

    Row i of `[T, T]` holds the L2 norm over features of the gates σ(r_ij), normalised
    to [0, 1] over the sentence; zero under padding (Figure 4).
    """

    def row(from_i):
        gates = jax.nn.sigmoid(from_i[None] + arrays["relation_to"])
        return jnp.linalg.norm(gates, axis=1)

    pairs = mask[:, None] & mask[None, :]
    norms = jax.lax.map(row, arrays["relation_from"])
    low = jnp.min(jnp.where(pairs, norms, jnp.inf))
    high = jnp.max(jnp.where(pairs, norms, -jnp.inf))
    spread = jnp.where(high > low, high - low, 1.0)
    return jnp.where(pairs, (norms - low) / spread, 0.0)
