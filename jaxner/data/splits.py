"""A split: the sentences of one file, their labels, and what is notable of them."""

import hashlib
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from jaxner.data import conll, schemes
from jaxner.data.conll import ConllError, Example

Sizes = tuple[int, int, int]
COUNTED = ("sentences", "tokens", "entities")


@dataclass(frozen=True)
class Split:
    """One split of a corpus as it was read.

    Attributes:
        name: Name of the corpus, or of its folder.
        split: `train`, `dev` or `test`.
        path: The file.
        examples: The sentences, their labels as they stand in the file.
        scheme: The corpus's scheme if the labels fit it, else the one they fit best.
        ill_formed: How many labels break that scheme.
        sha256: Checksum of the decompressed file.
        notes: What is ill-formed, or differs from the published corpus.
    """

    name: str
    split: str
    path: Path
    examples: tuple[Example, ...]
    scheme: str
    ill_formed: int
    sha256: str
    notes: tuple[str, ...] = ()

    def to_scheme(self, scheme: str) -> tuple[Example, ...]:
        """Gives the sentences with their labels in another scheme, well-formed."""
        return tuple(
            replace(example, labels=tuple(schemes.convert(labels, scheme)))
            for example, labels in zip(self.examples, self._labels(), strict=True)
        )

    def types(self) -> tuple[str, ...]:
        """Gives the entity types, sorted."""
        names = {label for labels in self._labels() for label in labels}
        return tuple(sorted({schemes.parse(name)[1] for name in names - {"O"}}))

    def sizes(self) -> Sizes:
        """Counts sentences, tokens and entities."""
        tokens = sum(len(example.tokens) for example in self.examples)
        entities = sum(len(schemes.to_spans(labels)) for labels in self._labels())
        return len(self.examples), tokens, entities

    def summary(self) -> str:
        """Says in a line what was read, and in further lines what is notable."""
        what = ", ".join(map("{:,} {}".format, self.sizes(), COUNTED))
        line = f"{self.name} {self.split}: {what} of {len(self.types())} types"
        return "\n  ".join([f"{line}, {self.scheme}", *self.notes])

    def _labels(self) -> list[tuple[str, ...]]:
        return [example.labels or () for example in self.examples]


def read(
    path: str | os.PathLike[str],
    *,
    name: str | None = None,
    split: str = "",
    scheme: str | None = None,
    token_column: int = 0,
    label_column: int = -1,
    comments: str | None = None,
    encoding: str = "utf-8",
) -> Split:
    """Reads one file of columns, with the labels as they stand in it.

    Args:
        path: The file; see `conll.read` for what it may look like.
        name: Name of the corpus; None: the file's.
        split: Name of the split.
        scheme: The scheme that the labels are said to be in; None: it is detected.
        token_column: Column of the tokens, from 0 (or from the end, if negative).
        label_column: Column of the labels.
        comments: Beginning of comment lines; None: there are none.
        encoding: Encoding of the text.

    Raises:
        ConllError: The file is not as `conll.read` expects, or labels are malformed.
        FileNotFoundError: There is no such file.
    """
    path = Path(path)
    examples = conll.read(
        path,
        token_column=token_column,
        label_column=label_column,
        comments=comments,
        encoding=encoding,
    )
    _check_labels(path, examples)
    scheme, ill_formed, notes = _scheme(scheme, examples)
    checksum = hashlib.sha256(conll.read_bytes(path)).hexdigest()
    facts = (path, tuple(examples), scheme, ill_formed, checksum, tuple(notes))
    return Split(path.name if name is None else name, split, *facts)


def _scheme(
    published: str | None, examples: Sequence[Example]
) -> tuple[str, int, list[str]]:
    """Finds the scheme, how many labels break it, and what is to be said about it."""
    labels = [example.labels or () for example in examples]
    notes: list[str] = []

    def breaches(scheme: str) -> list[int]:
        found = ((e.line, schemes.violations(e.labels or (), scheme)) for e in examples)
        return [line + position for line, positions in found for position in positions]

    scheme = published or schemes.detect(labels)
    lines = breaches(scheme)
    other = schemes.detect(labels) if lines else scheme
    if len(fewer := breaches(other)) < len(lines):
        notes.append(f"labels are {other}, not {scheme} as published")
        scheme, lines = other, fewer
    if lines:
        where = ", ".join(map(str, lines[:5]))
        notes.append(f"{len(lines):,} labels break {scheme}, first in lines {where}")
    return scheme, len(lines), notes


def _check_labels(path: Path, examples: Iterable[Example]) -> None:
    """Raises for malformed labels, with their lines."""
    problems = []
    for example in examples:
        for line, label in enumerate(example.labels or (), example.line):
            try:
                schemes.parse(label)
            except ValueError as error:
                problems.append(f"{path}:{line}: {error}")
    if problems:
        raise ConllError(problems, ["Is it the right column? Set label_column."])
