"""`jaxner evaluate` and `jaxner report`."""

from __future__ import annotations

import dataclasses
import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from jaxner import fields, outputs
from jaxner.commands import SPLITS, note
from jaxner.commands.training import Processes
from jaxner.data import formats, schemes, sources
from jaxner.errors import InputError, UsageError
from jaxner.evaluation.scoring import RULES, reader
from jaxner.fields import Folder, OneOf, Output, Seed, Size

if TYPE_CHECKING:
    from jaxner.analysis.describe import Run
    from jaxner.evaluation.report import Prediction

_NAMES = [x for x in fields.of(sources.Reading) if x != "split_sentences"]
Reading = Annotated[dict[str, Any], formats.Options, *_NAMES]
Decoding = Literal["viterbi", "constrained", "independent", "max_marginal", "sampled"]


@dataclasses.dataclass(kw_only=True)
class Target:
    """What to score; by default, as in training.

    Attributes:
        split: Labelled text.
        format: Format of the file; default: by its name.
        contextual: File with vectors of the tokens; {split} in its name becomes the
            split's.
        rule: How to read ill-formed labels; default: the run's rule.
        constrained: Return only well-formed labels; default: as the run.
        seed: Seed of the draws of --decoding sampled.
        model: Change an option of the model, as in encoder.then.keep=hidden; lists are
            JSON; may repeat.
        restart: Restart to score, by its seed, or all for their average.
    """

    split: Annotated[str, OneOf(SPLITS, "or a file", os.path.exists)] = "dev"
    format: formats.Name | None = None
    contextual: str | None = None
    rule: Annotated[str, OneOf(RULES)] | None = None
    constrained: bool | None = None
    seed: Seed = 0
    model: list[str] | None = None
    restart: Annotated[str, OneOf(("all",), "or a seed", str.isdecimal)] | None = None

    def load(self, run: Path, name: str, reading: dict[str, Any], decoding: str) -> Run:
        """Returns a run, and how to score it."""
        from jaxner import tagging
        from jaxner.analysis import describe
        from jaxner.runs import Workdir
        from jaxner.training import corpus

        if self.seed and decoding != "sampled":
            raise UsageError("--seed is for --decoding sampled")
        seed: Any = self.restart
        seed = int(seed) if seed and seed != "all" else seed
        changes = dict(map(read_change, self.model or ()))
        tagger: Any = tagging.load(str(run), changes, seed=seed)
        config = Workdir(run).read_json("config.json")
        has_tags = tagger.vocabulary.scheme == schemes.TAGS
        if has_tags and self.rule:
            raise InputError("--rule is for spans; the labels of this run are tags")
        if self.split in SPLITS:
            options = dict(reading)
            options |= {"format": self.format} if self.format else {}
            options |= {"contextual": self.contextual} if self.contextual else {}
            split = corpus.split_of_run(Workdir(run), self.split, **options)
        else:  # the run's format is that of its own files
            data = formats.of_run(config["data"], self.split, self.format)
            options = {**data, **reading, "format": self.format}
            split = corpus.load_file(options, self.split, self.contextual)
        folder = str(run)
        if self.restart == "all":
            name += f", ensemble of {len(tagger)}"
        elif self.restart:
            name += f", restart {seed}"
            folder = str(Workdir(run).seed(seed).path)
        defaults = config["evaluation"]
        rule = self.rule or defaults.get("rule", "conlleval")
        rule = "conlleval" if has_tags else rule
        reader(rule, tagger.vocabulary.scheme)  # an error before the work
        is_open = self.constrained is None
        constrained = defaults["constrained"] if is_open else self.constrained
        options = {"decoding": decoding, "seed": self.seed, "constrained": constrained}
        return describe.Run(name, folder, tagger, split, rule, options)


def evaluate(
    run: Folder,
    /,
    *,
    output: Output | None = None,
    decoding: Literal[Decoding, "n_best"] = "viterbi",
    n: Size | None = None,
    seqeval: bool = False,
    target: Target,
    reading: Reading,
    processes: Processes,
) -> dict[str, Any] | None:
    """Scores a run on its dev split, on another one, or on a file.

        jaxner evaluate runs/grn
        jaxner evaluate runs/grn --split test --json > scores.json
        jaxner evaluate runs/grn --split my/test.conll -o predicted.conll

    The rule that chose the run's best epoch reads spans, unless --rule names
    another: `conlleval`, `strict`, `idcnn` or `ncrfpp`. For tags, such as parts
    of speech, the command prints accuracy.

    `--decoding` chooses labels in other ways: `constrained`, `independent` (each
    token's best label by its own scores), `max_marginal` (each token's most
    probable label), `sampled` (drawn by probability) or `n_best` (of the n best
    labellings the one nearest to gold: an upper bound).

    `--model` changes options of the model that need no training, such as the
    parts of an attention encoder to keep (the others become zero):

        jaxner evaluate runs/att --model encoder.then.keep=context2

    Args:
        run: Folder of the run.
        output: Write tokens, gold and predicted labels to this file.
        decoding: How to choose labels.
        n: Number of labellings for --decoding n_best; default: 10.
        seqeval: Print the report of seqeval, too.
        reading: How to read a file; by default, as in training.

    Returns:
        `precision`, `recall`, `f1` and `accuracy` in percent, `macro_…` and
        `weighted_…` means over types; the numbers of `correct`, `predicted` and `gold`
        entities, of `sentences`, `tokens`, `correct_tokens`, `ill_formed` labels and
        `ill_formed_sentences`; the same `by_type`; `figures` with intervals; `rule`,
        `scheme`, `decoding`, `file` with its `sha256`, `notes` and the version of
        `jaxner`.
    """
    from jaxner.analysis import describe
    from jaxner.evaluation import predictions
    from jaxner.evaluation import report as tables
    from jaxner.runs import Workdir
    from jaxner.terminal import LineConsole
    from jaxner.training import cluster, corpus, monitor

    if n and decoding != "n_best":
        raise UsageError("--n is for --decoding n_best")
    if output and formats.of_name(output) in ("jsonl", "csv", "conllu", "spacy"):
        raise UsageError(f"{output} would have columns: end its name with .conll")
    is_writer, n = processes.join(), n or 10
    console = LineConsole(quiet=not is_writer)
    notes = LineConsole(stderr=True, quiet=not is_writer)
    with monitor.waiting(notes, "Loading the tagger"), cluster.agreement() as facts:
        subject = target.load(run, run.name, reading, decoding)
        facts |= {"file": subject.split.sha256, "run": cluster.checksum(subject.tagger)}
        facts["options"] = [subject.settings, n, target.model]
    tagger, split = cluster.placement().tagger(subject.tagger), subject.split
    outputs.check(output, sources=formats.inputs(split.path))
    notes.print(split.summary())
    has_tags, train = tagger.vocabulary.scheme == schemes.TAGS, None
    if has_tags and seqeval:
        raise InputError("--seqeval is for spans; the labels of this run are tags")
    if has_tags:
        train = corpus.training_text(Workdir(run).read_json("config.json")["data"])
    corpus.log_unknown_types(split, tagger.vocabulary, notes.print)
    with monitor.waiting(notes, "Scoring"):
        labels = describe.label(
            tagger, split, train, rule=subject.rule, n=n, **subject.settings
        )
    if decoding == "n_best":
        console.print(f"Of the {n} best labellings, the one nearest to gold counts")
    title = f"{split.name} {split.split}".strip()
    result = {**labels.scores.to_dict(), "decoding": decoding}
    console.print(tables.types_table({"scores": result}, title))
    if seqeval:
        console.print(seqeval_report(labels))
    result |= {"figures": labels.figures(), "notes": split.notes}
    result |= {"file": str(split.path), "sha256": split.sha256}
    console.print(tables.interval_line({**result, "scores": result}))
    if output and is_writer:  # in the tagger's scheme, so that it stays as it is
        predictions.write(str(output), split, labels.gold, labels.predicted)
        notes.print(f"Wrote the predictions to {output}")
    return result if is_writer else None


def report(
    *runs: Folder,
    output: Output,
    decoding: Decoding = "viterbi",
    target: Target,
    reading: Reading,
) -> dict[str, Any]:
    """Writes a page about one or several runs, side by side.

        jaxner report runs/grn -o report.html
        jaxner report runs/grn runs/bilstm --split test -o report.html

    The page shows scores, errors, groups of entities, calibration and the inside
    of the model; a .json file beside it has the same content.

    Args:
        *runs: Folders of the runs.
        output: HTML file to write.
        decoding: How to choose labels; see jaxner evaluate.
        reading: How to read a file; by default, as in training.

    Returns:
        The content of the page: `title`, `runs`, `comparisons` of the first run with
        each other one, and the version of `jaxner`.
    """
    from jaxner.analysis import describe
    from jaxner.evaluation import page
    from jaxner.runs import names_of

    if not runs:
        raise UsageError("expected the folder of a run, or of several")
    page.check(output)

    def load(run: Path, name: str) -> Run:
        note(f"Scoring {name} …")
        subject = target.load(run, name, reading, decoding)
        outputs.check(*page.files(output), sources=formats.inputs(subject.split.path))
        return subject

    return describe.write(
        str(output), map(load, runs, names_of([*map(str, runs)])), note
    )


def seqeval_report(labels: Prediction) -> str:
    """Returns the report of seqeval's default mode, which reads spans as conlleval."""
    # Imported here alone, because scikit-learn comes with it: 50 MB, and over a second.
    from seqeval.metrics import classification_report

    spelling = str.maketrans("LUMW", "ESIS")  # it reads no others
    sides: Any = (
        [[x[0].translate(spelling) + x[1:] for x in row] for row in side]
        for side in (labels.gold, labels.predicted)
    )
    options: Any = {"digits": 4, "zero_division": 0}
    try:
        report = classification_report(*sides, **options)
    except ValueError:  # the maximum of nothing
        report = "no entities"
    return f"seqeval, default mode (rule conlleval):\n{report}"


def read_change(text: str) -> tuple[str, Any]:
    """Returns path and value of one `--model`; the value is JSON or a bare word."""
    path, equals, value = text.partition("=")
    if not (path and equals):
        raise UsageError(f"Expected --model OPTION=VALUE, got {text!r}")
    try:
        return path, json.loads(value)
    except json.JSONDecodeError:
        return path, value
