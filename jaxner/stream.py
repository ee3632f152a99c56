"""Tags texts larger than memory, record by record, and resumes after a kill.

A record is a line of text, a sentence in columns, or a JSON object. The journal of the
output, see `outputs.Output`, has the number of records that it covers, so none is lost
or written twice.
"""

from __future__ import annotations

import dataclasses
import json
import time
import zlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

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
from jaxner.outputs import Output
from jaxner.tagger import Tagger
from jaxner.types import Minima
from jaxner.wording import counted

CHUNK = 1 << 16
"""Tokens that are read, tagged and written together."""


# Writing.


Answer = tuple[Example, Sequence[str], dict[tuple[int, int, str], float] | None]
"""A sentence; its labels; the probability of each entity, by (first token, last token
plus one, type), or None if they were not computed."""


class Sink(NamedTuple):
    """Formats records with their labels.

    `has_tags`: whether labels are tags. `labels`: those that the tagger gives.
    """

    source: str  # format of the input, one of `formats.RAW`
    format: str  # of the output: `conll` or `jsonl`
    has_tags: bool = False
    labels: Sequence[str] = ()

    def flaws(
        self, source: Source, record: Record, sentences: Sequence[Example]
    ) -> list[InputError]:
        """Returns the error about what columns would not give back."""
        if self.format != "conll":
            return []
        if self.source != "conll":
            words = (word for sentence in sentences for word in sentence.tokens)
            is_wrong = any(map(formats.DOCUMENT_LINE.match, words))
            message = f"columns cannot hold the token {DOCSTART}; write .jsonl"
        elif label := next((label for label in self.labels if " " in label), ""):
            count = sum(len(sentence.tokens) for sentence in sentences)
            rows = record.lines[len(record.lines) - count :]
            is_wrong = not all("\t" in row for row in rows)
            message = "columns separated by spaces cannot hold the label "
            message += f"{label!r}; separate them by tabs, or write .jsonl"
        else:
            return []
        error = InputError(message, source.path, record.line, record.unit)
        return [error] if is_wrong else []

    def text(self, record: Record, answers: Sequence[Answer]) -> str:
        """Returns a record as text, with the labels of each of its sentences.

        Lines that begin documents, and comments, are not written as JSON.
        """
        if self.format == "conll":
            return "".join(f"{row}\n" for row in self._rows(record, answers))
        if self.source == "conll" and not answers:
            return ""
        return json.dumps(self._object(record, answers), ensure_ascii=False) + "\n"

    def _rows(self, record: Record, answers: Sequence[Answer]) -> Iterator[str]:
        if not answers and self.source == "conll":
            yield from (*record.lines, "")
        elif record.is_first and self.source != "conll":
            yield from (DOCSTART, "")
        for sentence, labels, _ in answers:
            rows: Sequence[str] = sentence.tokens
            if self.source == "conll":
                comments = len(record.lines) - len(sentence.tokens)
                yield from record.lines[:comments]
                rows = record.lines[comments:]
            for row, label in zip(rows, labels, strict=True):
                is_spaced = self.source == "conll" and "\t" not in row
                yield f"{row}{' ' if is_spaced else chr(9)}{label}"
            yield ""

    def _object(self, record: Record, answers: Sequence[Answer]) -> dict[str, Any]:
        content, document = dict(record.content or {}), record.document
        for name in ANNOTATION:  # but a class of the text, or its number
            if isinstance(content.get(name), list) or name == "answer":
                content.pop(name, None)
        if record.content is None and document:
            content["document"] = document
        text = text_of(content)
        if self.has_tags or text is None:
            tokens = [token for sentence, *_ in answers for token in sentence.tokens]
            labels = [label for _, labels, _ in answers for label in labels]
            return {**content, "tokens": tokens, "labels": labels}
        return {**content, "spans": [x for a in answers for x in _spans(text, *a)]}


def _spans(
    text: str, piece: Example, labels: Sequence[str], chances: Any
) -> Iterator[dict[str, Any]]:
    """Yields the entities of a sentence of a text, as JSON objects."""
    assert piece.offsets is not None
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
        self._start, self._first_tokens = time.perf_counter(), self.tokens
        self.share = 0.0  # of the input, as `Source.share`

    def summary(self) -> str:
        """Returns the progress as a line: sizes, tokens per second, time left."""
        seconds = max(time.perf_counter() - self._start, 1e-9)
        speed = (self.tokens - self._first_tokens) / seconds
        bad = f", {counted(self.bad, 'bad record')}" if self.bad else ""
        sizes = counted(self.tokens, "token"), counted(self.sentences, "sentence")
        left = ""
        if speed and 0 < self.share < 1:
            minutes = self.tokens * (1 / self.share - 1) / speed / 60
            left = f", {self.share:.0%} of the input, {minutes:,.0f} min left"
        return f"{' in '.join(sizes)}, {speed:,.0f} tokens/s{left}{bad}"


# Tagging.


def identity(tagger: Tagger) -> str:
    """Returns a name that differs if answers might; a run resumes with one tagger."""
    checksum = 0
    for leaf in jax.tree.leaves(tagger):  # the temperature, too
        checksum = zlib.crc32(np.asarray(leaf).tobytes(), checksum)
    return f"{tagger.vocabulary.fingerprint} {checksum:08x}"


def checked_least(tagger: Tagger, sink: Sink, min_probability: Minima) -> Minima | None:
    """Returns a minimum probability of entities, or None if they need none.

    `InputError`: the tagger's entities cannot have this minimum.
    """
    has_chances = not (sink.has_tags or isinstance(tagger.model.head, Seq2seqHead))
    if min_probability and not has_chances:
        raise InputError("This tagger has no probabilities of entities to choose by.")
    check_least(types_of(tagger).names, min_probability)
    # Entities of texts are written with their probabilities.
    is_written = sink.format == "jsonl" and sink.source != "conll"
    wants_chances = has_chances and (min_probability or is_written)
    return min_probability if wants_chances else None


def tag_file(
    tagger: Tagger,
    source: Source,
    sink: Sink,
    output: Output,
    *,
    constrained: bool = False,
    least: Minima | None = None,
    shard: tuple[int, int] = (0, 1),
    chunk: int = CHUNK,
    log: Callable[[Progress], object] = lambda _: None,
    pairs: list[tuple[Example, Sequence[str]]] | None = None,
) -> Progress:
    """Tags all records of a file, in order, and returns the progress at the end.

    The output may contain the results of an interrupted run. `least` is what
    `checked_least` returned, `chunk` the minimum number of tokens to tag and write
    together, and `log` receives the progress after each. `pairs` gets each sentence,
    with its gold labels if `source` has labels, and the labels written. `shard` is the
    index of this process and the number n of processes; each takes every n-th record
    (for a tagger that reads documents, every n-th of these). Nothing else is parsed.

    `InputError`: a record is bad (the records before it are written); or the input
    differs from that of the interrupted run.
    """
    progress, stops = Progress(**output.state), output.rejects is None
    for part in _parts(tagger, source, sink, progress, shard, chunk, stops):
        rest, texts = _answers(tagger, part, constrained, least), []
        for _, record, sentences in part.good:
            answers = [next(rest) for _ in sentences]
            texts.append(sink.text(record, answers))
            if pairs is not None:
                pairs += [(sentence, labels) for sentence, labels, _ in answers]
        text, bad = "".join(texts), "".join(part.bad)
        progress.records, progress.checksum = part.records, part.checksum
        progress.bad += len(part.bad)
        progress.sentences += len(part.inputs)
        progress.tokens += sum(len(sentence.words) for sentence in part.inputs)
        progress.share = source.share
        output.commit(text, bad, state=dataclasses.asdict(progress))
        log(progress)
    return progress


class Part(NamedTuple):
    """Records that are tagged and written together."""

    records: int  # of the file, up to the end of the part
    checksum: int  # CRC-32 of these
    good: list[tuple[int, Record, list[Example]]]  # each with its index
    bad: list[str]  # JSON lines
    inputs: Any  # its sentences as `Sentence`s


def _answers(
    tagger: Tagger, part: Part, constrained: bool, least: Minima | None
) -> Iterator[Answer]:
    """Yields the labels of each sentence; its entities, too, if there is a minimum."""
    sentences = [sentence for *_, group in part.good for sentence in group]
    # A record without a document is one itself.
    documents = [r.document or (i,) for i, r, group in part.good for _ in group]
    options = {"constrained": constrained, "documents": documents}
    if least is None:
        rows = tagging.tag(tagger, part.inputs, **options)
        for sentence, labels in zip(sentences, rows, strict=True):
            yield sentence, labels, None
        return
    types, scheme = types_of(tagger), tagger.vocabulary.scheme
    answers = arrays(tagger, part.inputs, **options)
    for sentence, answer in zip(sentences, answers, strict=True):
        chances = read_spans(types, answer)
        entities = {s: p for s, p in chances.items() if p >= least_of(least, s[2])}
        labels = tagger.vocabulary.decode(answer.labels)
        if len(entities) < len(chances):
            # In IOB1, the first label of an entity depends on the one before.
            labels = schemes.to_labels(entities, len(labels), scheme)
        yield sentence, labels, entities


def _parts(
    tagger: Tagger,
    source: Source,
    sink: Sink,
    progress: Progress,
    shard: tuple[int, int],
    size: int,
    stops: bool,
) -> Iterator[Part]:
    """Yields the records that are not done, in parts of some tokens.

    If it `stops` at a bad record, raises the error after the records before it.
    """
    by_document, part, tokens, last = tagger.vocabulary.reads_documents, None, 0, 0
    count, checksum, end = 0, 0, (0, 0, 0, 0)
    message = f"The first {progress.records:,} records of the input have changed since "
    error = InputError(f"{message}the output was begun; use --overwrite")
    for index, record in enumerate(formats.RAW[sink.source](source)):
        data = "\n".join(record.lines).encode("utf-8", "surrogateescape")
        count, last_checksum, checksum = index + 1, checksum, zlib.crc32(data, checksum)
        if count <= progress.records:
            if count == progress.records and checksum != progress.checksum:
                raise error
            continue
        number = (by_document and record.document) or index
        is_taken = number % shard[1] == shard[0] or record.line == source.header
        sentences, errors = source.parse(record) if is_taken else ([], [])
        errors += sink.flaws(source, record, sentences)
        goes_on = by_document and record.document == last > 0
        if part and not goes_on:  # no part ends within a document
            end = index, last_checksum, len(part.good), len(part.inputs)
        if part and ((tokens >= size and not goes_on) or (errors and stops)):
            good, inputs = part.good[: end[2]], part.inputs[: end[3]]
            yield Part(*end[:2], good, part.bad, inputs)
            part = None
        if errors and stops:
            column = " or --token-column" * (sink.source == "conll")
            message = f"{errors[0].message}. Fix it and run the same command, give the "
            message += f"file's --encoding{column}, or name a file for bad records "
            message += "with --rejects."
            raise InputError(message, source.path, errors[0].line, record.unit)
        if part is None:
            part, tokens = Part(0, 0, [], [], []), 0
            end = index, last_checksum, 0, 0
        last = record.document
        tokens += 1  # a part of bad records has an end, too
        if errors:
            row = {"line": record.line, "problem": errors[0].message}
            row["record"] = data[: 1 << 16].decode("utf-8", "replace")
            part.bad.append(json.dumps(row, ensure_ascii=False) + "\n")
        elif is_taken:
            part.good.append((index, record, sentences))
            for sentence in sentences:
                part.inputs.append(tagger.vocabulary.encode(sentence.tokens))
                tokens += len(sentence.tokens)
    if count < progress.records:
        raise error
    if part:
        yield part._replace(records=count, checksum=checksum)
