"""The lines of finished runs: `results/<table>.jsonl`, the only source of figures."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import filelock

Line = dict[str, Any]
DONE, FAILED = "done", "failed"
COMPARED = "bootstrap.json"


class Results:
    """Reads and writes the lines.

    A run has one line, known by its cell and seed; a failed one gives way to one that
    follows it. To measure a cell anew, remove its lines and its run folders.

    Args:
        folder: Where the files lie; it is made with the first line.
    """

    def __init__(self, folder: str | os.PathLike[str]):
        self.folder = Path(folder)

    def lines(self) -> list[Line]:
        """Reads all lines of runs, table by table.

        Raises:
            ValueError: A line is no JSON object.
        """
        files = sorted(self.folder.glob("*.jsonl"))
        return [x for file in files for x in _read(file) if "cell" in x]

    def by_job(self) -> dict[tuple[str, int], Line]:
        """Returns the lines by cell and seed."""
        return {_key(line): line for line in self.lines()}

    def add(self, table: str, line: Mapping[str, Any]) -> bool:
        """Adds the line of a run, unless the run is there as done.

        The file is there whole, with or without the line, and processes take turns.

        Args:
            table: The table's short name.
            line: With `cell`, `seed` and `status`.

        Returns:
            Whether it was added.
        """
        with self._locked():
            file = self.folder / f"{table}.jsonl"
            kept = []
            for old in _read(file):
                if _key(old) != _key(line):
                    kept.append(old)
                elif old["status"] == DONE:
                    return False
            write(file, [*kept, dict(line)])
        return True

    def compared(self) -> dict[str, float]:
        """Reads what the bootstrap found of pairs of runs; see `verdicts.compare`."""
        file = self.folder / COMPARED
        return json.loads(file.read_text("utf-8")) if file.is_file() else {}

    def write_compared(self, found: Mapping[str, float]) -> None:
        """Writes it; nothing, if nothing was found."""
        if found:
            text = json.dumps(found, indent=1) + "\n"
            write_text(self.folder / COMPARED, text)

    @contextlib.contextmanager
    def _locked(self) -> Iterator[None]:
        self.folder.mkdir(parents=True, exist_ok=True)
        with filelock.FileLock(self.folder / ".lock"):
            yield


def write(file: Path, lines: list[Line]) -> None:
    """Writes lines, all or none."""
    write_text(file, "".join(json.dumps(line) + "\n" for line in lines))


def write_text(file: Path, text: str) -> None:
    """Writes a text file; it is there whole, or as it was before."""
    temporary = file.with_name(f".{file.name}.tmp")
    with temporary.open("w", encoding="utf-8") as opened:
        opened.write(text)
        opened.flush()
        os.fsync(opened.fileno())
    temporary.replace(file)


def _read(file: Path) -> list[Line]:
    if not file.is_file():
        return []
    read = []
    for number, text in enumerate(file.read_text("utf-8").splitlines(), 1):
        try:
            line = json.loads(text)
        except json.JSONDecodeError as error:
            raise ValueError(
                f"{file}:{number}: expected a JSON object, got {text[:60]!r} "
                f"({error}); remove or mend the line"
            ) from None
        read.append(line)
    return read


def _key(line: Mapping[str, Any]) -> tuple[str, int]:
    return line["cell"], line["seed"]
