"""Checks of labels and entities."""

from __future__ import annotations

import collections
import difflib
from collections.abc import Iterator

from jaxner.data import schemes
from jaxner.data.audit.findings import SHOWN, Finding, place
from jaxner.data.splits import Split
from jaxner.wording import counted


def cut_end(split: Split) -> Iterator[Finding]:
    """Finds a last line that may be cut off."""
    if not split.last_line or not split.examples:
        return
    last = split.examples[-1]
    label = (last.labels or ("",))[-1]
    others = {label for e in split.examples for label in (e.labels or ())[:-1]}
    others |= {(e.labels or ("",))[-1] for e in split.examples[:-1]}
    if label not in others:
        message = (
            f"the file ends without a line end, in the label {label!r} of no other"
        )
        remedy = "Is the file complete?"
        where = place(split, last, len(last.tokens) - 1)
        yield Finding("warning", "cut end", f"{message} token", *where, remedy)


def similar_types(split: Split) -> Iterator[Finding]:
    """Finds types that differ by case or a letter from a far more frequent type."""
    if split.scheme == schemes.TAGS:
        return
    counts, first = _types(split)
    for name, count in sorted(counts.items()):
        closer = [n for n in counts if n != name and counts[n] >= 20 * count]
        same = [n for n in closer if n.casefold() == name.casefold()]
        similar = difflib.get_close_matches(name, closer, 1, 0.8) if count < 3 else []
        if other := next(iter(same or similar), None):
            message = f"the type {name!r} ({count:,}) looks like {other!r} "
            message += f"({counts[other]:,})"
            remedy = "Is it a misspelling? Correct it."
            yield Finding("warning", "similar types", message, *first[name], remedy)


def _types(split: Split) -> tuple[collections.Counter[str], dict[str, tuple[str, int]]]:
    counts: collections.Counter[str] = collections.Counter()
    first: dict[str, tuple[str, int]] = {}
    for example in split.examples:
        for start, _, kind in schemes.to_spans(example.labels or ()):
            counts[kind] += 1
            first.setdefault(kind, place(split, example, start))
    return counts, first


def labels(split: Split) -> Iterator[Finding]:
    """Finds labels that violate their scheme, and files without entities."""
    if split.scheme == schemes.TAGS:
        return
    broken = [
        place(split, example, position)
        for example in split.examples
        for position in schemes.violations(example.labels or (), split.scheme)
    ]
    if broken:
        lines = ", ".join(str(line) for _, line in broken[:SHOWN])
        is_one = len(broken) == 1
        message = f"{counted(len(broken), 'label')} {'breaks' if is_one else 'break'} "
        message += f"{split.scheme}, in {'line' if is_one else 'lines'} {lines}"
        message += " …" * (len(broken) > SHOWN)
        remedy = f"`jaxner convert … --scheme {split.scheme}` writes well-formed ones."
        yield Finding("warning", "scheme", message, *broken[0], remedy, len(broken))
    if not split.types():
        message = "there is no entity: all labels are O"
        remedy = "Is it the right column (`label_column`) or field?"
        yield Finding("warning", "labels", message, str(split.path), None, remedy)


def ambiguous(split: Split) -> Iterator[Finding]:
    """Finds entities whose text has several types, most frequent first."""
    if split.scheme == schemes.TAGS:
        return
    types: dict[str, collections.Counter[str]] = {}
    for example in split.examples:
        for start, end, kind in schemes.to_spans(example.labels or ()):
            text = " ".join(example.tokens[start:end])
            types.setdefault(text, collections.Counter())[kind] += 1
    several = [(text, its) for text, its in types.items() if len(its) > 1]
    # The more frequent the second type, the graver the ambiguity.
    several.sort(key=lambda pair: -pair[1].most_common(2)[1][1])
    if several:
        shown = [
            f"{text!r} ({', '.join(f'{kind} {n}' for kind, n in its.most_common())})"
            for text, its in several[:10]
        ]
        message = (
            f"{counted(len(several), 'text')} with several types: {', '.join(shown)}"
        )
        where = str(split.path), None
        yield Finding("note", "several types", message, *where, "", len(several))
