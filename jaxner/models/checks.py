"""Checks of what callers pass to a model: modules, weights, sentences and keys."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
from flax import linen as nn

from jaxner.types import Sentence


def check_key(key: Any) -> None:
    """Raises TypeError unless a value is a PRNG key, of the new or the old form."""
    dtype = getattr(key, "dtype", None)
    is_new = dtype is not None and jnp.issubdtype(dtype, jax.dtypes.prng_key)
    if not (is_new or (dtype == jnp.uint32 and jnp.ndim(key) > 0)):
        raise TypeError(f"Expected a PRNG key, such as jax.random.key(0), got {key!r}")


def check_model(model: Any) -> None:
    """Raises TypeError unless a value is a Linen module."""
    if not isinstance(model, nn.Module):
        raise TypeError(
            f"Expected a model, which jaxner.build returns, got {_shown(model)}."
        )


def check_weights(weights: Any) -> None:
    """Raises TypeError unless a value has the form of a model's weights."""
    if not isinstance(weights, Mapping) or "params" not in weights:
        is_mapping = isinstance(weights, Mapping)
        names = ", ".join(map(str, weights)) if is_mapping else ""
        its = f" with {names or 'nothing'}" if is_mapping else ""
        raise TypeError(
            "Expected the weights of a model, a dictionary with 'params' and 'frozen' "
            f"as jaxner.init returns it, got {_shown(weights)}{its}."
        )


def check_sentence(sentence: Any, is_batch: bool = False) -> None:
    """Raises TypeError unless a value is an encoded sentence, or a batch of them."""
    if not isinstance(sentence, Sentence):
        what = (
            "batch, jaxner.encode(params, [tokens])"
            if is_batch
            else ("sentence, jaxner.encode(params, tokens)")
        )
        raise TypeError(f"Expected an encoded {what}, got {_shown(sentence)}.")
    if is_batch and jnp.ndim(sentence.words) != 2:
        raise TypeError(
            "Expected an encoded batch, words of shape [B, T], got one sentence: call "
            "jaxner.encode(params, [tokens])."
        )


def check_labels(labels: Any, batch: Sentence) -> None:
    """Raises TypeError unless labels are ids, as many as a batch has tokens."""
    shape, dtype = getattr(labels, "shape", None), getattr(labels, "dtype", None)
    is_whole = dtype is not None and jnp.issubdtype(dtype, jnp.integer)
    if shape != batch.words.shape or not is_whole:
        got = _shown(labels) if shape is None else f"{dtype} {list(shape)}"
        raise TypeError(
            f"Expected an array of label ids, integers {list(batch.words.shape)} as of "
            f"the batch's words, got {got}; params.vocabulary.label_ids returns those "
            "of a sentence."
        )


def check_part(part: str, options: Any, known: Mapping[str, Any] | None = None) -> None:
    """Raises TypeError unless a part is given by options or by a Linen module."""
    if isinstance(options, (Mapping, nn.Module)):
        return
    names = f' with "name", one of {", ".join(sorted(known))}' if known else ""
    module = ", or a Linen module" if known or part == "representation" else ""
    raise TypeError(
        f"Expected {part} as a dictionary of options{names}{module}; got "
        f"{_shown(options)}."
    )


def _shown(value: Any) -> str:
    text, kind = repr(value), type(value).__name__
    is_short = len(text) <= 40 and "\n" not in text
    return "None" if value is None else f"{kind} {text}" if is_short else kind
