"""The sum under pairwise gates of the gated relation network, in linear memory.

Shape letters: `T` tokens, `H` features.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

# exp(±87) is a normal float32. Both factors stay inside, so neither is 0 or infinite;
# their product may overflow, and the gate is then 0, which is right.
_LARGEST = 87.0
# Beyond this span of `a`, in nats, what is clipped in `b` may matter for some i.
_WIDEST = 140.0


@jax.custom_vjp
def gated_sum(
    a: Float[Array, "T H"], b: Float[Array, "T H"], x: Float[Array, "T H"]
) -> Float[Array, "T H"]:
    """Computes Σ_j σ(a_i + b_j) ⊙ x_j for every i.

    Forward and backward scan over the tokens and hold one `[T, H]` slice of the gates
    at a time, so memory is O(T·H) where the plain form's gradient takes O(T²·H). Time
    is O(T²·H). Reverse mode of the gradient is refused.

    Args:
        a: What each token asks of the others.
        b: What each token offers.
        x: The features that are summed; zero under padding.

    Example:
        >>> import jax.numpy as jnp
        >>> zero, x = jnp.zeros((2, 1)), jnp.array([[2.0], [4.0]])
        >>> gated_sum(zero, zero, x).tolist()  # every gate is half open
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

        return jax.lax.scan(add, jnp.zeros_like(x), (right, x))[0]

    return _by_fast_or_exact_gate(by, a, b), (a, b, x)


def _backward(residuals, cotangent):
    a, b, x = residuals
    if not x.shape[0]:
        return residuals

    # A step adds the k-th token as the one that asks, and as the one that offers. That
    # computes each gate twice; but nothing is summed over an axis, for which a slice of
    # products would have to be stored.
    def by(gate, left, right):
        def add(totals, inputs):
            grad_a, grad_b, grad_x = totals
            left_k, cotangent_k, right_k, x_k = inputs
            values = gate(left, right_k[None])
            grad_a = grad_a + values * (1 - values) * x_k[None]
            values = gate(left_k[None], right)
            by_x = values * cotangent_k[None]
            return (grad_a, grad_b + by_x * (1 - values), grad_x + by_x), None

        zero = jnp.zeros_like(x)
        inputs = (left, cotangent, right, x)
        totals, _ = jax.lax.scan(add, (zero, zero, zero), inputs)
        grad_a, grad_b, grad_x = totals
        return grad_a * cotangent, grad_b * x, grad_x

    return _by_fast_or_exact_gate(by, a, b)


def _by_fast_or_exact_gate(by, a: Float[Array, "T H"], b: Float[Array, "T H"]):
    """Calls `by(gate, left, right)` with the fast gate where it is exact.

    σ(a_i + b_j) = 1 / (1 + e^(-a_i) e^(-b_j)) takes T exponentials in place of T².
    Centring `a` for each feature makes it exact to rounding while the values of `a`
    span less than 140 nats: whatever is clipped in `b` is then saturated for every i.

    The exact gate stands in a loop that runs once or not at all. Under `vmap` such a
    loop is skipped if no sentence of the batch needs it, where both branches of a
    `cond` would be computed.
    """
    low, high = jnp.min(a, 0, keepdims=True), jnp.max(a, 0, keepdims=True)
    centre = (low + high) / 2
    left = jnp.exp(-jnp.clip(a - centre, -_LARGEST, _LARGEST))
    right = jnp.exp(-jnp.clip(b + centre, -_LARGEST, _LARGEST))
    fast = by(lambda left, right_j: 1 / (1 + left * right_j), left, right)

    def compute_exactly(carry):
        # What does not depend on the carry, XLA would compute before the loop: always.
        asked = jnp.where(carry[0], a, 0.0)
        exact = by(lambda left, right_j: jax.nn.sigmoid(left + right_j), asked, b)
        return carry[0] & False, exact

    is_too_wide = jnp.max(high - low) > _WIDEST
    start = (is_too_wide, fast)
    return jax.lax.while_loop(lambda carry: carry[0], compute_exactly, start)[1]


gated_sum.defvjp(_forward, _backward)
