"""The command line: `jaxner COMMAND …`, or `python -m jaxner COMMAND …`.

Each command is a module of `jaxner.commands`; a call imports only its own module.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from absl import logging


def main(arguments: Sequence[str] | None = None) -> None:
    """Runs the command line.

    Args:
        arguments: By default, those of the script.
    """
    given = sys.argv[1:] if arguments is None else list(arguments)
    command, rest = (given[0], given[1:]) if given else ("", [])
    if command == "train":
        from jaxner.commands import train

        train.main(rest)
    elif command == "evaluate":
        from jaxner.commands import evaluate

        evaluate.main(rest)
    else:
        _run(parser().parse_args(given))


def parser() -> argparse.ArgumentParser:
    """Returns the parser; train and evaluate also have absl flags."""
    from jaxner.commands import (
        cache,
        calibrate,
        check,
        compare,
        convert,
        flagged,
        reproduce,
        score,
        show,
        sweep,
        tag,
    )

    top = flagged.Parser(
        prog="jaxner", description="Trains and uses taggers; see `jaxner COMMAND -h`."
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
    reproduce.declare(commands)
    for one in commands.choices.values():
        one.add_argument("--cache", help=cache.HELP)
    return top


def _run(options: argparse.Namespace) -> None:
    from jaxner.commands import cache, flagged

    logging.set_verbosity(logging.ERROR)  # Orbax tells a lot
    try:
        cache.enable(options.cache)
        options.run(options)
    except (ValueError, OSError, ImportError) as error:
        flagged.end(f"jaxner: {error}")


if __name__ == "__main__":
    main()
