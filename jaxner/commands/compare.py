"""Compares two systems on the same sentences by paired tests.

    jaxner compare runs/a runs/b                 two runs, on their test split
    jaxner compare runs/a runs/b --split dev
    jaxner compare a.conll b.conll --rule strict   two files of predictions
    jaxner compare runs/a-1,runs/a-2 runs/b-1,runs/b-2   several seeds a side

With one run on each side, the tests resample and swap sentences, which says
nothing about other seeds. With several runs, figures are means over runs, and
the tests also resample and move runs.
"""

from __future__ import annotations

import argparse
import itertools
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from jaxner import writing
from jaxner.commands import score
from jaxner.data import schemes
from jaxner.evaluation import coded, comparing, intervals, summary
from jaxner.evaluation import tally as tallies
from jaxner.terminal import LineConsole
from jaxner.wording import counted
from jaxner.workdir import Workdir

console = LineConsole()


def declare(commands: Any) -> None:
    """Adds the command to the subparsers of `jaxner`."""
    one = commands.add_parser(
        "compare",
        help="paired tests between two runs, files of predictions or sets of seeds",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    about = "run folder or file of predictions; several seeds separated by commas"
    one.add_argument("first", help=about)
    one.add_argument("second", help=about)
    of_runs = "split of runs to compare on; default: test"
    one.add_argument("--split", choices=("dev", "test"), help=of_runs)
    score.add_reading(one)
    one.add_argument(
        "--all", action="store_true", help="show every figure, not only the main ones"
    )
    one.add_argument("--json", help="file to write all figures to, as JSON")
    one.set_defaults(run=compare)


def compare(options: argparse.Namespace) -> None:
    """Runs `jaxner compare`."""
    sides = [text.split(",") for text in (options.first, options.second)]
    _check(options, sides)
    writing.check(options.json, *itertools.chain(*sides))
    labels = [
        [
            score.read(predictions_of(path, options.split or "test"), options)
            for path in side
        ]
        for side in sides
    ]
    first, second = _tags(labels) if options.tags else _spans(labels, options)
    rounds = comparing.ROUNDS if options.rounds is None else options.rounds
    found = comparing.compare(first, second, rounds=rounds, seed=options.seed)
    shown = found if options.all else _headlines(found)
    rule = "tags" if options.tags else score.rule_of(options)
    broken = "" if options.tags else f"; {_ill_formed(labels, options)}"
    numbers = [f"{len(side):,}" for side in sides]
    caption = (
        f"{rule}{broken}; a: {options.first}, b: {options.second} "
        f"(runs: {numbers[0]} and {numbers[1]}); {counted(rounds, 'round')}"
    )
    console.print(summary.difference_table(shown, intervals.LEVEL, caption))
    if options.json:
        about = {"first": sides[0], "second": sides[1], "rounds": rounds}
        about |= {"rule": rule, "seed": options.seed, "unit": "fraction"}
        figures = {name: its._asdict() for name, its in found.items()}
        text = json.dumps(about | {"figures": figures}, indent=2) + "\n"
        Path(options.json).write_text(text, "utf-8")


def _check(options: argparse.Namespace, sides: Sequence[Sequence[str]]) -> None:
    score.check_tags(options)
    if options.split and not any(
        Path(path).is_dir() for path in itertools.chain(*sides)
    ):
        raise ValueError("--split is for folders of runs, and these are files")
    for side in sides:
        names = [Path(path).resolve() for path in side]
        if len(set(names)) < len(names):
            raise ValueError(f"One run counts once, but {','.join(side)} repeats one")


def predictions_of(path: str, split: str) -> str:
    """Returns the file of predictions; for a run folder, that of the split.

    Raises:
        FileNotFoundError: The file or run is missing.
        ValueError: The folder holds restarts, not a run.
    """
    if not Path(path).is_dir():
        return path
    folder = Workdir(path)
    if (seeds := folder.seeds()) and not folder.has_best():
        each = ",".join(str(folder.seed(seed).path) for seed in seeds)
        raise ValueError(f"{path} holds restarts; to compare them, give {each}")
    file = folder.predictions(split)
    if not file.is_file():
        raise FileNotFoundError(
            f"{file} is missing: the run is not finished. jaxner evaluate --workdir "
            f"{path} --output FILE writes one."
        )
    return str(file)


def _headlines(found):
    return {
        name: its
        for name, its in found.items()
        if name in score.HEADLINES or score.is_match(name) or "accuracy" in name
    }


def _spans(labels, options):
    scheme = options.scheme or schemes.detect(labels[0][0][0])
    types = {
        kind for side in labels for pair in side for kind in coded.code(*pair).types
    }

    def tally(gold, predicted):
        return tallies.of_spans(gold, predicted, options.rule, scheme, sorted(types))

    return [[tally(*pair) for pair in side] for side in labels]


def _tags(labels):
    return [[tallies.of_tags(*pair) for pair in side] for side in labels]


def _ill_formed(labels, options) -> str:
    scheme = options.scheme or schemes.detect(labels[0][0][0])
    counts = [
        sum(len(schemes.violations(row, scheme)) for _, found in side for row in found)
        for side in labels
    ]
    return f"ill-formed labels: {counts[0]:,} and {counts[1]:,}"
