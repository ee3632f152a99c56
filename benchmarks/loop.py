"""Savings of the training loop: frozen rows of the word table.

    python -m benchmarks.loop
    python -m benchmarks.loop --systems GRN --batch 10 32

words: a step on sentences of 16 tokens, by the rows of the word table. Words of the
training text have trained rows; words from the vector file alone have frozen rows. The
second line trains all rows, the cost of a dense optimizer without this distinction.
"""

from __future__ import annotations

import itertools
from typing import Any

from benchmarks import corpus, ours
from benchmarks.measure import Report, compare

# Words of the training text, and additional words of a vector file.
ROWS = (25_000, 375_000)
QUICK_ROWS = (2_000, 2_000)
_TOKENS = 16
DEFAULT = ("GRN", "CNN-BiLSTM-CRF")


def words(options: Any, rows: tuple[int, int]) -> list[dict[str, Any]]:
    """Returns timings of a step by the numbers of trained and frozen rows."""
    train = corpus.load(options.dataset, "train", options.limit)
    known, more = rows
    forms = {
        f"{known:,} trained": (known, 0),
        f"{known:,} trained, {more:,} frozen": (known, more),
        f"{known + more:,} trained": (known + more, 0),
    }
    found = []
    for system, batch in itertools.product(options.systems, options.batch):
        config = ours.config_of(system, options.quick)
        small = ours.tagger(config, train)
        runs = {}
        for name, (trained, frozen) in forms.items():
            params = ours.with_rows(config, small, trained, frozen)
            sentences = ours.batch_of(params, train, _TOKENS, batch)
            runs[name] = ours.step_of(config, params, sentences)[1]
        timings = compare(runs, next(iter(runs)), options.rounds)
        found.append({"system": system, "batch": batch, **timings})
    return found


def main(argv: list[str] | None = None) -> None:
    """Runs the benchmark."""
    made = corpus.parser(__doc__)
    made.add_argument("--systems", nargs="+", default=DEFAULT, choices=ours.SYSTEMS)
    made.add_argument("--batch", type=int, nargs="+", default=[10, 32])
    options = corpus.parse(made, argv)
    report = Report(options.json)
    rows = QUICK_ROWS if options.quick else ROWS
    what = f"a step on sentences of {_TOKENS} tokens"
    report.table(f"words: {what} (× the first)", words(options, rows))


if __name__ == "__main__":
    main()
