"""The folder of a run: what lies where, written so that a kill never leaves half of it.

config.json        the resolved config
environment.json   versions, devices and hashes of the data
vocabulary.json    words, characters and labels
metrics.jsonl      one JSON object for each epoch
checkpoints/       frozen (vectors that no step changes), latest (to resume), best
result.json        the scores of the best checkpoint, when the run is done
predictions-*.conll  token, gold and predicted label of dev and test, by the same
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import filelock

from jaxner.data.vocab import Vocabulary

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
            FileNotFoundError: The folder holds no such file; the message says what it
                holds.
        """
        file = self.path / name
        if not file.is_file():
            raise FileNotFoundError(f"{file} is missing. {self._describe()}")
        return json.loads(file.read_text(encoding="utf-8"))

    def _describe(self) -> str:
        if not self.path.is_dir():
            return f"There is no folder {self.path}; train.py --workdir makes one."
        found = ", ".join(sorted(p.name for p in self.path.iterdir())) or "nothing"
        return f"A finished or resumable run has it; {self.path} holds: {found}."

    def write_json(self, name: str, content: Any) -> None:
        """Writes a JSON file; it is there whole, or as it was before."""
        self.write_text(name, json.dumps(content, indent=2, ensure_ascii=False) + "\n")

    def write_text(self, name: str, text: str) -> None:
        """Writes a text file; it is there whole, or as it was before."""
        self.path.mkdir(parents=True, exist_ok=True)
        temporary = self.path / f"{name}.tmp"
        temporary.write_text(text, encoding="utf-8")
        temporary.replace(self.path / name)

    def log(self, metrics: dict[str, Any]) -> None:
        """Appends one line to `metrics.jsonl`."""
        with (self.path / "metrics.jsonl").open("a", encoding="utf-8") as file:
            file.write(json.dumps(metrics) + "\n")

    def metrics(self) -> list[dict[str, Any]]:
        """Reads `metrics.jsonl`; a last line that a kill cut off is left out."""
        file = self.path / "metrics.jsonl"
        lines = file.read_text(encoding="utf-8").splitlines() if file.exists() else []
        if lines:
            try:
                json.loads(lines[-1])
            except json.JSONDecodeError:
                lines.pop()
        return [json.loads(line) for line in lines]

    def forget_after(self, epoch: int) -> None:
        """Drops the metrics of later epochs, which a resumed run computes again."""
        kept = [json.dumps(m) + "\n" for m in self.metrics() if m["epoch"] <= epoch]
        self.write_text("metrics.jsonl", "".join(kept))

    def predictions(self, split: str) -> Path:
        """Returns the path of the file with the labels of a split."""
        return self.path / f"predictions-{split}.conll"

    def vocabulary(self) -> Vocabulary:
        """Reads the vocabulary."""
        if not (self.path / "model.json").is_file():
            self.read_json("config.json")  # says what is missing if this is no run
        return Vocabulary.from_json((self.path / "vocabulary.json").read_text("utf-8"))

    def save_frozen(self, frozen: Any) -> None:
        """Saves the arrays that no step changes, once for the whole run."""
        from jaxner import checkpoints

        checkpoints.save_frozen(self.path / "checkpoints" / "frozen", frozen)

    def load_frozen(self, like: Any) -> Any:
        """Restores them."""
        from jaxner import checkpoints

        return checkpoints.load_frozen(self.path / "checkpoints" / "frozen", like)

    def is_begun(self) -> bool:
        """Tells whether there is a checkpoint to resume from; opens nothing."""
        path = self.path / "checkpoints" / "latest"
        return path.is_dir() and any(entry.name.isdigit() for entry in path.iterdir())

    def latest(self) -> Checkpoints:
        """Opens the checkpoints to resume from, to write them."""
        from jaxner import checkpoints

        return checkpoints.Checkpoints(self.path / "checkpoints" / "latest")

    def best(self, *, read_only: bool = False) -> Checkpoints:
        """Opens the checkpoint of the best dev score."""
        from jaxner import checkpoints

        path = self.path / "checkpoints" / "best"
        return checkpoints.Checkpoints(path, read_only=read_only)

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """Keeps other processes from training in the folder.

        Raises:
            BlockingIOError: One already does.
        """
        self.path.mkdir(parents=True, exist_ok=True)
        lock = filelock.FileLock(self.path / ".lock")
        try:
            lock.acquire(timeout=0)
        except filelock.Timeout:
            raise BlockingIOError(
                f"{IS_LOCKED} {self.path}. Wait for it, or choose another --workdir."
            ) from None
        try:
            yield
        finally:
            lock.release()

    def is_locked(self) -> bool:
        """Tells whether a process is training in the folder."""
        if not self.path.is_dir():
            return False
        try:
            with self.locked():
                return False
        except BlockingIOError:
            return True
