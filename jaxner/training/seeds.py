"""Restarts: one config with several seeds, in turn or together in one program.

Each seed has its own folder, `seed-0` and so on, with the files of a single run. The
folder above has the config and the summary of the results.
"""

from __future__ import annotations

import contextlib
import copy
import dataclasses
import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import scipy.stats
from rich.table import Table

from jaxner.training import (
    checks,
    cluster,
    environment,
    monitor,
    resume,
    run,
    signals,
    step,
)
from jaxner.training.results import final_scores
from jaxner.training.run import Run, console
from jaxner.wording import counted
from jaxner.workdir import Workdir

LEVEL = 0.95
"""Confidence of the interval of a mean."""


def main_run(config: Any, workdir: str | Path) -> dict[str, Any]:
    """Trains or resumes the run of a config, or all of its restarts.

    Args:
        config: What a config file returned; with `num_seeds` above 1, runs each seed
            from `seed` on.
        workdir: The run folder; for restarts, the folder above theirs.

    Returns:
        The content of `result.json`; for restarts, what `summarise` returned.

    Raises:
        SystemExit: A signal (Ctrl-C, SIGTERM) stopped the run, which can be resumed.
        ValueError: The folder has a run with another config or other data, or an option
            of the restarts is unknown.
    """
    checks.check(config.to_dict())
    if config.num_seeds == 1:
        return run.main_run(config, workdir)
    console.quiet = not cluster.is_writer()
    top = Workdir(workdir, writes=cluster.is_writer())
    environment.check_same_config(top, config.to_dict())
    train_all = _together if is_together(config) else _in_turn
    with top.locked():
        result = summarise(train_all(config, top))
        top.write_json("result.json", result)
    console.print(table_of(result))
    console.print(f"Everything is in {top.path}")
    return result


def is_together(config: Any) -> bool:
    """Returns whether to train restarts in one program; see `schema.RESTARTS`."""
    if config.restarts == "auto":
        return cluster.chosen_devices(config.num_devices)[0].platform != "cpu"
    return config.restarts == "together"


def own_configs(config: Any) -> dict[int, Any]:
    """Returns the config of each seed's run, by seed."""
    found = {}
    for seed in range(config.seed, config.seed + config.num_seeds):
        own = copy.deepcopy(config)
        own.seed, own.num_seeds = seed, 1
        found[seed] = own
    return found


def _in_turn(config: Any, top: Workdir) -> dict[int, Any]:
    top.write_json("config.json", config.to_dict())
    results = {}
    for seed, own in own_configs(config).items():
        console.print(f"Seed {seed}, {len(results) + 1} of {config.num_seeds}")
        results[seed] = run.main_run(own, top.seed(seed).path)
    return results


def _together(config: Any, top: Workdir) -> dict[int, Any]:
    if config.tensorboard:
        raise ValueError(
            "--config.tensorboard shows one run: set --config.restarts=in_turn"
        )
    configs = own_configs(config)
    folders = {seed: top.seed(seed) for seed in configs}
    for seed, own in configs.items():
        environment.check_same_config(folders[seed], own.to_dict())
    data, task, to_score = run.load(config, top)
    starts = [
        run.untrained(own, data, is_begun=top.is_begun()) for own in configs.values()
    ]
    run.print_size(starts[0])
    place, common = _placement(config, starts)
    corpus, tx = run.batches_and_optimizer(config, data, common, place, list(configs))
    runs = []
    for start, (seed, own) in zip(starts, configs.items(), strict=True):
        # Shared frozen weights are on the devices only once.
        start = start if place.own_frozen else corpus.placed(start)
        shared = corpus, data.dev, task, tx, start, data.record
        runs.append(Run(own, folders[seed], *shared))
    top.write_json("config.json", config.to_dict())
    top.write_json("environment.json", environment.continued(top, data.record))
    top.write_text("vocabulary.json", data.vocabulary.to_json())
    train(runs, top)
    return {
        seed: final_scores(own, folders[seed], to_score, task, place, console)
        for seed, own in configs.items()
    }


def _placement(config: Any, starts: Sequence[Any]) -> tuple[cluster.Placement, Any]:
    """Returns the placement, and a tagger with frozen weights for all seeds."""
    place = cluster.placement(config.num_devices, len(starts))
    first, *others = (start.weights["frozen"] for start in starts)
    pairs = [
        zip(jax.tree.leaves(first), jax.tree.leaves(other), strict=True)
        for other in others
    ]
    if all(np.array_equal(a, b) for pair in pairs for a, b in pair):
        return place, starts[0]
    stacked = stack([first, *others])
    weights = {**starts[0].weights, "frozen": stacked}
    common = dataclasses.replace(starts[0], weights=weights)
    return dataclasses.replace(place, own_frozen=True), common


def stack(trees: Sequence[Any]) -> Any:
    """Returns trees of equal structure with their arrays stacked on a leading axis."""
    return jax.tree.map(lambda *leaves: jnp.stack(leaves), *trees)


def train(runs: Sequence[Run], top: Workdir) -> None:
    """Trains all restarts in one program, each until it would stop alone.

    A restart that has stopped still takes part in the steps until the last one stops,
    but is no longer scored or written.

    Args:
        runs: One run for each seed, with a shared corpus.
        top: The folder above theirs, with the common checkpoint to resume from.
    """
    corpus, config = runs[0].corpus, runs[0].config
    steps = corpus.batches.num_batches
    begin = jax.vmap(lambda params: step.init(params, runs[0].tx))
    state = begin(stack([own.start.weights["params"] for own in runs]))
    with (
        signals.stop_requests() as stop,
        contextlib.ExitStack() as opened,
        top.latest(runs[0].about()) as latest,
        monitor.Monitor(console, steps, config.num_epochs) as show,
    ):
        best = [opened.enter_context(own.folder.best(own.about())) for own in runs]
        state, progress = _resumed(runs, state, latest, best)
        for own, its in zip(runs, progress, strict=True):
            resume.write_down(own)
            own.folder.forget_after(its["epoch"])
        state = corpus.place.state(state)
        for epoch in range(max(p["epoch"] for p in progress), config.num_epochs):
            active = [i for i, p in enumerate(progress) if _goes_on(config, p)]
            if not active:
                break
            state, seconds = run.train_epoch(runs[0], state, epoch, show, stop)
            for series in (*best, latest):
                series.finish()
            if step.count(state) == (epoch + 1) * steps:
                seconds = seconds, sum(series.waited() for series in (*best, latest))
                for i in active:
                    own = corpus.place.one_seed(state, i)
                    progress[i] = _end_of_epoch(
                        runs[i], own, progress[i], best[i], seconds
                    )
                console.print(_epoch_line(progress, active, epoch + 1, seconds[0]))
                state = step.reset_loss(state)
            if step.count(state) != latest.step:
                latest.save(step.count(state), state, {"seeds": progress})
            if stop:
                break
    if stop:
        console.print("Stopped; the same command resumes from here.")
        raise SystemExit(stop.exit_status)


def _resumed(runs: Sequence[Run], state: step.State, latest: Any, best: Sequence[Any]):
    """Returns state and progress of all restarts, to continue from."""
    if latest.step is None:
        fresh = {"epoch": 0, "best_score": -1.0, "best_epoch": 0}
        return state, [dict(fresh) for _ in runs]
    latest.check()
    state, saved = latest.restore(state)
    resume.check_epochs(runs[0], max(its["epoch"] for its in saved["seeds"]))
    latest.check_finite(state.params)
    console.print(f"Resumed at step {step.count(state):,}")
    for number, (its, own) in enumerate(zip(saved["seeds"], best, strict=True)):
        if own.step is not None:
            own.seal()
            resume.complete(own, its, cluster.ALONE.one_seed(state, number))
    return state, saved["seeds"]


def _goes_on(config: Any, progress: Mapping[str, Any]) -> bool:
    since = progress["epoch"] - progress["best_epoch"]
    return not 0 < config.patience <= since


def _end_of_epoch(
    own: Run,
    state: step.State,
    progress: dict[str, Any],
    best: Any,
    seconds: tuple[float, float],
) -> dict[str, Any]:
    """Scores a restart, and saves its weights if they are its best."""
    metrics, _ = run.end_of_epoch(own, state, progress["epoch"] + 1, *seconds)
    progress, is_better = run.compared(own, progress, metrics)
    own.folder.log(metrics)
    if is_better:
        best.save(int(state.step), state.params, metrics)
    return {**progress, "score": metrics[f"dev_{own.task.main_figure}"] or 0.0}


def _epoch_line(progress, active: Sequence[int], epoch: int, seconds: float) -> str:
    scores = [progress[i]["score"] for i in active]
    better = sum(progress[i]["best_epoch"] == epoch for i in active)
    return (
        f"epoch {epoch:3}  {seconds:6.1f} s  dev {statistics.mean(scores):.2f} "
        f"({min(scores):.2f} to {max(scores):.2f}) of {counted(len(active), 'seed')}, "
        f"{better} at their best"
    )


def summarise(results: Mapping[int, Mapping[str, Any]]) -> dict[str, Any]:
    """Returns a summary of the results of restarts.

    Args:
        results: The content of `result.json` of each restart, by seed.

    Returns:
        `seeds`: best epoch and main figures of each seed; `figure`: "f1" or "accuracy";
        and for each split the `mean`, the sample standard deviation `std` (0 for one
        seed), `min`, `max`, and `interval`, the bootstrap interval of the mean at
        `LEVEL`: percentiles of the means of 10,000 resampled sets of seeds. Figures are
        in percent. An undefined figure (no entities, none predicted) counts as 0.

    Example:
        >>> dev = [{"best_epoch": 3, "dev": {"f1": 90.0}, "seconds": 1.0}]
        >>> dev.append({"best_epoch": 5, "dev": {"f1": 92.0}, "seconds": 1.0})
        >>> found = summarise(dict(enumerate(dev)))["dev"]
        >>> found["mean"], round(found["std"], 3), found["interval"]
        (91.0, 1.414, [90.0, 92.0])
    """
    every = list(results.values())
    splits = [name for name in ("dev", "test") if all(name in r for r in every)]
    figure = "f1" if "f1" in every[0]["dev"] else "accuracy"
    seeds = {
        str(seed): {
            "best_epoch": result["best_epoch"],
            **{name: result[name][figure] or 0.0 for name in splits},
        }
        for seed, result in results.items()
    }
    summary: dict[str, Any] = {"seeds": seeds, "figure": figure}
    for name in splits:
        summary[name] = _statistics([own[name] for own in seeds.values()])
    return summary


def _statistics(values: Sequence[float]) -> dict[str, Any]:
    if len(set(values)) == 1:
        interval = [values[0], values[0]]
    else:
        found = scipy.stats.bootstrap(
            (values,),
            np.mean,
            n_resamples=10_000,
            confidence_level=LEVEL,
            method="percentile",
            rng=np.random.default_rng(0),
        ).confidence_interval
        interval = [float(found.low), float(found.high)]
    return {
        "mean": statistics.mean(values),
        "std": statistics.stdev(values) if len(values) > 1 else 0.0,
        "min": min(values),
        "max": max(values),
        "interval": interval,
    }


def table_of(summary: Mapping[str, Any]) -> Table:
    """Returns a summary as a table: a row for each seed, and one for all."""
    splits = [name for name in ("dev", "test") if name in summary]
    count, figure = len(summary["seeds"]), summary["figure"]
    table = Table(title=f"{counted(count, 'seed')}, {figure} in percent")
    for name in ("seed", "best epoch", *splits):
        table.add_column(name, justify="right")
    for seed, own in summary["seeds"].items():
        figures = [f"{own[name]:.2f}" for name in splits]
        table.add_row(seed, str(own["best_epoch"]), *figures)
    table.add_section()
    for label, form in (
        ("mean ± std", "{mean:.2f} ± {std:.2f}"),
        ("min to max", "{min:.2f} to {max:.2f}"),
        (f"{LEVEL:.0%} of mean", "{interval[0]:.2f} to {interval[1]:.2f}"),
    ):
        table.add_row(label, "", *(form.format(**summary[name]) for name in splits))
    return table
