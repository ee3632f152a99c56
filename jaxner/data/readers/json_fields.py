"""Fields of JSON records: what their usual names are, and what they may contain."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from jaxner.data.readers.spans import CharSpan
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


def without_labels(record: Mapping[str, Any], count: int) -> dict[str, Any]:
    """Returns a record without its labels and spans, of which it gets new ones.

    A field with one of their names, but other content, stays, as the label of a whole
    text does.

    Args:
        record: The record.
        count: Number of its tokens.

    Example:
        >>> record = {"tokens": ["Rome"], "ner": ["O"], "label": "sports", "tags": []}
        >>> without_labels(record, 1)
        {'tokens': ['Rome'], 'label': 'sports'}
    """
    return {
        name: value
        for name, value in record.items()
        if name not in (*LABELS, *SPANS) or not _is_labels(value, count)
    }


def _is_labels(value: Any, count: int) -> bool:
    """Returns whether a value is a list of spans, or has one label for each token."""
    if not isinstance(value, list):
        return value is None
    is_spans = all(isinstance(item, list | Mapping) for item in value)
    return is_spans or len(value) == count


def first(record: Mapping[str, Any], names: Sequence[str]) -> Any:
    """Returns the first field of these names that has a value; None without any."""
    return next((record[n] for n in names if record.get(n) is not None), None)


def read_tokens(found: Any, text: str | None) -> tuple[list[str], tuple | None]:
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
        check_text(f"token {i}", token)
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


def read_labels(record: Mapping[str, Any], tokens: Sequence[str]) -> tuple | None:
    """Returns the labels of the tokens; None if the record has spans instead.

    Raises:
        RecordError: They are malformed.
    """
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
            check_text("a label", label)
        if len(found) == len(tokens):
            return tuple(found)
        if found or "text" not in record:
            wanted = counted(len(tokens), "label")
            problem = f"expected {wanted}, one per token, got {len(found)}"
            raise RecordError(problem, "Each token has one label; no entity is 'O'.")
    return None


def read_span(line: int, item: Any) -> CharSpan:
    """Returns a span of the record in a line.

    Raises:
        RecordError: It is malformed.
    """
    if isinstance(item, Mapping):
        parts = [first(item, n) for n in (_START_OF_SPAN, _END_OF_SPAN, _TYPE)]
    else:
        parts = list(item) if isinstance(item, list) else []
    if len(parts) == 3:
        start, end, kind = parts
        if type(start) is type(end) is int and isinstance(kind, str) and kind.strip():
            check_text("a type", kind)
            return CharSpan(start, end, kind, line)
    problem = f"expected a span with start, end and label, got {item!r}"
    raise RecordError(problem, 'Such as {"start": 0, "end": 4, "label": "LOC"}.')


def check_text(what: str, text: str) -> None:
    """Raises RecordError if this is not a string, or has half a character."""
    if not isinstance(text, str):
        raise RecordError(f"expected a string as {what}, got {text!r}", "Quote it.")
    if any("\ud800" <= char <= "\udfff" for char in text):
        problem = f"{what} holds half of a surrogate pair, which is no character"
        raise RecordError(problem, "Write the character, or both halves.")
