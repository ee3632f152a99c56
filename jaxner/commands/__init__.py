"""The commands of `jaxner`: each is a typed function, and its docstring is the help.

`jaxner.cli` reads the options from the signature, and prints what a function returns as
JSON on demand. A module here imports little before a command runs, so that help comes
at once.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

SPLITS = ("train", "dev", "test")  # as in `data.corpora`, which takes long to import
STDIN = Path("-")


def load(run: Path) -> Any:
    """Returns a run's tagger, and says what takes the time until its first result."""
    note(f"Loading {run} (the first results wait for programs that compile) …")
    from jaxner import tagging

    return tagging.load(str(run))


def note(text: object) -> None:
    """Prints what is no result: to standard error."""
    from jaxner.terminal import LineConsole

    LineConsole(stderr=True).print(text)
