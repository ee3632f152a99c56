"""Surface features of tokens: capitalisation, digits, character types."""

from __future__ import annotations

import re
import string
from collections.abc import Container

from jaxner.types import Caps

ASCII_LETTERS_AND_DIGITS = string.digits + string.ascii_letters

CHAR_TYPES = ("upper", "lower", "digit", "punctuation")
"""The types of characters, from 1; 0 is any other character."""

_TYPE_OF = {
    char: kind
    for kind, chars in enumerate(
        (
            string.ascii_uppercase,
            string.ascii_lowercase,
            string.digits,
            string.punctuation,
        ),
        1,
    )
    for char in chars
}
_DIGIT = re.compile(r"\d")


def caps(token: str) -> Caps:
    """Returns the capitalisation class of a token.

    Example:
        >>> [caps(token).name for token in ("EU", "U.N.", "Rome", "eBay", "1996")]
        ['ALL', 'ALL_FIRST', 'FIRST', 'LATER', 'UNCASED']
    """
    if not token:
        return Caps.NONE
    if all(char.isupper() for char in token):
        return Caps.ALL
    if token.isupper():
        return Caps.ALL_FIRST if token[0].isupper() else Caps.ALL_LATER
    if token[0].isupper():
        return Caps.FIRST
    if any(char.isupper() for char in token):
        return Caps.LATER
    return Caps.LOWER if token.islower() else Caps.UNCASED


def char_type(char: str) -> int:
    """Returns the type of a character: an index into `CHAR_TYPES` from 1, or 0.

    Only ASCII characters have types, as in the code of Li, Fu and Ma (2020).

    Example:
        >>> [char_type(char) for char in "Aa1.é"]
        [1, 2, 3, 4, 0]
    """
    return _TYPE_OF.get(char, 0)


_ESCAPES = {
    "-LRB-": "(", "-RRB-": ")", "-LSB-": "[", "-RSB-": "]", "-LCB-": "{", "-RCB-": "}",
    "/.": ".", "/?": "?", "/-": "-",
}  # fmt: skip


def unescape(token: str) -> str:
    """Returns a token without the treebank escapes of OntoNotes.

    Example:
        >>> [unescape(token) for token in ("-LRB-", "/.", "and/or", "Rome")]
        ['(', '.', 'and/or', 'Rome']
    """
    return _ESCAPES.get(token, token)


def zero_digits(token: str) -> str:
    """Returns a token with every digit as 0, as in Lample et al. (2016).

    Example:
        >>> zero_digits("1996-08-22")
        '0000-00-00'
    """
    return _DIGIT.sub("0", token)


def normal(token: str, no_digits: bool, no_escapes: bool) -> str:
    """Returns a token, optionally unescaped and with digits as 0."""
    token = unescape(token) if no_escapes else token
    return zero_digits(token) if no_digits else token


def look_up(token: str, known: Container[str], case: tuple[bool, bool]) -> str | None:
    """Returns the known word for a token: itself or its lower case; None if unknown.

    `case`: whether to look up only the lower case, and whether to fall back to the
    lower case for an unknown word.
    """
    lowercase, fallback = case
    if not lowercase and token in known:
        return token
    lowered = token.lower()
    return lowered if (lowercase or fallback) and lowered in known else None
