"""The command line: `jaxner COMMAND …`, or `python -m jaxner COMMAND …`.

The module imports next to nothing, so that Ctrl-C ends it from the start.
"""

# The module `signal` would import enum, which takes longer than all the rest.
import _signal  # pyright: ignore[reportMissingImports]
import sys


def main(arguments: "list[str] | None" = None, command: str = "") -> None:
    """Runs the command line; by default, with the arguments of the process.

    `command` is that of a script, which is not among the arguments.
    """
    if arguments is None:
        arguments = sys.argv[1:]
        end_at_signals()
    from jaxner import cli

    cli.run(arguments, command)


def end_at_signals() -> None:
    """Lets Ctrl-C end the process at once, as SIGTERM does.

    Python's own handler would wait until XLA has compiled, and then show a traceback. A
    shell lets what runs in the background ignore Ctrl-C: then it stays ignored.
    """
    if _signal.getsignal(_signal.SIGINT) != _signal.SIG_IGN:
        _signal.signal(_signal.SIGINT, _signal.SIG_DFL)


if __name__ == "__main__":
    # `python -m` searches the working folder first, where any jinja2.py may lie.
    if not sys.flags.safe_path:
        del sys.path[0]
    main()
