"""The options of a config, their allowed values, and the checks of a whole config.

Each option is declared once: as a field of a part's module, of the optimizer's or the
objective's, or here. Each has a flag (`jaxner.configuration`), and `check` checks all
values before a run reads or writes anything.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any

from jaxner import fields
from jaxner.data import schemes
from jaxner.data.batching import UNITS
from jaxner.data.formats import FORMATS
from jaxner.data.sources import OFFSETS, UNFIT
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
        patience: Epochs without a better dev score before training stops, counted from
            the first above 0; 0: never.
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
        offsets: What offsets of spans count; JavaScript's are in UTF-16.
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
        contextual: Files of vectors for each token, such as elmo/{split}.npz.
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
    offsets: Annotated[str, OneOf(OFFSETS)] = "characters"
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


def _choice(
    known: Iterable[str], default: str, meaning: str
) -> dict[str, fields.Field]:
    hint = Annotated[str, OneOf(sorted(known))]
    return {"name": fields.Field(hint, default, meaning)}


OPTIMIZER = _choice(optimizers.OPTIMIZERS, "sgd", "The optimizer.")
OPTIMIZER |= fields.of(optimizers.Options)
"""The options of the section `optimizer`, and of each of its `parts`."""


def sections(config: Any) -> Iterator[Section]:
    """Yields the sections of a config, a `ConfigDict` or the content of `config.json`.

    Raises:
        ValueError: A part has an unknown name.
    """
    inner = ("data", "model", "objective", "optimizer", "evaluation")
    yield Section("", config, fields.of(Run), dict.fromkeys(inner))
    data = _choice(DATASETS, "sample", "The data set.") | fields.of(Data)
    yield Section("data", config["data"], data)
    yield from options.sections("model", config["model"])
    yield Section("objective", config["objective"], fields.of(Objective))
    if "name" in (optimizer := config["optimizer"]):
        yield Section("optimizer", optimizer, OPTIMIZER, {"parts": None})
    for path, part in (optimizer.get("parts") or {}).items():
        yield Section(f"optimizer.parts.{path}", part, OPTIMIZER)
    yield Section("evaluation", config["evaluation"], fields.of(Evaluation))


# --- Checks ---------------------------------------------------------------------------

_NEEDED = dataclasses.MISSING
_ANY_SIZE = 10**6  # stands for sizes that the data will give


def check(config: Mapping[str, Any]) -> None:
    """Checks all values of a config, each by itself and then together.

    Raises:
        ValueError: An option is unknown, or its value wrong alone or beside another.
    """
    for section in sections(config):
        values, known = section.values, section.fields
        if unknown := sorted(values.keys() - known.keys() - section.inner.keys()):
            listed, flag = sorted({**known, **section.inner}), section.flag(unknown[0])
            raise InputError(f"Unknown option {flag}; known: {', '.join(listed)}")
        for name, field in known.items():
            if name in values:
                fields.check(section.flag(name), values[name], field.hint)
        if (kind := section.module) is not None:
            attributes = fields.of(kind)
            needed = [f.name for f in dataclasses.fields(kind) if f.default is _NEEDED]
            derived = dict.fromkeys({*needed} - {*attributes}, _ANY_SIZE)
            parts = {name: values[name] for name in attributes if name in values}
            try:
                fields.check_fields(kind(**parts, **derived))
            except ValueError as error:
                raise InputError(f"{section.flag()}: {error}") from None
    optimizers.build(config["optimizer"], 1, config["num_epochs"])
    for option in ("dir", "pretrained"):
        if (folder := config["data"].get(option)) and not Path(folder).is_dir():
            raise InputError(f"--config.data.{option}: there is no folder {folder}")
    for option, is_set, need, is_met in _needs(config):
        if is_set and not is_met:
            raise InputError(f"--config.{option} needs {need}")


def _needs(config: Mapping[str, Any]) -> Iterator[tuple[str, Any, str, Any]]:
    """Yields options, whether they are set, what they need then, and if it is there."""
    model, data, objective = config["model"], config["data"], config["objective"]
    parts, head, old = model["representation"], model["head"]["name"], "init_from"
    inputs = {name: parts.get(name) is not None for name in ("vectors", "bert")}
    has_input = any((parts.get("words"), parts.get("chars"), *inputs.values()))
    yield "data.name=files", data["name"] == "files", "data.dir", data["dir"]
    yield "model.representation", True, "words, chars, vectors or bert", has_input
    for part, option in (("vectors", "contextual"), ("bert", "pretrained")):
        place, file = f"model.representation.{part}", data.get(option)
        yield f"data.{option}", file, place, inputs[part]
        learns_on = part == "bert" and config.get(old)  # with the encoder of that run
        yield place, inputs[part], f"data.{option}", file or learns_on
    encoders = [*options.sections("", model["encoder"], options.MODEL.inner["encoder"])]
    gives_scores = "num_labels" in fields.names(encoders[-1].module)
    need = "an encoder of scores, such as 'lan'"
    yield "model.head.name=scores", head == "scores", need, gives_scores
    has_lstm = any(hasattr(section.module, "forget_bias") for section in encoders)
    is_set, need = objective.get("orthogonality"), "an encoder with LSTMs"
    yield "objective.orthogonality", is_set, f"{need}, such as 'bilstm'", has_lstm
    for option in ("retain", "partial"):
        yield f"objective.{option}", objective.get(option), old, config.get(old)
    # Its scores of labels depend on earlier labels.
    has_scores, drafts = head != "seq2seq", model.get("mc_dropout") or {}
    for option, is_set in (
        ("model.refinement", model.get("refinement") is not None),
        ("model.mc_dropout.num_samples", drafts.get("num_samples")),
        ("objective.dropout_penalty", objective.get("dropout_penalty")),
        ("objective.retain", objective.get("retain")),
        ("objective.partial", objective.get("partial")),
        ("data.unit=document", data["unit"] == "document"),
    ):
        yield option, is_set, "another head than 'seq2seq'", has_scores
