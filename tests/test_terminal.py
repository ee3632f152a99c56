"""What a command shows on a terminal: whole words, and the cursor."""

import contextlib
import io

import pytest
from rich.text import Text

from jaxner import cli, spellings
from jaxner.commands.scores import score
from jaxner.evaluation.report import Table
from jaxner.terminal import LineConsole, ProgressLine


def lines_of(text, **options):
    file = io.StringIO()
    LineConsole(file=file, width=30, **options).print(text)
    return file.getvalue().splitlines()


def test_lines_are_wrapped_between_words_on_a_terminal_alone():
    text = f"Everything is in /{'long/' * 9}run"
    assert lines_of(text) == [text]
    first, *path = lines_of(text, force_terminal=True)
    assert first.rstrip() == "Everything is in"
    assert "".join(path) == text.split()[-1]  # which is not lost


@pytest.mark.parametrize("width", [30, 50, 80])
def test_numbers_are_whole_on_a_narrow_terminal(width):
    names = ["type", "precision", "F1", "gold"]
    for label in ("Bezeichnung" * 4, "北京市海淀区中关村大街研究所一二"):
        table, file = Table(names, [[label, 12.34, 36.36, 9]]), io.StringIO()
        LineConsole(file=file, width=width, force_terminal=True).print(table)
        text = file.getvalue()
        assert all(word in text for word in (*names, "12.34", "36.36"))
        assert "…" not in text


def test_the_cursor_is_never_hidden():
    # A signal ends a command at once: nothing would show the cursor again.
    file = io.StringIO()
    with LineConsole(file=file, width=30, force_terminal=True).status("Waiting"):
        pass
    assert "Waiting" in file.getvalue()
    assert "\x1b[?25l" not in file.getvalue()


@pytest.mark.parametrize("form", [str, Text, lambda x: Table([x], [[x]])])
def test_markup_and_control_characters_are_text(form):
    text = "\n".join(lines_of(form("[red]x\x1b[7m"), force_terminal=True))
    assert "[red]x\ufffd[7m" in text
    assert "\x1b[7m" not in text


def show_an_old_line(text):
    parser = cli.parser_of(score)
    spellings.modern("score", parser, [text, "--report", "r.html"]).say(False)


@pytest.mark.parametrize("show", [cli.end, ProgressLine().line, show_an_old_line])
def test_lines_have_no_control_characters(show, capsys):
    with contextlib.suppress(SystemExit):
        show("No file a\x1b[7m\u202e.conll")
    assert "No file a\ufffd[7m\ufffd.conll" in capsys.readouterr().err
