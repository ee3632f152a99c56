"""Scores a file of predictions, of any tagger.

    jaxner score predicted.conll
    jaxner score predicted.conll --rule strict --scheme BIOES --json scores.json

The file has one token per line; the last two columns are the gold and the
predicted label, as for conlleval. A blank line ends a sentence.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from jaxner import fields, writing
from jaxner.data import schemes
from jaxner.data.readers.examples import ConllError
from jaxner.evaluation import (
    describing,
    intervals,
    pages,
    predictions,
    report,
    rules,
    scoring,
    summary,
)
from jaxner.evaluation import tags as tagging_scores
from jaxner.evaluation import tally as tallies
from jaxner.terminal import LineConsole

console = LineConsole()
_REMEDY = (
    "Each line has one token; the last two columns are the gold label and the "
    "predicted label."
)
HEADLINES = ("precision", "recall", "f1", "macro f1", "weighted f1", "token accuracy")


def declare(commands: Any) -> None:
    """Adds the command to the subparsers of `jaxner`."""
    one = commands.add_parser(
        "score",
        help="scores a file of predictions of any tagger",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    one.add_argument(
        "file", help="file whose last two columns are gold and predicted label"
    )
    add_reading(one)
    one.add_argument("--json", help="file to write all figures to, as JSON")
    one.add_argument(
        "--report", help="file to write the report to: .html, also .json and .csv"
    )
    one.set_defaults(run=score)


def add_reading(one: argparse.ArgumentParser) -> None:
    """Adds the options for reading and scoring prediction files."""
    about = "how ill-formed labels are read; default: conlleval"
    one.add_argument("--rule", choices=rules.RULES, default="conlleval", help=about)
    one.add_argument(
        "--scheme",
        choices=schemes.SCHEMES,
        help="scheme of the labels; default: detected",
    )
    one.add_argument("--tags", action="store_true", help="labels are tags, not spans")
    one.add_argument("--comments", help="how comment lines begin; default: none")
    encoding, size, seed = map(
        fields.argument, (fields.Encoding, fields.Size, fields.Seed)
    )
    one.add_argument(
        "--encoding",
        type=encoding,
        default="utf-8",
        help="text encoding; default: utf-8",
    )
    about = "random draws for the intervals; default: 1,000"
    one.add_argument("--rounds", type=size, default=None, help=about)
    one.add_argument(
        "--seed", type=seed, default=0, help="seed of these draws; default: 0"
    )


def check_tags(options: argparse.Namespace) -> None:
    """Raises ValueError if labels are tags, but options for spans are given."""
    if options.tags and (options.scheme or options.rule != "conlleval"):
        raise ValueError("--rule and --scheme are for spans: leave them or --tags out")


def score(options: argparse.Namespace) -> None:
    """Runs `jaxner score`."""
    check_tags(options)
    writing.check(options.json, options.file)
    if options.report:
        pages.check(options.report, options.file)
    gold, predicted = read(options.file, options)
    result = _of_tags if options.tags else _of_spans
    found = {"file": str(options.file), **result(gold, predicted, options)}
    if options.json:
        Path(options.json).write_text(json.dumps(found, indent=2) + "\n", "utf-8")
    if options.report:
        _write_report(gold, predicted, options)


def _write_report(gold, predicted, options) -> None:
    """Writes what a report says of labels alone."""
    reading = {"comments": options.comments, "encoding": options.encoding}
    its = describing.Prediction(
        predictions.tokens(options.file, **reading),
        gold,
        predicted,
        schemes.TAGS if options.tags else options.scheme or schemes.detect(gold),
        options.rule,
    )
    rounds = intervals.ROUNDS if options.rounds is None else options.rounds
    name = Path(options.file).name
    run = {"name": name, **describing.describe(its, rounds=rounds)}
    written = pages.write(options.report, {"title": name, "runs": [run]})
    console.print(f"Report written to {', '.join(map(str, written))}")


def read(path: str, options: argparse.Namespace):
    """Returns the labels in a file of predictions; errors say what would work."""
    try:
        gold, predicted = predictions.read(
            path, comments=options.comments, encoding=options.encoding
        )
    except ConllError as error:  # no option chooses the columns
        columns = ("Set `token_column`", "Separate columns")
        told = (_REMEDY if r.startswith(columns) else r for r in error.remedy_of)
        raise ConllError(error.problems, remedy_of=told) from None
    if not options.tags:
        try:
            schemes.detect([*gold, *predicted])
        except ValueError:
            raise _malformed(path, options) from None
    return gold, predicted


def _malformed(path: str, options: argparse.Namespace) -> ConllError:
    """Returns an error with the line of each malformed label."""
    problems = [
        f"{example.path or path}:{example.line_of(position)}: {problem}"
        for example in predictions.examples(
            path, comments=options.comments, encoding=options.encoding
        )
        for position, labels in enumerate(
            zip(example.tokens, example.labels or (), strict=True)
        )
        for kind, label in zip(("gold", "predicted"), labels, strict=True)
        if (problem := _problem(kind, label))
    ]
    return ConllError(problems, [_REMEDY, "If labels are tags, add --tags."])


def _problem(kind: str, label: str) -> str:
    try:
        schemes.parse(label)
    except ValueError as error:
        return f"{kind} label{str(error).removeprefix('Label')}"
    return ""


def is_match(name: str) -> bool:
    """Returns whether a figure is a partial match that differs from F1."""
    return name.endswith("match f1") and not name.startswith("strict")


def rule_of(options: argparse.Namespace) -> str:
    """Returns the name of the rule, and of the matches' rule if it differs."""
    has_lengths = options.rule in rules.WITH_LENGTHS
    return f"{options.rule} rule" + ("" if has_lengths else " (matches: conlleval's)")


def _of_spans(gold, predicted, options) -> dict[str, Any]:
    scheme = options.scheme or schemes.detect(gold)
    scores = scoring.score(gold, predicted, rule=options.rule, scheme=scheme)
    about = report.caption(scores)
    about = about.replace(f"{options.rule} rule", rule_of(options))
    console.print(report.per_type_table(scores, Path(options.file).name))
    found = _intervals(tallies.of_spans(gold, predicted, options.rule, scheme), options)
    chosen = {
        name: its
        for name, its in found.items()
        if name in HEADLINES or is_match(name) or name.startswith("chunk recall")
    }
    console.print(summary.headline_table(chosen, intervals.LEVEL, about))
    by_rule = summary.by_rule(gold, predicted, scheme)
    console.print(summary.rules_table(by_rule, f"{scheme}; {about.split('; ')[1]}"))
    figures = {name: summary.in_percent(its) for name, its in found.items()}
    return {**scores.to_dict(), "figures": figures, "by_rule": by_rule}


def _of_tags(gold, predicted, options) -> dict[str, Any]:
    scores = tagging_scores.score(gold, predicted)
    console.print(report.per_type_table(scores, Path(options.file).name))
    found = _intervals(tallies.of_tags(gold, predicted), options)
    console.print(summary.headline_table(found, intervals.LEVEL))
    figures = {name: summary.in_percent(its) for name, its in found.items()}
    return {**scores.to_dict(), "figures": figures}


def _intervals(tally, options):
    rounds = intervals.ROUNDS if options.rounds is None else options.rounds
    return intervals.bootstrap(tally, rounds=rounds, seed=options.seed)
