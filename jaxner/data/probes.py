"""Probes: tiny corpora that show what an encoder can distinguish.

A probe turns a proven claim about a model into a test that runs in seconds.
`jaxner.training.probing` trains a model on a probe.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterable, Iterator, Sequence
from typing import Annotated, NamedTuple

import numpy as np

from jaxner import fields
from jaxner.data import schemes
from jaxner.data.schemes import Span
from jaxner.errors import InputError

SCHEME = "BIOES"
SIDES = ("before", "after")
"""Side of the cue, seen from the entity whose type it decides."""

_WORK = "WORK_OF_ART"
_ENTITY = "Walla"  # a city and a team: the word alone is ambiguous
_CUES = {"LOC": "city", "ORG": "team"}
_FILLERS = ("near", "again")  # two fillers, so that few sentences show all contexts


class Case(NamedTuple):
    """One sentence of a probe, or one document of several sentences; labels are BIOES.

    Attributes:
        scored: Positions of the tokens to score.
        breaks: Positions where further sentences begin.
    """

    tokens: tuple[str, ...]
    labels: tuple[str, ...]
    scored: tuple[int, ...]
    breaks: tuple[int, ...] = ()

    @property
    def sentences(self) -> tuple[slice, ...]:
        """The slice of each sentence."""
        bounds = (0, *self.breaks, len(self.tokens))
        return tuple(slice(*pair) for pair in itertools.pairwise(bounds))


@dataclasses.dataclass(frozen=True)
class Probe:
    """A diagnostic corpus: training and test sentences."""

    train: tuple[Case, ...]
    test: tuple[Case, ...]

    @property
    def types(self) -> tuple[str, ...]:
        """The entity types, sorted."""
        labels = {label for case in self.train for label in case.labels}
        return tuple(sorted({schemes.parse(label)[1] for label in labels - {"O"}}))

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
    work = tuple(schemes.to_labels([Span(0, 3, _WORK)], 3, SCHEME))
    cases = tuple(
        Case(tuple(text.split()), labels, (1,))
        for labels, texts in (
            (work, ("Key and Peele", "You and I")),
            (("O", "O", "O"), ("Key and I", "You and Peele")),
        )
        for text in texts
    )
    return Probe(cases, cases)


def cue(
    distance: int,
    *,
    side: str = "before",
    entity_length: int = 1,
    length: int = 16,
    count: int = 32,
    seed: int = 0,
    apart: bool = False,
) -> Probe:
    """Returns sentences with an entity whose type depends on a distant word, the cue.

    All other words are fillers. Sentences come in pairs that differ only in the cue, so
    an encoder whose receptive field does not reach the cue gets at most one of each
    pair right. This measures the receptive fields that Strubell, Verga, Belanger and
    McCallum (2017) count. The words of the entity are all the same: the label of one
    far from the cue depends on the cue (through iterated blocks) or on the previous
    label (through the transitions of a CRF); with neither, one entity gets two types.

    Args:
        distance: Tokens from the cue to the entity; 1 for neighbours.
        side: Side of the cue, one of `SIDES`.
        entity_length: Tokens of the entity, all of them scored.
        length: Tokens in each sentence; an InputError without room for both.
        count: Sentences in train, and in test; even, else an InputError.
        apart: Whether cue and entity are in two sentences of one document, out of reach
            for an encoder of single sentences.

    Example:
        >>> for case in cue(1, entity_length=3, length=5).test[:2]:
        ...     print(*case.tokens, "->", *case.labels)
        near city Walla Walla Walla -> O O B-LOC I-LOC E-LOC
        near team Walla Walla Walla -> O O B-ORG I-ORG E-ORG
    """
    fields.check("side", side, Annotated[str, fields.OneOf(SIDES)])
    size, is_even = entity_length, count >= 2 and count % 2 == 0
    if min(distance, size) < 1 or length < distance + size or not is_even:
        raise InputError(
            "Expected an even number of sentences, each with room for a cue and an "
            f"entity of {size} tokens at distance {distance}; got {count} of {length} "
            "tokens"
        )
    rng = np.random.default_rng(seed)

    def draw_pair() -> Iterator[Case]:
        """Yields one random sentence for each type."""
        fillers = rng.choice(_FILLERS, length).tolist()
        at = int(rng.integers(length - distance - size + 1))
        start = at + distance
        if side == "after":
            at, start = length - 1 - at, length - start - size
        breaks = (max(at, start),) if apart else ()
        scored = tuple(range(start, start + size))
        for kind, word in _CUES.items():
            tokens = list(fillers)
            tokens[at] = word
            tokens[start : start + size] = [_ENTITY] * size
            spans = [Span(start, start + size, kind)]
            labels = tuple(schemes.to_labels(spans, length, SCHEME))
            yield Case(tuple(tokens), labels, scored, breaks)

    train, test = (
        tuple(case for _ in range(count // 2) for case in draw_pair())
        for _ in ("train", "test")
    )
    return Probe(train, test)
