"""Starts runs, each in its own process: `python -m jaxner train …`.

A run has fresh memory, a crash does not affect other runs, and the same command resumes
it. No other module starts runs.
"""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from jaxner import workdir
from jaxner.configuration import shipped
from jaxner.reproduce.plan import Job
from jaxner.reproduce.published import Cell

ROOT = Path(__file__).parents[2]
PLATFORMS = {"cpu": "cpu", "gpu": "cuda"}
LOG = "train.log"
STOPPED = (130, 143, -2, -15)
"""Exit statuses of a run that stopped on request and can be resumed."""
_SAYS = "jaxner train: "
_POLL = 0.5  # seconds


class Outcome(NamedTuple):
    """How a run ended.

    Attributes:
        status: Exit status; negative: the signal that killed it.
        error: What went wrong, in one line.
    """

    status: int
    error: str = ""

    @property
    def is_stopped(self) -> bool:
        """Whether the run stopped on request."""
        return self.status in STOPPED

    @property
    def is_busy(self) -> bool:
        """Whether another process is training the run."""
        return self.status != 0 and self.error.startswith(workdir.IS_LOCKED)


def config_of(cell: Cell) -> Any:
    """Returns the config of a cell, without overrides."""
    return shipped.load(cell.config)


def benchmark(arguments: Sequence[str]) -> None:
    """Runs `python -m benchmarks.papers` in this process.

    Args:
        arguments: Command-line arguments.

    Raises:
        ImportError: The folder `benchmarks/` is missing.
    """
    try:
        module = importlib.import_module("benchmarks.papers")
    except ModuleNotFoundError as error:
        raise ImportError(
            f"No benchmarks/papers.py ({error}): run `python -m jaxner reproduce "
            "speed` in the root of a clone"
        ) from None
    module.main(list(arguments))


def command(job: Job, overrides: Mapping[str, Any], runs: Path) -> list[str]:
    """Returns the command of a run, without the interpreter.

    Example:
        >>> job = Job(Cell("a/b", "a", "A", "A", "grn:sample"), 1)
        >>> command(job, {"patience": 3}, Path("runs"))[4:]
        ['grn:sample', '--config.seed=1', '--config.patience=3', '--workdir', 'runs/a/b/seed-1']
    """  # noqa: E501 - the example's output is one line
    given: dict[str, Any] = {"seed": job.seed}
    if job.num_seeds > 1:
        given |= {"num_seeds": job.num_seeds, "restarts": "together"}
    given |= overrides
    weights = job.first_weights(runs)
    if weights is not None:
        given["init_from"] = weights
    flags = [f"--config.{name}={value}" for name, value in given.items()]
    folder = ["--workdir", str(job.folder(runs))]
    return ["-m", "jaxner", "train", "--config", job.cell.config, *flags, *folder]


def train(
    job: Job,
    overrides: Mapping[str, Any],
    runs: Path,
    *,
    device: str | None,
    must_stop: Callable[[], bool],
) -> Outcome:
    """Trains or resumes a run in another process; returns how it ended.

    Args:
        job: Run to train.
        overrides: Overrides of its config.
        runs: The folder of all runs.
        device: A key of `PLATFORMS`; None for JAX's choice.
        must_stop: Returns whether the run must stop; called twice a second.

    Returns:
        How the run ended. Its output is in `train.log` in its folder.
    """
    runs = runs.absolute()
    folder = job.folder(runs)
    folder.mkdir(parents=True, exist_ok=True)
    environment = dict(os.environ)
    # All seeds of a cell share compiled programs.
    environment.setdefault("JAX_COMPILATION_CACHE_DIR", str(runs / "compiled"))
    if device:
        environment["JAX_PLATFORMS"] = PLATFORMS[device]
    with (folder / LOG).open("ab") as log:
        begin = log.tell()  # after the output of earlier attempts
        process = subprocess.Popen(
            [sys.executable, *command(job, overrides, runs)],
            env=environment,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,  # we pass Ctrl-C on, not the shell
        )
        status = _wait(process, must_stop)
    return Outcome(status, "" if status == 0 else _error(folder / LOG, begin, status))


def _wait(process: subprocess.Popen[bytes], must_stop: Callable[[], bool]) -> int:
    is_asked = False
    try:
        while process.poll() is None:
            if not is_asked and must_stop():
                process.terminate()
                is_asked = True
            time.sleep(_POLL)
    except BaseException:
        process.terminate()
        raise
    return process.wait()


def _error(log: Path, begin: int, status: int) -> str:
    """Returns the last message after a byte of a log, or the name of the signal."""
    if status < 0:
        return f"killed by signal {-status}; out of memory?"
    text = log.read_bytes()[begin:].decode("utf-8", "replace")
    lines = [x for x in text.splitlines() if x.strip()]
    messages = [line for line in lines if line.startswith(_SAYS)]
    last = (messages or lines or [f"exit status {status} without a message"])[-1]
    names = {str(ROOT): ".", os.environ.get("JAXNER_DATA") or "data": "data"}
    for path, name in names.items():  # no machine's paths in the results
        last = last.replace(path, name)
    return last.removeprefix(_SAYS)[:500]
