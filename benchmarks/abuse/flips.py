"""One flipped bit in every file of a run folder in turn."""

from __future__ import annotations

import contextlib
import io
import random
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.abuse.victim import Victim, state
from jaxner.training import run as training

SHOWN = ("best", "latest", "frozen")


def attack(victim: Victim, seed: int) -> tuple[str, list[dict[str, Any]]]:
    """Flips a bit in each file; returns a title and the rows of a table."""
    rng, found = random.Random(seed), {}
    files = sorted(f for f in victim.reference.rglob("*") if f.is_file())
    labels, expected = victim.labels(victim.reference), state(victim.reference)
    for file in files:
        name = file.relative_to(victim.reference)
        if not file.stat().st_size:
            continue
        path = victim.copy("flipped")
        place = rng.randrange(file.stat().st_size)
        _flip(path / name, place, rng.randrange(8))
        row = found.setdefault(_kind(name), _row(_kind(name)))
        row["files"] += 1
        loaded = outcome(lambda p=path: victim.labels(p) == labels)
        resumed = outcome(lambda p=path: _resumed(victim, p) == expected)
        row[f"load: {_worst(loaded)}"] += 1
        row[f"resume: {_worst(resumed)}"] += 1
        is_wrong = "wrong" in (_worst(loaded), _worst(resumed))
        row["wrong"] += is_wrong
        if is_wrong:
            print(f"{name}, byte {place}: load {loaded}; resume {resumed}")
    title = "bytes: one flipped bit in each file, then load and the command again"
    return title, list(found.values())


def outcome(act: Callable[[], bool]) -> str:
    """Returns how an act ended: "harmless", "found", or what was wrong."""
    with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
        warnings.simplefilter("ignore")
        try:
            return "harmless" if act() else "other labels or scores"
        except (ValueError, OSError, ImportError, FloatingPointError) as error:
            lines = str(error).splitlines()
            return "found" if 1 <= len(lines) <= 12 else f"{len(lines)} lines"
        except Exception as error:
            return f"{type(error).__name__}: {str(error)[:200]}"


def _worst(what: str) -> str:
    return what if what in ("harmless", "found") else "wrong"


def _resumed(victim: Victim, path: Path) -> dict[str, Any]:
    training.main_run(victim.config(), path)
    return state(path)


def _kind(name: Path) -> str:
    if name.parts[0] == "checkpoints":
        return f"checkpoints/{name.parts[1]}"
    return name.name


def _row(kind: str) -> dict[str, Any]:
    row: dict[str, Any] = {"in": kind, "files": 0}
    for act in ("load", "resume"):
        row |= {f"{act}: found": 0, f"{act}: harmless": 0, f"{act}: wrong": 0}
    return row | {"wrong": 0}


def _flip(path: Path, place: int, bit: int) -> None:
    content = bytearray(path.read_bytes())
    content[place] ^= 1 << bit
    path.write_bytes(content)
