"""The LSTM kernel. `T` tokens, `D` input features, `N` state size of the cell.

The gates of a cell lie side by side, `M` = 4 N: input, forget, output, candidate.
"""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

FORGET, OUTPUT, CANDIDATE = 1, 2, 3


class Carry(NamedTuple):
    """The state and memory that a cell carries from one token to the next.

    Attributes:
        state: The output of the last token, h.
        memory: The memory of the cell, c; may have a higher precision.
    """

    state: Float[Array, "*K N"]
    memory: Float[Array, "*K N"]


@jax.custom_jvp
def lstm_scan(
    carry: Carry,
    x: Float[Array, "T D"],
    input_kernel: Float[Array, "D M"],
    bias: Float[Array, " M"],
    kernel: Float[Array, "N M"],
    mask: Bool[Array, " T"],
    state_mask: Float[Array, " N"],
) -> tuple[Float[Array, "T N"], Carry]:
    """Returns the outputs of one LSTM cell (without peepholes) over one sentence.

    `jax.vmap` adds cells and sentences. The gradient of the recurrent kernel is one
    product after the backward loop; a plain scan adds up one product per token.
    `state_mask` has no gradient, since it is a random draw.

    Args:
        carry: Initial state and memory.
        x: The input.
        input_kernel: Input to gates, before their activations.
        bias: Bias of the gates.
        kernel: State to gates.
        mask: Where False, the cell keeps its carry and returns zero.
        state_mask: Multiplies the state h that enters each step, but neither the memory
            c nor the output.

    Returns:
        The outputs h, and the carry after the last token.

    Example:
        >>> import jax.numpy as jnp
        >>> zero, ones = jnp.zeros(1), jnp.ones(2, bool)
        >>> x, kernel = jnp.array([[1.0], [0.0]]), jnp.zeros((1, 4))  # write, then read
        >>> weights = kernel.at[0, 3].set(9.0), jnp.zeros(4), kernel
        >>> h, end = lstm_scan(Carry(zero, zero), x, *weights, ones, jnp.ones(1))
        >>> [round(value, 2) for value in h.ravel().tolist()]
        [0.23, 0.12]
        >>> round(float(end.memory[0]), 2)
        0.25

    References:
        Hochreiter and Schmidhuber, "Long Short-Term Memory", 1997, with the forget gate
        of Gers, Schmidhuber and Cummins (2000). The state mask: Gal and Ghahramani, "A
        Theoretically Grounded Application of Dropout in Recurrent Neural Networks",
        NIPS 2016.
    """

    def step(carry, inputs):
        gates, real = inputs
        return _cell(carry, gates + (carry.state * state_mask) @ kernel, real)

    end, outputs = jax.lax.scan(step, carry, (x @ input_kernel + bias[None], mask))
    return outputs, end


def _cell(carry, gates, real):
    """Returns the new carry and the output, given the gates before activation."""
    size = gates.shape[0] // 4
    i, f, o = jnp.split(jax.nn.sigmoid(gates[: CANDIDATE * size]), CANDIDATE)
    candidate = jnp.tanh(gates[CANDIDATE * size :])
    memory = jnp.where(real, f * carry.memory + i * candidate, carry.memory)
    output = (o * jnp.tanh(memory)).astype(carry.state.dtype)
    state = jnp.where(real, output, carry.state)
    return Carry(state, memory), jnp.where(real, output, 0.0)


@lstm_scan.defjvp
def _differentiate(primals, tangents):
    """Returns values and tangents; JAX transposes this linear recurrence.

    The kernel's tangent enters before the loop, for all tokens at once, so its gradient
    leaves the transpose after the loop. Under `vmap`, a shared kernel's gradient is one
    product over all sentences; a `custom_vjp` would return one kernel per sentence.
    """
    carry, x, input_kernel, bias, kernel, mask, state_mask = primals
    d_carry, d_x, d_input_kernel, d_bias, d_kernel, _, _ = tangents

    def step(carry, inputs):
        gates, real = inputs
        gates = gates + (carry.state * state_mask) @ kernel
        new, output = _cell(carry, gates, real)
        return new, (output, carry, gates)

    projected = x @ input_kernel + bias[None]
    end, (outputs, before, gates) = jax.lax.scan(step, carry, (projected, mask))
    d_gates = d_x @ input_kernel + x @ d_input_kernel + d_bias[None]
    d_gates = d_gates + (before.state * state_mask[None]) @ d_kernel

    # The backward loop recomputes the slopes, which is faster than storing them.
    @partial(jax.checkpoint, prevent_cse=False)
    def follow(d_carry, inputs):
        d_gates, carry, gates, real = inputs
        d_gates = d_gates + (d_carry.state * state_mask) @ kernel
        cell = partial(_cell, real=real)
        return jax.jvp(cell, (carry, gates), (d_carry, d_gates))[1]

    d_end, d_outputs = jax.lax.scan(follow, d_carry, (d_gates, before, gates, mask))
    return (outputs, end), (d_outputs, d_end)
