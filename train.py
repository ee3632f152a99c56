r"""Trains a tagger.

    python train.py --config configs/grn.py
    python train.py --config configs/grn.py:conll2003 --config.num_epochs=50

The text after the colon picks the data set and variant (each config's docstring lists
them); `--config.x=…` sets a value. The run folder (`--workdir`) holds everything that
the run made; running the same command again resumes it where it was stopped.
"""

from __future__ import annotations

import json
import resource
import sys
import time
from pathlib import Path
from typing import Any

import jax
from absl import app, flags, logging
from ml_collections import ConfigDict, config_flags
from rich.console import Console

from jaxner import models, tagging
from jaxner.data import batching, corpora, vectors, vocab
from jaxner.data.corpora import Split
from jaxner.evaluation import report, scoring
from jaxner.training import environment, monitor, optim, signals, step
from jaxner.workdir import Workdir

CONFIG = config_flags.DEFINE_config_file("config", None, "File of the run's config.")
WORKDIR = flags.DEFINE_string("workdir", None, "Run folder; default runs/<config>.")
flags.mark_flag_as_required("config")

console = Console()


def run(config: ConfigDict, workdir: str | Path) -> dict[str, Any]:
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
    environment.check_same_config(folder, config.to_dict())

    # --- Data ----------------------------------------------------------------
    splits = {name: load_split(config, name) for name in ("train", "dev")}
    lexicon, word_vectors = build_lexicon(config, splits["train"])
    environment.check_same_lexicon(folder, lexicon)
    batches = make_batches(config, lexicon, splits["train"])

    # --- Model, weights and optimizer ----------------------------------------
    model = tagging.build_model(lexicon, config.model.to_dict())
    weights = models.init(model, config.seed)
    if word_vectors is not None:
        weights = models.with_vectors(weights, word_vectors)
    size = sum(leaf.size for leaf in jax.tree.leaves(weights["params"]))
    console.print(f"{size:,} trained weights on {jax.devices()[0].device_kind}")
    tx = optim.build(config.optimizer.to_dict(), batches.num_batches)
    state = step.init(weights["params"], tx)

    # --- Run folder ----------------------------------------------------------
    folder.write_json("config.json", config.to_dict())
    folder.write_text("lexicon.json", lexicon.to_json())
    folder.write_json("environment.json", environment.describe(splits.values()))
    folder.save_frozen(weights["frozen"])

    # --- Training ------------------------------------------------------------
    start = time.perf_counter()
    train(config, folder, model, lexicon, tx, state, weights, batches, splits["dev"])
    seconds = time.perf_counter() - start

    # --- Final scores: the test split is opened here, and only here ----------
    result = final_scores(config, folder)
    result["seconds"] = round(seconds, 1)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    result["peak_memory_mb"] = round(peak / (2**20 if sys.platform == "darwin" else 1024))
    folder.write_json("result.json", result)
    console.print(f"Everything is in {folder.path}", highlight=False)
    return result


def load_split(config: ConfigDict, name: str) -> Split:
    """Loads one split of the configured corpus, and says what is unusual about it."""
    data = config.data
    split = corpora.load(
        None if data.dir else data.name,
        name,
        directory=data.dir,
        token_column=data.token_column,
        label_column=data.label_column,
    )
    console.print(split.summary(), highlight=False)
    return split


def build_lexicon(config: ConfigDict, split: Split):
    """Builds the lexicon from the training split and the vector file."""
    data, given = config.data, None
    if data.vectors:
        path = corpora.find_vectors(data.vectors)
        given = vectors.read(path)
        environment.check_dimensions(given, path, config.model.to_dict())
    lexicon, word_vectors = vocab.build(
        [example.tokens for example in split.examples],
        split.types(),
        scheme=data.scheme,
        vectors=given,
        lowercase=data.lowercase,
        min_count=data.min_count,
    )
    if word_vectors is not None:
        console.print(environment.check_match(word_vectors, data.min_vector_match))
    return lexicon, word_vectors


def make_batches(config: ConfigDict, lexicon, split: Split) -> batching.Batches:
    """Encodes the training split and pads it into batches."""
    examples = split.to_scheme(config.data.scheme)
    batches = batching.Batches.make(
        [lexicon.encode(example.tokens) for example in examples],
        [lexicon.label_ids(example.labels) for example in examples],
        batch_size=config.batch_size,
        num_shapes=config.data.num_shapes,
    )
    console.print(
        f"{batches.num_batches:,} batches an epoch of {config.batch_size} sentences, "
        f"{len(batches.shapes)} shapes, {batches.padding_share:.1%} padding"
    )
    return batches


def train(config, folder, model, lexicon, tx, state, weights, batches, dev) -> None:
    """Trains until the last epoch, or until dev F1 has stopped rising."""
    key = jax.random.fold_in(jax.random.key(config.seed), 1)
    steps = batches.num_batches
    progress = {"epoch": 0, "best_f1": -1.0, "best_epoch": 0}
    dev_examples = dev.to_scheme(config.data.scheme)
    dev_sentences = [lexicon.encode(example.tokens) for example in dev_examples]
    scalars = folder.path / "tensorboard" if config.tensorboard else None
    with (
        signals.stop_requests() as stop,
        folder.latest() as latest,
        folder.best() as best,
        monitor.Monitor(console, steps, scalars) as show,
    ):
        if latest.step is not None:
            state, progress = latest.restore(state)
            console.print(f"Resumed at step {int(state.step):,}")
        folder.forget_after(progress["epoch"])
        for epoch in range(progress["epoch"], config.num_epochs):
            if 0 < config.patience <= epoch - progress["best_epoch"]:
                console.print(f"No better dev F1 in {config.patience} epochs: stopping")
                break
            start, done = time.perf_counter(), int(state.step) % steps
            show.begin(f"epoch {epoch + 1}/{config.num_epochs}", done)
            for batch, labels in batches.epoch(config.seed, epoch, skip=done):
                state = step.train_step(
                    model,
                    tx,
                    state,
                    weights["frozen"],
                    batch,
                    labels,
                    key,
                    reduction=config.objective.reduction,
                )
                done += 1
                show.advance(int(batch.mask.sum()), state.loss, done)
                if stop and done < steps:
                    latest.save(int(state.step), state, progress)
                    stopped(stop, int(state.step))

            # --- End of an epoch: score dev, keep the best, save all ---------
            trained = time.perf_counter() - start
            params = tagging.Params({**weights, "params": state.params}, model, lexicon)
            ids = tagging.label_ids(
                params, dev_sentences, constrained=config.evaluation.constrained
            )
            scores = scoring.score(
                [example.labels for example in dev_examples],
                [lexicon.decode(row) for row in ids],
                scheme=config.data.scheme,
            )
            metrics = {
                "epoch": epoch + 1,
                "step": int(state.step),
                "loss": float(state.loss) / steps,
                "seconds": round(trained, 2),
                "dev_precision": 100 * scores.precision,
                "dev_recall": 100 * scores.recall,
                "dev_f1": 100 * scores.f1,
                "dev_ill_formed": scores.ill_formed,
            }
            progress = {**progress, "epoch": epoch + 1}
            better = metrics["dev_f1"] > progress["best_f1"]
            if better:
                progress.update(best_f1=metrics["dev_f1"], best_epoch=epoch + 1)
            line = f"epoch {epoch + 1:3}  loss {metrics['loss']:8.4f}  {trained:6.1f} s"
            mark = "  *" if better else ""
            show.report(f"{line}  dev {report.summary_line(scores)}{mark}", metrics)
            folder.log(metrics)
            if better:
                best.save(int(state.step), state.params, metrics)
            state = step.reset_loss(state)
            latest.save(int(state.step), state, progress)
            if stop and epoch + 1 < config.num_epochs:
                stopped(stop, int(state.step))


def stopped(stop: signals.StopRequest, at: int) -> None:
    """Ends the process after a polite stop; the exit status is the signal's."""
    console.print(f"Stopped at step {at:,}. The same command resumes there.")
    raise SystemExit(128 + (stop.signal or 0))


def final_scores(config: ConfigDict, folder: Workdir) -> dict[str, Any]:
    """Scores dev and test with the best checkpoint."""
    params = tagging.load(folder.path)
    with folder.best() as best:
        epoch = best.progress()["epoch"]
    result: dict[str, Any] = {"best_epoch": epoch, "config": config.data.name}
    for name in ("dev", "test"):
        split = load_split(config, name)
        examples = split.to_scheme(config.data.scheme)
        predicted = tagging.tag(
            params,
            [list(example.tokens) for example in examples],
            constrained=config.evaluation.constrained,
        )
        gold = [example.labels for example in examples]
        scores = scoring.score_with_seqeval(gold, predicted, scheme=config.data.scheme)
        console.print(report.per_type_table(scores, f"{split.name} {name}"))
        result[name] = {**scores.to_dict(), "sha256": split.sha256}
    return result


def main(argv: list[str]) -> None:
    """Runs what the command line says."""
    logging.set_verbosity(logging.WARNING)  # Orbax tells a lot
    if len(argv) > 1:
        raise app.UsageError(f"Unexpected arguments: {json.dumps(argv[1:])}")
    workdir = WORKDIR.value
    if workdir is None:
        name = config_flags.get_config_filename(flags.FLAGS["config"])
        file, _, variant = name.partition(":")
        parts = [Path(file).stem, *filter(None, variant.replace("=", "-").split(","))]
        workdir = Path("runs") / "-".join(parts)
    run(CONFIG.value, workdir)


if __name__ == "__main__":
    app.run(main)
