"""Readers and writers of labelled text, one module per format.

All readers return the same type of sentences, so files convert between all formats.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jaxner.data.readers import brat, conll, conll2012, conllu, files, jsonl, spans, tsv
from jaxner.data.readers.examples import Example, Report
from jaxner.data.readers.spans import Cut

FORMATS = ("conll", "conll2012", "conllu", "jsonl", "jsonl-spans", "tsv", "brat")
"""The formats; `jsonl-spans` is for writing, `jsonl` reads both forms."""
OF_TEXT = ("jsonl", "jsonl-spans", "brat")
"""Formats that may contain text without tokens."""
ENDINGS = (
    *(".conll", ".txt", ".bio", ".iob", ".iob2", "_conll", ".conllu", ".jsonl"),
    *(".ndjson", ".json", ".tsv", ".tab", ".ann"),
)
"""How the names of files end that tell their format; `.gz` may follow."""
SPANS_ONLY = ("jsonl-spans", "brat")


@dataclass(frozen=True)
class Contents:
    """The content of a file or folder.

    Attributes:
        examples: The sentences.
        format: One of `FORMATS`.
        sha256: Checksum of the decompressed file, or of a folder's names and files.
        notes: Spans that the reader widened or left out, each with its line.
        remarks: What else the reader left out, counted: brat's relations, events, ….
        last_line: The last line, if no line end follows it.
    """

    examples: tuple[Example, ...]
    format: str
    sha256: str
    notes: tuple[str, ...] = ()
    remarks: tuple[str, ...] = ()
    last_line: str | None = None


def guess(path: str | os.PathLike[str]) -> str:
    """Returns the format of a file or folder by its name, one of `FORMATS`.

    An existing `.tsv` file is `tsv` if it has a header, else `conll`. A folder with
    `.ann` files is `brat`, other folders are `conll2012`.

    Example:
        >>> guess("train.conllu.gz"), guess("cctv.v4_gold_conll"), guess("test.txt")
        ('conllu', 'conll2012', 'conll')
    """
    path = Path(path)
    if path.is_dir():
        return "brat" if any(path.rglob("*.ann")) else "conll2012"
    name = path.name.removesuffix(".gz").lower()
    if name.endswith((".jsonl", ".ndjson", ".json")):
        return "jsonl"
    if name.endswith(".ann"):
        return "brat"
    if name.endswith("_conll"):
        return "conll2012"
    if name.endswith(".conllu"):
        return "conllu"
    if name.endswith((".tsv", ".tab")):
        if not path.is_file():
            return "tsv"
        with files.open_binary(path) as file:
            head = file.readline(1 << 16).decode("utf-8", "replace")
        return "tsv" if tsv.has_header(head.removeprefix("\ufeff").strip()) else "conll"
    return "conll"


def is_known(path: str | os.PathLike[str]) -> bool:
    """Returns whether the name of a file tells its format, or `guess` falls back.

    Example:
        >>> is_known("a.jsonl.gz"), is_known("eng.train"), is_known("a.xml")
        (True, False, False)
    """
    return Path(path).name.removesuffix(".gz").lower().endswith(ENDINGS)


def holds_any(folder: Path) -> bool:
    """Returns whether a folder contains brat or CoNLL-2012 files."""
    return any(folder.rglob("*.ann")) or any(folder.rglob("*_conll*"))


def read(
    path: str | os.PathLike[str],
    *,
    format: str | None = None,
    tags: bool = False,
    token_column: int | None = None,
    label_column: int | None = None,
    comments: str | None = None,
    encoding: str = "utf-8",
    tokenise: Cut | None = None,
    sentences: Cut | None = None,
    unfit: str = "error",
) -> Contents:
    """Reads labelled sentences in any format.

    Args:
        path: A file, plain or gzipped; or a folder of brat or CoNLL-2012 files, read in
            the order of their names.
        format: One of `FORMATS`; None: what `guess` returns.
        tags: Whether labels are tags, not spans. In CoNLL-U and CoNLL-2012 tags have
            their own columns.
        token_column: Column of the tokens, from 0; for formats with columns.
        label_column: Column of the labels, from 0. Default in CoNLL-U: MISC if a word
            has an entity label there and `tags` is False, else UPOS.
        comments: Prefix of comment lines, for `conll`.
        encoding: Encoding of the text.
        tokenise: Finds the tokens of a text without tokens; by default by the rules of
            `jaxner.data.tokens`, as `jaxner.entities` does.
        sentences: Finds the sentences of such a text; None: the text is a sentence.
        unfit: What to do with spans that do not match tokens; one of `spans.UNFIT`.

    Raises:
        ConllError: The content is malformed.
        FileNotFoundError: The file is missing.
        IsADirectoryError: The path is a folder without files of the format.
        ValueError: The format is unknown, or lacks an option.
    """
    path = Path(path)
    if not path.is_dir():
        files.open_binary(path).close()  # raises if the file is missing
    format = format or guess(path)
    _check_format(format)
    columns = {"token_column": token_column, "label_column": label_column}
    given = {k: v for k, v in columns.items() if v is not None}
    given |= {} if comments is None else {"comments": comments}
    wrong = [name for name in given if name not in _KNOWN.get(format, ())]
    if wrong:
        raise ValueError(f"{path}: {wrong[0]} is set, but {format} has none")
    options: dict[str, Any] = {**given, "encoding": encoding}
    if format in OF_TEXT:
        options |= {"tokenise": tokenise or spans.words}
        options |= {"sentences": sentences, "unfit": unfit}
    if format == "conll2012" and tags:
        options.setdefault("label_column", conll2012.POS)
    report = Report(str(path))
    if format == "brat" or path.is_dir():
        data, examples = _of_folder(path, format, report, options)
        notes, remarks = tuple(report.notes), tuple(report.remarks)
        return Contents(examples, format, _sha256(data), notes, remarks)
    data = files.read_bytes(path)
    if format == "conllu" and not tags and conllu.has_entities(data, encoding):
        options.setdefault("label_column", conllu.MISC)
    examples = tuple(_PARSERS[format](data, report, **options))
    tail = data[data.rfind(b"\n") + 1 :].decode("utf-8", "replace").strip()
    notes = tuple(report.notes)
    return Contents(examples, format, _sha256(data), notes, last_line=tail or None)


def _of_folder(
    path: Path, format: str, report: Report, options: dict[str, Any]
) -> tuple[bytes, tuple[Example, ...]]:
    """Reads several files as one; returns their bytes, and their sentences."""
    if format == "brat":
        members = brat.pairs(path)
        both = [p for ann in members for p in (ann.with_suffix(".txt"), ann)]
        examples = brat.parse(members, report, **options)
    else:
        both = sorted(p for p in path.rglob("*_conll*") if guess(p) == "conll2012")
        if format != "conll2012" or not both:
            raise IsADirectoryError(
                f"Expected a file of {format}, {path} is a folder; folders hold brat's "
                ".txt and .ann, or CoNLL-2012's _conll files"
            )
        examples = conll2012.parse_all(both, report, **options)
    return b"".join(_named(p, path) for p in both if p.is_file()), tuple(examples)


def _sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


_KNOWN = {
    "conll": ("token_column", "label_column", "comments"),
    "conllu": ("token_column", "label_column"),
    "tsv": ("token_column", "label_column"),
    "conll2012": ("label_column",),
}
_PARSERS: dict[str, Callable[..., list[Example]]] = {
    "conll": conll.parse,
    "conll2012": conll2012.parse,
    "conllu": conllu.parse,
    "jsonl": jsonl.parse,
    "jsonl-spans": jsonl.parse,
    "tsv": tsv.parse,
}


def _check_format(format: str) -> None:
    if format not in FORMATS:
        raise ValueError(f"Unknown format {format!r}; known: {', '.join(FORMATS)}")


def _named(path: Path, folder: Path) -> bytes:
    name = str(path.relative_to(folder)) if folder.is_dir() else path.name
    return f"{name}\n".encode() + files.read_bytes(path)


def write(
    path: str | os.PathLike[str] | files.Writable,
    examples: Sequence[Example],
    *,
    format: str | None = None,
    tags: bool = False,
) -> None:
    """Writes labelled sentences in any format; `read` returns them.

    Args:
        path: The file, compressed if its name ends with `.gz`; for brat, the folder. Or
            a text file open for writing, but for brat.
        examples: The sentences, with labels.
        format: One of `FORMATS`; None: what `guess` returns for a path.
        tags: Whether the labels are tags, not spans.

    Raises:
        ValueError: The format is unknown or missing, cannot hold tags, or cannot hold a
            token or a label.
    """
    if isinstance(path, str | os.PathLike):
        format = format or guess(path)
    elif format in (None, "brat"):
        raise ValueError(f"Expected a format to write to a file, got {format}")
    _check_format(format)
    if tags and format in SPANS_ONLY:
        raise ValueError(
            f"{format} holds spans, and these labels are tags; known for tags: "
            + ", ".join(f for f in FORMATS if f not in SPANS_ONLY)
        )
    if format == "conll":
        rows = [list(zip(e.tokens, e.labels or (), strict=True)) for e in examples]
        has_blanks = any(" " in cell for r in rows for row in r for cell in row)
        separator = "\t" if has_blanks else " "
        documents = [example.document for example in examples]
        conll.write(path, rows, separator=separator, documents=documents)
    elif format == "conllu":
        column = conllu.UPOS if tags else conllu.MISC
        conllu.write(path, examples, label_column=column)
    elif format == "conll2012":
        column = conll2012.POS if tags else conll2012.ENTITIES
        conll2012.write(path, examples, label_column=column)
    elif format == "tsv":
        tsv.write(path, examples)
    elif format == "brat":
        assert isinstance(path, str | os.PathLike)  # as checked above
        brat.write(path, examples)
    else:
        jsonl.write(path, examples, as_spans=format == "jsonl-spans")
