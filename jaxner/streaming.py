"""Tags texts larger than memory, chunk by chunk, and resumes after a kill.

Results go to `OUTPUT.part`. A journal beside it records how many of its bytes are valid
and how many input records they cover. After a kill, the next run truncates the file to
the journal's size and continues there, so no record is lost or written twice. The
finished file is renamed to `OUTPUT`.
"""

from __future__ import annotations

import concurrent.futures
import zlib
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import jax
import numpy as np

from jaxner import tagging
from jaxner.data import streams
from jaxner.data.journal import Output as Output
from jaxner.data.journal import Progress as Progress
from jaxner.data.journal import Standard as Standard
from jaxner.data.streams import Bad, Record
from jaxner.tagger import Tagger
from jaxner.types import Sentence

CHUNK = 1 << 16
"""Tokens that are read, tagged and written together."""


class Chunk(NamedTuple):
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


def process() -> tuple[int, int]:
    """Returns the index of this process and the number of processes."""
    return jax.process_index(), jax.process_count()


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
    source: streams.Source,
    sink: streams.Sink,
    output: Output | Standard,
    *,
    constrained: bool = False,
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
        shard: Index of this process and number of processes, n; each takes every n-th
            record (every n-th document for a tagger that reads documents).
        stops: Whether a bad record ends the run; otherwise it goes to the rejects.
        chunk: Minimum number of tokens to tag and write together.
        log: Receives the progress after each chunk.

    Returns:
        The progress at the end.

    Raises:
        BadRecordError: A record is bad; the records before it are written.
        ValueError: The input differs from that of the interrupted run.
    """
    done = Progress(**output.progress)
    done.before = done.tokens
    chunks = _chunks(params, source, shard, output, stops, chunk)
    for one in _ahead(chunks):
        labels = _labels(params, one, constrained)
        parts = [
            sink.text(record, [next(labels) for _ in record.pieces])
            for record in one.records
        ]
        done.records = one.end
        done.bad += 0 if stops else len(one.bad)
        done.sentences += len(one.sentences)
        done.tokens += sum(len(sentence.words) for sentence in one.sentences)
        output.commit("".join(parts), [] if stops else one.bad, done, one.checksum)
        log(done)
        if stops and one.bad:
            bad = one.bad[0]
            raise BadRecordError(bad)
    return done


class BadRecordError(ValueError):
    """A record cannot be read; the records before it are written.

    Attributes:
        is_of_encoding: Whether its bytes do not match the encoding.
        is_of_column: Whether it has no column of tokens.
    """

    def __init__(self, bad: Bad):
        super().__init__(f"line {bad.line}: {bad.problem}: {bad.raw[:80]!r}")
        self.is_of_encoding = bad.problem.startswith("byte 0x")
        self.is_of_column = bad.problem.startswith("expected a token in column")
        self.bad = bad


def _labels(params: Tagger, chunk: Chunk, constrained: bool) -> Iterator[list[str]]:
    numbers = [r.document for r in chunk.records for _ in r.pieces]
    ids = tagging.label_ids(
        params,
        chunk.sentences,
        constrained=constrained,
        documents=numbers if any(numbers) else None,
    )
    return (params.vocabulary.decode(sentence.tolist()) for sentence in ids)


def _chunks(
    params: Tagger,
    source: streams.Source,
    shard: tuple[int, int],
    output: Output | Standard,
    stops: bool,
    size: int,
) -> Iterator[Chunk]:
    """Yields the remaining records in encoded chunks."""
    index, count = shard
    by_document = params.vocabulary.reads_documents
    read, tokens, document = 0, 0, 0
    chunk = Chunk([], [], [], output.records, output.checksum)
    for record in source:
        its = record.document if isinstance(record, Record) else document
        goes_on = by_document and its and its == document  # 0: no documents
        is_full = tokens >= size and not goes_on
        if is_full:
            yield chunk
            chunk, tokens = Chunk([], [], [], chunk.end, chunk.checksum), 0
        read, document = read + 1, its
        if read <= output.records:
            output.check(read, source.checksum)
            continue
        if streams.shard_of(record, count, by_document) == index:
            if isinstance(record, Bad):
                if stops:
                    yield chunk._replace(bad=[record])
                    return
                chunk.bad.append(record)
            else:
                chunk.records.append(record)
                for piece in record.pieces:
                    chunk.sentences.append(params.vocabulary.encode(piece.tokens))
                    tokens += len(piece.tokens)
        chunk = chunk._replace(end=read, checksum=source.checksum)
    output.check_whole(read)
    yield chunk


def _ahead(items: Iterator[Any]) -> Iterator[Any]:
    """Computes the next item in a thread while the caller uses the current one."""
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(next, items, None)
        while (item := waiting.result()) is not None:
            waiting = pool.submit(next, items, None)
            yield item
