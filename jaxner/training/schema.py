"""The options of a config, and their allowed values.

Each option is declared once. The options of a part are the fields of its module, those
of the optimizer and the objective are fields of theirs, and this module declares the
rest. Configs have a flag for each option (`jaxner.configuration.sections`), and
`checks.check` checks each value before a run reads or writes anything.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from typing import Annotated, Any

from jaxner import fields
from jaxner.data import schemes
from jaxner.data.batching import UNITS
from jaxner.data.readers import FORMATS
from jaxner.data.readers.spans import UNFIT
from jaxner.evaluation import rules
from jaxner.fields import Column, Count, Encoding, OneOf, Range, Seed, Share, Size
from jaxner.models import options
from jaxner.models.options import Section
from jaxner.training import optim
from jaxner.training.objectives import Objective

# Corpora whose labels are tags (parts of speech), not spans.
TAGGED = ("ud_ewt", "wsj")
DATASETS = ("sample", "conll2003", "wnut17", "ontonotes5", *TAGGED, "files")
RESTARTS = ("auto", "together", "in_turn")
"""Train restarts together in one program, or one after another; "auto": together on a
GPU or TPU, in turn on a CPU, where one program is no faster."""


@dataclasses.dataclass
class Run:
    """The options at the top of a config."""

    seed: Seed = 0
    num_seeds: Size = 1  # restarts: this seed, the next one, and so on
    restarts: Annotated[str, OneOf(RESTARTS)] = "auto"
    num_devices: Size | None = None  # None: all, but one on a CPU
    num_epochs: Size = 20
    patience: Count = 0  # epochs without a better dev score before stopping; 0: never
    batch_size: Size = 10
    # Number of blocks of similar length in a batch; see jaxner.data.batching. Adding
    # their gradients needs the memory of one block only. None: 2 on a CPU, 1 on an
    # accelerator, where a call takes 8 steps (1 on a CPU).
    num_blocks: Size | None = None
    steps_per_call: Size | None = None
    deterministic: bool = False  # whether a GPU adds in a fixed order, at some cost
    tensorboard: bool = False
    init_from: str | None = None  # a run with the initial weights


@dataclasses.dataclass
class Data:
    """The options of the section `data`, except `name`."""

    unit: Annotated[str, OneOf(UNITS)] = "sentence"
    dir: str | None = None  # a folder instead of a known name
    # The share of train that becomes dev, without a dev file.
    split_dev: Annotated[float, Range(above=0, below=1)] | None = None
    split_seed: Seed = 0  # seed of this draw
    format: Annotated[str, OneOf(FORMATS)] | None = None  # else by the file's name
    token_column: Column | None = None
    label_column: Column | None = None  # CoNLL-U: 3 UPOS, 4 XPOS
    comments: str | None = None  # prefix of comment lines
    encoding: Encoding = "utf-8"
    unfit: Annotated[str, OneOf(UNFIT)] = "error"  # for spans that match no tokens
    # The scheme of the model's labels; "tags" are labels without spans.
    scheme: Annotated[str, OneOf((*schemes.SCHEMES, schemes.TAGS))] = "BIOES"
    lowercase: bool = False
    lowercase_fallback: bool = True  # look up unknown words in lower case
    zero_digits: bool = False
    unescape: bool = False  # -LRB- is a bracket, as in treebanks
    alphabet: str | None = None  # known characters; else train's
    # Whether ASCII characters beyond the alphabet keep their type (upper, digit, …).
    typed_unknowns: bool = False
    train_words: bool = True  # if not, trains only the unknown word's vector
    min_count: Count = 1  # rarer training words without a vector are unknown
    # The same without vectors; None: all words of your own files are known.
    min_count_without_vectors: Count | None = None
    vectors: str | None = None  # a file, or a name in the data
    # Whether to divide them by the standard deviation of the vocabulary's vectors.
    standardise_vectors: bool = False
    min_vector_match: Share = 0.5  # of the distinct training words
    contextual: str | None = None  # elmo/{split}.hdf5
    # Whether to put all contextual vectors on the device; None: if they fit.
    vectors_on_device: bool | None = None
    pretrained: str | None = None  # BERT's local folder
    num_shapes: Size = 5  # maximum number of padded sizes; each compiles once


@dataclasses.dataclass
class Evaluation:
    """The options of the section `evaluation`."""

    constrained: bool = False  # whether to forbid ill-formed labellings
    # Rule for reading spans, for the choice of the best epoch and for the result.
    rule: Annotated[str, OneOf(rules.RULES)] = "conlleval"


OPTIMIZER = {
    "name": options.choice(optim.OPTIMIZERS, "sgd"),
    **fields.of(optim.Options),
}
"""The options of the section `optimizer`, and of each of its `parts`."""


def sections(config: Any) -> Iterator[Section]:
    """Yields the sections of a config.

    Args:
        config: A `ConfigDict`, or the content of `config.json`.

    Raises:
        ValueError: A part has an unknown name.
    """
    inner = ("data", "model", "objective", "optimizer", "evaluation")
    yield Section("", config, fields.of(Run), inner)
    name = {"name": options.choice(DATASETS, "sample")}
    yield Section("data", config["data"], name | fields.of(Data))
    yield from options.model_sections(config["model"])
    yield Section("objective", config["objective"], fields.of(Objective))
    if "name" in (optimizer := config["optimizer"]):
        yield Section("optimizer", optimizer, OPTIMIZER, ("parts",))
    for path, part in (optimizer.get("parts") or {}).items():
        yield Section(f"optimizer.parts.{path}", part, OPTIMIZER)
    yield Section("evaluation", config["evaluation"], fields.of(Evaluation))


def completed(config: Mapping[str, Any]) -> dict[str, Any]:
    """Returns a config of an earlier version, with the options added since.

    Args:
        config: The content of `config.json`; stays unchanged.
    """
    whole = options.copied(config)
    options.fill(sections(whole))
    return whole
