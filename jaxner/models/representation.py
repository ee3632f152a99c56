"""Representations: features of each token before the encoder adds its context.

Shape letters: `T` tokens, `D` features; `S` layers of precomputed vectors.
"""

from __future__ import annotations

from typing import Annotated, Any

import flax.linen as nn
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from jaxner.fields import DERIVED, Count, Derived, OneOf, Rate, Size, check_fields
from jaxner.models import layers
from jaxner.models.bert import WordPieces
from jaxner.types import Caps, Pieces, Sentence

_PADDING, _UNKNOWN = 0, 1  # the first two word ids


class Words(nn.Module):
    """Word vectors in two tables, one trained and one frozen.

    Only words of the training data receive gradients. Their rows are parameters; all
    other rows of a vector file are in the collection `frozen`, which the optimizer
    never touches. Without weight decay the result is the same as training the whole
    table.

    Attributes:
        num_trained: Number of trained rows; their ids come first.
        num_frozen: Number of frozen rows.
        dim: Length of a vector.
        initializer: How trained rows without a pretrained vector are drawn, one of
            `layers.TABLES`.
    """

    num_trained: Derived
    num_frozen: Derived = 0
    dim: Size = 100
    initializer: layers.Table = "kaiming"

    def __post_init__(self):
        check_fields(self)
        super().__post_init__()

    @nn.compact
    def __call__(self, words: Int[Array, " T"]) -> Float[Array, " T D"]:
        """Returns the vector of each word."""
        trained = self.param(
            "trained", layers.TABLES[self.initializer], (self.num_trained, self.dim)
        )
        vectors = trained[jnp.minimum(words, self.num_trained - 1)]
        if not self.num_frozen:
            return vectors
        frozen = self.variable(
            "frozen", "vectors", jnp.zeros, (self.num_frozen, self.dim)
        ).value
        others = frozen[jnp.maximum(words - self.num_trained, 0)]
        return jnp.where((words < self.num_trained)[:, None], vectors, others)


# The class of each of `Caps`; 0 is no class.
RULES = {
    # Strubell et al. (2017): all upper, initial upper, some upper, none: AA Aa aAa a
    "shape": {Caps.ALL: 1, Caps.ALL_FIRST: 2, Caps.FIRST: 2, Caps.ALL_LATER: 3}
    | {Caps.LATER: 3, Caps.LOWER: 4, Caps.UNCASED: 4},
    # Li, Fu and Ma (2020): upper, upper-initial, lower, mixed (or without letters)
    "case": {Caps.ALL: 1, Caps.ALL_FIRST: 1, Caps.ALL_LATER: 1, Caps.FIRST: 2}
    | {Caps.LOWER: 3, Caps.LATER: 4, Caps.UNCASED: 4},
}
_NUM_CLASSES = 4


class Capitalisation(nn.Module):
    """Capitalisation features of words, by the classes of a paper.

    Attributes:
        rule: "shape" (Strubell et al., 2017) or "case" (Li, Fu and Ma, 2020).
        dim: Length of a learned vector; None: one-hot vectors.
        unknown: Whether unknown words get a trained vector instead of their class's, as
            in Li, Fu and Ma's code.
    """

    rule: Annotated[str, OneOf(RULES)] = "shape"
    dim: Size | None = None
    unknown: bool = False

    def __post_init__(self):
        check_fields(self)
        super().__post_init__()

    @nn.compact
    def __call__(
        self, caps: Int[Array, " T"], words: Int[Array, " T"]
    ) -> Float[Array, " T D"]:
        """Returns the features of each word; zero at padding and separators."""
        rule = RULES[self.rule]
        classes = jnp.array([rule.get(kind, 0) for kind in Caps])[caps]
        if self.dim is None:
            x = jax.nn.one_hot(classes, _NUM_CLASSES + 1)[:, 1:]
        else:
            # Row 0 (no class) only affects the bounds of the draw.
            shape = (_NUM_CLASSES + 1, self.dim)
            table = self.param("table", layers.TABLES["glorot"], shape)
            x = jnp.where((classes > 0)[:, None], table[classes], 0.0)
        if self.unknown:
            own = self.param("unknown", layers.TABLES["normal"], (1, x.shape[1]))
            x = jnp.where((words == _UNKNOWN)[:, None], own, x)
        return x


LAYERS = ("top", "average", "mix")


class Vectors(nn.Module):
    """Features from precomputed vectors of one or more layers.

    "mix" is the learned sum of Peters et al. (2018), eq. 1: γ Σ_k softmax(w)_k h_k. It
    starts as the average.

    Attributes:
        num_layers: Number of vectors for each token, S.
        dim: Dimensions of each, D.
        layer: "top" (the last), "average", "mix", or a layer's number from 0.
    """

    num_layers: Derived
    dim: Derived
    layer: Annotated[str, OneOf(LAYERS)] | Count = "mix"

    def __post_init__(self):
        if isinstance(self.layer, str) and self.layer.isdecimal():
            self.layer = int(self.layer)  # as a flag gives it
        check_fields(self)
        if not isinstance(self.layer, str) and self.layer >= self.num_layers:
            raise ValueError(
                f"layer of Vectors must be 0 to {self.num_layers - 1}, since these "
                f"vectors have num_layers={self.num_layers}, got {self.layer}"
            )
        super().__post_init__()

    @nn.compact
    def __call__(self, vectors: Float[Array, " T S D"]) -> Float[Array, " T D"]:
        """Returns one vector for each token."""
        if vectors.shape[1:] != (self.num_layers, self.dim):
            raise ValueError(
                f"Expected vectors of {self.num_layers} layers and {self.dim} "
                f"dimensions, got {vectors.shape[1]} and {vectors.shape[2]}"
            )
        if self.layer == "average":
            return vectors.mean(axis=1)
        if self.layer != "mix":
            return vectors[:, -1 if self.layer == "top" else self.layer]
        shares = self.param("shares", nn.initializers.zeros, (self.num_layers,))
        scale = self.param("scale", nn.initializers.ones, ())
        return scale * jnp.einsum("tsd,s->td", vectors, jax.nn.softmax(shares))


class Representation(nn.Module):
    """The concatenated features of each token, with dropout of words and features.

    Attributes:
        words: Word vectors, or None.
        chars: Character features, or None.
        caps: Capitalisation features, or None.
        vectors: Precomputed vectors, or None.
        bert: Features of word pieces (`bert.WordPieces`), or None.
        dropout: Probability of zeroing a feature.
        word_dropout: Probability of replacing a word by the unknown word.
        singleton_dropout: The same for words that occur once in the training text. This
            trains the unknown word's vector when the vocabulary covers the whole
            training text. Lample et al. (2016) use 0.5. Like the other dropouts, it
            acts in training and in passes with dropout.
        singletons: First and last (exclusive) id of these words; see `Vocabulary`.
    """

    words: nn.Module | None
    chars: Any
    caps: nn.Module | None = None
    vectors: Vectors | None = None
    bert: WordPieces | None = None
    dropout: Rate = 0.5
    word_dropout: Rate = 0.0
    singleton_dropout: Rate = 0.0
    singletons: Annotated[tuple[int, int], DERIVED] = (0, 0)

    def __post_init__(self):
        check_fields(self)
        super().__post_init__()

    @nn.compact
    def __call__(self, sentence: Sentence, *, train: bool) -> Float[Array, " T D"]:
        """Returns the features of each token; zero at separators and under padding."""
        words = sentence.words
        # A separate key: a pass without dropout can drop the same words.
        if self.word_dropout and self.has_rng("words"):
            key = self.make_rng("words")
            dropped = jax.random.bernoulli(key, self.word_dropout, words.shape)
            words = jnp.where(dropped & (words != _PADDING), _UNKNOWN, words)
        if self.singleton_dropout and self.has_rng("words"):
            key = self.make_rng("words")
            dropped = jax.random.bernoulli(key, self.singleton_dropout, words.shape)
            first, end = self.singletons
            is_single = (first <= words) & (words < end)
            words = jnp.where(dropped & is_single, _UNKNOWN, words)
        parts = []
        if self.words is not None:
            parts.append(self.words(words))
        if self.caps is not None:
            if sentence.caps is None:
                raise ValueError("This model needs the field `caps` of a Sentence.")
            parts.append(self.caps(sentence.caps, words))
        if self.chars is not None:
            parts.append(self._read_characters(sentence, train))
        parts += self._contextual(sentence, train)
        x = nn.Dropout(self.dropout)(
            jnp.concatenate(parts, axis=1), deterministic=not train
        )
        present = sentence.mask & (sentence.words != _PADDING)
        return jnp.where(present[:, None], x, 0.0)

    def _read_characters(self, sentence: Sentence, train: bool):
        """Returns character features, reading each distinct word once.

        With dropout, each token needs its own mask. In training each token has its own
        row, and the batch one key for all rows; otherwise this function copies the rows
        of a sentence to its tokens first.
        """
        is_drawn = train and getattr(self.chars, "dropout", 0)
        if is_drawn and not self.has_rng("chars"):
            return self.chars(sentence.chars[sentence.char_index], train=True)
        return self.chars(sentence.chars, train=train)[sentence.char_index]

    def _contextual(self, sentence: Sentence, train: bool) -> list[Array]:
        vectors, pieces = sentence.vectors, sentence.pieces
        parts = []
        if self.is_initializing():  # sizes come from the module, not from the sentence
            vectors, pieces = self._blank(len(sentence.words))
        if self.vectors is not None:
            if vectors is None:
                raise ValueError("This model needs the field `vectors` of a Sentence.")
            parts.append(self.vectors(vectors))
        if self.bert is not None:
            if pieces is None:
                raise ValueError("This model needs the field `pieces` of a Sentence.")
            parts.append(self.bert(pieces, train=train))
        return parts

    def _blank(self, length: int) -> tuple[Array | None, Pieces | None]:
        vectors = self.vectors and jnp.zeros(
            (length, self.vectors.num_layers, self.vectors.dim)
        )
        window = jnp.zeros((1, 1), jnp.int32)
        pieces = Pieces(window, window == 0, jnp.zeros((length, 1), jnp.int32))
        return vectors, pieces
