"""Tags texts larger than memory, record by record, and resumes after a kill.

A record is a line of text, a sentence in columns, or a JSON object. Results go to
`OUTPUT.part`, chunk by chunk; a journal beside it records how many of its bytes are
valid and how many input records they cover. After a kill, the next run truncates the
file to the journal's size and continues there, so no record is lost or written twice.
The finished file is renamed to `OUTPUT`.
"""

from __future__ import annotations

import concurrent.futures
import contextlib
import dataclasses
import gzip
import json
import os
import sys
import time
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import filelock
import jax
import numpy as np

from jaxner import tagging
from jaxner.answers.entities import arrays
from jaxner.answers.mentions import check_least, least_of, read_spans, types_of
from jaxner.data import formats, schemes
from jaxner.data.formats import DOCSTART, Example
from jaxner.data.sources import Record, Source
from jaxner.data.spans import ANNOTATION, text_of
from jaxner.errors import InputError
from jaxner.models.seq2seq import Seq2seqHead
from jaxner.tagger import Tagger
from jaxner.wording import counted

CHUNK = 1 << 16
"""Tokens that are read, tagged and written together."""


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

    def text(
        self, record: Record, sentences: Sequence[Example], labelled: Sequence[Labelled]
    ) -> str:
        """Returns a record as text, with the labels of each of its sentences.

        Lines that begin documents, and comments, are not written as JSON.
        """
        if self.format == "conll":
            rows = self._rows(record, sentences, labelled)
            return "".join(f"{row}\n" for row in rows)
        if self.source == "conll" and not sentences:
            return ""
        content = self._object(record, sentences, labelled)
        return json.dumps(content, ensure_ascii=False) + "\n"

    def _rows(
        self, record: Record, sentences: Sequence[Example], labelled: Iterable[Labelled]
    ) -> Iterator[str]:
        if not sentences and self.source == "conll":
            yield from (*record.lines, "")
        elif record.is_first and self.source != "conll":
            yield from (DOCSTART, "")
        for sentence, (labels, _) in zip(sentences, labelled, strict=True):
            rows: Sequence[str] = sentence.tokens
            separator = "\t"
            if self.source == "conll":
                comments = len(record.lines) - len(sentence.tokens)
                yield from record.lines[:comments]
                rows = record.lines[comments:]
                separator = "\t" if "\t" in rows[0] else " "
            for row, label in zip(rows, labels, strict=True):
                yield f"{row}{separator}{label}"
            yield ""

    def _object(
        self, record: Record, sentences: Sequence[Example], labelled: Sequence[Labelled]
    ) -> dict[str, Any]:
        content, document = dict(record.content or {}), record.document
        for name in ANNOTATION:  # but a class of the text, or its number
            if isinstance(content.get(name), list) or name == "answer":
                content.pop(name, None)
        if record.content is None and document:
            content["document"] = document
        text = text_of(content)
        if self.has_tags or text is None:
            tokens = [token for sentence in sentences for token in sentence.tokens]
            labels = [label for labels, _ in labelled for label in labels]
            return {**content, "tokens": tokens, "labels": labels}
        pairs = zip(sentences, labelled, strict=True)
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


class Output:
    """A file that grows by chunks, with a journal of its valid part.

    A context manager: the file gets its name when the context ends without an error.
    `done` is the progress of an interrupted run, whose `identity`, facts about the run,
    must be the same. A file that ends with `.gz` is compressed; `-` cannot resume. Bad
    records go to `rejects` as JSON lines; None: one ends the run.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        identity: dict[str, Any],
        *,
        rejects: str | os.PathLike[str] | None = None,
        overwrite: bool = False,
    ):
        self.done = Progress()
        self.rejects = rejects
        self._is_piped = path == "-"
        self._targets = [Path(p) for p in (path, rejects) if p not in ("-", None)]
        self._identity = json.loads(json.dumps(identity))
        self._overwrite = overwrite
        self._journal = _beside(Path(path), "journal")

    def __enter__(self) -> Output:
        for path in self._targets:
            if path.exists() and not self._overwrite:
                raise FileExistsError(f"{path} exists: use --overwrite or another name")
        with contextlib.ExitStack() as stack:
            self._files: list[Any] = [sys.stdout.buffer] if self._is_piped else []
            if not self._is_piped:
                lock = filelock.FileLock(_beside(self._targets[0], "lock"), timeout=0)
                try:
                    stack.enter_context(lock)
                except filelock.Timeout:
                    message = f"Another process is writing {self._targets[0]}"
                    raise FileExistsError(message) from None
                stack.callback(Path(lock.lock_file).unlink, missing_ok=True)
            for path, size in zip(self._targets, self._resume(), strict=True):
                file = _open_at(_beside(path, "part"), size)
                self._files.append(stack.enter_context(file))
            self._stack = stack.pop_all()
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        with self._stack:
            if kind is None:
                for path in reversed(self._targets):
                    os.replace(_beside(path, "part"), path)
                self._journal.unlink(missing_ok=True)

    def _resume(self) -> list[int]:
        """Reads the journal of an interrupted run; returns the valid sizes in bytes."""
        is_new = self._is_piped or self._overwrite or not self._journal.exists()
        if is_new or not _beside(self._targets[0], "part").exists():
            return [0] * len(self._targets)
        try:
            content = json.loads(self._journal.read_text("utf-8"))
            before, sizes = content["identity"], content["sizes"]
            self.done = Progress(**content["progress"])
        except (ValueError, KeyError, TypeError):
            raise InputError("damaged: use --overwrite", self._journal) from None
        if before != self._identity:
            names = [k for k, v in self._identity.items() if before.get(k) != v]
            raise FileExistsError(
                f"{self._targets[0]}.part was begun with another {', '.join(names)}; "
                "give the same, or use --overwrite"
            )
        return sizes

    def commit(self, texts: Sequence[str], done: Progress) -> None:
        """Appends to each file, and keeps the progress."""
        parts = [text.encode() for text in texts]
        if not self._is_piped and self._targets[0].suffix == ".gz":
            # Each chunk is a gzip member, so that the file can be cut between them.
            parts[0] = gzip.compress(parts[0], 6, mtime=0)
        for file, part in zip(self._files, parts, strict=False):
            file.write(part)
            _flush(file, is_safe=not self._is_piped)
        if self._is_piped:
            return
        content = {
            "identity": self._identity,
            "sizes": [file.tell() for file in self._files],
            "progress": dataclasses.asdict(done),
        }
        temporary = _beside(self._journal, "new")
        with temporary.open("w", encoding="utf-8") as file:
            json.dump(content, file)
            _flush(file)
        os.replace(temporary, self._journal)


def _beside(path: Path, ending: str) -> Path:
    return path.with_name(f"{path.name}.{ending}")


def _open_at(path: Path, size: int) -> Any:
    """Opens a file for appending after its first `size` bytes; cuts off the rest."""
    file = path.open("r+b" if size else "wb")
    if size > file.seek(0, os.SEEK_END):
        file.close()
        raise InputError("shorter than it was: use --overwrite", path)
    file.truncate(size)
    file.seek(size)
    return file


def _flush(file: Any, is_safe: bool = True) -> None:
    file.flush()
    if is_safe:
        os.fsync(file.fileno())


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
    source: Source,
    sink: Sink,
    output: Output,
    *,
    constrained: bool = False,
    least: Any = None,
    shard: tuple[int, int] = (0, 1),
    chunk: int = CHUNK,
    log: Callable[[Progress], object] = lambda _: None,
) -> Progress:
    """Tags all records of a file, in order, and returns the progress at the end.

    The output may contain the results of an interrupted run. `least` is what
    `checked_least` returned, `chunk` the minimum number of tokens to tag and write
    together, and `log` receives the progress after each. `shard` is the index of this
    process and the number n of processes; each takes every n-th record (for a tagger
    that reads documents, every n-th of these). Nothing else is parsed.

    `InputError`: a record is bad (the records before it are written); or the input
    differs from that of the interrupted run.
    """
    done, stops = output.done, output.rejects is None
    parts = _parts(params, source, sink.source, done, shard, chunk, stops)
    for part in _ahead(parts):
        labelled = _labelled(params, part, constrained, least)
        texts = (
            sink.text(record, sentences, [next(labelled) for _ in sentences])
            for _, record, sentences in part.good
        )
        text, bad = "".join(texts), "".join(part.bad)
        done.records, done.checksum = part.records, part.checksum
        done.bad += len(part.bad)
        done.sentences += len(part.encoded)
        done.tokens += sum(len(sentence.words) for sentence in part.encoded)
        output.commit([text, bad], done)
        log(done)
    return done


class Part(NamedTuple):
    """Records that are tagged and written together."""

    records: int  # of the file, up to the end of the part
    checksum: int  # CRC-32 of these
    good: list[tuple[int, Record, list[Example]]]  # each with its index
    bad: list[str]  # JSON lines
    encoded: Any  # its sentences as `Sentence`s


def _labelled(
    params: Tagger, part: Part, constrained: bool, least: Any
) -> Iterator[Labelled]:
    """Yields the labels of each sentence; its entities, too, if there is a minimum."""
    # A record without a document is one itself.
    documents = [r.document or (i,) for i, r, sentences in part.good for _ in sentences]
    options = {"constrained": constrained, "documents": documents}
    if least is None:
        for labels in tagging.tag(params, part.encoded, **options):
            yield labels, None
        return
    types = types_of(params)
    for answer in arrays(params, part.encoded, **options):
        labels = params.vocabulary.decode(answer.labels)
        chances = read_spans(types, answer)
        kept = {s: p for s, p in chances.items() if p >= least_of(least, s[2])}
        for start, end, _ in chances.keys() - kept:
            labels[start:end] = ["O"] * (end - start)
        yield labels, kept


def _parts(
    params: Tagger,
    source: Source,
    format: str,
    done: Progress,
    shard: tuple[int, int],
    size: int,
    stops: bool,
) -> Iterator[Part]:
    """Yields the records that are not done, in parts of some tokens.

    If it `stops` at a bad record, raises the error after the records before it.
    """
    by_document, part, tokens, last = params.vocabulary.reads_documents, None, 0, 0
    count = checksum = 0
    for index, record in enumerate(formats.RAW[format](source)):
        data = "\n".join(record.lines).encode("utf-8", "surrogateescape")
        count, before, checksum = index + 1, checksum, zlib.crc32(data, checksum)
        if count <= done.records:
            if count == done.records and checksum != done.checksum:
                break
            continue
        number = (by_document and record.document) or index
        is_taken = number % shard[1] == shard[0]
        sentences, errors = source.parse(record) if is_taken else ([], [])
        goes_on = by_document and record.document == last > 0
        if part and ((tokens >= size and not goes_on) or (errors and stops)):
            yield part._replace(records=index, checksum=before)
            part = None
        if errors and stops:
            message = f"{errors[0].message}. Fix it and run the same command, give the "
            message += "file's --encoding or --token-column, or name a file for bad "
            message += "records with --rejects."
            raise InputError(message, source.path, errors[0].line, record.unit)
        if part is None:
            part, tokens = Part(0, 0, [], [], []), 0
        last = record.document
        if errors:
            row = {"line": record.line, "problem": errors[0].message}
            row["record"] = data[: 1 << 16].decode("utf-8", "replace")
            part.bad.append(json.dumps(row, ensure_ascii=False) + "\n")
        elif is_taken:
            part.good.append((index, record, sentences))
            for sentence in sentences:
                part.encoded.append(params.vocabulary.encode(sentence.tokens))
                tokens += len(sentence.tokens)
    if count < done.records or (count == done.records and checksum != done.checksum):
        message = f"The first {done.records:,} records of the input have changed since "
        raise InputError(f"{message}the output was begun; use --overwrite")
    if part:
        yield part._replace(records=count, checksum=checksum)


def _ahead(items: Iterator[Any]) -> Iterator[Any]:
    """Computes the next item in a thread while the caller uses the current one."""
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(next, items, None)
        while (item := waiting.result()) is not None:
            waiting = pool.submit(next, items, None)
            yield item
