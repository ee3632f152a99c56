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

from jaxner.data.readers import files, spans
from jaxner.data.readers.examples import ConllError, Example, Report
from jaxner.data.readers.spans import CharSpan, Cut, Fitter
from jaxner.wording import counted

TOKENS = ("tokens", "words")
LABELS = ("labels", "tags", "ner_tags", "ner", "label")
SPANS = ("spans", "entities", "label", "labels")
DOCUMENT = ("document", "document_id", "doc_id")
_TYPE = ("label", "type", "entity_type", "entity")
_END_OF_SPAN = ("end", "end_offset")
_START_OF_SPAN = ("start", "start_offset")


class RecordError(ValueError):
    """A malformed record.

    Args:
        problem: What is wrong with the record.
        remedy: What would fix it.
    """

    def __init__(self, problem: str, remedy: str):
        super().__init__(problem)
        self.remedy = remedy


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
        wants_labels: Whether records must have labels or spans.
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
        record = load(text)
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
        text, found = record.get("text"), _first(record, TOKENS)
        if not (text is None or isinstance(text, str)):
            raise RecordError("expected a string in text", "Write the text itself.")
        if text is not None:
            _check_text("the text", text)
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
        tokens, offsets = _tokens(found, text)
        labels = _labels(record, tokens)
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
        found, labels = _first(record, SPANS), _first(record, LABELS)
        if isinstance(labels, list) and labels and isinstance(labels[0], str):
            problem = "expected the tokens of these labels, got only a text"
            raise RecordError(problem, "Add tokens, with one label for each of them.")
        if found is None and not self.wants_labels:
            return []
        if not isinstance(found, list):
            raise RecordError(
                f"expected a list of spans, got the fields {', '.join(record)}",
                f"Name it spans (or {', '.join(SPANS)}); a text without any has [].",
            )
        return [_span(line, item) for item in found]


def load(text: str) -> dict[str, Any]:
    """Parses the JSON object of one line.

    Raises:
        RecordError: The line is not a JSON object.
    """
    try:
        record = json.loads(text)
    except (ValueError, RecursionError) as error:
        reason = str(error).partition(":")[0].lower()
        if isinstance(error, RecursionError):
            reason = "it is nested too deeply"
        problem = f"this is not JSON ({reason})"
        remedy = "Each line is a JSON object; a list of objects has to be taken apart."
        raise RecordError(problem, remedy) from None
    if not isinstance(record, dict):
        what = {list: "a list", str: "a string"}.get(type(record), str(record))
        problem = f"expected a JSON object, got {what}"
        raise RecordError(problem, "Such as {'tokens': […], 'labels': […]}.")
    return record


def _first(record: Mapping[str, Any], names: Sequence[str]) -> Any:
    return next((record[n] for n in names if record.get(n) is not None), None)


def _tokens(found: Any, text: str | None) -> tuple[list[str], tuple | None]:
    """Returns the tokens, and their offsets if there is a text."""
    remedy = "Tokens are a list of strings, or of objects with text, start and end."
    if not isinstance(found, list) or not found:
        raise RecordError("expected a list of tokens, with one at least", remedy)
    if all(isinstance(token, str) for token in found):
        tokens = list(found)
        offsets = None if text is None else _located(tokens, text)
    else:
        try:
            tokens = [token["text"] for token in found]
            offsets = tuple((token["start"], token["end"]) for token in found)
        except (TypeError, KeyError):
            raise RecordError("a token has no text, start or end", remedy) from None
        last = 0
        for token, (start, end) in zip(tokens, offsets, strict=True):
            is_whole = type(start) is type(end) is int and last <= start < end
            if not is_whole or (text is not None and text[start:end] != token):
                problem = f"the token {token!r} is not at {start}:{end} of the text"
                raise RecordError(problem, remedy)
            last = end
        offsets = offsets if text is not None else None
    for i, token in enumerate(tokens):
        _check_text(f"token {i}", token)
        if not token.strip(" ") or set(token) & set("\t\r\n"):
            problem = f"token {i} is blank, or holds a tab or a line end: {token!r}"
            raise RecordError(problem, "Split there, or leave it out.")
    return tokens, offsets


def _located(tokens: Sequence[str], text: str) -> tuple[tuple[int, int], ...]:
    offsets, last = [], 0
    for token in tokens:
        start = text.find(token, last)
        if start < 0 or text[last:start].strip():
            problem = f"the token {token!r} does not follow in the text"
            raise RecordError(problem, "The tokens in turn have to make the text.")
        last = start + len(token)
        offsets.append((start, last))
    return tuple(offsets)


def _labels(record: Mapping[str, Any], tokens: Sequence[str]) -> tuple | None:
    """Returns the labels of the tokens; None if the record has spans instead."""
    for name in LABELS:
        found = record.get(name)
        if not isinstance(found, list) or (found and isinstance(found[0], list | dict)):
            continue
        if found and all(type(label) is int for label in found):
            problem = f"expected the names of labels in {name}, got numbers"
            raise RecordError(problem, "Write what they stand for, such as 'B-PER'.")
        if not all(isinstance(label, str) and label.strip(" ") for label in found):
            problem = f"expected a list of strings in {name}, none of them blank"
            raise RecordError(problem, "No entity is 'O'.")
        for label in found:
            _check_text("a label", label)
        if len(found) == len(tokens):
            return tuple(found)
        if found or "text" not in record:
            wanted = counted(len(tokens), "label")
            problem = f"expected {wanted}, one per token, got {len(found)}"
            raise RecordError(problem, "Each token has one label; no entity is 'O'.")
    return None


def _span(line: int, item: Any) -> CharSpan:
    if isinstance(item, Mapping):
        parts = [_first(item, n) for n in (_START_OF_SPAN, _END_OF_SPAN, _TYPE)]
    else:
        parts = list(item) if isinstance(item, list) else []
    if len(parts) == 3:
        start, end, kind = parts
        if type(start) is type(end) is int and isinstance(kind, str) and kind.strip():
            _check_text("a type", kind)
            return CharSpan(start, end, kind, line)
    problem = f"expected a span with start, end and label, got {item!r}"
    raise RecordError(problem, 'Such as {"start": 0, "end": 4, "label": "LOC"}.')


def _check_text(what: str, text: str) -> None:
    if not isinstance(text, str):
        raise RecordError(f"expected a string as {what}, got {text!r}", "Quote it.")
    if any("\ud800" <= char <= "\udfff" for char in text):
        problem = f"{what} holds half of a surrogate pair, which is no character"
        raise RecordError(problem, "Write the character, or both halves.")


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
