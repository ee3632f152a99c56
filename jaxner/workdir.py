"""The folder of a run: what lies where, written so that a kill never leaves half of it.

config.json        the resolved config
environment.json   versions, devices and hashes of the data
vocabulary.json       words, characters and labels
metrics.jsonl      one JSON object for each epoch
checkpoints/       frozen (vectors that no step changes), latest (to resume), best
result.json        the scores of the best checkpoint, when the run is done
predictions-*.conll  token, gold and predicted label of dev and test, by the same
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import orbax.checkpoint as ocp

from jaxner.data.vocab import Vocabulary


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
        self.read_json("config.json")  # says what is missing if this is no run
        return Vocabulary.from_json((self.path / "vocabulary.json").read_text("utf-8"))

    def save_frozen(self, frozen: Any) -> None:
        """Saves the arrays that no step changes, once for the whole run."""
        path = self.path / "checkpoints" / "frozen"
        with ocp.StandardCheckpointer() as checkpointer:
            if frozen and not path.exists():
                checkpointer.save(path, frozen)

    def load_frozen(self, like: Any) -> Any:
        """Restores them."""
        if not like:
            return like
        with ocp.StandardCheckpointer() as checkpointer:
            path = self.path / "checkpoints" / "frozen"
            return _placed(checkpointer.restore(path, _target(like)))

    def is_begun(self) -> bool:
        """Tells whether there is a checkpoint to resume from; opens nothing."""
        path = self.path / "checkpoints" / "latest"
        return path.is_dir() and any(entry.name.isdigit() for entry in path.iterdir())

    def latest(self) -> Checkpoints:
        """Opens the checkpoints to resume from, to write them."""
        return Checkpoints(self.path / "checkpoints" / "latest")

    def best(self, *, read_only: bool = False) -> Checkpoints:
        """Opens the checkpoint of the best dev score."""
        return Checkpoints(self.path / "checkpoints" / "best", read_only=read_only)

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """Keeps other processes from training in the folder.

        Raises:
            BlockingIOError: One already does.
        """
        self.path.mkdir(parents=True, exist_ok=True)
        with (self.path / ".lock").open("w") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise BlockingIOError(
                    f"Another process is training in {self.path}. Wait for it, or "
                    "choose another --workdir."
                ) from None
            yield


class Checkpoints:
    """The newest of a series of checkpoints; older ones are deleted after each save.

    Args:
        path: Their folder.
        read_only: Whether nothing is to be written. A writer removes what a killed one
            left half-written; a reader must not, for another process may be writing.
    """

    def __init__(self, path: Path, *, read_only: bool = False):
        self.name = path.name
        if read_only and not path.is_dir():
            raise _no_checkpoint(path)
        self._manager = ocp.CheckpointManager(
            path,
            options=ocp.CheckpointManagerOptions(
                max_to_keep=None if read_only else 1,
                save_interval_steps=0 if read_only else 1,
                create=not read_only,
                read_only=read_only,
                cleanup_tmp_directories=not read_only,
                # The next step reuses the arrays' memory (donation), so they must be
                # on disk before it begins.
                enable_async_checkpointing=False,
            ),
        )

    def __enter__(self) -> Checkpoints:
        return self

    def __exit__(self, *error: object) -> None:
        self._manager.close()

    @property
    def step(self) -> int | None:
        """The step of the newest checkpoint, or None."""
        return self._manager.latest_step()

    def save(self, step: int, arrays: Any, progress: dict[str, Any]) -> None:
        """Saves; a kill at any moment leaves the last one whole.

        Args:
            step: Optimizer steps so far.
            arrays: A pytree.
            progress: What else belongs to the moment, as JSON.
        """
        if step in self._manager.all_steps():
            return  # resumed just before it: the same run saves the same arrays
        self._manager.save(
            step,
            args=ocp.args.Composite(
                arrays=ocp.args.StandardSave(arrays),
                progress=ocp.args.JsonSave(progress),
            ),
        )

    def progress(self) -> dict[str, Any]:
        """Reads the progress of the newest checkpoint alone."""
        restored = self._manager.restore(
            self._newest(), args=ocp.args.Composite(progress=ocp.args.JsonRestore())
        )
        return restored["progress"]

    def restore(self, like: Any) -> tuple[Any, dict[str, Any]]:
        """Restores the newest checkpoint onto the default device.

        Args:
            like: A pytree of the same structure, shapes and dtypes.

        Returns:
            The arrays, and the progress.

        Raises:
            FileNotFoundError: There is none.
        """
        restored = self._manager.restore(
            self._newest(),
            args=ocp.args.Composite(
                arrays=ocp.args.StandardRestore(_target(like)),
                progress=ocp.args.JsonRestore(),
            ),
        )
        return _placed(restored["arrays"]), restored["progress"]

    def _newest(self) -> int:
        if self.step is None:
            raise _no_checkpoint(self._manager.directory)
        return self.step


def _no_checkpoint(path: os.PathLike[str]) -> FileNotFoundError:
    return FileNotFoundError(
        f"{path} holds no checkpoint: the run was stopped before its first one. Run "
        "train.py again with the same --workdir."
    )


def _target(like: Any) -> Any:
    """Describes arrays for Orbax: they come as NumPy's, wherever they were saved."""
    return jax.tree.map(lambda leaf: np.empty(np.shape(leaf), leaf.dtype), like)


def _placed(arrays: Any) -> Any:
    """Copies NumPy arrays to the default device, free to follow others elsewhere.

    Restored straight onto a device, they would be committed to it, and could not meet a
    batch that is sharded over several.
    """
    return jax.tree.map(lambda leaf: jnp.array(leaf, copy=True), arrays)
