"""Protects the files of a run: atomic writes, checksums, and limits on reading.

Small files contain their own checksum. A folder of arrays has a list of checksums,
`checksums.json`, which also says what the arrays belong to. Files from versions without
checksums are read without this check.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from jaxner import writing

CHECKSUM = "checksum"
"""The key of a JSON object's own checksum."""
CHECKSUMS = "checksums.json"
"""The file beside arrays that lists the checksums of the others."""

_SHORT = len("sha256:") + 16  # characters of a line's checksum
_LIMITS = {
    "JAXNER_MAX_JSON_MB": 1024,  # MiB of a file
    "JAXNER_MAX_DEPTH": 100,  # nested brackets
    "JAXNER_MAX_FILES": 1_000_000,  # files in a checkpoint
    "JAXNER_MAX_EXPANSION": 1000,  # bytes of arrays per byte on disk
}


class DamagedFileError(ValueError):
    """A file of a run is missing, damaged, or does not belong to the others.

    Args:
        path: The file, or the folder.
        reason: What is wrong with it; a clause without a full stop.
        remedy: What to do, in sentences.
    """

    def __init__(self, path: str | os.PathLike[str], reason: str, remedy: str):
        self.path, self.reason, self.remedy = Path(path), reason, remedy
        super().__init__(f"{path}: {reason}. {remedy}")


class MissingFileError(DamagedFileError, FileNotFoundError):
    """A file or folder of a run is missing; arguments as in `DamagedFileError`."""


def limit(name: str) -> int:
    """Returns a limit on reading; the environment variable of this name replaces it.

    Raises:
        ValueError: The variable is not a positive integer.

    Example:
        >>> limit("JAXNER_MAX_DEPTH")
        100
    """
    given = os.environ.get(name)
    if given is None:
        return _LIMITS[name]
    if not (given.isascii() and given.isdigit() and int(given)):
        raise ValueError(f"Expected a positive integer in ${name}, got {given!r}")
    return int(given)


def read_text(path: Path, remedy: str) -> str:
    """Reads a text file of a run.

    Raises:
        DamagedFileError: The file is empty, not UTF-8, too large, or not regular.
        FileNotFoundError: The file is missing.
    """
    if path.exists() and not path.is_file():
        raise DamagedFileError(path, "is not a regular file", remedy)
    size, most = path.stat().st_size, limit("JAXNER_MAX_JSON_MB")
    if size > most << 20:
        more = f"$JAXNER_MAX_JSON_MB={(size >> 20) + 1} reads it anyway."
        raise DamagedFileError(
            path, f"is larger than the {most:,} MiB that such a file may have", more
        )
    try:
        text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        reason = f"is not UTF-8 text (byte {error.start})"
        raise DamagedFileError(path, reason, remedy) from None
    if not text.strip("\0 \t\r\n"):
        raise DamagedFileError(path, "is empty", remedy)
    return text


def read_json(path: Path, remedy: str) -> dict[str, Any]:
    """Reads a JSON object, and checks the checksum inside, if there is one.

    Args:
        path: The file.
        remedy: What to do if it is damaged.

    Raises:
        DamagedFileError: The content is not a JSON object, or was changed.
        FileNotFoundError: The file is missing.
    """
    content = parse(path, read_text(path, remedy), remedy)
    if not isinstance(content, dict):
        raise DamagedFileError(path, "is not a JSON object", remedy)
    if not _is_as_written(content):
        raise DamagedFileError(
            path,
            "was edited or damaged after it was written: its checksum differs",
            f'{remedy} If you meant the change, delete its line "{CHECKSUM}".',
        )
    return content


def parse(path: Path, text: str, remedy: str) -> Any:
    """Parses the JSON text of a file.

    Raises:
        DamagedFileError: The text is not JSON, or is nested too deeply.
    """
    deepest = limit("JAXNER_MAX_DEPTH")
    too_deep = DamagedFileError(
        path,
        f"is nested more than {deepest} levels deep",
        "$JAXNER_MAX_DEPTH raises the limit.",
    )
    try:
        content = json.loads(text)
    except json.JSONDecodeError as error:
        reason = f"is not valid JSON (line {error.lineno}: {error.msg})"
        raise DamagedFileError(path, reason, remedy) from None
    except RecursionError:
        raise too_deep from None
    except ValueError:  # an integer of thousands of digits
        reason = "holds a number that is too long"
        raise DamagedFileError(path, reason, remedy) from None
    if _is_deeper(content, deepest):
        raise too_deep
    return content


def _is_deeper(content: Any, deepest: int) -> bool:
    level = [content]
    for _ in range(deepest):
        nested = (x.values() if isinstance(x, dict) else x for x in level)
        level = [y for x in nested for y in x if isinstance(y, (dict, list))]
        if not level:
            return False
    return True


def write_json(path: Path, content: Mapping[str, Any]) -> None:
    """Writes a JSON object with its checksum, atomically."""
    plain = json.loads(json.dumps(content))  # as `read_json` will see it: no tuples
    # First, so that its line can be deleted without breaking the JSON.
    plain.pop(CHECKSUM, None)
    plain = {CHECKSUM: _checksum(plain), **plain}
    writing.write_text(path, json.dumps(plain, indent=2, ensure_ascii=False) + "\n")


def to_line(content: Mapping[str, Any]) -> str:
    """Returns a JSON object and its checksum as one line."""
    plain = json.loads(json.dumps(content))
    return json.dumps(plain | {CHECKSUM: _checksum(plain)[:_SHORT]})


def from_line(line: str) -> dict[str, Any] | None:
    """Parses a line of `to_line`, or one without checksum; None if it is damaged.

    Example:
        >>> from_line(to_line({"epoch": 1})), from_line('{"epoch": 1')
        ({'epoch': 1}, None)
    """
    try:
        content = json.loads(line)
        return content if _is_as_written(content) else None
    except (ValueError, AttributeError, RecursionError):
        return None


def _is_as_written(content: dict[str, Any]) -> bool:
    """Removes the checksum; returns whether it was right, or there was none."""
    given = content.pop(CHECKSUM, None)
    if given is None:  # or its key is damaged
        texts = (value for value in content.values() if isinstance(value, str))
        return not any(text.startswith("sha256:") for text in texts)
    return given in (_checksum(content), _checksum(content)[:_SHORT])


def refuse_links(paths: Iterable[Path]) -> None:
    """Checks, before writing, that none of the paths is a symbolic link.

    Raises:
        DamagedFileError: A path is a symbolic link.
    """
    for path in paths:
        if path.is_symlink():
            raise DamagedFileError(
                path,
                f"is a symbolic link (to {os.readlink(path)}), which is not followed "
                "when a run is written",
                "Put the file or folder itself in its place.",
            )


def seal(folder: Path, about: Mapping[str, Any]) -> None:
    """Writes the checksums of all files of a finished folder beside them.

    Args:
        folder: A folder whose files are complete.
        about: JSON that says what the arrays belong to; `check` returns it.
    """
    files = {f.relative_to(folder).as_posix(): _describe(f) for f in _files(folder)}
    write_json(folder / CHECKSUMS, {"about": dict(about), "files": files})


def is_sealed(folder: Path) -> bool:
    """Returns whether a folder has a list of checksums."""
    return (folder / CHECKSUMS).exists()


def check(folder: Path, remedy: str) -> dict[str, Any] | None:
    """Compares the files of a folder with their checksums.

    Args:
        folder: The folder, as given to `seal`.
        remedy: What to do if a file is missing or damaged.

    Returns:
        The `about` of `seal`; None for a folder without checksums, which an earlier
        version wrote.

    Raises:
        DamagedFileError: A file was cut, changed or added.
        MissingFileError: A file is missing, or the folder is empty.
        FileNotFoundError: The folder is missing.
    """
    found = {file.relative_to(folder).as_posix(): file for file in _files(folder)}
    if not found:
        raise MissingFileError(folder, "is empty: its files are gone", remedy)
    if not is_sealed(folder):
        return None
    content = read_json(folder / CHECKSUMS, remedy)
    about, listed = content.get("about"), content.get("files")
    if not (isinstance(about, dict) and isinstance(listed, dict)):
        raise DamagedFileError(folder / CHECKSUMS, "lists no checksums", remedy)
    for name, expected in listed.items():
        if name not in found:
            raise MissingFileError(folder / name, "is missing", remedy)
        size = found[name].stat().st_size
        if (wanted := str(expected).partition(" ")[0]) != str(size):
            reason = f"has {size} bytes instead of {wanted}"
            raise DamagedFileError(folder / name, reason, remedy)
        if _describe(found[name]) != expected:
            reason = "is damaged: its checksum differs"
            raise DamagedFileError(folder / name, reason, remedy)
    for name in found.keys() - listed.keys():
        reason = "does not belong to the checkpoint"
        raise DamagedFileError(folder / name, reason, "Remove it.")
    return about


def check_size(folder: Path, unpacked: int) -> None:
    """Checks, before memory is allocated, how far arrays expand from their files.

    Args:
        folder: The folder with the files.
        unpacked: Size of the arrays in bytes; up to 64 MiB always pass.

    Raises:
        DamagedFileError: The arrays exceed the limit `JAXNER_MAX_EXPANSION`.
    """
    on_disk, times = size_of(folder), limit("JAXNER_MAX_EXPANSION")
    if unpacked > (64 << 20) and unpacked > times * on_disk:
        raise DamagedFileError(
            folder,
            f"would unpack {on_disk:,} bytes to {unpacked:,}, more than {times:,} "
            "times as many",
            f"If that is right, set $JAXNER_MAX_EXPANSION={unpacked // on_disk + 1}.",
        )


def size_of(folder: Path) -> int:
    """Returns the size of all files of a folder in bytes; at least 1."""
    return max(1, sum(file.stat().st_size for file in _files(folder)))


def _files(folder: Path) -> list[Path]:
    """Lists the files below a folder, but for checksums and temporary files."""
    if not folder.is_dir():
        raise FileNotFoundError(f"There is no folder {folder}")
    files, most = [], limit("JAXNER_MAX_FILES")
    for parent, _, names in os.walk(folder):
        files += [f for name in names if (f := Path(parent) / name).is_file()]
        if len(files) > most:
            reason = f"holds more than {most:,} files"
            more = "$JAXNER_MAX_FILES raises the limit."
            raise DamagedFileError(folder, reason, more)
    own = folder / CHECKSUMS
    return sorted(f for f in files if f != own and f.suffix != ".tmp")


def _describe(path: Path) -> str:
    """Returns the size of a file and its checksum."""
    with path.open("rb") as file:
        checksum = hashlib.file_digest(file, "sha256").hexdigest()
    return f"{path.stat().st_size} sha256:{checksum}"


def _checksum(content: Any) -> str:
    text = json.dumps(content, sort_keys=True)
    return "sha256:" + hashlib.sha256(text.encode()).hexdigest()


def difference(there: Any, here: Any, name: str = "") -> str:
    """Describes the first difference of two JSON values; empty if they are equal.

    Example:
        >>> difference({"head": {"dim": 2}}, {"head": {"dim": 3}})
        'head.dim was 2, and is 3'
    """
    if isinstance(there, dict) and isinstance(here, dict):
        for key in sorted(there.keys() | here.keys()):
            inner = f"{name}.{key}" if name else key
            if found := difference(there.get(key), here.get(key), inner):
                return found
        return ""
    return "" if there == here else f"{name} was {there!r}, and is {here!r}"


def reading(path: Path, remedy: str, what: Callable[[], Any]) -> Any:
    """Calls a function that uses a file's content; names the file if it fails.

    Raises:
        DamagedFileError: The function raised any exception.
    """
    try:
        return what()
    except DamagedFileError:
        raise
    except Exception as error:  # hostile content fails in any way
        text = " ".join(str(error).split())[:300] or type(error).__name__
        if isinstance(error, KeyError):
            text = f"it has no {text}"
        raise DamagedFileError(path, f"cannot be used: {text}", remedy) from error
