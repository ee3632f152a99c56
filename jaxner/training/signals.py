"""Turns Ctrl-C and SIGTERM into a request that the training loop reads."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Iterator


class StopRequest:
    """Whether a signal asked the run to stop, and which."""

    signal: int | None = None

    @property
    def exit_status(self) -> int:
        """The exit status that shells expect after this signal."""
        return 128 + (self.signal or 0)

    def __bool__(self) -> bool:
        return self.signal is not None


@contextlib.contextmanager
def stop_requests() -> Iterator[StopRequest]:
    """Yields a request set by the first Ctrl-C or SIGTERM; a second acts at once."""
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
