"""Turns Ctrl-C and SIGTERM into a request that the training loop reads."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Iterator

import jax
from jax.experimental import multihost_utils


class StopRequest:
    """Whether a signal asked the run to stop, and which."""

    signal: int | None = None

    @property
    def exit_status(self) -> int:
        """The exit status that shells expect after this signal."""
        return 128 + (self.signal or 0)

    def __bool__(self) -> bool:
        return self.signal is not None

    def reached(self, step: int) -> bool:
        """Tells whether to stop after a step; all processes of a run stop after one.

        A SIGTERM to any of several processes, which a cluster sends before it takes a
        machine away, is a request to all. JAX chooses the step that none has passed.

        Args:
            step: Optimizer steps so far; asked for after each call in all processes.
        """
        is_shared = jax.process_count() > 1
        if is_shared and multihost_utils.reached_preemption_sync_point(step):
            self.signal = signal.SIGTERM
        return bool(self)


@contextlib.contextmanager
def stop_requests() -> Iterator[StopRequest]:
    """Yields a request set by the first Ctrl-C or SIGTERM; a second acts at once.

    Where there are several processes, SIGTERM is JAX's, and Ctrl-C acts at once.
    """
    request = StopRequest()
    watched = (signal.SIGINT, signal.SIGTERM) if jax.process_count() == 1 else ()
    before = {number: signal.getsignal(number) for number in watched}

    def ask(number, frame):
        del frame
        request.signal = number
        signal.signal(number, before[number])

    for number in watched:
        signal.signal(number, ask)
    try:
        yield request
    finally:
        for number in watched:
            signal.signal(number, before[number])
