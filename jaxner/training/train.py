"""A run from top to bottom: data, model, state, restarts, steps, scores."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxner import models, tagger, tagging
from jaxner.checkpoints import Checkpoints, save_frozen
from jaxner.errors import DamagedFileError, InputError
from jaxner.evaluation import predictions, report
from jaxner.evaluation.scoring import Task
from jaxner.models import pretrained
from jaxner.runs import Workdir
from jaxner.tagger import Tagger
from jaxner.terminal import LineConsole
from jaxner.training import (
    checks,
    cluster,
    environment,
    monitor,
    objectives,
    optimizers,
    seeds,
    signals,
    step,
)
from jaxner.training import corpus as corpora
from jaxner.wording import counted

console = LineConsole()


def main_run(
    config: Any, workdir: str | Path, name: str | None = None
) -> dict[str, Any]:
    """Trains or resumes the run of a config, and scores its best checkpoint.

    Args:
        config: What a config file returned; with `num_seeds` above 1, all restarts from
            `seed` on are trained.
        workdir: The run folder; for restarts, the folder above theirs.
        name: Name of the config, for the screen.

    Returns:
        The content of `result.json`; for restarts, what `seeds.summarise` returned.

    Raises:
        FloatingPointError: The loss is not finite, or a thousand times its first.
        SystemExit: A signal (Ctrl-C, SIGTERM) stopped the run, which can be resumed.
        ValueError: An option is unknown or wrong, or the folder has a run with another
            config or other data.
    """
    checks.check(config.to_dict())
    console.quiet = not cluster.is_writer()
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
    folders = [top.seed(one.seed) for one in configs]
    if seeds.is_together(config):
        if config.tensorboard:
            raise InputError(
                "--config.tensorboard shows one run: set --config.restarts=in_turn"
            )
        results = train(configs, folders, top, name)
    else:
        top.write_json("config.json", config.to_dict())
        results = []
        for number, (one, folder) in enumerate(zip(configs, folders, strict=True), 1):
            console.print(f"Seed {one.seed}, {number} of {len(configs)}")
            results.append(main_run(one, folder.path, name))
    named = {one.seed: result for one, result in zip(configs, results, strict=True)}
    summary = seeds.summarise(named)
    top.write_json("result.json", summary)
    console.print(seeds.table_of(summary))
    return summary


def train(
    configs: Sequence[Any], folders: Sequence[Workdir], top: Workdir, name: str | None
) -> list[dict[str, Any]]:
    """Trains one run, or several restarts in one program, each until it would stop.

    A restart that has stopped still takes part in the steps until the last one stops,
    but is no longer scored or written.

    Args:
        configs: The config of each restart; they differ in the seed.
        folders: Their folders.
        top: The folder with the checkpoint to resume from: the run's own, or that above
            the restarts'.
        name: Name of the config, for the screen.

    Returns:
        The results of the best checkpoints.
    """
    config, is_single = configs[0], len(configs) == 1

    # --- Data: nothing is written before all checks.
    if not top.is_begun():
        checks.check_there("--config.init_from", config.init_from)
    task = Task(config.data.scheme, rule=config.evaluation.rule)
    for one, folder in zip(configs, folders, strict=True):
        environment.check_same_config(folder, one.to_dict())
    words = config.model.representation.words
    with monitor.waiting(console, "Reading the data"):
        data = corpora.load_data(
            config.data.to_dict(), word_dim=words and words.dim, log=console.print
        )
    environment.check_same_data(top, data.record, data.vocabulary)
    names = corpora.splits_to_score(config.data.to_dict(), console.print)
    task = dataclasses.replace(task, known_words=data.words)

    # --- Model, batches, optimizer and state
    with monitor.waiting(console, "Building the model"):
        place = cluster.placement(config.num_devices, len(configs))
        drawn = [initial_weights(c, data, is_begun=top.is_begun()) for c in configs]
        model = tagger.build(data.vocabulary, **config.model.to_dict())
        frozen = [weights["frozen"] for weights in drawn]
        is_shared = all(_are_equal(frozen[0], other) for other in frozen[1:])
        if is_shared:  # on the devices once
            frozen = [place.everywhere(frozen[0])] * len(configs)
            given = frozen[0]
        else:
            given = place.weights(_stacked(frozen))
        corpus = corpora.Corpus(
            data.sentences,
            data.labels,
            model,
            batch_size=config.batch_size,
            num_blocks=cluster.blocks_of(config),
            num_shapes=config.data.num_shapes,
            unit=config.data.unit,
            vectors_on_device=config.data.vectors_on_device,
            place=place,
        )
        steps = corpus.batches.num_batches
        optimizer = config.optimizer.to_dict()
        recipe = step.Recipe(
            model,
            optimizers.build(optimizer, steps, config.num_epochs),
            objectives.Objective.of(config.objective.to_dict()),
            objectives.Sizes(config.batch_size, corpus.batches.mean_tokens),
            tuple(optimizer.get("parts") or ()),
        )
        state = _begin([weights["params"] for weights in drawn], recipe)
        keys = jnp.stack(
            [jax.random.fold_in(jax.random.key(c.seed), 1) for c in configs]
        )
    size = sum(leaf.size for leaf in jax.tree.leaves(drawn[0]["params"]))
    del drawn
    console.print(_head(config, configs, top, name))
    console.print(f"{size:,} trained weights on {jax.devices()[0].device_kind}")
    console.print(corpus.summary())
    about = tagger.belongs_to(data.vocabulary, config.model.to_dict())

    with (
        signals.stop_requests(console.print) as stop,
        contextlib.ExitStack() as opened,
        Checkpoints(top.part("latest"), about=about) as latest,
        monitor.Monitor(
            console, steps, config.num_epochs, _scalars(config, folders)
        ) as show,
    ):
        best = [
            opened.enter_context(Checkpoints(folder.part("best"), about=about))
            for folder in folders
        ]

        # --- Resume, or begin
        resumed = latest.step is not None
        if resumed:
            state, progress = _resumed(
                configs, folders, top, state, latest, best, place, task
            )
        else:
            _check_not_lost(folders[0], best[0])
            progress = [
                {"epoch": 0, "best_score": -1.0, "best_epoch": 0} for _ in configs
            ]
        _write_records(configs, folders, top, data, frozen, about)
        for folder, own in zip(folders, progress, strict=True):
            folder.forget_after(own["epoch"])
        total = begun = latest.step or 0
        state = place.state(state)
        take_step = step.Step(
            recipe, given, corpus.arrays, place.weights(keys), place, is_shared
        )
        first = [m["loss"] for folder in folders for m in folder.metrics()[:1]]
        show.first_loss = max(first, default=None)

        # --- Steps
        epoch = max(own["epoch"] for own in progress)
        while epoch < config.num_epochs:
            active = [i for i, own in enumerate(progress) if _goes_on(config, own)]
            if not active:
                console.print(_stopped(progress, task))
                break
            start = time.perf_counter()
            show.begin(epoch, total - epoch * steps)
            batches = corpus.epoch(
                [c.seed for c in configs], epoch, total - epoch * steps
            )
            for blocks, tokens in batches:
                for padded, block in blocks:
                    with show.compiling(corpus, padded):
                        take_step.add(state, padded, block)
                with show.compiling(corpus):
                    state = take_step.update(state)
                total += 1
                show.advance(tokens, state.sums["loss"], total - epoch * steps)
                if stop.reached(total - begun):
                    break
            seconds = time.perf_counter() - start

            # --- Scores; one epoch's saves at a time, see `_resumed`
            for series in (*best, latest):
                series.finish()
            scores: list[Any] = []
            if total == (epoch + 1) * steps:
                waited = sum(series.waited() for series in (*best, latest))
                with stop.interrupting(), show.scoring():  # resumed, it is done again
                    taggers = [
                        Tagger(
                            {
                                "params": place.restart(state.params, i),
                                "frozen": place.everywhere(frozen[i]),
                            },
                            model,
                            data.vocabulary,
                        )
                        for i in active
                    ]
                    scores = [_score(one, data.dev, config, task) for one in taggers]
            if scores:
                epoch += 1
                sums = jax.tree.map(np.asarray, state.sums)
                state = state._replace(sums=place.everywhere(_zeros(sums)))
                for i, own_scores, own in zip(active, scores, taggers, strict=True):
                    metrics = {
                        "epoch": epoch,
                        "step": total,
                        **{k: float(v[i]) / steps for k, v in sums.items()},
                        "seconds": round(seconds, 2),
                        "saving_seconds": round(waited, 3),
                        **{f"dev_{k}": v for k, v in own_scores.figures().items()},
                    }
                    score = metrics[f"dev_{task.main_figure}"] or 0.0  # None: no spans
                    is_better = score > progress[i]["best_score"]
                    progress[i] = {**progress[i], "epoch": epoch}
                    if is_better:
                        progress[i] |= {"best_score": score, "best_epoch": epoch}
                    folders[i].log(metrics)
                    if is_better:
                        best[i].save(total, own.weights["params"], metrics)
                    if is_single:
                        show.report(metrics, report.short_line(own_scores), is_better)
                    else:
                        progress[i]["score"] = score
                if not is_single:
                    console.print(_epoch_line(progress, active, epoch, seconds))
            if total != latest.step:
                whole = progress[0] if is_single else {"seeds": progress}
                latest.save(total, _stored(state, place, is_single), whole)
            if stop:
                break
    if stop:
        console.print("Stopped; the same command resumes from here.")
        raise SystemExit(stop.exit_status)

    # --- The only place that opens the test split
    del state, take_step, corpus
    return [
        final_scores(one, folder, names, task, place)
        for one, folder in zip(configs, folders, strict=True)
    ]


def initial_weights(config: Any, data: corpora.Data, *, is_begun: bool) -> Any:
    """Returns the weights of a config before its first step.

    Args:
        config: Config of the run.
        data: Its data.
        is_begun: Whether there is a checkpoint, so that the weights of another run
            (`init_from`) are no longer needed.
    """
    model = tagger.build(data.vocabulary, **config.model.to_dict())
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
        weights = corpora.start_from(source, weights, data.vocabulary, console.print)
    return weights


def _are_equal(one: Any, other: Any) -> bool:
    return all(map(np.array_equal, jax.tree.leaves(one), jax.tree.leaves(other)))


def _stacked(trees: Sequence[Any]) -> Any:
    return jax.tree.map(lambda *leaves: jnp.stack(leaves), *trees)


@functools.partial(jax.jit, static_argnames="recipe")
def _begin(params: Sequence[Any], recipe: step.Recipe) -> step.State:
    """Returns the state of all restarts before the first step."""
    begin = functools.partial(step.init, tx=recipe.tx, parts=recipe.parts)
    return jax.vmap(begin)(_stacked(params))


def _zeros(sums: Any) -> Any:
    return jax.tree.map(lambda array: jnp.zeros(array.shape, array.dtype), sums)


def _score(params: Tagger, dev: Any, config: Any, task: Task) -> Any:
    constrained = config.evaluation.constrained
    gold, predicted = tagging.label_split(params, dev, constrained=constrained)
    return task.score([example.tokens for example in dev.examples], gold, predicted)


# --- Checkpoints ----------------------------------------------------------------------


def _stored(state: step.State, place: cluster.Placement, is_single: bool) -> Any:
    """Returns what a checkpoint has of a state; a single run's has no leading axis."""
    tree = {**state._asdict(), **state.sums}
    del tree["sums"]
    return place.restart(tree, 0) if is_single else tree


def _from_stored(tree: Any, is_single: bool) -> step.State:
    if is_single:
        tree = jax.jit(lambda tree: jax.tree.map(lambda leaf: leaf[None], tree))(tree)
    sums = {k: v for k, v in tree.items() if k not in step.State._fields}
    return step.State(tree["step"], tree["params"], tree["opt_state"], sums)


def _resumed(
    configs: Sequence[Any],
    folders: Sequence[Workdir],
    top: Workdir,
    state: step.State,
    latest: Any,
    best: Sequence[Any],
    place: cluster.Placement,
    task: Task,
) -> tuple[step.State, list[dict[str, Any]]]:
    """Returns state and progress of all restarts, to continue from.

    Each epoch saves both checkpoints, and finishes before the next saves begin. So if a
    kill interrupted only the best one's save, the latest has the same weights.

    Raises:
        DamagedFileError: A checkpoint is damaged, or belongs to another run.
        InputError: The run has more epochs already than are wanted.
    """
    config, is_single = configs[0], len(configs) == 1
    are_sealed = [latest.check()]
    like = jax.eval_shape(lambda state: _stored(state, cluster.ALONE, is_single), state)
    tree, saved = latest.restore(like)
    progress = [saved] if is_single else saved["seeds"]
    epoch = max(own["epoch"] for own in progress)
    if epoch > config.num_epochs:
        raise InputError(
            f"{top.path} has trained {epoch} epochs, more than --config.num_epochs="
            f"{config.num_epochs}: choose another --workdir, or give {epoch} or more"
        )
    state = _from_stored(tree, is_single)
    console.print(f"Resumed at step {latest.step:,}")
    for i, (folder, series) in enumerate(zip(folders, best, strict=True)):
        own = progress[i]
        params = cluster.ALONE.restart(state.params, i)
        if series.step is not None:
            are_sealed.append(series.check())
            series.seal()
            if series.progress()["epoch"] < own["best_epoch"]:
                series.save(latest.step, params, {"epoch": own["best_epoch"]})
        elif own["best_epoch"]:
            epoch = own["epoch"]
            console.print(
                f"The best checkpoint (epoch {own['best_epoch']}) is missing: the "
                f"latest one (epoch {epoch}) replaces it until a later epoch is better"
            )
            figure, score = f"dev_{task.main_figure}", -1.0
            if not np.any(np.asarray(state.sums["loss"])):  # at the end of that epoch
                lines = [m for m in folder.metrics() if m["epoch"] == epoch]
                score = (lines[0].get(figure) or 0.0) if lines else -1.0
            series.save(latest.step, params, {"epoch": epoch})
            progress[i] = {**own, "best_score": score, "best_epoch": epoch}
    if not all(are_sealed):
        console.print(f"{top.path}: {tagger.NO_CHECKSUMS}")
    return state, progress


def _check_not_lost(folder: Workdir, best: Any) -> None:
    """Checks that a run without a latest checkpoint did not have one."""
    if best.step is not None and (epoch := best.progress()["epoch"]) > 1:
        raise DamagedFileError(
            folder.path / "checkpoints" / "latest",
            f"has no checkpoint, although the run had reached epoch {epoch}; the best "
            "one can still be loaded",
        )


def _write_records(configs, folders, top, data, frozen, about) -> None:
    """Writes what a run is made of, after all checks."""
    record = environment.continued(top, data.record)
    for one, folder, arrays in zip(configs, folders, frozen, strict=True):
        folder.write_json("config.json", one.to_dict())
        folder.write_json("environment.json", record)
        folder.write_text("vocabulary.json", data.vocabulary.to_json())
        save_frozen(folder.part("frozen"), arrays, about)
    if len(configs) > 1:
        whole = {**configs[0].to_dict(), "num_seeds": len(configs)}
        top.write_json("config.json", whole)
        top.write_json("environment.json", record)
        top.write_text("vocabulary.json", data.vocabulary.to_json())


# --- The screen -----------------------------------------------------------------------


def _head(config: Any, configs: Sequence[Any], top: Workdir, name: str | None) -> str:
    name = name or f"{config.model.encoder.name} on {config.data.name}"
    own = [str(one.seed) for one in configs]
    which = f"seed {own[0]}" if len(own) == 1 else f"seeds {own[0]} to {own[-1]}"
    optimizer = config.optimizer
    rate = f"{optimizer.name} with learning rate {optimizer.learning_rate:g}"
    return f"{name}, {which}, {rate}, in {top.path}"


def _scalars(config: Any, folders: Sequence[Workdir]) -> Path | None:
    """Returns the folder of TensorBoard's scalars, if there are to be any."""
    is_wanted = config.tensorboard and folders[0].writes
    return folders[0].path / "tensorboard" if is_wanted else None


def _goes_on(config: Any, progress: dict[str, Any]) -> bool:
    since = progress["epoch"] - progress["best_epoch"]
    return not 0 < config.patience <= since


def _stopped(progress: Sequence[dict[str, Any]], task: Task) -> str:
    own = max(progress, key=lambda each: each["best_epoch"])
    name = "accuracy" if task.has_tags else "F1"
    return (
        f"Stopped: dev {name} has not improved for "
        f"{counted(own['epoch'] - own['best_epoch'], 'epoch')} "
        f"(best: {own['best_score']:.2f}, epoch {own['best_epoch']})"
    )


def _epoch_line(progress, active: Sequence[int], epoch: int, seconds: float) -> str:
    scores = [progress[i]["score"] for i in active]
    better = sum(progress[i]["best_epoch"] == epoch for i in active)
    return (
        f"epoch {epoch:3}  {seconds:6.1f} s  dev {np.mean(scores):.2f} "
        f"({min(scores):.2f} to {max(scores):.2f}) of {counted(len(active), 'seed')}, "
        f"{better} at their best"
    )


def final_scores(
    config: Any,
    folder: Workdir,
    names: Sequence[str],
    task: Task,
    place: cluster.Placement,
) -> dict[str, Any]:
    """Scores splits with the best checkpoint of a run.

    Writes `result.json`, and the labels as `predictions-dev.conll` and `-test.conll`.
    The figures follow the run's rule; if that is "strict", `by_conlleval` is F1 by
    conlleval's rule.

    Args:
        config: Config of the run.
        folder: Folder of the run.
        names: Names of the splits.
        task: The scoring task.
        place: Placement of arrays.

    Returns:
        The content of `result.json`; figures in percent.
    """
    params = place.tagger(tagging.load(folder.path))
    with Checkpoints(folder.part("best"), read_only=True) as best:
        result: dict[str, Any] = {"best_epoch": best.progress()["epoch"]}
    result["seconds"] = round(sum(m["seconds"] for m in folder.metrics()), 1)
    for name in names:
        split = corpora.load_split(config.data.to_dict(), name)
        console.print(split.summary())
        corpora.log_unknown_types(split, params.vocabulary, console.print)
        with monitor.waiting(console, f"Scoring {name}"):
            labels = tagging.label_split(
                params, split, constrained=config.evaluation.constrained
            )
        tokens = [example.tokens for example in split.examples]
        scores = task.score(tokens, *labels, rule="seqeval")
        about: dict[str, Any] = {"sha256": split.sha256, "notes": split.notes}
        if task.rule == "strict" and not task.has_tags:
            # So that figures of systems with different rules are comparable.
            about["by_conlleval"] = scores.to_dict()["f1"]
            scores = task.score(tokens, *labels)
        console.print(report.per_type_table(scores, f"{split.name} {name}"))
        result[name] = {**scores.to_dict(), **about}
        result["peak_memory_mb"] = environment.peak_memory_mb()
        folder.write_json("result.json", result)
        # Unchanged labels, so that other rules can score them later.
        if folder.writes:
            predictions.write(folder.predictions(name), split, *labels)
    main = result[names[0]][task.main_figure] or 0.0
    console.print(
        f"Best: epoch {result['best_epoch']}, dev {task.main_figure} {main:.2f}. "
        f"Next: python -m jaxner evaluate --workdir {folder.path}"
    )
    return result
