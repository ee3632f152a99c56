r"""Measures the speed of scoring entities: jaxner's scorer beside seqeval.

    python -m benchmarks.scoring
    python -m benchmarks.scoring --dataset conll2003 --split test

Labels are those of a split, repeated to `--tokens`, and a copy in which one label in
ten is another one. Both get lists of strings and return F1, and the table says whether
it is the same. Then each rule of jaxner's by itself.
"""

from __future__ import annotations

import functools
import random
from collections.abc import Callable
from typing import Any

from benchmarks import corpus
from benchmarks.measure import Report, compare
from jaxner.evaluation import rules, scoring

SCHEME = "BIOES"
QUICK_TOKENS = 5_000
Labels = list[list[str]]


def labels_of(options: Any) -> tuple[Labels, Labels]:
    """Returns gold and predicted labels, so many tokens or a few more."""
    split = corpus.load(options.dataset, options.split, options.limit)
    sentences = [list(e.labels or ()) for e in split.to_scheme(SCHEME)]
    gold: Labels = []
    size = 0
    while size < options.tokens:
        gold += sentences
        size += sum(map(len, sentences))
    names = sorted({label for labels in sentences for label in labels})
    draws = random.Random(0)
    predicted = [
        [draws.choice(names) if draws.random() < 0.1 else label for label in labels]
        for labels in gold
    ]
    return gold, predicted


def rivals(
    gold: Labels, predicted: Labels
) -> dict[str, dict[str, Callable[[], float | None]]]:
    """Returns who computes F1, by rule and name."""
    from seqeval import scheme
    from seqeval.metrics import f1_score

    def ours(rule: str) -> float | None:
        return scoring.score(gold, predicted, rule=rule, scheme=SCHEME).f1

    def theirs(**options: Any) -> float:
        figure: Any = f1_score(gold, predicted, **options)
        return float(figure)

    return {
        "conlleval": {
            "seqeval": theirs,
            "jaxner": functools.partial(ours, "conlleval"),
        },
        "strict": {
            "seqeval": functools.partial(theirs, mode="strict", scheme=scheme.IOBES),
            "jaxner": functools.partial(ours, "strict"),
        },
        **{
            rule: {"jaxner": functools.partial(ours, rule)}
            for rule in rules.RULES
            if rule not in ("conlleval", "strict")
        },
    }


def rows(options: Any) -> list[dict[str, Any]]:
    """Times both on the same labels."""
    gold, predicted = labels_of(options)
    tokens = sum(map(len, gold))
    found = []
    for rule, runs in rivals(gold, predicted).items():
        figures = {run() or 0.0 for run in runs.values()}
        timings = compare(runs, next(iter(runs)), options.rounds)
        found.append(
            {
                "rule": rule,
                "tokens": tokens,
                "seqeval": timings.get("seqeval"),
                "jaxner": timings["jaxner"],
                "tokens/s": corpus.throughput(tokens, timings["jaxner"]),
                "same F1": max(figures) - min(figures) < 1e-12,
            }
        )
    return found


def main(argv: list[str] | None = None) -> None:
    """Runs the measurements of the command line."""
    made = corpus.parser(__doc__)
    made.add_argument("--split", default="test", choices=("train", "dev", "test"))
    made.add_argument("--tokens", type=int, default=200_000, help="at least so many")
    options = corpus.parse(made, argv)
    if options.quick:
        options.tokens = min(options.tokens, QUICK_TOKENS)
    report = Report(options.json)
    report.table("entity F1 (× seqeval)", rows(options))


if __name__ == "__main__":
    main()
