"""Label schemes (IOB1, BIO, IOE1, IOE2, BIOES, BILOU) and their entity spans.

One rule reads labels of all schemes (`to_spans`, the rule of the CoNLL shared task's
conlleval), so ill-formed labels have spans too. Each scheme has one way to write spans
(`to_labels`) and one strict grammar (`violations`, `allowed`). Another scheme, `TAGS`,
is for labels without spans, such as parts of speech: any strings, in any order, which
are never converted. IO labels, bare types such as `PER`, are read as `I-PER`.

An unknown scheme, `TAGS` where spans are needed, and a malformed label are an
`InputError` in all functions.

Source: Tjong Kim Sang and De Meulder (2003) for IOB1 and the scorer's rule; Tjong Kim
Sang and Veenstra (1999) for IOE1 and IOE2; Ratinov and Roth (2009) for BILOU, of which
BIOES is a respelling.
"""

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import lru_cache
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from jaxner.arguments import expect
from jaxner.errors import InputError
from jaxner.wording import counted

# Prefixes of the first, an inner, the last and the only token of a span. On a tie, the
# first scheme is detected: BIO for labels that are all O.
_WRITTEN = {"BIO": "BIIB", "IOB1": "IIII", "BIOES": "BIES", "BILOU": "BILU"}
_WRITTEN |= {"IOE2": "IIEE", "IOE1": "IIII"}
_PREFIXES = {"IOB1": "BI", "BIO": "BI", "BIOES": "BIES", "BILOU": "BILU"}
_PREFIXES |= {"IOE1": "IE", "IOE2": "IE"}  # in the order of label names
SCHEMES: tuple[str, ...] = tuple(_PREFIXES)
"""The schemes of spans."""
TAGS = "tags"
"""The scheme without spans."""
# Prefixes that stand only after a B or I of their type, and those before more of it.
_FOLLOWING = {"IOB1": "B", "BIO": "I", "BIOES": "IE", "BILOU": "IL"}
_UNFINISHED = {"BIOES": "BI", "BILOU": "BI", "IOE1": "E", "IOE2": "I"}
_ALIASES = {"IOB2": "BIO", "IOB": "IOB1", "IOBES": "BIOES"}
_READ_AS = {"O": "O", "B": "B", "I": "I", "E": "E", "S": "S", "L": "E", "U": "S"}
# Misspelt labels: B_PER, b-PER, PER-B.
_PREFIX_FIRST = re.compile("([bieslu])[-_/:.|](.+)", re.IGNORECASE)
_PREFIX_LAST = re.compile("(.+)[-_/:.|]([BIESLU])")
_MAX_IO_TYPES = 64


class Span(NamedTuple):
    """One entity: the tokens from `start` up to `end` (exclusive), and the type."""

    start: int
    end: int
    type: str


@lru_cache(maxsize=1 << 16)
def parse(label: str) -> tuple[str, str]:
    """Returns prefix and type, split at the first hyphen; `("O", "")` for `O`."""
    if label == "O":
        return "O", ""
    prefix, _, kind = label.partition("-") if isinstance(label, str) else ("", "", "")
    if prefix == "O" or prefix not in _READ_AS or not kind:
        raise InputError(
            f"Label {label!r} is neither 'O' nor PREFIX-TYPE with a prefix B, I, E, S, "
            f"L or U, such as 'B-PER'{_correction(str(label))}"
        )
    return prefix, kind


def _correction(label: str) -> str:
    if label == "o":
        return "; write O, in upper case"
    if match := _PREFIX_FIRST.fullmatch(label):
        return f"; write {match[1].upper()}-{match[2]}"
    match = _PREFIX_LAST.fullmatch(label)
    return f"; write {match[2]}-{match[1]}" if match else ""


def is_io(labels: Iterable[str]) -> bool:
    """Returns whether a file's labels are bare types such as `PER`, and `O`.

    Labels of any column of words or tags are not, since they lack `O` or are too many.
    """
    names = set(labels)
    if "O" not in names or not 1 < len(names) <= 1 + _MAX_IO_TYPES:
        return False
    odd = re.compile(r".?[-_]|\d+$")
    return not any(_correction(name) or odd.match(name) for name in names - {"O"})


def from_io(labels: Iterable[str]) -> list[str]:
    """Returns IO labels with the prefix I: a run of one type is an entity."""
    return [label if label == "O" else f"I-{label}" for label in labels]


def to_spans(labels: Sequence[str]) -> list[Span]:
    """Returns the entity spans of one sentence, in order, in any scheme.

    L counts as E and U as S. A span starts at a B or S, and at an I or E that begins
    the sentence or follows an O, an E, an S or another type. A span ends before the
    next start, before the next O, or with the sentence. This is the rule of conlleval
    and of seqeval's default mode, also for ill-formed labels.
    """
    spans = []
    start, before, before_kind = None, "O", ""
    for position, (prefix, kind) in enumerate([*_parsed(labels), ("O", "")]):
        prefix = _READ_AS[prefix]
        is_inside = prefix in "IE" and before in "BI" and kind == before_kind
        if start is not None and not is_inside:
            spans.append(Span(start, position, before_kind))
            start = None
        if prefix != "O" and not is_inside:
            start = position
        before, before_kind = prefix, kind
    return spans


def to_labels(
    spans: Iterable[tuple[int, int, str]], length: int, scheme: str
) -> list[str]:
    """Returns well-formed labels of `length` tokens: undoes `to_spans`."""
    _check_scheme(scheme, has_spans=True)
    labels = ["O"] * length
    last = Span(0, 0, "")
    begin, inside, end, single = _WRITTEN[scheme]
    for span in sorted(Span(*span) for span in spans):
        start, stop, kind = span
        size = stop - start
        if not (last.end <= start < stop <= length and kind):
            raise InputError(
                f"{span} is empty, has no type, overlaps {last}, or exceeds a sentence "
                f"of {counted(length, 'token')}"
            )
        prefixes = single if size == 1 else begin + inside * (size - 2) + end
        labels[start:stop] = [f"{prefix}-{kind}" for prefix in prefixes]
        if last.end == start and last.type == kind:  # spans that touch
            if scheme == "IOB1":
                labels[start] = f"B-{kind}"
            if scheme == "IOE1":
                labels[start - 1] = f"E-{kind}"
        last = span
    return labels


def convert(labels: Sequence[str], scheme: str) -> list[str]:
    """Returns well-formed labels in another scheme, with the spans of `to_spans`.

    Example:
        >>> convert(["I-PER", "I-PER", "B-PER"], "BILOU")
        ['B-PER', 'L-PER', 'U-PER']
    """
    _check_scheme(scheme, has_spans=True)
    return to_labels(to_spans(labels), len(labels), scheme)


def violations(labels: Sequence[str], scheme: str) -> list[int]:
    """Returns the positions whose labels break the strict grammar of a scheme.

    A label breaks it, given the label before it, if

    - its prefix is not one of the scheme's;
    - IOB1: it is a B that does not follow a B or I of its own type;
    - BIO: it is an I that does not follow a B or I of its own type;
    - IOE1: it follows an E and is no I or E of that type;
    - IOE2: it follows an I and is no I or E of that type;
    - BIOES, BILOU: it is an I or E (I or L) that does not follow a B or I of its own
      type; or it follows a B or I and is no I or E (I or L) of that type;
    - it is the last, and another must follow: after B or I in BIOES and BILOU, E in
      IOE1, I in IOE2.
    """
    _check_scheme(scheme)
    if scheme != TAGS:
        _parsed(labels)
    last = len(labels) - 1
    steps = enumerate(pairwise([None, *labels, None]))
    return sorted({min(i, last) for i, step in steps if _breaks(*step, scheme)})


def allowed(
    label_names: Sequence[str], scheme: str
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Returns the grammar of a scheme as hard constraints for decoding.

    Boolean arrays over label ids, True where `violations` allows it: `start` [L],
    `transitions` [L, L] from row to column, `end` [L].
    """
    _check_scheme(scheme)
    if scheme != TAGS:
        _parsed(label_names)
    names = (None, *label_names)
    fits = ~np.array([[_breaks(a, b, scheme) for b in names] for a in names])
    return fits[0, 1:], fits[1:, 1:], fits[1:, 0]


def label_names(types: Iterable[str], scheme: str) -> tuple[str, ...]:
    """Returns all labels of a scheme: `O`, then all prefixes of each sorted type.

    For `TAGS`, the labels are the sorted types. A label's index is its id.
    """
    _check_scheme(scheme)
    kinds = sorted(set(types))
    if "" in kinds:
        raise InputError(f"An entity type is empty: {kinds}")
    if scheme == TAGS:
        return tuple(kinds)
    return ("O", *(f"{p}-{kind}" for kind in kinds for p in _PREFIXES[scheme]))


def detect(sequences: Iterable[Sequence[str]]) -> str:
    """Returns the scheme of a file: that with the fewest ill-formed labels.

    On a tie, it is the first of BIO, IOB1, BIOES, BILOU, IOE2, IOE1.
    """
    steps: Counter[tuple[str | None, str | None]] = Counter()
    for labels in sequences:
        _parsed(labels)
        steps.update(pairwise([None, *labels, None]))

    def breaches(scheme: str) -> int:
        return sum(n for step, n in steps.items() if _breaks(*step, scheme))

    return min(_WRITTEN, key=breaches)


class LabelTypes(NamedTuple):
    """The spans of `to_spans`, as arrays over `L` labels and `K` types.

    Attributes:
        names: The K types, sorted; a type's index is its id.
        types: The type id of each label, `[L]`; -1 outside all spans.
        goes_on: Whether label j (column) continues the span of label i (row), `[L, L]`.
    """

    names: tuple[str, ...]
    types: np.ndarray
    goes_on: np.ndarray


def types_of(labels: Iterable[str]) -> tuple[str, ...]:
    """Returns the types of labels, sorted."""
    return tuple(sorted({parse(label)[1] for label in {*labels}} - {""}))


def label_types(label_names: Sequence[str]) -> LabelTypes:
    """Returns the span types of labels in any scheme, well-formed or not.

    A span begins at a label that is not `O` and does not continue the previous label's
    span. It ends before the first label that does not continue it.
    """
    kinds = {name: parse(name)[1] for name in label_names}
    names = types_of(label_names)
    types = [names.index(kinds[a]) if kinds[a] else -1 for a in label_names]
    goes_on = [
        # Two adjacent labels of one type form one span or two.
        [kinds[a] == kinds[b] != "" and len(to_spans([a, b])) == 1 for b in label_names]
        for a in label_names
    ]
    array = np.array(goes_on, bool).reshape(len(types), len(types))
    return LabelTypes(names, np.array(types, np.int32), array)


@lru_cache(maxsize=1 << 16)
def _breaks(before: str | None, label: str | None, scheme: str) -> bool:
    # None is a boundary of the sentence, which acts like an O.
    if scheme == TAGS:
        return False
    prefix, kind = parse(label or "O")
    before_prefix, before_kind = parse(before or "O")
    follows = before_prefix in "BI" and kind == before_kind
    goes_on = prefix in "IEL" and kind == before_kind
    if prefix in _FOLLOWING.get(scheme, "") and not follows:
        return True
    if before_prefix in _UNFINISHED.get(scheme, "") and not goes_on:
        return True
    return prefix not in "O" + _PREFIXES[scheme]


def _parsed(labels: Sequence[str]) -> list[tuple[str, str]]:
    """Returns prefixes and types; raises the error of the first bad label."""
    is_list = hasattr(labels, "__len__") and not isinstance(labels, (str, dict))
    expect(is_list, "labels as a list of strings", labels)
    pairs: list[tuple[str, str]] = []
    try:
        pairs.extend(map(parse, labels))
    except InputError as error:
        raise InputError(f"Position {len(pairs)}: {error.message}") from None
    return pairs


def _check_scheme(scheme: str, has_spans: bool = False) -> None:
    known = SCHEMES if has_spans else (*SCHEMES, TAGS)
    if scheme not in known:
        hint = f"; {scheme} is {_ALIASES[scheme]}" if scheme in _ALIASES else ""
        raise InputError(f"Unknown scheme {scheme!r}; known: {', '.join(known)}{hint}")
