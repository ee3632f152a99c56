"""Checks of the tokens that callers pass: one sentence, several, or an error."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

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
        if isinstance(given, Iterable) and not isinstance(given, (bytes, Mapping)):
            works = f": give list({name})"
        raise TypeError(f"{_WANTED}{type(given).__name__}{where}{works}.")


def _check_tokens(sentence: Any, where: str) -> None:
    for j, token in enumerate(sentence):
        if not isinstance(token, str):
            kind = type(token).__name__
            works = ": decode it" if isinstance(token, bytes) else ""
            raise TypeError(f"{_WANTED}{kind} as token {j}{where}{works}.")
