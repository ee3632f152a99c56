"""Restarts: one config with several seeds, in turn or together in one program.

Each seed has its own folder, `seed-0` and so on, with the files of a single run. The
folder above has the config and the summary of the results.
"""

from __future__ import annotations

import copy
import statistics
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from ml_collections import ConfigDict

from jaxner.evaluation import report
from jaxner.evaluation.stats import LEVEL
from jaxner.training import cluster
from jaxner.wording import counted

if TYPE_CHECKING:

    class Config(ConfigDict):
        """The config of a run, whose options `schema` describes."""

        def __getattr__(self, attribute: str) -> Any: ...

else:
    Config = ConfigDict

Result = dict[str, Any]
"""The content of a `result.json`."""


def is_together(config: Config) -> bool:
    """Returns whether to train restarts in one program; see `schema.Run`."""
    if config.restarts == "auto":
        return cluster.chosen_devices(config.num_devices)[0].platform != "cpu"
    return config.restarts == "together"


def configs_of(config: Config) -> list[Config]:
    """Returns the config of each seed's run."""
    configs = [copy.deepcopy(config) for _ in range(config.num_seeds)]
    for number, member in enumerate(configs):
        member.seed, member.num_seeds = config.seed + number, 1
    return configs


def summarise(results: Mapping[int, Result]) -> Result:
    """Returns a summary of the `result.json` of each seed.

    It has `seeds`, best epoch and main figures of each; `figure`, "f1" or "accuracy";
    and by split, `mean`, `min`, `max`, the sample standard deviation `std`, and
    `interval`, the bootstrap interval of the mean over seeds at `LEVEL`. Figures are in
    percent; an undefined one (no entities) counts as 0.

    Example:
        >>> dev = [{"best_epoch": 3, "dev": {"f1": f1}} for f1 in (90.0, 92.0)]
        >>> summary = summarise(dict(enumerate(dev)))["dev"]
        >>> summary["mean"], round(summary["std"], 3), summary["interval"]
        (91.0, 1.414, [90.0, 92.0])
    """
    runs = list(results.values())
    splits = [name for name in ("dev", "test") if all(name in r for r in runs)]
    figure = "f1" if "f1" in runs[0]["dev"] else "accuracy"
    seeds = {
        str(seed): {"best_epoch": result["best_epoch"]}
        | {name: result[name][figure] or 0.0 for name in splits}
        for seed, result in results.items()
    }
    summary: Result = {"seeds": seeds, "figure": figure}
    tail = (1 - LEVEL) / 2
    for name in splits:
        values = [run[name] for run in seeds.values()]
        samples = np.random.default_rng(0).choice(values, (10_000, len(values)))
        summary[name] = {
            "mean": statistics.mean(values),
            "std": statistics.stdev(values) if len(values) > 1 else 0.0,
            "min": min(values),
            "max": max(values),
            "interval": np.quantile(samples.mean(1), (tail, 1 - tail)).tolist(),
        }
    return summary


def table_of(summary: Result) -> report.Table:
    """Returns a summary as a table: a row for each seed, and three for all."""
    splits = [name for name in ("dev", "test") if name in summary]
    rows = [
        [seed, str(run["best_epoch"]), *(f"{run[name]:.2f}" for name in splits)]
        for seed, run in summary["seeds"].items()
    ]
    for label, template in (
        ("mean ± std", "{mean:.2f} ± {std:.2f}"),
        ("min to max", "{min:.2f} to {max:.2f}"),
        (f"{LEVEL:.0%} of mean", "{interval[0]:.2f} to {interval[1]:.2f}"),
    ):
        rows.append([label, "", *(template.format(**summary[name]) for name in splits)])
    title = f"{counted(len(summary['seeds']), 'seed')}, {summary['figure']} in percent"
    return report.Table(["seed", "best epoch", *splits], rows, title=title)
