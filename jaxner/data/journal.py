"""The output of a long run, with a journal of its valid part for resuming."""

from __future__ import annotations

import contextlib
import gzip
import json
import os
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import filelock

from jaxner.data.streams import Bad
from jaxner.wording import counted


@dataclass
class Progress:
    """The progress of a run.

    Attributes:
        records: Number of input records so far, including those of other shards.
        sentences: Number of tagged sentences.
        tokens: Number of tagged tokens.
        bad: Number of unreadable records.
        start: Time of the start in seconds, by `time.perf_counter`.
        before: Number of tokens that an interrupted run had tagged.
    """

    records: int = 0
    sentences: int = 0
    tokens: int = 0
    bad: int = 0
    start: float = field(default_factory=time.perf_counter)
    before: int = 0

    def summary(self) -> str:
        """Returns the progress as a line, with the speed in tokens per second."""
        seconds = max(time.perf_counter() - self.start, 1e-9)
        speed = (self.tokens - self.before) / seconds
        bad = f", {counted(self.bad, 'bad record')}" if self.bad else ""
        tokens, sentences = (
            counted(self.tokens, "token"),
            counted(self.sentences, "sentence"),
        )
        return f"{tokens} in {sentences}, {speed:,.0f} tokens/s{bad}"


class Output:
    """A file that grows by chunks, with a journal of its valid part.

    Use it as a context manager; the file gets its final name when the context ends
    without an error.

    Args:
        path: The file; a path that ends with `.gz` is compressed.
        identity: Facts about the run that must be the same when it resumes.
        rejects: File for bad records, as JSON lines; None: no such file.
        overwrite: Whether to start over, even if files exist.

    Raises:
        FileExistsError: The file exists, or a run with another identity started it, or
            another process is writing it.
        ValueError: The journal is damaged, or the file is shorter than it says.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        identity: dict[str, Any],
        *,
        rejects: str | os.PathLike[str] | None = None,
        overwrite: bool = False,
    ):
        self.path, self._identity = Path(path), identity
        self.part = _part(self.path)
        self.journal = self.path.with_name(f"{self.path.name}.journal")
        self._rejects = None if rejects is None else Path(rejects)
        self._overwrite = overwrite
        self.records, self.checksum = 0, 0
        self.progress: dict[str, int] = {}

    def __enter__(self) -> Output:
        for path in filter(None, (self.path, self._rejects)):
            _check_new(path, self._overwrite)
        lock = self.path.with_name(f"{self.path.name}.lock")
        self._lock = filelock.FileLock(lock, timeout=0)
        try:
            self._lock.acquire()
        except filelock.Timeout:
            raise FileExistsError(f"Another process is writing {self.path}") from None
        try:
            sizes = self._resume()
            self._file = _open_at(self.part, sizes[0])
            self._bad = None
            if self._rejects:
                self._bad = _open_at(_part(self._rejects), sizes[1])
        except BaseException:
            self._lock.release()
            raise
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        self._file.close()
        if self._bad:
            self._bad.close()
        if kind is None:
            if self._rejects:
                os.replace(_part(self._rejects), self._rejects)
            os.replace(self.part, self.path)
            self.journal.unlink(missing_ok=True)
        self._lock.release()
        with contextlib.suppress(OSError):
            Path(self._lock.lock_file).unlink()

    def _resume(self) -> tuple[int, int]:
        """Reads the journal of an interrupted run; returns the valid sizes in bytes."""
        if self._overwrite or not self.journal.exists() or not self.part.exists():
            return 0, 0
        try:
            found = json.loads(self.journal.read_text("utf-8"))
            before, sizes = found["identity"], found["sizes"]
            self.records, self.checksum = found["records"], found["checksum"]
            self.progress = found["progress"]
        except (ValueError, KeyError, TypeError):
            raise ValueError(
                f"{self.journal} is damaged; --overwrite starts over"
            ) from None
        now = json.loads(json.dumps(self._identity))
        if before != now:
            names = [k for k in now if before.get(k) != now[k]]
            raise FileExistsError(
                f"{self.part} was begun with another {', '.join(names)}; give the same,"
                " or start over with --overwrite"
            )
        return sizes[0], sizes[1]

    def check(self, records: int, checksum: int) -> None:
        """Checks that the records of the interrupted run are the same now.

        Args:
            records: Number of records read so far.
            checksum: Their checksum.

        Raises:
            ValueError: The records have changed.
        """
        if records == self.records and checksum != self.checksum:
            raise ValueError(
                f"The input differs from that of {self.part}: its first {records:,} "
                "records have changed; --overwrite starts over"
            )

    def check_whole(self, records: int) -> None:
        """Checks that the input has all records of the interrupted run.

        Args:
            records: Number of records in the input.

        Raises:
            ValueError: The input has fewer records.
        """
        if records < self.records:
            raise ValueError(
                f"The input has {counted(records, 'record')}; {self.part} was made of "
                f"at least {self.records:,}; --overwrite starts over"
            )

    def commit(
        self, text: str, bad: Sequence[Bad], done: Progress, checksum: int
    ) -> None:
        """Appends a chunk, and records it in the journal.

        Args:
            text: The labelled records.
            bad: The unreadable records.
            done: The progress with this chunk.
            checksum: Checksum of the input so far.
        """
        data = text.encode("utf-8", "surrogatepass")
        zipped = self.path.suffix == ".gz"
        # Each chunk is a gzip member, so that the file can be cut between chunks.
        _append(self._file, gzip.compress(data, 6, mtime=0) if zipped else data)
        if self._bad:
            _append(self._bad, "".join(map(_reject, bad)).encode())
        names = ("records", "sentences", "tokens", "bad")
        content = {
            "identity": self._identity,
            "records": done.records,
            "checksum": checksum,
            "sizes": [self._file.tell(), self._bad.tell() if self._bad else 0],
            "progress": {name: getattr(done, name) for name in names},
        }
        temporary = self.journal.with_name(f"{self.journal.name}.new")
        with temporary.open("w", encoding="utf-8") as file:
            json.dump(content, file)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, self.journal)


class Standard:
    """Standard output instead of an `Output`; such a run cannot resume.

    Args:
        file: Where to write the labelled records.
        rejects: File for bad records, as JSON lines; None: no such file.
        overwrite: Whether to replace that file.

    Raises:
        FileExistsError: The file for bad records exists.
    """

    def __init__(
        self,
        file: Any,
        rejects: str | os.PathLike[str] | None = None,
        overwrite: bool = False,
    ):
        self._file, self.records, self.checksum = file, 0, 0
        self.progress: dict[str, int] = {}
        self._bad = None
        if rejects is not None:
            _check_new(Path(rejects), overwrite)
            self._bad = _open_at(Path(rejects), 0)

    def __enter__(self) -> Standard:
        return self

    def __exit__(self, *_: object) -> None:
        if self._bad:
            self._bad.close()

    def check(self, records: int, checksum: int) -> None:
        """Checks nothing."""

    def check_whole(self, records: int) -> None:
        """Checks nothing."""

    def commit(
        self, text: str, bad: Sequence[Bad], done: Progress, checksum: int
    ) -> None:
        """Writes a chunk."""
        self._file.write(text)
        self._file.flush()
        if self._bad:
            _append(self._bad, "".join(map(_reject, bad)).encode())


def _check_new(path: Path, overwrite: bool) -> None:
    if path.exists() and not overwrite:
        raise FileExistsError(f"{path} is there already; --overwrite starts over")


def _part(path: Path) -> Path:
    return path.with_name(f"{path.name}.part")


def _open_at(path: Path, size: int) -> Any:
    """Opens a file for appending after its first `size` bytes; cuts off the rest."""
    file = path.open("r+b" if size else "wb")
    if size > file.seek(0, os.SEEK_END):
        file.close()
        raise ValueError(f"{path} is shorter than it was; --overwrite starts over")
    file.truncate(size)
    file.seek(size)
    return file


def _append(file: Any, data: bytes) -> None:
    file.write(data)
    file.flush()
    os.fsync(file.fileno())


def _reject(bad: Bad) -> str:
    content = {"line": bad.line, "problem": bad.problem, "record": bad.raw}
    return json.dumps(content, ensure_ascii=False) + "\n"
