"""Finds errors and probable mistakes in labelled text, as `jaxner check` shows them.

A run reports the gravest findings when it starts.
"""

from __future__ import annotations

import dataclasses
import functools
import re
import statistics
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence, Set
from pathlib import Path
from typing import Any

from jaxner.data import corpora, formats, schemes
from jaxner.data.corpora import Split, is_invisible
from jaxner.data.formats import Example
from jaxner.errors import InputError, optional, place_of
from jaxner.wording import counted, printable

LEVELS = {"error": "bold red", "warning": "yellow", "note": "dim"}
"""With an error, a file cannot be read; a warning is probably a mistake."""
_NUM_CASES = 5  # cases in a message
_LONG_TOKEN = 100  # characters
_LONG_SENTENCE = 500  # tokens
_MOJIBAKE = ("Ã©", "Ã¨", "Ã¤", "Ã¶", "Ã¼", "Ã±", "â€", "Â ", "\ufffd")


@dataclasses.dataclass(frozen=True)
class Finding:
    """An error or a probable mistake; `line` is that of the first case, if any."""

    check: str
    message: str
    file: str
    level: str = "warning"
    line: int | None = None
    unit: str = "line"

    def __str__(self) -> str:
        return str(InputError(self.message, self.file, self.line, self.unit))


def findings(
    path: str | Path, defaults: Mapping[str, Any] | None = None, **reading: Any
) -> tuple[dict[str, Split], list[Finding]]:
    """Returns the readable splits of a file or folder by name, and findings.

    Arguments as in `corpora.read`, and `defaults` for those that a file's format has.
    """

    def check(file: Path, **more: Any) -> tuple[Split | None, list[Finding]]:
        options = formats.of_run(defaults or {}, file, reading.get("format"))
        return of_file(file, **{**options, **reading}, **more)

    path = Path(path)
    names = "*.ann", "*_conll", "*_conll.gz"
    if not path.is_dir() or any(file for name in names for file in path.glob(name)):
        split, result = check(path)
        return ({path.name: split} if split else {}), result
    splits: dict[str, Split] = {}
    result = []
    for name in corpora.SPLITS:
        try:
            split, flaws = check(corpora.find(path, name), split=name)
        except (OSError, ValueError) as error:
            level = "warning" if isinstance(error, FileNotFoundError) else "error"
            split, flaws = None, [_finding("splits", error, path, level)]
        result += flaws
        splits |= {name: split} if split else {}
    if not splits and {finding.level for finding in result} == {"warning"}:
        return {}, [dataclasses.replace(result[0], level="error")]
    return splits, result + of_splits(splits)


def _finding(check: str, error: Exception, path: str | Path, level: str) -> Finding:
    place = getattr(error, "filename", None) or str(path)  # a file of the folder
    return Finding(check, getattr(error, "strerror", None) or str(error), place, level)


def of_file(path: str | Path, **options: Any) -> tuple[Split | None, list[Finding]]:
    """Returns the split of a file, if it is readable, and findings."""
    errors: list[InputError] = []
    split = None
    try:
        split = corpora.read(path, errors=errors, **options)
    except InputError as error:
        errors.append(error)
    except (OSError, ValueError) as error:
        return None, [_finding("format", error, path, "error")]
    errors.sort(key=lambda error: (str(error.path), error.line or 0))
    result = [
        Finding("format", e.message, str(e.path or path), "error", e.line, e.unit)
        for e in errors
    ]
    if split is None or not split.examples:
        return None, result
    notes = [*split.notes[bool(split.ill_formed) :]]  # the first: see _labels
    if result:
        notes.append("sentences with such labels are left out of all further checks")
    rest = [finding for check in _CHECKS for finding in check(split)]
    # Where labels are malformed, there may be entities.
    result += (finding for finding in rest if not errors or finding.check != "labels")
    result += (Finding("reading", note, str(path), "note") for note in notes)
    return split, result


def at_start(split: Split, train: Split | None = None) -> list[Finding]:
    """Returns the gravest probable mistakes, for the start of a run.

    One is a dev split that repeats much of train: its scores are too high.
    """
    pair = of_splits({"train": train, "dev": split}) if train else []
    overlaps = [x for x in pair if (x.check, x.level) == ("overlap", "warning")]
    return [finding for check in _GRAVE for finding in check(split)] + overlaps


def of_splits(splits: Mapping[str, Split], train: str = "train") -> list[Finding]:
    """Returns probable mistakes between the splits of a corpus; none without train."""
    if train not in splits:
        return []
    text, result = splits[train], []
    sentences, words = {example.tokens for example in text.examples}, text.words()
    for name, split in splits.items():
        if name == train:
            continue
        long = [example for example in split.examples if len(example.tokens) > 3]
        if copies := [example for example in long if example.tokens in sentences]:
            share = len(copies) / len(long)
            message = f"{counted(len(copies), 'sentence')} of {name} ({share:.1%} of "
            message += f"those with 4 tokens or more) also in {train}"
            level = "warning" if share > 0.05 else "note"
            result.append(_at(split, (copies[0], 0), "overlap", message, level))
        if strangers := sorted(set(split.types()) - set(text.types())):
            message = f"{train} lacks {counted(len(strangers), 'type')} of {name}: "
            message += ", ".join(strangers)
            result.append(Finding("unseen types", message, str(split.path)))
        tokens = [token for example in split.examples for token in example.tokens]
        share = sum(token not in words for token in tokens) / max(len(tokens), 1)
        message = f"{share:.1%} of the tokens of {name} are not in {train}"
        result.append(Finding("out of vocabulary", message, str(split.path), "note"))
    return result


def coverage(split: Split, name: str, words: Set[str]) -> Finding:
    """Returns the share of a split's words that are among those with a vector."""
    counts = Counter(token for e in split.examples for token in e.tokens)
    hits = {w: n for w, n in counts.items() if w in words or w.lower() in words}
    types = len(hits) / max(len(counts), 1)
    share = sum(hits.values()) / max(counts.total(), 1)
    message = f"{types:.1%} of the distinct words and {share:.1%} of the tokens have a "
    message += f"vector in {name}, as they are or in lower case"
    cased_hits = sum(n for w, n in hits.items() if w.lower() not in words)
    if cased_hits:  # the default reads lower case
        share = cased_hits / counts.total()
        message += f"; {share:.1%} of the tokens with their capitals alone, as "
        message += "--config.data.lowercase=False reads them"
    level = "note" if types >= 0.5 else "warning"
    return Finding("vectors", message, str(split.path), level)


# The checks of one split

Place = tuple[Example, int]  # a token


def _at(
    split: Split, place: Place, check: str, message: str, level: str = "warning"
) -> Finding:
    example, position = place
    file, line = str(example.path or split.path), example.lines[position]
    return Finding(check, message, file, level, line, example.unit)


def _oddities(token: str) -> Iterator[tuple[str, str]]:
    """Yields the kinds of an odd token, the gravest first, and what each means."""
    invisible_chars = {char for char in token if is_invisible(char)}
    if not {*token} - invisible_chars - {" "}:
        yield "blank", "without visible characters"
    if any(unicodedata.category(char) == "Cc" for char in invisible_chars):
        yield "control", "with a control character, such as NUL"
    if len(token) > _LONG_TOKEN:
        yield "long", f"of more than {_LONG_TOKEN} characters"
    if any(pair in token for pair in _MOJIBAKE):
        yield "encoding", "that may have been read in the wrong encoding"
    if token != token.strip():
        yield "spaced", "with a blank at an end, as no token of a text has"
    # Soft hyphens and joiners are part of the words of some languages.
    if invisible_chars - {*"\xad\u200c\u200d"}:
        yield "hidden", "with an invisible character"


def _odd_tokens(split: Split) -> Iterator[Finding]:
    """Finds tokens that are blank, very long, or have wrong characters."""
    oddity = functools.cache(lambda token: next(_oddities(token), None))
    kinds: dict[tuple[str, str], list[Place]] = defaultdict(list)
    for example in split.examples:
        for position, token in enumerate(example.tokens):
            if kind := oddity(token):
                kinds[kind].append((example, position))
    for (kind, flaw), cases in kinds.items():
        listing = ", ".join(
            f"{example.tokens[position][:30]!r} in {example.place(position)}"
            for example, position in cases[:_NUM_CASES]
        )
        message = f"{counted(len(cases), 'token')} {flaw}: {listing}"
        yield _at(split, cases[0], f"{kind} tokens", message)


def _numbers(split: Split) -> Iterator[Finding]:
    """Finds a column with the numbers of words in the place of tokens."""
    start = int(split.examples[0].tokens[0] != "0")
    for example in split.examples:
        numbers = range(start, start + len(example.tokens))
        if example.tokens != tuple(map(str, numbers)):
            return
    message = f"tokens are numbers, {start}, {start + 1}, {start + 2}, … in each "
    message += "sentence; is it the right column (token_column)?"
    yield _at(split, (split.examples[0], 0), "columns", message)


def _long_sentences(split: Split) -> Iterator[Finding]:
    """Finds sentences that are probably several, without blank lines between them."""
    longest = max(split.examples, key=lambda example: len(example.tokens))
    usual = statistics.median(len(example.tokens) for example in split.examples)
    count, length = len(split.examples), len(longest.tokens)
    is_odd = length > _LONG_SENTENCE and length >= 10 * usual
    if is_odd or usual > formats.LONG * (1 + (count == 1)):
        message = f"the longest sentence has {length:,} tokens, the median {usual:g}"
        if longest.text is None:
            message += "; are blank lines between sentences missing?"
        yield _at(split, (longest, 0), "long sentences", message)


def _similar_types(split: Split) -> Iterator[Finding]:
    """Finds types that differ by case or a letter from a far more frequent type."""
    cases: dict[str, list[Place]] = defaultdict(list)
    for example in split.examples if split.scheme != schemes.TAGS else ():
        for start, _, kind in schemes.to_spans(example.labels):
            cases[kind].append((example, start))
    # The most frequent type by its spelling without case, or without a letter.
    names_by_case: dict[str, str] = {}
    shorter: dict[str, str] = {}
    for name in sorted(cases, key=lambda name: -len(cases[name])):
        names_by_case.setdefault(name.casefold(), name)
        for part in _without_a_letter(name):
            shorter.setdefault(part, name)
    for name, places in sorted(cases.items()):
        count = len(places)
        twins = [names_by_case[name.casefold()]]
        if count < 3:
            twins += [shorter[part] for part in _without_a_letter(name)]
        twin = max(twins, key=lambda twin: len(cases[twin]))
        if len(cases[twin]) >= 20 * count:
            message = f"the type {name!r} ({count:,}) looks like {twin!r} "
            message += f"({len(cases[twin]):,}); is it a misspelling?"
            yield _at(split, places[0], "similar types", message)


def _without_a_letter(name: str) -> Iterator[str]:
    yield name
    for i in range(len(name) if len(name) < 40 else 0):
        yield f"{name[:i]}{name[i + 1 :]}"


def _labels(split: Split) -> Iterator[Finding]:
    """Finds labels that violate their scheme, and files without entities."""
    violations = (
        (example, position)
        for example in split.examples
        for position in schemes.violations(example.labels, split.scheme)
    )
    if split.ill_formed:
        message = f"{split.notes[0]}; `jaxner convert … --scheme {split.scheme}` "
        yield _at(
            split, next(violations), "scheme", f"{message}writes well-formed ones"
        )
    if not split.types():
        message = "there is no entity: all labels are O; is it the right column "
        yield Finding("labels", f"{message}(label_column) or field?", str(split.path))


def _repeated(split: Split) -> Iterator[Finding]:
    """Finds sentences that occur several times, and those with different labels."""
    groups: dict[tuple[str, ...], list[Example]] = defaultdict(list)
    for example in split.examples:
        if len(example.tokens) > 3:
            groups[example.tokens].append(example)
    repeats = [group for group in groups.values() if len(group) > 1]
    conflicts = [group for group in repeats if len({e.labels for e in group}) > 1]
    cases = []
    for group in conflicts[:_NUM_CASES]:
        firsts = {e.labels: e.place(0) for e in reversed(group)}  # of each labelling
        places = ", ".join([*firsts.values()][: -_NUM_CASES - 1 : -1])
        cases.append(f"{' '.join(group[0].tokens)[:60]!r} in {places}")
    if cases:
        message = f"{counted(len(conflicts), 'sentence')} with different labels in "
        message += f"several places: {'; '.join(cases)}"
        yield _at(split, (conflicts[0][0], 0), "contradictions", message)
    if repeats:
        count = counted(sum(len(group) - 1 for group in repeats), "sentence")
        message = f"{count} of 4 tokens or more occurred before"
        yield _at(split, (repeats[0][1], 0), "repetitions", message, "note")


_GRAVE = (_numbers, _long_sentences, _odd_tokens, _similar_types)
_CHECKS = (*_GRAVE, _labels, _repeated)


# What `jaxner check` shows


def show(
    splits: Sequence[Split],
    result: Sequence[Finding],
    suspects: Sequence[Any] = (),
    limit: int = 20,
) -> None:
    """Prints splits, `limit` findings, the gravest first, and as many suspects."""
    from rich.text import Text

    from jaxner.terminal import LineConsole

    console = LineConsole()
    for split in splits:
        console.print(split.summary().splitlines()[0])
    kinds = _merged(result)
    rows = [f for level in LEVELS for f in kinds if f.level == level]
    for finding in rows[:limit]:
        level = f"{finding.level}: ", LEVELS[finding.level]
        console.print(Text.assemble(level, str(finding)))
    counts = Counter(finding.level for finding in result)
    parts = ", ".join(counted(counts[level], level) for level in LEVELS)
    console.print(parts + (" (--limit shows more)" if len(rows) > limit else ""))
    if suspects:
        count = counted(len(suspects), "place")
        console.print(f"{count} that the tagger labels otherwise, best first:")
    for s in suspects[:limit]:
        left, right = s.tokens[max(0, s.start - 5) : s.start], s.tokens[s.end :][:5]
        line = Text(f"{place_of(s.file, s.line, s.unit)}: p = {s.probability:.2g}  ")
        line.append(" ".join(left) + " ")
        line.append(" ".join(s.tokens[s.start : s.end]), style="bold underline")
        line.append(f" {' '.join(right)}  {' '.join(s.labels)}")
        line.append(f" → {' '.join(s.predicted)}", style="green")
        console.print(line)


def _merged(result: Sequence[Finding]) -> list[Finding]:
    """Returns findings, with one for all errors of a kind: the first, and a count."""
    kinds: dict[Any, list[Finding]] = defaultdict(list)
    for finding in result:
        # Errors of a kind differ in numbers, labels to write, and what they quote.
        pattern = r"(['\"])(\\.|[^\\])*?\1|write \S+|0x\w+|\d+"
        kind = re.sub(pattern, "", finding.message)
        key = (finding.file, kind) if finding.level == "error" else finding
        kinds[key].append(finding)
    rows = []
    for first, *repeats in kinds.values():
        if repeats:
            lines = ", ".join(str(x.line) for x in repeats[:_NUM_CASES] if x.line)
            places = f": {first.unit} {lines}{', …' * (len(repeats) > _NUM_CASES)}"
            note = f"{len(repeats):,} more like it{places * bool(lines)}"
            message = f"{first.message} ({note})"
            first = dataclasses.replace(first, message=message)
        rows.append(first)
    return rows


def content(
    splits: Sequence[Split], result: Sequence[Finding], suspects: Sequence[Any] = ()
) -> dict[str, Any]:
    """Returns all that a check found, as JSON and `page` have it."""
    facts = [
        {
            "file": str(split.path),
            "split": split.split,
            "summary": split.summary().splitlines()[0],
            "sizes": split.sizes(),
            "types": split.types(),
            "scheme": split.scheme,
            "sha256": split.sha256,
            "longest": max(len(example.tokens) for example in split.examples),
        }
        for split in splits
    ]
    return {
        "splits": facts,
        "findings": [dataclasses.asdict(finding) for finding in result],
        "suspects": [suspect._asdict() for suspect in suspects],
    }


def page(values: Mapping[str, Any]) -> str:
    """Returns the `content` as an HTML page, escaped; ImportError without jinja2."""
    jinja2 = optional("jinja2", "A page")
    text = Path(__file__).with_name("audit.html.jinja").read_text("utf-8")
    template = jinja2.Template(text, autoescape=True)
    rows = _merged([Finding(**finding) for finding in values["findings"]])
    return printable(template.render(place_of=place_of, **{**values, "findings": rows}))
