r"""Measures the gain by this machine's accelerator, in bounded time.

    python -m benchmarks.accelerator --json accelerator.json
    python -m benchmarks.accelerator --minutes 3 --only systems seeds

systems: training of each system at batch 10, 32, 128 and 512. seeds: K restarts in one
program. bfloat16: some systems in both precisions. tagging: strings to strings, by
calls of as many sentences (0: all). Parts take turns, and each row is stored at once,
so a run that is cut keeps some of each. No row is begun that would end after the time
is up, if it took as long as the part's longest.
"""

from __future__ import annotations

import itertools
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks import measure, tagging
from benchmarks.measure import SAME_SIZE, SYSTEMS

FIRST = 40.0  # expected seconds of a part's first row


class Case(NamedTuple):
    """A row to measure."""

    system: str
    batch: int
    seeds: int = 1
    dtype: str = "float32"


PARTS = {
    "systems": [Case(x, b) for b in (10, 32, 128, 512) for x in SYSTEMS],
    "seeds": [Case("GRN", b, k) for b in (10, 32) for k in (1, 2, 5, 10)],
    "bfloat16": [
        Case(*case)
        for case in itertools.product(
            ("GRN", SAME_SIZE, "ID-CNN"), (32, 128), [1], ("float32", "bfloat16")
        )
    ],
    "tagging": [Case(x, 0) for x in SYSTEMS],
}


def workers(part: str, case: Case, folder: Path, options: Any) -> Any:
    """Returns the worker of a row."""
    mode, task = "tag", {"file": str(folder / "text.json"), "batch": case.batch}
    if part != "tagging":
        changes = {"batch_size": case.batch, "data.num_shapes": 1}
        changes |= {"model.dtype": case.dtype}
        if case.seeds > 1:
            changes |= {"num_seeds": case.seeds, "restarts": "together"}
        mode, task = "train", {"corpus": str(folder), "options": changes}
    task["quick"] = options.quick
    return measure.workers(mode, [case.system], options.trees, **task)


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
    longest = dict.fromkeys(tables, min(FIRST, 6 * options.minutes))
    skipped = 0
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        measure.write_corpus(folder, train)
        tagging.write_texts(folder / "text.json", train, train)
        for cases in itertools.zip_longest(*(PARTS[name] for name in tables)):
            for part, case in zip(tables, cases, strict=True):
                start = time.monotonic()
                if case is None or start + longest[part] > end:
                    skipped += case is not None
                    continue
                ours = workers(part, case, folder, options)
                timings, _ = measure.race(ours, {}, options.rounds)
                (row,) = measure.rows(timings, case.seeds * tokens, "tokens", [])
                tables[part].append({**case._asdict(), **row})
                longest[part] = max(longest[part], time.monotonic() - start)
                report.table(part, tables[part])
    if skipped:
        report.say(f"The time was up: {skipped} measurements were skipped")


if __name__ == "__main__":
    main()
