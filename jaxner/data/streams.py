"""Reads and writes texts larger than memory, one record at a time.

A record is a line of text, a sentence in columns, or a JSON object. An unreadable
record becomes a `Bad` object, so that the caller decides what to do with it.
"""

from __future__ import annotations

import contextlib
import io
import itertools
import json
import sys
import zlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from jaxner.data import formats, schemes
from jaxner.data.formats import DOCSTART, RAW
from jaxner.data.tokens import Tokenizer
from jaxner.wording import counted

MAX_LINE = 1 << 26
"""Maximum length of a line in bytes; a longer line is a bad record."""
MAX_TOKENS = 1 << 17
"""Maximum length of a sentence in tokens; a longer one is a bad record."""
_TOO_LONG = f"a sentence of more than {MAX_TOKENS:,} tokens; is a blank line missing?"


class Bad(NamedTuple):
    """An unreadable record.

    Attributes:
        index: Number of records before it.
        line: Number of its first line, from 1.
        problem: What is wrong with it.
        raw: Its text, or the beginning of it.
    """

    index: int
    line: int
    problem: str
    raw: str


class Piece(NamedTuple):
    """One sentence of a record.

    Attributes:
        tokens: The tokens.
        start: First character of the sentence in the record's text.
        offsets: First character and last character plus one of each token in the
            sentence; None if the record has no text.
    """

    tokens: tuple[str, ...]
    start: int = 0
    offsets: tuple[tuple[int, int], ...] | None = None


class Record(NamedTuple):
    """A readable record.

    Attributes:
        index: Number of records before it.
        line: Number of its first line, from 1.
        source: Its content: its text, its lines, or its JSON object.
        pieces: Its sentences; none for lines that are only copied.
        document: Number of its document.
        is_first: Whether it is a JSON object that begins a document.
    """

    index: int
    line: int
    source: Any
    pieces: tuple[Piece, ...]
    document: int = 0
    is_first: bool = False


@contextlib.contextmanager
def opened(path: str) -> Iterator[io.BufferedIOBase]:
    """Opens a file, or standard input for `-`, for reading; unpacks gzip."""
    if path != "-":
        with formats.open_binary(path) as file:
            yield file
        return
    source: Any = sys.stdin.buffer
    if source.peek(2)[:2] == b"\x1f\x8b":
        import gzip

        source = gzip.GzipFile(fileobj=source)
    yield source


@dataclass
class Source:
    """Reads the records of a stream, in bounded memory.

    Attributes:
        file: A decompressed file, open for reading bytes.
        format: One of `RAW`.
        tokenizer: Finds the tokens of a text; see `tokens.resolve`.
        split_sentences: Whether to split a text into sentences.
        token_column: Column of the tokens, from 0; for `conll`.
        comments: Prefix of comment lines before a sentence; for `conll`.
        encoding: Encoding of the text, in which a line end is one byte.
        max_line: Maximum length of a line in bytes.
        checksum: CRC-32 of the records read so far.

    Raises:
        ValueError: The format is unknown, or a line end is several bytes.
    """

    file: Any
    format: str
    tokenizer: str | Tokenizer | None = None
    split_sentences: bool = False
    token_column: int = 0
    comments: str | None = None
    encoding: str = "utf-8"
    max_line: int = MAX_LINE
    checksum: int = field(default=0, init=False)
    _document: int = field(default=0, init=False)
    _name: Any = field(default=None, init=False)

    def __post_init__(self) -> None:
        if self.format not in RAW:
            raise ValueError(f"Unknown format {self.format!r}; known: {', '.join(RAW)}")
        if "\n".encode(self.encoding) != b"\n":
            raise ValueError(
                f"{self.encoding} cannot be read line by line: convert the text to "
                f"UTF-8, for example with iconv -f {self.encoding} -t utf-8"
            )
        self._options = formats.Options(
            tokenizer=self.tokenizer, split_sentences=self.split_sentences
        )

    def __iter__(self) -> Iterator[Record | Bad]:
        """Yields the records, and updates `checksum` before each."""
        by_line = {"text": self._text, "jsonl": self._json}
        groups = self._blocks() if self.format == "conll" else self._lines()
        make = by_line.get(self.format, self._columns)
        for index, (line, raw) in enumerate(groups):
            self.checksum = zlib.crc32(b"".join(raw), self.checksum)
            try:
                record = make(index, line, [self._decoded(data) for data in raw])
                if any(len(piece.tokens) > MAX_TOKENS for piece in record.pieces):
                    raise ValueError(_TOO_LONG)
                yield record
            except ValueError as error:
                shown = b"\n".join(raw)[: 1 << 16].decode("utf-8", "replace")
                yield Bad(index, line, str(error), shown)

    def _decoded(self, data: bytes) -> str:
        if len(data) > self.max_line:
            raise ValueError(f"a line of more than {self.max_line:,} bytes")
        try:
            return data.decode(self.encoding)
        except UnicodeDecodeError as error:
            byte = f"byte 0x{data[error.start]:02x}"
            raise ValueError(f"{byte} is not {self.encoding}") from None

    def _each_line(self) -> Iterator[tuple[int, bytes]]:
        """Yields lines without line ends; only the beginning of a line too long."""
        for number in itertools.count(1):
            data = self.file.readline(self.max_line + 1)
            if not data:
                return
            rest = data
            while len(rest) > self.max_line and not rest.endswith(b"\n"):
                rest = self.file.readline(self.max_line + 1)
                if not rest:
                    break
            if number == 1 and data.startswith(b"\xef\xbb\xbf"):
                data = data[3:]
            too_long = len(data) > self.max_line and not data.endswith(b"\n")
            yield number, data if too_long else data.rstrip(b"\r\n")

    def _lines(self) -> Iterator[tuple[int, list[bytes]]]:
        for number, data in self._each_line():
            if data.strip():
                yield number, [data]

    def _blocks(self) -> Iterator[tuple[int, list[bytes]]]:
        """Groups lines by sentence; a line that begins a document is a group."""
        start, block = 0, []
        for number, data in self._each_line():
            mark = data[:11].rstrip(b" \t") == DOCSTART.encode()
            if block and (mark or not data.strip(b" \t")):
                yield start, block
                block = []
            if mark:
                yield number, [data]
            elif data.strip(b" \t"):
                start = start if block else number
                if len(block) <= MAX_TOKENS:  # drops the rest of a bad record
                    block.append(data)
        if block:
            yield start, block

    def _text(self, index: int, line: int, texts: list[str]) -> Record:
        found = formats.pieces(texts[0], self._options)
        pieces = tuple(Piece(s.tokens, s.start, s.offsets) for s in found)
        return Record(index, line, texts[0], pieces)

    def _columns(self, index: int, line: int, texts: list[str]) -> Record:
        if texts[0][:11].rstrip(" \t") == DOCSTART:
            self._document += 1
            return Record(index, line, texts, (), self._document)
        tokens = []
        for i, text in enumerate(texts):
            if not tokens and self.comments and text.startswith(self.comments):
                continue
            cells = text.split("\t") if "\t" in text else text.split(" ")
            cells = cells if "\t" in text else [cell for cell in cells if cell]
            if not -len(cells) <= self.token_column < len(cells):
                raise ValueError(
                    f"expected a token in column {self.token_column}, got "
                    f"{counted(len(cells), 'column')} in line {line + i}: {text[:80]!r}"
                )
            token = cells[self.token_column]
            if not token.strip(" ") or "\r" in text:
                raise ValueError(
                    f"a blank token or a carriage return in line {line + i}"
                )
            tokens.append(token)
        pieces = (Piece(tuple(tokens)),) if tokens else ()
        return Record(index, line, texts, pieces, self._document)

    def _json(self, index: int, line: int, texts: list[str]) -> Record:
        record = formats.load_json(texts[0])
        found = formats.json_pieces(record, self._options)
        pieces = tuple(Piece(s.tokens, s.start, s.offsets) for s in found)
        name = formats.json_document(record)
        is_first = name is not None and name != self._name
        if is_first:
            self._name, self._document = name, self._document + 1
        return Record(index, line, record, pieces, self._document, is_first)


def shard_of(record: Record | Bad, count: int, by_document: bool) -> int:
    """Returns the index of the process that tags a record.

    Args:
        record: The record.
        count: Number of processes.
        by_document: Whether to keep documents together.
    """
    if by_document and isinstance(record, Record):
        return record.document % count
    return record.index % count


@dataclass(frozen=True)
class Sink:
    """Formats records with their labels.

    Attributes:
        source: Format of the input, one of `RAW`.
        format: Format of the output: `conll` or `jsonl`.
        has_tags: Whether labels are tags, not spans.
    """

    source: str
    format: str
    has_tags: bool = False

    def text(self, record: Record, labels: Sequence[Sequence[str]]) -> str:
        """Returns a record as text, with the labels of each of its sentences.

        A line that begins a document is none as JSON: sentences have its number there.
        Nor are comments.
        """
        if self.format != self.source == "conll" and not record.pieces:
            return ""
        if self.format == "conll":
            return "".join(self._rows(record, labels))
        return json.dumps(self._object(record, labels), ensure_ascii=False) + "\n"

    def _rows(self, record: Record, labels: Iterable[Sequence[str]]) -> Iterator[str]:
        if not record.pieces and self.source == "conll":
            yield "".join(f"{line}\n" for line in record.source) + "\n"
        if record.is_first:
            yield f"{DOCSTART}\n\n"
        for piece, its in zip(record.pieces, labels, strict=True):
            rows: Sequence[str] = piece.tokens
            separator = "\t"
            if self.source == "conll":
                comments = len(record.source) - len(piece.tokens)
                yield from (f"{line}\n" for line in record.source[:comments])
                rows = record.source[comments:]
                separator = "\t" if "\t" in rows[0] else " "
            for row, label in zip(rows, its, strict=True):
                yield f"{row}{separator}{label}\n"
            yield "\n"

    def _object(
        self, record: Record, labels: Sequence[Sequence[str]]
    ) -> dict[str, Any]:
        pieces = record.pieces
        found: dict[str, Any] = {}
        if self.source == "jsonl":
            counts = sum(len(piece.tokens) for piece in pieces)
            found = formats.without_labels(record.source, counts)
        elif self.source == "text":
            found = {"text": record.source}
        elif record.document:
            found = {"document": record.document}
        has_text = found.get("text") is not None
        if self.has_tags or not has_text:
            tokens = [token for piece in pieces for token in piece.tokens]
            flat = [label for its in labels for label in its]
            return {**found, "tokens": tokens, "labels": flat}
        pairs = zip(pieces, labels, strict=True)
        return {**found, "spans": [span for pair in pairs for span in _spans(*pair)]}


def _spans(piece: Piece, labels: Sequence[str]) -> Iterator[dict[str, Any]]:
    assert piece.offsets is not None
    for start, end, kind in schemes.to_spans(labels):
        first = piece.start + piece.offsets[start][0]
        yield {
            "start": first,
            "end": piece.start + piece.offsets[end - 1][1],
            "label": kind,
        }
