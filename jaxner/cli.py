"""The parser of `jaxner COMMAND …`: options come from a function's signature.

A parameter is an option, a positional-only one an argument; the help is the docstring.
What a command prints on standard output is its result, or with `--json` what its
function returns; notes go to standard error, which `--quiet` leaves out. The module
imports nothing that takes long, and only the module of the command that runs.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import difflib
import functools
import importlib
import inspect
import io
import json
import keyword
import os
import sys
import traceback
import types
import typing
import warnings
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NoReturn

from jaxner import __version__, cache, fields, outputs
from jaxner.errors import InputError, UsageError
from jaxner.wording import printable

GROUPS = {
    "Train": {
        "train": ("training", "trains a tagger"),
        "import": ("training", "makes a run of a token classifier of transformers"),
        "options": ("training", "lists all options of a config"),
    },
    "Use": {
        "tag": ("tagging", "tags a file of any size"),
        "show": ("tagging", "shows text with its entities"),
        "serve": ("serving", "serves a tagger over HTTP, with a page to try it"),
        "select": ("tagging", "chooses sentences worth annotating"),
    },
    "Evaluate": {
        "evaluate": ("evaluate", "scores a run"),
        "report": ("evaluate", "writes a page about one or several runs"),
        "calibrate": ("calibration", "calibrates a run's probabilities"),
        "score": ("scores", "scores a file of predictions of any tagger"),
        "compare": ("scores", "tests whether two systems differ"),
    },
    "Data": {
        "check": ("corpora", "checks labelled text"),
        "convert": ("corpora", "rewrites labelled text in another format or scheme"),
    },
    "Deploy": {
        "export": ("export", "writes a tagger to one file"),
        "refresh": ("export", "renews the programs in such a file"),
        "export-onnx": ("export", "writes a tagger as an ONNX model"),
    },
    "Shell": {"completion": ("completion", "completes commands and options on Tab")},
}
"""The commands: the module of each, and its line in the overview."""
COMMANDS = {name: x for group in GROUPS.values() for name, (x, _) in group.items()}

STATUSES = {
    0: "done",
    1: "findings, or a failure: a file, a run or a config cannot be used",
    2: "wrong use: a command, an option or its value is unknown or missing",
    130: "stopped by Ctrl-C",
    141: "nobody reads the output any more",
    143: "stopped by SIGTERM",
}
"""What a process ends with, and why."""
FAILED, WRONG_USE, CLOSED = 1, 2, 141

_OVERVIEW = """usage: jaxner COMMAND …

Trains and uses taggers. `jaxner COMMAND --help` explains a command.

{}

Exit status:
{}

  --version  prints the version"""
_HELP = ("-h", "-help", "--help")


def run(arguments: Sequence[str], command: str = "") -> None:
    """Runs a command line; `command` is that of a script, if it is one.

    What does not end well raises SystemExit with one of `STATUSES`.
    """
    name, *rest = [*filter(None, [command]), *arguments] or ["--help"]
    _open_streams()
    # An option and its value may be two words.
    with _errors(name, shows_traceback="--verbosity=1" in "=".join(rest)):
        try:
            _run(name, rest, is_script=bool(command))
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
                reader, end = os.pipe()
                os.close(reader)
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


def _run(name: str, rest: list[str], is_script: bool) -> None:
    if name == "help" and rest[:1] and rest[0] in COMMANDS:
        name, rest = rest[0], ["--help"]
    if name in (*_HELP, "help"):
        print(_overview())
        return
    if name == "--version":
        print(__version__)
        return
    rule = fields.OneOf(COMMANDS)
    if message := fields.Kind(str, rule).problem(name, "command"):
        end(f"jaxner: {message}", WRONG_USE)
    from jaxner import spellings

    parser = parser_of(function_of(name))
    words = [word for word in rest if word not in _HELP]
    line = spellings.modern(name, parser, words)
    if words == rest:
        line.say(is_script)
        call(function_of(line.name), line.words, line.json)
        return
    print(parser.format_help())
    if name == "train" and line.positionals:
        function_of("options")(line.positionals[0])


def _overview() -> str:
    parts = []
    for title, group in GROUPS.items():
        lines = (f"  {name:12} {text}" for name, (_, text) in group.items())
        parts.append("\n".join([f"{title}:", *lines]))
    statuses = (f"  {status:3}  {text}" for status, text in STATUSES.items())
    return _OVERVIEW.format("\n\n".join(parts), "\n".join(statuses))


def function_of(name: str) -> Callable:
    """Returns the function of a command."""
    module = importlib.import_module(f"jaxner.commands.{COMMANDS[name]}")
    return getattr(module, name.replace("-", "_") + "_" * keyword.iskeyword(name))


def call(function: Callable, arguments: Sequence[str], file: Path | None = None) -> Any:
    """Calls a command's function with the values of a command line.

    What it returns goes as JSON to standard output with `--json`, else to `file`, if
    there is one. If its "passed" is false, the process ends with a status.
    """
    parser = parser_of(function)
    values = parser.parse(arguments)
    cache.use(values["cache"])
    paths = [file, *(values[name] for name in parser.outputs)]
    is_taken = any(path and outputs.descriptor(path) == 1 for path in paths)
    is_json, is_quiet = values.get("json"), values["quiet"]
    if is_json and is_taken:
        raise UsageError("--json prints on standard output: name a file by --output")
    rest = [values[name] for name in values.keys() - parser.outputs]
    lists = (x if isinstance(x, (list, tuple)) else [x] for x in rest)
    sources = [x for words in lists for x in words if isinstance(x, Path)]
    outputs.check(*paths, sources=sources)
    binding = parser.bind(values)
    with _streams(is_quiet, has_no_output=is_json or is_taken):
        content = function(*binding.args, **binding.kwargs)
    if content is not None and (is_json or file):
        text = json.dumps(content, indent=2, ensure_ascii=False)
        outputs.write_text(file or "-", f"{text}\n")
    if isinstance(content, dict) and not content.get("passed", True):
        raise SystemExit(FAILED)
    return content


def end(text: str, status: int = FAILED) -> NoReturn:
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
        raise SystemExit(CLOSED) from None
    except Exception as error:
        if shows_traceback or not _is_users(error):
            raise
        text = str(error)
        if isinstance(error, AssertionError):  # of JAX, without a word
            text = f"JAX finds no device of JAX_PLATFORMS={os.getenv('JAX_PLATFORMS')}"
        if isinstance(error, OSError) and error.filename:  # not the number of the error
            text = f"{error.filename}: {error.strerror}"
        status = WRONG_USE if isinstance(error, UsageError) else FAILED
        end(f"jaxner {name}: {text}", status)


def _is_users(error: Exception) -> bool:
    """Returns whether an error is about what the user gave: we raise it on purpose."""
    if isinstance(error, (InputError, OSError, FloatingPointError)):
        return True
    *_, (frame, _) = traceback.walk_tb(error.__traceback__)
    file = Path(frame.f_code.co_filename)
    is_ours = Path(__file__).parent in file.parents
    has_no_device = file.name == "xla_bridge.py"  # of JAX, as it begins
    return has_no_device or (is_ours and isinstance(error, (ValueError, ImportError)))


@contextlib.contextmanager
def _streams(is_quiet: bool, has_no_output: bool) -> Iterator[None]:
    """Shows warnings in a line each, and the log of Orbax not at all.

    If it is quiet, drops all else on standard error. What is printed goes there, too,
    where standard output takes other content.
    """
    # If not quiet, what is standard error by then, perhaps above a spinner.
    stream = sys.stderr if is_quiet else None

    def show(message: object, *details: Any, **options: Any) -> None:
        print(f"Warning: {printable(str(message))}", file=stream or sys.stderr)

    with warnings.catch_warnings(), contextlib.ExitStack() as stack:
        warnings.showwarning = show
        with contextlib.suppress(ImportError):  # who serves a file has no Orbax
            from absl import logging

            stack.callback(logging.set_verbosity, logging.get_verbosity())
            logging.set_verbosity(logging.ERROR)
        if is_quiet:
            sink = stack.enter_context(open(os.devnull, "w", errors="replace"))
            stack.enter_context(contextlib.redirect_stderr(sink))
        if has_no_output:
            stack.enter_context(contextlib.redirect_stdout(sys.stderr))
        yield


# --- From a signature to options ------------------------------------------------------

_REST = inspect.Parameter.VAR_POSITIONAL
_ARGUMENTS = (_REST, inspect.Parameter.POSITIONAL_ONLY)
_SHORT = {"split_sentences": "sentences"}
# What the help shows for values whose form their type does not tell.
_METAVARS = {
    "data": "FOLDER",
    "cache": "FOLDER",
    "comments": "PREFIX",
    "contextual": "FILE",
    "coordinator": "HOST:PORT",
    "host": "ADDRESS",
    "label_names": "NAMES",
    "min_probability": "THRESHOLD",
    "model": "OPTION=VALUE",
    "output": "OUTPUT",
    "proxies": "ADDRESSES",
    "restart": "SEED",
    "revision": "NAME",
    "root_path": "PATH",
    "shard": "I/N",
    "split": "SPLIT",
    "type_": "TYPE",
    "verbosity": "N",
}
_COMMON = {
    "cache": "Folder for compiled programs, or off; default: your cache folder.",
    "verbosity": "1 shows the traceback of an error.",
}


class Parser(argparse.ArgumentParser):
    """The parser of one command; see `parser_of`."""

    def __init__(self, signature: inspect.Signature, **options: Any):
        super().__init__(**options)
        self.signature = signature
        self.outputs: set[str] = set()  # parameters that are files to write
        self.lists: set[str] = set()  # options that take all words up to the next
        self.words: dict[str, Sequence[str]] = {}  # that parameters may be
        # What is called with the options of a parameter that are set, and their names.
        self.groups: dict[str, tuple[Callable, Sequence[str]]] = {}
        self.takes_overrides = "overrides" in signature.parameters  # of a config

    @property
    def actions(self) -> dict[str, argparse.Action]:
        """The options, by each of their spellings."""
        return self._option_string_actions

    def parse(self, words: Sequence[str]) -> dict[str, Any]:
        """Returns the value of each argument and option, as `bind` takes them."""
        options, positionals = self.split(words)
        flags, overrides = [], {}
        for flag, value in options:
            if flag in self.actions:
                if value == "":
                    self.error(f"{flag}: expected a value, got ''")
                flags.append(flag if value is None else f"{flag}={value}")
                continue
            cutoff = 0.85 if self.takes_overrides else 0.6
            close = difflib.get_close_matches(flag, self.actions, 1, cutoff)
            # A parameter that is no option, such as a group of them.
            is_name = flag.removeprefix("--") in self.signature.parameters
            if close or is_name or not (self.takes_overrides and flag[:2] == "--"):
                hint = f". Did you mean {close[0]}?" if close else ""
                self.error(f"unknown option {flag}{hint}")
            overrides[flag[2:]] = "true" if value is None else value
        values = vars(self.parse_args([*flags, "--", *positionals]))
        for name in (self.actions[flag].dest for flag in self.lists):
            values[name] = tuple(values[name] or ())
        return {**values, "overrides": overrides}

    def bind(self, values: dict[str, Any]) -> inspect.BoundArguments:
        """Returns the arguments for the command's function."""
        result = self.signature.bind_partial()
        result.arguments.update(values)
        for name, (kind, parts) in self.groups.items():
            pairs = ((part, values[part]) for part in parts)
            result.arguments[name] = kind(**{k: v for k, v in pairs if v is not None})
        return result

    def split(
        self, words: Sequence[str]
    ) -> tuple[list[tuple[str, str | None]], list[str]]:
        """Returns the options of a line with their values, and its other words.

        Options have their full names. One that is unknown has a value if a word follows
        that is no option.
        """
        options: list[tuple[str, str | None]] = []
        positionals: list[str] = []
        rest = [*words]
        while rest and (word := rest.pop(0)) != "--":
            if word == "-" or not word.startswith("-"):
                positionals.append(word)
                continue
            flag, equals, value = word.partition("=")
            if not word.startswith("--"):
                flag, value = word[:2], word[2:].removeprefix("=")
            elif (name := flag.replace("_", "-")) in self.actions:
                flag = name
            action = self.actions.get(flag)
            if action and flag[:2] != "--":
                flag = action.option_strings[-1]
            takes = rest and (action.nargs != 0 if action else rest[0][:2] != "--")
            if equals or (value and flag != word):
                options.append((flag, value))
            elif not takes or rest[0].partition("=")[0] in {*self.actions, "--"}:
                options.append((flag, None))
            else:
                options.append((flag, rest.pop(0)))
                while flag in self.lists and rest and rest[0][:1] != "-":
                    options.append((flag, rest.pop(0)))
        return options, positionals + rest

    def error(self, message: str) -> NoReturn:
        """Prints what is wrong with the command line, and ends the process."""
        message = message.removeprefix("argument ")
        if message.startswith("unrecognized arguments"):
            message = message.replace("unrecognized", "too many", 1)
            message += "; a file to score goes to --split" * ("--split" in self.actions)
            message += "; a folder of data goes to --data" * ("--data" in self.actions)
        end(f"{self.prog}: {message}", WRONG_USE)


def parser_of(function: Callable) -> Parser:
    """Returns the parser of a command, a function.

    Its parameters are annotated by what `jaxner.fields` can check, a `Literal`, `bool`,
    `Path`, `Folder`, `Output`; a list of these is typed by repeating the option, a
    tuple as several words. A parameter `**overrides` receives `--config.x=…`. A
    dataclass holds several options, below its meaning or its first line; a dictionary
    annotated by a dataclass, those of its options that are set, perhaps only those
    named. The docstring explains each under `Args`, a dataclass's under `Attributes`.
    What a function returns is for `--json`, which `Returns` explains.
    """
    docstring = inspect.getdoc(function) or ""
    parser = Parser(
        inspect.signature(function),
        prog=f"jaxner {function.__name__.rstrip('_').replace('_', '-')}",
        description=docstring.partition("\nArgs:\n")[0].strip(),
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
        add_help=False,
    )
    for name, field in fields.all_of(function).items():
        inner = typing.get_args(field.hint)
        if name in ("quiet", "overrides"):
            continue  # every command has --quiet, few have a use for it
        classes = (x for x in (field.hint, *inner) if isinstance(x, type))
        if kind := next((x for x in classes if dataclasses.is_dataclass(x)), None):
            options = fields.all_of(kind)
            # Those of Annotated[dict, dataclass, *parts].
            parts = inner[2:] or (*options,)
            parser.groups[name] = (dict if inner else kind, parts)
            title = field.meaning or (kind.__doc__ or "").partition("\n")[0]
            group = parser.add_argument_group(title.rstrip("."))
            for part in parts:
                option = options[part]
                option = option._replace(default=None) if inner else option
                _add(parser, group, part, option)
        else:
            _add(parser, parser, name, field)
    parser._positionals.title, parser._optionals.title = "Arguments", "Options"
    common = parser.add_argument_group("Common options")
    if typing.get_type_hints(function).get("return") not in (None, types.NoneType):
        returned = docstring.partition("\nReturns:\n")[2].split()
        meaning = f"Print JSON, and tables on standard error. {' '.join(returned)}"
        common.add_argument("--json", action="store_true", help=meaning)
    meaning = "Print no notes and no progress; warnings stay."
    common.add_argument("-q", "--quiet", action="store_true", help=meaning)
    for name, meaning in _COMMON.items():
        common.add_argument(f"--{name}", metavar=_METAVARS[name], help=meaning)
    common.add_argument("-h", "--help", action="help", help="Print this text.")
    parser.usage = _usage(parser)
    return parser


def _usage(parser: Parser) -> str:
    """Returns the line that shows what a command needs, and where it writes."""
    parts = []
    for action in parser._actions:
        flag, metavar = "".join(action.option_strings[:1]), str(action.metavar)
        text = f"{flag} {metavar}" if flag else metavar
        # An argument's default "" lets a command say itself what it misses.
        is_open = action.nargs == "*" or (not flag and action.default == "")
        if action.required or is_open:
            parts.append(f"{text}{'…' * (action.nargs == '*')}")
        elif not flag or flag == "-o":
            parts.append(f"[{text}]")
    return " ".join([parser.prog, *parts, "[OPTION]…"])


def _add(parser: Parser, group: Any, name: str, field: fields.Field) -> None:
    """Adds the option or argument of a parameter to a group of the parser."""
    parameter = parser.signature.parameters.get(name)
    if parameter and parameter.kind is _REST:
        field = field._replace(default=[])
    hint, default, meaning = field
    is_open = hint == bool | None
    if typing.get_origin(hint) in (typing.Union, types.UnionType):
        hint = typing.get_args(hint)[0]  # what is typed
    flag = f"--{_SHORT.get(name, name).rstrip('_').replace('_', '-')}"
    options: dict[str, Any] = {"help": meaning}
    if hint is bool:
        switch = argparse.BooleanOptionalAction if is_open or default else "store_true"
        options["help"] += f" Default: {flag}." if default else ""
        group.add_argument(flag, dest=name, action=switch, default=None, **options)
        parser.set_defaults(**{name: default})  # not in the help
        return
    if (origin := typing.get_origin(hint)) in (list, tuple):
        parser.lists |= {flag} if origin is tuple else set()
        hint, options["action"] = typing.get_args(hint)[0], "append"
        default = [*default] if default else None
    (kind,) = fields.kinds(hint)
    metavar = {int: "N", float: "X", Path: "FILE"}.get(kind.type, "TEXT")
    if kind.rule is fields.OUTPUT:
        metavar = "FILE"
        parser.outputs.add(name)
    elif isinstance(kind.rule, fields.OneOf):
        metavar = "NAME"
        parser.words[name] = words = [*kind.rule.words]
        options["help"] += f" One of {kind}." * (len(words) > 1)
    is_needed = default is fields.REQUIRED
    if default and not is_needed and "default" not in meaning.lower():
        options["help"] += f" Default: {default}."
    options |= {"type": functools.partial(_read, kind), "default": default}
    if parameter and parameter.kind in _ARGUMENTS:
        nargs = "*" if default == [] else None if is_needed else "?"
        noun = name.removesuffix("s") if nargs == "*" else name
        group.add_argument(name, metavar=noun.upper(), nargs=nargs, **options)
        return
    flags = ["-o", flag] if name == "output" else [flag]
    options["metavar"] = _METAVARS.get(name, metavar) + "…" * (flag in parser.lists)
    group.add_argument(*flags, dest=name, required=is_needed, **options)


def _read(kind: fields.Kind, text: str) -> Any:
    value = kind.read(text)
    if message := kind.problem(value, ""):
        raise argparse.ArgumentTypeError(message.strip())
    return value
