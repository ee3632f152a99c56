"""Checks of the tokens that callers pass: one sentence, several, or an error."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from jaxner.types import Sentence
from jaxner.wording import counted

_WANTED = (
    "Expected a list of strings (one sentence), a list of such lists, or what "
    "jaxner.encode returned; got "
)


def is_one_sentence(tokens: Any) -> bool:
    """Returns whether tokens are one sentence (strings) or several (lists of strings).

    Raises:
        TypeError: They are neither; the message says what came, where, and what would
            work.

    Example:
        >>> is_one_sentence(["Rome", "fell"]), is_one_sentence([["Rome"], ["Yes"]])
        (True, False)
    """
    if isinstance(tokens, str):
        raise TypeError(
            f"{_WANTED}the string {tokens[:40]!r}. Split it into tokens first."
        )
    _check_list(tokens, "", "tokens")
    if any(isinstance(token, str) for token in tokens):
        _check_tokens(tokens, "")
        return True
    for i, sentence in enumerate(tokens):
        _check_list(sentence, f" as item {i}", "item")
        _check_tokens(sentence, f" of sentence {i}")
    return False


def check_one(tokens: Any) -> None:
    """Raises TypeError unless a value is one sentence, a list of strings."""
    if not is_one_sentence(tokens) and len(tokens):
        raise TypeError("Expected one sentence (a list of strings), got several")


def check_text(sentences: Any) -> None:
    """Raises TypeError unless a value is a list of sentences, each of strings."""
    if is_one_sentence(sentences):
        raise TypeError(
            "Expected several sentences, each a list of strings, got one: give "
            "[sentence]."
        )


def strings(name: str, values: Any, example: str) -> list[str]:
    """Returns the strings of a list or another iterable.

    Raises:
        TypeError: They are one string, or not strings.

    Example:
        >>> strings("types", {"LOC"}, "['LOC']")
        ['LOC']
    """
    is_several = isinstance(values, Iterable) and not isinstance(values, (str, bytes))
    found: list[Any] = list(values) if is_several else [values]
    wrong = [one for one in found if not isinstance(one, str)]
    if wrong or not is_several:
        what = repr(wrong[0]) + " in it" * is_several if wrong else repr(values)
        raise TypeError(
            f"Expected {name} as a list of strings, such as {example}, got {what}."
        )
    return found


def check_corpus(sentences: Any, labels: Any) -> None:
    """Checks encoded sentences, and that each has as many label ids as tokens.

    Raises:
        TypeError: They are of another type.
        ValueError: Their numbers differ.
    """
    for name, values in (("sentences", sentences), ("labels", labels)):
        if not isinstance(values, (list, tuple)):
            kind = type(values).__name__
            raise TypeError(f"Expected {name} as a list, got {kind}.")
    if len(labels) != len(sentences):
        raise ValueError(
            f"Expected labels for each of the {counted(len(sentences), 'sentence')}, "
            f"got {len(labels)}."
        )
    for i, (sentence, own) in enumerate(zip(sentences, labels, strict=True)):
        if not isinstance(sentence, Sentence):
            kind = type(sentence).__name__
            raise TypeError(
                f"Expected what Vocabulary.encode returns as sentence {i}, got {kind}."
            )
        ids, length = np.asarray(own), len(sentence.words)
        if ids.shape != (length,) or (length and ids.dtype.kind not in "iu"):
            raise ValueError(
                f"Expected the ids of {counted(length, 'label')} for sentence {i}, "
                f"got {ids.dtype} {list(ids.shape)}."
            )


def _check_list(given: Any, where: str, name: str) -> None:
    if isinstance(given, np.ndarray):
        if given.dtype.kind not in "UO":
            raise TypeError(f"{_WANTED}an array of {given.dtype}{where}.")
        if not given.ndim:
            raise TypeError(
                f"{_WANTED}an array without axes{where}: give [{name}.item()]."
            )
    elif not isinstance(given, (list, tuple)):
        works = ""
        if isinstance(given, (set, frozenset)):
            works = ", which has no order: give a list"
        elif isinstance(given, Iterable) and not isinstance(given, (bytes, Mapping)):
            works = f": give list({name})"
        raise TypeError(f"{_WANTED}{type(given).__name__}{where}{works}.")


def _check_tokens(sentence: Any, where: str) -> None:
    for j, token in enumerate(sentence):
        if not isinstance(token, str):
            kind = type(token).__name__
            works = ": decode it" if isinstance(token, bytes) else ""
            raise TypeError(f"{_WANTED}{kind} as token {j}{where}{works}.")
