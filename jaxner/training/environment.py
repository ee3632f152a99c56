"""Checks before a run starts, and the record of what it ran on."""

from __future__ import annotations

import functools
import hashlib
import importlib.metadata
import platform
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import jax

from jaxner import integrity
from jaxner.data.corpora import Split
from jaxner.data.vocabulary import Vocabulary
from jaxner.runs import Workdir
from jaxner.training import commits, schema

# A run may get more epochs; nothing else in its config may change.
_MAY_CHANGE = ("num_epochs", "patience", "tensorboard", "num_devices")
_PACKAGES = ("jaxner", "jax", "jaxlib", "flax", "optax", "orbax-checkpoint", "numpy")


def check_same_config(folder: Workdir, config: dict[str, Any]) -> None:
    """Checks that a folder is new, or has a run of this config.

    Raises:
        ValueError: The folder has a run of another config; the message lists the
            differences.
    """
    if not (folder.path / "config.json").exists():
        return
    then = folder.read_json("config.json")
    file = folder.path / "config.json"
    complete = functools.partial(schema.completed, then)
    whole = integrity.reading(file, complete)
    old, new = _flatten(whole), _flatten(schema.completed(config))
    different = [
        f"  {name}: {old.get(name)!r} there, {new.get(name)!r} now"
        for name in sorted(old.keys() | new.keys())
        if name not in _MAY_CHANGE and old.get(name) != new.get(name)
    ]
    if different:
        lines = "\n".join(different)
        raise ValueError(
            f"{folder.path} holds a run of another config:\n{lines}\nChoose another "
            "--workdir, or remove the run in this folder to start over."
        )


def check_same_data(
    folder: Workdir, record: dict[str, Any], vocabulary: Vocabulary
) -> None:
    """Checks that the data of a resumed run have not changed.

    Args:
        folder: Folder of the run.
        record: What `describe` returns now.
        vocabulary: Vocabulary of the data now.

    Raises:
        ValueError: A file has changed, or jaxner reads it differently.
    """
    if not (folder.path / "environment.json").exists():
        return
    content, new = folder.read_json("environment.json"), record["data"]
    old = integrity.reading(
        folder.path / "environment.json",
        lambda: {name: file["sha256"] for name, file in content["data"].items()},
    )
    changed = [
        f"{name} ({new[name]['path']})"
        for name in new
        if name in old and old[name] != new[name]["sha256"]
    ]
    if changed or folder.vocabulary() != vocabulary:
        what = ", ".join(changed) or "how this version of jaxner reads the data"
        raise ValueError(
            f"Cannot resume the run in {folder.path}: since its start, this has "
            f"changed: {what}. Choose another --workdir, or remove this folder."
        )


def describe(
    splits: Iterable[Split], files: Mapping[str, Path | None]
) -> dict[str, Any]:
    """Returns commit, versions, devices and the hashes of the data.

    Args:
        splits: The splits that were read.
        files: Other files of the data, by what they are.
    """
    data = {s.split: {"path": str(s.path), "sha256": s.sha256} for s in splits}
    for name, path in files.items():
        if path is not None:
            with path.open("rb") as file:
                checksum = hashlib.file_digest(file, "sha256").hexdigest()
            data[name] = {"path": str(path), "sha256": checksum}
    versions = {name: importlib.metadata.version(name) for name in _PACKAGES}
    return {
        "commits": [commits.current()],
        "python": platform.python_version(),
        "platform": platform.platform(),
        "versions": versions,
        "devices": [device.device_kind for device in jax.devices()],
        "data": data,
    }


def continued(folder: Workdir, record: dict[str, Any]) -> dict[str, Any]:
    """Returns the record of a run with the commits that trained it before it resumed.

    Args:
        folder: Folder of the run.
        record: What `describe` returns now.
    """
    if not (folder.path / "environment.json").exists():
        return record
    # Runs from before the record had commits have none.
    before = folder.read_json("environment.json").get("commits")
    before = before if isinstance(before, list) else ["unknown"]
    return {
        **record,
        "commits": list(dict.fromkeys(map(str, [*before, commits.current()]))),
    }


def peak_memory_mb() -> int | None:
    """Returns the peak memory of this process, in MiB; None on Windows."""
    if sys.platform == "win32":
        return None
    import resource  # not on Windows

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    unit = 1 if platform.system() == "Darwin" else 1024  # bytes there, kibibytes here
    return round(peak * unit / 2**20)


def _flatten(config: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    flat = {}
    for name, value in config.items():
        if isinstance(value, dict):
            flat.update(_flatten(value, f"{prefix}{name}."))
        else:
            flat[prefix + name] = list(value) if isinstance(value, tuple) else value
    return flat
