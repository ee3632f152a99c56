r"""Restarts in one program, several devices, and checkpoints in the background.

    python -m benchmarks.cluster
    python -m benchmarks.cluster --only seeds --seeds 1 2 5 10 --batch 32

seeds: an epoch of K restarts in one program, against K epochs one after the other.
devices: an epoch on 1, 2, 4 and 8 devices. On a CPU they are simulated and share its
cores, so that nothing can be gained; the ratio shows what splitting costs.
saving: how long the steps wait for a checkpoint that is written in the background,
against one that is waited for, by the size of the state.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp

from benchmarks import alone, corpus, ours
from benchmarks.measure import Report, compare
from jaxner.checkpoints import Checkpoints
from jaxner.training import cluster

DEFAULT = "GRN"
SIZES = (1_000_000, 25_000_000)  # weights of a state; and as many of its optimizer


def seeds(options: Any) -> list[dict[str, Any]]:
    """Times restarts together and in turn."""
    train = corpus.load(options.dataset, "train", options.limit)
    found = []
    for batch in options.batch:
        config = ours.config_of(options.system, options.quick)
        one = ours.epoch_of(config, train, batch)
        for count in options.seeds:
            place = cluster.Placement(None, count)
            together = ours.epoch_of(config, train, batch, place=place)

            def in_turn(one=one, count=count):
                for _ in range(count):
                    one()

            runs: dict[str, Callable[[], Any]]
            runs = {"together": together, "in turn": in_turn}
            timings = compare(runs, "in turn", options.rounds)
            row = {"system": options.system, "batch": batch, "seeds": count}
            found.append({**row, **timings})
    return found


def epoch_seconds(
    system: str, dataset: str, limit: int, batch: int, quick: bool, rounds: int
) -> dict[str, float]:
    """Times epochs on all devices that this process sees."""
    place = cluster.placement(len(jax.devices()))
    train = corpus.load(dataset, "train", limit)
    run = ours.epoch_of(ours.config_of(system, quick), train, batch, place=place)
    timing = compare({system: run}, system, rounds)[system]
    return {"seconds": timing.seconds.median, "first": timing.first}


def devices(options: Any) -> list[dict[str, Any]]:
    """Times epochs on simulated devices, or on the first ones of an accelerator."""
    found = []
    for batch in options.batch:
        base = None
        for count in options.devices:
            given = {"system": options.system, "dataset": options.dataset}
            given |= {"limit": options.limit, "batch": batch}
            given |= {"quick": options.quick, "rounds": options.rounds}
            flag = f"--xla_force_host_platform_device_count={count}"
            flags = " ".join([os.environ.get("XLA_FLAGS", ""), flag])
            function = "benchmarks.cluster:epoch_seconds"
            its = alone.call(function, given, XLA_FLAGS=flags)
            base = base or its["seconds"]
            row = {"system": options.system, "batch": batch, "devices": count}
            row |= {"epoch, s": its["seconds"], "× one device": base / its["seconds"]}
            found.append({**row, "first epoch, s": its["first"]})
    return found


def saving(options: Any) -> list[dict[str, Any]]:
    """Times how long a process waits for its checkpoints."""
    found = []
    for size in (10_000,) if options.quick else SIZES:
        arrays = {"params": jnp.ones(size), "opt_state": jnp.ones(size)}
        with tempfile.TemporaryDirectory() as folder:
            runs = {
                "in the background": _saver(Path(folder) / "0", arrays, wait=False),
                "waited for": _saver(Path(folder) / "1", arrays, wait=True),
            }
            # One save of each at a time: another must not begin before it is done.
            waits: dict[str, list[float]] = {name: [] for name in runs}
            for _ in range(options.rounds):
                for name, run in runs.items():
                    waits[name].append(run())
        median = {name: sorted(its)[len(its) // 2] for name, its in waits.items()}
        background, waited = median.values()
        row = {"MB": 8e-6 * size, **{f"{n}, s": s for n, s in median.items()}}
        found.append({**row, "× waited for": waited / background})
    return found


def _saver(folder: Path, arrays: Any, wait: bool) -> Callable[[], float]:
    series, number = Checkpoints(folder), 0

    def run() -> float:
        nonlocal number
        number += 1
        series.save(number, arrays, {})
        if wait:
            series.finish()
        seconds = series.waited()
        series.finish()
        series.waited()
        return seconds

    run()  # the first one imports and makes folders
    return run


SECTIONS = {"seeds": seeds, "devices": devices, "saving": saving}


def main(argv: list[str] | None = None) -> None:
    """Runs the measurements of the command line."""
    made = corpus.parser(__doc__)
    made.add_argument("--only", nargs="+", choices=SECTIONS, default=list(SECTIONS))
    made.add_argument("--system", choices=ours.SYSTEMS, default=DEFAULT)
    made.add_argument("--batch", type=int, nargs="+", default=[10, 32])
    made.add_argument("--seeds", type=int, nargs="+", default=[2, 5])
    made.add_argument("--devices", type=int, nargs="+", default=[1, 2, 4, 8])
    options = corpus.parse(made, argv)
    report = Report(options.json)
    for name in options.only:
        report.table(name, SECTIONS[name](options))


if __name__ == "__main__":
    main()
