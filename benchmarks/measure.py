"""Times rivals in turn, and prints and stores the results.

Rivals take turns within each round, in reverse order every second round, so that a
slowing machine affects all of them. The first call of each, which compiles, is reported
separately. Ratios are medians of the rounds' ratios; above 1 is faster.
"""

import argparse
import contextlib
import dataclasses
import importlib.util
import json
import math
import os
import platform
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from importlib import metadata
from pathlib import Path
from typing import Any, Self

import jax

from benchmarks import peers
from jaxner import outputs
from jaxner.data import corpora, formats
from jaxner.evaluation.report import Table
from jaxner.terminal import LineConsole

ROOT = Path(__file__).parents[1]
SUFFIX = ", before"  # ends the names of systems of another checkout
_SAMPLE_SECONDS = 0.02  # approximate minimum duration of a sample
# OpenMP threads wait for work by spinning, and take a core from the next rival.
_PAUSE_SECONDS = 0.05

SYSTEMS = {
    "GRN": "grn:conll2003",
    "ID-CNN": "idcnn:conll2003",
    "ID-CNN-CRF": "idcnn:conll2003,crf",
    "CNN-BiLSTM-CRF": "cnn_bilstm_crf:conll2003",
    "BiLSTM-CRF": "ncrfpp:conll2003,crf",
    "Parallel RNN": "parallel_rnn:conll2003",
    "Att-BiLSTM-CNN": "cross_bilstm:conll2003",
    "Cross-BiLSTM-CNN": "cross_bilstm:conll2003,model=cross",
    "UANet": "uanet:conll2003",
}
"""Our systems and their configs."""
CONLL_TYPES = ["LOC", "MISC", "ORG", "PER"]
SAME_SIZE = "CNN-BiLSTM-CRF"  # as large as the PyTorch peer


@dataclasses.dataclass(frozen=True)
class Interval:
    """A median with bounds of 95 % confidence, which are order statistics.

    With fewer than six values they are minimum and maximum, with less confidence.
    """

    median: float
    low: float
    high: float

    @classmethod
    def of(cls, values: Iterable[float]) -> Self:
        """Returns the interval of some values."""
        order = sorted(values)
        count, rank = len(order), 0
        # P(the median lies below the value at `rank`) is a tail of Binomial(count, ½).
        while 2 * sum(math.comb(count, k) for k in range(rank + 2)) <= 0.05 * 2**count:
            rank += 1
        return cls(statistics.median(order), order[rank], order[-1 - rank])


def speedup(seconds: Sequence[float], rival: Sequence[float]) -> Interval:
    """Returns how many times as fast as a rival something is, by their seconds."""
    return Interval.of(y / x for x, y in zip(seconds[1:], rival[1:], strict=True))


def compare(
    runs: Mapping[str, Callable[[], object]], rounds: int
) -> dict[str, list[float]]:
    """Returns the seconds of runs that take turns: of the first call and of each round.

    Each run returns when its result is ready; short runs are called several times for
    each of the rounds.
    """

    def time_of(run: Callable[[], object], count: int) -> float:
        start = time.perf_counter()
        for _ in range(count):
            run()
        return (time.perf_counter() - start) / count

    seconds = {name: [time_of(run, 1)] for name, run in runs.items()}
    counts = {
        name: max(1, math.ceil(_SAMPLE_SECONDS / time_of(run, 1)))
        for name, run in runs.items()
    }
    ways = [*runs], [*runs][::-1]
    for number in range(rounds):
        for name in ways[number % 2]:
            time.sleep(_PAUSE_SECONDS)
            seconds[name].append(time_of(runs[name], counts[name]))
    return seconds


def rows(
    seconds: Mapping[str, list[float]], items: int, unit: str, against: Iterable[str]
) -> list[dict[str, Any]]:
    """Returns a row for each rival: items per second, compile time and ratios.

    `against` names the rivals to compare with; those not measured are left out. Systems
    of another checkout add a column.
    """
    table = []
    for name, (first, *rest) in seconds.items():
        row: dict[str, Any] = {"system": name}
        row[f"{unit} / s"] = items / (median := statistics.median(rest))
        row["first, s more"] = max(0.0, first - median)
        for rival in against:
            if rival in seconds:
                row[f"× {rival}"] = speedup(seconds[name], seconds[rival])
        if any(rival.endswith(SUFFIX) for rival in seconds):
            old = seconds.get(f"{name}{SUFFIX}")
            row["× before"] = old and speedup(seconds[name], old)
        table.append(row)
    return table


class Worker(subprocess.Popen):
    """A process of a file of benchmarks in a checkout; does a turn at each call.

    `task` is of JSON values. It ends when its standard input is closed.
    """

    def __init__(self, tree: Path, mode: str, file: str = "worker.py", **task: Any):
        worker = str(Path(__file__).with_name(file))
        paths = [str(tree), os.environ.get("PYTHONPATH", "")]
        variables = {"PYTHONPATH": os.pathsep.join(filter(None, paths))}
        variables["XLA_PYTHON_CLIENT_PREALLOCATE"] = "false"  # rivals share a GPU
        command = [sys.executable, "-P", worker, mode]
        pipe: Any = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
        super().__init__(command, cwd=tree, env={**os.environ, **variables}, **pipe)
        print(json.dumps(task), file=self.stdin)
        self.steps: list[float] = []  # seconds in each turn

    def __call__(self) -> None:
        """Does a turn; raises RuntimeError if the process ended."""
        print(file=self.stdin, flush=True)
        if not (self.stdout and (line := self.stdout.readline())):
            raise RuntimeError("A worker ended")
        self.steps.append(float(line))


def megabytes(pid: int, figure: str = "VmRSS") -> float:
    """Returns the memory of a process in MiB, VmHWM: at most."""
    text = Path(f"/proc/{pid}/status").read_text()
    return int(re.findall(rf"{figure}:\s*(\d+) kB", text)[0]) / 1024


def beside_peers(
    mode: str, doc: str | None, batches: list[int], argv: Sequence[str] | None = None
) -> None:
    """Runs a benchmark of our systems, in a mode of workers, beside the peers."""
    flags = parser(doc)
    packages, choices = peers.PACKAGES, {"systems": SYSTEMS, "peers": peers.PACKAGES}
    for name, known in choices.items():
        flags.add_argument(f"--{name}", nargs="*", choices=known, default=[*known])
    flags.add_argument("--batch", type=int, nargs="+", default=batches)
    flags.add_argument("--against", type=Path, help="root of another checkout")
    flags.add_argument("--set", nargs="+", default=[], metavar="OPTION=VALUE")
    options = parse(flags, argv)
    report = Report(options.json)
    names = [x for x in options.peers if importlib.util.find_spec(packages[x])]
    for name in {*options.peers} - {*names}:
        print(f"Skipped {name}, without {packages[name]}: pip install '.[benchmarks]'")
    texts = [load(options.dataset, "train", options.limit)]
    if mode == "tag":
        texts.append(load(options.dataset, "dev", options.limit))
    count = sum(len(tokens) for tokens, _ in texts[-1])
    title = f"{options.dataset}, {len(texts[-1]):,} sentences, {count:,} tokens"
    task: Any = {"texts": texts, "quick": options.quick}
    task["changes"] = dict(pair.split("=", 1) for pair in options.set)
    for batch in options.batch:
        with contextlib.ExitStack() as stack:
            folder = stack.enter_context(tempfile.TemporaryDirectory())
            for split in corpora.SPLITS:  # small dev and test: epochs shall train
                part = texts[0][: None if split == "train" else 8]
                pairs = (zip(*sentence, strict=True) for sentence in part)
                formats.write_columns(f"{folder}/{split}.conll", pairs)
            task |= {"batch": batch, "corpus": folder}
            workers = {
                f"{name}{suffix}": Worker(tree, mode, config=SYSTEMS[name], **task)
                for name in options.systems[: 2 if options.quick else None]
                for suffix, tree in options.trees.items()
            }
            for name in names:
                workers[name] = Worker(ROOT, mode, "peers.py", name=name, **task)
            for worker in workers.values():
                stack.enter_context(worker)
            seconds = compare(workers, options.rounds)
            table = rows(seconds, count, "tokens", [*names, SAME_SIZE])
            for row in table:
                worker = workers[row["system"]]
                row["peak, MiB"] = megabytes(worker.pid, "VmHWM")
                if mode == "train":  # without scores and checkpoints
                    steps = statistics.median(worker.steps)
                    row["tokens / s of steps"] = count / steps if steps else None
        report.table(f"{mode}, batch {batch or 'whole'}: {title}", table)


def parser(doc: str | None, dataset: str = "sample") -> argparse.ArgumentParser:
    """Returns a parser with the options of all benchmarks."""
    kind = argparse.RawDescriptionHelpFormatter
    flags = argparse.ArgumentParser(description=doc, formatter_class=kind)
    flags.add_argument("--dataset", default=dataset, help="a known corpus")
    flags.add_argument("--limit", type=int, default=0, help="sentences; 0 for all")
    flags.add_argument("--rounds", type=int, default=7)
    flags.add_argument("--json", metavar="FILE", help="file for the tables")
    flags.add_argument("--quick", action="store_true", help="tiny: does it run?")
    return flags


def parse(flags: argparse.ArgumentParser, argv: Sequence[str] | None) -> Any:
    """Returns the options; `--quick` shortens those not given."""
    options = flags.parse_args(argv)
    if options.quick:
        options.rounds = 1
        options.limit = options.limit or 24
    options.trees = {"": ROOT}
    if getattr(options, "against", None):
        options.trees[SUFFIX] = options.against.absolute()
    return options


def load(dataset: str, split: str, limit: int = 0) -> list[tuple[list[str], list[str]]]:
    """Returns the first sentences of a split, tokens and BIOES labels."""
    examples = corpora.load(dataset, split).to_scheme("BIOES")
    return [(list(e.tokens), list(e.labels or ())) for e in examples[: limit or None]]


class Report:
    """The tables of one benchmark, on the screen and optionally in a JSON file.

    The first has device, cores, load and versions.
    """

    def __init__(self, path: str | None):
        self._path, self._console = path, LineConsole(width=1000)
        cores, load = len(os.sched_getaffinity(0)), round(os.getloadavg()[0], 2)
        facts = {"device": jax.devices()[0].device_kind, "cores": cores, "load": load}
        facts["python"] = platform.python_version()
        for package in ("jax", "torch", "spacy", "pytorch-crf"):
            with contextlib.suppress(metadata.PackageNotFoundError):
                facts[package] = metadata.version(package)
        self._tables: dict[str, Any] = {"machine": facts}
        print(", ".join(f"{name} {value}" for name, value in facts.items()))

    def table(self, title: str, rows: Sequence[Mapping[str, Any]]) -> None:
        """Prints rows with equal keys as a table, and stores them."""
        cells = [[*map(show, row.values())] for row in rows]
        columns = [*rows[0]] if rows else []
        self._console.print(Table(columns, cells, title=title))
        self._tables[title] = rows
        if self._path:
            options: Any = {"indent": 1, "ensure_ascii": False}
            text = json.dumps(self._tables, default=dataclasses.asdict, **options)
            Path(self._path).parent.mkdir(parents=True, exist_ok=True)
            outputs.write_text(self._path, text + "\n")


def show(cell: Any) -> str:
    """Returns a cell as text: three digits, and the bounds after a median."""
    if cell is None:
        return "–"
    if isinstance(cell, Interval):
        return f"{show(cell.median)} [{show(cell.low)}, {show(cell.high)}]"
    if isinstance(cell, float) and 0 < abs(cell) < 100:
        return f"{cell:#.3g}"
    return f"{cell:,.0f}" if isinstance(cell, int | float) else str(cell)
