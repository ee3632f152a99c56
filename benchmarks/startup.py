r"""Seconds from process start to the first training step and the first label.

    python -m benchmarks.startup
    python -m benchmarks.startup --dataset conll2003 --systems BiLSTM-CRF

`first step`: a new process reads the corpus, builds its vocabulary, compiles, and takes
one training step. `all shapes`: a batch of each padded shape has come, and no later
step compiles; other systems compile nothing. `cold` has an empty compilation cache,
`warm` a cache filled by an earlier process. Tagging lasts from the start of a process
to its first printed label (see `benchmarks.tagging`). The parent process measures the
time. Systems take turns. Ours read columns, the peers the same sentences from JSON;
they run no pilots and have all threads. Ratios are relative to PyTorch, round by round;
above 1 is faster. The peers are extras: pip install -e '.[benchmarks]'.
"""

from __future__ import annotations

import functools
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks import alone, corpus, ours, peers, tagging
from benchmarks.measure import Interval, Report
from jaxner.data import conll

BATCH = 10
STEP, SHAPES, LABEL = "first step", "all shapes", "first label"
MARK = "#mark "
# Targets in seconds on two cores, by data set and case.
TARGETS = {
    ("sample", STEP, "cold"): 20.0,
    ("conll2003", SHAPES, "cold"): 45.0,
    ("sample", STEP, "warm"): 6.0,
    ("conll2003", STEP, "warm"): 6.0,
    ("sample", LABEL, "cold"): 2.5,
    ("sample", LABEL, "warm"): 1.5,
}

Marks = dict[str, float]
"""Seconds from the start of a process to each of its announcements."""


def mark(name: str) -> None:
    """Announces an event in a process started by `marks`."""
    print(MARK + name, flush=True)


def marks(command: Sequence[str], **variables: str) -> Marks:
    """Returns the times of a command's announcements.

    Raises:
        FailedError: The command failed or announced nothing; the message has its last
            line.
    """
    environment = alone.environment(**variables)
    found: Marks = {}
    with tempfile.TemporaryFile("w+", encoding="utf-8") as errors:
        start = time.perf_counter()
        with subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=errors, text=True, env=environment
        ) as process:
            for line in process.stdout or ():
                if line.startswith(MARK):
                    name = line.removeprefix(MARK).rstrip("\n")
                    found[name] = time.perf_counter() - start
        if process.returncode or not found:
            errors.seek(0)
            lines = errors.read().strip().splitlines() or ["no output"]
            raise alone.FailedError(
                f"{' '.join(command[:4])} ended with {process.returncode}: {lines[-1]}"
            )
    return found


def of_ours(system: str, text: Path, quick: bool, cache: Path | None) -> Marks:
    """Returns the times of our training; `cache` None means an empty cache."""
    with tempfile.TemporaryDirectory() as folder:
        place = cache or Path(folder) / "cache"
        options = {"system": system, "corpus": str(text), "quick": quick}
        return marks(
            [sys.executable, "-m", "benchmarks.first_step", json.dumps(options)],
            **alone.cache(place),
        )


def of_peer(name: str, text: Path) -> Marks:
    """Returns the times of a peer's training."""
    command = [sys.executable, "-m", "benchmarks.peers", name]
    return marks([*command, "--train", str(text), str(BATCH)])


def trainings(
    systems: Iterable[str], rivals: Iterable[str], options: Any, folder: Path
) -> dict[str, Callable[[], Marks]]:
    """Returns functions that start each training, by row."""
    splits = {
        name: corpus.load(options.dataset, name, options.limit)
        for name in ("train", "dev", "test")
    }
    for name, split in splits.items():
        rows = (zip(e.tokens, e.labels or (), strict=True) for e in split.examples)
        conll.write(folder / f"{name}.conll", rows)
    given = folder, options.quick
    runs: dict[str, Callable[[], Marks]] = {}
    for system in systems:
        cache = folder / f"cache {system}"
        runs[f"{system}, cold"] = functools.partial(of_ours, system, *given, None)
        runs[f"{system}, warm"] = functools.partial(of_ours, system, *given, cache)
    text = folder / "train.json"
    train = corpus.labelled(splits["train"])
    text.write_text(json.dumps(train), encoding="utf-8")
    for name in rivals:
        runs[name] = functools.partial(of_peer, name, text)
    return runs


def labels(
    systems: Iterable[str], rivals: Mapping[str, Any], options: Any, folder: Path
) -> dict[str, Callable[[], Marks]]:
    """Returns functions that start a process and tag a sentence, by row."""
    train = corpus.load(options.dataset, "train", options.limit)
    configs = {name: ours.config_of(name, options.quick) for name in systems}
    taggers = {name: ours.tagger(config, train) for name, config in configs.items()}
    answers = tagging.first_answers(taggers, configs, dict(rivals), folder)

    def timed(answer: Callable[[], tagging.Answer]) -> Marks:
        return {LABEL: answer().seconds}

    return {
        name.replace(", cached", ", warm"): functools.partial(timed, answer)
        for name, answer in answers.items()
    }


def in_turn(runs: Mapping[str, Callable[[], Marks]], rounds: int) -> dict[str, Any]:
    """Returns timings of all runs; an uncounted first round fills the caches."""
    found: dict[str, list[Marks]] = {name: [] for name in runs}
    for number in range(rounds + 1):
        for name in list(runs)[:: 1 if number % 2 else -1]:
            took = runs[name]()
            if number:
                found[name].append(took)
    return found


def rows_of(
    found: Mapping[str, Sequence[Marks]], rival: str | None
) -> list[dict[str, Any]]:
    """Returns a row for each run: seconds to each mark, and ratio to a rival."""
    names = dict.fromkeys(
        mark for took in found.values() for one in took for mark in one
    )
    rows = []
    for run, took in found.items():
        row: dict[str, Any] = {"system": run}
        for name in names:
            seconds = [one[name] for one in took if name in one]
            row[f"{name}, s"] = Interval.of(seconds) if seconds else None
        if rival is not None:
            name = next(iter(names))
            pairs = zip(found[rival], took, strict=True)
            row[f"× {rival}"] = Interval.of(
                its[name] / mine[name] for its, mine in pairs
            )
        rows.append(row)
    return rows


def verdicts(
    found: Mapping[str, Sequence[Marks]], system: str, dataset: str
) -> list[dict[str, Any]]:
    """Returns which targets one of our systems meets."""
    rows = []
    for (data, name, case), most in TARGETS.items():
        took = [m[name] for m in found.get(f"{system}, {case}", ()) if name in m]
        if data != dataset or not took:
            continue
        median = Interval.of(took).median
        rows.append(
            {
                "target": f"{dataset}: {system}, {name}, {case} ≤ {most:g} s",
                "measured, s": median,
                "verdict": "met" if median <= most else "not met",
            }
        )
    return rows


def main(argv: list[str] | None = None) -> None:
    """Runs the benchmark."""
    made = corpus.parser(__doc__)
    made.set_defaults(rounds=3)
    made.add_argument("--systems", nargs="*", default=["GRN"], choices=ours.SYSTEMS)
    made.add_argument("--peers", nargs="*", default=peers.NAMES, choices=peers.NAMES)
    options = corpus.parse(made, argv)
    report = Report(options.json)
    train = corpus.load(options.dataset, "train", options.limit)
    rivals = corpus.build_peers(options.peers, train, report)
    about = f"{options.dataset}, {len(train.examples):,} sentences, batch {BATCH}"
    rival = next(iter(rivals), None)
    results = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        stored = tagging.that_store(rivals, report)
        for title, runs in (
            (f"training: {about}", trainings(options.systems, rivals, options, folder)),
            ("tagging one sentence", labels(options.systems, stored, options, folder)),
        ):
            found = in_turn(runs, options.rounds)
            report.table(f"seconds from the start, {title}", rows_of(found, rival))
            for system in options.systems:
                results += verdicts(found, system, options.dataset)
    if results:
        report.table("targets of the start, on two cores", results)


if __name__ == "__main__":
    main()
