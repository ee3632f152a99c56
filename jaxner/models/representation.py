"""Representations: what a tagger knows of each token before it looks at the others.

Shape letters: `T` tokens, `C` characters, `D` features.
"""

from __future__ import annotations

import flax.linen as nn
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from jaxner.models import layers
from jaxner.types import FORBIDDEN, Sentence


class Words(nn.Module):
    """Looks up a vector for each word, in two tables.

    Only words of the training data can get a gradient. Their rows are parameters; all
    other rows of a vector file lie in the collection `frozen`, where no optimizer step
    pays for them. Without weight decay this is what training the whole table computes.

    Attributes:
        num_trained: Rows that are parameters; their ids come first.
        num_frozen: Rows that are not.
        dim: Length of a vector.
    """

    num_trained: int
    num_frozen: int = 0
    dim: int = 100

    @nn.compact
    def __call__(self, words: Int[Array, " T"]) -> Float[Array, " T D"]:
        """Returns the vector of each word."""
        trained = self.param(
            "trained", layers.kaiming_embedding, (self.num_trained, self.dim)
        )
        vectors = trained[jnp.minimum(words, self.num_trained - 1)]
        if not self.num_frozen:
            return vectors
        frozen = self.variable(
            "frozen", "vectors", jnp.zeros, (self.num_frozen, self.dim)
        ).value
        others = frozen[jnp.maximum(words - self.num_trained, 0)]
        return jnp.where((words < self.num_trained)[:, None], vectors, others)


class CharacterCNN(nn.Module):
    """Convolves over the characters of each word, and takes the maximum.

    There is no activation, as in the code of Chen et al. (2019). Character padding is
    zero for the convolution and left out of the maximum; in their code it is a trained
    vector inside both, so that a word's features depend on the longest word of the
    batch.

    Attributes:
        num_chars: Size of the character vocabulary, padding included.
        dim: Length of a character vector.
        num_filters: Features of a word.
        width: Characters under a filter.
    """

    num_chars: int
    dim: int = 30
    num_filters: int = 30
    width: int = 3

    @nn.compact
    def __call__(self, chars: Int[Array, " T C"]) -> Float[Array, " T D"]:
        """Returns the features of each word; zero for a word without characters."""
        table = self.param(
            "table", layers.kaiming_embedding, (self.num_chars, self.dim)
        )
        present = (chars > 0)[:, :, None]
        x = jnp.where(present, table[chars], 0.0)
        x = jax.vmap(lambda word: layers.windows(word, self.width))(x)
        conv = nn.Dense(
            self.num_filters, kernel_init=layers.kaiming_uniform, name="conv"
        )
        best = jnp.max(jnp.where(present, conv(x), FORBIDDEN), axis=1)
        return jnp.where(present.any(axis=1), best, 0.0)


class Representation(nn.Module):
    """Concatenates a word vector and character features, then drops units.

    Attributes:
        words: Word vectors, or None.
        chars: Character features, or None.
        dropout: Probability of zeroing a feature.
    """

    words: Words | None
    chars: CharacterCNN | None
    dropout: float = 0.5

    @nn.compact
    def __call__(self, sentence: Sentence, *, train: bool) -> Float[Array, " T D"]:
        """Returns the features of each token; zero under padding."""
        parts = []
        if self.words is not None:
            parts.append(self.words(sentence.words))
        if self.chars is not None:
            parts.append(self.chars(sentence.chars))
        x = nn.Dropout(self.dropout)(
            jnp.concatenate(parts, axis=1), deterministic=not train
        )
        return jnp.where(sentence.mask[:, None], x, 0.0)
