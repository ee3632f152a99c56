"""The inside of encoders: relations and attention weights.

Sources: Chen et al. (2019), Figure 4, for relations; Li, Fu and Ma (2020), the
attention heat maps.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from jaxner import driver, models
from jaxner.arguments import check_tagger, expect
from jaxner.data import batching
from jaxner.errors import InputError
from jaxner.tagger import Ensemble, Tagger
from jaxner.types import Sentence, Vectors, batch_axes


def relations(
    tagger: Tagger, tokens: Sequence[str], *, vectors: Vectors = None
) -> Float[np.ndarray, "T T"]:
    """Returns how strongly tokens relate to each other (Chen et al., 2019, Figure 4).

    For tokens i (row) and j: how much j contributes to the features of i, from 0 to 1;
    see `models.relation_scores`. `vectors` are as in `tag`.

    Raises:
        InputError: The encoder is no GRN with a relation layer.

    Example:
        >>> from jaxner import load
        >>> relations(load("runs/grn"), ["Rome", "is", "old"]).shape
        (3, 3)
    """
    if (scores := maps(tagger, tokens, vectors=vectors).get("relations")) is None:
        raise InputError(
            "This tagger has no relation layer; relations need the encoder 'grn' with "
            "a relation other than 'none'"
        )
    return scores


def attention(
    tagger: Tagger, tokens: Sequence[str], *, vectors: Vectors = None
) -> Float[np.ndarray, "M T T"]:
    """Returns the weights of each of `M` heads of self-attention (Li, Fu and Ma, 2020).

    For each head, how much of token i's (row) context comes from token j; each row sums
    to 1. Takes what `relations` takes.

    Raises:
        InputError: The encoder has no attention.

    Example:
        >>> from jaxner import load
        >>> attention(load("runs/att"), ["Rome", "is", "old"]).shape
        (5, 3, 3)
    """
    if (weights := maps(tagger, tokens, vectors=vectors).get("attention")) is None:
        raise InputError(
            "This tagger has no attention; heat maps of attention need the encoder "
            "'attention', for example at the end of a chain"
        )
    return weights


def maps(
    tagger: Tagger, tokens: Sequence[str], *, vectors: Vectors = None
) -> dict[str, np.ndarray]:
    """Returns the maps of a sentence: "relations" `[T, T]`, "attention" `[M, T, T]`."""
    check_tagger(tagger)
    if isinstance(tagger, Ensemble):
        raise InputError("Maps are of one tagger: take a member, ensemble.member(0)")
    expect(not isinstance(tokens, Sentence), "tokens, a list of strings", tokens)
    driver.sentences_of(tokens)  # which checks them
    sentence, size = tagger.vocabulary.encode(tokens, vectors), len(tokens)
    length, width = driver.round_up(size, sentence.chars.shape[1])
    batch = batching.pad([sentence], batching.Shape(length, length + 1, width))
    arrays = compute_maps(tagger, batch)
    return {name: np.asarray(x)[0, ..., :size, :size] for name, x in arrays.items()}


@jax.jit
def compute_maps(tagger: Tagger, batch: Sentence) -> dict[str, Any]:
    """Computes the maps of an encoded batch, with its padding; see `maps`."""

    def of_one(sentence: Sentence) -> dict[str, Any]:
        model, operands = tagger.model, (tagger.weights, sentence)
        run = models.automatic(functools.partial(model.apply, train=False), operands)
        values, arrays = run(*operands)[1], {}
        if "attention" in values:
            arrays["attention"] = values["attention"]
        if "relation_from" in values:
            mask = jnp.asarray(sentence.mask)
            arrays["relations"] = models.relation_scores(values, mask)
        return arrays

    return jax.vmap(of_one, (batch_axes(batch),))(batch)
