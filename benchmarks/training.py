r"""Tokens per second and peak memory of training, beside PyTorch, Flair and spaCy.

    python -m benchmarks.training
    python -m benchmarks.training --dataset conll2003 --limit 2000 --batch 10 32
    python -m benchmarks.training --against ../before --peers

Each run is an epoch over the same sentences; ours is one of `train.py`, from line to
line, with the scores of 8 sentences and the checkpoint. `--against` trains the same
systems in another checkout, in turn, and the ratio says how much faster this one is.
The first epoch compiles a program for each padded shape. For each batch size, PyTorch
and Flair have one thread or all, whichever was faster for a few batches. Peak memory is
the host's, of a process, without an accelerator's. Install the peers with
`pip install -e '.[benchmarks]'`.
"""

from __future__ import annotations

import functools
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from benchmarks import measure, peers
from benchmarks.measure import SAME_SIZE, SYSTEMS, Worker


def workers(
    configs: dict[str, str],
    trees: dict[str, Path],
    folder: Path,
    quick: bool,
    **options,
) -> dict[str, Worker]:
    """Returns a worker for each system and checkout, over the corpus in a folder."""
    made = {}
    for number, (name, config) in enumerate(configs.items()):
        for suffix, tree in trees.items():
            made[f"{name}{suffix}"] = Worker(
                tree,
                "train",
                config=config,
                corpus=str(folder),
                options=options,
                quick=quick,
                workdir=str(Path(tempfile.mkdtemp(dir=folder)) / f"run-{number}"),
            )
    return made


def main(argv: Sequence[str] | None = None) -> None:
    """Runs the benchmark."""
    made = measure.systems_parser(__doc__)
    made.add_argument("--batch", type=int, nargs="+", default=[10, 32])
    options = measure.parse(made, argv)
    report = measure.Report(options.json)
    train = measure.load(options.dataset, "train", options.limit)
    tokens = measure.count_tokens(train)
    rivals = peers.build(options.peers, train, report.say)
    about = f"{options.dataset}, {len(train):,} sentences, {tokens:,} tokens"
    trees = measure.trees(options)
    for batch in options.batch:
        with tempfile.TemporaryDirectory() as folder:
            measure.write_corpus(Path(folder), train)
            ours = workers(
                {name: SYSTEMS[name] for name in options.systems},
                trees, Path(folder), options.quick, batch_size=batch,
            )  # fmt: skip
            try:
                runs: dict[str, Callable[[], Any]] = {**ours}
                for name, peer in rivals.items():
                    peer.tune(batch)
                    runs[name] = functools.partial(peer.epoch, batch)
                timings = measure.compare(runs, options.rounds)
                memory = {name: worker.peak_mb() for name, worker in ours.items()}
            finally:
                for worker in ours.values():
                    worker.close()
        rows = measure.rows(timings, tokens, "tokens", [*rivals, SAME_SIZE])
        for row in rows:
            row["peak, MiB"] = memory.get(row["system"])
        report.table(f"training, batch {batch}: {about}", rows)


if __name__ == "__main__":
    main()
