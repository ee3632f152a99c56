"""`jaxner score` and `jaxner compare`."""

from __future__ import annotations

import dataclasses
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from jaxner import fields
from jaxner.commands import Output, write_json
from jaxner.data import schemes
from jaxner.errors import InputError
from jaxner.evaluation.scoring import RULES
from jaxner.wording import counted

if TYPE_CHECKING:
    from jaxner.evaluation.report import Prediction


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

    rule: Annotated[str, fields.OneOf(RULES)] = "conlleval"
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

    def read(self, path: Path) -> Prediction:
        """Returns the labels in a file of predictions, and their own scheme."""
        from jaxner.evaluation import predictions
        from jaxner.evaluation.report import Prediction
        from jaxner.terminal import LineConsole

        reading: dict[str, Any] = {"comments": self.comments, "encoding": self.encoding}
        gold, predicted, tokens, lines = predictions.read_labels(path, **reading)
        if self.tags:
            return Prediction(tokens, gold, predicted, schemes.TAGS)
        names = {label for row in (*gold, *predicted) for label in row}
        notes = schemes.choices(names)
        if is_io := schemes.is_io(names):
            gold = [schemes.from_io(row) for row in gold]
            predicted = [schemes.from_io(row) for row in predicted]
            names = set(schemes.from_io(names))
        wrong = schemes.flaws(names)
        rows = zip(*map(chain.from_iterable, (lines, gold, predicted)), strict=True)
        for line, *labels in rows if wrong else ():
            for label in filter(wrong.get, labels):
                message = (
                    f"{wrong[label]}. The last two columns are the gold label and the "
                    "predicted label. If labels are tags, add --tags."
                )
                raise InputError(message, path, line)
        scheme, *others = schemes.fitting(gold)
        if self.scheme:
            scheme = self.scheme
        elif others and not is_io:
            both = f"{', '.join(others)} alike; {scheme} is taken (--scheme)"
            notes.append(f"gold labels fit {scheme} and {both}")
        for note in notes:
            LineConsole(stderr=True).print(f"{path}: {note}", markup=False)
        return Prediction(tokens, gold, predicted, scheme, self.rule)


def score(
    file: Path,
    /,
    *,
    scoring: Scoring,
    json: Output | None = None,
    report: Output | None = None,
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
        report: File to write the report to: .html, also .json.
    """
    from jaxner.evaluation import page, stats
    from jaxner.evaluation import report as tables
    from jaxner.terminal import LineConsole

    log = LineConsole().print
    if report:
        page.check(report, json, sources=[file])
    describe = tables.describe if report else tables.measure
    rounds = scoring.rounds or stats.ROUNDS
    run = describe(scoring.read(file), rounds=rounds, seed=scoring.seed)
    log(tables.types_table({"scores": run["scores"]}, file.name))
    log(tables.figures_table(run))
    if not scoring.tags:
        log(tables.rules_table(run))
    parts = {x: run[x] for x in ("figures", "by_rule") if x in run}
    write_json(json, {"file": str(file), **run["scores"], **parts})
    if report:
        content = {"title": file.name, "runs": [{"name": file.name, **run}]}
        written = page.write(report, content)
        log(f"Report written to {', '.join(map(str, written))}")


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
    from jaxner.evaluation import report, stats
    from jaxner.terminal import LineConsole

    sides = [first, second]
    if split and not any(path.is_dir() for side in sides for path in side):
        raise InputError("--split is for folders of runs, and these are files")
    for side in sides:
        if len({path.resolve() for path in side}) < len(side):
            text = ",".join(map(str, side))
            raise InputError(f"One run counts once, but {text} repeats one")
    runs = [
        [scoring.read(predictions_of(path, split or "test")) for path in side]
        for side in sides
    ]
    rounds = scoring.rounds or stats.TEST_ROUNDS
    compared = report.compare(*runs, rounds=rounds, seed=scoring.seed)
    shown = {
        name: difference
        for name, difference in compared["figures"].items()
        if all
        or name in report.COMPARED
        or "accuracy" in name
        or (name.endswith("match f1") and not name.startswith("strict"))
    }
    facts: dict[str, Any] = {"first": [*map(str, first)], "second": [*map(str, second)]}
    facts["rule"] = "tags" if scoring.tags else scoring.rule
    names = [",".join(facts[side]) for side in ("first", "second")]
    note = "a: {}, b: {} (runs: {} and {})".format(*names, *compared["numbers"])
    note += f"; {counted(rounds, 'round')}"
    if not scoring.tags:
        broken = "ill-formed labels: {:,} and {:,}".format(*compared["ill_formed"])
        note = f"{scoring.rule} rule; {broken}; {note}"
    heads = {"first": "a", "second": "b", "difference": "a - b"}
    LineConsole().print(report.differences_table(shown, note, heads))
    write_json(json, facts | compared)


def predictions_of(path: Path, split: str) -> Path:
    """Returns the file of predictions; for a run folder, that of the split."""
    if not path.is_dir():
        return path
    from jaxner.runs import Workdir

    folder = Workdir(path)
    if seeds := folder.seeds():
        folders = ",".join(str(folder.seed(seed).path) for seed in seeds)
        raise InputError(f"{path} holds restarts; to compare them, give {folders}")
    file = folder.predictions(split)
    if not file.is_file():
        raise FileNotFoundError(
            f"{file} is missing: the run is not finished. jaxner evaluate --workdir "
            f"{path} --output FILE writes one."
        )
    return file
