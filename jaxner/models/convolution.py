"""Dilated convolutions over a sequence. `T` positions, `D` features, `H` outputs.

A convolution is a matrix product over windows of the input. On a CPU, where large ones
run at the speed of the products alone, a fast algorithm takes fewer of them: two for an
output of width 3 or 5, where there would be three or five.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from fractions import Fraction
from math import prod

import flax.linen as nn
import jax
import jax.numpy as jnp
from jax.extend.core import Primitive
from jax.interpreters import ad, batching, mlir
from jaxtyping import Array, Float

from jaxner.models import layers

_TILE = 4  # outputs that the fast algorithm computes together
# Where it evaluates polynomials; with infinity, as many as the inputs of a tile. These
# round less than others do: about 2 (width 3) and 4 (5) times as much as one product.
_POINTS = tuple(map(Fraction, ("0", "1", "-1", "1/2", "-2", "2", "-1/2")))
# It pays if there are so many features on both sides, so many rows times features in
# each product, and at most this share of the multiplications is left.
_FEATURES, _SIZE, _SHARE = 100, 8000, 0.8


class Convolution(nn.Module):
    """A dilated convolution with a bias, zeros outside of the sequence.

    Attributes:
        features: Outputs, H.
        width: Number of taps, odd.
        dilation: Distance between taps, in positions.
        kernel_init: Draws the kernel, `[width · D, H]`.
        bias_init: Draws the bias.

    Example:
        >>> import jax, jax.numpy as jnp
        >>> layer, x = Convolution(features=4, width=3), jnp.ones((5, 2))
        >>> features, weights = layer.init_with_output(jax.random.key(0), x)
        >>> features.shape, weights["params"]["kernel"].shape
        ((5, 4), (6, 4))
    """

    features: int
    width: int
    dilation: int = 1
    kernel_init: nn.initializers.Initializer = nn.initializers.lecun_normal()
    bias_init: nn.initializers.Initializer = nn.initializers.zeros

    @nn.compact
    def __call__(self, x: Float[Array, " T D"]) -> Float[Array, " T H"]:
        """Returns the outputs of each position."""
        shape = (self.width * x.shape[1], self.features)
        kernel = self.param("kernel", self.kernel_init, shape)
        bias = self.param("bias", self.bias_init, (self.features,))
        return convolve(x, kernel, self.width, self.dilation) + bias[None]


def convolve(
    x: Float[Array, " T D"],
    kernel: Float[Array, " WD H"],
    width: int,
    dilation: int = 1,
) -> Float[Array, " T H"]:
    """Convolves a sequence, with zeros outside of it.

    What is fast depends on the size of the batch, which the batching rule of a
    primitive sees. On a CPU, many sentences with many features are convolved by the
    fast algorithm, which rounds some 2 to 4 times as much as a product over windows.

    Args:
        x: Features of a sequence.
        kernel: A matrix over what `windows` returns.
        width: Number of taps, odd.
        dilation: Distance between taps, in positions.

    Returns:
        What comes out at each position, without a bias.

    Raises:
        ValueError: The kernel has another number of rows.

    Example:
        >>> import jax.numpy as jnp
        >>> x, sums = jnp.array([[1.0], [2.0], [3.0]]), jnp.ones((3, 1))
        >>> convolve(x, sums, width=3).tolist()
        [[3.0], [6.0], [5.0]]

    References:
        Winograd, "Arithmetic Complexity of Computations", 1980; Lavin and Gray, "Fast
        Algorithms for Convolutional Neural Networks", CVPR 2016.
    """
    if kernel.shape[0] != width * x.shape[1]:
        raise ValueError(
            f"Expected a kernel of {width} · {x.shape[1]} rows, one for each tap and "
            f"feature, got {kernel.shape[0]}"
        )
    if width == 1:
        return x @ kernel
    x, kernel = layers.vary_alike(x, kernel)
    return _convolve.bind(x, kernel, width=width, dilation=dilation)


def windows(x: Float[Array, "*B T D"], width: int, dilation: int = 1):
    """Lays the `width` neighbours of each position side by side, zeros outside.

    A convolution is then one matrix product, whose gradient is as fast inside a loop as
    outside of one; `conv_general_dilated` is not, on a CPU.

    Args:
        x: Features of a sequence.
        width: Number of taps, odd.
        dilation: Distance between taps, in positions.

    Returns:
        `[*B, T, width · D]`, the leftmost tap first.

    Example:
        >>> import jax.numpy as jnp
        >>> windows(jnp.array([[1.0], [2.0], [3.0]]), 3).tolist()
        [[0.0, 1.0, 2.0], [1.0, 2.0, 3.0], [2.0, 3.0, 0.0]]
    """
    reach, length = dilation * (width // 2), x.shape[-2]
    padded = _pad(x, reach, reach)
    taps = [padded[..., dilation * k : dilation * k + length, :] for k in range(width)]
    return jnp.concatenate(taps, axis=-1)


def _pad(x, before, behind):
    return jnp.pad(x, (*((0, 0),) * (x.ndim - 2), (before, behind), (0, 0)))


def _by_windows(x, kernel, width, dilation):
    return windows(x, width, dilation) @ kernel


def _by_tiles(x, kernel, width, dilation):
    """Convolves by Toom and Cook's algorithm, a few outputs of each phase together.

    With n inputs and m outputs in a tile it is A((G g) ∘ (B d)) for the taps g and the
    inputs d, where A, G and B hold small constants: n products in the place of m times
    the width. Tiles of a dilated convolution interleave: one for each phase.
    """
    outputs, taps, inputs = _toom_cook(_TILE, width)
    length, size = x.shape[-2], _TILE * dilation
    count = -(-length // size)
    reach = dilation * (width // 2)
    padded = _pad(x, reach, (count + 1) * size - length - reach)
    cells = padded.reshape(*x.shape[:-2], count + 1, _TILE, dilation, x.shape[-1])
    given = [
        cells[..., i // _TILE : i // _TILE + count, i % _TILE, :, :]
        for i in range(len(inputs))
    ]
    kernels = _combine(taps, list(kernel.reshape(width, -1, kernel.shape[1])))
    products = [a @ b for a, b in zip(_combine(inputs, given), kernels, strict=True)]
    found = jnp.stack(_combine(outputs, products), axis=-3)
    shape = (*x.shape[:-2], count * size, kernel.shape[1])
    return found.reshape(shape)[..., :length, :]


def _combine(rows: Sequence[Sequence[Fraction]], parts: Sequence[Array]) -> list[Array]:
    """Multiplies a matrix of constants by a vector of arrays."""
    return [
        functools.reduce(
            jnp.add,
            (float(c) * part for c, part in zip(row, parts, strict=True) if c),
        )
        for row in rows
    ]


@functools.cache
def _toom_cook(size: int, width: int) -> tuple[list[list[Fraction]], ...]:
    """Returns the matrices A, G and B for so many outputs and taps."""
    points = _POINTS[: size + width - 2]
    powers = [[p**i for p in points] for i in range(max(size, width))]
    top = Fraction(1)  # at infinity a polynomial has its highest coefficient
    outputs = [[*powers[i], top * (i == size - 1)] for i in range(size)]
    scales = [prod(p - q for q in points if q != p) for p in points]
    taps = [
        [powers[j][i] / scale for j in range(width)] for i, scale in enumerate(scales)
    ]
    taps.append([top * (j == width - 1) for j in range(width)])
    inputs = [[*_expand([q for q in points if q != p]), Fraction(0)] for p in points]
    inputs.append(_expand(points))
    return outputs, taps, inputs


def _expand(roots: Sequence[Fraction]) -> list[Fraction]:
    """Returns the coefficients of a polynomial, the lowest first."""
    found = [Fraction(1)]
    for root in roots:
        shifted, scaled = (
            [Fraction(0), *found],
            [*(root * c for c in found), Fraction(0)],
        )
        found = [a - b for a, b in zip(shifted, scaled, strict=True)]
    return found


def _form(x, kernel, width, dilation) -> Callable[..., Array]:
    """Chooses how to convolve arrays of some shapes."""
    sizes = (*x.shape, *kernel.shape)
    is_known = all(isinstance(size, int) for size in sizes)  # `jax.export` may not tell
    is_single = x.dtype == kernel.dtype and x.dtype in (jnp.float32, jnp.float64)
    if not (is_known and is_single and jax.default_backend() == "cpu"):
        return _by_windows
    length, features = x.shape[-2:]
    fewest = min(features, kernel.shape[1])
    if width not in (3, 5) or fewest < _FEATURES:
        return _by_windows
    rows = -(-length // (_TILE * dilation)) * dilation
    share = rows * (_TILE + width - 1) / max(length * width, 1)
    pays = prod(x.shape[:-2]) * rows * fewest >= _SIZE and share <= _SHARE
    return _by_tiles if pays else _by_windows


# --- the primitive: `[*B, T, D]` and one kernel --------------------------------------


def _apply(x, kernel, *, width, dilation):
    return _form(x, kernel, width, dilation)(x, kernel, width, dilation)


def _shape(x, kernel, *, width, dilation):
    del width, dilation
    kind = jnp.result_type(x.dtype, kernel.dtype)
    return x.update(shape=(*x.shape[:-1], kernel.shape[1]), dtype=kind)


def _transpose_x(cotangent, x, kernel, **options):
    apply = functools.partial(_apply, kernel=kernel, **options)
    return jax.linear_transpose(apply, x.aval)(cotangent)[0]


def _transpose_kernel(cotangent, x, kernel, **options):
    apply = functools.partial(_apply, x, **options)
    return jax.linear_transpose(apply, kernel.aval)(cotangent)[0]


def _batch(arguments, axes, **options):
    if axes[1] is not None:  # a kernel of its own for each
        return jax.vmap(functools.partial(_by_windows, **options), axes)(*arguments), 0
    return _convolve.bind(
        jnp.moveaxis(arguments[0], axes[0], 0), *arguments[1:], **options
    ), 0


_convolve = Primitive("convolve")
_convolve.def_impl(jax.jit(_apply, static_argnames=("width", "dilation")))
_convolve.def_abstract_eval(_shape)
ad.defbilinear(_convolve, _transpose_x, _transpose_kernel)
batching.primitive_batchers[_convolve] = _batch
mlir.register_lowering(_convolve, mlir.lower_fun(_apply, multiple_results=False))
