"""Checks before a run starts, and the record of what it ran on."""

from __future__ import annotations

import importlib.metadata
import platform
import resource
from collections.abc import Iterable
from typing import Any

import jax

from jaxner.data.splits import Split
from jaxner.data.vocab import Lexicon
from jaxner.workdir import Workdir

# A run may be prolonged; nothing else of its config may change.
_MAY_CHANGE = ("num_epochs", "patience", "tensorboard")
_PACKAGES = ("jaxner", "jax", "jaxlib", "flax", "optax", "orbax-checkpoint", "numpy")


def check_same_config(folder: Workdir, config: dict[str, Any]) -> None:
    """Checks that a folder is new, or holds a run of this config.

    Raises:
        ValueError: It holds a run of another config; the message lists what differs.
    """
    if not (folder.path / "config.json").exists():
        return
    old, new = _flatten(folder.read_json("config.json")), _flatten(config)
    different = [
        f"  {name}: {old.get(name)!r} there, {new.get(name)!r} now"
        for name in sorted(old.keys() | new.keys())
        if name not in _MAY_CHANGE and old.get(name) != new.get(name)
    ]
    if different:
        lines = "\n".join(different)
        raise ValueError(
            f"{folder.path} holds a run of another config:\n{lines}\n"
            "Choose another --workdir, or remove that folder to start anew."
        )


def check_same_lexicon(folder: Workdir, lexicon: Lexicon) -> None:
    """Checks that the data of a resumed run are still what they were.

    Raises:
        ValueError: They are not.
    """
    if (folder.path / "lexicon.json").exists() and folder.lexicon() != lexicon:
        raise ValueError(
            f"The training data or the vectors have changed since the run in "
            f"{folder.path} began, so it cannot be resumed. Its environment.json has "
            "the hashes of the old ones. Choose another --workdir."
        )


def describe(splits: Iterable[Split]) -> dict[str, Any]:
    """Lists versions, devices and the hashes of the data."""
    versions = {name: importlib.metadata.version(name) for name in _PACKAGES}
    return {
        "python": platform.python_version(),
        "platform": platform.platform(),
        "versions": versions,
        "devices": [device.device_kind for device in jax.devices()],
        "data": {
            split.split: {"path": str(split.path), "sha256": split.sha256}
            for split in splits
        },
    }


def peak_memory_mb() -> int:
    """Returns the most memory that this process has held, in MiB."""
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
