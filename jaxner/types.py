"""The values that the rooms of the library exchange.

Shape letters: `T` tokens, `C` characters, `L` labels. Every field is written for one
sentence; a batch is the same tuple with one more axis in front of every field.
This module imports no JAX, so that host code can use it.
"""

from __future__ import annotations

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


class Sentence(NamedTuple):
    """One encoded sentence.

    Attributes:
        words: Word ids; 0 under padding.
        chars: Character ids of each word; 0 under padding, on the right.
        mask: True at a token; the tokens come first.
    """

    words: Int[AnyArray, " T"]
    chars: Int[AnyArray, " T C"]
    mask: Bool[AnyArray, " T"]


class WordVectors(NamedTuple):
    """The part of a vector file that a lexicon uses, aligned with its word ids.

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
