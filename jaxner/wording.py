"""Numbers with their nouns, values, and texts of others, for lines that people read."""

from __future__ import annotations

import html
import re

# Control characters but tab and line feed, overrides of direction, what is no character
_ODD = "[\x00-\x08\x0b-\x1f\x7f-\x9f\u202d\u202e\ud800-\udfff\ufffe\uffff]"


def counted(number: int, noun: str, plural: str | None = None) -> str:
    """Returns a number with its noun, in the singular or plural."""
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"


def shown(value: object) -> str:
    """Describes a value by its type and, if short, its content."""
    if value is None:
        return "None"
    text, kind = repr(value), type(value).__name__
    return kind if len(text) > 40 or "\n" in text else f"{kind} {text}"


def printable(text: str) -> str:
    """Replaces each character that a page or a terminal must not get by U+FFFD."""
    return re.sub(_ODD, "\ufffd", text)


def one_line(text: str) -> str:
    """Returns a printable text with single blanks for line breaks and tabs."""
    return " ".join(printable(text).split())


def start(text: str, length: int = 200) -> str:
    """Returns the start of a text in one line."""
    line = one_line(text)
    return line if len(line) <= length else f"{line[:length]} …"


def markdown(text: str) -> str:
    """Returns a text as a part of a line of Markdown that shows it literally."""
    line = html.escape(one_line(text), quote=False)
    return re.sub(r"[\\`*_\[\]|~#$]|:(?=//)", r"\\\g<0>", line)
