"""Checkpoints: arrays of a run on disk, by Orbax. Imported when they are first needed.

Orbax takes longer to import than the rest of the library.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import orbax.checkpoint as ocp
from absl import logging


def save_frozen(path: Path, frozen: Any) -> None:
    """Saves the arrays that no step changes, once for the whole run."""
    with ocp.StandardCheckpointer() as checkpointer:
        if frozen and not path.exists():
            checkpointer.save(path, frozen)


def load_frozen(path: Path, like: Any) -> Any:
    """Restores them; `like` has the same structure, shapes and dtypes."""
    if not like:
        return like
    with ocp.StandardCheckpointer() as checkpointer:
        return _placed(checkpointer.restore(path, _target(like)))


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
        options = ocp.CheckpointManagerOptions(
            max_to_keep=None if read_only else 1,
            save_interval_steps=0 if read_only else 1,
            create=not read_only,
            read_only=read_only,
            cleanup_tmp_directories=not read_only,
            # The next step reuses the arrays' memory (donation), so they must be on
            # disk before it begins.
            enable_async_checkpointing=False,
        )
        with _quiet_orbax():
            self._manager = ocp.CheckpointManager(path, options=options)

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


@contextlib.contextmanager
def _quiet_orbax() -> Iterator[None]:
    """Keeps warnings of Orbax from the user, such as that a folder is only read."""
    before = logging.get_verbosity()
    logging.set_verbosity(logging.ERROR)
    try:
        yield
    finally:
        logging.set_verbosity(before)


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
