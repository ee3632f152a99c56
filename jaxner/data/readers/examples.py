"""The sentences that readers return, and the reports of problems in files."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

_SHOWN = 20


class ConllError(ValueError):
    """All problems of a file; the message shows the first 20.

    Attributes:
        problems: One line for each problem.
        remedies: What would fix them, without repetitions.
        remedy_of: What would fix each problem.
        examples: The sentences of all lines that have no problem.
    """

    def __init__(
        self,
        problems: Sequence[str],
        remedies: Iterable[str] = (),
        *,
        remedy_of: Iterable[str] | None = None,
        examples: Sequence[Example] = (),
    ):
        """Sets the attributes.

        Args:
            problems: One line for each problem.
            remedies: What would fix all of them; leave out if `remedy_of` is given.
            remedy_of: What would fix each problem; None: all of `remedies`.
            examples: The sentences of all lines that have no problem.
        """
        common = " ".join(remedies := tuple(remedies))
        self.problems, self.examples = tuple(problems), tuple(examples)
        self.remedy_of = tuple(remedy_of or [common] * len(self.problems))
        self.remedies = tuple(dict.fromkeys(remedies or self.remedy_of))
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


def readable(line: int, rows: Sequence[Sequence[str]]) -> tuple[int, tuple[int, ...]]:
    """Returns the line of a sentence's first readable row, and of later faulty ones.

    Args:
        line: Line of the first row.
        rows: Cells of consecutive lines; none of faulty ones.

    Example:
        >>> readable(5, [[], ["Rome", "O"], [], ["fell", "O"]])
        (6, (7,))
    """
    first = next((i for i, row in enumerate(rows) if row), 0)
    faulty = (line + i for i, row in enumerate(rows) if not row and i > first)
    return line + first, tuple(faulty)


@dataclass
class Report:
    """Collects the problems of one file, to report them together.

    Attributes:
        name: Name of the file.
        problems: Problems that make the file unreadable, with their lines.
        remedies: What would fix each of them.
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
            told, found = self.problems, examples or ()
            raise ConllError(told, remedy_of=self.remedies, examples=found)
