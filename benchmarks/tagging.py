r"""Tokens per second of tagging, beside PyTorch, Flair and spaCy; and the first answer.

    python -m benchmarks.tagging
    python -m benchmarks.tagging --dataset conll2003 --limit 1000 --batch 1 32 128

Runs go from strings to strings and include encoding tokens and decoding labels. Our
vocabulary caches looked-up tokens; the benchmark empties this cache before every run,
so that each run tags an unseen text and looks up every distinct token once. PyTorch
looks up each token each time; spaCy's vocabulary keeps the words of earlier runs. Batch
b means calls of b sentences for our systems, in the order of the corpus, and for the
peers one call for the whole corpus with batch size b, which Flair and PyTorch cut after
sorting by length. In the table of the whole corpus, each system gets the corpus in one
call and chooses its batches. For each batch size, PyTorch and Flair have one thread or
all, whichever was faster for a few batches; XLA has all. The peers train for an epoch
first, since spaCy's time depends on its predictions; our weights are random, since our
time does not depend on them.

The first answer is the time from the start of a new process to the first printed label
of a sentence: imports, loading, compiling, tagging. The clock stops when the parent
reads this line; it excludes the end of the process, and processes do not overlap. All
files have been read before. PyTorch runs no pilot here and has all cores. `cached` has
JAX's persistent compilation cache. Flair has no first answer: its files are pickles,
which this benchmark does not load. The peers are extras: pip install -e
'.[benchmarks]'.
"""

from __future__ import annotations

import functools
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import jaxner
from benchmarks import alone, corpus, ours, peers
from benchmarks.measure import Report, Timing, compare

WHOLE = 0
FIRST = ("Ms", "Preston", "left", "Lakeside", "for", "Milan", "on", "Monday")
TARGETS = (
    (ours.SAME_SIZE, "Flair", 5.0),
    (ours.SAME_SIZE, "spaCy", 2.0),
    ("GRN", "Flair", 5.0),
    ("GRN", "spaCy", 2.0),
    ("GRN", ours.SAME_SIZE, 1.19),
)
_OURS = """
import sys, jaxner
print(jaxner.tag(jaxner.load(sys.argv[1]), sys.argv[2:])[0], flush=True)
"""


class Answer(NamedTuple):
    """The first line of a process.

    Attributes:
        label: The line.
        seconds: Seconds from the start of the process until the line was read.
    """

    label: str
    seconds: float


def in_calls(
    params: Any, sentences: Sequence[Sequence[str]], batch: int
) -> list[list[str]]:
    """Tags in calls of `batch` sentences, with an empty token cache."""
    params.vocabulary.forget()
    size = batch or len(sentences)
    labels = []
    for start in range(0, len(sentences), size):
        labels += jaxner.tag(params, sentences[start : start + size])
    return labels


def speeds(
    taggers: dict[str, Any],
    rivals: dict[str, Any],
    sentences: Sequence[Sequence[str]],
    batch: int,
    rounds: int,
) -> dict[str, Timing]:
    """Returns timings of tagging with all systems."""
    runs: dict[str, Callable[[], Any]] = {}
    for name, params in taggers.items():
        runs[name] = functools.partial(in_calls, params, sentences, batch)
    for name, peer in rivals.items():
        peer.tune(batch or None, sentences)
        runs[name] = lambda p=peer: p.tag(sentences, batch or None)
    return compare(runs, next(iter(runs)), rounds)


def answer(command: Sequence[str], **variables: str) -> Answer:
    """Returns a command's first line, and the seconds to it.

    Raises:
        CalledProcessError: The command failed or wrote no line.
    """
    environment = alone.environment(**variables)
    if not variables:
        environment.pop("JAX_COMPILATION_CACHE_DIR", None)
    # A pipe for errors could fill while this waits for the first line.
    with tempfile.TemporaryFile("w+", encoding="utf-8") as errors:
        start = time.perf_counter()
        with subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=errors, text=True, env=environment
        ) as process:
            assert process.stdout is not None
            line = process.stdout.readline()
            seconds = time.perf_counter() - start
            rest = process.stdout.read()
        if process.returncode or not line:
            errors.seek(0)
            raise subprocess.CalledProcessError(
                process.returncode, command, line + rest, errors.read()
            )
    return Answer(line.rstrip("\n"), seconds)


def _its_own_seconds(run: Callable[[], Answer], count: int) -> float:
    return statistics.fmean(run().seconds for _ in range(count))


def that_store(rivals: dict[str, Any], report: Report) -> dict[str, peers.StoredPeer]:
    """Returns the peers that can be stored; reports the others."""
    found = {n: p for n, p in rivals.items() if isinstance(p, peers.StoredPeer)}
    for name in rivals:
        if name not in found:
            report.say(f"No first answer of {name}: this benchmark cannot store it.")
    return found


def first_answers(
    taggers: dict[str, Any], configs: dict[str, Any], rivals: dict[str, Any], folder
) -> dict[str, Callable[[], Answer]]:
    """Stores all taggers; returns functions that start a process for each."""
    runs: dict[str, Callable[[], Answer]] = {}
    for number, (name, params) in enumerate(taggers.items()):
        place = Path(folder) / f"ours-{number}"
        ours.write_run(configs[name], params, place)
        command = [sys.executable, "-c", _OURS, str(place), *FIRST]
        runs[f"{name}, cold"] = functools.partial(answer, command)
        cached = functools.partial(answer, command, **alone.cache(place / "cache"))
        runs[f"{name}, cached"] = cached
    for number, (name, peer) in enumerate(rivals.items()):
        place = Path(folder) / f"peer-{number}"
        peer.save(place)
        command = [sys.executable, "-m", "benchmarks.peers", name, str(place), *FIRST]
        runs[name] = functools.partial(answer, command)
    return runs


def tell_first(
    runs: dict[str, Callable[[], Answer]], rounds: int, report: Report
) -> None:
    """Reports times of processes, after an uncounted first process fills caches."""
    timings = compare(runs, next(iter(runs)), rounds, clock=_its_own_seconds)
    rows = [
        {"system": name, "seconds": timing.seconds, "first, s": timing.first}
        for name, timing in timings.items()
    ]
    report.table("from the start of a process to its first label", rows)


def main(argv: list[str] | None = None) -> None:
    """Runs the benchmark."""
    made = corpus.parser(__doc__)
    made.add_argument("--systems", nargs="*", choices=ours.SYSTEMS)
    made.add_argument("--peers", nargs="*", default=peers.NAMES, choices=peers.NAMES)
    made.add_argument("--batch", type=int, nargs="+", default=[1, 32, 128, WHOLE])
    made.add_argument("--first", nargs="*", default=["GRN"], choices=ours.SYSTEMS)
    options = corpus.parse(made, argv)
    report = Report(options.json)
    train = corpus.load(options.dataset, "train", options.limit)
    dev = corpus.load(options.dataset, "dev", options.limit)
    sentences, tokens = [e.tokens for e in dev.examples], corpus.count_tokens(dev)
    default = ("GRN", ours.SAME_SIZE) if options.quick else ours.SYSTEMS
    names = list(default) if options.systems is None else options.systems
    configs = {
        name: ours.config_of(name, options.quick)
        for name in dict.fromkeys([*names, *options.first])
    }
    taggers = {name: ours.tagger(config, train) for name, config in configs.items()}
    rivals = corpus.build_peers(options.peers, train, report)
    for peer in rivals.values():
        peer.epoch(32)
    verdicts = []
    shown = {name: taggers[name] for name in names}
    for batch in options.batch if shown or rivals else ():
        timings = speeds(shown, rivals, sentences, batch, options.rounds)
        against = [n for n in (ours.SAME_SIZE, *rivals) if n in timings]
        what = f"tagging, batch {batch}" if batch else "tagging, the whole corpus"
        about = f"{options.dataset} dev, {len(sentences):,} sentences"
        title = f"{what}: {about}, {tokens:,} tokens"
        report.table(title, corpus.rows_of(timings, tokens, against))
        if batch in (128, WHOLE):
            verdicts += [corpus.verdict(what, timings, *target) for target in TARGETS]
    first = {name: taggers[name] for name in options.first}
    stored = that_store(rivals, report)
    if first or stored:
        with tempfile.TemporaryDirectory() as folder:
            runs = first_answers(first, configs, stored, folder)
            tell_first(runs, options.rounds, report)
    if verdicts:
        report.table("targets of tagging", verdicts)


if __name__ == "__main__":
    main()
