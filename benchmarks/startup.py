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
from typing import Any

from benchmarks import measure, worker
from benchmarks.measure import SYSTEMS

LABEL = """
import os, sys, jaxner
print(jaxner.tag(jaxner.load(sys.argv[1]), sys.argv[2:])[0], flush=True)
os._exit(0)
"""
SENTENCE = ("Ms", "Preston", "left", "Lakeside", "for", "Milan", "on", "Monday")


def until(tree: Path, cache: Path | None, begins: str, *arguments: str) -> None:
    """Starts Python in a checkout and waits for a line that begins with some text."""
    environment = {**os.environ, "PYTHONPATH": str(tree)}
    environment |= {"JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0"}
    if cache is not None:
        environment["JAX_COMPILATION_CACHE_DIR"] = str(cache)
    new = tempfile.TemporaryDirectory()
    names = [f"{new.name}/run" if name == "NEW" else name for name in arguments]
    process = subprocess.Popen(
        [sys.executable, *names],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        cwd=tree,
        env=environment,
    )
    assert process.stdout is not None
    lines = []
    try:
        for line in process.stdout:
            lines.append(line)
            if line.startswith(begins):
                return
    finally:
        process.kill()
        process.communicate()
        new.cleanup()
    raise RuntimeError(f"{' '.join(arguments)}: {''.join(lines[-3:])}")


def training(corpus: Path, text: str, options: dict[str, Any]) -> list[str]:
    """Returns the arguments of a training in a folder that `until` makes."""
    name, _, argument = text.partition(":")
    options = {**options, "data.dir": corpus, "data.vectors": ""}
    options |= {"data.train_words": True}
    flags = [f"--config.{key}={value}" for key, value in options.items()]
    config = ["--config", f"configs/{name}.py:{argument}"]
    return ["train.py", *config, *flags, "--workdir", "NEW"]


def emptied(cache: Path, run: Callable[[], None]) -> None:
    """Runs with an empty compilation cache."""
    shutil.rmtree(cache, ignore_errors=True)
    run()


def main(argv: Sequence[str] | None = None) -> None:
    """Runs the benchmark."""
    made = measure.parser(__doc__)
    made.set_defaults(rounds=3)
    made.add_argument("--systems", nargs="*", default=["GRN"], choices=SYSTEMS)
    made.add_argument("--against", type=Path, help="root of another checkout")
    options = measure.parse(made, argv)
    report = measure.Report(options.json)
    import jaxner

    train = measure.load("sample", "train", options.limit)
    tokens = [tokens for tokens, _ in train]
    types = sorted({x[2:] for _, labels in train for x in labels} - {""})
    runs: dict[str, Callable[[], None]] = {}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        measure.write_corpus(folder / "corpus", train)
        for suffix, tree in measure.trees(options).items():
            begin = functools.partial(until, tree, None)
            code = "import jax; print('ready', flush=True)"
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
                    jaxner.save(run, worker.build(config, tokens, types))
                starts = {
                    "label": ["", "-c", LABEL, str(run), *SENTENCE],
                    "epoch": ["epoch ", *training(folder / "corpus", text, small)],
                }
                for event, arguments in starts.items():
                    cache = folder / f"{event} {system}{suffix}"
                    start = functools.partial(until, tree, cache, *arguments)
                    title = f"{system}, first {event}"
                    cold = functools.partial(emptied, cache, start)
                    runs[f"{title}, cold{suffix}"] = cold
                    runs[f"{title}, warm{suffix}"] = start
        timings = measure.compare(runs, options.rounds)
    rows = measure.rows(timings, 1, "processes", [])
    for row in rows:
        row["seconds"] = timings[row["system"]].seconds
    report.table("seconds from the start of a process", rows)


if __name__ == "__main__":
    main()
