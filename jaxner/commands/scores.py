"""`jaxner score` and `jaxner compare`."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from jaxner import fields
from jaxner.commands import note
from jaxner.data import schemes
from jaxner.errors import InputError, UsageError, name_of, place_of
from jaxner.evaluation.scoring import RULES
from jaxner.wording import counted

if TYPE_CHECKING:
    from jaxner.evaluation.report import Prediction


@dataclasses.dataclass(kw_only=True)
class Scoring:
    """How to read and count predictions.

    Attributes:
        rule: How to read ill-formed labels.
        scheme: Scheme of the labels; default: detected.
        tags: Read labels as tags, not as spans.
        comments: Prefix of comment lines; default: none.
        encoding: Encoding of the text.
        rounds: Number of random draws; default: 1,000 for intervals, 10,000 for tests.
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
            message = "--rule and --scheme are for spans: leave them or --tags out"
            raise UsageError(message)

    def read(self, path: Path) -> Prediction:
        """Returns the labels in a file of predictions, and their own scheme."""
        from jaxner.evaluation import predictions

        note(f"Reading {name_of(path)} …")
        scheme = schemes.TAGS if self.tags else self.scheme
        reading: dict[str, Any] = {"comments": self.comments, "encoding": self.encoding}
        prediction, notes = predictions.load(path, scheme, self.rule, **reading)
        for text in notes:
            note(f"{name_of(path)}: {text}")
        return prediction


def score(
    file: Path, /, *, output: fields.Output | None = None, scoring: Scoring
) -> dict[str, Any]:
    """Scores a file of predictions, of any tagger.

        jaxner score predicted.conll
        jaxner score predicted.conll --rule strict --scheme BIOES -o report.html

    The file has one token per line; the last two columns are the gold and the
    predicted label, as for conlleval. A blank line ends a sentence. To score a
    file of predictions against a file of gold labels, join their lines:

        awk '{print $NF}' theirs.txt | cat -s | paste -d ' ' gold.txt - > both.txt

    Args:
        file: File whose last two columns are gold and predicted label; -: standard
            input.
        output: Write a page about the errors to this .html, and its content to .json.

    Returns:
        What jaxner evaluate returns, but for `decoding`, `sha256` and `notes`, and
        scores `by_rule`.
    """
    from jaxner.evaluation import page, stats
    from jaxner.evaluation import report as tables

    if output:
        page.check(output, sources=[file])
    measure = tables.describe if output else tables.measure
    rounds = scoring.rounds or stats.ROUNDS
    run = measure(scoring.read(file), rounds=rounds, seed=scoring.seed)
    title = name_of(file).name
    show_scores(run, title)
    if output:
        content = {"title": title, "runs": [{"name": title, **run}]}
        note(f"Wrote {', '.join(map(str, page.write(output, content)))}")
    parts = {x: run[x] for x in ("figures", "by_rule") if x in run}
    return {"file": str(file), **run["scores"], **parts}


def show_scores(run: dict[str, Any], title: str) -> None:
    """Prints what `report.measure` returned as tables."""
    from jaxner.evaluation import report as tables
    from jaxner.terminal import LineConsole

    log = LineConsole().print
    log(tables.types_table({"scores": run["scores"]}, title))
    log(tables.figures_table(run))
    if "by_rule" in run:
        log(tables.rules_table(run))


def compare(
    *runs: Path,
    against: tuple[Path, ...] = (),
    split: Literal["dev", "test"] = "dev",
    all: bool = False,
    scoring: Scoring,
) -> dict[str, Any]:
    """Tests whether two systems differ on the same sentences.

        jaxner compare runs/a runs/b                   # two runs, on dev
        jaxner compare runs/a runs/b --split test
        jaxner compare a.conll b.conll --rule strict   # two files of predictions
        jaxner compare runs/a-* --against runs/b-*     # several seeds a side

    With one run on each side, the tests resample and swap sentences, which
    says nothing about other seeds. With several runs, figures are means over
    runs, and the tests also resample and move runs.

    Args:
        *runs: Folders of two runs, or two files of predictions; with --against, any
            number, of the first system.
        against: Runs or files of the second system.
        split: Split of the runs.
        all: Show every figure, not only the main ones.

    Returns:
        `figures`: each with its values for both systems, their difference with an
        interval, and p-values; the paths of the `first` and the `second` system and the
        `numbers` of their runs; `rule`, the `split` of runs, `ill_formed` labels,
        `rounds`, `seed` and the `unit` of the figures.
    """
    from jaxner.evaluation import report, stats
    from jaxner.terminal import LineConsole

    sides = [[*runs], [*against]] if against else [[path] for path in runs]
    if len(sides) != 2 or not runs:
        message = "expected two runs or files, or --against between several, got"
        raise UsageError(f"{message} {len(runs)}")
    for side in sides:
        if len({path.resolve() for path in side}) < len(side):
            text = " ".join(map(str, side))
            raise InputError(f"One run counts once, but {text} repeats one")
    labels = [
        [scoring.read(predictions_of(path, split)) for path in side] for side in sides
    ]
    flat_runs = [run for side in labels for run in side]
    for run in flat_runs:
        i = report.first_difference(flat_runs[0].tokens or (), run.tokens or ())
        if i is not None:
            place, first = (place_of(*x.place(i)) for x in (run, flat_runs[0]))
            words = " ".join(run.tokens[i][:10]) if run.tokens else ""
            message = f"{place}: other tokens than at {first}, first in sentence {i}"
            note(f"{message} (counted from 0): {words!r}")
    rounds = scoring.rounds or stats.TEST_ROUNDS
    content = report.compare(*labels, rounds=rounds, seed=scoring.seed)
    rows = {
        name: difference
        for name, difference in content["figures"].items()
        if all
        or name in report.COMPARISON
        or "accuracy" in name
        or (name.endswith("match f1") and not name.startswith("strict"))
    }
    first, second = ([*map(str, side)] for side in sides)
    rule = "tags" if scoring.tags else scoring.rule
    facts: dict[str, Any] = {"first": first, "second": second, "rule": rule}
    texts = []
    if not scoring.tags:
        counts = "ill-formed labels: {:,} and {:,}".format(*content["ill_formed"])
        texts += [f"{rule} rule", counts]
    if any(path.is_dir() for side in sides for path in side):
        facts["split"] = split
        texts.append(f"{split} split")
    numbers = "runs: {} and {}".format(*content["numbers"])
    texts.append(f"a: {' '.join(first)}, b: {' '.join(second)} ({numbers})")
    texts.append(counted(rounds, "round"))
    heads = {"first": "a", "second": "b", "difference": "a - b"}
    LineConsole().print(report.differences_table(rows, "; ".join(texts), heads))
    return facts | content


def predictions_of(path: Path, split: str) -> Path:
    """Returns the file of predictions; for a run folder, that of the split."""
    if not path.is_dir():
        return path
    from jaxner.runs import Workdir

    folder = Workdir(path)
    if seeds := folder.seeds():
        folders = " ".join(str(folder.seed(seed).path) for seed in seeds)
        raise InputError(f"{path} holds restarts; to compare them, give {folders}")
    file = folder.predictions(split)
    if not file.is_file():
        raise FileNotFoundError(
            f"{path} has no predictions on {split}: jaxner evaluate {path} --split "
            f"{split} -o FILE writes a file to compare"
        )
    return file
