"""Errors about what a user gave: what was expected, what came, and where.

Each is raised once, at the door: where a file is read, an option is parsed or a public
function is called. Commands print the message in one line; `cli.STATUSES` says how they
end.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any


class InputError(ValueError):
    """A file or a value cannot be used.

    Attributes:
        message: What was expected and what came; a remedy where one exists.
        path: The file, if there is one.
        line: Line of the file, from 1; or number of another unit of the file.
        unit: What `line` counts: lines, records of a JSON array, or documents.

    Example:
        >>> str(InputError("expected 4 columns, got 3", "train.conll", 7))
        'train.conll:7: expected 4 columns, got 3'
    """

    def __init__(
        self,
        message: str,
        path: str | os.PathLike[str] | None = None,
        line: int | None = None,
        unit: str = "line",
    ):
        super().__init__(message, path, line, unit)  # so that copies keep all fields
        self.message, self.path, self.line, self.unit = message, path, line, unit

    def __str__(self) -> str:
        place = place_of(self.path, self.line, self.unit)
        return f"{place}: {self.message}" if place else self.message


class UsageError(InputError):
    """A command line cannot be understood, whatever its files contain."""


def name_of(path: object) -> Any:
    """Returns the path of an input, for people: "standard input" in place of `-`."""
    return Path("standard input") if str(path) == "-" else path


def place_of(path: object, line: int | None, unit: str = "line") -> str:
    """Returns a place as text, such as `a.conll:7` or `a.spacy, document 7`."""
    path = name_of(path)
    if unit == "line" or line is None:
        return ":".join(str(x) for x in (path, line) if x is not None)
    return ", ".join(str(x) for x in (path, f"{unit} {line}") if x is not None)


class DamagedFileError(InputError):
    """A file of a run is damaged, or does not belong to the others."""

    def __init__(self, path: str | os.PathLike[str], reason: str):
        super().__init__(reason, path)
        self.args = (path, reason)  # so that copies keep both


class MissingFileError(DamagedFileError, FileNotFoundError):
    """A file or folder of a run is missing."""

    __str__ = InputError.__str__


@contextlib.contextmanager
def using(path: Path) -> Iterator[None]:
    """Raises DamagedFileError for a file if anything goes wrong inside."""
    try:
        yield
    except (DamagedFileError, ImportError, PermissionError):  # no damage
        raise
    except Exception as error:  # damaged content fails in any way
        text = " ".join(str(error).split())[:300] or type(error).__name__
        text = f"it has no {text}" if isinstance(error, KeyError) else text
        text = f"not JSON: {text}" if isinstance(error, json.JSONDecodeError) else text
        raise DamagedFileError(path, f"cannot be used: {text}") from error


def optional(module: str, feature: str, *more_modules: str) -> Any:
    """Returns a module that one feature needs; raises ImportError if any is missing."""
    absent_names = []
    for name in (module, *more_modules):
        try:
            importlib.import_module(name)
        except ImportError as error:
            is_absent = isinstance(error, ModuleNotFoundError)
            if not (is_absent and f"{name}.".startswith(f"{error.name}.")):
                text = f"{feature} needs {name}, whose import fails: {error}"
                raise ImportError(text) from error
            absent_names.append(name.partition(".")[0].replace("_", "-"))
    if absent_names:
        packages = " ".join(absent_names)
        raise ImportError(f"{feature} needs {packages}: pip install {packages}")
    return sys.modules[module]
