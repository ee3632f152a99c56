"""Files written so that a kill or a crash never leaves half of one.

They take their name last, and are on the disk before. Symbolic links are not followed.
"""

from __future__ import annotations

import contextlib
import os
import secrets
from pathlib import Path

_BINARY = getattr(os, "O_BINARY", 0)  # Windows
_NO_LINK = getattr(os, "O_NOFOLLOW", 0)  # not there
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | _BINARY | _NO_LINK


def write_text(path: Path, text: str) -> None:
    """Writes a text file; it is there whole, or as it was before, also after a crash.

    A symbolic link of that name is replaced, and not followed.
    """
    with replacing(path) as file:
        file.write(text.encode("utf-8"))


@contextlib.contextmanager
def replacing(path: Path):
    """Opens a file to write bytes to; in the end it takes the place of another.

    Until then it has a name that nobody can guess. An error leaves all as it was.
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
    """Makes new names in a folder last; a system that cannot do so is let be."""
    with contextlib.suppress(OSError):
        number = os.open(path, os.O_RDONLY)
        try:
            os.fsync(number)
        finally:
            os.close(number)


def append_line(path: Path, text: str) -> None:
    """Appends a line to a file, and writes through to the disk; no link is followed."""
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | _BINARY | _NO_LINK
    with os.fdopen(os.open(path, flags, 0o666), "ab") as file:
        file.write(f"{text}\n".encode())
        file.flush()
        os.fsync(file.fileno())
