"""A split: the sentences of one file, their labels, and notes on problems."""

import functools
import os
import re
import unicodedata
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from jaxner.data import readers, schemes
from jaxner.data.readers.examples import ConllError, Example
from jaxner.data.vectors import Contextual
from jaxner.wording import counted

Sizes = tuple[int, ...]
COUNTED = (("sentence", "sentences"), ("token", "tokens"), ("entity", "entities"))
"""What `Split.sizes` counts: singular and plural."""
_SHOWN = 5
# Control characters, formats such as U+200B, all spaces and line ends.
_INVISIBLE = ("Cc", "Cf", "Zs", "Zl", "Zp")


@dataclass(frozen=True)
class Split:
    """One split of a corpus.

    Attributes:
        name: Name of the corpus, or of its folder.
        split: `train`, `dev` or `test`.
        path: The file.
        examples: Sentences, with the labels of the file.
        scheme: The corpus's scheme if the labels fit it, else the one they fit best;
            `schemes.TAGS` if they are tags.
        ill_formed: Number of labels that break the scheme.
        sha256: Checksum of the decompressed file.
        notes: Ill-formed labels and differences from the published corpus.
        vectors: Precomputed vectors of each sentence, or None.
        last_line: The file's last line if it has no line end.
        ill_formed_note: The one of `notes` that counts ill-formed labels, or None.
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
    last_line: str | None = None
    ill_formed_note: str | None = None

    def to_scheme(self, scheme: str) -> tuple[Example, ...]:
        """Returns the sentences with well-formed labels in another scheme.

        Raises:
            ValueError: The conversion is from tags to spans or from spans to tags.
        """
        if (scheme == schemes.TAGS) != (self.scheme == schemes.TAGS):
            what = "tags" if self.scheme == schemes.TAGS else f"spans ({self.scheme})"
            raise ValueError(
                f"The labels of {self.path} are {what} and cannot be converted to "
                f"{scheme}. For tags, train and tag with "
                f"--config.data.scheme={schemes.TAGS}."
            )
        if scheme == schemes.TAGS:
            return self.examples
        return tuple(
            replace(example, labels=tuple(schemes.convert(labels, scheme)))
            for example, labels in zip(self.examples, self._labels(), strict=True)
        )

    def types(self) -> tuple[str, ...]:
        """Returns the entity types or the tags, sorted."""
        names = {label for labels in self._labels() for label in labels}
        if self.scheme == schemes.TAGS:
            return tuple(sorted(names))
        return tuple(sorted({schemes.parse(name)[1] for name in names - {"O"}}))

    def words(self) -> frozenset[str]:
        """Returns the distinct tokens."""
        return frozenset(token for e in self.examples for token in e.tokens)

    def sizes(self) -> Sizes:
        """Returns the numbers of sentences, tokens and (without tags) entities."""
        tokens = sum(len(example.tokens) for example in self.examples)
        if self.scheme == schemes.TAGS:
            return len(self.examples), tokens
        entities = sum(len(schemes.to_spans(labels)) for labels in self._labels())
        return len(self.examples), tokens, entities

    def summary(self) -> str:
        """Returns a line about the split's content, and a line for each note."""
        pairs = zip(self.sizes(), COUNTED, strict=False)  # tags: no entities
        what = ", ".join(counted(number, *nouns) for number, nouns in pairs)
        has_tags = self.scheme == schemes.TAGS
        kinds = counted(len(self.types()), "tag" if has_tags else "type")
        kinds += "" if has_tags else f", {self.scheme}"
        line = f"{f'{self.name} {self.split}'.strip()}: {what} of {kinds}"
        return "\n  ".join([line, *self.notes])

    def _labels(self) -> list[tuple[str, ...]]:
        return [example.labels or () for example in self.examples]


def read(
    path: str | os.PathLike[str],
    *,
    name: str | None = None,
    split: str = "",
    scheme: str | None = None,
    on_bad_labels: Callable[[ConllError], object] | None = None,
    **reading: Any,
) -> Split:
    """Returns the sentences of one file, with the labels unchanged.

    Args:
        path: The file, or a folder of brat or CoNLL-2012 files.
        name: Name of the corpus; None for the file's name.
        split: Name of the split.
        scheme: Declared scheme of the labels; None to detect a scheme of spans.
            `schemes.TAGS` accepts any labels.
        on_bad_labels: Gets the error if labels are malformed, and their sentences are
            left out; None: the error is raised.
        **reading: Options for reading the file; see `readers.read`.

    Raises:
        ConllError: The reader cannot parse the file, or labels are malformed.
        FileNotFoundError: The file is missing.
    """
    path = Path(path)
    has_tags = scheme == schemes.TAGS
    try:
        contents = readers.read(path, tags=has_tags, **reading)
    except ConllError as error:
        raise _with_bad_labels(path, error, has_tags) from None
    examples, notes = contents.examples, list(contents.notes[:_SHOWN])
    if contents.notes:
        count = len(contents.notes)
        what = "1 span does" if count == 1 else f"{count:,} spans do"
        notes.insert(0, f"{what} not match the tokens; the first:")
    notes += contents.remarks
    try:
        _check_labels(path, examples, has_tags)
    except ConllError as error:
        examples = tuple(e for e in examples if _has_good_labels(e, has_tags))
        if on_bad_labels is None or not examples:
            raise
        on_bad_labels(error)
    ill_formed, note = 0, None
    if not has_tags:
        declared = scheme
        scheme, lines = _scheme(scheme, examples)
        ill_formed = len(lines)
        if declared and scheme != declared:
            notes.append(f"labels are {scheme}, not {declared} as published")
        if lines:
            note = _describe_ill_formed(lines, scheme)
            notes.append(note)
    facts = (path, examples, scheme or "", ill_formed, contents.sha256, tuple(notes))
    name = path.name if name is None else name
    last = contents.last_line
    return Split(name, split, *facts, last_line=last, ill_formed_note=note)


def _scheme(
    published: str | None, examples: Sequence[Example]
) -> tuple[str, list[int]]:
    """Returns the scheme, and the lines of labels that break it."""
    labels = [example.labels or () for example in examples]

    def breaches(scheme: str) -> list[int]:
        found = ((e, schemes.violations(e.labels or (), scheme)) for e in examples)
        return [e.line_of(position) for e, positions in found for position in positions]

    scheme = published or schemes.detect(labels)
    lines = breaches(scheme)
    other = schemes.detect(labels) if lines else scheme
    fewer = breaches(other)
    return (other, fewer) if len(fewer) < len(lines) else (scheme, lines)


def _describe_ill_formed(lines: Sequence[int], scheme: str) -> str:
    where = ", ".join(map(str, lines[:5]))
    labels_break = "label breaks" if len(lines) == 1 else "labels break"
    first = "in line" if len(lines) == 1 else "first in lines"
    return f"{len(lines):,} {labels_break} {scheme}, {first} {where}"


def _with_bad_labels(path: Path, error: ConllError, has_tags: bool) -> ConllError:
    """Returns an error with the malformed labels of the other lines, too, by line."""
    try:
        _check_labels(path, error.examples, has_tags)
    except ConllError as other:
        problems = [*error.problems, *other.problems]
        pairs = zip(problems, [*error.remedy_of, *other.remedy_of], strict=True)
        texts, remedies = zip(*sorted(pairs, key=_line_of), strict=True)
        return ConllError(texts, remedy_of=remedies)
    return error


def _line_of(pair: tuple[str, str]) -> int:
    """Returns the line of a problem, which its text begins with; 0 without one."""
    found = re.match(r".+?:(\d+): ", pair[0], re.DOTALL)
    return int(found[1]) if found else 0


def _check_labels(path: Path, examples: Iterable[Example], has_tags: bool) -> None:
    """Raises ConllError for malformed labels, with their lines."""
    problems, wrong = [], set()
    for example in examples:
        for position, label in enumerate(example.labels or ()):
            problem = _problem(label, has_tags)
            if problem:
                place = f"{example.path or path}:{example.line_of(position)}"
                problems.append(f"{place}: {problem}")
                wrong.add(label)
    if problems:
        raise ConllError(problems, _remedies(wrong))


def _has_good_labels(example: Example, has_tags: bool) -> bool:
    return not any(_problem(label, has_tags) for label in example.labels or ())


@functools.lru_cache(1 << 12)
def _problem(label: str, has_tags: bool) -> str:
    """Returns what is wrong with a label; empty if it is well-formed."""
    hidden = [char for char in label if is_invisible(char)]
    if hidden or label != label.strip(" "):
        code = f"U+{ord((hidden or ' ')[0]):04X}"
        return f"Label {label!r} contains an invisible character ({code})"
    if not has_tags:
        try:
            schemes.parse(label)
        except ValueError as error:
            return str(error)
    return ""


def is_invisible(char: str) -> bool:
    r"""Returns whether a character is invisible and not a plain space.

    Example:
        >>> is_invisible("\xa0"), is_invisible("\u200b"), is_invisible("x")
        (True, True, False)
    """
    return char != " " and unicodedata.category(char) in _INVISIBLE


def _remedies(wrong: Iterable[str]) -> list[str]:
    wrong = set(wrong)
    hidden = any(map(is_invisible, "".join(wrong)))
    if hidden or any(label != label.strip(" ") for label in wrong):
        return [
            "Remove such characters: they make a different type that looks the same."
        ]
    if all(label.isdigit() for label in wrong):
        return ["Labels must not be numbers: write their names, such as B-PER."]
    if all(re.fullmatch("o|[bieslu]-.+", label) for label in wrong):
        return ["Prefixes and O are upper-case: write B-per instead of b-per."]
    column = "Is it the right column? Set `label_column`."
    tags = f"Are they tags without spans? Set `scheme={schemes.TAGS!r}`."
    return [column, tags]
