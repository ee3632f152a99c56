"""Features of a word from its characters.

Shape letters: `T` words, `C` characters, `D` features.
"""

from __future__ import annotations

from typing import Annotated

import flax.linen as nn
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from jaxner.fields import DERIVED, Derived, OneOf, Rate, Real, Size, Width, check_fields
from jaxner.models import layers
from jaxner.models.convolution import windows
from jaxner.models.lstm import BiLSTM, Initializer
from jaxner.types import FORBIDDEN

NUM_TYPES = 4  # of characters: upper, lower, digit, punctuation; 0 is any other


class CharacterCNN(nn.Module):
    """Features of words by a convolution over their characters and a maximum.

    By default there is no activation, as in the code of Chen et al. (2019). Padding is
    zero in the convolution and excluded from the maximum. In their code it is a trained
    vector in both, so that a word's features depend on the longest word in the batch.

    With a `length`, as in Li, Fu and Ma (2020), every word is cut or padded to that
    many characters; padding has a trained vector, filters stay within the word, and the
    maximum is over all positions. These features, too, depend on the word alone.

    Attributes:
        num_chars: Size of the character vocabulary, padding included.
        dim: Length of a character vector.
        num_filters: Features of a word for each width.
        width: Characters under a filter; several widths if it is a tuple.
        length: Characters of every word; None to keep its own length.
        types: Type of each character id, from 1, appended to its vector as a one-hot
            vector; None for no types. May be longer than `num_chars`; see
            `layers.character_rows`.
        bias: Whether filters have a bias.
        activation: One of `layers.ACTIVATIONS`.
        initializer: How filters are drawn, one of `layers.KERNELS`; for their biases,
            see `layers.bias_like`.
        table_initializer: How character vectors are drawn, one of `layers.TABLES`.
        dropout: Probability of zeroing an element of a character vector.
    """

    num_chars: Derived
    dim: Size = 30
    num_filters: Size = 30
    width: Width | tuple[Width, ...] = 3
    length: Width | None = None
    types: Annotated[tuple[int, ...] | None, DERIVED] = None
    bias: bool = True
    activation: layers.Activation = "none"
    initializer: layers.Kernel = "kaiming"
    table_initializer: layers.Table = "kaiming"
    dropout: Rate = 0.0

    def __post_init__(self):
        check_fields(self)
        for width in self._widths().values():
            if self.length is None and width % 2 == 0:
                raise ValueError(
                    f"Expected odd widths of CharacterCNN, got {width}; words of a "
                    "fixed `length` may have even ones"
                )
            if self.length is not None and width > self.length:
                raise ValueError(
                    f"A filter of width {width} does not fit words of length "
                    f"{self.length}"
                )
        super().__post_init__()

    def _widths(self) -> dict[str, int]:
        if isinstance(self.width, int):
            return {"conv": self.width}
        return {f"conv{width}": width for width in self.width}

    @nn.compact
    def __call__(
        self, chars: Int[Array, " T C"], *, train: bool
    ) -> Float[Array, " T D"]:
        """Returns the features of each word; zero for a word without characters."""
        if self.length is not None:
            room = max(self.length - chars.shape[1], 0)
            chars = jnp.pad(chars[:, : self.length], ((0, 0), (0, room)))
        present = (chars > 0)[:, :, None]
        x = layers.Dropout(self.dropout, "chars")(
            self._vectors(chars), deterministic=not train
        )
        if self.length is None:
            x = jnp.where(present, x, 0.0)
        features = [self._convolve(x, present, n, w) for n, w in self._widths().items()]
        return jnp.where(present.any(axis=1), jnp.concatenate(features, axis=1), 0.0)

    def _vectors(self, chars):
        table = self.param(
            "table", layers.TABLES[self.table_initializer], (self.num_chars, self.dim)
        )
        rows = layers.character_rows(chars, self.num_chars)
        if self.types is None:
            return table[rows]
        # Type 0 (any other) has no element in the one-hot vector.
        types = jax.nn.one_hot(jnp.array(self.types), NUM_TYPES + 1)[:, 1:]
        return jnp.concatenate([table[rows], types[chars]], axis=2)

    def _convolve(self, x, present, name, width):
        if self.length is None:
            x = windows(x, width)
        else:
            count = self.length - width + 1
            x = jnp.concatenate([x[:, k : k + count] for k in range(width)], axis=2)
        values = nn.Dense(
            self.num_filters,
            use_bias=self.bias,
            kernel_init=layers.KERNELS[self.initializer](width),
            bias_init=layers.bias_like(self.initializer, x.shape[2]),
            name=name,
        )(x)
        if self.length is None:
            values = jnp.where(present, values, FORBIDDEN)
        # The activations are monotonic, so they may follow the maximum.
        return layers.ACTIVATIONS[self.activation](jnp.max(values, axis=1))


POOLS = ("max", "last")


class CharacterLSTM(nn.Module):
    """Features of words by a bidirectional LSTM over their characters.

    Attributes:
        num_chars: Size of the character vocabulary, padding included.
        dim: Length of a character vector.
        hidden_dim: State size of one direction; a word has twice as many features.
        pool: How states become features: "max", their maximum over the characters
            (Žukov-Gregorič et al., 2018), or "last", the final state of each direction
            (Lample et al., 2016; NCRF++ and what is built on it, such as the code of
            Cui and Zhang, 2019).
        initializer: How the kernels are drawn; see `BiLSTM`.
        table_initializer: How character vectors are drawn, one of `layers.TABLES`.
        forget_bias: Initial bias of the forget gates.
        dropout: Probability of zeroing an element of a character vector.

    Raises:
        ValueError: A choice is unknown, or a rate is outside [0, 1).

    Example:
        >>> import jax, jax.numpy as jnp
        >>> words = jnp.array([[3, 1, 0, 0], [2, 2, 4, 1]])
        >>> features, _ = CharacterLSTM(num_chars=5, pool="last").init_with_output(
        ...     jax.random.key(0), words, train=False
        ... )
        >>> features.shape
        (2, 50)

    References:
        Žukov-Gregorič, Bachrach and Coope, "Named Entity Recognition With Parallel
        Recurrent Neural Networks", ACL 2018, section 3.3: Lample et al.'s (2016)
        character LSTM with max pooling over the characters. The paper does not give the
        length of a character vector; Lample et al. use 25.
    """

    num_chars: Derived
    dim: Size = 25
    hidden_dim: Size = 25
    pool: Annotated[str, OneOf(POOLS)] = "max"
    initializer: Initializer = "glorot"
    table_initializer: layers.Table = "glorot"
    forget_bias: Real = 1.0
    dropout: Rate = 0.0

    def __post_init__(self):
        check_fields(self)
        super().__post_init__()

    @nn.compact
    def __call__(
        self, chars: Int[Array, " T C"], *, train: bool
    ) -> Float[Array, " T D"]:
        """Returns the features of each word; zero for a word without characters."""
        table = self.param(
            "table", layers.TABLES[self.table_initializer], (self.num_chars, self.dim)
        )
        present = chars > 0
        x = table[layers.character_rows(chars, self.num_chars)]
        x = layers.Dropout(self.dropout, "chars")(x, deterministic=not train)
        x = jnp.where(present[:, :, None], x, 0.0)
        over_words = nn.vmap(
            _Reader, variable_axes={"params": None}, split_rngs={"params": False}
        )
        values = over_words(
            self.hidden_dim, self.initializer, self.forget_bias, name="lstm"
        )(x, present)
        if self.pool == "last":
            return _last(values, present)
        best = jnp.max(jnp.where(present[:, :, None], values, FORBIDDEN), axis=1)
        return jnp.where(present.any(axis=1)[:, None], best, 0.0)


def _last(
    values: Float[Array, "T C D"], present: Bool[Array, "T C"]
) -> Float[Array, "T D"]:
    """Returns the forward half at the last character, the backward half at the first.

    Words without characters get zeros.
    """
    forward, backward = jnp.split(values, 2, axis=2)
    is_last = present & ~jnp.pad(present[:, 1:], ((0, 0), (0, 1)))
    end = jnp.sum(jnp.where(is_last[:, :, None], forward, 0.0), axis=1)
    return jnp.concatenate([end, backward[:, 0]], axis=1)


class _Reader(nn.Module):
    """A BiLSTM over the characters of one word."""

    hidden_dim: int
    initializer: str
    forget_bias: float

    @nn.compact
    def __call__(self, x: Float[Array, " C D"], present: Bool[Array, " C"]):
        lstm = BiLSTM(
            self.hidden_dim,
            initializer=self.initializer,
            forget_bias=self.forget_bias,
            name="lstm",
        )
        return lstm(x, present, train=False)[0]
