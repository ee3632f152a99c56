"""Reads changes of model options from the command line."""

from __future__ import annotations

import json
from typing import Any


def read_change(text: str) -> tuple[str, Any]:
    """Returns path and value of one `--model`; the value is JSON or a bare word.

    Raises:
        ValueError: The path or the value is missing.

    Example:
        >>> read_change("encoder.then.keep=hidden")
        ('encoder.then.keep', 'hidden')
    """
    path, equals, value = text.partition("=")
    if not (path and equals):
        raise ValueError(f"Expected --model path=value, got {text!r}")
    try:
        return path, json.loads(value)
    except json.JSONDecodeError:
        return path, value
