"""Modules of one's own: how they are found, what they take and what they return."""

from __future__ import annotations

import inspect
import os
import pkgutil
import sys
from importlib.machinery import PathFinder
from pathlib import Path

import jax.numpy as jnp
from flax import linen as nn
from jaxtyping import PyTree

from jaxner import inference, outputs
from jaxner.errors import InputError
from jaxner.types import Autoregressive, Potentials

CONTRACTS = {
    "representation": "a representation maps (sentence, *, train) to features [T, D]",
    "chars": "a reader of characters maps (chars [U, C], *, train) to features [U, F]",
    "encoder": "an encoder maps (x [T, D], mask [T], *, train) to (features [T, H], "
    "{}), floats with zeros under padding",
    "head": "a head maps (x [T, H], *, train) to jaxner.types.Potentials",
}
"""What modules of one's own take and return."""


def check_module(path: str, part: str, module: nn.Module) -> None:
    """Raises an error unless a module of one's own may be a part, and takes `train`."""
    name = type(module).__name__
    if part not in CONTRACTS:
        raise InputError(f"{path} takes options, not your module {name}")
    takes = inspect.signature(type(module).__call__).parameters.values()
    if not any(p.name == "train" or p.kind == p.VAR_KEYWORD for p in takes):
        contract = CONTRACTS[part]
        raise TypeError(f"{name} as {path} needs the argument `train`: {contract}.")


def own_module(part: str, place: str) -> type[nn.Module]:
    """Returns the class of a module of one's own, at a place `package.module:Class`.

    It is also searched in the current folder. InputError: there is no such module, or
    its code lies in a run, which a stranger may have made.
    """
    folder = os.getcwd()
    is_new = folder not in sys.path and "" not in sys.path
    if is_new:  # only for this import: beside data may lie any jinja2.py
        sys.path.append(folder)
    try:
        path: list[str] | None = None
        for name in place.partition(":")[0].split("."):  # without importing any
            spec = PathFinder.find_spec(name, path)
            if spec is None:
                break
            path = [*(spec.submodule_search_locations or ())]
            parents = Path(spec.origin).absolute().parents if spec.origin else ()
            if run := next(filter(outputs.is_run, parents), None):
                message = f"{part} {place!r} lies in the run {run}, whose code "
                raise InputError(f"{message}jaxner never runs")
        kind = pkgutil.resolve_name(place)
    except InputError:
        raise
    except (ImportError, AttributeError, ValueError) as error:
        remedy = "its folder has to be the current one, or in PYTHONPATH"
        message = f"{part} {place!r} cannot be imported: {error}; {remedy}"
        raise InputError(message) from None
    finally:
        if is_new:
            sys.path.remove(folder)
    if not (isinstance(kind, type) and issubclass(kind, nn.Module)):
        raise InputError(f"{part} {place!r} is not the class of a Linen module")
    return kind


def check_returned(part: str, module: object, value: PyTree, length: object) -> None:
    """Raises an error unless a module returned what its part has to, for each token."""
    wrong = [value]
    match value:
        case _ if part not in ("encoder", "head"):
            wrong = [] if _are_features(value, length) else [value]
        case Potentials() | Autoregressive() if part == "head":
            try:
                inference.check(value)
            except ValueError as error:
                raise InputError(f"{type(module).__name__} returned: {error}") from None
            wrong = []
        case (features, dict()) if part == "encoder":
            stages = features if isinstance(features, tuple) and features else value[:1]
            wrong = [x for x in stages if not _are_features(x, length)]
    for x in wrong:
        is_array, name = hasattr(x, "shape"), type(module).__name__
        content = f"{x.dtype} {list(x.shape)}" if is_array else type(x).__name__
        size = f"{'U' if part == 'chars' else 'T'}={length}"
        raise TypeError(f"{name} returned {content} for {size}; {CONTRACTS[part]}.")


def _are_features(x: PyTree, length: object) -> bool:
    is_float = hasattr(x, "shape") and jnp.issubdtype(x.dtype, jnp.floating)
    is_symbol = not isinstance(length, int)  # of an export
    return is_float and x.ndim == 2 and (is_symbol or x.shape[0] == length)
