"""Tags texts larger than memory, record by record, and resumes after a kill.

A record is a line of text, a sentence in columns, or a JSON object. `Source` reads
records, `tag_file` labels them chunk by chunk, in order, and `Output` writes them.
Results go to `OUTPUT.part`. A journal beside it records how many of its bytes are valid
and how many input records they cover. After a kill, the next run truncates the file to
the journal's size and continues there, so no record is lost or written twice. The
finished file is renamed to `OUTPUT`.
"""

from __future__ import annotations

import concurrent.futures
import contextlib
import dataclasses
import gzip
import io
import itertools
import json
import os
import sys
import time
import zlib
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import filelock
import jax
import numpy as np

from jaxner import fields, models, tagging
from jaxner.answers.entities import arrays, read_spans, types_of
from jaxner.data import formats, schemes
from jaxner.data.formats import DOCSTART, Piece
from jaxner.data.tokens import Tokenizer
from jaxner.errors import InputError
from jaxner.tagger import Tagger
from jaxner.types import Sentence
from jaxner.wording import counted

CHUNK = 1 << 16
"""Tokens that are read, tagged and written together."""
MAX_LINE = 1 << 26
"""Maximum length of a line in bytes; a longer line is a bad record."""
MAX_TOKENS = 1 << 17
"""Maximum length of a sentence in tokens; a longer one is a bad record."""
_SHOWN = 80


class Record(NamedTuple):
    """A readable record.

    Attributes:
        index: Number of records before it.
        line: Number of its first line, from 1.
        source: Its content: its text, its lines, or its JSON object.
        pieces: Its sentences; none for lines that are only copied.
        document: Number of its document; 0 if the input marks none.
        is_first: Whether it is a JSON object that begins a document.
    """

    index: int
    line: int
    source: Any
    pieces: tuple[Piece, ...]
    document: int = 0
    is_first: bool = False


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


class BadRecordError(InputError):
    """A record cannot be read; the records before it are written."""

    def __init__(self, bad: Bad, path: str | None):
        super().__init__(f"{bad.problem}: {bad.raw[:_SHOWN]!r}", path, bad.line)


# Reading.


@contextlib.contextmanager
def opened(path: str) -> Iterator[io.BufferedIOBase]:
    """Opens a file, or standard input for `-`, for reading; unpacks gzip."""
    if path != "-":
        with formats.open_binary(path) as file:
            yield file
        return
    source: Any = sys.stdin.buffer
    is_zipped = source.peek(2)[:2] == b"\x1f\x8b"
    yield gzip.GzipFile(fileobj=source) if is_zipped else source


@dataclasses.dataclass
class Source:
    """Reads the records of a stream, in bounded memory.

    Attributes:
        file: A decompressed file, open for reading bytes.
        format: One of `formats.RAW`.
        tokenizer: Finds the tokens of a text; see `tokens.resolve`.
        split_sentences: Whether to split a text into sentences, as `entities` does.
        token_column: Column of the tokens, from 0; for `conll`.
        comments: Prefix of comment lines before a sentence; for `conll`.
        encoding: Encoding of the text, in which a line end is one byte.
        max_line: Maximum length of a line in bytes.
        path: Name of the file, for errors.
        checksum: CRC-32 of the records read so far.

    Raises:
        InputError: The format is unknown, or a line end is several bytes.
    """

    file: Any
    format: str
    tokenizer: str | Tokenizer | None = None
    split_sentences: bool = True
    token_column: int = 0
    comments: str | None = None
    encoding: str = "utf-8"
    max_line: int = MAX_LINE
    path: str | None = None
    checksum: int = dataclasses.field(default=0, init=False)
    _document: int = dataclasses.field(default=0, init=False)
    _name: Any = dataclasses.field(default=None, init=False)

    def __post_init__(self) -> None:
        if self.format not in formats.RAW:
            known = ", ".join(formats.RAW)
            raise InputError(f"Unknown format {self.format!r}; known: {known}")
        if "\n".encode(self.encoding) != b"\n":
            raise InputError(
                f"{self.encoding} cannot be read line by line: convert the text to "
                f"UTF-8, for example with iconv -f {self.encoding} -t utf-8"
            )
        self._options = formats.Options(
            tokenizer=self.tokenizer, split_sentences=self.split_sentences
        )

    def __iter__(self) -> Iterator[Record | Bad]:
        """Yields the records, and updates `checksum` before each."""
        groups = self._blocks() if self.format == "conll" else self._lines()
        make = {"jsonl": self._json, "conll": self._columns}.get(
            self.format, self._text
        )
        for index, (line, raw) in enumerate(groups):
            self.checksum = zlib.crc32(b"".join(raw), self.checksum)
            try:
                record = make(index, line, [self._decoded(data) for data in raw])
                if any(len(piece.tokens) > MAX_TOKENS for piece in record.pieces):
                    raise InputError(
                        f"a sentence of more than {MAX_TOKENS:,} tokens; is a blank "
                        "line missing?"
                    )
                yield record
            except InputError as error:
                start = b"\n".join(raw)[: 1 << 16].decode("utf-8", "replace")
                yield Bad(index, line, error.message, start)

    def _decoded(self, data: bytes) -> str:
        if len(data) > self.max_line:
            raise InputError(f"a line of more than {self.max_line:,} bytes")
        try:
            return data.decode(self.encoding)
        except UnicodeDecodeError as error:
            byte = f"byte 0x{data[error.start]:02x}"
            raise InputError(f"{byte} is not {self.encoding}") from None

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
            is_too_long = len(data) > self.max_line and not data.endswith(b"\n")
            yield number, data if is_too_long else data.rstrip(b"\r\n")

    def _lines(self) -> Iterator[tuple[int, list[bytes]]]:
        for number, data in self._each_line():
            if data.strip():
                yield number, [data]

    def _blocks(self) -> Iterator[tuple[int, list[bytes]]]:
        """Groups lines by sentence; a line that begins a document is a group."""
        start, block = 0, []
        for number, data in self._each_line():
            is_mark = data[:11].rstrip(b" \t") == DOCSTART.encode()
            if block and (is_mark or not data.strip(b" \t")):
                yield start, block
                block = []
            if is_mark:
                yield number, [data]
            elif data.strip(b" \t"):
                start = start if block else number
                if len(block) <= MAX_TOKENS:  # drops the rest of a bad record
                    block.append(data)
        if block:
            yield start, block

    def _text(self, index: int, line: int, texts: list[str]) -> Record:
        pieces = formats.pieces(texts[0], self._options)
        return Record(index, line, texts[0], tuple(pieces))

    def _json(self, index: int, line: int, texts: list[str]) -> Record:
        record = formats.load_json(texts[0])
        pieces = tuple(formats.json_pieces(record, self._options))
        name = formats.json_document(record)
        is_first = name is not None and name != self._name
        if is_first:
            self._name, self._document = name, self._document + 1
        return Record(index, line, record, pieces, self._document, is_first)

    def _columns(self, index: int, line: int, texts: list[str]) -> Record:
        if texts[0][:11].rstrip(" \t") == DOCSTART:
            self._document += 1
            return Record(index, line, texts, (), self._document)
        tokens = []
        for i, text in enumerate(texts, line):
            if not tokens and self.comments and text.startswith(self.comments):
                continue
            cells = text.split("\t") if "\t" in text else text.split(" ")
            cells = cells if "\t" in text else [cell for cell in cells if cell]
            if not -len(cells) <= self.token_column < len(cells):
                raise InputError(
                    f"expected a token in column {self.token_column}, got "
                    f"{counted(len(cells), 'column')} in line {i}"
                )
            token = cells[self.token_column]
            if not token.strip(" ") or "\r" in text:
                raise InputError(f"a blank token or a carriage return in line {i}")
            tokens.append(token)
        pieces = (Piece(tuple(tokens)),) if tokens else ()
        return Record(index, line, texts, pieces, self._document)


def shard_of(record: Record | Bad, count: int, by_document: bool) -> int:
    """Returns the index of the process, of `count`, that tags a record."""
    if by_document and isinstance(record, Record) and record.document:
        return record.document % count
    return record.index % count


# Writing.


class Labelled(NamedTuple):
    """The labels of a sentence.

    Attributes:
        labels: The label of each token.
        probabilities: Probability of each entity, by (first token, last token plus one,
            type); None if they were not computed.
    """

    labels: Sequence[str]
    probabilities: dict[tuple[int, int, str], float] | None = None


@dataclasses.dataclass(frozen=True)
class Sink:
    """Formats records with their labels.

    Attributes:
        source: Format of the input, one of `formats.RAW`.
        format: Format of the output: `conll` or `jsonl`.
        has_tags: Whether labels are tags, not spans.
    """

    source: str
    format: str
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
            return "".join(self._rows(record, labelled))
        if self.source == "conll" and not record.pieces:
            return ""
        return json.dumps(self._object(record, labelled), ensure_ascii=False) + "\n"

    def _rows(self, record: Record, labelled: Iterable[Labelled]) -> Iterator[str]:
        if not record.pieces and self.source == "conll":
            yield "".join(f"{line}\n" for line in record.source) + "\n"
        if record.is_first:
            yield f"{DOCSTART}\n\n"
        for piece, (labels, _) in zip(record.pieces, labelled, strict=True):
            rows: Sequence[str] = piece.tokens
            separator = "\t"
            if self.source == "conll":
                comments = len(record.source) - len(piece.tokens)
                yield from (f"{line}\n" for line in record.source[:comments])
                rows = record.source[comments:]
                separator = "\t" if "\t" in rows[0] else " "
            for row, label in zip(rows, labels, strict=True):
                yield f"{row}{separator}{label}\n"
            yield "\n"

    def _object(self, record: Record, labelled: Sequence[Labelled]) -> dict[str, Any]:
        content: dict[str, Any] = {}
        if self.source == "jsonl":
            old = (*formats.JSON_LABELS, "spans")
            content = {k: v for k, v in record.source.items() if k not in old}
        elif self.source == "text":
            content = {"text": record.source}
        elif record.document:
            content = {"document": record.document}
        text = content.get("text")
        if self.has_tags or text is None:
            tokens = [token for piece in record.pieces for token in piece.tokens]
            labels = [label for labels, _ in labelled for label in labels]
            return {**content, "tokens": tokens, "labels": labels}
        pairs = zip(record.pieces, labelled, strict=True)
        spans = [span for pair in pairs for span in _spans(text, *pair)]
        return {**content, "spans": spans}


def _spans(text: str, piece: Piece, labelled: Labelled) -> Iterator[dict[str, Any]]:
    """Yields the entities of a sentence of a text, as JSON objects."""
    assert piece.offsets is not None
    chances = labelled.probabilities
    spans = schemes.to_spans(labelled.labels) if chances is None else sorted(chances)
    for start, end, kind in spans:
        first = piece.start + piece.offsets[start][0]
        last = piece.start + piece.offsets[end - 1][1]
        span = {"start": first, "end": last, "label": kind, "text": text[first:last]}
        if chances is not None:
            span["probability"] = round(chances[start, end, kind], 4)
        yield span


@dataclasses.dataclass
class Progress:
    """The progress of a run.

    Attributes:
        records: Number of input records so far, including those of other shards.
        sentences: Number of tagged sentences.
        tokens: Number of tagged tokens.
        bad: Number of unreadable records.
        start: Time of the start in seconds, by `time.perf_counter`.
        before: Number of tokens that an interrupted run had tagged.
    """

    records: int = 0
    sentences: int = 0
    tokens: int = 0
    bad: int = 0
    start: float = dataclasses.field(default_factory=time.perf_counter)
    before: int = 0

    def summary(self) -> str:
        """Returns the progress as a line, with the speed in tokens per second."""
        seconds = max(time.perf_counter() - self.start, 1e-9)
        speed = (self.tokens - self.before) / seconds
        bad = f", {counted(self.bad, 'bad record')}" if self.bad else ""
        what = counted(self.tokens, "token"), counted(self.sentences, "sentence")
        return f"{' in '.join(what)}, {speed:,.0f} tokens/s{bad}"


class Output:
    """A file that grows by chunks, with a journal of its valid part.

    Use it as a context manager; the file gets its final name when the context ends
    without an error.

    Args:
        path: The file, compressed if it ends with `.gz`; or `-` for standard output,
            which cannot resume.
        identity: Facts about the run that must be the same when it resumes.
        rejects: File for bad records, as JSON lines; None: no such file.
        overwrite: Whether to start over, even if files exist.

    Raises:
        FileExistsError: The file exists, or a run with another identity started it, or
            another process is writing it.
        InputError: The journal is damaged, or the file is shorter than it says.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        identity: dict[str, Any],
        *,
        rejects: str | os.PathLike[str] | None = None,
        overwrite: bool = False,
    ):
        self.path = None if path == "-" else Path(path)
        self.records, self.checksum = 0, 0
        self.progress: dict[str, int] = {}
        self._identity = json.loads(json.dumps(identity))
        self._rejects = None if rejects is None else Path(rejects)
        self._overwrite, self._stack = overwrite, contextlib.ExitStack()
        self._part = _beside(Path(path), "part")
        self._journal = _beside(Path(path), "journal")

    def __enter__(self) -> Output:
        for path in filter(None, (self.path, self._rejects)):
            if path.exists() and not self._overwrite:
                raise FileExistsError(f"{path} exists: overwrite it, or name another")
        sizes = [0, 0]
        with contextlib.ExitStack() as stack:
            if self.path is not None:
                lock = filelock.FileLock(_beside(self.path, "lock"), timeout=0)
                try:
                    stack.enter_context(lock)
                except filelock.Timeout:
                    message = f"Another process is writing {self.path}"
                    raise FileExistsError(message) from None
                stack.callback(Path(lock.lock_file).unlink, missing_ok=True)
                sizes = self._resume()
                self._file = stack.enter_context(_open_at(self._part, sizes[0]))
            self._bad = None
            if self._rejects is not None:
                path = _beside(self._rejects, "part") if self.path else self._rejects
                self._bad = stack.enter_context(_open_at(path, sizes[1]))
            self._stack = stack.pop_all()
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        with self._stack:
            if kind is not None or self.path is None:
                return
            self._file.close()
            if self._bad is not None and self._rejects is not None:
                self._bad.close()
                os.replace(_beside(self._rejects, "part"), self._rejects)
            os.replace(self._part, self.path)
            self._journal.unlink(missing_ok=True)

    def _resume(self) -> list[int]:
        """Reads the journal of an interrupted run; returns the valid sizes in bytes."""
        if self._overwrite or not (self._journal.exists() and self._part.exists()):
            return [0, 0]
        try:
            content = json.loads(self._journal.read_text("utf-8"))
            before, sizes = content["identity"], content["sizes"]
            self.records, self.checksum = content["records"], content["checksum"]
            self.progress = content["progress"]
        except (ValueError, KeyError, TypeError):
            raise InputError("damaged: start over", self._journal) from None
        if before != self._identity:
            names = [k for k, v in self._identity.items() if before.get(k) != v]
            raise FileExistsError(
                f"{self._part} was begun with another {', '.join(names)}; give the "
                "same, or start over"
            )
        return sizes

    def check(self, records: int, checksum: int, is_end: bool = False) -> None:
        """Raises InputError unless the interrupted run had read the same records."""
        has_changed = records == self.records and checksum != self.checksum
        if has_changed or (is_end and records < self.records):
            raise InputError(
                f"The first {self.records:,} records of the input have changed since "
                f"{self._part} was begun; start over"
            )

    def commit(
        self, text: str, bad: Sequence[Bad], done: Progress, checksum: int
    ) -> None:
        """Appends a chunk, and records it in the journal.

        Args:
            text: The labelled records.
            bad: The unreadable records.
            done: The progress with this chunk.
            checksum: Checksum of the input so far.
        """
        if self._bad is not None:
            rows = [
                {"line": b.line, "problem": b.problem, "record": b.raw} for b in bad
            ]
            lines = [json.dumps(row, ensure_ascii=False) + "\n" for row in rows]
            _append(self._bad, "".join(lines).encode())
        if self.path is None:
            sys.stdout.write(text)
            sys.stdout.flush()
            return
        data = text.encode("utf-8", "surrogatepass")
        if self.path.suffix == ".gz":
            # Each chunk is a gzip member, so that the file can be cut between chunks.
            data = gzip.compress(data, 6, mtime=0)
        _append(self._file, data)
        names = ("records", "sentences", "tokens", "bad")
        content = {
            "identity": self._identity,
            "records": done.records,
            "checksum": checksum,
            "sizes": [self._file.tell(), self._bad.tell() if self._bad else 0],
            "progress": {name: getattr(done, name) for name in names},
        }
        temporary = _beside(self._journal, "new")
        with temporary.open("w", encoding="utf-8") as file:
            json.dump(content, file)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, self._journal)


def _beside(path: Path, ending: str) -> Path:
    return path.with_name(f"{path.name}.{ending}")


def _open_at(path: Path, size: int) -> Any:
    """Opens a file for appending after its first `size` bytes; cuts off the rest."""
    file = path.open("r+b" if size else "wb")
    if size > file.seek(0, os.SEEK_END):
        file.close()
        raise InputError("shorter than it was: start over", path)
    file.truncate(size)
    file.seek(size)
    return file


def _append(file: Any, data: bytes) -> None:
    file.write(data)
    file.flush()
    os.fsync(file.fileno())


# Tagging.


class _Chunk(NamedTuple):
    """Consecutive records, encoded.

    Attributes:
        records: The readable records.
        bad: The unreadable ones.
        sentences: The encoded sentences of `records`.
        end: Number of input records up to the end of this chunk.
        checksum: Checksum of the input up to there.
    """

    records: list[Record]
    bad: list[Bad]
    sentences: list[Sentence]
    end: int
    checksum: int


def identity(params: Tagger) -> str:
    """Returns a name for a tagger, which differs if its labels might.

    So that a run does not continue with other weights than it began with.
    """
    checksum = 0
    for leaf in jax.tree.leaves(params.weights):
        checksum = zlib.crc32(np.asarray(leaf).tobytes(), checksum)
    return f"{params.vocabulary.fingerprint} {checksum:08x}"


def tag_file(
    params: Tagger,
    source: Source,
    sink: Sink,
    output: Output,
    *,
    constrained: bool = False,
    min_probability: float = 0.0,
    shard: tuple[int, int] = (0, 1),
    stops: bool = True,
    chunk: int = CHUNK,
    log: Callable[[Progress], object] = lambda _: None,
) -> Progress:
    """Tags all records of a stream, in order.

    Args:
        params: What `jaxner.load` returned.
        source: The records.
        sink: Formats the labelled records.
        output: Where to write; may contain the results of an interrupted run.
        constrained: As in `jaxner.tag`.
        min_probability: Minimum probability of the entities, as in `jaxner.entities`.
        shard: Index of this process and number of processes, n; each takes every n-th
            record (every n-th document for a tagger that reads documents).
        stops: Whether a bad record ends the run; otherwise it goes to the rejects.
        chunk: Minimum number of tokens to tag and write together.
        log: Receives the progress after each chunk.

    Returns:
        The progress at the end.

    Raises:
        BadRecordError: A record is bad; the records before it are written.
        InputError: The input differs from that of the interrupted run; or the tagger
            has no probabilities of entities, and there is a minimum.
    """
    fields.check("min_probability", min_probability, fields.Share)
    done = Progress(**output.progress)
    done.before = done.tokens
    label = _labeller(params, sink, constrained, min_probability)
    for part in _ahead(_chunks(params, source, shard, output, stops, chunk)):
        labelled = iter(label(part))
        texts = [
            sink.text(record, [next(labelled) for _ in record.pieces])
            for record in part.records
        ]
        done.records = part.end
        done.bad += 0 if stops else len(part.bad)
        done.sentences += len(part.sentences)
        done.tokens += sum(len(sentence.words) for sentence in part.sentences)
        output.commit("".join(texts), [] if stops else part.bad, done, part.checksum)
        log(done)
        if stops and part.bad:
            raise BadRecordError(part.bad[0], source.path)
    return done


def _labeller(
    params: Tagger, sink: Sink, constrained: bool, least: float
) -> Callable[[_Chunk], Iterable[Labelled]]:
    """Returns the function that labels the sentences of a chunk."""
    decode = params.vocabulary.decode
    has_chances = not sink.has_tags and not isinstance(
        getattr(params.model, "head", None), models.Seq2seqHead
    )
    if least and not has_chances:
        raise InputError("This tagger has no probabilities of entities to choose by.")

    def plain(chunk: _Chunk) -> Iterable[Labelled]:
        options = {"constrained": constrained, "documents": _documents(chunk)}
        ids = tagging.label_ids(params, chunk.sentences, **options)
        return (Labelled(decode(row)) for row in ids)

    def with_chances(chunk: _Chunk) -> Iterator[Labelled]:
        options = {"constrained": constrained, "documents": _documents(chunk)}
        types = types_of(params)
        encoded: Any = chunk.sentences
        for answer in arrays(params, encoded, **options):
            labels, chances = decode(answer.labels), read_spans(types, answer)
            for start, end, _ in [s for s, p in chances.items() if p < least]:
                labels[start:end] = ["O"] * (end - start)
            kept = {span: p for span, p in chances.items() if p >= least}
            yield Labelled(labels, kept)

    return with_chances if has_chances and (least or sink.writes_entities) else plain


def _documents(chunk: _Chunk) -> list[Hashable]:
    """Returns the document of each sentence; a record without any is one itself."""
    return [r.document or (r.index,) for r in chunk.records for _ in r.pieces]


def _chunks(
    params: Tagger,
    source: Source,
    shard: tuple[int, int],
    output: Output,
    stops: bool,
    size: int,
) -> Iterator[_Chunk]:
    """Yields the remaining records in encoded chunks."""
    index, count = shard
    by_document = params.vocabulary.reads_documents
    read, tokens, document = 0, 0, 0
    chunk = _Chunk([], [], [], output.records, output.checksum)
    for record in source:
        number = record.document if isinstance(record, Record) else document
        goes_on = by_document and number and number == document  # 0: no documents
        if tokens >= size and not goes_on:
            yield chunk
            chunk, tokens = _Chunk([], [], [], chunk.end, chunk.checksum), 0
        read, document = read + 1, number
        if read <= output.records:
            output.check(read, source.checksum)
            continue
        if shard_of(record, count, by_document) == index:
            if isinstance(record, Record):
                chunk.records.append(record)
                for piece in record.pieces:
                    chunk.sentences.append(params.vocabulary.encode(piece.tokens))
                    tokens += len(piece.tokens)
            elif stops:
                yield chunk._replace(bad=[record])
                return
            else:
                chunk.bad.append(record)
        chunk = chunk._replace(end=read, checksum=source.checksum)
    output.check(read, source.checksum, is_end=True)
    yield chunk


def _ahead(items: Iterator[Any]) -> Iterator[Any]:
    """Computes the next item in a thread while the caller uses the current one."""
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(next, items, None)
        while (item := waiting.result()) is not None:
            waiting = pool.submit(next, items, None)
            yield item
