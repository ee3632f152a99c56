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

from jaxner import models, tagging
from jaxner.errors import InputError
from jaxner.tagger import Tagger
from jaxner.types import Sentence


def relations(
    tagger: Tagger, tokens: Sequence[str], *, vectors: Any = None
) -> Float[np.ndarray, "T T"]:
    """Returns how strongly tokens relate to each other (Chen et al., 2019, Figure 4).

    For tokens i (row) and j: how much j contributes to the features of i, from 0 to 1;
    see `models.relation_scores`. `vectors` are as in `tag`.

    Raises:
        InputError: The encoder is no GRN with a relation layer.

    Example:
        >>> relations(tagging.load("runs/grn"), ["Rome", "is", "old"]).shape
        (3, 3)
    """
    if (scores := maps(tagger, tokens, vectors=vectors).get("relations")) is None:
        raise InputError(
            "This tagger has no relation layer; relations need the encoder 'grn' with "
            "a relation other than 'none'"
        )
    return scores


def attention(
    tagger: Tagger, tokens: Sequence[str], *, vectors: Any = None
) -> Float[np.ndarray, "M T T"]:
    """Returns the weights of each of `M` heads of self-attention (Li, Fu and Ma, 2020).

    For each head, how much of token i's (row) context comes from token j; each row sums
    to 1. Takes what `relations` takes.

    Raises:
        InputError: The encoder has no attention.

    Example:
        >>> attention(tagging.load("runs/att"), ["Rome", "is", "old"]).shape
        (5, 3, 3)
    """
    if (weights := maps(tagger, tokens, vectors=vectors).get("attention")) is None:
        raise InputError(
            "This tagger has no attention; heat maps of attention need the encoder "
            "'attention', for example at the end of a chain"
        )
    return weights


def maps(
    tagger: Tagger, tokens: Sequence[str], *, vectors: Any = None
) -> dict[str, np.ndarray]:
    """Returns the maps of a sentence: "relations" `[T, T]`, "attention" `[M, T, T]`."""
    arrays = compute_maps(tagger, tagging.encode_one(tagger, tokens, vectors))
    size = len(tokens)
    return {name: np.asarray(x)[..., :size, :size] for name, x in arrays.items()}


@jax.jit
def compute_maps(tagger: Tagger, sentence: Sentence) -> dict[str, Any]:
    """Computes the maps of one encoded sentence, with its padding; see `maps`."""
    model, operands = tagger.model, (tagger.weights, sentence)
    run = models.automatic(functools.partial(model.apply, train=False), operands)
    values = run(*operands)[1]
    arrays = {name: values[name] for name in ("attention",) if name in values}
    if "relation_from" in values:
        mask = jnp.asarray(sentence.mask)
        arrays["relations"] = models.relation_scores(values, mask)
    return arrays
