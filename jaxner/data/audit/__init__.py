"""What looks wrong with labelled text, though it can be read.

Readers refuse what they cannot read; what is here finds what they let pass: tokens that
are no words, labels that contradict each other, splits that share sentences. A run says
the gravest of it when it starts, `jaxner check` all of it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from jaxner.data import splits
from jaxner.data.audit import labels, tokens
from jaxner.data.audit.findings import Finding, place, plural
from jaxner.data.readers.examples import ConllError
from jaxner.data.splits import Split

_GRAVE: tuple[Callable[[Split], Iterator[Finding]], ...] = (
    *(tokens.numbers, tokens.long_sentences, tokens.odd_tokens),
    *(labels.cut_end, labels.similar_types),
)
_CHECKS = (*_GRAVE, labels.labels, tokens.repeated, labels.ambiguous)
_LINE = re.compile(r"(.+?):(\d+): ((?:.|\n)*)")


def of_file(path: str | Path, **reading: Any) -> tuple[Split | None, list[Finding]]:
    """Reads a file, and finds what is wrong with it.

    Args:
        path: The file, or a folder of several that are read as one.
        **reading: As for `splits.read`.

    Returns:
        The split if the file can be read, without sentences whose labels are malformed;
        and what was found: each malformed label, and the problems of all others.
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
        if " break " not in note  # a check of its own has the lines
    ]
    return split, [*found, *of_split(split), *notes]


def _errors(path: str, error: ConllError) -> list[Finding]:
    remedy = " ".join(error.remedies)
    return [_error(path, text, remedy) for text in error.problems]


def _error(path: str, text: str, remedy: str) -> Finding:
    match = _LINE.fullmatch(text)
    if not match:
        file, colon, rest = text.partition(": ")
        if colon and file.startswith(path):
            path, text = file, rest
        return Finding("error", "format", text, path, None, remedy)
    return Finding("error", "format", match[3], match[1], int(match[2]), remedy)


def of_split(split: Split) -> list[Finding]:
    """Finds what looks wrong within one split.

    Example:
        >>> from jaxner.data import corpora
        >>> found = of_split(corpora.load("sample", "dev"))
        >>> [finding.check for finding in found if finding.level != "note"]
        []
    """
    return [finding for check in _CHECKS for finding in check(split)]


def at_start(split: Split) -> list[Finding]:
    """Finds what a run has to say of a split before it trains on it."""
    found = [finding for check in _GRAVE for finding in check(split)]
    return [finding for finding in found if finding.level == "warning"]


def of_splits(splits: Mapping[str, Split]) -> list[Finding]:
    """Finds what looks wrong between the splits of a corpus.

    Args:
        splits: By name: train and others.
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
            message = f"train lacks {plural(len(missing), 'type')} of {name}: "
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
    """Sentences of 4 tokens or more that train has, too."""
    long = [example for example in split.examples if len(example.tokens) > 3]
    both = [example for example in long if example.tokens in known]
    if not both:
        return []
    share = len(both) / len(long)
    message = f"{plural(len(both), 'sentence')} of {name} ({share:.1%} of those with 4 "
    message += "tokens or more) are in train, too"
    remedy = "Scores on them say nothing about new text."
    level = "warning" if share > 0.05 else "note"
    where = place(split, both[0])
    return [Finding(level, "overlap", message, *where, remedy, len(both))]


def vocabulary(words: int, known: int, rule: str, file: str) -> list[Finding]:
    """Warns if few of the training words will be known.

    Args:
        words: Distinct training words.
        known: Those that the vocabulary holds.
        rule: How often a word without a vector has to occur.
        file: The training split's.
    """
    if known >= 0.5 * words:
        return []
    message = f"only {known:,} of {words:,} distinct training words are known"
    remedy = "Give vectors (--config.data.vectors), or keep rarer words "
    remedy += f"(--config.data.min_count is {rule})."
    return [Finding("warning", "vocabulary", message, file, None, remedy)]
