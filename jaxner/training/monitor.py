"""Progress of a run: a progress bar, a line for each epoch, and scalars."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Array
from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    SpinnerColumn,
    TextColumn,
    TimeRemainingColumn,
)

from jaxner import devices, errors
from jaxner.data.batching import Shape

Metrics = dict[str, int | float | None]
"""What `metrics.jsonl` has of an epoch; None is undefined."""

_LIMIT, _SMALL = 1000.0, 1e-3  # times the first loss, or this in nats
_SECONDS, _STEPS = 0.5, 128  # between two looks at a run: about so many, at most


@contextlib.contextmanager
def waiting(console: Console, task: str) -> Iterator[None]:
    """Shows that a task is running: by a spinner on a terminal, else by a line."""
    if console.is_terminal:
        with console.status(f"{task} …"):
            yield
    else:
        console.print(f"{task} …")
        yield


class Monitor:
    """A context that shows the progress of a run; `num_programs` are those to compile.

    Attributes:
        first_loss: Mean loss of the first epoch, or of the first step in this process.
    """

    def __init__(
        self,
        console: Console,
        steps_per_epoch: int,
        num_epochs: int,
        num_programs: int = 1,
        tensorboard: Path | None = None,
    ):
        self._console, self._steps = console, steps_per_epoch
        self._num_epochs, self._num_programs = num_epochs, num_programs
        self._bar = Progress(
            SpinnerColumn(),  # moves even while a step compiles
            TextColumn("{task.description}"),
            BarColumn(bar_width=12),  # all in 80 columns
            MofNCompleteColumn(),
            TextColumn("{task.fields[speed]}"),
            TimeRemainingColumn(),
            console=console,
            transient=True,
            disable=not console.is_terminal,
        )
        total = steps_per_epoch * num_epochs
        self._task = self._bar.add_task("", total=total, speed="")
        self.first_loss: float | None = None
        self._num_compiled, self._compile_time = 0, 0.0  # seconds
        self._has_legend = False
        self._last_look, self._num_unseen, self._pace = time.perf_counter(), 0, 1
        self._writer: Any = None
        if tensorboard is not None:
            library = errors.optional("tensorboardX", "--config.tensorboard")
            self._writer = library.SummaryWriter(str(tensorboard))

    def __enter__(self) -> Monitor:
        self._bar.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._bar.stop()
        if self._writer is not None:
            self._writer.close()

    def begin(self, epoch: int, step: int) -> None:
        """Starts an epoch (from 0) of which `step` steps are done."""
        self._first_step = epoch * self._steps
        self._name = f"epoch {epoch + 1}/{self._num_epochs}"
        self._bar.update(
            self._task, description=self._name, completed=self._first_step + step
        )
        self._tokens, self._start = 0, time.perf_counter()

    @contextlib.contextmanager
    def doing(self, task: str) -> Iterator[None]:
        """Shows something else than steps."""
        self._bar.update(self._task, description=task)
        yield
        self._bar.update(self._task, description=self._name)

    @contextlib.contextmanager
    def compiling(self, program: Shape | None) -> Iterator[None]:
        """Shows the wait for a program that is about to be called the first time.

        It is named by the shape of its block, None for an update of the weights.
        """
        start = time.perf_counter()
        self._num_compiled += 1
        number, count = self._num_compiled, self._num_programs
        name = f"{program.rows} × {program.tokens} tokens" if program else "update"
        task = f"Compiling {number} of {count}: {name}"
        if not self._console.is_terminal:
            self._console.print(f"{task} …")
        with self.doing(task):
            yield
        self._compile_time += time.perf_counter() - start
        if number == count:
            self._console.print(
                f"Compiled {count} programs in {self._compile_time:.1f} s"
            )

    def advance(
        self, tokens: int, total_loss: Sequence[float] | Array, step: int
    ) -> bool:
        """Moves the bar by a step with some tokens; `step` counts those of the epoch.

        Returns whether it was time to look at the run: to read a loss, or to ask the
        others whether to stop, waits for the device, so it happens about twice a
        second, by the slowest process's clock, and at the end of an epoch. All
        processes look after the same steps, and so find the same error; the others
        would wait for one alone.

        The sum of losses over the epoch so far, for each restart, may still be
        computing.

        Raises:
            FloatingPointError: The loss is not finite, or a thousand times the first.
        """
        self._tokens, self._num_unseen = self._tokens + tokens, self._num_unseen + 1
        is_due = self._num_unseen >= self._pace
        if is_due:
            clock = time.perf_counter()
            (seconds,) = devices.largest([(clock - self._last_look) / self._num_unseen])
            self._pace = int(np.clip(_SECONDS / max(seconds, 1e-6), 1, _STEPS))
            self._last_look, self._num_unseen = clock, 0
        elif step < self._steps:
            return False
        losses = np.asarray(total_loss) / step
        if self.first_loss is None:
            self.first_loss = float(np.max(losses))
        # NaN is not below it either.
        if not np.all(losses < _LIMIT * max(self.first_loss, _SMALL)):
            raise FloatingPointError(
                f"The loss is {np.max(losses):.4g} at or shortly before step {step} of "
                f"the epoch, and was {self.first_loss:.4g} at first. Try a lower "
                "--config.optimizer.learning_rate or --config.optimizer.clip_norm, in "
                "another folder: this one keeps its config and any checkpoint."
            )
        seconds = time.perf_counter() - self._start
        speed = f"{self._tokens / seconds:,.0f} tokens/s"
        self._bar.update(
            self._task,
            completed=self._first_step + step,
            speed=f"{speed}  loss {np.mean(losses):.3f}",
        )
        return is_due

    def report(self, rows: Sequence[Metrics], scores: str, is_best: bool) -> None:
        """Prints the line of an epoch, and writes its scalars.

        `rows` are the metrics of each run; there are scalars only of a run alone.
        """
        metrics, loss = rows[0], np.mean(np.array([row["loss"] for row in rows], float))
        self._console.print(
            f"epoch {metrics['epoch']:3}  loss {loss:6.4g}  "
            f"{metrics['seconds']:4.0f} s  dev {scores}{'  *' if is_best else ''}"
        )
        if is_best and not self._has_legend:
            self._has_legend = True
            self._console.print("* the best dev score so far")
        for name, value in metrics.items():
            if self._writer is not None and value is not None:  # None: undefined
                self._writer.add_scalar(name, value, metrics["step"])
