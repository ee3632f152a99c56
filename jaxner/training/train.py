"""A run from top to bottom: data, model, state, restarts, steps, scores."""

from __future__ import annotations

import contextlib
import functools
import shlex
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxner import models, tagger, tagging
from jaxner.checkpoints import Checkpoints, save_frozen
from jaxner.errors import DamagedFileError, InputError
from jaxner.evaluation import card, predictions, report
from jaxner.evaluation.scoring import Task
from jaxner.models import pretrained
from jaxner.runs import Workdir
from jaxner.tagger import Tagger
from jaxner.terminal import LineConsole
from jaxner.training import (
    cluster,
    environment,
    monitor,
    objectives,
    optimizers,
    schema,
    seeds,
    signals,
    step,
    transfer,
)
from jaxner.training import corpus as corpora
from jaxner.wording import counted

console = LineConsole()


def main_run(
    config: Any, workdir: str | Path, name: str | None = None, quiet: bool = False
) -> dict[str, Any]:
    """Trains or resumes the run of a config, and scores its best checkpoint.

    With `num_seeds` above 1, all restarts from `seed` on are trained, in folders below
    `workdir`. `name` is the config's, for the screen, which shows nothing if `quiet`.

    Returns:
        The content of `result.json`; for restarts, what `seeds.summarise` returned.

    Raises:
        FloatingPointError: The loss is not finite, or a thousand times its first.
        SystemExit: A signal (Ctrl-C, SIGTERM) stopped the run, which can be resumed.
        ValueError: An option is wrong, or the folder has a run of another config or
            with other data.
    """
    corpora.fit_width(config)
    schema.check(config.to_dict())
    console.quiet = quiet or not cluster.is_writer()
    folder = Workdir(workdir, writes=cluster.is_writer())
    # Before any comparison or write, since two runs may start at the same moment.
    with folder.locked():
        if config.num_seeds == 1:
            (result,) = train([config], [folder], folder, name)
        else:
            result = _restarts(config, folder, name)
    console.print(f"Everything is in {folder.path}")
    return result


def _restarts(config: Any, top: Workdir, name: str | None) -> dict[str, Any]:
    """Trains all restarts of a config, together in one program or one after another."""
    environment.check_same_config(top, config.to_dict())
    configs = seeds.configs_of(config)
    folders = [top.seed(member.seed) for member in configs]
    if seeds.is_together(config):
        if config.tensorboard:
            raise InputError(
                "--config.tensorboard shows one run: set --config.restarts=in_turn"
            )
        results = train(configs, folders, top, name)
    else:
        top.write_json("config.json", config.to_dict())
        results = []
        for number, member in enumerate(configs):
            console.print(f"Seed {member.seed}, {number + 1} of {len(configs)}")
            results.append(main_run(member, folders[number].path, name))
    numbers = [member.seed for member in configs]
    summary = seeds.summarise(dict(zip(numbers, results, strict=True)))
    top.write_json("result.json", summary)
    console.print(seeds.table_of(summary))
    return summary


def train(
    configs: Sequence[Any], folders: Sequence[Workdir], top: Workdir, name: str | None
) -> list[dict[str, Any]]:
    """Trains a run, or restarts in one program; returns the best checkpoints' results.

    A restart that has stopped still takes part in the steps until the last one stops,
    but is no longer scored or written. `top` is the folder with the checkpoint to
    resume from: the run's own, or that above the restarts'.
    """
    config, is_single = configs[0], len(configs) == 1

    # --- Data: nothing is written before all checks.
    for member, folder in zip(configs, folders, strict=True):
        environment.check_same_config(folder, member.to_dict())
    words = config.model.representation.words
    with monitor.waiting(console, "Reading the data"):
        old, before = None, None
        if config.init_from:
            is_begun = top.is_begun()  # then the vocabulary has what the old one has
            if config.objective.retain or not is_begun:
                old = tagging.load(config.init_from)
            before = top.vocabulary() if old is None else old.vocabulary
        data = corpora.load_data(
            config.data.to_dict(),
            word_dim=words and words.dim,
            log=console.print,
            old=before,
        )
    environment.check_same_data(top, data.record, data.vocabulary)
    names = corpora.splits_to_score(config.data.to_dict(), console.print)
    rule = config.evaluation.rule
    task = Task(config.data.scheme, rule=rule, known_words=data.train.words())
    if not task.has_tags and not data.dev.types():
        console.print(
            "dev has no entities, so its F1 cannot choose an epoch: the last is kept"
        )

    # --- Model, batches, optimizer and state
    with monitor.waiting(console, "Building the model"):
        place = cluster.placement(config.num_devices, len(configs))
        model = tagger.build(data.vocabulary, **config.model.to_dict())
        source = None if top.is_begun() else old
        # Drawn vectors add to the deviation by which vectors are divided.
        is_shared = is_single or not config.data.standardise_vectors
        drawn: list[Any] = []
        for member in configs:
            weights = initial_weights(member, data, model, source)
            if is_shared and drawn:
                weights["frozen"] = drawn[0]["frozen"]
            drawn.append(weights)
        objective = objectives.Objective.of(config.objective.to_dict())
        kept = None
        if before is not None:
            ids = np.concatenate(data.labels)
            objective = transfer.with_types(objective, data.vocabulary, before, ids)
        if old is not None and objective.retain:
            kept = transfer.kept(old, data.train, data.vocabulary)
        if is_shared:  # on the devices once
            frozen = place.everywhere(drawn[0]["frozen"])
        else:
            frozen = place.weights(_stacked([weights["frozen"] for weights in drawn]))

        def frozen_of(number):
            return frozen if is_shared else place.restart(frozen, number)

        num_blocks = cluster.blocks_of(config)
        corpus = corpora.Corpus(
            data.sentences,
            data.labels,
            model,
            batch_size=config.batch_size,
            num_blocks=num_blocks,
            num_shapes=config.data.num_shapes,
            pool=config.pool,
            vectors_on_device=config.data.vectors_on_device,
            kept=kept,
            place=place,
        )
        steps = corpus.batches.num_batches
        optimizer = config.optimizer.to_dict()
        recipe = step.Recipe(
            model,
            optimizers.build(optimizer, steps, config.num_epochs),
            objective,
            objectives.Sizes(config.batch_size, corpus.batches.mean_tokens),
            tuple(optimizer.get("parts") or ()),
            place,
        )
        hidden = [data.vocabulary.label_names[i] for i in objective.hidden_labels]
        constrained = config.evaluation.constrained
        labels_of = functools.partial(_labels, constrained=constrained, hidden=hidden)
        state = _begin([weights["params"] for weights in drawn], recipe)
        keys = [jax.random.fold_in(jax.random.key(c.seed), 1) for c in configs]
    size = sum(leaf.size for leaf in jax.tree.leaves(drawn[0]["params"]))
    del drawn, weights
    name = name or f"{config.model.encoder.name} on {config.data.name}"
    numbers = ", ".join(str(member.seed) for member in configs)
    console.print(
        f"{name}, seed {numbers}, "
        f"{optimizer['name']} with learning rate {optimizer['learning_rate']:g}, in "
        f"{top.path}\n{size:,} trained weights on {jax.devices()[0].device_kind}\n"
        f"{counted(steps, 'batch', 'batches')} of {config.batch_size} an epoch, "
        f"{counted(len(corpus.batches.shapes), 'shape')} to compile"
    )
    about = tagger.belongs_to(data.vocabulary, config.model.to_dict())
    scalars = folders[0].path / "tensorboard" if config.tensorboard else None

    with (
        signals.stop_requests(console.print) as stop,
        contextlib.ExitStack() as opened,
        Checkpoints(top.part("latest"), about=about) as latest,
        monitor.Monitor(
            console,
            steps,
            config.num_epochs,
            num_programs=len(corpus.batches.shapes) + (num_blocks > 1),
            tensorboard=scalars if cluster.is_writer() else None,
        ) as show,
    ):
        parts = [folder.part("best") for folder in folders]
        best = [opened.enter_context(Checkpoints(x, about=about)) for x in parts]
        series = [*best, latest]

        # --- Resume, or begin
        if latest.step is not None:
            state, progress = _resumed(config, top, state, latest, best)
        else:
            _check_not_lost(folders[0], best[0])
            fresh = {"epoch": 0, "best_score": -1.0, "best_epoch": 0}
            progress = [dict(fresh) for _ in configs]
        _write_records(configs, folders, top, data, frozen_of, about)
        for folder, run in zip(folders, progress, strict=True):
            folder.forget_after(run["epoch"])
        total = begun = latest.step or 0
        state = place.state(state)
        take_step = step.Step(
            recipe,
            num_blocks,
            frozen,
            corpus.arrays,
            place.weights(jnp.stack(keys)),
            is_shared,
            show.compiling,
        )
        tokens, dev = [example.tokens for example in data.dev.examples], None
        first = [m["loss"] for folder in folders for m in folder.metrics()[:1]]
        show.first_loss = max(first, default=None)

        # --- Steps
        pace = monitor.Pace()
        epoch = max(run["epoch"] for run in progress)
        while epoch < config.num_epochs:
            waits = [run["epoch"] - run["best_epoch"] for run in progress]
            active = [i for i, n in enumerate(waits) if not 0 < config.patience <= n]
            if not active:
                console.print(_stopped(progress, task))
                break
            start, done = time.perf_counter(), total - epoch * steps
            show.begin(epoch, done)
            plans = corpus.epoch([member.seed for member in configs], epoch, done)
            for plan, blocks, count in plans:
                state = take_step(state, plan, blocks)
                total += 1
                is_due = pace.reached(total - begun)
                done = total - epoch * steps
                show.advance(count, state.sums["loss"], done, is_due)
                if stop.reached(is_due):
                    break
            seconds = time.perf_counter() - start

            # --- Scores
            scores, taggers = [], []
            if total == (epoch + 1) * steps:
                # Resumed, it is done again.
                with stop.interrupting(), show.doing("Scoring dev"):
                    for i in active:
                        weights = {"params": place.restart(state.params, i)}
                        weights["frozen"] = frozen_of(i)
                        cold = jnp.float32(1)  # as loaded: they share programs
                        taggers.append(Tagger(weights, model, data.vocabulary, cold))
                    if dev is None:
                        dev = tagging.pad_split(taggers[0], data.dev)
                    sides = [labels_of(params, dev) for params in taggers]
                    scores = [task.score(tokens, *side) for side in sides]
            for checkpoints in series:  # one epoch's saves at a time, see `_resumed`
                checkpoints.finish()
            if scores:
                epoch += 1
                sums = jax.tree.map(np.asarray, state.sums)
                zeros = jax.tree.map(jnp.zeros_like, sums)
                state = state._replace(sums=place.everywhere(zeros))
                main = []
                for i, figures, params in zip(active, scores, taggers, strict=True):
                    metrics: dict[str, Any] = {"epoch": epoch, "step": total}
                    metrics |= {k: float(v[i]) / steps for k, v in sums.items()}
                    metrics["seconds"] = round(seconds, 2)
                    metrics |= {f"dev_{k}": v for k, v in figures.figures().items()}
                    score = metrics[f"dev_{task.main_figure}"] or 0.0  # None: no spans
                    before = progress[i]["best_score"]
                    is_better = score > before
                    # While dev F1 is 0, no epoch is better than a later one.
                    is_kept = is_better or before <= 0
                    progress[i] = {**progress[i], "epoch": epoch}
                    main.append(score)
                    folders[i].log(metrics)
                    if is_kept:
                        progress[i] |= {"best_score": score, "best_epoch": epoch}
                        best[i].save(total, params.weights["params"], metrics)
                    if is_single:
                        is_best = is_better and score > 0
                        show.report(metrics, report.short_line(figures), is_best)
                if not is_single:
                    console.print(
                        f"epoch {epoch:3}  {seconds:6.1f} s  dev {np.mean(main):.2f} "
                        f"({min(main):.2f} to {max(main):.2f}) of "
                        f"{counted(len(active), 'seed')}"
                    )
            if total != latest.step:
                whole = progress[0] if is_single else {"seeds": progress}
                latest.save(total, _stored(state, place, is_single), whole)
            if stop.reached():
                break
    if stop.reached():
        console.print("Stopped; the same command resumes from here.")
        raise SystemExit(stop.exit_status)

    # --- The only place that opens the test split
    del state, take_step, corpus
    return [
        final_scores(member, folder, names, task, place, labels_of)
        for member, folder in zip(configs, folders, strict=True)
    ]


def initial_weights(
    config: Any, data: corpora.Data, model: models.Model, old: Tagger | None
) -> Any:
    """Returns the weights of a config before its first step.

    `old` is the tagger of `init_from`, if its weights are to be taken.
    """
    weights = models.init(model, jax.random.key(config.seed))
    if data.vectors is not None:
        weights = models.with_vectors(weights, data.vectors)
        if config.data.standardise_vectors:
            weights = models.standardise_words(weights)
    if config.data.pretrained and old is None:
        encoder = model.representation.bert.encoder  # pyright: ignore[reportAttributeAccessIssue]
        weights = pretrained.fill(weights, config.data.pretrained, encoder)
    if old is not None:
        build = functools.partial(tagger.build, **config.model.to_dict())
        weights = transfer.start(old, weights, data.vocabulary, build, console.print)
    return weights


def _stacked(trees: Sequence[Any]) -> Any:
    return jax.tree.map(lambda *leaves: jnp.stack(leaves), *trees)


@functools.partial(jax.jit, static_argnames="recipe")
def _begin(params: Sequence[Any], recipe: step.Recipe) -> step.State:
    """Returns the state of all restarts before the first step."""
    begin = functools.partial(step.init, tx=recipe.tx, parts=recipe.parts)
    return jax.vmap(begin)(_stacked(params))


def _labels(
    params: Tagger, split: Any, constrained: bool, hidden: Sequence[str]
) -> tuple[Any, Any]:
    """Returns gold and predicted labels, without those that the data do not mark."""
    gold, predicted = tagging.label_split(params, split, constrained=constrained)
    return gold, transfer.without(predicted, hidden)


# --- Checkpoints ----------------------------------------------------------------------


def _stored(state: step.State, place: cluster.Placement, is_single: bool) -> Any:
    """Returns a copy of a state for a checkpoint; of a single run, without its axis."""
    tree = {**state._asdict(), **state.sums}
    del tree["sums"]
    return place.restart(tree, 0) if is_single else _copied(tree)


@jax.jit
def _copied(tree: Any) -> Any:
    return jax.tree.map(jnp.copy, tree)


def _from_stored(tree: Any, is_single: bool) -> step.State:
    if is_single:
        tree = jax.jit(lambda tree: jax.tree.map(lambda leaf: leaf[None], tree))(tree)
    sums = {k: v for k, v in tree.items() if k not in step.State._fields}
    return step.State(tree["step"], tree["params"], tree["opt_state"], sums)


def _resumed(
    config: Any,
    top: Workdir,
    state: step.State,
    latest: Any,
    best: Sequence[Checkpoints],
) -> tuple[step.State, list[dict[str, Any]]]:
    """Returns state and progress of all restarts, to continue from.

    Each epoch saves both checkpoints, and finishes before the next saves begin. So if a
    kill interrupted only the best one's save, the latest has the same weights.
    """
    is_single = len(best) == 1
    for series in (latest, *best):
        if series.step is not None:
            series.check()
    like = jax.eval_shape(lambda state: _stored(state, cluster.ALONE, is_single), state)
    tree, saved = latest.restore(like)
    progress = [saved] if is_single else saved["seeds"]
    epoch = max(run["epoch"] for run in progress)
    if epoch > config.num_epochs:
        raise InputError(
            f"{top.path} has trained {epoch} epochs, more than --config.num_epochs="
            f"{config.num_epochs}: choose another folder (-o), or give {epoch} or more"
        )
    state = _from_stored(tree, is_single)
    console.print(f"Resumed at step {latest.step:,}")
    for i, (run, series) in enumerate(zip(progress, best, strict=True)):
        epoch = run["epoch"]
        if series.step is not None:
            series.seal()
        elif run["best_epoch"] < epoch:
            console.print(
                f"The best checkpoint (epoch {run['best_epoch']}) is missing: the "
                f"latest one (epoch {epoch}) replaces it until a later epoch is better"
            )
            progress[i] = run = {**run, "best_score": -1.0, "best_epoch": epoch}
        there = 0 if series.step is None else series.progress()["epoch"]
        if there < run["best_epoch"]:
            params = cluster.ALONE.restart(state.params, i)
            series.save(latest.step, params, {"epoch": run["best_epoch"]})
    return state, progress


def _check_not_lost(folder: Workdir, best: Any) -> None:
    """Checks that a run without a latest checkpoint did not have one."""
    if best.step is not None and (epoch := best.progress()["epoch"]) > 1:
        raise DamagedFileError(
            folder.path / "checkpoints" / "latest",
            f"has no checkpoint, although the run had reached epoch {epoch}; the best "
            "one can still be loaded",
        )


def _write_records(configs, folders, top, data, frozen_of, about) -> None:
    """Writes what a run is made of, after all checks."""
    record = environment.continued(top, data.record)
    written = {f.path: (f, c.to_dict()) for f, c in zip(folders, configs, strict=True)}
    whole = {**configs[0].to_dict(), "num_seeds": len(configs)}
    for folder, config in {top.path: (top, whole), **written}.values():
        folder.write_json("config.json", config)
        folder.write_json("environment.json", record)
        folder.write_text("vocabulary.json", data.vocabulary.to_json())
    for number, folder in enumerate(folders):
        save_frozen(folder.part("frozen"), frozen_of(number), about)


# --- The screen -----------------------------------------------------------------------


def _stopped(progress: Sequence[dict[str, Any]], task: Task) -> str:
    best = max(progress, key=lambda run: run["best_epoch"])
    epochs = counted(best["epoch"] - best["best_epoch"], "epoch")
    return (
        f"Stopped: dev {'accuracy' if task.has_tags else 'F1'} has not improved for "
        f"{epochs} (best: {best['best_score']:.2f}, epoch {best['best_epoch']})"
    )


def final_scores(
    config: Any,
    folder: Workdir,
    names: Sequence[str],
    task: Task,
    place: cluster.Placement,
    labels_of: Callable[[Tagger, Any], tuple[Any, Any]],
) -> dict[str, Any]:
    """Scores splits with a run's best checkpoint; writes and returns `result.json`.

    Also writes `predictions-dev.conll` and `-test`. The figures, in percent, follow the
    run's rule; if it is not conlleval's, `by_conlleval` is F1 by that. `chosen_by` is
    the figure that chose the epoch; without one above 0, it is the last.
    """
    params = place.tagger(tagging.load(folder.path))
    with Checkpoints(folder.part("best"), read_only=True) as best:
        result: dict[str, Any] = {"best_epoch": best.progress()["epoch"]}
    metrics = folder.metrics()
    figure = f"dev_{task.main_figure}"
    is_chosen = any(epoch[figure] for epoch in metrics)  # None: no spans
    result["chosen_by"] = figure.replace("_", " ") if is_chosen else "last epoch"
    result["seconds"] = round(sum(m["seconds"] for m in metrics), 1)
    for name in names:
        split = corpora.load_split(config.data.to_dict(), name)
        console.print(split.summary())
        corpora.log_unknown_types(split, params.vocabulary, console.print)
        with monitor.waiting(console, f"Scoring {name}"):
            labels = labels_of(params, split)
        tokens = [example.tokens for example in split.examples]
        scores = task.score(tokens, *labels)
        about: dict[str, Any] = {"sha256": split.sha256, "notes": split.notes}
        if task.rule != "conlleval" and not task.has_tags:
            # So that figures of systems with different rules are comparable.
            by_conlleval = task.score(tokens, *labels, rule="conlleval")
            about["by_conlleval"] = by_conlleval.to_dict()["f1"]
        console.print(report.per_type_table(scores, f"{split.name} {name}"))
        result[name] = {**scores.to_dict(), **about}
        folder.write_json("result.json", result)
        # Unchanged labels, so that other rules can score them later.
        if folder.writes:
            predictions.write(folder.predictions(name), split, *labels)
    if folder.writes:
        folder.write_text("README.md", card.card(folder))
    main = f"dev {task.main_figure} {result[names[0]][task.main_figure] or 0.0:.2f}"
    reason = "" if is_chosen else ", the last, since none is above 0"
    console.print(
        f"Best: epoch {result['best_epoch']}, {main}{reason}. "
        f"Next: jaxner evaluate {shlex.quote(str(folder.path))}"
    )
    return result
