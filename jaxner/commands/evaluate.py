"""`jaxner evaluate`."""

from __future__ import annotations

import dataclasses
import json as jsons
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from jaxner import fields, writing
from jaxner.commands import Folder, Output
from jaxner.commands.training import Processes
from jaxner.data import formats, schemes
from jaxner.errors import InputError
from jaxner.evaluation.scoring import RULES

if TYPE_CHECKING:
    from jaxner.data.corpora import Split

Decoding = Literal[
    "viterbi", "constrained", "independent", "max_marginal", "sampled", "n_best"
]


@dataclasses.dataclass(kw_only=True)
class Source:
    """The sentences to score: a split of the run's corpus, or a file.

    Attributes:
        split: Split to score; default: test.
        data: File to score instead of a split.
        contextual: File of vectors for the tokens of --data.
        format: Format of --data, such as jsonl; default: by its name.
        unfit: What happens to spans within a token; default: the run's choice.
        token_column: Column of tokens in --data; default: the run's.
        label_column: Column of labels in --data; default: the run's.
        label_names: What numbers as labels in --data stand for, as in O,B-PER,I-PER.
        comments: How comment lines in --data begin; default: the run's.
        encoding: Encoding of --data; default: the run's.
    """

    split: Literal["train", "dev", "test"] | None = None
    data: Path | None = None
    contextual: Path | None = None
    format: str | None = None
    unfit: Annotated[str, fields.OneOf(formats.UNFIT)] | None = None
    token_column: fields.Column | None = None
    label_column: fields.Column | None = None
    label_names: str | None = None
    comments: str | None = None
    encoding: fields.Encoding | None = None

    def load(self, config: Mapping[str, Any]) -> Split:
        """Reads the sentences as the run of a config did, unless options differ."""
        from jaxner.training import corpus

        options = dict(config["data"])
        for name in corpus.READING:
            if (value := getattr(self, name)) is not None:
                options[name] = value
        if self.data is None:
            return corpus.load_split(options, self.split or "test")
        options["format"] = self.format  # the run's is that of its own files
        contextual = None if self.contextual is None else str(self.contextual)
        return corpus.load_file(options, str(self.data), contextual)


def evaluate(
    *,
    workdir: tuple[Folder, ...],
    source: Source,
    output: Output | None = None,
    json: Output | None = None,
    report: Path | None = None,
    rule: Annotated[str, fields.OneOf(("seqeval", *RULES))] | None = None,
    constrained: bool | None = None,
    decoding: Decoding = "viterbi",
    n: fields.Size | None = None,
    seed: fields.Seed | None = None,
    chunks: bool = False,
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
    `--rule` selects another: `conlleval`, `seqeval` (the same rule, counted
    by that library), `strict` (only well-formed spans in the tagger's label
    scheme count), `idcnn` or `ncrfpp`. For part-of-speech taggers, the
    command reports accuracy; rule and chunks do not apply.

    `--report` writes a page with errors, groups, calibration and a look
    inside the model, and the same as .json and .csv. Several runs appear
    side by side.

    `--decoding` selects how labels are chosen: `constrained`, `independent`
    (each token's best label by its own scores), `max_marginal` (each token's
    most probable label), `sampled` (drawn by probability) or `n_best` (the
    result of a perfect choice among the n best labellings).

    `--model` changes a model option that needs no training, such as the parts
    of an attention encoder to keep (the others become zero):

        jaxner evaluate --workdir runs/att --chunks \
            --model encoder.then.keep=context2

    Args:
        workdir: Folder of the run; several for --report, between commas.
        source: What to score.
        output: File to write tokens, gold and predicted labels to.
        json: File to write the scores to, as JSON.
        report: File to write the report to: .html, also .json and .csv.
        rule: How ill-formed labels are read; default: the run's rule.
        constrained: Return only well-formed labels; default: the run's choice.
        decoding: How labels are chosen.
        n: Labellings for --decoding=n_best, of which the nearest to the gold counts;
            default: 10.
        seed: Seed of the draws of --decoding=sampled; default: 0.
        chunks: Add the recall of each chunk label.
        model: Option of the model to change: encoder.then.keep=hidden; lists are JSON.
        restart: For a folder of restarts: a seed, or all, to average them.
        processes: The processes of a cluster.

    Returns:
        The scores; with `report`, its content if there are several runs.
    """
    from jaxner import tagging
    from jaxner.analysis import describe
    from jaxner.evaluation import errors, page, predictions, scoring
    from jaxner.evaluation import report as tables
    from jaxner.runs import Workdir
    from jaxner.terminal import LineConsole
    from jaxner.training import cluster, corpus, monitor

    first, *others = workdir
    for is_wrong, message in (
        (others and not report, "Several runs in --workdir are for --report"),
        (
            others and (output or json or chunks),
            "--output, --json and --chunks are for one run in --workdir",
        ),
        (
            report and decoding == "n_best",
            "--decoding=n_best chooses by the gold labels, so --report has no errors",
        ),
        (n is not None and decoding != "n_best", "--n is for --decoding=n_best"),
        (
            seed is not None and decoding != "sampled",
            "--seed is for --decoding=sampled",
        ),
        (source.data and source.split, "Expected --data or --split, got both"),
        (source.contextual and not source.data, "--contextual needs --data"),
    ):
        if is_wrong:
            raise InputError(message)
    if report:
        page.check(report, source.data)
    console = LineConsole(quiet=not processes.join())
    member = read_restart(restart)
    changes = dict(map(read_change, model or ()))

    def load(name: str, folder: str) -> describe.Run:
        """Returns a run, and how to score it."""
        params: Any = tagging.load(folder, changes, seed=member)
        config = Workdir(folder).read_json("config.json")
        has_tags = params.vocabulary.scheme == schemes.TAGS
        if has_tags and (chunks or rule not in (None, "seqeval")):
            raise InputError(
                "--rule and --chunks need spans; the labels of this tagger are tags"
            )
        split = source.load(config)
        for path in (output, json):
            writing.check(path, split.path)
        if report:
            page.check(report, split.path)
        if member == "all":
            name += f", ensemble of {len(params)}"
        elif member is not None:
            name += f", restart {member}"
            folder = str(Workdir(folder).seed(int(member)).path)
        of_run = "conlleval" if has_tags else config["evaluation"].get("rule")
        is_constrained = config["evaluation"]["constrained"]
        return describe.Run(
            name,
            folder,
            params,
            split,
            (rule or of_run or "conlleval").replace("seqeval", "conlleval"),
            decoding=decoding,
            constrained=is_constrained if constrained is None else constrained,
            seed=seed or 0,
        )

    if report and others:
        return describe.write(str(report), [*map(str, workdir)], load, console.print)
    with monitor.waiting(console, "Loading the tagger"):
        run = load(first.name, str(first))
    params, split = cluster.placement().tagger(run.tagger), run.split
    scheme = params.vocabulary.scheme
    console.print(split.summary())
    words = None
    if scheme == schemes.TAGS:
        words = corpus.training_words(Workdir(first).read_json("config.json")["data"])
    corpus.log_unknown_types(split, params.vocabulary, console.print)
    with monitor.waiting(console, "Scoring"):
        scores, predicted = describe.score(
            params,
            split,
            rule=rule or ("seqeval" if run.rule == "conlleval" else run.rule),
            constrained=run.constrained,
            known_words=words,
            decoding=decoding,
            n=n or 10,
            seed=seed or 0,
        )
    if decoding == "n_best":
        console.print(f"Scoring the nearest to the gold among the {n or 10} best")
    console.print(tables.per_type_table(scores, f"{split.name} {split.split}".strip()))
    result = {**scores.to_dict(), "decoding": decoding}
    result |= {"file": str(split.path), "sha256": split.sha256, "notes": split.notes}
    gold = [example.labels or () for example in split.to_scheme(scheme)]
    labels = tables.Prediction(None, gold, predicted, scheme, run.rule)
    measured = tables.measure(labels)
    result["figures"] = measured["figures"]
    console.print(tables.interval_line(measured))
    if chunks:
        recalls = errors.chunk_recall(gold, predicted)
        console.print(tables.chunks_table(recalls, "chunk labels"))
        shares = {prefix: scoring.percent(x.share) for prefix, x in recalls.items()}
        result["chunk_recall"] = shares
    if console.quiet:
        return result
    if output:  # in the tagger's scheme: another makes ill-formed labels well-formed
        predictions.write(str(output), split, gold, predicted)
        console.print(f"Predictions written to {output}")
    if report:
        describe.write(str(report), [str(first)], load, console.print)
    if json:
        writing.write_text(json, jsons.dumps(result, indent=2) + "\n")
    return result


def read_change(text: str) -> tuple[str, Any]:
    """Returns path and value of one `--model`; the value is JSON or a bare word.

    Example:
        >>> read_change("encoder.then.keep=hidden")
        ('encoder.then.keep', 'hidden')
    """
    path, equals, value = text.partition("=")
    if not (path and equals):
        raise InputError(f"Expected --model path=value, got {text!r}")
    try:
        return path, jsons.loads(value)
    except jsons.JSONDecodeError:
        return path, value


def read_restart(text: str | None) -> int | str | None:
    """Parses `--restart`: a number, or "all".

    Example:
        >>> read_restart("3"), read_restart("all"), read_restart(None)
        (3, 'all', None)
    """
    if text is None or text == "all":
        return text
    if not (text.isascii() and text.isdigit()):
        raise InputError(f"Expected --restart to be a number or 'all', got {text!r}")
    return int(text)
