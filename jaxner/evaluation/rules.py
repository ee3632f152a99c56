"""The rules by which the papers' own scorers read spans.

The rules agree on well-formed labels. On ill-formed ones they differ, so a published
figure should be compared with one of the same rule.

conlleval   the shared task's scorer, and seqeval's default mode (`schemes.to_spans`)
strict      only well-formed spans count (Li et al., 2020; seqeval's strict mode)
idcnn       Strubell et al. (2017): conlleval's, but a predicted span is lost if an I or
            L of another type follows it at once
ncrfpp      NCRF++, and with it UANet (Gui et al., 2020): a span goes from a B to the
            next E, whatever stands between; of I and E the type is ignored

Source: `src/eval_f1.py` of iesl/dilated-cnn-ner, `utils/metric.py` of jiesutd/NCRFpp.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from jaxner.data import schemes
from jaxner.evaluation import scoring
from jaxner.evaluation.scoring import Counts

Labels = Sequence[Sequence[str]]


class Found(NamedTuple):
    """A span as a rule reads it; two sides agree where all three fields are equal.

    Attributes:
        type: Its type.
        start: Its first token.
        last: Its last token, or `ALONE`, or `LOST`.
    """

    type: str
    start: int
    last: int


ALONE = -1
"""`last` of a span that is known by its start alone (ncrfpp)."""
LOST = -2
"""`last` of a span that agrees with none, but counts as predicted (idcnn)."""


def spans(labels: Sequence[str], rule: str, scheme: str = "BIOES") -> list[Found]:
    """Reads the spans of one sentence as a rule does.

    Args:
        labels: The labels of the sentence.
        rule: One of `RULES`.
        scheme: The scheme that they are meant to be in: BIO, BIOES or BILOU.

    Returns:
        The spans from left to right.

    Raises:
        ValueError: A label is malformed, or the rule is unknown or has no meaning in
            the scheme.

    Example:
        >>> labels = ["B-PER", "O", "E-LOC"]
        >>> [tuple(x) for x in spans(labels, "conlleval")]
        [('PER', 0, 0), ('LOC', 2, 2)]
        >>> [tuple(x) for x in spans(labels, "ncrfpp")]
        [('PER', 0, 2)]
    """
    return _reader(rule)(labels, scheme)


def per_sentence(
    gold: Labels, predicted: Labels, rule: str, scheme: str = "BIOES"
) -> np.ndarray:
    """Counts the spans of each sentence under a rule.

    Args:
        gold: The right labels of each sentence.
        predicted: The predicted ones.
        rule: One of `RULES`.
        scheme: As in `spans`.

    Returns:
        Correct, predicted and gold spans of each sentence, `[sentences, 3]`.

    Raises:
        ValueError: As in `spans`; or the two sides differ in their numbers of sentences
            or tokens.
    """
    read = _reader(rule)
    counts = np.zeros((len(gold), 3), np.int64)
    for index, (right, labels) in enumerate(zip(gold, predicted, strict=True)):
        if len(right) != len(labels):
            raise ValueError(
                f"Sentence {index} (counted from 0): gold has {len(right)} labels, "
                f"predicted {len(labels)}; expected one per token on both sides"
            )
        expected, found = read(right, scheme), read(labels, scheme)
        correct = {span for span in expected if span.last != LOST} & set(found)
        counts[index] = len(correct), len(found), len(expected)
    return counts


def tokens_per_sentence(gold: Labels, predicted: Labels) -> np.ndarray:
    """Counts the tokens of each sentence in the way of `per_sentence`.

    Returns:
        Tokens with the right label, and twice all tokens, `[sentences, 3]`: the F1 of
        these counts is the accuracy.
    """
    rows = [
        (sum(a == b for a, b in zip(x, y, strict=True)), len(x), len(x))
        for x, y in zip(gold, predicted, strict=True)
    ]
    return np.array(rows, np.int64).reshape(-1, 3)


def total(counts: np.ndarray) -> Counts:
    """Adds the counts of sentences up."""
    return Counts(*counts.sum(0).tolist())


def count(gold: Labels, predicted: Labels, rule: str, scheme: str = "BIOES") -> Counts:
    """Counts spans under a rule.

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


def _conlleval(labels: Sequence[str], scheme: str) -> list[Found]:
    del scheme
    return [Found(x.type, x.start, x.end - 1) for x in schemes.to_spans(labels)]


def _strict(labels: Sequence[str], scheme: str) -> list[Found]:
    found = scoring.well_formed([labels], [schemes.to_spans(labels)], scheme)[0]
    return [Found(x.type, x.start, x.end - 1) for x in found]


def _idcnn(labels: Sequence[str], scheme: str) -> list[Found]:
    del scheme
    # Strubell et al.'s program turns L into I and U into B, so that nothing ends a span
    # but an O, a start or another type.
    merged = [_MERGED[p] + x[1:] for x in labels for p in [schemes.parse(x)[0]]]
    read = []
    for span in schemes.to_spans(merged):
        is_lost = span.end < len(merged) and merged[span.end][0] == "I"
        last = LOST if is_lost else span.end - 1
        read.append(Found(span.type, span.start, last))
    return read


_MERGED = {"O": "O", "B": "B", "U": "B", "S": "B", "I": "I", "L": "I", "E": "I"}


def _ncrfpp(labels: Sequence[str], scheme: str) -> list[Found]:
    if scheme not in ("BIOES", "BILOU"):
        raise ValueError(
            f"Rule 'ncrfpp' reads BIOES or BILOU, not {scheme!r}: in others no label "
            "ends a span; convert the labels, or take rule 'conlleval'"
        )
    read: list[Found] = []
    is_open: tuple[str, int] | None = None
    for position, label in enumerate(labels):
        prefix, kind = schemes.parse(label)
        if prefix in "BSU" and is_open:
            read.append(Found(*is_open, position - 1))
            is_open = None
        if prefix == "B":
            is_open = kind, position
        elif prefix in "SU":
            read.append(Found(kind, position, ALONE))
        elif prefix in "EL" and is_open:
            read.append(Found(*is_open, position))
            is_open = None
    if is_open:
        read.append(Found(*is_open, ALONE))
    return read


_READERS: dict[str, Callable[[Sequence[str], str], list[Found]]] = {
    "conlleval": _conlleval,
    "strict": _strict,
    "idcnn": _idcnn,
    "ncrfpp": _ncrfpp,
}
RULES: tuple[str, ...] = tuple(_READERS)


def _reader(rule: str) -> Callable[[Sequence[str], str], list[Found]]:
    if rule not in _READERS:
        raise ValueError(f"Unknown rule {rule!r}; known: {', '.join(RULES)}")
    return _READERS[rule]
