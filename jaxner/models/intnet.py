"""IntNet: features of a word from a deep convolution over its characters.

Xin, Hart, Mahajan and Ruvini, "Learning Better Internal Structure of Words for Sequence
Labeling", EMNLP 2018. The sizes come from Hire-NER's code, which seems to be the source
of Gui et al.'s (2020) IntNet; we do not know Xin et al.'s own. Shape letters: `T`
words, `C` characters, `D` features.
"""

from __future__ import annotations

from typing import Annotated

import flax.linen as nn
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from jaxner.fields import Derived, OddSize, Range, Rate, Size, check_fields
from jaxner.models import layers
from jaxner.models.convolution import windows


class IntNet(nn.Module):
    """Features of words by densely connected convolutions over characters.

    The first layer concatenates the ReLU of convolutions of several widths. Each block
    reduces all features so far to `growth` by a convolution over one character,
    convolves these over the same widths, and appends the results, `growth` features for
    each width. There is no pooling between blocks: a word keeps its length until the
    maximum over its characters.

    Padding is zero in every convolution and excluded from the maximum.

    Attributes:
        num_chars: Size of the character vocabulary, padding included.
        dim: Length of a character vector.
        num_filters: Features of the first layer, for each width.
        growth: Features between the convolutions of a block; a block appends as many
            for each width.
        num_blocks: Number of blocks.
        widths: Characters under the filters; all odd.
        dropout: Probability of zeroing an element of a character vector.
        initializer: How filters are drawn, one of `layers.KERNELS`; for their biases,
            see `layers.bias_like`.
        table_initializer: How character vectors are drawn, one of `layers.TABLES`.

    Raises:
        ValueError: A width is even or missing, a size is too small, a rate is outside
            [0, 1), or an initializer is unknown.

    Example:
        >>> import jax, jax.numpy as jnp
        >>> words = jnp.array([[3, 1, 0, 0], [2, 2, 4, 1]])
        >>> features, _ = IntNet(num_chars=5).init_with_output(
        ...     jax.random.key(0), words, train=False
        ... )
        >>> features.shape
        (2, 160)
    """

    num_chars: Derived
    dim: Size = 32
    num_filters: Size = 32
    growth: Size = 16
    num_blocks: Annotated[int, Range(least=0, most=100)] = 3
    widths: tuple[OddSize, ...] = (3, 5)
    dropout: Rate = 0.5
    initializer: layers.Kernel = "kaiming"
    table_initializer: layers.Table = "kaiming"

    def __post_init__(self):
        check_fields(self)
        if not self.widths:
            raise ValueError("Expected odd widths of IntNet, got none")
        super().__post_init__()

    @nn.compact
    def __call__(
        self, chars: Int[Array, " T C"], *, train: bool
    ) -> Float[Array, " T D"]:
        """Returns the features of each word; zero for a word without characters."""
        present = (chars > 0)[:, :, None]

        def convolve(x, width, size, name):
            x = windows(x, width)
            kernel = layers.KERNELS[self.initializer](width)
            bias = layers.bias_like(self.initializer, x.shape[2])
            x = nn.Dense(size, kernel_init=kernel, bias_init=bias, name=name)(x)
            return jnp.where(present, jax.nn.relu(x), 0.0)

        def in_all_widths(x, size, name):
            values = [convolve(x, w, size, f"{name}_conv{w}") for w in self.widths]
            return jnp.concatenate(values, axis=2)

        table = self.param(
            "table", layers.TABLES[self.table_initializer], (self.num_chars, self.dim)
        )
        x = table[layers.character_rows(chars, self.num_chars)]
        x = layers.Dropout(self.dropout, "chars")(x, deterministic=not train)
        x = in_all_widths(jnp.where(present, x, 0.0), self.num_filters, "first")
        for block in range(1, self.num_blocks + 1):
            narrow = convolve(x, 1, self.growth, f"block{block}_narrow")
            new = in_all_widths(narrow, self.growth, f"block{block}")
            x = jnp.concatenate([x, new], axis=2)
        # Features are never negative, so the zeros of padding do not change the
        # maximum.
        return jnp.max(x, axis=1, initial=0.0)
