"""A trained tagger as one pytree, and how it is loaded from the folder of its run."""

from __future__ import annotations

import copy
import dataclasses
import functools
import os
from collections.abc import Mapping
from typing import Any

import jax
import numpy as np

from jaxner import models
from jaxner.data.vocab import Vocabulary
from jaxner.types import Weights
from jaxner.workdir import Workdir


@functools.partial(
    jax.tree_util.register_dataclass,
    data_fields=["weights"],
    meta_fields=["model", "vocabulary"],
)
@dataclasses.dataclass(frozen=True)
class Tagger:
    """A trained tagger: one pytree, whose leaves are the weights.

    Model and vocabulary are static and hashable, so `Tagger` passes through `jax.jit`,
    `jax.device_put` and `jax.tree.map`.

    Attributes:
        weights: Arrays.
        model: Computes potentials from them.
        vocabulary: Turns tokens into ids, and ids into labels.
    """

    weights: Weights
    model: models.Model
    vocabulary: Vocabulary

    def __repr__(self) -> str:
        count = sum(np.size(leaf) for leaf in jax.tree.leaves(self.weights))
        return f"Tagger({count:,} weights, {self.vocabulary!r})"


def build_model(vocabulary: Vocabulary, options: dict[str, Any]) -> models.Model:
    """Builds a model whose sizes are those of a vocabulary.

    Args:
        vocabulary: Gives the sizes.
        options: `representation`, `encoder` and `head`, as in `models.build`.

    Raises:
        ValueError: As `models.build`; or the head cannot label documents.
    """
    head = options["head"].get("name")
    if vocabulary.reads_documents and head == "seq2seq":
        raise ValueError(
            "A tagger of documents gives separators their label after the model has "
            "scored it, which head 'seq2seq' has no scores for; take 'softmax' or 'crf'"
        )
    return models.build(
        num_labels=len(vocabulary.label_names),
        num_trained_words=vocabulary.num_trained,
        num_frozen_words=len(vocabulary.words) - vocabulary.num_trained,
        num_chars=len(vocabulary.chars),
        char_types=vocabulary.char_types,
        vector_sizes=vocabulary.vector_sizes,
        encoder_sizes=dict(vocabulary.encoder_sizes or ()) or None,
        separators=vocabulary.reads_documents,
        singletons=vocabulary.singletons,
        **options,
    )


def load(
    workdir: str | os.PathLike[str], changes: Mapping[str, Any] | None = None
) -> Tagger:
    """Loads the best checkpoint of a run.

    Args:
        workdir: The folder that `train.py` wrote.
        changes: Options of the model that are to differ from the run's config, such as
            `{"encoder.then.keep": "hidden"}`; the weights must stay as they are.

    Returns:
        The tagger, on the default device.

    Raises:
        FileNotFoundError: The folder holds no run, or no checkpoint yet.
        ValueError: A change is not one of an option, or needs other weights.

    Example:
        >>> load("runs/grn").vocabulary.scheme
        'BIOES'
    """
    folder = Workdir(workdir)
    config, vocabulary = folder.read_json("config.json"), folder.vocabulary()
    model = build_model(vocabulary, config["model"])
    like = jax.eval_shape(functools.partial(models.init, model, 0))
    if changes:
        model = build_model(vocabulary, _changed(config["model"], changes))
        if jax.eval_shape(functools.partial(models.init, model, 0)) != like:
            raise ValueError(f"{dict(changes)} needs other weights than the run has.")
    with folder.best(read_only=True) as best:
        params, _ = best.restore(like["params"])
    weights = {"params": params, "frozen": folder.load_frozen(like["frozen"])}
    return Tagger(weights, model, vocabulary)


def _changed(options: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """Sets options that are named by their path, as on the command line."""
    changed = copy.deepcopy(dict(options))
    for path, value in changes.items():
        *parents, name = path.split(".")
        section: Any = changed
        for parent in parents:
            section = section.get(parent) if isinstance(section, dict) else None
        if not isinstance(section, dict) or not (parents or name in section):
            raise ValueError(f"The model has no section for the option {path!r}.")
        if isinstance(section.get(name), dict) and not isinstance(value, Mapping):
            raise ValueError(f"{path!r} is a section: set one of its options.")
        section[name] = value
    return changed
