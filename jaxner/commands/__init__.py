"""The commands of `jaxner`: each is a typed function, and its docstring is the help.

`jaxner.cli` reads the options from the signature, and prints what a function returns as
JSON on demand. A module here imports little before a command runs, so that help comes
at once.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

from jaxner.fields import Folder as Folder
from jaxner.fields import OneOf
from jaxner.fields import Output as Output

SplitName = Literal["train", "dev", "test"]


@dataclasses.dataclass(frozen=True, eq=False)
class OneOfOr(OneOf):
    """Some words, and what else is allowed, which `note` says."""

    allows: Callable[[str], bool] = bool

    def __contains__(self, value: Any) -> bool:
        return super().__contains__(value) or self.allows(value)


def load(run: Path) -> Any:
    """Returns a run's tagger, and says what takes the time until its first result."""
    note(f"Loading {run}; its programs compile if the cache lacks them …")
    from jaxner import tagging

    return tagging.load(str(run))


def note(text: object) -> None:
    """Prints what is no result: to standard error."""
    from jaxner.terminal import LineConsole

    LineConsole(stderr=True).print(text)
