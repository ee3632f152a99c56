"""CoNLL-U files: the treebanks of Universal Dependencies.

A word per line in ten columns, a blank line after each sentence, comments before it.
The words are the syntactic ones, which carry the annotation: of "don't" they are "do"
and "n't". As in `jaxner.data.conll`, nothing is repaired in silence, and all problems
of a file are reported together.

Source: https://universaldependencies.org/format.html
"""

import os
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from jaxner.data import conll
from jaxner.data.conll import Example, Report

COLUMNS: tuple[str, ...] = (
    *("ID", "FORM", "LEMMA", "UPOS", "XPOS"),
    *("FEATS", "HEAD", "DEPREL", "DEPS", "MISC"),
)
FORM, UPOS, XPOS = 1, 3, 4

_NO_VALUE = "_"
_WORD = re.compile("[0-9]+")
# Several words written as one (1-2), and words that are only understood (1.1).
_NO_WORD = re.compile("[0-9]+[-.][0-9]+")
_NEW_DOCUMENT = re.compile(r"#\s*newdoc(\s|$)")

_Block = list[tuple[int, str]]


def is_conllu(path: str | os.PathLike[str]) -> bool:
    """Tells by its name whether a file is read as CoNLL-U.

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

    - Lines of several words (ID `1-2`) and of empty nodes (`1.1`) are skipped.
    - A comment `# newdoc` begins a document; other comments are skipped.
    - Lines end with LF or CRLF. A byte order mark at the beginning is skipped.
    - `_` is a word like any other, but no label: it stands for "no value".

    Args:
        path: The file; gzip is told by its content, not by its name.
        token_column: Column of the token, from 0 (or from the end, if negative).
        label_column: Column of the label, such as `UPOS` or `XPOS`, or None to read no
            labels.
        encoding: Encoding of the text.

    Returns:
        The sentences in the file's order.

    Raises:
        ConllError: A line has not ten columns, words are not numbered 1, 2, …, a token
            or label is missing, a comment stands within a sentence, bytes are not text
            of the encoding, or there is no word.
        FileNotFoundError: There is no such file.
        ValueError: CoNLL-U has no such column.

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
    wanted = [token_column] if label_column is None else [token_column, label_column]
    for column in wanted:
        if not -len(COLUMNS) <= column < len(COLUMNS):
            known = ", ".join(f"{i} {name}" for i, name in enumerate(COLUMNS))
            raise ValueError(f"{path}: CoNLL-U has no column {column}; it has {known}")
    if label_column is not None and (token_column - label_column) % len(COLUMNS) == 0:
        raise ValueError(
            f"{path}: column {token_column} is to be both token and label; CoNLL-U has "
            f"tags in the columns {UPOS} (UPOS) and {XPOS} (XPOS)"
        )
    report = Report(str(path))
    lines = conll.decode_lines(conll.read_bytes(path), report, encoding)
    reader = _Reader(report, token_column, label_column)
    examples = [reader.example(*block) for block in _blocks(lines)]
    report.check(examples)
    return examples


@dataclass
class _Reader:
    """Makes examples of blocks of lines, and reports what is wrong with them."""

    report: Report
    token_column: int
    label_column: int | None

    def example(self, document: int, block: _Block) -> Example:
        """Makes an example of the lines of one sentence."""
        numbers, rows = [], []
        expected = 1
        for number, text in block:
            cells = self._cells(number, text)
            if not cells or _NO_WORD.fullmatch(cells[0]):
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
        tokens = tuple(row[self.token_column] for row in rows)
        column = self.label_column
        labels = None if column is None else tuple(row[column] for row in rows)
        between = range(numbers[0], numbers[-1])
        skipped = tuple(sorted(set(between) - set(numbers)))
        return Example(tokens, labels, document, numbers[0], skipped)

    def _cells(self, number: int, text: str) -> list[str]:
        """Splits a line; reports one that can not be, and returns nothing for it."""
        cells = text.split("\t")
        if "\r" in text:
            problem = "carriage return within the line"
            remedy = "Lines must end with LF or CRLF; convert or remove other CRs."
        elif text.startswith("#"):
            problem = "expected a word, got a comment within a sentence"
            remedy = "A blank line ends a sentence; comments stand before the next one."
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
            if column is not None and not cells[column].strip(" "):
                problem = f"expected a {COLUMNS[column]}, got a blank"
                remedy = "Write it out; _ stands for no value."
                self.report.add(number, problem, text, remedy)
        if (column := self.label_column) is not None and cells[column] == _NO_VALUE:
            problem = f"expected a label in {COLUMNS[column]}, got _, that is none"
            remedy = (
                "Annotate the words, or set label_column to a column that is "
                f"annotated: {UPOS} is UPOS, {XPOS} XPOS."
            )
            self.report.add(number, problem, text, remedy)


def _blocks(lines: Iterable[str]) -> Iterator[tuple[int, _Block]]:
    """Groups lines to sentences: document, and lines with their numbers."""
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
