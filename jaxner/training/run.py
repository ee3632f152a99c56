"""The run of a config: data, model, epochs, and scores of the best epoch."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jax
import optax

from jaxner import models, pretrained, tagger, tagging
from jaxner.data.batching import Batches
from jaxner.data.splits import Split
from jaxner.evaluation import report
from jaxner.evaluation.tasks import Task
from jaxner.terminal import LineConsole
from jaxner.training import (
    checks,
    clipping,
    cluster,
    environment,
    monitor,
    objectives,
    optim,
    prepare,
    resident,
    resume,
    signals,
    step,
)
from jaxner.training.corpus import Corpus
from jaxner.training.results import final_scores
from jaxner.wording import counted
from jaxner.workdir import Workdir

console = LineConsole()


@dataclasses.dataclass(frozen=True)
class Run:
    """The constants of a run."""

    config: Any  # a ConfigDict; type checkers do not know its attributes
    folder: Workdir
    corpus: Corpus
    dev: Split
    task: Task
    tx: optax.GradientTransformation
    start: tagging.Tagger  # before the first step
    record: dict[str, Any]  # the content of environment.json

    def about(self) -> dict[str, Any]:
        """Returns the identity stored with each checkpoint."""
        options = self.config.model.to_dict()
        return tagger.belongs_to(self.start.vocabulary, options)

    def scalars(self) -> Path | None:
        """Returns the folder of TensorBoard's scalars, if there are to be any."""
        is_wanted = self.config.tensorboard and self.folder.writes
        return self.folder.path / "tensorboard" if is_wanted else None

    def params(self, state: step.State) -> tagging.Tagger:
        """Returns the current tagger."""
        weights = {**self.start.weights, "params": state.params}
        return dataclasses.replace(self.start, weights=weights)


def main_run(config: Any, workdir: str | Path) -> dict[str, Any]:
    """Trains or resumes the run of a config, and scores its best checkpoint.

    For a config with several seeds, use `seeds.main_run`.

    Args:
        config: What a config file returned.
        workdir: The run folder.

    Returns:
        The content of `result.json`.

    Raises:
        SystemExit: A signal (Ctrl-C, SIGTERM) stopped the run, which can be resumed.
        ValueError: The folder has a run with another config or other data.
    """
    console.quiet = not cluster.is_writer()
    folder = Workdir(workdir, writes=cluster.is_writer())
    # Before any comparison or write, since two runs may start at the same moment.
    with folder.locked():
        result = locked_run(config, folder)
    console.print(f"Everything is in {folder.path}")
    return result


def locked_run(config: Any, folder: Workdir) -> dict[str, Any]:
    """Returns what `main_run` returns, for a locked folder."""
    data, task, to_score = load(config, folder)
    with monitor.waiting(console, "Building the model"):
        start = untrained(config, data, is_begun=folder.is_begun())
        print_size(start)
        place = cluster.placement(config.num_devices)
        corpus, tx = batches_and_optimizer(config, data, start, place, config.seed)
        start = corpus.placed(start)
    train(Run(config, folder, corpus, data.dev, task, tx, start, data.record))
    # The only place that opens the test split.
    return final_scores(config, folder, to_score, task, place, console)


def load(config: Any, folder: Workdir) -> tuple[prepare.Data, Task, tuple[str, ...]]:
    """Returns the data of a config, after checking it; writes nothing.

    Returns:
        The data, the scoring task, and the splits to score at the end.

    Raises:
        ValueError: As `main_run`.
    """
    checks.check(config.to_dict())
    if not folder.is_begun():
        checks.check_there("--config.init_from", config.init_from)
    task = Task(config.data.scheme, rule=config.evaluation.rule)
    environment.check_same_config(folder, config.to_dict())
    words = config.model.representation.words
    with monitor.waiting(console, "Reading the data"):
        data = prepare.load_data(
            config.data.to_dict(),
            word_dim=words and words.dim,
            log=console.print,
        )
    environment.check_same_data(folder, data.record, data.vocabulary)
    to_score = prepare.splits_to_score(config.data.to_dict(), console.print)
    return data, dataclasses.replace(task, known_words=data.words), to_score


def untrained(config: Any, data: Any, *, is_begun: bool) -> tagging.Tagger:
    """Returns the tagger of a config before its first step.

    Args:
        config: Config of the run.
        data: What `prepare.load_data` returned.
        is_begun: Whether there is a checkpoint, so that the weights of another run
            (`init_from`) are no longer needed.
    """
    model = tagging.build_model(data.vocabulary, config.model.to_dict())
    key = jax.random.key(config.seed)
    checks.check_memory(jax.eval_shape(functools.partial(models.init, model), key))
    weights = models.init(model, key)
    if data.vectors is not None:
        weights = models.with_vectors(weights, data.vectors)
        if config.data.standardise_vectors:
            weights = models.standardise_words(weights)
    if config.data.pretrained:
        weights = pretrained.fill(weights, config.data.pretrained)
    if config.init_from and not is_begun:
        trained = tagging.load(config.init_from)
        source = trained.weights, trained.vocabulary
        weights = prepare.start_from(source, weights, data.vocabulary, console.print)
    return tagging.Tagger(weights, model, data.vocabulary)


def print_size(start: tagging.Tagger) -> None:
    """Prints the number of trained weights, and the device."""
    size = sum(leaf.size for leaf in jax.tree.leaves(start.weights["params"]))
    console.print(f"{size:,} trained weights on {jax.devices()[0].device_kind}")


def batches_and_optimizer(
    config: Any,
    data: prepare.Data,
    start: tagging.Tagger,
    place: cluster.Placement,
    seed: int | Sequence[int],
) -> tuple[Corpus, optax.GradientTransformation]:
    """Returns the training corpus, and the optimizer.

    Args:
        config: Config of the run.
        data: What `prepare.load_data` returned.
        start: The tagger before the first step; for restarts, with the frozen weights
            of all seeds.
        place: Placement of arrays.
        seed: Seed of the run, or of each restart.
    """
    sentences, table = data.sentences, None
    if not place.own_frozen:
        choice = config.data.vectors_on_device
        sentences, table = resident.split_off(sentences, choice)
    batches = Batches.make(
        sentences,
        data.labels,
        batch_size=config.batch_size,
        num_blocks=cluster.blocks_of(config),
        num_shapes=config.data.num_shapes,
        chars=step.character_rows(start.model),
        unit=config.data.unit,
        parts=place.num_parts,
        own_parts=place.own_parts,
    )
    console.print(batches.summary())
    recipe = step.Recipe(
        start.model,
        optim.build(config.optimizer.to_dict(), batches.num_batches, config.num_epochs),
        objectives.Objective.of(config.objective.to_dict()),
        objectives.Sizes(config.batch_size, batches.mean_tokens),
    )
    corpus = Corpus(
        batches,
        recipe,
        start.weights["frozen"],
        seed=seed,
        table=table,
        place=place,
    )
    return corpus, recipe.tx


def train(run: Run) -> None:
    """Trains until the last epoch, or until the dev score stops rising.

    Raises:
        SystemExit: The run was asked to stop.
    """
    config, folder, steps = run.config, run.folder, run.corpus.batches.num_batches
    state = step.init(run.start.weights["params"], run.tx)
    about = run.about()
    with (
        signals.stop_requests() as stop,
        folder.latest(about) as latest,
        folder.best(about) as best,
        monitor.Monitor(console, steps, config.num_epochs, run.scalars()) as show,
    ):
        state, progress = resume.resumed(run, state, latest, best, console.print)
        resume.write_down(run)
        state = run.corpus.place.state(state)
        folder.forget_after(progress["epoch"])
        for epoch in range(progress["epoch"], config.num_epochs):
            if is_patient_no_more(run, progress):
                break
            state, seconds = train_epoch(run, state, epoch, show, stop)
            for series in (best, latest):  # one epoch's saves at a time; see `resume`
                series.finish()
            scored = None
            if int(state.step) == (epoch + 1) * steps:
                waited = best.waited() + latest.waited()
                with stop.interrupting(), show.scoring():  # resumed, it is done again
                    scored = end_of_epoch(run, state, epoch + 1, seconds, waited)
            if scored is not None:
                metrics, scores = scored
                progress, is_better = compared(run, progress, metrics)
                show.report(metrics, report.short_line(scores), is_better)
                folder.log(metrics)
                if is_better:
                    best.save(int(state.step), state.params, metrics)
                state = step.reset_loss(state)
            if int(state.step) != latest.step:
                latest.save(int(state.step), state, progress)
            if stop:
                break
    if stop:
        console.print("Stopped; the same command resumes from here.")
        raise SystemExit(stop.exit_status)


def is_patient_no_more(run: Run, progress: dict[str, Any]) -> bool:
    """Returns whether to stop, after too many epochs without a better dev score."""
    best = progress["best_epoch"]
    epochs = progress["epoch"] - best
    if not 0 < run.config.patience <= epochs:
        return False
    name = "accuracy" if run.task.has_tags else "F1"
    console.print(
        f"Stopped: dev {name} has not improved for {counted(epochs, 'epoch')} "
        f"(best: {progress['best_score']:.2f}, epoch {best})"
    )
    return True


def compared(
    run: Run, progress: dict[str, Any], metrics: dict[str, Any]
) -> tuple[dict[str, Any], bool]:
    """Returns the progress after an epoch, and whether it is the best one so far."""
    score = metrics[f"dev_{run.task.main_figure}"] or 0.0  # None: no spans
    progress = {**progress, "epoch": metrics["epoch"]}
    is_better = score > progress["best_score"]
    if is_better:
        progress |= {"best_score": score, "best_epoch": metrics["epoch"]}
    return progress, is_better


def train_epoch(run: Run, state: step.State, epoch: int, show, stop):
    """Takes the remaining steps of an epoch; fewer after a request to stop."""
    before = epoch * run.corpus.batches.num_batches
    done = step.count(state) - before
    show.begin(epoch, done)
    start = time.perf_counter()

    @contextlib.contextmanager
    def compiling(what: str):
        with show.compiling(what), stop.interrupting():
            yield

    for new, tokens in run.corpus.epoch(state, epoch, done, compiling):
        state = new
        done += 1
        show.advance(tokens, state.loss, done)
        show.compiled(*run.corpus.num_compiled())
        if stop.reached(before + done):
            break
    return state, time.perf_counter() - start


def end_of_epoch(
    run: Run, state: step.State, epoch: int, seconds: float, saving: float = 0.0
):
    """Scores the dev split, and returns the record of an epoch.

    Args:
        run: The run.
        state: State after the epoch.
        epoch: Number of the epoch, from 1.
        seconds: Seconds that its steps took.
        saving: Seconds that the run waited for checkpoints since the previous epoch.
    """
    gold, predicted = tagging.label_split(
        run.params(state), run.dev, constrained=run.config.evaluation.constrained
    )
    tokens = [example.tokens for example in run.dev.examples]
    scores = run.task.score(tokens, gold, predicted)
    metrics = {
        "epoch": epoch,
        "step": int(state.step),
        "loss": float(state.loss) / run.corpus.batches.num_batches,
        "seconds": round(seconds, 2),
        "saving_seconds": round(saving, 3),
        **{f"dev_{name}": figure for name, figure in scores.figures().items()},
    }
    norms = clipping.gradient_norms(state.opt_state)  # for the optimizer's parts
    metrics |= {f"gradient_norm_{name}": norm for name, norm in norms.items()}
    return metrics, scores
