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
import gzip
import hashlib
import io
import itertools
import json
import os
import re
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, NamedTuple, TextIO, cast

from jaxner import disk, fields
from jaxner.data import schemes, tokens
from jaxner.data.tokens import Tokenizer
from jaxner.errors import InputError
from jaxner.wording import counted

Target = str | os.PathLike[str] | TextIO | io.TextIOBase
"""What is written to: a path, or an open text file."""

DOCSTART = "-DOCSTART-"
UNFIT = ("error", "drop", "widen")
"""What to do with character spans that do not match tokens."""
DAMAGED_GZIP = (EOFError, zlib.error, gzip.BadGzipFile)

# Usual names of columns and fields, in lower case; the first one in a file counts.
TOKEN = ("token", "tokens", "word", "words", "form")
LABEL = ("label", "labels", "ner", "ner_tag", "ner_tags", "entity", "tag", "tags")
_SENTENCE = ("sentence", "sentence #", "sentence_id", "sent_id", "sent")
_DOCUMENT = ("document", "document_id", "doc_id", "doc")
_JSON_TOKENS = ("tokens", "words")
_JSON_LABELS = ("labels", "tags", "ner_tags", "ner", "label")
_JSON_SPANS = ("spans", "entities", "label", "labels")
_JSON_SPAN = (
    ("start", "start_offset"),
    ("end", "end_offset"),
    ("label", "type", "entity_type", "entity"),
)
# CoNLL-U has ten columns; entities are in MISC, as in NER=B-PER.
UPOS, XPOS, MISC = 3, 4, 9
_KEYS = ("NER", "ner", "Entity", "entity", "NE")
_NO_WORD = re.compile("([0-9]+)([-.])([0-9]+)")  # 1-2: several words; 1.1: an empty one
# CoNLL-2012 has 12 columns or more.
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
        tokenizer: Finds the tokens of a text without tokens.
        split_sentences: Whether to split such a text into sentences.
        unfit: What to do with spans that do not match tokens.
        label_names: What numbers in place of labels stand for, in the order of the
            numbers: a list, or names between commas; for JSON lines.
    """

    tags: bool = False
    token_column: fields.Column | None = None
    label_column: fields.Column | None = None
    comments: str | None = None
    encoding: fields.Encoding = "utf-8"
    tokenizer: Annotated[str, fields.OneOf(tokens.TOKENIZERS)] | Tokenizer | None = None
    split_sentences: bool = False
    unfit: Annotated[str, fields.OneOf(UNFIT)] = "error"
    label_names: str | Sequence[str] = ()

    def __post_init__(self) -> None:
        if self.unfit not in UNFIT:
            raise InputError(f"Unknown {self.unfit!r}; known: {', '.join(UNFIT)}")
        try:
            "".encode(self.encoding)
        except LookupError:
            raise InputError(f"Unknown encoding {self.encoding!r}") from None
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


# Files


def open_binary(path: str | os.PathLike[str]) -> Any:
    """Opens a file for reading bytes; unpacks gzip, recognised by its first bytes."""
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
    """A file that is being read; a folder's files share notes and checksum."""

    path: Path
    options: Options
    root: Path | None  # checksums cover the file's name within it
    notes: list[str]  # on spans that do not match tokens
    others: Counter[str]  # annotations that are not entities, by kind
    digest: Any
    errors: list[InputError] = dataclasses.field(default_factory=list)
    data: bytes = b""  # as last read, decompressed

    def fail(self, line: int | None, message: str, text: str | None = None) -> None:
        """Collects an error about a line; shows the text."""
        if text is not None:
            message = f"{message}: {_shown(text)}"
        self.errors.append(InputError(message, self.path, line))

    def unfit(self, span: CharSpan, text: str, what: str, whole: str = "") -> bool:
        """Reports a span that differs from tokens; returns whether to widen it."""
        message = f"the {span.type} {span.start}:{span.end} {what}"
        text = text[span.start : span.end]
        if self.options.unfit == "error":
            message += "; unfit=widen extends it to whole tokens, drop leaves it out"
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
        if self.root:
            self.digest.update(f"{path.relative_to(self.root)}\n".encode())
        self.digest.update(self.data)
        try:
            return self.data.decode(self.options.encoding).removeprefix("\ufeff")
        except UnicodeDecodeError as error:
            message = f"byte 0x{self.data[error.start]:02x} is not "
            message += f"{self.options.encoding}; set encoding to that of the file"
            line = self.data.count(b"\n", 0, error.start) + 1
            raise InputError(message, path, line) from None

    def lines(self) -> list[str]:
        """Returns the lines of the text, which end at LF or CRLF and nowhere else."""
        return self.text().removesuffix("\r").replace("\r\n", "\n").split("\n")


def _shown(text: str) -> str:
    return repr(text if len(repr(text)) <= 80 else f"{text[:80]}...")


def write_text(
    target: str | os.PathLike[str] | TextIO | io.TextIOBase, text: str
) -> None:
    """Writes a file atomically, in UTF-8; a path that ends with `.gz` is compressed."""
    if not isinstance(target, str | os.PathLike):
        target.write(text)
        return
    # Readers skip the first byte order mark; one within a token needs another before.
    data = (text[:1].replace("\ufeff", "\ufeff\ufeff") + text[1:]).encode()
    path = Path(target)
    with disk.replacing(path) as file:
        # Without a timestamp, equal content gives equal bytes.
        file.write(gzip.compress(data, mtime=0) if path.suffix == ".gz" else data)


# Formats with a token a line

Row = tuple[int, str, str]  # line, token, label


def _example(rows: Sequence[Row], document: int) -> Example:
    numbers, words, labels = zip(*rows, strict=True)
    lines = range(numbers[0], numbers[-1] + 1)
    is_gapless = len(lines) == len(rows)
    return Example(words, labels, document, lines if is_gapless else numbers)


def _blocks(
    lines: Iterable[str], mark: Callable[[str, bool], bool | None]
) -> Iterator[tuple[int, list[tuple[int, str]]]]:
    """Yields the document and the numbered lines of each sentence.

    `mark` gets a line, and whether it follows a token. It returns None for a token,
    which blank lines and all others part; else whether the line begins a document.
    """
    document = 0
    block: list[tuple[int, str]] = []
    for number, line in enumerate([*lines, ""], 1):
        begins = mark(line, bool(block)) if line.strip(" \t") else False
        if begins is None:
            block.append((number, line))
            continue
        if block:
            yield document, block
            block = []
        document += begins


def _problem(line: str, cells: list[str], width: int, token: int, label: int) -> str:
    """Returns what is wrong with a line; empty if it has a token and a label."""
    if "\r" in line:
        return "carriage return within the line; lines end with LF or CRLF"
    if len(cells) != width:
        return f"expected {counted(width, 'column')}, got {len(cells)}"
    if cells[token].strip(" ") and cells[label].strip(" "):
        return ""
    return "the token or the label is blank"


def _places(
    token: int, label: int, width: int, path: Path, line: int | None = None
) -> tuple[int, int]:
    """Returns the columns, counted from 0; they have to exist and to differ."""
    places = {place % width for place in (token, label) if -width <= place < width}
    if len(places) < 2:
        message = f"expected tokens and labels in columns {token}, {label}, got {width}"
        message += " columns; set token_column and label_column"
        raise InputError(message, path, line)
    return token % width, label % width


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
    comments, label = file.options.comments, file.options.label_column

    def mark(line: str, is_within: bool) -> bool | None:
        if line.startswith(DOCSTART) and line[10:11] in ("", " ", "\t"):
            return True
        is_comment = comments is not None and line.startswith(comments)
        return False if is_comment and not is_within else None

    def split(line: str) -> list[str]:
        if has_tabs or "\t" in line:
            return line.split("\t")
        return [cell for cell in line.split(" ") if cell]

    blocks = list(_blocks(file.lines(), mark))
    if not blocks:
        return
    first, line = blocks[0][1][0]
    has_tabs = "\t" in line
    cells = split(line)
    width = len(cells)
    if width == 1:
        message = "expected a token and a label, got one column; separate columns by "
        message += "tabs or spaces" + (", not commas" if "," in line else "")
        raise InputError(f"{message}: {_shown(line)}", file.path, first)
    token, label = file.options.token_column or 0, -1 if label is None else label
    token, label = _places(token, label, width, file.path, first)
    if cells[token].lower() in TOKEN and cells[label].lower() in LABEL:
        message = "expected a token and its label, got a header; remove it, or set "
        message += f"format to tsv: {_shown(line)}"
        raise InputError(message, file.path, first)
    hint = f"; if line {first} is a comment, set comments to '#'"
    hint = hint if line.startswith("#") else ""
    for document, block in blocks:
        rows = []
        for number, line in block:
            cells = split(line)
            if problem := _problem(line, cells, width, token, label):
                file.fail(number, problem + hint, line)
            else:
                rows.append((number, cells[token], cells[label]))
        if rows:
            yield _example(rows, document)


def conllu(file: File) -> Iterator[Example]:
    """Reads CoNLL-U: syntactic words, which carry the annotation, in ten columns.

    Lines of multiword tokens (ID `1-2`) and of empty nodes (`1.1`) are skipped.
    `# newdoc` starts a document. `_` is a word like any other, but no label.

    Source: https://universaldependencies.org/format.html
    """
    options, lines = file.options, file.lines()
    token = 1 if options.token_column is None else options.token_column
    label = options.label_column
    entities = {
        (cells[0].isdigit(), _entity(cells[MISC]))
        for cells in (line.split("\t") for line in lines if line[:1].isdigit())
        if len(cells) == 10
    }
    if label is None:
        has_some = any(re.fullmatch("O|[BIESLU]-.+", e or "") for _, e in entities)
        label = MISC if has_some and not options.tags else UPOS
    token, label = _places(token, label, 10, file.path)
    if label == MISC and entities and not any(w and e is not None for w, e in entities):
        file.fail(1, f"expected an entity in MISC ({', '.join(_KEYS)}), got none")

    def mark(line: str, is_within: bool) -> bool | None:
        if is_within or not line.startswith("#"):
            return None
        return re.match(r"#\s*newdoc(\s|$)", line) is not None

    for document, block in _blocks(lines, mark):
        rows, errors = [], len(file.errors)
        word, last = 1, 0  # number of the next word; end of a range of words
        for number, line in block:
            cells = line.split("\t")
            name = cells[0]
            problem = _problem(line, cells, 10, token, 0 if label == MISC else label)
            if match := _NO_WORD.fullmatch(name):
                begin, end = int(match[1]), int(match[3])
                is_range = match[2] == "-"
                fits = begin == word and end > begin > last
                fits = fits if is_range else begin == word - 1 and end > 0
                last = end if fits and is_range else last
            else:
                fits, word = name == str(word), word + 1
            is_first = len(file.errors) == errors  # words after it are misnumbered, too
            if not fits and is_first:
                problem = problem or f"expected the next word's number, got {name}"
            elif not match and not problem:
                kind = (_entity(cells[MISC]) or "O") if label == MISC else cells[label]
                if kind == "_" and label != MISC:
                    problem = "expected a label, got none; set label_column: 3 is UPOS,"
                    problem += " 4 XPOS"
                rows.append((number, cells[token], kind))
            if problem:
                file.fail(number, problem, line)
        if len(file.errors) == errors and (last >= word or not rows):
            message = f"expected words up to {max(last, 1)}, the sentence ends before"
            file.fail(block[-1][0], message, block[-1][1])
        if rows:
            yield _example(rows, document)


def _entity(misc: str) -> str | None:
    """Returns the entity label among a word's attributes, if any."""
    if misc == "_":
        return None
    parts = (pair.partition("=") for pair in misc.split("|"))
    pairs = {key: value for key, _, value in parts}
    return next((pairs[key] for key in _KEYS if key in pairs), None)


def conll2012(file: File) -> Iterator[Example]:
    """Reads CoNLL-2012, the format of OntoNotes 5, with brackets for entities.

    A line has 12 columns or more; entities are in column 10, from 0. `#begin document`
    precedes each document (or part of one), `#end document` follows it.

    Source: https://conll.cemantix.org/2012/data.html, "CoNLL format".
    """
    label, lines = file.options.label_column, file.lines()
    if label is None:
        label = _POS if file.options.tags else _ENTITIES
    width, is_open = max(12, label + 1, -label), False
    for number, line in enumerate(lines, 1):
        if line.startswith(("#begin", "#end")):
            if line.startswith("#begin") == is_open:
                file.fail(number, "a document begins or ends twice", line)
            is_open = line.startswith("#begin")

    def mark(line: str, is_within: bool) -> bool | None:
        return line[:2] == "#b" if line.startswith(("#begin", "#end")) else None

    for document, block in _blocks(lines, mark):
        rows, errors = [], len(file.errors)
        for number, line in block:
            cells = [cell for cell in line.replace("\t", " ").split(" ") if cell]
            problem = ""
            if len(cells) < width:
                problem = f"expected at least {width} columns, got {len(cells)}"
            elif "\r" in line:
                problem = _problem(line, cells, len(cells), _WORD, label)
            elif cells[_NUMBER] != str(len(rows)) and len(file.errors) == errors:
                problem = f"expected word {len(rows)} of its sentence"
            if problem:
                file.fail(number, problem, line)
            else:
                rows.append((number, cells[_WORD], cells[label]))
        if rows:
            labelled = _unbracketed(file, rows) if label == _ENTITIES else rows
            yield _example(labelled, document)


def _unbracketed(file: File, rows: Iterable[Row]) -> list[Row]:
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
    header, *lines = file.lines()
    names = [cell.strip().lower() for cell in header.split("\t")]
    width = len(names)

    def column(known: Sequence[str], chosen: int | None = None) -> int | None:
        if chosen is not None:
            return chosen % width if -width <= chosen < width else None
        return next((names.index(name) for name in known if name in names), None)

    token = column(TOKEN, file.options.token_column)
    label = column(LABEL, file.options.label_column)
    if token is None or label is None or token == label:
        message = f"expected a header with a token ({', '.join(TOKEN)}) and a label "
        message += f"({', '.join(LABEL)}); or set token_column and label_column"
        raise InputError(f"{message}: {_shown(header)}", file.path, 1)
    documents = column(_DOCUMENT)
    bounds = {column(_SENTENCE), documents} - {None, token, label}
    last = {cast(int, place): "" for place in bounds}
    document = 0
    for _, block in _blocks(["", *lines], lambda line, is_within: None):
        rows: list[Row] = []
        for number, line in block:
            cells = line.split("\t")
            if problem := _problem(line, cells, width, token, label):
                file.fail(number, problem, line)
                continue
            new = {place: cells[place] for place in last if cells[place].strip(" ")}
            changed = [place for place in new if new[place] != last[place]]
            if rows and changed:
                yield _example(rows, document)
                rows = []
            last |= new
            document += documents in changed
            rows.append((number, cells[token], cells[label]))
        if rows:
            yield _example(rows, document)


# Formats of texts and spans


class Piece(NamedTuple):
    """A sentence of a text, or of a JSON record, which may lack a text."""

    tokens: tuple[str, ...]
    start: int = 0  # first character in the whole text
    text: str | None = None
    offsets: tuple[tuple[int, int], ...] | None = None  # of each token in `text`


def pieces(text: str, options: Options) -> list[Piece]:
    """Returns the sentences of a raw text; without splitting, the text is one."""
    split = options.split_sentences
    sentences = tokens.read(text, options.tokenizer, split_sentences=split)
    result = []
    for sentence in sentences:
        start, end = sentence[0].start, sentence[-1].end
        if not split and len(sentences) == 1:
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
            if _is_json(lines):
                message = f"expected JSON in each line, got one over {len(lines):,}"
                raise InputError(message, file.path) from None
            file.fail(number, error.message, line)
            continue
        if labels is None:
            yield from _fitted(file, record["text"], spans, sentences, document, number)
        else:
            ((words, _, text, offsets),) = sentences
            numbers = (number,) * len(labels)
            yield Example(words, labels, document, numbers, text, offsets)


def _is_json(lines: Sequence[str]) -> bool:
    """Returns whether several lines are one JSON text."""
    if sum(bool(line.strip()) for line in lines) < 2:
        return False
    try:
        json.loads("\n".join(lines))
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
    except UnicodeEncodeError:
        raise InputError("expected characters, got half of a surrogate pair") from None
    except (ValueError, RecursionError) as error:
        raise InputError(f"this is not JSON ({error})") from None
    if not isinstance(record, dict):
        raise InputError(f"expected a JSON object, got a {type(record).__name__}")
    return record


def json_document(record: Mapping[str, Any]) -> Any:
    """Returns the value that names a record's document; None if there is none."""
    return _first(record, _DOCUMENT)


def without_labels(record: Mapping[str, Any], count: int) -> dict[str, Any]:
    """Returns a record without its labels and spans, of which it gets new ones.

    A field with one of their names, but other content than for `count` tokens, stays,
    as the label of a whole text does.

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
    text, items = record.get("text"), _first(record, _JSON_TOKENS)
    if not isinstance(text, str | None):
        raise InputError(f"expected a string in text, got {text!r}")
    if items is None and text is not None:
        return pieces(text, options)
    if not isinstance(items, list) or not items:
        raise InputError("expected a list of tokens and labels, or text and spans")
    words, offsets, last = [], [], 0
    for i, item in enumerate(items):
        word: Any = item
        start: Any = 0
        if isinstance(item, Mapping):
            word, start, end = (item.get(name) for name in ("text", "start", "end"))
            fits = type(start) is type(end) is int and last <= start < end
            fits = fits and (text is None or text[start:end] == word)
        elif text is None or not isinstance(word, str):
            fits, end = True, 0
        else:
            start = text.find(word, last)
            end = start + len(word)
            fits = start >= 0 and not text[last:start].strip()
        is_word = isinstance(word, str) and word.strip(" ")
        if not is_word or set(word) & set("\t\r\n"):
            message = f"token {i} is no string, is blank, or holds a tab or a line end"
            raise InputError(f"{message}: {item!r}")
        if not fits:
            raise InputError(f"the token {item!r} does not follow in the text")
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
    has_tokens = _first(record, _JSON_TOKENS) is not None
    size = len(sentences[0].tokens) if has_tokens else 0
    for field in _JSON_LABELS:
        value = record.get(field)
        if not isinstance(value, list) or (value and isinstance(value[0], list | dict)):
            continue
        labels = _labels_in(record, field, names)
        if has_tokens and len(labels) == size:
            return labels
        if labels or "text" not in record:
            wanted = counted(size, "label")
            raise InputError(f"expected {wanted}, one per token, got {len(labels)}")
    if "text" not in record:
        raise InputError(f"expected a list of labels in {' or '.join(_JSON_LABELS)}")
    return None


def _labels_in(
    record: Mapping[str, Any], field: str, names: Sequence[str]
) -> tuple[str, ...]:
    """Returns the strings of a field; numbers are places in `names`."""
    values = record[field]
    if not isinstance(values, list):
        raise InputError(f"expected a list in {field}, got {values!r}")
    if values and all(type(value) is int for value in values):
        if all(0 <= value < len(names) for value in values):
            return tuple(names[int(value)] for value in values)
        raise InputError(
            f"expected numbers of {counted(len(names), 'label')} in {field}; set "
            'label_names or begin the file with {"label_names": ["O", "B-PER", …]}'
        )
    if not all(isinstance(value, str) and value.strip(" ") for value in values):
        raise InputError(f"expected a list of strings in {field}, none of them blank")
    return tuple(values)


def _json_spans(record: Mapping[str, Any], line: int) -> list[CharSpan]:
    items = _first(record, _JSON_SPANS)
    if not isinstance(items, list):
        raise InputError(f"expected a list in {' or '.join(_JSON_SPANS)}, such as []")
    result = []
    for item in items:
        parts: Any = item
        if isinstance(item, Mapping):
            parts = [_first(item, names) for names in _JSON_SPAN]
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
            raise InputError("expected this file beside its pair", path)
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
                file.fail(number, "expected ID, tab, type, offsets, tab, text", line)
            continue
        fragments = [
            (int(start), int(end))
            for start, end in (part.split(" ") for part in match[3].split(";"))
        ]
        there = " ".join(text[start:end] for start, end in fragments)
        span = CharSpan(fragments[0][0], fragments[-1][1], match[2], number)
        if one_line(there) != one_line(match[4]):
            message = f"expected {match[4]!r} at characters {match[3]} of the text, got"
            file.fail(number, message, there)
            continue
        what = f"has {len(fragments)} fragments"
        whole = repr(text[span.start : span.end])
        if len(fragments) == 1 or file.unfit(span, text, what, whole):
            yield span


def _fitted(
    file: File,
    text: str,
    spans: Iterable[CharSpan],
    sentences: Iterable[Piece],
    document: int,
    line: int | None,
) -> Iterator[Example]:
    """Yields the sentences of a text with BIO labels of its spans.

    A span that begins or ends within a token, or overlaps a longer one, has no labels:
    `options.unfit` says what becomes of it. A text without `line` is the whole file.
    """
    left = sorted(spans, reverse=True)
    for span in [x for x in left if not 0 <= x.start < x.end <= len(text)]:
        message = f"expected a span within the {len(text)} characters of its text"
        file.fail(span.line, f"{message}, got {span.start}:{span.end}")
        left.remove(span)
    for piece in sentences:
        base, offsets = piece.start, piece.offsets or ()
        end = base + len(piece.text or "")
        fits: list[tuple[schemes.Span, CharSpan]] = []
        while left and left[-1].start < end:
            span = left.pop()
            first = bisect.bisect_right(offsets, span.start - base, key=lambda p: p[1])
            last = bisect.bisect_left(offsets, span.end - base, key=lambda p: p[0])
            if span.start < base or span.end > end or first >= last:
                file.unfit(span, text, "has no tokens in one sentence")
                continue
            start, stop = offsets[first][0] + base, offsets[last - 1][1] + base
            whole = repr(text[start:stop])
            what = f"does not match the tokens of {whole}"
            is_fit = (start, stop) == (span.start, span.end)
            if is_fit or file.unfit(span, text, what, whole):
                fits.append((schemes.Span(first, last, span.type), span))
        taken: list[schemes.Span] = []
        # Longest first: if two spans overlap, the longer one stays.
        fits.sort(key=lambda pair: (pair[0].start - pair[0].end, pair[0]))
        for fit, span in fits:
            if any(other.start < fit.end > fit.start < other.end for other in taken):
                file.unfit(span, text, "overlaps another span")
            else:
                taken.append(fit)
        labels = tuple(schemes.to_labels(taken, len(offsets), "BIO"))
        number = line or text.count("\n", 0, base) + 1
        numbers = (number,) * len(labels)
        yield Example(
            piece.tokens, labels, document, numbers, piece.text, piece.offsets
        )
    for span in left:
        file.unfit(span, text, "has no tokens in one sentence")


# Writers


def _texts(
    example: Example,
) -> tuple[str, Sequence[tuple[int, int]], list[tuple[int, int, str]]]:
    """Returns a sentence's text, or its joined tokens; offsets of tokens; entities."""
    text, offsets = example.text, example.offsets
    if text is None or offsets is None:
        ends = itertools.accumulate(len(token) + 1 for token in example.tokens)
        offsets = [
            (end - 1 - len(token), end - 1)
            for token, end in zip(example.tokens, ends, strict=True)
        ]
        text = " ".join(example.tokens)
    spans = [
        (offsets[start][0], offsets[end - 1][1], kind)
        for start, end, kind in schemes.to_spans(example.labels)
    ]
    return text, offsets, spans


def _joined(cells: Sequence[str], separator: str, forbidden: str) -> str:
    """Returns a line; raises InputError if a cell could not be read back."""
    for cell in cells:
        if not cell.strip(" ") or set(cell) & set(forbidden):
            message = f"{cell!r} could not be read back: it is blank, or holds one of "
            raise InputError(f"{message}{forbidden!r}")
    return separator.join(cells) + "\n"


def write_columns(
    target: Target,
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

    Example:
        >>> import sys
        >>> write_columns(sys.stdout, [zip(["EU", "rejects"], ["I-ORG", "O"])])
        EU I-ORG
        rejects O
        <BLANKLINE>
    """
    write_text(target, "".join(_columns(sentences, separator, documents)))


def _columns(
    sentences: Iterable[Iterable[Sequence[str]]],
    separator: str,
    documents: Sequence[int] | None,
) -> Iterator[str]:
    sentences = [list(rows) for rows in sentences]
    document, width = 0, 0
    numbers = [0] * len(sentences) if documents is None else documents
    for rows, number in zip(sentences, numbers, strict=True):
        if not rows or number < document:
            raise InputError("a sentence is empty, or its document precedes the last")
        width = width or len(rows[0])
        mark = separator.join([DOCSTART, *["O"] * (width - 1)]) + "\n\n"
        yield mark * (number - document)
        document = number
        # A file with one column has no tabs that show the reader its separator.
        forbidden = "\r\n\t " if separator == " " or width == 1 else "\r\n\t"
        for row in rows:
            if len(row) != width or row[0] == DOCSTART:
                message = f"expected {width} cells, the first not {DOCSTART}, got {row}"
                raise InputError(message)
            yield _joined(row, separator, forbidden)
        yield "\n"


def _rows(example: Example) -> list[tuple[str, str]]:
    return list(zip(example.tokens, example.labels, strict=True))


def _to_columns(examples: Sequence[Example], tags: bool) -> Iterator[str]:
    has_spaces = any(" " in cell for e in examples for cell in e.tokens + e.labels)
    documents = [example.document for example in examples]
    return _columns(map(_rows, examples), "\t" if has_spaces else " ", documents)


def _to_conllu(examples: Sequence[Example], tags: bool) -> Iterator[str]:
    document = 0
    for example in examples:
        yield "# newdoc\n" * (example.document - document)
        document = example.document
        text = " ".join(example.tokens) if example.text is None else example.text
        if text.isprintable():
            yield f"# text = {text}\n"
        offsets = example.offsets or ()
        for i, (token, label) in enumerate(_rows(example)):
            if (label == "_") if tags else ("|" in label):
                raise InputError(f"CoNLL-U cannot hold the label {label!r}")
            misc = [] if tags else [f"{_KEYS[0]}={label}"]
            if i + 1 < len(offsets) and offsets[i][1] == offsets[i + 1][0]:
                misc.append("SpaceAfter=No")
            cells = [str(i + 1), token, "_", label if tags else "_", *"_____"]
            yield _joined([*cells, "|".join(misc) or "_"], "\t", "\t\r\n")
        yield "\n"


def _to_conll2012(examples: Sequence[Example], tags: bool) -> Iterator[str]:
    # Sentences before the first document become a document, too.
    begun, before = 0, int(bool(examples) and not examples[0].document)
    for example in examples:
        while begun < example.document + before:
            begun += 1
            yield "#end document\n" if begun > 1 else ""
            yield f"#begin document (document_{begun}); part 000\n"
        brackets = ["*"] * len(example.tokens)
        for start, end, kind in () if tags else schemes.to_spans(example.labels):
            if not re.fullmatch(r"[^()*\s]+", kind):
                raise InputError(f"The type {kind!r} holds a blank, bracket or star")
            brackets[start] = f"({kind}*"
            brackets[end - 1] = f"({kind})" if end - start == 1 else "*)"
        for i, (token, label) in enumerate(_rows(example)):
            cells = [f"document_{begun}", "0", str(i), token, label if tags else "-"]
            yield _joined([*cells, "*", *"----", brackets[i], "-"], " ", " \t\r\n")
        yield "\n"
    if begun:
        yield "#end document\n"


def _to_table(examples: Sequence[Example], tags: bool) -> Iterator[str]:
    has_documents = any(example.document for example in examples)
    yield "document\ttoken\tlabel\n" if has_documents else "token\tlabel\n"
    for example in examples:
        # A sentence before the first document has a blank cell.
        before = f"{example.document or ''}\t" if has_documents else ""
        yield from (before + _joined(r, "\t", "\t\r\n") for r in _rows(example))
        yield "\n"


def _to_json(examples: Sequence[Example], tags: bool) -> Iterator[str]:
    for example in examples:
        record = {"tokens": example.tokens, "labels": example.labels}
        yield _json_line(record, example.document)


def _to_json_spans(examples: Sequence[Example], tags: bool) -> Iterator[str]:
    for example in examples:
        text, offsets, spans = _texts(example)
        words = [{"text": text[a:b], "start": a, "end": b} for a, b in offsets]
        items = [{"start": a, "end": b, "label": kind} for a, b, kind in spans]
        record = {"text": text, "tokens": words, "spans": items}
        yield _json_line(record, example.document)


def _json_line(record: dict[str, Any], document: int) -> str:
    record |= {"document": document} if document else {}
    return json.dumps(record, ensure_ascii=False) + "\n"


def _write_brat(folder: Path, examples: Sequence[Example]) -> None:
    """Writes a pair of files per document, with one sentence per line."""
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise FileExistsError(f"Expected a new or empty folder for brat, got {folder}")
    # Documents without sentences are pairs of empty files.
    numbers = [example.document for example in examples] or [0]
    pairs: dict[int, tuple[str, str]] = {}
    pairs |= dict.fromkeys(range(min(numbers), max(numbers) + 1), ("", ""))
    for example in examples:
        text, annotations = pairs[example.document]
        line, _, spans = _texts(example)
        line = re.sub(r"[\r\n]", " ", line)
        for i, (start, end, kind) in enumerate(spans, annotations.count("\n") + 1):
            if set(kind) & set(" \t\r\n;"):
                raise InputError(f"The type {kind!r} holds a blank or a semicolon")
            where = f"{len(text) + start} {len(text) + end}"
            annotations += f"T{i}\t{kind} {where}\t{line[start:end]}\n"
        pairs[example.document] = f"{text}{line}\n", annotations
    folder.mkdir(parents=True, exist_ok=True)
    for number, (text, annotations) in enumerate(pairs.values(), 1):
        write_text(folder / f"{number:05}.txt", text)
        write_text(folder / f"{number:05}.ann", annotations)


# The formats


@dataclasses.dataclass(frozen=True)
class Format:
    """How a format is read and written."""

    read: Callable[[File], Iterator[Example]]
    write: Callable[[Sequence[Example], bool], Iterator[str]] | None  # None: a folder
    options: tuple[str, ...]  # of `Options`, those that only some formats have
    endings: tuple[str, ...]  # of the names of its files
    has_spans: bool = False  # and no tags


_PLACES = ("token_column", "label_column")
_NAMES = ("label_names",)
_ENDINGS = (".conll", ".txt", ".bio", ".iob", ".iob2")
_JSON = (".jsonl", ".ndjson", ".json")
FORMATS: dict[str, Format] = {
    "conll": Format(columns, _to_columns, (*_PLACES, "comments"), _ENDINGS),
    "conll2012": Format(conll2012, _to_conll2012, ("label_column",), ("_conll",)),
    "conllu": Format(conllu, _to_conllu, _PLACES, (".conllu",)),
    "jsonl": Format(json_lines, _to_json, _NAMES, _JSON),
    "jsonl-spans": Format(json_lines, _to_json_spans, _NAMES, (), has_spans=True),
    "tsv": Format(table, _to_table, _PLACES, (".tsv", ".tab")),
    "brat": Format(brat, None, (), (".ann",), has_spans=True),
}
"""The formats; `jsonl-spans` is for writing, `jsonl` reads both forms."""
RAW = ("text", "conll", "jsonl")
"""The formats of files to tag."""
OUTPUTS = ("conll", "jsonl")
"""The formats of tagged files."""


def of_name(path: str | os.PathLike[str]) -> str | None:
    """Returns the format that the name of a file tells, if any; `.gz` may follow.

    Example:
        >>> of_name("a.jsonl.gz"), of_name("eng.train")
        ('jsonl', None)
    """
    name = Path(path).name.removesuffix(".gz").lower()
    known = (n for n, f in FORMATS.items() if f.endings and name.endswith(f.endings))
    return next(known, None)


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
    format = of_name(path) or "conll"
    if format == "tsv" and path.is_file():
        with open_binary(path) as file:
            head = file.readline(1 << 16).decode("utf-8", "replace")
        cells = head.removeprefix("\ufeff").strip().lower().split("\t")
        names = {cell.strip() for cell in cells}
        return "tsv" if names & {*TOKEN} and names & {*LABEL} else "conll"
    return format


def guess_raw(path: str) -> str:
    """Returns the format of a file to tag by its name, one of `RAW`; `-` is text."""
    name = os.path.basename(path).removesuffix(".gz").lower()
    if path == "-" or name.endswith((".txt", ".text")):
        return "text"
    format = "csv" if name.endswith(".csv") else guess(path)
    if format not in RAW:
        message = f"{path} looks like {format}: convert it (jaxner convert IN OUT.conll"
        raise InputError(f"{message}), or give --from, one of {', '.join(RAW)}")
    return format


def guess_output(path: str, source: str) -> str:
    """Returns the format of a file to write by its name; for `-`, that of the input."""
    if path == "-":
        return "conll" if source == "conll" else "jsonl"
    format = of_name(path)
    if format not in OUTPUTS:
        message = f"The name {os.path.basename(path)!r} shows no format to write; end "
        message += "it with .conll or .jsonl, or give --to, one of "
        raise InputError(message + ", ".join(OUTPUTS))
    return format


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
    kind = _format(format)
    options = {name: value for name, value in options.items() if value is not None}
    special = {name for other in FORMATS.values() for name in other.options}
    for name in sorted(options.keys() & special - {*kind.options}):
        if options[name] != ():
            raise InputError(f"{name} is set, but {format} has none", path)
    root = path if is_dir else path.parent if format == "brat" else None
    notes: list[str] = []
    others: Counter[str] = Counter()
    digest = hashlib.sha256()
    examples: list[Example] = []
    all_errors: list[InputError] = []
    document, last_line = 0, None
    for member in _members(path, format):
        file = File(member, Options(**options), root, notes, others, digest)
        inside: list[Example] = []
        try:
            inside.extend(kind.read(file))
        except InputError as error:
            file.errors.append(error)
        file.errors.sort(key=lambda error: error.line or 0)
        if file.errors and errors is None:
            raise file.errors[0]
        all_errors += file.errors
        if is_dir:
            replace, base, name = dataclasses.replace, document, str(member)
            inside = [
                replace(e, document=base + max(e.document, 1), path=e.path or name)
                for e in inside
            ]
            document = inside[-1].document if inside else document + 1
        examples += inside
        if root is None:
            tail = file.data[file.data.rfind(b"\n") + 1 :]
            last_line = tail.decode("utf-8", "replace").strip() or None
    if not examples and not all_errors:
        message = "expected lines of tokens, got none; is it the right file?"
        all_errors.append(InputError(message, path))
        if errors is None:
            raise all_errors[0]
    if errors is not None:
        errors += all_errors
    if notes:
        what = f"spans that do not match the tokens: {len(notes):,}; the first:"
        notes = [what, *notes[:5]]
    if others:
        kinds = ", ".join(counted(n, noun) for noun, n in sorted(others.items()))
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


def _format(name: str) -> Format:
    if name not in FORMATS:
        raise InputError(f"Unknown format {name!r}; known: {', '.join(FORMATS)}")
    return FORMATS[name]


def write(
    target: Target,
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
    kind = _format(format)
    if tags and kind.has_spans:
        known = ", ".join(n for n, other in FORMATS.items() if not other.has_spans)
        raise InputError(
            f"{format} holds spans, and these labels are tags; known for tags: {known}"
        )
    if kind.write is None:
        _write_brat(Path(cast(Any, target)), examples)
    else:
        write_text(target, "".join(kind.write(examples, tags)))
