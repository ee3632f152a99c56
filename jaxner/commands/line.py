"""The parser of `jaxner COMMAND …`; each command is a module beside this one."""

from __future__ import annotations

import argparse
import contextlib
import functools
from collections.abc import Iterator, Sequence


def run(arguments: Sequence[str]) -> None:
    """Runs a command; imports only its own module.

    Args:
        arguments: The command's name and its arguments.
    """
    command, rest = (arguments[0], arguments[1:]) if arguments else ("", [])
    if command == "train":
        with _starting():
            from jaxner.commands import train
        train.main(rest)
    elif command == "evaluate":
        with _starting():
            from jaxner.commands import evaluate
        evaluate.main(rest)
    else:
        with _starting():
            declared = parser()
        _run(declared.parse_args(arguments or ["--help"]))


@contextlib.contextmanager
def _starting() -> Iterator[None]:
    """Shows on a terminal that something is imported."""
    from jaxner.terminal import LineConsole

    console = LineConsole()
    shown = console.status("Starting …") if console.is_terminal else None
    with shown or contextlib.nullcontext():
        yield


def parser() -> argparse.ArgumentParser:
    """Returns the parser; train and evaluate also have absl flags."""
    from jaxner.commands import (
        cache,
        calibrate,
        check,
        compare,
        convert,
        flagged,
        score,
        show,
        sweep,
        tag,
    )
    from jaxner.evaluation.scoring import jaxner_version

    top = flagged.Parser(
        prog="jaxner",
        description="Trains and uses taggers. `jaxner COMMAND -h` explains a command.",
    )
    about = "print the version, and end"
    top.add_argument(
        "--version", action="version", version=jaxner_version(), help=about
    )
    commands = top.add_subparsers(dest="command", required=True, metavar="COMMAND")
    commands.add_parser("train", help="trains a tagger")
    commands.add_parser("evaluate", help="scores a trained tagger")
    check.declare(commands)
    calibrate.declare(commands)
    show.declare(commands)
    convert.declare(commands)
    score.declare(commands)
    compare.declare(commands)
    tag.declare(commands)
    sweep.declare(commands)
    for one in commands.choices.values():
        one.add_argument("--cache", help=cache.HELP)
    return top


def _run(options: argparse.Namespace) -> None:
    from jaxner.commands import cache, flagged
    from jaxner.data.readers import remedies

    try:
        cache.enable(options.cache)
        with flagged.plainly():
            options.run(options)
    except (ValueError, OSError, ImportError) as error:
        error = remedies.of_command(
            error, functools.partial(flagged.option_of, options)
        )
        flagged.end(f"jaxner: {error}")
