"""Ends a command at Ctrl-C or SIGTERM from its first statement on.

Python's own handler would show a traceback until `jaxner.training.signals` stands.
That module needs sockets and threads. So this one, which imports only built-in
modules, comes first.
"""

# The module `signal` would import enum, which takes longer than all the rest.
import _signal  # pyright: ignore[reportMissingImports]
import os


def watch() -> None:
    """Makes Ctrl-C and SIGTERM end this process with one line; the first statement."""
    for number in (_signal.SIGINT, _signal.SIGTERM):
        if _signal.getsignal(number) != _signal.SIG_IGN:  # as nohup wants it
            _signal.signal(number, _end)
    from jaxner.training import signals

    signals.watch()


def _end(number, frame) -> None:
    del frame
    try:
        os.write(2, b"Stopped.\n")
    finally:
        os._exit(128 + number)
