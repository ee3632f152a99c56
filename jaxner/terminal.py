"""Lines that people read while a command works: they fit the terminal."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from typing import Any

from rich.console import Console
from rich.segment import Segment

from jaxner.wording import printable


class LineConsole(Console):
    """A console whose lines fit a terminal; in files and pipes they stay whole.

    Text is shown as it is, but for control characters: names of files may have brackets
    and colons. On a terminal, lines are wrapped between words; what is longer than a
    line, such as a path, goes on lines of its own.
    """

    def __init__(self, **options: Any):
        super().__init__(highlight=False, markup=False, emoji=False, **options)
        if not self.is_terminal and "width" not in options:
            self.width = 1000  # tables keep all of their columns

    def print(self, *objects: Any, soft_wrap: bool | None = None, **options: Any):
        """Prints as `rich.console.Console.print` does."""
        soft_wrap = not self.is_terminal if soft_wrap is None else soft_wrap
        super().print(*objects, soft_wrap=soft_wrap, crop=False, **options)

    def render(self, *arguments: Any, **options: Any) -> Iterator[Segment]:
        """Renders as `rich.console.Console.render`, without control characters."""
        for part in super().render(*arguments, **options):
            yield part if part.control else part._replace(text=printable(part.text))

    def on_broken_pipe(self):
        """Lets the error end the command; rich would end it with another status."""
        raise BrokenPipeError

    def show_cursor(self, show: bool = True) -> bool:
        """Never hides the cursor: a command that a signal ends cannot show it again."""
        return show and super().show_cursor()


class ProgressLine:
    """Prints progress to standard error; on a terminal, each line replaces the last."""

    def __init__(self) -> None:
        self._last = time.perf_counter()
        self._is_terminal = sys.stderr.isatty()

    def __call__(self, progress: Any) -> None:
        """Prints progress if it is time: each second on a terminal, else each 30."""
        if time.perf_counter() - self._last >= (1 if self._is_terminal else 30):
            self.line(progress.summary())

    def line(self, text: str, is_last: bool = False) -> None:
        """Prints a line; the last one stays on a terminal."""
        self._last = time.perf_counter()
        start = "\r\x1b[2K" if self._is_terminal else ""
        end = "" if self._is_terminal and not is_last else "\n"
        print(f"{start}{printable(text)}", end=end, file=sys.stderr, flush=True)
