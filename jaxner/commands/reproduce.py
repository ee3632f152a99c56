"""`jaxner reproduce`: the papers' tables and figures.

jaxner reproduce --list                   what is done, missing and skipped
jaxner reproduce --all --hours 2          runs what is missing, by priority
jaxner reproduce --table grn --seeds 5    one paper's cells, five runs each
jaxner reproduce --cell grn/conll2003
jaxner reproduce --tables --write         writes tables from the results

jaxner reproduce mention-length --workdir runs/att runs/baseline
    one of the other figures, of runs

The first Ctrl-C or SIGTERM stops the run at its next step; the same command
resumes it.
"""

from __future__ import annotations

import argparse
import collections
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from jaxner import fields
from jaxner.reproduce import (
    figure_options,
    plan,
    programs,
    published,
    queue,
    tables,
    verdicts,
)
from jaxner.reproduce.plan import Job
from jaxner.reproduce.published import Published
from jaxner.reproduce.queue import Queue
from jaxner.reproduce.results import Results
from jaxner.terminal import LineConsole
from jaxner.training import checks
from jaxner.wording import counted

console = LineConsole()


def declare(commands: Any) -> None:
    """Adds the command to the subparsers of `jaxner`."""
    one = commands.add_parser(
        "reproduce",
        help="runs and tables of the papers' systems",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    _declare_cells(one)
    one.add_argument(
        "--list", action="store_true", help="show what is done, missing and skipped"
    )
    one.add_argument(
        "--tables",
        action="store_true",
        help="print the tables of published and measured figures",
    )
    one.add_argument(
        "--write",
        action="store_true",
        help="with --tables: write them into README and docs",
    )
    one.add_argument(
        "--hours",
        type=fields.argument(fields.Positive),
        help="stop after this many hours; default: when all is done",
    )
    _declare_places(one)
    one.set_defaults(run=reproduce)
    figure_options.declare(
        one.add_subparsers(metavar="FIGURE", title="other tables and figures, of runs")
    )


def _declare_places(one: argparse.ArgumentParser) -> None:
    one.add_argument("--retry", action="store_true", help="repeat runs that failed")
    one.add_argument(
        "--device",
        choices=programs.PLATFORMS,
        help="device to train on; default: the one that JAX finds",
    )
    one.add_argument(
        "--results",
        type=Path,
        default=Path("results"),
        help="folder of the results; default: results",
    )
    about = "folder of the runs; default: runs/reproduce"
    one.add_argument("--runs", type=Path, default=Path("runs/reproduce"), help=about)


def _declare_cells(one: argparse.ArgumentParser) -> None:
    what = one.add_argument_group("which cells")
    what.add_argument(
        "--table",
        action="append",
        default=[],
        help="all systems of one paper, such as grn",
    )
    what.add_argument(
        "--cell",
        action="append",
        default=[],
        help="one system and data set, such as grn/conll2003",
    )
    what.add_argument("--all", action="store_true", help="all systems, by priority")
    what.add_argument(
        "--seeds",
        type=fields.argument(fields.Size),
        help="runs of each system; default: as plan.toml says",
    )


def reproduce(options: argparse.Namespace) -> None:
    """Runs `jaxner reproduce`.

    Raises:
        SystemExit: A signal stopped the queue.
        ValueError: A table or cell is unknown, or no option is set.
    """
    checks.check_folder("--results", options.results)
    checks.check_folder("--runs", options.runs)
    if options.write and not options.tables:
        raise ValueError("--write goes with --tables: it writes the tables into pages")
    known = published.load()
    for table in options.table:
        published.known("table", table, known.papers)
    for cell in options.cell:
        known.cell(cell)
    results = Results(options.results)
    if options.tables:
        show_tables(known, results, options.write)
        return
    is_chosen = options.all or options.table or options.cell
    if not (options.list or is_chosen):
        raise ValueError("Expected --table NAME, --cell ID, --all, --list or --tables")
    line = Queue(
        plan.load(known.cells),
        results,
        options.runs,
        device=options.device,
        log=_say,
    )
    jobs = plan.chosen(
        line.plan.jobs(known.cells, options.seeds), options.table, options.cell
    )
    if options.list:
        for text in listing(line, jobs):
            _say(text)
        return
    status = line.work(jobs, hours=options.hours, retry=options.retry)
    if status:
        sys.exit(status)


def listing(line: Queue, jobs: Sequence[Job]) -> list[str]:
    """Returns a line for each cell, in order, and one with the totals."""
    states = {job: line.state(job) for job in jobs}
    texts = []
    totals = collections.Counter(state.name for state in states.values())
    for name in dict.fromkeys(job.cell.id for job in jobs):
        mine = {job: state for job, state in states.items() if job.cell.id == name}
        by_state: dict[tuple[str, str], list[str]] = {}
        for job, state in mine.items():
            by_state.setdefault((state.name, state.why), []).append(str(job.seed))
        told = "; ".join(
            f"{word} {','.join(seeds)}{f' ({why})' if why else ''}"
            for (word, why), seeds in by_state.items()
        )
        texts.append(f"{name:40} {told}")
    counts = ", ".join(f"{totals[x]} {x}" for x in queue.STATES if totals[x])
    return [*texts, f"{counted(len(jobs), 'run')}: {counts}"]


def show_tables(known: Published, results: Results, write: bool) -> None:
    """Prints or writes the tables.

    Args:
        known: Cells and claims.
        results: The lines.
        write: Whether to write into the README, the docs and the results page.
    """
    lines, before = results.lines(), results.compared()
    compared = verdicts.compare(known, lines, before)
    if not write:
        console.print(tables.report(known, lines, compared), markup=False, end="")
        return
    results.folder.mkdir(parents=True, exist_ok=True)
    results.write_compared(compared)
    report = results.folder / "README.md"
    report.write_text(tables.report(known, lines, compared), "utf-8")
    pages = {"README.md": tables.readme, "docs/systems.md": tables.systems}
    for name, lay_out in pages.items():
        page = programs.ROOT / name
        if not page.is_file():
            raise FileNotFoundError(f"No {page}: --write needs the root of a clone")
        text = tables.inserted(page.read_text("utf-8"), lay_out(known, lines))
        page.write_text(text, "utf-8")
    _say(f"Written: {report}, {', '.join(pages)}")


def _say(text: str) -> None:
    console.print(text, markup=False)
