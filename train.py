r"""Trains a tagger.

    python train.py --config configs/grn.py
    python train.py --config configs/grn.py:conll2003 --config.num_epochs=50

The text after the colon picks the data set and variant (each config's docstring lists
them); `--config.x=…` sets a value. The run folder (`--workdir`) holds everything that
the run made; running the same command again resumes it where it was stopped.
"""

from __future__ import annotations

import contextlib
import dataclasses
import time
from pathlib import Path
from typing import Any

import jax
import optax
from absl import app, flags, logging
from ml_collections import config_flags
from rich.console import Console

from jaxner import models, pretrained, tagging
from jaxner.data.batching import Batches
from jaxner.data.splits import Split
from jaxner.evaluation import predictions, report
from jaxner.evaluation.tasks import Task
from jaxner.training import (
    clipping,
    environment,
    monitor,
    objectives,
    optim,
    prepare,
    signals,
    step,
)
from jaxner.training.corpus import Corpus
from jaxner.workdir import Workdir

FLAGS = flags.FLAGS
console = Console(highlight=False, soft_wrap=True)


@dataclasses.dataclass(frozen=True)
class Run:
    """What stays the same while a run trains."""

    config: Any  # a ConfigDict, whose attributes no type checker knows
    folder: Workdir
    corpus: Corpus
    dev: Split
    task: Task
    tx: optax.GradientTransformation
    start: tagging.Tagger  # before the first step

    def params(self, state: step.State) -> tagging.Tagger:
        """Returns the tagger as it is now."""
        weights = {**self.start.weights, "params": state.params}
        return dataclasses.replace(self.start, weights=weights)


def main_run(config: Any, workdir: str | Path) -> dict[str, Any]:
    """Trains, or resumes, the run of a config, and scores its best checkpoint.

    Args:
        config: What a config file returned.
        workdir: The run folder.

    Returns:
        The content of `result.json`.

    Raises:
        SystemExit: The run was asked to stop (Ctrl-C, SIGTERM); it can be resumed.
        ValueError: The folder holds a run of another config or of other data.
    """
    folder = Workdir(workdir)
    environment.check_values(config.to_dict())
    task = Task(config.data.scheme, rule=config.evaluation.rule)
    environment.check_same_config(folder, config.to_dict())

    # --- Data ----------------------------------------------------------------
    words = config.model.representation.words
    data = prepare.load_data(
        config.data.to_dict(),
        word_dim=words and words.dim,
        log=console.print,
    )
    environment.check_same_data(folder, data.record, data.vocabulary)
    to_score = prepare.splits_to_score(config.data.to_dict(), console.print)

    # --- Model, weights and optimizer ----------------------------------------
    model = tagging.build_model(data.vocabulary, config.model.to_dict())
    weights = models.init(model, config.seed)
    if data.vectors is not None:
        weights = models.with_vectors(weights, data.vectors)
        if config.data.standardise_vectors:
            weights = models.standardise_words(weights)
    if config.data.pretrained:
        weights = pretrained.fill(weights, config.data.pretrained)
    if config.init_from and not folder.is_begun():
        trained = tagging.load(config.init_from)
        source = trained.weights, trained.vocabulary
        weights = prepare.start_from(source, weights, data.vocabulary, console.print)
    size = sum(leaf.size for leaf in jax.tree.leaves(weights["params"]))
    console.print(f"{size:,} trained weights on {jax.devices()[0].device_kind}")
    batches = Batches.make(
        data.sentences,
        data.labels,
        batch_size=config.batch_size,
        num_blocks=config.num_blocks,
        num_shapes=config.data.num_shapes,
        chars=step.character_rows(model),
        unit=config.data.unit,
    )
    console.print(batches.summary())
    recipe = step.Recipe(
        model,
        optim.build(config.optimizer.to_dict(), batches.num_batches, config.num_epochs),
        objectives.Objective.of(config.objective.to_dict()),
        objectives.Sizes(config.batch_size, batches.mean_tokens),
    )
    corpus = Corpus(
        batches,
        recipe,
        weights["frozen"],
        seed=config.seed,
        steps_per_call=config.steps_per_call,
    )

    # --- Run folder ----------------------------------------------------------
    folder.write_json("config.json", config.to_dict())
    folder.write_json("environment.json", data.record)
    folder.write_text("vocabulary.json", data.vocabulary.to_json())
    folder.save_frozen(weights["frozen"])

    # --- Training ------------------------------------------------------------
    params = tagging.Tagger(weights, model, data.vocabulary)
    task = dataclasses.replace(task, known_words=data.words)
    train(Run(config, folder, corpus, data.dev, task, recipe.tx, params))

    # --- Final scores: the test split is opened here, and only here ----------
    result = final_scores(config, folder, to_score, task)
    console.print(f"Everything is in {folder.path}")
    return result


def train(run: Run) -> None:
    """Trains until the last epoch, or until the dev score has stopped rising."""
    config, folder, steps = run.config, run.folder, run.corpus.batches.num_batches
    state = step.init(run.start.weights["params"], run.tx)
    figure = f"dev_{run.task.main_figure}"  # of the metrics; it picks the best epoch
    progress: dict[str, Any] = {"epoch": 0, "best_score": -1.0, "best_epoch": 0}
    scalars = folder.path / "tensorboard" if config.tensorboard else None
    with (
        contextlib.closing(run.corpus),
        signals.stop_requests() as stop,
        folder.locked(),
        folder.latest() as latest,
        folder.best() as best,
        monitor.Monitor(console, steps, config.num_epochs, scalars) as show,
    ):
        if latest.step is not None:
            state, progress = latest.restore(state)
            console.print(f"Resumed at step {int(state.step):,}")
        folder.forget_after(progress["epoch"])
        first = progress["epoch"]
        for epoch in range(first, config.num_epochs):
            if 0 < config.patience <= epoch - progress["best_epoch"]:
                name = "accuracy" if run.task.has_tags else "F1"
                console.print(f"No better dev {name} in {config.patience} epochs")
                break
            state, seconds = train_epoch(run, state, epoch, show, stop)
            if int(state.step) == (epoch + 1) * steps:
                start = time.perf_counter()
                metrics, scores = end_of_epoch(run, state, epoch + 1, seconds)
                if epoch == first:
                    taken = time.perf_counter() - start
                    console.print(f"Scored dev in {taken:.1f} s, compilation included")
                is_better = metrics[figure] > progress["best_score"]
                show.report(metrics, report.summary_line(scores), is_better)
                folder.log(metrics)
                progress = {**progress, "epoch": epoch + 1}
                if is_better:
                    progress |= {"best_score": metrics[figure], "best_epoch": epoch + 1}
                    best.save(int(state.step), state.params, metrics)
                state = step.reset_loss(state)
            if int(state.step) != latest.step:
                latest.save(int(state.step), state, progress)
            if stop and int(state.step) < config.num_epochs * steps:
                console.print("Stopped; the same command resumes from here.")
                raise SystemExit(stop.exit_status)


def train_epoch(run: Run, state: step.State, epoch: int, show, stop):
    """Takes the steps that are left of an epoch; fewer if the run is asked to stop."""
    done = int(state.step) - epoch * run.corpus.batches.num_batches
    show.begin(epoch, done)
    start = time.perf_counter()
    for new, steps, tokens in run.corpus.epoch(state, epoch, skip=done):
        state = new
        done += steps
        show.advance(tokens, state.loss, done)
        if stop:
            break
    return state, time.perf_counter() - start


def end_of_epoch(run: Run, state: step.State, epoch: int, seconds: float):
    """Scores the dev split, and gathers what is written down of an epoch."""
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
        **{f"dev_{name}": figure for name, figure in scores.figures().items()},
    }
    norms = clipping.gradient_norms(state.opt_state)  # of the optimizer's parts
    metrics |= {f"gradient_norm_{name}": norm for name, norm in norms.items()}
    return metrics, scores


def final_scores(config: Any, folder: Workdir, names, task: Task) -> dict[str, Any]:
    """Scores dev and test with the best checkpoint.

    Writes `result.json`, and the labels as `predictions-dev.conll` and `-test.conll`.
    The figures are those of the run's rule; if that is the strict one, `by_conlleval`
    is F1 by conlleval's.
    """
    params = tagging.load(folder.path)
    with folder.best(read_only=True) as best:
        result: dict[str, Any] = {"best_epoch": best.progress()["epoch"]}
    result["seconds"] = round(sum(m["seconds"] for m in folder.metrics()), 1)
    for name in names:
        split = prepare.load_split(config.data.to_dict(), name)
        console.print(split.summary())
        prepare.log_unknown_tags(split, params.vocabulary, console.print)
        labels = tagging.label_split(
            params, split, constrained=config.evaluation.constrained
        )
        tokens = [example.tokens for example in split.examples]
        scores = task.score(tokens, *labels, rule="seqeval")
        about: dict[str, Any] = {"sha256": split.sha256, "notes": split.notes}
        if task.rule == "strict" and not task.has_tags:
            # Figures of systems with different rules can be compared.
            about["by_conlleval"] = scores.to_dict()["f1"]
            scores = task.score(tokens, *labels)
        console.print(report.per_type_table(scores, f"{split.name} {name}"))
        result[name] = {**scores.to_dict(), **about}
        result["peak_memory_mb"] = environment.peak_memory_mb()
        folder.write_json("result.json", result)
        # As the tagger gave them, so that other rules can be applied without a rerun.
        predictions.write(folder.predictions(name), split, *labels)
    return result


def main(argv: list[str]) -> None:
    """Runs what the command line says."""
    wants_traceback = FLAGS.verbosity > 0
    logging.set_verbosity(logging.ERROR)  # Orbax tells a lot
    if len(argv) > 1:
        raise app.UsageError(f"Expected flags only, got {' '.join(argv[1:])!r}")
    workdir = FLAGS.workdir
    if workdir is None:
        name = config_flags.get_config_filename(FLAGS["config"])
        file, _, variant = name.partition(":")
        parts = [Path(file).stem, *filter(None, variant.replace("=", "-").split(","))]
        workdir = Path("runs") / "-".join(parts)
    try:
        main_run(FLAGS.config, workdir)
    except (ValueError, OSError, ImportError, FloatingPointError) as error:
        if wants_traceback:
            raise
        console.print(f"train.py: {error}", style="red", markup=False)
        raise SystemExit(1) from None


def define_flags() -> None:
    """Declares the command line."""
    config_flags.DEFINE_config_file("config", None, "File of the run's config.")
    flags.DEFINE_string("workdir", None, "Run folder; default runs/<config>.")
    flags.mark_flag_as_required("config")


def parse_flags(argv: list[str]) -> list[str]:
    """Parses the command line; what is wrong with it is told in a line."""
    try:
        return FLAGS(argv)
    except (flags.Error, AttributeError, KeyError, TypeError, ValueError) as error:
        if "--verbosity=1" in argv:
            raise
        reason = (
            str(error.args[0]).strip("'\"").replace("\\n", "\n").replace("\\'", "'")
        )
        lines = [line for line in reason.splitlines() if line.strip()]
        if any(line.startswith("Traceback") for line in lines):
            lines = lines[-1:]  # of the config file: its own error is the last line
        text = f"train.py: wrong option: {' '.join(lines)}"
        console.print(text, style="red", markup=False)
        raise SystemExit(1) from None


if __name__ == "__main__":
    define_flags()
    app.run(main, flags_parser=parse_flags)
