"""Our systems, with the sizes of their configs for CoNLL-2003 and drawn weights.

Speed depends on neither vectors nor weights, so there are no vectors, and all words of
the training text are known and trained. This is the only module of the benchmarks that
knows how a tagger is built, trained and stored.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from configs import (
    cnn_bilstm_crf,
    cross_bilstm,
    grn,
    idcnn,
    ncrfpp,
    parallel_rnn,
    uanet,
)
from jaxner import models, tagging
from jaxner.data import vocab
from jaxner.data.batching import Batches
from jaxner.data.splits import Split
from jaxner.tagger import belongs_to
from jaxner.training import objectives, optim, prepare, step
from jaxner.training.corpus import Corpus
from jaxner.types import Sentence
from jaxner.workdir import Workdir

SYSTEMS: dict[str, Callable[[], Any]] = {
    "GRN": lambda: grn.get_config("conll2003"),
    "ID-CNN": lambda: idcnn.get_config("conll2003"),
    "ID-CNN-CRF": lambda: idcnn.get_config("conll2003,crf"),
    "CNN-BiLSTM-CRF": lambda: cnn_bilstm_crf.get_config("conll2003"),
    "BiLSTM-CRF": lambda: ncrfpp.get_config("conll2003,crf"),
    "Parallel RNN": lambda: parallel_rnn.get_config("conll2003"),
    "Att-BiLSTM-CNN": lambda: cross_bilstm.get_config("conll2003"),
    "Cross-BiLSTM-CNN": lambda: cross_bilstm.get_config("conll2003,model=cross"),
    "UANet": lambda: uanet.get_config("conll2003"),
}
SAME_SIZE = "CNN-BiLSTM-CRF"  # its sizes are those of the PyTorch peer
ONTONOTES_TYPES = (
    *("CARDINAL", "DATE", "EVENT", "FAC", "GPE", "LANGUAGE", "LAW", "LOC", "MONEY"),
    *("NORP", "ORDINAL", "ORG", "PERCENT", "PERSON", "PRODUCT", "QUANTITY", "TIME"),
    "WORK_OF_ART",
)
CONLL_TYPES = ("LOC", "MISC", "ORG", "PER")

# What --quick shrinks, where a config has it.
_SMALL = {
    "data.num_shapes": 1,
    "model.representation.words.dim": 8,
    "model.encoder.hidden_dim": 8,
    "model.encoder.first.hidden_dim": 5,
    "model.refinement.num_layers": 1,
    "model.refinement.num_heads": 2,
    "model.refinement.head_dim": 8,
}


def config_of(system: str, quick: bool = False) -> Any:
    """Returns the config of one of `SYSTEMS`, shrunk or as it is published."""
    return shrunk(SYSTEMS[system]()) if quick else SYSTEMS[system]()


def shrunk(config: Any) -> Any:
    """Makes a config small, so that all of a command can be tried in seconds."""
    for path, value in _SMALL.items():
        *parents, name = path.split(".")
        section = config
        for parent in parents:
            section = section.get(parent) if section is not None else None
        if section is not None and name in section:
            section[name] = value
    return config


def tagger(
    config: Any, train: Split, types: Sequence[str] | None = None
) -> tagging.Tagger:
    """Builds a tagger whose vocabulary is of a training split, and draws its weights.

    Args:
        config: Of the system.
        train: What words, characters and, without `types`, entity types are from.
        types: Entity types, if their number is to be another one.
    """
    options = config.data.to_dict()
    options |= {"vectors": None, "min_count": 1, "train_words": True}
    vocabulary, _ = prepare.build_vocabulary(options, train, None)
    if types is not None:
        vocabulary = with_types(vocabulary, types)
    model = tagging.build_model(vocabulary, config.model.to_dict())
    return tagging.Tagger(
        models.init(model, jax.random.key(config.seed)), model, vocabulary
    )


def with_types(vocabulary: vocab.Vocabulary, types: Sequence[str]) -> vocab.Vocabulary:
    """Returns a vocabulary with the labels of other types."""
    other, _ = vocab.build(
        [["word"]],
        types,
        scheme=vocabulary.scheme,
        documents=vocabulary.reads_documents,
    )
    return dataclasses.replace(vocabulary, label_names=other.label_names)


def with_rows(
    config: Any, params: tagging.Tagger, trained: int, frozen: int
) -> tagging.Tagger:
    """Returns a tagger whose word table has further rows, its weights drawn anew.

    Args:
        config: Of the system.
        params: Its tagger; all its words are trained.
        trained: Rows that are trained, at least as many as it has words.
        frozen: Rows that are not.

    Raises:
        ValueError: There are more words than trained rows.
    """
    words = params.vocabulary.words
    if trained < len(words):
        raise ValueError(
            f"Expected trained rows for all {len(words):,} words of the text, got "
            f"{trained:,}; take fewer sentences (--limit)"
        )
    more = tuple(f"word {i}" for i in range(trained + frozen - len(words)))
    vocabulary = dataclasses.replace(
        params.vocabulary, words=words + more, num_trained=trained
    )
    model = tagging.build_model(vocabulary, config.model.to_dict())
    return tagging.Tagger(
        models.init(model, jax.random.key(config.seed)), model, vocabulary
    )


def epoch_of(
    config: Any, train: Split, batch: int, types: Sequence[str] | None = None
) -> Callable[[], int]:
    """Returns what trains on a split once, and says how many tokens that were.

    Args:
        config: Of the system.
        train: The split.
        batch: Sentences in a batch.
        types: As in `tagger`; labels of other types are taken as those that are known.
    """
    params = tagger(config, train)
    sentences, labels = prepare.encode_split(train, params.vocabulary)
    if types is not None:
        params = tagger(config, train, types)
    batches = Batches.make(
        sentences,
        labels,
        batch_size=batch,
        num_blocks=config.num_blocks,
        num_shapes=config.data.num_shapes,
        chars=step.character_rows(params.model),
        unit=config.data.unit,
    )
    sizes = objectives.Sizes(batch, batches.mean_tokens)
    recipe = _recipe(config, params, batches.num_batches, sizes)
    on_device = Corpus(
        batches,
        recipe,
        params.weights["frozen"],
        seed=config.seed,
        steps_per_call=config.steps_per_call,
    )
    # The state is given up at each step, and the weights belong to `params`.
    state = step.init(jax.tree.map(jnp.array, params.weights["params"]), recipe.tx)
    epoch = 0

    def run() -> int:
        nonlocal state, epoch
        for new, _, _ in on_device.epoch(state, epoch):
            state = new
        jax.block_until_ready(state)
        epoch += 1
        return batches.num_tokens

    return run


def _recipe(
    config: Any, params: tagging.Tagger, num_batches: int, sizes: objectives.Sizes
) -> step.Recipe:
    tx = optim.build(config.optimizer.to_dict(), num_batches, config.num_epochs)
    objective = objectives.Objective.of(config.objective.to_dict())
    return step.Recipe(params.model, tx, objective, sizes)


def step_of(config: Any, params: tagging.Tagger, batch: Sentence) -> Any:
    """Compiles a training step for one batch.

    Returns:
        What XLA compiled, and what takes a step by it.
    """
    sizes = objectives.Sizes(1, 1)  # not used: a step of one's own divides by its own
    model, tx, objective, _ = _recipe(config, params, 1, sizes)
    frozen, key = params.weights["frozen"], jax.random.key(0)
    labels = np.zeros(batch.words.shape, np.int32)
    state = step.init(jax.tree.map(jnp.array, params.weights["params"]), tx)
    lowered = step.train_step.lower(
        model, tx, state, frozen, batch, labels, key, objective=objective
    )
    compiled = lowered.compile()

    def run() -> Any:
        nonlocal state
        state = compiled(state, frozen, batch, labels, key)
        return state

    return compiled, run


def tag_of(params: tagging.Tagger, batch: Sentence) -> Any:
    """Compiles the tagging of one encoded batch; returns as `step_of` does."""
    compiled = jax.jit(tagging.tag).lower(params, batch).compile()
    return compiled, functools.partial(compiled, params, batch)


def write_run(config: Any, params: tagging.Tagger, folder: Path) -> None:
    """Writes the folder of a run, which `jaxner.load` reads."""
    workdir = Workdir(folder)
    workdir.write_json("config.json", config.to_dict())
    workdir.write_text("vocabulary.json", params.vocabulary.to_json())
    about = belongs_to(params.vocabulary, config.model.to_dict())
    workdir.save_frozen(params.weights["frozen"], about)
    with workdir.best(about) as best:
        best.save(0, params.weights["params"], {"epoch": 0})


def batch_of(params: tagging.Tagger, text: Split, length: int, count: int) -> Sentence:
    """Encodes sentences of one length, of words drawn from a text.

    For a tagger of documents the separators add to the length.
    """
    words = sorted(text.words())
    drawn = np.random.default_rng(0).integers(0, len(words), (count, length))
    return tagging.encode(params, [[words[i] for i in row] for row in drawn])
