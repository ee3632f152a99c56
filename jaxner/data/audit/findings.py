"""The type of a finding, and helpers that format findings."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from jaxner.data.readers.examples import Example
from jaxner.data.splits import Split
from jaxner.wording import counted

LEVELS = ("error", "warning", "note")
"""With an error, a file cannot be read; a warning is probably a mistake."""
SHOWN = 5
"""Maximum number of cases in a message."""


@dataclass(frozen=True)
class Finding:
    """An error or a probable mistake.

    Attributes:
        level: One of `LEVELS`.
        check: Name of the check.
        message: What is wrong.
        file: The file.
        line: Line of the first case, from 1; None if it has none.
        remedy: What to do.
        count: Number of cases.
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
    """Returns the file and the line of a token."""
    return example.path or str(split.path), example.line_of(position)


def cases(
    split: Split, check: str, what: str, remedy: str, its: Sequence[tuple[Example, int]]
) -> Iterator[Finding]:
    """Yields a warning about tokens, if any, with the lines of the first ones."""
    if not its:
        return
    shown = []
    for example, position in its[:SHOWN]:
        token = example.tokens[position]
        token = token if len(token) <= 30 else f"{token[:30]}…"
        shown.append(f"{token!r} in line {example.line_of(position)}")
    message = f"{counted(len(its), 'token')} {what}: {', '.join(shown)}"
    message += " …" * (len(its) > SHOWN)
    where = place(split, *its[0])
    yield Finding("warning", check, message, *where, remedy, len(its))
