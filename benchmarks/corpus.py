"""Shared by the benchmarks of whole systems: corpora, options and verdicts."""

from __future__ import annotations

import argparse
import dataclasses
from collections.abc import Iterable, Mapping
from typing import Any

from benchmarks import peers
from benchmarks.measure import Interval, Report, Timing
from jaxner.data import corpora
from jaxner.data.splits import Split

# A run that only checks that a command works.
QUICK_SENTENCES = 24


def parser(doc: str | None) -> argparse.ArgumentParser:
    """Returns a parser with the options of all commands."""
    made = argparse.ArgumentParser(
        description=doc, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    made.add_argument("--dataset", default="sample", help="a known corpus")
    made.add_argument(
        "--limit", type=int, default=0, help="number of sentences; 0 for all"
    )
    made.add_argument("--rounds", type=int, default=7)
    made.add_argument("--json", metavar="FILE", help="file for the tables")
    made.add_argument(
        "--quick",
        action="store_true",
        help="tiny sizes and one round, to check the command",
    )
    return made


def parse(made: argparse.ArgumentParser, argv: list[str] | None) -> Any:
    """Returns the options; `--quick` shortens those not given."""
    options = made.parse_args(argv)
    if options.quick:
        options.rounds = 1
        options.limit = options.limit or QUICK_SENTENCES
    return options


def load(dataset: str, split: str, limit: int = 0) -> Split:
    """Returns the first sentences of a split; all if `limit` is 0."""
    found = corpora.load(dataset, split)
    return dataclasses.replace(found, examples=found.examples[: limit or None])


def count_tokens(split: Split) -> int:
    """Returns the number of tokens in a split."""
    return sum(len(example.tokens) for example in split.examples)


def labelled(split: Split) -> list[peers.Labelled]:
    """Returns a split for peers, with labels in BIOES."""
    examples = split.to_scheme("BIOES")
    return [peers.Labelled(e.tokens, e.labels or ()) for e in examples]


def build_peers(names: Iterable[str], train: Split, report: Report) -> dict[str, Any]:
    """Returns the installed peers; reports how to install the others."""
    built = {}
    for name in names:
        try:
            built[name] = peers.build(name, labelled(train))
        except peers.MissingError as error:
            report.say(f"Skipped {name}. {error}")
    return built


def throughput(tokens: int, timing: Timing) -> Interval:
    """Returns tokens per second."""
    seconds = timing.seconds
    return Interval(
        tokens / seconds.median, tokens / seconds.high, tokens / seconds.low
    )


def rows_of(
    timings: Mapping[str, Timing], tokens: int, against: Iterable[str]
) -> list[dict[str, Any]]:
    """Returns a row for each system: tokens per second, compile time and ratios.

    Args:
        timings: Timings by system.
        tokens: Number of tokens in a run.
        against: Names of the systems to compare with.
    """
    return [
        {
            "system": name,
            "tokens / s": throughput(tokens, timing),
            # The first pass minus a median one; peers warmed up in their pilots.
            "first pass, s more": max(0.0, timing.first - timing.seconds.median),
            **{f"× {rival}": timing.speedup(timings[rival]) for rival in against},
        }
        for name, timing in timings.items()
    ]


def verdict(
    what: str, timings: Mapping[str, Timing], system: str, rival: str, floor: float
) -> dict[str, Any]:
    """Returns a row on whether a system's speedup over a rival meets a target."""
    row: dict[str, Any] = {"target": f"{what}: {system} ≥ {floor:g} × {rival}"}
    if system not in timings or rival not in timings:
        return {**row, "measured": None, "verdict": "not measured"}
    found = timings[system].speedup(timings[rival])
    met = "met" if found.median >= floor else "not met"
    return {**row, "measured": found, "verdict": met}
