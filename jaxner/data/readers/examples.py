"""The sentences that readers return, and the reports of problems in files."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

_SHOWN = 20


class ConllError(ValueError):
    """All problems of a file; the message shows the first 20.

    Args:
        problems: One line for each problem.
        remedies: What would fix them; repeated ones are shown once.
    """

    def __init__(self, problems: Sequence[str], remedies: Iterable[str] = ()):
        self.problems = tuple(problems)
        self.remedies = tuple(dict.fromkeys(remedies))  # distinct, in order
        lines = list(self.problems[:_SHOWN])
        if len(self.problems) > _SHOWN:
            lines.append(f"... the first {_SHOWN} of {len(self.problems):,} problems")
        super().__init__("\n".join([*lines, *self.remedies]))


@dataclass(frozen=True)
class Example:
    """One sentence of a file.

    Attributes:
        tokens: The tokens as in the file.
        labels: The labels as in the file; None if the caller asked for none.
        document: Number of documents begun before the sentence; in columns, the number
            of `-DOCSTART-` lines before it.
        line: Number of the first token's line, from 1; the other tokens follow on the
            next lines.
        skipped: Numbers of later lines without a token of the sentence (CoNLL-U).
        text: The text before tokenisation, if the file contains it.
        offsets: First character and last character plus one of each token in `text`.
        one_line: Whether all tokens are on the line of the first one.
        path: The file of the sentence, if several files were read.
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
        """Returns the number of a token's line, from 1."""
        if self.one_line:
            return self.line
        line = self.line + position
        for skipped in self.skipped:  # ascending
            line += skipped <= line
        return line


@dataclass
class Report:
    """Collects the problems of one file, to report them together.

    Attributes:
        name: Name of the file.
        problems: Problems that make the file unreadable, with their lines.
        remedies: What would fix them.
        notes: Changes that the reader made, with their lines.
        remarks: What else the reader left out, counted.
    """

    name: str
    problems: list[str] = field(default_factory=list)
    remedies: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)

    def add(self, line: int, problem: str, text: object, remedy: str) -> None:
        """Adds a problem and what would fix it."""
        self.problems.append(self._told(line, problem, text))
        self.remedies.append(remedy)

    def note(self, line: int, what: str, text: object) -> None:
        """Adds a note, which is not an error."""
        self.notes.append(self._told(line, what, text))

    def _told(self, line: int, problem: str, text: object) -> str:
        shown = text if len(repr(text)) <= 80 else f"{str(text)[:80]}..."
        return f"{self.name}:{line}: {problem}: {shown!r}"

    def check(self, examples: Sequence[Example] | None = None) -> None:
        """Checks that there are no problems, and, if given, some examples.

        Raises:
            ConllError: There is a problem, or `examples` is empty.
        """
        if not (self.problems or examples or examples is None):
            self.problems.append(f"{self.name}: expected lines of tokens, got none")
            self.remedies.append("Is it the right file, and was it written to its end?")
        if self.problems:
            raise ConllError(self.problems, self.remedies)
