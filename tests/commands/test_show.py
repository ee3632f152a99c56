"""Text shown with its entities, in the terminal and as a page."""

import io
from html.parser import HTMLParser

import pytest

import jaxner
from jaxner import __main__
from jaxner.answers.entity import Entity
from jaxner.commands import tagging as show
from jaxner.data import corpora


@pytest.fixture(scope="module")
def text(params, corpus):
    """A text in which the tiny tagger finds entities, and what a page must escape."""
    examples = corpora.load(None, "dev", directory=corpus).examples
    texts = [" ".join(example.tokens) for example in examples]
    found = jaxner.entities(params, texts, raw=True)
    some = [t for t, its in zip(texts, found, strict=True) if its][:3]
    assert some
    return "\n\n".join([*some, "Milan <b> beat  Ajax & Rome\n"])


class Reader(HTMLParser):
    """Collects the text and the links of a page."""

    def __init__(self):
        super().__init__()
        self.text, self.links, self.stack = [], [], []

    def handle_starttag(self, tag, attrs):
        self.links += [v for k, v in attrs if k in ("src", "href")]
        self.stack += [tag] * (tag not in ("meta", "link"))

    def handle_endtag(self, tag):
        assert self.stack.pop() == tag

    def handle_data(self, data):
        if "pre" in self.stack:
            self.text.append(data)


def without_marks(text, found):
    for e in found:
        percent = min(int(100 * e.probability), 99)
        mark = f"{e.text} {e.type}\u00a0{percent}%"
        assert mark in text
        text = text.replace(mark, e.text, 1)
    return text


def test_the_terminal_shows_text_and_entities(finished, params, text, tmp_path, capsys):
    (tmp_path / "a.txt").write_text(text, encoding="utf-8")
    __main__.main(["show", str(tmp_path / "a.txt"), "--workdir", str(finished)])
    found = jaxner.entities(params, text)
    assert found
    assert without_marks(capsys.readouterr().out.rstrip("\n"), found) == text.rstrip()


def test_the_input_is_read(finished, text, capsys, monkeypatch):
    monkeypatch.setattr("sys.stdin", io.StringIO(text))
    __main__.main(["show", "--workdir", str(finished), "--min-probability", "1"])
    assert capsys.readouterr().out.rstrip() == text.rstrip()


def test_the_page_says_the_same(finished, params, text, tmp_path):
    """And it needs no network."""
    (tmp_path / "a.txt").write_text(text, encoding="utf-8")
    page = tmp_path / "a.html"
    arguments = ["show", str(tmp_path / "a.txt"), "--workdir", str(finished)]
    __main__.main([*arguments, "--html", str(page)])
    reader = Reader()
    reader.feed(page.read_text(encoding="utf-8"))
    assert not reader.stack
    assert not reader.links
    found = jaxner.entities(params, text)
    said = "".join(reader.text).strip()
    assert without_marks(said, found) == text.strip()
    assert "background-color" in page.read_text(encoding="utf-8")


def test_lines_may_be_sentences(finished, text, tmp_path, capsys):
    (tmp_path / "a.txt").write_text(text, encoding="utf-8")
    arguments = ["show", str(tmp_path / "a.txt"), "--workdir", str(finished)]
    __main__.main([*arguments, "--one-sentence-a-line"])
    assert "Ajax & Rome" in capsys.readouterr().out


def test_what_would_steer_a_terminal_is_replaced():
    one = Entity("a\x1b[2J", 0, 1, 0, 5, "X", 1.0)
    shown = show.highlighted("a\x1b[2J\x9bz\ud800\t", [one], ["X"])
    assert shown.plain == "a\ufffd[2J X\xa099%\ufffdz\ufffd\t"


def test_every_colour_can_be_read():
    """Black on it has a contrast of at least 7 : 1 (WCAG AAA)."""
    assert len(set(show._COLOURS)) == len(show._COLOURS)
    for colour in show._COLOURS:
        parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
        linear = [
            p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts
        ]
        light = 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
        assert (light + 0.05) / 0.05 >= 7


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["{bad}"], "bad.txt:2: expected text in UTF-8, got the byte 0xe9"),
        (["nowhere.txt"], "There is no file nowhere.txt. To show a sentence"),
        (["{bad}", "--html", "/no/where"], "no folder to write /no/where"),
        (["{bad}", "--min-probability", "3"], "must be in [0, 1], got 3.0"),
    ],
)
def test_wrong_input_says_what_is_wrong(arguments, message, finished, tmp_path, capsys):
    (tmp_path / "bad.txt").write_bytes(b"Rome\ncaf\xe9")
    given = [a.format(bad=tmp_path / "bad.txt") for a in arguments]
    with pytest.raises(SystemExit):
        __main__.main(["show", *given, "--workdir", str(finished)])
    shown = capsys.readouterr()
    assert message in shown.out + shown.err
