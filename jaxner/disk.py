"""Paths that users give, and atomic writes.

A file gets its name last, after its content is on disk: a kill never leaves a partial
file. `check` finds out before a long work whether its result can be written.
"""

from __future__ import annotations

import contextlib
import os
import secrets
from pathlib import Path

from jaxner.errors import InputError


def expanded(path: str | os.PathLike[str]) -> Path:
    """Returns a path with the user's home folder in the place of `~`."""
    return Path(path).expanduser()


def check(
    path: str | os.PathLike[str] | None, *sources: str | os.PathLike[str] | None
) -> None:
    """Checks, before any other work, that a file can be written.

    None or "" is no file. It must not replace one of the sources, which the work reads.
    """
    if not path:
        return
    target = Path(path)
    folder = target.absolute().parent
    if not folder.is_dir():
        raise FileNotFoundError(f"There is no folder to write {path} into")
    if target.is_dir():
        raise IsADirectoryError(f"Expected a file to write, got the folder {path}")
    if not os.access(target if target.exists() else folder, os.W_OK):
        raise PermissionError(f"There is no permission to write {path}")
    for source in filter(None, sources):
        if os.path.isfile(source) and target.exists() and target.samefile(source):
            raise ValueError(
                f"Expected two files, got {path} twice: to read and to write"
            )


def read_text(path: Path) -> str:
    """Returns the text of a file in UTF-8."""
    try:
        return path.read_text("utf-8")
    except UnicodeDecodeError as error:
        raise InputError(f"expected text in UTF-8: {error}", path) from None


def write_text(path: Path, text: str) -> None:
    """Writes a text file atomically; replaces a symbolic link of this name."""
    with replacing(path) as file:
        file.write(text.encode("utf-8"))


@contextlib.contextmanager
def replacing(path: Path):
    """Yields a file for bytes, which replaces `path` at the end if all went well."""
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(8)}.tmp")
    try:
        file = temporary.open("xb")
    except OSError as error:  # the user never gave the temporary name
        raise type(error)(error.errno, error.strerror, str(path)) from None
    try:
        with file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def append_line(path: Path, text: str) -> None:
    """Appends a line to a file and flushes to disk."""
    with path.open("ab") as file:
        file.write(f"{text}\n".encode())
        file.flush()
        os.fsync(file.fileno())
