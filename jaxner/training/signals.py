"""Turns Ctrl-C and SIGTERM into requests to save and stop, during training.

At any other time there is nothing to save, and they end a command at once.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import threading
from collections.abc import Callable, Iterator
from typing import Any

import jax
from jax._src import distributed  # nothing public starts the service later
from jax.experimental import multihost_utils

_WATCHED = (signal.SIGINT, signal.SIGTERM)


class Stopped(BaseException):
    """A signal stopped the run in a block that a resumed run repeats."""


class StopRequest:
    """A request to stop; true once a `signal` has arrived."""

    signal: int | None = None
    _interrupts = False

    @property
    def exit_status(self) -> int:
        """The exit status that shells expect after this signal."""
        return 128 + (self.signal or 0)

    def __bool__(self) -> bool:
        return self.signal is not None

    def reached(self, step: int) -> bool:
        """Returns whether to stop after a step; all processes stop after the same one.

        A SIGTERM to any of several processes stops all. JAX chooses a step that no
        process has passed, and compares for equality: all must call this after each
        step. `step` counts from the start or resumption of the run, since after a
        signal before the first step, JAX chooses step 1.
        """
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


@contextlib.contextmanager
def stop_requests(
    log: Callable[[str], object] = lambda line: None,
) -> Iterator[StopRequest]:
    """Turns the first Ctrl-C or SIGTERM into a request; a second one acts at once.

    `log` gets a line at the first signal, even while XLA compiles. Outside the main
    thread, no request ever arrives. With several processes, JAX handles SIGTERM, and
    the first Ctrl-C becomes one.
    """
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

    with contextlib.ExitStack() as stack:
        # A program or notebook that calls this has a handler for Ctrl-C, which stays in
        # charge. A shell lets what runs in the background ignore Ctrl-C.
        if before[signal.SIGINT] in (signal.SIG_DFL, signal.SIG_IGN):
            stack.enter_context(_second_ends_the_process(log))
        if is_shared:
            stack.enter_context(_shared_requests())
        for number, handler in before.items():
            stack.callback(signal.signal, number, handler)
            if handler is not signal.SIG_IGN:
                signal.signal(number, ask)
        yield request


@contextlib.contextmanager
def _second_ends_the_process(log: Callable[[str], object]) -> Iterator[None]:
    """Ends the process at the second signal, even if XLA never returns.

    Python calls handlers in the main thread alone, between its own statements. While
    that thread compiles or waits for other processes, another one has to act, and only
    `os._exit` ends the process from there.
    """

    def wait() -> None:
        seen = 0
        while number := ours.recv(1):
            seen += number[0] in _WATCHED
            if seen == 2:
                os._exit(128 + number[0])
            if seen == 1:
                log("Saving after this step, or compilation; Ctrl-C again ends at once")
        ours.close()

    ours, pythons = socket.socketpair()
    pythons.setblocking(False)
    threading.Thread(target=wait, daemon=True).start()
    before = signal.set_wakeup_fd(pythons.fileno(), warn_on_full_buffer=False)
    try:
        yield
    finally:
        signal.set_wakeup_fd(before)
        pythons.close()


@contextlib.contextmanager
def _shared_requests() -> Iterator[None]:
    """Lets JAX take SIGTERM, in compiled code that calls no handler of Python's.

    It takes it as long as its service lives: here, as long as the training loop.
    """
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
