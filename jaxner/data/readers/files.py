"""Bytes and lines of files: gzip, encodings, size limits, and atomic writes."""

from __future__ import annotations

import gzip
import io
import json
import os
import sys
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol, runtime_checkable

from jaxner import writing
from jaxner.data.readers.examples import ConllError, Report

DAMAGED_GZIP = (EOFError, zlib.error, gzip.BadGzipFile)
LIMIT_VARIABLE = "JAXNER_MAX_UNPACKED"
"""Environment variable: maximum size of an unpacked file in bytes."""
_LIMIT = 8 << 30


@runtime_checkable
class Writable(Protocol):
    """A text file open for writing."""

    def write(self, text: str, /) -> object:
        """Writes a text."""


def open_binary(
    path: str | os.PathLike[str], *, limited: bool = True
) -> io.BufferedIOBase:
    """Opens a file for reading bytes; decompresses gzip, recognised by its first bytes.

    Args:
        path: The file.
        limited: Whether reading raises ConllError once a compressed file has unpacked
            to more than 8 GiB, or the number of bytes in `JAXNER_MAX_UNPACKED`. Readers
            that do not hold the file in memory need no limit.

    Raises:
        FileNotFoundError: The file is missing; the message lists its neighbours.
        IsADirectoryError: The path is a folder.
    """
    path = Path(path)
    if path.is_dir():
        raise IsADirectoryError(f"Expected a file, {path} is a folder")
    if not path.exists():
        beside = sorted(entry.name for entry in path.parent.glob("*"))[:20]
        raise FileNotFoundError(f"No file {path}; beside it: {', '.join(beside)}")
    with path.open("rb") as file:
        zipped = file.read(2) == b"\x1f\x8b"
    if not zipped:
        return path.open("rb")
    return io.BufferedReader(
        _Unpacked(path, unpacked_limit() if limited else sys.maxsize), 1 << 20
    )


class _Unpacked(io.RawIOBase):
    """The content of a gzip file, up to a limit."""

    def __init__(self, path: Path, limit: int):
        self._path, self._limit, self._count = path, limit, 0
        self._file = gzip.GzipFile(path)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer) -> int:
        data = self._file.read(len(buffer))
        self._count += len(data)
        if self._count > self._limit:
            raise ConllError(
                [f"{self._path}: unpacks to more than {self._limit:,} bytes"],
                [f"If it is meant to, set {LIMIT_VARIABLE} to more bytes."],
            )
        buffer[: len(data)] = data
        return len(data)

    def close(self) -> None:
        self._file.close()
        super().close()


def unpacked_limit() -> int:
    """Returns how many bytes a compressed file may unpack to.

    Raises:
        ValueError: The variable that raises the limit is no number.
    """
    given = os.environ.get(LIMIT_VARIABLE) or str(_LIMIT)
    if not given.isascii() or not given.isdigit():
        raise ValueError(
            f"Expected a number of bytes in {LIMIT_VARIABLE}, got {given!r}"
        )
    return int(given)


def read_bytes(path: str | os.PathLike[str]) -> bytes:
    """Reads a whole file, decompressed.

    Raises:
        ConllError: The gzip file is damaged, or unpacks to too many bytes.
    """
    try:
        with open_binary(path) as file:
            return file.read()
    except DAMAGED_GZIP as error:
        problem = f"{path}: damaged gzip file ({error})"
        raise ConllError([problem], ["Get it again."]) from error


def decode_lines(data: bytes, report: Report, encoding: str) -> list[str]:
    """Decodes a text and splits it at LF and CRLF, and nowhere else.

    Raises:
        ConllError: Bytes do not match the encoding.
    """
    return decode(data, report, encoding).replace("\r\n", "\n").split("\n")


def decode(data: bytes, report: Report, encoding: str) -> str:
    """Decodes a text, without a byte order mark and a final CR.

    Raises:
        ConllError: Bytes do not match the encoding.
        ValueError: The encoding is unknown.
    """
    try:
        text = data.decode(encoding)
    except LookupError:
        raise ValueError(
            f"Unknown encoding {encoding!r}; known are Python's, such as utf-8, "
            "latin-1, utf-16"
        ) from None
    except UnicodeDecodeError as error:
        at = error.start
        problem = f"byte 0x{data[at]:02x} (number {at} from 0) is not {encoding}"
        remedy = "Save the file as UTF-8, or set `encoding` to the one that it has."
        context = data[max(0, at - 9) : at + 9]
        report.add(data.count(b"\n", 0, at) + 1, problem, context, remedy)
        raise ConllError(report.problems, remedy_of=report.remedies) from None
    return text.removeprefix("\ufeff").removesuffix("\r")


def is_one_json_value(lines: Sequence[str]) -> bool:
    """Tells whether lines are JSON together, though not each by itself."""
    try:
        json.loads("\n".join(lines))
    except (ValueError, RecursionError):
        return False
    return sum(map(bool, map(str.strip, lines))) > 1


def write_text(target: str | os.PathLike[str] | Writable, text: str) -> None:
    """Writes a file atomically; a path that ends with `.gz` is compressed.

    Args:
        target: A path, or a text file open for writing.
        text: The content; written as UTF-8.
    """
    if not isinstance(target, str | os.PathLike):
        target.write(text)
        return
    # Readers skip the first byte order mark; one within a token needs another before.
    data = (text[:1].replace("\ufeff", "\ufeff\ufeff") + text[1:]).encode()
    path = Path(target)
    with writing.replacing(path) as file:
        # Without a timestamp, equal content gives equal bytes.
        file.write(gzip.compress(data, mtime=0) if path.suffix == ".gz" else data)
