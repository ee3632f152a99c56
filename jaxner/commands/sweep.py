"""Shows how labels change with the threshold Γ and the number of passes M.

    jaxner sweep --workdir runs/uanet --split dev --plot sweep.png

Scores a trained tagger for values of Γ and M (UANet's Figure 4), counts the
tokens that the refinement corrects and breaks (Table 1), and measures how
well uncertainty detects wrong labels.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.table import Table

from jaxner import fields, tagging, writing
from jaxner.analysis import sweeps
from jaxner.evaluation import plots
from jaxner.terminal import LineConsole
from jaxner.training import checks, monitor, prepare
from jaxner.workdir import Workdir

console = LineConsole()


def declare(commands: Any) -> None:
    """Adds the command to the subparsers of `jaxner`."""
    one = commands.add_parser(
        "sweep",
        help="measures how a tagger's labels change with its uncertainty options",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    one.add_argument("--workdir", required=True, help="folder of the run")
    one.add_argument(
        "--split",
        default="dev",
        choices=("train", "dev", "test"),
        help="split to measure; default: dev",
    )
    one.add_argument(
        "--thresholds",
        type=fields.argument(fields.Real, "0,0.3,0.5"),
        default=list(sweeps.THRESHOLDS),
        help="values of the threshold Γ in nats, between commas; default: 0,0.05,…,1",
    )
    one.add_argument(
        "--samples",
        type=fields.argument(fields.Size, "1,2,8"),
        default=list(sweeps.SAMPLES),
        help="numbers of passes M, between commas; default: 1,2,4,8,16",
    )
    one.add_argument("--plot", help="file to write the plot to: .png, .pdf or .svg")
    one.add_argument("--json", help="file to write the figures to, as JSON")
    one.set_defaults(run=sweep)


def check(options: argparse.Namespace) -> None:
    """Checks what can be known to be wrong before the tagger is loaded."""
    checks.check_folder("--workdir", options.workdir)
    for flag, path in (("--plot", options.plot), ("--json", options.json)):
        checks.check_file(flag, path)
        writing.check(path)
    if options.plot:
        plots.check(options.plot)


def sweep(options: argparse.Namespace) -> None:
    """Runs `jaxner sweep`."""
    check(options)
    params = tagging.load(options.workdir)
    config = Workdir(options.workdir).read_json("config.json")
    split = prepare.load_split(config["data"], options.split)
    console.print(split.summary())
    with monitor.waiting(console, "Labelling with each Γ and M"):
        found = sweeps.sweep(
            params, split, thresholds=options.thresholds, samples=options.samples
        )
    title = f"{split.name} {options.split}"
    if found.by_threshold:
        console.print(_table(found.by_threshold, "Γ", found.figure, title))
        console.print(_table(found.by_samples, "M", found.figure, title))
    else:
        console.print("The tagger has no refinement: varying only M")
        console.print(_plain_table(found.by_samples, found.figure, title))
    its = found.detection
    console.print(
        f"Mean entropy of the draft: {its.mean_wrong:.4f} nats for {its.wrong:,} wrong "
        f"tokens, {its.mean_right:.4f} nats for {its.right:,} right tokens (ratio "
        f"{its.ratio:.1f}); AUROC {its.auroc:.4f}"
    )
    if options.json:
        about = {
            "workdir": str(options.workdir),
            "split": options.split,
            "sha256": split.sha256,
            "own": config["model"].get("mc_dropout"),
            "ratio": its.ratio,
        }
        text = json.dumps(_plain(found._asdict() | about), indent=2) + "\n"
        Path(options.json).write_text(text, "utf-8")
    if options.plot:
        plots.sweep(
            options.plot, found.by_threshold, found.by_samples, found.figure, title
        )
        console.print(f"Plot written to {options.plot}")


def _plain_table(points: Sequence[sweeps.Point], figure: str, title: str):
    table = Table(title=f"{title}: {figure} by M")
    table.caption = "M: passes with dropout"
    for name in ("M", figure):
        table.add_column(name, justify="right")
    for point in points:
        table.add_row(str(point.samples), f"{point.score:.2f}")
    return table


def _table(points: Sequence[sweeps.Point], varied: str, figure: str, title: str):
    table = Table(title=f"{title}: {figure} by {varied}")
    table.caption = (
        "M: passes; Γ: threshold in nats; mixed: the refined label where the draft's "
        "uncertainty is above Γ; mended, broken: tokens that this corrects and spoils; "
        "u: their mean uncertainty in nats"
    )
    # Narrow enough for 80 columns.
    columns = ("M", "Γ", "draft", "refined", "mixed")
    for name in (*columns, "mended", "u", "broken", "u"):
        table.add_column(name, justify="right")
    for point in points:
        its = point.changes
        table.add_row(
            str(point.samples),
            f"{point.threshold:.2f}",
            *(f"{x:.2f}" for x in (point.draft, point.refined, point.score)),
            f"{its.mended:,}",
            f"{its.mended_uncertainty:.3f}",
            f"{its.broken:,}",
            f"{its.broken_uncertainty:.3f}",
        )
    return table


def _plain(value):
    """Returns nested named tuples as dicts, for JSON; nan becomes null."""
    if hasattr(value, "_asdict"):
        return _plain(value._asdict())
    if isinstance(value, dict):
        return {name: _plain(item) for name, item in value.items()}
    if isinstance(value, list):
        return [_plain(item) for item in value]
    if isinstance(value, float) and not abs(value) < float("inf"):
        return None
    return value
