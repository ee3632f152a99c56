"""Checks labelled text: reports errors and probable mistakes.

    jaxner check train.conll dev.conll
    jaxner check data/conll2003 --json findings.json
    jaxner check data/conll2003 --vectors glove.6B.100d.txt --html findings.html
    jaxner check --workdir runs/grn --split test

For the folder of a corpus, the command also compares its splits. With
--workdir, it lists labels that the run's tagger considers improbable: likely
annotation errors. It reads files as the run did, unless options differ. The
exit status is 1 if a file cannot be read; with --strict, it is 2 if there is
a warning.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
from collections import Counter
from functools import partial
from pathlib import Path
from typing import Any

from rich.text import Text

from jaxner import errors, fields, tagging, writing
from jaxner.analysis import suspects
from jaxner.commands import convert, flagged
from jaxner.data import audit, corpora, vectors
from jaxner.data.audit.findings import LEVELS, Finding
from jaxner.data.splits import Split
from jaxner.terminal import LineConsole
from jaxner.training import prepare
from jaxner.wording import counted
from jaxner.workdir import Workdir

console = LineConsole()
_STYLES = {"error": "bold red", "warning": "yellow", "note": "dim"}


def declare(commands: Any) -> None:
    """Adds the command to the subparsers of `jaxner`."""
    one = commands.add_parser(
        "check",
        help="checks labelled text",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    one.add_argument(
        "paths", nargs="*", metavar="FILE|FOLDER", help="files or folders to check"
    )
    one.add_argument("--workdir", help="folder of a run, whose tagger looks for errors")
    about = "with --workdir and no files: the split to check; default: dev"
    one.add_argument("--split", choices=("train", "dev", "test"), help=about)
    limit = fields.argument(fields.Count)
    one.add_argument(
        "--limit", type=limit, default=20, help="most lines to show; default: 20"
    )
    one.add_argument(
        "--vectors", help="file of word vectors: say how many words it has"
    )
    one.add_argument("--json", help="file to write the findings to, as JSON")
    one.add_argument("--html", help="file to write a page of the findings to")
    one.add_argument("--strict", action="store_true", help="warnings count as errors")
    convert.add_reading(one)
    one.set_defaults(run=check)


def check(options: argparse.Namespace) -> None:
    """Runs `jaxner check`.

    Raises:
        SystemExit: A file cannot be read (status 1), or, with --strict, there is a
            warning (status 2).
    """
    _check_outputs(options, options.vectors, *options.paths)
    if not options.paths and not options.workdir:
        raise ValueError("Expected a FILE or FOLDER to check, or --workdir of a run")
    if options.paths and options.split:
        raise ValueError("--split is for the run of --workdir: leave out the files")
    reading = convert.reading(options)
    splits: list[Split] = []
    findings: list[Finding] = []
    if options.workdir:
        params = tagging.load(options.workdir)
        reading = prepare.reading_of(options.workdir) | reading
    if not options.paths:
        config = Workdir(options.workdir).read_json("config.json")
        given = config["data"] | reading
        splits.append(prepare.load_split(given, options.split or "dev"))
    for path in options.paths:
        its, found = check_path(Path(path), reading)
        splits += its.values()
        findings += found
    _check_outputs(options, *(split.path for split in splits))
    if options.vectors and splits:
        findings += coverage(splits, options.vectors)
    findings = audit.with_flags(findings, partial(flagged.option_of, options))
    wrong = improbable(params, splits) if options.workdir else []
    show(splits, findings, options.limit)
    show_suspects(wrong, options.limit)
    content = {
        "splits": [_facts(split) for split in splits],
        "findings": [finding.to_dict() for finding in findings],
        "suspects": [suspect._asdict() for suspect in wrong],
    }
    if options.json:
        text = json.dumps(content, indent=1, ensure_ascii=False)
        Path(options.json).write_text(text + "\n", "utf-8", "backslashreplace")
    if options.html:
        Path(options.html).write_text(page(content), "utf-8", "backslashreplace")
    levels = {finding.level for finding in findings}
    if "error" in levels or (options.strict and "warning" in levels):
        raise SystemExit(1 if "error" in levels else 2)


def _check_outputs(options: argparse.Namespace, *sources: Any) -> None:
    for path in (options.json, options.html):
        writing.check(path, *sources)


def check_path(
    path: Path, reading: dict[str, Any]
) -> tuple[dict[str, Split], list[Finding]]:
    """Checks a file, or the splits in a folder.

    Returns:
        The readable splits by name, and the findings.
    """
    if not path.is_dir() or is_one(path):
        split, found = audit.of_file(path, **reading)
        return {} if split is None else {path.name: split}, found
    splits: dict[str, Split] = {}
    findings: list[Finding] = []
    for name in corpora.SPLITS:
        try:
            file = corpora.find(path, name)
        except FileNotFoundError:
            message = f"there is no {name} file"
            findings.append(Finding("warning", "splits", message, str(path)))
        except (OSError, ValueError) as error:
            findings.append(Finding("error", "splits", str(error), str(path)))
        else:
            split, found = audit.of_file(file, **reading, split=name)
            findings += found
            if split is not None:
                splits[name] = split
    if not splits and not any(finding.level == "error" for finding in findings):
        message = "expected train, dev or test files, got none"
        findings = [Finding("error", "splits", message, str(path))]
    return splits, findings + audit.of_splits(splits)


def is_one(folder: Path) -> bool:
    """Returns whether a folder is read as one file, as brat's are."""
    return any(folder.glob("*.ann")) or any(folder.glob("*_conll"))


def coverage(splits: list[Split], name: str) -> list[Finding]:
    """Returns the share of words with a vector in each split, as findings."""
    path = corpora.find_vectors(name)
    known = set(vectors.read(path).words)
    found = []
    for split in splits:
        tokens = Counter(token for e in split.examples for token in e.tokens)
        having = {w: n for w, n in tokens.items() if w in known or w.lower() in known}
        types = len(having) / max(len(tokens), 1)
        share = sum(having.values()) / max(sum(tokens.values()), 1)
        message = (
            f"{types:.1%} of the distinct words and {share:.1%} of the tokens have"
        )
        message += f" a vector in {path.name}, as they are or in lower case"
        level = "note" if types >= 0.5 else "warning"
        found.append(Finding(level, "vectors", message, str(split.path)))
    return found


def improbable(params: Any, splits: list[Split]) -> list[suspects.Suspect]:
    """Returns labels that a run's tagger considers improbable, the likeliest first."""
    found = [suspect for split in splits for suspect in suspects.find(params, split)]
    return sorted(found)


def show(splits: list[Split], findings: list[Finding], limit: int) -> None:
    """Prints a summary of each split, and the findings, the gravest first."""
    for split in splits:
        console.print(split.summary().splitlines()[0], markup=False)
    shown = 0
    for level in LEVELS:
        its = [finding for finding in findings if finding.level == level]
        before = ""
        for finding in its[: max(limit - shown, 1)]:
            # A remedy is told once, not after each of a hundred lines.
            is_new = finding.remedy != before
            told = finding if is_new else dataclasses.replace(finding, remedy="")
            before = finding.remedy
            console.print(Text.assemble((f"{level}: ", _STYLES[level]), str(told)))
        shown += len(its)
    counts = Counter(finding.level for finding in findings)
    parts = [counted(counts[level], level) for level in LEVELS]
    hidden = " (--limit shows more)" if shown > limit else ""
    console.print(", ".join(parts) + hidden)


def show_suspects(found: list[suspects.Suspect], limit: int) -> None:
    """Prints likely annotation errors, with context."""
    if found:
        count = counted(len(found), "place")
        console.print(f"{count} that the tagger labels otherwise, best first:")
    for s in found[:limit]:
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
        raise errors.needs("--html", "jinja2") from None
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
