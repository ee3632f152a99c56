"""The papers' tables and figures, in the root of a clone.

python -m reproduce --list                   what is done, missing and skipped
python -m reproduce --all --hours 2          runs what is missing, by priority
python -m reproduce --table grn --seeds 5    one paper's cells, five runs each
python -m reproduce --cell grn/conll2003
python -m reproduce --tables --write         writes tables from the results
python -m reproduce figures mention-length --workdir runs/att
python -m reproduce --own --python spacy/bin/python     beside spaCy, each by default

The first Ctrl-C or SIGTERM stops the run at its next step; the same command
resumes it.
"""

import argparse
import json
import signal
import sys
from pathlib import Path

from jaxner import outputs
from jaxner.errors import InputError
from reproduce import figures, own, tables
from reproduce.plan import Plan, Published
from reproduce.queue import ROOT, Queue
from reproduce.results import Results


def main(argv: list[str] | None = None) -> None:
    """Runs a command line."""
    parser = argparse.ArgumentParser(
        "python -m reproduce",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add("--table", action="append", default=[], help="a paper's systems, such as grn")
    add("--cell", action="append", default=[], help="such as grn/conll2003")
    add("--all", action="store_true", help="all systems")
    add("--seeds", type=int, help="runs of each system; default: as plan.toml says")
    add("--list", action="store_true", help="show what is done, missing and skipped")
    add("--tables", action="store_true", help="print published and measured figures")
    add("--write", action="store_true", help="with --tables or --own: into the docs")
    add("--hours", type=float, help="stop after this many hours")
    add("--own", action="store_true", help="systems with their defaults, and spaCy")
    add("--set", action="append", choices=own.SETS, help="with --own; default: all")
    add("--system", action="append", help="with --own: a config such as grn:files")
    add("--python", default=sys.executable, help="with --own: a Python that has spaCy")
    add("--retry", action="store_true", help="repeat runs that failed")
    add("--results", type=Path, default=ROOT / "results", help="folder of results")
    add("--runs", type=Path, default=ROOT / "runs/reproduce", help="folder of runs")
    argv = sys.argv[1:] if argv is None else argv
    if argv[:1] == ["figures"]:
        return figures.main(argv[1:])
    options = parser.parse_args(argv)
    published, results = Published.load(), Results(options.results)
    if options.own:
        return own.main(options, results)
    if options.tables:
        return show_tables(published, results, options.write)
    if not (options.list or options.all or options.table or options.cell):
        parser.error("expected --list, --tables, --all, --own, --table or --cell")
    cells = [published.cell(name) for name in options.cell]
    cells += [cell for table in options.table for cell in published.of_table(table)]
    plan = Plan.load()
    jobs = plan.jobs(published.cells, options.seeds)
    jobs = [job for job in jobs if not cells or job.cell in cells]
    queue = Queue(plan, results, options.runs)
    if not options.list:
        return queue.work(jobs, options.hours, options.retry)
    seeds: dict[tuple[str, str, str], list[str]] = {}
    for job in jobs:
        seeds.setdefault((job.cell.id, *queue.state(job)), []).append(str(job.seed))
    for (name, state, note), numbers in seeds.items():
        print(f"{name:40} {state} {','.join(numbers)}{f' ({note})' if note else ''}")


def show_tables(published: Published, results: Results, write: bool) -> None:
    """Prints the tables, or writes them into the README, the docs and the results."""
    lines, file = results.lines(), results.folder / "bootstrap.json"
    intervals = json.loads(file.read_text("utf-8")) if file.is_file() else {}
    costs = results.costs()
    report = tables.report(published, lines, intervals, costs)
    if not write:
        return print(report, end="")
    rows = (f"{json.dumps(name)}: {json.dumps(x)}" for name, x in intervals.items())
    outputs.write_text(file, "{\n" + ",\n".join(rows) + "\n}\n")
    outputs.write_text(results.folder / "README.md", report)
    for name, table in tables.pages(published, lines, costs).items():
        text = (ROOT / name).read_text("utf-8")
        outputs.write_text(ROOT / name, tables.inserted(text, table))


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        main()
    except KeyboardInterrupt:
        print("Stopped; the same command continues from here")
        sys.exit(130)
    except (InputError, FileNotFoundError) as error:
        sys.exit(f"reproduce: {error}")
