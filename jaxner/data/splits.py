"""A split: the sentences of one file, their labels, and what is notable of them."""

import hashlib
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from jaxner.data import schemes
from jaxner.data.contextual import Contextual
from jaxner.data.readers import conll, conllu, files
from jaxner.data.readers.examples import ConllError, Example

Sizes = tuple[int, ...]
COUNTED = ("sentences", "tokens", "entities")


@dataclass(frozen=True)
class Split:
    """One split of a corpus as it was read.

    Attributes:
        name: Name of the corpus, or of its folder.
        split: `train`, `dev` or `test`.
        path: The file.
        examples: The sentences, their labels as they stand in the file.
        scheme: The corpus's scheme if the labels fit it, else the one they fit best;
            `schemes.TAGS` if they are tags.
        ill_formed: How many labels break that scheme.
        sha256: Checksum of the decompressed file.
        notes: What is ill-formed, or differs from the published corpus.
        vectors: Vectors that were computed beforehand, of each sentence; or None.
    """

    name: str
    split: str
    path: Path
    examples: tuple[Example, ...]
    scheme: str
    ill_formed: int
    sha256: str
    notes: tuple[str, ...] = ()
    vectors: Contextual | None = None

    def to_scheme(self, scheme: str) -> tuple[Example, ...]:
        """Gives the sentences with their labels in another scheme, well-formed.

        Raises:
            ValueError: Spans are wanted of tags, or tags of spans.
        """
        if (scheme == schemes.TAGS) != (self.scheme == schemes.TAGS):
            what = "tags" if self.scheme == schemes.TAGS else f"spans ({self.scheme})"
            raise ValueError(
                f"The labels of {self.path} were read as {what}, and {scheme} is "
                f"wanted, but tags and spans are not converted. For tags train and "
                f"tag with --config.data.scheme={schemes.TAGS}."
            )
        if scheme == schemes.TAGS:
            return self.examples
        return tuple(
            replace(example, labels=tuple(schemes.convert(labels, scheme)))
            for example, labels in zip(self.examples, self._labels(), strict=True)
        )

    def types(self) -> tuple[str, ...]:
        """Gives the entity types, or the tags, sorted."""
        names = {label for labels in self._labels() for label in labels}
        if self.scheme == schemes.TAGS:
            return tuple(sorted(names))
        return tuple(sorted({schemes.parse(name)[1] for name in names - {"O"}}))

    def words(self) -> frozenset[str]:
        """Gives the distinct tokens."""
        return frozenset(token for e in self.examples for token in e.tokens)

    def sizes(self) -> Sizes:
        """Counts sentences, tokens and, if labels are spans, entities."""
        tokens = sum(len(example.tokens) for example in self.examples)
        if self.scheme == schemes.TAGS:
            return len(self.examples), tokens
        entities = sum(len(schemes.to_spans(labels)) for labels in self._labels())
        return len(self.examples), tokens, entities

    def summary(self) -> str:
        """Says in a line what was read, and in further lines what is notable."""
        what = ", ".join(map("{:,} {}".format, self.sizes(), COUNTED))
        kinds = f"types, {self.scheme}" if self.scheme != schemes.TAGS else "tags"
        line = f"{self.name} {self.split}: {what} of {len(self.types())} {kinds}"
        return "\n  ".join([line, *self.notes])

    def _labels(self) -> list[tuple[str, ...]]:
        return [example.labels or () for example in self.examples]


def read(
    path: str | os.PathLike[str],
    *,
    name: str | None = None,
    split: str = "",
    scheme: str | None = None,
    token_column: int | None = None,
    label_column: int | None = None,
    comments: str | None = None,
    encoding: str = "utf-8",
) -> Split:
    """Reads one file of columns, with the labels as they stand in it.

    Args:
        path: The file; see `conll.read` for what it may look like, and `conllu.read`
            if its name ends with `.conllu` or `.conllu.gz`.
        name: Name of the corpus; None: the file's.
        split: Name of the split.
        scheme: The scheme that the labels are said to be in; None: it is detected, and
            one of spans. `schemes.TAGS` takes any labels as they are.
        token_column: Column of the tokens, from 0 (or from the end, if negative);
            None: the first, or FORM of CoNLL-U.
        label_column: Column of the labels; None: the last, or UPOS of CoNLL-U.
        comments: Beginning of comment lines; None: there are none. CoNLL-U has its own.
        encoding: Encoding of the text.

    Raises:
        ConllError: The file is not as its reader expects, or labels are malformed.
        FileNotFoundError: There is no such file.
    """
    path = Path(path)
    given = {"token_column": token_column, "label_column": label_column}
    columns: dict[str, Any] = {k: v for k, v in given.items() if v is not None}
    if conllu.is_conllu(path):
        examples = conllu.read(path, **columns, encoding=encoding)
    else:
        examples = conll.read(path, **columns, comments=comments, encoding=encoding)
    if scheme == schemes.TAGS:
        ill_formed, notes = 0, []
    else:
        _check_labels(path, examples)
        scheme, ill_formed, notes = _scheme(scheme, examples)
    checksum = hashlib.sha256(files.read_bytes(path)).hexdigest()
    facts = (path, tuple(examples), scheme, ill_formed, checksum, tuple(notes))
    return Split(path.name if name is None else name, split, *facts)


def _scheme(
    published: str | None, examples: Sequence[Example]
) -> tuple[str, int, list[str]]:
    """Finds the scheme, how many labels break it, and what is to be said about it."""
    labels = [example.labels or () for example in examples]
    notes: list[str] = []

    def breaches(scheme: str) -> list[int]:
        found = ((e, schemes.violations(e.labels or (), scheme)) for e in examples)
        return [e.line_of(position) for e, positions in found for position in positions]

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
        for position, label in enumerate(example.labels or ()):
            try:
                schemes.parse(label)
            except ValueError as error:
                problems.append(f"{path}:{example.line_of(position)}: {error}")
    if problems:
        column = "Is it the right column? Set label_column."
        tags = f"Are they tags without spans? Set the scheme to {schemes.TAGS!r}."
        raise ConllError(problems, [column, tags])
