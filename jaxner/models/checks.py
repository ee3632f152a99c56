"""Checks of what callers pass to a model: modules, weights, sentences and keys."""

from __future__ import annotations

import inspect
import os
import pkgutil
import sys
from collections.abc import Mapping

import jax.numpy as jnp
import numpy as np
from flax import linen as nn
from jax.core import Tracer
from jaxtyping import PyTree

from jaxner.arguments import expect
from jaxner.driver import check_key as check_key
from jaxner.errors import InputError
from jaxner.types import Autoregressive, Potentials, Sentence
from jaxner.wording import shown

CONTRACTS = {
    "representation": "a representation maps (sentence, *, train) to features [T, D]",
    "representation.chars": "a reader of characters maps (chars [U, C], *, train) to "
    "features [U, F]",
    "encoder": "an encoder maps (x [T, D], mask [T], *, train) to (features [T, H], "
    "{}), floats with zeros under padding",
    "head": "a head maps (x [T, H], *, train) to jaxner.types.Potentials",
}
"""What modules of one's own take and return."""


def check_model(model: object) -> None:
    """Raises TypeError unless a value is a Linen module."""
    is_module = isinstance(model, nn.Module)
    expect(is_module, "a model, which jaxner.build returns", model)


def check_inputs(
    model: object,
    weights: object,
    sentence: object,
    key: object,
    is_batch: bool = False,
) -> None:
    """Raises TypeError unless a model, weights, a sentence (or batch) and a key fit."""
    check_model(model)
    expectation = "the weights of a model, a dictionary with 'params' and 'frozen' as "
    is_right = isinstance(weights, Mapping) and "params" in weights
    expect(is_right, f"{expectation}jaxner.init returns it", weights)
    is_sentence = isinstance(sentence, Sentence)
    rank = jnp.ndim(sentence.words) if is_sentence else 0
    if rank != 1 + is_batch:
        kind, axes = ("batch", "[B, T]") if is_batch else ("sentence", "[T]")
        raise TypeError(
            f"Expected an encoded {kind}, words {axes}, got "
            f"{f'{rank} axes' if is_sentence else shown(sentence)}: call "
            f"jaxner.encode(tagger, {'[tokens]' if is_batch else 'tokens'}), and map "
            "over batches with jax.vmap."
        )
    if key is not None:
        check_key(key)


def check_labels(labels: object, batch: Sentence, num_labels: int | None) -> None:
    """Raises an error unless labels fit a batch; checks ranges only outside `jit`."""
    shape, dtype = getattr(labels, "shape", None), getattr(labels, "dtype", None)
    is_whole = dtype is not None and jnp.issubdtype(dtype, jnp.integer)
    if shape != batch.words.shape or not is_whole:
        content = shown(labels) if shape is None else f"{dtype} {list(shape)}"
        raise TypeError(
            f"Expected an array of label ids, integers {list(batch.words.shape)} as of "
            f"the batch's words, got {content}."
        )
    if isinstance(labels, Tracer) or isinstance(batch.mask, Tracer):
        return
    ids = np.asarray(labels)[np.asarray(batch.mask)]
    wrong = ids[(ids < 0) | (ids >= (num_labels or ids.max(initial=0) + 1))]
    if wrong.size:
        bound = "" if num_labels is None else f" to {num_labels - 1}"
        raise InputError(
            f"Expected label ids from 0{bound} at the tokens of the batch, got "
            f"{wrong[0]}; under padding any id will do, such as 0."
        )


def check_module(part: str, module: nn.Module) -> None:
    """Raises TypeError unless a module of one's own takes `train`."""
    takes = inspect.signature(type(module).__call__).parameters.values()
    if not any(p.name == "train" or p.kind == p.VAR_KEYWORD for p in takes):
        name, contract = type(module).__name__, CONTRACTS.get(part, "")
        raise TypeError(f"{name} as {part} needs the argument `train`: {contract}.")


def own_module(part: str, place: str) -> type[nn.Module]:
    """Returns the class of a module of one's own, at a place `package.module:Class`.

    It is also searched in the current folder. InputError: there is no such module.
    """
    folder = os.getcwd()
    is_new = folder not in sys.path and "" not in sys.path
    if is_new:  # only for this import: beside data may lie any jinja2.py
        sys.path.append(folder)
    try:
        kind = pkgutil.resolve_name(place)
    except (ImportError, AttributeError, ValueError) as error:
        raise InputError(f"{part} {place!r} cannot be imported: {error}") from None
    finally:
        if is_new:
            sys.path.remove(folder)
    if not (isinstance(kind, type) and issubclass(kind, nn.Module)):
        raise InputError(f"{part} {place!r} is not the class of a Linen module")
    return kind


def check_returned(part: str, module: object, value: PyTree, length: object) -> None:
    """Raises TypeError unless an encoder or a head returned what it has to."""
    wrong = [value]
    match value:
        case Potentials() | Autoregressive() if part == "head":
            wrong = []
        case (features, dict()) if part == "encoder":
            stages = features if isinstance(features, tuple) and features else value[:1]
            wrong = [x for x in stages if not _are_features(x, length)]
    for x in wrong:
        is_array, name = hasattr(x, "shape"), type(module).__name__
        content = f"{x.dtype} {list(x.shape)}" if is_array else type(x).__name__
        raise TypeError(f"{name} returned {content} for T={length}; {CONTRACTS[part]}.")


def _are_features(x: PyTree, length: object) -> bool:
    is_float = hasattr(x, "shape") and jnp.issubdtype(x.dtype, jnp.floating)
    is_symbol = not isinstance(length, int)  # of an export
    return is_float and x.ndim == 2 and (is_symbol or x.shape[0] == length)
