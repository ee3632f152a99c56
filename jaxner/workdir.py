"""The folder of a run: what lies where, written so that a kill never leaves half of it.

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
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import filelock

from jaxner import integrity, writing
from jaxner.data.vocab import Vocabulary
from jaxner.integrity import DamagedFileError

if TYPE_CHECKING:
    from jaxner.checkpoints import Checkpoints

IS_LOCKED = "Another process is training in"


class Workdir:
    """Reads and writes the folder of a run.

    Args:
        path: The folder; it is made when something is first written.
    """

    def __init__(self, path: str | os.PathLike[str]):
        self.path = Path(path).absolute()

    def read_json(self, name: str) -> dict[str, Any]:
        """Reads a JSON file of the folder.

        Raises:
            DamagedFileError: It is no JSON object, or not as it was written.
            FileNotFoundError: The folder holds no such file; the message says what it
                holds.
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
        """Says what to do about a damaged file.

        Args:
            part: "best", "latest" or "frozen", if it is of a checkpoint.
        """
        again = f"run `jaxner train` with its --config and --workdir={self.path}"
        copy = "Copy it again from where it came, or remove"
        checkpoints = self.path / "checkpoints"
        if (self.path / "model.json").is_file():
            return "Copy the folder again from where it came, or save the tagger again."
        if part == "best" and self.is_begun():
            return (
                f"Remove {checkpoints / part} and {again}: it goes on from the "
                "latest checkpoint."
            )
        if part == "latest":
            return (
                "The best checkpoint can still be loaded. To train again, remove "
                f"{checkpoints} and {again}."
            )
        if part:
            return f"{copy} {checkpoints} and {again}."
        return f"{copy} {self.path} and {again}."

    def write_json(self, name: str, content: Any) -> None:
        """Writes a JSON file; it is there whole, or as it was before."""
        self._make()
        integrity.write_json(self.path / name, content)

    def write_text(self, name: str, text: str) -> None:
        """Writes a text file; it is there whole, or as it was before."""
        self._make()
        writing.write_text(self.path / name, text)

    def _make(self) -> None:
        self.path.mkdir(parents=True, exist_ok=True)

    def log(self, metrics: dict[str, Any]) -> None:
        """Appends one line to `metrics.jsonl`."""
        file = self.path / "metrics.jsonl"
        integrity.refuse_links([file])
        writing.append_line(file, json.dumps(metrics))

    def metrics(self) -> list[dict[str, Any]]:
        """Reads `metrics.jsonl`; a last line that a kill cut off is left out.

        Raises:
            DamagedFileError: A line before it is no JSON object with an epoch.
        """
        file = self.path / "metrics.jsonl"
        remedy = "Remove the line, or the file: training goes on without it."
        if not file.exists() or not file.stat().st_size:
            return []
        lines = integrity.read_text(file, remedy).splitlines()
        found = []
        for number, line in enumerate(lines, 1):
            try:
                metrics = integrity.parse(file, line, remedy)
                if type(metrics["epoch"]) is not int:
                    raise TypeError
            except (DamagedFileError, TypeError, KeyError):
                if number == len(lines):
                    break
                reason = f"line {number} is not the metrics of an epoch"
                raise DamagedFileError(file, reason, remedy) from None
            found.append(metrics)
        return found

    def forget_after(self, epoch: int) -> None:
        """Drops the metrics of later epochs, which a resumed run computes again."""
        kept = [json.dumps(m) + "\n" for m in self.metrics() if m["epoch"] <= epoch]
        self.write_text("metrics.jsonl", "".join(kept))

    def seed(self, seed: int) -> Workdir:
        """Returns the folder of one of several restarts."""
        return Workdir(self.path / f"seed-{seed}")

    def predictions(self, split: str) -> Path:
        """Returns the path of the file with the labels of a split."""
        return self.path / f"predictions-{split}.conll"

    def vocabulary(self) -> Vocabulary:
        """Reads the vocabulary.

        Raises:
            DamagedFileError: It is not one.
        """
        if not (self.path / "model.json").is_file():
            self._present("config.json")  # says what is missing if this is no run
        file, remedy = self._present("vocabulary.json"), self.remedy()
        text = integrity.read_text(file, remedy)
        integrity.parse(file, text, remedy)
        return integrity.reading(file, remedy, lambda: Vocabulary.from_json(text))

    def check_about(self, part: str, about: Any, model: Any, vocab: Vocabulary) -> bool:
        """Holds what a checkpoint belongs to against what the folder has beside it.

        Args:
            part: "best", "latest" or "frozen".
            about: What it was sealed with; None: it has no checksums.
            model: The section `model` of the config, or what `model.json` says.
            vocab: The vocabulary.

        Returns:
            Whether there was something to compare.

        Raises:
            DamagedFileError: They are others.
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
        """Saves the arrays that no step changes, once for the whole run.

        Args:
            frozen: A pytree.
            about: The `vocabulary`'s fingerprint and the `model`'s options.
        """
        from jaxner import checkpoints

        place, remedy = self._writable("frozen"), self.remedy("frozen")
        checkpoints.save_frozen(place, frozen, about, remedy)

    def load_frozen(self, like: Any) -> tuple[Any, dict[str, Any] | None]:
        """Restores them, and what they belong to."""
        from jaxner import checkpoints

        place = self.path / "checkpoints" / "frozen"
        return checkpoints.load_frozen(place, like, self.remedy("frozen"))

    def is_begun(self) -> bool:
        """Tells whether there is a checkpoint to resume from; opens nothing."""
        path = self.path / "checkpoints" / "latest"
        return path.is_dir() and any(entry.name.isdigit() for entry in path.iterdir())

    def latest(self, about: Mapping[str, Any] | None = None) -> Checkpoints:
        """Opens the checkpoints to resume from, to write them.

        Args:
            about: What they belong to; see `save_frozen`.
        """
        return self._checkpoints(self._writable("latest"), about=about)

    def best(
        self, about: Mapping[str, Any] | None = None, *, read_only: bool = False
    ) -> Checkpoints:
        """Opens the checkpoint of the best dev score; arguments as in `latest`.

        Raises:
            DamagedFileError: It is only read, and there is none.
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

        Nothing is left behind in a folder in which nothing was written meanwhile.

        Raises:
            BlockingIOError: One already does.
            DamagedFileError: The lock is a symbolic link.
        """
        is_new = not self.path.exists()
        self._make()
        file = self.path / ".lock"
        integrity.refuse_links([file])
        lock = filelock.FileLock(file)
        try:
            lock.acquire(timeout=0)
        except filelock.Timeout:
            raise BlockingIOError(
                f"{IS_LOCKED} {self.path}. Wait for it, or choose another --workdir."
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
        """Tells whether a process is training in the folder."""
        if not self.path.is_dir():
            return False
        try:
            with self.locked():
                return False
        except BlockingIOError:
            return True


def names_of(folders: Sequence[str]) -> list[str]:
    """Returns the shortest ends of paths that tell runs apart.

    Raises:
        ValueError: A run is there twice.

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
