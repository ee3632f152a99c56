"""A run from top to bottom: data, model, state, steps, scores.

Restarts in one program are runs that share all but their seeds; a run alone is the only
one of its program.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import itertools
import math
import shlex
import time
import warnings
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PyTree

from jaxner import models, tagger, tagging
from jaxner.checkpoints import Checkpoints, save_frozen
from jaxner.data.corpora import SPLITS, Split, find
from jaxner.data.tokens import characters
from jaxner.data.vocabulary import Vocabulary
from jaxner.errors import DamagedFileError, InputError, optional
from jaxner.evaluation import card, predictions, report
from jaxner.evaluation.scoring import Scores, Task
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
from jaxner.training.seeds import Config, Result
from jaxner.types import Weights
from jaxner.wording import counted

console = LineConsole()
# What a run writes, after its config.
_FILES = ("README.md", "vocabulary.json", "environment.json", "metrics.jsonl")
_FILES += ("checkpoints", "result.json", "predictions-dev.conll")
# A run has 2,000 steps, in 8 to 20 epochs; with few sentences, 500, in up to 50.
# Patience is ten epochs and 500 steps: with few sentences, ten epochs teach nothing.
_STEPS, _EPOCHS, _PATIENCE = (2_000, 500), ((8, 20), (1, 50)), 10
_LEAST = 10  # sentences of a drawn dev that choose an epoch
_MANY_LABELS = 500  # a CRF's kernels then take longer than all else
_TRIAL = 40  # steps to time, most of which do not compile


def main_run(
    config: Config,
    workdir: str | Path,
    name: str | None = None,
    quiet: bool = False,
    texts: Mapping[str, str] | None = None,
) -> Result:
    """Trains or resumes the run of a config, and scores its best checkpoint.

    With `num_seeds` above 1, all restarts from `seed` on are trained, in folders below
    `workdir`. `name` is the config's, for the screen, which shows nothing if `quiet`.
    `texts` are files of data, by name, to be written into the run's folder.

    Returns:
        The content of `result.json`; for restarts, what `seeds.summarise` returned.

    Raises:
        FloatingPointError: The loss is not finite, or a thousand times its first.
        SystemExit: A signal (Ctrl-C, SIGTERM) stopped the run, which can be resumed.
        InputError: An option is wrong, or the folder has a run of another config or
            with other data.
    """
    console.quiet = quiet or not cluster.is_writer()
    folder = Workdir(workdir, writes=cluster.is_writer())
    with contextlib.ExitStack() as stack, warnings.catch_warnings():
        stack.enter_context(jax.transfer_guard("allow"))  # a guard is for other code
        if not cluster.is_writer():
            warnings.simplefilter("ignore")  # one process says them
        with cluster.agreement():
            corpora.fit_width(config)
            schema.check(config.to_dict())
            # Before any comparison or write: two runs may start at the same moment.
            stack.enter_context(folder.locked())
            if texts:
                config.data.dir = str(folder.path / "data")
            # Also if a kill came before its first checkpoint.
            follows = config.minutes or config.num_epochs is None
            has_config = (folder.path / "config.json").exists()
            content = folder.read_json("config.json") if has_config else {}
            if "split_sentences" not in content.get("data", config.data):
                # A run from before this option read each text as one sentence.
                content["data"]["split_sentences"] = False
                config.data.split_sentences = False
                folder.write_json("config.json", content)
            if follows and has_config:
                old_config = schema.values(content)
                number, old_number = config.num_epochs, old_config["num_epochs"]
                # A lower limit than the old number is another config.
                is_same = number is None or number >= (old_number or math.inf)
                if old_config["minutes"] == config.minutes and is_same:
                    config.num_epochs = old_number
            environment.check_same_config(folder, config.to_dict())
            stack.enter_context(_in_folder(folder, texts or {}))
        if config.num_seeds == 1 or seeds.is_together(config):
            results = train(config, folder, name)
        else:
            results = []
            for member in seeds.configs_of(config):
                # The first seed must find the data of an old run unchanged.
                if results or not (folder.path / "config.json").exists():
                    folder.write_json("config.json", config.to_dict())
                number = f"{len(results) + 1} of {config.num_seeds}"
                console.print(f"Seed {member.seed}, {number}")
                path = folder.seed(member.seed).path
                results.append(main_run(member, path, name, quiet))
        result = results[0]
        if config.num_seeds > 1:
            result = seeds.summarise(dict(enumerate(results, config.seed)))
            folder.write_json("result.json", result)
            console.print(seeds.table_of(result))
    console.print(f"Everything is in {folder.path}")
    return result


@contextlib.contextmanager
def _in_folder(folder: Workdir, texts: Mapping[str, str]) -> Iterator[None]:
    """Writes a run's data into its folder; what ends without a run leaves no file.

    Raises InputError if a file of others is in the way.
    """
    config, data = folder.path / "config.json", folder.path / "data"
    reason = "belongs to a run with other examples. Choose another workdir"
    is_old = config.exists()
    if not is_old:
        reason = (
            "belongs to no run, and a run writes its own. Choose another workdir (-o)"
        )
        for file in filter(Path.exists, map(folder.path.joinpath, _FILES)):
            raise InputError(reason, file)
    for split in SPLITS if texts else ():
        with contextlib.suppress(FileNotFoundError):
            file = find("", split, data)
            if file.is_dir() or file.read_bytes() != texts.get(file.name, "").encode():
                raise InputError(reason, file)
    files = map(data.joinpath, texts if folder.writes else ())
    new_files = [file for file in files if not file.exists()]
    try:
        for file in new_files:
            Workdir(data).write_text(file.name, texts[file.name])
        yield
    except BaseException:
        places = "vocabulary.json", "seed-*/vocabulary.json"
        has_begun = any(any(folder.path.glob(place)) for place in places)
        if is_old or not has_begun:
            for file in (*new_files, *[config] * (folder.writes and not is_old)):
                file.unlink(missing_ok=True)
            if new_files:
                with contextlib.suppress(OSError):  # there are others
                    data.rmdir()
        raise


def train(config: Config, top: Workdir, name: str | None) -> list[Result]:
    """Trains all runs of a config in one program; returns the results of each.

    A run that has stopped still takes part in the steps until the last one stops, but
    is no longer scored or written. `top` has the checkpoint to resume from.
    """
    limit, begin = 60 * (config.minutes or math.inf), time.perf_counter()  # seconds
    with cluster.agreement() as facts:
        program = Program(config, top, name)
        facts |= environment.shared(config.to_dict(), program.data.record)
        facts["init_from"] = program.origin
    if config.minutes and not top.is_begun():
        program.fit_epochs(limit - (time.perf_counter() - begin))
    with signals.stop_requests(console.print) as stop, program.opened():
        program.resume()
        first = max(run.progress.epoch for run in program.runs)
        for epoch in range(first, config.num_epochs):
            active = [run for run in program.runs if not run.is_stalled()]
            if not active:
                console.print(_stalled(program.runs, program.task))
                break
            start = time.perf_counter()
            for is_due in program.steps(epoch):
                if stop.reached(is_due):
                    break
            seconds, results = program.seconds + time.perf_counter() - start, []
            is_whole = program.total == (epoch + 1) * program.num_steps
            if is_whole and not stop:
                with stop.interrupting():  # a resumed run scores again
                    results = program.score(active)
            program.save(results, seconds)
            if stop.reached():
                break
            # The machine may be busier than while steps were tried. A fifth more time
            # lets a run end whose programs compile again.
            is_last = epoch + 1 == config.num_epochs
            is_late = time.perf_counter() + seconds / 2 - begin > 1.2 * limit
            if is_late and not is_last:
                console.print(
                    f"Stopped after epoch {epoch + 1} of {config.num_epochs}: more "
                    f"than {program.minutes()}; the same command trains on"
                )
                break
    if stop.reached():
        console.print("Stopped; the same command resumes from here.")
        raise SystemExit(128 + (stop.signal or 0))  # as shells expect

    del program.state, program.take_step
    # The only place that opens the test split.
    return [program.final_scores(run) for run in program.runs]


class Progress(NamedTuple):
    """How far a run is; `best_epoch` has the best score of dev, in percent."""

    epoch: int = 0
    best_score: float = -1.0
    best_epoch: int = 0


@dataclasses.dataclass
class Run:
    """The run of one seed.

    Attributes:
        number: Its index on the axis of restarts.
        best: The series of its best checkpoint.
    """

    number: int
    config: Config
    folder: Workdir
    progress: Progress = dataclasses.field(default_factory=Progress)
    best: Checkpoints = dataclasses.field(init=False)

    def is_stalled(self) -> bool:
        """Returns whether dev has not improved for `patience` epochs."""
        epochs = self.progress.epoch - self.progress.best_epoch
        return 0 < self.config.patience <= epochs

    def end_epoch(
        self,
        epoch: int,
        step: int,
        metrics: monitor.Metrics,
        score: float | None,
        params: PyTree,
    ) -> bool:
        """Logs an epoch, and saves its weights if dev is better; returns whether."""
        best = self.progress.best_score
        self.progress = self.progress._replace(epoch=epoch)
        self.folder.log(metrics)
        # While dev F1 is 0, no epoch is better than a later one. None: dev is too small
        # to tell, even if it chose epochs before, by patience.
        if score is None or score > best or best <= 0:
            self.progress = Progress(epoch, score or 0.0, epoch)
            self.folder.forget_result()
            self.best.save(step, params, metrics)
        return score is not None and score > max(best, 0)

    def restore_best(self, step: int, params: PyTree) -> None:
        """Saves the latest weights as the best ones if these are missing."""
        epoch, best_epoch = self.progress.epoch, self.progress.best_epoch
        if self.best.step is not None:
            self.best.seal()
        elif best_epoch < epoch:
            console.print(
                f"The best checkpoint (epoch {best_epoch}) is missing: the latest one "
                f"(epoch {epoch}) replaces it until a later epoch is better"
            )
            self.progress = Progress(epoch, best_epoch=epoch)
            self.folder.forget_result()
        number = 0 if self.best.step is None else self.best.progress()["epoch"]
        if number < self.progress.best_epoch:
            self.best.save(step, params, {"epoch": self.progress.best_epoch})


class Program:
    """The runs of one program and what they share; nothing is written before `opened`.

    Attributes:
        runs: A run for each seed.
        origin: `cluster.checksum` of the weights of `init_from`.
        state: The state after the last step.
        total: Number of steps so far.
        num_steps: Number of steps in an epoch.
        tables: The frozen weights on the host, of each run unless all are equal.
        frozen: Those on the devices: of one run if no sentence reads them (it then
            `is_shared`), else `[K, …]`.
    """

    def __init__(self, config: Config, top: Workdir, name: str | None):
        if config.tensorboard:
            optional("tensorboardX", "--config.tensorboard")
            if config.num_seeds > 1:
                raise InputError(
                    "--config.tensorboard shows one run: set --config.restarts=in_turn"
                )
        self.config, self.top, self.total = config, top, 0
        self.seconds = 0.0  # of an epoch that a stop has interrupted
        self.runs = [
            Run(i, member, top if config.num_seeds == 1 else top.seed(member.seed))
            for i, member in enumerate(seeds.configs_of(config))
        ]
        for run in self.runs:
            environment.check_same_config(run.folder, run.config.to_dict())
        options = config.data.to_dict()
        words = config.model.representation.get("words")
        with monitor.waiting(console, "Reading the data"):
            source, vocabulary = self._source()
            self.origin = cluster.checksum(source)
            self.data = corpora.load_data(
                options, word_dim=words and words.dim, log=console.print, old=vocabulary
            )
        environment.check_same_data(top, self.data.record, self.data.vocabulary)
        self.splits = corpora.splits_to_score(options, console.print)
        rule, known_words = config.evaluation.rule, self.data.train.words()
        self.task = Task(config.data.scheme, rule=rule, known_words=known_words)
        if not self.task.has_tags and not self.data.dev.types():
            message = "dev has no entities, so its F1 cannot choose an epoch: the last "
            warnings.warn(f"{message}is kept", stacklevel=2)
        with monitor.waiting(console, "Building the model"):
            self._build(source, vocabulary)
        console.print(self._headline(name))
        # A few drawn sentences tell no epoch from another, unless they end the run.
        count = len(self.data.dev.examples)
        is_small = bool(config.data.split_dev) and count < _LEAST
        self.dev_chooses = not is_small or 0 < config.patience < config.num_epochs
        if not self.dev_chooses:
            number = counted(count, "sentence")
            console.print(f"dev has only {number}: the last epoch is kept")

    def _source(self) -> tuple[Tagger | None, Vocabulary | None]:
        """Returns the tagger of `init_from`, while it is needed, and its vocabulary."""
        config = self.config
        if not config.init_from:
            return None, None
        if self.top.is_begun() and not config.objective.retain:
            return None, self.top.vocabulary()  # which has what the source's has
        source = tagging.load(config.init_from)
        return source, source.vocabulary

    def _build(self, source: Tagger | None, vocabulary: Vocabulary | None) -> None:
        """Makes model, corpus, optimizer and the state before the first step."""
        config, data = self.config, self.data
        self.place = cluster.placement(config.num_devices, len(self.runs))
        self.model = tagger.build(data.vocabulary, **config.model.to_dict())
        count = len(data.vocabulary.label_names)
        if count > _MANY_LABELS and getattr(self.model.head, "transitions", False):
            warnings.warn(
                f"{count:,} labels: a CRF takes time and memory by their square, and "
                "will take most of the run's; head=softmax, after the config's colon, "
                "takes less, but its labels may be ill-formed",
                stacklevel=2,
            )
        objective = objectives.Objective(**config.objective.to_dict())
        old_probabilities = None
        if vocabulary is not None:
            ids = np.concatenate(data.labels)
            objective = transfer.with_types(objective, data.vocabulary, vocabulary, ids)
        if source is not None and objective.retain:
            old_probabilities = transfer.old_probabilities(
                source, data.train, data.vocabulary
            )
        self.corpus = corpora.Corpus(
            data.sentences,
            data.labels,
            self.model,
            batch_size=config.batch_size,
            num_blocks=cluster.blocks_of(config),
            num_shapes=config.data.num_shapes,
            pool=config.pool,
            vectors_on_device=config.data.vectors_on_device,
            old_probabilities=old_probabilities,
            place=self.place,
        )
        self.num_steps = self.corpus.batches.num_batches
        counts = [math.ceil(steps / self.num_steps) for steps in _STEPS]
        if config.num_epochs is None:
            pairs = zip(counts, _EPOCHS, strict=True)
            epochs = [min(max(least, n), most) for n, (least, most) in pairs]
            self._set(num_epochs=max(epochs))
        if config.patience is None:
            self._set(patience=max(_PATIENCE, counts[1]))
        optimizer = config.optimizer.to_dict()
        self.recipe = step.Recipe(
            self.model,
            optimizers.build(optimizer, self.num_steps, config.num_epochs),
            objective,
            objectives.Sizes(config.batch_size, self.corpus.batches.mean_tokens),
            tuple(optimizer.get("parts") or ()),
            self.place,
        )
        self.state = _begin(self._draw(source), self.recipe)
        self.owner = tagger.belongs_to(data.vocabulary, config.model.to_dict())

    def _draw(self, source: Tagger | None) -> list[PyTree]:
        """Returns the trained weights of each run, and places the frozen ones."""
        start, params, tables = None if self.top.is_begun() else source, [], []
        for run in self.runs:
            weights = initial_weights(run.config, self.data, self.model, start)
            params.append(weights["params"])
            # Drawn vectors add to the deviation by which vectors are divided.
            if not tables or self.config.data.standardise_vectors:
                tables.append(jax.device_get(weights["frozen"]))
        size = self.data.vocabulary.num_trained
        is_read = any(np.any(x.words >= size) for x in self.data.sentences)
        self.tables, self.is_shared = tables, len(tables) == 1 or not is_read
        if self.is_shared:
            self.frozen = self.place.everywhere(tables[0])
        else:
            self.frozen = self.place.weights(_stacked(tables))
        return params

    def _headline(self, name: str | None) -> str:
        config, batches = self.config, self.corpus.batches
        sizes = [leaf.size for leaf in jax.tree.leaves(self.state.params)]
        return (
            f"{name or f'{config.model.encoder.name} on {config.data.name}'}, seed "
            f"{', '.join(str(run.config.seed) for run in self.runs)}, "
            f"{config.optimizer.name} with learning rate "
            f"{config.optimizer.learning_rate:g}, in {self.top.path}\n"
            f"{sum(sizes) // len(self.runs):,} trained weights on "
            f"{jax.devices()[0].device_kind}\n"
            f"{counted(self.num_steps, 'batch', 'batches')} of {config.batch_size} an "
            f"epoch, {counted(len(batches.shapes), 'shape')} to compile"
        )

    def fit_epochs(self, seconds: float) -> None:
        """Lowers the number of epochs to what fits into some seconds, by trial steps.

        These change nothing: they are taken on a copy of the state.
        """
        start, times = time.perf_counter(), []
        numbers = [run.config.seed for run in self.runs]
        state = step.placed(jax.tree.map(jnp.copy, self.state), self.place)
        console.print("Trying some steps …")
        with self._monitor() as show, self._stepping(show.compiling) as take_step:
            show.begin(0, 0)
            # The few steps of a short corpus do nothing but compile in one epoch.
            epochs = (self.corpus.epoch(numbers, i) for i in itertools.count())
            steps = itertools.chain.from_iterable(epochs)
            for plan, blocks, _ in itertools.islice(steps, _TRIAL):
                begin = time.perf_counter()
                state = jax.block_until_ready(take_step(state, plan, blocks))
                times.append(time.perf_counter() - begin)
                if len(times) >= self.num_steps and sum(times) > seconds / 2:
                    break
        texts = [split.examples for split in (self.data.train, self.data.dev)]
        train, dev = (sum(len(example.tokens) for example in text) for text in texts)
        # The first steps compile. Scores take a third of the time of training.
        duration, limit = float(np.median(times)), self.config.num_epochs
        training = duration * self.num_steps
        scoring = training * dev / train / 3
        elapsed = time.perf_counter() - start
        # Another schedule compiles again, in part. A tenth is for what takes longer.
        reserve = (elapsed - duration * len(times)) / 4
        remainder = seconds - elapsed - reserve - 2 * scoring
        count = max(1, min(limit, int(0.9 * remainder / (training + scoring))))
        self._set(num_epochs=count)
        tx = optimizers.build(self.config.optimizer.to_dict(), self.num_steps, count)
        self.recipe = self.recipe._replace(tx=tx)
        link = " in" if training + scoring <= remainder else ", more than is left of"
        words = f"all {limit} epochs" if count == limit else counted(count, "epoch")
        console.print(
            f"An epoch takes about {training + scoring:.1f} s: {words}{link} "
            f"{self.minutes()}"
        )

    def _set(self, **values: int) -> None:
        for config in (self.config, *(run.config for run in self.runs)):
            config.update(values)

    def minutes(self) -> str:
        """Returns the time for the run in words."""
        count = self.config.minutes
        return f"{count:g} minute{'s' * (count != 1)}"

    def _stepping(self, compiling: step.Compiling) -> step.Step:
        keys = [jax.random.key(run.config.seed) for run in self.runs]
        keys = self.place.weights(jnp.stack([jax.random.fold_in(x, 1) for x in keys]))
        inputs = self.recipe, self.corpus, self.frozen, keys
        return step.Step(*inputs, self.is_shared, compiling)

    def _monitor(self, tensorboard: Path | None = None) -> monitor.Monitor:
        batches = self.corpus.batches
        count = len(batches.shapes) + (not batches.is_whole)
        sizes = self.num_steps, self.config.num_epochs, count
        return monitor.Monitor(console, *sizes, tensorboard)

    @contextlib.contextmanager
    def opened(self) -> Iterator[None]:
        """Opens checkpoints and the progress bar, and readies the steps."""
        has_scalars = self.config.tensorboard and cluster.is_writer()
        self.show = self._monitor(
            self.top.path / "tensorboard" if has_scalars else None
        )
        self.take_step = self._stepping(self.show.compiling)
        self.latest = Checkpoints(self.top.part("latest"), owner=self.owner)
        for run in self.runs:
            run.best = Checkpoints(run.folder.part("best"), owner=self.owner)
        with self.show, self.take_step:
            yield

    def resume(self) -> None:
        """Restores the latest checkpoint, if there is one, and writes the records.

        An epoch saves its best checkpoint before the latest one. After a kill between
        the two, the run repeats the epoch, whose weights are there already.
        """
        if self.latest.step is None:
            best = self.runs[0].best
            if best.step is not None and (n := best.progress()["epoch"]) > 1:
                message = f"has no checkpoint, although the run had reached epoch {n}; "
                message += "the best one can still be loaded"
                raise DamagedFileError(self.runs[0].folder.part("latest"), message)
            self.state = step.placed(self.state, self.place)
        else:
            self.total = self.latest.step
            self._restore()
        self._write_records()
        losses = [m["loss"] for run in self.runs for m in run.folder.metrics()[:1]]
        self.show.first_loss = max(losses, default=None)

    def _restore(self) -> None:
        """Takes state and progress from the latest checkpoint."""
        for series in (self.latest, *(run.best for run in self.runs)):
            if series.step is not None:
                series.check()
        content, spec = self.latest.progress(), jax.eval_shape(_stored, self.state)
        tree = self.latest.restore(spec)
        progress = [Progress(**state) for state in content["seeds"]]
        self.seconds = content.get("seconds", 0.0)
        epoch, limit = max(state.epoch for state in progress), self.config.num_epochs
        if epoch > limit:
            raise InputError(
                f"{self.top.path} has trained {epoch} epochs, more than "
                f"--config.num_epochs={limit}: choose another folder (-o), or give "
                f"{epoch} or more"
            )
        console.print(f"Resumed at step {self.total:,}")
        sums = {name: tree.pop(name) for name in self.state.sums}
        self.state = step.placed(step.State(**tree, sums=sums), self.place)
        for run, run.progress in zip(self.runs, progress, strict=True):
            run.restore_best(self.total, self.tagger(run).weights["params"])

    def _write_records(self) -> None:
        """Writes what the runs are made of, and forgets epochs that they repeat."""
        record = environment.continued(self.top, self.data.record)
        configs = {run.folder: run.config for run in self.runs}
        for folder, config in {self.top: self.config, **configs}.items():
            folder.write_json("config.json", config.to_dict())
            folder.write_text("vocabulary.json", self.data.vocabulary.to_json())
            folder.write_json("environment.json", record)  # last: it vouches for all
        for run in self.runs:
            frozen = self.tagger(run).weights["frozen"]
            save_frozen(run.folder.part("frozen"), frozen, self.owner)
            run.folder.forget_after(run.progress.epoch)

    def tagger(self, run: Run) -> Tagger:
        """Returns the tagger of a run after the last step."""
        params, frozen = self.place.restart(self.state.params, run.number), self.frozen
        if len(self.tables) > 1:
            frozen = self.place.everywhere(self.tables[run.number])
        # A temperature as that of a loaded tagger: they share programs.
        weights, temperature = {"params": params, "frozen": frozen}, jnp.float32(1)
        return Tagger(weights, self.model, self.data.vocabulary, temperature)

    def steps(self, epoch: int) -> Iterator[bool]:
        """Takes the rest of the steps of an epoch; yields where the loss was read."""
        count = self.total - epoch * self.num_steps
        self.show.begin(epoch, count)
        numbers = [run.config.seed for run in self.runs]
        for plan, blocks, tokens in self.corpus.epoch(numbers, epoch, count):
            self.state = self.take_step(self.state, plan, blocks)
            count, self.total = count + 1, self.total + 1
            yield self.show.advance(tokens, self.state.sums["loss"], count)

    def score(self, runs: Sequence[Run]) -> list[tuple[Run, PyTree, Scores]]:
        """Returns runs, their trained weights, and their scores of dev."""
        tokens, results = [example.tokens for example in self.data.dev.examples], []
        with self.show.doing("Scoring dev"):
            for run in runs:
                tagger = self.tagger(run)
                scores = self.task.score(tokens, *self.labels(tagger, self.data.dev))
                results.append((run, tagger.weights["params"], scores))
        return results

    def labels(
        self, tagger: Tagger, split: Split
    ) -> tuple[list[Sequence[str]], list[list[str]]]:
        """Returns gold and predicted labels, O for those that the data do not mark."""
        constrained, names = self.config.evaluation.constrained, tagger.labels
        gold, predicted = tagging.label_split(tagger, split, constrained=constrained)
        hidden_names = {names[i] for i in self.recipe.objective.hidden_labels}
        return gold, [
            ["O" if x in hidden_names else x for x in row] for row in predicted
        ]

    def save(
        self, results: Sequence[tuple[Run, PyTree, Scores]], seconds: float
    ) -> None:
        """Saves the state and, at the end of an epoch, weights that are the best.

        `results` is what `score` returned, empty within an epoch of so many seconds.
        """
        if results:
            sums, rows, marks = jax.tree.map(np.asarray, self.state.sums), [], []
            # A run that had stopped, and has more patience now, has missed some.
            epoch = self.total // self.num_steps
            for run, params, scores in results:
                metrics: monitor.Metrics = {"epoch": epoch, "step": self.total}
                means = {
                    k: float(v[run.number]) / self.num_steps for k, v in sums.items()
                }
                metrics |= {**means, "seconds": round(seconds, 2)}
                metrics |= {f"dev_{k}": v for k, v in scores.figures().items()}
                score = metrics[f"dev_{self.task.main_figure}"] or 0.0  # None: no spans
                score = score if self.dev_chooses else None
                rows.append(metrics)
                marks.append(run.end_epoch(epoch, self.total, metrics, score, params))
            self.show.report(
                rows, _line([x for *_, x in results], self.task), all(marks)
            )
            zeros = jax.tree.map(jnp.zeros_like, sums)
            self.state = self.state._replace(sums=self.place.everywhere(zeros))
        self.seconds = 0.0 if results else seconds
        progress = [run.progress._asdict() for run in self.runs]
        content = {"seeds": progress, "seconds": self.seconds}
        self.latest.save(self.total, _stored(self.state), content)

    def final_scores(self, run: Run) -> Result:
        """Scores splits with a run's best checkpoint; writes and returns `result.json`.

        Also writes `predictions-dev.conll` and `-test`. The figures, in percent, follow
        the run's rule; if it is not conlleval's, `by_conlleval` is F1 by that.
        `chosen_by` is the figure that chose the epoch; without one above 0, it is the
        last.
        """
        task, folder, metrics = self.task, run.folder, run.folder.metrics()
        tagger = self.place.tagger(tagging.load(folder.path))
        is_above = any(epoch[f"dev_{task.main_figure}"] for epoch in metrics)
        is_chosen = run.progress.best_score > 0  # by dev, in this call or before
        result: Result = {
            "best_epoch": run.best.progress()["epoch"],
            "chosen_by": f"dev {task.main_figure}" if is_chosen else "last epoch",
            "seconds": round(sum(epoch["seconds"] for epoch in metrics), 1),
        }
        weakness = ""
        for name in self.splits:
            split = self.data.dev  # as read for training: the file may have changed
            if name != "dev":
                try:
                    split = corpora.split_of_run(folder, name)
                except (OSError, InputError) as error:  # the run is done without it
                    warnings.warn(f"{name} is not scored: {error}", stacklevel=2)
                    continue
            console.print(split.summary())
            corpora.log_unknown_types(split, tagger.vocabulary, console.print)
            with monitor.waiting(console, f"Scoring {name}"):
                labels = self.labels(tagger, split)
            tokens = [example.tokens for example in split.examples]
            scores = task.score(tokens, *labels)
            if name == "dev":
                weakness = report.weakness_line(scores, *labels)
            result[name] = scores.to_dict()
            result[name] |= {"sha256": split.sha256, "notes": split.notes}
            if task.rule != "conlleval" and not task.has_tags:
                # So that figures of systems with different rules are comparable.
                by_conlleval = task.score(tokens, *labels, rule="conlleval")
                result[name]["by_conlleval"] = by_conlleval.to_dict()["f1"]
            title = f"{split.name} {name}"
            console.print(report.types_table({"scores": result[name]}, title))
            # Unchanged labels, so that other rules can score them later.
            if folder.writes:
                predictions.write(folder.predictions(name), split, *labels)
        with contextlib.suppress(FileNotFoundError, DamagedFileError):
            # They are of the same checkpoint; the test file may have gone since.
            result = folder.read_json("result.json") | result
        folder.write_json("result.json", result)
        if folder.writes:
            folder.write_text("README.md", card.card(folder))
        figure = task.main_figure.replace("f1", "F1")
        score = f"{result[self.splits[0]][task.main_figure] or 0.0:.2f}"
        reason = "" if is_chosen else ", the last"
        reason += "" if is_above else ", since none is above 0"
        best = f"Best: epoch {result['best_epoch']}, dev {figure} {score}{reason}"
        path, check = shlex.quote(str(folder.path)), ""
        if is_above:  # else all is weak, and each label differs from the tagger's
            best = ". ".join(filter(None, (best, weakness)))
            check = f"jaxner check {path} --split train (labels that may be wrong); "
        # The words of Chinese corpora are mostly characters.
        lengths = [len(characters(word)) for word in self.data.train.words()]
        is_open = not self.config.data.tokenizer and np.median(lengths) == 1
        option = " --tokenizer characters" if is_open else ""
        console.print(
            f"{best}\nNext: jaxner report {path} -o report.html (errors by kind); "
            f"{check}jaxner tag {path} FILE{option}"
        )
        return result


def initial_weights(
    config: Config, data: corpora.Data, model: models.Model, source: Tagger | None
) -> Weights:
    """Returns the weights of a config before its first step.

    `source` is the tagger of `init_from`, if its weights are to be taken.
    """
    weights = models.init(model, jax.random.key(config.seed))
    if data.vectors is not None:
        weights = models.with_vectors(weights, data.vectors)
        if config.data.standardise_vectors:
            weights = models.standardise_words(weights)
    if source is not None:
        build = functools.partial(tagger.build, **config.model.to_dict())
        return transfer.start(source, weights, data.vocabulary, build, console.print)
    if config.data.pretrained:
        encoder = model.representation.bert.encoder  # pyright: ignore[reportAttributeAccessIssue]
        weights = pretrained.fill(weights, config.data.pretrained, encoder)
    return weights


def _stacked(trees: Sequence[PyTree]) -> PyTree:
    return jax.tree.map(lambda *leaves: jnp.stack(leaves), *trees)


@functools.partial(jax.jit, static_argnames="recipe")
def _begin(params: Sequence[PyTree], recipe: step.Recipe) -> step.State:
    """Returns the state of all runs before the first step."""
    begin = functools.partial(step.init, tx=recipe.tx, parts=recipe.parts)
    return jax.vmap(begin)(_stacked(params))


def _stored(state: step.State) -> dict[str, PyTree]:
    """Returns a state as it is saved."""
    tree = {**state._asdict(), **state.sums}
    del tree["sums"]
    return tree


# --- Scores and the screen ------------------------------------------------------------


def _line(scores: Sequence[Scores], task: Task) -> str:
    """Returns the scores of an epoch in half a line."""
    if len(scores) == 1:
        return report.short_line(scores[0])
    values = [score.figures()[task.main_figure] or 0.0 for score in scores]
    bounds = f"{min(values):.2f} to {max(values):.2f}"
    return f"{np.mean(values):.2f} ({bounds}) of {counted(len(values), 'seed')}"


def _stalled(runs: Sequence[Run], task: Task) -> str:
    best = max((run.progress for run in runs), key=lambda progress: progress.best_epoch)
    epochs = counted(best.epoch - best.best_epoch, "epoch")
    return (
        f"Stopped: dev {'accuracy' if task.has_tags else 'F1'} has not improved for "
        f"{epochs} (best: {best.best_score:.2f}, epoch {best.best_epoch})"
    )
