"""Checkpoints: arrays of a run on disk, by Orbax. Imported when they are first needed.

Orbax takes longer to import than the rest of the library. Each checkpoint has a list of
checksums beside its arrays, written once Orbax has committed it; see `integrity`.
"""

from __future__ import annotations

import contextlib
import errno
import logging as logs
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import orbax.checkpoint as ocp
from absl import logging

from jaxner import integrity
from jaxner.integrity import DamagedFileError, MissingFileError

# What goes wrong with a disk: full, a quota, a largest file, read only, forbidden.
_DISK_ERRORS = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EACCES)
_COMMITTED = "_CHECKPOINT_METADATA"


def save_frozen(path: Path, frozen: Any, about: Mapping[str, Any], remedy: str) -> None:
    """Saves the arrays that no step changes, once for the whole run.

    Args:
        path: Their folder.
        frozen: A pytree.
        about: What the arrays belong to, as JSON; `load_frozen` returns it.
        remedy: What to do if those that are there are damaged.

    Raises:
        DamagedFileError: They are there, and damaged.
        OSError: The disk is full, or cannot be written.
    """
    if not frozen:
        return
    if path.exists():
        integrity.check(path, remedy)
    else:
        with _saving(path), ocp.StandardCheckpointer() as checkpointer:
            checkpointer.save(path, frozen)
            checkpointer.wait_until_finished()
    if not integrity.is_sealed(path):
        integrity.seal(path, about)


def load_frozen(path: Path, like: Any, remedy: str) -> tuple[Any, dict | None]:
    """Restores them.

    Args:
        path: Their folder.
        like: A pytree of the same structure, shapes and dtypes.
        remedy: What to do if a file is missing or damaged.

    Returns:
        The arrays, and what they belong to (None: they have no checksums).

    Raises:
        DamagedFileError: A file is missing, damaged, or holds other arrays.
    """
    if not like:
        return like, {}
    if not path.is_dir():
        raise MissingFileError(path, "is missing", remedy)
    about = integrity.check(path, remedy)
    frozen = _restore(path, like, remedy)
    _check_finite(path, frozen, remedy)
    return frozen, about


class Checkpoints:
    """The newest of a series of checkpoints; older ones are deleted after each save.

    Args:
        path: Their folder.
        read_only: Whether nothing is to be written. A writer removes what a killed one
            left half-written; a reader must not, for another process may be writing.
        about: What the arrays belong to, as JSON, for `check` to return later.
        remedy: What to do if a file is missing or damaged, in sentences.
    """

    def __init__(
        self,
        path: Path,
        *,
        read_only: bool = False,
        about: Mapping[str, Any] | None = None,
        remedy: str = "Copy the folder again from where it came.",
    ):
        self.name, self._about, self._remedy = path.name, dict(about or {}), remedy
        if read_only and not path.is_dir():
            raise MissingFileError(path, "holds no checkpoint", remedy)
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
        with quiet():
            self._manager = ocp.CheckpointManager(path, options=options)

    def __enter__(self) -> Checkpoints:
        return self

    def __exit__(self, *error: object) -> None:
        self._manager.close()

    @property
    def step(self) -> int | None:
        """The step of the newest checkpoint, or None."""
        return self._manager.latest_step()

    def folder(self) -> Path:
        """Returns the folder of the newest checkpoint.

        Raises:
            MissingFileError: There is none.
        """
        series = Path(self._manager.directory)
        if self.step is None:
            raise MissingFileError(series, "holds no checkpoint", self._remedy)
        return series / str(self.step)

    def save(self, step: int, arrays: Any, progress: dict[str, Any]) -> None:
        """Saves; a kill at any moment leaves the last one whole.

        Args:
            step: Optimizer steps so far.
            arrays: A pytree.
            progress: What else belongs to the moment, as JSON.

        Raises:
            OSError: The disk is full, or cannot be written.
        """
        # Resumed just before it: the same run saves the same arrays.
        if step not in self._manager.all_steps():
            with _saving(Path(self._manager.directory)):
                self._manager.save(
                    step,
                    args=ocp.args.Composite(
                        arrays=ocp.args.StandardSave(arrays),
                        progress=ocp.args.JsonSave(progress),
                    ),
                )
        self.seal()

    def seal(self) -> None:
        """Writes the checksums of the newest checkpoint, if it has none."""
        if not integrity.is_sealed(self.folder()):
            integrity.seal(self.folder(), self._about)

    def check(self) -> dict[str, Any] | None:
        """Compares the newest checkpoint with its checksums.

        Returns:
            What its arrays belong to; None: it has no checksums.

        Raises:
            DamagedFileError: A file is missing or damaged.
        """
        about = integrity.check(self.folder(), self._remedy)
        if about is None and not (self.folder() / _COMMITTED).is_file():
            path = self.folder() / _COMMITTED
            raise MissingFileError(path, "is missing", self._remedy)
        return about

    def progress(self) -> dict[str, Any]:
        """Reads the progress of the newest checkpoint alone.

        Raises:
            DamagedFileError: It cannot be read.
        """

        def restore():
            args = ocp.args.Composite(progress=ocp.args.JsonRestore())
            return dict(self._manager.restore(self.step, args=args)["progress"])

        with quiet():
            return integrity.reading(self.folder() / "progress", self._remedy, restore)

    def restore(self, like: Any) -> tuple[Any, dict[str, Any]]:
        """Restores the newest checkpoint onto the default device; `check` comes before.

        Args:
            like: A pytree of the same structure, shapes and dtypes.

        Returns:
            The arrays, and the progress.

        Raises:
            DamagedFileError: There is none, or its arrays are others.
        """
        arrays = _restore(self.folder() / "arrays", like, self._remedy)
        return arrays, self.progress()

    def check_finite(self, weights: Any) -> None:
        """Checks that restored weights are numbers.

        Raises:
            DamagedFileError: One is infinite or NaN.
        """
        _check_finite(self.folder(), weights, self._remedy)


def _check_finite(path: Path, weights: Any, remedy: str) -> None:
    for name, leaf in _named(weights).items():
        if jnp.issubdtype(leaf.dtype, jnp.inexact) and not jnp.isfinite(leaf).all():
            reason = f"holds weights that are infinite or NaN, in {name}"
            raise DamagedFileError(path, reason, remedy)


def _restore(path: Path, like: Any, remedy: str) -> Any:
    """Restores arrays once their names, shapes and sizes are known to be right."""

    def shapes():
        with ocp.StandardCheckpointer() as checkpointer:
            found = checkpointer.metadata(path)
        return _named(getattr(found, "item_metadata", found).tree)

    def arrays():
        with ocp.StandardCheckpointer() as checkpointer:
            return checkpointer.restore(path, _target(like))

    with quiet():
        stored, wanted = integrity.reading(path, remedy, shapes), _named(like)
        if difference := _difference(stored, wanted):
            raise DamagedFileError(
                path,
                f"does not fit the model: {difference}",
                "Use the model, config and vocabulary that these weights were trained "
                "with.",
            )
        total = sum(int(np.prod(x.shape)) * x.dtype.itemsize for x in wanted.values())
        integrity.check_size(path, total)
        return _placed(integrity.reading(path, remedy, arrays))


def _difference(stored: Mapping[str, Any], wanted: Mapping[str, Any]) -> str:
    """Says in what arrays differ first; an empty string if in nothing."""
    for name in sorted(stored.keys() | wanted.keys()):
        if name not in stored:
            return f"{name} of the model is not in the checkpoint"
        if name not in wanted:
            return f"{name} of the checkpoint is not in the model"
        here, there = stored[name], wanted[name]
        if tuple(here.shape) != tuple(there.shape):
            return f"{name} is {list(here.shape)} there, {list(there.shape)} in it"
        # Floats of another precision are converted.
        if here.dtype != there.dtype and not all(
            jnp.issubdtype(x.dtype, jnp.floating) for x in (here, there)
        ):
            return f"{name} is {here.dtype} there, {there.dtype} in it"
    return ""


def _named(tree: Any) -> dict[str, Any]:
    """Lists arrays, or what describes them, by the path in their tree."""
    leaves = jax.tree_util.tree_flatten_with_path(tree)[0]
    return {
        jax.tree_util.keystr(path, simple=True, separator="/"): leaf
        for path, leaf in leaves
        if hasattr(leaf, "shape")
    }


@contextlib.contextmanager
def _saving(path: Path) -> Iterator[None]:
    """Turns what Orbax says of a full disk into one line."""
    try:
        with quiet():
            yield
    except Exception as error:  # of several libraries, each with its own
        text = " ".join(str(error).split())
        known = (os.strerror(number) for number in _DISK_ERRORS)
        reason = next((name for name in known if name in text), text[:200])
        raise OSError(
            f"{path}: the checkpoint could not be written: {reason}. The one before is "
            "kept. Make room or choose another --workdir, and run the same command."
        ) from None


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Keeps warnings of Orbax from the user, such as that a folder is only read."""
    before, disabled = logging.get_verbosity(), logs.root.manager.disable
    logging.set_verbosity(logging.FATAL)
    logs.disable(logs.CRITICAL)
    try:
        yield
    finally:
        logging.set_verbosity(before)
        logs.disable(disabled)


def _target(like: Any) -> Any:
    """Describes arrays for Orbax: they come as NumPy's, wherever they were saved."""
    return jax.tree.map(lambda leaf: np.empty(np.shape(leaf), leaf.dtype), like)


def _placed(arrays: Any) -> Any:
    """Copies NumPy arrays to the default device, free to follow others elsewhere.

    Restored straight onto a device, they would be committed to it, and could not meet a
    batch that is sharded over several.
    """
    return jax.tree.map(lambda leaf: jnp.array(leaf, copy=True), arrays)
