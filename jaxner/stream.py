"""Tags texts larger than memory, record by record, and resumes after a kill.

A record is a line of text, a sentence in columns, or a JSON object. Results go to
`OUTPUT.part`, chunk by chunk; a journal beside it records how many of its bytes are
valid and how many input records they cover. After a kill, the next run truncates the
file to the journal's size and continues there, so no record is lost or written twice.
The finished file is renamed to `OUTPUT`.
"""

from __future__ import annotations

import collections
import concurrent.futures
import dataclasses
import io
import itertools
import json
import re
import time
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import jax
import numpy as np

from jaxner import tagging
from jaxner.answers.entities import arrays
from jaxner.answers.mentions import check_least, least_of, read_spans, types_of
from jaxner.data import formats, schemes
from jaxner.data.formats import DOCSTART, DOCUMENT_LINE, Example, Options
from jaxner.errors import InputError
from jaxner.models.seq2seq import Seq2seqHead
from jaxner.outputs import Output
from jaxner.tagger import Tagger
from jaxner.types import Sentence
from jaxner.wording import counted

CHUNK = 1 << 16
"""Tokens that are read, tagged and written together."""
MAX_LINE = 1 << 26
"""Maximum length of a line in characters; a longer line is a bad record."""
MAX_TOKENS = 1 << 17
"""Maximum length of a sentence in tokens; a longer one is a bad record."""


class Record(NamedTuple):
    """A record of the input."""

    index: int  # number of records before it
    line: int  # its first, from 1
    checksum: int  # CRC-32 of all records up to this one
    source: Any  # its text, lines, or JSON object; the start of a bad record
    pieces: tuple[Example, ...] = ()  # its sentences; none: only copied
    document: int = 0  # number of its document; 0 if the input marks none
    is_first: bool = False  # whether it begins a document
    problem: str | None = None  # why it cannot be read


# Reading.


def records(
    file: Any, format: str, options: Options, *, max_line: int = MAX_LINE
) -> Iterator[Record]:
    """Yields the records of a decompressed stream of bytes, in bounded memory.

    `format` is one of `formats.RAW`. The first column has the tokens unless a header or
    the options name another. A header gets a name for the labels that come.
    """
    lines, header = _lines(file, options.encoding, max_line), None
    if format == "conll":
        path = getattr(file, "name", None)
        lines, header, options = _headed(lines, options, path)
        groups = formats.blocks(lines, DOCUMENT_LINE, MAX_TOKENS + 1)
    else:
        groups = ((n, [line]) for n, line in enumerate(lines, 1) if line.strip())
    checksum, document, name = 0, 0, None
    for index, (line, block) in enumerate(groups):
        text, source, pieces, is_first = "\n".join(block), block, [], False
        data = text.encode("utf-8", "surrogateescape")
        checksum = zlib.crc32(data, checksum)
        try:
            if byte := _UNREADABLE.search(text):
                code = ord(byte[0]) - 0xDC00
                raise InputError(f"byte 0x{code:02x} is not {options.encoding}")
            if any(len(row) > max_line for row in block):
                raise InputError(f"a line of more than {max_line:,} characters")
            if format == "text":
                source, pieces = {"text": text}, formats.pieces(text, options)
            elif format == "jsonl":
                source = formats.load_json(text)
                pieces = formats.json_pieces(source, options)
                is_first = source.get("document") not in (None, name)
                name = source["document"] if is_first else name
            elif not (is_first := bool(DOCUMENT_LINE.match(text))):
                pieces = _columns(block, line, options, header)
            document += is_first
            if any(len(piece.tokens) > MAX_TOKENS for piece in pieces):
                problem = f"a sentence of more than {MAX_TOKENS:,} tokens; is a blank "
                raise InputError(f"{problem}line missing?")
            place = index, line, checksum, source
            yield Record(*place, tuple(pieces), document, is_first)
        except InputError as error:
            place = index, line, checksum, data[: 1 << 16].decode("utf-8", "replace")
            yield Record(*place, (), document, problem=error.message)


_UNREADABLE = re.compile("[\udc80-\udcff]")  # bytes that are not in the encoding


def _lines(file: Any, encoding: str, most: int) -> Iterator[str]:
    """Yields lines without line ends; only the beginning of a line too long."""
    with io.TextIOWrapper(file, encoding, "surrogateescape", newline="\n") as text:
        line = text.readline(most + 1).removeprefix("\ufeff")
        while line:
            rest = line
            while len(rest) > most and rest[-1] != "\n":
                rest = text.readline(most + 1)
            yield line if line is not rest else line.rstrip("\r\n")
            line = text.readline(most + 1)


def _headed(
    lines: Iterator[str], options: Options, path: Any
) -> tuple[Any, str | None, Options]:
    """Returns all lines, that of a header, and options with its column of tokens.

    Labels of the input are named gold: readers take the column that is added.
    """
    skips, begin = formats.without_token(options), []
    for line in lines:
        begin.append(line)
        if not skips.match(line):
            break
    named = formats.header(formats.cells_of(begin[-1])) if begin else None
    if named is None:
        return itertools.chain(begin, lines), None, options
    if max(named[2:]) >= 0:
        message = "the header names a column of documents or of sentences: first do "
        raise InputError(f"{message}jaxner convert IN OUT.conll", path, len(begin))
    added = formats.LABEL[0]
    cells = ("gold" if x == added else x for x in formats.cells_of(begin[-1]))
    begin[-1] = ("\t" if "\t" in begin[-1] else " ").join([*cells, added])
    if options.token_column is None:
        options = dataclasses.replace(options, token_column=named[0])
    return itertools.chain(begin, lines), begin[-1], options


def _columns(
    block: Sequence[str], first: int, options: Options, header: str | None
) -> list[Example]:
    """Returns the tokens of a sentence in columns; none in comments and a header."""
    column, tokens, comments = options.token_column or 0, [], options.comments
    for number, line in enumerate(block, first):
        if not tokens and (line == header or (comments and line.startswith(comments))):
            continue
        cells = dict(enumerate(formats.cells_of(line)))
        token = cells.get(column if column >= 0 else column + len(cells), "")
        if not token.strip(" ") or "\r" in line:
            raise InputError(f"expected a token in column {column} of line {number}")
        tokens.append(token)
    return [Example(tuple(tokens))] if tokens else []


# Writing.


Labelled = tuple[Sequence[str], dict[tuple[int, int, str], float] | None]
"""The labels of a sentence; the probability of each entity, by (first token, last token
plus one, type), or None if they were not computed."""


class Sink(NamedTuple):
    """Formats records with their labels; `has_tags`: whether labels are tags."""

    source: str  # format of the input, one of `formats.RAW`
    format: str  # of the output: `conll` or `jsonl`
    has_tags: bool = False

    @property
    def writes_entities(self) -> bool:
        """Whether entities of texts are written, each with its probability."""
        return self.format == "jsonl" and self.source != "conll" and not self.has_tags

    def text(self, record: Record, labelled: Sequence[Labelled]) -> str:
        """Returns a record as text, with the labels of each of its sentences.

        Lines that begin documents, and comments, are not written as JSON.
        """
        if self.format == "conll":
            return "".join(f"{row}\n" for row in self._rows(record, labelled))
        if self.source == "conll" and not record.pieces:
            return ""
        return json.dumps(self._object(record, labelled), ensure_ascii=False) + "\n"

    def _rows(self, record: Record, labelled: Iterable[Labelled]) -> Iterator[str]:
        if not record.pieces and self.source == "conll":
            yield from (*record.source, "")
        elif record.is_first:
            yield from (DOCSTART, "")
        for piece, (labels, _) in zip(record.pieces, labelled, strict=True):
            rows: Sequence[str] = piece.tokens
            separator = "\t"
            if self.source == "conll":
                comments = len(record.source) - len(piece.tokens)
                yield from record.source[:comments]
                rows = record.source[comments:]
                separator = "\t" if "\t" in rows[0] else " "
            for row, label in zip(rows, labels, strict=True):
                yield f"{row}{separator}{label}"
            yield ""

    def _object(self, record: Record, labelled: Sequence[Labelled]) -> dict[str, Any]:
        tokens = [token for piece in record.pieces for token in piece.tokens]
        content: dict[str, Any] = {"document": record.document}
        if self.source != "conll":
            old = ("labels", "ner_tags", "spans")
            content = {k: v for k, v in record.source.items() if k not in old}
        elif not record.document:
            content = {}
        text = content.get("text")
        if self.has_tags or text is None:
            labels = [label for labels, _ in labelled for label in labels]
            return {**content, "tokens": tokens, "labels": labels}
        pairs = zip(record.pieces, labelled, strict=True)
        return {**content, "spans": [x for pair in pairs for x in _spans(text, *pair)]}


def _spans(text: str, piece: Example, labelled: Labelled) -> Iterator[dict[str, Any]]:
    """Yields the entities of a sentence of a text, as JSON objects."""
    assert piece.offsets is not None
    labels, chances = labelled
    spans = schemes.to_spans(labels) if chances is None else sorted(chances)
    for start, end, kind in spans:
        first = piece.start + piece.offsets[start][0]
        last = piece.start + piece.offsets[end - 1][1]
        span = {"start": first, "end": last, "label": kind, "text": text[first:last]}
        if chances is not None:
            span["probability"] = round(chances[start, end, kind], 4)
        yield span


@dataclasses.dataclass
class Progress:
    """The progress of a run, in numbers."""

    records: int = 0  # of the input so far, including those of other shards
    checksum: int = 0  # of these records
    sentences: int = 0
    tokens: int = 0
    bad: int = 0

    def __post_init__(self) -> None:
        self._start, self._before = time.perf_counter(), self.tokens

    def summary(self) -> str:
        """Returns the progress as a line, with the speed in tokens per second."""
        seconds = max(time.perf_counter() - self._start, 1e-9)
        speed = (self.tokens - self._before) / seconds
        bad = f", {counted(self.bad, 'bad record')}" if self.bad else ""
        sizes = counted(self.tokens, "token"), counted(self.sentences, "sentence")
        return f"{' in '.join(sizes)}, {speed:,.0f} tokens/s{bad}"


# Tagging.


def identity(params: Tagger) -> str:
    """Returns a name that differs if labels might; a run resumes with one tagger."""
    checksum = 0
    for leaf in jax.tree.leaves(params.weights):
        checksum = zlib.crc32(np.asarray(leaf).tobytes(), checksum)
    return f"{params.vocabulary.fingerprint} {checksum:08x}"


def checked_least(params: Tagger, sink: Sink, min_probability: Any) -> Any:
    """Returns a minimum probability of entities, or None if they need none.

    `InputError`: the tagger's entities cannot have this minimum.
    """
    check_least(types_of(params).names, min_probability)
    has_chances = not (sink.has_tags or isinstance(params.model.head, Seq2seqHead))
    if min_probability and not has_chances:
        raise InputError("This tagger has no probabilities of entities to choose by.")
    wants_chances = has_chances and (min_probability or sink.writes_entities)
    return min_probability if wants_chances else None


def tag_file(
    params: Tagger,
    source: Iterable[Record],
    sink: Sink,
    output: Output,
    *,
    path: str | None = None,
    constrained: bool = False,
    least: Any = None,
    shard: tuple[int, int] = (0, 1),
    chunk: int = CHUNK,
    log: Callable[[Progress], object] = lambda _: None,
) -> Progress:
    """Tags all records of a stream, in order, and returns the progress at the end.

    The output may contain the results of an interrupted run. `path` names the input in
    errors, `least` is what `checked_least` returned, `chunk` the minimum number of
    tokens to tag and write together, and `log` receives the progress after each.
    `shard` is the index of this process and the number n of processes; each takes every
    n-th record (for a tagger that reads documents, every n-th of these).

    `InputError`: a record is bad (the records before it are written); or the input
    differs from that of the interrupted run.
    """
    done, by_document = Progress(**output.done), params.vocabulary.reads_documents

    def takes(record: Record) -> bool:
        number = (by_document and record.document) or record.index
        return number % shard[1] == shard[0]

    chunks = _chunks(params, source, done, takes, chunk, output.rejects is None, path)
    for part, sentences in _ahead(chunks):
        share = [record for record in part if takes(record)]
        good = [record for record in share if record.problem is None]
        bad = [record for record in share if record.problem is not None]
        labelled = _labelled(params, good, sentences, constrained, least)
        texts = [sink.text(r, [next(labelled) for _ in r.pieces]) for r in good]
        done.records, done.checksum = part[-1].index + 1, part[-1].checksum
        done.bad += len(bad)
        done.sentences += len(sentences)
        done.tokens += sum(len(sentence.words) for sentence in sentences)
        rows = [{"line": r.line, "problem": r.problem, "record": r.source} for r in bad]
        rejects = [json.dumps(row, ensure_ascii=False) + "\n" for row in rows]
        output.commit("".join(texts), "".join(rejects), done=dataclasses.asdict(done))
        log(done)
    return done


def _labelled(
    params: Tagger,
    records: Sequence[Record],
    encoded: Any,
    constrained: bool,
    least: Any,
) -> Iterator[Labelled]:
    """Yields the labels of each sentence; its entities, too, if there is a minimum."""
    # A record without a document is one itself.
    documents = [r.document or (r.index,) for r in records for _ in r.pieces]
    options = {"constrained": constrained, "documents": documents}
    if least is None:
        for labels in tagging.tag(params, encoded, **options):
            yield labels, None
        return
    types = types_of(params)
    for answer in arrays(params, encoded, **options):
        labels = params.vocabulary.decode(answer.labels)
        chances = read_spans(types, answer)
        kept = {s: p for s, p in chances.items() if p >= least_of(least, s[2])}
        for start, end, _ in chances.keys() - kept:
            labels[start:end] = ["O"] * (end - start)
        yield labels, kept


def _chunks(
    params: Tagger,
    source: Iterable[Record],
    done: Progress,
    takes: Callable[[Record], bool],
    size: int,
    stops: bool,
    path: str | None,
) -> Iterator[tuple[list[Record], list[Sentence]]]:
    """Yields the remaining records in chunks, with the sentences of those it `takes`.

    If it `stops` at a bad record, raises the error after the records before it.
    """
    source = iter(source)
    last = collections.deque(itertools.islice(source, done.records), 1)
    before = [(record.index + 1, record.checksum) for record in last]
    if done.records and before != [(done.records, done.checksum)]:
        raise InputError(
            f"The first {done.records:,} records of the input have changed since the "
            "output was begun; use --overwrite"
        )
    chunk, sentences, tokens = [], [], 0
    for record in source:
        goes_on = record.document and chunk and record.document == chunk[-1].document
        is_full = tokens >= size and not (goes_on and params.vocabulary.reads_documents)
        is_end = stops and record.problem is not None and takes(record)
        if chunk and (is_full or is_end):
            yield chunk, sentences
            chunk, sentences, tokens = [], [], 0
        if is_end:
            message = f"{record.problem}: {record.source[:80]!r}. Fix it and run the "
            message += "same command, give the file's --encoding or --token-column, or "
            message += "name a file for bad records with --rejects."
            raise InputError(message, path, record.line)
        chunk.append(record)
        for piece in record.pieces if takes(record) else ():
            sentences.append(params.vocabulary.encode(piece.tokens))
            tokens += len(piece.tokens)
    if chunk:
        yield chunk, sentences


def _ahead(items: Iterator[Any]) -> Iterator[Any]:
    """Computes the next item in a thread while the caller uses the current one."""
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(next, items, None)
        while (item := waiting.result()) is not None:
            waiting = pool.submit(next, items, None)
            yield item
