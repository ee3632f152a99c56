r"""Attacks jaxner by damaged runs, killed processes, odd arguments, hostile files.

    python -m benchmarks.abuse
    python -m benchmarks.abuse kills --kills 40 --seed 1
    python -m benchmarks.abuse invariance --dataset conll2003

kills: SIGKILL, SIGTERM and SIGINT at random moments of a small run, from the start of
the process on; then the same command again, to its end. `identical`: weights, history
and scores equal those of an uninterrupted run to the bit. `status`: SIGTERM and SIGINT
saved the run and ended it in 143 and 130 with a line; outside training, the system
ended it, or it was over.
bytes: one bit of one byte flipped in every file of a run folder in turn, then
`jaxner.load` and the run's command again. `found`: an error that names the file, in one
line. `harmless`: the same labels and the same scores as before. The rest is counted as
`wrong`.
arguments: odd command lines. `told`: exit status 1, at most twelve lines, no traceback.
corpora: files of the corpus with random damage, scored by `jaxner evaluate` and trained
on by `jaxner train`. `told`: an error of one line. `taken`: read without one.
invariance: 200 sentences through every system, each alone, in batches, shuffled and
padded. The figure is the largest difference of any score of a label, in nats.

Exits with 1 if anything was wrong.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

from benchmarks.abuse import arguments, corpora, flips, invariance, kills
from benchmarks.abuse.victim import Victim
from benchmarks.measure import Report

KINDS = ("kills", "bytes", "arguments", "corpora", "invariance")


def main(argv: list[str] | None = None) -> int:
    """Runs the attacks of the command line; returns how many went wrong."""
    made = argparse.ArgumentParser(
        prog="python -m benchmarks.abuse",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    made.add_argument("kinds", nargs="*", default=KINDS, metavar="kind")
    made.add_argument("--seed", type=int, default=0)
    made.add_argument("--kills", type=int, default=12)
    made.add_argument("--mutations", type=int, default=200)
    made.add_argument("--dataset", default="sample", help="of invariance")
    made.add_argument("--systems", nargs="+", default=list(invariance.SYSTEMS))
    made.add_argument("--json", help="file for the figures")
    options = made.parse_args(argv)
    if unknown := set(options.kinds) - set(KINDS):
        made.error(f"unknown kind {', '.join(sorted(unknown))}; known: {KINDS}")

    report, wrong = Report(options.json), 0
    with tempfile.TemporaryDirectory() as folder:
        victim = Victim(Path(folder))
        for kind in options.kinds:
            if kind == "kills":
                title, rows = kills.attack(victim, options.seed, options.kills)
            elif kind == "bytes":
                title, rows = flips.attack(victim, options.seed)
            elif kind == "arguments":
                title, rows = arguments.attack(victim)
            elif kind == "corpora":
                title, rows = corpora.attack(victim, options.seed, options.mutations)
            else:
                title, rows = invariance.measure(
                    options.systems, options.dataset, options.seed
                )
            report.table(title, rows)
            wrong += sum(int(row.get("wrong", 0)) for row in rows)
    return wrong


if __name__ == "__main__":
    raise SystemExit(1 if main() else 0)
