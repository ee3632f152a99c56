"""Trains all missing runs, each in a process of its own, and records their results."""

import dataclasses
import functools
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import filelock

from jaxner import configuration
from jaxner.data import corpora
from jaxner.runs import Workdir
from jaxner.training import corpus
from reproduce import results
from reproduce.plan import Cell, Job, Plan
from reproduce.results import FAILED, Results

ROOT = Path(__file__).parents[1]
MISSING, WAITING, SKIPPED = "missing", "waiting", "skipped"
STOPS = (130, 143, -2, -15)  # exit statuses of a run that stopped on request
TRAIN = (sys.executable, "-m", "jaxner", "train")


def execute(
    command: Sequence[str], folder: Path, seconds: float, environment: Mapping[str, str]
) -> tuple[int, str]:
    """Runs a command in the clone's root, with its output in the folder's `train.log`.

    After some seconds it stops. Returns the exit status (negative: the signal that
    killed the process), and the last line.
    """
    with (folder / "train.log").open("a") as log:
        process = subprocess.Popen(
            command,
            cwd=ROOT,
            env=environment,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,  # we pass Ctrl-C on, not the shell
        )
        try:
            process.wait(min(seconds, threading.TIMEOUT_MAX))
        except subprocess.TimeoutExpired:
            pass
        finally:
            process.terminate()
            status = process.wait()
    lines = (folder / "train.log").read_text("utf-8", "replace").split("\n")
    last = ["no message", *filter(str.strip, lines)][-1]
    for path, name in {str(ROOT): ".", os.environ.get("JAXNER_DATA"): "data"}.items():
        if path:  # no machine's paths in the results
            last = last.replace(path, name)
    return status, f"killed by signal {-status}" if status < 0 else last[:500]


@dataclasses.dataclass
class Queue:
    """The runs that fill the tables; `runs` is the folder of their folders."""

    plan: Plan
    results: Results
    runs: Path

    def overrides(self, cell: Cell) -> dict[str, Any]:
        """Returns the overrides of a cell's config on this machine."""
        config = configuration.load(cell.config)
        has = functools.partial(_is_there, corpora.find_vectors)
        return self.plan.overrides(cell, config.data.vectors, has)

    def state(self, job: Job) -> tuple[str, str]:
        """Returns a job's state, and what it lacks, waits for, or why it failed."""
        if line := self.results.by_job().get((job.cell.id, job.seed)):
            return line["status"], line.get("error", "")
        config = configuration.load(job.cell.config)
        config.update_from_flattened_dict(self.overrides(job.cell))
        if lack := what_lacks(config):
            return SKIPPED, lack
        source = job.cell.begins_with
        if source and not (self._folder(source, job) / "result.json").is_file():
            return WAITING, f"for the weights of {source}"
        return MISSING, ""

    def _folder(self, cell: str, job: Job) -> Path:
        return self.runs.absolute() / cell / f"seed-{job.seed}"

    def work(
        self, jobs: Sequence[Job], hours: float | None = None, retry: bool = False
    ) -> None:
        """Runs all missing jobs, for some hours; with `retry`, failed ones, too."""
        end = time.monotonic() + 3600 * hours if hours else float("inf")
        for job in jobs:
            state, reason = self.state(job)
            if state in (SKIPPED, WAITING):
                print(f"{job}: {state}, {reason}")
            if state == MISSING or (retry and state == FAILED):
                rest = end - time.monotonic()
                if rest <= 0 or self._run(job, rest) in STOPS:
                    print("Stopped; the same command continues from here")
                    return
        print("No jobs left")

    def _run(self, job: Job, seconds: float) -> int:
        folder = self._folder(job.cell.id, job)
        folder.mkdir(parents=True, exist_ok=True)
        try:
            with filelock.FileLock(folder / ".queue", timeout=0):
                with Workdir(folder).locked():
                    pass  # if a queue is killed, the run that it started goes on
                return self._run_locked(job, folder, seconds)
        except (filelock.Timeout, BlockingIOError):
            print(f"{job}: another process is training it")
            return 0

    def _run_locked(self, job: Job, folder: Path, seconds: float) -> int:
        overrides = self.overrides(job.cell)
        options = {"seed": job.seed, **overrides}
        if job.cell.begins_with:
            options["init_from"] = self._folder(job.cell.begins_with, job)
        flags = [f"--config.{name}={value}" for name, value in options.items()]
        print(f"{job}: {' '.join(flags)}")
        command = [*TRAIN, job.cell.config, *flags, "--output", str(folder)]
        # All seeds of a cell share compiled programs.
        programs = str(self.runs.absolute() / "compiled")
        environment = {"JAX_COMPILATION_CACHE_DIR": programs, **os.environ}
        status, error = execute(command, folder, seconds, environment)
        if status in STOPS:
            return status
        if status == 0:
            line, rule = results.line_of(job, overrides, folder), job.cell.rule
            dev, test = line["dev"][rule], line["test"][rule]
            print(f"{job}: dev {dev:.2f}, test {test:.2f} ({rule})")
        else:
            line = results.begun(job, overrides, FAILED) | {"error": error}
            print(f"{job}: failed: {error}")
        self.results.add(job.cell.table, line)
        return status


def what_lacks(config: Any) -> str:
    """Returns what this machine lacks for a run; empty if nothing."""
    data = config.data
    for split in corpora.SPLITS:
        if not _is_there(corpora.find, data.dir or data.name, split):
            return f"no {split} split of {data.name}"
        if not _is_there(corpus.find_vectors, data.to_dict(), split):
            return f"no {data.contextual}"
    if data.vectors and not _is_there(corpora.find_vectors, data.vectors):
        return f"no vectors {data.vectors}"
    needs_bert = config.model.representation.get("bert")
    if needs_bert and not (data.pretrained and Path(data.pretrained).is_dir()):
        return f"no folder {data.pretrained} with a pretrained encoder"
    return ""


def _is_there(find: Callable[..., Any], *arguments: Any) -> bool:
    try:
        find(*arguments)
    except OSError:
        return False
    return True
