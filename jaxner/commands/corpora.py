"""`jaxner check` and `jaxner convert`."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from jaxner import fields, outputs
from jaxner.commands import Folder, Output, write_json
from jaxner.data import formats, schemes
from jaxner.errors import InputError
from jaxner.wording import counted

_NAMES = [field.name for field in dataclasses.fields(formats.Options)]
Reading = Annotated[dict[str, Any], formats.Options, *_NAMES]


def _keywords(format: str | None, reading: Mapping[str, Any]) -> dict[str, Any]:
    """Returns how to read files, as keywords of `corpora.read`."""
    values = {name: value for name, value in reading.items() if value is not False}
    if values.pop("tags", False):
        values["scheme"] = schemes.TAGS
    return values | ({"format": format} if format else {})


def convert(
    source: Path,
    target: Path,
    /,
    *,
    to: formats.Name | None = None,
    scheme: Annotated[str, fields.OneOf(schemes.SCHEMES)] | None = None,
    from_: formats.Name | None = None,
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
        from_: Format to read; default: by the name.
        reading: How to read the source.
    """
    from jaxner.data import corpora
    from jaxner.terminal import LineConsole

    console = LineConsole(stderr=outputs.descriptor(target) == 1)
    if not target.is_dir():
        outputs.check(target, sources=formats.inputs(source, from_))
    if not (to or target.is_dir() or formats.of_name(target)):
        raise InputError(f"The name {target.name!r} shows no format: give --to")
    if from_ is None and not source.is_dir() and not formats.of_name(source):
        console.print(f"Reading {source} as columns (--from conll)")
    split = corpora.read(source, **_keywords(from_, reading))
    console.print(split.summary())
    examples = split.to_scheme(scheme) if scheme else split.examples
    if scheme and split.ill_formed:
        count = counted(split.ill_formed, "ill-formed label")
        console.print(f"Made {count} well-formed")
    has_tags = split.scheme == schemes.TAGS
    formats.write(target, examples, to, tags=has_tags)
    if not outputs.is_stream(target):
        console.print(f"Written: {target}")
    if to == "brat" and not any(example.text for example in examples):
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
    from_: formats.Name | None = None,
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
        from_: Format to read; default: by the name.
        reading: How to read the files.
    """
    if not paths and not workdir:
        raise InputError("Expected a FILE or FOLDER to check, or --workdir of a run")
    if paths and split:
        raise InputError("--split is for the run of --workdir: leave out the files")
    from jaxner.data import audit, corpora

    options = _keywords(from_, reading)
    splits: list[corpora.Split] = []
    findings: list[audit.Finding] = []
    tagger = None
    if workdir:
        from jaxner import tagging
        from jaxner.runs import Workdir
        from jaxner.training import corpus

        tagger = tagging.load(str(workdir))
        options = corpus.reading_of(str(workdir)) | options
        if not paths:
            config = Workdir(workdir).read_json("config.json")
            splits.append(corpus.load_split(config["data"] | options, split or "dev"))
    for path in paths:
        read, problems = audit.findings(path, **options)
        splits += read.values()
        findings += problems
    sources = [file for read in splits for file in formats.inputs(read.path)]
    outputs.check(json, html, sources=sources)
    if vectors and splits:
        from jaxner.data import vectors as tables

        file = corpora.find_vectors(str(vectors))
        words = set(tables.read(file).words)
        findings += [audit.coverage(read, file.name, words) for read in splits]
    suspects = []
    if tagger is not None:
        from jaxner.analysis import describe

        suspects = sorted(x for read in splits for x in describe.suspects(tagger, read))
    audit.show(splits, findings, suspects, limit)
    content = audit.content(splits, findings, suspects)
    write_json(json, content)
    if html:
        outputs.write_text(html, audit.page(content))
    levels = {finding.level for finding in findings}
    if "error" in levels or (strict and "warning" in levels):
        raise SystemExit(1 if "error" in levels else 2)
