"""The parser of `jaxner COMMAND …`: options come from a function's signature.

A parameter is an option, a positional-only one an argument; the help is the docstring.
Names of options have hyphens, and underscores are accepted. The module imports nothing
that takes long, and only the module of the command that runs.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import difflib
import importlib
import inspect
import io
import os
import sys
import types
import typing
import warnings
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NoReturn

from jaxner import __version__, cache, fields, outputs
from jaxner.errors import InputError
from jaxner.wording import printable

COMMANDS = {
    "train": ("training", "trains a tagger"),
    "options": ("training", "lists all options of a config"),
    "evaluate": ("evaluate", "scores a trained tagger"),
    "tag": ("tagging", "tags a file of any size"),
    "show": ("tagging", "shows text with its entities"),
    "calibrate": ("calibration", "calibrates a run's probabilities"),
    "export": ("export", "writes a tagger to one file, or as ONNX"),
    "serve": ("serving", "serves a tagger, and a page to try it"),
    "select": ("tagging", "chooses sentences worth annotating"),
    "check": ("corpora", "checks labelled text"),
    "convert": ("corpora", "rewrites labelled text in another format or scheme"),
    "score": ("scores", "scores a file of predictions of any tagger"),
    "compare": ("scores", "paired tests between two runs or files of predictions"),
}
"""The module of each command, and its line in the overview."""

_OVERVIEW = """usage: jaxner COMMAND …

Trains and uses taggers. `jaxner COMMAND --help` explains a command.

{}

  --version  the version"""
_HELP = ("-h", "-help", "--help")


def run(arguments: Sequence[str]) -> None:
    """Runs a command, given its name and its arguments.

    The status is 2 for a wrong option, 1 for an error that is the user's, and 141 if
    nobody reads the output any more.
    """
    name, *rest = arguments or ["--help"]
    _open_streams()
    # An option and its value may be two words.
    with _errors(name, shows_traceback="--verbosity=1" in "=".join(rest)):
        try:
            _run(name, rest)
        finally:
            _flush()


def _open_streams() -> None:
    """Opens the streams that a shell closed, and escapes what the output cannot encode.

    Else the next file would take their place, and what is printed. Input that is closed
    cannot be read; closed output is a pipe that nobody reads.
    """
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        if getattr(sys, name) is None:
            end = os.open(os.devnull, os.O_WRONLY)
            if name == "stdout":
                reading, end = os.pipe()
                os.close(reading)
            os.dup2(end, number)
            setattr(sys, name, os.fdopen(number, "w" if number else "r"))
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")


def _flush() -> None:
    try:
        sys.stdout.flush()
    except OSError:
        # Else Python would complain when it flushes the output at the end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise


def _run(name: str, rest: list[str]) -> None:
    if name in (*_HELP, "help"):
        lines = (f"  {name:11}{about}" for name, (_, about) in COMMANDS.items())
        print(_OVERVIEW.format("\n".join(lines)))
        return
    if name == "--version":
        print(__version__)
        return
    if name not in COMMANDS:
        close = difflib.get_close_matches(name, COMMANDS, 1)
        hint = f". Did you mean {close[0]}?" if close else ""
        end(f"jaxner: no command {name!r}; known: {', '.join(COMMANDS)}{hint}", 2)
    module = importlib.import_module(f"jaxner.commands.{COMMANDS[name][0]}")
    function = getattr(module, name)
    if set(_HELP) & set(rest):
        print(parser_of(function).format_help())
        configs = argparse.ArgumentParser(allow_abbrev=False, add_help=False)
        configs.add_argument("--config")
        config = configs.parse_known_args(rest)[0].config
        if name != "train" or not config:
            return
        name, function, rest = "options", module.options, [config]
    call(function, rest)


def call(function: Callable, arguments: Sequence[str]) -> Any:
    """Calls a command's function with the values of a command line."""
    parser = parser_of(function)
    positional, values = parser.parse(arguments)
    cache.use(values.pop("cache"))
    del values["verbosity"]
    written = [values[name] for name in parser.outputs if values.get(name)]
    is_taken = any(outputs.descriptor(path) == 1 for path in written)
    told = contextlib.redirect_stdout(sys.stderr if is_taken else sys.stdout)
    with _quiet(), told:
        return function(*positional, **values)


def end(text: str, status: int = 1) -> NoReturn:
    """Prints an error in red, and ends the process."""
    text = printable(text)
    is_coloured = sys.stderr.isatty() and "NO_COLOR" not in os.environ
    print(f"\x1b[31m{text}\x1b[0m" if is_coloured else text, file=sys.stderr)
    raise SystemExit(status)


@contextlib.contextmanager
def _errors(name: str, shows_traceback: bool = False) -> Iterator[None]:
    """Prints the user's errors in one line; a bug keeps its traceback."""
    try:
        yield
    except BrokenPipeError:
        raise SystemExit(141) from None
    except Exception as error:
        if shows_traceback or not _is_users(error):
            raise
        text = str(error)
        if isinstance(error, OSError) and error.filename:  # not the number of the error
            text = f"{error.filename}: {error.strerror}"
        end(f"jaxner {name}: {text}")


def _is_users(error: Exception) -> bool:
    """Returns whether an error is about what the user gave: we raise it on purpose."""
    if isinstance(error, (InputError, OSError, FloatingPointError)):
        return True
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    file = trace.tb_frame.f_code.co_filename if trace is not None else ""
    is_ours = Path(__file__).parent in Path(file).parents
    return is_ours and isinstance(error, (ValueError, ImportError))


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Shows warnings in a line each, and the log of Orbax not at all."""

    def show(message: Any, *about: Any, **more: Any) -> None:
        print(f"Warning: {printable(str(message))}", file=sys.stderr)

    with warnings.catch_warnings(), contextlib.ExitStack() as stack:
        warnings.showwarning = show
        with contextlib.suppress(ImportError):  # who serves a file has no Orbax
            from absl import logging

            stack.callback(logging.set_verbosity, logging.get_verbosity())
            logging.set_verbosity(logging.ERROR)
        yield


# --- From a signature to options ------------------------------------------------------

_MANY = inspect.Parameter.VAR_POSITIONAL
_SHORT = {"split_sentences": "sentences"}
_COMMON = {
    "cache": "Folder for compiled programs, or off; default: the user's cache folder.",
    "verbosity": "1 shows the traceback of an error.",
}


class Parser(argparse.ArgumentParser):
    """The parser of one command; see `parser_of`."""

    def __init__(self, **options: Any):
        super().__init__(**options)
        self.positional: list[str] = []  # parameters
        self.outputs: set[str] = set()  # parameters that are files to write
        # What is called with the options of a parameter that are set, and their names.
        self.groups: dict[str, tuple[Callable, Sequence[str]]] = {}
        self.takes_overrides = False  # options of a config may follow

    def parse(self, arguments: Sequence[str]) -> tuple[list[Any], dict[str, Any]]:
        """Returns the positional and the named values for a call of the function."""
        options, overrides = self._split(arguments)
        values = dict(vars(self.parse_args(options)))
        sources = [
            path
            for name, value in values.items()
            if name not in self.outputs
            for path in (value if isinstance(value, (list, tuple)) else [value])
            if isinstance(path, Path)
        ]
        outputs.check(*(values[name] for name in self.outputs), sources=sources)
        for name, (kind, parts) in self.groups.items():
            chosen = {part: values.pop(part) for part in parts}
            values[name] = kind(**{k: v for k, v in chosen.items() if v is not None})
        positional: list[Any] = []
        for name in self.positional:
            value = values.pop(name)
            positional += value if isinstance(value, list) else [value]
        return positional, {**values, **overrides}

    def _split(self, arguments: Sequence[str]) -> tuple[list[str], dict[str, str]]:
        """Returns arguments with one spelling, and overrides of a config by name."""
        options, overrides = self._option_string_actions, {}
        known, cutoff = [], 0.85 if self.takes_overrides else 0.6
        rest = [*arguments]
        while rest:
            argument = rest.pop(0)
            flag, equals, value = argument.partition("=")
            name = "--" + flag[2:].replace("_", "-")
            if not flag.startswith("--") or "--" in (flag, *known):
                known.append(argument)
            elif name in options:
                known.append(name + equals + value)
            elif close := difflib.get_close_matches(name, options, 1, cutoff):
                self.error(f"unknown option {flag}. Did you mean {close[0]}?")
            elif self.takes_overrides:
                if not equals:
                    is_alone = not rest or rest[0].startswith("--")
                    value = "true" if is_alone else rest.pop(0)
                overrides[flag[2:]] = value
            else:
                self.error(f"unknown option {flag}")
        return known, overrides

    def error(self, message: str) -> NoReturn:
        """Prints what is wrong with the command line, and ends the process."""
        end(f"{self.prog}: {message.removeprefix('argument ')}", 2)


def parser_of(function: Callable) -> Parser:
    """Returns the parser of a command, a function.

    Its parameters are annotated by what `jaxner.fields` can check, a `Literal`, `bool`,
    `Path`, `Folder`, `Output`; a tuple of these is typed between commas, a list by
    repeating the option. A parameter `**overrides` receives `--config.x=…`. A dataclass
    holds several options; a dictionary annotated by a dataclass and names, those of
    these options that are set. The docstring explains each under `Args`, a dataclass's
    under `Attributes`.
    """
    docstring = inspect.getdoc(function) or ""
    meanings = fields.meanings(docstring, "Args")
    parser = Parser(
        prog=f"jaxner {function.__name__}",
        description=docstring.partition("\nArgs:\n")[0].strip(),
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    hints = typing.get_type_hints(function, include_extras=True)
    for name, parameter in inspect.signature(function).parameters.items():
        hint, inner = hints[name], typing.get_args(hints[name])
        if parameter.kind is parameter.VAR_KEYWORD:
            parser.takes_overrides = True
        elif kind := next(filter(_holds_options, (hint, *inner)), None):
            parts = inner[2:]  # of Annotated[dict, dataclass, *parts]
            defaults = {field.name: field.default for field in dataclasses.fields(kind)}
            parser.groups[name] = (dict if parts else kind, parts or tuple(defaults))
            explained = fields.attributes(kind)
            kinds = typing.get_type_hints(kind, include_extras=True)
            for part in parts or defaults:
                default = None if parts else defaults[part]
                _add(parser, part, kinds[part], default, explained[part])
        else:
            default, are_many = parameter.default, parameter.kind is _MANY
            if are_many or parameter.kind is parameter.POSITIONAL_ONLY:
                parser.positional.append(name)
            _add(parser, name, hint, [] if are_many else default, meanings[name])
    for name, meaning in _COMMON.items():
        parser.add_argument(f"--{name}", metavar="TEXT", help=meaning)
    return parser


def _holds_options(hint: Any) -> bool:
    return isinstance(hint, type) and dataclasses.is_dataclass(hint)


def _add(parser: Parser, name: str, hint: Any, default: Any, meaning: str) -> None:
    """Adds the option or argument of a parameter."""
    if typing.get_origin(hint) in (typing.Union, types.UnionType):
        hint = typing.get_args(hint)[0]  # the one that can be typed
    flag = f"--{_SHORT.get(name, name).rstrip('_').replace('_', '-')}"
    options: dict[str, Any] = {"help": meaning, "default": default}
    if hint is bool:
        switch = argparse.BooleanOptionalAction
        parser.add_argument(flag, dest=name, action=switch, help=meaning)
        parser.set_defaults(**{name: default})  # not in the help
        return
    if typing.get_origin(hint) is list:
        (hint,) = typing.get_args(hint)
        options["action"] = "append"
    (kind,) = fields.kinds(hint)
    if kind.rule is fields.OUTPUT:
        parser.outputs.add(name)
    metavar = {int: "N", float: "X", Path: "FILE"}.get(kind.type, "TEXT")
    if isinstance(kind.rule, fields.NoFile):
        metavar = "FOLDER"
    if type(kind.rule) is fields.OneOf:
        metavar = "NAME"
        options["help"] += f" One of {kind}."
    options["metavar"] = f"{metavar},…" if kind.is_several else metavar
    options["type"] = fields.argument(hint)
    is_needed = default in (inspect.Parameter.empty, dataclasses.MISSING)
    if default and not is_needed and "default" not in meaning.lower():
        values = default if isinstance(default, tuple) else (default,)
        options["help"] += f" Default: {','.join(map(str, values))}."
    if name in parser.positional:
        options["metavar"] = name.upper()
        options["nargs"] = "*" if default == [] else None if is_needed else "?"
        parser.add_argument(name, **options)
    else:
        parser.add_argument(flag, dest=name, required=is_needed, **options)
