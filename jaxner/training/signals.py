"""Stopping politely: Ctrl-C and SIGTERM become a request that the loop reads."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Iterator


class StopRequest:
    """Whether, and by which signal, the run was asked to stop."""

    signal: int | None = None

    @property
    def exit_status(self) -> int:
        """What a shell expects of a process that ended on the signal."""
        return 128 + (self.signal or 0)

    def __bool__(self) -> bool:
        return self.signal is not None


@contextlib.contextmanager
def stop_requests() -> Iterator[StopRequest]:
    """Turns the first Ctrl-C or SIGTERM into a request; a second one acts at once."""
    request = StopRequest()
    watched = (signal.SIGINT, signal.SIGTERM)
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
