"""Handles Ctrl-C and SIGTERM: they end a process with one line.

During training they become a request that the training loop reads, so that it can save
first. At any other time there is nothing to save, and a command ends at once: a second
thread waits for the signal, since the main thread would first finish a compilation. The
module imports no JAX at the top, so that a signal can stop a command during imports.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import sys
import threading
from collections.abc import Iterator
from typing import Any, NoReturn

_WATCHED = (signal.SIGINT, signal.SIGTERM)


class Stopped(BaseException):
    """A signal stopped the run in a block that a resumed run repeats."""


class StopRequest:
    """A request to stop, once a signal has arrived; true then.

    Attributes:
        signal: The signal; None before one arrives.
    """

    signal: int | None = None
    _was_seen = False  # whether the waiting thread has seen the signal
    _interrupts = False

    @property
    def exit_status(self) -> int:
        """The exit status that shells expect after this signal."""
        return 128 + (self.signal or 0)

    def __bool__(self) -> bool:
        return self.signal is not None

    def reached(self, step: int) -> bool:
        """Returns whether to stop after a step; all processes stop after the same one.

        A SIGTERM to any of several processes (clusters send it before they take a
        machine away) stops all. JAX chooses a step that no process has passed.

        Args:
            step: Number of optimizer steps so far. All processes must call this after
                each call of the step.
        """
        import jax
        from jax.experimental import multihost_utils

        is_shared = jax.process_count() > 1
        if is_shared and multihost_utils.reached_preemption_sync_point(step):
            self.signal = signal.SIGTERM
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


_request: StopRequest | None = None
_waker: tuple[socket.socket, socket.socket] | None = None


def watch() -> None:
    """Makes Ctrl-C and SIGTERM end this process at any time; for commands.

    Within `stop_requests`, which saves first, only the second signal does.
    """
    global _waker
    if _waker is not None:
        return
    _waker = socket.socketpair()
    for end in _waker:
        end.setblocking(False)
    signal.set_wakeup_fd(_waker[1].fileno(), warn_on_full_buffer=False)
    for number in _WATCHED:
        if signal.getsignal(number) is not signal.SIG_IGN:  # as nohup wants it
            signal.signal(number, _leave_it_to_the_thread)
    threading.Thread(target=_wait, args=(_waker[0],), daemon=True).start()


def _leave_it_to_the_thread(number: int, frame: object) -> None:
    del number, frame


def _wait(signals: socket.socket) -> None:
    signals.setblocking(True)
    while numbers := signals.recv(1):
        if numbers[0] in _WATCHED:
            request = _request
            if request is None or request._was_seen:
                leave(128 + numbers[0], "Stopped.")
            request._was_seen = True


def is_watched() -> bool:
    """Returns whether `watch` was called, as commands do."""
    return _waker is not None


def leave(status: int, text: str = "") -> NoReturn:
    """Ends the process at once, without waiting for threads that compile.

    Args:
        status: The exit status.
        text: A last line for the user.
    """
    if text:
        is_shown = os.isatty(2)
        erase = "\r\x1b[K\x1b[?25h" if is_shown else ""  # a bar, a hidden cursor
        with contextlib.suppress(OSError):
            os.write(2, f"{erase}{text}\n".encode())
    else:
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(OSError, ValueError):
                stream.flush()
    os._exit(status)


@contextlib.contextmanager
def stop_requests() -> Iterator[StopRequest]:
    """Turns the first Ctrl-C or SIGTERM into a request; a second one acts at once.

    Outside the main thread, no request ever arrives. With several processes, JAX
    handles SIGTERM, and the first Ctrl-C becomes one: all stop after the same step.
    """
    global _request
    import jax

    request = StopRequest()
    if threading.current_thread() is not threading.main_thread():
        yield request
        return
    is_shared = jax.process_count() > 1
    watched = (signal.SIGINT,) if is_shared else _WATCHED
    before = {number: signal.getsignal(number) for number in watched}

    def ask(number, frame):
        del frame
        signal.signal(number, before[number])
        if is_shared:
            os.kill(os.getpid(), signal.SIGTERM)
            return
        request.signal = number
        if request._interrupts:
            raise Stopped

    for number in watched:
        if before[number] is not signal.SIG_IGN:
            signal.signal(number, ask)
    _request, outer = request, _request
    try:
        with _shared_requests() if is_shared else contextlib.nullcontext():
            yield request
    finally:
        _request = outer
        for number in watched:
            signal.signal(number, before[number])


@contextlib.contextmanager
def _shared_requests() -> Iterator[None]:
    """Lets JAX take SIGTERM, so that all processes stop after the same step.

    JAX takes it from the start of its service on, in compiled code that calls no
    handler of Python's; so the service lives as long as the training loop.
    """
    import jax
    from jax._src import distributed  # nothing public starts the service later

    state, before = distributed.global_state, signal.getsignal(signal.SIGTERM)
    if state.preemption_sync_manager is not None:  # a caller's own jax.distributed
        yield
        return
    jax.config.update("jax_enable_preemption_service", True)
    state.initialize_preemption_sync_manager()
    try:
        yield
    finally:
        manager: Any = state.preemption_sync_manager
        state.preemption_sync_manager = None
        manager.shutdown()
        signal.signal(signal.SIGTERM, before)
