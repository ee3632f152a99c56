"""Labels of a whole corpus as flat arrays, which scorers read without loops.

Shape letters: `S` sentences, `N` tokens of all sentences.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import Any, NamedTuple

import numpy as np

from jaxner.data import schemes
from jaxner.wording import counted, shown

Labels = Sequence[Sequence[str]]

LETTERS = "OBIESLU"
"""The prefixes of labels; a prefix's code is its index."""
O, B, I, E, S, L, U = range(len(LETTERS))  # noqa: E741 - the prefixes' own names
READ_AS = np.array([O, B, I, E, S, E, S], np.int8)
"""The prefix that conlleval's rule reads: E for L, S for U."""


class Layout(NamedTuple):
    """The positions of sentences in the flat arrays.

    Attributes:
        lengths: Tokens of each sentence, `[S]`.
        sentence: The sentence of each token, `[N]`.
        first: Whether a token is the first of its sentence, `[N]`.
        last: Whether it is the last, `[N]`.
    """

    lengths: np.ndarray
    sentence: np.ndarray
    first: np.ndarray
    last: np.ndarray

    @property
    def offsets(self) -> np.ndarray:
        """The index of each sentence's first token, `[S]`."""
        return np.cumsum(self.lengths) - self.lengths


class Side(NamedTuple):
    """The labels of one side: gold or predicted.

    Attributes:
        ids: Index of each label in `Coded.names`, `[N]`.
        prefix: Index of each label's prefix in `LETTERS`, `[N]`.
        type: Index of each label's type in `Coded.types`; -1 for O, `[N]`.
    """

    ids: np.ndarray
    prefix: np.ndarray
    type: np.ndarray


class Coded(NamedTuple):
    """Gold and predicted labels.

    Attributes:
        layout: The positions of the sentences.
        gold: The gold labels.
        predicted: The predicted labels.
        names: Distinct labels of both sides.
        types: Entity types of both sides, sorted.
    """

    layout: Layout
    gold: Side
    predicted: Side
    names: tuple[str, ...]
    types: tuple[str, ...]


def code(gold: Labels, predicted: Labels) -> Coded:
    """Codes the labels of all sentences.

    Args:
        gold: The gold labels of each sentence.
        predicted: The predicted labels of each sentence.

    Raises:
        ValueError: The sides differ in their numbers of sentences or tokens, or a label
            is malformed; the message names the sentence, counted from 0.

    Example:
        >>> coded = code([["B-PER", "O"]], [["B-LOC", "O"]])
        >>> coded.types, coded.gold.type.tolist(), coded.predicted.type.tolist()
        (('LOC', 'PER'), [1, -1], [0, -1])
    """
    lengths = _lengths(gold, predicted)
    flat = [list(chain.from_iterable(side)) for side in (gold, predicted)]
    names = tuple(sorted(set(flat[0]).union(flat[1]), key=str))
    try:
        parsed = [schemes.parse(name) for name in names]
    except ValueError:
        raise _malformed(gold, predicted) from None
    types = tuple(sorted({kind for _, kind in parsed if kind}))
    places = {kind: i for i, kind in enumerate(types)} | {"": -1}
    prefix = np.array([LETTERS.index(p) for p, _ in parsed], np.int8)
    type_ = np.array([places[kind] for _, kind in parsed], np.int32)
    table = {name: i for i, name in enumerate(names)}

    def side(labels: list[str]) -> Side:
        ids = np.fromiter(map(table.__getitem__, labels), np.int32, len(labels))
        return Side(ids, prefix[ids], type_[ids])

    return Coded(layout(lengths), side(flat[0]), side(flat[1]), names, types)


def layout(lengths: Any) -> Layout:
    """Returns the positions of sentences with these lengths.

    Example:
        >>> layout([2, 0, 1]).sentence.tolist()
        [0, 0, 2]
    """
    lengths = np.asarray(lengths, np.int64)
    sentence = np.repeat(np.arange(len(lengths)), lengths)
    step = np.ones(len(sentence) + 1, bool)
    step[1:-1] = sentence[1:] != sentence[:-1]
    return Layout(lengths, sentence, step[:-1], step[1:])


def _lengths(gold: Labels, predicted: Labels) -> np.ndarray:
    for name, side in (("gold", gold), ("predicted", predicted)):
        if not hasattr(side, "__len__"):
            raise TypeError(
                f"Expected {name} as a list of sentences, got {shown(side)}"
            )
    if len(gold) != len(predicted):
        raise ValueError(
            f"Expected as many predicted as gold sentences, got {len(gold)} gold and "
            f"{len(predicted)} predicted; score the same split, in the same order"
        )
    right, found = (
        np.fromiter(map(len, side), np.int64, len(side)) for side in (gold, predicted)
    )
    unlike = np.flatnonzero(right != found)
    if len(unlike):
        index = int(unlike[0])
        raise ValueError(
            f"Sentence {index} (counted from 0): gold has "
            f"{counted(int(right[index]), 'label')}, predicted {found[index]}; "
            "expected one label per token on both sides"
        )
    return right


def _malformed(gold: Labels, predicted: Labels) -> ValueError:
    """Returns the error of the first malformed label, with its position."""
    for index, sides in enumerate(zip(gold, predicted, strict=True)):
        for name, labels in zip(("gold", "predicted"), sides, strict=True):
            for position, label in enumerate(labels):
                try:
                    schemes.parse(label)
                except ValueError as error:
                    where = f"Sentence {index} (counted from 0), {name}"
                    return ValueError(f"{where}: Position {position}: {error}")
    raise AssertionError("Expected a malformed label")
