"""Converts character spans in a text to labels of its tokens, and back.

Labels belong to tokens, so a span that begins or ends within a token, or overlaps
another span, has no labels. Such a span is reported with its line and text: as an
error, or, by choice, as dropped or widened to whole tokens.
"""

from __future__ import annotations

import bisect
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from jaxner.data import schemes, tokens
from jaxner.data.readers.examples import Example, Report
from jaxner.data.schemes import Span

UNFIT = ("error", "drop", "widen")
"""What to do with spans that do not match tokens."""

Offsets = Sequence[tuple[int, int]]
Cut = Callable[[str], Offsets]
"""A function from a text to the offsets of its tokens or sentences, in order."""

_BLANKS = re.compile(r"[^ \t\r\n]+")
_REMEDY = (
    "Fix the annotation, or choose another tokeniser (`tokenise`); `unfit='widen'` "
    "extends such spans to whole tokens, `unfit='drop'` leaves them out."
)


class CharSpan(NamedTuple):
    """An entity in a text.

    Attributes:
        start: Its first character.
        end: Its last character plus one.
        type: Its type.
        line: Its line in the file, from 1.
    """

    start: int
    end: int
    type: str
    line: int


def at_blanks(text: str) -> list[tuple[int, int]]:
    """Returns the offsets of tokens separated by spaces, tabs or line ends.

    Example:
        >>> at_blanks("Rome is  old")
        [(0, 4), (5, 7), (9, 12)]
    """
    return [match.span() for match in _BLANKS.finditer(text)]


def lines(text: str) -> list[tuple[int, int]]:
    r"""Returns the offsets of non-empty lines, without line ends.

    Example:
        >>> lines("Rome\nis old\n")
        [(0, 4), (5, 11)]
    """
    return [match.span() for match in re.finditer("[^\n]+", text)]


class Piece(NamedTuple):
    """One sentence of a text.

    Attributes:
        start: First character of the sentence in the text.
        tokens: The tokens.
        labels: Their labels, in BIO.
        text: The text of the sentence.
        offsets: First character and last character plus one of each token in the
            sentence.
    """

    start: int
    tokens: tuple[str, ...]
    labels: tuple[str, ...]
    text: str
    offsets: tuple[tuple[int, int], ...]


def words(text: str) -> list[tuple[int, int]]:
    """Returns the offsets of tokens by the rules of `jaxner.data.tokens`.

    Example:
        >>> words("Rome's old.")
        [(0, 4), (4, 6), (7, 10), (10, 11)]
    """
    return [(token.start, token.end) for token in tokens.tokenise(text)]


def sentences(text: str) -> list[tuple[int, int]]:
    """Returns the offsets of sentences by the rules of `jaxner.data.tokens`.

    Example:
        >>> sentences("Rome is old. Yes.")
        [(0, 12), (13, 17)]
    """
    found = tokens.sentences(text, tokens.tokenise(text))
    return [(sentence[0].start, sentence[-1].end) for sentence in found if sentence]


TOKENISERS: dict[str, Cut] = {"words": words, "blanks": at_blanks}


@dataclass
class Fitter:
    """Converts character spans to labels of tokens.

    Attributes:
        report: Collects the spans that do not match tokens.
        unfit: What to do with them, one of `UNFIT`.
        count: Number of such spans so far.

    Raises:
        ValueError: `unfit` is unknown.
    """

    report: Report
    unfit: str = "error"
    count: int = 0

    def __post_init__(self) -> None:
        if self.unfit not in UNFIT:
            raise ValueError(f"Unknown {self.unfit!r}; known: {', '.join(UNFIT)}")

    def labels(
        self, text: str, offsets: Offsets, spans: Iterable[CharSpan]
    ) -> tuple[str, ...]:
        """Returns the labels of tokens, in BIO.

        Args:
            text: The whole text.
            offsets: Offsets of its tokens, in order.
            spans: Its entities, in any order.
        """
        found = [(self._fit(text, offsets, span), span) for span in spans]
        taken: list[Span] = []
        # Longest first: if two spans overlap, the longer one stays.
        sized = [(fit, span) for fit, span in found if fit is not None]
        for fit, span in sorted(sized, key=lambda x: (x[0].start - x[0].end, x[0])):
            other = next(
                (t for t in taken if t.start < fit.end > fit.start < t.end), None
            )
            if other is None:
                taken.append(fit)
                continue
            its = text[offsets[other.start][0] : offsets[other.end - 1][1]]
            what = "occurs twice" if fit == other else f"overlaps {its!r}"
            self._tell(text, span, what, "left out")
        return tuple(schemes.to_labels(taken, len(offsets), "BIO"))

    def cut(
        self,
        text: str,
        spans: Iterable[CharSpan],
        tokenise: Cut,
        sentences: Cut | None = None,
    ) -> Iterator[Piece]:
        """Splits a text into sentences, and these into tokens.

        Args:
            text: The whole text.
            spans: Its entities.
            tokenise: Finds the tokens of a sentence.
            sentences: Finds the sentences of the text; None: the text is a sentence.

        Yields:
            The sentences with at least one token.
        """
        bounds = sentences(text) if sentences else [(0, len(text))]
        starts = [start for start, _ in bounds]
        within: list[list[CharSpan]] = [[] for _ in bounds]
        for span in spans:
            if not self._is_inside(text, span):
                continue
            i = bisect.bisect_right(starts, span.start) - 1
            start, end = bounds[i] if i >= 0 else (0, 0)
            if span.end <= end:
                moved = span._replace(start=span.start - start, end=span.end - start)
                within[i].append(moved)
            else:
                self.reject(text, span, "is not within a sentence")
        for (start, end), entities in zip(bounds, within, strict=True):
            sentence = text[start:end]
            offsets = tuple((a, b) for a, b in tokenise(sentence))
            labels = self.labels(sentence, offsets, entities)
            if offsets:
                its = tuple(sentence[a:b] for a, b in offsets)
                yield Piece(start, its, labels, sentence, offsets)

    def reject(self, text: str, span: CharSpan, what: str) -> None:
        """Reports a span that is left out, even if others are widened."""
        self._tell(text, span, what, "left out")

    def _is_inside(self, text: str, span: CharSpan) -> bool:
        if 0 <= span.start < span.end <= len(text):
            return True
        where = f"{span.start}:{span.end}"
        problem = f"expected a span within the {len(text)} characters of its text"
        remedy = "Characters are counted from 0, and the end is exclusive."
        self.report.add(span.line, f"{problem}, got {where}", text, remedy)
        return False

    def _fit(self, text: str, offsets: Offsets, span: CharSpan) -> Span | None:
        """Returns the tokens of a span; None if it has none or does not match them."""
        if not self._is_inside(text, span):
            return None
        first = bisect.bisect_right(offsets, span.start, key=lambda pair: pair[1])
        last = bisect.bisect_left(offsets, span.end, key=lambda pair: pair[0])
        if first >= last:
            self._tell(text, span, "has no token", "left out")
            return None
        edges = offsets[first][0], offsets[last - 1][1]
        if edges == (span.start, span.end):
            return Span(first, last, span.type)
        whole = text[slice(*edges)]
        done = f"widened to {whole!r}" if self.unfit == "widen" else "left out"
        self._tell(text, span, f"does not match the tokens of {whole!r}", done)
        return Span(first, last, span.type) if self.unfit == "widen" else None

    def _tell(self, text: str, span: CharSpan, what: str, done: str) -> None:
        self.count += 1
        its = text[span.start : span.end]
        name = f"the {span.type} {span.start}:{span.end}" if span.type else "a span"
        if self.unfit == "error":
            self.report.add(span.line, f"{name} {what}", its, _REMEDY)
        else:
            self.report.note(span.line, f"{name} {what}, {done}", its)


def text_of(example: Example) -> tuple[str, Offsets]:
    """Returns a sentence's text and token offsets; joins tokens if it has no text.

    Example:
        >>> text_of(Example(("Rome", "wins"), None, 0, 1))
        ('Rome wins', [(0, 4), (5, 9)])
    """
    if example.text is not None and example.offsets is not None:
        return example.text, example.offsets
    offsets, start = [], 0
    for token in example.tokens:
        offsets.append((start, start + len(token)))
        start += len(token) + 1
    return " ".join(example.tokens), offsets


def of_example(example: Example) -> list[CharSpan]:
    """Returns the entities of a sentence as character spans in its `text_of`.

    Raises:
        ValueError: A label is malformed.
    """
    _, offsets = text_of(example)
    return [
        CharSpan(offsets[start][0], offsets[end - 1][1], kind, example.line)
        for start, end, kind in schemes.to_spans(example.labels or ())
    ]
