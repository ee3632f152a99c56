"""Chooses PyTorch's number of threads: one, or one per core, whichever is faster.

PyTorch's threads wait for each other when there is little work to share or the machine
is busy, but large products are faster on all cores. A pilot before the benchmark
therefore tries both in turn and keeps the faster number. This module does not import
JAX.
"""

from __future__ import annotations

import contextlib
import math
import os
import statistics
import time
from collections.abc import Callable, Hashable, Iterator, Sequence
from typing import Any, NamedTuple

from benchmarks.peers import need

_ROUNDS = 3
_BATCHES = 3
_SAMPLE_SECONDS = 0.02  # approximate minimum duration of a sample
_PAUSE_SECONDS = 0.02  # in which the previous sample's threads fall asleep
Run = Callable[[], Any]


class Pilot(NamedTuple):
    """The faster number of threads.

    Attributes:
        threads: Number of threads.
        seconds: Median seconds per call.
    """

    threads: int
    seconds: float


def pilot(run: Run) -> Pilot:
    """Returns the faster of one thread and one per core for a run."""
    torch = need("torch")
    choices = sorted({1, len(os.sched_getaffinity(0))})
    counts: dict[int, int] = {}
    samples: dict[int, list[float]] = {threads: [] for threads in choices}
    with using(torch.get_num_threads()):
        for threads in choices:
            torch.set_num_threads(threads)
            run()
            counts[threads] = max(1, math.ceil(_SAMPLE_SECONDS / _seconds(run, 1)))
        for _ in range(_ROUNDS):
            for threads in choices:
                torch.set_num_threads(threads)
                time.sleep(_PAUSE_SECONDS)
                run()
                samples[threads].append(_seconds(run, counts[threads]))
    seconds, threads = min((statistics.median(samples[n]), n) for n in choices)
    return Pilot(threads, seconds)


def _seconds(run: Run, count: int) -> float:
    start = time.perf_counter()
    for _ in range(count):
        run()
    return (time.perf_counter() - start) / count


def on(threads: int, run: Run) -> Run:
    """Returns the run with a number of threads, which PyTorch then keeps."""
    torch = need("torch")

    def call() -> Any:
        torch.set_num_threads(threads)
        return run()

    return call


@contextlib.contextmanager
def using(threads: int) -> Iterator[None]:
    """Sets PyTorch's number of threads within a context."""
    torch = need("torch")
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        yield
    finally:
        torch.set_num_threads(before)


class Choices:
    """The number of threads for each kind of a peer's work, from pilots."""

    def __init__(self):
        self._found: dict[Hashable, int] = {}

    def choose(self, work: Hashable, run: Run) -> None:
        """Runs the pilot for a kind of work."""
        self._found.pop(work, None)
        self._found[work] = pilot(run).threads

    def of(self, work: Hashable) -> contextlib.AbstractContextManager[None]:
        """Returns a context with the threads of a kind of work, from its pilot."""
        if work not in self._found:
            return contextlib.nullcontext()
        return using(self._found[work])


def some_batches(ordered: Sequence[Any], size: int) -> list[Sequence[Any]]:
    """Returns a few evenly spread batches of items sorted by length.

    Example:
        >>> some_batches("abcdefgh", 1)
        ['b', 'd', 'f']
    """
    starts = range(0, len(ordered), size)
    first, step = len(starts) // (2 * _BATCHES), max(1, len(starts) // _BATCHES)
    chosen = starts[first::step][:_BATCHES]
    return [ordered[start : start + size] for start in chosen]
