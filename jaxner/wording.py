"""Numbers with their nouns, and values, for lines that people read."""

from __future__ import annotations

from typing import Any


def counted(number: int, noun: str, plural: str | None = None) -> str:
    """Returns a number with its noun, in the singular or plural."""
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"


def shown(value: Any) -> str:
    """Describes a value by its type and, if short, its content."""
    if value is None:
        return "None"
    text, kind = repr(value), type(value).__name__
    return kind if len(text) > 40 or "\n" in text else f"{kind} {text}"
