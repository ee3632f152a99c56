"""What the systems of the results cost: speed, kernels and memory.

    .deviceless/bin/python -m benchmarks.costs

In the environment of `benchmarks.deviceless`. Adds what is missing to
`results/costs.json`, by config, for `python -m reproduce --tables --write`:

tokens/s   of one core's time, from strings to strings: the dev split in one call, the
           median of the rounds
kernels    of a call that tags 32 sentences of up to 26 tokens on an H100
MB         of all weights, which are random, with the words of the training split
"""

from __future__ import annotations

import concurrent.futures
import dataclasses
import itertools
import json
import multiprocessing
import os
import statistics
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jax

import jaxner
from benchmarks import deviceless, measure, worker
from jaxner import outputs
from jaxner.data import corpora
from reproduce import tables
from reproduce.plan import Published
from reproduce.results import Line, Results


def cost(run: Line, options: Any) -> dict[str, float]:
    """Returns the figures of the system of a run."""
    config = run["config"]
    changes = {k: x for k, x in run["overrides"].items() if k.startswith("model.")}
    splits = [corpora.load(options.dataset, name) for name in ("train", "dev")]
    if cut := options.limit:
        splits = [dataclasses.replace(x, examples=x.examples[:cut]) for x in splits]
    train, dev = splits
    sentences, types = [list(e.tokens) for e in train.examples], measure.CONLL_TYPES
    tagger = worker.build(worker.config_of(config, changes), sentences, types)
    seconds = []
    for _ in range(1 + options.rounds):  # the first compiles
        tagger.vocabulary.forget()
        start = time.process_time()
        jaxner.tag(tagger, dev)
        seconds.append(time.process_time() - start)
    tokens = sum(len(example.tokens) for example in dev.examples)
    function, args = deviceless.programs(config, 32, types, changes)["tag"]
    program = deviceless.compile_for(function, "h100", *args)
    size = sum(leaf.nbytes for leaf in jax.tree.leaves(tagger.weights))
    return {
        "tokens/s": round(tokens / statistics.median(seconds[1:]), -2),
        "kernels": deviceless.count(program.as_text())["kernels"],
        "MB": size / 1e6,
    }


def main(argv: Sequence[str] | None = None) -> None:
    """Measures systems that lack figures; stores those of each at once."""
    options = measure.parse(measure.parser(__doc__, "conll2003"), argv)
    os.environ.update(deviceless.ENVIRONMENT)
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    results = Results(measure.ROOT / "results")
    file = Path(options.json or results.folder / "costs.json")
    costs = {} if options.json else results.costs()
    cells = tables.under_equal_vectors(Published.load(), lines := results.lines())
    runs = [tables.finished(x, lines)[0] for x in cells if x.config not in costs]
    runs = runs[: 1 if options.quick else None]
    spawn = multiprocessing.get_context("spawn")  # JAX reads the environment once
    with concurrent.futures.ProcessPoolExecutor(1, spawn) as pool:
        measured = pool.map(cost, runs, itertools.repeat(options))
        for run, figures in zip(runs, measured, strict=True):
            costs[run["config"]] = figures
            print(run["config"], figures, flush=True)
            if options.json or not options.quick:
                outputs.write_text(file, json.dumps(costs, indent=1) + "\n")


if __name__ == "__main__":
    main()
