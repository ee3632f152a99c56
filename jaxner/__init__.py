"""Sequence labelling in JAX: published taggers as one composable library.

Each name is imported when it is first asked for, so that commands begin at once.
"""

TYPE_CHECKING = False  # that of typing takes longer to import than this module
if TYPE_CHECKING:
    from typing import Any

    from jaxner.analysis.inside import attention as attention
    from jaxner.analysis.inside import relations as relations
    from jaxner.answers.dropout_passes import Uncertainty as Uncertainty
    from jaxner.answers.dropout_passes import sample as sample
    from jaxner.answers.dropout_passes import uncertainty as uncertainty
    from jaxner.answers.entity import Entity as Entity
    from jaxner.answers.entity import entities as entities
    from jaxner.answers.entity_arrays import EntityArrays as EntityArrays
    from jaxner.answers.entity_arrays import entity_types as entity_types
    from jaxner.answers.probabilities import Labelling as Labelling
    from jaxner.answers.probabilities import marginals as marginals
    from jaxner.answers.probabilities import n_best as n_best
    from jaxner.data.batching import Batches as Batches
    from jaxner.data.vocabulary import Vocabulary as Vocabulary
    from jaxner.data.vocabulary import build as build_vocabulary  # noqa: F401
    from jaxner.models import apply as apply
    from jaxner.models import init as init
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
    "attention": "analysis.inside",
    "relations": "analysis.inside",
    "Batches": "data.batching",
    "Vocabulary": "data.vocabulary",
    "build_vocabulary": "data.vocabulary:build",
    "Uncertainty": "answers.dropout_passes",
    "sample": "answers.dropout_passes",
    "uncertainty": "answers.dropout_passes",
    "Entity": "answers.entity",
    "entities": "answers.entity",
    "EntityArrays": "answers.entity_arrays",
    "entity_types": "answers.entity_arrays",
    "apply": "models",
    "init": "models",
    "Labelling": "answers.probabilities",
    "marginals": "answers.probabilities",
    "n_best": "answers.probabilities",
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

__all__ = list(_HOMES)  # pyright: ignore[reportUnsupportedDunderAll]


def __getattr__(name: str) -> "Any":
    import importlib

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
