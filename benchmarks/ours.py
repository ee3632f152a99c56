"""Our systems, with the sizes of their configs for CoNLL-2003 and random weights.

Speed depends neither on vectors nor on weights, so the benchmarks use no vectors, and
train all words of the training text. Only this benchmark module builds, trains and
stores taggers.
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
from jaxner.training import cluster, objectives, optim, prepare, step
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
SAME_SIZE = "CNN-BiLSTM-CRF"  # same sizes as the PyTorch peer
ONTONOTES_TYPES = (
    *("CARDINAL", "DATE", "EVENT", "FAC", "GPE", "LANGUAGE", "LAW", "LOC", "MONEY"),
    *("NORP", "ORDINAL", "ORG", "PERCENT", "PERSON", "PRODUCT", "QUANTITY", "TIME"),
    "WORK_OF_ART",
)
CONLL_TYPES = ("LOC", "MISC", "ORG", "PER")

# Config values for --quick.
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
    """Returns the config of one of `SYSTEMS`, as published or shrunk."""
    return shrunk(SYSTEMS[system]()) if quick else SYSTEMS[system]()


def shrunk(config: Any) -> Any:
    """Returns a small version of a config, for trying a command in seconds."""
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
    """Returns a tagger with the vocabulary of a training split and random weights.

    Args:
        config: Config of the system.
        train: Split that provides words, characters and, without `types`, entity types.
        types: Entity types, to change their number.
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
    """Returns a tagger with more rows in its word table and new random weights.

    Args:
        config: Config of the system.
        params: Its tagger, which trains all words.
        trained: Number of trained rows, at least the number of words.
        frozen: Number of frozen rows.

    Raises:
        ValueError: `trained` is below the number of words.
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
    config: Any,
    train: Split,
    batch: int,
    types: Sequence[str] | None = None,
    place: cluster.Placement = cluster.ALONE,
) -> Callable[[], int]:
    """Returns a function that trains on a split once and returns its tokens.

    Args:
        config: Config of the system.
        train: The split.
        batch: Sentences in a batch.
        types: As in `tagger`; labels of other types map to known types.
        place: Devices, and restarts in one program, whose tokens all count.
    """
    params = tagger(config, train)
    sentences, labels = prepare.encode_split(train, params.vocabulary)
    if types is not None:
        params = tagger(config, train, types)
    batches = _batches(config, params, sentences, labels, batch, place)
    recipe = _recipe(
        config,
        params,
        batches.num_batches,
        objectives.Sizes(batch, batches.mean_tokens),
    )
    on_device = Corpus(
        batches,
        recipe,
        params.weights["frozen"],
        seed=range(place.num_seeds) if place.num_seeds else config.seed,
        place=place,
    )
    state = place.state(_state_of(params, recipe, place.num_seeds))
    epoch = 0

    def run() -> int:
        nonlocal state, epoch
        for new, _ in on_device.epoch(state, epoch):
            state = new
        jax.block_until_ready(state)
        epoch += 1
        return batches.num_tokens * max(place.num_seeds, 1)

    return run


def _batches(config, params, sentences, labels, batch, place) -> Batches:
    """Returns how a text is cut into batches."""
    return Batches.make(
        sentences,
        labels,
        batch_size=batch,
        num_blocks=cluster.blocks_of(config),
        num_shapes=config.data.num_shapes,
        chars=step.character_rows(params.model),
        unit=config.data.unit,
        parts=place.num_parts,
    )


def _state_of(params: tagging.Tagger, recipe: step.Recipe, num_seeds: int) -> Any:
    """Returns the state before the first step, of all restarts if there are any."""

    def begin(weights):
        return step.init(weights, recipe.tx)

    # The state is given up at each step, and the weights belong to `params`.
    weights = jax.tree.map(jnp.array, params.weights["params"])
    if not num_seeds:
        return begin(weights)
    stacked = jax.tree.map(lambda a: jnp.stack([a] * num_seeds), weights)
    return jax.vmap(begin)(stacked)


def _recipe(
    config: Any, params: tagging.Tagger, num_batches: int, sizes: objectives.Sizes
) -> step.Recipe:
    tx = optim.build(config.optimizer.to_dict(), num_batches, config.num_epochs)
    objective = objectives.Objective.of(config.objective.to_dict())
    return step.Recipe(params.model, tx, objective, sizes)


def step_of(config: Any, params: tagging.Tagger, batch: Sentence) -> Any:
    """Returns a compiled training step for one batch, and a function that runs it.

    Returns:
        The program compiled by XLA, and a function that takes a step with it.
    """
    sizes = objectives.Sizes(1, 1)  # unused here
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
    """Returns the compiled tagging of an encoded batch, and a function that runs it."""
    compiled = jax.jit(tagging.tag).lower(params, batch).compile()
    return compiled, functools.partial(compiled, params, batch)


def write_run(config: Any, params: tagging.Tagger, folder: Path) -> None:
    """Writes a run folder for `jaxner.load`."""
    workdir = Workdir(folder)
    workdir.write_json("config.json", config.to_dict())
    workdir.write_text("vocabulary.json", params.vocabulary.to_json())
    about = belongs_to(params.vocabulary, config.model.to_dict())
    workdir.save_frozen(params.weights["frozen"], about)
    with workdir.best(about) as best:
        best.save(0, params.weights["params"], {"epoch": 0})


def batch_of(params: tagging.Tagger, text: Split, length: int, count: int) -> Sentence:
    """Returns encoded sentences of one length, with random words of a text.

    For a tagger of documents, separators add to the length.
    """
    words = sorted(text.words())
    drawn = np.random.default_rng(0).integers(0, len(words), (count, length))
    return tagging.encode(params, [[words[i] for i in row] for row in drawn])
