"""IntNet: features of a word from a deep convolution over its characters.

Xin, Hart, Mahajan and Ruvini, "Learning Better Internal Structure of Words for Sequence
Labeling", EMNLP 2018. The sizes are those of Hire-NER's code, which Gui et al. (2020)
seem to have taken IntNet from; Xin et al.'s own are not known here. Shape letters: `T`
words, `C` characters, `D` features.
"""

from __future__ import annotations

import flax.linen as nn
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from jaxner.fields import Count, Derived, OddSize, Rate, Size, check_fields
from jaxner.models import layers
from jaxner.models.convolution import windows


class IntNet(nn.Module):
    """Convolves over the characters in blocks, each of which sees all before it.

    The first layer lays the ReLU of convolutions of several widths side by side. Each
    block narrows all features so far to `growth` by a convolution over one character,
    convolves those over the same widths, and lays the results, `growth` for each width,
    beside what there was. Nothing is pooled between the blocks, so a word keeps its
    length until the maximum over its characters.

    Character padding is zero for every convolution, and is left out of the maximum.

    Attributes:
        num_chars: Size of the character vocabulary, padding included.
        dim: Length of a character vector.
        num_filters: Features of the first layer, for each width.
        growth: Features between the convolutions of a block, and those that it adds for
            each width.
        num_blocks: Number of blocks.
        widths: Characters under the filters, each odd.
        dropout: Probability of zeroing an element of a character vector.
        initializer: How filters are drawn, one of `layers.KERNELS`; their biases begin
            as `layers.bias_like` says.
        table_initializer: How character vectors are drawn, one of `layers.TABLES`.

    Raises:
        ValueError: A width is even or there is none, a size is less than one, a rate is
            none, or an initializer unknown.

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
    num_blocks: Count = 3
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
        # No feature is below the padding's zero, which so is as good as left out.
        return jnp.max(x, axis=1, initial=0.0)
