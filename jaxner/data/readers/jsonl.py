"""Reads and writes JSON lines: a sentence or text per line, with labels or spans.

The reader accepts three forms, and other usual names of their fields:

- `{"tokens": ["Rome", "wins"], "labels": ["B-LOC", "O"]}`;
- `{"text": "Rome wins", "spans": [{"start": 0, "end": 4, "label": "LOC"}]}`, where a
  span may also be `[0, 4, "LOC"]`; offsets count characters from 0, ends are exclusive;
- the second form with `"tokens"`: strings, or `{"text": …, "start": …, "end": …}`.

A new value of the field `document` (or `doc_id`) starts a document.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from jaxner.data.readers import files, json_fields, spans
from jaxner.data.readers.examples import ConllError, Example, Report
from jaxner.data.readers.json_fields import (
    DOCUMENT,
    LABELS,
    SPANS,
    TOKENS,
    RecordError,
)
from jaxner.data.readers.spans import CharSpan, Cut, Fitter


def read(
    path: str | os.PathLike[str],
    *,
    tokenise: Cut = spans.words,
    sentences: Cut | None = None,
    unfit: str = "error",
    encoding: str = "utf-8",
) -> list[Example]:
    r"""Reads the sentences of a file of JSON lines, plain or gzipped.

    Args:
        path: The file; gzip is recognised by its content, not by its name.
        tokenise: Finds the tokens of a text whose record has none.
        sentences: Finds the sentences of such a text; None: the text is a sentence.
        unfit: What to do with spans that do not match tokens; one of `spans.UNFIT`.
        encoding: Encoding of the text.

    Raises:
        ConllError: A line is not a JSON object with tokens and labels, or with a text
            and spans; spans do not match the tokens; bytes do not match the encoding;
            or there are no tokens.
        FileNotFoundError: The file is missing.

    Example:
        >>> import tempfile
        >>> from pathlib import Path
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = Path(folder, "train.jsonl")
        ...     _ = path.write_text('{"text": "Rome wins", "spans": [[0, 4, "LOC"]]}')
        ...     read(path)[0].labels
        ('B-LOC', 'O')
    """
    report = Report(str(path))
    data = files.read_bytes(path)
    cuts = {"tokenise": tokenise, "sentences": sentences}
    return parse(data, report, **cuts, unfit=unfit, encoding=encoding)


def parse(
    data: bytes,
    report: Report,
    *,
    tokenise: Cut = spans.words,
    sentences: Cut | None = None,
    unfit: str = "error",
    encoding: str = "utf-8",
) -> list[Example]:
    """Reads the decompressed content of a file; see `read`."""
    reader = Records(Fitter(report, unfit), tokenise, sentences)
    examples = []
    lines = files.decode_lines(data, report, encoding)
    for number, line in enumerate(lines, 1):
        if line.strip(" \t\r"):
            try:
                examples += reader.examples(number, line)
            except RecordError as error:
                report.add(number, str(error), line, error.remedy)
    if report.problems and files.is_one_json_value(lines):
        problem = f"{report.name}: is one JSON value over {len(lines):,} lines"
        raise ConllError([problem], ["Expected a JSON object in each line."])
    report.check(examples)
    return examples


@dataclass
class Records:
    """Converts records to sentences.

    Attributes:
        fitter: Converts character spans to labels.
        tokenise: As in `read`.
        sentences: As in `read`.
        wants_labels: Whether records must have labels or spans; otherwise, fields of
            their names are not read.
    """

    fitter: Fitter
    tokenise: Cut = spans.words
    sentences: Cut | None = None
    wants_labels: bool = True
    _document: tuple[int, Any] = field(default=(0, None))

    def examples(self, line: int, text: str) -> list[Example]:
        """Returns the sentences of one line.

        Raises:
            RecordError: The record is malformed.
        """
        record = json_fields.load(text)
        number, before = self._document
        document = next((record[k] for k in DOCUMENT if k in record), None)
        if document is not None and document != before:
            number += 1
            self._document = number, document
        return [
            Example(tuple(tokens), labels, number, line, (), its, offsets, True)
            for tokens, labels, its, offsets in self._sentences(line, record)
        ]

    def _sentences(self, line: int, record: Mapping[str, Any]) -> Iterator[tuple]:
        """Yields tokens, labels, text and offsets of each sentence of a record."""
        text, found = record.get("text"), json_fields.first(record, TOKENS)
        if not (text is None or isinstance(text, str)):
            raise RecordError("expected a string in text", "Write the text itself.")
        if text is not None:
            json_fields.check_text("the text", text)
        if found is None and text is None:
            raise RecordError(
                f"expected the tokens or the text, got the fields {list(record)}",
                "A record has tokens and labels, or a text and spans.",
            )
        if found is None:
            assert text is not None
            its, cuts = self._spans(line, record), (self.tokenise, self.sentences)
            for sentence in self.fitter.cut(text, its, *cuts):
                yield sentence[1:]
            return
        tokens, offsets = json_fields.read_tokens(found, text)
        labels = json_fields.read_labels(record, tokens) if self.wants_labels else None
        if labels is None and self.wants_labels:
            if text is None or offsets is None:
                fields = ", ".join(record)
                problem = f"expected a list of labels, got only the fields {fields}"
                remedy = f"One string per token, in {' or '.join(LABELS)}."
                raise RecordError(problem, remedy)
            its = self._spans(line, record)
            labels = self.fitter.labels(text, offsets, its)
        yield tokens, labels, text, offsets

    def _spans(self, line: int, record: Mapping[str, Any]) -> list[CharSpan]:
        if not self.wants_labels:
            return []
        found, labels = (
            json_fields.first(record, SPANS),
            json_fields.first(record, LABELS),
        )
        if isinstance(labels, list) and labels and isinstance(labels[0], str):
            problem = "expected the tokens of these labels, got only a text"
            raise RecordError(problem, "Add tokens, with one label for each of them.")
        if not isinstance(found, list):
            raise RecordError(
                f"expected a list of spans, got the fields {', '.join(record)}",
                f"Name it spans (or {', '.join(SPANS)}); a text without any has [].",
            )
        return [json_fields.read_span(line, item) for item in found]


def write(
    target: str | os.PathLike[str] | files.Writable,
    examples: Sequence[Example],
    *,
    as_spans: bool = False,
) -> None:
    """Writes sentences as JSON lines; `read` returns them.

    Args:
        target: A path, or a text file open for writing.
        examples: The sentences, with labels.
        as_spans: Whether to write the text, token offsets and spans, not labels.

    Raises:
        ValueError: `as_spans` is set, and a label is malformed.

    Example:
        >>> import sys
        >>> write(sys.stdout, [Example(("Rome", "wins"), ("B-LOC", "O"), 0, 1)])
        {"tokens": ["Rome", "wins"], "labels": ["B-LOC", "O"]}
    """
    parts = []
    for example in examples:
        if as_spans:
            record = with_spans(example)
        else:
            record = {"tokens": example.tokens, "labels": example.labels}
        if example.document:
            record["document"] = example.document
        parts.append(json.dumps(record, ensure_ascii=False) + "\n")
    files.write_text(target, "".join(parts))


def with_spans(example: Example) -> dict[str, Any]:
    """Returns the record of a sentence: text, tokens with offsets, and spans."""
    text, offsets = spans.text_of(example)
    return {
        "text": text,
        "tokens": [{"text": text[a:b], "start": a, "end": b} for a, b in offsets],
        "spans": [
            {"start": span.start, "end": span.end, "label": span.type}
            for span in spans.of_example(example)
        ],
    }
