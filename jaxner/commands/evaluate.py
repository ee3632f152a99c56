r"""Scores a trained tagger.

    jaxner evaluate --workdir runs/grn                          # its test split
    jaxner evaluate --workdir runs/grn --data my/test.conll --output out.conll

The rule for reading spans is the one that picked the run's best epoch.
`--rule` selects another: `conlleval`, `seqeval` (the same rule, counted by
that library), `strict` (only well-formed spans in the tagger's label scheme
count), `idcnn` or `ncrfpp`.

`--report report.html` writes a page with errors, groups, calibration and a
look inside the model, and the same as report.json and report.csv. Several
runs appear side by side:

    jaxner evaluate --workdir runs/grn,runs/bilstm --report report.html

For part-of-speech taggers, the command reports accuracy, also on words
outside the training text; rule and chunks do not apply.

`--decoding` selects another way to choose labels: `constrained`,
`independent` (each token's best label by its own scores), `max_marginal`
(each token's most probable label), `sampled` (drawn by probability) or
`n_best` (the result of a perfect choice among the n best labellings).

`--chunks` adds the recall of each chunk label for all types together.
`--model` changes a model option that needs no training, such as the parts of
an attention encoder to keep (the others become zero):

    jaxner evaluate --workdir runs/att --chunks \
        --model encoder.then.keep=context2
"""

from __future__ import annotations

import functools
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jax
from absl import flags

from jaxner import decoding as decodings
from jaxner import fields, tagging, writing
from jaxner.answers import probabilities
from jaxner.commands import flagged, hosts, restart
from jaxner.commands.changes import read_change as read_change
from jaxner.data import schemes
from jaxner.data.readers import spans
from jaxner.data.splits import Split
from jaxner.evaluation import chunks, pages, predictions, report, rules, summary
from jaxner.evaluation.counts import percent
from jaxner.evaluation.tasks import Task
from jaxner.terminal import LineConsole
from jaxner.training import checks, monitor, prepare
from jaxner.workdir import Workdir

console = LineConsole()


def evaluate(
    params: tagging.Tagger,
    split: Split,
    *,
    rule: str,
    constrained: bool,
    known_words: frozenset[str] | None = None,
    decoding: str = "viterbi",
    n: int = 10,
    seed: int = 0,
):
    """Returns the scores of a tagger on a split, and its labels.

    Args:
        params: What `jaxner.load` returned.
        split: Sentences with gold labels, in any scheme.
        rule: One of `rules.RULES`, or "seqeval".
        constrained: As in `jaxner.tag`.
        known_words: The distinct words of the training text; tags of other words are
            also counted separately.
        decoding: As in `jaxner.tag`; or "n_best": of the n best labellings of each
            sentence, the one that is nearest to the gold one (an oracle's choice).
        n: Number of labellings for "n_best".
        seed: Seed of the draws for "sampled".

    Returns:
        The scores, and the predicted labels of each sentence in the tagger's scheme.
    """
    if decoding == "n_best":
        gold, predicted = probabilities.oracle_split(
            params, split, n, constrained=constrained
        )
    else:
        key = jax.random.key(seed) if decoding == "sampled" else None
        choice: dict[str, Any] = {"decoding": decoding, "constrained": constrained}
        gold, predicted = tagging.label_split(params, split, key=key, **choice)
    task = Task(params.vocabulary.scheme, known_words)
    tokens = [example.tokens for example in split.examples]
    return task.score(tokens, gold, predicted, rule=rule), predicted


def write_predictions(
    path: str, split: Split, predicted: Sequence[Sequence[str]], scheme: str
) -> None:
    """Writes token, gold and predicted label in columns, in the tagger's scheme.

    In another scheme, ill-formed labels would become well-formed ones.
    """
    gold = [example.labels or () for example in split.to_scheme(scheme)]
    predictions.write(path, split, gold, predicted)


def run(values: flags.FlagValues) -> dict[str, Any]:
    """Runs the command; returns the scores."""
    check(values)
    folders = values.workdir.split(",")
    if len(folders) > 1:
        return write_report(values, folders)
    console.quiet = not hosts.join(values)
    with monitor.waiting(console, "Loading the tagger"):
        params = restart.load(values, dict(map(read_change, values.model)))
    has_tags = params.vocabulary.scheme == schemes.TAGS
    check_rule(values, has_tags)
    config = Workdir(values.workdir).read_json("config.json")
    split = load_split(values, config)
    console.print(split.summary())
    reads_documents = params.vocabulary.reads_documents
    if reads_documents and not any(e.document for e in split.examples):
        console.print("No line -DOCSTART-: reading each sentence as a document")
    words = prepare.training_words(config["data"]) if has_tags else None
    if has_tags and words is None:
        console.print(
            "The training file is missing: no separate accuracy for known words"
        )
    prepare.log_unknown_tags(split, params.vocabulary, console.print)
    rule, constrained = as_the_run_did(values, config, has_tags)
    how = {"decoding": values.decoding, "n": values.n, "seed": values.seed}
    with monitor.waiting(console, "Scoring"):
        scores, predicted = evaluate(
            params, split, rule=rule, constrained=constrained, known_words=words, **how
        )
    if values.decoding == "n_best":
        console.print(
            f"Scoring the labelling nearest to the gold among the {values.n} best"
        )
    console.print(report.per_type_table(scores, f"{split.name} {split.split}".strip()))
    about = {"file": str(split.path), "sha256": split.sha256, "notes": split.notes}
    result = {**scores.to_dict(), "decoding": values.decoding, **about}
    result["figures"] = figures_of(params, split, predicted, rule)
    if values.chunks:
        result["chunk_recall"] = chunk_recall(params, split, predicted)
    if not console.quiet:
        _write(values, split, predicted, result, params.vocabulary.scheme)
    return result


def chunk_recall(params: tagging.Tagger, split: Split, predicted) -> dict[str, Any]:
    """Prints the recall of each chunk label, and returns it in percent."""
    gold = [e.labels or () for e in split.to_scheme(params.vocabulary.scheme)]
    found = chunks.recalls(gold, predicted)
    console.print(chunks.table(found, "chunk labels"))
    return {prefix: percent(recall.share) for prefix, recall in found.items()}


def _write(values: flags.FlagValues, split: Split, predicted, result, scheme) -> None:
    if values.output:
        write_predictions(values.output, split, predicted, scheme)
        console.print(f"Predictions written to {values.output}")
    if values.report:
        write_report(values, [values.workdir])
    if values.json:
        writing.write_text(Path(values.json), json.dumps(result, indent=2) + "\n")


def figures_of(
    params: tagging.Tagger, split: Split, predicted: Any, rule: str
) -> dict[str, Any]:
    """Returns all figures with their intervals; prints that of the main one."""
    scheme = params.vocabulary.scheme
    gold = [example.labels or () for example in split.to_scheme(scheme)]
    rule = "conlleval" if rule == "seqeval" else rule
    found = summary.with_intervals(gold, predicted, rule, scheme)
    key = Task(scheme).main_figure
    name = {"f1": "F1"}.get(key, key)
    console.print(summary.interval_line(name, found[key]))
    return found


def write_report(values: flags.FlagValues, folders: Sequence[str]) -> dict[str, Any]:
    """Writes `--report` of one run or several; returns what it holds."""
    from jaxner.commands import reporting  # here, since drawing takes a second

    def load(name: str, folder: str) -> reporting.Scored:
        changes = dict(map(read_change, values.model))
        seed = restart.read(values.restart)
        params = tagging.load(folder, changes, seed=seed)
        has_tags = params.vocabulary.scheme == schemes.TAGS
        check_rule(values, has_tags)
        config = Workdir(folder).read_json("config.json")
        rule, constrained = as_the_run_did(values, config, has_tags)
        rule = "conlleval" if rule == "seqeval" else rule
        split, decoding = load_split(values, config), values.decoding
        own = folder if seed is None else restart.folder_of(folder, seed)
        name = name if seed is None else f"{name}, {restart.name_of(params, seed)}"
        how = {"decoding": decoding, "constrained": constrained, "seed": values.seed}
        return reporting.Scored(name, own, params, split, rule, **how)

    return reporting.write(values.report, folders, load, console.print)


def check_rule(values: flags.FlagValues, has_tags: bool) -> None:
    """Raises ValueError if a rule for spans, or chunks, are wanted of tags."""
    if has_tags and values.chunks:
        raise ValueError("--chunks needs spans; the labels of this tagger are tags")
    if has_tags and values.rule not in (None, "seqeval"):
        raise ValueError(
            f"--rule={values.rule} needs spans; the labels of this tagger are tags"
        )


def check(values: flags.FlagValues) -> None:
    """Raises errors for wrong options before loading the tagger."""
    for folder in values.workdir.split(","):
        checks.check_folder("--workdir", folder)
    fields.check("--n", values.n, fields.Size)
    fields.check("--seed", values.seed, fields.Seed)
    for option, decoding in (("n", "n_best"), ("seed", "sampled")):
        if values[option].present and values.decoding != decoding:
            raise ValueError(f"--{option} is for --decoding={decoding}")
    if values.encoding:
        fields.check("--encoding", values.encoding, fields.Encoding)
    for option in ("token_column", "label_column"):
        fields.check(f"--{option}", values[option].value, fields.Column | None)
    for option in ("output", "json", "contextual"):
        checks.check_file(f"--{option}", values[option].value)
    check_outputs(values, values.data)
    if values.report and values.decoding == "n_best":
        raise ValueError(
            "--decoding=n_best chooses by the gold labels, so its errors are not "
            "the tagger's: leave out --report, or take another decoding"
        )
    if "," in values.workdir and not values.report:
        raise ValueError("Several runs in --workdir are for --report")
    if "," in values.workdir and (values.output or values.json or values.chunks):
        raise ValueError("--output, --json and --chunks are for one run in --workdir")
    if values.data and values.split:
        raise ValueError("Expected --data or --split, got both")
    if values.contextual and not values.data:
        raise ValueError("--contextual needs --data")


def check_outputs(values: flags.FlagValues, source: Any) -> None:
    """Raises an error if an output cannot be written, or would replace the source."""
    for path in (values.output, values.json):
        writing.check(path, source)
    if values.report:
        pages.check(values.report, source)


def load_split(values: flags.FlagValues, config: dict[str, Any]) -> Split:
    """Returns the split to score, read like the run's files unless flags differ.

    Raises:
        ValueError: An output would replace its file.
    """
    given = {name: values[name].value for name in prepare.READING}
    options = config["data"] | {k: v for k, v in given.items() if v is not None}
    if values.data:
        options["format"] = values.format  # the run's is that of its own files
        return prepare.load_file(options, values.data, values.contextual)
    split = prepare.load_split(options, values.split or "test")
    check_outputs(values, split.path)
    return split


def as_the_run_did(
    values: flags.FlagValues, config: dict[str, Any], has_tags: bool
) -> tuple[str, bool]:
    """Returns the rule, and whether to exclude ill-formed labellings."""
    rule, constrained = values.rule, values.constrained
    if rule is None:
        own = "conlleval" if has_tags else config["evaluation"].get("rule", "conlleval")
        rule = "seqeval" if own == "conlleval" else own
    if constrained is None:
        constrained = config["evaluation"]["constrained"]
    return rule, constrained


def define_flags(values: flags.FlagValues) -> None:
    """Declares the command line."""
    define = functools.partial(flags.DEFINE_string, flag_values=values)
    column = functools.partial(flags.DEFINE_integer, flag_values=values)
    choice = functools.partial(flags.DEFINE_enum, flag_values=values)
    switch = functools.partial(flags.DEFINE_bool, flag_values=values)
    define("workdir", "", "Folder of the run; several for --report, between commas.")
    splits = ["train", "dev", "test"]
    choice("split", None, splits, "Split to score; default: test.")
    define("data", None, "File to score instead of a split.")
    define("contextual", None, "File of vectors for the tokens of --data.")
    define("format", None, "Format of --data, such as jsonl; default: by its name.")
    about = "Spans within a token: error, drop or widen; default: the run's choice."
    choice("unfit", None, list(spans.UNFIT), about)
    column("token_column", None, "Column of tokens in --data; default: the run's.")
    column("label_column", None, "Column of labels in --data; default: the run's.")
    define("comments", None, "How comment lines in --data begin; default: the run's.")
    define("encoding", None, "Encoding of --data; default: the run's.")
    define("output", None, "File to write tokens, gold and predicted labels to.")
    define("json", None, "File to write the scores to, as JSON.")
    define("report", None, "File to write the report to: .html, also .json and .csv.")
    known = ["seqeval", *rules.RULES]
    choice(
        "rule", None, known, "How ill-formed labels are read; default: the run's rule."
    )
    about = "Return only well-formed labels; default: the run's choice."
    switch("constrained", None, about)
    known = [*decodings.DECODINGS, "n_best"]
    choice("decoding", "viterbi", known, "How labels are chosen.")
    about = "Labellings for --decoding=n_best; the nearest to the gold counts."
    column("n", 10, about)
    column("seed", 0, "Seed of the draws of --decoding=sampled.")
    _define_rest(values)


def _define_rest(values: flags.FlagValues) -> None:
    switch = functools.partial(flags.DEFINE_bool, flag_values=values)
    switch("chunks", False, "Add the recall of each chunk label.")
    flags.DEFINE_multi_string(
        "model",
        [],
        "Option of the model to change: encoder.then.keep=hidden; lists are JSON.",
        flag_values=values,
    )
    hosts.define(values)
    restart.define(values)
    flags.register_validator(
        "workdir", bool, "give the folder of a run", flag_values=values
    )


def main(arguments: Sequence[str] | None = None) -> None:
    """Runs `jaxner evaluate`.

    Args:
        arguments: Arguments after the command's name; by default, the script's.
    """
    given = sys.argv[1:] if arguments is None else arguments
    flagged.start("evaluate", __name__, define_flags, run, given)
