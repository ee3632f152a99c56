"""Trains all missing runs, one after another, and records their results."""

from __future__ import annotations

import contextlib
import dataclasses
import shutil
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import filelock

from jaxner.data import corpora
from jaxner.reproduce import programs, record
from jaxner.reproduce.plan import Job, Plan, joined_before, together
from jaxner.reproduce.programs import Outcome
from jaxner.reproduce.published import Cell
from jaxner.reproduce.results import DONE, FAILED, Line, Results
from jaxner.training import commits, inputs, signals
from jaxner.workdir import Workdir

MISSING, WAITING, SKIPPED = "missing", "waiting", "skipped"
STATES = (DONE, FAILED, MISSING, WAITING, SKIPPED)


Trainer = Callable[..., Outcome]
"""Trains or resumes a run; the signature is that of `programs.train`."""


@dataclasses.dataclass(frozen=True)
class State:
    """The state of a job.

    Attributes:
        name: `done`, `failed`, `missing` (not run yet), `waiting` or `skipped`.
        why: What this machine lacks, what the job waits for, or what went wrong.
    """

    name: str
    why: str = ""


@dataclasses.dataclass
class Queue:
    """The runs that fill the tables.

    Attributes:
        plan: Overrides of the configs.
        results: Receives the lines of finished runs.
        runs: The folder of all runs.
        device: "cpu", "gpu" or None for JAX's choice. On a GPU, the missing seeds of a
            cell train together, in one program.
        log: Gets lines for the user.
        train: Trains one run.
        config_of: Returns the config of a cell.
    """

    plan: Plan
    results: Results
    runs: Path
    device: str | None = None
    log: Callable[[str], object] = print
    train: Trainer = programs.train
    config_of: Callable[[Cell], Any] = programs.config_of

    def overrides(self, job: Job) -> dict[str, Any]:
        """Returns the overrides of a job's config on this machine."""
        config = self.config_of(job.cell)
        changed = self.plan.overrides(job.cell, config.data.vectors, _has_vectors)
        changed |= self.plan.devices.get(self.device or "", {})
        return {k: v for k, v in changed.items() if _option(config, k) != v}

    def state(self, job: Job) -> State:
        """Returns the state of a job, without opening data files."""
        line = self.results.by_job().get(job.key)
        if line is not None:
            return State(line["status"], line.get("error", ""))
        try:
            config = self.config_of(job.cell)
            config.update_from_flattened_dict(self.overrides(job))
        except (ValueError, KeyError, AttributeError, TypeError) as error:
            return State(SKIPPED, f"its config cannot be built: {error}")
        if lack := what_lacks(config):
            return State(SKIPPED, lack)
        weights = job.first_weights(self.runs)
        if weights is None or (weights / "result.json").is_file():
            return State(MISSING)
        source = job.cell.begins_with
        if (source, job.seed) not in self.results.by_job():
            return State(WAITING, f"for the weights of {source}")
        # Its line is here without its weights: it was trained in another clone.
        return State(
            SKIPPED,
            f"{weights} is missing, the run folder of {source}: bring it, or remove "
            f"the line of its seed {job.seed} to train it again",
        )

    def work(
        self, jobs: Sequence[Job], *, hours: float | None = None, retry: bool = False
    ) -> int:
        """Runs all missing jobs; returns an exit status.

        Args:
            jobs: Jobs by descending priority.
            hours: Stops the current run after this many hours; a later call resumes it.
            retry: Whether to start failed runs again.

        Returns:
            0, or the exit status for the signal that stopped the queue.
        """
        end = None if hours is None else time.monotonic() + 3600 * hours
        logged: set[str] = set()
        with signals.stop_requests() as stop:

            def must_stop() -> bool:
                return bool(stop) or (end is not None and time.monotonic() >= end)

            for job in jobs:
                if must_stop():
                    break
                state = self.state(job)
                if state.name in (SKIPPED, WAITING) and job.cell.id not in logged:
                    logged.add(job.cell.id)
                    self.log(f"{job.cell.id}: {state.name}, {state.why}")
                is_wanted = state.name == MISSING or (retry and state.name == FAILED)
                if is_wanted:
                    joined = self._joined(job, jobs) if state.name == MISSING else job
                    if self._run(joined, must_stop).is_stopped:
                        break
            else:
                self.log("No jobs left")
                return 0
        self.log("Stopped; the same command continues from here")
        return stop.exit_status if stop else 0

    def _joined(self, job: Job, jobs: Sequence[Job]) -> Job:
        """Returns a job with the missing seeds that can train together with it.

        Seeds that began together go on together, whichever are missing now.
        """

        def is_new(one: Job) -> bool:
            run = Workdir(one.folder(self.runs))
            is_missing = self.state(one).name == MISSING
            return is_missing and not (run.is_begun() or run.is_locked())

        if self.device != "gpu":
            return job
        for earlier in joined_before(job.cell, self.runs):
            if job in earlier.each() and self._is_open(earlier):
                return earlier
        if not is_new(job):
            return job
        mine = (one for one in jobs if one.cell.id == job.cell.id)
        return together(job, filter(is_new, mine))

    def _is_open(self, joined: Job) -> bool:
        """Returns whether runs that began together are still in one folder."""
        top = Workdir(joined.folder(self.runs))
        are_there = all(top.seed(its.seed).path.is_dir() for its in joined.each())
        return top.is_locked() or (top.is_begun() and are_there)

    def _run(self, job: Job, must_stop: Callable[[], bool]) -> Outcome:
        folder = job.folder(self.runs)
        with _locked(folder) as is_ours:
            if not is_ours:
                self.log(f"{job}: another process is training it")
                return Outcome(0)
            overrides = self.overrides(job)
            begun = "resumed" if Workdir(folder).is_begun() else "begun"
            self.log(f"{job}: {begun} with {_listed(overrides)}")
            outcome = self.train(
                job, overrides, self.runs, device=self.device, must_stop=must_stop
            )
            if outcome.is_busy:
                self.log(f"{job}: another process is training it")
            elif not outcome.is_stopped:
                self._record(job, overrides, outcome)
        return outcome

    def _record(self, job: Job, overrides: Mapping[str, Any], outcome: Outcome) -> None:
        for one in job.each():
            line = self._line(one, job, overrides, outcome)
            self.results.add(one.cell.table, line)
            if line["status"] == FAILED:
                self.log(f"{one}: failed: {line['error']}")
                continue
            dev, test = (line[x][line["rule"]] for x in ("dev", "test"))
            self.log(
                f"{one}: dev {dev:.2f}, test {test:.2f} ({line['rule']}), best epoch "
                f"{line['best_epoch']} of {line['epochs']}, {line['seconds']:,.0f} s"
            )
        # Only now: a queue killed before this point records all of them again.
        if job.num_seeds > 1 and outcome.status == 0:
            for one in job.each():
                _take_out(one, job, self.runs)

    def _line(
        self, one: Job, job: Job, overrides: Mapping[str, Any], outcome: Outcome
    ) -> Line:
        """Returns the line of one run of a job that ended."""
        about, error = (self.device or "", commits.current()), outcome.error
        if outcome.status == 0:
            try:
                line = record.done(one, overrides, _folder(one, job, self.runs), *about)
            except (OSError, ValueError, KeyError) as reason:
                error = f"{type(reason).__name__}: {reason}"
            else:
                shared = {"num_seeds": job.num_seeds} if job.num_seeds > 1 else {}
                return {**line, **shared}
        return record.failed(one, overrides, error, *about)


def _folder(one: Job, job: Job, runs: Path) -> Path:
    """Returns the folder of one run of a job."""
    top = job.folder(runs)
    return Workdir(top).seed(one.seed).path if job.num_seeds > 1 else top


def _take_out(one: Job, joined: Job, runs: Path) -> None:
    """Moves a run that trained together with others to its own place.

    It stays where it is if its place has a run, or if a process works there.
    """
    source, target = _folder(one, joined, runs), one.folder(runs)
    with _locked(target) as is_ours:
        is_begun = Workdir(target).is_begun() or (target / "result.json").exists()
        if is_begun or not (is_ours and source.is_dir()):
            return
        # A run that was stopped before its first checkpoint left a log at most.
        shutil.rmtree(target)
        source.rename(target)


def what_lacks(config: Any) -> str:
    """Returns what this machine lacks for a run; empty if nothing.

    Args:
        config: Config of the run.

    Example:
        >>> from jaxner.reproduce import programs, published
        >>> cell = published.load().cell("grn/conll2003")
        >>> config = programs.config_of(cell)
        >>> config.data.vectors = "none.txt"
        >>> config.data.name = "sample"
        >>> what_lacks(config)
        'no vectors none.txt'
    """
    data = config.data
    for split in corpora.SPLITS:
        try:
            corpora.find(data.dir or data.name, split)
        except OSError:
            return f"no {split} split of {data.name}"
        try:
            inputs.find(data.to_dict(), split)
        except OSError:
            return f"no {data.contextual}"
    if data.vectors and not _has_vectors(data.vectors):
        return f"no vectors {data.vectors}"
    if config.model.representation.get("bert"):
        folder = data.pretrained
        if not folder or not Path(folder).is_dir():
            return f"no folder {folder} with a pretrained encoder"
    return ""


def _option(config: Any, name: str) -> Any:
    """Returns the value of an option such as `data.vectors`; None if it is missing."""
    for part in name.split("."):
        config = config.get(part) if hasattr(config, "get") else None
    return config


def _has_vectors(name: str) -> bool:
    try:
        corpora.find_vectors(name)
    except OSError:
        return False
    return True


def _listed(overrides: Mapping[str, Any]) -> str:
    return ", ".join(f"{name}={value}" for name, value in overrides.items()) or "no"


@contextlib.contextmanager
def _locked(folder: Path) -> Iterator[bool]:
    """Yields whether this queue holds the lock of a run.

    If a queue is killed, the run that it started continues and keeps the lock.
    """
    folder.mkdir(parents=True, exist_ok=True)
    lock = filelock.FileLock(folder / ".queue")
    try:
        lock.acquire(timeout=0)
    except filelock.Timeout:
        yield False
        return
    try:
        yield not Workdir(folder).is_locked()
    finally:
        lock.release()
