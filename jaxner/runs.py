"""The folder of a run: a kill leaves no partial file, and damage to a file is found.

config.json        the resolved config
environment.json   versions, devices and hashes of the data
vocabulary.json    words, characters and labels
metrics.jsonl      one JSON object for each epoch
checkpoints/       frozen (vectors that no step changes), latest (to resume), best,
                   each with checksums.json: those of its files, and of the
                   vocabulary and the model that they belong to
calibration.json   what `jaxner calibrate` fitted: the temperature, thresholds
result.json        the scores of the best checkpoint, when the run is done
predictions-*.conll  token, gold and predicted label of dev and test
model.json         instead of config.json, in a folder that `jaxner.save` wrote

JSON files and lines contain their own checksum.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import operator
import os
import warnings
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import filelock

from jaxner import outputs
from jaxner.data.vocabulary import Vocabulary
from jaxner.errors import DamagedFileError, InputError, MissingFileError
from jaxner.errors import using as using

CALIBRATION = "calibration.json"
CHECKSUM = "checksum"
"""The key of a JSON object's own checksum."""
CHECKSUMS = "checksums.json"
"""The file beside arrays that lists the checksums of the others."""

_SHORT = len("sha256:") + 16  # characters of a line's checksum


class Workdir:
    """Reads and writes the folder of a run; the first write creates it.

    `writes` is whether this process writes files; among several that share a run, one
    does. All of them save checkpoints. In the path, "~" is your home.
    """

    def __init__(self, path: str | os.PathLike[str], *, writes: bool = True):
        self.path, self.writes = outputs.expanded(path).absolute(), writes

    # --- Files

    def read_json(self, name: str) -> dict[str, Any]:
        """Returns the content of a JSON file in the folder; raises as `read_json`.

        In a config, the folder of the data is that of the training, from anywhere.
        """
        content = read_json(self._present(name))
        data = content.get("data") if name == "config.json" else None
        if isinstance(data, dict) and (path := data.get("dir")):
            base = content.pop("folder", "")  # from which the path leads there
            folder = Path(os.path.realpath(self.path / base) if base else "", path)
            # The examples of `jaxner.train` move with the run.
            if folder.name == "data" and (self.path / "data/train.jsonl").is_file():
                folder = self.path / "data"
            # A run that was moved alone has its data where the path leads from here.
            # `Path.is_dir` raises an error if another account hides the folder.
            if os.path.isdir(folder) or not os.path.isdir(path):
                data["dir"] = str(folder)
        return content

    def _present(self, name: str) -> Path:
        if not (file := self.path / name).is_file():
            if self.path.is_dir():
                raise FileNotFoundError(f"{file} is missing: expected a whole run")
            example = f"jaxner train grn -o {self.path}"
            raise FileNotFoundError(
                f"There is no run {self.path}; train one: {example}"
            )
        return file

    def write_json(self, name: str, content: Any) -> None:
        """Writes a JSON file with its checksum, atomically."""
        path = content.get("data", {}).get("dir") if name == "config.json" else None
        if path and not os.path.isabs(path):
            base = os.path.relpath(os.getcwd(), os.path.realpath(self.path))
            content = {**content, "folder": base}
        self.write_text(name, _sealed(content))

    def write_text(self, name: str, text: str) -> None:
        """Writes a text file atomically."""
        if self.writes:
            self.path.mkdir(parents=True, exist_ok=True)
            outputs.write_text(self.path / name, text)

    def vocabulary(self) -> Vocabulary:
        """Returns the vocabulary; raises as `read_json`."""
        file = self._present("vocabulary.json")
        with using(file):
            return Vocabulary.from_json(file.read_bytes().decode())

    def temperature(self, step: int | None) -> float:
        """Returns the temperature for the best checkpoint, of this step.

        It is 1 without a calibration, and, with a warning, if that is of another step.
        """
        file = self.path / CALIBRATION
        if not file.is_file():
            return 1.0
        fit = read_json(file)
        temperature = fit.get("temperature")
        if not isinstance(temperature, float) or not 0 < temperature < float("inf"):
            raise DamagedFileError(file, f"has the temperature {temperature!r}")
        if fit.get("step") == step:
            return temperature
        warnings.warn(
            f"{file} is of step {fit.get('step')}, and the best checkpoint of step "
            f"{step}: probabilities are not calibrated. Calibrate again.",
            stacklevel=3,
        )
        return 1.0

    def predictions(self, split: str) -> Path:
        """Returns the path of the file with the labels of a split."""
        return self.path / f"predictions-{split}.conll"

    # --- Metrics

    def log(self, metrics: dict[str, Any]) -> None:
        """Appends one line to `metrics.jsonl`."""
        if self.writes:
            line = _sealed(metrics, is_line=True)
            outputs.append_line(self.path / "metrics.jsonl", line)

    def metrics(self) -> list[dict[str, Any]]:
        """Returns the lines of `metrics.jsonl`, without one that a kill cut off."""
        file = self.path / "metrics.jsonl"
        if not file.exists():
            return []
        *lines, tail = file.read_bytes().decode(errors="replace").split("\n")
        with contextlib.suppress(ValueError):
            _opened(tail[:-1])
            lines.append(tail[:-1])  # only the line's end is damaged
        epochs = []
        for number, line in enumerate(lines, 1):
            try:
                epochs.append(_opened(line))
                operator.index(epochs[-1]["epoch"])
            except (ValueError, KeyError, TypeError):
                remedy = "remove the line; training continues without it"
                reason = f"line {number} is damaged: {remedy}"
                raise DamagedFileError(file, reason) from None
        return epochs

    def forget_after(self, epoch: int) -> None:
        """Removes the metrics of later epochs, which a resumed run computes again."""
        epochs = [metrics for metrics in self.metrics() if metrics["epoch"] <= epoch]
        lines = [_sealed(metrics, is_line=True) + "\n" for metrics in epochs]
        self.write_text("metrics.jsonl", "".join(lines))

    def forget_result(self) -> None:
        """Removes scores and labels of the best checkpoint, before a better one."""
        labels = map(self.predictions, ("dev", "test"))  # not those of other splits
        files = self.path / "result.json", self.path / "README.md", *labels
        for file in files * self.writes:
            file.unlink(missing_ok=True)

    # --- Restarts

    def seed(self, seed: int) -> Workdir:
        """Returns the folder of one of several restarts."""
        return Workdir(self.path / f"seed-{seed}", writes=self.writes)

    def seeds(self) -> list[int]:
        """Returns the seeds of restarts, ascending; none if the folder is a run."""
        if self.part("best").is_dir():
            return []
        names = (path.name.removeprefix("seed-") for path in self.path.glob("seed-*"))
        return sorted(int(name) for name in names if name.isascii() and name.isdigit())

    # --- Checkpoints

    def part(self, name: str) -> Path:
        """Returns the folder of `latest`, `best` or `frozen` checkpoints."""
        return self.path / "checkpoints" / name

    def is_begun(self) -> bool:
        """Returns whether there is a checkpoint to resume from; opens no file."""
        return any(entry.name.isdigit() for entry in self.part("latest").glob("*"))

    # --- The lock

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """Keeps others from training in the folder; leaves an unused one as it was."""
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
            for stale in self.path.glob(outputs.DRAFTS):  # of a killed process
                stale.unlink(missing_ok=True)
            yield
        finally:
            lock.release()
            if is_new and {p.name for p in self.path.iterdir()} <= {file.name}:
                file.unlink(missing_ok=True)
                self.path.rmdir()


# --- Checksums ------------------------------------------------------------------------


def read_json(path: Path) -> dict[str, Any]:
    """Returns the JSON object in a file, after checking the checksum inside."""
    try:
        return _opened(path.read_bytes())
    except ValueError as error:
        raise DamagedFileError(path, str(error).split("\n")[0]) from None


def _sealed(content: Mapping[str, Any], is_line: bool = False) -> str:
    """Returns an object as JSON, with its checksum."""
    plain = json.loads(json.dumps(content))  # as `read_json` will see it: no tuples
    plain.pop(CHECKSUM, None)
    checksum = _checksum(plain)
    if is_line:
        return json.dumps(plain | {CHECKSUM: checksum[:_SHORT]})
    # First, so that its line can be deleted without breaking the JSON.
    plain = {CHECKSUM: checksum, **plain}
    return json.dumps(plain, indent=2, ensure_ascii=False) + "\n"


def _opened(text: str | bytes) -> dict[str, Any]:
    """Returns the object of `_sealed`; raises ValueError if it is damaged."""
    try:
        content = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"is not JSON: {error}") from None
    if not isinstance(content, dict):
        raise ValueError("is not a JSON object")
    checksum = content.pop(CHECKSUM, None)
    texts = [text for text in content.values() if isinstance(text, str)]
    is_damaged = any(text.startswith("sha256:") for text in texts)  # of another key
    if checksum is not None:
        is_damaged = checksum not in (_checksum(content), _checksum(content)[:_SHORT])
    if is_damaged:
        raise ValueError(
            "was edited or damaged after it was written: its checksum differs. If you "
            f'meant the change, delete its line "{CHECKSUM}"'
        )
    return content


def _checksum(content: object) -> str:
    text = json.dumps(content, sort_keys=True)
    return "sha256:" + hashlib.sha256(text.encode()).hexdigest()


def seal(folder: Path, owner: Mapping[str, Any]) -> None:
    """Writes the checksums of a folder's files beside them, and what they belong to."""
    files = {name: _describe(folder / name) for name in sorted(_names(folder))}
    text = _sealed({"about": dict(owner), "files": files})
    outputs.write_text(folder / CHECKSUMS, text)


def check(folder: Path, run: Path, owner: Mapping[str, Any] | None) -> bool:
    """Compares a folder of a run's arrays with its checksums, and what they belong to.

    What the arrays were saved with must be in `owner`; None compares nothing. Returns
    whether there are checksums; a killed process may not have written them.
    """
    names = _names(folder)
    if not names:
        raise MissingFileError(folder, "holds no files")
    if not (folder / CHECKSUMS).exists():
        return False
    content = read_json(folder / CHECKSUMS)
    stored_owner, checksums = content.get("about"), content.get("files")
    if not (isinstance(stored_owner, dict) and isinstance(checksums, dict)):
        raise DamagedFileError(folder / CHECKSUMS, "lists no checksums")
    for name in sorted(names | checksums.keys()):
        if name not in names:
            raise MissingFileError(folder / name, "is missing")
        if name not in checksums:
            raise DamagedFileError(folder / name, "does not belong to the checkpoint")
        if _describe(folder / name) != checksums[name]:
            raise DamagedFileError(folder / name, "is damaged: its checksum differs")
    for name, value in stored_owner.items():
        if owner is not None and (change := _change(value, owner.get(name), name)):
            file = run / f"{name}.json"  # else the model is in the config
            file = file if file.exists() else run / "config.json"
            reason = f"is not the {name} that the weights in {folder} were trained with"
            reason += "" if name == "vocabulary" else f": {change}"
            raise DamagedFileError(file, reason)
    return True


def _names(folder: Path) -> set[str]:
    """Returns the files below a folder, but for checksums and temporary files."""
    files = [path for path in folder.rglob("*") if path.is_file()]
    names = {file.relative_to(folder).as_posix() for file in files}
    return {name for name in names if name != CHECKSUMS and not name.endswith(".tmp")}


def _describe(path: Path) -> str:
    with path.open("rb") as file:
        checksum = hashlib.file_digest(file, "sha256").hexdigest()
    return f"{path.stat().st_size} sha256:{checksum}"


def _change(old: object, new: object, name: str) -> str:
    """Describes the first change of what a JSON value had; empty if there is none."""
    if isinstance(old, dict) and isinstance(new, dict):
        changes = (_change(old[k], new.get(k), f"{name}.{k}") for k in sorted(old))
        return next(filter(None, changes), "")
    return "" if old == new else f"{name} was {old!r}, and is {new!r}"


def names_of(folders: Sequence[str]) -> list[str]:
    """Returns the names of runs, or their paths if some have the same name."""
    paths = [Path(folder).absolute() for folder in folders]
    if len(set(paths)) < len(paths):
        raise InputError("Expected each run once")
    names = [path.name for path in paths]
    return names if len(set(names)) == len(names) else list(map(str, folders))
