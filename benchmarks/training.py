r"""Tokens per second and peak memory of training, beside PyTorch, Flair and spaCy.

    python -m benchmarks.training
    python -m benchmarks.training --dataset conll2003 --limit 2000 --batch 10 32
    python -m benchmarks.training --against ../before --peers

Each run is an epoch over the same sentences; ours is one of `train.py`, from line to
line, with the scores of 8 sentences and the checkpoint. `--against` trains the same
systems in another checkout, in turn, and the ratio says how much faster this one is.
The first epoch compiles a program for each padded shape. For each batch size, PyTorch
and Flair have one thread or all, whichever is faster. Peak memory is the host's, of a
process, without an accelerator's.
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path

from benchmarks import measure, peers
from benchmarks.measure import SAME_SIZE


def main(argv: Sequence[str] | None = None) -> None:
    """Runs the benchmark."""
    options = measure.parse(measure.systems_parser(__doc__, [10, 32]), argv)
    report = measure.Report(options.json)
    train = measure.load(options.dataset, "train", options.limit)
    tokens = sum(len(tokens) for tokens, _ in train)
    rivals = peers.build(options.peers, train, report.say)
    about = f"{options.dataset}, {len(train):,} sentences, {tokens:,} tokens"
    for batch in options.batch:
        task = {"quick": options.quick, "options": {"batch_size": batch}}
        theirs = peers.runs(rivals, batch)
        with tempfile.TemporaryDirectory() as folder:
            measure.write_corpus(Path(folder), train)
            ours = measure.workers(
                "train", options.systems, options.trees, corpus=folder, **task
            )
            timings, memory = measure.race(ours, theirs, options.rounds)
        rows = measure.rows(timings, tokens, "tokens", [*rivals, SAME_SIZE])
        for row in rows:
            row["peak, MiB"] = memory.get(row["system"])
        report.table(f"training, batch {batch}: {about}", rows)


if __name__ == "__main__":
    main()
