"""Progress of a run: a progress bar, a line for each epoch, and scalars."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from rich.console import Console, RenderableType
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    SpinnerColumn,
    Task,
    TextColumn,
    TimeRemainingColumn,
)
from rich.text import Text

from jaxner import errors
from jaxner.wording import counted

if TYPE_CHECKING:
    from jaxner.training.corpus import Corpus, Size


_DIVERGED, _SMALL = 1000.0, 1e-3  # times the first loss, or this in nats


@contextlib.contextmanager
def waiting(console: Console, what: str) -> Iterator[None]:
    """Shows that a task is running: by a spinner on a terminal, else by a line.

    Args:
        console: Console to print to.
        what: Name of the task, such as "Reading the corpus".
    """
    if not console.is_terminal:
        console.print(f"{what} …")
        yield
        return
    with console.status(f"{what} …"):
        yield


class _InSteps(ProgressColumn):
    """A column that is empty while the steps of training wait."""

    def __init__(self, inner: ProgressColumn):
        self._inner = inner
        super().__init__()

    def render(self, task: Task) -> RenderableType:
        return Text() if task.fields["waits"] else self._inner.render(task)


class Monitor:
    """A context that shows the progress of a run.

    Args:
        console: Console to print to.
        steps_per_epoch: Optimizer steps in an epoch.
        num_epochs: Epochs in the run, for the remaining time.
        tensorboard: Folder for TensorBoard's scalars, or None.

    Attributes:
        first_loss: Mean loss of the first epoch, or of the first step in this process.
        is_compiled: Whether all programs are compiled.

    Raises:
        ImportError: `tensorboard` is set, but tensorboardX is not installed.
    """

    def __init__(
        self,
        console: Console,
        steps_per_epoch: int,
        num_epochs: int,
        tensorboard: Path | None = None,
    ):
        self._console = console
        self._steps, self._total = steps_per_epoch, steps_per_epoch * num_epochs
        self._progress = Progress(
            SpinnerColumn(),  # moves even while a step compiles
            TextColumn("{task.description}"),
            _InSteps(BarColumn(bar_width=12)),  # all in 80 columns
            _InSteps(MofNCompleteColumn()),
            _InSteps(TextColumn("{task.fields[speed]}  loss {task.fields[loss]}")),
            _InSteps(TimeRemainingColumn()),
            console=console,
            transient=True,
            disable=not console.is_terminal,
        )
        self.first_loss: float | None = None
        self.is_compiled = False
        self._compiled: set[Any] = set()
        self._compiled_in = 0.0  # seconds
        self._has_scored = self._has_legend = False
        self._writer = None if tensorboard is None else _summary_writer(tensorboard)

    def __enter__(self) -> Monitor:
        self._progress.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._progress.stop()
        if self._writer is not None:
            self._writer.close()

    def begin(self, epoch: int, done: int) -> None:
        """Starts an epoch (from 0) of which `done` steps are already done."""
        self._before = epoch * self._steps
        if not self._progress.task_ids:
            self._progress.add_task(
                "",
                total=self._total,
                completed=self._before + done,
                speed="",
                loss="–",
                waits=False,
            )
        self._name = f"epoch {epoch + 1}/{self._total // self._steps}"
        self._describe(self._name)
        self._tokens, self._since, self._shown = 0, time.perf_counter(), 0.0

    def _describe(self, text: str, *, waits: bool = False) -> None:
        if self._progress.task_ids:
            number = self._progress.task_ids[0]
            self._progress.update(number, description=text, waits=waits)

    @contextlib.contextmanager
    def compiling(self, corpus: Corpus, size: Size | None = None) -> Iterator[None]:
        """Shows that a program compiles, when it is called for the first time.

        Args:
            corpus: The batches.
            size: Padded size of a block; None for the optimizer's step.
        """
        if size in self._compiled:
            yield
            return
        start = time.perf_counter()
        what = "the optimizer's step" if size is None else corpus.describe(size)
        self._describe(f"Compiling {what}", waits=True)
        yield
        self._compiled_in += time.perf_counter() - start
        self._describe(self._name)
        self._compiled.add(size)
        self.is_compiled = len(self._compiled) == len(corpus.sizes) + 1
        if self.is_compiled:
            count = counted(len(self._compiled), "program")
            self._console.print(f"Compiled {count} in {self._compiled_in:.1f} s")

    @contextlib.contextmanager
    def scoring(self) -> Iterator[None]:
        """Shows that dev is being scored; prints the time of the first scoring."""
        start = time.perf_counter()
        self._describe("Scoring dev", waits=True)
        yield
        if not self._has_scored:
            self._has_scored = True
            taken = time.perf_counter() - start
            self._console.print(f"Scored dev in {taken:.1f} s, compilation included")

    def advance(self, tokens: int, total_loss: Any, done: int) -> None:
        """Moves the bar by a step; reads the loss at most twice a second.

        Args:
            tokens: Tokens in the batch.
            total_loss: Sum of losses over the epoch so far, for each restart; may still
                be computing.
            done: Steps of the epoch so far.

        Raises:
            FloatingPointError: The loss is not finite, or a thousand times the first.
        """
        self._tokens += tokens
        now = time.perf_counter()
        if now - self._shown < 0.5 and done < self._steps:
            return
        self._shown = now
        losses = np.asarray(total_loss) / done
        if self.first_loss is None:
            self.first_loss = float(np.max(losses))
        # Not above it either if it is not a number.
        if not np.all(losses < _DIVERGED * max(self.first_loss, _SMALL)):
            raise FloatingPointError(
                f"The loss is {np.max(losses):.4g} at or shortly before step {done} of "
                f"the epoch, and was {self.first_loss:.4g} at first. Try a lower "
                "--config.optimizer.learning_rate or a lower "
                "--config.optimizer.clip_norm. The last checkpoint is unchanged."
            )
        speed = f"{self._tokens / (now - self._since):,.0f} tokens/s"
        self._progress.update(
            self._progress.task_ids[0],
            completed=self._before + done,
            speed=speed,
            loss=f"{np.mean(losses):.3f}",
        )

    def report(self, metrics: dict[str, Any], scores: str, is_best: bool) -> None:
        """Prints the line of an epoch and writes its scalars."""
        self._console.print(
            f"epoch {metrics['epoch']:3}  loss {metrics['loss']:6.4g}  "
            f"{metrics['seconds']:4.0f} s  dev {scores}{'  *' if is_best else ''}"
        )
        if is_best and not self._has_legend:
            self._has_legend = True
            self._console.print("* the best dev score so far")
        if self._writer is not None:
            for name, value in metrics.items():
                if value is not None:  # undefined: precision without predictions
                    self._writer.add_scalar(name, value, metrics["step"])


def _summary_writer(folder: Path):
    try:
        from tensorboardX import SummaryWriter
    except ImportError:
        raise errors.needs("--config.tensorboard", "tensorboardX") from None
    return SummaryWriter(str(folder))
