"""The pairwise gated sum of the gated relation network, in linear memory.

Shape letters: `T` tokens, `H` features.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

# exp(±87) is a normal float32, so neither factor is 0 or infinite. Their product may
# overflow; the gate is then 0, which is correct.
_LARGEST = 87.0
# If `a` spans more nats than this, clipping `b` may change some gates.
_WIDEST = 140.0


@jax.custom_vjp
def gated_sum(
    a: Float[Array, "T H"], b: Float[Array, "T H"], x: Float[Array, "T H"]
) -> Float[Array, "T H"]:
    """Returns Σ_j σ(a_i + b_j) ⊙ x_j for every i.

    Forward and backward scan over the tokens and hold one `[T, H]` slice of the gates
    at a time: memory is O(T·H), while the plain form's gradient takes O(T²·H). Time is
    O(T²·H). Reverse-mode differentiation of the gradient raises an error.

    Args:
        a: Term of the receiving token i.
        b: Term of the contributing token j.
        x: Features to sum; zero under padding.

    Example:
        >>> import jax.numpy as jnp
        >>> zero, x = jnp.zeros((2, 1)), jnp.array([[2.0], [4.0]])
        >>> gated_sum(zero, zero, x).tolist()  # every gate is 0.5
        [[3.0], [3.0]]

    References:
        Chen et al., "GRN: Gated Relation Network to Enhance Convolutional Neural
        Network for Named Entity Recognition", AAAI 2019, eq. 6.
    """
    return _forward(a, b, x)[0]


def _forward(a, b, x):
    if not x.shape[0]:
        return x, (a, b, x)

    def by(gate, left, right):
        def add(total, inputs):
            right_j, x_j = inputs
            return total + gate(left, right_j[None]) * x_j[None], None

        # In bfloat16 a total of some hundred terms would lose what is added to it.
        start = jnp.zeros_like(x, jnp.promote_types(x.dtype, jnp.float32))
        return jax.lax.scan(add, start, (right, x))[0].astype(x.dtype)

    return _by_fast_or_exact_gate(by, a, b), (a, b, x)


def _backward(residuals, cotangent):
    a, b, x = residuals
    if not x.shape[0]:
        return residuals

    # Step k adds token k both as receiver and as contributor. This computes each gate
    # twice, but needs no sum over an axis, which would have to store a slice of
    # products.
    def by(gate, left, right):
        def add(totals, inputs):
            grad_a, grad_b, grad_x = totals
            left_k, cotangent_k, right_k, x_k = inputs
            values = gate(left, right_k[None])
            grad_a = grad_a + values * (1 - values) * x_k[None]
            values = gate(left_k[None], right)
            by_x = values * cotangent_k[None]
            return (grad_a, grad_b + by_x * (1 - values), grad_x + by_x), None

        zero = jnp.zeros_like(x, jnp.promote_types(x.dtype, jnp.float32))
        inputs = (left, cotangent, right, x)
        totals, _ = jax.lax.scan(add, (zero, zero, zero), inputs)
        grad_a, grad_b, grad_x = totals
        grads = grad_a * cotangent, grad_b * x, grad_x
        return tuple(grad.astype(x.dtype) for grad in grads)

    return _by_fast_or_exact_gate(by, a, b)


def _by_fast_or_exact_gate(by, a: Float[Array, "T H"], b: Float[Array, "T H"]):
    """Returns `by(gate, left, right)` with the fast gate where it is exact.

    σ(a_i + b_j) = 1 / (1 + e^(-a_i) e^(-b_j)) takes T exponentials instead of T². With
    `a` centred for each feature, it is exact to rounding if the values of `a` span less
    than 140 nats: gates with a clipped `b` are then saturated for every i. The exact
    gate runs in a loop of at most one step. Under `vmap` the loop is skipped if no
    sentence of the batch needs it, whereas `cond` would compute both branches.
    """
    low, high = jnp.min(a, 0, keepdims=True), jnp.max(a, 0, keepdims=True)
    centre = (low + high) / 2
    left = jnp.exp(-jnp.clip(a - centre, -_LARGEST, _LARGEST))
    right = jnp.exp(-jnp.clip(b + centre, -_LARGEST, _LARGEST))
    fast = by(lambda left, right_j: 1 / (1 + left * right_j), left, right)

    def compute_exactly(carry):
        # XLA hoists whatever does not depend on the carry, and always computes it.
        asked = jnp.where(carry[0], a, 0.0)
        exact = by(lambda left, right_j: jax.nn.sigmoid(left + right_j), asked, b)
        return carry[0] & False, exact

    is_too_wide = jnp.max(high - low) > _WIDEST
    start = (is_too_wide, fast)
    return jax.lax.while_loop(lambda carry: carry[0], compute_exactly, start)[1]


gated_sum.defvjp(_forward, _backward)
