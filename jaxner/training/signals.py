"""Turns Ctrl-C and SIGTERM into requests to save and stop, during training.

At any other time there is nothing to save, and they end a command at once.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import sys
import threading
from collections.abc import Callable, Iterator

import jax

from jaxner import devices

_SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Stopped(BaseException):
    """A signal stopped the run in a block that a resumed run repeats."""


class StopRequest:
    """A request to stop; true once a `signal` has arrived, and all processes know it.

    `own_signal` is that of this process.
    """

    signal: int | None = None
    own_signal: int | None = None
    _interrupts = False

    def __bool__(self) -> bool:
        return self.signal is not None

    def reached(self, is_due: bool = True) -> bool:
        """Returns whether to stop, and all processes after the same step.

        A signal to any of several processes stops all. They tell each other where
        `is_due`, so all must call this after the same steps with the same value.
        """
        if jax.process_count() == 1:
            self.signal = self.own_signal
        elif is_due:
            (number,) = devices.largest([self.own_signal or 0])
            self.signal = int(number) or None
        return bool(self)

    @contextlib.contextmanager
    def interrupting(self) -> Iterator[None]:
        """Leaves the block as soon as a request arrives; continues after the block."""
        with contextlib.suppress(Stopped):
            self._interrupts = True
            try:
                yield
            finally:
                self._interrupts = False


@contextlib.contextmanager
def stop_requests(
    log: Callable[[str], object] = lambda line: None,
) -> Iterator[StopRequest]:
    """Turns the first Ctrl-C or SIGTERM into a request; a second one acts at once.

    `log` gets a line at the first signal, even while XLA compiles. Outside the main
    thread, no request ever arrives. JAX's own preemption service, if a caller has
    started it, gets no SIGTERM from then on.
    """
    request = StopRequest()
    if threading.current_thread() is not threading.main_thread():
        yield request
        return
    handlers = {number: signal.getsignal(number) for number in _SIGNALS}

    def ask(number, frame):
        del frame
        signal.signal(number, handlers[number])
        request.own_signal = number
        if request._interrupts and jax.process_count() == 1:
            raise Stopped

    with contextlib.ExitStack() as stack:
        # A program or notebook that calls this has a handler for Ctrl-C, which stays in
        # charge. A shell lets what runs in the background ignore Ctrl-C.
        if handlers[signal.SIGINT] in (signal.SIG_DFL, signal.SIG_IGN):
            stack.enter_context(_second_ends_the_process(log))
        for number, handler in handlers.items():
            stack.callback(signal.signal, number, handler)
            if handler is not signal.SIG_IGN:
                signal.signal(number, ask)
        yield request


@contextlib.contextmanager
def ending(line: str) -> Iterator[None]:
    """Prints a line at Ctrl-C in a command, before this ends the process.

    A second one ends it even while XLA compiles.
    """

    def end(number, frame):
        del frame
        # Not by `print`, which the signal may have interrupted.
        start = "\n" * sys.stderr.isatty()  # the progress ends without one
        os.write(sys.stderr.fileno(), f"{start}{line}\n".encode())
        signal.signal(number, signal.SIG_DFL)
        signal.raise_signal(number)

    is_main = threading.current_thread() is threading.main_thread()
    if not is_main or signal.getsignal(signal.SIGINT) is not signal.SIG_DFL:
        yield
        return
    with _second_ends_the_process(lambda _: None):
        signal.signal(signal.SIGINT, end)
        try:
            yield
        finally:
            signal.signal(signal.SIGINT, signal.SIG_DFL)


@contextlib.contextmanager
def _second_ends_the_process(log: Callable[[str], object]) -> Iterator[None]:
    """Ends the process at the second signal, even if XLA never returns.

    Python calls handlers in the main thread alone, between its own statements. While
    that thread compiles or waits for other processes, another one has to act, and only
    `os._exit` ends the process from there.
    """

    def wait() -> None:
        count = 0
        while number := reader.recv(1):
            count += number[0] in _SIGNALS
            if count == 2:
                os._exit(128 + number[0])
            if count == 1:
                log("Saving after this step, or compilation; Ctrl-C again ends at once")
        reader.close()

    reader, writer = socket.socketpair()
    writer.setblocking(False)
    threading.Thread(target=wait, daemon=True).start()
    descriptor = signal.set_wakeup_fd(writer.fileno(), warn_on_full_buffer=False)
    try:
        yield
    finally:
        signal.set_wakeup_fd(descriptor)
        writer.close()
