"""Reads and writes CoNLL-U files, the format of Universal Dependencies' treebanks.

One word per line in ten columns, a blank line after each sentence, comments before it.
Words are syntactic words, which carry the annotation: "do" and "n't" for "don't". Tags
have their own columns; entity labels are in MISC, as in `NER=B-PER`. As in
`readers.conll`, the reader repairs nothing in silence, and reports all problems of a
file together.

Source: https://universaldependencies.org/format.html
"""

import os
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from jaxner.data.readers import files
from jaxner.data.readers.examples import Example, Report

COLUMNS: tuple[str, ...] = (
    *("ID", "FORM", "LEMMA", "UPOS", "XPOS"),
    *("FEATS", "HEAD", "DEPREL", "DEPS", "MISC"),
)
FORM, UPOS, XPOS, MISC = 1, 3, 4, 9
KEYS = ("NER", "ner", "Entity", "entity", "NE")
"""Names of entity labels in MISC; the first one found counts."""

_NO_VALUE = "_"
_WORD = re.compile("[0-9]+")
# Multiword tokens (1-2), and empty nodes (1.1).
_NO_WORD = re.compile("([0-9]+)([-.])([0-9]+)")
_LABEL = re.compile("O|[BIESLU]-.+")
_NEW_DOCUMENT = re.compile(r"#\s*newdoc(\s|$)")

_RANGES = "A range such as 2-3 stands before its first word, and its words follow."

_Block = list[tuple[int, str]]


def is_conllu(path: str | os.PathLike[str]) -> bool:
    """Returns whether a file's name is that of a CoNLL-U file.

    Example:
        >>> is_conllu("ud_ewt/train.conllu.gz"), is_conllu("train.conll")
        (True, False)
    """
    return Path(path).name.removesuffix(".gz").endswith(".conllu")


def read(
    path: str | os.PathLike[str],
    *,
    token_column: int = FORM,
    label_column: int | None = UPOS,
    encoding: str = "utf-8",
) -> list[Example]:
    r"""Reads the sentences of a CoNLL-U file, plain or gzipped.

    - Lines of multiword tokens (ID `1-2`) and of empty nodes (`1.1`) are skipped.
    - A comment `# newdoc` starts a document; other comments are skipped.
    - Lines end with LF or CRLF. A byte order mark at the start of the file is skipped.
    - `_` is a word like any other, but not a label: it means "no value".

    Args:
        path: The file; gzip is recognised by its content, not by its name.
        token_column: Column of the token, from 0 (or from the end, if negative).
        label_column: Column of the label, such as `UPOS` or `XPOS`, or None to read no
            labels.
        encoding: Encoding of the text.

    Returns:
        The sentences in the order of the file.

    Raises:
        ConllError: A line does not have ten columns, words are not numbered 1, 2, …, a
            token or label is missing, a comment is within a sentence, bytes do not
            match the encoding, or the file has no words.
        FileNotFoundError: The file is missing.
        ValueError: A column is outside those of CoNLL-U, or both are the same.

    Example:
        >>> import tempfile
        >>> rows = ["1-2\tcan't", "1\tca\tcan\tAUX", "2\tn't\tnot\tPART"]
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = Path(folder, "train.conllu")
        ...     lines = [row + "\t_" * (9 - row.count("\t")) for row in rows]
        ...     _ = path.write_text("# text = can't\n" + "\n".join(lines) + "\n\n")
        ...     read(path)[0].labels
        ('AUX', 'PART')
    """
    return parse(
        files.read_bytes(path),
        Report(str(path)),
        token_column=token_column,
        label_column=label_column,
        encoding=encoding,
    )


def parse(
    data: bytes,
    report: Report,
    *,
    token_column: int = FORM,
    label_column: int | None = UPOS,
    encoding: str = "utf-8",
) -> list[Example]:
    """Reads the decompressed content of a file; see `read`."""
    wanted = [token_column] if label_column is None else [token_column, label_column]
    path = report.name
    for column in wanted:
        if not -len(COLUMNS) <= column < len(COLUMNS):
            known = ", ".join(f"{i} {name}" for i, name in enumerate(COLUMNS))
            raise ValueError(f"{path}: CoNLL-U has no column {column}; it has {known}")
    if label_column is not None and (token_column - label_column) % len(COLUMNS) == 0:
        raise ValueError(
            f"{path}: column {token_column} is to be both token and label; CoNLL-U has "
            f"tags in the columns {UPOS} (UPOS) and {XPOS} (XPOS)"
        )
    if label_column is not None:
        label_column %= len(COLUMNS)
    lines = files.decode_lines(data, report, encoding)
    reader = _Reader(report, token_column, label_column)
    examples = [reader.example(*block) for block in _blocks(lines)]
    if examples and label_column == MISC and not reader.has_entities:
        report.add(
            examples[0].line,
            f"no word has an entity in MISC (looked for {', '.join(KEYS)})",
            lines[examples[0].line - 1],
            f"For tags set `label_column` to {UPOS} (UPOS) or {XPOS} (XPOS).",
        )
    report.check(examples)
    return examples


def has_entities(data: bytes, encoding: str = "utf-8") -> bool:
    r"""Returns whether any word has an entity label in MISC, such as `NER=B-PER`.

    Example:
        >>> has_entities(b"1\tRome" + b"\t_" * 7 + b"\tNER=B-LOC\n")
        True
    """
    lines = files.decode_lines(data, Report(""), encoding)
    cells = (line.split("\t") for line in lines if line[:1].isdigit())
    found = (_entity(row[MISC]) for row in cells if len(row) == len(COLUMNS))
    return any(label is not None and _LABEL.fullmatch(label) for label in found)


def _entity(misc: str) -> str | None:
    """Returns the entity label among a word's attributes, if any."""
    parts = (pair.partition("=") for pair in misc.split("|"))
    pairs = {key: value for key, _, value in parts}
    return next((pairs[key] for key in KEYS if key in pairs), None)


def write(
    target: str | os.PathLike[str] | files.Writable,
    examples: Sequence[Example],
    *,
    label_column: int = MISC,
) -> None:
    r"""Writes sentences as CoNLL-U; `read` returns them.

    Args:
        target: A path, or a text file open for writing.
        examples: The sentences, with labels.
        label_column: `MISC` for entity labels, `UPOS` or `XPOS` for tags.

    Raises:
        ValueError: A token or label cannot be written in this format.

    Example:
        >>> import io
        >>> file = io.StringIO()
        >>> write(file, [Example(("Rome",), ("B-LOC",), 0, 1)])
        >>> file.getvalue().splitlines()[1].split("\t")[-1]
        'NER=B-LOC'
    """
    document, parts = 0, []
    for number, example in enumerate(examples):
        parts.append("# newdoc\n" * (example.document - document))
        document = example.document
        text = " ".join(example.tokens) if example.text is None else example.text
        parts.append(f"# text = {text}\n" if text.isprintable() else "")
        for i, row in enumerate(_rows(example, label_column), 1):
            if any(set(cell) & set("\t\n\r") or not cell.strip(" ") for cell in row):
                raise ValueError(
                    f"Sentence {number} cannot be written as CoNLL-U: {row} has a cell "
                    "that is blank or holds a tab or a line end"
                )
            parts.append("\t".join([str(i), *row]) + "\n")
        parts.append("\n")
    files.write_text(target, "".join(parts))


def _rows(example: Example, label_column: int) -> Iterator[list[str]]:
    """Yields the cells of each word, without its number."""
    starts = [start for start, _ in example.offsets or ()][1:]
    for i, token in enumerate(example.tokens):
        cells = [_NO_VALUE] * len(COLUMNS)
        cells[FORM] = token
        attributes = []
        label = (example.labels or ())[i]
        if label_column == MISC:
            if "|" in label:
                raise ValueError(f"MISC holds no |, but a label is {label!r}")
            attributes.append(f"{KEYS[0]}={label}")
        elif label == _NO_VALUE:
            raise ValueError(f"{_NO_VALUE} is no label in CoNLL-U: {token!r} has it")
        else:
            cells[label_column] = label
        if i < len(starts) and example.offsets and example.offsets[i][1] == starts[i]:
            attributes.append("SpaceAfter=No")
        cells[MISC] = "|".join(attributes) or _NO_VALUE
        yield cells[1:]


@dataclass
class _Reader:
    """Parses the lines of one file, and reports their problems."""

    report: Report
    token_column: int
    label_column: int | None

    has_entities: bool = False

    def example(self, document: int, block: _Block) -> Example:
        """Parses the lines of one sentence."""
        numbers, rows, last = [], [], 0
        expected = 1
        for number, text in block:
            cells = self._cells(number, text)
            if not cells:
                continue
            if no_word := _NO_WORD.fullmatch(cells[0]):
                last = self._check_no_word(number, text, no_word, (expected, last))
                continue
            self._check_word(number, text, cells, expected)
            expected = int(cells[0]) + 1 if _WORD.fullmatch(cells[0]) else expected + 1
            numbers.append(number)
            rows.append(cells)
        if not rows:
            line, text = block[0]
            problem = "expected a sentence with a word, got none"
            remedy = "A sentence has at least one line whose ID is a whole number."
            self.report.add(line, problem, text, remedy)
            return Example((), (), document, line)
        if last >= expected:
            problem = f"expected words up to {last}, which a range before names"
            self.report.add(numbers[-1], problem, block[-1][1], _RANGES)
        tokens = tuple(row[self.token_column] for row in rows)
        column = self.label_column
        labels = None if column is None else tuple(self._label(row) for row in rows)
        between = range(numbers[0], numbers[-1])
        skipped = tuple(sorted(set(between) - set(numbers)))
        return Example(tokens, labels, document, numbers[0], skipped)

    def _label(self, cells: list[str]) -> str:
        assert self.label_column is not None
        if self.label_column != MISC:
            return cells[self.label_column]
        label = _entity(cells[MISC])
        self.has_entities |= label is not None
        return "O" if label is None else label

    def _check_no_word(
        self, number: int, text: str, match: re.Match, state: tuple[int, int]
    ) -> int:
        """Checks the ID of a range or an empty node; returns the end of the last range.

        Args:
            number: Number of the line.
            text: The line.
            match: The parts of its ID.
            state: The number of the next word, and the end of the last range.
        """
        (expected, last), sign = state, match[2]
        first, second = int(match[1]), int(match[3])
        if sign == ".":
            if first != expected - 1 or second < 1:
                problem = f"expected an empty node {expected - 1}.1 or later"
                remedy = "An empty node follows the word that its ID begins with."
                self.report.add(number, f"{problem}, got {match[0]!r}", text, remedy)
            return last
        if first != expected or second <= first or first <= last:
            problem = f"expected a range from word {max(expected, last + 1)} to a later"
            self.report.add(number, f"{problem} one, got {match[0]!r}", text, _RANGES)
            return last
        return second

    def _cells(self, number: int, text: str) -> list[str]:
        """Splits a line into cells; reports a malformed one and returns no cells."""
        cells = text.split("\t")
        if "\r" in text:
            problem = "carriage return within the line"
            remedy = "Lines must end with LF or CRLF; convert or remove other CRs."
        elif text.startswith("#"):
            problem = "expected a word, got a comment within a sentence"
            remedy = "A blank line ends a sentence; put comments before the next one."
        elif len(cells) != len(COLUMNS):
            problem = f"expected {len(COLUMNS)} columns, with tabs, got {len(cells)}"
            remedy = (
                "Files named .conllu have the columns of CoNLL-U; give a file with a "
                "word and its label in each line another name, such as .conll."
            )
        else:
            return cells
        self.report.add(number, problem, text, remedy)
        return []

    def _check_word(
        self, number: int, text: str, cells: list[str], expected: int
    ) -> None:
        if cells[0] != str(expected):
            problem = f"expected word {expected} of its sentence, got {cells[0]!r}"
            remedy = "Words are numbered from 1, and a blank line ends a sentence."
            self.report.add(number, problem, text, remedy)
        for column in (self.token_column, self.label_column):
            if column not in (None, MISC) and not cells[column].strip(" "):
                problem = f"expected a {COLUMNS[column]}, got a blank"
                remedy = "Write it out; _ stands for no value."
                self.report.add(number, problem, text, remedy)
        column = self.label_column
        if column not in (None, MISC) and cells[column] == _NO_VALUE:
            problem = f"expected a label in {COLUMNS[column]}, got _ (no value)"
            remedy = (
                "Annotate the words, or set `label_column` to a column that is "
                f"annotated: {UPOS} is UPOS, {XPOS} XPOS."
            )
            self.report.add(number, problem, text, remedy)


def _blocks(lines: Iterable[str]) -> Iterator[tuple[int, _Block]]:
    """Groups lines by sentence: document, and lines with their numbers."""
    document = 0
    block: _Block = []
    for number, line in enumerate([*lines, ""], 1):
        if not line.strip(" \t"):
            if block:
                yield document, block
                block = []
        elif line.startswith("#") and not block:
            document += bool(_NEW_DOCUMENT.match(line))
        else:
            block.append((number, line))
