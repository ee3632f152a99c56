"""F1 by the length of sentences or mentions.

Sources: Gui et al., "Uncertainty-Aware Label Refinement for Sequence Labeling", EMNLP
2020, Figure 3, right; Li, Fu and Ma, "Why Attention? Analyze BiLSTM Deficiency and Its
Remedies in the Case of NER", AAAI 2020, the table of entity lengths.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

from jaxner.data import schemes
from jaxner.evaluation import coded, reading, rules
from jaxner.evaluation.scoring import Counts

Labels = Sequence[Sequence[str]]

SENTENCES = (7, 15, 22, 30)
"""Longest sentence of each part but the last, in tokens.

Gui et al. have five parts; their text gives only the bounds 15 and 30.
"""

MENTIONS = (1, 2, 3, 4)
"""Longest mention of each part but the last, in tokens."""

MENTION_RULES = rules.WITH_LENGTHS
"""Rules by which every span has a length."""


class Part(NamedTuple):
    """The scores for one range of lengths.

    Attributes:
        first: Smallest length, in tokens.
        last: Largest length, in tokens; None for no bound.
        items: Number of sentences, or of gold mentions, in the range.
        counts: Correct, predicted and gold spans; for tags, tokens as
            `rules.tokens_per_sentence` counts them, whose F1 is the accuracy.
    """

    first: int
    last: int | None
    items: int
    counts: Counts

    @property
    def name(self) -> str:
        """The range as text.

        Example:
            >>> Part(8, 15, 0, Counts()).name, Part(31, None, 0, Counts()).name
            ('8–15', '31+')
        """
        if self.last is None:
            return f"{self.first}+"
        return str(self.first) + (f"–{self.last}" if self.last > self.first else "")

    @property
    def percent(self) -> float:
        """F1 or accuracy in percent; nan if there are no spans."""
        f1 = self.counts.f1
        return float("nan") if f1 is None else 100 * f1


def by_sentence(
    gold: Labels,
    predicted: Labels,
    bounds: Sequence[int] = SENTENCES,
    *,
    rule: str = "conlleval",
    scheme: str = "BIOES",
) -> list[Part]:
    """Returns the scores of the sentences in each range of lengths.

    Args:
        gold: The right labels of each sentence.
        predicted: The predicted labels.
        bounds: Longest sentence of each part but the last, in tokens, ascending.
        rule: How to read spans, one of `rules.RULES`; unused for tags.
        scheme: Scheme of the labels, or `schemes.TAGS`.

    Raises:
        ValueError: The bounds do not ascend from 1; or as `rules.per_sentence`.

    Example:
        >>> gold, predicted = [["S-LOC"], ["O", "S-PER"]], [["O"], ["O", "S-PER"]]
        >>> [(x.name, x.percent) for x in by_sentence(gold, predicted, [1])]
        [('1', 0.0), ('2+', 100.0)]
    """
    if scheme == schemes.TAGS:
        counts = rules.tokens_per_sentence(gold, predicted)
    else:
        counts = rules.per_sentence(gold, predicted, rule, scheme)
    lengths = np.array([len(labels) for labels in gold], int)
    parts = []
    for first, last in _ranges(bounds):
        chosen = (lengths >= first) & (lengths <= (last or np.inf))
        found = rules.total(counts[chosen])
        parts.append(Part(first, last, int(chosen.sum()), found))
    return parts


def by_mention(
    gold: Labels,
    predicted: Labels,
    bounds: Sequence[int] = MENTIONS,
    *,
    rule: str = "conlleval",
    scheme: str = "BIOES",
) -> list[Part]:
    """Returns the scores of the mentions in each range of lengths.

    Precision counts predicted mentions of such a length, recall gold mentions. A
    correct mention counts for both, since its boundaries are right.

    Args:
        gold: As in `by_sentence`.
        predicted: As in `by_sentence`.
        bounds: Longest mention of each part but the last, in tokens, ascending.
        rule: One of `MENTION_RULES`.
        scheme: The labels' scheme.

    Raises:
        ValueError: As in `by_sentence`; or the labels are tags, or some spans have no
            length by this rule.

    Example:
        >>> gold = [["B-LOC", "E-LOC", "S-PER"]]
        >>> found = by_mention(gold, [["S-LOC", "O", "S-PER"]], [1])
        >>> [tuple(part.counts) for part in found]
        [(1, 2, 1), (0, 0, 1)]
    """
    if scheme == schemes.TAGS:
        raise ValueError(
            "F1 by mention length needs spans; the labels of this run are tags"
        )
    if rule not in MENTION_RULES:
        raise ValueError(
            f"By rule {rule!r} some spans have no length; choose one of "
            f"{', '.join(MENTION_RULES)}"
        )
    labels = coded.code(gold, predicted)
    expected, found, correct = reading.in_both(labels, rule, scheme)
    sizes = [side.last - side.start + 1 for side in (found, expected)]
    tallies = [np.bincount(x) for x in (sizes[0][correct], *sizes)]
    parts = []
    for first, last in _ranges(bounds):
        numbers = [_between(tally, first, last) for tally in tallies]
        parts.append(Part(first, last, numbers[2], Counts(*numbers)))
    return parts


def multi_token(parts: Iterable[Part]) -> Part:
    """Returns the sum of the parts with mentions of several tokens (Li et al.).

    Raises:
        ValueError: A part mixes mentions of one and of several tokens.

    Example:
        >>> one, more = Part(1, 1, 5, Counts(5)), Part(2, None, 3, Counts(1, 2, 3))
        >>> multi_token([one, more]) == more
        True
    """
    longer = [part for part in parts if part.last is None or part.last > 1]
    if any(part.first == 1 for part in longer):
        raise ValueError(
            "Add 1 to the bounds: a part mixes mentions of one and of several tokens"
        )
    counts = sum((part.counts for part in longer), Counts())
    return Part(2, None, sum(part.items for part in longer), counts)


def _between(tally: np.ndarray, first: int, last: int | None) -> int:
    """Returns the number of spans from `first` to `last` tokens long."""
    return int(tally[first : None if last is None else last + 1].sum())


def _ranges(bounds: Sequence[int]) -> list[tuple[int, int | None]]:
    """Returns the smallest and largest length of each part."""
    if list(bounds) != sorted(set(bounds)) or min(bounds, default=1) < 1:
        raise ValueError(f"Expected ascending bounds from 1, got {list(bounds)}")
    return list(zip([1, *(b + 1 for b in bounds)], [*bounds, None], strict=True))
