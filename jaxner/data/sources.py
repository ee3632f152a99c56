"""Files of text: how they are opened, decoded and cut into records.

A reader is a generator of `Record`s from a `Source`; it holds one record at a time.
"""

from __future__ import annotations

import codecs
import contextlib
import dataclasses
import gzip
import hashlib
import io
import os
import re
import sys
import zlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any, NamedTuple

from jaxner import fields, outputs
from jaxner.data import tokens
from jaxner.data.tokens import Tokenizer
from jaxner.errors import InputError
from jaxner.wording import counted

BLANK_HINT = "; to leave out blank tokens, set blank to drop"
DOCUMENT = ("document", "document_id", "doc_id", "doc")
"""Usual names of a column, or of a field in JSON, of documents; the first counts."""
MAX_LINE = 1 << 26  # characters; a longer line is an error
MAX_TOKENS = 1 << 17  # tokens of a sentence to tag; a longer one is an error

_FOREIGN = {
    # Of bzip2, xz, zip and Zstandard.
    "an archive: unpack it": rb"BZh\d1AY&SY|\xfd7zXZ\0|PK\x03\x04|\x28\xb5\x2f\xfd",
    "Arrow": rb"ARROW1|\xff\xff\xff\xff",
    "Parquet": rb"PAR1\x15",
    "WebAnno TSV, as of INCEpTION: export CoNLL 2002": rb"#FORMAT=W",
    "PDF": rb"%PDF-",
}
"""How files begin that are no text, and no gzip; perhaps with a remedy."""
_UNREADABLE = re.compile("[\udc80-\udcff]")  # bytes that are not in the encoding


@dataclasses.dataclass(frozen=True)
class Example:
    """One sentence, with tokens and labels as in the file."""

    tokens: tuple[str, ...]
    labels: tuple[str, ...] = ()
    document: int = 0  # documents begun before it, as by `-DOCSTART-` lines
    lines: Sequence[int] = ()  # of each token, from 1; or numbers of its `unit`
    text: str | None = None  # before tokenisation, if the file contains it
    # First character and last character plus one of each token in `text`.
    offsets: tuple[tuple[int, int], ...] | None = None
    path: str | None = None  # if several files were read
    start: int = 0  # first character of `text` in the whole text
    unit: str = "line"  # or a record of a JSON array, or a document

    @contextlib.contextmanager
    def naming(self) -> Iterator[None]:
        """Names the sentence in errors about what cannot be written of it."""
        try:
            yield
        except InputError as error:
            place = self.place(0) if self.lines else shown(" ".join(self.tokens))
            raise InputError(f"{place}: {error.message}", self.path) from None

    def place(self, position: int) -> str:
        """Returns where a token is in its file, such as "line 7"."""
        return f"{self.unit} {self.lines[position]}"


@dataclasses.dataclass(frozen=True)
class Reading:
    """How to read a file, as a run's config says it; None: the format's default.

    Attributes:
        token_column: Column of the tokens, from 0; from the end if negative.
        label_column: Column of the labels; in CoNLL-U, 3 is UPOS, 4 XPOS, 9 MISC.
        comments: Prefix of comment lines before a sentence, in columns.
        encoding: Encoding of the text.
        blank: What to do with blank tokens; those dropped are counted.
        unfit: What to do with spans that do not match tokens.
        offsets: Unit of the offsets of spans.
        label_names: Names of labels that JSON lines have as numbers, as in
            O,B-PER,I-PER.
        tokenizer: Tokenizer for raw text, also of the trained tagger; default: words.
        split_sentences: Split raw text into sentences, but not within a span.
    """

    token_column: fields.Column | None = None
    label_column: fields.Column | None = None
    comments: str | None = None
    encoding: fields.Encoding = "utf-8"
    blank: Annotated[str, fields.OneOf(("error", "drop"))] = "error"
    unfit: Annotated[str, fields.OneOf(("error", "drop", "widen"))] = "error"
    offsets: Annotated[str, fields.OneOf(("characters", "utf-16"))] = "characters"
    label_names: str | Sequence[str] | None = None
    tokenizer: Annotated[str, fields.OneOf(tokens.TOKENIZERS)] | None = None
    split_sentences: bool = False


@dataclasses.dataclass(frozen=True)
class Options(Reading):
    """How to read a file.

    Attributes:
        tags: Read labels as tags, not as spans; some formats have columns for both.
        tokenizer: Tokenizer for raw text; default: the run's, or words.
    """

    tags: bool = False
    tokenizer: Annotated[str, fields.OneOf(tokens.TOKENIZERS)] | Tokenizer | None = None

    def __post_init__(self) -> None:
        fields.check_fields(self)


class Note(NamedTuple):
    """What a reader left out or changed, and the line."""

    message: str
    line: int | None = None


Items = Sequence[Example | InputError | Note]
"""Sentences, errors and notes of a record; what has no place gets the record's."""


class Record(NamedTuple):
    """What a reader takes from a file at once: a sentence, a text, an object."""

    line: int  # number of the first, from 1; or of its unit, as in `Example`
    lines: Sequence[str]  # as they stand, without their ends; none in a binary file
    parse: Callable[[], Items]  # may raise an InputError; what costs time is here
    document: int = 0  # documents begun before it, with its own
    is_first: bool = False  # whether it is an object that begins a document
    content: dict[str, Any] | None = None  # its JSON object, or its text as one
    unit: str = "line"


@contextlib.contextmanager
def opened(path: str | os.PathLike[str]) -> Iterator[io.BufferedIOBase]:
    """Opens a file, or standard input for `-`, for reading bytes; unpacks gzip."""
    check_file(path)
    if str(path) == "-" and sys.stdin.buffer.closed:
        raise InputError("Standard input can be read once: name a file")
    with sys.stdin.buffer if str(path) == "-" else Path(path).open("rb") as buffer:
        file: Any = buffer
        head = file.peek(10)
        if kind := next((x for x in _FOREIGN if re.match(_FOREIGN[x], head)), ""):
            raise InputError(f"expected text, plain or gzipped, got {kind}", path)
        is_zipped = head[:2] == b"\x1f\x8b"
        try:
            yield gzip.GzipFile(fileobj=file) if is_zipped else file
        except (EOFError, zlib.error, gzip.BadGzipFile) as error:
            raise InputError(f"damaged gzip file ({error})", path) from None


def check_file(path: str | os.PathLike[str]) -> None:
    """Raises an error if there is no file, which is not opened; `-` is one."""
    if os.path.isdir(path):
        raise IsADirectoryError(f"Expected a file, {path} is a folder")
    if str(path) != "-" and not os.path.exists(path):
        names = sorted(entry.name for entry in Path(path).parent.glob("[!.]*"))[:20]
        names = ", ".join(names) or "nothing"
        raise FileNotFoundError(f"No file {path}; beside it: {names}")


class Source:
    """A file, or the files of a folder in turn, as a reader sees them."""

    def __init__(
        self, path: str | os.PathLike[str], options: Options, has_labels: bool = True
    ):
        self.path, self.options, self.has_labels = Path(path), options, has_labels
        self._top = self.path
        self.notes: list[str] = []  # what readers left out or changed
        self.header = 0  # number of the line that names columns
        self.split: Callable[[str], list[str]] = str.split  # a line of columns
        self.share = 0.0  # of the file's bytes that `lines` has read
        self._digest = hashlib.sha256()

    @property
    def sha256(self) -> str:
        """Checksum of all decompressed bytes that were read."""
        return self._digest.hexdigest()

    def parse(self, record: Record) -> tuple[list[Example], list[InputError]]:
        """Returns the sentences of a record, and its errors; keeps its notes."""
        examples, errors = [], []
        try:
            items = record.parse()
        except InputError as error:
            message = ": ".join([error.message, *map(shown, record.lines[:1])])
            items = [InputError(message, error.path, error.line)]
        for item in items:
            if isinstance(item, Note):
                self.note(item.message, item.line or record.line, record.unit)
            elif isinstance(item, InputError):
                path, line = item.path or self.path, item.line or record.line
                errors.append(InputError(item.message, path, line, record.unit))
            elif len(item.tokens) > MAX_TOKENS and not self.has_labels:
                message = f"a sentence of more than {MAX_TOKENS:,} tokens"
                errors.append(InputError(message, self.path, record.line, record.unit))
            else:
                origin: dict[str, Any] = {"document": record.document}
                if not item.lines:
                    lines = (record.line,) * len(item.tokens)
                    origin |= {"lines": lines, "unit": record.unit}
                examples.append(dataclasses.replace(item, **origin))
        return examples, errors

    def error(self, line: int, message: str, text: str) -> InputError:
        """Returns an error about a line, which shows the text."""
        return InputError(f"{message}: {shown(text)}", self.path, line)

    def note(self, message: str, line: int | None = None, unit: str = "line") -> None:
        """Keeps what a reader left out or changed; names a file of a folder."""
        file = None if self.path == self._top else self.path
        place = "" if line is None else f"{unit} {line}: "
        self.notes.append(str(InputError(place + message, file)))

    def note_cases(
        self, lines: Sequence[int], noun: str, text: str, unit: str = "line"
    ) -> None:
        """Keeps the number of cases, {} in the text, and the first; none if none."""
        if lines:
            self.note(text.format(counted(len(lines), noun)), lines[0], unit)

    def bytes(self, path: Path) -> bytes:
        """Returns the decompressed bytes of a file."""
        with opened(path) as file:
            data = file.read()
        self._digest.update(data)
        return data

    def text(self, path: Path) -> str:
        """Returns the text of a file, without byte order mark."""
        data = self.bytes(path)
        try:
            return data.decode(self.options.encoding).removeprefix("\ufeff")
        except UnicodeDecodeError as error:
            line = data.count(b"\n", 0, error.start) + 1
            is_wide = data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
            message = self._undecodable(data[error.start], is_wide)
            raise InputError(message, path, line) from None

    def lines(self) -> Iterator[str]:
        """Yields the lines of the file, which end at LF or CRLF and nowhere else.

        Of a line that is too long, only the beginning is yielded: see `flaw`.
        """
        number = 0
        size = self.path.stat().st_size if self.path.is_file() else 0
        with opened(self.path) as file:
            raw_file: Any = getattr(file, "fileobj", file)

            def watch(data: bytes) -> None:
                self._digest.update(data)
                self.share = raw_file.tell() / size if size else 0.0

            encoding = self.options.encoding
            reader: Any = _Watched(file, watch)
            text = io.TextIOWrapper(reader, encoding, "surrogateescape", newline="\n")
            try:
                line = text.readline(MAX_LINE + 1).removeprefix("\ufeff")
                while line:
                    number, rest = number + 1, line
                    while len(rest) > MAX_LINE and rest[-1] != "\n":
                        rest = text.readline(MAX_LINE + 1)
                    yield line.removesuffix("\n").removesuffix("\r")
                    line = text.readline(MAX_LINE + 1)
            except UnicodeDecodeError as error:  # not a single byte, as in UTF-16
                message = self._undecodable(error.object[error.start])
                raise InputError(message, self.path, number + 1) from None

    def flaw(self, line: str) -> str:
        """Returns why a line cannot be read; empty if it can."""
        if len(line) > MAX_LINE:
            return f"a line of more than {MAX_LINE:,} characters"
        if match := _UNREADABLE.search(line):
            is_wide = line.startswith(("\udcff\udcfe", "\udcfe\udcff"))
            return self._undecodable(ord(match[0]) - 0xDC00, is_wide)
        return ""

    def _undecodable(self, byte: int, is_wide: bool = False) -> str:
        message = f"byte 0x{byte:02x} is not {self.options.encoding}; "
        return f"{message}set encoding to that of the file{', utf-16' * is_wide}"


class _Watched(io.BufferedIOBase):
    """A file that calls a function with the bytes that are read."""

    def __init__(self, file: io.BufferedIOBase, watch: Callable[[bytes], None]):
        self._file, self._watch = file, watch

    def readable(self) -> bool:
        return True

    def read1(self, size: int = -1, /) -> bytes:
        data = self._file.read1(size)
        self._watch(data)
        return data


def shown(text: str) -> str:
    """Returns a text in quotes, cut if it is long."""
    is_short = len(text) <= 80 and len(repr(text)) <= 80
    return repr(text if is_short else f"{text[:80]}...")


# What writers share

_HALVES = re.compile("[\ud800-\udfff]")


def cell(text: str, delimiters: str) -> str:
    """Returns a text; raises InputError if it could not be read back."""
    is_blank = not text.strip(" \t\r\n")
    if is_blank or _HALVES.search(text) or not {*delimiters}.isdisjoint(text):
        message = f"{text!r} could not be read back: it is blank, or holds half a "
        raise InputError(f"{message}character or one of {delimiters!r}")
    return text


def write_text(path: str | os.PathLike[str], text: str) -> None:
    """Writes a file atomically, in UTF-8; a path that ends with `.gz` is compressed."""
    # Readers skip the first byte order mark; one within a token needs another before.
    data = (text[:1].replace("\ufeff", "\ufeff\ufeff") + text[1:]).encode()
    with outputs.writing(path) as file:
        # Without a timestamp, equal content gives equal bytes.
        is_zipped = Path(path).suffix == ".gz"
        file.write(gzip.compress(data, mtime=0) if is_zipped else data)
