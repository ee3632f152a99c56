"""The command lines of the papers' other tables and figures."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any

from jaxner import fields
from jaxner.analysis import lengths
from jaxner.evaluation import rules
from jaxner.reproduce import figure_commands as run

_count = fields.argument(fields.Size)


def declare(commands: Any) -> None:
    """Adds these commands to the subparsers of `jaxner reproduce`."""
    _declare_lengths(commands)
    for name, does, about, split in (
        (
            "changes",
            run.changes,
            "tokens corrected and broken (UANet, Table 1)",
            "test",
        ),
        ("tokens", run.tokens, "draft and refinement of each (UANet, Table 7)", "dev"),
        ("chunk-recall", run.chunk_recall, "parts of the attention (Li et al.)", "dev"),
        ("heat-map", run.heat_map, "relations (GRN, Fig. 4) or attention", "dev"),
    ):
        one = _command(commands, name, does, about)
        one.add_argument("--workdir", required=True, help="folder of the run")
        known, help = ("train", "dev", "test"), f"split to read; default: {split}"
        one.add_argument("--split", default=split, choices=known, help=help)
        if name in ("changes", "tokens"):
            one.add_argument(
                "--samples",
                type=_count,
                help="passes with dropout, M; default: the run's",
            )
            one.add_argument(
                "--layer",
                type=_count,
                help="layer of a LAN whose draft is read, from 1",
            )
        _declare_own(one, name)
    _declare_speed(commands)


def _declare_own(one: argparse.ArgumentParser, name: str) -> None:
    if name in ("tokens", "heat-map"):
        one.add_argument(
            "--text", action="append", help="a sentence, its tokens between blanks"
        )
        one.add_argument(
            "--number",
            type=_count,
            nargs="+",
            help="numbers of sentences of the split, from 1",
        )
    if name == "chunk-recall":
        one.add_argument("--baseline", help="folder of a run without attention")
    if name == "heat-map":
        one.add_argument(
            "--plot", required=True, help="file to write: .png, .pdf or .svg"
        )
        one.add_argument(
            "--rows",
            default="all",
            choices=("all", "entities"),
            help="words on the y-axis; the paper shows entities; default: all",
        )


def _declare_speed(commands: Any) -> None:
    # Options go to the benchmark, which has its own parser.
    one = commands.add_parser(
        "speed",
        help="speed (UANet, Strubell et al., GRN)",
        add_help=False,
        prefix_chars="\0",
    )
    about = "options of python -m benchmarks.papers"
    one.add_argument("arguments", nargs=argparse.REMAINDER, help=about)
    one.set_defaults(run=run.speed)


def _declare_lengths(commands: Any) -> None:
    for name, does, about, bounds, known in (
        (
            *("sentence-length", run.sentence_length),
            *("F1 by sentence length (UANet, Fig. 3)", lengths.SENTENCES, rules.RULES),
        ),
        (
            *("mention-length", run.mention_length),
            *("F1 by mention length (Li et al.)", lengths.MENTIONS),
            lengths.MENTION_RULES,
        ),
    ):
        one = _command(commands, name, does, about)
        one.add_argument("--workdir", required=True, nargs="+", help="folders of runs")
        help = "split to score; default: dev"
        one.add_argument("--split", default="dev", choices=("dev", "test"), help=help)
        one.add_argument(
            "--bounds",
            type=fields.argument(fields.Size, "7,15,30"),
            default=list(bounds),
            help="largest length of each part, in tokens; default: "
            f"{','.join(map(str, bounds))}",
        )
        help = "how ill-formed labels are read; default: conlleval"
        one.add_argument("--rule", default="conlleval", choices=known, help=help)
        one.add_argument("--plot", help="file to write the plot to: .png, .pdf or .svg")


def _command(
    commands: Any, name: str, does: Callable[[argparse.Namespace], None], about: str
) -> argparse.ArgumentParser:
    one = commands.add_parser(name, help=about, description=about)
    one.add_argument("--json", help="file to write the figures to, as JSON")
    one.set_defaults(run=does)
    return one
