"""The papers' orders of speed, beside times on this machine's device.

    python -m benchmarks.orders --rounds 3

The papers' tables are in `reproduce/figures.toml`; each system's speed is relative to
the first of its table. Weights are random, sentences of the embedded corpus have 32
tokens, documents eight of them; there are as many types as in the paper's corpus, and
batches of its size, or of 128 sentences. "ms" is the time of a call that tags, or of a
step of training.
"""

import statistics
import tomllib
from collections.abc import Callable, Sequence
from typing import Any

import jax

from benchmarks import deviceless, measure
from reproduce import plan

_CALLS = 20  # of a round: the host runs ahead, as in training


def timed(program: Any, args: Sequence[Any], is_step: bool) -> Callable[[], None]:
    """Returns a run of some calls of a program; a step has a state."""
    first, *rest = jax.device_put(args)

    def run() -> None:
        nonlocal first
        for _ in range(_CALLS):
            result = program(first, *rest)
            if is_step:  # it took the memory of the state before
                first = result
        jax.block_until_ready(result)

    return run


def main(argv: Sequence[str] | None = None) -> None:
    options = measure.parse(measure.parser(__doc__), argv)
    report = measure.Report(options.json)
    figures = tomllib.loads((plan.FOLDER / "figures.toml").read_text("utf-8"))
    orders = [table for table in figures.values() if "num_types" in table]
    for table in orders[: 1 if options.quick else None]:
        names = [f"T{i}" for i in range(table["num_types"])]
        systems = {k: x for k, x in table["values"].items() if "config" in x}
        runs, mode = {}, table["mode"]
        for name in [*systems][: 2 if options.quick else None]:
            changes = systems[name].get("options", {})
            size = 4 if options.quick else table.get("batch", 128)
            work = systems[name]["config"], size, 32, names, changes
            runs[name] = timed(*deviceless.programs(*work)[mode], mode == "train")
        seconds, rows = measure.compare(runs, options.rounds), []
        first = next(iter(runs))
        for name, times in seconds.items():
            row = {"system": name, "ms": 1e3 * statistics.median(times[1:]) / _CALLS}
            row["published"] = systems[name]["speed"] / systems[first]["speed"]
            rows.append(row | {"here": measure.speedup(times, seconds[first])})
        report.table(f"{table['paper']}, {table['source']}", rows)


if __name__ == "__main__":
    main()
