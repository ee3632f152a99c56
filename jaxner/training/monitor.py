"""Progress of a run: a progress bar, a line for each epoch, and scalars."""

from __future__ import annotations

import math
import time
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeRemainingColumn,
)


class Monitor:
    """A context that shows the progress of a run.

    Args:
        console: Console to print to.
        steps_per_epoch: Optimizer steps in an epoch.
        num_epochs: Epochs in the run, for the remaining time.
        tensorboard: Folder for TensorBoard's scalars, or None.

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
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[speed]}  loss {task.fields[loss]}"),
            TimeRemainingColumn(),
            console=console,
            transient=True,
            disable=not console.is_terminal,
        )
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
                "", total=self._total, completed=self._before + done, speed="", loss="–"
            )
        name = f"epoch {epoch + 1}/{self._total // self._steps}"
        self._progress.update(self._progress.task_ids[0], description=name)
        self._tokens, self._since, self._shown = 0, time.perf_counter(), 0.0

    def advance(self, tokens: int, total_loss: Any, done: int) -> None:
        """Moves the bar by a step; reads the loss at most twice a second.

        Args:
            tokens: Tokens in the batch.
            total_loss: Sum of losses over the epoch so far, for each restart; may still
                be computing.
            done: Steps of the epoch so far.

        Raises:
            FloatingPointError: The loss is not finite.
        """
        self._tokens += tokens
        now = time.perf_counter()
        if now - self._shown < 0.5 and done < self._steps:
            return
        self._shown = now
        loss = float(np.mean(total_loss)) / done
        if not math.isfinite(loss):
            raise FloatingPointError(
                f"The loss is {loss} at or shortly before step {done} of the epoch. "
                "Try a lower --config.optimizer.learning_rate or a lower "
                "--config.optimizer.clip_norm. The last checkpoint is unchanged."
            )
        speed = f"{self._tokens / (now - self._since):,.0f} tokens/s"
        self._progress.update(
            self._progress.task_ids[0],
            completed=self._before + done,
            speed=speed,
            loss=f"{loss:.3f}",
        )

    def report(self, metrics: dict[str, Any], scores: str, is_best: bool) -> None:
        """Prints the line of an epoch and writes its scalars."""
        self._console.print(
            f"epoch {metrics['epoch']:3}  loss {metrics['loss']:8.4f}  "
            f"{metrics['seconds']:6.1f} s  dev {scores}{'  *' if is_best else ''}"
        )
        if self._writer is not None:
            for name, value in metrics.items():
                if (
                    value is None
                ):  # undefined, for example precision without predictions
                    continue
                self._writer.add_scalar(name, value, metrics["step"])


def _summary_writer(folder: Path):
    try:
        from tensorboardX import SummaryWriter
    except ImportError:
        raise ImportError(
            "--config.tensorboard needs tensorboardX: pip install 'jaxner[tensorboard]'"
        ) from None
    return SummaryWriter(str(folder))
