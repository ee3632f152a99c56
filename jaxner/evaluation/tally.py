"""Headline figures of a prediction as functions of counts per sentence.

Every figure except the means over types is a ratio of sums over sentences. So one
matrix product resamples sentences (`intervals`) or swaps them between two systems
(`comparing`). Shape letters: `S` sentences, `C` counts, `F` figures.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from itertools import chain
from typing import Any

import numpy as np

from jaxner.data import schemes
from jaxner.evaluation import alignment, coded, rules
from jaxner.evaluation.coded import LETTERS, Coded, Labels


@dataclasses.dataclass(frozen=True)
class Tally:
    """Counts of each sentence, and the figures that follow from their sums.

    Attributes:
        counts: Counts of each sentence, `[S, C]`.
        columns: Names of the counts, `C`.
        names: Names of the figures, `F`.
        over: Weights of the counts in each figure's numerator, `[C, F]`.
        under: Weights of the counts in each figure's denominator, `[C, F]`.
        types: Entity types with figures of their own, such as "f1 PER".
    """

    counts: np.ndarray
    columns: tuple[str, ...]
    names: tuple[str, ...]
    over: np.ndarray
    under: np.ndarray
    types: tuple[str, ...]

    def figures(self, totals: np.ndarray) -> np.ndarray:
        """Computes the figures from summed counts.

        Args:
            totals: Counts summed over sentences, `[…, C]`.

        Returns:
            Fractions, `[…, F]`; nan where undefined.
        """
        under = totals @ self.under
        with np.errstate(invalid="ignore", divide="ignore"):
            values = np.where(under > 0, totals @ self.over / under, np.nan)
        if not self.types:
            return values
        places = [self.names.index(f"f1 {kind}") for kind in self.types]
        gold = [self.columns.index(f"gold {kind}") for kind in self.types]
        f1, weights = values[..., places], totals[..., gold]
        for name, weight in (("macro f1", ~np.isnan(f1)), ("weighted f1", weights)):
            if name in self.names:
                place = self.names.index(name)
                values[..., place] = _mean(np.nan_to_num(f1), weight)
        return values

    @property
    def of_all(self) -> dict[str, float | None]:
        """The figures over all sentences, by name; None where undefined."""
        values = self.figures(self.counts.sum(0).astype(np.float64)).tolist()
        pairs = zip(self.names, values, strict=True)
        return {name: None if np.isnan(x) else x for name, x in pairs}


def _mean(values: np.ndarray, weights: np.ndarray) -> np.ndarray:
    total = weights.sum(-1)
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.where(total > 0, (values * weights).sum(-1) / total, np.nan)


def of_spans(
    gold: Labels,
    predicted: Labels,
    rule: str = "conlleval",
    scheme: str | None = None,
    types: Sequence[str] = (),
) -> Tally:
    """Counts entities per sentence.

    Partial matches and boundaries follow the rule if its spans have lengths, else
    "conlleval".

    Args:
        gold: The gold labels of each sentence.
        predicted: The predicted labels of each sentence.
        rule: One of `rules.RULES`.
        scheme: Scheme of the labels; None: detected from `gold`.
        types: Entity types that get figures even if the labels lack them.

    Raises:
        ValueError: As `scoring.score`.

    Example:
        >>> tally = of_spans([["B-PER", "O"], ["O"]], [["B-PER", "O"], ["B-PER"]])
        >>> tally.of_all["precision"], tally.of_all["recall"]
        (0.5, 1.0)
    """
    labels = coded.code(gold, predicted)
    scheme = schemes.detect(gold) if scheme is None else scheme
    known = tuple(sorted({*labels.types, *types}))
    table = _Table()
    spans = rules.by_type(labels, rule, scheme)
    for place, column in enumerate(("correct", "predicted", "gold")):
        table.add(column, spans[:, :, place].sum(1))
        for kind in known:
            found = kind in labels.types
            at = labels.types.index(kind) if found else 0
            table.add(f"{column} {kind}", spans[:, at, place] * found)
    _prf(table, "")
    for kind in known:
        _prf(table, f" {kind}")
    table.ratio("macro f1", {}, {})
    table.ratio("weighted f1", {}, {})
    _tokens(table, labels)
    _partial(table, labels, rule, scheme)
    _chunks(table, labels)
    return table.tally(known)


def of_tags(
    gold: Labels, predicted: Labels, new: Sequence[Sequence[bool]] | None = None
) -> Tally:
    """Counts tags per sentence.

    Args:
        gold: The gold tags of each sentence.
        predicted: The predicted tags of each sentence.
        new: Whether each token's word is out of vocabulary; None if unknown.

    Raises:
        ValueError: The sides differ in their numbers of sentences or tokens.
    """
    sides = [list(chain.from_iterable(side)) for side in (gold, predicted)]
    if [*map(len, gold)] != [*map(len, predicted)]:
        raise ValueError("Expected one predicted tag for each gold tag")
    layout = coded.layout([len(tags) for tags in gold])
    right = np.array([a == b for a, b in zip(*sides, strict=True)], bool)
    table = _Table()
    size = len(layout.lengths)
    parts: dict[str, Any] = {"": np.ones(len(right), bool)}
    if new is not None:
        unknown = np.array(list(chain.from_iterable(new)), bool)
        parts |= {"oov ": unknown, "known ": ~unknown}
    for name, chosen in parts.items():
        for column, which in (("right", chosen & right), ("tokens", chosen)):
            counts = np.bincount(layout.sentence[which], minlength=size)
            table.add(f"{name}{column}", counts)
        table.share(f"{name}accuracy", f"{name}right", f"{name}tokens")
    return table.tally(())


def of_counts(counts: np.ndarray) -> Tally:
    """Returns a tally of counted spans.

    Args:
        counts: Correct, predicted and gold spans of each sentence, `[S, 3]`.
    """
    table = _Table()
    for name, column in zip(("correct", "predicted", "gold"), counts.T, strict=True):
        table.add(name, column)
    _prf(table, "")
    return table.tally(())


class _Table:
    """A tally under construction: columns of counts, and ratios of columns."""

    def __init__(self):
        self.columns: dict[str, np.ndarray] = {}
        self.ratios: dict[str, tuple[dict[str, float], dict[str, float]]] = {}

    def add(self, name: str, counts: np.ndarray) -> None:
        self.columns[name] = counts

    def ratio(self, name: str, over: dict[str, float], under: dict[str, float]) -> None:
        self.ratios[name] = over, under

    def share(self, name: str, part: str, whole: str) -> None:
        self.ratio(name, {part: 1.0}, {whole: 1.0})

    def tally(self, types: tuple[str, ...]) -> Tally:
        places = {name: i for i, name in enumerate(self.columns)}
        weights = np.zeros((2, len(places), len(self.ratios)))
        for figure, sides in enumerate(self.ratios.values()):
            for side, its in enumerate(sides):
                for name, weight in its.items():
                    weights[side, places[name], figure] = weight
        counts = np.stack([*self.columns.values()], axis=1)
        over, under = weights
        return Tally(counts, tuple(places), tuple(self.ratios), over, under, types)


def _prf(table: _Table, of: str) -> None:
    correct, predicted, gold = (f"{x}{of}" for x in ("correct", "predicted", "gold"))
    table.share(f"precision{of}", correct, predicted)
    table.share(f"recall{of}", correct, gold)
    table.ratio(f"f1{of}", {correct: 2.0}, {predicted: 1.0, gold: 1.0})


def _tokens(table: _Table, labels: Coded) -> None:
    size, sentence = len(labels.layout.lengths), labels.layout.sentence
    right = labels.gold.ids == labels.predicted.ids
    table.add("right", np.bincount(sentence[right], minlength=size))
    table.add("tokens", labels.layout.lengths)
    table.share("token accuracy", "right", "tokens")


def _partial(table: _Table, labels: Coded, rule: str, scheme: str) -> None:
    of = rule if rule in rules.WITH_LENGTHS else "conlleval"
    counts = alignment.counts(labels, of, scheme)
    for name, column in zip(alignment.COLUMNS, counts.T, strict=True):
        table.add(f"matches {name}", column)
    under = {"matches predicted": 1.0, "matches gold": 1.0}
    numerators = {x: {f"matches {x}": 2.0} for x in ("strict", "exact", "type")}
    # An overlap counts half, equal boundaries count fully.
    numerators["partial"] = {"matches overlap": 1.0, "matches exact": 1.0}
    for match in alignment.MATCHES:
        over = numerators[match]
        table.ratio(f"{match} match f1", over, under)
        halves = {name: weight / 2 for name, weight in over.items()}
        table.ratio(f"{match} match precision", halves, {"matches predicted": 1.0})
        table.ratio(f"{match} match recall", halves, {"matches gold": 1.0})


def _chunks(table: _Table, labels: Coded) -> None:
    size, sentence = len(labels.layout.lengths), labels.layout.sentence
    gold, predicted = labels.gold.prefix, labels.predicted.prefix
    for code, letter in enumerate(LETTERS):
        chosen = gold == code
        if chosen.any():
            found = chosen & (predicted == code)
            table.add(f"chunk {letter}", np.bincount(sentence[chosen], minlength=size))
            counts = np.bincount(sentence[found], minlength=size)
            table.add(f"found {letter}", counts)
            name = f"chunk recall {letter}"
            table.share(name, f"found {letter}", f"chunk {letter}")
