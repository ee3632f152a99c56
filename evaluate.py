r"""Scores a trained tagger.

    python evaluate.py --workdir runs/grn                       # the run's test split
    python evaluate.py --workdir runs/grn --data my/test.conll --output predicted.conll

Spans are read and counted by seqeval in its default mode, which is conlleval's rule;
`--rule=strict` counts only spans that are well-formed in the tagger's label scheme.
"""

from __future__ import annotations

import json
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

WORKDIR = flags.DEFINE_string("workdir", "", "Folder of the run.")
SPLIT = flags.DEFINE_enum("split", "test", ["train", "dev", "test"], "Split to score.")
DATA = flags.DEFINE_string("data", None, "File to score instead of a split.")
TOKEN_COLUMN = flags.DEFINE_integer(
    "token_column", 0, "Column of the tokens of --data."
)
LABEL_COLUMN = flags.DEFINE_integer(
    "label_column", -1, "Column of the labels of --data."
)
OUTPUT = flags.DEFINE_string(
    "output", None, "File for token, gold and predicted label."
)
JSON = flags.DEFINE_string("json", None, "File for the scores as JSON.")
RULE = flags.DEFINE_enum("rule", "seqeval", ["seqeval", "strict"], "How spans count.")
CONSTRAINED = flags.DEFINE_bool(
    "constrained", None, "Rule out ill-formed labellings; default: as the run did."
)
flags.register_validator("workdir", bool, "give the folder of a run")

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
    examples = split.to_scheme(scheme)
    tokens = [example.tokens for example in examples]
    predicted = tagging.tag(params, tokens, constrained=constrained)
    gold = [example.labels or () for example in examples]
    if rule == "strict":
        return scoring.score(gold, predicted, rule="strict", scheme=scheme), predicted
    return scoring.score_with_seqeval(gold, predicted, scheme=scheme), predicted


def write_predictions(path: str, split: Split, predicted: list[list[str]]) -> None:
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
    if DATA.value is not None:
        split = splits.read(
            DATA.value,
            token_column=TOKEN_COLUMN.value,
            label_column=LABEL_COLUMN.value,
        )
    else:
        split = prepare.load_split(config["data"], SPLIT.value)
    console.print(split.summary())
    constrained = CONSTRAINED.value
    if constrained is None:
        constrained = config["evaluation"]["constrained"]
    scores, predicted = evaluate(
        params, split, rule=RULE.value, constrained=constrained
    )
    console.print(report.per_type_table(scores, f"{split.name} {split.split}".strip()))
    if OUTPUT.value is not None:
        write_predictions(OUTPUT.value, split, predicted)
        console.print(f"Predictions are in {OUTPUT.value}")
    result = {**scores.to_dict(), "file": str(split.path), "sha256": split.sha256}
    if JSON.value is not None:
        Path(JSON.value).write_text(json.dumps(result, indent=2) + "\n", "utf-8")
    return result


def main(argv: list[str]) -> None:
    """Runs what the command line says."""
    logging.set_verbosity(logging.WARNING)  # Orbax tells a lot
    if len(argv) > 1:
        raise app.UsageError(f"Expected flags only, got {' '.join(argv[1:])!r}")
    try:
        run(WORKDIR.value)
    except (ValueError, OSError) as error:
        if flags.FLAGS.verbosity > 0:
            raise
        console.print(f"evaluate.py: {error}", style="red", markup=False)
        raise SystemExit(1) from None


if __name__ == "__main__":
    app.run(main)
