"""Splits raw text into tokens with offsets, and into sentences.

The tokeniser follows the conventions of the Penn Treebank, as most entity corpora do.
Its rules need no model, and no word list except a few abbreviations:

1. White space and invisible characters (zero-width spaces, byte order marks) separate
   tokens. Every other character belongs to exactly one token.
2. Letters, digits, combining marks and underscores form words. A word may also contain
   a hyphen, period, apostrophe, slash, `&`, `@` or `+` between two of these, and a
   comma or colon between two digits: `mid-1990s`, `O'Neill`, `AT&T`, `1,000.5`.
3. A period after a word of letters belongs to the word if the word is an initial (a
   capital other than `I`), contains a period (`U.N.`), or is in `ABBREVIATIONS`.
4. The English endings `n't` and `'s`, `'m`, `'d`, `'re`, `'ve`, `'ll` are tokens.
5. Any other character is a token, with its combining marks; a run of periods or hyphens
   is one token: `...`, `--`.
6. A link (`https://…`, `www.…`), and `@` or `#` with the word after it, as in
   `@user` and `#tag`, are one token. Closing punctuation is not part of a link.
7. Characters that look like one are never split: a character with its combining marks,
   variation selectors or skin tone; symbols joined by zero-width joiners, such as the
   emoji of a family; the two letters of a flag (UAX #29, GB9, GB9a, GB11 to GB13).

In languages without white space between words, these rules give long tokens. Pass your
own tokenizer instead: a function from a text to tokens.

`read` is the one way from a raw text to sentences of tokens: every command and function
that takes raw text calls it. Sentences do not depend on the tokenizer.
"""

from __future__ import annotations

import bisect
import contextlib
import re
import unicodedata
from collections.abc import Callable, Iterable, Sequence
from itertools import groupby
from typing import Any, NamedTuple

from jaxner import fields
from jaxner.arguments import expect
from jaxner.errors import InputError

_WRITTEN = (
    "adm capt col dr gen gov hon lt maj mr mrs ms pres prof rep rev sen sgt "  # titles
    "jan feb mar apr jun jul aug sep sept oct nov dec "
    "ave bros co corp dept etc fig ft inc jr ltd mt sr st vs"
)
ABBREVIATIONS = frozenset(_WRITTEN.split())
"""Words that include a following period, in lower case."""


class Token(NamedTuple):
    """A token, `text[start:end]` of the raw text."""

    text: str
    start: int
    end: int


Tokenizer = Callable[[str], Iterable[Any]]
"""A function from a text to its tokens, in order: substrings or pairs (start, end); or
to lists of them, one for each sentence."""

_INVISIBLE = "\u200b\u2060\ufeff"
_KNOWN = dict(zip("\u200d'’‘-‐‑.,:/&@+#", "j'''---.,:/&@+#", strict=True))  # j: joiner
# Non-joiners, skin tones and tags are part of the character before, as marks are.
_MARK = re.compile("[\u200c\U0001f3fb-\U0001f3ff\U000e0020-\U000e007f]")


class _Classes(dict[int, str]):
    """The class of each character, a letter, by its code; computed when needed."""

    def __missing__(self, code: int) -> str:
        character = chr(code)
        kind = _KNOWN.get(character, "?")
        if character.isspace() or character in _INVISIBLE:
            kind = " "
        elif character.isdecimal():
            kind = "0"
        elif character.isalnum() or character in "_\u00ad":  # the soft hyphen
            kind = "a"
        elif _MARK.match(character) or unicodedata.category(character)[0] == "M":
            kind = "m"
        elif "\U0001f1e6" <= character <= "\U0001f1ff":  # letters of flags
            kind = "r"
        self[code] = kind
        return kind


_classes = _Classes()
_PIECE = re.compile(
    r"[a0mj]+(?:(?:[-.'/&@+](?=[a0])|(?<=0)[,:](?=0))[a0mj]+)*"
    r"|L+[mj]*|(?<![a0mj&@#L])[@#](?=[0mj]*a)[a0mj]+"
    r"|\.+[mj]*|-+[mj]*|rr[mj]*|[^ ][mj]*(?:(?<=j)\?[mj]*)*"
)
_LINK = re.compile(
    r"(?<!\w)(?:(?:https?|ftp)://|www\.)"
    r"(?:[^\s\ufeff\u200b\u2060<>()\"'’‘“”«»]|\([^\s()<>]*\))*(?:[\w/=#&%~+-]|(?<=\)))",
    re.IGNORECASE,
)
_ENDING = re.compile(r"(?i:n['’‘]t|['’‘](?:s|m|d|re|ve|ll))\Z")
_ENDING_AFTER = re.compile(r"(?i)['’‘](?:s|m|d|re|ve|ll)(?!\w)")
_CLOSING = frozenset("\"'”’»)]}")
_BLANK_LINE = re.compile(r"\n[^\S\n]*\n|[\u2029\f]")


def tokenise(text: str) -> list[Token]:
    """Splits raw text into tokens, by the rules in this module's docstring.

    Example:
        >>> [t.text for t in tokenise("O'Neill didn't sell AT&T (in the U.S.).")]
        ["O'Neill", 'did', "n't", 'sell', 'AT&T', '(', 'in', 'the', 'U.S.', ')', '.']
    """
    kinds = text.translate(_classes)
    if "://" in text or "www." in text.lower():
        for link in _LINK.finditer(text):
            start, end = link.span()
            kinds = f"{kinds[:start]}{'L' * (end - start)}{kinds[end:]}"
    tokens: list[Token] = []
    end = 0
    for match in _PIECE.finditer(kinds):
        start = match.start()
        if start < end:
            continue  # part of the token before
        end, cut = match.end(), start
        if kinds[start] in "a0mj":
            end += _takes_period(text, kinds, start, end)
            if ending := _ENDING.search(text, start, end):
                cut = ending.start()
        elif kinds[start] in "@#L":
            ending = _ENDING_AFTER.match(text, end)
            word = _PIECE.match(kinds, end + 1)
            # Only where a word ends, too: `'s-Hertogenbosch` is no ending.
            if ending and word and word.end() == ending.end():
                cut, end = ending.span()
        if cut > start:
            tokens.append(Token(text[start:cut], start, cut))
        tokens.append(Token(text[cut:end], cut, end))
    return tokens


def _takes_period(text: str, kinds: str, start: int, end: int) -> bool:
    if kinds[end : end + 1] != "." or kinds[end + 1 : end + 2] in tuple(".mj"):
        return False
    word = text[start:end]
    if "0" in kinds[start:end] or "@" in word:
        return False
    is_initial = len(word) == 1 and word.isupper() and word != "I"
    return is_initial or "." in word or word.lower() in ABBREVIATIONS


def sentences(text: str, tokens: Sequence[Token]) -> list[list[Token]]:
    """Groups the tokens of a text by sentence.

    A sentence ends at a blank line. It also ends after `.`, `!`, `?`, `…` or similar
    marks and any closing quotes and brackets, if white space follows and then no
    lower-case letter. The period of an abbreviation ends a sentence only if the
    abbreviation contains another period (`U.S.`) and a capital letter follows.

    Example:
        >>> text = "Dr. No came. He left!  (Why?) Nobody knows."
        >>> [[t.text for t in s][-1] for s in sentences(text, tokenise(text))]
        ['.', '!', ')', '.']
    """
    parts: list[list[Token]] = []
    before: list[Token] = []
    for token in tokens:
        if not before or _ends(text, before, token):
            before = []
            parts.append(before)
        before.append(token)
    return parts


def _ends(text: str, sentence: Sequence[Token], after: Token) -> bool:
    gap = text[sentence[-1].end : after.start]
    if _BLANK_LINE.search(gap):
        return True
    last = len(sentence) - 1
    while last and sentence[last].text in _CLOSING:
        last -= 1
    mark = sentence[last].text
    if mark[-1] in "。！？":
        return True
    if not gap:
        return False
    if mark[-1] == "." and mark.strip("."):
        # An abbreviation: only one with several periods may end a sentence.
        return mark.count(".") > 1 and after.text[0].isupper()
    return not mark.strip(".!?…‼⁇⁈⁉؟।") and not after.text[0].islower()


def located(text: str, made: Iterable[Any]) -> list[Token]:
    """Returns tokens, as strings or as pairs (start, end), with their offsets.

    `InputError`: a string does not occur in the text after the previous one; or pairs
    are empty, overlap or exceed the text.

    Example:
        >>> text = "New York"
        >>> located(text, ["New", "York"]) == located(text, [(0, 3), (4, 8)])
        True
    """
    tokens: list[Token] = []
    end = 0
    for item in made:
        start = last = -1
        if isinstance(item, str):
            start = text.find(item, end)
            last = start + len(item)
        else:
            with contextlib.suppress(TypeError, ValueError):
                start, last, *_ = (int(x) for x in tuple(item)[-2:])
        if not end <= start < last <= len(text):
            raise InputError(
                f"The token {item!r} is not in the text after "
                f"character {end}: expected strings or pairs (start, end), in order"
            )
        tokens.append(Token(text[start:last], start, last))
        end = last
    return tokens


def at_whitespace(text: str) -> list[tuple[int, int]]:
    """Returns the offsets of tokens separated by spaces, tabs or line ends, only.

    A no-break space belongs to its token: joined tokens give these tokens again.
    """
    return [match.span() for match in re.finditer(r"[^ \t\r\n]+", text)]


TOKENIZERS: dict[str, Tokenizer] = {"words": tokenise, "whitespace": at_whitespace}
"""Tokenizers by name; "words" are the rules of this module."""


def resolve(
    tokenizer: str | Tokenizer | None = None, tokeniser: str | Tokenizer | None = None
) -> Tokenizer:
    """Returns the tokenizer that a caller chose, by either spelling of the argument.

    It is a key of `TOKENIZERS` or a function from a text to its tokens; None: "words".
    `InputError`: the name is unknown. `TypeError`: both are set, or it is neither.
    """
    if tokenizer is not None and tokeniser is not None:
        raise TypeError("tokenizer and tokeniser are two spellings: set one of them.")
    chosen = tokenizer or tokeniser or "words"
    if isinstance(chosen, str):
        fields.check_word("tokenizer", chosen, TOKENIZERS)
        chosen = TOKENIZERS[chosen]
    expect(callable(chosen), "a name or function as tokenizer", chosen)
    return chosen


def read(
    text: str,
    tokenizer: str | Tokenizer | None = None,
    *,
    split_sentences: bool = True,
) -> list[list[Token]]:
    """Splits a raw text into sentences of tokens, with offsets in the text.

    The tokenizer and errors are as in `resolve` and `located`. If
    it returns lists of tokens, these are the sentences; else they follow the rules of
    `sentences`, whatever the tokenizer. Without `split_sentences`, the text is one.

    Example:
        >>> [[t.text for t in s] for s in read("Rome fell. It rose.")]
        [['Rome', 'fell', '.'], ['It', 'rose', '.']]
        >>> [[t.text for t in s] for s in read("Rome fell. It rose.", "whitespace")]
        [['Rome', 'fell.'], ['It', 'rose.']]
    """
    chosen = resolve(tokenizer)
    made: Any = chosen(text)
    expect(isinstance(made, Iterable), "tokens from the tokenizer", made)
    made = list(made)
    if made and all(isinstance(item, list) for item in made):
        flat = iter(located(text, [token for part in made for token in part]))
        return [[next(flat) for _ in part] for part in made if part]
    tokens = made if chosen is tokenise else located(text, made)
    if not split_sentences:
        return [tokens] if tokens else []
    if chosen is tokenise:
        return sentences(text, tokens)
    starts = [part[0].start for part in sentences(text, tokenise(text))]
    parts = groupby(tokens, lambda token: bisect.bisect_right(starts, token.start))
    return [list(part) for _, part in parts]
