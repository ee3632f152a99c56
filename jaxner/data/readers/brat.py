"""Reads and writes brat's standoff format: `NAME.txt` has the text, `NAME.ann` spans.

Only text-bound annotations (`T`) are entities; relations, events, attributes and notes
are left out and counted. Each line of a text is split into sentences, and these into
tokens.

Source: https://brat.nlplab.org/standoff.html
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from jaxner.data.readers import files, spans
from jaxner.data.readers.examples import Example, Report
from jaxner.data.readers.spans import CharSpan, Cut, Fitter
from jaxner.wording import counted

# Semicolons separate fragments: T1, a type, 0 5;16 23, the text of the fragments.
_ENTITY = re.compile(r"(T\S+)\t([^ \t]+) (\d+ \d+(?:;\d+ \d+)*)\t(.*)")
_OTHER = {
    **{"R": "relation", "E": "event", "A": "attribute", "M": "attribute"},
    **{"N": "normalisation", "W": "word", "#": "note", "*": "equivalence"},
}


def read(
    path: str | os.PathLike[str],
    *,
    tokenise: Cut = spans.words,
    sentences: Cut | None = None,
    unfit: str = "error",
    encoding: str = "utf-8",
) -> list[Example]:
    r"""Reads the sentences of a folder of `.txt` and `.ann` files, or of one such pair.

    Args:
        path: The folder, whose pairs are documents in the order of their names; or one
            file of a pair.
        tokenise: Finds the tokens of a sentence.
        sentences: Finds the sentences of a line; None: each line is a sentence.
        unfit: What to do with spans that do not match tokens, overlap, or have several
            fragments; one of `spans.UNFIT`.
        encoding: Encoding of the text.

    Raises:
        ConllError: A file of a pair is missing; an annotation is malformed, does not
            match the text at its offsets, or does not match the tokens; or there are no
            tokens.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     _ = Path(folder, "a.txt").write_text("Rome wins\n")
        ...     _ = Path(folder, "a.ann").write_text("T1\tLOC 0 4\tRome\n")
        ...     read(folder)[0].labels
        ('B-LOC', 'O')
    """
    report = Report(str(path))
    cuts = {"tokenise": tokenise, "sentences": sentences}
    return parse(pairs(path), report, **cuts, unfit=unfit, encoding=encoding)


def pairs(path: str | os.PathLike[str]) -> list[Path]:
    """Returns the `.ann` files of a folder, or the one of a pair."""
    path = Path(path)
    if path.is_dir():
        stems = {p.with_suffix("") for p in path.rglob("*.ann")}
        stems |= {p.with_suffix("") for p in path.rglob("*.txt")}
        return sorted(Path(f"{stem}.ann") for stem in stems)
    return [path.with_suffix(".ann")]


def parse(
    paths: Iterable[Path],
    report: Report,
    *,
    tokenise: Cut = spans.words,
    sentences: Cut | None = None,
    unfit: str = "error",
    encoding: str = "utf-8",
) -> list[Example]:
    """Reads pairs of files, given their `.ann` files; see `read`."""
    fitter = Fitter(report, unfit)
    whole, examples = report.name, []
    others: Counter[str] = Counter()

    def within_lines(text: str) -> list[tuple[int, int]]:
        """Returns the bounds of all sentences, line by line."""
        bounds = []
        for start, end in spans.lines(text):
            its = sentences(text[start:end]) if sentences else [(0, end - start)]
            bounds += [(start + a, start + b) for a, b in its]
        return bounds

    for document, path in enumerate(paths, 1):
        texts = path.with_suffix(".txt")
        missing = [p for p in (path, texts) if not p.is_file()]
        if missing:
            report.problems.append(f"{missing[0]}: expected this file beside its pair")
            report.remedies.append("A text without entities has an empty .ann file.")
            continue
        report.name = str(texts)
        text = _text(texts, report, encoding)
        report.name = str(path)
        entities = list(_entities(path, text, fitter, encoding, others))
        for piece in fitter.cut(text, entities, tokenise, within_lines):
            line = text.count("\n", 0, piece.start) + 1
            facts = (piece.tokens, piece.labels, document, line, (), piece.text)
            examples.append(Example(*facts, piece.offsets, True, str(texts)))
    if others:
        kinds = ", ".join(counted(n, kind) for kind, n in sorted(others.items()))
        report.remarks.append(f"annotations that are not entities, left out: {kinds}")
    report.name = whole
    report.check(examples)
    return examples


def _text(path: Path, report: Report, encoding: str) -> str:
    """Reads a text; a byte order mark becomes a space, since offsets count it."""
    data = files.read_bytes(path)
    text = files.decode(data, report, encoding)
    return " " * data.startswith(b"\xef\xbb\xbf") + text


def _entities(
    path: Path, text: str, fitter: Fitter, encoding: str, others: Counter[str]
) -> Iterator[CharSpan]:
    """Yields the text-bound annotations of one file; reports malformed lines."""
    report = fitter.report
    lines = files.decode_lines(files.read_bytes(path), report, encoding)
    for number, line in enumerate(lines, 1):
        match = _ENTITY.fullmatch(line.removesuffix("\r"))
        if not match:
            if line[:1] in _OTHER:
                others[_OTHER[line[:1]]] += 1
            elif line.strip():
                problem = "expected ID, tab, type, start and end, tab, text"
                remedy = "Such as: T1<tab>LOC 0 4<tab>Rome"
                report.add(number, problem, line, remedy)
            continue
        numbers = [int(part) for part in re.split("[ ;]", match[3])]
        fragments = list(zip(numbers[::2], numbers[1::2], strict=True))
        its = " ".join(text[start:end] for start, end in fragments)
        if _blanks(its) != _blanks(match[4]):
            problem = f"expected {match[4]!r} at {match[3]} of {path.stem}.txt"
            remedy = "Are both files of one version? Offsets count characters, from 0."
            report.add(number, f"{problem}, got", its, remedy)
        elif len(fragments) > 1:
            span = CharSpan(fragments[0][0], fragments[-1][1], match[2], number)
            if fitter.unfit == "widen":
                yield span
            fitter.reject(text, span, f"has {len(fragments)} fragments")
        else:
            yield CharSpan(*fragments[0], match[2], number)


def _blanks(text: str) -> str:
    # .ann files write the text on one line.
    return re.sub(r"[\r\n]", " ", text).strip()


def write(folder: str | os.PathLike[str], examples: Sequence[Example]) -> None:
    """Writes a pair of files per document, with one sentence per line.

    `read` returns the same spans, and the same tokens if its tokeniser agrees.

    Args:
        folder: A new or empty folder.
        examples: The sentences, with labels in any span scheme.

    Raises:
        FileExistsError: The folder is not empty.
        ValueError: A label is malformed, or a type contains a space or a semicolon.
    """
    folder = Path(folder)
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise FileExistsError(f"Expected a new or empty folder for brat, got {folder}")
    documents: dict[int, list[Example]] = {}
    for example in examples:
        documents.setdefault(example.document, []).append(example)
    written = [_pair(members) for members in documents.values()]
    folder.mkdir(parents=True, exist_ok=True)
    for number, (text, its) in enumerate(written, 1):
        files.write_text(folder / f"{number:05}.txt", text)
        files.write_text(folder / f"{number:05}.ann", its)


def _pair(examples: Sequence[Example]) -> tuple[str, str]:
    """Returns the text of a document, and its annotations."""
    texts, found, start = [], [], 0
    for example in examples:
        text = re.sub(r"[\r\n]", " ", spans.text_of(example)[0])
        for span in spans.of_example(example):
            if set(span.type) & set(" \t\r\n;"):
                raise ValueError(
                    f"The type {span.type!r} holds a blank or a semicolon, which brat "
                    "cannot write; rename it"
                )
            its = text[span.start : span.end]
            where = f"{start + span.start} {start + span.end}"
            name = f"T{len(found) + 1}"
            found.append(f"{name}\t{span.type} {where}\t{its}\n")
        texts.append(text)
        start += len(text) + 1
    return "".join(f"{text}\n" for text in texts), "".join(found)
