r"""Tokens per second and peak memory of training, beside PyTorch, Flair and spaCy.

    python -m benchmarks.training
    python -m benchmarks.training --dataset conll2003 --limit 2000 --batch 10 32

Each run is an epoch over the same sentences. Encoding that systems do once is excluded;
each draws and pads batches in its own way. The systems take turns. Our first epoch
compiles a program for each padded shape; the tables report it separately. For each
batch size, PyTorch and Flair have one thread or all, whichever was faster for a few
batches; for memory they have all. Peak memory is for two epochs in a separate process:
`start` is the peak when they begin (libraries, corpus and weights; all processes
include JAX), `peak` the maximum with programs from JAX's compilation cache, and again
when compiling them. Both exclude an accelerator's memory. The peers are extras: pip
install -e '.[benchmarks]'.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks import alone, corpus, ours, peers
from benchmarks.measure import Report, compare
from jaxner.data.splits import Split

TARGETS = (
    (ours.SAME_SIZE, "Flair", 3.0),
    (ours.SAME_SIZE, "PyTorch", 2.0),
    ("GRN", "Flair", 3.0),
    ("GRN", "PyTorch", 2.0),
    ("GRN", ours.SAME_SIZE, 1.16),
)


def speeds(
    train: Split, systems: dict[str, Any], rivals: dict[str, Any], batch: int, **options
) -> Any:
    """Returns timings of epochs with all systems."""
    runs: dict[str, Callable[[], int]] = {}
    for name, config in systems.items():
        runs[name] = ours.epoch_of(config, train, batch)
    for name, peer in rivals.items():
        peer.tune(batch)
        runs[name] = lambda p=peer: p.epoch(batch)
    return compare(runs, next(iter(runs)), **options)


def epochs_alone(
    system: str, dataset: str, limit: int, batch: int, quick: bool
) -> dict[str, float]:
    """Trains two epochs; returns the process's peak memory before them."""
    train = corpus.load(dataset, "train", limit)
    if system in ours.SYSTEMS:
        run = ours.epoch_of(ours.config_of(system, quick), train, batch)
    else:
        peer = peers.build(system, corpus.labelled(train))
        run = lambda: peer.epoch(batch)  # noqa: E731
    before = alone.peak_mb()
    run()
    run()
    return {"before_mb": before}


def memory(names: list[str], options: Any) -> list[dict[str, Any]]:
    """Returns the peak memory of each system and batch size, in MiB."""
    rows = []
    for name in names:
        for batch in options.batch:
            arguments = {
                "system": name,
                "dataset": options.dataset,
                "limit": options.limit,
                "batch": batch,
                "quick": options.quick,
            }
            function = "benchmarks.training:epochs_alone"
            with tempfile.TemporaryDirectory() as folder:
                cache = alone.cache(Path(folder))
                first = alone.call(function, arguments, **cache)
                later = first
                if name in ours.SYSTEMS:  # a peer compiles nothing
                    later = alone.call(function, arguments, **cache)
            row = {"system": name, "batch": batch, "start": round(later["before_mb"])}
            row |= {"peak": round(later["peak_mb"])}
            rows.append({**row, "peak, compiling": round(first["peak_mb"])})
    return rows


def main(argv: list[str] | None = None) -> None:
    """Runs the benchmark."""
    made = corpus.parser(__doc__)
    made.add_argument("--systems", nargs="*", choices=ours.SYSTEMS)
    made.add_argument("--peers", nargs="*", default=peers.NAMES, choices=peers.NAMES)
    made.add_argument("--batch", type=int, nargs="+", default=[10, 32])
    made.add_argument("--skip-memory", action="store_true")
    options = corpus.parse(made, argv)
    names = options.systems
    if names is None:
        default = ("GRN", ours.SAME_SIZE) if options.quick else ours.SYSTEMS
        names = [name for name in default if name != "ID-CNN-CRF"]
    report = Report(options.json)
    train = corpus.load(options.dataset, "train", options.limit)
    tokens = corpus.count_tokens(train)
    rivals = corpus.build_peers(options.peers, train, report)
    about = f"{len(train.examples):,} sentences, {tokens:,} tokens"
    systems = {name: ours.config_of(name, options.quick) for name in names}
    verdicts = []
    for batch in options.batch:
        timings = speeds(train, systems, rivals, batch, rounds=options.rounds)
        against = [n for n in (ours.SAME_SIZE, *rivals) if n in timings]
        title = f"training, batch {batch}: {options.dataset}, {about}"
        report.table(title, corpus.rows_of(timings, tokens, against))
        what = f"training, batch {batch}"
        verdicts += [corpus.verdict(what, timings, *target) for target in TARGETS]
    if not options.skip_memory:
        report.table(
            "peak memory of training, MiB", memory([*systems, *rivals], options)
        )
    report.table("targets of training", verdicts)


if __name__ == "__main__":
    main()
