"""The formats of labelled text: columns here, texts with spans in `spans`.

A reader is a generator of records from a `Source`, a writer one of lines; a format is
an entry in `FORMATS`. Training, `check` and `convert` read by the same generators as
`tag`. Readers neither drop, cut nor repair tokens, labels or characters in silence: a
bad line is an error with file and line.
"""

from __future__ import annotations

import csv
import dataclasses
import functools
import io
import itertools
import operator
import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, NamedTuple, NoReturn

from jaxner import fields, outputs
from jaxner.data import schemes, spans
from jaxner.data.sources import (
    BLANK_HINT,
    DOCUMENT,
    MAX_TOKENS,
    Items,
    Record,
    Source,
    cell,
    check_file,
    write_text,
)
from jaxner.data.sources import Example as Example
from jaxner.data.sources import Options as Options
from jaxner.errors import InputError
from jaxner.wording import counted

DOCSTART = "-DOCSTART-"
# Usual names of columns, in lower case; the first one in a header counts.
TOKEN = ("token", "tokens", "word", "words", "form")
LABEL = ("labels", "ner_tags", "label", "ner", "ner_tag", "entity", "tag", "tags")
SENTENCE = ("sentence", "sentence #", "sentence_id", "sent_id", "sent")

LONG = 60  # tokens of a sentence that may be several
DOCUMENT_LINE = re.compile(rf"({DOCSTART})(?:[ \t]|$)")
UPOS, MISC = 3, 9  # of CoNLL-U
_ENTITY = re.compile(r"(?:^|\|)NER=([^\t|]+)", re.IGNORECASE)
_LABELS = re.compile("(?:O|[BIESLUMW]-[^ ]+)(?: (?:O|[BIESLUMW]-[^ ]+))+")  # several
_NAME = re.compile(r"(?:^|\|)(?i:name)=(O|[BIESLUMW]-[^\t|]+)")  # of NorNE
_SIGN_HINT = "; if # begins comments, set comments to it"
_NO_WORD = re.compile("[0-9]+[-.][0-9]+\t")  # 1-2: several words; 1.1: an empty one
_RANGE = re.compile("([0-9]+)-([0-9]+)\t")
_QUOTED = re.compile('"[^"]*+(?:""[^"]*+)++"')  # as CSV writes cells with quotes
_WORD, _POS, _ENTITIES = 3, 4, 10  # of CoNLL-2012
_BRACKETS = re.compile(r"(?:\(([^()* ]+))?\*?(\))?")


# Readers of formats with a token a line

_at_tabs = operator.methodcaller("split", "\t")


def cells_of(line: str) -> list[str]:
    """Returns the cells of a line of columns, between tabs, or else runs of spaces."""
    return line.split("\t") if "\t" in line else list(filter(None, line.split(" ")))


def _csv_cells(line: str, delimiter: str) -> list[str]:
    """Returns the cells of a line of CSV; one if a quote is not closed before a tab."""
    try:
        return next(csv.reader([line], delimiter=delimiter, strict=True), [])
    except csv.Error:
        return line.split("\t") if delimiter == "\t" else [line]


class Layout(NamedTuple):
    """How the lines of a format are read."""

    mark: re.Pattern[str]  # of a line apart; if its group matches, a document begins
    split: Callable[[str], list[str]]  # into cells; none: the line is left out
    size: int  # least number of columns
    most: int  # greatest number of columns
    token: int  # column of tokens, unless the options name another; so for labels
    label: int
    comments: str = "\n"  # what a line to leave out before a sentence begins with
    # Document and sentence of a line; a new one starts a sentence.
    group: Callable[[str], tuple[str, ...]] = lambda line: ("",)
    # What becomes of a sentence, and of the lines it was read from.
    change: Callable[[int, Sequence[str], Example], Items] | None = None
    rest: Sequence[str] = ()  # titles of columns that are not read


def _blocks(
    source: Source, lines: Iterable[str], layout: Layout
) -> Iterator[tuple[int, list[str], tuple[str, ...]]]:
    """Yields number of the first, lines, and group of each sentence.

    A line that matches `mark` is a block of its own. Without labels, the length of a
    block is limited: more comments before a sentence are blocks of their own, the rest
    of a sentence is left out.
    """
    limit = sys.maxsize if source.has_labels else MAX_TOKENS + 1
    start, block, last, num_rows = 0, [], ("",), 0
    for number, line in enumerate(itertools.chain(lines, [""]), 1):
        is_mark = bool(layout.mark.match(line)) or number == source.header
        is_blank = not line.strip(" \t")
        is_comment = not num_rows and line.startswith(layout.comments)
        is_apart = is_mark or is_blank
        group = last if is_apart or is_comment else layout.group(line)
        is_full = not num_rows and len(block) == limit
        if block and (is_apart or is_full or (num_rows and group != last)):
            yield start, block, last
            block, num_rows = [], 0
        last = group
        if is_mark:
            yield number, [line], last
        elif not is_blank and num_rows < limit:
            start = start if block else number
            num_rows += 0 if is_comment else 1
            block.append(line)


def _sentences(
    source: Source, lines: Iterable[str], layout: Layout
) -> Iterator[Record]:
    """Yields a record for each sentence; one without tokens for all other lines."""
    options, size = source.options, layout.size
    token, label = options.token_column, options.label_column
    token = layout.token if token is None else token
    label = layout.label if label is None else label
    places = [x for x in (token, label) if -size <= x < size]
    if source.has_labels and len({index % size for index in places}) < 2:
        message = f"expected columns of tokens and labels ({token} and {label}) of "
        message += f"{size}; set token_column and label_column"
        raise InputError(message, source.path)
    places = (token, label) if source.has_labels else (token,)
    document, last, groups = 0, ("",), set()
    comments, returns, blank_lines, quotes, signs = [], [], [], [], []  # lines
    num_sentences = num_tokens = 0
    hint = BLANK_HINT if source.has_labels and token >= 0 else ""

    def has_value(cells: Sequence[str], column: int) -> bool:
        return -len(cells) <= column < len(cells) and bool(cells[column].strip(" "))

    def lacks_token(line: str, cells: Sequence[str]) -> bool:
        if len(cells) < size:  # between spaces, a blank first cell is none
            return line[0] == " " and len(cells) == size - 1 and not token
        return len(cells) <= layout.most and not has_value(cells, token)

    def parse(start: int, block: Sequence[str]) -> Items:
        nonlocal num_sentences, num_tokens
        rows: list[tuple[int, list[str]]] = []  # line, cells
        errors: list[InputError] = []
        for number, line in enumerate(block, start):
            cells = layout.split(line)
            count = len(cells)
            if flaw := source.flaw(line):
                errors.append(source.error(number, flaw, line))
            elif not rows and line.startswith(layout.comments):
                if count == size > 1:
                    comments.append(number)
            elif not cells:
                continue
            elif options.blank == "drop" and lacks_token(line, cells):
                blank_lines.append(number)
            elif source.has_labels and not size <= count <= layout.most:
                reason = f"expected {counted(size, 'column')}, got {count}"
                reason += hint * lacks_token(line, cells)
                is_sign = block[0][0] == "#" and layout.comments == "\n"
                reason += _SIGN_HINT * is_sign
                errors.append(source.error(number, reason, line))
            elif count < size and layout.split is _at_tabs:
                errors.append(source.error(number, "no tab", line))
            elif "\r" in line:
                errors.append(source.error(number, "a carriage return", line))
            elif gaps := [x for x in places if not has_value(cells, x)]:
                reason = f"no value in column {gaps[0]}"
                reason += hint * lacks_token(line, cells)
                errors.append(source.error(number, reason, line))
            elif (
                source.has_labels
                and _LABELS.fullmatch(cells[label])
                and cells[label].count(" ") == cells[token].count(" ")
            ):
                reason = "expected a token and its label, got a sentence and its labels"
                errors.append(source.error(number, reason + "; try JSON lines", line))
            else:
                rows.append((number, cells))
                if _QUOTED.fullmatch(cells[token]):
                    quotes.append(number)
        if not rows:
            return errors
        numbers, cells = zip(*rows, strict=True)
        columns = (tuple(row[index] for row in cells) for index in places)
        tokens, labels, *_ = *columns, ()
        num_sentences, num_tokens = num_sentences + 1, num_tokens + len(rows)
        line = block[numbers[0] - start]
        is_sign = line[0] == tokens[0] == "#" and layout.comments == "\n"
        if source.has_labels and is_sign:
            signs.append(numbers[0])
        example = Example(tokens, labels, lines=numbers)
        change = layout.change
        return [*errors, *(change(start, block, example) if change else [example])]

    for start, block, group in _blocks(source, lines, layout):
        read = functools.partial(parse, start, block)
        match = layout.mark.match(block[0])
        if match or start == source.header:
            document += bool(match and match[1])
            read = read if source.flaw(block[0]) else list
            yield Record(start, block, read, document)
            continue
        document += group[0] != last[0]
        if group in groups and group != last:
            returns.append(start)
        if source.has_labels:  # else memory is bounded
            groups.add(group)
        last = group
        yield Record(start, block, read, document)
    text = "{} with the name of an earlier one; are the lines of a sentence apart?"
    source.note_cases(blank_lines, "blank token", "left out {}")
    source.note_cases(comments, "comment", "left out {} with as many cells as a token")
    remedy = "quoted as in CSV, and read with the quotes: {}; pandas: quoting=3"
    source.note_cases(quotes, "token", remedy)
    source.note_cases(returns, "sentence", text)
    if layout.rest and num_sentences == 1 and num_tokens > LONG:
        text = f"one sentence of {num_tokens:,} tokens: no column {SENTENCE[0]} or "
        source.note(f"{text}{SENTENCE[2]}; not read: {', '.join(layout.rest)}")
    if len(signs) > max(1, num_sentences / 2):
        source.note_cases(signs, "sentence", "{} with # as first token" + _SIGN_HINT)


def columns(source: Source, is_csv: bool = False) -> Iterator[Record]:
    """Reads columns, such as those of CoNLL-2003: one token per line.

    The first token line sets the number of columns, and whether tabs or runs of spaces
    separate them. A no-break space belongs to its token. A blank line ends a sentence;
    a line whose first cell is `-DOCSTART-` starts a document. `#` starts a token,
    unless `comments` says that it starts lines before a sentence.

    If the first token line names columns for tokens and labels, it is a header; without
    labels to read, also if it names tokens and documents or sentences, or begins with a
    name of tokens in lower case. A new value in its column of sentences or documents
    starts one, too; a blank cell there means "as above". Without labels to read, a
    column for them is added to the header.

    In CSV, commas (semicolons, tabs) separate columns, quotes may enclose a cell, and
    a row of blank cells ends a sentence.
    """
    lines, comments = source.lines(), source.options.comments or "\n"
    begin, first = [], ""  # lines up to the first with a token, and this one
    mark, blank = DOCUMENT_LINE.pattern, "[ \t]*$"
    if is_csv:
        mark, blank = rf'({DOCSTART}|"{DOCSTART}")(?:[,;\t]|$)', "(?:,+|;+|[ \t]*)$"
    skips = re.compile(f"{blank}|{re.escape(comments)}|{mark}")
    for line in lines:
        begin.append(line)
        if not skips.match(line):
            first = line
            break
    split = _at_tabs if "\t" in first else cells_of
    if is_csv:
        delimiter = max(",;\t", key=first.count)
        split = functools.partial(_csv_cells, delimiter=delimiter)
        mark += f"|{delimiter}{{{len(split(first)) - 1}}}$"  # a blank row
    source.split, cells, number = split, split(first), len(begin)
    size = len(cells) or 2
    if first and source.has_labels and len(cells) == 1:
        marks = "commas, semicolons or tabs" if is_csv else "tabs or spaces"
        message = f"expected a token and a label between {marks}, got one column"
        if not is_csv and "," in first and first[0] not in "{[":
            message += "; save CSV with tabs, or name it .csv"
        message += _SIGN_HINT * (first[0] == "#" and comments == "\n")
        error = source.error(number, source.flaw(first) or message, first)
        yield Record(number, begin[-1:], [error].copy)
        return
    names = header(cells, source.has_labels)
    token, label, *groups = names or (0, -1)
    source.header = number if names else 0
    if names and not source.has_labels:
        titles = ["gold" if x == LABEL[0] else x for x in cells]
        begin[-1] = ("\t" if "\t" in first else " ").join([*titles, LABEL[0]])
        if label < 0:
            source.note("read as the names of columns", number)
    last_titles = ["", ""]

    def group(line: str) -> tuple[str, ...]:
        row = split(line)
        for i, column in enumerate(groups):
            name = row[column] if 0 <= column < len(row) else ""
            last_titles[i] = name if name.strip(" ") else last_titles[i]
        return tuple(last_titles)

    layout = Layout(re.compile(mark), split, size, size, token, label, comments)
    if max(groups, default=-1) >= 0:
        layout = layout._replace(group=group)
    if names and groups[1] < 0:
        used = {token, label, *groups}
        rest = [x for i, x in enumerate(cells) if i not in used and x.strip(" _")]
        layout = layout._replace(rest=rest)
    yield from _sentences(source, itertools.chain(begin, lines), layout)


def header(
    cells: Sequence[str], has_labels: bool = True
) -> tuple[int, int, int, int] | None:
    """Returns the columns of tokens, labels, documents and sentences by their names.

    One without a name is -1. None: the cells are no header; see `columns`.
    """
    names = [cell.strip().lower() for cell in cells]
    token, label, document, sentence = (
        next((names.index(name) for name in spellings if name in names), -1)
        for spellings in (TOKEN, (*LABEL, "gold"), DOCUMENT, SENTENCE)
    )
    if token < 0 or (has_labels and label < 0):
        return None
    is_header = max(label, document, sentence) >= 0 or cells[0] in TOKEN
    return (token, label, document, sentence) if is_header else None


def conllu(source: Source) -> Iterator[Record]:
    """Reads CoNLL-U: syntactic words, which carry the annotation, in ten columns.

    Labels stand in MISC, as in `NER=B-PER` (or `name=B-PER`); a token without one is O.
    Tags stand in UPOS. An entity of a multiword token (ID `1-2`) covers its words;
    empty nodes (`1.1`) are skipped. `# newdoc` starts a document. `_` is a word like
    any other, but no label.

    Source: https://universaldependencies.org/format.html
    """
    label, has_entities = source.options.label_column, set[bool]()
    if label is None:
        label = UPOS if source.options.tags else MISC

    def split(line: str) -> list[str]:
        return [] if _NO_WORD.match(line) else _at_tabs(line)

    def change(start: int, block: Sequence[str], example: Example) -> Items:
        labels, errors = list(example.labels), []
        if label == MISC:
            labels = [_entity_of(misc) or "O" for misc in labels]
            lines = dict(enumerate(block, start))
            errors += _spread(source, lines, example.lines, labels)
            has_entities.add(labels.count("O") < len(labels))
        if "_" in labels:
            number = example.lines[labels.index("_")]
            message = "expected a label, got _; UPOS is label_column 3"
            errors.append(InputError(message, line=number))
        return [*errors, dataclasses.replace(example, labels=tuple(labels))]

    mark = re.compile(r"(#\s*newdoc)(?:\s|$)")
    layout = Layout(mark, split, 10, 10, 1, label, "#", change=change)
    yield from _sentences(source, source.lines(), layout)
    if has_entities == {False}:
        source.note("MISC has no NER=: all labels are O; UPOS has tags")


def _entity_of(misc: str) -> str:
    match = _ENTITY.search(misc) or _NAME.search(misc)
    return match[1] if match else ""


def _spread(
    source: Source, lines: dict[int, str], numbers: Sequence[int], labels: list[str]
) -> Iterator[InputError]:
    """Gives the words of multiword tokens the entities of these."""
    last = -1
    names = (lines[number].partition("\t")[0] for number in numbers)
    positions = {name: i for i, name in enumerate(names)}
    for number, line in lines.items():
        match = _RANGE.match(line)
        if not match or (entity := _entity_of(line.rpartition("\t")[2])) in ("", "O"):
            continue
        start, end = (positions.get(match[i], -1) for i in (1, 2))
        size = end - start + 1
        if not last < start < end:
            message = "expected a range of words after it, apart from other ranges"
            yield source.error(number, message, line)
            return
        prefix, kind = schemes.parse(entity)
        spellings = {"S": "BIE", "U": "BIL", "B": "BII", "E": "IIE", "L": "IIL"}
        prefixes = spellings.get(prefix, prefix * 3)
        prefixes = prefixes[0] + prefixes[1] * (size - 2) + prefixes[2]
        names = [f"{prefix}-{kind}" for prefix in prefixes]
        old_labels = labels[start : end + 1]
        if old_labels not in (["O"] * size, names):
            message = f"expected words without entities of their own, got {old_labels}"
            yield source.error(number, message, line)
            return
        last = end
        labels[start : end + 1] = names


def conll2012(source: Source) -> Iterator[Record]:
    """Reads CoNLL-2012, the format of OntoNotes 5: 12 columns or more.

    Entities are in column 10, from 0, as `(GPE*`, `*`, `*)` or `(GPE)`. Source:
    https://conll.cemantix.org/2012/data.html, "CoNLL format".
    """
    label = source.options.label_column
    if label is None:
        label = _POS if source.options.tags else _ENTITIES
    mark = re.compile("(#begin)|#end")
    layout = Layout(mark, cells_of, 12, sys.maxsize, _WORD, label)
    if label == _ENTITIES:
        layout = layout._replace(change=functools.partial(_unbracketed, source))
    yield from _sentences(source, source.lines(), layout)


def _unbracketed(
    source: Source, start: int, block: Sequence[str], example: Example
) -> Items:
    items, kind, labels = [], "", []  # of the entity that is open
    for number, mark in zip(example.lines, example.labels, strict=True):
        match = _BRACKETS.fullmatch(mark)
        begins, ends = match.groups("") if match else ("", "")
        if not match or (begins and kind) or (ends and not begins + kind):
            context = f"within {kind!r}" if kind else "outside of brackets"
            message = f"expected (TYPE*, *, *) or (TYPE), {context}, got"
            items.append(source.error(number, message, mark))
        kind = begins or kind
        labels.append(f"{'B' if begins else 'I'}-{kind}" if kind else "O")
        kind = "" if ends else kind
    if kind:
        message = f"the sentence ends within the entity {kind!r}"
        items.append(InputError(message, line=example.lines[-1]))
    return [*items, dataclasses.replace(example, labels=tuple(labels))]


# Writers

Rows = Iterable[Sequence[str]]  # the cells of each token of a sentence


def _rows(example: Example) -> Iterator[tuple[str, str]]:
    return zip(example.tokens, example.labels, strict=True)


def _line(cells: Iterable[str], separator: str = "\t") -> str:
    delimiters = f"\r\n\t{separator}"
    return separator.join([cell(text, delimiters) for text in cells]) + "\n"


def _written(
    sentences: Iterable[tuple[Example, Rows]], mark: str, separator: str = "\t"
) -> Iterator[str]:
    """Yields sentences as text; `mark` begins each document, {} is its number."""
    document = 0
    for example, rows in sentences:
        for number in range(document + 1, example.document + 1):
            yield mark.format(number)
        document = example.document
        with example.naming():
            lines = [_line(cells, separator) for cells in rows]
        yield "".join([*lines, "\n"])


def write_columns(
    path: str | os.PathLike[str],
    sentences: Iterable[Rows],
    documents: Sequence[int] | None = None,
) -> None:
    """Writes the rows of sentences, one per token, as columns; `read` returns them."""
    sentences = [list(rows) for rows in sentences]
    numbers = itertools.repeat(0) if documents is None else documents
    pairs = [
        (Example(tuple(row[0] for row in rows), document=number), rows)
        for number, rows in zip(numbers, sentences, strict=documents is not None)
    ]
    write_text(path, "".join(_columns(pairs)))


def _columns(
    sentences: Sequence[tuple[Example, Sequence[Sequence[str]]]],
) -> Iterator[str]:
    names, rows = [TOKEN[0]], [row for _, rows in sentences for row in rows]
    # A first cell keeps a token from beginning a document.
    has_mark = any(DOCUMENT_LINE.match(f"{row[0]} ") for row in rows)
    if has_mark:
        names, rows = ["_", *names], [["_", *row] for row in rows]
        sentences = [(e, [["_", *row] for row in x]) for e, x in sentences]
    separator = "\t" if any(" " in text for row in rows for text in row) else " "
    width = len(rows[0]) if rows else 0
    if rows and (has_mark or header(rows[0])):  # else the first row would be names
        names += [*(f"gold{i}" for i in range(len(names) + 1, width)), LABEL[0]]
        yield _line(names, separator)
    mark = separator.join([DOCSTART, *["O"] * (width - 1)])
    yield from _written(sentences, f"{mark}\n\n", separator)


def _to_columns(examples: Sequence[Example], tags: bool) -> Iterator[str]:
    return _columns([(example, [*_rows(example)]) for example in examples])


def _to_conllu(examples: Sequence[Example], tags: bool) -> Iterator[str]:
    def rows(example: Example) -> Iterator[list[str]]:
        for i, (token, label) in enumerate(_rows(example), 1):
            if (label == "_") if tags else ("|" in label):
                raise InputError(f"CoNLL-U cannot hold the label {label!r}")
            upos, misc = (label, "_") if tags else ("_", f"NER={label}")
            yield [str(i), token, "_", upos, *"_____", misc]

    return _written(((e, rows(e)) for e in examples), "# newdoc\n")


def _to_conll2012(examples: Sequence[Example], tags: bool) -> Iterator[str]:
    def rows(example: Example) -> Iterator[list[str]]:
        brackets = ["*"] * len(example.tokens)
        for start, last, kind in () if tags else schemes.to_spans(example.labels):
            brackets[start] = f"({cell(kind, '()* ')}*"
            brackets[last - 1] = f"({kind})" if last - start == 1 else "*)"
        name = f"document_{example.document}"
        for i, (token, label) in enumerate(_rows(example)):
            cells = [name, "0", str(i), token, label if tags else "-"]
            yield [*cells, "*", *"----", brackets[i], "-"]

    # Sentences before the first document become a document, too.
    if examples and not examples[0].document:
        examples = [dataclasses.replace(e, document=e.document + 1) for e in examples]
    begin, end = "#begin document (document_{}); part 000\n", "#end document\n"
    text = "".join(_written(((e, rows(e)) for e in examples), end + begin, " "))
    yield text.removeprefix(end) + (end if examples else "")


def _to_table(examples: Sequence[Example], tags: bool) -> Iterator[str]:
    # A first cell also keeps a token from beginning a document.
    words = (token for example in examples for token in example.tokens)
    has_documents = any(word.startswith(DOCSTART) for word in words)
    has_documents |= any(example.document for example in examples)
    yield "document\ttoken\tlabel\n" if has_documents else "token\tlabel\n"
    for example in examples:
        # A sentence before the first document has a blank cell.
        lead = f"{example.document or ''}\t" if has_documents else ""
        with example.naming():
            lines = [lead + _line(row) for row in _rows(example)]
        yield "".join([*lines, "\n"])


def _to_csv(examples: Sequence[Example], tags: bool) -> Iterator[str]:
    for text in _to_table(examples, tags):
        file = io.StringIO()
        rows = (line.split("\t") if line else [] for line in text[:-1].split("\n"))
        csv.writer(file, lineterminator="\n").writerows(rows)
        yield file.getvalue()


# The formats


@dataclasses.dataclass(frozen=True)
class Format:
    """How a format is read and written."""

    read: Callable[[Source], Iterator[Record]]
    write: Callable[[Sequence[Example], bool], Iterable[str]] | None
    options: tuple[str, ...]  # of `Options`, those that only some formats have
    endings: tuple[str, ...]  # of the names of its files
    has_spans: bool = False  # and no tags
    write_to: Callable[[Path, Sequence[Example]], None] | None = None  # if no lines


_PLACES = ("token_column", "label_column")
_COLUMNS = (".conll", ".txt", ".bio", ".iob", ".iob2")
_JSON = (".jsonl", ".ndjson", ".json")
FORMATS: dict[str, Format] = {
    "conll": Format(columns, _to_columns, (*_PLACES, "comments"), _COLUMNS),
    "conll2012": Format(conll2012, _to_conll2012, ("label_column",), ("_conll",)),
    "conllu": Format(conllu, _to_conllu, _PLACES, (".conllu",)),
    "jsonl": Format(spans.json_lines, spans.to_json, ("label_names",), _JSON),
    "jsonl-spans": Format(
        spans.json_lines, spans.to_json_spans, ("label_names",), (), has_spans=True
    ),
    "tsv": Format(columns, _to_table, (*_PLACES, "comments"), (".tsv", ".tab")),
    "csv": Format(
        functools.partial(columns, is_csv=True),
        *(_to_csv, (*_PLACES, "comments"), (".csv",)),
    ),
    "brat": Format(spans.brat, None, (), (".ann",), True, spans.write_brat),
    "spacy": Format(spans.docbin, None, (), (".spacy",), True, spans.write_docbin),
}
Name = Annotated[str, fields.OneOf(FORMATS)]
"""The formats; `jsonl-spans` is for writing, `jsonl` reads both forms."""
RAW = {"text": spans.texts, "conll": columns, "jsonl": spans.json_lines}
"""The formats of files to tag, and their readers."""
OUTPUTS = ("conll", "jsonl")  # the formats of tagged files


def of_name(path: str | os.PathLike[str]) -> str | None:
    """Returns the format that the name of a file tells, if any; `.gz` may follow."""
    name = Path(path).name.removesuffix(".gz").lower()
    formats = (n for n, f in FORMATS.items() if f.endings and name.endswith(f.endings))
    return next(formats, None)


def guess(path: str | os.PathLike[str]) -> str:
    """Returns the format of a file or folder by its name; columns by default.

    A folder with `.ann` files is `brat`, other folders are `conll2012`.
    """
    if Path(path).is_dir():
        return "brat" if any(Path(path).rglob("*.ann")) else "conll2012"
    return of_name(path) or "conll"


def guess_raw(path: str) -> str:
    """Returns the format of a file to tag by its name, one of `RAW`; `-` is text."""
    name, format = os.path.basename(path), of_name(path)
    if os.path.isdir(path) and members(Path(path), guess(path)):
        format = guess(path)
    is_nameless = format is None and outputs.is_stream(path)
    if is_nameless or re.search(r"\.te?xt(\.gz)?$", name, re.IGNORECASE):
        return "text"
    if format in (*RAW, "tsv"):
        return format.replace("tsv", "conll")
    if format is None:
        check_file(path)
        choice = f"give --format, one of {', '.join(RAW)}"
        raise InputError(f"The name {name!r} shows no format: {choice}")
    # As --format conll, a line of CSV or an ID of CoNLL-U would be a token.
    remedy = (
        "save it with tabs" if format == "csv" else "jaxner convert IN -o OUT.conll"
    )
    raise InputError(f"{path} looks like {format}: {remedy} first")


def guess_output(path: str, source: str) -> str:
    """Returns the format of a file to write by its name; for `-`, that of the input."""
    if path == "-":
        return "conll" if source == "conll" else "jsonl"
    if (format := of_name(path)) in OUTPUTS:
        return format
    message = f"The name {os.path.basename(path)!r} shows no format to write: end it "
    raise InputError(f"{message}with .conll or .jsonl, or give --to")


def fitting(
    options: Mapping[str, Any], path: str | os.PathLike[str], format: str | None = None
) -> dict[str, Any]:
    """Returns the options that a format has, by default what `guess` returns."""
    special = {name for item in FORMATS.values() for name in item.options}
    special -= {*FORMATS[format or guess(path)].options}
    return {name: value for name, value in options.items() if name not in special}


def of_run(
    options: Mapping[str, Any], path: str | os.PathLike[str], format: str | None = None
) -> dict[str, Any]:
    """Returns a run's options for another file; the encoding is that of columns."""
    kept = fitting(options, path, format)
    if "label_column" not in FORMATS[format or guess(path)].options:
        kept.pop("encoding", None)
    return kept


@dataclasses.dataclass
class File:
    """What was read from a file, or from the files of a folder in turn."""

    path: Path
    examples: list[Example]
    errors: list[InputError]
    notes: list[str]
    sha256: str


def read(
    path: str | os.PathLike[str],
    format: str | None = None,
    *,
    collect: bool = False,
    **options: Any,
) -> File:
    """Reads labelled sentences from a file or folder, by default as `guess` says.

    `options` are those of `Options`, None for defaults. With `collect`, bad lines are
    left out and their errors collected; otherwise the first one is raised.
    """
    path = Path(path)
    format = format or guess(path)
    fields.check("format", format, Name)
    kind = FORMATS[format]
    options = {k: value for k, value in options.items() if value not in (None, ())}
    for name in sorted(options.keys() - fitting(options, path, format).keys()):
        raise InputError(f"{name} is set, but {format} has none", path)
    source, examples, errors = Source(path, Options(**options)), [], []
    document, files, is_folder = 0, members(path, format), path.is_dir()
    if not files:
        message = "Expected a file, or a folder of .txt and .ann (brat) or of _conll "
        raise IsADirectoryError(f"{message}(CoNLL-2012), got the folder {path}")
    for source.path in files:
        base = document
        try:
            for record in kind.read(source):
                items, flaws = source.parse(record)
                errors += flaws
                if is_folder:
                    document = base + max(record.document, 1)
                    origin = {"document": document, "path": str(source.path)}
                    origin |= {"path": items[0].path} if items and items[0].path else {}
                    items = [dataclasses.replace(e, **origin) for e in items]
                examples += items
        except InputError as error:
            errors.append(error)
    if not examples and not errors:
        message = "expected labelled sentences, got none; is it the right file?"
        errors.append(InputError(" ".join([message, *source.notes]), path))
    errors.sort(key=lambda error: (str(error.path), error.line or 0))
    if errors and not collect:
        raise errors[0]
    notes = source.notes
    if len(notes) > 5:
        notes[5:] = [f"and {len(notes) - 5:,} more notes like these"]
    return File(path, examples, errors, notes, source.sha256)


def _fail(error: OSError) -> NoReturn:
    raise error


def members(path: Path, format: str) -> list[Path]:
    """Returns the files to read in a folder of brat or CoNLL-2012, or the file."""
    if not path.is_dir():
        return [path.with_suffix(".ann") if format == "brat" else path]
    all_endings = {"brat": (".ann", ".txt"), "conll2012": ("_conll", "_conll.gz")}
    endings, files = all_endings.get(format, ()), set()
    for folder, _, names in os.walk(path, onerror=_fail):
        files |= {Path(folder, name) for name in names if name.endswith(endings)}
    if format == "brat":
        files = {file.with_suffix(".ann") for file in files}
    return sorted(files)


def inputs(path: Path, format: str | None = None) -> list[Path]:
    """Returns all files that are read for a path."""
    files = members(path, format or guess(path))
    return files + [x.with_suffix(".txt") for x in files if x.suffix == ".ann"]


def write(
    path: str | os.PathLike[str],
    examples: Sequence[Example],
    format: str | None = None,
    *,
    tags: bool = False,
) -> None:
    """Writes labelled sentences atomically, by default in the format of `guess`.

    `path` is a file, compressed if its name ends with `.gz`, or `-`; for brat, a new or
    empty folder.
    """
    format = format or guess(path)
    fields.check("format", format, Name)
    kind = FORMATS[format]
    if tags and kind.has_spans:
        raise InputError(f"{format} holds spans, and these labels are tags")
    if kind.write_to:
        kind.write_to(Path(path), examples)
    elif kind.write:
        write_text(path, "".join(kind.write(examples, tags)))
