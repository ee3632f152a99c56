"""What every reader returns, and how it reports what is wrong with a file."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

_SHOWN = 20


class ConllError(ValueError):
    """All that is wrong with a file: `problems`; the message shows the first 20."""

    def __init__(self, problems: Sequence[str], remedies: Iterable[str] = ()):
        self.problems = tuple(problems)
        self.remedies = tuple(dict.fromkeys(remedies))  # without repetitions, in order
        lines = list(self.problems[:_SHOWN])
        if len(self.problems) > _SHOWN:
            lines.append(f"... the first {_SHOWN} of {len(self.problems):,} problems")
        super().__init__("\n".join([*lines, *self.remedies]))


@dataclass(frozen=True)
class Example:
    """One sentence of a file.

    Attributes:
        tokens: The tokens as they stand in the file.
        labels: The labels as they stand in the file, or None if none were asked for.
        document: How many documents have begun before the sentence: in columns, how
            many `-DOCSTART-` lines precede it.
        line: Number of the first token's line, from 1; the others are on the next ones.
        skipped: Numbers of later lines that hold no token of the sentence (CoNLL-U).
        text: The text that was tokenised, if the file holds it.
        offsets: First character and, exclusive, the last of each token in that text.
        one_line: Whether all tokens stand on the first one's line.
        path: The file that the sentence is from, if what was read are several.
    """

    tokens: tuple[str, ...]
    labels: tuple[str, ...] | None
    document: int
    line: int
    skipped: tuple[int, ...] = ()
    text: str | None = None
    offsets: tuple[tuple[int, int], ...] | None = None
    one_line: bool = False
    path: str | None = None

    def line_of(self, position: int) -> int:
        """Gives the number of a token's line."""
        if self.one_line:
            return self.line
        line = self.line + position
        for skipped in self.skipped:  # ascending
            line += skipped <= line
        return line


@dataclass
class Report:
    """Collects what is wrong with one file, so that all of it is told together.

    Attributes:
        name: Of the file.
        problems: What makes it unreadable, with the lines.
        remedies: What would mend that.
        notes: What was read in another way than it is written, with the lines.
    """

    name: str
    problems: list[str] = field(default_factory=list)
    remedies: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def add(self, line: int, problem: str, text: object, remedy: str) -> None:
        """Notes a problem and what would mend it."""
        self.problems.append(self._told(line, problem, text))
        self.remedies.append(remedy)

    def note(self, line: int, what: str, text: object) -> None:
        """Notes what is no error, but has to be known."""
        self.notes.append(self._told(line, what, text))

    def _told(self, line: int, problem: str, text: object) -> str:
        shown = text if len(repr(text)) <= 80 else f"{str(text)[:80]}..."
        return f"{self.name}:{line}: {problem}: {shown!r}"

    def check(self, examples: Sequence[Example] | None = None) -> None:
        """Raises ConllError if there is a problem, or not a single example."""
        if not (self.problems or examples or examples is None):
            self.problems.append(f"{self.name}: expected lines of tokens, got none")
            self.remedies.append("Is it the right file, and was it written to its end?")
        if self.problems:
            raise ConllError(self.problems, self.remedies)
