"""`jaxner check` and `jaxner convert`."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

from jaxner import fields, outputs
from jaxner.arguments import check_reads_text
from jaxner.commands import SPLITS, load, note
from jaxner.data import formats, schemes, spans
from jaxner.errors import UsageError, name_of
from jaxner.wording import counted

Reading = Annotated[dict[str, Any], formats.Options]
_NAMES = [x.name for x in dataclasses.fields(formats.Options)]
_NAMES.remove("split_sentences")
Checking = Annotated[dict[str, Any], formats.Options, *_NAMES]


def _keywords(format: str | None, reading: Mapping[str, Any]) -> dict[str, Any]:
    """Returns how to read files, as keywords of `corpora.read`."""
    values = {**reading}
    if values.pop("tags", False):
        values["scheme"] = schemes.TAGS
    return values | ({"format": format} if format else {})


def convert(
    file: Path,
    /,
    *,
    output: Path = Path("-"),
    to: formats.Name | None = None,
    scheme: Annotated[str, fields.OneOf(schemes.SCHEMES)] | None = None,
    format: formats.Name | None = None,
    reading: Reading,
) -> None:
    """Rewrites labelled text in another format or label scheme.

        jaxner convert train.jsonl -o train.conll
        jaxner convert eng.train --scheme BIOES -o bioes.conll
        jaxner convert annotated/ --format brat --unfit widen -o train.jsonl

    The file name determines the format: `.conll`, `.txt`, `.bio` and `.iob`
    are columns, `_conll` is CoNLL-2012, `.conllu` CoNLL-U, `.jsonl` JSON
    lines, `.tsv` and `.csv` tables (with a header, if their first line is one),
    and a folder is brat's. The command reads files of other names as columns;
    to write such a file, or standard output, give --to.

    Args:
        file: File to read, or a folder of brat's files.
        output: File to write (.gz: compressed), or a folder; default: standard output.
        to: Format to write; default: by the name.
        scheme: Label scheme to write; default: that of the file.
        format: Format to read; default: by the name.
    """
    from jaxner.data import corpora

    to = to or ("brat" if output.is_dir() else None)
    if to == "brat":
        spans.check_brat(output)
    else:
        outputs.check(output, sources=formats.inputs(file, format))
    if not (to or formats.of_name(output)):
        raise UsageError(f"The name {output.name!r} shows no format: give --to")
    if format is None and not file.is_dir() and not formats.of_name(file):
        note(f"Reading {name_of(file)} as columns (--format conll)")
    split = corpora.read(file, **_keywords(format, reading))
    note(split.summary())
    examples = split.to_scheme(scheme) if scheme else split.examples
    kind = formats.FORMATS[to or formats.guess(output)]
    if (scheme or kind.has_spans) and split.ill_formed:
        count = counted(split.ill_formed, "ill-formed label")
        note(f"Made {count} well-formed")
    formats.write(output, examples, to, tags=split.scheme == schemes.TAGS)
    if not outputs.is_stream(output):
        note(f"Wrote {output}")
    if to == "brat" and not any(example.text for example in examples):
        note("To read it back with the same tokens, give --tokenizer whitespace")
    if to == "brat":
        words = (word for example in examples for word in example.tokens)
        if count := sum(len(word.split()) > 1 for word in words):
            note(f"Tokens with blanks, which come back as several: {count:,}")


def check(
    *paths: Path,
    split: Annotated[str, fields.OneOf(SPLITS)] | None = None,
    limit: fields.Count = 20,
    vectors: Path | None = None,
    output: fields.Output | None = None,
    strict: bool = False,
    format: formats.Name | None = None,
    sentences: bool = True,
    reading: Checking,
) -> dict[str, Any]:
    """Checks labelled text: reports errors and probable mistakes.

        jaxner check train.conll dev.conll
        jaxner check data/conll2003 --json > findings.json
        jaxner check data/conll2003 --vectors glove.6B.100d.txt -o page.html
        jaxner check runs/grn --split test
        jaxner check runs/grn new.conll

    For the folder of a corpus, the command compares its splits; for several files,
    each with the first, the training text. If a run comes first, or alone, it also
    lists labels that the run's tagger considers improbable, which are likely
    annotation errors, and reads files as the run did, unless options differ. The
    exit status is 1 if a file cannot be read and, with --strict, if there is a
    warning.

    Args:
        *paths: Files or folders to check; the folder of a run may come first.
        split: Check this split of the run; default: dev, if there are no files.
        limit: Maximum lines to show.
        vectors: File of word vectors; shows the share of words that have one.
        output: Write an HTML page of the findings to this file.
        strict: Treat warnings as errors.
        format: Format of the files; default: by the name.
        sentences: Split raw text into sentences, as training does.

    Returns:
        `passed`, whether the exit status is 0; the `splits` with their sizes;
        `findings`, by file and line; and `suspects`, labels that the run's tagger
        considers improbable.
    """
    from jaxner.data import audit, corpora

    options, files = _keywords(format, reading), [*paths]
    options |= {} if sentences else {"split_sentences": False}
    splits: list[corpora.Split] = []
    findings: list[audit.Finding] = []
    tagger = None
    path = files[0] if files else Path()
    if files and ((path / "vocabulary.json").exists() or outputs.is_run(path)):
        run = files.pop(0)
        tagger = load(run)
        if files:
            check_reads_text(tagger)
        if split or not files:
            from jaxner.runs import Workdir
            from jaxner.training import corpus

            part = corpus.split_of_run(Workdir(run), split or "dev", **options)
            splits.append(part)
    elif split or not files:
        noun = "the folder of a run first" if split else "a file or folder to check"
        raise UsageError(f"expected {noun}")
    by_file: dict[str, corpora.Split] = {}
    for path in files:
        defaults = dict(tagger.reading) if tagger else {"split_sentences": True}
        parts, problems = audit.findings(path, defaults, **options)
        splits += parts.values()
        findings += problems
        by_file |= {} if path.is_dir() else {str(path): x for x in parts.values()}
    if tagger is None and files:
        findings += audit.of_splits(by_file, str(files[0]))
    sources = [file for part in splits for file in formats.inputs(part.path)]
    outputs.check(output, sources=sources)
    if vectors and splits:
        from jaxner.data import vectors as tables

        file = corpora.find_vectors(str(vectors))
        words = set(tables.read(file).words)
        findings += [audit.coverage(part, file.name, words) for part in splits]
    suspects = []
    if tagger is not None:
        from jaxner.analysis import describe
        from jaxner.training import corpus

        suspects = sorted(x for part in splits for x in describe.suspects(tagger, part))
        for part in splits:
            logs: list[str] = []
            corpus.log_unknown_types(part, tagger.vocabulary, logs.append)
            findings += [audit.Finding("unseen types", x, str(part.path)) for x in logs]
    audit.show(splits, findings, suspects, limit)
    content = audit.content(splits, findings, suspects)
    if output:
        outputs.write_text(output, audit.page(content))
    levels = {"error", "warning"} if strict else {"error"}
    return {"passed": levels.isdisjoint(x.level for x in findings), **content}
