"""Files of predictions: token, gold label and predicted label in columns."""

from __future__ import annotations

import os
from collections.abc import Sequence
from itertools import chain
from typing import Any

from jaxner.data import formats, schemes
from jaxner.data.corpora import Split
from jaxner.data.sources import Options, Source
from jaxner.errors import InputError
from jaxner.evaluation.report import Prediction
from jaxner.evaluation.scoring import Labels


def write(
    path: str | os.PathLike[str], split: Split, gold: Labels, predicted: Labels
) -> None:
    """Writes the tokens of a split with gold and predicted labels, atomically."""
    sides = zip(split.examples, gold, predicted, strict=True)
    rows = [zip(example.tokens, *labels, strict=True) for example, *labels in sides]
    documents = [example.document for example in split.examples]
    formats.write_columns(path, rows, documents)


def read_labels(
    path: str | os.PathLike[str], **options: Any
) -> tuple[Labels, Labels, Labels | None, Sequence[Sequence[int]]]:
    """Returns gold and predicted labels, tokens and numbers of lines, by sentence.

    The last two columns are labels; tokens are in the first one, unless a header names
    another, and None if there are only labels. The file may be a stream.
    """
    source = Source(path, Options(token_column=-2, label_column=-1, **options))
    rows, column = [], 0
    for record in formats.columns(source, formats.of_name(path) == "csv"):
        examples, errors = source.parse(record)
        if errors:
            message, line = errors[0].message, errors[0].line
            if " columns, got " in message:
                message += ". If you joined two files, do their blank lines differ? "
                message += "cat -s leaves out repeated ones."
            raise InputError(message, source.path, line)
        if record.line == source.header:
            column, *_ = formats.header(source.split(record.lines[0])) or (0,)
        for example in examples:
            lines = (record.lines[number - record.line] for number in example.lines)
            words = [row[column] for row in map(source.split, lines) if len(row) > 2]
            rows.append((example.tokens, example.labels, words, example.lines))
    if not rows:
        message = "expected labelled sentences, got none; is it the right file?"
        raise InputError(" ".join([message, *source.notes]), path)
    gold, predicted, tokens, numbers = zip(*rows, strict=True)
    has_tokens = any(tokens) and all(map(str.strip, chain(*tokens)))
    return gold, predicted, tokens if has_tokens else None, numbers


def read(path: str | os.PathLike[str]) -> tuple[Labels, Labels]:
    """Returns the gold and the predicted labels of each sentence; see `read_labels`."""
    return read_labels(path)[:2]


def load(
    path: str | os.PathLike[str],
    scheme: str | None = None,
    rule: str = "conlleval",
    **options: Any,
) -> tuple[Prediction, list[str]]:
    """Returns the labels in a file, and notes about how they were understood.

    Without a scheme, it is that of the gold labels; if the predicted ones have another,
    gold labels are converted to that. Labels without prefixes are spans, too, unless
    the scheme is `schemes.TAGS`.
    """
    gold, predicted, tokens, lines = read_labels(path, **options)
    facts: Any = {"rule": rule, "file": path, "lines": [row[0] for row in lines]}
    if scheme == schemes.TAGS:
        return Prediction(tokens, gold, predicted, scheme, **facts), []
    names = {label for row in (*gold, *predicted) for label in row}
    notes = schemes.choices(names)
    if is_io := schemes.is_io(names):
        gold = [schemes.from_io(row) for row in gold]
        predicted = [schemes.from_io(row) for row in predicted]
        names = set(schemes.from_io(names))
    wrong = schemes.flaws(names)
    rows = zip(*map(chain.from_iterable, (lines, gold, predicted)), strict=True)
    for line, *labels in rows if wrong else ():
        for label in filter(wrong.get, labels):
            message = (
                f"{wrong[label]}. The last two columns are the gold label and the "
            )
            message += "predicted label. If labels are tags, add --tags."
            raise InputError(message, path, line)
    if scheme:
        return Prediction(tokens, gold, predicted, scheme, **facts), notes
    scheme, *alternatives = schemes.fitting(gold)
    letters = {schemes.parse(label)[0] for row in predicted for label in row}

    def lacks(name: str) -> bool:
        return not letters <= {x[0] for x in schemes.label_names(["X"], name)}

    def breaches(name: str) -> int:
        return sum(len(schemes.violations(row, name)) for row in predicted)

    # The best of the schemes that have all labels.
    candidates = [name for name in schemes.SCHEMES if not lacks(name)] or [scheme]
    other = min(candidates, key=lambda x: (breaches(x), x in ("IOB1", "IOE1")))
    count, sign = breaches(other), {"IOB1": "B", "IOE1": "E"}.get(other)
    # A few labels that break the scheme, or that it lacks, may be mistakes; and IOB1
    # and IOE1 take most mistakes of a weak tagger.
    is_other = breaches(scheme) > (count if lacks(scheme) else 2 + 2 * count)
    is_other &= lacks(scheme) or not sign or (sign in letters and not count)
    if other != scheme and is_other:
        notes.append(f"gold labels are {scheme}, but predicted ones are not: converted")
        scheme, gold = other, [schemes.convert(row, other) for row in gold]
    elif alternatives and not is_io:
        reason = f"{', '.join(alternatives)} alike; {scheme} is taken (--scheme)"
        notes.append(f"gold labels fit {scheme} and {reason}")
    return Prediction(tokens, gold, predicted, scheme, **facts), notes
