"""Label schemes (IOB1, BIO, IOE1, IOE2, BIOES, BILOU) and their entity spans.

One rule reads labels of all schemes (`to_spans`, the rule of the CoNLL shared task's
conlleval), so ill-formed labels have spans too. Each scheme has one way to write spans
(`to_labels`) and one strict grammar (`violations`, `allowed`, `strict_spans`). Another
scheme, `TAGS`, is for labels without spans, such as parts of speech: any strings, in
any order, which are never converted. IO labels, bare types such as `PER`, are read as
`I-PER`; labels without types, bare prefixes such as `B`, have the type `NO_TYPE`; and M
(middle) and W (word) of Chinese corpora are read as I and S.

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
_PREFIX_BY_PLACE = {"BIO": "BIIB", "IOB1": "IIII", "BIOES": "BIES", "BILOU": "BILU"}
_PREFIX_BY_PLACE |= {"IOE2": "IIEE", "IOE1": "IIII"}
_PREFIXES = {"IOB1": "BI", "BIO": "BI", "BIOES": "BIES", "BILOU": "BILU"}
_PREFIXES |= {"IOE1": "IE", "IOE2": "IE"}  # in the order of label names
SCHEMES: tuple[str, ...] = tuple(_PREFIXES)  # of spans
TAGS = "tags"  # the scheme without spans
# Prefixes that stand only after a B or I of their type, and those before more of it.
_FOLLOWERS = {"IOB1": "B", "BIO": "I", "BIOES": "IE", "BILOU": "IL"}
_OPEN_PREFIXES = {"BIOES": "BI", "BILOU": "BI", "IOE1": "E", "IOE2": "I"}
_ALIASES = {"IOB2": "BIO", "IOB": "IOB1", "IOBES": "BIOES"}
_LETTERS = {"O": "O", "B": "B", "I": "I", "E": "E", "S": "S", "L": "E", "U": "S"}
_SPELLINGS = {"M": "I", "W": "S"}
_BARE = {*_LETTERS, *_SPELLINGS}
_OUTSIDE = ("O", "")  # also the boundaries of a sentence
NO_TYPE = "_"  # the type of labels without types, as in seqeval
_UNTYPED_SETS = tuple(map(set, ("BIES", "BILU", "BMES", "BMEW")))
# Misspelt labels: B_PER, b-PER, PER-B, O-PER and 0.
_PREFIX_FIRST = re.compile("([bieslumw])[-_/:.|](.+)", re.IGNORECASE)
_PREFIX_LAST = re.compile("(.+)[-_/:.|]([BIESLUMW])")
_OUTSIDE_LABEL = re.compile("o|0|[oO][-_/:.|].*")
_MAX_IO_TYPES = 256


class Span(NamedTuple):
    """One entity: the tokens from `start` up to `end` (exclusive), and the type."""

    start: int
    end: int
    type: str


@lru_cache(maxsize=1 << 16)
def parse(label: str) -> tuple[str, str]:
    """Returns prefix and type, split at the first hyphen; `("O", "")` for `O`.

    M and W are I and S; a prefix alone has the type `NO_TYPE`.
    """
    if label == "O":
        return _OUTSIDE
    prefix, hyphen, kind = str(label).partition("-")
    prefix, kind = _SPELLINGS.get(prefix, prefix), kind if hyphen else NO_TYPE
    if prefix == "O" or prefix not in _LETTERS or not (kind and isinstance(label, str)):
        upper = str(label).upper()
        hint = _correction(str(label)) or f"; write {upper}" * (upper in _BARE)
        raise InputError(
            f"Label {label!r} is neither 'O' nor PREFIX-TYPE with a prefix B, I, E, S, "
            f"L, U, M or W, such as 'B-PER'{hint}"
        )
    return prefix, kind


def _correction(label: str) -> str:
    if _OUTSIDE_LABEL.fullmatch(label):
        return "; write O, the letter" if label == "0" else "; write O"
    if match := _PREFIX_FIRST.fullmatch(label):
        return f"; write {match[1].upper()}-{match[2]}"
    match = _PREFIX_LAST.fullmatch(label)
    return f"; write {match[2]}-{match[1]}" if match else ""


def is_io(labels: Iterable[str]) -> bool:
    """Returns whether a file's labels are bare types such as `PER`, and `O`.

    Labels of any column of words or tags are not, since they lack `O` or are too many;
    nor are bare prefixes, in either case.
    """
    names = set(labels)
    types = names - {"O"}
    if types == names or not 0 < len(types) <= _MAX_IO_TYPES:
        return False
    odd = re.compile(r".?[-_]|\d+$")
    is_odd = any(_correction(name) or odd.match(name) for name in types)
    upper = {name.upper() for name in types}
    is_bare = any(upper <= prefixes for prefixes in _UNTYPED_SETS)
    # L and M begin nothing: alone, they are types.
    return not is_odd and (not is_bare or upper <= {*"LM"})


def choices(labels: Iterable[str]) -> list[str]:
    """Returns notes on how a file's labels are read, where another reading is near."""
    labels = {*labels}
    names = sorted(labels - {"O"})
    if is_io(labels):
        name = min(names, key=lambda name: name not in _BARE)  # bare: the most doubtful
        return [f"labels have no prefixes (IO): {name} is read as I-{name}"]
    notes = []
    if bare := [name for name in names if name in _BARE]:
        text = f"{bare[0]} is read as {'-'.join(parse(bare[0]))}"
        notes.append(f"labels have no types: {text}, so all entities are of one type")
    for name in names:
        if name[:1] in _SPELLINGS and name[1:2] == "-":
            return [*notes, f"{name} is read as {'-'.join(parse(name))}"]
    return notes


def flaws(labels: Iterable[str]) -> dict[str, str]:
    """Returns what is wrong with each malformed label of a file."""
    wrong, kinds = {}, set()
    names = {*labels} - {"O"}
    for name in names:
        try:
            kinds.add(parse(name)[1])
        except InputError as error:
            wrong[name] = error.message
    if kinds - {NO_TYPE}:  # a prefix alone has lost its type
        message = "Label {0!r} has no type, but others have; expected {0}-TYPE"
        wrong |= {name: message.format(name) for name in names & _BARE}
    return wrong


def from_io(labels: Iterable[str]) -> list[str]:
    """Returns IO labels with the prefix I: a run of one type is an entity."""
    return [label if label == "O" else f"I-{label}" for label in labels]


def to_spans(labels: Sequence[str]) -> list[Span]:
    """Returns the entity spans of one sentence, in order, in any scheme.

    L counts as E and U as S. A span starts at a B or S, and at an I or E that begins
    the sentence or follows an O, an E, an S or another type. A span ends before the
    next start, before the next O, or with the sentence. This is the rule of conlleval
    and of seqeval's default mode (which does not know U), also for ill-formed labels.
    """
    spans = []
    start, last_prefix, last_kind = None, "O", ""
    for position, (prefix, kind) in enumerate([*_parsed(labels), ("O", "")]):
        prefix = _LETTERS[prefix]
        is_inside = prefix in "IE" and last_prefix in "BI" and kind == last_kind
        if start is not None and not is_inside:
            spans.append(Span(start, position, last_kind))
            start = None
        if prefix != "O" and not is_inside:
            start = position
        last_prefix, last_kind = prefix, kind
    return spans


def to_labels(
    spans: Iterable[tuple[int, int, str]], length: int, scheme: str
) -> list[str]:
    """Returns well-formed labels of `length` tokens: undoes `to_spans`."""
    _check_scheme(scheme, has_spans=True)
    labels = ["O"] * length
    last = Span(0, 0, "")
    begin, middle, end, single = _PREFIX_BY_PLACE[scheme]
    for span in sorted(Span(*span) for span in spans):
        start, stop, kind = span
        size = stop - start
        if not (last.end <= start < stop <= length and kind):
            raise InputError(
                f"{span} is empty, has no type, overlaps {last}, or exceeds a sentence "
                f"of {counted(length, 'token')}"
            )
        prefixes = single if size == 1 else begin + middle * (size - 2) + end
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
    return to_labels(to_spans(labels), len(labels), scheme)


def strict_spans(labels: Sequence[str], scheme: str) -> list[Span]:
    """Returns the spans of one sentence that the strict grammar of a scheme reads.

    A span begins with a label that begins one in the scheme (in IOB1, a B only after a
    B or I of its type), goes on as in `to_spans`, and counts if it ends as the scheme
    demands. So does seqeval's strict mode, which also loses two kinds of well-formed
    spans: those of types that differ in hyphens, and in IOE1 one that begins with an E.
    `InputError`: a prefix is not one of the scheme's.
    """
    _check_scheme(scheme, has_spans=True)
    followers = _FOLLOWERS.get(scheme, "")
    open_prefixes = _OPEN_PREFIXES.get(scheme, "")
    spans, start, last_prefix, last_kind = [], None, "O", ""
    for position, (prefix, kind) in enumerate([*_parsed(labels), ("O", "")]):
        if prefix not in "O" + _PREFIXES[scheme]:
            raise InputError(
                f"Rule 'strict' reads {scheme}, which has no label "
                f"{labels[position]!r}; convert the labels, or name their scheme"
            )
        is_same = kind == last_kind
        follows = last_prefix in "BI" and is_same
        goes_on = prefix in "IEL" and is_same
        if not (start is not None and follows and goes_on):
            is_lost = last_prefix in open_prefixes and not goes_on
            # Only IOB1 has a B that must follow; seqeval loses a B before a wrong one.
            is_lost |= prefix == last_prefix == "B" in followers and not is_same
            if start is not None and not is_lost:
                spans.append(Span(start, position, last_kind))
            begins = prefix == "B" and follows if prefix in followers else prefix != "O"
            start = position if begins else None
        last_prefix, last_kind = prefix, kind
    return spans


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
    if scheme == TAGS:
        return []
    last = len(labels) - 1
    steps = enumerate(pairwise([_OUTSIDE, *_parsed(labels), _OUTSIDE]))
    return sorted({min(i, last) for i, step in steps if _breaks(*step, scheme)})


def allowed(
    label_names: Sequence[str], scheme: str
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Returns the grammar of a scheme as hard constraints for decoding.

    Boolean arrays over label ids, True where `violations` allows it: `start` [L],
    `transitions` [L, L] from row to column, `end` [L].
    """
    _check_scheme(scheme)
    names = ["O"] * len(label_names) if scheme == TAGS else label_names
    parts = zip(_OUTSIDE, *_parsed(names), strict=True)
    (prefixes, codes), (_, kinds) = (np.unique(x, return_inverse=True) for x in parts)
    # Thousands of labels have millions of pairs, of few kinds.
    other, same = (
        ~np.array(
            [[_breaks((a, ""), (b, x), scheme) for b in prefixes] for a in prefixes]
        )
        for x in ("other", "")
    )
    grid = codes[:, None], codes
    fits = np.where(kinds[:, None] == kinds, same[grid], other[grid])
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


def fitting(sequences: Iterable[Sequence[str]]) -> tuple[str, ...]:
    """Returns the schemes with the fewest ill-formed labels; the first is the file's.

    The order is BIO, IOB1, BIOES, BILOU, IOE2, IOE1. Without entities, it is BIO alone.
    """
    steps: Counter[tuple[tuple[str, str], tuple[str, str]]] = Counter()
    for labels in sequences:
        steps.update(pairwise([_OUTSIDE, *_parsed(labels), _OUTSIDE]))
    breaches = {
        scheme: sum(n for step, n in steps.items() if _breaks(*step, scheme))
        for scheme in _PREFIX_BY_PLACE
    }
    if not any({*step} - {_OUTSIDE} for step in steps):
        return ("BIO",)
    minimum = min(breaches.values())
    return tuple(scheme for scheme, count in breaches.items() if count == minimum)


def inventory(
    names: Sequence[str], scheme: str | None = None
) -> tuple[tuple[str, ...], str]:
    """Returns the label names of a tagger as written here, and their scheme.

    If `scheme` is None, the names tell: with L or U it is BILOU, with E or S BIOES; B
    and I alone are BIO, or IOB1 if a type has an I, but no B. Bare types beside O are
    IO labels, and names without prefixes, O among them or not, `TAGS` and IO.

    Raises:
        InputError: A name is malformed, none of the scheme's, or occurs twice; or the
            names allow no well-formed labels.
    """
    if scheme is not None:
        _check_scheme(scheme)
    wrong, kinds = flaws(names), {*names} - {"O"}
    is_plain = not any(map(_correction, wrong))
    if scheme is None and wrong and is_plain and "O" not in names:
        scheme = TAGS
    if scheme == TAGS:
        wrong = {}
    elif is_io(names) or (kinds == {*wrong} and is_plain):
        names, wrong = from_io(names), {}
    if wrong:
        raise InputError(f"{min(wrong.values())}; or the scheme is {TAGS}")
    if scheme != TAGS:
        pairs = [*map(parse, names)]
        names = ["-".join(filter(None, pair)) for pair in pairs]
        scheme = scheme or _scheme_of(pairs)
        for prefix, name in zip(pairs, names, strict=True):
            if prefix[0] not in "O" + _PREFIXES[scheme]:
                raise InputError(f"Label {name!r} is none of {scheme}")
    if repeats := sorted(name for name, count in Counter(names).items() if count > 1):
        raise InputError(f"Label {repeats[0]!r} occurs twice")
    start, following, end = allowed(names, scheme)
    if not (start & end).any():  # what may stand alone may follow itself
        raise InputError(f"No labels of 1 token are well-formed in {scheme}")
    for _ in names:  # each step adds labels that more tokens may have
        start, end = start | (start @ following), end | (following @ end)
    kinds = {name for name, fits in zip(names, start & end, strict=True) if fits}
    if kinds == {"O"} and len(names) > 1:
        raise InputError(f"No entity of these labels is well-formed in {scheme}")
    return tuple(names), scheme


def _scheme_of(pairs: Sequence[tuple[str, str]]) -> str:
    """Returns the scheme that the prefixes of a tagger's labels tell."""
    prefixes = {prefix for prefix, _ in pairs}
    if prefixes & {*"LU"}:
        return "BILOU"
    if prefixes & {*"ES"}:
        return "BIOES"
    is_begun = all(("B", kind) in pairs for prefix, kind in pairs if prefix == "I")
    return "BIO" if is_begun else "IOB1"


class LabelTypes(NamedTuple):
    """The spans of `to_spans`, as arrays over `L` labels."""

    names: tuple[str, ...]  # of the types, sorted; the index is the id
    types: np.ndarray  # the type id of each label, [L]; -1 outside all spans
    goes_on: np.ndarray  # whether label j continues the span of label i, [L, L]


def types_of(labels: Iterable[str]) -> tuple[str, ...]:
    """Returns the types of labels, sorted."""
    return tuple(sorted({parse(label)[1] for label in {*labels}} - {""}))


@lru_cache(maxsize=16)
def label_types(label_names: tuple[str, ...]) -> LabelTypes:
    """Returns the span types of labels in any scheme, well-formed or not."""
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
def _breaks(previous: tuple[str, str], label: tuple[str, str], scheme: str) -> bool:
    if scheme == TAGS:
        return False
    (before_prefix, before_kind), (prefix, kind) = previous, label
    follows = before_prefix in "BI" and kind == before_kind
    goes_on = prefix in "IEL" and kind == before_kind
    if prefix in _FOLLOWERS.get(scheme, "") and not follows:
        return True
    if before_prefix in _OPEN_PREFIXES.get(scheme, "") and not goes_on:
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
    names = SCHEMES if has_spans else (*SCHEMES, TAGS)
    if scheme not in names:
        hint = f"; {scheme} is {_ALIASES[scheme]}" if scheme in _ALIASES else ""
        raise InputError(f"Unknown scheme {scheme!r}; known: {', '.join(names)}{hint}")
