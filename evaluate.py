r"""Scores a trained tagger.

    python evaluate.py --workdir runs/grn                       # the run's test split
    python evaluate.py --workdir runs/grn --data my/test.conll --output predicted.conll

Spans are read by the rule that picked the run's best epoch: seqeval's default mode,
which is conlleval's rule (`--rule=seqeval`), or `--rule=strict`, which counts only
spans that are well-formed in the tagger's label scheme.

Of a tagger of parts of speech it is the accuracy that is told, also of words that the
training text lacks; neither the rule nor chunks concern it.

`--chunks` adds the recall of each chunk label, whatever the type. `--model` changes an
option of the model that needs no training, such as which parts of an attention encoder
are kept (the others are zeroed):

    python evaluate.py --workdir runs/att --chunks --model encoder.then.keep=context2
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from absl import app, flags, logging
from rich.console import Console

from jaxner import tagging
from jaxner.data import schemes
from jaxner.data.splits import Split
from jaxner.evaluation import chunks, predictions, report
from jaxner.evaluation.tasks import Task
from jaxner.training import prepare
from jaxner.workdir import Workdir

FLAGS = flags.FLAGS
console = Console(highlight=False, soft_wrap=True)


def evaluate(
    params: tagging.Tagger,
    split: Split,
    *,
    rule: str,
    constrained: bool,
    known_words: frozenset[str] | None = None,
):
    """Scores the labels that a tagger gives to a split.

    Args:
        params: What `jaxner.load` returned.
        split: Sentences with gold labels, in any scheme.
        rule: "seqeval" or "strict".
        constrained: As in `jaxner.tag`.
        known_words: The distinct words of the training text; tags of others are also
            counted apart.

    Returns:
        The scores, and the predicted labels of each sentence in the tagger's scheme.
    """
    gold, predicted = tagging.label_split(params, split, constrained=constrained)
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


def run(workdir: str) -> dict[str, Any]:
    """Does what the flags say; returns the scores."""
    for path in filter(None, (FLAGS.output, FLAGS.json)):
        if not Path(path).absolute().parent.is_dir():
            raise FileNotFoundError(f"There is no folder to write {path} into")
    if FLAGS.data and FLAGS.split:
        raise ValueError("Expected --data or --split, got both")
    if FLAGS.contextual and not FLAGS.data:
        raise ValueError("--contextual is the file for --data, which is not given")
    params = tagging.load(workdir, dict(map(read_change, FLAGS.model)))
    has_tags = params.vocabulary.scheme == schemes.TAGS
    if has_tags and FLAGS.chunks:
        raise ValueError("--chunks counts prefixes of spans; this tagger gives tags")
    rule = FLAGS.rule
    if has_tags and rule == "strict":
        raise ValueError("--rule=strict reads spans; this tagger gives tags")
    config = Workdir(workdir).read_json("config.json")
    # A file is read like those of the run, where the flags do not say otherwise.
    given = {name: FLAGS[name].value for name in prepare.READING}
    options = config["data"] | {k: v for k, v in given.items() if v is not None}
    if FLAGS.data:
        split = prepare.load_file(options, FLAGS.data, FLAGS.contextual)
    else:
        split = prepare.load_split(options, FLAGS.split or "test")
    console.print(split.summary())
    if params.vocabulary.reads_documents and not any(
        e.document for e in split.examples
    ):
        console.print("No line -DOCSTART-: each sentence is read as a document")
    if rule is None:
        is_strict = config["evaluation"].get("rule") == "strict" and not has_tags
        rule = "strict" if is_strict else "seqeval"
    constrained = FLAGS.constrained
    if constrained is None:
        constrained = config["evaluation"]["constrained"]
    words = prepare.training_words(config["data"]) if has_tags else None
    if has_tags and words is None:
        console.print("The training file is missing: known words are not told apart")
    prepare.log_unknown_tags(split, params.vocabulary, console.print)
    scores, predicted = evaluate(
        params, split, rule=rule, constrained=constrained, known_words=words
    )
    console.print(report.per_type_table(scores, f"{split.name} {split.split}".strip()))
    about = {"file": str(split.path), "sha256": split.sha256, "notes": split.notes}
    result = {**scores.to_dict(), **about}
    if FLAGS.chunks:
        gold = [e.labels or () for e in split.to_scheme(params.vocabulary.scheme)]
        found = chunks.recalls(gold, predicted)
        console.print(chunks.table(found, "chunk labels"))
        result["chunk_recall"] = {p: 100 * recall.share for p, recall in found.items()}
    if FLAGS.output:
        write_predictions(FLAGS.output, split, predicted)
        console.print(f"Predictions are in {FLAGS.output}")
    if FLAGS.json:
        Path(FLAGS.json).write_text(json.dumps(result, indent=2) + "\n", "utf-8")
    return result


def main(argv: list[str]) -> None:
    """Runs what the command line says."""
    wants_traceback = FLAGS.verbosity > 0
    logging.set_verbosity(logging.ERROR)  # Orbax tells a lot
    if len(argv) > 1:
        raise app.UsageError(f"Expected flags only, got {' '.join(argv[1:])!r}")
    try:
        run(FLAGS.workdir)
    except (ValueError, OSError, ImportError) as error:
        if wants_traceback:
            raise
        console.print(f"evaluate.py: {error}", style="red", markup=False)
        raise SystemExit(1) from None


def define_flags() -> None:
    """Declares the command line."""
    flags.DEFINE_string("workdir", "", "Folder of the run.")
    splits = ["train", "dev", "test"]
    flags.DEFINE_enum("split", None, splits, "Split to score; default test.")
    flags.DEFINE_string("data", None, "File to score instead of a split.")
    flags.DEFINE_string("contextual", None, "File of vectors for the tokens of --data.")
    flags.DEFINE_integer("token_column", None, "Its tokens; default: as the run did.")
    flags.DEFINE_integer("label_column", None, "Its labels; default: as the run did.")
    flags.DEFINE_string("comments", None, "How its comment lines begin.")
    flags.DEFINE_string("encoding", None, "Its encoding; default: as the run did.")
    flags.DEFINE_string("output", None, "File for token, gold and predicted label.")
    flags.DEFINE_string("json", None, "File for the scores as JSON.")
    rules = ["seqeval", "strict"]
    flags.DEFINE_enum("rule", None, rules, "How spans count; default: as the run did.")
    flags.DEFINE_bool(
        "constrained", None, "Rule out ill-formed labellings; default: as the run did."
    )
    flags.DEFINE_bool("chunks", False, "Add the recall of each chunk label.")
    flags.DEFINE_multi_string(
        "model",
        [],
        "Option of the model to change: encoder.then.keep=hidden; lists are JSON.",
    )
    flags.register_validator("workdir", bool, "give the folder of a run")


if __name__ == "__main__":
    define_flags()
    app.run(main)
