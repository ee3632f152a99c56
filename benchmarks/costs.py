"""What the systems of the results cost: speed and memory.

    python -m benchmarks.costs

Adds what is missing to `results/costs.json`, by config, for
`python -m reproduce --tables --write`:

tokens/s   of one core's time, from strings to strings: the dev split in one call, the
           median of the rounds
MB         of all weights, which are random, with the words of the training split
"""

import dataclasses
import json
import os
import statistics
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jax

import jaxner
from benchmarks import measure, worker
from jaxner import outputs
from jaxner.data import corpora
from reproduce import tables
from reproduce.plan import Published
from reproduce.results import Line, Results


def cost(run: Line, options: Any) -> dict[str, float]:
    """Returns the figures of the system of a run."""
    changes = {k: x for k, x in run["overrides"].items() if k.startswith("model.")}
    splits = [corpora.load(options.dataset, name) for name in ("train", "dev")]
    if limit := options.limit:
        splits = [dataclasses.replace(x, examples=x.examples[:limit]) for x in splits]
    train, dev = splits
    sentences, types = [list(e.tokens) for e in train.examples], measure.CONLL_TYPES
    config = worker.config_of(run["config"], changes)
    tagger = worker.build(config, sentences, types)
    seconds = []
    for _ in range(1 + options.rounds):  # the first compiles
        tagger.vocabulary.forget()
        start = time.process_time()
        jaxner.tag(tagger, dev)
        seconds.append(time.process_time() - start)
    tokens = sum(len(example.tokens) for example in dev.examples)
    size = sum(leaf.nbytes for leaf in jax.tree.leaves(tagger.weights))
    rate = tokens / statistics.median(seconds[1:])
    return {"tokens/s": round(rate, -2), "MB": size / 1e6}


def main(argv: Sequence[str] | None = None) -> None:
    """Measures systems that lack figures; stores those of each at once."""
    options = measure.parse(measure.parser(__doc__, "conll2003"), argv)
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})  # before JAX has threads
    results = Results(measure.ROOT / "results")
    file = Path(options.json or results.folder / "costs.json")
    costs = {} if options.json else results.costs()
    cells = tables.under_equal_vectors(Published.load(), lines := results.lines())
    runs = [tables.finished(x, lines)[0] for x in cells if x.config not in costs]
    for run in runs[: 1 if options.quick else None]:
        costs[run["config"]] = cost(run, options)
        print(run["config"], costs[run["config"]], flush=True)
        if options.json or not options.quick:
            outputs.write_text(file, json.dumps(costs, indent=1) + "\n")


if __name__ == "__main__":
    main()
