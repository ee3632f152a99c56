"""Finds probable mistakes in labelled text that readers accept.

Examples are tokens that are not words, contradictory labels, and splits that share
sentences. A run reports the gravest findings when it starts; `jaxner check` reports
all.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from jaxner.data import splits
from jaxner.data.audit import labels, tokens
from jaxner.data.audit.findings import Finding, place
from jaxner.data.readers import remedies
from jaxner.data.readers.examples import ConllError
from jaxner.data.splits import Split
from jaxner.wording import counted

_GRAVE: tuple[Callable[[Split], Iterator[Finding]], ...] = (
    *(tokens.numbers, tokens.long_sentences, tokens.odd_tokens),
    *(labels.cut_end, labels.similar_types),
)
_CHECKS = (*_GRAVE, labels.labels, tokens.repeated, labels.ambiguous)
_LINE = re.compile(r"(.+?):(\d+): ((?:.|\n)*)")


def of_file(path: str | Path, **reading: Any) -> tuple[Split | None, list[Finding]]:
    """Reads a file, and returns errors and probable mistakes.

    Args:
        path: The file, or a folder of files that are read as one.
        **reading: As in `splits.read`.

    Returns:
        The split, without sentences whose labels are malformed, or None if the file
        cannot be read; and the findings: each malformed label, and all other problems.
    """
    wrong: list[ConllError] = []
    try:
        split = splits.read(path, on_bad_labels=wrong.append, **reading)
    except ConllError as error:
        return None, _errors(str(path), error)
    except (ValueError, OSError) as error:
        return None, [_error(str(path), str(error), "")]
    found = [finding for error in wrong for finding in _errors(str(path), error)]
    if found:
        message = "sentences with such labels are left out of all further checks"
        found.append(Finding("note", "format", message, str(split.path)))
    notes = [
        Finding("note", "reading", note, str(split.path))
        for note in split.notes
        if note != split.ill_formed_note  # the check `labels` reports these
    ]
    return split, [*found, *of_split(split), *notes]


def _errors(path: str, error: ConllError) -> list[Finding]:
    pairs = zip(error.problems, error.remedy_of, strict=True)
    return [_error(path, *pair) for pair in pairs]


def _error(path: str, text: str, remedy: str) -> Finding:
    match = _LINE.fullmatch(text)
    if not match:
        file, colon, rest = text.partition(": ")
        if colon and file.startswith(path):
            path, text = file, rest
        return Finding("error", "format", text, path, None, remedy)
    return Finding("error", "format", match[3], match[1], int(match[2]), remedy)


def of_split(split: Split) -> list[Finding]:
    """Returns probable mistakes within one split.

    Example:
        >>> from jaxner.data import corpora
        >>> found = of_split(corpora.load("sample", "dev"))
        >>> [finding.check for finding in found if finding.level != "note"]
        []
    """
    return [finding for check in _CHECKS for finding in check(split)]


def at_start(split: Split) -> list[Finding]:
    """Returns the gravest probable mistakes, for the start of a run."""
    found = [finding for check in _GRAVE for finding in check(split)]
    found = [finding for finding in found if finding.level == "warning"]
    return with_flags(found, lambda name: f"--config.data.{name}")


def with_flags(findings: Iterable[Finding], flag_of: remedies.FlagOf) -> list[Finding]:
    """Returns findings whose remedies name a command's flags."""
    return [
        dataclasses.replace(one, remedy=remedies.with_flags(one.remedy, flag_of))
        for one in findings
    ]


def of_splits(splits: Mapping[str, Split]) -> list[Finding]:
    """Returns probable mistakes between the splits of a corpus.

    Args:
        splits: The splits by name; empty result without "train".
    """
    train = splits.get("train")
    if train is None:
        return []
    known = {example.tokens for example in train.examples}
    words = train.words()
    found = []
    for name, split in splits.items():
        if name == "train":
            continue
        found += _overlap(name, split, known)
        missing = sorted(set(split.types()) - set(train.types()))
        if missing:
            message = f"train lacks {counted(len(missing), 'type')} of {name}: "
            message += ", ".join(missing)
            remedy = "A tagger cannot learn what it never sees."
            where = str(split.path), None
            found.append(Finding("warning", "unseen types", message, *where, remedy))
        tokens = [token for example in split.examples for token in example.tokens]
        share = sum(token not in words for token in tokens) / max(len(tokens), 1)
        message = f"{share:.1%} of the tokens of {name} are not in train"
        found.append(Finding("note", "out of vocabulary", message, str(split.path)))
    return found


def _overlap(name: str, split: Split, known: set[tuple[str, ...]]) -> list[Finding]:
    """Finds sentences of at least 4 tokens that are also in train."""
    long = [example for example in split.examples if len(example.tokens) > 3]
    both = [example for example in long if example.tokens in known]
    if not both:
        return []
    share = len(both) / len(long)
    what = f"{counted(len(both), 'sentence')} of {name}"
    message = f"{what} ({share:.1%} of those with 4 tokens or more) also in train"
    remedy = "Scores on them say nothing about new text."
    level = "warning" if share > 0.05 else "note"
    where = place(split, both[0])
    return [Finding(level, "overlap", message, *where, remedy, len(both))]


def vocabulary(words: int, known: int, rule: str, file: str) -> list[Finding]:
    """Warns if the vocabulary contains fewer than half of the training words.

    Args:
        words: Number of distinct training words.
        known: Number of those in the vocabulary.
        rule: Minimum count of words without a vector.
        file: File of the training split.
    """
    if known >= 0.5 * words:
        return []
    message = f"only {known:,} of {words:,} distinct training words are known"
    remedy = "Give vectors (--config.data.vectors), or keep rarer words "
    remedy += f"(--config.data.min_count is {rule})."
    return [Finding("warning", "vocabulary", message, file, None, remedy)]
