"""Checksums: damage to a file of a run is found before the file is used.

JSON files and lines contain their own checksum. A folder of arrays has a list of them,
`checksums.json`, which also says what the arrays belong to.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from jaxner import disk
from jaxner.errors import InputError

CHECKSUM = "checksum"
"""The key of a JSON object's own checksum."""
CHECKSUMS = "checksums.json"
"""The file beside arrays that lists the checksums of the others."""

_SHORT = len("sha256:") + 16  # characters of a line's checksum


class DamagedFileError(InputError):
    """A file of a run is damaged, or does not belong to the others.

    Args:
        path: The file, or the folder.
        reason: What is wrong with it; a clause without a full stop.
    """

    def __init__(self, path: str | os.PathLike[str], reason: str):
        super().__init__(reason, path)
        self.args = (path, reason)  # so that copies keep both


class MissingFileError(DamagedFileError, FileNotFoundError):
    """A file or folder of a run is missing; arguments as in `DamagedFileError`."""

    __str__ = InputError.__str__


def read_json(path: Path) -> dict[str, Any]:
    """Returns the JSON object in a file, after checking the checksum inside.

    Raises:
        DamagedFileError: The content is not a JSON object, or was changed.
        FileNotFoundError: The file is missing.
    """
    text = path.read_bytes()
    try:
        content = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise DamagedFileError(path, f"is not JSON: {error}".split("\n")[0]) from None
    if not isinstance(content, dict):
        raise DamagedFileError(path, "is not a JSON object")
    if not _is_as_written(content):
        raise DamagedFileError(
            path,
            "was edited or damaged after it was written: its checksum differs. If you "
            f'meant the change, delete its line "{CHECKSUM}"',
        )
    return content


def write_json(path: Path, content: Mapping[str, Any]) -> None:
    """Writes a JSON object with its checksum, atomically."""
    plain = json.loads(json.dumps(content))  # as `read_json` will see it: no tuples
    # First, so that its line can be deleted without breaking the JSON.
    plain.pop(CHECKSUM, None)
    plain = {CHECKSUM: _checksum(plain), **plain}
    disk.write_text(path, json.dumps(plain, indent=2, ensure_ascii=False) + "\n")


def to_line(content: Mapping[str, Any]) -> str:
    """Returns a JSON object and its checksum as one line."""
    plain = json.loads(json.dumps(content))
    return json.dumps(plain | {CHECKSUM: _checksum(plain)[:_SHORT]})


def from_line(line: str) -> dict[str, Any] | None:
    """Returns the object in a line of `to_line`; None if it is damaged.

    Example:
        >>> from_line(to_line({"epoch": 1})), from_line('{"epoch": 1')
        ({'epoch': 1}, None)
    """
    try:
        content = json.loads(line)
    except (ValueError, RecursionError):
        return None
    is_whole = isinstance(content, dict) and _is_as_written(content)
    return content if is_whole else None


def _is_as_written(content: dict[str, Any]) -> bool:
    """Removes the checksum; returns whether it was right, or there was none."""
    checksum = content.pop(CHECKSUM, None)
    if checksum is None:  # or its key is damaged
        texts = (value for value in content.values() if isinstance(value, str))
        return not any(text.startswith("sha256:") for text in texts)
    return checksum in (_checksum(content), _checksum(content)[:_SHORT])


def _checksum(content: Any) -> str:
    text = json.dumps(content, sort_keys=True)
    return "sha256:" + hashlib.sha256(text.encode()).hexdigest()


def seal(folder: Path, about: Mapping[str, Any]) -> None:
    """Writes the checksums of all files of a finished folder beside them.

    Args:
        folder: A folder whose files are complete.
        about: JSON that says what the arrays belong to; `check` returns it.
    """
    files = {name: _describe(folder / name) for name in sorted(_names(folder))}
    write_json(folder / CHECKSUMS, {"about": dict(about), "files": files})


def check(folder: Path) -> dict[str, Any] | None:
    """Compares the files of a folder with their checksums.

    Returns:
        The `about` of `seal`; None if the process was killed before it wrote checksums.

    Raises:
        DamagedFileError: A file was cut, changed or added.
        MissingFileError: A file or the folder is missing.
    """
    names = _names(folder)
    if not names:
        raise MissingFileError(folder, "holds no files")
    if not (folder / CHECKSUMS).exists():
        return None
    content = read_json(folder / CHECKSUMS)
    about, listed = content.get("about"), content.get("files")
    if not (isinstance(about, dict) and isinstance(listed, dict)):
        raise DamagedFileError(folder / CHECKSUMS, "lists no checksums")
    for name in sorted(names | listed.keys()):
        file = folder / name
        if name not in names:
            raise MissingFileError(file, "is missing")
        if name not in listed:
            raise DamagedFileError(file, "does not belong to the checkpoint")
        if _describe(file) != listed[name]:
            raise DamagedFileError(file, "is damaged: its checksum differs")
    return about


def _names(folder: Path) -> set[str]:
    """Returns the files below a folder, but for checksums and temporary files."""
    files = (file for file in folder.rglob("*") if file.is_file())
    names = {f.relative_to(folder).as_posix() for f in files if f.suffix != ".tmp"}
    return names - {CHECKSUMS}


def _describe(path: Path) -> str:
    """Returns the size of a file and its checksum."""
    with path.open("rb") as file:
        checksum = hashlib.file_digest(file, "sha256").hexdigest()
    return f"{path.stat().st_size} sha256:{checksum}"


def difference(there: Any, here: Any, name: str = "") -> str:
    """Describes the first difference of two JSON values; empty if they are equal.

    Example:
        >>> difference({"head": {"dim": 2}}, {"head": {"dim": 3}})
        'head.dim was 2, and is 3'
    """
    if isinstance(there, dict) and isinstance(here, dict):
        for key in sorted(there.keys() | here.keys()):
            inner = f"{name}.{key}" if name else key
            if text := difference(there.get(key), here.get(key), inner):
                return text
        return ""
    return "" if there == here else f"{name} was {there!r}, and is {here!r}"


def reading(path: Path, use: Callable[[], Any]) -> Any:
    """Calls a function that uses a file's content; names the file if it fails.

    Raises:
        DamagedFileError: The function raised any exception.
    """
    try:
        return use()
    except DamagedFileError:
        raise
    except Exception as error:  # damaged content fails in any way
        text = " ".join(str(error).split())[:300] or type(error).__name__
        text = f"it has no {text}" if isinstance(error, KeyError) else text
        raise DamagedFileError(path, f"cannot be used: {text}") from error
