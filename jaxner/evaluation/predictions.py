"""Files of predictions: token, gold label and predicted label in columns."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

from jaxner.data.readers import conll
from jaxner.data.splits import Split

Labels = Sequence[Sequence[str]]


def write(
    path: str | os.PathLike[str], split: Split, gold: Labels, predicted: Labels
) -> None:
    """Writes the tokens of a split with both labels, as they are given.

    The file is written whole or not at all. Columns are separated by tabs if a token
    holds a blank.

    Args:
        path: The file.
        split: Its sentences.
        gold: The right labels of each sentence.
        predicted: The predicted ones.
    """
    rows = [
        zip(example.tokens, *labels, strict=True)
        for example, *labels in zip(split.examples, gold, predicted, strict=True)
    ]
    blank = any(" " in token for example in split.examples for token in example.tokens)
    documents = [example.document for example in split.examples]
    conll.write(path, rows, separator="\t" if blank else " ", documents=documents)


def tokens(
    path: str | os.PathLike[str],
    *,
    comments: str | None = None,
    encoding: str = "utf-8",
) -> Labels | None:
    """Reads the tokens of such a file, its first column; None if it has but labels.

    The arguments are those of `read`.
    """
    options: dict[str, Any] = {"comments": comments, "encoding": encoding}
    try:
        conll.read(path, token_column=-3, label_column=None, **options)
    except conll.ConllError:  # there is no third column
        return None
    return [e.tokens for e in conll.read(path, label_column=None, **options)]


def read(
    path: str | os.PathLike[str],
    *,
    comments: str | None = None,
    encoding: str = "utf-8",
) -> tuple[Labels, Labels]:
    """Reads what `write`, or any other tagger, wrote.

    Args:
        path: A file in columns, whose last two are gold and predicted label.
        comments: How comment lines begin; None: there are none.
        encoding: Of the text.

    Returns:
        The gold and the predicted labels of each sentence.

    Raises:
        ConllError: The file is malformed.
        FileNotFoundError: There is none.
    """
    # The gold label takes the place of the token, which a file need not have.
    examples = conll.read(
        path, token_column=-2, label_column=-1, comments=comments, encoding=encoding
    )
    return [e.tokens for e in examples], [e.labels or () for e in examples]
