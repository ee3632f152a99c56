r"""Scores a trained tagger.

    python evaluate.py --workdir runs/grn                       # the run's test split
    python evaluate.py --workdir runs/grn --data my/test.conll --output predicted.conll

Spans are read and counted by seqeval in its default mode, which is conlleval's rule;
`--rule=strict` counts only spans that are well-formed in the tagger's label scheme.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from absl import app, flags, logging
from rich.console import Console

from jaxner import tagging
from jaxner.data import conll, schemes, splits
from jaxner.data.splits import Split
from jaxner.evaluation import report, scoring
from jaxner.training import prepare
from jaxner.workdir import Workdir

FLAGS = flags.FLAGS
console = Console(highlight=False, soft_wrap=True)


def evaluate(params: tagging.Params, split: Split, *, rule: str, constrained: bool):
    """Scores the labels that a tagger gives to a split.

    Args:
        params: What `jaxner.load` returned.
        split: Sentences with gold labels, in any scheme.
        rule: "seqeval" or "strict".
        constrained: As in `jaxner.tag`.

    Returns:
        The scores, and the predicted labels of each sentence in the tagger's scheme.
    """
    scheme = params.lexicon.scheme
    gold, predicted = tagging.label_split(params, split, constrained=constrained)
    if rule == "strict":
        return scoring.score(gold, predicted, rule="strict", scheme=scheme), predicted
    return scoring.score_with_seqeval(gold, predicted, scheme=scheme), predicted


def write_predictions(
    path: str, split: Split, predicted: Sequence[Sequence[str]]
) -> None:
    """Writes token, gold and predicted label in columns; both labels are BIO."""
    rows = [
        zip(
            example.tokens,
            example.labels or (),
            schemes.convert(labels, "BIO"),
            strict=True,
        )
        for example, labels in zip(split.to_scheme("BIO"), predicted, strict=True)
    ]
    blank = any(" " in token for example in split.examples for token in example.tokens)
    documents = [example.document for example in split.examples]
    conll.write(path, rows, separator="\t" if blank else " ", documents=documents)


def run(workdir: str) -> dict[str, Any]:
    """Does what the flags say; returns the scores."""
    params = tagging.load(workdir)
    config = Workdir(workdir).read_json("config.json")
    if FLAGS.data is not None:
        split = splits.read(
            FLAGS.data,
            token_column=FLAGS.token_column,
            label_column=FLAGS.label_column,
        )
    else:
        split = prepare.load_split(config["data"], FLAGS.split)
    console.print(split.summary())
    constrained = FLAGS.constrained
    if constrained is None:
        constrained = config["evaluation"]["constrained"]
    scores, predicted = evaluate(
        params, split, rule=FLAGS.rule, constrained=constrained
    )
    console.print(report.per_type_table(scores, f"{split.name} {split.split}".strip()))
    if FLAGS.output is not None:
        write_predictions(FLAGS.output, split, predicted)
        console.print(f"Predictions are in {FLAGS.output}")
    result = {**scores.to_dict(), "file": str(split.path), "sha256": split.sha256}
    if FLAGS.json is not None:
        Path(FLAGS.json).write_text(json.dumps(result, indent=2) + "\n", "utf-8")
    return result


def main(argv: list[str]) -> None:
    """Runs what the command line says."""
    logging.set_verbosity(logging.WARNING)  # Orbax tells a lot
    if len(argv) > 1:
        raise app.UsageError(f"Expected flags only, got {' '.join(argv[1:])!r}")
    try:
        run(FLAGS.workdir)
    except (ValueError, OSError) as error:
        if FLAGS.verbosity > 0:
            raise
        console.print(f"evaluate.py: {error}", style="red", markup=False)
        raise SystemExit(1) from None


def define_flags() -> None:
    """Declares the command line."""
    flags.DEFINE_string("workdir", "", "Folder of the run.")
    flags.DEFINE_enum("split", "test", ["train", "dev", "test"], "Split to score.")
    flags.DEFINE_string("data", None, "File to score instead of a split.")
    flags.DEFINE_integer("token_column", 0, "Column of the tokens of --data.")
    flags.DEFINE_integer("label_column", -1, "Column of the labels of --data.")
    flags.DEFINE_string("output", None, "File for token, gold and predicted label.")
    flags.DEFINE_string("json", None, "File for the scores as JSON.")
    flags.DEFINE_enum("rule", "seqeval", ["seqeval", "strict"], "How spans count.")
    flags.DEFINE_bool(
        "constrained", None, "Rule out ill-formed labellings; default: as the run did."
    )
    flags.register_validator("workdir", bool, "give the folder of a run")


if __name__ == "__main__":
    define_flags()
    app.run(main)
