"""The lines of finished runs: `results/<table>.jsonl`, the only source of figures."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import filelock

from jaxner import writing

Line = dict[str, Any]
DONE, FAILED = "done", "failed"
COMPARED = "bootstrap.json"


class Results:
    """Reads and writes the lines of runs.

    Cell and seed identify the line of a run; a new line replaces that of a failed run.
    To measure a cell again, remove its lines and its run folders.

    Args:
        folder: Folder of the files, created with the first line.
    """

    def __init__(self, folder: str | os.PathLike[str]):
        self.folder = Path(folder)

    def lines(self) -> list[Line]:
        """Returns all lines of runs, table by table.

        Raises:
            ValueError: A line is not a JSON object.
        """
        files = sorted(self.folder.glob("*.jsonl"))
        return [x for file in files for x in _read(file) if "cell" in x]

    def by_job(self) -> dict[tuple[str, int], Line]:
        """Returns the lines by cell and seed."""
        return {_key(line): line for line in self.lines()}

    def add(self, table: str, line: Mapping[str, Any]) -> bool:
        """Adds the line of a run unless the run is already done.

        The write is atomic, and processes take turns.

        Args:
            table: Short name of the table.
            line: Line with `cell`, `seed` and `status`.

        Returns:
            Whether the line was added.
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
        """Returns stored bootstrap results by pair of runs; see `verdicts.compare`."""
        file = self.folder / COMPARED
        return json.loads(file.read_text("utf-8")) if file.is_file() else {}

    def write_compared(self, found: Mapping[str, float]) -> None:
        """Writes bootstrap results, if there are any."""
        if found:
            text = json.dumps(found, indent=1) + "\n"
            writing.write_text(self.folder / COMPARED, text)

    @contextlib.contextmanager
    def _locked(self) -> Iterator[None]:
        self.folder.mkdir(parents=True, exist_ok=True)
        with filelock.FileLock(self.folder / ".lock"):
            yield


def write(file: Path, lines: list[Line]) -> None:
    """Writes lines atomically."""
    writing.write_text(file, "".join(json.dumps(line) + "\n" for line in lines))


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
                f"({error}); fix or remove the line"
            ) from None
        read.append(line)
    return read


def _key(line: Mapping[str, Any]) -> tuple[str, int]:
    return line["cell"], line["seed"]
