"""Lets Ctrl-C end a command at once, from its first statement on.

Python's own handler would wait until XLA has compiled, and then show a traceback. This
module imports only a built-in one, so that a command can begin with it.
"""

# The module `signal` would import enum, which takes longer than all the rest.
import _signal  # pyright: ignore[reportMissingImports]


def restore() -> None:
    """Gives Ctrl-C the default action of the system, which SIGTERM has already."""
    # A shell lets what runs in the background ignore it.
    if _signal.getsignal(_signal.SIGINT) != _signal.SIG_IGN:
        _signal.signal(_signal.SIGINT, _signal.SIG_DFL)
