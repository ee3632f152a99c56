"""`jaxner evaluate`."""

from __future__ import annotations

import json as jsons
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from jaxner import fields, outputs
from jaxner.commands import Folder, Output, write_json
from jaxner.commands.training import Processes
from jaxner.data import formats, schemes
from jaxner.errors import InputError
from jaxner.evaluation.scoring import RULES

if TYPE_CHECKING:
    from jaxner.analysis.describe import Run
    from jaxner.evaluation.report import Prediction

Decoding = Literal[
    "viterbi", "constrained", "independent", "max_marginal", "sampled", "n_best"
]
_NAMES = ("token_column", "label_column", "label_names", "comments", "encoding")
Reading = Annotated[dict[str, Any], formats.Options, *_NAMES, "unfit", "offsets"]


def evaluate(
    *,
    workdir: tuple[Folder, ...],
    split: Literal["train", "dev", "test"] | None = None,
    data: Path | None = None,
    contextual: Path | None = None,
    format: str | None = None,
    reading: Reading,
    output: Output | None = None,
    json: Output | None = None,
    report: Output | None = None,
    rule: Annotated[str, fields.OneOf(RULES)] | None = None,
    seqeval: bool = False,
    constrained: bool | None = None,
    decoding: Decoding = "viterbi",
    n: fields.Size | None = None,
    seed: fields.Seed | None = None,
    model: list[str] | None = None,
    restart: str | None = None,
    processes: Processes,
) -> dict[str, Any]:
    r"""Scores a trained tagger.

        jaxner evaluate --workdir runs/grn                     # its test split
        jaxner evaluate --workdir runs/grn --data my/test.conll \
            --output out.conll
        jaxner evaluate --workdir runs/grn,runs/bilstm --report report.html

    The rule for reading spans is the one that picked the run's best epoch.
    `--rule` selects another: `conlleval`, `strict`, `idcnn` or `ncrfpp`. For
    part-of-speech taggers, the command reports accuracy; rule does not apply.
    `--seqeval` prints that library's report, too.

    `--report` writes a page with errors, groups, calibration and a look inside
    the model, and the same as .json; several runs appear side by side.

    `--decoding` selects how labels are chosen: `constrained`, `independent`
    (each token's best label by its own scores), `max_marginal` (each token's
    most probable label), `sampled` (drawn by probability) or `n_best` (the
    result of a perfect choice among the n best labellings).

    `--model` changes a model option that needs no training, such as the parts
    of an attention encoder to keep (the others become zero):

        jaxner evaluate --workdir runs/att --model encoder.then.keep=context2

    Args:
        workdir: Folder of the run; several for --report, between commas.
        split: Split to score; default: test.
        data: File to score instead of a split.
        contextual: File of vectors for the tokens of --data.
        format: Format of --data, such as jsonl; default: by its name.
        reading: How to read the sentences; default: as the run.
        output: File to write tokens, gold and predicted labels to.
        json: File to write the scores to, as JSON.
        report: File to write the report to: .html, also .json.
        rule: How ill-formed labels are read; default: the run's rule.
        seqeval: Print seqeval's own report as a second opinion.
        constrained: Return only well-formed labels; default: the run's choice.
        decoding: How labels are chosen.
        n: Labellings for --decoding=n_best; the nearest to gold counts; default: 10.
        seed: Seed of the draws of --decoding=sampled; default: 0.
        model: Option of the model to change: encoder.then.keep=hidden; lists are JSON.
        restart: For a folder of restarts: a seed, or all, to average them.
        processes: The processes of a cluster.

    Returns the scores; with `report`, its content if there are several runs.
    """
    from jaxner import tagging
    from jaxner.analysis import describe
    from jaxner.evaluation import page, predictions
    from jaxner.evaluation import report as tables
    from jaxner.runs import Workdir, names_of
    from jaxner.terminal import LineConsole
    from jaxner.training import cluster, corpus, monitor

    is_n_best, is_sampled = decoding == "n_best", decoding == "sampled"
    is_one = len(workdir) == 1
    wrong = {
        "Several runs in --workdir are for --report": not (is_one or report),
        "--output, --json and --seqeval are for one run": (
            not is_one and (output or json or seqeval)
        ),
        "--decoding=n_best chooses by the gold labels, so --report has no errors": (
            report and is_n_best
        ),
        "--n is for --decoding=n_best": n and not is_n_best,
        "--seed is for --decoding=sampled": seed is not None and not is_sampled,
        "Expected --data or --split, got both": data and split,
        "--contextual needs --data": contextual and not data,
        f"Expected --restart to be a number or 'all', got {restart!r}": (
            restart not in (None, "all") and not str(restart).isdecimal()
        ),
    }
    for message in (text for text, is_wrong in wrong.items() if is_wrong):
        raise InputError(message)
    if report:
        page.check(report, json, output)
    console = LineConsole(quiet=not processes.join())
    member: Any = int(restart) if restart and restart.isdecimal() else restart
    changes = dict(map(read_change, model or ()))

    def load(name: str, folder: str) -> Run:
        """Returns a run, and how to score it."""
        tagger: Any = tagging.load(folder, changes, seed=member)
        config = Workdir(folder).read_json("config.json")
        has_tags = tagger.vocabulary.scheme == schemes.TAGS
        if has_tags and (rule or seqeval):
            raise InputError("--rule and --seqeval need spans; these labels are tags")
        options = {**config["data"], **reading}
        if format or data:  # the run's format is that of its own files
            options["format"] = format
        if data:
            vectors = contextual and str(contextual)
            scored = corpus.load_file(options, str(data), vectors)
        else:
            scored = corpus.load_split(options, split or "test")
        files = page.files(report) if report else []
        outputs.check(output, json, *files, sources=formats.inputs(scored.path))
        if member == "all":
            name += f", ensemble of {len(tagger)}"
        elif member is not None:
            name += f", restart {member}"
            folder = str(Workdir(folder).seed(member).path)
        run = config["evaluation"]
        of_run = "conlleval" if has_tags else run.get("rule", "conlleval")
        how = {"decoding": decoding, "seed": seed or 0}
        how["constrained"] = run["constrained"] if constrained is None else constrained
        return describe.Run(name, folder, tagger, scored, rule or of_run, how)

    names = names_of([*map(str, workdir)])
    if not is_one:
        runs = map(load, names, map(str, workdir))
        return describe.write(str(report), runs, console.print)
    with monitor.waiting(console, "Loading the tagger"):
        run = load(names[0], str(workdir[0]))
    tagger, scored = cluster.placement().tagger(run.tagger), run.split
    console.print(scored.summary())
    train = None
    if tagger.vocabulary.scheme == schemes.TAGS:
        config = Workdir(workdir[0]).read_json("config.json")
        train = corpus.training_text(config["data"])
    corpus.log_unknown_types(scored, tagger.vocabulary, console.print)
    how = {"rule": run.rule, "n": n or 10, **run.how}
    with monitor.waiting(console, "Scoring"):
        labels = describe.label(tagger, scored, train, **how)
    if is_n_best:
        console.print(f"Scoring the nearest to the gold among the {n or 10} best")
    title = f"{scored.name} {scored.split}".strip()
    console.print(tables.per_type_table(labels.scores, title))
    if seqeval:
        console.print(seqeval_report(labels))
    result = {**labels.scores.to_dict(), "decoding": decoding}
    result |= {"figures": labels.figures(), "notes": scored.notes}
    result |= {"file": str(scored.path), "sha256": scored.sha256}
    console.print(tables.interval_line({**result, "scores": result}))
    if console.quiet:
        return result
    if output:  # in the tagger's scheme: another makes ill-formed labels well-formed
        predictions.write(str(output), scored, labels.gold, labels.predicted)
        console.print(f"Predictions written to {output}")
    if report:
        describe.write(str(report), [run], console.print)
    write_json(json, result)
    return result


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
        raise InputError(f"Expected --model path=value, got {text!r}")
    try:
        return path, jsons.loads(value)
    except jsons.JSONDecodeError:
        return path, value
