"""The options of a config, their allowed values, and the checks of a whole config.

Each option is declared once: as a field of a part's module, of the optimizer's or the
objective's, or here. Each has a flag (`jaxner.configuration`), and `check` checks all
values before a run reads or writes anything.
"""

from __future__ import annotations

import contextlib
import dataclasses
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

import jax
from ml_collections import ConfigDict

from jaxner import fields, models
from jaxner.data import corpora, schemes, vocabulary
from jaxner.data.formats import FORMATS
from jaxner.data.sources import Reading
from jaxner.errors import InputError
from jaxner.evaluation import scoring
from jaxner.fields import Chance, Count, OneOf, Part, Positive, Seed, Share, Size, Text
from jaxner.models import options, pretrained
from jaxner.models.options import Section
from jaxner.runs import Workdir
from jaxner.training import optimizers
from jaxner.training.objectives import Objective
from jaxner.types import Options

DATASETS = (*corpora.CORPORA, "files")
_BY_SPLIT = fields.Mark("a path with {split}", lambda path: "{split}" in path)


@dataclasses.dataclass(frozen=True)
class Data(Reading):
    """The options of the section `data`.

    Attributes:
        name: The data set.
        unit: What the model reads at once: sentences, or documents with separators.
        dir: Folder of the data set's files; for `name=files`, of yours.
        split_dev: Share of train that becomes dev, without a dev file.
        split_seed: Seed of the draw for `split_dev`.
        format: Format of the files; None: by their names.
        label_names: Names of labels that are numbers, in order, as in `O,B-PER,I-PER`.
        scheme: Scheme of the model's labels; "tags" are labels without spans.
        min_count_without_vectors: `min_count` without `vectors`; None: the same.
        vectors: File of word vectors, or its name among the data.
        standardise_vectors: Whether to divide vectors by their standard deviation.
        min_vector_match: Smallest share of the distinct training words with a vector.
        contextual: Files of vectors for each token, such as elmo/{split}.npz.
        vectors_on_device: Whether all contextual vectors lie on the device; None: if
            they fit.
        pretrained: Folder of BERT's weights.
        num_shapes: Largest number of padded sizes; each compiles once.
    """

    split_sentences: bool = True  # as those who tag
    name: Annotated[str, OneOf(sorted(DATASETS))] = "sample"
    unit: Literal["sentence", "document"] = "sentence"
    dir: Text | None = None
    split_dev: Chance | None = None
    split_seed: Seed = 0
    format: Annotated[str, OneOf(FORMATS)] | None = None
    label_names: Text | None = None
    scheme: Annotated[str, OneOf((*schemes.SCHEMES, schemes.TAGS))] = "BIOES"
    min_count_without_vectors: Count | None = None
    vectors: Text | None = None
    standardise_vectors: bool = False
    min_vector_match: Share = 0.5
    contextual: Annotated[str, _BY_SPLIT] | None = None
    vectors_on_device: bool | None = None
    pretrained: Text | None = None
    num_shapes: Size = 5

    MORE: ClassVar = {  # how a vocabulary is built
        name: field
        for name, field in fields.of(vocabulary.build).items()
        if field.default is not fields.REQUIRED and name != "documents"
    }


@dataclasses.dataclass(frozen=True)
class Evaluation:
    """The options of the section `evaluation`.

    Attributes:
        constrained: Whether to forbid ill-formed labellings.
        rule: Rule for reading spans, for the best epoch and for the result.
    """

    constrained: bool = False
    rule: Annotated[str, OneOf(scoring.RULES)] = "conlleval"


@dataclasses.dataclass(frozen=True)
class Run:
    """The options at the top of a config.

    Attributes:
        seed: Seed of all random draws; with restarts, of the first.
        num_seeds: Number of restarts: this seed, the next one, and so on.
        restarts: How to train restarts: "together" in one program, or "in_turn";
            "auto": together on a GPU or TPU, in turn on a CPU, where one program is no
            faster.
        num_devices: Devices to use; None for all, but one on a CPU.
        num_epochs: Number of epochs; None for 2,000 steps, in 8 to 20 epochs; with
            few sentences, for 500, in up to 50.
        minutes: Time for the run on one process, which tries some steps and lowers
            num_epochs to what fits; if it is late, it stops after an epoch.
        patience: Epochs without a better dev score before training stops, counted from
            the first above 0; 0: never; None: 10, and at least 500 steps.
        batch_size: Sentences (or documents) in a step.
        num_blocks: Blocks of equally many sentences in a batch, whose gradients add up,
            so that only one needs memory; None for one block on an accelerator, and on
            a CPU for blocks of several sizes, which take the least time.
        pool: Batches whose sentences are sorted by length together before they are cut,
            against padding; 1 for batches that are plain random draws.
        deterministic: Whether a GPU adds in a fixed order, at some cost.
        tensorboard: Whether to write scalars for TensorBoard.
        init_from: A run to take the initial weights from.
    """

    seed: Seed = 0
    num_seeds: Size = 1
    restarts: Literal["auto", "together", "in_turn"] = "auto"
    num_devices: Size | None = None
    num_epochs: Size | None = 20
    minutes: Positive | None = None
    patience: Count | None = 0
    batch_size: Size = 10
    num_blocks: Size | None = None
    pool: Size = 1
    deterministic: bool = False
    tensorboard: bool = False
    init_from: Text | None = None
    data: Annotated[Options | None, Part(Data)] = None
    model: Annotated[Options | None, Part(models.Model)] = None
    objective: Annotated[Options | None, Part(Objective)] = None
    optimizer: Annotated[Options | None, Part(optimizers.Options)] = None
    evaluation: Annotated[Options | None, Part(Evaluation)] = None


def sections(config: Options | ConfigDict) -> Iterator[Section]:
    """Yields the sections of a config.

    InputError: one is missing, or a part has an unknown name.
    """
    for name, part in fields.parts(Run).items():
        options.section_of(f"--config.{name}", config.get(name), part)
    yield from options.sections("--config", config, Part(Run))


def values(config: Options) -> dict[str, Any]:
    """Returns options by path; those that a config does not say have their default."""
    return {
        section.flag(name): section.values.get(name, field.default)
        for section in options.sections("", config, Part(Run))
        for name, field in section.fields.items()
        if name in section.values or field.default is not fields.REQUIRED
    }


# --- Checks ---------------------------------------------------------------------------

_SIZES = {"num_labels": 9, "num_trained": 9, "num_chars": 9, "types": (0,) * 9}
_SIZES["grammar"] = ("BIO", *schemes.label_names("ABCD", "BIO"))
"""Stand for sizes that the data will give."""


def check(config: Options) -> None:
    """Checks all values of a config, each by itself and then together.

    Builds the model and its optimizer, but draws no weights and computes nothing.

    Raises:
        ValueError: An option is unknown, or its value wrong alone or beside another.
    """
    for section in sections(config):
        section.check()
    data, epochs = config["data"], config["num_epochs"]
    last_seed = config["seed"] + config["num_seeds"] - 1
    fields.check("the last seed of --config.num_seeds", last_seed, Seed)
    for option in ("dir", "pretrained"):
        if (folder := data.get(option)) and not Path(folder).is_dir():
            raise InputError(f"--config.data.{option}: there is no folder {folder}")
    model = models.build(
        path="--config.model",
        vector_sizes=(10**6, 1) if data.get("contextual") else None,
        encoder_sizes=_encoder_sizes(data.get("pretrained"), config.get("init_from")),
        **_SIZES,
        **config["model"],
    )
    _check_needs(config)
    tx = optimizers.build(config["optimizer"], 1, epochs or 1)
    params = models.shapes(model)["params"]
    jax.eval_shape(lambda params: tx.update(params, tx.init(params), params), params)


def _encoder_sizes(folder: str | None, old: str | None) -> pretrained.Sizes | None:
    """Returns the sizes of the pretrained encoder of a folder, or of an earlier run."""
    if folder or not old:
        return pretrained.sizes(folder) if folder else None
    with contextlib.suppress(OSError):  # a run that resumes needs it no more
        return dict(Workdir(old).vocabulary().encoder_sizes or ()) or None
    return {"vocab_size": 1}


def _check_needs(config: Options) -> None:
    """Raises InputError if an option is set without what it needs."""
    settings = values(config)
    parts = {path.rpartition(".")[0] for path in settings}
    vectors, bert = "model.representation.vectors", "model.representation.bert"
    is_alone = settings["num_seeds"] == 1 == jax.process_count()
    gives_scores = options.gives_scores(config["model"]["encoder"])
    lstms = [x for x in settings if re.fullmatch(r"model\.encoder\..*forget_bias", x)]
    # A head seq2seq scores labels by those before them.
    has_scores = settings["model.head.name"] != "seq2seq"
    old = "objective.retain", "objective.partial"
    of_scores = "objective.dropout_penalty", *old, "model.mc_dropout.num_samples"
    words = "data.train_words; --config.model.language_model=None leaves it out"
    for need, is_met, *flags in (
        ("one seed and one process", is_alone, "minutes"),
        ("data.dir", settings["data.dir"], "data.name=files"),
        (vectors, vectors in parts, "data.contextual"),
        (bert, bert in parts, "data.pretrained"),
        ("an encoder of scores, such as 'lan'", gives_scores, "model.head.name=scores"),
        ("an encoder with LSTMs, such as 'bilstm'", lstms, "objective.orthogonality"),
        ("init_from", settings["init_from"], *old),
        (words, settings["data.train_words"], "model.language_model.num_words"),
        ("another head than 'seq2seq'", has_scores, *of_scores, "data.unit=document"),
    ):
        for flag in flags:
            option, _, value = flag.partition("=")
            is_set = settings.get(option) == value if value else settings.get(option)
            if is_set and not is_met:
                raise InputError(f"--config.{flag} needs {need}")
