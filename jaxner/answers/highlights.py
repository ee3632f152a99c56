"""Text with coloured entities and their probabilities, as `jaxner show` shows it."""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import Any

from rich.console import Console
from rich.text import Text

from jaxner.answers.entities import Entity, entities, entity_types
from jaxner.arguments import expect
from jaxner.errors import InputError
from jaxner.tagger import Tagger
from jaxner.wording import printable

# Black on each of these has a contrast of at least 7 : 1.
_COLOURS = (
    *("#ffd27f", "#9fd8ff", "#b8e6a0", "#ffb3c1"),
    *("#d3c0ff", "#f6ef8f", "#9ee8d8", "#e6c9a8"),
)
_PAGE = """<!DOCTYPE html>
<html lang="en"><meta charset="utf-8"><title>jaxner</title>
<meta name="viewport" content="width=device-width, initial-scale=1">
<style>:root {{ color-scheme: light dark; }}
pre {{ unicode-bidi: plaintext; white-space: pre-wrap; overflow-wrap: anywhere;
  line-height: 1.8; font-family: system-ui, sans-serif; margin: 2rem auto;
  max-width: 50rem; }}</style>
<pre>{code}</pre></html>
"""
_SNIPPET = """<pre style="unicode-bidi: plaintext; white-space: pre-wrap;
  line-height: 1.8; font-family: inherit">{code}</pre>"""


def highlighted(text: str, mentions: Sequence[Entity], types: Sequence[str]) -> Text:
    """Returns a text with its entities, from left to right, coloured by their types."""
    rich_text, end = Text(), 0
    for entity in mentions:
        colour = _COLOURS[types.index(entity.type) % len(_COLOURS)]
        rich_text.append(printable(text[end : entity.start_char]))
        rich_text.append(printable(entity.text), style=f"bold #000000 on {colour}")
        # At most 99, since no entity is certain.
        percent = min(int(100 * entity.probability), 99)
        mark = f" {printable(entity.type)}\u00a0{percent}%"  # no line break inside
        rich_text.append(mark, style=f"#000000 on {colour}")
        end = entity.end_char
    rich_text.append(printable(text[end:]))
    return rich_text


def show(tagger: Tagger, text: str, **options: Any) -> Shown:
    """Returns a text that a notebook or a terminal shows with its entities.

    `options` are those of `jaxner.entities`, whose errors it raises; but no `n_best`.

    Example:
        >>> import jaxner
        >>> view = show(jaxner.load("runs/grn"), "Ms. Preston left Lakeside.")
        >>> "Preston" in view._repr_html_()
        True
    """
    expect(isinstance(text, str), "one text, a string", text)
    if "n_best" in options:
        raise InputError("show has no n_best: entities of several labellings overlap")
    mentions = entities(tagger, text, **options)
    return Shown(highlighted(text, mentions, entity_types(tagger)))


class Shown:
    """A text with its entities, which notebooks draw and terminals print."""

    def __init__(self, text: Text):
        self._text = text

    def _repr_html_(self) -> str:
        return page(self._text, _SNIPPET)

    def __repr__(self) -> str:
        console = Console(highlight=False, soft_wrap=True, force_jupyter=False)
        with console.capture() as capture:
            console.print(self._text)
        return capture.get().rstrip("\n")


def page(text: Text, template: str = _PAGE) -> str:
    """Returns a page of HTML that needs no network and no scripts."""
    look: Any = {"width": 10**6, "force_terminal": True, "color_system": "truecolor"}
    look["force_jupyter"] = False  # which would draw the text, too
    console = Console(record=True, file=io.StringIO(), soft_wrap=True, **look)
    console.print(text)
    return console.export_html(code_format=template, inline_styles=True)
