"""The LSTM kernel. `T` tokens, `N` state size of a cell, `K` cells as one block.

The gates of a cell stand side by side, `M` = 4 N: input, forget, output, candidate.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax.custom_batching import custom_vmap
from jax.extend.core import Primitive
from jax.interpreters import ad, batching, mlir
from jaxtyping import Array, Bool, Float

FORGET, OUTPUT, CANDIDATE = 1, 2, 3
_MANY = 64  # sequences, of whose projected input the caches do not hold much


class Carry(NamedTuple):
    """What every cell takes from one token to the next.

    Attributes:
        state: The output of the last token, h.
        memory: c.
    """

    state: Float[Array, "*K N"]
    memory: Float[Array, "*K N"]


@jax.custom_jvp
def recur(
    carry: Sequence[Carry],
    x: Sequence[Float[Array, "T *#K D"]],
    input_kernel: Sequence[Float[Array, "*K D M"]],
    bias: Sequence[Float[Array, "*K M"]],
    kernel: Sequence[Float[Array, "*K N M"]],
    mask: Sequence[Bool[Array, " T"]],
    state_mask: Sequence[Float[Array, "*K N"]],
) -> tuple[list[Float[Array, "T *K N"]], list[Carry]]:
    """Runs independent LSTM cells over one sentence, in one scan, without peepholes.

    Every argument is a sequence with an entry for each block of cells. A block is one
    cell, whose arrays have no axis K, or K cells with the same mask, that take part in
    one product per step. In a batch, that product has to put its sentences behind the
    cells, and back; so a few large cells had better be blocks of their own. Many small
    ones had better not: the program would be long.

    The gradient with respect to the kernel is formed in one product after the loop that
    goes backwards, where that of a plain scan adds up one product per token. There is
    none with respect to `state_mask`, which is drawn and not trained.

    Args:
        carry: What the cells begin with.
        x: An input for each cell of a block, or, without the axis K, one for all.
        input_kernel: From the input to the gates' arguments.
        bias: Of the gates' arguments.
        kernel: From the state to the gates' arguments.
        mask: Where it is False, a cell keeps what it carries and its output is zero.
            Each block has its own, since one that reads backwards meets the padding
            first.
        state_mask: Multiplies the state h that a cell receives from its last step, or
            begins with; neither its memory c nor its output.

    Returns:
        The outputs h of every cell, and what each carries on from its last token.

    Example:
        >>> import jax.numpy as jnp
        >>> zero, ones = jnp.zeros(1), jnp.ones(2, bool)
        >>> x, kernel = jnp.array([[1.0], [0.0]]), jnp.zeros((1, 4))  # write, then read
        >>> weights = kernel.at[0, 3].set(9.0), jnp.zeros(4), kernel
        >>> cell = Carry(zero, zero), x, *weights, ones, jnp.ones(1)
        >>> [h], [end] = recur(*([part] for part in cell))
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
    return _read(carry, x, input_kernel, bias, kernel, mask, state_mask)


@custom_vmap
def _read(carry, x, input_kernel, bias, kernel, mask, state_mask):
    projected = _project(x, input_kernel, bias)
    end, steps = _run(carry, projected, kernel, mask, state_mask)
    return [output for (output,) in steps], end


@_read.def_vmap
def _read_batch(axis_size, is_batched, *arguments):
    axes = jax.tree.map(lambda flag: 0 if flag else None, tuple(is_batched))
    # The size is that of the innermost mapped axis. If it is left open (`jax.export`),
    # it is no number; and one large product is what other devices do best.
    is_large = isinstance(axis_size, int) and axis_size >= _MANY
    is_by_few = is_large and jax.default_backend() == "cpu"
    read = _read_few_at_once if is_by_few else _read.fun
    results = jax.vmap(read, axes)(*arguments)
    return results, jax.tree.map(lambda _: True, results)


def _read_few_at_once(carry, x, input_kernel, bias, kernel, mask, state_mask):
    """Does what `_read` does, and projects a few tokens at once.

    What they give is read before it has left the caches. In small batches it does not
    leave them anyway, and many products with few rows are slower than one.
    """
    length = len(mask[0])
    size = _few(length)

    def read(carry, inputs):
        given, real = inputs
        projected = _project(given, input_kernel, bias)
        end, steps = _run(carry, projected, kernel, real, state_mask, unroll=True)
        return end, [output for (output,) in steps]

    def cut(part):
        padding = ((0, -length % size), *((0, 0),) * (part.ndim - 1))
        return jnp.pad(part, padding).reshape(-1, size, *part.shape[1:])

    inputs = jax.tree.map(cut, (list(x), list(mask)))
    end, outputs = jax.lax.scan(read, list(carry), inputs)
    return [part.reshape(-1, *part.shape[2:])[:length] for part in outputs], end


def _few(length: int) -> int:
    """Returns how many tokens are projected at once, of a sentence of some length.

    About four are fastest; the steps that are wasted beyond the last token count, too.
    """
    sizes = range(min(3, max(length, 1)), 8)
    return min(sizes, key=lambda size: (-length % size, abs(size - 4)))


def _project(x, input_kernel, bias):
    """Returns the gates' arguments from the input."""
    return [
        _product(time_major(given), weights) + b[None]
        for given, weights, b in zip(x, input_kernel, bias, strict=True)
    ]


def _product(x, kernel):
    return jnp.einsum("t...d,...dm->t...m", x, kernel)


def _run(
    carry, projected, kernel, mask, state_mask, *, unroll=False, for_derivative=False
):
    """Returns what is carried on, and of every step its output.

    And, if wanted, what its derivative needs: the state that is received, the memory
    before the step, and the gates' arguments. The loop would store them unread.
    """

    def step(carry, inputs):
        new, found = [], []
        for (state, memory), (gates, real), weights, kept in zip(
            carry, inputs, kernel, state_mask, strict=True
        ):
            received = state * kept
            gates = gates + jnp.einsum("...n,...nm->...m", received, weights)
            i, f, o, g = _open(gates)
            written = jnp.where(real, f * memory + i * g, memory)
            output = o * jnp.tanh(written)
            new.append(Carry(jnp.where(real, output, state), written))
            needed = (received, memory, gates) if for_derivative else ()
            found.append((jnp.where(real, output, 0.0), *needed))
        return new, found

    inputs = list(zip(projected, mask, strict=True))
    return jax.lax.scan(step, list(carry), inputs, unroll=unroll)


def _open(gates):
    """Returns the four gates, each `[*K, N]`, given their arguments."""
    size = gates.shape[-1] // 4
    opened = jax.nn.sigmoid(gates[..., : CANDIDATE * size])
    candidate = jnp.tanh(gates[..., CANDIDATE * size :])
    return *jax.lax.split(opened, (size,) * CANDIDATE, opened.ndim - 1), candidate


@recur.defjvp
def _differentiate(primals, tangents):
    """The derivative as a linear recurrence, of which JAX makes the backward pass.

    The kernel's tangent enters before the loop, for all tokens at once; so, in the
    transpose, its gradient leaves after it. Under `vmap`, that of a shared kernel is
    one product over all sentences, where a backward pass written by hand would give
    one kernel per sentence and then their sum.
    """
    carry, x, input_kernel, bias, kernel, mask, state_mask = primals
    d_carry, d_x, d_input_kernel, d_bias, d_kernel, _, _ = tangents
    projected = _project(x, input_kernel, bias)
    end, steps = _run(carry, projected, kernel, mask, state_mask, for_derivative=True)
    d_projected = [
        by_x + _by_kernel(time_major(given), d_weights)
        for by_x, given, d_weights in zip(
            _project(d_x, input_kernel, d_bias), x, d_input_kernel, strict=True
        )
    ]
    turned = [jnp.swapaxes(weights, -1, -2) for weights in kernel]  # once for all steps

    # Slopes are computed in the loop, from less than it would take to store them.
    @partial(jax.checkpoint, prevent_cse=False)
    def step(carry, inputs):
        new = [
            _follow(cell, weights, kept, *given)
            for cell, weights, kept, given in zip(
                carry, turned, state_mask, inputs, strict=True
            )
        ]
        outputs = [
            jnp.where(real, cell.state, 0.0)
            for cell, (*_, real) in zip(new, inputs, strict=True)
        ]
        return new, outputs

    inputs = [
        (d_gates + _by_kernel(time_major(received), d_k), memory, gates, m)
        for d_gates, d_k, (_, received, memory, gates), m in zip(
            d_projected, d_kernel, steps, mask, strict=True
        )
    ]
    d_end, d_outputs = jax.lax.scan(step, list(d_carry), inputs)
    return ([output for output, *_ in steps], end), (d_outputs, d_end)


def _follow(cell, turned, kept, d_gates, memory, gates, real):
    """The derivative of one step of a block, from the tangents of what enters it."""
    i, f, o, g = _open(gates)
    read = jnp.tanh(f * memory + i * g)
    d_gates = d_gates + jnp.einsum("...n,...mn->...m", cell.state * kept, turned)
    sizes = (read.shape[-1],) * 4
    # The transpose of a split is a concatenation; that of slices would be their sum.
    d_i, d_f, d_o, d_g = jax.lax.split(d_gates, sizes, read.ndim - 1)
    by_gates = (
        g * i * (1 - i) * d_i + memory * f * (1 - f) * d_f + i * (1 - g * g) * d_g
    )
    d_memory = jnp.where(real, f * cell.memory + by_gates, cell.memory)
    d_state = read * o * (1 - o) * d_o + o * (1 - read * read) * d_memory
    return Carry(jnp.where(real, d_state, cell.state), d_memory)


def _by_kernel(x, kernel):
    """Does what `_product` does; its transpose is the gradient by the kernel.

    Of that, left to itself, XLA makes a product whose inner axis comes first on the one
    side and last on the other: half as fast, and it takes one copy more.
    """
    turned = jax.lax.optimization_barrier(jnp.swapaxes(kernel, -1, -2))
    return jnp.einsum("t...d,...md->t...m", x, turned)


def time_major(x: Float[Array, "T ..."]) -> Float[Array, "T ..."]:
    """Returns x. Under `vmap`, the time comes first in what is computed from it.

    `vmap` puts the sentences of a batch first, and a scan has to have the time first.
    So the gates' arguments would be copied before the scan, and their gradient behind
    it. With this it is the input that is copied, which is smaller.

    Example:
        >>> import jax, jax.numpy as jnp
        >>> product = lambda x: time_major(x) @ jnp.ones((4, 9))
        >>> jaxpr = jax.make_jaxpr(jax.vmap(product))(jnp.zeros((2, 3, 4)))
        >>> jaxpr.eqns[-2].outvars[0].aval.shape  # 2 sentences of 3 tokens
        (3, 2, 9)
    """
    return _time_major.bind(x)


_time_major = Primitive("time_major")
_time_major.def_impl(lambda x: x)
_time_major.def_abstract_eval(lambda x: x)
ad.deflinear2(_time_major, lambda cotangent, _: [time_major(cotangent)])
mlir.register_lowering(_time_major, lambda _, x: [x])


def _batch_time_major(arguments, axes):
    return time_major(jnp.moveaxis(arguments[0], axes[0], 1)), 1


batching.primitive_batchers[_time_major] = _batch_time_major
