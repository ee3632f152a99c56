"""The folder of a run, written so that a kill never leaves partial files.

config.json        the resolved config
environment.json   versions, devices and hashes of the data
vocabulary.json    words, characters and labels
metrics.jsonl      one JSON object for each epoch
checkpoints/       frozen (vectors that no step changes), latest (to resume), best,
                   each with checksums.json: of its files, and whose vocabulary and
                   model they are for
result.json        the scores of the best checkpoint, when the run is done
predictions-*.conll  token, gold and predicted label of dev and test, by the same
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import filelock

from jaxner import integrity, writing
from jaxner.data.vocabulary import Vocabulary
from jaxner.integrity import DamagedFileError

if TYPE_CHECKING:
    from jaxner.checkpoints import Checkpoints

IS_LOCKED = "Another process is training in"


class Workdir:
    """Reads and writes the folder of a run.

    Args:
        path: The folder; created on the first write.
        writes: Whether this process writes files; among several that share a run, one
            does. All of them save checkpoints.
    """

    def __init__(self, path: str | os.PathLike[str], *, writes: bool = True):
        self.path, self.writes = Path(path).absolute(), writes

    def read_json(self, name: str) -> dict[str, Any]:
        """Returns the content of a JSON file in the folder.

        Raises:
            DamagedFileError: The file is not a JSON object, or was changed.
            FileNotFoundError: The file is missing; the message lists the folder's
                files.
        """
        file = self._present(name)
        return integrity.read_json(file, self.remedy())

    def _present(self, name: str) -> Path:
        file = self.path / name
        if not file.exists():
            raise FileNotFoundError(f"{file} is missing. {self._describe()}")
        return file

    def _describe(self) -> str:
        if not self.path.is_dir():
            return (
                f"There is no folder {self.path}; `jaxner train --workdir` makes one."
            )
        names = sorted(p.name for p in self.path.iterdir() if p.name[0] != ".")
        found = ", ".join(names) or "nothing"
        return f"A finished or resumable run has it; {self.path} holds: {found}."

    def remedy(self, part: str = "") -> str:
        """Returns what to do about a damaged file.

        Args:
            part: "best", "latest" or "frozen", for a checkpoint's file.
        """
        again = f"run `jaxner train` with its --config and --workdir={self.path}"
        copy = "Copy it again from where it came, or remove"
        checkpoints = self.path / "checkpoints"
        if (self.path / "model.json").is_file():
            return "Copy the folder again from where it came, or save the tagger again."
        if part == "best" and self.is_begun() and not self._has_scores():
            resume = f"R{again[1:]}: it resumes there."
            return f"The run was stopped in its first epoch. {resume}"
        if part == "best" and self.is_begun():
            gone = checkpoints / part
            resume = f"Remove {gone} and {again}" if gone.exists() else f"R{again[1:]}"
            return f"{resume}: it resumes from the latest checkpoint."
        if part == "latest":
            return (
                "The best checkpoint can still be loaded. To train again, remove "
                f"{checkpoints} and {again}."
            )
        if part:
            return f"{copy} {checkpoints} and {again}."
        return f"{copy} {self.path} and {again}."

    def write_json(self, name: str, content: Any) -> None:
        """Writes a JSON file atomically."""
        if not self.writes:
            return
        self._make()
        integrity.write_json(self.path / name, content)

    def write_text(self, name: str, text: str) -> None:
        """Writes a text file atomically."""
        if not self.writes:
            return
        self._make()
        writing.write_text(self.path / name, text)

    def _make(self) -> None:
        self.path.mkdir(parents=True, exist_ok=True)

    def log(self, metrics: dict[str, Any]) -> None:
        """Appends one line to `metrics.jsonl`."""
        file = self.path / "metrics.jsonl"
        if not self.writes:
            return
        integrity.refuse_links([file])
        writing.append_line(file, integrity.to_line(metrics))

    def metrics(self) -> list[dict[str, Any]]:
        """Returns the lines of `metrics.jsonl`, without a last line cut off by a kill.

        Raises:
            DamagedFileError: A line is damaged, or not the metrics of an epoch.
        """
        file = self.path / "metrics.jsonl"
        remedy = "Remove the line or the file; training continues without it."
        if not file.exists() or not file.stat().st_size:
            return []
        *lines, cut = integrity.read_text(file, remedy).split("\n")
        if cut and integrity.from_line(cut[:-1]):  # the line's end is damaged, no more
            lines.append(cut[:-1])
        found = []
        for number, line in enumerate(lines, 1):
            metrics = integrity.from_line(line)
            if metrics is None or type(metrics.get("epoch")) is not int:
                reason = f"line {number} is damaged, or not the metrics of an epoch"
                raise DamagedFileError(file, reason, remedy)
            found.append(metrics)
        return found

    def forget_after(self, epoch: int) -> None:
        """Removes the metrics of later epochs, which a resumed run computes again."""
        metrics = [m for m in self.metrics() if m["epoch"] <= epoch]
        kept = [integrity.to_line(m) + "\n" for m in metrics]
        self.write_text("metrics.jsonl", "".join(kept))

    def seed(self, seed: int) -> Workdir:
        """Returns the folder of one of several restarts."""
        return Workdir(self.path / f"seed-{seed}", writes=self.writes)

    def seeds(self) -> list[int]:
        """Returns the seeds of restarts that have a folder, ascending."""
        names = (path.name for path in self.path.glob("seed-*"))
        numbers = (name.removeprefix("seed-") for name in names)
        return sorted(int(n) for n in numbers if n.isascii() and n.isdigit())

    def has_best(self) -> bool:
        """Returns whether the folder itself has a checkpoint to load."""
        return (self.path / "checkpoints" / "best").is_dir()

    def _has_scores(self) -> bool:
        """Returns whether an epoch has ended; opens no file."""
        file = self.path / "metrics.jsonl"
        return file.exists() and file.stat().st_size > 0

    def predictions(self, split: str) -> Path:
        """Returns the path of the file with the labels of a split."""
        return self.path / f"predictions-{split}.conll"

    def vocabulary(self) -> Vocabulary:
        """Returns the vocabulary.

        Raises:
            DamagedFileError: The file is not a vocabulary.
        """
        if not (self.path / "model.json").is_file():
            self._present("config.json")  # raises a clear error if this is not a run
        file, remedy = self._present("vocabulary.json"), self.remedy()
        text = integrity.read_text(file, remedy)
        integrity.parse(file, text, remedy)
        return integrity.reading(file, remedy, lambda: Vocabulary.from_json(text))

    def check_about(self, part: str, about: Any, model: Any, vocab: Vocabulary) -> bool:
        """Checks that a checkpoint belongs to the folder's vocabulary and model.

        Args:
            part: "best", "latest" or "frozen".
            about: Identity sealed with the checkpoint; None without checksums.
            model: The section `model` of the config, or the content of `model.json`.
            vocab: The vocabulary.

        Returns:
            Whether there was an identity to compare.

        Raises:
            DamagedFileError: Vocabulary or model differ.
        """
        if about is None:
            return False
        place = self.path / "checkpoints" / part
        if about.get("vocabulary", vocab.fingerprint) != vocab.fingerprint:
            raise DamagedFileError(
                self.path / "vocabulary.json",
                f"is not the vocabulary that the weights in {place} were trained with",
                self.remedy(),
            )
        if (trained := about.get("model", model)) != model:
            name = (
                "model.json" if (self.path / "model.json").exists() else "config.json"
            )
            difference = integrity.difference(trained, model)
            raise DamagedFileError(
                self.path / name,
                f"does not describe the model of the weights in {place}: {difference}",
                self.remedy(),
            )
        return True

    def save_frozen(self, frozen: Any, about: Mapping[str, Any]) -> None:
        """Saves the frozen arrays, once for the whole run.

        Args:
            frozen: A pytree.
            about: The `vocabulary`'s fingerprint and the `model`'s options.
        """
        from jaxner import checkpoints

        place, remedy = self._writable("frozen"), self.remedy("frozen")
        checkpoints.save_frozen(place, frozen, about, remedy)

    def load_frozen(self, like: Any) -> tuple[Any, dict[str, Any] | None]:
        """Returns the frozen arrays, and what they belong to."""
        from jaxner import checkpoints

        place = self.path / "checkpoints" / "frozen"
        return checkpoints.load_frozen(place, like, self.remedy("frozen"))

    def is_begun(self) -> bool:
        """Returns whether there is a checkpoint to resume from; opens no file."""
        path = self.path / "checkpoints" / "latest"
        return path.is_dir() and any(entry.name.isdigit() for entry in path.iterdir())

    def latest(self, about: Mapping[str, Any] | None = None) -> Checkpoints:
        """Returns the checkpoints to resume from, for writing.

        Args:
            about: What the checkpoints belong to; see `save_frozen`.
        """
        return self._checkpoints(self._writable("latest"), about=about)

    def best(
        self, about: Mapping[str, Any] | None = None, *, read_only: bool = False
    ) -> Checkpoints:
        """Returns the checkpoint with the best dev score; see `latest` for arguments.

        Raises:
            DamagedFileError: `read_only` is set, and there is no checkpoint.
        """
        if not read_only:
            return self._checkpoints(self._writable("best"), about=about)
        return self._checkpoints(self.path / "checkpoints" / "best", read_only=True)

    def _checkpoints(self, path: Path, **options: Any) -> Checkpoints:
        from jaxner import checkpoints

        remedy = self.remedy(path.name)
        return checkpoints.Checkpoints(path, remedy=remedy, **options)

    def _writable(self, part: str) -> Path:
        path = self.path / "checkpoints" / part
        integrity.refuse_links([path.parent, path])
        return path

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """Keeps other processes from training in the folder.

        Leaves no files behind if nothing was written meanwhile.

        Raises:
            BlockingIOError: Another process is training in the folder.
            DamagedFileError: The lock is a symbolic link.
        """
        if not self.writes:  # the process that does holds the lock
            yield
            return
        is_new = not self.path.exists()
        self._make()
        file = self.path / ".lock"
        integrity.refuse_links([file])
        lock = filelock.FileLock(file)
        try:
            lock.acquire(timeout=0)
        except filelock.Timeout:
            raise BlockingIOError(
                f"{IS_LOCKED} {self.path}. Wait until it ends, or choose another "
                "--workdir."
            ) from None
        try:
            for stale in self.path.glob(".*.tmp"):  # of a killed process
                stale.unlink(missing_ok=True)
            yield
        finally:
            lock.release()
            if is_new and {p.name for p in self.path.iterdir()} <= {file.name}:
                file.unlink(missing_ok=True)
                self.path.rmdir()

    def is_locked(self) -> bool:
        """Returns whether a process is training in the folder."""
        if not self.path.is_dir():
            return False
        try:
            with self.locked():
                return False
        except BlockingIOError:
            return True


def names_of(folders: Sequence[str]) -> list[str]:
    """Returns the shortest ends of paths that distinguish runs.

    Raises:
        ValueError: A run is given twice.

    Example:
        >>> names_of(["runs/a/0", "runs/b/0"])
        ['a/0', 'b/0']
    """
    known = [Path(folder).absolute().parts for folder in folders]
    if len(set(known)) < len(known):
        raise ValueError("Expected each run once in --workdir")
    depth = 1
    while len({its[-depth:] for its in known}) < len(known):
        depth += 1
    return ["/".join(its[-depth:]) for its in known]
