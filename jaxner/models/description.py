"""A model as JSON, and back: what `save` writes of a tagger that no config built."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import flax.linen as nn

from jaxner.models.mc_dropout import MCDropout

_LINEN = ("parent", "name")  # fields that Linen adds to every module


def describe(module: Any, known: Mapping[str, type]) -> Any:
    """Describes a module by its class and its fields.

    Args:
        module: A Linen module, or the value of one of its fields.
        known: The classes that a description may name.

    Returns:
        What JSON can hold.

    Raises:
        TypeError: A class is not among those that are known.

    Example:
        >>> class Own(nn.Module):
        ...     size: int
        >>> describe(Own(3), {"Own": Own})
        {'module': 'Own', 'size': 3}
    """
    if isinstance(module, (nn.Module, MCDropout)):
        kind = type(module).__name__
        if known.get(kind) is not type(module):
            raise TypeError(
                f"{kind} is a module of your own, which a folder cannot hold: give the "
                "model to `load`."
            )
        names = [f.name for f in dataclasses.fields(module) if f.name not in _LINEN]
        fields = {name: describe(getattr(module, name), known) for name in names}
        return {"module": kind, **fields}
    if isinstance(module, (list, tuple)):
        return [describe(part, known) for part in module]
    return module


def restore(description: Any, known: Mapping[str, type]) -> Any:
    """Makes the module that `describe` described.

    Raises:
        ValueError: A class or a field is unknown.

    Example:
        >>> class Own(nn.Module):
        ...     size: int
        >>> restore({"module": "Own", "size": 3}, {"Own": Own}).size
        3
    """
    if isinstance(description, list):
        return tuple(restore(part, known) for part in description)
    if not isinstance(description, dict):
        return description
    fields = dict(description)
    kind = fields.pop("module", None)
    if kind not in known:
        names = ", ".join(sorted(known))
        raise ValueError(f"Unknown module {kind!r} of a model; known: {names}")
    try:
        return known[kind](**{k: restore(v, known) for k, v in fields.items()})
    except TypeError as error:
        raise ValueError(f"{kind} of a model has other fields: {error}") from None
