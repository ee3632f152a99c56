"""Old spellings of commands, which work until the next release and say the new ones."""

from __future__ import annotations

import contextlib
import os
import shlex
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from jaxner.errors import InputError, UsageError
from jaxner.wording import printable

if TYPE_CHECKING:
    from jaxner.cli import Parser

# Options that are arguments now, in this order; others have another name.
_ARGUMENTS = ("--config", "--workdir", "--model", "--refresh", "--input")
_NAMES = {"--from": "--format", "--data": "--split", "--html": "--output"}
_NAMES |= {"--report": "--output", "--onnx": "--output"}
# Options that are commands now.
_COMMANDS = {
    ("evaluate", "--report"): "report",
    ("export", "--onnx"): "export-onnx",
    ("export", "--refresh"): "refresh",
}
_SCRIPT_FLAGS = {"--config", "--workdir"}  # what the scripts in a clone are called with


class Line(NamedTuple):
    """A command line in the present spelling, and the old options in it."""

    name: str
    positionals: list[str]
    options: list[tuple[str, str | None]]
    old: set[str]
    json: Path | None  # a file that takes what --json prints

    @property
    def words(self) -> list[str]:
        """The words after the name of the command."""
        pairs = (f if v is None else f"{f}={v}" for f, v in self.options)
        return [*pairs, "--", *self.positionals]

    def say(self, is_script: bool) -> None:
        """Prints the line if it was spelt otherwise; scripts may have some options."""
        if not (self.old - _SCRIPT_FLAGS if is_script else self.old):
            return
        words = [self.name, *self.positionals]
        for flag, value in self.options:
            words.append("-o" if flag == "--output" else flag)
            if value and value.startswith("-") and value != "-":
                words[-1] += f"={value}"
            elif value is not None:
                words.append(value)
        end = f" --json > {shlex.quote(str(self.json))}" if self.json else ""
        line = printable(f"jaxner {shlex.join(words)}{end}")
        print(f"Old spelling, gone with the next release. Use: {line}", file=sys.stderr)


def modern(name: str, parser: Parser, words: Sequence[str]) -> Line:
    """Returns a command line in the present spelling.

    `UsageError`: an option is a command of its own now, and another is not for it.
    """
    line = [*_joined(parser, words)]
    options, positionals = parser.split(line)
    command, file, arguments, old = name, None, {}, {*words} - {*line}
    pairs: list[tuple[str, str | None]] = []
    for flag, value in options:
        is_old = flag not in parser.actions and flag in (*_ARGUMENTS, *_NAMES)
        command = _COMMANDS.get((name, flag), command) if is_old else command
        if is_old and value is None and flag in _SCRIPT_FLAGS:
            raise UsageError(f"{flag}: expected one argument")
        if flag == "--json" and value is not None:
            file = _replaceable(Path(value))
        elif not is_old or value is None:
            pairs.append((flag, value))
            continue
        elif flag in _NAMES or (name, flag) == ("train", "--workdir"):
            pairs.append((_NAMES.get(flag, "--output"), value))
        else:
            arguments[flag] = value
        old.add(flag)
    paths = [arguments[flag] for flag in _ARGUMENTS if flag in arguments]
    names = [flag for flag, _ in pairs]
    if command != name and (file or names.count("--output") > 1):
        raise UsageError(f"jaxner {command} is a command of its own, and writes alone")
    pages = [Path(v) for flag, v in pairs if v and flag == "--output"]
    if file in [path.with_suffix(".json") for path in pages if path.name]:
        raise InputError(
            f"Expected two files, got --json and --output, which share {file}"
        )
    if name == "evaluate":
        paths = [path for text in paths for path in _divided(text)]
        if "--workdir" in old and "--split" not in names:
            pairs.append(("--split", "test"))  # which was the default
    if name == "convert" and len(positionals) == 2:
        old.add("TARGET")
        pairs.append(("--output", positionals.pop()))
    if name == "compare" and len(positionals) == 2:
        first, second = map(_divided, positionals)
        if len(first + second) > 2:
            old.add(",")
            positionals = first
            pairs += [("--against", path) for path in second]
    return Line(command, [*paths, *positionals], pairs, old, file)


def _replaceable(path: Path) -> Path:
    """Returns the path of a file; InputError for one with other content than JSON's."""
    with contextlib.suppress(OSError):
        start = path.read_bytes()[:2] if path.is_file() else b""
        if start not in (b"", b"{\n"):
            raise InputError("exists, and is not what --json wrote", path)
    return path


def _divided(text: str) -> list[str]:
    """Returns the paths between commas, unless there is a path with such a name."""
    return [text] if os.path.exists(os.path.expanduser(text)) else text.split(",")


def _joined(parser: Parser, words: Sequence[str]) -> Iterator[str]:
    """Yields words, without `--no-x` that switches off what `--x` alone switches on.

    `--json FILE` is one word, if the name of the file ends with .json. `UsageError`: it
    may also mean a switch, and a file to read.
    """
    takes_many = any(action.nargs == "*" for action in parser._actions)
    rest = [*words]
    while rest:
        word = rest.pop(0)
        flag = word.replace("_", "-")
        is_off = flag.startswith("--no-") and flag not in parser.actions
        if is_off and f"--{flag[5:]}" in parser.actions:
            continue
        if word == "--json" and rest and rest[0].endswith(".json"):
            if takes_many and os.path.exists(rest[0]):
                remedy = f"put {rest[0]} first to read it, or > {rest[0]} to write it"
                raise UsageError(f"--json {rest[0]} may mean two things: {remedy}")
            word = f"--json={rest.pop(0)}"
        yield word
