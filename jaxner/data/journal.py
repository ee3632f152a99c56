"""What a long run has written, and a journal that says how much of it counts."""

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


@dataclass
class Progress:
    """What has been done.

    Attributes:
        records: Of the input, those of other shards included.
        sentences: Tagged.
        tokens: Tagged.
        bad: Records that could not be read.
        start: When the first chunk was begun, by `time.perf_counter`.
        before: Tokens that a run before this one had tagged.
    """

    records: int = 0
    sentences: int = 0
    tokens: int = 0
    bad: int = 0
    start: float = field(default_factory=time.perf_counter)
    before: int = 0

    def summary(self) -> str:
        """Says it in a line."""
        seconds = max(time.perf_counter() - self.start, 1e-9)
        speed = (self.tokens - self.before) / seconds
        bad = f", {self.bad:,} bad records" if self.bad else ""
        return (
            f"{self.tokens:,} tokens in {self.sentences:,} sentences, "
            f"{speed:,.0f} tokens/s{bad}"
        )


class Output:
    """A file that grows by chunks, with a journal of what counts in it.

    Use it as a context; the file has its name once that has ended without an error.

    Args:
        path: The file; `.gz` is compressed.
        identity: What has to be the same in a run that goes on.
        rejects: File for bad records, as JSON lines; None: there is none.
        overwrite: Whether to begin anew, whatever is there.

    Raises:
        FileExistsError: The file is there, or was begun by a run of another identity,
            or another process is writing it.
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
            if path.exists() and not self._overwrite:
                raise FileExistsError(
                    f"{path} is there already; --overwrite begins it anew"
                )
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
        """Finds what a run before has done; returns the sizes that count."""
        if self._overwrite or not self.journal.exists() or not self.part.exists():
            return 0, 0
        try:
            found = json.loads(self.journal.read_text("utf-8"))
            before, sizes = found["identity"], found["sizes"]
            self.records, self.checksum = found["records"], found["checksum"]
            self.progress = found["progress"]
        except (ValueError, KeyError, TypeError):
            raise ValueError(
                f"{self.journal} is damaged; --overwrite begins anew"
            ) from None
        now = json.loads(json.dumps(self._identity))
        if before != now:
            names = [k for k in now if before.get(k) != now[k]]
            raise FileExistsError(
                f"{self.part} was begun with another {', '.join(names)}; give the same,"
                " or begin anew with --overwrite"
            )
        return sizes[0], sizes[1]

    def check(self, records: int, checksum: int) -> None:
        """Checks, at the last record that was read before, that it is the same."""
        if records == self.records and checksum != self.checksum:
            raise ValueError(
                f"The input is not what {self.part} was made of: its first {records:,} "
                "records have changed; --overwrite begins anew"
            )

    def check_whole(self, records: int) -> None:
        """Checks that the input has at least the records that were read before."""
        if records < self.records:
            raise ValueError(
                f"The input has {records:,} records; {self.part} was made of at least "
                f"{self.records:,}; --overwrite begins anew"
            )

    def commit(
        self, text: str, bad: Sequence[Bad], done: Progress, checksum: int
    ) -> None:
        """Appends a chunk; from then on it counts."""
        data = text.encode("utf-8", "surrogatepass")
        zipped = self.path.suffix == ".gz"
        # Members of their own, so that the file can be cut between chunks.
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
    """Standard output in the place of an `Output`: nothing is kept to go on from."""

    def __init__(self, file: Any):
        self._file, self.records, self.checksum = file, 0, 0
        self.progress: dict[str, int] = {}

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


def _part(path: Path) -> Path:
    return path.with_name(f"{path.name}.part")


def _open_at(path: Path, size: int) -> Any:
    """Opens a file to go on at some size; what stands behind is cut off."""
    file = path.open("r+b" if size else "wb")
    if size > file.seek(0, os.SEEK_END):
        file.close()
        raise ValueError(f"{path} is shorter than it was; --overwrite begins anew")
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
