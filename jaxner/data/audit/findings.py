"""One thing that looks wrong, and how it is told."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from jaxner.data.readers.examples import Example
from jaxner.data.splits import Split

LEVELS = ("error", "warning", "note")
"""An error keeps a file from being read; a warning is probably a mistake."""
SHOWN = 5
"""Cases that a finding shows."""


@dataclass(frozen=True)
class Finding:
    """One thing that looks wrong.

    Attributes:
        level: One of `LEVELS`.
        check: Name of the check that found it.
        message: What it is.
        file: Where.
        line: Of the first case; None if it has no line.
        remedy: What to do.
        count: How many cases there are.
    """

    level: str
    check: str
    message: str
    file: str
    line: int | None = None
    remedy: str = ""
    count: int = 1

    def __str__(self) -> str:
        place = self.file if self.line is None else f"{self.file}:{self.line}"
        return f"{place}: {self.message}" + (f". {self.remedy}" if self.remedy else "")

    def to_dict(self) -> dict[str, Any]:
        """Returns the attributes."""
        return asdict(self)


def place(split: Split, example: Example, position: int = 0) -> tuple[str, int]:
    """Gives the file and the line of a token."""
    return example.path or str(split.path), example.line_of(position)


def cases(
    split: Split, check: str, what: str, remedy: str, its: Sequence[tuple[Example, int]]
) -> Iterator[Finding]:
    """Yields a warning about tokens, with the places of the first."""
    if not its:
        return
    shown = []
    for example, position in its[:SHOWN]:
        token = example.tokens[position]
        token = token if len(token) <= 30 else f"{token[:30]}…"
        shown.append(f"{token!r} in line {example.line_of(position)}")
    message = f"{plural(len(its), 'token')} {what}: {', '.join(shown)}"
    message += " …" * (len(its) > SHOWN)
    where = place(split, *its[0])
    yield Finding("warning", check, message, *where, remedy, len(its))


def plural(count: int, noun: str) -> str:
    """Writes a number and a noun.

    Example:
        >>> plural(1, "token"), plural(2_000, "token")
        ('1 token', '2,000 tokens')
    """
    return f"{count:,} {noun}" + "s" * (count != 1)
