r"""Seconds from the start of a process to its first sign of life.

    python -m benchmarks.startup
    python -m benchmarks.startup --against ../before --systems GRN BiLSTM-CRF

`label` loads a run and tags a sentence; `epoch` trains on the embedded corpus once.
`cold` has an empty compilation cache, `warm` one that the cold process filled. All
files have been read before. Processes take turns and do not overlap.
"""

from __future__ import annotations

import functools
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import jaxner
from benchmarks import measure, worker
from benchmarks.measure import CONLL_TYPES, SYSTEMS

LABEL = """
import os, sys, jaxner
print(jaxner.tag(jaxner.load(sys.argv[1]), sys.argv[2:])[0], flush=True)
os._exit(0)
"""
SENTENCE = ("Ms", "Preston", "left", "Lakeside", "for", "Milan", "on", "Monday")


def begin(tree: Path, cache: Path, is_cold: bool, *arguments: str) -> None:
    """Runs Python in a checkout; a cold start empties the compilation cache first."""
    if is_cold:
        shutil.rmtree(cache, ignore_errors=True)
    environment = {**os.environ, "PYTHONPATH": str(tree)}
    environment |= {"JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0"}
    environment |= {"JAX_COMPILATION_CACHE_DIR": str(cache)}
    with tempfile.TemporaryDirectory() as new:
        command = [sys.executable, *(x.replace("NEW", new) for x in arguments)]
        task: Any = {"cwd": tree, "env": environment, "stdout": subprocess.DEVNULL}
        subprocess.run(command, check=True, **task)


def main(argv: Sequence[str] | None = None) -> None:
    """Runs the benchmark."""
    made = measure.parser(__doc__)
    made.set_defaults(rounds=3)
    made.add_argument("--systems", nargs="*", default=["GRN"], choices=SYSTEMS)
    made.add_argument("--against", type=Path, help="root of another checkout")
    options = measure.parse(made, argv)
    report = measure.Report(options.json)
    train = measure.load("sample", "train", options.limit)
    tokens = [tokens for tokens, _ in train]
    runs: dict[str, Callable[[], None]] = {}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        corpus = folder / "corpus"
        measure.write_corpus(corpus, train)
        for suffix, tree in options.trees.items():
            for system in options.systems:
                text = SYSTEMS[system]
                changes = {"num_epochs": 1}
                changes |= {"data.num_shapes": 1} if options.quick else {}
                run = folder / f"run {system}"
                if not run.exists():
                    config = worker.config_of(text, {})
                    jaxner.save(run, worker.build(config, tokens, CONLL_TYPES))
                flags = worker.training_flags(text, str(corpus), changes)
                label = ["-c", LABEL, str(run), *SENTENCE]
                epoch = ["train.py", *flags, "--workdir", "NEW/run"]
                for event, start in (("label", label), ("epoch", epoch)):
                    cache = folder / f"{event} {system}{suffix}"
                    for state in ("cold", "warm"):
                        task = tree, cache, state == "cold", *start
                        title = f"{system}, {event}, {state}{suffix}"
                        runs[title] = functools.partial(begin, *task)
        timings = measure.compare(runs, options.rounds)
    rows = measure.rows(timings, 1, "processes", [])
    for row in rows:
        row["seconds"] = timings[row["system"]].seconds
    report.table("seconds from the start of a process", rows)


if __name__ == "__main__":
    main()
