"""Shows text with coloured entities and their probabilities.

    jaxner show --workdir runs/grn article.txt
    echo "Ms Preston left Lakeside." | jaxner show --workdir runs/grn
    jaxner show --workdir runs/grn article.txt --html article.html

jaxner splits the raw text into sentences and tokens. `--min-probability`
leaves out less probable entities; `--one-sentence-a-line` reads each line as
a sentence.
"""

from __future__ import annotations

import argparse
import io
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.text import Text

from jaxner import fields, tagger, writing
from jaxner.answers.entity import Entity, entities
from jaxner.answers.entity_arrays import entity_types
from jaxner.data import tokens

# Black on each of these has a contrast of at least 7 : 1.
COLOURS = (
    "#ffd27f",
    "#9fd8ff",
    "#b8e6a0",
    "#ffb3c1",
    "#d3c0ff",
    "#f6ef8f",
    "#9ee8d8",
    "#e6c9a8",
)
_PAGE = """<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><title>jaxner</title>
<meta name="viewport" content="width=device-width, initial-scale=1">
<style>
body {{ background: #ffffff; color: #1c1c1c; margin: 2rem auto; max-width: 50rem;
  padding: 0 1rem; }}
pre {{ white-space: pre-wrap; overflow-wrap: anywhere; line-height: 1.8;
  font-family: system-ui, sans-serif; }}
@media (prefers-color-scheme: dark) {{
  body {{ background: #16181c; color: #e6e6e6; }}
}}
{stylesheet}
</style></head><body><pre>{code}</pre></body></html>
"""


def declare(commands: Any) -> None:
    """Adds the command to the subparsers of `jaxner`."""
    one = commands.add_parser(
        "show",
        help="shows text with its entities",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    one.add_argument(
        "file", nargs="?", help="raw text in UTF-8; default: standard input"
    )
    one.add_argument("--workdir", required=True, help="folder of the run")
    one.add_argument("--html", help="file to write a page to, instead of the terminal")
    about = "leave out less probable entities; from 0 to 1, default: 0"
    share = fields.argument(fields.Share)
    one.add_argument("--min-probability", type=share, default=0.0, help=about)
    about = "read each line of the text as one sentence"
    one.add_argument("--one-sentence-a-line", action="store_true", help=about)
    one.set_defaults(run=show)


def show(options: argparse.Namespace) -> None:
    """Runs `jaxner show`."""
    writing.check(options.html, options.file)
    params = tagger.load(options.workdir)
    types = entity_types(params)
    text = _read(options.file)
    found = entities(
        params,
        text,
        min_probability=options.min_probability,
        tokeniser=lines if options.one_sentence_a_line else None,
    )
    shown = highlighted(text, found, types)
    if options.html:
        Path(options.html).write_text(page(shown), "utf-8")
        print(f"The page is in {options.html}")
    else:
        Console(highlight=False, soft_wrap=True).print(shown)


def _read(path: str | None) -> str:
    if path is None or path == "-":
        return sys.stdin.read()
    if not Path(path).is_file():
        raise FileNotFoundError(
            f"There is no file {path}. To show a sentence, write it to the command: "
            'echo "Ms Preston left Lakeside." | jaxner show --workdir FOLDER'
        )
    raw = Path(path).read_bytes()
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError as error:
        line = raw[: error.start].count(b"\n") + 1
        raise ValueError(
            f"{path}:{line}: expected text in UTF-8, got the byte "
            f"0x{raw[error.start]:02x}. Convert it: iconv -f LATIN1 -t UTF-8 {path}"
        ) from None


def lines(text: str) -> list[list[tuple[int, int]]]:
    """Returns the offsets of tokens, with each line as a sentence.

    Example:
        >>> lines("Rome fell\\n\\nIt rose")
        [[(0, 4), (5, 9)], [(11, 13), (14, 18)]]
    """
    found, start = [], 0
    for line in text.splitlines(keepends=True):
        places = [(t.start + start, t.end + start) for t in tokens.tokenise(line)]
        if places:
            found.append(places)
        start += len(line)
    return found


def highlighted(text: str, found: Sequence[Entity], types: Sequence[str]) -> Text:
    """Returns a text with coloured entities, each with type and probability.

    Args:
        text: The raw text.
        found: Its entities, from left to right, without overlaps.
        types: All types, which determine the colours.

    Example:
        >>> one = Entity("Rome", 0, 1, 0, 4, "LOC", 0.974)
        >>> highlighted("Rome fell", [one], ["LOC"]).plain
        'Rome LOC\\xa097% fell'
    """
    shown, end = Text(), 0
    for entity in found:
        colour = COLOURS[types.index(entity.type) % len(COLOURS)]
        shown.append(_printable(text[end : entity.start_char]))
        shown.append(_printable(entity.text), style=f"bold #000000 on {colour}")
        # At most 99, since no entity is certain.
        percent = min(int(100 * entity.probability), 99)
        mark = f" {_printable(entity.type)}\u00a0{percent}%"  # no line break inside
        shown.append(mark, style=f"#000000 on {colour}")
        end = entity.end_char
    shown.append(_printable(text[end:]))
    return shown


def _printable(text: str) -> str:
    """Replaces control characters and unpaired surrogates."""

    def is_safe(c: str) -> bool:
        is_control = c < " " or "\x7f" <= c < "\xa0" or "\ud800" <= c < "\ue000"
        return c in "\n\t" or not is_control

    return "".join(c if is_safe(c) else "\ufffd" for c in text)


def page(shown: Text) -> str:
    """Returns a page of HTML that needs no network and no scripts."""
    console = Console(
        record=True, file=io.StringIO(), width=10**6, force_terminal=True,
        color_system="truecolor", highlight=False, soft_wrap=True,
    )  # fmt: skip
    console.print(shown)
    return console.export_html(code_format=_PAGE, inline_styles=True)
