"""Labelled text: sentences, and the formats of files that hold them.

A reader is a generator of sentences from a `File`, a writer one of lines; a format is
an entry in `FORMATS`. Readers neither drop, cut nor repair tokens, labels or characters
in silence: a bad line is an error with file and line.
"""

from __future__ import annotations

import bisect
import contextlib
import dataclasses
import functools
import gzip
import hashlib
import io
import itertools
import json
import operator
import os
import re
import sys
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, NamedTuple, TextIO, cast

from jaxner import fields, outputs
from jaxner.data import schemes, tokens
from jaxner.data.tokens import Tokenizer
from jaxner.errors import InputError, optional
from jaxner.wording import counted

Target = str | os.PathLike[str] | TextIO | io.TextIOBase
"""What is written to: a path, or an open text file."""

DOCSTART = "-DOCSTART-"
UNFIT = ("error", "drop", "widen")
"""What to do with character spans that do not match tokens."""

# Usual names of columns, in lower case; the first one in a header counts.
TOKEN = ("token", "tokens", "word", "words", "form")
LABEL = ("labels", "ner_tags", "label", "ner", "ner_tag", "entity", "tag", "tags")
SENTENCE = ("sentence", "sentence #", "sentence_id", "sent_id", "sent")
_DOCUMENT = ("document", "document_id", "doc_id", "doc")
DOCUMENT_LINE = re.compile(rf"({DOCSTART})(?:[ \t]|$)")
UPOS, XPOS, MISC = 3, 4, 9
_NER = re.compile(r"[\t|]NER=([^\t|]+)")
_NO_WORD = re.compile("[0-9]+[-.][0-9]+\t")  # 1-2: several words; 1.1: an empty one
_WORD, _POS, _ENTITIES = 3, 4, 10  # of CoNLL-2012
_BRACKETS = re.compile(r"(?:\(([^()* ]+))?\*?(\))?")
# brat: semicolons part fragments, as in T1, a type, 0 5;16 23, their text.
_ANNOTATION = re.compile(r"T\S+\t([^ \t]+) (\d+ \d+(?:;\d+ \d+)*)\t(.*)")


@dataclasses.dataclass(frozen=True)
class Example:
    """One sentence, with tokens and labels as in the file.

    Attributes:
        document: Number of documents begun before it, as by `-DOCSTART-` lines.
        lines: Number of each token's line, from 1.
        text: The text before tokenisation, if the file contains it.
        offsets: First character and last character plus one of each token in `text`.
        path: The file of the sentence, if several files were read.
        start: First character of `text` in the whole text.
    """

    tokens: tuple[str, ...]
    labels: tuple[str, ...] = ()
    document: int = 0
    lines: Sequence[int] = ()
    text: str | None = None
    offsets: tuple[tuple[int, int], ...] | None = None
    path: str | None = None
    start: int = 0

    @property
    def line(self) -> int:
        """Number of the first token's line; 0 if the sentence is not of a file."""
        return self.lines[0] if self.lines else 0


@dataclasses.dataclass(frozen=True)
class Options:
    """How to read a file; None is the default of its format.

    Attributes:
        tags: Whether labels are tags, not spans; some formats have columns for both.
        token_column: Column of the tokens, from 0, or from the end if negative.
        label_column: Column of the labels; in CoNLL-U, 3 is UPOS, 4 XPOS, 9 MISC.
        comments: Prefix of comment lines before a sentence, for columns.
        encoding: Encoding of the text.
        tokenizer: Finds the tokens of a text without tokens.
        split_sentences: Whether to split such a text into sentences.
        unfit: What to do with spans that do not match tokens.
        label_names: What numbers in place of labels stand for, for JSON lines: a list,
            or names between commas.
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
        fields.check_fields(self)


class CharSpan(NamedTuple):
    """An entity in a text: first character, last character plus one, type, line."""

    start: int
    end: int
    type: str
    line: int


# Files


@contextlib.contextmanager
def opened(path: str | os.PathLike[str]) -> Iterator[Any]:
    """Opens a file, or standard input for `-`, for reading bytes; unpacks gzip."""
    if os.path.isdir(path):
        raise IsADirectoryError(f"Expected a file, {path} is a folder")
    if str(path) != "-" and not os.path.exists(path):
        beside = sorted(entry.name for entry in Path(path).parent.glob("[!.]*"))[:20]
        beside = ", ".join(beside) or "nothing"
        raise FileNotFoundError(f"No file {path}; beside it: {beside}")
    with sys.stdin.buffer if str(path) == "-" else Path(path).open("rb") as file:
        is_zipped = cast(io.BufferedReader, file).peek(2)[:2] == b"\x1f\x8b"
        try:
            yield gzip.GzipFile(fileobj=file) if is_zipped else file
        except (EOFError, zlib.error, gzip.BadGzipFile) as error:
            raise InputError(f"damaged gzip file ({error})", path) from None


@dataclasses.dataclass
class File:
    """A file that is read, or the files of a folder in turn."""

    path: Path
    options: Options
    examples: list[Example] = dataclasses.field(default_factory=list)
    errors: list[InputError] = dataclasses.field(default_factory=list)
    notes: list[str] = dataclasses.field(default_factory=list)  # what was left out
    _digest: Any = dataclasses.field(default_factory=hashlib.sha256)

    @property
    def sha256(self) -> str:
        """Checksum of the decompressed file, or of a folder's files in turn."""
        return self._digest.hexdigest()

    def fail(self, line: int | None, message: str, text: str | None = None) -> None:
        """Collects an error about a line; shows the text."""
        message += "" if text is None else f": {_shown(text)}"
        self.errors.append(InputError(message, self.path, line))

    def unfit(self, span: CharSpan, text: str, problem: str, whole: str = "") -> bool:
        """Reports a span that differs from tokens; returns whether to widen it."""
        message = f"the {span.type} {span.start}:{span.end} {problem}"
        text = text[span.start : span.end]
        if self.options.unfit == "error":
            message += "; unfit=widen extends it to whole tokens, drop leaves it out"
            self.fail(span.line, message, text)
            return False
        widens = bool(whole) and self.options.unfit == "widen"
        done = f"widened to {whole!r}" if widens else "left out"
        self.notes.append(f"{self.path}:{span.line}: {message}, {done}: {_shown(text)}")
        return widens

    def content(self, path: Path) -> bytes:
        """Returns the decompressed bytes of a file."""
        with opened(path) as file:
            data = file.read()
        self._digest.update(data)
        return data

    def text(self, path: Path) -> str:
        """Returns the text of a file, without byte order mark."""
        data = self.content(path)
        try:
            return data.decode(self.options.encoding).removeprefix("\ufeff")
        except UnicodeDecodeError as error:
            message = f"byte 0x{data[error.start]:02x} is not {self.options.encoding}; "
            line = data.count(b"\n", 0, error.start) + 1
            message += "set encoding to that of the file"
            raise InputError(message, path, line) from None

    def lines(self) -> list[str]:
        """Returns the lines of the file, which end at LF or CRLF and nowhere else."""
        text = self.text(self.path).removesuffix("\r").replace("\r\n", "\n")
        return text.split("\n")


def _shown(text: str) -> str:
    return repr(text if len(repr(text)) <= 80 else f"{text[:80]}...")


def write_text(target: Target, text: str) -> None:
    """Writes a file atomically, in UTF-8; a path that ends with `.gz` is compressed."""
    if not isinstance(target, str | os.PathLike):
        target.write(text)
        return
    # Readers skip the first byte order mark; one within a token needs another before.
    data = (text[:1].replace("\ufeff", "\ufeff\ufeff") + text[1:]).encode()
    path = Path(target)
    with outputs.writing(path) as file:
        # Without a timestamp, equal content gives equal bytes.
        file.write(gzip.compress(data, mtime=0) if path.suffix == ".gz" else data)


# Formats with a token a line

Row = tuple[int, list[str]]  # line, cells
_at_tabs = operator.methodcaller("split", "\t")


def blocks(
    lines: Iterable[str], mark: re.Pattern[str], most: int = sys.maxsize
) -> Iterator[tuple[int, list[str]]]:
    """Yields the lines of each sentence, with the number of the first, from 1.

    A blank line ends a sentence; so does a line that matches `mark`, which is a block
    of its own. A block has no more than `most` lines; the rest is left out.
    """
    start, block = 0, []
    for number, line in enumerate(itertools.chain(lines, [""]), 1):
        is_mark, is_blank = mark.match(line), not line.strip(" \t")
        if block and (is_mark or is_blank):
            yield start, block
            block = []
        if is_mark:
            yield number, [line]
        elif not is_blank and len(block) < most:
            start = start if block else number
            block.append(line)


def cells_of(line: str) -> list[str]:
    """Returns the cells of a line of columns, between tabs, or else runs of spaces."""
    return line.split("\t") if "\t" in line else list(filter(None, line.split(" ")))


class Layout(NamedTuple):
    """How the lines of a format are read."""

    mark: re.Pattern[str]  # of a line apart; if its group matches, a document begins
    split: Callable[[str], list[str]]  # into cells; none: the line is left out
    width: int  # number of columns; if negative, the least number
    token: int  # column of tokens, unless the options name another; so for labels
    label: int
    comments: str = "\n"  # what a line to leave out before a sentence begins with
    # The document and the sentence of a row; a new one starts a sentence.
    group: Callable[[Row], tuple[str, ...]] = lambda _: ("",)


def _sentences(file: File, lines: Iterable[str], layout: Layout) -> Iterator[Example]:
    """Yields sentences; bad lines are errors."""
    mark, split, width, token, label, comments, group = layout
    options, size = file.options, abs(width)
    token = token if options.token_column is None else options.token_column
    label = label if options.label_column is None else options.label_column
    places = [x for x in (token, label) if x is not None and -size <= x < size]
    if len({place % size for place in places}) < 2:
        message = f"expected columns of tokens and labels ({token} and {label}) of "
        message += f"{size}; set token_column and label_column"
        raise InputError(message, file.path)
    document, last = 0, ""
    for start, block in blocks(lines, mark):
        if match := mark.match(block[0]):
            document += bool(match[1])
            continue
        rows: list[Row] = []
        for number, line in enumerate(block, start):
            cells = split(line)
            if not cells or (not rows and line.startswith(comments)):
                continue
            if len(cells) != width and not len(cells) >= -width > 0:
                wanted = counted(size, "column")
                file.fail(number, f"expected {wanted}, got {len(cells)}", line)
            elif "\r" in line or "" in [cells[place].strip(" ") for place in places]:
                file.fail(number, "a blank cell, or a carriage return", line)
            else:
                rows.append((number, cells))
        for (name, *_), members in itertools.groupby(rows, group):
            document, last = document + (name != last), name
            numbers, cells = zip(*members, strict=True)
            words, labels = (tuple(row[place] for row in cells) for place in places)
            yield Example(words, labels, document, numbers)


def columns(file: File) -> Iterator[Example]:
    """Reads columns, such as those of CoNLL-2003: a token a line.

    The first token line sets the number of columns, and whether tabs or runs of spaces
    part them. No other character does: a no-break space belongs to its token. A blank
    line ends a sentence; a line whose first cell is `-DOCSTART-` starts a document. `#`
    starts a token, unless `comments` says that it starts lines before a sentence.

    If the first token line names columns for tokens and labels, it is a header. A new
    value in its column of sentences or documents starts one, too; a blank cell there
    means "as above".
    """
    lines, comments = file.lines(), file.options.comments or "\n"
    skips = without_token(file.options)
    number = next((i for i, x in enumerate(lines) if not skips.match(x)), None)
    if number is None:
        return
    split = _at_tabs if "\t" in lines[number] else cells_of
    cells = split(lines[number])
    if len(cells) == 1:
        message = "expected a token and a label between tabs or spaces, got one column"
        return file.fail(number + 1, message, lines[number])
    if named := header(cells):
        lines[number] = ""
    token, label, *groups = named or (0, -1)
    last = ["", ""]

    def group(row: Row) -> tuple[str, ...]:
        for i, place in enumerate(groups):
            if place >= 0 and row[1][place].strip(" "):
                last[i] = row[1][place]
        return tuple(last)

    layout = Layout(DOCUMENT_LINE, split, len(cells), token, label, comments, group)
    yield from _sentences(file, lines, layout)


def without_token(options: Options) -> re.Pattern[str]:
    """Returns the pattern of lines of columns that hold no token."""
    comments = re.escape(options.comments or "\n")
    return re.compile(rf"[ \t]*$|{comments}|{DOCUMENT_LINE.pattern}")


def header(cells: Sequence[str]) -> tuple[int, int, int, int] | None:
    """Returns the columns of tokens, labels, documents and sentences by their names.

    Of the last two, one without a name is -1. None: the cells are no header.
    """
    names = [cell.strip().lower() for cell in cells]
    token, label, document, sentence = (
        next((names.index(name) for name in known if name in names), -1)
        for known in (TOKEN, LABEL, _DOCUMENT, SENTENCE)
    )
    return None if -1 in (token, label) else (token, label, document, sentence)


def conllu(file: File) -> Iterator[Example]:
    """Reads CoNLL-U: syntactic words, which carry the annotation, in ten columns.

    Lines of multiword tokens (ID `1-2`) and of empty nodes (`1.1`) are skipped.
    `# newdoc` starts a document. Labels are those of MISC if there are any, as in
    `NER=B-PER`, else UPOS. `_` is a word like any other, but no label.

    Source: https://universaldependencies.org/format.html
    """
    lines, label = file.lines(), file.options.label_column
    has_entities = any(_NER.search(line) for line in lines if line[:1].isdigit())
    if label is None:
        label = MISC if has_entities and not file.options.tags else UPOS
    if label == MISC and not has_entities:
        return file.fail(1, "expected labels in MISC, as in NER=B-PER, got none")

    def split(line: str) -> list[str]:
        return [] if _NO_WORD.match(line) else _at_tabs(line)

    mark = re.compile(r"(#\s*newdoc)(?:\s|$)")
    for example in _sentences(file, lines, Layout(mark, split, 10, 1, label, "#")):
        labels = example.labels
        if label == MISC:
            entities = (_NER.search(f"|{misc}") for misc in labels)
            labels = tuple(entity[1] if entity else "O" for entity in entities)
        if "_" in labels:
            number = example.lines[labels.index("_")]
            file.fail(number, "expected a label, got _; UPOS is label_column 3")
        yield dataclasses.replace(example, labels=labels)


def conll2012(file: File) -> Iterator[Example]:
    """Reads CoNLL-2012, the format of OntoNotes 5: 12 columns or more.

    Entities are in column 10, from 0, as `(GPE*`, `*`, `*)` or `(GPE)`. Source:
    https://conll.cemantix.org/2012/data.html, "CoNLL format".
    """
    label = file.options.label_column
    if label is None:
        label = _POS if file.options.tags else _ENTITIES
    layout = Layout(re.compile("(#begin)|#end"), cells_of, -12, _WORD, label)
    for example in _sentences(file, file.lines(), layout):
        labels = example.labels
        if label == _ENTITIES:
            labels = tuple(_unbracketed(file, example))
        yield dataclasses.replace(example, labels=labels)


def _unbracketed(file: File, example: Example) -> Iterator[str]:
    kind = ""  # of the entity that is open
    for number, cell in zip(example.lines, example.labels, strict=True):
        match = _BRACKETS.fullmatch(cell)
        begins, ends = match.groups("") if match else ("", "")
        if not match or (begins and kind) or (ends and not begins + kind):
            where = f"within {kind!r}" if kind else "outside of brackets"
            file.fail(number, f"expected (TYPE*, *, *) or (TYPE), {where}, got", cell)
        kind = begins or kind
        yield f"{'B' if begins else 'I'}-{kind}" if kind else "O"
        kind = "" if ends else kind
    if kind:
        file.fail(example.lines[-1], f"the sentence ends within the entity {kind!r}")


# Formats of texts and spans


def pieces(text: str, options: Options) -> list[Example]:
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
        where = {"text": text[start:end], "offsets": offsets, "start": start}
        result.append(Example(words, **where))
    return result


def json_lines(file: File) -> Iterator[Example]:
    """Reads JSON lines: a sentence or a text a line, with labels or spans.

    - `{"tokens": ["Rome", "wins"], "labels": ["B-LOC", "O"]}`;
    - `{"text": "Rome wins", "spans": [{"start": 0, "end": 4, "label": "LOC"}]}`, where
      a span may also be `[0, 4, "LOC"]`; offsets count characters, ends are exclusive;
      `tokens` may say what the tokens of the text are; doccano's `label` is `spans`.

    A new value of `document` starts a document. Labels (or `ner_tags`) may be numbers,
    as in exports of Hugging Face's data sets, if `label_names` says what they stand
    for, or a record before them: `{"label_names": ["O", "B-PER", …]}`.
    """
    names, document, last = file.options.label_names, 0, None
    names = names.split(",") if isinstance(names, str) else names
    for number, line in enumerate(file.lines(), 1):
        if not line.strip(" \t\r"):
            continue
        try:
            record = load_json(line)
            if list(record) == ["label_names"]:
                names = _strings(record["label_names"])
                continue
            name = record.get("document")
            if name is not None and name != last:
                document, last = document + 1, name
            sentences = json_pieces(record, file.options)
            kinds = record.get("labels", record.get("ner_tags"))
            items = record.get("spans", record.get("label"))
            if "tokens" in record and kinds is not None:
                labels = _json_labels(kinds, len(sentences[0].tokens), names)
                sentences = [dataclasses.replace(sentences[0], labels=labels)]
            elif "text" in record and isinstance(items, list):
                spans = [_json_span(item, number) for item in items]
                sentences = _fitted(file, record["text"], spans, sentences)
            else:
                raise InputError("expected tokens and labels, or text and spans")
        except InputError as error:
            file.fail(number, error.message, line)
        else:
            for example in sentences:
                lines = (number,) * len(example.tokens)
                yield dataclasses.replace(example, document=document, lines=lines)


def load_json(line: str) -> dict[str, Any]:
    """Returns the JSON object of one line, without half characters."""
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


def read_json(path: Path) -> dict[str, Any]:
    """Returns the JSON object in a file."""
    try:
        return load_json(outputs.read_text(path))
    except InputError as error:
        raise InputError(error.message, path) from None


def json_pieces(record: Mapping[str, Any], options: Options) -> list[Example]:
    """Returns the sentences of a record: one if it has tokens, else its text's."""
    text, words = record.get("text"), record.get("tokens")
    if isinstance(text, str) and words is None:
        return pieces(text, options)
    words = _strings(words)
    if not words or not isinstance(text, str | None):
        raise InputError("expected tokens and labels, or text and spans")
    if text is None:
        return [Example(words)]
    offsets = tuple(token[1:] for token in tokens.located(text, words))
    if "".join(text.split()) != "".join("".join(words).split()):
        raise InputError("the text holds characters that are in no token")
    return [Example(words, text=text, offsets=offsets)]


def _strings(values: Any) -> tuple[str, ...]:
    are_listed = isinstance(values, list)
    for value in values if are_listed else [values]:
        is_text = are_listed and isinstance(value, str) and value.strip(" ")
        if not is_text or {*value} & {*"\t\r\n"}:
            message = "expected a list of strings, not blank, without tabs and line "
            message += "ends, got "
            raise InputError(f"{message}{value!r}")
    return tuple(values)


def _json_labels(values: Any, count: int, names: Sequence[str]) -> tuple[str, ...]:
    """Returns the labels of a record; numbers are places in `names`."""
    if isinstance(values, list) and all(type(value) is int for value in values):
        if not all(0 <= value < len(names) for value in values):
            message = f"expected numbers of {counted(len(names), 'label')}; set "
            message += 'label_names or begin with {"label_names": ["O", "B-PER", …]}'
            raise InputError(message)
        values = [names[value] for value in values]
    if len(labels := _strings(values)) != count:
        raise InputError(f"expected {counted(count, 'label')}, one per token")
    return labels


def _json_span(item: Any, line: int) -> CharSpan:
    if isinstance(item, Mapping):
        item = [item.get(name) for name in ("start", "end", "label")]
    match item:
        case [int(start), int(end), str(kind)]:
            return CharSpan(start, end, kind, line)
    raise InputError(f"expected a span with start, end and label, got {item!r}")


def brat(file: File) -> Iterator[Example]:
    """Reads brat's standoff format: the text of `NAME.txt`, the spans of `NAME.ann`.

    Only text-bound annotations (`T`) are entities; others are left out and counted.
    Each line of the text is a sentence, or several if `split_sentences` is set.

    Source: https://brat.nlplab.org/standoff.html
    """
    texts = file.path.with_suffix(".txt")
    for path in (file.path, texts):
        if not path.is_file():
            raise InputError("expected this file beside its pair", path)
    text = file.text(texts)
    sentences = [
        dataclasses.replace(piece, start=match.start() + piece.start)
        for match in re.finditer("[^\n]+", text)
        for piece in pieces(match[0], file.options)
    ]
    spans, left_out = [], 0
    for number, line in enumerate(file.lines(), 1):
        if not (match := _ANNOTATION.fullmatch(line)):
            if line.startswith("T"):
                file.fail(number, "expected ID, tab, type, offsets, tab, text", line)
            left_out += bool(line.strip())
            continue
        kind, places, wanted = match.groups()
        fragments = [tuple(map(int, part.split(" "))) for part in places.split(";")]
        content = " ".join(text[start:end] for start, end in fragments)
        span = CharSpan(fragments[0][0], fragments[-1][1], kind, number)
        whole = text[span.start : span.end]
        problem = f"has {len(fragments)} fragments"
        if re.sub(r"[\r\n]", " ", content).strip() != wanted.strip():
            message = f"expected {wanted!r} at characters {places} of the text, got"
            file.fail(number, message, content)
        elif len(fragments) == 1 or file.unfit(span, text, problem, whole):
            spans.append(span)
    if left_out:
        count = counted(left_out, "annotation")
        file.notes.append(f"{file.path}: left out {count} that are no entities")
    for example in _fitted(file, text, spans, sentences):
        lines = (text.count("\n", 0, example.start) + 1,) * len(example.tokens)
        place = {"document": 1, "lines": lines, "path": str(texts)}
        yield dataclasses.replace(example, **place)


def docbin(file: File) -> Iterator[Example]:
    """Reads the documents of spaCy's `DocBin`: sentences, if marked, and entities.

    Tokens of white space are left out.
    """
    spacy = optional("spacy", "A .spacy file")
    data = file.content(file.path)
    try:
        docs = [*spacy.tokens.DocBin().from_bytes(data).get_docs(spacy.Vocab())]
    except Exception as error:  # of zlib, of msgpack, a missing key
        message = f"expected a DocBin of spaCy, got {type(error).__name__}: {error}"
        raise InputError(message, file.path) from None
    for number, doc in enumerate(docs, 1):
        for part in doc.sents if doc.has_annotation("SENT_START") else [doc]:
            words = [token for token in part if not token.is_space]
            types = [
                f"{w.ent_iob_}-{w.ent_type_}" if w.ent_type_ else "O" for w in words
            ]
            if words:
                yield Example(tuple(w.text for w in words), tuple(types), number)


def _fitted(
    file: File, text: str, spans: Iterable[CharSpan], sentences: Sequence[Example]
) -> list[Example]:
    """Returns a text's sentences with the BIO labels of its spans."""
    begins, ends, owners = [], [], []  # of each token: characters, sentence
    for owner, piece in enumerate(sentences):
        for start, end in piece.offsets or ():
            begins.append(piece.start + start)
            ends.append(piece.start + end)
            owners.append(owner)
    labels = ["O"] * len(owners)
    for span in sorted(spans, key=lambda span: (span.start - span.end, span)):
        first = bisect.bisect_right(ends, span.start)
        last = bisect.bisect_left(begins, span.end) - 1
        if not 0 <= span.start < span.end <= len(text):
            message = f"expected a span within the {len(text)} characters of its text"
            file.fail(span.line, f"{message}, got {span.start}:{span.end}")
            continue
        problem = whole = ""
        if first > last or owners[first] != owners[last]:
            problem = "has no tokens in one sentence"
        elif {*labels[first : last + 1]} != {"O"}:
            problem = "overlaps another span"
        elif (begins[first], ends[last]) != (span.start, span.end):
            whole = text[begins[first] : ends[last]]
            problem = f"does not match the tokens of {whole!r}"
        if not problem or file.unfit(span, text, problem, whole):
            labels[first] = f"B-{span.type}"
            labels[first + 1 : last + 1] = [f"I-{span.type}"] * (last - first)
    rest = iter(labels)
    return [
        dataclasses.replace(e, labels=tuple(itertools.islice(rest, len(e.tokens))))
        for e in sentences
    ]


# Writers

Rows = Iterable[Sequence[str]]  # the cells of each token of a sentence


def _rows(example: Example) -> Iterator[tuple[str, str]]:
    return zip(example.tokens, example.labels, strict=True)


def text_and_spans(example: Example) -> tuple[str, list[tuple[int, int, str]]]:
    """Returns a sentence's text, or its joined tokens, and its entities in it."""
    text, offsets = example.text, example.offsets
    if text is None or offsets is None:
        text = " ".join(example.tokens)
        offsets = [token[1:] for token in tokens.located(text, example.tokens)]
    spans = schemes.to_spans(example.labels)
    return text, [(offsets[a][0], offsets[b - 1][1], kind) for a, b, kind in spans]


def _cell(text: str, forbidden: str) -> str:
    """Returns a text; raises InputError if it could not be read back."""
    if not text.strip(" ") or not {*forbidden}.isdisjoint(text):
        message = f"{text!r} could not be read back: it is blank, or holds one of "
        raise InputError(f"{message}{forbidden!r}")
    return text


def _line(cells: Iterable[str], separator: str = "\t") -> str:
    forbidden = f"\r\n\t{separator}"
    return separator.join([_cell(cell, forbidden) for cell in cells]) + "\n"


def _written(
    sentences: Iterable[tuple[int, Rows]], mark: str, separator: str = "\t"
) -> str:
    """Returns sentences as text; `mark` begins each document, {} is its number."""
    lines, document = [], 0
    for number, rows in sentences:
        lines += [mark.format(n) for n in range(document + 1, number + 1)]
        lines += [_line(cells, separator) for cells in rows]
        lines.append("\n")
        document = number
    return "".join(lines)


def write_columns(
    target: Target, sentences: Iterable[Rows], documents: Sequence[int] | None = None
) -> None:
    """Writes the rows of sentences, one per token, as columns; `read` returns them.

    Rows have equally many cells, two or more. `documents`, the `Example.document` of
    each sentence, never decrease.
    """
    write_text(target, _columns(sentences, documents))


def _columns(sentences: Iterable[Rows], documents: Sequence[int] | None) -> str:
    sentences = [list(rows) for rows in sentences]
    rows = [row for rows in sentences for row in rows]
    if DOCSTART in (row[0] for row in rows):
        raise InputError(f"The token {DOCSTART} could not be read back as columns")
    separator = "\t" if any(" " in cell for row in rows for cell in row) else " "
    mark = separator.join([DOCSTART, *["O"] * (len(rows[0]) - 1)]) if rows else ""
    pairs = zip(documents or [0] * len(sentences), sentences, strict=True)
    return _written(pairs, f"{mark}\n\n", separator)


def _to_columns(examples: Sequence[Example], tags: bool) -> str:
    return _columns(map(_rows, examples), [example.document for example in examples])


def _to_conllu(examples: Sequence[Example], tags: bool) -> str:
    def rows(example: Example) -> Iterator[list[str]]:
        for i, (token, label) in enumerate(_rows(example), 1):
            if (label == "_") if tags else ("|" in label):
                raise InputError(f"CoNLL-U cannot hold the label {label!r}")
            upos, misc = (label, "_") if tags else ("_", f"NER={label}")
            yield [str(i), token, "_", upos, *"_____", misc]

    return _written(((e.document, rows(e)) for e in examples), "# newdoc\n")


def _to_conll2012(examples: Sequence[Example], tags: bool) -> str:
    # Sentences before the first document become a document, too.
    before = int(bool(examples) and not examples[0].document)

    def rows(example: Example) -> Iterator[list[str]]:
        brackets = ["*"] * len(example.tokens)
        for start, last, kind in () if tags else schemes.to_spans(example.labels):
            brackets[start] = f"({_cell(kind, '()* ')}*"
            brackets[last - 1] = f"({kind})" if last - start == 1 else "*)"
        name = f"document_{example.document + before}"
        for i, (token, label) in enumerate(_rows(example)):
            cells = [name, "0", str(i), token, label if tags else "-"]
            yield [*cells, "*", *"----", brackets[i], "-"]

    pairs = ((example.document + before, rows(example)) for example in examples)
    begin, end = "#begin document (document_{}); part 000\n", "#end document\n"
    text = _written(pairs, end + begin, " ").removeprefix(end)
    return text + end if examples else ""


def _to_table(examples: Sequence[Example], tags: bool) -> str:
    has_documents = any(example.document for example in examples)
    lines = ["document\ttoken\tlabel\n" if has_documents else "token\tlabel\n"]
    for example in examples:
        # A sentence before the first document has a blank cell.
        before = f"{example.document or ''}\t" if has_documents else ""
        lines += [*(before + _line(row) for row in _rows(example)), "\n"]
    return "".join(lines)


def _to_json(examples: Sequence[Example], tags: bool, has_spans: bool = False) -> str:
    lines = []
    for example in examples:
        record: dict[str, Any] = {"tokens": example.tokens, "labels": example.labels}
        if has_spans:
            text, spans = text_and_spans(example)
            items = [{"start": a, "end": b, "label": kind} for a, b, kind in spans]
            record = {"text": text, "tokens": example.tokens, "spans": items}
        record |= {"document": example.document} if example.document else {}
        lines.append(json.dumps(record, ensure_ascii=False) + "\n")
    return "".join(lines)


def _write_brat(folder: Path, examples: Sequence[Example]) -> None:
    """Writes a pair of files per document, with one sentence per line."""
    is_taken = folder.exists() and (not folder.is_dir() or any(folder.iterdir()))
    if is_taken or outputs.is_stream(folder):
        raise FileExistsError(f"Expected a new or empty folder for brat, got {folder}")
    # Documents without sentences are pairs of empty files.
    numbers = [example.document for example in examples] or [0]
    pairs: dict[int, tuple[str, str]] = {}
    pairs |= dict.fromkeys(range(min(numbers), max(numbers) + 1), ("", ""))
    for number, members in itertools.groupby(examples, lambda e: e.document):
        text, spans = "", []
        for example in members:
            line, places = text_and_spans(example)
            line = re.sub(r"[\r\n]", " ", line)
            for start, end, kind in places:
                where = f"{len(text) + start} {len(text) + end}\t{line[start:end]}"
                spans.append(f"T{len(spans) + 1}\t{_cell(kind, '; ')} {where}\n")
            text += f"{line}\n"
        pairs[number] = text, "".join(spans)
    folder.mkdir(parents=True, exist_ok=True)
    for number, contents in enumerate(pairs.values(), 1):
        for ending, content in zip(("txt", "ann"), contents, strict=True):
            write_text(folder / f"{number:05}.{ending}", content)


def _write_docbin(path: Path, examples: Sequence[Example]) -> None:
    """Writes a document of spaCy for each document, or else for each sentence."""
    spacy = optional("spacy", "A .spacy file")
    store, vocab, place = spacy.tokens.DocBin(), spacy.Vocab(), itertools.count()
    key = lambda example: example.document or -next(place)  # noqa: E731
    for _, group in itertools.groupby(examples, key):
        words, starts, labels = [], [], []
        for example in group:
            words += example.tokens
            starts += [True, *[False] * (len(example.tokens) - 1)]
            labels += schemes.convert(example.labels, "BIO")
        store.add(spacy.tokens.Doc(vocab, words, sent_starts=starts, ents=labels))
    with outputs.writing(path) as file:
        file.write(store.to_bytes())


# The formats


@dataclasses.dataclass(frozen=True)
class Format:
    """How a format is read and written."""

    read: Callable[[File], Iterator[Example]]
    write: Callable[[Sequence[Example], bool], str] | None
    options: tuple[str, ...]  # of `Options`, those that only some formats have
    endings: tuple[str, ...]  # of the names of its files
    has_spans: bool = False  # and no tags
    write_to: Callable[[Path, Sequence[Example]], None] | None = None  # if no lines


_PLACES = ("token_column", "label_column")
_COLUMNS = (".conll", ".txt", ".bio", ".iob", ".iob2")
_JSON = (".jsonl", ".ndjson", ".json")
_to_spans = functools.partial(_to_json, has_spans=True)
FORMATS: dict[str, Format] = {
    "conll": Format(columns, _to_columns, (*_PLACES, "comments"), _COLUMNS),
    "conll2012": Format(conll2012, _to_conll2012, ("label_column",), ("_conll",)),
    "conllu": Format(conllu, _to_conllu, _PLACES, (".conllu",)),
    "jsonl": Format(json_lines, _to_json, ("label_names",), _JSON),
    "jsonl-spans": Format(json_lines, _to_spans, ("label_names",), (), has_spans=True),
    "tsv": Format(columns, _to_table, (*_PLACES, "comments"), (".tsv", ".tab")),
    "brat": Format(brat, None, (), (".ann",), True, _write_brat),
    "spacy": Format(docbin, None, (), (".spacy",), True, _write_docbin),
}
Name = Annotated[str, fields.OneOf(FORMATS)]
"""The formats; `jsonl-spans` is for writing, `jsonl` reads both forms."""
RAW = ("text", "conll", "jsonl")
"""The formats of files to tag."""
OUTPUTS = ("conll", "jsonl")
"""The formats of tagged files."""


def of_name(path: str | os.PathLike[str]) -> str | None:
    """Returns the format that the name of a file tells, if any; `.gz` may follow."""
    name = Path(path).name.removesuffix(".gz").lower()
    known = (n for n, f in FORMATS.items() if f.endings and name.endswith(f.endings))
    return next(known, None)


def guess(path: str | os.PathLike[str]) -> str:
    """Returns the format of a file or folder by its name; columns by default.

    A folder with `.ann` files is `brat`, other folders are `conll2012`.
    """
    if Path(path).is_dir():
        return "brat" if any(Path(path).rglob("*.ann")) else "conll2012"
    return of_name(path) or "conll"


def guess_raw(path: str) -> str:
    """Returns the format of a file to tag by its name, one of `RAW`; `-` is text."""
    name = os.path.basename(path).removesuffix(".gz").lower()
    if path == "-" or name.endswith((".txt", ".text")):
        return "text"
    format = "csv" if name.endswith(".csv") else guess(path)
    if format in RAW:
        return format
    remedy = "save it with tabs" if format == "csv" else "jaxner convert IN OUT.conll"
    message = f"{path} looks like {format}: {remedy} first, or give --from, one of "
    raise InputError(message + ", ".join(RAW))


def guess_output(path: str, source: str) -> str:
    """Returns the format of a file to write by its name; for `-`, that of the input."""
    if path == "-":
        return "conll" if source == "conll" else "jsonl"
    if (format := of_name(path)) in OUTPUTS:
        return format
    message = f"The name {os.path.basename(path)!r} shows no format to write: end it "
    raise InputError(f"{message}with .conll or .jsonl, or give --to")


def read(
    path: str | os.PathLike[str],
    format: str | None = None,
    *,
    collect: bool = False,
    **options: Any,
) -> File:
    """Reads labelled sentences in any format, from a file or a folder of files.

    `format` is one of `FORMATS`, by default what `guess` returns; `options` are those
    of `Options`, None for defaults. With `collect`, bad lines are left out and their
    errors collected; otherwise the first one is raised.
    """
    path = Path(path)
    format = format or guess(path)
    fields.check("format", format, Name)
    kind = FORMATS[format]
    options = {k: value for k, value in options.items() if value not in (None, ())}
    special = {name for form in FORMATS.values() for name in form.options}
    for name in sorted(options.keys() & special - {*kind.options}):
        raise InputError(f"{name} is set, but {format} has none", path)
    file = File(path, Options(**options))
    document, files = 0, members(path, format)
    if not files:
        message = "Expected a file, or a folder of .txt and .ann (brat) or of _conll "
        raise IsADirectoryError(f"{message}(CoNLL-2012), got the folder {path}")
    for file.path in files:
        base = document
        try:
            for example in kind.read(file):
                if path.is_dir():
                    document = base + max(example.document, 1)
                    name = example.path or str(file.path)
                    example = dataclasses.replace(example, document=document, path=name)
                file.examples.append(example)
        except InputError as error:
            file.errors.append(error)
        document = max(document, base + 1)  # a file without sentences is a document
    file.path = path
    if not file.examples and not file.errors:
        file.fail(None, "expected lines of tokens, got none; is it the right file?")
    file.errors.sort(key=lambda error: (str(error.path), error.line or 0))
    if file.errors and not collect:
        raise file.errors[0]
    if len(file.notes) > 5:
        file.notes[5:] = [f"and {len(file.notes) - 5:,} more notes like these"]
    return file


def members(path: Path, format: str) -> list[Path]:
    """Returns the files to read in a folder of brat or CoNLL-2012, or the file."""
    if not path.is_dir():
        return [path.with_suffix(".ann") if format == "brat" else path]
    patterns = {"brat": ("*.ann", "*.txt"), "conll2012": ("*_conll", "*_conll.gz")}
    files = {file for name in patterns.get(format, ()) for file in path.rglob(name)}
    if format == "brat":
        files = {file.with_suffix(".ann") for file in files}
    return sorted(files)


def write(
    target: Target,
    examples: Sequence[Example],
    format: str | None = None,
    *,
    tags: bool = False,
) -> None:
    """Writes labelled sentences in any format, atomically; `read` returns them.

    `target` is a file, compressed if its name ends with `.gz`, or an open text file;
    for brat, a new or empty folder. `format` is one of `FORMATS`, by default what
    `guess` returns for a path; `tags` says that labels are tags, not spans.
    """
    is_path = isinstance(target, str | os.PathLike)
    if format is None and is_path:
        format = guess(cast(Any, target))
    fields.check("format", format, Name)
    kind = FORMATS[cast(str, format)]
    if kind.write_to and not is_path:
        raise InputError(f"{format} holds no lines: expected the name of a target")
    if tags and kind.has_spans:
        raise InputError(f"{format} holds spans, and these labels are tags")
    if kind.write_to:
        kind.write_to(Path(cast(Any, target)), examples)
    elif kind.write:
        write_text(target, kind.write(examples, tags))
