"""Resumes a run, and writes its records before the first step."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from jaxner import tagger
from jaxner.integrity import DamagedFileError
from jaxner.models import options
from jaxner.training import environment, step

if TYPE_CHECKING:
    from jaxner.checkpoints import Checkpoints
    from jaxner.training.run import Run


def resumed(
    run: Run,
    state: step.State,
    latest: Checkpoints,
    best: Checkpoints,
    log: Callable[[str], object],
) -> tuple[step.State, dict[str, Any]]:
    """Returns state and progress to continue from; initial ones without a checkpoint.

    Args:
        run: The run.
        state: State before the first step.
        latest: The checkpoint to resume from.
        best: Checkpoint with the best dev score; replaced by the latest if missing.
        log: Gets lines for the user.

    Raises:
        DamagedFileError: A checkpoint is damaged, or belongs to another run.
        ValueError: The run has more epochs already than are wanted.
    """
    progress: dict[str, Any] = {"epoch": 0, "best_score": -1.0, "best_epoch": 0}
    if latest.step is None:
        if best.step is not None and (epoch := best.progress()["epoch"]) > 1:
            raise DamagedFileError(
                run.folder.path / "checkpoints" / "latest",
                f"has no checkpoint, although the run had reached epoch {epoch}",
                run.folder.remedy("latest"),
            )
        return state, progress
    are_sealed = [_is_right(run, latest)]
    state, progress = latest.restore(state)
    check_epochs(run, progress["epoch"])
    latest.check_finite(state.params)
    log(f"Resumed at step {int(state.step):,}")
    if best.step is not None:
        are_sealed.append(_is_right(run, best))
        best.seal()
        complete(best, progress, state)
    elif progress["best_epoch"]:
        progress = _stand_in(run, state, progress, best, log)
    if not all(are_sealed):
        log(f"{run.folder.path}: {tagger.NO_CHECKSUMS}")
    return state, progress


def check_epochs(run: Run, epoch: int) -> None:
    """Checks that a run does not have more epochs already than are wanted.

    Raises:
        ValueError: It has, so that its tagger is not the one of fewer epochs.
    """
    if epoch > run.config.num_epochs:
        raise ValueError(
            f"{run.folder.path} has trained {epoch} epochs, more than --config."
            f"num_epochs={run.config.num_epochs}: choose another --workdir, or give "
            f"{epoch} or more"
        )


def complete(best: Checkpoints, progress: dict[str, Any], state: step.State) -> None:
    """Saves the best checkpoint again if a kill interrupted only that save.

    Each epoch saves both checkpoints, and finishes before the next saves begin. So the
    latest checkpoint has the weights of the missing best one.

    Args:
        best: Checkpoint with the best dev score.
        progress: Progress of the run.
        state: State of the latest checkpoint.
    """
    if best.progress()["epoch"] < progress["best_epoch"]:
        best.save(step.count(state), state.params, {"epoch": progress["best_epoch"]})


def _is_right(run: Run, checkpoints: Checkpoints) -> bool:
    """Checks a checkpoint; returns whether it has checksums."""
    about, model = tagger.whole(checkpoints.check()), run.config.model.to_dict()
    return run.folder.check_about(
        checkpoints.name, about, options.completed(model), run.start.vocabulary
    )


def _stand_in(
    run: Run, state: step.State, progress: dict[str, Any], best: Checkpoints, log
) -> dict[str, Any]:
    """Saves the latest checkpoint as the best, which is missing."""
    epoch, lost = progress["epoch"], progress["best_epoch"]
    figure = f"dev_{run.task.main_figure}"
    score = -1.0  # within an epoch: the next epoch is better
    if int(state.step) == epoch * run.corpus.batches.num_batches:
        scores = (m.get(figure) for m in run.folder.metrics() if m["epoch"] == epoch)
        score = next(scores, -1.0) or 0.0  # None: without any span
    log(
        f"The best checkpoint (epoch {lost}) is missing: the latest one (epoch "
        f"{epoch}) replaces it until a later epoch is better"
    )
    best.save(int(state.step), state.params, {"epoch": epoch})
    return {**progress, "best_score": score, "best_epoch": epoch}


def write_down(run: Run) -> None:
    """Writes the records of a run, after all checks.

    Raises:
        DamagedFileError: The frozen vectors are damaged.
    """
    folder = run.folder
    folder.write_json("config.json", run.config.to_dict())
    record = environment.continued(folder, run.record)
    folder.write_json("environment.json", record)
    folder.write_text("vocabulary.json", run.start.vocabulary.to_json())
    folder.save_frozen(run.start.weights["frozen"], run.about())
