"""Models as JSON and back, for saved taggers that were built without a config."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import flax.linen as nn

from jaxner.models.mc_dropout import MCDropout

_LINEN = ("parent", "name")  # fields that Linen adds to every module


def describe(module: Any, known: Mapping[str, type]) -> Any:
    """Returns a description of a module: its class and fields, as JSON values.

    Args:
        module: A Linen module, or the value of a field.
        known: Classes that a description may name.

    Returns:
        Values that JSON can hold.

    Raises:
        TypeError: A class is not in `known`.

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
                f"{kind} is your own module, and a folder holds no code: pass the "
                "model to `load`"
            )
        names = [f.name for f in dataclasses.fields(module) if f.name not in _LINEN]
        fields = {name: describe(getattr(module, name), known) for name in names}
        return {"module": kind, **fields}
    if isinstance(module, (list, tuple)):
        return [describe(part, known) for part in module]
    return module


def restore(description: Any, known: Mapping[str, type]) -> Any:
    """Returns the module of a description by `describe`.

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
