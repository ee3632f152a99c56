"""Reads and writes tables with a header: one token per line, columns between tabs.

A blank line ends a sentence. If there is a column for sentences or documents, a new
value in it also ends one. Cells are not quoted.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from jaxner.data.readers import files
from jaxner.data.readers.examples import Example, Report, readable

TOKEN = ("token", "tokens", "word", "words", "form")
LABEL = ("label", "labels", "ner", "ner_tag", "ner_tags", "entity", "tag", "tags")
SENTENCE = ("sentence", "sentence #", "sentence_id", "sent_id", "sent")
DOCUMENT = ("document", "document_id", "doc_id", "doc")
"""Accepted names of columns, in any case; the first one in the header counts."""


def read(
    path: str | os.PathLike[str],
    *,
    token_column: int | None = None,
    label_column: int | None = None,
    encoding: str = "utf-8",
) -> list[Example]:
    r"""Reads the sentences of a table with a header, plain or gzipped.

    Args:
        path: The file; gzip is recognised by its content, not by its name.
        token_column: Column of the token, from 0; None: found by its name.
        label_column: Column of the label, from 0; None: found by its name.
        encoding: Encoding of the text.

    Raises:
        ConllError: The header lacks these columns, lines differ in their number of
            columns, cells are blank, bytes do not match the encoding, or there are no
            tokens.
        FileNotFoundError: The file is missing.

    Example:
        >>> import tempfile
        >>> from pathlib import Path
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = Path(folder, "train.tsv")
        ...     _ = path.write_text("Word\tPOS\tTag\nMilan\tNNP\tB-ORG\n")
        ...     read(path)[0].labels
        ('B-ORG',)
    """
    report = Report(str(path))
    data = files.read_bytes(path)
    columns = {"token_column": token_column, "label_column": label_column}
    return parse(data, report, **columns, encoding=encoding)


def parse(
    data: bytes,
    report: Report,
    *,
    token_column: int | None = None,
    label_column: int | None = None,
    encoding: str = "utf-8",
) -> list[Example]:
    """Reads the decompressed content of a file; see `read`."""
    lines = files.decode_lines(data, report, encoding)
    table = _Table(report, lines[0].split("\t"), (token_column, label_column))
    examples = list(table.examples(lines))
    report.check(examples)
    return examples


def has_header(line: str) -> bool:
    r"""Returns whether a line names a column of tokens and one of labels.

    Example:
        >>> has_header("Sentence #\tWord\tPOS\tTag"), has_header("Milan\tB-ORG")
        (True, False)
    """
    names = [cell.strip().lower() for cell in line.split("\t")]
    return any(n in TOKEN for n in names) and any(n in LABEL for n in names)


@dataclass
class _Table:
    """Parses the lines of one file, and reports their problems."""

    report: Report
    header: Sequence[str]
    given: tuple[int | None, int | None]
    token: int = field(init=False)
    label: int = field(init=False)

    def __post_init__(self) -> None:
        places = [
            self._find(TOKEN) if self.given[0] is None else self.given[0],
            self._find(LABEL) if self.given[1] is None else self.given[1],
        ]
        width = len(self.header)
        there = [p % width for p in places if p is not None and -width <= p < width]
        if len(set(there)) < 2:
            problem = f"expected a header with a token ({', '.join(TOKEN)}) and a label"
            remedy = "Or name the columns by number: `token_column`, `label_column`."
            text = "\t".join(self.header)
            self.report.add(1, f"{problem} ({', '.join(LABEL)}), got", text, remedy)
            self.report.check()
        self.token, self.label = there

    def _find(self, known: Sequence[str]) -> int | None:
        names = [cell.strip().lower() for cell in self.header]
        return next((names.index(name) for name in known if name in names), None)

    def examples(self, lines: Sequence[str]) -> Iterator[Example]:
        """Yields the sentences."""
        bounds = [c for c in map(self._find, (SENTENCE, DOCUMENT)) if c is not None]
        bounds = [c for c in bounds if c not in (self.token, self.label)]
        document_column = self._find(DOCUMENT)
        last = dict.fromkeys(bounds, "")
        document, start = 0, 0
        block: list[list[str]] = []
        for number, line in enumerate([*lines[1:], ""], 2):
            cells = self._cells(number, line) if line.strip(" \t") else []
            # A blank cell means "as above".
            new = {c: cells[c] for c in bounds if cells and cells[c].strip(" ")}
            changed = [c for c in new if new[c] != last[c]]
            if block and (changed or not line.strip(" \t")):
                yield self._example(block, document, start)
                block = []
            last |= new
            document += document_column in changed
            if line.strip(" \t"):
                start = start if block else number
                block.append(cells)

    def _example(self, rows: list[list[str]], document: int, line: int) -> Example:
        tokens, labels = (
            tuple(row[column] for row in rows if row)
            for column in (self.token, self.label)
        )
        line, skipped = readable(line, rows)
        return Example(tokens, labels, document, line, skipped)

    def _cells(self, number: int, line: str) -> list[str]:
        cells = line.split("\t")
        if "\r" in line:
            problem = "carriage return within the line"
            remedy = "Lines must end with LF or CRLF; convert or remove other CRs."
        elif len(cells) != len(self.header):
            problem = f"expected {len(self.header)} columns, got {len(cells)}"
            remedy = "Each line needs as many columns as the header."
        elif not all(cells[c].strip(" ") for c in (self.token, self.label)):
            problem = "the token or the label is blank"
            remedy = "Write out the token; no entity is O."
        else:
            return cells
        self.report.add(number, problem, line, remedy)
        return []


def write(
    target: str | os.PathLike[str] | files.Writable, examples: Sequence[Example]
) -> None:
    r"""Writes sentences as a table with a header; `read` returns them.

    Args:
        target: A path, or a text file open for writing.
        examples: The sentences, with labels.

    Raises:
        ValueError: A token or label is blank, or contains a tab or a line end.

    Example:
        >>> import io
        >>> file = io.StringIO()
        >>> write(file, [Example(("Rome",), ("B-LOC",), 0, 1)])
        >>> file.getvalue()
        'token\tlabel\nRome\tB-LOC\n\n'
    """
    has_documents = any(example.document for example in examples)
    parts = ["document\t" * has_documents + "token\tlabel\n"]
    for number, example in enumerate(examples):
        # A sentence before the first document has a blank cell.
        before = [str(example.document or "")] * has_documents
        for row in zip(example.tokens, example.labels or (), strict=True):
            if any(set(cell) & set("\t\r\n") or not cell.strip(" ") for cell in row):
                raise ValueError(
                    f"Sentence {number} cannot be written as a table: {row} has a cell "
                    "that is blank or holds a tab or a line end"
                )
            parts.append("\t".join([*before, *row]) + "\n")
        parts.append("\n")
    files.write_text(target, "".join(parts))
