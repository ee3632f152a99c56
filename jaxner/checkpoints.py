"""Checkpoints: a run's arrays on disk. Only this module knows Orbax.

Import it lazily, since Orbax takes longer to import than the rest of the library.
Checksums are written after Orbax has committed the arrays; see `runs.check`.
"""

from __future__ import annotations

import contextlib
import logging as logs
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import orbax.checkpoint as ocp
from absl import logging
from jax.experimental import multihost_utils

from jaxner import runs
from jaxner.errors import DamagedFileError, MissingFileError

_COMMITTED = "_CHECKPOINT_METADATA"


class Checkpoints:
    """A series of checkpoints that keeps only the newest.

    A writer removes half-written files of a killed process; a reader must not, since
    another process may be writing. `about` says what the arrays belong to, as JSON:
    stored and compared, unless None.
    """

    def __init__(
        self,
        path: Path,
        *,
        read_only: bool = False,
        about: Mapping[str, Any] | None = None,
    ):
        self.path, self._about = path, about
        self._is_pending = False  # a save in the background
        self._waited = 0.0
        if read_only and not path.is_dir():
            raise MissingFileError(path, "holds no checkpoint")
        options = ocp.CheckpointManagerOptions(
            max_to_keep=None if read_only else 1,
            save_interval_steps=0 if read_only else 1,
            create=not read_only,
            read_only=read_only,
            cleanup_tmp_directories=not read_only,
            enable_async_checkpointing=not read_only,
            # Processes meet under this name: two series save at the same time.
            multiprocessing_options=ocp.options.MultiprocessingOptions(
                barrier_sync_key_prefix=path.name
            ),
        )
        with _quiet():
            self._manager = ocp.CheckpointManager(path, options=options)

    def __enter__(self) -> Checkpoints:
        return self

    def __exit__(self, *error: object) -> None:
        try:
            self.finish()
        finally:
            self._manager.close()

    @property
    def step(self) -> int | None:
        """The step of the newest checkpoint, or None."""
        return self._manager.latest_step()

    def folder(self) -> Path:
        """Returns the folder of the newest checkpoint."""
        if self.step is None:
            raise MissingFileError(self.path, "holds no checkpoint")
        return self.path / str(self.step)

    def save(self, step: int, arrays: Any, progress: dict[str, Any]) -> None:
        """Saves in the background; a kill at any moment leaves the last one intact.

        It returns once the arrays are copied, so that the next step may reuse their
        memory (donation). `finish` raises what goes wrong later.
        """
        self.finish()
        # Resumed just before it: the same run saves the same arrays.
        if step in self._manager.all_steps():
            return
        start = time.perf_counter()
        with _saving(self.path):
            copies = ocp.args.StandardSave(jax.tree.map(jnp.copy, arrays))
            args = ocp.args.Composite(
                arrays=copies, progress=ocp.args.JsonSave(progress)
            )
            self._manager.save(step, args=args)
        self._waited += time.perf_counter() - start
        self._is_pending = True

    def finish(self) -> None:
        """Waits until the newest checkpoint is on disk, with its checksums."""
        if not self._is_pending:
            return
        self._is_pending, start = False, time.perf_counter()
        with _saving(self.path):
            self._manager.wait_until_finished()
        self.seal()
        self._waited += time.perf_counter() - start

    def waited(self) -> float:
        """Returns how many seconds the process waited for saves since it last asked."""
        seconds, self._waited = self._waited, 0.0
        return seconds

    def seal(self) -> None:
        """Writes the checksums of the newest checkpoint, if it has none."""
        _seal(self.folder(), self._about)

    def check(self) -> bool:
        """Returns whether the newest checkpoint has checksums; see `runs.check`."""
        folder = self.folder()
        is_sealed = runs.check(folder, self.path.parents[1], self._about)
        if not (is_sealed or (folder / _COMMITTED).is_file()):
            raise MissingFileError(folder / _COMMITTED, "is missing")
        return is_sealed

    def progress(self) -> dict[str, Any]:
        """Returns only the progress of the newest checkpoint."""
        args = ocp.args.Composite(progress=ocp.args.JsonRestore())
        with _quiet(), runs.using(self.folder() / "progress"):
            return dict(self._manager.restore(self.step, args=args)["progress"])

    def restore(self, like: Any) -> tuple[Any, dict[str, Any]]:
        """Returns arrays and progress of the newest checkpoint; call `check` first.

        `like` is a pytree of the same structure, shapes and dtypes.
        """
        return _restore(self.folder() / "arrays", like), self.progress()


def save_frozen(path: Path, frozen: Any, about: Mapping[str, Any]) -> None:
    """Saves the frozen arrays to a folder, once for the whole run."""
    if not frozen:
        return
    if path.exists():
        runs.check(path, path.parents[1], None)
    else:
        with _saving(path), ocp.StandardCheckpointer() as checkpointer:
            checkpointer.save(path, frozen)
            checkpointer.wait_until_finished()
    _seal(path, about)


def load_frozen(path: Path, like: Any, about: Mapping[str, Any]) -> tuple[Any, bool]:
    """Returns the frozen arrays, and whether they have checksums; errors as above."""
    if not like:
        return like, True
    if not path.is_dir():
        raise MissingFileError(path, "is missing")
    is_sealed = runs.check(path, path.parents[1], about)
    return _restore(path, like), is_sealed


def _seal(path: Path, about: Mapping[str, Any] | None) -> None:
    """Writes checksums if there are none; of several processes the first one does."""
    if jax.process_index() == 0 and not (path / runs.CHECKSUMS).exists():
        runs.seal(path, about or {})
    if jax.process_count() > 1:
        multihost_utils.sync_global_devices(f"sealed {path}")


def _restore(path: Path, like: Any) -> Any:
    """Returns restored arrays, after checking names and shapes, before any memory."""
    expected = _named(like)
    with _quiet(), ocp.StandardCheckpointer() as checkpointer:
        with runs.using(path):
            metadata = checkpointer.metadata(path)
            stored = _named(getattr(metadata, "item_metadata", metadata).tree)
        for name in sorted(stored.keys() | expected.keys()):
            old, new = _kind(stored.get(name)), _kind(expected.get(name))
            if old != new:
                reason = f"{name} is {old} in the checkpoint, {new} in the model"
                raise DamagedFileError(path, f"does not fit the model: {reason}")
        # As NumPy arrays: restored onto a device, they would be committed to it, and
        # could not be combined with a batch sharded over several devices.
        target = jax.tree.map(lambda leaf: np.empty(leaf.shape, leaf.dtype), like)
        with runs.using(path):
            restored = checkpointer.restore(path, target)
    for name, leaf in _named(restored).items():
        is_weight = not name.startswith("opt_state")
        is_number = is_weight and jnp.issubdtype(leaf.dtype, jnp.inexact)
        if is_number and not np.isfinite(leaf).all():
            raise DamagedFileError(path, f"has infinite or NaN weights in {name}")
    return jax.device_put(restored, may_alias=False)


def _kind(leaf: Any) -> str:
    if leaf is None:
        return "absent"
    # Floats of another precision are converted on load.
    is_float = jnp.issubdtype(leaf.dtype, jnp.floating)
    return f"{'float' if is_float else leaf.dtype} {list(leaf.shape)}"


def _named(tree: Any) -> dict[str, Any]:
    """Returns arrays, or their descriptions, by path in the tree."""
    return {
        jax.tree_util.keystr(path, simple=True, separator="/"): leaf
        for path, leaf in jax.tree.leaves_with_path(tree)
        if hasattr(leaf, "shape")
    }


@contextlib.contextmanager
def _saving(path: Path) -> Iterator[None]:
    """Reports a failed save in one line, such as that the disk is full."""
    try:
        with _quiet():
            yield
    except Exception as error:  # Orbax passes on errors of several libraries
        text = " ".join(f"{type(error).__name__}: {error}".split())[:300]
        raise OSError(
            f"{path}: cannot write the checkpoint: {text}. The previous checkpoint is "
            "unchanged; the same command goes on from it."
        ) from error


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Hides Orbax's warnings from the user, such as that a folder is read-only."""
    before, disabled = logging.get_verbosity(), logs.root.manager.disable
    logging.set_verbosity(logging.FATAL)
    logs.disable(logs.CRITICAL)
    try:
        yield
    finally:
        logging.set_verbosity(before)
        logs.disable(disabled)
