"""The rules by which the papers' own scorers read spans.

The rules agree on well-formed labels but differ on ill-formed ones, so compare a
published figure only with one by the same rule.

conlleval   the scorer of the CoNLL shared tasks, and seqeval's default mode
            (`schemes.to_spans`)
strict      only well-formed spans count (Li et al., 2020; seqeval's strict mode)
idcnn       as conlleval, but a predicted span never counts as correct if an I or L of
            another type follows directly (Strubell et al., 2017)
ncrfpp      a span extends from a B to the next E, whatever is between; the types of I
            and E are ignored (NCRF++, and UANet of Gui et al., 2020)

`reading` implements the rules.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from jaxner.evaluation import coded, reading
from jaxner.evaluation.coded import Coded, Labels
from jaxner.evaluation.counts import Counts
from jaxner.evaluation.reading import ALONE as ALONE
from jaxner.evaluation.reading import LOST as LOST
from jaxner.evaluation.reading import RULES as RULES
from jaxner.evaluation.reading import WITH_LENGTHS as WITH_LENGTHS
from jaxner.evaluation.reading import check as check
from jaxner.evaluation.reading import known as known
from jaxner.evaluation.reading import reads as reads


class Found(NamedTuple):
    """A span as a rule reads it; two spans match if all three fields are equal.

    Attributes:
        type: Type of the span.
        start: Index of its first token.
        last: Index of its last token, or `ALONE`, or `LOST`.
    """

    type: str
    start: int
    last: int


def spans(labels: Sequence[str], rule: str, scheme: str = "BIOES") -> list[Found]:
    """Returns the spans of one sentence, by a rule.

    Args:
        labels: The labels of the sentence.
        rule: One of `RULES`.
        scheme: Intended scheme of the labels.

    Returns:
        The spans from left to right.

    Raises:
        ValueError: A label is malformed; or the rule is unknown, or undefined for the
            scheme.

    Example:
        >>> labels = ["B-PER", "O", "E-LOC"]
        >>> [tuple(x) for x in spans(labels, "conlleval")]
        [('PER', 0, 0), ('LOC', 2, 2)]
        >>> [tuple(x) for x in spans(labels, "ncrfpp")]
        [('PER', 0, 2)]
    """
    one = coded.code([labels], [labels])
    its = reading.read(one.gold, one.layout, rule, scheme)
    rows = zip(its.type.tolist(), its.start.tolist(), its.last.tolist(), strict=True)
    return [Found(one.types[kind], start, last) for kind, start, last in rows]


def per_sentence(
    gold: Labels, predicted: Labels, rule: str, scheme: str = "BIOES"
) -> np.ndarray:
    """Returns the span counts of each sentence, by a rule.

    Args:
        gold: The gold labels of each sentence.
        predicted: The predicted labels of each sentence.
        rule: One of `RULES`.
        scheme: As in `spans`.

    Returns:
        Correct, predicted and gold spans of each sentence, `[sentences, 3]`.

    Raises:
        ValueError: As in `spans`; or the two sides differ in their numbers of sentences
            or tokens.
    """
    return by_type(coded.code(gold, predicted), rule, scheme).sum(1)


def by_type(labels: Coded, rule: str, scheme: str) -> np.ndarray:
    """Returns the span counts of each sentence and type, by a rule.

    Args:
        labels: Gold and predicted labels.
        rule: One of `RULES`.
        scheme: As in `spans`.

    Returns:
        Correct, predicted and gold spans, `[sentences, types, 3]`.
    """
    gold, predicted, correct = reading.in_both(labels, rule, scheme)
    shape = len(labels.layout.lengths), max(len(labels.types), 1)
    right = reading.chosen(predicted, correct)
    counts = [
        np.bincount(
            labels.layout.sentence[side.start] * shape[1] + side.type,
            minlength=shape[0] * shape[1],
        ).reshape(shape)
        for side in (right, predicted, gold)
    ]
    return np.stack(counts, axis=-1)


def tokens_per_sentence(gold: Labels, predicted: Labels) -> np.ndarray:
    """Returns the token counts of each sentence, in the form of `per_sentence`.

    Returns:
        Tokens with the gold label, all tokens, and all tokens again, `[sentences, 3]`:
        the F1 of these counts is the accuracy.
    """
    rows = [
        (sum(a == b for a, b in zip(x, y, strict=True)), len(x), len(x))
        for x, y in zip(gold, predicted, strict=True)
    ]
    return np.array(rows, np.int64).reshape(-1, 3)


def total(counts: np.ndarray) -> Counts:
    """Returns the total of the sentences' counts."""
    return Counts(*counts.sum(0).tolist())


def count(gold: Labels, predicted: Labels, rule: str, scheme: str = "BIOES") -> Counts:
    """Returns the total span counts, by a rule.

    Args:
        gold: As in `per_sentence`.
        predicted: As in `per_sentence`.
        rule: As in `per_sentence`.
        scheme: As in `per_sentence`.

    Example:
        >>> gold, predicted = [["B-PER", "E-PER"]], [["B-PER", "E-LOC"]]
        >>> [count(gold, predicted, rule).correct for rule in RULES]
        [0, 0, 0, 1]
    """
    return total(per_sentence(gold, predicted, rule, scheme))
