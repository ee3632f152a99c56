r"""Seconds from the start of a process to its first sign of life.

    python -m benchmarks.startup
    python -m benchmarks.startup --against ../before --systems GRN BiLSTM-CRF

`import jax`, `jaxner --version` and `jaxner --help` compile nothing. `first label`
loads a run and tags a sentence; `first epoch` trains the embedded corpus once. `cold`
has an empty compilation cache, `warm` one that the cold process filled. All files have
been read before. Processes take turns and do not overlap.
"""

from __future__ import annotations

import functools
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

import jaxner
from benchmarks import measure, worker
from benchmarks.measure import CONLL_TYPES, SYSTEMS

LABEL = """
import os, sys, jaxner
print(jaxner.tag(jaxner.load(sys.argv[1]), sys.argv[2:])[0], flush=True)
os._exit(0)
"""
SENTENCE = ("Ms", "Preston", "left", "Lakeside", "for", "Milan", "on", "Monday")


def until(tree: Path, cache: Path, is_cold: bool, begins: str, *arguments: str) -> None:
    """Starts Python in a checkout and waits for a line that begins with some text.

    A cold start empties the compilation cache first.
    """
    if is_cold:
        shutil.rmtree(cache, ignore_errors=True)
    environment = {**os.environ, "PYTHONPATH": str(tree)}
    environment |= {"JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0"}
    environment |= {"JAX_COMPILATION_CACHE_DIR": str(cache)}
    with tempfile.TemporaryDirectory() as new:
        process = subprocess.Popen(
            [sys.executable, *(x.replace("NEW", new) for x in arguments)],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            cwd=tree,
            env=environment,
        )
        lines = []
        try:
            for line in process.stdout or ():
                lines.append(line)
                if line.startswith(begins):
                    return
        finally:
            process.kill()
            process.communicate()
    raise RuntimeError(f"{' '.join(arguments)}: {''.join(lines[-3:])}")


def main(argv: Sequence[str] | None = None) -> None:
    """Runs the benchmark."""
    made = measure.parser(__doc__)
    made.set_defaults(rounds=3)
    made.add_argument("--systems", nargs="*", default=["GRN"], choices=SYSTEMS)
    made.add_argument("--against", type=Path, help="root of another checkout")
    options = measure.parse(made, argv)
    report = measure.Report(options.json)
    train = measure.load("sample", "train", options.limit)
    tokens = [tokens for tokens, _ in train]
    runs: dict[str, Callable[[], None]] = {}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        corpus = folder / "corpus"
        measure.write_corpus(corpus, train)
        for suffix, tree in options.trees.items():
            begin = functools.partial(until, tree, folder / "cache", False)
            code = "import jax; print('ready')"
            runs[f"import jax{suffix}"] = functools.partial(begin, "ready", "-c", code)
            for flag in ("--version", "--help"):
                command = functools.partial(begin, "", "-m", "jaxner", flag)
                runs[f"jaxner {flag}{suffix}"] = command
            for system in options.systems:
                text = SYSTEMS[system]
                small = worker.quick_options(text) if options.quick else {}
                run = folder / f"run {system}"
                if not run.exists():
                    config = worker.config_of(text, small)
                    jaxner.save(run, worker.build(config, tokens, CONLL_TYPES))
                task = {"config": text, "corpus": str(corpus), "options": small}
                train_py = ["train.py", *worker.training_flags(task)]
                for event, start in (
                    ("label", ["", "-c", LABEL, str(run), *SENTENCE]),
                    ("epoch", ["epoch ", *train_py, "--workdir", "NEW/run"]),
                ):
                    cache = folder / f"{event} {system}{suffix}"
                    for state in ("cold", "warm"):
                        begin = functools.partial(until, tree, cache, state == "cold")
                        title = f"{system}, first {event}, {state}{suffix}"
                        runs[title] = functools.partial(begin, *start)
        timings = measure.compare(runs, options.rounds)
    rows = measure.rows(timings, 1, "processes", [])
    for row in rows:
        row["seconds"] = timings[row["system"]].seconds
    report.table("seconds from the start of a process", rows)


if __name__ == "__main__":
    main()
