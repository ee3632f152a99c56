"""Files of predictions: token, gold label and predicted label in columns."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

from jaxner.data import formats
from jaxner.data.corpora import Split
from jaxner.data.formats import Example
from jaxner.errors import InputError
from jaxner.evaluation.scoring import Labels


def write(
    path: str | os.PathLike[str], split: Split, gold: Labels, predicted: Labels
) -> None:
    """Writes the tokens of a split with gold and predicted labels, atomically."""
    sides = zip(split.examples, gold, predicted, strict=True)
    rows = [zip(example.tokens, *labels, strict=True) for example, *labels in sides]
    documents = [example.document for example in split.examples]
    formats.write_columns(path, rows, documents)


def tokens(path: str | os.PathLike[str], **options: Any) -> Labels | None:
    """Reads the tokens, the first column; None if the file has only labels."""
    try:
        formats.read(path, "conll", token_column=-3, **options)
    except InputError:  # no third column
        return None
    return [e.tokens for e in formats.read(path, "conll", **options).examples]


def read(path: str | os.PathLike[str], **options: Any) -> tuple[Labels, Labels]:
    """Returns the gold and the predicted labels of each sentence; see `examples`."""
    rows = examples(path, **options)
    return [e.tokens for e in rows], [e.labels for e in rows]


def examples(path: str | os.PathLike[str], **options: Any) -> Sequence[Example]:
    """Reads predictions of any tagger, with the gold labels as tokens."""
    return formats.read(path, "conll", token_column=-2, **options).examples
