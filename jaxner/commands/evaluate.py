r"""Scores a trained tagger.

    jaxner evaluate --workdir runs/grn                          # its test split
    jaxner evaluate --workdir runs/grn --data my/test.conll --output predicted.conll

Spans are read by the rule that picked the run's best epoch: seqeval's default mode,
which is conlleval's rule (`--rule=seqeval`), or `--rule=strict`, which counts only
spans that are well-formed in the tagger's label scheme.

Of a tagger of parts of speech it is the accuracy that is told, also of words that the
training text lacks; neither the rule nor chunks concern it.

`--decoding` chooses labels otherwise: `constrained`, `independent` (each token's best
label by its own scores), `max_marginal` (each token's most probable label), `sampled`
(drawn with their probability) or `n_best` (what a perfect choice among the n best
labellings would reach).

`--chunks` adds the recall of each chunk label, whatever the type. `--model` changes an
option of the model that needs no training, such as which parts of an attention encoder
are kept (the others are zeroed):

    jaxner evaluate --workdir runs/att --chunks --model encoder.then.keep=context2
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
from rich.console import Console

from jaxner import decoding as decodings
from jaxner import probabilities, tagging
from jaxner.commands import flagged
from jaxner.data import schemes
from jaxner.data.splits import Split
from jaxner.evaluation import chunks, predictions, report
from jaxner.evaluation.tasks import Task
from jaxner.training import prepare
from jaxner.workdir import Workdir

console = Console(highlight=False, soft_wrap=True)


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
    """Scores the labels that a tagger gives to a split.

    Args:
        params: What `jaxner.load` returned.
        split: Sentences with gold labels, in any scheme.
        rule: "seqeval" or "strict".
        constrained: As in `jaxner.tag`.
        known_words: The distinct words of the training text; tags of others are also
            counted apart.
        decoding: As in `jaxner.tag`; or "n_best": of the n best labellings of each
            sentence, the one that is nearest to the gold one (an oracle's choice).
        n: How many labellings "n_best" has.
        seed: Of the draws of "sampled".

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
    path: str, split: Split, predicted: Sequence[Sequence[str]]
) -> None:
    """Writes token, gold and predicted label in columns; spans are in BIO."""
    gold = [example.labels or () for example in split.examples]
    if split.scheme != schemes.TAGS:
        gold = [example.labels or () for example in split.to_scheme("BIO")]
        predicted = [schemes.convert(labels, "BIO") for labels in predicted]
    predictions.write(path, split, gold, predicted)


def read_change(text: str) -> tuple[str, Any]:
    """Reads one `--model`: a path and a value, which is JSON or a bare word.

    Raises:
        ValueError: There is no path or no value.

    Example:
        >>> read_change("encoder.then.keep=hidden")
        ('encoder.then.keep', 'hidden')
    """
    path, equals, value = text.partition("=")
    if not (path and equals):
        raise ValueError(f"Expected --model path=value, got {text!r}")
    try:
        return path, json.loads(value)
    except json.JSONDecodeError:
        return path, value


def run(values: flags.FlagValues) -> dict[str, Any]:
    """Does what the flags say; returns the scores."""
    check(values)
    params = tagging.load(values.workdir, dict(map(read_change, values.model)))
    has_tags = params.vocabulary.scheme == schemes.TAGS
    if has_tags and values.chunks:
        raise ValueError("--chunks counts prefixes of spans; this tagger gives tags")
    if has_tags and values.rule == "strict":
        raise ValueError("--rule=strict reads spans; this tagger gives tags")
    config = Workdir(values.workdir).read_json("config.json")
    split = load_split(values, config)
    console.print(split.summary())
    reads_documents = params.vocabulary.reads_documents
    if reads_documents and not any(e.document for e in split.examples):
        console.print("No line -DOCSTART-: each sentence is read as a document")
    words = prepare.training_words(config["data"]) if has_tags else None
    if has_tags and words is None:
        console.print("The training file is missing: known words are not told apart")
    prepare.log_unknown_tags(split, params.vocabulary, console.print)
    rule, constrained = as_the_run_did(values, config, has_tags)
    how = {"decoding": values.decoding, "n": values.n, "seed": values.seed}
    scores, predicted = evaluate(
        params, split, rule=rule, constrained=constrained, known_words=words, **how
    )
    if values.decoding == "n_best":
        console.print(f"Of the {values.n} best labellings, the one nearest to the gold")
    console.print(report.per_type_table(scores, f"{split.name} {split.split}".strip()))
    about = {
        "decoding": values.decoding,
        "file": str(split.path),
        "sha256": split.sha256,
        "notes": split.notes,
    }
    result = {**scores.to_dict(), **about}
    if values.chunks:
        gold = [e.labels or () for e in split.to_scheme(params.vocabulary.scheme)]
        found = chunks.recalls(gold, predicted)
        console.print(chunks.table(found, "chunk labels"))
        result["chunk_recall"] = {p: 100 * recall.share for p, recall in found.items()}
    _write(values, split, predicted, result)
    return result


def _write(values: flags.FlagValues, split: Split, predicted, result) -> None:
    if values.output:
        write_predictions(values.output, split, predicted)
        console.print(f"Predictions are in {values.output}")
    if values.json:
        Path(values.json).write_text(json.dumps(result, indent=2) + "\n", "utf-8")


def check(values: flags.FlagValues) -> None:
    """Checks what can be known to be wrong before the tagger is loaded."""
    for path in filter(None, (values.output, values.json)):
        if not Path(path).absolute().parent.is_dir():
            raise FileNotFoundError(f"There is no folder to write {path} into")
    if values.data and values.split:
        raise ValueError("Expected --data or --split, got both")
    if values.contextual and not values.data:
        raise ValueError("--contextual is the file for --data, which is not given")


def load_split(values: flags.FlagValues, config: dict[str, Any]) -> Split:
    """Reads what is scored: like the files of the run, but for what the flags say."""
    given = {name: values[name].value for name in prepare.READING}
    options = config["data"] | {k: v for k, v in given.items() if v is not None}
    if values.data:
        options["format"] = values.format  # the run's is that of its own files
        return prepare.load_file(options, values.data, values.contextual)
    return prepare.load_split(options, values.split or "test")


def as_the_run_did(
    values: flags.FlagValues, config: dict[str, Any], has_tags: bool
) -> tuple[str, bool]:
    """Returns the rule, and whether ill-formed labellings are ruled out."""
    rule, constrained = values.rule, values.constrained
    if rule is None:
        is_strict = config["evaluation"].get("rule") == "strict" and not has_tags
        rule = "strict" if is_strict else "seqeval"
    if constrained is None:
        constrained = config["evaluation"]["constrained"]
    return rule, constrained


def define_flags(values: flags.FlagValues) -> None:
    """Declares the command line."""
    define = functools.partial(flags.DEFINE_string, flag_values=values)
    column = functools.partial(flags.DEFINE_integer, flag_values=values)
    choice = functools.partial(flags.DEFINE_enum, flag_values=values)
    switch = functools.partial(flags.DEFINE_bool, flag_values=values)
    define("workdir", "", "Folder of the run.")
    splits = ["train", "dev", "test"]
    choice("split", None, splits, "Split to score; default test.")
    define("data", None, "File to score instead of a split.")
    define("contextual", None, "File of vectors for the tokens of --data.")
    define("format", None, "Its format, such as jsonl; default: by its name.")
    about = "Spans off token borders: error, drop or widen; default: as the run did."
    define("unfit", None, about)
    column("token_column", None, "Its tokens; default: as the run did.")
    column("label_column", None, "Its labels; default: as the run did.")
    define("comments", None, "How its comment lines begin.")
    define("encoding", None, "Its encoding; default: as the run did.")
    define("output", None, "File for token, gold and predicted label.")
    define("json", None, "File for the scores as JSON.")
    rules = ["seqeval", "strict"]
    choice("rule", None, rules, "How spans count; default: as the run did.")
    about = "Rule out ill-formed labellings; default: as the run did."
    switch("constrained", None, about)
    choice(
        "decoding",
        "viterbi",
        [*decodings.DECODINGS, "n_best"],
        "How labels are chosen.",
    )
    column("n", 10, "Labellings of --decoding=n_best; the nearest to the gold counts.")
    column("seed", 0, "Of the draws of --decoding=sampled.")
    switch("chunks", False, "Add the recall of each chunk label.")
    flags.DEFINE_multi_string(
        "model",
        [],
        "Option of the model to change: encoder.then.keep=hidden; lists are JSON.",
        flag_values=values,
    )
    flags.register_validator(
        "workdir", bool, "give the folder of a run", flag_values=values
    )


def main(arguments: Sequence[str] | None = None) -> None:
    """Does `jaxner evaluate`.

    Args:
        arguments: Those after the command's name; by default, the script's.
    """
    given = sys.argv[1:] if arguments is None else arguments
    flagged.start("evaluate", __name__, define_flags, run, given)
