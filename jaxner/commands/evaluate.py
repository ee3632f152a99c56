"""`jaxner evaluate`."""

from __future__ import annotations

import dataclasses
import json as jsons
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from jaxner import fields, writing
from jaxner.commands import Folder, Output
from jaxner.commands.training import Processes
from jaxner.data import schemes
from jaxner.data.formats import UNFIT
from jaxner.errors import InputError
from jaxner.evaluation.scoring import RULES

if TYPE_CHECKING:
    from jaxner.data.corpora import Split
    from jaxner.tagger import Tagger


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
    unfit: Annotated[str, fields.OneOf(UNFIT)] | None = None
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


@dataclasses.dataclass(kw_only=True)
class Labelling:
    """How a tagger labels, and how its labels are counted.

    Attributes:
        rule: How ill-formed labels are read; default: the run's rule.
        constrained: Return only well-formed labels; default: the run's choice.
        decoding: How labels are chosen.
        n: Labellings for --decoding=n_best, of which the nearest to the gold counts;
            default: 10.
        seed: Seed of the draws of --decoding=sampled; default: 0.
        model: Option of the model to change: encoder.then.keep=hidden; lists are JSON.
        restart: For a folder of restarts: a seed, or all, to average them.
    """

    rule: Annotated[str, fields.OneOf(("seqeval", *RULES))] | None = None
    constrained: bool | None = None
    decoding: Literal[
        "viterbi", "constrained", "independent", "max_marginal", "sampled", "n_best"
    ] = "viterbi"
    n: fields.Size | None = None
    seed: fields.Seed | None = None
    model: list[str] | None = None
    restart: str | None = None

    def __post_init__(self):
        for option, value, decoding in (
            ("n", self.n, "n_best"),
            ("seed", self.seed, "sampled"),
        ):
            if value is not None and self.decoding != decoding:
                raise InputError(f"--{option} is for --decoding={decoding}")

    def load(self, folder: Path) -> Tagger:
        """Returns the tagger of a folder, and of the chosen restart."""
        from jaxner import tagging

        changes = dict(map(read_change, self.model or ()))
        params = tagging.load(str(folder), changes, seed=read_restart(self.restart))
        if params.vocabulary.scheme == schemes.TAGS and self.rule not in (
            None,
            "seqeval",
        ):
            raise InputError(
                f"--rule={self.rule} needs spans; the labels of this tagger are tags"
            )
        return params

    def of_run(self, config: Mapping[str, Any], has_tags: bool) -> tuple[str, bool]:
        """Returns the rule, and whether to exclude ill-formed labellings."""
        rule, constrained = self.rule, self.constrained
        if rule is None:
            rule = config["evaluation"].get("rule", "conlleval")
            if has_tags or rule == "conlleval":
                rule = "seqeval"
        if constrained is None:
            constrained = config["evaluation"]["constrained"]
        return rule, constrained


def evaluate(
    *,
    workdir: tuple[Folder, ...],
    source: Source,
    output: Output | None = None,
    json: Output | None = None,
    report: Path | None = None,
    labelling: Labelling,
    chunks: bool = False,
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
        labelling: How to label and to count.
        chunks: Add the recall of each chunk label.
        processes: The processes of a cluster.

    Returns:
        The scores; with `report`, its content if there are several runs.
    """
    from jaxner.analysis import describe
    from jaxner.evaluation import errors, page, predictions, scoring
    from jaxner.evaluation import report as tables
    from jaxner.runs import Workdir
    from jaxner.terminal import LineConsole
    from jaxner.training import cluster, corpus, monitor

    is_one = bool(output or json or chunks)
    _check(workdir, source, report, labelling, is_one)
    folder, *others = workdir
    if report and others:
        return write_report(report, workdir, source, labelling)
    console = LineConsole(quiet=not processes.join())
    with monitor.waiting(console, "Loading the tagger"):
        params = cluster.placement().tagger(labelling.load(folder))
    scheme = params.vocabulary.scheme
    has_tags = scheme == schemes.TAGS
    if has_tags and chunks:
        raise InputError("--chunks needs spans; the labels of this tagger are tags")
    config = Workdir(folder).read_json("config.json")
    split = source.load(config)
    for path in (output, json):
        writing.check(path, split.path)
    if report:
        page.check(report, split.path)
    console.print(split.summary())
    if params.vocabulary.reads_documents and not any(
        e.document for e in split.examples
    ):
        console.print("No line -DOCSTART-: reading each sentence as a document")
    words = corpus.training_words(config["data"]) if has_tags else None
    if has_tags and words is None:
        console.print(
            "The training file is missing: no separate accuracy for known words"
        )
    corpus.log_unknown_types(split, params.vocabulary, console.print)
    rule, constrained = labelling.of_run(config, has_tags)
    with monitor.waiting(console, "Scoring"):
        scores, predicted = describe.score(
            params,
            split,
            rule=rule,
            constrained=constrained,
            known_words=words,
            decoding=labelling.decoding,
            n=labelling.n or 10,
            seed=labelling.seed or 0,
        )
    if labelling.decoding == "n_best":
        console.print(
            "Scoring the labelling nearest to the gold among the "
            f"{labelling.n or 10} best"
        )
    console.print(tables.per_type_table(scores, f"{split.name} {split.split}".strip()))
    result = {**scores.to_dict(), "decoding": labelling.decoding}
    result |= {"file": str(split.path), "sha256": split.sha256, "notes": split.notes}
    gold = [example.labels or () for example in split.to_scheme(scheme)]
    rule = "conlleval" if rule == "seqeval" else rule
    measured = tables.measure(tables.Prediction(None, gold, predicted, scheme, rule))
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
        write_report(report, workdir, source, labelling)
    if json:
        writing.write_text(json, jsons.dumps(result, indent=2) + "\n")
    return result


def _check(workdir, source, report, labelling, is_one: bool) -> None:
    """Checks that options fit together, before anything is read."""
    from jaxner.evaluation import page

    if len(workdir) > 1 and not report:
        raise InputError("Several runs in --workdir are for --report")
    if len(workdir) > 1 and is_one:
        raise InputError("--output, --json and --chunks are for one run in --workdir")
    if report and labelling.decoding == "n_best":
        raise InputError(
            "--decoding=n_best chooses by the gold labels, so its errors are not "
            "the tagger's: leave out --report, or take another decoding"
        )
    if source.data and source.split:
        raise InputError("Expected --data or --split, got both")
    if source.contextual and not source.data:
        raise InputError("--contextual needs --data")
    if report:
        page.check(report, source.data)


def write_report(
    report: Path, folders: Sequence[Path], source: Source, labelling: Labelling
) -> dict[str, Any]:
    """Writes `--report` of one run or several; returns what it holds."""
    from jaxner.analysis import describe
    from jaxner.evaluation import page
    from jaxner.runs import Workdir
    from jaxner.terminal import LineConsole

    def load(name: str, folder: str) -> describe.Run:
        params: Any = labelling.load(Path(folder))
        config = Workdir(folder).read_json("config.json")
        has_tags = params.vocabulary.scheme == schemes.TAGS
        rule, constrained = labelling.of_run(config, has_tags)
        split = source.load(config)
        page.check(report, split.path)
        if (restart := read_restart(labelling.restart)) is not None:
            if restart == "all":
                name += f", ensemble of {len(params)}"
            else:
                name += f", restart {restart}"
                folder = str(Workdir(folder).seed(int(restart)).path)
        return describe.Run(
            name,
            folder,
            params,
            split,
            "conlleval" if rule == "seqeval" else rule,
            decoding=labelling.decoding,
            constrained=constrained,
            seed=labelling.seed or 0,
        )

    return describe.write(str(report), [*map(str, folders)], load, LineConsole().print)


def read_change(text: str) -> tuple[str, Any]:
    """Returns path and value of one `--model`; the value is JSON or a bare word.

    Raises:
        InputError: The path or the value is missing.

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

    Raises:
        InputError: The text is neither.

    Example:
        >>> read_restart("3"), read_restart("all"), read_restart(None)
        (3, 'all', None)
    """
    if text is None or text == "all":
        return text
    if not (text.isascii() and text.isdigit()):
        raise InputError(f"Expected --restart to be a number or 'all', got {text!r}")
    return int(text)
