"""Checks of tokens and sentences."""

from __future__ import annotations

import collections
import functools
import statistics
import unicodedata
from collections.abc import Hashable, Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Any

from jaxner.data.audit.findings import SHOWN, Finding, cases, place
from jaxner.data.readers.examples import Example
from jaxner.data.splits import Split, is_invisible
from jaxner.wording import counted

_LONG_TOKEN = 100  # characters
_LONG_SENTENCE = 500  # tokens
_LONG_MEDIAN = 60  # tokens
_MOJIBAKE = ("Ã©", "Ã¨", "Ã¤", "Ã¶", "Ã¼", "Ã±", "â€", "Â ", "\ufffd")


def odd_tokens(split: Split) -> Iterator[Finding]:
    """Finds tokens that are blank, very long, or have wrong characters."""
    kinds: dict[str, list[tuple[Example, int]]] = collections.defaultdict(list)
    for example in split.examples:
        for position, token in enumerate(example.tokens):
            if kind := _oddity(token):
                kinds[kind].append((example, position))
    for kind, (check, what, remedy) in _ODDITIES.items():
        yield from cases(split, check, what, remedy, kinds[kind])


_ODDITIES = {
    "blank": (
        "blank tokens",
        "without visible characters",
        "Remove them, or replace them by what they stand for.",
    ),
    "control": (
        "control characters",
        "with a control character, such as NUL",
        "Remove these characters; is the file damaged?",
    ),
    "hidden": (
        "invisible characters",
        "with an invisible character",
        "Remove these characters: they make different words that look the same.",
    ),
    "long": (
        "long tokens",
        f"of more than {_LONG_TOKEN} characters",
        "Is a space missing, or are these data, not words?",
    ),
    "encoding": (
        "encoding",
        "that may have been read in the wrong encoding",
        "Set `encoding` to that of the file, or fix the file.",
    ),
}


@functools.lru_cache(1 << 16)
def _oddity(token: str) -> str:
    if all(char == " " or is_invisible(char) for char in token):
        return "blank"
    if any(unicodedata.category(char) == "Cc" for char in token):
        return "control"
    if len(token) > _LONG_TOKEN:
        return "long"
    if any(pair in token for pair in _MOJIBAKE):
        return "encoding"
    # Soft hyphens and joiners are part of the words of some languages.
    if any(is_invisible(char) and char not in "\xad\u200c\u200d" for char in token):
        return "hidden"
    return ""


def numbers(split: Split) -> Iterator[Finding]:
    """Finds tokens that count from 0 or 1: the column of the words' numbers."""
    long = [example.tokens for example in split.examples if len(example.tokens) > 2]
    counting = sum(
        tokens in (_count(0, len(tokens)), _count(1, len(tokens))) for tokens in long
    )
    running = _runs_on(split.examples)
    if long and (counting > 0.9 * len(long) or running):
        remedy = "Set `token_column` to the column of the words."
        where = place(split, split.examples[0])
        message = "the tokens are running numbers, not words"
        yield Finding("warning", "running numbers", message, *where, remedy)


def _count(start: int, length: int) -> tuple[str, ...]:
    return tuple(map(str, range(start, start + length)))


def _runs_on(examples: Sequence[Example]) -> bool:
    """Returns whether tokens are numbers that continue from sentence to sentence."""
    tokens = [token for example in examples[:50] for token in example.tokens][:500]
    if len(tokens) < 5 or not all(t.isascii() and t.isdigit() for t in tokens):
        return False
    steps = [int(b) - int(a) for a, b in pairwise(tokens)]
    return steps.count(1) > 0.9 * len(steps)


def long_sentences(split: Split) -> Iterator[Finding]:
    """Finds sentences that are probably several, without blank lines between them."""
    lengths = [len(example.tokens) for example in split.examples]
    longest = max(range(len(lengths)), key=lengths.__getitem__)
    usual = statistics.median(lengths)
    count, most = len(lengths), lengths[longest]
    is_outlier = most > _LONG_SENTENCE and (count == 1 or most >= 10 * usual)
    if not is_outlier and (count == 1 or usual <= _LONG_MEDIAN):
        return
    if count == 1:
        message = f"the only sentence has {most:,} tokens"
    elif is_outlier:
        padding = 1 - sum(lengths) / (most * count)
        message = (
            f"a sentence has {most:,} tokens, the median {usual:g}; in one batch, "
        )
        message += f"{padding:.0%} are padding"
    else:
        message = f"half of the sentences have {usual:g} tokens or more"
    remedy = "Are blank lines between sentences missing?"
    where = place(split, split.examples[longest])
    yield Finding("warning", "long sentences", message, *where, remedy)


def repeated(split: Split) -> Iterator[Finding]:
    """Finds sentences that occur several times, and those with different labels."""
    groups = _grouped((example.tokens, example) for example in split.examples)
    again = {t: e for t, e in groups.items() if len(e) > 1 and len(t) > 3}
    differ = [e for e in again.values() if len({tuple(x.labels or ()) for x in e}) > 1]
    for examples in differ[:SHOWN]:
        lines = ", ".join(str(e.line) for e in examples[:SHOWN])
        text = " ".join(examples[0].tokens)[:60]
        message = f"the same sentence has different labels in lines {lines}: {text!r}"
        where = place(split, examples[0])
        yield Finding("warning", "contradictions", message, *where, "Choose one.")
    if again:
        count = sum(len(examples) - 1 for examples in again.values())
        message = f"{counted(count, 'sentence')} of 4 tokens or more occurred before"
        where = place(split, next(iter(again.values()))[1])
        yield Finding("note", "repetitions", message, *where, "", count)


def _grouped(pairs: Iterable[tuple[Hashable, Any]]) -> dict[Any, list[Any]]:
    groups: dict[Any, list[Any]] = {}
    for key, value in pairs:
        groups.setdefault(key, []).append(value)
    return groups
