"""How many threads PyTorch has: one, or one for each core, whichever is faster.

Its threads wait for each other where there is little to share, or where a machine has
other work to do; a large product is faster on all cores. So what PyTorch computes is
tried with both in a pilot before it is timed, in turn, and keeps what was faster.
Nothing here imports JAX.
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
_SAMPLE_SECONDS = 0.02  # a sample lasts about so long at least
_PAUSE_SECONDS = 0.02  # in which the threads of the sample before fall asleep
Run = Callable[[], Any]


class Pilot(NamedTuple):
    """What was found to be faster.

    Attributes:
        threads: So many.
        seconds: Of a call, the median.
    """

    threads: int
    seconds: float


def pilot(run: Run) -> Pilot:
    """Calls a run some times with one thread, and with one for each core."""
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
    """Returns the run with so many threads, which PyTorch then keeps."""
    torch = need("torch")

    def call() -> Any:
        torch.set_num_threads(threads)
        return run()

    return call


@contextlib.contextmanager
def using(threads: int) -> Iterator[None]:
    """Gives PyTorch so many threads for a while."""
    torch = need("torch")
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        yield
    finally:
        torch.set_num_threads(before)


class Choices:
    """The threads of each kind of work that a peer does, as pilots found them."""

    def __init__(self):
        self._found: dict[Hashable, int] = {}

    def choose(self, work: Hashable, run: Run) -> None:
        """Makes the pilot of some work."""
        self._found.pop(work, None)
        self._found[work] = pilot(run).threads

    def of(self, work: Hashable) -> contextlib.AbstractContextManager[None]:
        """Gives PyTorch the threads of some work; without a pilot, its own number."""
        if work not in self._found:
            return contextlib.nullcontext()
        return using(self._found[work])


def some_batches(ordered: Sequence[Any], size: int) -> list[Sequence[Any]]:
    """Returns a few batches of what is sorted by length, evenly spread.

    Example:
        >>> some_batches("abcdefgh", 1)
        ['b', 'd', 'f']
    """
    starts = range(0, len(ordered), size)
    first, step = len(starts) // (2 * _BATCHES), max(1, len(starts) // _BATCHES)
    chosen = starts[first::step][:_BATCHES]
    return [ordered[start : start + size] for start in chosen]
