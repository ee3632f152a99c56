"""Readers of spans by the rules of scorers, on flat arrays of a whole corpus (`coded`).

No loop runs over tokens. `rules` describes each rule. Shape letters: `N` tokens of all
sentences.

Source: conlleval.pl; seqeval 1.2.2; `src/eval_f1.py` of iesl/dilated-cnn-ner,
`utils/metric.py` of jiesutd/NCRFpp.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from jaxner.data import schemes
from jaxner.evaluation.coded import LETTERS, READ_AS, B, Coded, E, I, Layout, O, S, Side

ALONE = -1
"""`last` of a span that has only a start (ncrfpp)."""
LOST = -2
"""`last` of a span that counts as predicted but never as correct (idcnn)."""


class Spans(NamedTuple):
    """The spans of one side, from left to right; no two start at the same token.

    Attributes:
        start: Index of each span's first token in the flat arrays.
        last: Index of its last token, or `ALONE`, or `LOST`.
        type: Index of its type in `Coded.types`.
    """

    start: np.ndarray
    last: np.ndarray
    type: np.ndarray


def read(side: Side, layout: Layout, rule: str, scheme: str = "BIOES") -> Spans:
    """Reads the spans of one side by a rule.

    Args:
        side: The labels of the side.
        layout: The positions of the sentences.
        rule: One of `RULES`.
        scheme: Intended scheme of the labels.

    Raises:
        ValueError: The rule is unknown or undefined for the scheme; or it is "strict"
            and a label has a prefix of another scheme.
    """
    check(rule, scheme)
    return _READERS[rule](side, layout, scheme)


def agreeing(gold: Spans, predicted: Spans, size: int) -> np.ndarray:
    """Returns whether each predicted span is a gold span, `[predicted spans]`.

    Args:
        gold: Gold spans.
        predicted: Predicted spans.
        size: Number of tokens, N.
    """
    at = np.full(size, -1)
    at[gold.start] = np.arange(len(gold.start))
    place = at[predicted.start]
    agree = np.flatnonzero((place >= 0) & (predicted.last != LOST))
    its = place[agree]
    same = gold.type[its] == predicted.type[agree]
    same &= gold.last[its] == predicted.last[agree]
    correct = np.zeros(len(place), bool)
    correct[agree[same]] = True
    return correct


def chosen(spans: Spans, which: np.ndarray) -> Spans:
    """Returns the spans that a mask or indices choose."""
    return Spans(*(field[which] for field in spans))


def known(rule: str) -> None:
    """Checks the name of a rule.

    Raises:
        ValueError: The name is unknown.
    """
    if rule not in _READERS:
        raise ValueError(f"Unknown rule {rule!r}; known: {', '.join(RULES)}")


def check(rule: str, scheme: str) -> None:
    """Checks that a rule can read labels of a scheme.

    Raises:
        ValueError: The rule is unknown, or cannot read the scheme.
    """
    known(rule)
    if rule == "ncrfpp" and not reads(rule, scheme):
        raise ValueError(
            f"Rule 'ncrfpp' reads BIOES or BILOU, not {scheme!r}: in other schemes no "
            "label ends a span; convert the labels, or take rule 'conlleval'"
        )
    if rule == "strict" and not reads(rule, scheme):
        raise ValueError(
            f"Rule 'strict' is defined for {', '.join(_STRICT)}, not for {scheme!r}"
        )


def reads(rule: str, scheme: str) -> bool:
    """Returns whether a rule is defined for labels of a scheme."""
    of_some = {"ncrfpp": ("BIOES", "BILOU"), "strict": _STRICT}
    return scheme in of_some.get(rule, (scheme,))


def ill_formed(side: Side, layout: Layout, scheme: str) -> np.ndarray:
    """Returns at which tokens labels violate the grammar of a scheme, `[N]`.

    These are the positions that `schemes.violations` returns.

    Raises:
        ValueError: The scheme is unknown.
    """
    steps, at_end = _grammar(scheme)
    broken = steps.take(_pairs(side, layout.first))
    broken[layout.last] |= at_end[side.prefix[layout.last]]
    return broken


@functools.cache
def _grammar(scheme: str) -> tuple[np.ndarray, np.ndarray]:
    """Returns the violations of a scheme: pairs as in `_pairs`, and last labels."""
    # Two types suffice: a pair depends only on whether the types are equal.
    names = [[p if p == "O" else f"{p}-{kind}" for p in LETTERS] for kind in "xy"]
    allowed = schemes.allowed([*names[0], *names[1]], scheme)
    size = len(LETTERS)
    same = allowed[1][:size, :size]
    other = allowed[1][:size, size:].copy()
    other[:, O] = same[:, O]
    return ~np.stack([other, same], axis=-1).ravel(), ~allowed[2][:size]


def _before(values: np.ndarray, first: np.ndarray, outside: int) -> np.ndarray:
    """Returns the value of the previous token; that of O at a sentence's first one."""
    before = np.empty_like(values)
    before[1:] = values[:-1]
    before[first] = outside
    return before


def _pairs(side: Side, first: np.ndarray) -> np.ndarray:
    """Codes each token with the previous one: prefixes, and whether types are equal."""
    same = side.type == _before(side.type, first, -1)
    before = _before(side.prefix, first, O).astype(np.intp)
    return (before * len(LETTERS) + side.prefix) * 2 + same


def _conlleval(side: Side, layout: Layout, scheme: str) -> Spans:
    del scheme
    return _chunks(READ_AS[side.prefix], side.type, layout.first)


# Whether a chunk of the same type starts between two prefixes; B and S always start.
_BEGINS = np.zeros((5, 5), bool)
_BEGINS[:, [B, S]] = True
_BEGINS[np.ix_([O, E, S], [I, E])] = True


def _chunks(prefix: np.ndarray, kinds: np.ndarray, first: np.ndarray) -> Spans:
    """Reads spans as `schemes.to_spans` does."""
    before = _before(prefix, first, O)
    starts = _BEGINS.ravel().take(before.astype(np.intp) * 5 + prefix)
    starts |= (prefix != O) & (kinds != _before(kinds, first, -1))
    bounds = np.flatnonzero(starts | (prefix == O) | first)
    begins = starts[bounds]
    lasts = np.append(bounds[1:], len(prefix)) - 1
    start = bounds[begins]
    return Spans(start, lasts[begins], kinds[start])


# The starts, insides and ends of spans in seqeval's strict mode: the prefixes of two
# neighbours, and whether their types must be equal (=), must differ (!), or may be any
# (*); a dot is any prefix.
_STRICT = {
    "IOB1": ("OI* II! BI* IB= BB=", "BI= II=", "II! IO* IB* BO* BI! BB="),
    "BIO": (".B*", "BI= II=", "II! IO* IB* BO* BI! BB*"),
    "BIOES": (".B* .S*", "BI= BE= II= IE=", "S.* E.*"),
    "BILOU": (".B* .U*", "BI= BL= II= IL=", "U.* L.*"),
    "IOE1": ("OI* II! EI* EE=", "II= IE=", "II! IO* IE! EI= EE="),
    "IOE2": ("OI* OE* EI* EE* II! IE!", "IE= II=", "E.*"),
}


@functools.cache
def _patterns(scheme: str) -> list[np.ndarray]:
    """Returns which pairs, coded as in `_pairs`, are a start, an inside, or an end."""
    tables = []
    for patterns in _STRICT[scheme]:
        table = np.zeros((len(LETTERS), len(LETTERS), 2), bool)
        for before, here, types in patterns.split():
            rows, columns = (
                list(range(len(LETTERS))) if x == "." else [LETTERS.index(x)]
                for x in (before, here)
            )
            conditions = {"!": [0], "=": [1], "*": [0, 1]}[types]
            table[np.ix_(rows, columns, conditions)] = True
        tables.append(table.ravel())
    return tables


def _strict(side: Side, layout: Layout, scheme: str) -> Spans:
    _check_prefixes(side, scheme)
    begin, inside, end = _patterns(scheme)
    pairs = _pairs(side, layout.first)
    # A run is a token and all tokens that continue it. It contains at most one span,
    # from its first start to its end.
    breaks = ~inside[pairs]
    starts = np.flatnonzero(begin[pairs])
    runs = np.cumsum(breaks)[starts]
    starts = starts[np.diff(runs, prepend=0) > 0]
    bounds = np.append(np.flatnonzero(breaks), len(pairs))
    lasts = bounds[np.searchsorted(bounds, starts, side="right")] - 1
    after = np.append(pairs, 0)[lasts + 1]
    closing = (side.prefix[lasts].astype(np.intp) * len(LETTERS) + O) * 2
    ended = end[np.where(layout.last[lasts], closing, after)]
    starts, lasts = starts[ended], lasts[ended]
    return Spans(starts, lasts, side.type[starts])


def _check_prefixes(side: Side, scheme: str) -> None:
    known = {name[0] for name in schemes.label_names("x", scheme)}
    counts = np.bincount(side.prefix, minlength=len(LETTERS))
    foreign = [p for p, n in zip(LETTERS, counts, strict=True) if n and p not in known]
    if foreign:
        raise ValueError(
            f"Rule 'strict' reads gold and predicted labels as {scheme}, which has no "
            f"label {foreign[0]}-…; convert the labels, or name their scheme"
        )


# Strubell et al.'s program turns L into I and U into B, so that only an O, a start or
# another type ends a span.
_MERGED = np.array([O, B, I, I, B, I, B], np.int8)


def _idcnn(side: Side, layout: Layout, scheme: str) -> Spans:
    del scheme
    prefix = _MERGED[side.prefix]
    found = _chunks(prefix, side.type, layout.first)
    following = np.append(prefix, O)[found.last + 1]
    lost = (following == I) & ~layout.last[found.last]
    return found._replace(last=np.where(lost, LOST, found.last))


def _ncrfpp(side: Side, layout: Layout, scheme: str) -> Spans:
    del scheme
    prefix = READ_AS[side.prefix]
    # Only B, S and E matter: a B's span ends at the next of them.
    place = np.flatnonzero((prefix == B) | (prefix == S) | (prefix == E))
    kind, sentence = prefix[place], layout.sentence[place]
    size = len(place)
    after, where = np.append(kind[1:], O)[:size], np.append(place[1:], 0)[:size]
    closes = np.append(sentence[1:] == sentence[:-1], False)[:size]
    last = np.where(after == E, where, where - 1)
    last = np.where((kind == B) & closes, last, ALONE)
    begins = kind != E
    start = place[begins]
    return Spans(start, last[begins], side.type[start])


_READERS: dict[str, Callable[[Side, Layout, str], Spans]] = {
    "conlleval": _conlleval,
    "strict": _strict,
    "idcnn": _idcnn,
    "ncrfpp": _ncrfpp,
}
RULES: tuple[str, ...] = tuple(_READERS)
"""The names of the rules."""
WITH_LENGTHS: tuple[str, ...] = ("conlleval", "strict")
"""Rules under which every span has a length."""


def in_both(one: Coded, rule: str, scheme: str) -> tuple[Spans, Spans, np.ndarray]:
    """Reads the spans of both sides.

    Args:
        one: The labels.
        rule: As in `read`.
        scheme: As in `read`.

    Returns:
        The gold spans, the predicted spans, and whether each predicted one is correct.
    """
    gold = read(one.gold, one.layout, rule, scheme)
    predicted = read(one.predicted, one.layout, rule, scheme)
    return gold, predicted, agreeing(gold, predicted, len(one.layout.sentence))
