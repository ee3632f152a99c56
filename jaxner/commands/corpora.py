"""`jaxner check` and `jaxner convert`."""

from __future__ import annotations

import dataclasses
import json as jsons
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from jaxner import fields, writing
from jaxner.commands import Folder, Output
from jaxner.data import formats, schemes, tokens
from jaxner.errors import InputError, needs
from jaxner.wording import counted

if TYPE_CHECKING:
    from jaxner.data.audit import Finding
    from jaxner.data.corpora import Split

Format = Annotated[str, fields.OneOf(tuple(formats.FORMATS))]


@dataclasses.dataclass(kw_only=True)
class Reading:
    """How to read labelled text.

    Attributes:
        from_: Format to read; default: by the name.
        tags: Labels are tags, not spans.
        token_column: Column of tokens, from 0; default: first.
        label_column: Column of labels, from 0; default: last.
        label_names: What numbers as labels stand for, as in O,B-PER,I-PER.
        comments: How comment lines begin; default: none.
        encoding: Text encoding; default: utf-8.
        unfit: What to do with spans within a token; default: error.
        tokenizer: How to split raw text into tokens; default: words.
        sentences: Split each text, or each line of brat's, into sentences.
    """

    from_: Format | None = None
    tags: bool = False
    token_column: fields.Column | None = None
    label_column: fields.Column | None = None
    label_names: str | None = None
    comments: str | None = None
    encoding: fields.Encoding | None = None
    unfit: Annotated[str, fields.OneOf(formats.UNFIT)] | None = None
    tokenizer: Annotated[str, fields.OneOf(tokens.TOKENIZERS)] | None = None
    sentences: bool = False

    def keywords(self) -> dict[str, Any]:
        """Returns what was set, as keywords of `corpora.read`."""
        values = dataclasses.asdict(self)
        values["format"] = values.pop("from_")
        values["scheme"] = schemes.TAGS if values.pop("tags") else None
        values["split_sentences"] = values.pop("sentences") or None
        return {name: value for name, value in values.items() if value is not None}


def convert(
    source: Path,
    target: Path,
    /,
    *,
    to: Format | None = None,
    scheme: Annotated[str, fields.OneOf(schemes.SCHEMES)] | None = None,
    reading: Reading,
) -> None:
    """Rewrites labelled text in another format or label scheme.

        jaxner convert train.jsonl train.conll
        jaxner convert eng.train bioes.conll --scheme BIOES
        jaxner convert annotated/ train.jsonl --from brat --unfit widen

    The file name determines the format: `.conll`, `.txt`, `.bio` and `.iob`
    are columns, `_conll` is CoNLL-2012, `.conllu` CoNLL-U, `.jsonl` JSON
    lines, `.tsv` a table (with a header, if its first line is one), a folder
    brat's. Files of other names are read as columns; to write one, give --to,
    as for the standard output, which is `-`.

    Args:
        source: File to read, or a folder of brat's files.
        target: File to write (.gz: compressed), a folder, or - for standard output.
        to: Format to write; default: by the name.
        scheme: Label scheme to write; default: that of the source.
        reading: How to read the source.
    """
    from jaxner.data import corpora
    from jaxner.terminal import LineConsole

    is_piped = str(target) == "-"
    console = LineConsole(stderr=is_piped)
    if is_piped and to == "brat":
        raise InputError("brat's format is a folder: expected its name, got -")
    if not (target.is_dir() or is_piped):
        writing.check(target, source)
    if not (to or target.is_dir() or formats.is_known(target)):
        raise InputError(f"The name {target.name!r} shows no format: give --to")
    if reading.from_ is None and not source.is_dir() and not formats.is_known(source):
        console.print(f"Reading {source} as columns (--from conll)", markup=False)
    split = corpora.read(source, **reading.keywords())
    console.print(split.summary(), markup=False)
    has_tags = split.scheme == schemes.TAGS
    examples = split.examples
    if scheme and has_tags:
        raise InputError("Tags have no scheme to convert: remove --scheme")
    if scheme:
        examples = split.to_scheme(scheme)
        if split.ill_formed:
            count = counted(split.ill_formed, "ill-formed label")
            console.print(f"Made {count} well-formed")
    file = sys.stdout if is_piped else target
    formats.write(file, examples, to, tags=has_tags)
    if not is_piped:
        console.print(f"Written: {target}", markup=False)
    if to and formats.FORMATS[to].has_spans:
        console.print("To read it back with the same tokens: --tokenizer whitespace")


def check(
    *paths: Path,
    workdir: Folder | None = None,
    split: Literal["train", "dev", "test"] | None = None,
    limit: fields.Count = 20,
    vectors: Path | None = None,
    json: Output | None = None,
    html: Output | None = None,
    strict: bool = False,
    reading: Reading,
) -> None:
    """Checks labelled text: reports errors and probable mistakes.

        jaxner check train.conll dev.conll
        jaxner check data/conll2003 --json findings.json
        jaxner check data/conll2003 --vectors glove.6B.100d.txt --html page.html
        jaxner check --workdir runs/grn --split test

    For the folder of a corpus, the command also compares its splits. With
    --workdir, it lists labels that the run's tagger considers improbable:
    likely annotation errors. It reads files as the run did, unless options
    differ. The exit status is 1 if a file cannot be read; with --strict, it
    is 2 if there is a warning.

    Args:
        *paths: Files or folders to check.
        workdir: Folder of a run, whose tagger looks for errors.
        split: With --workdir and no files: the split to check; default: dev.
        limit: Most lines to show.
        vectors: File of word vectors: say how many words it has.
        json: File to write the findings to, as JSON.
        html: File to write a page of the findings to.
        strict: Warnings count as errors.
        reading: How to read the files.

    Raises:
        SystemExit: A file cannot be read (status 1), or, with `strict`, there is a
            warning (status 2).
    """
    if not paths and not workdir:
        raise InputError("Expected a FILE or FOLDER to check, or --workdir of a run")
    if paths and split:
        raise InputError("--split is for the run of --workdir: leave out the files")
    from jaxner.data import audit, corpora

    options = reading.keywords()
    splits: list[Split] = []
    findings: list[Finding] = []
    params = None
    if workdir:
        from jaxner import tagging
        from jaxner.runs import Workdir
        from jaxner.training import corpus

        params = tagging.load(str(workdir))
        options = corpus.reading_of(str(workdir)) | options
        if not paths:
            config = Workdir(workdir).read_json("config.json")
            splits.append(corpus.load_split(config["data"] | options, split or "dev"))
    for path in paths:
        read, problems = audit.findings(path, **options)
        splits += read.values()
        findings += problems
    for output in (json, html):
        writing.check(output, *(read.path for read in splits))
    if vectors and splits:
        from jaxner.data import vectors as tables

        file = corpora.find_vectors(str(vectors))
        known = set(tables.read(file).words)
        findings += [audit.coverage(read, file.name, known) for read in splits]
    suspects = []
    if params is not None:
        from jaxner.analysis import describe

        suspects = sorted(x for read in splits for x in describe.suspects(params, read))
    show(splits, findings, limit)
    show_suspects(suspects, limit)
    content = {
        "splits": [_facts(read) for read in splits],
        "findings": [dataclasses.asdict(finding) for finding in findings],
        "suspects": [suspect._asdict() for suspect in suspects],
    }
    if json:
        text = jsons.dumps(content, indent=1, ensure_ascii=False) + "\n"
        writing.write_text(json, _encodable(text))
    if html:
        writing.write_text(html, _encodable(page(content)))
    levels = {finding.level for finding in findings}
    if "error" in levels or (strict and "warning" in levels):
        raise SystemExit(1 if "error" in levels else 2)


def _encodable(text: str) -> str:
    """Escapes lone surrogates, which a name of a file may have."""
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


def show(splits: Sequence[Split], findings: Sequence[Finding], limit: int) -> None:
    """Prints a summary of each split, and the findings, the gravest first."""
    from rich.text import Text

    from jaxner.data.audit import LEVELS
    from jaxner.terminal import LineConsole

    console = LineConsole()
    styles = {"error": "bold red", "warning": "yellow", "note": "dim"}
    for split in splits:
        console.print(split.summary().splitlines()[0], markup=False)
    shown = 0
    for level in LEVELS:
        same = [finding for finding in findings if finding.level == level]
        for finding in same[: max(limit - shown, 1)]:
            console.print(Text.assemble((f"{level}: ", styles[level]), str(finding)))
        shown += len(same)
    counts = Counter(finding.level for finding in findings)
    parts = [counted(counts[level], level) for level in LEVELS]
    hidden = " (--limit shows more)" if shown > limit else ""
    console.print(", ".join(parts) + hidden)


def show_suspects(suspects: Sequence[Any], limit: int) -> None:
    """Prints likely annotation errors, with context."""
    from rich.text import Text

    from jaxner.terminal import LineConsole

    console = LineConsole()
    if suspects:
        count = counted(len(suspects), "place")
        console.print(f"{count} that the tagger labels otherwise, best first:")
    for s in suspects[:limit]:
        before, after = s.tokens[max(0, s.start - 5) : s.start], s.tokens[s.end :][:5]
        text = " ".join(s.tokens[s.start : s.end])
        line = Text(f"{s.file}:{s.line}: p = {s.probability:.2g}  {' '.join(before)} ")
        line.append(text, style="bold underline")
        line.append(f" {' '.join(after)}  {' '.join(s.labels)}")
        line.append(f" → {' '.join(s.predicted)}", style="green")
        console.print(line)


def page(content: dict[str, Any]) -> str:
    """Returns the findings as an HTML page; escapes all text from the data.

    Raises:
        ImportError: jinja2 is not installed.
    """
    try:
        import jinja2
    except ImportError:
        raise needs("--html", "jinja2") from None
    loader = jinja2.FileSystemLoader(Path(__file__).parent)
    environment = jinja2.Environment(loader=loader, autoescape=True)
    return environment.get_template("check.html.jinja").render(**content)


def _facts(split: Split) -> dict[str, Any]:
    return {
        "file": str(split.path),
        "split": split.split,
        "summary": split.summary().splitlines()[0],
        "sizes": split.sizes(),
        "types": split.types(),
        "scheme": split.scheme,
        "sha256": split.sha256,
        "longest": max(len(example.tokens) for example in split.examples),
    }
