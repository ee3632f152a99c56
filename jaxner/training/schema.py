"""All options of a config: which there are, and what each may be.

Nothing is listed twice. The options of a part are the fields of its module, those of
the optimizer and the objective are of theirs, and the rest is declared here. Configs
have a flag for each (`jaxner.configuration.sections`), and `check` holds each value
against its field before a run reads or writes anything.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from typing import Annotated, Any

from jaxner import fields
from jaxner.data import schemes
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
UNITS = ("sentence", "document")
"""What is trained on and tagged as one sequence."""

RESTARTS = ("auto", "together", "in_turn")
"""Whether restarts are trained in one program, or one after the other; "auto": together
on a GPU or TPU, in turn on a CPU, which gains nothing by the former."""


@dataclasses.dataclass
class Run:
    """The options at the top of a config."""

    seed: Seed = 0
    num_seeds: Size = 1  # restarts: this seed, the next one, and so on
    # Restarts in one program, "together", or "in_turn"; "auto" takes accelerators for
    # the first, a CPU for the second.
    restarts: Annotated[str, OneOf(RESTARTS)] = "auto"
    num_devices: Size | None = None  # all; of a CPU, one
    num_epochs: Size = 20
    patience: Count = 0  # epochs without a better dev score before stopping; 0: never
    batch_size: Size = 10
    # Blocks of similar length that a batch is computed in; see jaxner.data.batching.
    # Their gradients are added, so that a batch needs the memory of one block. 2 on a
    # CPU, 1 on an accelerator, which takes several steps in a call: 8, else 1.
    num_blocks: Size | None = None
    steps_per_call: Size | None = None
    deterministic: bool = False  # whether a GPU's sums have one order, at some cost
    tensorboard: bool = False
    init_from: str | None = None  # a run whose weights to begin with


@dataclasses.dataclass
class Data:
    """The options of the section `data`, but for `name`."""

    unit: Annotated[str, OneOf(UNITS)] = "sentence"
    dir: str | None = None  # a folder instead of a known name
    # The share of train that is dev, where there is no dev file.
    split_dev: Annotated[float, Range(above=0, below=1)] | None = None
    split_seed: Seed = 0  # by which it is drawn
    format: Annotated[str, OneOf(FORMATS)] | None = None  # else by the file's name
    token_column: Column | None = None
    label_column: Column | None = None  # CoNLL-U: 3 UPOS, 4 XPOS
    comments: str | None = None  # how comment lines begin
    encoding: Encoding = "utf-8"
    unfit: Annotated[str, OneOf(UNFIT)] = "error"  # spans that do not meet tokens
    # What the model is trained on; "tags" are labels without spans.
    scheme: Annotated[str, OneOf((*schemes.SCHEMES, schemes.TAGS))] = "BIOES"
    lowercase: bool = False
    lowercase_fallback: bool = True  # unknown words stand for their lower case
    zero_digits: bool = False
    unescape: bool = False  # -LRB- is a bracket, as in treebanks
    alphabet: str | None = None  # known characters; else train's
    # Whether ASCII characters beyond the alphabet keep their type (upper, digit, …).
    typed_unknowns: bool = False
    train_words: bool = True  # or all vectors but the unknown word's stay as given
    min_count: Count = 1  # rarer training words without a vector are unknown
    # The same if no vectors are given; all words of your own files are known then.
    min_count_without_vectors: Count | None = None
    vectors: str | None = None  # a file, or a name in the data
    # Whether they are divided by the standard deviation of the vocabulary's vectors.
    standardise_vectors: bool = False
    min_vector_match: Share = 0.5  # of the distinct training words
    contextual: str | None = None  # elmo/{split}.hdf5
    # Whether contextual vectors lie on the device as a whole: if they fit.
    vectors_on_device: bool | None = None
    pretrained: str | None = None  # BERT's local folder
    num_shapes: Size = 5  # padded sizes at the most; each is compiled once


@dataclasses.dataclass
class Evaluation:
    """The options of the section `evaluation`."""

    constrained: bool = False  # whether ill-formed labellings are ruled out
    # How spans are read, for the choice of the best epoch and for the result:
    # "conlleval", or "strict" (well-formed spans alone).
    rule: Annotated[str, OneOf(rules.RULES)] = "conlleval"


OPTIMIZER = {
    "name": options.choice(optim.OPTIMIZERS, "sgd"),
    **fields.of(optim.Options),
}
"""The options of the section `optimizer`, and of each of its `parts`."""


def sections(config: Any) -> Iterator[Section]:
    """Lists the sections of a config.

    Args:
        config: A `ConfigDict`, or what was read from `config.json`.

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
    """Gives a config of an older version the options that it does not know.

    Args:
        config: What was read from `config.json`; stays as it is.
    """
    whole = options.copied(config)
    options.fill(sections(whole))
    return whole
