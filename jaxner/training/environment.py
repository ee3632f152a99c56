"""Checks before a run starts, and the record of what it ran on."""

from __future__ import annotations

import hashlib
import json
import platform
import subprocess
from collections.abc import Iterable, Mapping
from importlib.metadata import version
from pathlib import Path
from typing import TypedDict

import jax

from jaxner import __version__, devices
from jaxner.data.corpora import Split
from jaxner.data.vocabulary import Vocabulary
from jaxner.errors import InputError
from jaxner.runs import Workdir
from jaxner.training import schema
from jaxner.types import Options

# Nothing else in a run's config may change, but the number of epochs if no rate
# depends on it. Of the folder, `check_same_data` compares train and dev.
_MAY_CHANGE = ("patience", "tensorboard", "num_devices", "data.dir")
_PATHS = ("data.dir", "data.vectors", "data.contextual", "data.pretrained", "init_from")
_PACKAGES = ("jax", "jaxlib", "flax", "optax", "orbax-checkpoint", "numpy")
_ROOT = Path(__file__).parents[2]
_CODE = ("jaxner", "configs", "pyproject.toml")


class Record(TypedDict):
    """What a run ran on: the commits of all that trained it, and hashes of its data.

    `precision` is that of its matrix products.
    """

    commits: list[str]
    python: str
    platform: str
    versions: dict[str, str]
    devices: list[str]
    precision: str
    data: dict[str, dict[str, str]]


def check_same_config(folder: Workdir, config: Options) -> None:
    """Raises InputError, with all differences, if a folder has another config's run."""
    file = folder.path / "config.json"
    if not file.exists():
        return
    values = schema.values(json.loads(json.dumps(config)))
    saved_values = schema.values(folder.read_json("config.json"))
    # After a `warmup`, a rate depends on the number of epochs.
    optimizer = config["optimizer"]
    sections = (optimizer, *(optimizer.get("parts") or {}).values())
    is_fixed = any(section.get("warmup") is not None for section in sections)
    is_fixed &= values["minutes"] == saved_values["minutes"]  # else they set the number
    may_change = _MAY_CHANGE if is_fixed else (*_MAY_CHANGE, "num_epochs")
    may_change += _PATHS if jax.process_index() else ()  # see `shared`
    is_in_turn = not (folder.path / "checkpoints").exists()
    if is_in_turn and 1 < saved_values["num_seeds"] < values["num_seeds"]:
        may_change += ("num_seeds",)
    different = [
        f"  {name}: {saved_values.get(name)!r} there, {values.get(name)!r} now\n"
        for name in sorted(saved_values.keys() | values.keys())
        if name not in may_change and saved_values.get(name) != values.get(name)
    ]
    if is_fixed and saved_values["num_epochs"] != values["num_epochs"]:
        different.append("With optimizer.warmup, rates depend on num_epochs. ")
    if different:
        listing = "".join(different)
        message = f"holds a run of another config:\n{listing}Choose another folder (-o)"
        message += ", or remove the run in this folder to start over."
        raise InputError(message, folder.path)


def shared(config: Options, record: Record) -> Mapping[str, object]:
    """Returns what must be the same in all processes: not the paths of files."""
    values = schema.values(config).items()
    files = {name: file["sha256"] for name, file in record["data"].items()}
    options = {name: value for name, value in values if name not in _PATHS}
    return {**options, **files, **record["versions"]}


def check_same_data(folder: Workdir, record: Record, vocabulary: Vocabulary) -> None:
    """Raises InputError if a resumed run's data, or how they are read, have changed."""
    file = folder.path / "environment.json"
    if not file.exists():
        return
    saved_data, data = folder.read_json(file.name)["data"], record["data"]
    changes = [
        f"{name} ({data[name]['path']})"
        for name, file in saved_data.items()
        if name in data and file["sha256"] != data[name]["sha256"]
    ]
    if changes or folder.vocabulary() != vocabulary:
        difference = ", ".join(changes) or "how this version of jaxner reads the data"
        message = f"cannot resume: since its start, this has changed: {difference}. "
        message += "Choose another folder (-o), or remove this folder."
        raise InputError(message, folder.path)


def describe(splits: Iterable[Split], files: Mapping[str, Path | None]) -> Record:
    """Returns commit, versions, devices and the hashes of splits and other files."""
    data = {s.split: {"path": str(s.path), "sha256": s.sha256} for s in splits}
    for name, path in files.items():
        if path is not None:
            with path.open("rb") as file:
                checksum = hashlib.file_digest(file, "sha256").hexdigest()
            data[name] = {"path": str(path), "sha256": checksum}
    return {
        "commits": [commit()],
        "python": platform.python_version(),
        "platform": platform.platform(),
        "versions": {"jaxner": __version__} | {x: version(x) for x in _PACKAGES},
        "devices": [device.device_kind for device in jax.devices()],
        "precision": devices.precision(),
        "data": data,
    }


def continued(folder: Workdir, record: Record) -> Record:
    """Returns a record with the commits that trained a run before it resumed."""
    if not (folder.path / "environment.json").exists():
        return record
    commits = folder.read_json("environment.json")["commits"] + record["commits"]
    return {**record, "commits": [*dict.fromkeys(commits)]}


def commit() -> str:
    """Returns the commit that is checked out, `+` if the code differs from it."""
    if not (_ROOT / "pyproject.toml").is_file():
        return f"jaxner {__version__}"
    try:
        is_changed = _git("diff", "--name-only", "HEAD", "--", *_CODE)
        return _git("rev-parse", "--short=12", "HEAD") + ("+" if is_changed else "")
    except (OSError, subprocess.CalledProcessError):  # no git, or no repository
        return "unknown"


def _git(*arguments: str) -> str:
    command, null = ["git", *arguments], subprocess.DEVNULL
    return subprocess.check_output(command, cwd=_ROOT, stderr=null, text=True).strip()
