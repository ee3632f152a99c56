"""Times rivals in turn, and prints and stores the results.

All benchmarks use this module, so that their figures mean the same. Rivals take turns
within each round, in reverse order every second round, so that a slowing machine
affects all of them. The first call of each, which compiles, is reported separately.
Each sample follows a pause, in which the previous rival's threads fall asleep, and an
uncounted call. Short runs are called several times per sample.

If JAX has an accelerator, JAX programs run on it, but the packages compared with them
do not: reports say so in their heading.
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

_SAMPLE_SECONDS = 0.02  # approximate minimum duration of a sample
# OpenMP threads wait for work by spinning, and take a core from the next rival.
_PAUSE_SECONDS = 0.02


@dataclasses.dataclass(frozen=True)
class Interval:
    """A median with bounds of 95 % confidence.

    The bounds are order statistics, valid for any distribution. With fewer than six
    values they are minimum and maximum, with less confidence.

    Attributes:
        median: Median of the values.
        low: The lower bound.
        high: The upper bound.
    """

    median: float
    low: float
    high: float

    @classmethod
    def of(cls, values: Iterable[float]) -> Interval:
        """Returns the interval of some values.

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
    """The times of one run.

    Attributes:
        first: Seconds of the first call, in which JAX compiles.
        seconds: Seconds of a later call.
        ratio: Speedup over the rival; above 1 is faster.
        samples: Seconds of each round.
    """

    first: float
    seconds: Interval
    ratio: Interval
    samples: tuple[float, ...] = ()

    def speedup(self, other: Timing) -> Interval:
        """Returns the speedup over another run of the same comparison."""
        pairs = zip(self.samples, other.samples, strict=True)
        return Interval.of(theirs / ours for ours, theirs in pairs)


def compare(
    runs: Mapping[str, Callable[[], Any]],
    rival: str,
    rounds: int = 7,
    clock: Callable[[Callable[[], Any], int], float] | None = None,
) -> dict[str, Timing]:
    """Returns the timings of runs that take turns.

    Args:
        runs: Runs by name; a timing includes waiting for the result.
        rival: Name of the run to compare with, round by round.
        rounds: Samples of each run.
        clock: Calls a run several times and returns the seconds of one call; None
            measures from the call until the result is ready.

    Raises:
        ValueError: The rival is unknown, or `rounds` is below 1.
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
    """Returns the geometric mean, for ratios.

    Example:
        >>> round(geometric_mean([0.5, 8.0]), 6)
        2.0
    """
    return math.exp(statistics.fmean(map(math.log, values)))


def machine() -> dict[str, Any]:
    """Returns device, cores and versions of packages."""
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
    """Returns a warning that rivals use different devices; None if all use the CPU."""
    backend = jax.default_backend()
    if backend == "cpu":
        return None
    return (
        f"Different devices: JAX runs on the {backend}; PyTorch, pytorch-crf, "
        "torch-struct and spaCy run on the CPU, and Flair does unless its PyTorch "
        "finds a GPU. Peak memory is host memory, without the accelerator's."
    )


class Report:
    """The tables of one benchmark, on the screen and optionally in a JSON file.

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
        """Prints rows with equal keys as a table, and stores them.

        Args:
            title: Title of the table, and its key in the file.
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
        self._write()

    def row(self, title: str, row: Mapping[str, Any]) -> None:
        """Prints one row as a line, and stores it, so that a cut run keeps it.

        Args:
            title: Of its table; its key in the file.
            row: Cells by column, as in `table`.
        """
        cells = ", ".join(f"{column} {show(cell)}" for column, cell in row.items())
        self.say(f"{title}: {cells}")
        its = {column: _plain(cell) for column, cell in row.items()}
        self._found.setdefault(title, []).append(its)
        self._write()

    def _write(self) -> None:
        if self.path is not None:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            text = json.dumps(self._found, indent=1, ensure_ascii=False)
            self.path.write_text(text + "\n", encoding="utf-8")


def show(cell: Any) -> str:
    """Returns a cell as text: three digits, and the bounds after a median.

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
    """Returns a time in a suitable unit.

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
