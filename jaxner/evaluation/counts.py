"""Counts of correct, predicted and gold spans; precision, recall and F1."""

from __future__ import annotations

from typing import NamedTuple


class Counts(NamedTuple):
    """Counts of spans (or tags), and precision, recall and F1.

    The figures are fractions from 0 to 1, None where undefined: precision without
    predictions, recall without gold spans, F1 without either. `+` adds the counts.

    Attributes:
        correct: Predicted spans with the boundaries and type of a gold span.
        predicted: Predicted spans.
        gold: Gold spans.

    Example:
        >>> (Counts(1, 2, 3) + Counts(2, 2, 3)).precision
        0.75
        >>> Counts(0, 0, 3).precision, Counts(0, 0, 3).f1
        (None, 0.0)
    """

    correct: int = 0
    predicted: int = 0
    gold: int = 0

    @property
    def precision(self) -> float | None:
        """Share of the predicted spans that are correct."""
        return ratio(self.correct, self.predicted)

    @property
    def recall(self) -> float | None:
        """Share of the gold spans that were found."""
        return ratio(self.correct, self.gold)

    @property
    def f1(self) -> float | None:
        """Harmonic mean of precision and recall."""
        return ratio(2 * self.correct, self.predicted + self.gold)

    def __add__(self, other: Counts) -> Counts:  # type: ignore[override]
        return Counts(*map(sum, zip(self, other, strict=True)))

    def to_dict(self) -> dict[str, float | int | None]:
        """Returns the counts, and the figures in percent, not rounded."""
        figures = {"precision": self.precision, "recall": self.recall, "f1": self.f1}
        return {name: percent(x) for name, x in figures.items()} | self._asdict()


def ratio(part: int | float, whole: int | float) -> float | None:
    """Returns part / whole; None where whole is 0."""
    return part / whole if whole else None


def percent(figure: int | float | None) -> int | float | None:
    """Returns a fraction in percent; None stays None.

    Example:
        >>> percent(0.5), percent(None)
        (50.0, None)
    """
    return None if figure is None else 100 * figure


def shown(figure: int | float | None, digits: int = 2) -> str:
    """Returns a fraction in percent as text; a dash if undefined.

    Example:
        >>> shown(0.5), shown(None)
        ('50.00', '–')
    """
    return "–" if figure is None else f"{100 * figure:.{digits}f}"
