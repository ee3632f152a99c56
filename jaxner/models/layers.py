"""Layers that several models share, and how their weights are drawn.

Shape letters: `T` positions, `D` input features, `H` outputs; `N` state size of an LSTM
cell, `K` units (a unit is a pair of cells, one per direction).
"""

from __future__ import annotations

import functools
import math
from typing import Annotated, Any, Literal, NamedTuple

import flax.linen as nn
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from jaxner import devices
from jaxner.fields import OneOf, Rate
from jaxner.inference.crf import varying
from jaxner.types import FORBIDDEN

Mask = Bool[Array, " T"]
Features = Float[Array, " T D"]
Encoded = tuple[Float[Array, " T H"], dict[str, Array]]  # and intermediates

# --- Draws ----------------------------------------------------------------------------

Initializer = nn.initializers.Initializer
# Weights are float32, also where the caller has enabled float64.
normal = functools.partial(nn.initializers.normal, dtype=jnp.float32)
constant = functools.partial(nn.initializers.constant, dtype=jnp.float32)
zeros, ones = constant(0.0), constant(1.0)


def uniform(
    scale: float,
    mode: Literal["fan_in", "fan_out", "fan_avg"] = "fan_in",
    **axes: int | tuple[int, ...],
) -> Initializer:
    """Returns the initializer U(±√(3 · scale / fan))."""
    options: Any = {"dtype": jnp.float32, **axes}
    return nn.initializers.variance_scaling(scale, mode, "uniform", **options)


# He et al., "Delving Deep into Rectifiers", ICCV 2015, with the bound √(6 / fan-in).
kaiming_uniform = uniform(2.0)
# U(±1/√fan-in), PyTorch's default for linear layers and convolutions.
torch_uniform = uniform(1 / 3)
glorot = uniform(1.0, "fan_avg")
glorot_normal = nn.initializers.glorot_normal(dtype=jnp.float32)


def symmetric_uniform(bound: float) -> Initializer:
    """Returns the initializer U(-bound, bound)."""

    def init(key, shape, dtype=jnp.float32, out_sharding=None):
        del out_sharding
        return jax.random.uniform(key, shape, dtype, -bound, bound)

    return init


def convolution_glorot(width: int) -> Initializer:
    """Returns Glorot and Bengio's (2010) draw for a convolution's `[width · D, H]`."""

    def init(key, shape, dtype=jnp.float32, out_sharding=None):
        bound = (6 / (shape[0] + width * shape[1])) ** 0.5
        return symmetric_uniform(bound)(key, shape, dtype, out_sharding)

    return init


KERNELS = {
    "kaiming": lambda width: kaiming_uniform,
    "glorot": convolution_glorot,
    "torch": lambda width: torch_uniform,
}
"""How the kernel of a convolution over `width` positions is drawn."""

TABLES = {
    "kaiming": uniform(2.0, "fan_out"),
    "glorot": glorot,
    "normal": normal(0.1),
    "lecun": uniform(1.0, "fan_out"),
}
"""How an embedding table [V, D] is drawn: U(±√(6/D)), U(±√(6/(V+D))), N(0, 0.1²),
U(±√(3/D)) (Yang and Zhang, 2018)."""

ACTIVATIONS = {"none": lambda x: x, "tanh": jnp.tanh, "relu": jax.nn.relu}
"""Activations by their names in configs; all are monotonic."""


Kernel = Annotated[str, OneOf(KERNELS)]
Table = Annotated[str, OneOf(TABLES)]
Activation = Annotated[str, OneOf(ACTIVATIONS)]
LSTM = Literal["glorot", "glorot_fused", "kaiming", "normal", "torch"]

# --- Linen's layers -------------------------------------------------------------------


def dense(
    size: int,
    kernel: str | Initializer,
    name: str,
    bias: float | Initializer | None = 0.0,
    width: int = 1,
) -> nn.Dense:
    """Returns a linear layer; `kernel` is one of `KERNELS` or an initializer.

    `bias` is the initial bias, how it is drawn, or None for no bias.
    """
    return nn.Dense(
        size,
        use_bias=bias is not None,
        kernel_init=KERNELS[kernel](width) if isinstance(kernel, str) else kernel,
        bias_init=bias if callable(bias) else constant(bias or 0.0),
        name=name,
    )


def norm(eps: float, name: str, bias: bool = True) -> nn.LayerNorm:
    """Returns a layer normalisation as precise as PyTorch's, in two passes."""
    return nn.LayerNorm(eps, use_fast_variance=False, use_bias=bias, name=name)


def dropout(rate: float, x: Float[Array, "*T D"], train: bool) -> Float[Array, "*T D"]:
    """Applies dropout to an array that has padding on its first axis only."""
    return nn.Dropout(rate)(x, deterministic=not train)


# --- Dropout --------------------------------------------------------------------------


class Dropout(nn.Module):
    """Dropout for arrays with padding on their first two axes.

    The mask of an element depends on its indices, not on the array's size, and so not
    on the padding. Masks are drawn from `stream`; from "dropout" if it is missing.
    """

    rate: Rate
    stream: str = "dropout"

    @nn.compact
    def __call__(self, x: Float[Array, "A B D"], *, deterministic: bool):
        """Returns the array after dropout; unchanged if `deterministic`."""
        if deterministic or not self.rate:
            return x
        stream = self.stream if self.has_rng(self.stream) else "dropout"
        return drop_rows(x, self.make_rng(stream), self.rate)


def drop_rows(
    x: Float[Array, "A B D"], key: Array, rate: float, start: Int[Array, ""] | int = 0
) -> Float[Array, "A B D"]:
    """Returns rows after dropout; row 0 has index `start` in the whole array."""

    def row(i):
        return jax.random.bernoulli(jax.random.fold_in(key, i), 1 - rate, x.shape[1:])

    stays = jax.vmap(row)(start + jnp.arange(x.shape[0]))
    return jnp.where(stays, x / (1 - rate), 0.0)


# --- Convolution ----------------------------------------------------------------------


class Convolution(nn.Module):
    """A dilated convolution with a bias; see `convolve`."""

    features: int
    width: int
    dilation: int = 1
    by_tiles: bool = False
    kernel_init: Initializer = kaiming_uniform
    bias: float = 0.0

    @nn.compact
    def __call__(self, x: Float[Array, " T D"]) -> Float[Array, " T H"]:
        """Returns the outputs of each position."""
        shape = (self.width * x.shape[1], self.features)
        kernel = self.param("kernel", self.kernel_init, shape)
        bias = self.param("bias", constant(self.bias), (self.features,))
        options = {"dilation": self.dilation, "by_tiles": self.by_tiles}
        return convolve(x, kernel, self.width, **options) + bias[None]


def windows(x: Float[Array, "*B T D"], width: int, dilation: int = 1):
    """Returns the `width` neighbours of each position side by side, zeros outside.

    The result is `[*B, T, width · D]`, the leftmost tap first: a convolution is one
    product. On a CPU, the gradient of `conv_general_dilated` is slow inside a loop.
    """
    reach, length = dilation * (width // 2), x.shape[-2]
    row = _pad(x, reach, reach)
    taps = [row[..., dilation * k : dilation * k + length, :] for k in range(width)]
    return jnp.concatenate(taps, axis=-1)


def _pad(x, left, right):
    return jnp.pad(x, (*((0, 0),) * (x.ndim - 2), (left, right), (0, 0)))


def convolve(
    x: Float[Array, " T D"],
    kernel: Float[Array, " WD H"],
    width: int,
    dilation: int = 1,
    *,
    by_tiles: bool = False,
) -> Float[Array, " T H"]:
    """Returns a sequence convolved with a kernel, with zeros outside and no bias.

    With `by_tiles`, a CPU takes Toom and Cook's algorithm for the width 3 where the
    sizes suit it (Winograd, "Arithmetic Complexity of Computations", 1980; Lavin and
    Gray, "Fast Algorithms for Convolutional Neural Networks", CVPR 2016): an ID-CNN
    tags 2.1 and trains 1.6 times as fast; the rounding error is 2 to 4 times as large.
    """

    if by_tiles and width == _TAPS and _suits(x, kernel, dilation):
        return _by_target(x, kernel, dilation, devices.target())
    return windows(x, width, dilation) @ kernel


def best_values(
    vectors: Float[Array, " V D"],
    ids: Int[Array, " U C"],
    kernel: Float[Array, " WD H"],
    width: int,
) -> Float[Array, " U H"]:
    """Returns the greatest value of each filter over sequences of `ids`.

    The id 0 is padding: zero under the filter, and no place of a maximum. A CPU looks
    up what each id adds at each tap, and finds the gradient at the maximum alone: with
    `configs/own.py`, it tags 1.5 times as fast, and trains 1.1 to 1.4 times as fast.
    Where there are more ids than places, as in a sentence of Chinese, it multiplies.
    """

    def look_up(vectors, ids, kernel):
        present = (ids > 0)[:, :, None]
        is_padding = jnp.arange(vectors.shape[0]) == 0
        vectors = jnp.where(is_padding[:, None], 0.0, vectors)
        tables = [vectors @ tap for tap in jnp.split(kernel, width)]
        ids = jnp.pad(ids, ((0, 0), (width // 2, width // 2)))
        rows, columns = jnp.arange(ids.shape[0])[:, None], jnp.arange(kernel.shape[1])

        def sum_of(values):
            return functools.reduce(jnp.add, values)

        length = present.shape[1]
        values = sum_of(table[ids[:, k : k + length]] for k, table in enumerate(tables))
        values = jnp.where(present, jax.lax.stop_gradient(values), FORBIDDEN)
        places = jnp.argmax(values, axis=1)
        return sum_of(
            table[ids[rows, places + k], columns[None]]
            for k, table in enumerate(tables)
        )

    def multiply(vectors, ids, kernel):
        return best_of_all(vectors[ids], ids, kernel, width)

    operands = vectors, ids, kernel
    size = math.prod(ids.shape)  # a symbol in exported programs
    if isinstance(size, int) and size < vectors.shape[0]:
        return multiply(*operands)
    return devices.by_target(*operands, cpu=look_up, default=multiply)


def best_of_all(
    x: Float[Array, " U C D"],
    ids: Int[Array, " U C"],
    kernel: Float[Array, " WD H"],
    width: int,
) -> Float[Array, " U H"]:
    """Returns what `best_values` does, given a vector for each place."""
    present = (ids > 0)[:, :, None]
    values = windows(jnp.where(present, x, 0.0), width) @ kernel
    return jnp.max(jnp.where(present, values, FORBIDDEN), axis=1)


@functools.partial(jax.jit, static_argnums=(2, 3))
def _by_target(x, kernel, dilation, _target):
    """Convolves in the form for the target; traced once for all layers of a shape.

    `_target` only separates the traces that `jax.jit` keeps.
    """

    def tiles(x, kernel):
        return _by_tiles(x, kernel, dilation)

    def whole(x, kernel):
        return windows(x, _TAPS, dilation) @ kernel

    return devices.by_target(x, kernel, cpu=tiles, default=whole)


_TILE, _TAPS = 4, 3  # outputs that the fast algorithm computes together; its width


def _matrix(divisor: int, text: str) -> list[list[float]]:
    rows = (row.split() for row in text.split("|"))
    return [[float(x) / divisor for x in row] for row in rows]


# A tile of 4 outputs from inputs d and taps g is A((G g) ∘ (B d)), which evaluates
# polynomials at 0, 1, -1, 1/2, -2 and ∞.
_A = _matrix(8, "8 8 8 8 8 0 | 0 8 -8 4 -16 0 | 0 8 8 2 32 0 | 0 8 -8 1 -64 8")
_G = _matrix(15, "15 0 0 | 5 5 5 | -5 5 -5 | -16 -8 -4 | 1 -2 4 | 0 0 15")
_B = [
    *_matrix(2, "2 -3 -4 3 2 0 | 0 -2 1 5 2 0 | 0 2 -5 1 2 0"),
    *_matrix(2, "0 -4 -2 4 2 0 | 0 1 -2 -1 2 0 | 0 2 -3 -4 3 2"),
]
# The algorithm pays off with this many features on both sides, if at most this share of
# the multiplications remains.
_FEATURES, _SHARE = 100, 0.8


def _suits(x, kernel, dilation) -> bool:
    sizes = (*x.shape, *kernel.shape)
    is_known = all(isinstance(size, int) for size in sizes)  # no: symbolic
    is_precise = x.dtype == kernel.dtype and x.dtype in (jnp.float32, jnp.float64)
    if not is_known or not is_precise or min(sizes[1], sizes[3]) < _FEATURES:
        return False
    rows = -(-len(x) // (_TILE * dilation)) * dilation
    return rows * len(_B) <= _SHARE * len(x) * _TAPS


def _by_tiles(x, kernel, dilation):
    """Convolves tile by tile; tiles of a dilated convolution interleave."""
    (length, dim), size = x.shape, _TILE * dilation
    count = -(-length // size)
    padded_x = _pad(x, dilation, (count + 1) * size - length - dilation)
    cells = padded_x.reshape(count + 1, _TILE, dilation, dim)
    parts = [cells[i // _TILE : i // _TILE + count, i % _TILE] for i in range(len(_B))]
    kernels = _combine(_G, list(kernel.reshape(_TAPS, dim, -1)))
    products = [a @ b for a, b in zip(_combine(_B, parts), kernels, strict=True)]
    rows = jnp.stack(_combine(_A, products), axis=1)
    return rows.reshape(count * size, -1)[:length]


def _combine(matrix: list[list[float]], parts: list[Array]) -> list[Array]:
    sums = []
    for row in matrix:
        terms = [c * part for c, part in zip(row, parts, strict=True) if c]
        sums.append(functools.reduce(jnp.add, terms))
    return sums


# --- LSTM -----------------------------------------------------------------------------

FORGET, CANDIDATE = 1, 3  # the gates of a cell: input, forget, output, candidate


class Carry(NamedTuple):
    """The state h and memory c that a cell carries from one token to the next."""

    state: Float[Array, "*K N"]
    memory: Float[Array, "*K N"]


class Cells(nn.Module):
    """The parameters of one layer of a `BiLSTM`, of all its units and directions."""

    hidden_dim: int
    initializer: str = "glorot"
    forget_bias: float = 1.0
    num_units: int = 1
    num_directions: int = 2

    @nn.compact
    def __call__(self, dim: int):
        """Returns input kernel (`dim` input features), recurrent kernel and bias."""
        cells, size = (self.num_directions, self.num_units), self.hidden_dim

        def kernel(name, fan_in):
            if self.initializer == "normal":
                init = normal(1.0)
            else:
                fans = {
                    "glorot": fan_in + size,
                    "glorot_fused": dim + size + 4 * size,
                    "kaiming": fan_in,
                    "torch": 6 * size,
                }
                init = symmetric_uniform((6 / fans[self.initializer]) ** 0.5)
            return self.param(name, init, (*cells, fan_in, 4, size))

        def bias_init(key, shape):
            del key
            zeros = jnp.zeros(shape, jnp.float32)
            return zeros.at[:, :, FORGET].set(self.forget_bias)

        bias = self.param("bias", bias_init, (*cells, 4, size))
        return kernel("input", dim), kernel("recurrent", size), bias


@functools.partial(jax.custom_jvp, nondiff_argnums=(5,))
def lstm_scan(
    carry: Carry,
    gates: Float[Array, "T M"],
    kernel: Float[Array, "N M"],
    mask: Bool[Array, " T"],
    state_mask: Float[Array, " N"] | None = None,
    unroll: int = 1,
) -> tuple[Float[Array, "T N"], Carry]:
    """Returns the outputs h of one LSTM cell over one sentence, and the last carry.

    `gates` is what the input adds to the gates before their activations, `M` = 4 N.
    Where `mask` is False, the cell keeps its carry and returns zero; padding is before
    or behind all tokens. `state_mask`, a draw without gradient, multiplies the state
    that enters each step, but neither memory nor output (Gal and Ghahramani, "A
    Theoretically Grounded Application of Dropout in Recurrent Neural Networks", NIPS
    2016). The cell is Hochreiter and Schmidhuber's (1997) with the forget gate of Gers,
    Schmidhuber and Cummins (2000). `unroll` is that of `jax.lax.scan`.
    """
    end, (outputs, _) = _steps(carry, gates, kernel, mask, state_mask, unroll)
    return outputs, end


def _steps(carry, gates, kernel, mask, state_mask, unroll):
    """Returns the last carry; outputs and what the derivative needs of each token."""
    size = kernel.shape[0]

    def step(carry, inputs):
        gates, real = inputs
        state = carry.state if state_mask is None else carry.state * state_mask
        gates = gates + state @ kernel
        sides = jax.nn.sigmoid(gates[: CANDIDATE * size])
        i, f, o = jnp.split(sides, CANDIDATE)
        candidate = jnp.tanh(gates[CANDIDATE * size :])
        memory = jnp.where(real, f * carry.memory + i * candidate, carry.memory)
        output = (o * jnp.tanh(memory)).astype(carry.state.dtype)
        new = Carry(jnp.where(real, output, carry.state), memory)
        # One array: an accelerator writes it by one kernel.
        residuals = jnp.concatenate([sides, candidate, memory])
        return new, (jnp.where(real, output, 0.0), residuals)

    return jax.lax.scan(step, carry, (gates, mask), unroll=unroll)


@lstm_scan.defjvp
def _tangents(unroll, primals, tangents):
    """Returns values and tangents; JAX transposes this linear recurrence."""
    carry, gates, kernel, mask, state_mask = primals
    d_carry, d_gates, d_kernel, _, _ = tangents
    end, (outputs, residuals) = _steps(carry, gates, kernel, mask, state_mask, unroll)
    size = kernel.shape[0]
    # Outputs are zero under padding, which comes first in a backward direction.
    last_states = jnp.where(mask[:-1, None], outputs[:-1], carry.state)
    previous = (
        [carry.memory[None], residuals[:-1, 4 * size :]],
        [carry.state[None], last_states],
    )
    memories, states = (jnp.concatenate(parts)[: mask.shape[0]] for parts in previous)
    if state_mask is not None:
        states = states * state_mask[None]
    # The kernel's tangent enters before the loop, so its gradient is one product after
    # the backward loop: gradients take 0.6 of the time that a plain scan's take.
    d_gates = d_gates + states @ d_kernel

    # In other sizes, XLA pads each product.
    rest = jnp.zeros(-5 * size % 64, gates.dtype)
    matrix = jnp.pad(kernel, ((0, 0), (0, size + len(rest))))

    # The backward loop recomputes the slopes, which is faster than storing them.
    @functools.partial(jax.checkpoint, prevent_cse=False)
    def follow(d_carry, inputs):
        d_gates, residuals, previous, real = inputs
        i, f, o, candidate, memory = jnp.split(residuals, 5)
        tanh = jnp.tanh(memory)
        d_state = d_carry.state if state_mask is None else d_carry.state * state_mask
        d_old = d_carry.memory
        if unroll > 1:
            # The backward loop then writes both by one kernel, behind the barrier.
            d_pair = jnp.concatenate([d_gates, d_old, rest]) + d_state @ matrix
            d_pair = jax.lax.optimization_barrier(d_pair)
            d_gates, d_old = d_pair[: 4 * size], d_pair[4 * size : 5 * size]
        else:
            d_gates += d_state @ kernel
        d_i, d_f, d_o, d_candidate = jnp.split(d_gates, 4)
        d_memory = f * d_old + previous * f * (1 - f) * d_f
        d_memory += candidate * i * (1 - i) * d_i + i * (1 - candidate**2) * d_candidate
        d_output = o * (1 - tanh**2) * d_memory + tanh * o * (1 - o) * d_o
        d_output = d_output.astype(d_carry.state.dtype)
        new = Carry(
            jnp.where(real, d_output, d_carry.state),
            jnp.where(real, d_memory, d_old),
        )
        return new, jnp.where(real, d_output, 0.0)

    inputs = d_gates, residuals, memories, mask
    d_end, d_outputs = jax.lax.scan(follow, d_carry, inputs, unroll=unroll)
    return (outputs, end), (d_outputs, d_end)


def bilstm(
    x: Float[Array, "T _ _ D"],
    mask: Bool[Array, " T"],
    input_kernel: Float[Array, "2 K D 4 N"],
    kernel: Float[Array, "2 K N 4 N"],
    bias: Float[Array, "2 K 4 N"],
    state_mask: Float[Array, "2 K N"] | None = None,
    carry: Carry | None = None,
) -> tuple[Float[Array, "T 2 K N"], Carry]:
    """Runs one layer over a sentence in both directions.

    An axis of size 1 of x is shared by both directions, or by all units; the carry is
    `[2, K, N]`, by default zero. Returns the outputs, zero under padding, and the final
    carry: of forward cells after the last token, of backward cells after the first.
    """
    units, size = kernel.shape[1:3]
    kind = jnp.result_type(x, input_kernel)
    if carry is None:
        inputs = jax.tree.leaves((x, input_kernel, kernel, bias, state_mask))
        zero = varying(jnp.zeros((2, units, size), kind), *inputs)
        # The memory sums over the sentence: in bfloat16, small additions would vanish.
        carry = Carry(zero, zero.astype(jnp.promote_types(kind, jnp.float32)))

    weights = input_kernel.reshape(2, units, -1, 4 * size)
    biases = bias.reshape(2, units, 4 * size)
    kernel = kernel.reshape(2, units, size, 4 * size)
    # Axes of size 1 are shared, so they are summed over.
    spec = f"t{'os'[x.shape[1] - 1]}{'k' if x.shape[2] == units else 'p'}d,skdm->tskm"

    def apart(carry, kernel, state_mask):
        """Runs a scan for each direction: on a CPU, a tenth faster than one for all."""
        pairs = []
        for i, order in enumerate((1, -1)):
            side = slice(i, i + 1)
            inputs = x[::order, side if x.shape[1] == 2 else slice(None)]
            gates = jnp.einsum(spec, inputs, weights[side])[:, 0] + biases[side]
            run = jax.vmap(lstm_scan, (0, 1, 0, None, 0), (1, 0))
            cells = jax.tree.map(lambda leaf, i=i: leaf[i], (carry, kernel, state_mask))
            pairs.append(run(cells[0], gates, cells[1], mask[::order], cells[2]))
        return jax.tree.map(lambda *leaves: jnp.stack(leaves), *pairs)

    def together(carry, kernel, state_mask):
        """Runs all cells in one scan, several tokens a turn: few kernels to launch."""
        gates = jnp.einsum(spec, x, weights) + biases[None]
        gates = jnp.concatenate([gates[:, 0], gates[::-1, 1]], axis=1)
        masks = jnp.repeat(jnp.stack([mask, mask[::-1]], axis=1), units, axis=1)
        cells = jax.tree.map(jnp.concatenate, (carry, kernel, state_mask))
        is_known = isinstance(mask.shape[0], int)  # only such a scan can be unrolled
        # A divisor leaves no tokens over; a loop with one turn is none.
        divisors = (n for n in range(8, 33) if mask.shape[0] % n == 0)
        unroll = max(divisors, default=8) if is_known else 1
        scan = functools.partial(lstm_scan, unroll=unroll)
        run = jax.vmap(scan, (0, 1, 0, 1, 0), (1, 0))
        outputs, end = run(cells[0], gates, cells[1], masks, cells[2])
        outputs = jnp.moveaxis(outputs.reshape(-1, 2, units, size), 1, 0)
        return outputs, jax.tree.map(lambda leaf: leaf.reshape(2, units, size), end)

    inputs = carry, kernel, state_mask
    outputs, end = devices.by_target(*inputs, cpu=apart, default=together)
    return jnp.stack([outputs[0], outputs[1, ::-1]], axis=1), end
