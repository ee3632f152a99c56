"""Splits raw text into tokens with offsets, and into sentences.

The tokenizer follows the conventions of the Penn Treebank, as most entity corpora do.
Its rules need no model, and no word list except a few abbreviations:

1. White space and invisible characters (zero-width spaces, byte order marks, control
   characters, marks of direction) separate tokens. Every other character belongs to
   exactly one token.
2. Letters, digits, combining marks and underscores form words. A word may also contain
   a hyphen, period, apostrophe, slash, `&`, `@` or `+` between two of these, a comma or
   colon between two digits, and a hyphen after its period: `mid-1990s`, `O'Neill`,
   `AT&T`, `1,000.5`, `U.S.-led`. A number may begin with a period or plus sign (`.5`),
   and the `$` of a currency belongs to the letters before it: `US$`.
3. A period after a word of letters belongs to the word if the word is an initial (a
   capital; `I` only before another, or not after a word), has periods between parts of
   one or two letters or between capitals (`U.N.`, `Ph.D.`), or is in `ABBREVIATIONS`.
   So does the period of `No.` and the like before a number, and of a number of up to
   three digits that begins a paragraph (`1.`).
4. The English endings `n't` and `'s`, `'m`, `'d`, `'re`, `'ve`, `'ll` are tokens.
5. Any other character is a token, with its combining marks; so is a run of the same of
   ``-.*=~+<>^|/\\$` `` or of `!` and `?`, and an emoticon after white space: `...`,
   `?!`, `:-)`.
6. A link (`https://…`, `www.…`), and `@` or `#` with the word after it, as in
   `@user` and `#tag`, are one token. Closing punctuation is not part of a link.
7. Characters that look like one are never split: a character with its combining marks,
   variation selectors or skin tone; symbols joined by zero-width joiners, such as the
   emoji of a family; the two letters of a flag (UAX #29, GB9, GB9a, GB11 to GB13).

In languages without white space between words, these rules give long tokens. Use the
tokenizer "characters" instead, or your own: a function from a text to its tokens.

`read` is the one way from a raw text to sentences of tokens: every command and function
that takes raw text calls it. Sentences do not depend on the tokenizer. All functions
take time in proportion to the length of the text.
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
from jaxner.errors import InputError

_ABBREVIATION_LIST = (
    "adm capt col dr drs gen gov hon lt maj messrs mr mrs ms pres prof rep rev sen sgt "
    "jan feb mar apr jun jul aug sep sept oct nov dec "
    "ariz calif conn fla mich minn okla tenn "
    "approx attn ave blvd bros co corp dept eg esp etc ext fig ft ie inc jr ltd mt pvt "
    "sr st vs"
)
ABBREVIATIONS = frozenset(_ABBREVIATION_LIST.split())
"""Words that include a following period, in lower case."""
# Before a number only; and what never ends a sentence.
_NUMBER_LABELS = frozenset(
    ["art", "ch", "figs", "no", "nos", "op", "p", "pp", "sec", "vol"]
)
_PREFACES = frozenset(["attn.", "e.g.", "eg.", "esp.", "i.e.", "ie.", "p.s.", "vs."])
_OPENERS = (
    "A After All Also Although An As At Because Before But By Do During For From He "
    "Her Here His How However I If In It Its Many My Not On Our Please She Since So "
    "Some Thanks That The Their Then There These They This Those We What When Where "
    "While Why With You Your"
)


class Token(NamedTuple):
    """A token, `text[start:end]` of the raw text."""

    text: str
    start: int
    end: int


Tokenizer = Callable[[str], Iterable[Any]]
"""A function from a text to its tokens, in order: substrings or pairs (start, end); or
to lists of them, one for each sentence."""

_INVISIBLE = r"\0-\x1f\x7f-\x9f\u061c\u200b\u200e\u200f\u202a-\u202e\u2060-\u206f\ufeff"
SEPARATOR = re.compile(rf"[\s{_INVISIBLE}]+")
"""What separates tokens."""
_RUNS = "-.!*=~+<>^|/\\$`"
_CLASSES = dict(zip("\u200d'’‘‐‑?,:&@#", "j'''--!,:&@#", strict=True))  # j: joiner
_CLASSES |= dict(zip(_RUNS, _RUNS, strict=True))
# Non-joiners, skin tones and tags are part of the character before, as marks are.
_MARK = re.compile("[\u200c\U0001f3fb-\U0001f3ff\U000e0020-\U000e007f]")


class _Classes(dict[int, str]):
    """The class of each character, a letter, by its code; computed when needed."""

    def __missing__(self, code: int) -> str:
        character = chr(code)
        kind = _CLASSES.get(character, "o")
        if SEPARATOR.match(character):
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
# L: link, F: emoticon; both are runs.
_SYMBOL = r"rr[mj]*+|o[mj]*+(?:(?<=j)o[mj]*+)*+|[^ ][mj]*+"  # a visible character
_WORD = r"[a0mj]++(?:(?:(?:\.-|[-.'/&@+])(?=[a0])|(?<=0)[,:](?=0))[a0mj]++)*+"
_PIECE = re.compile(
    rf"a{{1,3}}\$(?![^ 0])|[.+]?(?=0){_WORD}|{_WORD}"
    r"|(?<![a0mj&@#L])[@#](?=[0mj]*a)[a0mj]++"
    rf"|(?P<run>[{re.escape(_RUNS)}LF])(?P=run)*+[mj]*+"
    rf"|{_SYMBOL}"
)
# A link may end with these.
_BRACKETS, _ENDS = rf"\([^\s{_INVISIBLE}()<>]*+\)", r"\w/=#&%~+-"
_LINK = re.compile(
    rf"(?<!\w)(?:(?:https?|ftp)://|www\.)(?:[{_ENDS}]++|{_BRACKETS}"
    rf"|[^\s{_INVISIBLE}<>()\"'’‘“”«»{_ENDS}]++(?=[{_ENDS}]|{_BRACKETS}))++",
    re.IGNORECASE,
)
_FACE = re.compile(r"(?<!\S)[:;=][-'^o]?[()\[\]DPpOo/\\|*]+(?![^\s.,!?])")
_ENDING = re.compile(r"(?i:n['’‘]t|['’‘](?:s|m|d|re|ve|ll))\Z")
_CLITIC = re.compile(r"(?i)['’‘](?:s|m|d|re|ve|ll)(?![\w'’‘])")
_DOTTED_LETTERS = re.compile(r"(?:[^\W\d_]{1,2}\.)+[^\W\d_]{1,2}")
_INITIAL = re.compile(r"\s?[A-Z]\.(?!\w)")
_NUMBER = re.compile(r"\.\s\d")
_CLOSERS = frozenset("\"'”’»)]}」』）】》")
_FULL_WIDTH = frozenset("。！？｡")
_MARKS = frozenset(".!?…‼⁇⁈⁉؟۔।॥")
_NO_START = _FULL_WIDTH | frozenset("!?,;:)]}%、，」』）】》")  # begin no sentence
_BLANK_LINE = re.compile(r"\n[^\S\n]*\n|[\u2029\f]")
_OPENER = re.compile(rf"[\"'“‘«(\[]*(?:{'|'.join(_OPENERS.split())})(?![\w.-])")
# With the period, 7 characters at most.
_LETTER = re.compile(r"(?:\A|\s)[^\W\d_Ii]\s?\.\Z")
_ITEM = re.compile(r"(?:\A|[:\d]\s)\d{1,3}\s?\.\Z")


def tokenise(text: str) -> list[Token]:
    """Splits raw text into tokens, by the rules in this module's docstring.

    Example:
        >>> [t.text for t in tokenise("O'Neill didn't sell AT&T (in the U.S.).")]
        ["O'Neill", 'did', "n't", 'sell', 'AT&T', '(', 'in', 'the', 'U.S.', ')', '.']
    """
    kinds = text.translate(_classes)
    if "://" in text or "www." in text.lower():
        kinds = _cover(kinds, "L", _LINK.finditer(text))
    kinds = _cover(kinds, "F", _FACE.finditer(text))
    tokens: list[Token] = []
    end = 0
    for match in _PIECE.finditer(kinds):
        start = match.start()
        if start < end:
            continue  # part of the token before
        end, middle = match.end(), start
        if kinds[end - 1] in "a0mj":
            end += _takes_period(text, kinds, start, end, tokens)
            if ending := _ENDING.search(text, start, end):
                middle = ending.start()
        elif kinds[start] == "'" and (ending := _CLITIC.match(text, start)):
            word = _PIECE.match(kinds, end)
            # Only where a word ends, too: `'s-Hertogenbosch` is no ending.
            if word and word.end() == ending.end():
                end = ending.end()
        if middle > start:
            tokens.append(Token(text[start:middle], start, middle))
        tokens.append(Token(text[middle:end], middle, end))
    return tokens


def _cover(kinds: str, kind: str, matches: Iterable[re.Match[str]]) -> str:
    parts: list[str] = []
    end = 0
    for match in matches:
        start = match.start()
        parts += kinds[end:start], kind * (match.end() - start)
        end = match.end()
    return "".join([*parts, kinds[end:]]) if end else kinds


def _takes_period(
    text: str, kinds: str, start: int, end: int, tokens: Sequence[Token]
) -> bool:
    if kinds[end : end + 1] != "." or kinds[end + 1 : end + 2] in tuple(".mj"):
        return False
    word = text[start:end]
    previous = tokens[-1] if tokens else None
    if previous and _BLANK_LINE.search(text, previous.end, start):
        previous = None  # of another paragraph
    if "0" in kinds[start:end]:
        return previous is None and len(word) <= 3 and word.isdecimal()
    if word == "I" and previous and previous.text[-1].isalpha():
        return bool(_INITIAL.match(text, end + 1))
    if len(word) == 1 and word.isupper():
        return True
    word = word.rpartition("-")[2]  # of `Iraq-U.N.`
    is_numbered = word.lower() in _NUMBER_LABELS and _NUMBER.match(text, end)
    is_dotted = "." in word and (word.isupper() or _DOTTED_LETTERS.fullmatch(word))
    return bool(is_numbered or is_dotted) or word.lower() in ABBREVIATIONS


def sentences(text: str, tokens: Sequence[Token]) -> list[list[Token]]:
    """Groups the tokens of a text by sentence.

    A sentence ends at a blank line. It also ends after a mark and any closing quotes
    and brackets, if white space follows, and then no comma, closing bracket or other
    sign that cannot begin a sentence:

    - after `.`, `!`, `?` or similar marks. A lower-case letter may follow only if no
      quote or bracket closes, and after `.` only if the word before it has more than
      three letters and no capital at its beginning: others may be abbreviations;
    - after `…`, two or more periods or an emoticon, if no lower-case letter follows;
    - after an abbreviation or initial, if a word follows that often begins an English
      sentence, such as `The` or `He`; but not after `e.g.`, `i.e.`, `P.S.`, `vs.`;
    - after `。`, `！`, `？`, whatever follows.

    It does not end after a number of up to three digits that begins it or follows a
    colon or number, as in a list.

    Example:
        >>> text = "Dr. No left the U.S. Army. He came!  (Why?) Nobody knows."
        >>> [[t.text for t in s][-1] for s in sentences(text, tokenise(text))]
        ['.', '!', ')', '.']
    """
    parts: list[list[Token]] = []
    part: list[Token] = []
    mark = None  # the last token that is no closing quote or bracket
    for token in tokens:
        if mark is None or _ends(text, part, mark, token):
            part, mark = [], token
            parts.append(part)
        elif token.text not in _CLOSERS:
            mark = token
        part.append(token)
    return parts


def _ends(text: str, sentence: Sequence[Token], mark: Token, next_token: Token) -> bool:
    # Takes constant time but for the gap: a mark may be long, with many brackets after.
    start, end = sentence[0].start, sentence[-1].end
    gap = text[end : next_token.start]
    if _BLANK_LINE.search(gap):
        return True
    first, last, sign = mark.text[0], mark.text[-1], next_token.text[0]
    if last in _FULL_WIDTH:
        return bool(gap) or sign not in _NO_START | _CLOSERS
    is_face = _is_face(mark)
    if not gap or not (last in _MARKS or is_face) or sign in _NO_START:
        return False
    if next_token.text == "." or _ENDING.match(next_token.text) or _is_face(next_token):
        return False
    if last == ".":
        tail = text[max(start, mark.end - 7) : mark.end]
        if _ITEM.search(tail):
            return False
        if first != "." or _LETTER.search(tail):  # an abbreviation
            is_open = _OPENER.match(text, next_token.start)
            return bool(is_open) and mark.text.lower() not in _PREFACES
    if not sign.islower():
        return True
    if is_face or last == "…" or mark.text.startswith("..") or end > mark.end:
        return False
    word = sentence[-2].text if len(sentence) > 1 else ""
    return last != "." or (len(word) > 3 and not word[0].isupper())


def _is_face(token: Token) -> bool:
    return len(token.text) > 1 and token.text[0] in ":;=" and token.text[-1] != "="


def located(text: str, items: Iterable[Any]) -> list[Token]:
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
    for item in items:
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


def characters(text: str) -> list[tuple[int, int]]:
    """Returns the offsets of visible characters, each with its marks; see rule 7."""
    return [match.span() for match in re.finditer(_SYMBOL, text.translate(_classes))]


TOKENIZERS: dict[str, Tokenizer] = {"words": tokenise, "whitespace": at_whitespace}
TOKENIZERS["characters"] = characters
"""Tokenizers by name; "words" are the rules of this module."""


def resolve(tokenizer: str | Tokenizer | None = None) -> Tokenizer:
    """Returns the tokenizer of a name in `TOKENIZERS`, or the function given."""
    choice = tokenizer or "words"
    if isinstance(choice, str):
        fields.check_word("tokenizer", choice, TOKENIZERS)
        choice = TOKENIZERS[choice]
    return choice


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
    choice = resolve(tokenizer)
    output: list[Any] = [*choice(text)]
    if output and all(isinstance(item, list) for item in output):
        flat = iter(located(text, [token for part in output for token in part]))
        return [[next(flat) for _ in part] for part in output if part]
    tokens = output if choice is tokenise else located(text, output)
    if not split_sentences:
        return [tokens] if tokens else []
    return sentences(text, tokens) if choice is tokenise else grouped(text, tokens)


def grouped(text: str, tokens: Iterable[Token]) -> list[list[Token]]:
    """Returns the tokens of any tokenizer by the sentences of their text."""
    starts = [part[0].start for part in sentences(text, tokenise(text))]
    parts = groupby(tokens, lambda token: bisect.bisect_right(starts, token.start))
    return [list(part) for _, part in parts]
