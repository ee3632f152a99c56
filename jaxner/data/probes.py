"""Probes: tiny corpora that show what an encoder can distinguish.

A probe turns a proven claim about a model into a test that runs in seconds.
`jaxner.training.probing` trains a model on a probe.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from jaxner.data import schemes

SCHEME = "BIOES"


class Case(NamedTuple):
    """One sentence of a probe; labels are BIOES, `scored` positions of tokens."""

    tokens: tuple[str, ...]
    labels: tuple[str, ...]
    scored: tuple[int, ...]


@dataclasses.dataclass(frozen=True)
class Probe:
    """A diagnostic corpus: training and test sentences."""

    train: tuple[Case, ...]
    test: tuple[Case, ...]

    @property
    def types(self) -> tuple[str, ...]:
        """The entity types, sorted."""
        return schemes.types_of(label for case in self.train for label in case.labels)

    def accuracy(self, predicted: Iterable[Sequence[str]]) -> float:
        """Returns the share of scored test tokens with the right label.

        Example:
            >>> xor().accuracy([["O", "O", "O"]] * 4)
            0.5
        """
        hits = [
            labels[position] == case.labels[position]
            for labels, case in zip(predicted, self.test, strict=True)
            for position in case.scored
        ]
        return sum(hits) / len(hits)


def xor() -> Probe:
    """Returns four phrases whose middle label depends on both neighbours together.

    An encoder that only adds the scores of its two directions gets at most three of the
    four right, at any depth: the scores of the two works of art and of the two other
    phrases have the same sum. Since this tests capacity, the phrases are both train and
    test. Li, Fu and Ma, "Remedying BiLSTM-CNN Deficiency in Modeling Cross-Context for
    NER", 2019 (arXiv 1908.11046), "XOR Limitation".

    Example:
        >>> for case in xor().test:
        ...     print(*case.tokens, "->", case.labels[case.scored[0]])
        Key and Peele -> I-WORK_OF_ART
        You and I -> I-WORK_OF_ART
        Key and I -> O
        You and Peele -> O
    """
    work = tuple(schemes.to_labels([(0, 3, "WORK_OF_ART")], 3, SCHEME))
    phrases = (
        ("Key and Peele", work),
        ("You and I", work),
        ("Key and I", ("O",) * 3),
        ("You and Peele", ("O",) * 3),
    )
    cases = tuple(Case(tuple(text.split()), labels, (1,)) for text, labels in phrases)
    return Probe(cases, cases)
