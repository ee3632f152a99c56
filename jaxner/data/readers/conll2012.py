"""Reads and writes CoNLL-2012 files (`…_conll`), with brackets for entities.

OntoNotes 5 is distributed in this format. One token per line, in at least 12 columns
separated by runs of spaces: document, part, word number, word, part of speech, parse,
lemma, frameset, sense, speaker, entities, arguments (one column per predicate),
coreference. `#begin document` precedes each document (or part of one), `#end document`
follows it.

Source: https://conll.cemantix.org/2012/data.html, "CoNLL format".
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from jaxner.data import schemes
from jaxner.data.readers import files
from jaxner.data.readers.examples import ConllError, Example, Report

NUMBER, WORD, POS, ENTITIES = 2, 3, 4, 10
_COLUMNS = 12  # minimum
_CELL = re.compile(r"(?:\(([^()*\s]+))?(\*?)(\))?")
_Block = list[tuple[int, list[str]]]


def read(
    path: str | os.PathLike[str],
    *,
    label_column: int = ENTITIES,
    encoding: str = "utf-8",
) -> list[Example]:
    r"""Reads the sentences of a CoNLL-2012 file, plain or gzipped.

    Args:
        path: The file; gzip is recognised by its content, not by its name.
        label_column: `ENTITIES`, whose brackets become BIO labels; or another column,
            such as `POS`, whose cells are the labels.
        encoding: Encoding of the text.

    Raises:
        ConllError: A line has too few columns, words are not numbered 0, 1, …, brackets
            do not match, a document begins within another, bytes do not match the
            encoding, or the file has no words.
        FileNotFoundError: The file is missing.

    Example:
        >>> import tempfile
        >>> from pathlib import Path
        >>> row = "nw/a 0 {} {} NNP * - - - - {} -\n"
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = Path(folder, "a.gold_conll")
        ...     text = row.format(0, "New", "(GPE*") + row.format(1, "York", "*)")
        ...     _ = path.write_text("#begin document (nw/a); part 000\n" + text)
        ...     read(path)[0].labels
        ('B-GPE', 'I-GPE')
    """
    report = Report(str(path))
    data = files.read_bytes(path)
    return parse(data, report, label_column=label_column, encoding=encoding)


def parse(
    data: bytes,
    report: Report,
    *,
    label_column: int = ENTITIES,
    encoding: str = "utf-8",
) -> list[Example]:
    """Reads the decompressed content of a file; see `read`."""
    lines = files.decode_lines(data, report, encoding)
    reader = _Reader(report, label_column)
    examples = [reader.example(*block) for block in reader.blocks(lines)]
    report.check(examples)
    return examples


def parse_all(paths: Iterable[Path], report: Report, **options: Any) -> list[Example]:
    """Reads several files as one, and numbers their documents consecutively.

    Args:
        paths: The files.
        report: Collects the problems of all files.
        **options: Options of `parse`.

    Raises:
        ConllError: As `read`, for any of the files.
    """
    examples: list[Example] = []
    for path in paths:
        own = Report(str(path))
        before = examples[-1].document if examples else 0
        try:
            found = parse(files.read_bytes(path), own, **options)
        except ConllError as error:
            report.problems += error.problems
            report.remedies += error.remedy_of
            continue
        for example in found:
            number = before + max(example.document, 1)
            moved = replace(example, document=number, path=str(path))
            examples.append(moved)
    report.check(examples)
    return examples


@dataclass
class _Reader:
    """Parses the lines of one file, and reports their problems."""

    report: Report
    label_column: int

    def blocks(self, lines: Sequence[str]) -> Iterator[tuple[int, _Block]]:
        """Groups lines by sentence: document, and cells with their line numbers."""
        document, is_open = 0, False
        block: _Block = []
        for number, line in enumerate([*lines, ""], 1):
            begins, ends = line.startswith("#begin"), line.startswith("#end")
            if not (begins or ends or not line.strip(" \t")):
                block.append((number, self._cells(number, line)))
                continue
            if block:
                yield document, block
                block = []
            if (begins and is_open) or (ends and not is_open):
                problem = "a document begins within another, or ends that never began"
                remedy = "Each #begin document needs one #end document after it."
                self.report.add(number, problem, line, remedy)
            document += begins
            is_open = begins or (is_open and not ends)

    def example(self, document: int, block: _Block) -> Example:
        """Parses the lines of one sentence."""
        first = block[0][0]
        rows = [(number, cells) for number, cells in block if cells]
        for expected, (number, cells) in enumerate(rows):
            if len(rows) == len(block) and cells[NUMBER] != str(expected):
                problem = (
                    f"expected word {expected} of its sentence, got {cells[NUMBER]!r}"
                )
                remedy = "Words are numbered from 0; a blank line ends a sentence."
                self.report.add(number, problem, " ".join(cells), remedy)
                break
        tokens = tuple(cells[WORD] for _, cells in rows)
        labels = tuple(cells[self.label_column] for _, cells in rows)
        if self.label_column == ENTITIES:
            labels = self._entities(rows)
        return Example(tokens, labels, document, first)

    def _cells(self, number: int, line: str) -> list[str]:
        cells = line.replace("\t", " ").split(" ")
        cells = [cell for cell in cells if cell]
        needed = max(_COLUMNS, self.label_column + 1)
        if "\r" in line:
            problem = "carriage return within the line"
            remedy = "Lines must end with LF or CRLF; convert or remove other CRs."
        elif len(cells) < needed:
            problem = f"expected at least {needed} columns, got {len(cells)}"
            remedy = (
                "CoNLL-2012 has words in column 3 and entities in column 10, from 0; "
                "read files with a word and its label in each line as conll."
            )
        else:
            return cells
        self.report.add(number, problem, line, remedy)
        return []

    def _entities(self, rows: _Block) -> tuple[str, ...]:
        """Returns the labels of brackets: `(GPE*`, `*`, `*)`; `(GPE)` for one word."""
        labels, current = [], ""
        for number, cells in rows:
            match = _CELL.fullmatch(cells[ENTITIES])
            begins, ends = (match[1], match[3]) if match else (None, None)
            if not match or (begins and current) or (ends and not (begins or current)):
                inside = f"within {current!r}" if current else "outside of brackets"
                problem = f"expected (TYPE*, *, *) or (TYPE), got another {inside}"
                remedy = "Entities must not overlap, and must end in their sentence."
                self.report.add(number, problem, cells[ENTITIES], remedy)
                begins = None
            kind = begins or current
            labels.append(f"{'B' if begins else 'I'}-{kind}" if kind else "O")
            current = "" if ends else kind
        if current:
            number, cells = rows[-1]
            problem = f"the sentence ends within the entity {current!r}"
            remedy = "Close its bracket: *) at its last word."
            self.report.add(number, problem, " ".join(cells), remedy)
        return tuple(labels)


def write(
    target: str | os.PathLike[str] | files.Writable,
    examples: Sequence[Example],
    *,
    label_column: int = ENTITIES,
) -> None:
    """Writes sentences as CoNLL-2012; `read` returns them.

    Unknown cells are `-`, or `*` in the columns of brackets. Sentences before the first
    document become a document, too.

    Args:
        target: A path, or a text file open for writing.
        examples: The sentences, with labels in any scheme.
        label_column: `ENTITIES`, or `POS` for tags.

    Raises:
        ValueError: A token or label cannot be written in this format.

    Example:
        >>> import sys
        >>> write(sys.stdout, [Example(("Rome",), ("B-GPE",), 1, 1)])
        #begin document (document_1); part 000
        document_1 0 0 Rome - * - - - - (GPE) -
        <BLANKLINE>
        #end document
    """
    files.write_text(target, "".join(_written(examples, label_column)))


def _written(examples: Sequence[Example], label_column: int) -> Iterator[str]:
    begun = 0
    before = bool(examples) and not examples[0].document
    for number, example in enumerate(examples):
        while begun < example.document + before:
            yield "#end document\n" * (begun > 0)
            begun += 1
            yield f"#begin document (document_{begun}); part 000\n"
        labels = example.labels or ()
        if label_column == ENTITIES:
            labels = _brackets(labels)
        for i, (token, label) in enumerate(zip(example.tokens, labels, strict=True)):
            cells = [f"document_{begun}", "0", str(i), token]
            cells += ["-", "*", "-", "-", "-", "-", "*", "-"]
            cells[label_column] = label
            if any(not cell or set(cell) & set(" \t\r\n") for cell in cells):
                raise ValueError(
                    f"Sentence {number} cannot be written as CoNLL-2012: {token!r} or "
                    f"{label!r} holds a blank, or is empty"
                )
            yield " ".join(cells) + "\n"
        yield "\n"
    yield "#end document\n" * (begun > 0)


def _brackets(labels: Sequence[str]) -> list[str]:
    cells = ["*"] * len(labels)
    for start, end, kind in schemes.to_spans(labels):
        if not re.fullmatch(r"[^()*\s]+", kind):
            raise ValueError(f"The type {kind!r} holds a blank, a bracket or a star")
        cells[start] = f"({kind})" if end - start == 1 else f"({kind}*"
        if end - start > 1:
            cells[end - 1] = "*)"
    return cells
