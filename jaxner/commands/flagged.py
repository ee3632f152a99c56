"""Commands whose options are absl's flags: help, and errors in one line."""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Callable, Sequence
from typing import NoReturn

from absl import app, flags, logging
from rich.console import Console

from jaxner.commands import cache

console = Console(highlight=False, soft_wrap=True)
ERRORS = (ValueError, OSError, ImportError, FloatingPointError)


def start(
    name: str,
    module: str,
    define: Callable[[flags.FlagValues], None],
    run: Callable[[flags.FlagValues], object],
    arguments: Sequence[str],
) -> None:
    """Runs a command.

    Args:
        name: Of the command.
        module: Which declares the flags; its docstring is the help above them.
        define: Declares the flags; gets where to.
        run: Does what they say.
        arguments: Those after the command's name.
    """
    values = flags.FLAGS
    define(values)
    flags.DEFINE_string("cache", None, cache.HELP, flag_values=values)
    if {"-h", "-help", "--help"} & set(arguments):
        print(sys.modules[module].__doc__, values.module_help(module), sep="\n")
        print(values.module_help(__name__))
        return

    def main(rest: list[str]) -> None:
        logging.set_verbosity(logging.ERROR)  # Orbax tells a lot
        try:
            if len(rest) > 1:
                raise ValueError(f"Expected flags only, got {' '.join(rest[1:])!r}")
            cache.enable(values.cache)
            run(values)
        except ERRORS as error:
            if wants_traceback:
                raise
            end(f"jaxner {name}: {error}")

    def parse(argv: list[str]) -> list[str]:
        return read(name, values, argv)

    wants_traceback = "--verbosity=1" in arguments
    app.run(main, argv=[sys.argv[0], *arguments], flags_parser=parse)


def read(name: str, values: flags.FlagValues, argv: Sequence[str]) -> list[str]:
    """Parses the command line; what is wrong with it is told in a line."""
    try:
        return values(argv)
    except (flags.Error, AttributeError, KeyError, TypeError, ValueError) as error:
        if "--verbosity=1" in argv:
            raise
        end(f"jaxner {name}: {_reason(error, argv)}")


_KINDS = {
    "invalid literal for int": "a whole number",
    "could not convert string to float": "a number",
    "Non-boolean argument": "true or false",
}
"""What absl and Python say of a value of another type, and what it must be."""


def _reason(error: Exception, argv: Sequence[str]) -> str:
    """Says in a line which option is wrong, and what would work."""
    text = str(error.args[0]).strip("'\"").replace("\\n", "\n").replace("\\'", "'")
    lines = [line for line in text.splitlines() if line.strip()]
    if any(line.startswith("Traceback") for line in lines):
        # Of the config file: its own error is the last line.
        return re.sub(r"^\w+(Error|Exception): ", "", lines[-1])
    text = " ".join(lines)
    if wrong := re.match(r"flag (--?[^=\s]+)=(.*?): (.*)", text, re.DOTALL):
        flag, value, reason = wrong.groups()
        for start, kind in _KINDS.items():
            if start in reason:
                return f"{flag} must be {kind}, got {value!r}"
        if reason.startswith("value should be one of"):
            known = reason.partition("<")[2].rstrip(">").replace("|", ", ")
            return f"Unknown {flag} {value!r}; known: {known}"
        return f"{flag}: {reason}"
    if (unknown := re.match(r"'?(\w+)'? ?(.*)", text)) and isinstance(
        error, (AttributeError, KeyError)
    ):
        word, hint = unknown.groups()
        asked = (one.partition("=")[0] for one in argv)
        flag = next((one for one in asked if word in one.split(".")), word)
        return f"Unknown option {flag}. {hint}".rstrip(". ")
    return f"wrong option: {text}"


class Parser(argparse.ArgumentParser):
    """A parser whose errors are a line."""

    def error(self, message: str) -> NoReturn:
        """Says what is wrong with the command line, and ends the process."""
        console.print(f"{self.prog}: {message}", style="red", markup=False)
        raise SystemExit(2)


def end(text: str) -> NoReturn:
    """Tells what is wrong, and ends the process."""
    console.print(text, style="red", markup=False)
    raise SystemExit(1)
