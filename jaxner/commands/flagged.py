"""Commands with absl flags: help, and errors in one line."""

from __future__ import annotations

import argparse
import contextlib
import functools
import re
import sys
import warnings
from collections.abc import Callable, Container, Iterator, Sequence
from typing import NoReturn

from absl import app, flags, logging

from jaxner.commands import cache, misspelt
from jaxner.data.readers import remedies
from jaxner.terminal import LineConsole

console = LineConsole()
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
        name: Name of the command.
        module: Module of the command; its docstring is the help text.
        define: Declares the flags in the given values.
        run: Runs the command with the parsed flags.
        arguments: Arguments after the command's name.
    """
    values = flags.FLAGS
    define(values)
    flags.DEFINE_string("cache", None, cache.HELP, flag_values=values)
    arguments = spelled(arguments, "_", values)
    if {"-h", "-help", "--help"} & set(arguments):
        print(sys.modules[module].__doc__, "Options:", sep="\n")
        ours = (name for name in values.flags_by_module_dict() if "jaxner." in name)
        modules = dict.fromkeys([module, *ours])  # those of its helpers as well
        print(*(_options(values.module_help(name)) for name in modules), sep="\n")
        return

    def main(rest: list[str]) -> None:
        try:
            if len(rest) > 1:
                raise ValueError(f"Expected flags only, got {' '.join(rest[1:])!r}")
            cache.enable(values.cache)
            with plainly():
                run(values)
        except ERRORS as error:
            if wants_traceback:
                raise
            error = remedies.of_command(error, functools.partial(_flag, values))
            end(f"jaxner {name}: {error}")

    def parse(argv: list[str]) -> list[str]:
        return read(name, values, argv)

    wants_traceback = "--verbosity=1" in arguments
    app.run(main, argv=[sys.argv[0], *arguments], flags_parser=parse)


def _options(text: str) -> str:
    """Returns absl's help without the module's name and defaults that say nothing."""
    lines = text.strip().splitlines()[1:]
    empty = {f"(default: '{value}')" for value in ("None", "", "[]")}
    return "\n".join(line for line in lines if line.strip() not in empty)


def read(name: str, values: flags.FlagValues, argv: Sequence[str]) -> list[str]:
    """Returns the parsed command line; ends the process with a line if wrong."""
    try:
        return values(argv)
    except (flags.Error, AttributeError, KeyError, TypeError, ValueError) as error:
        if "--verbosity=1" in argv:
            raise
        end(f"jaxner {name}: {_reason(error, argv)}")
    except Exception as error:  # a config is Python: it may raise anything
        if "--verbosity=1" in argv:
            raise
        reason = " ".join(str(error).split())
        kind = type(error).__name__
        end(f"jaxner {name}: --config: its file cannot be run: {kind}: {reason}")


_KINDS = {
    "invalid literal for int": "a whole number",
    "could not convert string to float": "a number",
    "Non-boolean argument": "true or false",
}
"""Parts of absl's and Python's errors for a wrong type, and the right type."""


def _reason(error: Exception, argv: Sequence[str]) -> str:
    """Returns a line with the wrong option and what would work."""
    text = str(error.args[0]).strip("'\"").replace("\\n", "\n").replace("\\'", "'")
    lines = [line for line in text.splitlines() if line.strip()]
    if any(line.startswith("Traceback") for line in lines):
        # An error of the config file is in the last line.
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
        hint = hint or misspelt.suggestion(flag, argv)
        return f"Unknown option {flag}. {hint}".rstrip(". ")
    if unknown := re.match(r"Unknown command line flag '(\w+)'?\.? ?(.*)", text):
        name, hint = unknown.groups()
        hint = misspelt.suggestion(f"--{name}", argv) or hint.replace(
            " ?", "?"
        ).replace("mean: ", "mean --")
        return f"Unknown option --{name}. {hint}".rstrip(". ")
    return f"wrong option: {text}"


def _flag(values: flags.FlagValues, name: str) -> str | None:
    """Returns the flag for a reader's argument: that of the config, if there is one."""
    if "config" in values:
        return None if name.split("=")[0] == "tokenise" else f"--config.data.{name}"
    return f"--{name}" if name in values else None


def option_of(options: argparse.Namespace, name: str) -> str | None:
    """Returns the option for a reader's argument; None if the command has none."""
    name = {"scheme=tags": "tags", "tokenise": "tokeniser"}.get(name, name)
    is_known = name in vars(options) and name != "scheme"  # that one is to write
    return f"--{name.replace('_', '-')}" if is_known else None


def spelled(arguments: Sequence[str], mark: str, known: Container[str]) -> list[str]:
    """Returns arguments whose option names have one spelling; values stay as they are.

    Args:
        arguments: The command line.
        mark: What is between the words of a name: "_" or "-".
        known: Names to change to, without "--". Other arguments stay as they are.

    Example:
        >>> spelled(["--label-column=1", "--a-b"], "_", {"label_column"})
        ['--label_column=1', '--a-b']
    """
    end = arguments.index("--") if "--" in arguments else len(arguments)
    changed = list(arguments)
    for i, argument in enumerate(arguments[:end]):
        name, equals, value = argument.partition("=")
        other = re.sub("(?<=[^-])[-_]", mark, name.removeprefix("--"))
        if name.startswith("--") and other in known:
            changed[i] = f"--{other}{equals}{value}"
    return changed


class Parser(argparse.ArgumentParser):
    """A parser with one-line errors, for options spelled with - or _."""

    def parse_known_args(self, args=None, namespace=None):  # pyright: ignore
        """Parses a command line, as `argparse` does."""
        given = sys.argv[1:] if args is None else list(args)
        known = {flag.removeprefix("--") for flag in self._option_string_actions}
        return super().parse_known_args(spelled(given, "-", known), namespace)

    def error(self, message: str) -> NoReturn:
        """Prints what is wrong with the command line, and ends the process."""
        text = f"{self.prog}: {message}"
        console.print(text, style="red", markup=False, soft_wrap=True)
        raise SystemExit(2)


@contextlib.contextmanager
def plainly() -> Iterator[None]:
    """Shows warnings in a line each, and those of Orbax and absl not at all."""
    before = logging.get_verbosity()
    logging.set_verbosity(logging.ERROR)

    def show(message, *about, **more):
        del about, more
        console.print(f"Warning: {message}", style="yellow", markup=False)

    try:
        with warnings.catch_warnings():
            warnings.showwarning = show
            yield
    finally:
        logging.set_verbosity(before)


def end(text: str) -> NoReturn:
    """Prints an error, and ends the process."""
    # Whole: what it says to do may be copied.
    console.print(text, style="red", markup=False, soft_wrap=True)
    raise SystemExit(1)
