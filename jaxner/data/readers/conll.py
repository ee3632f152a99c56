"""Reads and writes labelled sentences in columns, such as CoNLL-2003 and WNUT-17.

One token per line, a blank line after each sentence. The reader never drops, cuts or
repairs anything in silence, and reports all problems of a file together, each with its
line.
"""

import itertools
import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from jaxner.data.readers import files
from jaxner.data.readers.examples import ConllError as ConllError
from jaxner.data.readers.examples import Example, Report, readable
from jaxner.data.readers.files import Writable
from jaxner.wording import counted

DOCSTART = "-DOCSTART-"


def read(
    path: str | os.PathLike[str],
    *,
    token_column: int = 0,
    label_column: int | None = -1,
    comments: str | None = None,
    encoding: str = "utf-8",
) -> list[Example]:
    r"""Reads the sentences of a column-formatted file, plain or gzipped.

    - The first token line sets the number of columns. A line with a tab is split at its
      tabs, so that a token may contain spaces. Other lines are split at runs of spaces,
      unless the file's first token line has tabs. No other character separates cells: a
      no-break space or a line separator (U+2028) belongs to its token.
    - Lines end with LF or CRLF. A line of only spaces and tabs, or the end of the file,
      ends a sentence. A byte order mark at the start of the file is skipped.
    - A line whose first cell is `-DOCSTART-` starts a document; its number of columns
      does not matter.
    - `#` starts a token like any other character, such as a hashtag. If `comments` is
      given, lines that start with it are skipped before a sentence, not within one.

    Args:
        path: The file; gzip is recognised by its content, not by its name.
        token_column: Column of the token, from 0 (or from the end, if negative).
        label_column: Column of the label, or None to read no labels.
        comments: Prefix of comment lines, such as `"# "`.
        encoding: Encoding of the text.

    Returns:
        The sentences in the order of the file; each has at least one token.

    Raises:
        ConllError: Lines differ in their number of columns, tokens or labels are blank,
            bytes do not match the encoding, or the file has no tokens.
        FileNotFoundError: The file is missing.

    Example:
        >>> import tempfile
        >>> from pathlib import Path
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = Path(folder, "train.conll")
        ...     _ = path.write_text("EU NNP I-ORG\nrejects VBZ O\n")
        ...     read(path)[0].labels
        ('I-ORG', 'O')
    """
    report = Report(str(path))
    data = files.read_bytes(path)
    return parse(
        data,
        report,
        token_column=token_column,
        label_column=label_column,
        comments=comments,
        encoding=encoding,
    )


def parse(
    data: bytes,
    report: Report,
    *,
    token_column: int = 0,
    label_column: int | None = -1,
    comments: str | None = None,
    encoding: str = "utf-8",
) -> list[Example]:
    """Reads the decompressed content of a file; see `read`."""
    wanted = [token_column] if label_column is None else [token_column, label_column]
    sheet = _Sheet(report, wanted)
    lines = files.decode_lines(data, report, encoding)
    examples = [sheet.example(*block) for block in _blocks(lines, comments)]
    report.check(examples)
    return examples


def write(
    target: str | os.PathLike[str] | Writable,
    sentences: Iterable[Iterable[Sequence[str]]],
    *,
    separator: str = " ",
    documents: Sequence[int] | None = None,
) -> None:
    r"""Writes sentences as columns, one token per line; `read` returns them.

    Files are written atomically. A path that ends with `.gz` is compressed.

    Args:
        target: A path, or a text file open for writing.
        sentences: The rows of each sentence. All rows have equally many cells: the
            token, then labels, predictions or anything else.
        separator: `" "`, or `"\t"` if cells contain spaces.
        documents: `Example.document` of each sentence; each increase by one becomes a
            `-DOCSTART-` line.

    Raises:
        ValueError: A cell is blank or contains a separator or line end, rows differ in
            length, a sentence is empty, or document numbers decrease or are too few.

    Example:
        >>> import sys
        >>> write(sys.stdout, [zip(["EU", "rejects"], ["I-ORG", "O"])])
        EU I-ORG
        rejects O
        <BLANKLINE>
    """
    if separator not in (" ", "\t"):
        raise ValueError(f"Unknown separator {separator!r}; known: ' ' and '\\t'")
    text = "".join(_written(list(sentences), separator, documents))
    files.write_text(target, text)


@dataclass
class _Sheet:
    """Parses the lines of one file, and reports their problems."""

    report: Report
    wanted: list[int]  # the columns of tokens and, if wanted, of labels
    columns: int = 0  # unknown until the first token line
    has_tabs: bool = False
    remedy: str = ""

    def example(self, document: int, line: int, lines: Sequence[str]) -> Example:
        """Parses the token lines of one sentence."""
        if not self.columns:
            self._measure(line, lines[0])
        rows = [self._cells(line + offset, text) for offset, text in enumerate(lines)]
        tokens, *labels = (
            tuple([row[column] for row in rows if row]) for column in self.wanted
        )
        line, skipped = readable(line, rows)
        return Example(tokens, labels[0] if labels else None, document, line, skipped)

    def _split(self, text: str) -> list[str]:
        # Not str.split(): it would split tokens at no-break spaces and control codes.
        if self.has_tabs or "\t" in text:
            return text.split("\t")
        cells = text.split(" ")
        return [cell for cell in cells if cell] if "" in cells else cells

    def _measure(self, line: int, text: str) -> None:
        self.has_tabs = "\t" in text
        count = self.columns = len(self._split(text))
        self.remedy = f"Each token line needs as many columns as line {line}."
        if text.startswith("#"):
            self.remedy = f"If line {line} is a comment, set `comments='#'`."
        places = {c % count for c in self.wanted if -count <= c < count}
        if len(places) < len(self.wanted):
            columns = ", ".join(map(str, self.wanted))
            problem = f"expected tokens and labels in columns {columns}, got {count}"
            remedy = "Set `token_column` and `label_column` to two columns of the file."
            if count == 1:
                problem = "expected a token and a label, got one column"
                remedy = "Separate columns by tabs or blanks"
                remedy += ", not commas." if "," in text else "."
            self.report.add(line, problem, text, remedy)
            self.report.check()

    def _cells(self, line: int, text: str) -> list[str]:
        cells = self._split(text)
        if "\r" in text:
            problem = "carriage return within the line"
            remedy = "Lines must end with LF or CRLF; convert or remove other CRs."
        elif len(cells) != self.columns:
            wanted = counted(self.columns, "column")
            problem = f"expected {wanted}, got {len(cells)}"
            remedy = self.remedy
        elif not all(cells[column].strip(" ") for column in self.wanted):
            problem = "the token or the label is blank"
            remedy = "Write out the token; no entity is O."
        else:
            return cells
        self.report.add(line, problem, text, remedy)
        return []


def _blocks(
    lines: Iterable[str], comments: str | None
) -> Iterator[tuple[int, int, list[str]]]:
    """Groups token lines by sentence: document, number of the first line, lines."""
    document = 0
    block: list[str] = []
    for number, line in enumerate(itertools.chain(lines, [""]), 1):
        starts_document = line.startswith(DOCSTART) and line[10:11] in ("", " ", "\t")
        if starts_document or not line.strip(" \t"):
            if block:
                yield document, number - len(block), block
                block = []
            document += starts_document
        elif block or comments is None or not line.startswith(comments):
            block.append(line)


def _written(
    sentences: Sequence[Iterable[Sequence[str]]],
    separator: str,
    documents: Sequence[int] | None,
) -> Iterator[str]:
    document, width = 0, 0
    numbers = [0] * len(sentences) if documents is None else documents
    steps = zip(sentences, numbers, strict=True)
    for number, (sentence, next_document) in enumerate(steps):
        rows = [list(row) for row in sentence]
        width = width or len(rows[0] if rows else ())
        if not rows or next_document < document:
            problem = "a lower document than the last one" if rows else "no tokens"
            raise ValueError(f"Sentence {number} has {problem}: could not be read back")
        bound = separator.join([DOCSTART, *["O"] * (width - 1)]) + "\n\n"
        yield bound * (next_document - document)
        document = next_document
        for row in rows:
            # A file with one column has no tabs that show the reader its separator.
            blanks = " \t" if separator == " " or width == 1 else "\t"
            bad = [c for c in row if not c.strip(" ") or set(c) & set(f"\r\n{blanks}")]
            if bad or len(row) != width or row[0] == DOCSTART:
                raise ValueError(
                    f"Sentence {number} could not be read back: {row}; expected {width}"
                    f" cells, not blank nor {DOCSTART}, without line end or {blanks!r}"
                )
            yield separator.join(row) + "\n"
        yield "\n"
