r"""Measures the gain by this machine's accelerator, in bounded time.

    python -m benchmarks.accelerator --json accelerator.json
    python -m benchmarks.accelerator --minutes 3 --only systems seeds

systems: training of each system at batch 10, 32, 128 and 512. seeds: K restarts in one
program. bfloat16: some systems in both precisions. tagging: strings to strings, by
calls of as many sentences (0: all). Parts take turns, and each row is stored at once,
so a run that is cut keeps some of each. No row is begun that is expected to end after
the time is up. The kernels are in `benchmarks.kernels`.
"""

from __future__ import annotations

import itertools
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks import measure, tagging, training
from benchmarks.measure import ROOT, SAME_SIZE, SYSTEMS, Worker

SECONDS = 2.0  # a row's sample lasts about so long
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
        Case(*case, dtype)
        for case in itertools.product(("GRN", SAME_SIZE, "ID-CNN"), (32, 128), [1])
        for dtype in ("float32", "bfloat16")
    ],
    "tagging": [Case(x, 0) for x in SYSTEMS],
}


def speed(worker: Worker, tokens: int) -> dict[str, float]:
    """Returns a worker's tokens per second, and the seconds of its first turn."""
    try:
        start = time.perf_counter()
        worker()
        first = time.perf_counter() - start
        worker()
        count, start = 0, time.perf_counter()
        while not count or time.perf_counter() - start < SECONDS:
            worker()
            count += 1
        rate = count * tokens / (time.perf_counter() - start)
        return {"tokens / s": rate, "first, s": first}
    finally:
        worker.close()


def main(argv: Sequence[str] | None = None) -> None:
    """Runs the measurements of the command line."""
    made = measure.parser(__doc__)
    made.add_argument("--minutes", type=float, default=8.5, help="for all rows")
    made.add_argument("--only", nargs="+", choices=PARTS, default=[*PARTS])
    options = measure.parse(made, argv)
    report = measure.Report(options.json)
    train = measure.load(options.dataset, "train", options.limit)
    tokens = measure.count_tokens(train)
    end = time.monotonic() + 60 * options.minutes
    tables: dict[str, list[Any]] = {name: [] for name in options.only}
    longest = dict.fromkeys(tables, min(FIRST, 6 * options.minutes))
    skipped = 0
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        measure.write_corpus(folder, train)
        in_turn = itertools.zip_longest(*(PARTS[name] for name in tables))
        for part, case in (pair for row in in_turn for pair in zip(tables, row)):  # noqa: B905
            start = time.monotonic()
            if case is None:
                continue
            if start + longest[part] > end:
                skipped += 1
                continue
            systems, trees = {case.system: SYSTEMS[case.system]}, {"": ROOT}
            if part == "tagging":
                file, texts = folder / "text.json", (train, train)
                workers = tagging.workers(
                    systems, trees, file, texts, case.batch, options.quick
                )
            else:
                changes = {"batch_size": case.batch, "data.num_shapes": 1}
                changes |= {"model.dtype": case.dtype}
                if case.seeds > 1:
                    changes |= {"num_seeds": case.seeds, "restarts": "together"}
                workers = training.workers(
                    systems, trees, folder, options.quick, **changes
                )
            measured = speed(workers[case.system], case.seeds * tokens)
            tables[part].append({**case._asdict(), **measured})
            longest[part] = max(longest[part], time.monotonic() - start)
            report.table(part, tables[part])
    if skipped:
        report.say(f"The time was up: {skipped} measurements were skipped")


if __name__ == "__main__":
    main()
