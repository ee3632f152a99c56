"""The values that the packages of the library exchange.

Shape letters: `T` tokens, `U` distinct words, `C` characters, `L` labels. Fields are
declared for one sentence. A batch is the same tuple with a leading axis on every field;
only `chars` may be shared by its sentences (see `batch_axes`). This module imports no
JAX, so that host code can use it.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TypedDict

if TYPE_CHECKING:
    import numpy as np
    from jax import Array
    from jaxtyping import Bool, Float, Int

    AnyArray = Any  # a NumPy array on the host, a JAX array on the device
    Vectors = AnyArray | Sequence[AnyArray] | None
else:  # what callers give is checked by `driver`
    Vectors = Any
"""The precomputed vectors of a sentence or of several."""

Options = Mapping[str, Any]
"""A section of a config: its options, and the sections within it, by name."""

Minima = float | Mapping[str, float]
"""The least probability of entities: of all, or by type."""

Weights = dict[str, Any]
"""`{"params": …, "frozen": …}`: the trained and the frozen arrays."""


FORBIDDEN = -1e30
"""Score of a forbidden label or pair; finite, since -inf would give NaN gradients."""


class Pieces(NamedTuple):
    """The word pieces of a sentence, in windows that fit a pretrained encoder.

    `W` overlapping windows of `S` piece ids, with special pieces; `Q` pieces of the
    longest token. `positions` holds window · S + position in the window of each token's
    pieces; -1 past the last.
    """

    windows: Int[AnyArray, " W S"]
    mask: Bool[AnyArray, " W S"]
    positions: Int[AnyArray, " T Q"]


class LongWords(NamedTuple):
    """The words of a batch that have more characters than its `chars` are wide.

    Most words are short, so that a width for all would mostly hold padding. `rows` are
    the words' rows of `chars`, or past its end for padding.
    """

    rows: Int[AnyArray, " N"]
    chars: Int[AnyArray, "N C"]


class Sentence(NamedTuple):
    """One encoded sentence or document.

    A document has separators before, between and after its sentences: tokens (the mask
    is True) whose ids are all 0, so that they have no features.

    Attributes:
        words: Word ids; 0 under padding and at separators.
        chars: Character ids of the distinct words; 0 under padding, on the right. Row 0
            has no characters and serves padding and separators.
        char_index: Row of `chars` with the characters of each token.
        mask: True at a token; padding is on the right.
        caps: Class of each word, one of `Caps`; None if the model does not use it, as
            for all that follows.
        vectors: Precomputed vectors of `S` layers; 0 under padding.
        pieces: Word pieces.
        long: The long words of a batch that shares its `chars`; None if all fit.
    """

    words: Int[AnyArray, " T"]
    chars: Int[AnyArray, " U C"]
    char_index: Int[AnyArray, " T"]
    mask: Bool[AnyArray, " T"]
    caps: Int[AnyArray, " T"] | None = None
    vectors: Float[AnyArray, " T S D"] | None = None
    pieces: Pieces | None = None
    long: LongWords | None = None


def batch_axes(batch: Sentence) -> Sentence:
    """Returns the axes over which `jax.vmap` maps the sentences of a batch.

    `chars` is `[B, U, C]`, or `[U, C]` for shared words, which are then read only once.
    """
    axes = Sentence._make(None if field is None else 0 for field in batch)
    return axes._replace(chars=0 if batch.chars.ndim == 3 else None, long=None)


class Caps(enum.IntEnum):
    """Capitalisation classes, fine enough that each paper's classes are unions."""

    NONE = 0  # no word: padding, or a separator
    ALL = 1  # every character is an upper-case letter: "EU"
    ALL_FIRST = 2  # upper-case except signs and digits, letter first: "U.N."
    ALL_LATER = 3  # the same, sign or digit first: "3M"
    FIRST = 4  # some lower case, upper case first: "Rome", "McDonald"
    LATER = 5  # both cases, upper case not first: "eBay"
    LOWER = 6  # lower-case except signs and digits: "rejects", "mid-1990s"
    UNCASED = 7  # no cased letter: "1996", ","


class WordVectors(NamedTuple):
    """The vectors of a file that a vocabulary uses, aligned with its word ids.

    `N` trained words with a vector, at ascending `rows`; `V` frozen words; `D`
    dimensions; the shares of distinct training words, and of tokens, with a vector.
    """

    rows: Int[np.ndarray, " N"]
    trained: Float[np.ndarray, "N D"]
    frozen: Float[np.ndarray, "V D"]
    types_matched: float
    tokens_matched: float


class Potentials(NamedTuple):
    """Scores of label sequences of one sentence, in nats.

    `transitions[i, j]` scores label i followed by label j; `start` and `end` score the
    labels of the first and last token. All three are None for independent labels; one
    that is None beside another is zero.
    """

    emissions: Float[Array, " T L"]
    transitions: Float[Array, " L L"] | None = None
    start: Float[Array, " L"] | None = None
    end: Float[Array, " L"] | None = None


class Owner(TypedDict):
    """What weights belong to: a vocabulary's fingerprint, and a model's description."""

    vocabulary: str
    model: dict[str, Any] | None


class Uncertainty(NamedTuple):
    """A summary of several passes for each token; zero under padding.

    Attributes:
        labels: The label with the highest mean probability.
        probabilities: Mean label probabilities over the passes.
        entropy: Entropy of these means: total uncertainty, in nats, 0 to log L.
        expected_entropy: Mean entropy of a pass: the data's uncertainty (aleatoric).
        mutual_information: Difference of the two: uncertainty in the weights
            (epistemic), in nats; 0 if all passes agree.
        vote_share: Share of the passes whose best label is that of `labels`, 0 to 1.
    """

    labels: Int[AnyArray, " T"]
    probabilities: Float[AnyArray, "T L"]
    entropy: Float[AnyArray, " T"]
    expected_entropy: Float[AnyArray, " T"]
    mutual_information: Float[AnyArray, " T"]
    vote_share: Float[AnyArray, " T"]


class Autoregressive(NamedTuple):
    """The probability of each label given the words and all labels before it.

    An LSTM reads the labels. At token t, its gates before activation (input, forget,
    output, candidate) are `word_gates[t] + previous[y_{t-1}]` plus its last state times
    `recurrent`. With the new state s, a softmax gives the probabilities of the scores

        z = words[t] + s · from_state
        z, or tanh(z) · output_kernel + output_bias if there is such a kernel.

    `N` state size; `M` elements of z, equal to L without an output kernel; `P` = L + 1
    previous labels, the last for the position before the first token. The beam has `K`
    hypotheses, with 0 for the first and `FORBIDDEN` for the others. `allowed` says
    which label may follow which, `allowed_last` which ones the last token may have;
    None for no constraint.
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
"""What a head returns: everything that inference over labels needs."""
