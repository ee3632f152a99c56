"""Representations: features of each token before the encoder adds its context.

Shape letters: `T` tokens (or words of which characters are read), `C` characters, `D`
features; `S` layers of precomputed vectors.
"""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal

import flax.linen as nn
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from jaxner import fields
from jaxner.data.vocabulary import CHAR_TYPES, PADDING, UNKNOWN
from jaxner.errors import InputError
from jaxner.fields import FromData, Part
from jaxner.models import layers
from jaxner.models.bert import WordPieces
from jaxner.models.checks import check_returned
from jaxner.models.layers import Features
from jaxner.types import FORBIDDEN, Caps, Options, Pieces, Sentence

Characters = Int[Array, " T C"]


class Words(nn.Module):
    """Word vectors in two tables, one trained and one frozen.

    Only words of the training data receive gradients, and their ids come first; all
    other rows of a vector file are in the collection `frozen`.

    Attributes:
        dim: Length of a vector.
        initializer: How rows without a pretrained vector are drawn.
    """

    num_trained: fields.Derived
    num_frozen: fields.Derived = 0
    dim: fields.Size = 100
    initializer: layers.Table = "kaiming"

    @nn.compact
    def __call__(self, words: Int[Array, " T"]) -> Float[Array, " T D"]:
        """Returns the vector of each word."""
        init, shape = layers.TABLES[self.initializer], (self.num_trained, self.dim)
        table = self.param("trained", init, shape)
        vectors = table[jnp.minimum(words, self.num_trained - 1)]
        if not self.num_frozen:
            return vectors
        shape = (self.num_frozen, self.dim)
        frozen = self.variable("frozen", "vectors", jnp.zeros, shape, "float32").value
        constants = frozen[jnp.maximum(words - self.num_trained, 0)]
        return jnp.where((words < self.num_trained)[:, None], vectors, constants)


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
        rule: Classes of Strubell et al., 2017 ("shape") or of Li, Fu and Ma, 2020
            ("case").
        dim: Length of a learned vector; None: one-hot vectors.
        unknown: Whether unknown words have a trained vector instead (Li, Fu and Ma).
    """

    rule: Annotated[str, fields.OneOf(RULES)] = "shape"
    dim: fields.Size | None = None
    unknown: bool = False

    @nn.compact
    def __call__(self, caps: Int[Array, " T"], words: Int[Array, " T"]) -> Features:
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
            unknown = self.param("unknown", layers.TABLES["normal"], (1, x.shape[1]))
            x = jnp.where((words == UNKNOWN)[:, None], unknown, x)
        return x


class Vectors(nn.Module):
    """Features from precomputed vectors of one or more layers.

    Attributes:
        layer: "top" (the last), "average", a layer's number from 0, or "mix", the
            learned γ Σ_k softmax(w)_k h_k (Peters et al., 2018, eq. 1).
    """

    num_layers: fields.Derived
    dim: fields.Derived
    layer: Literal["top", "average", "mix"] | fields.Count = "mix"

    def check(self) -> None:
        """Raises ValueError if there is no such layer."""
        if not isinstance(self.layer, str) and self.layer >= self.num_layers:
            raise ValueError(
                f"layer of Vectors must be 0 to {self.num_layers - 1}, since these "
                f"vectors have num_layers={self.num_layers}, got {self.layer}"
            )

    @nn.compact
    def __call__(self, vectors: Float[Array, " T S D"]) -> Float[Array, " T D"]:
        """Returns one vector for each token."""
        if self.layer == "average":
            return vectors.mean(axis=1)
        if self.layer != "mix":
            return vectors[:, -1 if self.layer == "top" else self.layer]
        shares = self.param("shares", layers.zeros, (self.num_layers,))
        scale = self.param("scale", layers.ones, ())
        return scale * jnp.einsum("tsd,s->td", vectors, jax.nn.softmax(shares))


# --- Characters -----------------------------------------------------------------------


def _vectors_of(
    reader: CharacterCNN | CharacterLSTM | IntNet, chars: Int[Array, "T C"], train: bool
):
    init = layers.TABLES[reader.table_initializer]
    table = reader.param("table", init, (reader.num_chars, reader.dim))
    # Later ids are unknown characters of a known type; see `Vocabulary.char_types`.
    x = table[jnp.where(chars < reader.num_chars, chars, UNKNOWN)]
    if getattr(reader, "types", None) is not None:
        # Type 0 (any other) has no element in the one-hot vector.
        types, count = jnp.array(reader.types), 1 + len(CHAR_TYPES)
        types = jax.nn.one_hot(types, count, dtype=x.dtype)[:, 1:]
        x = jnp.concatenate([x, types[chars]], axis=2)
    return layers.Dropout(reader.dropout, "chars")(x, deterministic=not train)


def _filters(
    reader: CharacterCNN | IntNet, dim: int, width: int, size: int, name: str
) -> tuple[Float[Array, " WD H"], Float[Array, "1 _"]]:
    """Returns kernel and bias of filters, drawn as those of a convolution."""
    drawing, bias = reader.initializer, 0.0 if getattr(reader, "bias", True) else None
    if drawing == "torch" and bias is not None:  # U(±1/√fan-in), PyTorch's default
        bias = layers.symmetric_uniform((width * dim) ** -0.5)
    layer = layers.dense(size, drawing, name, bias, width)
    layer(jnp.zeros((1, width * dim)))  # which makes the weights
    weights = layer.variables["params"]
    kernel = weights["kernel"]
    return kernel, weights.get("bias", jnp.zeros_like(kernel, shape=1))[None]


class CharacterCNN(nn.Module):
    """Features of words by a convolution over their characters and a maximum.

    By default there is no activation, as in the code of Chen et al. (2019). Padding is
    zero in the convolution and not in the maximum; in their code it is a trained vector
    in both, so that features depend on the longest word in the batch. With a `length`
    (Li, Fu and Ma, 2020), words are cut or padded to it; padding has a trained vector,
    filters stay within the word, and the maximum is over all positions.

    Attributes:
        dim: Length of a character vector.
        num_filters: Features of a word for each width.
        width: Characters under a filter; several widths if it is a tuple.
        length: Characters of every word; None to keep its own length.
        types: Type of each character id, appended to its vector as a one-hot vector.
        bias: Whether filters have a bias.
        activation: Applied to the filters' values.
        initializer: How filters are drawn.
        table_initializer: How character vectors are drawn.
        dropout: Probability of zeroing an element of a character vector.
    """

    num_chars: fields.Derived
    dim: fields.Size = 30
    num_filters: fields.Size = 30
    width: fields.Width | tuple[fields.Width, ...] = 3
    length: fields.Width | None = None
    types: Annotated[tuple[int, ...] | None, fields.DERIVED] = None
    bias: bool = True
    activation: layers.Activation = "none"
    initializer: layers.Kernel = "kaiming"
    table_initializer: layers.Table = "kaiming"
    dropout: fields.Rate = 0.0

    MORE: ClassVar = {"types": fields.Field(bool, False, "Whether to read types, too.")}

    @classmethod
    def from_options(cls, options: Options, sizes: Options) -> CharacterCNN:
        """Returns the module; with types, as `sizes` has them."""
        types = sizes["types"] if options.get("types") else None
        return cls(**{**options, "types": types})

    def _widths(self) -> dict[str, int]:
        if isinstance(self.width, int):
            return {"conv": self.width}
        return {f"conv{width}": width for width in self.width}

    def check(self) -> None:
        """Raises ValueError if widths and length do not fit together."""
        for width in self._widths().values():
            is_wrong = width > self.length if self.length else width % 2 == 0
            if is_wrong:
                raise ValueError(
                    f"A filter of CharacterCNN has an odd width, or at most a fixed "
                    f"`length`; got width={width} and length={self.length}"
                )

    @nn.compact
    def __call__(self, chars: Characters, *, train: bool) -> Features:
        """Returns the features of each word; zero for a word without characters."""
        if self.length is not None:
            padding = (0, 0), (0, self.length)
            chars = jnp.pad(chars, padding)[:, : self.length]
        present = (chars > 0)[:, :, None]
        # With dropout, each occurrence of a character has a vector of its own.
        has_table = self.length is None and not (train and self.dropout)
        count = len(self.types or range(self.num_chars))
        ids = jnp.where(chars < count, chars, UNKNOWN)
        if has_table:
            x = _vectors_of(self, jnp.arange(count)[None], train)[0]
        else:
            x = _vectors_of(self, ids, train)
        features = []
        for name, width in self._widths().items():
            options = x.shape[-1], width, self.num_filters, name
            kernel, bias = _filters(self, *options)
            if has_table:
                best = layers.best_values(x, ids, kernel, width)
            elif self.length is None:
                best = layers.best_of_all(x, ids, kernel, width)
            else:
                size = self.length - width + 1
                taps = [x[:, k : k + size] for k in range(width)]
                best = jnp.max(jnp.concatenate(taps, axis=2) @ kernel, axis=1)
            # Bias and activations are monotonic, so they may follow the maximum.
            features.append(layers.ACTIVATIONS[self.activation](best + bias))
        return jnp.where(present.any(axis=1), jnp.concatenate(features, axis=1), 0.0)


class CharacterLSTM(nn.Module):
    """Features of words by a bidirectional LSTM over their characters.

    Attributes:
        dim: Length of a character vector.
        hidden_dim: State size of one direction; a word has twice as many features.
        pool: "max": the maximum over characters (Žukov-Gregorič et al., 2018, 3.3);
            "last": the final state of each direction (Lample et al., 2016; NCRF++).
        initializer: How the kernels are drawn, as in encoder bilstm.
        table_initializer: How character vectors are drawn.
        forget_bias: Initial bias of the forget gates.
        dropout: Probability of zeroing an element of a character vector.
    """

    num_chars: fields.Derived
    dim: fields.Size = 25
    hidden_dim: fields.Size = 25
    pool: Literal["max", "last"] = "max"
    initializer: layers.LSTM = "glorot"
    table_initializer: layers.Table = "glorot"
    forget_bias: fields.Real = 1.0
    dropout: fields.Rate = 0.0

    @nn.compact
    def __call__(self, chars: Characters, *, train: bool) -> Features:
        """Returns the features of each word; zero for a word without characters."""
        present = chars > 0
        x = jnp.where(present[:, :, None], _vectors_of(self, chars, train), 0.0)
        sizes = self.hidden_dim, self.initializer, self.forget_bias
        weights = _WordCells(sizes, name="lstm")(x.shape[2])

        def read(x, present):
            return layers.bilstm(x[:, None, None], present, *weights)[0]

        values = jax.vmap(read)(x, present)
        values = values.reshape(*chars.shape, 2 * self.hidden_dim)
        if self.pool == "max":
            best = jnp.max(jnp.where(present[:, :, None], values, FORBIDDEN), axis=1)
            return jnp.where(present.any(axis=1)[:, None], best, 0.0)
        # The forward half at the last character, the backward half at the first.
        forward, backward = jnp.split(values, 2, axis=2)
        is_last = present & ~jnp.pad(present[:, 1:], ((0, 0), (0, 1)))
        end = jnp.sum(jnp.where(is_last[:, :, None], forward, 0.0), axis=1)
        return jnp.concatenate([end, backward[:, 0]], axis=1)


class _WordCells(nn.Module):
    """The cells of a `BiLSTM`, at `lstm/lstm/layer1`, where saved runs have them."""

    sizes: tuple[int, str, float]
    is_inner: bool = False

    @nn.compact
    def __call__(self, dim: int) -> tuple[Array, Array, Array]:
        if self.is_inner:
            return layers.Cells(*self.sizes, name="layer1")(dim)
        return _WordCells(self.sizes, True, name="lstm")(dim)


class IntNet(nn.Module):
    """Features of words by densely connected convolutions over characters.

    The first layer concatenates the ReLU of convolutions of several widths. Each block
    reduces all features so far to `growth` by a convolution over one character,
    convolves these over the same widths, and appends the results (Xin, Hart, Mahajan
    and Ruvini, "Learning Better Internal Structure of Words for Sequence Labeling",
    EMNLP 2018). Sizes are those of Hire-NER's code.

    Attributes:
        dim: Length of a character vector.
        num_filters: Features of the first layer, for each width.
        growth: Features between the convolutions of a block, and for each width of it.
        num_blocks: Number of blocks.
        widths: Characters under the filters; all odd.
        dropout: Probability of zeroing an element of a character vector.
        initializer: How filters are drawn.
        table_initializer: How character vectors are drawn.
    """

    num_chars: fields.Derived
    dim: fields.Size = 32
    num_filters: fields.Size = 32
    growth: fields.Size = 16
    num_blocks: Annotated[int, fields.Range(least=0, most=100)] = 3
    widths: tuple[fields.OddSize, ...] = (3, 5)
    dropout: fields.Rate = 0.5
    initializer: layers.Kernel = "kaiming"
    table_initializer: layers.Table = "kaiming"

    @nn.compact
    def __call__(self, chars: Characters, *, train: bool) -> Features:
        """Returns the features of each word; zero for a word without characters."""
        present = (chars > 0)[:, :, None]

        def convolve(x, width, size, name):
            kernel, bias = _filters(self, x.shape[2], width, size, name)
            values = layers.windows(x, width) @ kernel + bias[None]
            return jnp.where(present, jax.nn.relu(values), 0.0)

        def in_all_widths(x, size, name):
            values = [convolve(x, w, size, f"{name}_conv{w}") for w in self.widths]
            return jnp.concatenate(values, axis=2)

        x = jnp.where(present, _vectors_of(self, chars, train), 0.0)
        x = in_all_widths(x, self.num_filters, "first")
        for block in range(1, self.num_blocks + 1):
            narrow = convolve(x, 1, self.growth, f"block{block}_narrow")
            new = in_all_widths(narrow, self.growth, f"block{block}")
            x = jnp.concatenate([x, new], axis=2)
        # Features are never negative, so padding's zeros do not change the maximum.
        return jnp.max(x, axis=1, initial=0.0)


# --- All of them ----------------------------------------------------------------------


def with_long_words(sentence: Sentence) -> Sentence:
    """Returns a sentence whose `chars` have all characters of its long words, too."""
    if (long := sentence.long) is None:
        return sentence
    padding = long.chars.shape[1] - sentence.chars.shape[1]
    chars = jnp.pad(sentence.chars, ((0, 0), (0, padding)))
    chars = chars.at[long.rows].set(long.chars, mode="drop")
    return sentence._replace(chars=chars, long=None)


class Representation(nn.Module):
    """The concatenated features of each token, with dropout of words and features.

    Attributes:
        words: Word vectors; this and the other parts may be None.
        chars: Character features.
        caps: Capitalisation features.
        vectors: Precomputed vectors.
        bert: Features of word pieces.
        dropout: Probability of zeroing a feature.
        word_dropout: Probability of replacing a word by the unknown word.
        singleton_dropout: The same for singletons, words that occur once in the
            training text, so that the unknown word's vector is trained; Lample et al.
            (2016) use 0.5.
        singletons: First and last (exclusive) id of these words.
    """

    words: Annotated[nn.Module | None, Part(Words)] = None
    chars: Annotated[Any, Part("chars", "cnn")] = None
    caps: Annotated[nn.Module | None, Part(Capitalisation)] = None
    vectors: Annotated[Vectors | None, Part(Vectors)] = None
    bert: Annotated[WordPieces | None, Part(WordPieces)] = None
    dropout: fields.Rate = 0.5
    word_dropout: fields.Rate = 0.0
    singleton_dropout: fields.Rate = 0.0
    singletons: Annotated[tuple[int, int], FromData("singleton_dropout")] = (0, 0)

    def check(self) -> None:
        """Raises ValueError if nothing of a token is read."""
        if not (self.words or self.chars or self.vectors or self.bert):
            raise ValueError("at least one of words, chars, vectors and bert is needed")

    @nn.compact
    def __call__(self, sentence: Sentence, *, train: bool) -> Float[Array, " T D"]:
        """Returns the features of each token; zero at separators and under padding."""
        words = self._dropped(sentence.words)
        if self.is_initializing():  # sizes come from the module, not from the sentence
            sentence = self._blank(sentence)
        inputs = {"caps": self.caps, "vectors": self.vectors, "pieces": self.bert}
        for name, reader in inputs.items():
            if reader is not None and getattr(sentence, name) is None:
                raise InputError(f"This model needs the field `{name}` of a Sentence.")
        parts: list[Array] = []
        values: Any = sentence
        if self.words is not None:
            parts.append(self.words(words))
        if self.caps is not None:
            parts.append(self.caps(values.caps, words))
        if self.chars is not None:
            parts.append(self._read_characters(sentence, train))
        if self.vectors is not None:
            parts.append(self.vectors(values.vectors))
        if self.bert is not None:
            parts.append(self.bert(values.pieces, train=train))
        x = layers.dropout(self.dropout, jnp.concatenate(parts, axis=1), train)
        present = sentence.mask & (sentence.words != PADDING)
        return jnp.where(present[:, None], x, 0.0)

    def _dropped(self, words):
        first, end = self.singletons
        for rate, can_drop in (
            (self.word_dropout, words != PADDING),
            (self.singleton_dropout, (first <= words) & (words < end)),
        ):
            if rate and self.has_rng("words"):
                drops = jax.random.bernoulli(self.make_rng("words"), rate, words.shape)
                words = jnp.where(drops & can_drop, UNKNOWN, words)
        return words

    def _read_characters(self, sentence: Sentence, train: bool):
        """Returns character features, reading each distinct word once if it can."""

        def read(chars):
            features = self.chars(chars, train=train)
            check_returned("chars", self.chars, features, chars.shape[0])
            return features

        # With dropout and no key of the batch, each token reads a copy of its row.
        is_drawn = train and getattr(self.chars, "dropout", 0)
        is_drawn = is_drawn and not self.has_rng("chars")
        is_whole = is_drawn or getattr(self.chars, "length", None)
        sentence = with_long_words(sentence) if is_whole else sentence
        chars, long = sentence.chars, sentence.long
        if is_drawn:
            return read(chars[sentence.char_index])
        features = read(chars)
        if long is not None:
            features = features.at[long.rows].set(read(long.chars), mode="drop")
        return features[sentence.char_index]

    def _blank(self, sentence: Sentence) -> Sentence:
        length = sentence.words.shape[0]
        if self.vectors is not None:
            shape = (length, self.vectors.num_layers, self.vectors.dim)
            sentence = sentence._replace(vectors=jnp.zeros(shape))
        window = jnp.zeros((1, 1), jnp.int32)
        pieces = Pieces(window, window == 0, jnp.zeros((length, 1), jnp.int32))
        return sentence._replace(pieces=pieces)
