"""The folder of a run, written so that a kill never leaves partial files.

config.json        the resolved config
environment.json   versions, devices and hashes of the data
vocabulary.json    words, characters and labels
metrics.jsonl      one JSON object for each epoch
checkpoints/       frozen (vectors that no step changes), latest (to resume), best,
                   each with checksums.json: of its files, and whose vocabulary and
                   model they are for
calibration.json   the temperature that `jaxner calibrate` fitted
result.json        the scores of the best checkpoint, when the run is done
predictions-*.conll  token, gold and predicted label of dev and test, by the same
model.json         instead of config.json, in a folder that `jaxner.save` wrote
"""

from __future__ import annotations

import contextlib
import os
import warnings
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import filelock

from jaxner import disk, integrity
from jaxner.data.vocabulary import Vocabulary
from jaxner.errors import InputError
from jaxner.integrity import DamagedFileError

if TYPE_CHECKING:
    from jaxner.checkpoints import Checkpoints

CALIBRATION = "calibration.json"


class Workdir:
    """Reads and writes the folder of a run.

    Args:
        path: The folder, such as "~/runs/grn"; created on the first write.
        writes: Whether this process writes files; among several that share a run, one
            does. All of them save checkpoints.
    """

    def __init__(self, path: str | os.PathLike[str], *, writes: bool = True):
        self.path, self.writes = disk.expanded(path).absolute(), writes

    # Files.

    def read_json(self, name: str) -> dict[str, Any]:
        """Returns the content of a JSON file in the folder.

        Raises:
            DamagedFileError: The file is not a JSON object, or was changed.
            FileNotFoundError: The file is missing; the message lists the folder's
                files.
        """
        return integrity.read_json(self._present(name))

    def _present(self, name: str) -> Path:
        if not self.path.is_dir():
            raise FileNotFoundError(f"There is no folder {self.path}")
        names = sorted(p.name for p in self.path.iterdir() if p.name[0] != ".")
        if name not in names:
            raise FileNotFoundError(
                f"{self.path / name} is missing; the folder holds: "
                f"{', '.join(names) or 'nothing'}"
            )
        return self.path / name

    def write_json(self, name: str, content: Any) -> None:
        """Writes a JSON file with its checksum, atomically."""
        if self.writes:
            self.path.mkdir(parents=True, exist_ok=True)
            integrity.write_json(self.path / name, content)

    def write_text(self, name: str, text: str) -> None:
        """Writes a text file atomically."""
        if self.writes:
            self.path.mkdir(parents=True, exist_ok=True)
            disk.write_text(self.path / name, text)

    def vocabulary(self) -> Vocabulary:
        """Returns the vocabulary.

        Raises:
            DamagedFileError: The file is not a vocabulary.
            FileNotFoundError: The folder is not a run.
        """
        if not (self.path / "model.json").is_file():
            self._present("config.json")
        file = self._present("vocabulary.json")
        return integrity.reading(
            file, lambda: Vocabulary.from_json(file.read_bytes().decode())
        )

    def temperature(self, step: int | None) -> float:
        """Returns the temperature of the best checkpoint; 1 without a calibration.

        Args:
            step: Step of the best checkpoint.

        Raises:
            DamagedFileError: The file is damaged.

        Warns:
            UserWarning: It is of another checkpoint.
        """
        file = self.path / CALIBRATION
        if not file.is_file():
            return 1.0
        calibration = integrity.read_json(file)
        temperature = calibration.get("temperature")
        if not isinstance(temperature, float) or not 0 < temperature < float("inf"):
            reason = f"has the temperature {temperature!r}, not a positive number"
            raise DamagedFileError(file, reason)
        if calibration.get("step") == step:
            return temperature
        warnings.warn(
            f"{file} is of step {calibration.get('step')}, and the best checkpoint of "
            f"step {step}: probabilities are not calibrated. Calibrate again.",
            stacklevel=3,
        )
        return 1.0

    def predictions(self, split: str) -> Path:
        """Returns the path of the file with the labels of a split."""
        return self.path / f"predictions-{split}.conll"

    # Metrics.

    def log(self, metrics: dict[str, Any]) -> None:
        """Appends one line to `metrics.jsonl`."""
        if self.writes:
            line = integrity.to_line(metrics)
            disk.append_line(self.path / "metrics.jsonl", line)

    def metrics(self) -> list[dict[str, Any]]:
        """Returns the lines of `metrics.jsonl`, without a last line cut off by a kill.

        Raises:
            DamagedFileError: A line is damaged, or not the metrics of an epoch.
        """
        file = self.path / "metrics.jsonl"
        if not file.exists():
            return []
        *lines, cut = file.read_bytes().decode(errors="replace").split("\n")
        if cut and integrity.from_line(cut[:-1]):  # the line's end is damaged, no more
            lines.append(cut[:-1])
        epochs = []
        for number, line in enumerate(lines, 1):
            metrics = integrity.from_line(line)
            if metrics is None or type(metrics.get("epoch")) is not int:
                reason = (
                    f"line {number} is damaged, or not the metrics of an epoch: remove "
                    "the line; training continues without it"
                )
                raise DamagedFileError(file, reason)
            epochs.append(metrics)
        return epochs

    def forget_after(self, epoch: int) -> None:
        """Removes the metrics of later epochs, which a resumed run computes again."""
        metrics = [m for m in self.metrics() if m["epoch"] <= epoch]
        lines = [integrity.to_line(m) + "\n" for m in metrics]
        self.write_text("metrics.jsonl", "".join(lines))

    # Restarts.

    def seed(self, seed: int) -> Workdir:
        """Returns the folder of one of several restarts."""
        return Workdir(self.path / f"seed-{seed}", writes=self.writes)

    def seeds(self) -> list[int]:
        """Returns the seeds of restarts that have a folder, ascending."""
        names = (path.name for path in self.path.glob("seed-*"))
        numbers = (name.removeprefix("seed-") for name in names)
        return sorted(int(n) for n in numbers if n.isascii() and n.isdigit())

    # Checkpoints.

    def has_best(self) -> bool:
        """Returns whether the folder itself has a checkpoint to load."""
        return self._part("best").is_dir()

    def is_begun(self) -> bool:
        """Returns whether there is a checkpoint to resume from; opens no file."""
        path = self._part("latest")
        return path.is_dir() and any(entry.name.isdigit() for entry in path.iterdir())

    def _part(self, name: str) -> Path:
        return self.path / "checkpoints" / name

    def latest(self, about: Mapping[str, Any] | None = None) -> Checkpoints:
        """Returns the checkpoints to resume from, for writing.

        Args:
            about: What the checkpoints belong to; see `tagger.belongs_to`.
        """
        from jaxner import checkpoints

        return checkpoints.Checkpoints(self._part("latest"), about=about)

    def best(
        self, about: Mapping[str, Any] | None = None, *, read_only: bool = False
    ) -> Checkpoints:
        """Returns the checkpoint with the best dev score; see `latest` for arguments.

        Raises:
            DamagedFileError: `read_only` is set, and there is no checkpoint.
        """
        from jaxner import checkpoints

        place = self._part("best")
        return checkpoints.Checkpoints(place, about=about, read_only=read_only)

    def save_frozen(self, frozen: Any, about: Mapping[str, Any]) -> None:
        """Saves the frozen arrays, once for the whole run; `about` as in `latest`."""
        from jaxner import checkpoints

        checkpoints.save_frozen(self._part("frozen"), frozen, about)

    def load_frozen(self, like: Any) -> tuple[Any, dict[str, Any] | None]:
        """Returns the frozen arrays, and what they belong to."""
        from jaxner import checkpoints

        return checkpoints.load_frozen(self._part("frozen"), like)

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
        place = self._part(part)
        if about.get("vocabulary", vocab.fingerprint) != vocab.fingerprint:
            raise DamagedFileError(
                self.path / "vocabulary.json",
                f"is not the vocabulary that the weights in {place} were trained with",
            )
        if (trained := about.get("model", model)) != model:
            is_saved = (self.path / "model.json").exists()
            difference = integrity.difference(trained, model)
            raise DamagedFileError(
                self.path / ("model.json" if is_saved else "config.json"),
                f"does not describe the model of the weights in {place}: {difference}",
            )
        return True

    # The lock.

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """Keeps other processes from training in the folder.

        Leaves no files behind if nothing was written meanwhile.

        Raises:
            BlockingIOError: Another process is training in the folder.
        """
        if not self.writes:  # the process that does holds the lock
            yield
            return
        is_new = not self.path.exists()
        self.path.mkdir(parents=True, exist_ok=True)
        file = self.path / ".lock"
        lock = filelock.FileLock(file)
        try:
            lock.acquire(timeout=0)
        except filelock.Timeout:
            raise BlockingIOError(
                f"Another process is training in {self.path}: wait until it ends, or "
                "choose another folder."
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
        InputError: A run is given twice.

    Example:
        >>> names_of(["runs/a/0", "runs/b/0"])
        ['a/0', 'b/0']
    """
    parts = [Path(folder).absolute().parts for folder in folders]
    if len(set(parts)) < len(parts):
        raise InputError("Expected each run once")
    depth = 1
    while len({each[-depth:] for each in parts}) < len(parts):
        depth += 1
    return ["/".join(each[-depth:]) for each in parts]
