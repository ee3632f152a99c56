"""The sections of a run's config, with all of their options as flags.

Which options there are, and their defaults, `jaxner.training.schema` says: for a part
of a model, the fields of its module. A config writes down only what differs.
"""

from __future__ import annotations

from typing import Any

from ml_collections import ConfigDict, FieldReference

from jaxner.models import options
from jaxner.models.options import Section
from jaxner.training import schema
from jaxner.training.schema import DATASETS as DATASETS
from jaxner.training.schema import TAGGED as TAGGED


def base(dataset: str) -> Any:
    """Returns the sections of a run that do not depend on the system.

    Args:
        dataset: One of `DATASETS`.

    Raises:
        ValueError: The data set is unknown.
    """
    if dataset not in DATASETS:
        raise ValueError(
            f"Unknown data set {dataset!r}; known: {', '.join(DATASETS)}. 'files' are "
            "your own, in --config.data.dir=FOLDER."
        )
    scheme = "tags" if dataset in TAGGED else "BIOES"
    config: Any = ConfigDict({"data": {"name": dataset, "scheme": scheme}})
    config.model = {"mc_dropout": {}}
    for name in ("objective", "optimizer", "evaluation"):
        config[name] = ConfigDict()
    if dataset == "files":  # without vectors, rare words are known, too
        config.data.min_count_without_vectors = 1
    return complete(config)


def complete(config: Any) -> Any:
    """Adds to each section of a config the options that it does not say.

    So that there is a flag for each. Options that are None, or may be of several types,
    take a value of their type from the command line.

    Returns:
        The config, changed in place.
    """
    for section in list(schema.sections(config)):
        _complete(section)
    return config


def _complete(section: Section) -> None:
    for name, field in section.fields.items():
        value = section.values.get(name, field.default)
        if field.kind is float and isinstance(value, int):
            value = float(value)
        if isinstance(value, list):
            value = tuple(value)
        if value is None or field.kind is object:
            value = FieldReference(value, field_type=field.kind)
        if name in section.values:
            del section.values[name]  # else it keeps its type
        section.values[name] = value


def part(of: str, **given: Any) -> Any:
    """Returns the section of a part of a model.

    Args:
        of: "encoder", "head", "mc_dropout", "refinement" or "representation".
        **given: Those that are not to be the module's own defaults.

    Example:
        >>> part("encoder", name="grn", relation="fusion").context
        'all'
    """
    model = ConfigDict({of: given})
    for section in list(options.model_sections(model)):
        _complete(section)
    return model[of]
