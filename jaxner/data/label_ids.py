"""Labels to ids, and back."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from jaxner.data import schemes
from jaxner.data.sentences import strings
from jaxner.wording import counted, shown

SEPARATOR = "<sep>"
"""The label of separators between the sentences of a document."""


def names(types: Iterable[str], scheme: str) -> tuple[str, ...]:
    """Returns the label set of entity types or tags.

    Raises:
        ValueError: The scheme is unknown, or a tag equals the label of separators.

    Example:
        >>> names(["LOC"], "BIO")
        ('O', 'B-LOC', 'I-LOC')
    """
    found = schemes.label_names(types, scheme)
    if SEPARATOR in found:
        raise ValueError(
            f"{SEPARATOR!r} is reserved for separators between sentences; rename this "
            "tag"
        )
    return found


def check_scheme(rows: Sequence[Sequence[str]], scheme: str) -> None:
    """Raises ValueError if labels for training break the scheme, TypeError if no list.

    Example:
        >>> check_scheme([["B-LOC", "I-LOC"]], "BIOES")
        Traceback (most recent call last):
        ...
        ValueError: The labels of 1 of 1 sentence break BIOES, first in sentence 0. \
Convert each, jaxner.data.schemes.convert(row, 'BIOES'), or build the vocabulary with \
their scheme.
    """
    if isinstance(rows, str) or not hasattr(rows, "__len__"):
        raise TypeError(f"Expected labels as a list of lists, got {shown(rows)}.")
    if scheme == schemes.TAGS:
        return
    wrong = [i for i, row in enumerate(rows) if schemes.violations(row, scheme)]
    if wrong:
        raise ValueError(
            f"The labels of {len(wrong):,} of {counted(len(rows), 'sentence')} break "
            f"{scheme}, first in sentence {wrong[0]}. Convert each, "
            f"jaxner.data.schemes.convert(row, {scheme!r}), or build the vocabulary "
            "with their scheme."
        )


def ids_of(labels: Sequence[str], known: Mapping[str, int]) -> np.ndarray:
    """Returns the ids of labels.

    Raises:
        TypeError: They are not a list of strings.
        ValueError: A label is unknown.

    Example:
        >>> ids_of(["B-LOC", "O"], {"O": 0, "B-LOC": 1}).tolist()
        [1, 0]
    """
    labels = strings("labels", labels, "['B-LOC', 'O']")
    for label in labels:
        if label not in known:
            raise ValueError(
                f"Label {label!r} does not occur in the training data; known labels: "
                f"{', '.join(known)}"
            )
    return np.array([known[label] for label in labels], np.int32)


def names_of(ids: Iterable[int] | np.ndarray, known: Sequence[str]) -> list[str]:
    """Returns the labels of ids.

    Raises:
        ValueError: Ids are not whole numbers from 0 to the number of labels.

    Example:
        >>> names_of([1, 0], ["O", "B-LOC"])
        ['B-LOC', 'O']
    """
    if (axes := getattr(ids, "ndim", 1)) > 1:
        raise ValueError(
            f"Expected ids of one sentence, got an array of {axes} axes: "
            "decode each row, without its padding"
        )
    try:
        given = list(ids)
        if min(given, default=0) >= 0:
            return [known[i] for i in given]
    except (TypeError, LookupError):
        pass
    last = len(known) - 1
    raise ValueError(f"Expected ids of labels, from 0 to {last}, got {ids!r}.")
