"""Ranges of numbers and sets of words that an option may take."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable
from typing import Any


@dataclasses.dataclass(frozen=True)
class Range:
    """The allowed numbers of an option; a bound of None is no bound.

    Attributes:
        least: Inclusive lower bound.
        above: Exclusive lower bound.
        most: Inclusive upper bound.
        below: Exclusive upper bound.
        step: Distance between the numbers, from `least` on; 0: any number.
        note: A hint for the error, such as a usual mistake.

    Example:
        >>> str(Range(least=0, below=1)), 1.0 in Range(least=0, below=1)
        ('in [0, 1)', False)
    """

    least: int | float | None = None
    above: int | float | None = None
    most: int | float | None = None
    below: int | float | None = None
    step: int = 0
    note: str = ""

    def __contains__(self, value: Any) -> bool:
        return (
            math.isfinite(value)
            and (self.least is None or value >= self.least)
            and (self.above is None or value > self.above)
            and (self.most is None or value <= self.most)
            and (self.below is None or value < self.below)
            and (not self.step or (value - (self.least or 0)) % self.step == 0)
        )

    def __str__(self) -> str:
        if self.step:
            first = int(self.least or 0)
            last = "…" if self.most is None else f"…, {self.most}"
            return f"{first}, {first + self.step}, {first + 2 * self.step}, {last}"
        low = self.least if self.above is None else self.above
        high = self.most if self.below is None else self.below
        if low is not None and high is not None:
            left, right = "[("[self.least is None], "])"[self.most is None]
            return f"in {left}{low}, {high}{right}"
        if low is not None:
            return f"{'at least' if self.above is None else 'above'} {low}"
        if high is not None:
            return f"{'at most' if self.below is None else 'below'} {high}"
        return "a finite number"

    def problem(self, value: Any) -> str:
        """Returns what is wrong with a number; empty if it is allowed."""
        if value in self:
            return ""
        is_said = math.isfinite(value) or self == Range(note=self.note)
        finite = "" if is_said else "finite and "
        note = f": {self.note}" if self.note else ""
        return f"must be {finite}{self}, got {value!r}{note}"


class OneOf:
    """The allowed words of an option.

    Args:
        known: The words.
        note: A hint for the error, such as what other words may be meant for.

    Example:
        >>> OneOf({"mean": 1, "sum": 2}).known
        ('mean', 'sum')
    """

    def __init__(self, known: Iterable[str], note: str = ""):
        self.known = tuple(known)
        self.note = note

    def __contains__(self, value: Any) -> bool:
        return isinstance(value, str) and value in self.known


class Encodings(OneOf):
    """The encodings of text that Python knows."""

    def __contains__(self, value: Any) -> bool:
        try:
            "a".encode(value)
        except (LookupError, TypeError, ValueError):
            return False
        return True
