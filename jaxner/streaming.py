"""Tags texts larger than memory: chunk by chunk, and goes on after a kill.

What is written goes to `OUTPUT.part`, beside a journal that says how much of it counts
and how much of the input that was. A run that was killed is cut back to what its
journal says, and goes on from there: no record is lost or written twice. The file gets
its own name once it is whole.
"""

from __future__ import annotations

import concurrent.futures
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import jax

from jaxner import tagging
from jaxner.data import streams
from jaxner.data.journal import Output as Output
from jaxner.data.journal import Progress as Progress
from jaxner.data.journal import Standard as Standard
from jaxner.data.streams import Bad, Record
from jaxner.tagger import Tagger
from jaxner.types import Sentence

CHUNK = 1 << 16
"""Tokens that are read, tagged and written at once."""


class Chunk(NamedTuple):
    """Some records in a row, encoded.

    Attributes:
        records: The good ones.
        bad: The others.
        sentences: The encoded sentences of all records.
        end: How many records of the input have been read with this chunk.
        checksum: Of all that has been read then.
    """

    records: list[Record]
    bad: list[Bad]
    sentences: list[Sentence]
    end: int
    checksum: int


def process() -> tuple[int, int]:
    """Returns which process this is, and of how many."""
    return jax.process_index(), jax.process_count()


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
    """Tags all records of a stream, in their order.

    Args:
        params: What `jaxner.load` returned.
        source: The records.
        sink: How they are written.
        output: Where to; may hold what a run before has done.
        constrained: As in `jaxner.tag`.
        shard: Which of how many processes this is; each takes every so many'th record,
            or document where documents are tagged.
        stops: Whether a bad record ends the run; else it goes to the rejects.
        chunk: Tokens that are tagged and written at once, at least.
        log: Is called after each chunk.

    Raises:
        ValueError: A record is bad; what stands before it is written. Or the input is
            not the one that the run before has read.
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
    """A record cannot be read; those before it are written."""

    def __init__(self, bad: Bad):
        super().__init__(f"line {bad.line}: {bad.problem}: {bad.raw[:80]!r}")
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
    """Yields the records that are left, encoded, by chunks."""
    index, count = shard
    by_document = params.vocabulary.reads_documents
    read, tokens, document = 0, 0, 0
    chunk = Chunk([], [], [], output.records, output.checksum)
    for record in source:
        its = record.document if isinstance(record, Record) else document
        goes_on = by_document and its and its == document  # 0: there are none
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
    """Makes the next item in a thread while the present one is worked on."""
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(next, items, None)
        while (item := waiting.result()) is not None:
            waiting = pool.submit(next, items, None)
            yield item
