"""The values that the rooms of the library exchange.

Shape letters: `T` tokens, `U` distinct words, `C` characters, `L` labels. Every field
is written for one sentence; a batch is the same tuple with one more axis in front of
every field, but for `chars`, which its sentences may share (see `batch_axes`).
This module imports no JAX, so that host code can use it.
"""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    import numpy as np
    from jax import Array
    from jaxtyping import Bool, Float, Int

    AnyArray = Any  # a NumPy array on the host, a JAX array on the device

Weights = dict[str, Any]
"""`{"params": …, "frozen": …}`: the trained arrays, and those that no step changes."""


FORBIDDEN = -1e30
"""Score of what must not happen. Finite, since -inf gives NaN gradients once a label is
unreachable; so low that no score can outweigh it, whatever the model's scale."""


class Pieces(NamedTuple):
    """The word pieces of a sentence, for a pretrained encoder of limited length.

    `W` windows of `S` pieces, special pieces included; `Q` pieces of the longest token.

    Attributes:
        windows: Piece ids; windows overlap where the sentence needs several.
        mask: False under padding.
        places: Where the pieces of each token stand in the windows laid end to end
            (window · S + place); -1 where a token has fewer.
    """

    windows: Int[AnyArray, " W S"]
    mask: Bool[AnyArray, " W S"]
    places: Int[AnyArray, " T Q"]


class Sentence(NamedTuple):
    """One encoded sentence, or one document.

    In a document a separator stands before, between and after the sentences: a token
    (the mask is True) whose ids are all 0, so that it has no features of its own.

    Attributes:
        words: Word ids; 0 under padding and at separators.
        chars: Character ids of the distinct words; 0 under padding, on the right. Row 0
            has no characters: it stands for padding and separators.
        char_index: The row of `chars` that spells each token.
        mask: True at a token; the tokens come first.
        caps: How each word is capitalised, one of `Caps`; 0 under padding. None where
            no model asks for it.
        vectors: Vectors that were computed beforehand, of one or more layers; 0 under
            padding. None where no model asks for them.
        pieces: Word pieces; None where no model asks for them.
    """

    words: Int[AnyArray, " T"]
    chars: Int[AnyArray, " U C"]
    char_index: Int[AnyArray, " T"]
    mask: Bool[AnyArray, " T"]
    caps: Int[AnyArray, " T"] | None = None
    vectors: Float[AnyArray, " T S D"] | None = None
    pieces: Pieces | None = None


def batch_axes(batch: Sentence) -> Sentence:
    """Returns the axes over which `jax.vmap` maps the sentences of a batch.

    Args:
        batch: Fields with a leading batch axis. `chars` may be `[B, U, C]`, or
            `[U, C]` where the sentences share their distinct words, so that each is
            read once for the whole batch.

    Example:
        >>> import numpy as np
        >>> tokens = np.zeros((2, 3), np.int32)
        >>> batch = Sentence(tokens, np.zeros((4, 5), np.int32), tokens, tokens == 0)
        >>> batch_axes(batch).chars is None, batch_axes(batch).words
        (True, 0)
    """
    fields: Any = (None if field is None else 0 for field in batch)
    axes = Sentence(*fields)
    return axes._replace(chars=0 if batch.chars.ndim == 3 else None)


class Caps(enum.IntEnum):
    """How a word is capitalised, in classes so fine that each paper's are unions."""

    NONE = 0  # no word: padding, or a separator
    ALL = 1  # every character is an upper-case letter: "EU"
    ALL_FIRST = 2  # upper-case but for signs and digits, the first a letter: "U.N."
    ALL_LATER = 3  # the same, the first a sign or digit: "3M"
    FIRST = 4  # lower case occurs, the first is upper-case: "Rome", "McDonald"
    LATER = 5  # both cases occur, the first is not upper-case: "eBay"
    LOWER = 6  # lower-case but for signs and digits: "rejects", "mid-1990s"
    UNCASED = 7  # no letter that has a case: "1996", ","


class WordVectors(NamedTuple):
    """The part of a vector file that a vocabulary uses, aligned with its word ids.

    `N` trained words with a vector, `V` words that are not trained, `D` dimensions.

    Attributes:
        rows: Ids of the trained words that have a vector, in ascending order.
        trained: Their vectors.
        frozen: The vectors of all words that are not trained.
        types_matched: Share of the distinct training words that have a vector.
        tokens_matched: Share of the training tokens that have one.
    """

    rows: Int[np.ndarray, " N"]
    trained: Float[np.ndarray, "N D"]
    frozen: Float[np.ndarray, "V D"]
    types_matched: float
    tokens_matched: float


class Potentials(NamedTuple):
    """Scores of the label sequences of one sentence, in nats.

    Attributes:
        emissions: Score of each label at each token.
        transitions: `transitions[i, j]` scores label `i` followed by label `j`. None
            where the labels are independent given the sentence; then `start` and
            `end` are None too.
        start: Score of each label at the first token.
        end: Score of each label at the last token.
    """

    emissions: Float[Array, " T L"]
    transitions: Float[Array, " L L"] | None = None
    start: Float[Array, " L"] | None = None
    end: Float[Array, " L"] | None = None


class Autoregressive(NamedTuple):
    """The probability of each label given the words and all labels before it.

    An LSTM reads the labels. At token t the arguments of its gates (in the order input,
    forget, output, candidate) are `word_gates[t] + previous[y_{t-1}]` and its last
    state times `recurrent`. With its new state s, the scores of the labels are

        z = words[t] + s · from_state
        z, or tanh(z) · output_kernel + output_bias where there is such a kernel,

    and a softmax of the scores gives the probabilities. `N` state size; `M` sums z,
    which are the labels if there is no kernel; `P` = L + 1 previous labels, the last of
    which stands before the first token; `K` hypotheses of the beam search.

    Attributes:
        words: What the words add to the sums, biases included.
        word_gates: What the words add to the gates; None: nothing.
        previous: What each previous label adds to the gates, biases included.
        recurrent: From state to gates.
        from_state: From state to sums.
        output_kernel: From tanh of the sums to scores; None: the sums are the scores.
        output_bias: Of those; None where there is no kernel.
        beam: The score that each hypothesis begins with: 0 the first, `FORBIDDEN` the
            others. The number of them is the width of the beam.
        allowed: Which label may follow which; None: each.
        allowed_last: Which label may be that of the last token; None: each.
    """

    words: Float[Array, " T M"]
    word_gates: Float[Array, " T 4 N"] | None
    previous: Float[Array, " P 4 N"]
    recurrent: Float[Array, " N 4 N"]
    from_state: Float[Array, " N M"]
    output_kernel: Float[Array, " M L"] | None
    output_bias: Float[Array, " L"] | None
    beam: Float[Array, " K"]
    allowed: Bool[Array, " P L"] | None = None
    allowed_last: Bool[Array, " L"] | None = None


AnyPotentials = Potentials | Autoregressive
"""What a head returns: all that inference over the labels of a sentence needs."""
