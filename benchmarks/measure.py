"""Times rivals in turn, and prints and stores what was found.

Every benchmark compares its runs here, so that all of them mean the same by a figure.
Rivals take turns within each round, and every second round in the opposite order, so
that a machine that slows down slows all of them. The first call of each, which
compiles, is told apart. Before a sample there is a pause, in which the threads of the
rival before fall asleep, and a call that is not counted. A run that is short is called
several times for one sample.

Where JAX has an accelerator, what is written in JAX runs on it, and the packages that
it is compared with do not: a report says so at its head.
"""

from __future__ import annotations

import dataclasses
import json
import math
import os
import platform
import statistics
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from importlib import metadata
from pathlib import Path
from typing import Any

import jax
from rich.console import Console
from rich.table import Table

_SAMPLE_SECONDS = 0.02  # a sample lasts about so long at least
# Threads of OpenMP wait for work by running idle, and take a core from the next rival.
_PAUSE_SECONDS = 0.02


@dataclasses.dataclass(frozen=True)
class Interval:
    """A median, and bounds between which it lies with a confidence of 95 %.

    The bounds are order statistics, so nothing is assumed of the distribution; with
    fewer than six values they are the least and the largest, and the confidence less.

    Attributes:
        median: Of the values.
        low: The lower bound.
        high: The upper bound.
    """

    median: float
    low: float
    high: float

    @classmethod
    def of(cls, values: Iterable[float]) -> Interval:
        """Summarises values.

        Example:
            >>> Interval.of([3.0, 1.0, 2.0])
            Interval(median=2.0, low=1.0, high=3.0)
        """
        ordered = sorted(values)
        count, cut = len(ordered), 0
        # P(the median lies below the value at `cut`) is a tail of Binomial(count, ½).
        while 2 * sum(math.comb(count, k) for k in range(cut + 2)) <= 0.05 * 2**count:
            cut += 1
        return cls(statistics.median(ordered), ordered[cut], ordered[-1 - cut])


@dataclasses.dataclass(frozen=True)
class Timing:
    """What one run took.

    Attributes:
        first: Seconds of its first call, in which JAX compiles.
        seconds: Of a later call.
        ratio: How many times as fast as the rival it is; above 1 is faster.
        samples: The seconds of each round.
    """

    first: float
    seconds: Interval
    ratio: Interval
    samples: tuple[float, ...] = ()

    def speedup(self, other: Timing) -> Interval:
        """Says how many times as fast as another of the same comparison this is."""
        pairs = zip(self.samples, other.samples, strict=True)
        return Interval.of(theirs / ours for ours, theirs in pairs)


def compare(
    runs: Mapping[str, Callable[[], Any]],
    rival: str,
    rounds: int = 7,
    clock: Callable[[Callable[[], Any], int], float] | None = None,
) -> dict[str, Timing]:
    """Times runs in turn.

    Args:
        runs: By name; what they return is waited for.
        rival: Name of the one that all are compared with, round by round.
        rounds: Samples of each.
        clock: Calls a run so many times and returns the seconds of one; None: those
            from the call until what it returns is there.

    Raises:
        ValueError: There is no such rival, or no round.
    """
    if rival not in runs or rounds < 1:
        raise ValueError(
            f"Expected a rival among {', '.join(runs)} and at least one round, got "
            f"{rival!r} and {rounds}"
        )
    clock = clock or _seconds
    firsts, counts = {}, {}
    for name, run in runs.items():
        firsts[name] = clock(run, 1)
        counts[name] = max(1, math.ceil(_SAMPLE_SECONDS / clock(run, 1)))
    samples: dict[str, list[float]] = {name: [] for name in runs}
    for turn in range(rounds):
        names = list(runs)[:: 1 if turn % 2 == 0 else -1]
        for name in names:
            time.sleep(_PAUSE_SECONDS)
            clock(runs[name], 1)
            samples[name].append(clock(runs[name], counts[name]))
    return {
        name: Timing(
            firsts[name],
            Interval.of(its),
            Interval.of(a / b for a, b in zip(samples[rival], its, strict=True)),
            tuple(its),
        )
        for name, its in samples.items()
    }


def _seconds(run: Callable[[], Any], count: int) -> float:
    start = time.perf_counter()
    for _ in range(count):
        jax.block_until_ready(run())
    return (time.perf_counter() - start) / count


def geometric_mean(values: Sequence[float]) -> float:
    """Returns the mean that suits ratios.

    Example:
        >>> round(geometric_mean([0.5, 8.0]), 6)
        2.0
    """
    return math.exp(statistics.fmean(map(math.log, values)))


def machine() -> dict[str, Any]:
    """Tells on what, and with which versions, something was measured."""
    versions = {"python": platform.python_version()}
    for package in ("jax", "torch", "flair", "spacy", "pytorch-crf", "torch-struct"):
        try:
            versions[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            continue
    return {
        "device": jax.devices()[0].device_kind,
        "cores": len(os.sched_getaffinity(0)),
        "load": round(os.getloadavg()[0], 2),
        "versions": versions,
        "unlike devices": unlike_devices(),
    }


def unlike_devices() -> str | None:
    """Says what not to compare unknowingly; None where all runs on the CPU."""
    backend = jax.default_backend()
    if backend == "cpu":
        return None
    return (
        f"Unlike devices: JAX runs on the {backend}; PyTorch, pytorch-crf, "
        "torch-struct and spaCy run on the CPU, and Flair does unless its PyTorch "
        "finds a GPU. Peak memory is that of the host, without the accelerator's."
    )


class Report:
    """The tables of one benchmark, on the screen and, if wanted, in a JSON file.

    Attributes:
        path: Of the JSON file, or None.
    """

    def __init__(self, path: str | Path | None = None):
        self.path = None if path is None else Path(path)
        self._console = Console(highlight=False, width=None)
        self._found: dict[str, Any] = {"machine": machine()}
        here = self._found["machine"]
        names = ", ".join(f"{k} {v}" for k, v in here["versions"].items())
        self.say(f"{here['device']}, {here['cores']} cores, {names}")
        if here["unlike devices"]:
            self.say(here["unlike devices"])

    def say(self, text: str) -> None:
        """Prints a line."""
        self._console.print(text, markup=False)

    def table(self, title: str, rows: Sequence[Mapping[str, Any]]) -> None:
        """Prints rows of equal keys as a table, and stores them.

        Args:
            title: Of the table; its key in the file.
            rows: Cells by column: text, numbers, None, an `Interval`, or a `Timing`.
        """
        table = Table(title=title, title_justify="left")
        for column in rows[0] if rows else ():
            table.add_column(column, justify="right", overflow="fold")
        for row in rows:
            table.add_row(*map(show, row.values()))
        self._console.print(table)
        self._found[title] = [
            {column: _plain(cell) for column, cell in row.items()} for row in rows
        ]
        if self.path is not None:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            text = json.dumps(self._found, indent=1, ensure_ascii=False)
            self.path.write_text(text + "\n", encoding="utf-8")


def show(cell: Any) -> str:
    """Writes a cell: three digits, and an interval behind a median.

    Example:
        >>> show(Interval(2.0, 1.0, 3.0)), show(12345.0), show(None)
        ('2.00 [1.00, 3.00]', '12,345', '–')
    """
    if cell is None:
        return "–"
    if isinstance(cell, Timing):
        return f"{show_seconds(cell.seconds.median)} ({cell.ratio.median:.2f} ×)"
    if isinstance(cell, Interval):
        return f"{show(cell.median)} [{show(cell.low)}, {show(cell.high)}]"
    if isinstance(cell, float):
        if cell and math.isfinite(cell) and abs(cell) < 100:
            return f"{cell:#.3g}"
        return f"{cell:,.0f}"
    if isinstance(cell, int):
        return f"{cell:,}"
    return str(cell)


def show_seconds(seconds: float) -> str:
    """Writes a time in the unit that suits it.

    Example:
        >>> show_seconds(0.0123), show_seconds(1.5e-5), show_seconds(2.0)
        ('12.3 ms', '15.0 µs', '2.00 s')
    """
    for unit, size in (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6)):
        if seconds >= size or unit == "µs":
            return f"{show(seconds / size)} {unit}"
    raise AssertionError("unreachable")


def _plain(cell: Any) -> Any:
    return dataclasses.asdict(cell) if dataclasses.is_dataclass(cell) else cell  # type: ignore
