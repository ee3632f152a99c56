"""Sequence labelling in JAX: published taggers as one composable library.

Each name is imported when it is first asked for, so that commands begin at once.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from jaxner.analysis.heatmaps import attention as attention
    from jaxner.analysis.heatmaps import relations as relations
    from jaxner.data.batching import Batches as Batches
    from jaxner.data.vocab import Vocabulary as Vocabulary
    from jaxner.data.vocab import build as build_vocabulary  # noqa: F401
    from jaxner.dropout_passes import Uncertainty as Uncertainty
    from jaxner.dropout_passes import sample as sample
    from jaxner.dropout_passes import uncertainty as uncertainty
    from jaxner.entity import Entity as Entity
    from jaxner.entity import entities as entities
    from jaxner.entity_arrays import EntityArrays as EntityArrays
    from jaxner.entity_arrays import entity_types as entity_types
    from jaxner.models import apply as apply
    from jaxner.models import init as init
    from jaxner.probabilities import Labelling as Labelling
    from jaxner.probabilities import marginals as marginals
    from jaxner.probabilities import n_best as n_best
    from jaxner.tagger import Ensemble as Ensemble
    from jaxner.tagger import Tagger as Tagger
    from jaxner.tagger import build as build
    from jaxner.tagger import load as load
    from jaxner.tagger import save as save
    from jaxner.tagging import encode as encode
    from jaxner.tagging import tag as tag
    from jaxner.training.objectives import Objective as Objective
    from jaxner.training.objectives import batch_loss as loss  # noqa: F401

_HOMES = {
    "attention": "analysis.heatmaps",
    "relations": "analysis.heatmaps",
    "Batches": "data.batching",
    "Vocabulary": "data.vocab",
    "build_vocabulary": "data.vocab:build",
    "Uncertainty": "dropout_passes",
    "sample": "dropout_passes",
    "uncertainty": "dropout_passes",
    "Entity": "entity",
    "entities": "entity",
    "EntityArrays": "entity_arrays",
    "entity_types": "entity_arrays",
    "apply": "models",
    "init": "models",
    "Labelling": "probabilities",
    "marginals": "probabilities",
    "n_best": "probabilities",
    "Ensemble": "tagger",
    "Tagger": "tagger",
    "build": "tagger",
    "load": "tagger",
    "save": "tagger",
    "encode": "tagging",
    "tag": "tagging",
    "Objective": "training.objectives",
    "loss": "training.objectives:batch_loss",
}
"""The module of each name above, and its name there if that is another one."""


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        try:
            return importlib.import_module(f"jaxner.{name}")
        except ModuleNotFoundError as error:
            if error.name != f"jaxner.{name}":
                raise
        raise AttributeError(f"module 'jaxner' has no attribute {name!r}")
    module, _, there = _HOMES[name].partition(":")
    found = getattr(importlib.import_module(f"jaxner.{module}"), there or name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES})
