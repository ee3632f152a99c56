"""Labelled text: sentences, and the formats of files that hold them.

`read` returns the sentences of a file or folder, `write` writes them. A reader is a
generator of sentences from a `File`, a writer one of lines; a format is an entry in
`FORMATS`. Readers lose nothing in silence: they neither drop, cut nor repair tokens,
labels or characters. The first bad line is an error that names file and line; with a
list for errors, readers go on and collect the errors of all lines.
"""

from __future__ import annotations

import bisect
import dataclasses
import functools
import gzip
import hashlib
import itertools
import json
import os
import re
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Protocol, cast, runtime_checkable

from jaxner import writing
from jaxner.data import schemes, tokens
from jaxner.errors import InputError
from jaxner.wording import counted

DOCSTART = "-DOCSTART-"
UNFIT = ("error", "drop", "widen")
"""What to do with character spans that do not match tokens."""
DAMAGED_GZIP = (EOFError, zlib.error, gzip.BadGzipFile)

# Usual names of columns and fields, in lower case; the first one in a file counts.
TOKEN = ("token", "tokens", "word", "words", "form")
LABEL = ("label", "labels", "ner", "ner_tag", "ner_tags", "entity", "tag", "tags")
_SENTENCE = ("sentence", "sentence #", "sentence_id", "sent_id", "sent")
_DOCUMENT = ("document", "document_id", "doc_id", "doc")
_JSON_LABELS = ("labels", "tags", "ner_tags", "ner", "label")
_JSON_SPANS = ("spans", "entities", "label", "labels")
_STARTS, _ENDS = ("start", "start_offset"), ("end", "end_offset")
_TYPES = ("label", "type", "entity_type", "entity")
# CoNLL-U: entities are in MISC, as in NER=B-PER.
_CONLLU = ("ID", "FORM", "LEMMA", "UPOS", "XPOS")
_CONLLU += ("FEATS", "HEAD", "DEPREL", "DEPS", "MISC")
UPOS, XPOS, MISC = 3, 4, 9
_KEYS = ("NER", "ner", "Entity", "entity", "NE")
_NO_WORD = re.compile("([0-9]+)([-.])([0-9]+)")  # 1-2: several words; 1.1: an empty one
_NEW_DOCUMENT = re.compile(r"#\s*newdoc(\s|$)")
# CoNLL-2012: 12 columns or more.
_NUMBER, _WORD, _POS, _ENTITIES = 2, 3, 4, 10
_BRACKETS = re.compile(r"(?:\(([^()*\s]+))?(\*?)(\))?")
# brat: semicolons part fragments, as in T1, a type, 0 5;16 23, their text.
_ANNOTATION = re.compile(r"(T\S+)\t([^ \t]+) (\d+ \d+(?:;\d+ \d+)*)\t(.*)")
_NO_ENTITY = {
    **{"R": "relation", "E": "event", "A": "attribute", "M": "attribute"},
    **{"N": "normalisation", "W": "word", "#": "note", "*": "equivalence"},
}


@dataclasses.dataclass(frozen=True)
class Example:
    """One sentence.

    Attributes:
        tokens: The tokens as in the file.
        labels: The labels as in the file, one for each token.
        document: Number of documents begun before the sentence, such as `-DOCSTART-`
            lines.
        lines: Number of each token's line, from 1.
        text: The text before tokenisation, if the file contains it.
        offsets: First character and last character plus one of each token in `text`.
        path: The file of the sentence, if several files were read.
    """

    tokens: tuple[str, ...]
    labels: tuple[str, ...] = ()
    document: int = 0
    lines: Sequence[int] = ()
    text: str | None = None
    offsets: tuple[tuple[int, int], ...] | None = None
    path: str | None = None

    @property
    def line(self) -> int:
        """Number of the first token's line; 0 if the sentence is not of a file."""
        return self.lines[0] if self.lines else 0


@dataclasses.dataclass(frozen=True)
class Options:
    """How to read a file; None is the default of its format.

    Attributes:
        tags: Whether labels are tags, not spans. CoNLL-U and CoNLL-2012 have columns of
            their own for tags.
        token_column: Column of the tokens, from 0, or from the end if negative.
        label_column: Column of the labels. Default in CoNLL-U: MISC if a word has an
            entity label there and `tags` is False, else UPOS.
        comments: Prefix of comment lines before a sentence, for columns.
        encoding: Encoding of the text.
        tokenizer: Finds the tokens of a text without tokens; see `tokens.resolve`.
        split_sentences: Whether to split such a text into sentences.
        unfit: What to do with spans that do not match tokens; one of `UNFIT`.
        label_names: What numbers in place of labels stand for, in the order of the
            numbers: a list, or names between commas; for JSON lines.
    """

    tags: bool = False
    token_column: int | None = None
    label_column: int | None = None
    comments: str | None = None
    encoding: str = "utf-8"
    tokenizer: str | tokens.Tokenizer | None = None
    split_sentences: bool = False
    unfit: str = "error"
    label_names: Sequence[str] | str = ()

    def __post_init__(self) -> None:
        if self.unfit not in UNFIT:
            raise InputError(f"Unknown {self.unfit!r}; known: {', '.join(UNFIT)}")
        try:
            "".encode(self.encoding)
        except LookupError:
            raise InputError(
                f"Unknown encoding {self.encoding!r}; known are Python's, such as utf-8"
            ) from None
        if isinstance(self.label_names, str):
            names = tuple(self.label_names.split(",")) if self.label_names else ()
            object.__setattr__(self, "label_names", names)


@dataclasses.dataclass(frozen=True)
class Contents:
    """The content of a file or folder.

    Attributes:
        examples: The sentences.
        format: One of `FORMATS`.
        sha256: Checksum of the decompressed file, or of a folder's names and files.
        notes: What the reader changed: spans that it widened or left out (their number,
            and the first 5), and what else it left out, such as brat's relations.
        last_line: The last line, if no line end follows it.
    """

    examples: tuple[Example, ...]
    format: str
    sha256: str
    notes: tuple[str, ...] = ()
    last_line: str | None = None


class CharSpan(NamedTuple):
    """An entity in a text: first character, last character plus one, type, line."""

    start: int
    end: int
    type: str
    line: int


@runtime_checkable
class Writable(Protocol):
    """A text file open for writing."""

    def write(self, text: str, /) -> object:
        """Writes a text."""


# Files


def open_binary(path: str | os.PathLike[str]) -> Any:
    """Opens a file for reading bytes; decompresses gzip, recognised by its first bytes.

    Raises:
        FileNotFoundError: The file is missing; the message lists its neighbours.
        IsADirectoryError: The path is a folder.
    """
    path = Path(path)
    if path.is_dir():
        raise IsADirectoryError(f"Expected a file, {path} is a folder")
    if not path.exists():
        beside = sorted(entry.name for entry in path.parent.glob("*"))[:20]
        raise FileNotFoundError(f"No file {path}; beside it: {', '.join(beside)}")
    with path.open("rb") as file:
        is_zipped = file.read(2) == b"\x1f\x8b"
    return gzip.open(path) if is_zipped else path.open("rb")


@dataclasses.dataclass
class File:
    """A file that is being read; the other attributes are shared by all of a folder.

    Attributes:
        path: The file.
        options: How to read it.
        errors: Collects errors; None: the first one is raised.
        notes: Collects notes on spans that do not match tokens.
        others: Counts annotations that are not entities, by kind.
        digest: Checksum of the bytes read so far.
        prefix: Returns what the checksum covers before a file's bytes: its name.
        data: The decompressed bytes last read.
    """

    path: Path
    options: Options
    errors: list[InputError] | None
    notes: list[str]
    others: Counter[str]
    digest: Any
    prefix: Callable[[Path], bytes]
    data: bytes = b""

    def fail(self, line: int | None, message: str, text: str | None = None) -> None:
        """Raises an error about a line, or collects it; shows the text."""
        if text is not None:
            message = f"{message}: {_shown(text)}"
        error = InputError(message, self.path, line)
        if self.errors is None:
            raise error
        self.errors.append(error)

    def unfit(self, span: CharSpan, text: str, what: str, whole: str = "") -> bool:
        """Reports a span that differs from tokens; returns whether to widen it."""
        message = f"the {span.type} {span.start}:{span.end} {what}"
        if self.options.unfit == "error":
            message += (
                "; unfit=widen extends such spans to tokens, drop leaves them out"
            )
            self.fail(span.line, message, text)
            return False
        widens = bool(whole) and self.options.unfit == "widen"
        done = f"widened to {whole}" if widens else "left out"
        self.notes.append(f"{self.path}:{span.line}: {message}, {done}: {_shown(text)}")
        return widens

    def text(self, path: Path | None = None) -> str:
        """Returns the text of the file or of another one, without byte order mark."""
        path = path or self.path
        try:
            with open_binary(path) as file:
                self.data = file.read()
        except DAMAGED_GZIP as error:
            raise InputError(f"damaged gzip file ({error})", path) from None
        self.digest.update(self.prefix(path) + self.data)
        try:
            text = self.data.decode(self.options.encoding)
        except UnicodeDecodeError as error:
            message = f"byte 0x{self.data[error.start]:02x} is not "
            message += f"{self.options.encoding}; set encoding to that of the file"
            line = self.data.count(b"\n", 0, error.start) + 1
            raise InputError(message, path, line) from None
        return text.removeprefix("\ufeff")

    def lines(self) -> list[str]:
        """Returns the lines of the text, which end at LF or CRLF and nowhere else."""
        return self.text().removesuffix("\r").replace("\r\n", "\n").split("\n")


def _shown(text: str) -> str:
    return repr(text if len(repr(text)) <= 80 else f"{text[:80]}...")


def write_text(target: str | os.PathLike[str] | Writable, text: str) -> None:
    """Writes a file atomically, in UTF-8; a path that ends with `.gz` is compressed.

    Args:
        target: A path, or a text file open for writing.
        text: The content.
    """
    if not isinstance(target, str | os.PathLike):
        target.write(text)
        return
    # Readers skip the first byte order mark; one within a token needs another before.
    data = (text[:1].replace("\ufeff", "\ufeff\ufeff") + text[1:]).encode()
    path = Path(target)
    with writing.replacing(path) as file:
        # Without a timestamp, equal content gives equal bytes.
        file.write(gzip.compress(data, mtime=0) if path.suffix == ".gz" else data)


# Readers


def _example(rows: Sequence[tuple[int, str, str]], document: int) -> Example:
    """Returns a sentence of rows: line, token and label of each word."""
    numbers, words, labels = zip(*rows, strict=True)
    lines = range(numbers[0], numbers[-1] + 1)
    is_gapless = len(lines) == len(rows)
    return Example(words, labels, document, lines if is_gapless else numbers)


def _blocks(
    lines: Iterable[str], comments: str | None, is_conllu: bool = False
) -> Iterator[tuple[int, int, list[str]]]:
    """Groups token lines by sentence: document, number of the first line, lines."""
    document = 0
    block: list[str] = []
    for number, line in enumerate(itertools.chain(lines, [""]), 1):
        marks = line.startswith(DOCSTART) and line[10:11] in ("", " ", "\t")
        marks = marks and not is_conllu
        if marks or not line.strip(" \t"):
            if block:
                yield document, number - len(block), block
                block = []
            document += marks
        elif block or comments is None or not line.startswith(comments):
            block.append(line)
        elif is_conllu:
            document += _NEW_DOCUMENT.match(line) is not None


def _problem(line: str, cells: list[str], width: int, token: int, label: int) -> str:
    """Returns what is wrong with a line; empty if it has a token and a label."""
    if "\r" in line:
        return "carriage return within the line; lines end with LF or CRLF"
    if len(cells) != width:
        return f"expected {counted(width, 'column')}, got {len(cells)}"
    if cells[token].strip(" ") and cells[label].strip(" "):
        return ""
    return "the token or the label is blank"


def columns(file: File) -> Iterator[Example]:
    r"""Reads columns, such as those of CoNLL-2003: a token a line.

    - The first token line sets the number of columns. A line with a tab is split at its
      tabs, so that a token may contain spaces. Other lines are split at runs of spaces,
      unless the file's first token line has tabs. No other character separates cells: a
      no-break space or a line separator (U+2028) belongs to its token.
    - A line of only spaces and tabs, or the end of the file, ends a sentence.
    - A line whose first cell is `-DOCSTART-` starts a document; its number of columns
      does not matter.
    - `#` starts a token like any other character, such as a hashtag. With `comments`,
      lines that start with it are skipped before a sentence, not within one.
    """
    options = file.options
    label = -1 if options.label_column is None else options.label_column
    token = options.token_column or 0
    width, has_tabs, hint = 0, False, ""
    for document, start, block in _blocks(file.lines(), options.comments):
        rows = []
        for number, line in enumerate(block, start):
            has_tabs = has_tabs or (not width and "\t" in line)
            is_tabbed = has_tabs or "\t" in line
            cells = line.split("\t" if is_tabbed else " ")
            if not is_tabbed and "" in cells:
                cells = [cell for cell in cells if cell]
            if not width:
                width = len(cells)
                _check_first(file, number, line, cells, (token, label))
                if line.startswith("#"):
                    hint = f"; if line {number} is a comment, set comments to '#'"
            if problem := _problem(line, cells, width, token, label):
                file.fail(number, problem + hint, line)
            else:
                rows.append((number, cells[token], cells[label]))
        if rows:
            yield _example(rows, document)


def _check_first(
    file: File, number: int, line: str, cells: list[str], places: tuple[int, int]
) -> None:
    """Raises InputError if the first line lacks the columns, or is a header."""
    width = len(cells)
    if width == 1:
        message = "expected a token and a label, got one column; separate columns by "
        message += "tabs or spaces" + (", not commas" if "," in line else "")
    elif len({p % width for p in places if -width <= p < width}) < 2:
        message = (
            f"expected tokens and labels in columns {places[0]}, {places[1]}, got "
        )
        message += f"{width} columns; set token_column and label_column"
    elif cells[places[0]].lower() in TOKEN and cells[places[1]].lower() in LABEL:
        message = (
            "expected a token and its label, got a header; remove the line, or set "
        )
        message += "format to tsv"
    else:
        return
    raise InputError(f"{message}: {_shown(line)}", file.path, number)


def conllu(file: File) -> Iterator[Example]:
    """Reads CoNLL-U: syntactic words, which carry the annotation, in ten columns.

    Lines of multiword tokens (ID `1-2`) and of empty nodes (`1.1`) are skipped.
    `# newdoc` starts a document. `_` is a word like any other, but no label.

    Source: https://universaldependencies.org/format.html
    """
    options, size, lines = file.options, len(_CONLLU), file.lines()
    token = 1 if options.token_column is None else options.token_column
    label = options.label_column
    if label is None:
        rows = (line.split("\t") for line in lines if line[:1].isdigit())
        entities = (_entity(row[MISC]) for row in rows if len(row) == size)
        found = any(re.fullmatch("O|[BIESLU]-.+", name or "") for name in entities)
        label = MISC if found and not options.tags else UPOS
    if len({c % size for c in (token, label) if -size <= c < size}) < 2:
        known = ", ".join(f"{i} {name}" for i, name in enumerate(_CONLLU))
        message = f"expected a column of tokens and one of labels, got {token}, {label}"
        raise InputError(f"{message}; CoNLL-U has {known}", file.path)
    label %= size
    first, has_entities = 0, False
    for document, start, block in _blocks(lines, "#", is_conllu=True):
        rows, errors = [], 0
        count, last = 1, 0  # number of the next word; end of a range of words
        for number, line in enumerate(block, start):
            cells = line.split("\t")
            problem = _problem(line, cells, size, token, 0 if label == MISC else label)
            if line.startswith("#"):
                problem = "expected a word, got a comment within a sentence"
            elif len(cells) != size:
                problem += "; set format to conll for other columns than CoNLL-U's"
            elif match := _NO_WORD.fullmatch(cells[0]):
                begin, end = int(match[1]), int(match[3])
                is_empty = match[2] == "."
                fits = begin == count - 1 and end > 0
                if not is_empty:
                    fits = begin == count and end > begin > last
                    last = end if fits else last
                problem = problem or ("" if fits else _wrong_id(count, cells[0]))
            else:
                entity = _entity(cells[MISC]) if label == MISC else cells[label]
                if not problem and cells[0] != str(count):
                    problem = _wrong_id(count, cells[0])
                elif not problem and label != MISC and cells[label] == "_":
                    problem = f"expected a label in {_CONLLU[label]}, got none; set "
                    problem += "label_column: 3 is UPOS, 4 XPOS"
                elif not problem:
                    has_entities = has_entities or entity is not None
                    rows.append((number, cells[token], entity or "O"))
                is_number = cells[0].isascii() and cells[0].isdigit()
                count = int(cells[0]) + 1 if is_number else count + 1
            if problem:
                file.fail(number, problem, line)
                errors += 1
        if not errors and (last >= count or not rows):
            message = f"expected words up to {max(last, 1)}, the sentence ends before"
            file.fail(start + len(block) - 1, message, block[-1])
        if rows:
            first = first or rows[0][0]
            yield _example(rows, document)
    if label == MISC and first and not has_entities:
        message = f"expected an entity in MISC ({', '.join(_KEYS)}), got none"
        file.fail(first, f"{message}; for tags set label_column: 3 is UPOS, 4 XPOS")


def _wrong_id(count: int, name: str) -> str:
    known = f"{count} (or {count}-{count + 1}, {count - 1}.1)"
    return f"expected word {known} of its sentence, got {name!r}"


def _entity(misc: str) -> str | None:
    """Returns the entity label among a word's attributes, if any."""
    parts = (pair.partition("=") for pair in misc.split("|"))
    pairs = {key: value for key, _, value in parts}
    return next((pairs[key] for key in _KEYS if key in pairs), None)


def conll2012(file: File) -> Iterator[Example]:
    """Reads CoNLL-2012, the format of OntoNotes 5, with brackets for entities.

    A line has 12 columns or more; entities are in column 10, from 0. `#begin document`
    precedes each document (or part of one), `#end document` follows it.

    Source: https://conll.cemantix.org/2012/data.html, "CoNLL format".
    """
    label = file.options.label_column
    if label is None:
        label = _POS if file.options.tags else _ENTITIES
    width = max(12, label + 1)
    document, is_open, is_faulty = 0, False, False
    rows: list[tuple[int, str, str]] = []
    for number, line in enumerate([*file.lines(), ""], 1):
        begins, ends = line.startswith("#begin"), line.startswith("#end")
        if begins or ends or not line.strip(" \t"):
            if rows:
                labelled = _unbracketed(file, rows) if label == _ENTITIES else rows
                yield _example(labelled, document)
            rows, is_faulty = [], False
            if (begins and is_open) or (ends and not is_open):
                message = "a document begins within another, or ends that never began"
                file.fail(number, message, line)
            document += begins
            is_open = begins or (is_open and not ends)
            continue
        cells = [cell for cell in line.replace("\t", " ").split(" ") if cell]
        problem = ""
        if len(cells) < width:
            problem = f"expected at least {width} columns, got {len(cells)}; set "
            problem += "format to conll for other columns"
        elif "\r" in line:
            problem = _problem(line, cells, len(cells), _WORD, label)
        elif cells[_NUMBER] != str(len(rows)) and not is_faulty:
            number_of = f"word {len(rows)} of its sentence"
            problem = f"expected {number_of}, got {cells[_NUMBER]!r}"
        if problem:
            file.fail(number, problem, line)
            is_faulty = True  # the words after it are not misnumbered, too
        else:
            rows.append((number, cells[_WORD], cells[label]))


def _unbracketed(
    file: File, rows: Iterable[tuple[int, str, str]]
) -> list[tuple[int, str, str]]:
    """Returns rows with labels for brackets: `(GPE*`, `*`, `*)`; `(GPE)`."""
    result = []
    current, number, cell = "", 0, ""
    for number, word, cell in rows:
        match = _BRACKETS.fullmatch(cell)
        begins, ends = (match[1], match[3]) if match else (None, None)
        if not match or (begins and current) or (ends and not (begins or current)):
            where = f"within {current!r}" if current else "outside of brackets"
            file.fail(number, f"expected (TYPE*, *, *) or (TYPE), {where}, got", cell)
            begins = None
        kind = begins or current
        label = f"{'B' if begins else 'I'}-{kind}" if kind else "O"
        result.append((number, word, label))
        current = "" if ends else kind
    if current:
        file.fail(number, f"the sentence ends within the entity {current!r}", cell)
    return result


def table(file: File) -> Iterator[Example]:
    """Reads a table with a header: a token a line, tabs between columns, no quotes.

    A blank line ends a sentence, and so does a new value in a column for sentences or
    documents; a blank cell there means "as above".
    """
    lines = file.lines()
    header = [cell.strip().lower() for cell in lines[0].split("\t")]
    width = len(header)

    def column(names: Sequence[str], chosen: int | None = None) -> int | None:
        if chosen is not None:
            return chosen % width if -width <= chosen < width else None
        return next((header.index(name) for name in names if name in header), None)

    token = column(TOKEN, file.options.token_column)
    label = column(LABEL, file.options.label_column)
    if token is None or label is None or token == label:
        message = f"expected a header with a token ({', '.join(TOKEN)}) and a label "
        message += f"({', '.join(LABEL)}); or set token_column and label_column"
        raise InputError(f"{message}: {_shown(lines[0])}", file.path, 1)
    documents = column(_DOCUMENT)
    bounds = {column(_SENTENCE), documents} - {None, token, label}
    last = {cast(int, place): "" for place in bounds}
    document = 0
    rows: list[tuple[int, str, str]] = []
    for number, line in enumerate([*lines[1:], ""], 2):
        cells = line.split("\t")
        is_blank = not line.strip(" \t")
        problem = "" if is_blank else _problem(line, cells, width, token, label)
        if problem:
            file.fail(number, problem, line)
            continue
        new = {} if is_blank else {c: cells[c] for c in last if cells[c].strip(" ")}
        changed = [c for c in new if new[c] != last[c]]
        if rows and (changed or is_blank):
            yield _example(rows, document)
            rows = []
        last |= new
        document += documents in changed
        if not is_blank:
            rows.append((number, cells[token], cells[label]))


def has_header(line: str) -> bool:
    r"""Returns whether a line names a column of tokens and one of labels.

    Example:
        >>> has_header("Sentence #\tWord\tPOS\tTag"), has_header("Milan\tB-ORG")
        (True, False)
    """
    names = {cell.strip().lower() for cell in line.split("\t")}
    return bool(names & {*TOKEN} and names & {*LABEL})


class Piece(NamedTuple):
    """A sentence of a text, or of a JSON record without text.

    Attributes:
        tokens: The tokens.
        start: First character of the sentence in the whole text.
        text: Text of the sentence.
        offsets: First character and last character plus one of each token in the
            sentence; None if there is no text.
    """

    tokens: tuple[str, ...]
    start: int = 0
    text: str | None = None
    offsets: tuple[tuple[int, int], ...] | None = None


def pieces(text: str, options: Options) -> list[Piece]:
    """Returns the sentences of a raw text; without splitting, the text is one."""
    split = options.split_sentences
    found = tokens.read(text, options.tokenizer, split_sentences=split)
    result = []
    for sentence in found:
        start, end = sentence[0].start, sentence[-1].end
        if not split and len(found) == 1:
            start, end = 0, len(text)
        offsets = tuple((t.start - start, t.end - start) for t in sentence)
        words = tuple(t.text for t in sentence)
        result.append(Piece(words, start, text[start:end], offsets))
    return result


def json_lines(file: File) -> Iterator[Example]:
    """Reads JSON lines: a sentence or a text a line, with labels or spans.

    The reader accepts three forms, and other usual names of their fields:

    - `{"tokens": ["Rome", "wins"], "labels": ["B-LOC", "O"]}`;
    - `{"text": "Rome wins", "spans": [{"start": 0, "end": 4, "label": "LOC"}]}`, where
      a span may also be `[0, 4, "LOC"]`; offsets count characters, ends are exclusive;
    - the second form with `"tokens"`: strings, or `{"text": …, "start": …, "end": …}`.

    A new value of the field `document` (or `doc_id`) starts a document. Labels may be
    numbers, as in exports of Hugging Face's data sets, if `label_names` says what they
    stand for, or a record before them: `{"label_names": ["O", "B-PER", …]}`.
    """
    names, document, last = file.options.label_names, 0, None
    lines = file.lines()
    for number, line in enumerate(lines, 1):
        if not line.strip(" \t\r"):
            continue
        try:
            record = load_json(line)
            if list(record) == ["label_names"]:
                names = _labels_in(record, "label_names", ())
                continue
            name = json_document(record)
            if name is not None and name != last:
                document, last = document + 1, name
            sentences = json_pieces(record, file.options)
            labels = _json_labels(record, sentences, names)
            spans = _json_spans(record, number) if labels is None else []
        except InputError as error:
            if _is_json("\n".join(lines)):
                message = f"expected JSON in each line, got one over {len(lines):,}"
                raise InputError(message, file.path) from None
            file.fail(number, error.message, line)
            continue
        if labels is None:
            yield from _fitted(file, record["text"], spans, sentences, document, number)
            continue
        (piece,) = sentences
        numbers = (number,) * len(labels)
        words, _, text, offsets = piece
        yield Example(words, labels, document, numbers, text, offsets)


def _is_json(text: str) -> bool:
    if sum(bool(line.strip()) for line in text.split("\n")) < 2:
        return False
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True


def load_json(line: str) -> dict[str, Any]:
    """Returns the JSON object of one line.

    Raises:
        InputError: The line is not a JSON object, or holds half of a character.
    """
    try:
        record = json.loads(line)
        if "\\ud" in line.lower():
            json.dumps(record, ensure_ascii=False).encode()
    except json.JSONDecodeError as error:
        raise InputError(f"this is not JSON ({error.msg})") from None
    except UnicodeEncodeError:
        raise InputError("expected characters, got half of a surrogate pair") from None
    except RecursionError:
        raise InputError("this is not JSON (nested too deeply)") from None
    if not isinstance(record, dict):
        kind = "a list" if isinstance(record, list) else repr(record)
        raise InputError(f"expected a JSON object, got {kind}")
    return record


def json_document(record: Mapping[str, Any]) -> Any:
    """Returns the value that names a record's document; None if there is none."""
    return _first(record, _DOCUMENT)


def without_labels(record: Mapping[str, Any], count: int) -> dict[str, Any]:
    """Returns a record without its labels and spans, of which it gets new ones.

    A field with one of their names, but other content, stays, as the label of a whole
    text does.

    Args:
        record: The record.
        count: Number of its tokens.

    Example:
        >>> record = {"tokens": ["Rome"], "ner": ["O"], "label": "sports", "tags": []}
        >>> without_labels(record, 1)
        {'tokens': ['Rome'], 'label': 'sports'}
    """

    def is_labels(value: Any) -> bool:
        if not isinstance(value, list):
            return value is None
        is_spans = all(isinstance(item, list | Mapping) for item in value)
        return is_spans or len(value) == count

    names = {*_JSON_LABELS, *_JSON_SPANS}
    return {k: v for k, v in record.items() if k not in names or not is_labels(v)}


def json_pieces(record: Mapping[str, Any], options: Options) -> list[Piece]:
    """Returns the sentences of a record: one if it has tokens, else those of its text.

    Raises:
        InputError: Tokens or text are missing or malformed, or do not match.
    """
    text, items = record.get("text"), _first(record, ("tokens", "words"))
    if not isinstance(text, str | None):
        raise InputError(f"expected a string in text, got {text!r}")
    if items is None and text is None:
        fields = ", ".join(record)
        raise InputError(f"expected tokens and labels, or text and spans, got {fields}")
    if items is None:
        return pieces(cast(str, text), options)
    if not isinstance(items, list) or not items:
        raise InputError("expected a list of tokens, with one at least")
    words, offsets, last = [], [], 0
    word: Any
    start: Any
    end: Any
    for i, item in enumerate(items):
        if isinstance(item, Mapping):
            word, start, end = (item.get(name) for name in ("text", "start", "end"))
            fits = type(start) is type(end) is int and last <= start < end
            fits = fits and (text is None or text[start:end] == word)
        else:
            word, start = item, 0
            if text is not None and isinstance(word, str):
                start = text.find(word, last)
            end = start + len(word) if isinstance(word, str) else 0
            fits = text is None or (start >= 0 and not text[last:start].strip())
        is_word = isinstance(word, str) and word.strip(" ")
        if not is_word or set(word) & set("\t\r\n"):
            message = f"token {i} is no string, is blank, or holds a tab or a line end"
            raise InputError(f"{message}: {item!r}")
        if not fits:
            where = f"at {start}:{end} of" if isinstance(item, Mapping) else "next in"
            raise InputError(f"the token {word!r} is not {where} the text")
        words.append(word)
        offsets.append((start, end))
        last = end
    if text is None:
        return [Piece(tuple(words))]
    return [Piece(tuple(words), 0, text, tuple(offsets))]


def _json_labels(
    record: Mapping[str, Any], sentences: list[Piece], names: Sequence[str]
) -> tuple[str, ...] | None:
    """Returns the labels of a record's tokens; None if it has spans instead."""
    has_tokens = _first(record, ("tokens", "words")) is not None
    for field in _JSON_LABELS:
        value = record.get(field)
        if not isinstance(value, list) or (value and isinstance(value[0], list | dict)):
            continue
        if value and not has_tokens:
            raise InputError("expected the tokens of these labels, got only a text")
        labels = _labels_in(record, field, names)
        size = len(sentences[0].tokens) if has_tokens else 0
        if has_tokens and len(labels) == size:
            return labels
        if labels or "text" not in record:
            wanted = counted(size, "label")
            raise InputError(f"expected {wanted}, one per token, got {len(labels)}")
    if has_tokens and "text" not in record:
        fields, known = ", ".join(record), " or ".join(_JSON_LABELS)
        raise InputError(f"expected a list of labels in {known}, got only {fields}")
    return None


def _labels_in(
    record: Mapping[str, Any], field: str, names: Sequence[str]
) -> tuple[str, ...]:
    """Returns the strings of a field; numbers are places in `names`."""
    values = record[field]
    if not isinstance(values, list):
        raise InputError(f"expected a list in {field}, got {values!r}")
    if values and all(type(value) is int for value in values):
        if not names:
            raise InputError(
                f"expected names of labels in {field}, got numbers; set label_names or "
                'begin the file with {"label_names": ["O", "B-PER", …]}'
            )
        if wrong := [value for value in values if not 0 <= value < len(names)]:
            raise InputError(f"expected fewer than {len(names)} labels, got {wrong[0]}")
        return tuple(names[int(value)] for value in values)
    if not all(isinstance(value, str) and value.strip(" ") for value in values):
        raise InputError(f"expected a list of strings in {field}, none of them blank")
    return tuple(values)


def _json_spans(record: Mapping[str, Any], line: int) -> list[CharSpan]:
    items = _first(record, _JSON_SPANS)
    if not isinstance(items, list):
        fields = ", ".join(record)
        raise InputError(f"expected a list of spans, such as [], got only {fields}")
    result = []
    for item in items:
        parts: Any = item
        if isinstance(item, Mapping):
            parts = [_first(item, names) for names in (_STARTS, _ENDS, _TYPES)]
        kinds = [type(part) for part in parts] if isinstance(parts, list) else []
        if kinds != [int, int, str] or not parts[2].strip():
            raise InputError(f"expected a span with start, end and label, got {item!r}")
        start, end, kind = parts
        result.append(CharSpan(start, end, kind, line))
    return result


def _first(record: Mapping[str, Any], names: Sequence[str]) -> Any:
    """Returns the first field of these names that has a value; None without any."""
    return next((record[n] for n in names if record.get(n) is not None), None)


def brat(file: File) -> Iterator[Example]:
    """Reads brat's standoff format: the text of `NAME.txt`, the spans of `NAME.ann`.

    Only text-bound annotations (`T`) are entities; relations, events, attributes and
    notes are left out and counted. Each line of the text is a sentence, or several if
    `split_sentences` is set.

    Source: https://brat.nlplab.org/standoff.html
    """
    texts = file.path.with_suffix(".txt")
    for path in (file.path, texts):
        if not path.is_file():
            file = dataclasses.replace(file, path=path)
            file.fail(None, "expected this file beside its pair")
            return
    text = file.text(texts)
    if file.data.startswith(b"\xef\xbb\xbf"):
        text = f" {text}"  # offsets count the byte order mark
    spans = list(_annotations(file, text))
    sentences = [
        piece._replace(start=match.start() + piece.start)
        for match in re.finditer("[^\n]+", text)
        for piece in pieces(match[0], file.options)
    ]
    for example in _fitted(file, text, spans, sentences, 1, None):
        yield dataclasses.replace(example, path=str(texts))


def _annotations(file: File, text: str) -> Iterator[CharSpan]:
    """Yields the text-bound annotations of one file."""

    def one_line(text: str) -> str:  # as .ann files write it
        return re.sub(r"[\r\n]", " ", text).strip()

    for number, line in enumerate(file.lines(), 1):
        match = _ANNOTATION.fullmatch(line.removesuffix("\r"))
        if not match:
            if line[:1] in _NO_ENTITY:
                file.others[_NO_ENTITY[line[:1]]] += 1
            elif line.strip():
                message = "expected ID, tab, type, start and end, tab, text"
                file.fail(number, message, line)
            continue
        numbers = [int(part) for part in re.split("[ ;]", match[3])]
        fragments = list(zip(numbers[::2], numbers[1::2], strict=True))
        there = " ".join(text[start:end] for start, end in fragments)
        span = CharSpan(numbers[0], numbers[-1], match[2], number)
        if one_line(there) != one_line(match[4]):
            message = f"expected {match[4]!r} at characters {match[3]} of the text, got"
            file.fail(number, message, there)
            continue
        what = f"has {len(fragments)} fragments"
        whole = text[span.start : span.end]
        if len(fragments) == 1 or file.unfit(span, whole, what, repr(whole)):
            yield span


def _fitted(
    file: File,
    text: str,
    spans: Iterable[CharSpan],
    sentences: Sequence[Piece],
    document: int,
    line: int | None,
) -> Iterator[Example]:
    """Yields the sentences of a text with BIO labels of its spans.

    A span that begins or ends within a token, or overlaps a longer one, has no labels:
    `options.unfit` says what becomes of it. A text without `line` is the whole file.
    """
    starts = [piece.start for piece in sentences]
    within: list[list[CharSpan]] = [[] for _ in sentences]
    for span in spans:
        i = bisect.bisect_right(starts, span.start) - 1
        if not 0 <= span.start < span.end <= len(text):
            message = f"expected a span within the {len(text)} characters of its text"
            file.fail(span.line, f"{message}, got {span.start}:{span.end}")
        elif i >= 0 and span.end <= starts[i] + len(sentences[i].text or ""):
            within[i].append(span)
        else:
            what = "is not within a sentence" if sentences else "has no token"
            file.unfit(span, text[span.start : span.end], what)
    for piece, own in zip(sentences, within, strict=True):
        labels = tuple(_labels(file, piece, own))
        number = line or text.count("\n", 0, piece.start) + 1
        numbers = (number,) * len(labels)
        words, _, own_text, offsets = piece
        yield Example(words, labels, document, numbers, own_text, offsets)


def _labels(file: File, piece: Piece, spans: Iterable[CharSpan]) -> list[str]:
    """Returns a sentence's labels; the spans' offsets are of the whole text."""
    text, offsets, base = piece.text or "", piece.offsets or (), piece.start
    fits: list[tuple[schemes.Span, CharSpan]] = []
    for span in spans:
        start, end = span.start - base, span.end - base
        first = bisect.bisect_right(offsets, start, key=lambda pair: pair[1])
        last = bisect.bisect_left(offsets, end, key=lambda pair: pair[0])
        if first >= last:
            file.unfit(span, text[start:end], "has no token")
            continue
        whole = text[offsets[first][0] : offsets[last - 1][1]]
        is_fit = (offsets[first][0], offsets[last - 1][1]) == (start, end)
        what = f"does not match the tokens of {whole!r}"
        if is_fit or file.unfit(span, text[start:end], what, repr(whole)):
            fits.append((schemes.Span(first, last, span.type), span))
    taken: list[schemes.Span] = []
    # Longest first: if two spans overlap, the longer one stays.
    fits.sort(key=lambda pair: (pair[0].start - pair[0].end, pair[0]))
    for fit, span in fits:
        other = next((t for t in taken if t.start < fit.end > fit.start < t.end), None)
        if other is None:
            taken.append(fit)
            continue
        whole = text[offsets[other.start][0] : offsets[other.end - 1][1]]
        what = "occurs twice" if fit == other else f"overlaps {whole!r}"
        file.unfit(span, text[span.start - base : span.end - base], what)
    return schemes.to_labels(taken, len(offsets), "BIO")


# Writers


def text_of(example: Example) -> tuple[str, Sequence[tuple[int, int]]]:
    """Returns a sentence's text and token offsets; joins tokens if it has no text.

    Example:
        >>> text_of(Example(("Rome", "wins")))
        ('Rome wins', [(0, 4), (5, 9)])
    """
    if example.text is not None and example.offsets is not None:
        return example.text, example.offsets
    offsets, start = [], 0
    for token in example.tokens:
        offsets.append((start, start + len(token)))
        start += len(token) + 1
    return " ".join(example.tokens), offsets


def char_spans(example: Example) -> list[CharSpan]:
    """Returns the entities of a sentence as spans of characters in its `text_of`."""
    _, offsets = text_of(example)
    return [
        CharSpan(offsets[start][0], offsets[end - 1][1], kind, example.line)
        for start, end, kind in schemes.to_spans(example.labels)
    ]


def _check_cells(number: int, cells: Iterable[str], forbidden: str) -> None:
    """Raises InputError if a cell could not be read back."""
    for cell in cells:
        if not cell.strip(" ") or set(cell) & set(forbidden):
            raise InputError(
                f"Sentence {number} could not be read back: {cell!r} is blank, or "
                f"holds one of {forbidden!r}"
            )


def write_columns(
    target: str | os.PathLike[str] | Writable,
    sentences: Iterable[Iterable[Sequence[str]]],
    *,
    separator: str = " ",
    documents: Sequence[int] | None = None,
) -> None:
    r"""Writes sentences as columns, one token per line; `read` returns them.

    Args:
        target: A path, or a text file open for writing.
        sentences: The rows of each sentence. All rows have equally many cells: the
            token, then labels, predictions or anything else.
        separator: `" "`, or `"\t"` if cells contain spaces.
        documents: `Example.document` of each sentence; each increase by one becomes a
            `-DOCSTART-` line.

    Raises:
        InputError: A cell is blank or contains a separator or line end, rows differ in
            length, a sentence is empty, or document numbers decrease.
        ValueError: The separator is unknown, or document numbers are too few.

    Example:
        >>> import sys
        >>> write_columns(sys.stdout, [zip(["EU", "rejects"], ["I-ORG", "O"])])
        EU I-ORG
        rejects O
        <BLANKLINE>
    """
    if separator not in (" ", "\t"):
        raise ValueError(f"Unknown separator {separator!r}; known: ' ' and '\\t'")
    write_text(target, "".join(_columns(sentences, separator, documents)))


def _columns(
    sentences: Iterable[Iterable[Sequence[str]]],
    separator: str,
    documents: Sequence[int] | None,
) -> Iterator[str]:
    sentences = list(sentences)
    document, width = 0, 0
    numbers = [0] * len(sentences) if documents is None else documents
    pairs = zip(sentences, numbers, strict=True)
    for number, (sentence, next_document) in enumerate(pairs):
        rows = [list(row) for row in sentence]
        if not rows or next_document < document:
            problem = "a lower document than the last one" if rows else "no tokens"
            raise InputError(f"Sentence {number} has {problem}")
        width = width or len(rows[0])
        mark = separator.join([DOCSTART, *["O"] * (width - 1)]) + "\n\n"
        yield mark * (next_document - document)
        document = next_document
        # A file with one column has no tabs that show the reader its separator.
        forbidden = "\r\n\t " if separator == " " or width == 1 else "\r\n\t"
        for row in rows:
            _check_cells(number, row, forbidden)
            if len(row) != width or row[0] == DOCSTART:
                raise InputError(
                    f"Sentence {number} could not be read back: expected {width} "
                    f"cells, the first not {DOCSTART}, got {row}"
                )
            yield separator.join(row) + "\n"
        yield "\n"


def _rows(example: Example) -> list[tuple[str, str]]:
    return list(zip(example.tokens, example.labels, strict=True))


def _to_columns(examples: Sequence[Example], tags: bool) -> Iterator[str]:
    has_spaces = any(" " in cell for e in examples for cell in e.tokens + e.labels)
    documents = [example.document for example in examples]
    return _columns(map(_rows, examples), "\t" if has_spaces else " ", documents)


def _to_conllu(examples: Sequence[Example], tags: bool) -> Iterator[str]:
    document = 0
    for number, example in enumerate(examples):
        yield "# newdoc\n" * (example.document - document)
        document = example.document
        text = " ".join(example.tokens) if example.text is None else example.text
        if text.isprintable():
            yield f"# text = {text}\n"
        ends = [end for _, end in example.offsets or ()]
        starts = [start for start, _ in example.offsets or ()][1:]
        for i, (token, label) in enumerate(_rows(example)):
            _check_cells(number, (token, label), "\t\r\n")
            if (label == "_") if tags else ("|" in label):
                raise InputError(f"Sentence {number}: CoNLL-U cannot hold {label!r}")
            misc = [] if tags else [f"{_KEYS[0]}={label}"]
            if i < len(starts) and ends[i] == starts[i]:
                misc.append("SpaceAfter=No")
            cells = [str(i + 1), token, "_", label if tags else "_", *"_____"]
            yield "\t".join([*cells, "|".join(misc) or "_"]) + "\n"
        yield "\n"


def _to_conll2012(examples: Sequence[Example], tags: bool) -> Iterator[str]:
    # Sentences before the first document become a document, too.
    begun, before = 0, int(bool(examples) and not examples[0].document)
    for number, example in enumerate(examples):
        while begun < example.document + before:
            if begun:
                yield "#end document\n"
            begun += 1
            yield f"#begin document (document_{begun}); part 000\n"
        brackets = ["*"] * len(example.tokens)
        for start, end, kind in () if tags else schemes.to_spans(example.labels):
            if not re.fullmatch(r"[^()*\s]+", kind):
                raise InputError(f"The type {kind!r} holds a blank, bracket or star")
            brackets[start] = f"({kind}*"
            brackets[end - 1] = f"({kind})" if end - start == 1 else "*)"
        for i, (token, label) in enumerate(_rows(example)):
            cells = [f"document_{begun}", "0", str(i), token, label if tags else "-"]
            cells += ["*", *"----", brackets[i], "-"]
            _check_cells(number, cells, " \t\r\n")
            yield " ".join(cells) + "\n"
        yield "\n"
    if begun:
        yield "#end document\n"


def _to_table(examples: Sequence[Example], tags: bool) -> Iterator[str]:
    has_documents = any(example.document for example in examples)
    yield "document\ttoken\tlabel\n" if has_documents else "token\tlabel\n"
    for number, example in enumerate(examples):
        # A sentence before the first document has a blank cell.
        before = f"{example.document or ''}\t" if has_documents else ""
        for row in _rows(example):
            _check_cells(number, row, "\t\r\n")
            yield before + "\t".join(row) + "\n"
        yield "\n"


def _to_json(
    examples: Sequence[Example], tags: bool, as_spans: bool = False
) -> Iterator[str]:
    for example in examples:
        record: dict[str, Any] = {"tokens": example.tokens, "labels": example.labels}
        if as_spans:
            text, offsets = text_of(example)
            words = [{"text": text[a:b], "start": a, "end": b} for a, b in offsets]
            spans = char_spans(example)
            found = [{"start": a, "end": b, "label": k} for a, b, k, _ in spans]
            record = {"text": text, "tokens": words, "spans": found}
        if example.document:
            record["document"] = example.document
        yield json.dumps(record, ensure_ascii=False) + "\n"


def _write_brat(folder: Path, examples: Sequence[Example]) -> None:
    """Writes a pair of files per document, with one sentence per line."""
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise FileExistsError(f"Expected a new or empty folder for brat, got {folder}")
    documents: dict[int, list[Example]] = {}
    for example in examples:
        documents.setdefault(example.document, []).append(example)
    pairs = [_brat_pair(members) for members in documents.values()]
    folder.mkdir(parents=True, exist_ok=True)
    for number, (text, spans) in enumerate(pairs, 1):
        write_text(folder / f"{number:05}.txt", text)
        write_text(folder / f"{number:05}.ann", spans)


def _brat_pair(examples: Sequence[Example]) -> tuple[str, str]:
    lines, spans, base = [], [], 0
    for example in examples:
        line = re.sub(r"[\r\n]", " ", text_of(example)[0])
        for start, end, kind, _ in char_spans(example):
            if set(kind) & set(" \t\r\n;"):
                raise InputError(f"The type {kind!r} holds a blank or a semicolon")
            name, where = f"T{len(spans) + 1}", f"{base + start} {base + end}"
            spans.append(f"{name}\t{kind} {where}\t{line[start:end]}\n")
        lines.append(f"{line}\n")
        base += len(line) + 1
    return "".join(lines), "".join(spans)


# The formats


@dataclasses.dataclass(frozen=True)
class Format:
    """How a format is read and written.

    Attributes:
        read: Yields the sentences of a file.
        write: Yields the text of sentences, tags or not; None: a folder.
        options: The names of `Options` that only some formats have.
        endings: How the names of its files end, in lower case.
        has_spans: Whether it holds spans only, no tags.
    """

    read: Callable[[File], Iterator[Example]]
    write: Callable[[Sequence[Example], bool], Iterator[str]] | None
    options: tuple[str, ...]
    endings: tuple[str, ...]
    has_spans: bool = False


_COLUMNS = ("token_column", "label_column")
_COMMENTED = (*_COLUMNS, "comments")
_NAMED = ("label_names",)
_OF_COLUMNS = (".conll", ".txt", ".bio", ".iob", ".iob2")
_OF_JSON = (".jsonl", ".ndjson", ".json")
_to_spans = functools.partial(_to_json, as_spans=True)
FORMATS: dict[str, Format] = {
    "conll": Format(columns, _to_columns, _COMMENTED, _OF_COLUMNS),
    "conll2012": Format(conll2012, _to_conll2012, ("label_column",), ("_conll",)),
    "conllu": Format(conllu, _to_conllu, _COLUMNS, (".conllu",)),
    "jsonl": Format(json_lines, _to_json, _NAMED, _OF_JSON),
    "jsonl-spans": Format(json_lines, _to_spans, _NAMED, (), has_spans=True),
    "tsv": Format(table, _to_table, _COLUMNS, (".tsv", ".tab")),
    "brat": Format(brat, None, (), (".ann",), has_spans=True),
}
"""The formats; `jsonl-spans` is for writing, `jsonl` reads both forms."""
ENDINGS = tuple(ending for format in FORMATS.values() for ending in format.endings)
"""How the names of files end that tell their format; `.gz` may follow."""
RAW = ("text", "conll", "jsonl")
"""The formats of files to tag."""
OUTPUTS = ("conll", "jsonl")
"""The formats of tagged files."""


def is_known(path: str | os.PathLike[str]) -> bool:
    """Returns whether the name of a file tells its format, or `guess` falls back.

    Example:
        >>> is_known("a.jsonl.gz"), is_known("eng.train"), is_known("a.xml")
        (True, False, False)
    """
    return Path(path).name.removesuffix(".gz").lower().endswith(ENDINGS)


def guess(path: str | os.PathLike[str]) -> str:
    """Returns the format of a file or folder by its name; columns by default.

    An existing `.tsv` file is `tsv` if it has a header, else `conll`. A folder with
    `.ann` files is `brat`, other folders are `conll2012`.

    Example:
        >>> guess("train.conllu.gz"), guess("cctv.v4_gold_conll"), guess("test.txt")
        ('conllu', 'conll2012', 'conll')
    """
    path = Path(path)
    if path.is_dir():
        return "brat" if any(path.rglob("*.ann")) else "conll2012"
    name = path.name.removesuffix(".gz").lower()
    by_name = (
        n for n, format in FORMATS.items() if name.endswith(format.endings or "\0")
    )
    found = next(by_name, "conll")
    if found == "tsv" and path.is_file():
        with open_binary(path) as file:
            head = file.readline(1 << 16).decode("utf-8", "replace")
        return "tsv" if has_header(head.removeprefix("\ufeff").strip()) else "conll"
    return found


def guess_raw(path: str) -> str:
    """Returns the format of a file to tag by its name, one of `RAW`; `-` is text.

    Raises:
        InputError: The name shows a format whose columns are not those of `conll`.

    Example:
        >>> guess_raw("a.txt"), guess_raw("a.jsonl.gz"), guess_raw("eng.testb")
        ('text', 'jsonl', 'conll')
    """
    name = os.path.basename(path).removesuffix(".gz").lower()
    if path == "-" or name.endswith((".txt", ".text")):
        return "text"
    found = "csv" if name.endswith(".csv") else guess(path)
    if found not in RAW:
        message = f"{path} looks like {found}: convert it (jaxner convert IN OUT.conll)"
        raise InputError(f"{message}, or give --from, one of {', '.join(RAW)}")
    return found


def guess_output(path: str, source: str) -> str:
    """Returns the format of a file to write by its name; for `-`, that of the input.

    Raises:
        InputError: The name shows no format, or not one of `OUTPUTS`.

    Example:
        >>> guess_output("a.jsonl.gz", "conll"), guess_output("-", "text")
        ('jsonl', 'jsonl')
    """
    if path == "-":
        return "conll" if source == "conll" else "jsonl"
    name = os.path.basename(path)
    if not is_known(name) or (found := guess(name)) not in OUTPUTS:
        message = f"The name {name!r} shows no format to write; end it with .conll or "
        raise InputError(f"{message}.jsonl, or give --to, one of {', '.join(OUTPUTS)}")
    return found


def is_folder(path: Path) -> bool:
    """Returns whether a folder contains brat or CoNLL-2012 files, to read as one."""
    return any(path.rglob("*.ann")) or any(path.rglob("*_conll*"))


def read(
    path: str | os.PathLike[str],
    format: str | None = None,
    *,
    errors: list[InputError] | None = None,
    **options: Any,
) -> Contents:
    """Reads labelled sentences in any format.

    Args:
        path: A file, plain or gzipped; or a folder of brat or CoNLL-2012 files, read in
            the order of their names.
        format: One of `FORMATS`; None: what `guess` returns.
        errors: Gets the errors of all bad lines, which are left out; None: the first
            error is raised.
        **options: Those of `Options`; None is the default.

    Raises:
        InputError: A line is malformed, bytes do not match the encoding, there are no
            tokens, the format is unknown, or it lacks an option.
        FileNotFoundError: The file is missing.
        IsADirectoryError: The path is a folder without files of the format.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = Path(folder, "train.conll")
        ...     _ = path.write_text("EU NNP I-ORG\\nrejects VBZ O\\n")
        ...     read(path).examples[0].labels
        ('I-ORG', 'O')
    """
    path = Path(path)
    is_dir = path.is_dir()
    if not is_dir:
        open_binary(path).close()  # raises if the file is missing
    format = format or guess(path)
    _check_format(format)
    options = {name: value for name, value in options.items() if value is not None}
    special = {name for kind in FORMATS.values() for name in kind.options}
    wrong = sorted(options.keys() & special - {*FORMATS[format].options})
    if wrong and options[wrong[0]] != ():
        raise InputError(f"{wrong[0]} is set, but {format} has none", path)
    members = _members(path, format)
    is_named = is_dir or format == "brat"
    state = ([], Counter(), hashlib.sha256())

    def prefix(file: Path) -> bytes:
        name = str(file.relative_to(path)) if is_dir else file.name
        return f"{name}\n".encode() if is_named else b""

    examples: list[Example] = []
    last_line, before = None, len(errors or ())
    for member in members:
        file = File(member, Options(**options), errors, *state, prefix)
        document = examples[-1].document if examples else 0
        try:
            for example in FORMATS[format].read(file):
                if is_dir:
                    number = document + max(example.document, 1)
                    place = example.path or str(member)
                    example = dataclasses.replace(example, document=number, path=place)
                examples.append(example)
        except InputError as error:
            if errors is None:
                raise
            errors.append(error)
        if not is_named:
            tail = file.data[file.data.rfind(b"\n") + 1 :]
            last_line = tail.decode("utf-8", "replace").strip() or None
    if not examples and len(errors or ()) == before:
        error = InputError(
            "expected lines of tokens, got none; is it the right file?", path
        )
        if errors is None:
            raise error
        errors.append(error)
    notes, others, digest = state
    if len(notes) > 0:
        count = len(notes)
        what = "1 span does" if count == 1 else f"{count:,} spans do"
        notes = [f"{what} not match the tokens; the first:", *notes[:5]]
    if others:
        kinds = ", ".join(counted(n, kind) for kind, n in sorted(others.items()))
        notes.append(f"annotations that are not entities, left out: {kinds}")
    return Contents(
        tuple(examples), format, digest.hexdigest(), tuple(notes), last_line
    )


def _members(path: Path, format: str) -> list[Path]:
    """Returns the files to read."""
    if format == "brat":
        if not path.is_dir():
            return [path.with_suffix(".ann")]
        both = (p for ending in ("ann", "txt") for p in path.rglob(f"*.{ending}"))
        return sorted({Path(f"{p.with_suffix('')}.ann") for p in both})
    if not path.is_dir():
        return [path]
    members = sorted(p for p in path.rglob("*_conll*") if guess(p) == "conll2012")
    if format != "conll2012" or not members:
        raise IsADirectoryError(
            f"Expected a file of {format}, {path} is a folder; folders hold brat's "
            ".txt and .ann, or CoNLL-2012's _conll files"
        )
    return members


def _check_format(format: str) -> None:
    if format not in FORMATS:
        raise InputError(f"Unknown format {format!r}; known: {', '.join(FORMATS)}")


def write(
    target: str | os.PathLike[str] | Writable,
    examples: Sequence[Example],
    format: str | None = None,
    *,
    tags: bool = False,
) -> None:
    """Writes labelled sentences in any format, atomically; `read` returns them.

    Args:
        target: The file, compressed if its name ends with `.gz`; for brat, a new or
            empty folder. Or a text file open for writing, but for brat.
        examples: The sentences, with labels.
        format: One of `FORMATS`; None: what `guess` returns for a path.
        tags: Whether the labels are tags, not spans.

    Raises:
        FileExistsError: The folder is not empty.
        InputError: The format is unknown or missing, cannot hold tags, or cannot hold a
            token or a label.

    Example:
        >>> import sys
        >>> example = Example(("Rome", "wins"), ("B-LOC", "O"))
        >>> write(sys.stdout, [example], "jsonl")
        {"tokens": ["Rome", "wins"], "labels": ["B-LOC", "O"]}
    """
    is_path = isinstance(target, str | os.PathLike)
    if format is None and is_path:
        format = guess(cast(Any, target))
    if format is None or (format == "brat" and not is_path):
        raise InputError(f"Expected a format to write to a file, got {format}")
    _check_format(format)
    if tags and FORMATS[format].has_spans:
        known = ", ".join(n for n, kind in FORMATS.items() if not kind.has_spans)
        raise InputError(
            f"{format} holds spans, and these labels are tags; known for tags: {known}"
        )
    writer = FORMATS[format].write
    if writer is None:
        _write_brat(Path(cast(Any, target)), examples)
    else:
        write_text(target, "".join(writer(examples, tags)))
