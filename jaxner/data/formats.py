"""Formats of the files that are tagged and written, by their names."""

from __future__ import annotations

import os

from jaxner.data import readers

FORMATS = ("text", "conll", "jsonl")
OUTPUTS = ("conll", "jsonl")


def guess(path: str) -> str:
    """Returns the format of a file to tag by its name, one of `FORMATS`; `-` is text.

    Raises:
        ValueError: The name shows a format whose columns are not those of `conll`.

    Example:
        >>> guess("a.txt"), guess("a.jsonl.gz"), guess("eng.testb")
        ('text', 'jsonl', 'conll')
    """
    name = os.path.basename(path).removesuffix(".gz").lower()
    if path == "-" or name.endswith((".txt", ".text")):
        return "text"
    found = "csv" if name.endswith(".csv") else readers.guess(path)
    if found not in FORMATS:
        raise ValueError(
            f"{path} looks like {found}, which cannot be tagged as it is: convert it "
            "(jaxner convert IN OUT.conll), or give --from, one of "
            f"{', '.join(FORMATS)}"
        )
    return found


def guess_output(path: str, source: str) -> str:
    """Returns the format of a file to write by its name, one of `OUTPUTS`.

    Args:
        path: The file; for `-`, text and JSON lines become JSON lines, columns columns.
        source: The format of the input, one of `FORMATS`.

    Raises:
        ValueError: The name shows no format, or another one.

    Example:
        >>> guess_output("a.conll", "text"), guess_output("a.jsonl.gz", "conll")
        ('conll', 'jsonl')
    """
    if path == "-":
        return "conll" if source == "conll" else "jsonl"
    name = os.path.basename(path)
    if not readers.is_known(name) or (found := readers.guess(name)) not in OUTPUTS:
        raise ValueError(
            f"The name {name!r} does not show a format to write: give --to, one of "
            f"{', '.join(OUTPUTS)}; or end the name with .conll or .jsonl"
        )
    return found
