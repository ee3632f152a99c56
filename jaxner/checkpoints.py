"""Checkpoints: a run's arrays on disk. Only this module knows Orbax.

Import it lazily, since Orbax takes longer to import than the rest of the library.
Checksums are written after Orbax has committed the arrays; see `runs.check`.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import logging
import re
import shutil
import tempfile
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import multihost_utils
from jaxtyping import PyTree
from orbax.checkpoint import v1 as ocp

from jaxner import runs
from jaxner.errors import DamagedFileError, InputError, MissingFileError
from jaxner.models.model import named
from jaxner.types import Owner
from jaxner.wording import start

_COMMIT_FILE, _TMP_NAME = "_CHECKPOINT_METADATA", ".orbax-checkpoint-tmp"
_ARRAYS, _PROGRESS = "arrays", "progress"
_PLAIN = re.compile(r"[^\\*?\[\]\ud800-\udfff]*")
_LOCK = threading.RLock()
_CONTEXT = ocp.Context()
_CONTEXT.checkpointables.registry = ocp.handlers.local_registry().add(
    ocp.handlers.JsonHandler, checkpointable_name=_PROGRESS
)


class Checkpoints:
    """A series of checkpoints that keeps only the newest.

    A writer removes half-written files of a killed process; a reader must not, since
    another process may be writing. `owner` says what the arrays belong to, as JSON:
    stored and compared, unless None. `step` is that of the newest checkpoint, or None.
    """

    def __init__(
        self, path: Path, *, read_only: bool = False, owner: Owner | None = None
    ):
        self.path, self._owner = path, owner
        if read_only and not path.is_dir():
            raise MissingFileError(path, "holds no checkpoint")
        # A copied folder may lack a part of the newest one.
        steps = [
            ((entry / _COMMIT_FILE).is_file(), int(entry.name))
            for entry in (path.iterdir() if path.is_dir() else ())
            if entry.name.isdigit()
        ]
        self.step: int | None = max(steps, default=(False, None))[1]
        if not read_only:
            if jax.process_count() > 1 and not _PLAIN.fullmatch(str(path)):
                signs = "without any of \\ * ? [ ], as several processes train"
                raise InputError(f"expected a name {signs}", path)
            self._keep_newest()

    def folder(self) -> Path:
        """Returns the folder of the newest checkpoint."""
        if self.step is None:
            raise MissingFileError(self.path, "holds no checkpoint")
        return self.path / str(self.step)

    def save(self, step: int, arrays: PyTree, progress: Mapping[str, object]) -> None:
        """Saves a checkpoint; a kill at any moment leaves the last one intact."""
        # Resumed just before it: the same run saves the same arrays.
        if self.step is not None and step <= self.step:
            return
        parts = {_ARRAYS: arrays, _PROGRESS: dict(progress)}
        with _saving(self.path), _CONTEXT:
            ocp.save_checkpointables(_plain(self.path / str(step)), parts)
        self.step = step
        self.seal()
        self._keep_newest()

    def _keep_newest(self) -> None:
        """Removes older checkpoints, and half-written ones."""
        if jax.process_index() > 0:
            return
        for entry in self.path.glob("*"):
            is_older = entry.name.isdigit() and int(entry.name) != self.step
            if is_older or _TMP_NAME in entry.name:
                shutil.rmtree(entry)

    def seal(self) -> None:
        """Writes the checksums of the newest checkpoint, if it has none."""
        _seal(self.folder(), self._owner)

    def check(self) -> bool:
        """Returns whether the newest checkpoint has checksums; see `runs.check`."""
        folder = self.folder()
        is_sealed = runs.check(folder, self.path.parents[1], self._owner)
        if not (is_sealed or (folder / _COMMIT_FILE).is_file()):
            raise MissingFileError(folder / _COMMIT_FILE, "is missing")
        return is_sealed

    def progress(self) -> dict[str, Any]:
        """Returns only the progress of the newest checkpoint."""
        folder = self.folder()
        with _quiet(), runs.using(folder / _PROGRESS), _alone():
            parts = ocp.load_checkpointables(_plain(folder), {_PROGRESS: None})
            return dict(parts[_PROGRESS])

    def restore(self, shapes: PyTree) -> PyTree:
        """Returns the arrays of the newest checkpoint; call `check` first.

        `shapes` is a pytree of the same structure, shapes and dtypes.
        """
        return _restore(self.folder(), shapes)


def load_newest(
    path: Path, shapes: PyTree, owner: Owner
) -> tuple[PyTree, bool, int | None]:
    """Returns the newest arrays of a series, whether they have checksums, their step.

    A run that trains meanwhile may remove a checkpoint that is read, for a newer one.
    """
    series = Checkpoints(path, owner=owner, read_only=True)
    try:
        is_sealed = series.check()
        return series.restore(shapes), is_sealed, series.step
    except (DamagedFileError, OSError):
        if Checkpoints(path, read_only=True).step == series.step:
            raise
    return load_newest(path, shapes, owner)


def save_frozen(path: Path, frozen: PyTree, owner: Owner) -> None:
    """Saves the frozen arrays to a folder, once for the whole run."""
    if not frozen:
        return
    if path.exists():
        runs.check(path, path.parents[1], None)
    else:
        with _saving(path):
            ocp.save(_plain(path), frozen, checkpointable_name=_ARRAYS)
    _seal(path, owner)


def load_frozen(path: Path, shapes: PyTree, owner: Owner) -> tuple[PyTree, bool]:
    """Returns the frozen arrays, and whether they have checksums; errors as above."""
    if not shapes:
        return shapes, True
    if not path.is_dir():
        raise MissingFileError(path, "is missing")
    is_sealed = runs.check(path, path.parents[1], owner)
    return _restore(path, shapes), is_sealed


def _seal(path: Path, owner: Owner | None) -> None:
    """Writes checksums if there are none; of several processes the first one does."""
    if jax.process_index() == 0 and not (path / runs.CHECKSUMS).exists():
        runs.seal(path, owner or {})
    if jax.process_count() > 1:
        multihost_utils.sync_global_devices(f"sealed {path}")


def _restore(folder: Path, shapes: PyTree) -> PyTree:
    """Returns restored arrays, after checking names and shapes, before any memory."""
    path = folder / _ARRAYS
    with _quiet():
        with runs.using(path):
            content = ocp.metadata(_plain(folder)).metadata
        if reason := find_misfit(content, shapes):
            raise DamagedFileError(path, f"does not fit the model: {reason}")
        # As NumPy arrays: restored onto a device, they would be committed to it, and
        # could not be combined with a batch sharded over several devices.
        target = jax.tree.map(lambda leaf: np.empty(leaf.shape, leaf.dtype), shapes)
        with runs.using(path), _alone():
            arrays = ocp.load(_plain(folder), target)
    if name := find_infinite(arrays):
        raise DamagedFileError(path, f"has infinite or NaN weights in {name}")
    return jax.device_put(arrays, may_alias=False)


def find_misfit(arrays: PyTree, shapes: PyTree) -> str:
    """Returns how arrays differ from those of a model; nothing if they do not."""
    leaves, wishes = _named(arrays), _named(shapes)
    for name in sorted(leaves.keys() | wishes.keys()):
        kind, wish = _kind(leaves.get(name)), _kind(wishes.get(name))
        if kind != wish:
            return f"{name} is {kind}, {wish} in the model"
    return ""


def find_infinite(arrays: PyTree) -> str:
    """Returns the name of weights that are infinite or NaN; nothing if none are."""
    for name, leaf in _named(arrays).items():
        is_weight = not name.startswith("opt_state")
        is_number = is_weight and jnp.issubdtype(leaf.dtype, jnp.inexact)
        # NumPy reads no array of several processes, and JAX would copy one of NumPy's.
        library = np if isinstance(leaf, np.ndarray) else jnp
        if is_number and not library.isfinite(leaf).all():
            return name
    return ""


def _alone() -> ocp.Context:
    """Returns a context for loading, in which no process waits for another."""
    context = ocp.Context(_CONTEXT)
    options = context.multiprocessing
    options.primary_host = jax.process_index()
    options.active_processes = {jax.process_index()}
    return context


def _plain(path: Path) -> str:
    """Returns a path by a name that Orbax can use: it takes some signs for patterns."""
    if _PLAIN.fullmatch(str(path)):
        return str(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    return str(_link_to(path.parent) / path.name)


@functools.cache
def _link_to(folder: Path) -> Path:
    parent = Path(tempfile.mkdtemp(prefix="jaxner-"))
    atexit.register(shutil.rmtree, parent)  # of the link alone
    (parent / "link").symlink_to(folder.absolute())
    return parent / "link"


def _kind(leaf: PyTree) -> str:
    if leaf is None:
        return "absent"
    # Floats of another precision are converted on load.
    is_float = jnp.issubdtype(leaf.dtype, jnp.floating)
    return f"{'float' if is_float else leaf.dtype} {list(leaf.shape)}"


def _named(tree: PyTree) -> dict[str, PyTree]:
    """Returns arrays, or their descriptions, by path in the tree."""
    return {name: x for name, x in named(tree).items() if hasattr(x, "shape")}


@contextlib.contextmanager
def _saving(path: Path) -> Iterator[None]:
    """Reports a failed save in one line, such as that the disk is full."""
    try:
        with _quiet():
            yield
    except Exception as error:  # Orbax passes on errors of several libraries
        text, rest = start(f"{type(error).__name__}: {error}", 300), ""
        if any(entry.name.isdigit() for entry in path.glob("*")):
            rest = ". The previous one is unchanged; the same command goes on from it"
        raise OSError(f"{path}: cannot write the checkpoint: {text}{rest}") from error


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Hides Orbax's warnings from the user, such as that a folder is read-only.

    One thread at a time: what it disables is the process's, and so is the context.
    """
    with _LOCK:
        level = logging.root.manager.disable
        logging.disable(logging.CRITICAL)
        try:
            yield
        finally:
            logging.disable(level)
