"""Atomic writes: a kill or a crash never leaves a partial file.

A file gets its name last, after its content is on disk. Symbolic links are not
followed.
"""

from __future__ import annotations

import contextlib
import os
import secrets
from pathlib import Path

_BINARY = getattr(os, "O_BINARY", 0)  # Windows
_NO_LINK = getattr(os, "O_NOFOLLOW", 0)  # not on Windows
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | _BINARY | _NO_LINK


def write_text(path: Path, text: str) -> None:
    """Writes a text file atomically, even if the system crashes.

    Replaces a symbolic link of this name instead of following it.
    """
    with replacing(path) as file:
        file.write(text.encode("utf-8"))


@contextlib.contextmanager
def replacing(path: Path):
    """Yields a file for bytes, which replaces `path` at the end.

    Until then, the file has an unguessable name. An error leaves `path` unchanged.
    """
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(8)}.tmp")
    try:
        with os.fdopen(os.open(temporary, _NEW, 0o666), "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    _sync_folder(path.parent)


def _sync_folder(path: Path) -> None:
    """Flushes new names in a folder to disk, if the system supports it."""
    with contextlib.suppress(OSError):
        number = os.open(path, os.O_RDONLY)
        try:
            os.fsync(number)
        finally:
            os.close(number)


def append_line(path: Path, text: str) -> None:
    """Appends a line to a file and flushes to disk, without following links."""
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | _BINARY | _NO_LINK
    with os.fdopen(os.open(path, flags, 0o666), "ab") as file:
        file.write(f"{text}\n".encode())
        file.flush()
        os.fsync(file.fileno())
