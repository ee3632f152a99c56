"""The LSTM kernel. `T` tokens, `N` state size of a cell, `G` cells, each by itself.

The gates of a cell stand on an axis of four: input, forget, output, candidate.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

FORGET, OUTPUT, CANDIDATE = 1, 2, 3


class Carry(NamedTuple):
    """What every cell takes from one token to the next.

    Attributes:
        state: The output of the last token, h.
        memory: c.
    """

    state: Float[Array, "G N"]
    memory: Float[Array, "G N"]


@jax.custom_jvp
def recur(
    carry: Carry,
    projected: Float[Array, "T G 4 N"],
    kernel: Float[Array, "G N 4 N"],
    mask: Bool[Array, "T G"],
    state_mask: Float[Array, "G N"],
) -> tuple[Float[Array, "T G N"], Carry]:
    """Runs independent LSTM cells over one sentence, in one scan, without peepholes.

    The gradient with respect to the kernel is formed in one product after the loop that
    goes backwards, where that of a plain scan adds up one product per token. There is
    none with respect to `state_mask`, which is drawn and not trained.

    Args:
        carry: What the cells begin with.
        projected: The gates' arguments from the input, bias included.
        kernel: From the state to the gates' arguments.
        mask: Where it is False, a cell keeps what it carries and its output is zero.
            Each cell has its own, since one that reads backwards meets the padding
            first.
        state_mask: Multiplies the state h that a cell receives from its last step, or
            begins with; neither its memory c nor its output.

    Returns:
        The outputs h of every cell, and what each carries on from its last token.

    Example:
        >>> import jax.numpy as jnp
        >>> zero = jnp.zeros((1, 1))
        >>> projected = jnp.zeros((2, 1, 4, 1)).at[0, 0, 3].set(9.0)  # write, then read
        >>> ones = jnp.ones((2, 1), bool), jnp.ones((1, 1))
        >>> h, end = recur(Carry(zero, zero), projected, jnp.zeros((1, 1, 4, 1)), *ones)
        >>> [round(value, 2) for value in h.ravel().tolist()]
        [0.23, 0.12]
        >>> round(float(end.memory[0, 0]), 2)
        0.25

    References:
        Hochreiter and Schmidhuber, "Long Short-Term Memory", 1997, with the forget gate
        of Gers, Schmidhuber and Cummins (2000). The state mask: Gal and Ghahramani, "A
        Theoretically Grounded Application of Dropout in Recurrent Neural Networks",
        NIPS 2016.
    """
    end, (states, _, _) = _run(carry, projected, kernel, mask, state_mask)
    return jnp.where(mask[:, :, None], states, 0.0), end


def _run(carry, projected, kernel, mask, state_mask):
    """Returns what is carried on, and of every step h, c, and the gates, opened."""

    def step(carry, inputs):
        state, memory = carry
        projected_t, mask_t = inputs
        gates = projected_t + jnp.einsum("gn,gnkm->gkm", state * state_mask, kernel)
        opened = jax.nn.sigmoid(gates[:, :CANDIDATE])
        candidate = jnp.tanh(gates[:, CANDIDATE:])
        gates = jnp.concatenate([opened, candidate], axis=1)
        i, f, o, g = (gates[:, k] for k in range(4))
        memory = jnp.where(mask_t[:, None], f * memory + i * g, memory)
        state = jnp.where(mask_t[:, None], o * jnp.tanh(memory), state)
        return Carry(state, memory), (state, memory, gates)

    return jax.lax.scan(step, carry, (projected, mask))


@recur.defjvp
def _differentiate(primals, tangents):
    """The derivative as a linear recurrence, of which JAX makes the backward pass.

    The kernel's tangent enters before the loop, for all tokens at once; so, in the
    transpose, its gradient leaves after it. Under `vmap`, that of a shared kernel is
    one product over all sentences, where a backward pass written by hand would give
    one kernel per sentence and then their sum.
    """
    carry, _, kernel, mask, state_mask = primals
    d_carry, d_projected, d_kernel, _, _ = tangents
    end, (states, memories, gates) = _run(*primals)
    i, f, o, g = (gates[:, :, k] for k in range(4))
    read, real = jnp.tanh(memories), mask[:, :, None]
    # Slopes of the memory by the arguments of the gates i, f and g, and of the state by
    # that of o and by the memory.
    by_i, by_f = g * i * (1 - i), _delay(carry.memory, memories) * f * (1 - f)
    by_gates = jnp.stack([by_i, by_f, jnp.zeros_like(o), i * (1 - g * g)], axis=2)
    by_o, by_memory = read * o * (1 - o), o * (1 - read * read)
    turned = jnp.moveaxis(kernel, 1, 3)  # so that no step of the transpose has to

    def step(carry, inputs):
        d_state, d_memory = carry
        d_gates, f, by_gates, by_o, by_memory, real = inputs
        d_gates = d_gates + jnp.einsum("gm,gknm->gkn", d_state * state_mask, turned)
        new = f * d_memory + jnp.sum(by_gates * d_gates, axis=1)
        d_memory = jnp.where(real, new, d_memory)
        new = by_o * d_gates[:, OUTPUT] + by_memory * d_memory
        d_state = jnp.where(real, new, d_state)
        return Carry(d_state, d_memory), d_state

    received = _delay(carry.state, states) * state_mask[None]
    d_gates = d_projected + jnp.einsum("tgn,gnkm->tgkm", received, d_kernel)
    inputs = (d_gates, f, by_gates, by_o, by_memory, real)
    d_end, d_states = jax.lax.scan(step, d_carry, inputs)
    outputs, d_outputs = (jnp.where(real, h, 0.0) for h in (states, d_states))
    return (outputs, end), (d_outputs, d_end)


def _delay(first, x):
    """Moves every step's value to the step after it; the first step has `first`."""
    return jnp.concatenate([first[None], x])[:-1]
