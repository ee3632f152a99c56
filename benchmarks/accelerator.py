r"""Measures the gain by this machine's accelerator, in bounded time.

    python -m benchmarks.accelerator --json accelerator.json
    python -m benchmarks.accelerator --minutes 3 --only systems seeds

systems: training of each system at batch 10, 32, 128 and 512. seeds: K restarts in one
program. bfloat16: training at batch 32, in that format. tagging: strings to strings,
all sentences in one call. Parts take turns, and each row is stored at once, so a run
that is cut keeps some of each. No row is begun that would end after the time is up, if
it took as long as the longest so far.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Sequence
from typing import Any

from benchmarks import measure
from benchmarks.measure import SYSTEMS

FIRST = 40.0  # expected seconds of the first row
# Rows: system, sentences of a batch (0: all), restarts and number format.
PARTS: dict[str, list[tuple[str, int, int, str]]] = {
    "systems": [(x, b, 1, "float32") for b in (10, 32, 128, 512) for x in SYSTEMS],
    "seeds": [("GRN", b, k, "float32") for b in (10, 32) for k in (1, 2, 5, 10)],
    "bfloat16": [(x, 32, 1, "bfloat16") for x in SYSTEMS],
    "tagging": [(x, 0, 1, "float32") for x in SYSTEMS],
}


def main(argv: Sequence[str] | None = None) -> None:
    """Runs the measurements of the command line."""
    made = measure.parser(__doc__)
    made.set_defaults(rounds=3)
    made.add_argument("--minutes", type=float, default=8.5, help="for all rows")
    made.add_argument("--only", nargs="+", choices=PARTS, default=[*PARTS])
    options = measure.parse(made, argv)
    report = measure.Report(options.json)
    train = measure.load(options.dataset, "train", options.limit)
    tokens = sum(len(tokens) for tokens, _ in train)
    end = time.monotonic() + 60 * options.minutes
    tables: dict[str, list[Any]] = {name: [] for name in options.only}
    longest = min(FIRST, 6 * options.minutes)
    parts = ([(name, case) for case in PARTS[name]] for name in tables)
    turns = itertools.chain(*itertools.zip_longest(*parts))
    for part, case in filter(None, turns):
        start = time.monotonic()
        if start + longest > end:
            report.say(f"The time was up before {part}, {case}")
            break
        system, batch, seeds, dtype = case
        changes = {"data.num_shapes": 1, "model.dtype": dtype}
        if seeds > 1:
            changes |= {"num_seeds": seeds, "restarts": "together"}
        mode = "tag" if part == "tagging" else "train"
        task = {"batch": batch, "changes": changes}
        timings, _ = measure.race(mode, [system], options, [train] * 2, **task)
        (row,) = measure.rows(timings, seeds * tokens, "tokens", [])
        row |= {"batch": batch, "seeds": seeds, "dtype": dtype}
        tables[part].append(row)
        longest = max(longest, time.monotonic() - start)
        report.table(part, tables[part])


if __name__ == "__main__":
    main()
