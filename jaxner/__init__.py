"""Sequence labelling in JAX: tag texts, train taggers, and build new ones.

    import jaxner

    tagger = jaxner.load("runs/grn")               # a run of `jaxner train`
    tagger.tag(["Rome", "fell"])                   # a label for each token
    tagger.entities("Ms Preston left Lakeside.")   # entities with probabilities
    tagger.labels                                  # the labels it knows

A tagger is one pytree. Functions of it take tokens as strings, or encoded arrays
under your own `jax.jit`, `jax.vmap` or mesh:

    train, evaluate              a tagger from examples or files; its scores
    load, save, export_onnx      taggers from and to folders; for other languages
    export, load_exported        taggers to and from one file
    from_pretrained,             taggers from and to transformers' folders
    export_transformers
    tag, encode                  labels of tokens; tokens as arrays
    entities, entity_types       entities of texts or tokens
    show                         a text drawn with its entities
    marginals, n_best            probabilities of labels; the best labellings
    sample, uncertainty          passes with dropout
    attention, relations         what a model looks at
    build_vocabulary, build,     your own model, parts or training loop
    init, apply, loss, Batches

`jaxner.inference` holds CRF inference for your own scores. `jaxner --help`
lists the commands.
"""

__version__ = "0.1.0"

# Each name is imported when it is first asked for, so that commands begin at once.
TYPE_CHECKING = False  # that of typing takes longer to import than this module
# ruff: noqa: I001
if TYPE_CHECKING:
    from typing import Any

    from jaxner.analysis.inside import attention, relations
    from jaxner.answers.entities import Entity, EntityArrays, entities, entity_types
    from jaxner.answers.highlights import show
    from jaxner.answers.probabilities import Labelling, Uncertainty, marginals
    from jaxner.answers.probabilities import n_best, sample, uncertainty
    from jaxner.data.batching import Batches
    from jaxner.data.vocabulary import Vocabulary, build as build_vocabulary
    from jaxner.examples import evaluate, train
    from jaxner.exported import load_exported
    from jaxner.exporting import export
    from jaxner.hub import export_transformers, from_pretrained
    from jaxner.models import apply, init
    from jaxner.onnx import export_onnx
    from jaxner.tagger import Ensemble, Tagger, build, load, save
    from jaxner.tagging import encode, tag
    from jaxner.training.objectives import Objective, batch_loss as loss

_NAMES = {
    "analysis.inside": "attention relations",
    "answers.entities": "Entity EntityArrays entities entity_types",
    "answers.highlights": "show",
    "answers.probabilities": "Labelling Uncertainty marginals n_best sample "
    "uncertainty",
    "data.batching": "Batches",
    "data.vocabulary": "Vocabulary build_vocabulary",
    "exported": "load_exported",
    "exporting": "export",
    "hub": "export_transformers from_pretrained",
    "models": "apply init",
    "onnx": "export_onnx",
    "tagger": "Ensemble Tagger build load save",
    "tagging": "encode tag",
    "examples": "evaluate train",
    "training.objectives": "Objective loss",
}
_HOMES = {name: home for home, names in _NAMES.items() for name in names.split()}
_ALIASES = {"build_vocabulary": "build", "loss": "batch_loss"}  # names in their modules

# Type checkers read no other form.
__all__ = ["Batches", "Ensemble", "Entity", "EntityArrays", "Labelling", "Objective"]
__all__ += ["Tagger", "Uncertainty", "Vocabulary", "apply", "attention", "build"]
__all__ += ["build_vocabulary", "encode", "entities", "entity_types", "evaluate"]
__all__ += ["export", "export_onnx", "export_transformers", "from_pretrained", "init"]
__all__ += ["load", "load_exported", "loss", "marginals", "n_best", "relations"]
__all__ += ["sample", "save", "show", "tag", "train", "uncertainty"]


def __getattr__(name: str) -> "Any":
    if name not in _HOMES:
        return submodule(__name__, name)
    package, _, place = f"jaxner.{_HOMES[name]}".rpartition(".")
    value = getattr(submodule(package, place), _ALIASES.get(name, name))
    globals()[name] = value
    return value


def submodule(package: str, name: str) -> "Any":
    """Returns a module of a package, imported when it is first asked for."""
    import importlib

    place = f"{package}.{name}"
    try:
        return importlib.import_module(place)
    except ModuleNotFoundError as error:
        if error.name != place:
            raise
    raise AttributeError(f"module {package!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    import pkgutil

    modules = {module.name for module in pkgutil.iter_modules(__path__)}
    modules = {name for name in modules if not name.startswith("_")}
    return sorted(modules | {*_HOMES, "__version__", "__doc__", "__name__", "__path__"})
