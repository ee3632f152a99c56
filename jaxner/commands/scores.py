"""`jaxner score` and `jaxner compare`."""

from __future__ import annotations

import dataclasses
import json as jsons
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

from jaxner import fields, writing
from jaxner.commands import Output
from jaxner.data import schemes
from jaxner.errors import InputError
from jaxner.evaluation import rules
from jaxner.wording import counted

HEADLINES = ("precision", "recall", "f1", "macro f1", "weighted f1", "token accuracy")


@dataclasses.dataclass(kw_only=True)
class Scoring:
    """How to read and count files of predictions.

    Attributes:
        rule: How ill-formed labels are read.
        scheme: Scheme of the labels; default: detected.
        tags: Labels are tags, not spans.
        comments: How comment lines begin; default: none.
        encoding: Text encoding.
        rounds: Random draws; default: 1,000 for intervals, 10,000 for comparisons.
        seed: Seed of these draws; default: 0.
    """

    rule: Annotated[str, fields.OneOf(rules.RULES)] = "conlleval"
    scheme: Annotated[str, fields.OneOf(schemes.SCHEMES)] | None = None
    tags: bool = False
    comments: str | None = None
    encoding: fields.Encoding = "utf-8"
    rounds: fields.Size | None = None
    seed: fields.Seed = 0

    def __post_init__(self):
        if self.tags and (self.scheme or self.rule != "conlleval"):
            raise InputError(
                "--rule and --scheme are for spans: leave them or --tags out"
            )

    @property
    def told(self) -> str:
        """The name of the rule, and of the matches' rule if it differs."""
        if self.tags:
            return "tags"
        has_lengths = self.rule in rules.WITH_LENGTHS
        return f"{self.rule} rule" + ("" if has_lengths else " (matches: conlleval's)")

    def read(self, path: Path) -> tuple[Any, Any]:
        """Returns the gold and the predicted labels in a file of predictions.

        Raises:
            InputError: The file is malformed.
        """
        from jaxner.evaluation import predictions

        reading: dict[str, Any] = {"comments": self.comments, "encoding": self.encoding}
        try:
            examples = predictions.examples(path, **reading)
        except InputError as error:  # no option chooses the columns
            message = f"{error.message}. {_COLUMNS}"
            raise InputError(message, error.path, error.line) from None
        gold = [example.tokens for example in examples]
        predicted = [example.labels or () for example in examples]
        if not self.tags:
            try:
                schemes.detect([*gold, *predicted])
            except ValueError:
                raise _malformed(path, examples) from None
        return gold, predicted

    def scheme_of(self, gold: Any) -> str:
        """Returns the scheme of some gold labels."""
        return schemes.TAGS if self.tags else self.scheme or schemes.detect(gold)

    def tally(self, gold: Any, predicted: Any, types: Sequence[str] | None = None):
        """Returns the counts of each sentence, of which all figures are functions."""
        from jaxner.evaluation import tally

        if self.tags:
            return tally.of_tags(gold, predicted)
        scheme = self.scheme_of(gold)
        return tally.of_spans(gold, predicted, self.rule, scheme, types or ())


_COLUMNS = (
    "Each line has one token; the last two columns are the gold label and the "
    "predicted label."
)


def _malformed(path: Path, examples: Any) -> InputError:
    """Returns an error with the first line that has a malformed label."""
    for example in examples:
        for i, labels in enumerate(zip(example.tokens, example.labels, strict=True)):
            for kind, label in zip(("gold", "predicted"), labels, strict=True):
                try:
                    schemes.parse(label)
                except ValueError as error:
                    return InputError(
                        f"{kind}: {error}. {_COLUMNS} If labels are tags, add --tags.",
                        example.path or path,
                        example.lines[i],
                    )
    return InputError("the labels have no scheme", path)


def score(
    file: Path,
    /,
    *,
    scoring: Scoring,
    json: Output | None = None,
    report: Path | None = None,
) -> None:
    """Scores a file of predictions, of any tagger.

        jaxner score predicted.conll
        jaxner score predicted.conll --rule strict --scheme BIOES --json s.json

    The file has one token per line; the last two columns are the gold and the
    predicted label, as for conlleval. A blank line ends a sentence.

    Args:
        file: File whose last two columns are gold and predicted label.
        scoring: How to read and count them.
        json: File to write all figures to, as JSON.
        report: File to write the report to: .html, also .json and .csv.
    """
    from jaxner.evaluation import intervals, pages, summary
    from jaxner.evaluation import report as tables
    from jaxner.evaluation import scoring as spans
    from jaxner.evaluation import tags as tagging_scores
    from jaxner.terminal import LineConsole

    log = LineConsole().print
    if report:
        pages.check(report, file)
    gold, predicted = scoring.read(file)
    rounds = scoring.rounds or intervals.ROUNDS
    tally = scoring.tally(gold, predicted)
    figures = intervals.bootstrap(tally, rounds=rounds, seed=scoring.seed)
    result: dict[str, Any] = {"file": str(file)}
    if scoring.tags:
        scores = tagging_scores.score(gold, predicted)
        log(tables.per_type_table(scores, file.name))
        log(summary.headline_table(figures, intervals.LEVEL))
    else:
        scheme = scoring.scheme_of(gold)
        scores = spans.score(gold, predicted, rule=scoring.rule, scheme=scheme)
        about = tables.caption(scores)
        about = about.replace(f"{scoring.rule} rule", scoring.told)
        log(tables.per_type_table(scores, file.name))
        chosen = {
            name: figure
            for name, figure in figures.items()
            if name in HEADLINES or _is_match(name) or name.startswith("chunk recall")
        }
        log(summary.headline_table(chosen, intervals.LEVEL, about))
        by_rule = summary.by_rule(gold, predicted, scheme)
        log(summary.rules_table(by_rule, f"{scheme}; {about.split('; ')[1]}"))
        result["by_rule"] = by_rule
    result |= scores.to_dict()
    result["figures"] = {x: summary.in_percent(each) for x, each in figures.items()}
    if json:
        writing.write_text(json, jsons.dumps(result, indent=2) + "\n")
    if report:
        _write_report(report, file, gold, predicted, scoring, rounds, log)


def _write_report(report, file: Path, gold, predicted, scoring, rounds, log) -> None:
    """Writes what a report says of labels alone."""
    from jaxner.evaluation import describing, pages, predictions

    tokens = predictions.tokens(
        file, comments=scoring.comments, encoding=scoring.encoding
    )
    scheme = scoring.scheme_of(gold)
    run = describing.Prediction(tokens, gold, predicted, scheme, scoring.rule)
    described = {"name": file.name, **describing.describe(run, rounds=rounds)}
    written = pages.write(report, {"title": file.name, "runs": [described]})
    log(f"Report written to {', '.join(map(str, written))}")


def _is_match(name: str) -> bool:
    """Returns whether a figure is a partial match that differs from F1."""
    return name.endswith("match f1") and not name.startswith("strict")


def compare(
    first: tuple[Path, ...],
    second: tuple[Path, ...],
    /,
    *,
    split: Literal["dev", "test"] | None = None,
    scoring: Scoring,
    all: bool = False,
    json: Output | None = None,
) -> None:
    """Compares two systems on the same sentences by paired tests.

        jaxner compare runs/a runs/b                 two runs, on their test split
        jaxner compare runs/a runs/b --split dev
        jaxner compare a.conll b.conll --rule strict   two files of predictions
        jaxner compare runs/a-1,runs/a-2 runs/b-1,runs/b-2   several seeds a side

    With one run on each side, the tests resample and swap sentences, which
    says nothing about other seeds. With several runs, figures are means over
    runs, and the tests also resample and move runs.

    Args:
        first: Run folder or file of predictions; several seeds separated by commas.
        second: The same of the other system.
        split: Split of runs to compare on; default: test.
        scoring: How to read and count them.
        all: Show every figure, not only the main ones.
        json: File to write all figures to, as JSON.
    """
    from jaxner.evaluation import comparing, intervals, summary
    from jaxner.terminal import LineConsole

    sides = [first, second]
    if split and not any(path.is_dir() for side in sides for path in side):
        raise InputError("--split is for folders of runs, and these are files")
    for side in sides:
        if len({path.resolve() for path in side}) < len(side):
            text = ",".join(map(str, side))
            raise InputError(f"One run counts once, but {text} repeats one")
    labels = [
        [scoring.read(predictions_of(path, split or "test")) for path in side]
        for side in sides
    ]
    types = sorted(
        {
            label.split("-", 1)[-1]
            for side in labels
            for pair in side
            for rows in pair
            for row in rows
            for label in row
            if label != "O"
        }
    )
    tallies = [[scoring.tally(*pair, types) for pair in side] for side in labels]
    rounds = scoring.rounds or comparing.ROUNDS
    differences = comparing.compare(*tallies, rounds=rounds, seed=scoring.seed)
    shown = {
        name: difference
        for name, difference in differences.items()
        if all or name in HEADLINES or _is_match(name) or "accuracy" in name
    }
    names = [",".join(map(str, side)) for side in sides]
    numbers = [f"{len(side):,}" for side in sides]
    caption = (
        f"{scoring.told}{_ill_formed(labels, scoring)}; a: {names[0]}, b: {names[1]} "
        f"(runs: {numbers[0]} and {numbers[1]}); {counted(rounds, 'round')}"
    )
    LineConsole().print(summary.difference_table(shown, intervals.LEVEL, caption))
    if json:
        about = {"first": [*map(str, first)], "second": [*map(str, second)]}
        about |= {"rounds": rounds, "rule": scoring.told, "seed": scoring.seed}
        figures = {name: each._asdict() for name, each in differences.items()}
        about |= {"unit": "fraction", "figures": figures}
        writing.write_text(json, jsons.dumps(about, indent=2) + "\n")


def _ill_formed(labels: Any, scoring: Scoring) -> str:
    """Tells the ill-formed labels of each side, each run by its own scheme."""
    if scoring.tags:
        return ""
    counts = [
        sum(
            len(schemes.violations(row, scoring.scheme_of(gold)))
            for gold, predicted in side
            for row in predicted
        )
        for side in labels
    ]
    return f"; ill-formed labels: {counts[0]:,} and {counts[1]:,}"


def predictions_of(path: Path, split: str) -> Path:
    """Returns the file of predictions; for a run folder, that of the split.

    Raises:
        FileNotFoundError: The file or run is missing.
        InputError: The folder holds restarts, not a run.
    """
    if not path.is_dir():
        return path
    from jaxner.workdir import Workdir

    folder = Workdir(path)
    if (seeds := folder.seeds()) and not folder.has_best():
        each = ",".join(str(folder.seed(seed).path) for seed in seeds)
        raise InputError(f"{path} holds restarts; to compare them, give {each}")
    file = folder.predictions(split)
    if not file.is_file():
        raise FileNotFoundError(
            f"{file} is missing: the run is not finished. jaxner evaluate --workdir "
            f"{path} --output FILE writes one."
        )
    return file
