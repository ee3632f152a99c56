"""The options of a config, their allowed values, and the checks of a whole config.

Each option is declared once: as a field of a part's module, of the optimizer's or the
objective's, or here. Each has a flag (`jaxner.configuration`), and `check` checks all
values before a run reads or writes anything.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any

from jaxner import fields
from jaxner.data import schemes
from jaxner.data.batching import UNITS
from jaxner.data.formats import FORMATS, UNFIT
from jaxner.errors import InputError
from jaxner.evaluation import scoring
from jaxner.fields import Column, Count, Encoding, OneOf, Range, Seed, Share, Size
from jaxner.models import options
from jaxner.models.options import Section
from jaxner.training import optimizers
from jaxner.training.objectives import Objective

# Corpora whose labels are tags (parts of speech), not spans.
TAGGED = ("ud_ewt", "wsj")
DATASETS = ("sample", "conll2003", "wnut17", "ontonotes5", *TAGGED, "files")
RESTARTS = ("auto", "together", "in_turn")
"""Train restarts together in one program, or one after another; "auto": together on a
GPU or TPU, in turn on a CPU, where one program is no faster."""


@dataclasses.dataclass
class Run:
    """The options at the top of a config.

    Attributes:
        seed: Seed of all random draws; with restarts, of the first.
        num_seeds: Number of restarts: this seed, the next one, and so on.
        restarts: How restarts are trained; see `RESTARTS`.
        num_devices: Devices to use; None for all, but one on a CPU.
        num_epochs: Number of epochs.
        patience: Epochs without a better dev score before training stops; 0: never.
        batch_size: Sentences (or documents) in a step.
        num_blocks: Blocks of similar length in a batch, whose gradients add up, so that
            only one needs memory; None for 2 on a CPU and 1 on an accelerator.
        pool: Batches whose sentences are sorted by length together before they are cut,
            against padding; 1 for batches that are plain random draws.
        deterministic: Whether a GPU adds in a fixed order, at some cost.
        tensorboard: Whether to write scalars for TensorBoard.
        init_from: A run to take the initial weights from.
    """

    seed: Seed = 0
    num_seeds: Size = 1
    restarts: Annotated[str, OneOf(RESTARTS)] = "auto"
    num_devices: Size | None = None
    num_epochs: Size = 20
    patience: Count = 0
    batch_size: Size = 10
    num_blocks: Size | None = None
    pool: Size = 1
    deterministic: bool = False
    tensorboard: bool = False
    init_from: str | None = None


@dataclasses.dataclass
class Data:
    """The options of the section `data`, except `name`.

    Attributes:
        unit: What the model reads at once: sentences, or documents with separators.
        dir: A folder with the files, instead of a known name.
        split_dev: Share of train that becomes dev, without a dev file.
        split_seed: Seed of this draw.
        format: Format of the files; None: by their names.
        token_column: Column of the tokens, from 0; None: the format's.
        label_column: Column of the labels; in CoNLL-U, 3 is UPOS and 4 is XPOS.
        comments: How comment lines begin; None: there are none.
        encoding: Encoding of the text.
        unfit: What happens to spans that match no tokens.
        label_names: What numbers in place of labels stand for, as in `O,B-PER,I-PER`.
        scheme: Scheme of the model's labels; "tags" are labels without spans.
        lowercase: Whether to look up all words in lower case.
        lowercase_fallback: Whether to look up unknown words in lower case.
        zero_digits: Whether all digits are 0.
        unescape: Whether -LRB- is a bracket, as in treebanks.
        alphabet: The known characters; None: those of train.
        typed_unknowns: Whether unknown ASCII characters keep a type (upper, digit, …).
        train_words: Whether to train all word vectors; if not, only the unknown word's.
        min_count: Rarer training words without a vector are unknown.
        min_count_without_vectors: The same without `vectors`; None: as `min_count`.
        vectors: File of word vectors, or its name among the data.
        standardise_vectors: Whether to divide vectors by their standard deviation.
        min_vector_match: Smallest share of the distinct training words with a vector.
        contextual: Files of vectors for each token, such as elmo/{split}.hdf5.
        vectors_on_device: Whether these all lie on the device; None: if they fit.
        pretrained: Folder of BERT's weights.
        num_shapes: Largest number of padded sizes; each compiles once.
    """

    unit: Annotated[str, OneOf(UNITS)] = "sentence"
    dir: str | None = None
    split_dev: Annotated[float, Range(above=0, below=1)] | None = None
    split_seed: Seed = 0
    format: Annotated[str, OneOf(FORMATS)] | None = None
    token_column: Column | None = None
    label_column: Column | None = None
    comments: str | None = None
    encoding: Encoding = "utf-8"
    unfit: Annotated[str, OneOf(UNFIT)] = "error"
    label_names: str | None = None
    scheme: Annotated[str, OneOf((*schemes.SCHEMES, schemes.TAGS))] = "BIOES"
    lowercase: bool = False
    lowercase_fallback: bool = True
    zero_digits: bool = False
    unescape: bool = False
    alphabet: str | None = None
    typed_unknowns: bool = False
    train_words: bool = True
    min_count: Count = 1
    min_count_without_vectors: Count | None = None
    vectors: str | None = None
    standardise_vectors: bool = False
    min_vector_match: Share = 0.5
    contextual: str | None = None
    vectors_on_device: bool | None = None
    pretrained: str | None = None
    num_shapes: Size = 5


@dataclasses.dataclass
class Evaluation:
    """The options of the section `evaluation`.

    Attributes:
        constrained: Whether to forbid ill-formed labellings.
        rule: Rule for reading spans, for the best epoch and for the result.
    """

    constrained: bool = False
    rule: Annotated[str, OneOf(scoring.RULES)] = "conlleval"


OPTIMIZER = {
    "name": options.choice(optimizers.OPTIMIZERS, "sgd", "The optimizer."),
    **fields.of(optimizers.Options),
}
"""The options of the section `optimizer`, and of each of its `parts`."""


def sections(config: Any) -> Iterator[Section]:
    """Yields the sections of a config, a `ConfigDict` or the content of `config.json`.

    Raises:
        ValueError: A part has an unknown name.
    """
    inner = ("data", "model", "objective", "optimizer", "evaluation")
    yield Section("", config, fields.of(Run), inner)
    name = {"name": options.choice(DATASETS, "sample", "The data set.")}
    yield Section("data", config["data"], name | fields.of(Data))
    yield from options.model_sections(config["model"])
    yield Section("objective", config["objective"], fields.of(Objective))
    if "name" in (optimizer := config["optimizer"]):
        yield Section("optimizer", optimizer, OPTIMIZER, ("parts",))
    for path, part in (optimizer.get("parts") or {}).items():
        yield Section(f"optimizer.parts.{path}", part, OPTIMIZER)
    yield Section("evaluation", config["evaluation"], fields.of(Evaluation))


# --- Checks ---------------------------------------------------------------------------

_ANY_SIZE = 10**6  # stands for sizes that the data will give


def check(config: Mapping[str, Any]) -> None:
    """Checks all values of a config, each by itself and then together.

    Raises:
        ValueError: An option is unknown, or its value wrong alone or beside another.
    """
    for section in sections(config):
        known = section.fields
        for name in section.values.keys() - known.keys() - {*section.inner}:
            listed = ", ".join(sorted((*known, *section.inner)))
            raise InputError(f"Unknown option {section.flag(name)}; known: {listed}")
        for name, field in known.items():
            if name in section.values:
                fields.check(section.flag(name), section.values[name], field.hint)
        if section.module is not None:
            _make(section)
    optimizers.build(config["optimizer"], 1, config["num_epochs"])
    for message in (text for text, is_wrong in _combined(config) if is_wrong):
        raise InputError(f"--config.{message}")


def _make(section: Section) -> None:
    """Makes the module of a section, which checks its options together."""
    known = fields.of(section.module)
    values = {k: v for k, v in section.values.items() if k in known}
    derived = {
        field.name: _ANY_SIZE
        for field in dataclasses.fields(section.module)
        if field.default is dataclasses.MISSING and field.name not in known
    }
    try:
        fields.check_fields(section.module(**options.copied(values), **derived))
    except ValueError as error:
        raise InputError(f"{section.flag()}: {error}") from None


def _combined(config: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Yields what is wrong with options beside each other, and whether it is so."""
    model, data, objective = config["model"], config["data"], config["objective"]
    parts, head = model["representation"], model["head"]["name"]
    yield (
        "data.dir must be your folder, got none",
        (data["name"] == "files" and not data["dir"]),
    )
    for option in ("dir", "pretrained"):
        folder = data.get(option)
        is_wrong = folder and not Path(folder).is_dir()
        yield f"data.{option}: there is no folder {folder}", is_wrong
    yield (
        "model.representation needs words, chars, vectors or bert",
        (not any(map(parts.get, ("words", "chars", "vectors", "bert")))),
    )
    for part, option in (("vectors", "contextual"), ("bert", "pretrained")):
        has_part, has_file = parts.get(part) is not None, bool(data.get(option))
        learns_on = part == "bert" and bool(config.get("init_from"))
        is_there = has_file or learns_on  # from the old run
        yield f"model.representation.{part} needs data.{option}", has_part > is_there
        yield f"data.{option} needs model.representation.{part}", has_file > has_part
    encoders = list(options.encoder_sections("", model["encoder"]))
    yield (
        "model.head.name 'scores' needs an encoder of scores, such as 'lan'",
        (head == "scores" and "num_labels" not in fields.names(encoders[-1].module)),
    )
    yield (
        "objective.orthogonality needs an encoder with LSTMs, such as 'bilstm'",
        (
            objective.get("orthogonality")
            and not any(hasattr(section.module, "forget_bias") for section in encoders)
        ),
    )
    for option in ("retain", "partial"):
        is_wrong = objective.get(option) and not config.get("init_from")
        yield f"objective.{option} needs init_from", is_wrong
    # Its scores of labels depend on earlier labels.
    drafts = model.get("mc_dropout") or {}
    for option, is_set in (
        ("model.refinement", model.get("refinement") is not None),
        ("model.mc_dropout.num_samples", drafts.get("num_samples")),
        ("objective.dropout_penalty", objective.get("dropout_penalty")),
        ("objective.retain", objective.get("retain")),
        ("objective.partial", objective.get("partial")),
        ("data.unit=document", data["unit"] == "document"),
    ):
        yield (
            f"{option} needs another head than 'seq2seq'",
            (head == "seq2seq" and is_set),
        )
