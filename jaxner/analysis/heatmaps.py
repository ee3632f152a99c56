"""Heat maps of how tokens depend on each other in a tagger's encoder."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from jaxner import models, tagging
from jaxner.tagger import Tagger
from jaxner.types import Sentence


def relations(
    params: Tagger, tokens: Sequence[str], *, vectors: Any = None
) -> Float[np.ndarray, "T T"]:
    """Returns how strongly each token relates to each other token.

    Args:
        params: A tagger whose encoder is a GRN with a relation layer.
        tokens: One sentence.
        vectors: Vectors of the tokens, if the tagger needs them; as in `tag`.

    Returns:
        For tokens i (row) and j, how much j contributes to the features of i, from 0 to
        1; see `models.relation_scores`.

    Raises:
        ValueError: The encoder has no relation layer.

    Example:
        >>> relations(tagging.load("runs/grn"), ["Rome", "is", "old"]).shape
        (3, 3)

    References:
        Chen et al. (2019), Figure 4.
    """
    sentence = tagging.encode_one(params, tokens, vectors)
    scores = _relations(params, sentence)
    if scores is None:
        raise ValueError(
            "This tagger has no relation layer; relations need the encoder 'grn' with "
            "a relation other than 'none'"
        )
    return np.asarray(scores)[: len(tokens), : len(tokens)]


def attention(
    params: Tagger, tokens: Sequence[str], *, vectors: Any = None
) -> Float[np.ndarray, "M T T"]:
    """Returns the attention weights of each of `M` heads.

    Args:
        params: A tagger whose encoder has a layer of self-attention.
        tokens: One sentence.
        vectors: Vectors of the tokens, if the tagger needs them; as in `tag`.

    Returns:
        For each head, how much of token i's (row) context comes from token j; each row
        sums to 1.

    Raises:
        ValueError: The encoder has no attention.

    Example:
        >>> attention(tagging.load("runs/att"), ["Rome", "is", "old"]).shape
        (5, 3, 3)

    References:
        Li, Fu and Ma (2020), the attention heat maps.
    """
    sentence = tagging.encode_one(params, tokens, vectors)
    weights = _attention(params, sentence)
    if weights is None:
        raise ValueError(
            "This tagger has no attention; heat maps of attention need the encoder "
            "'attention', for example at the end of a chain"
        )
    return np.asarray(weights)[:, : len(tokens), : len(tokens)]


@jax.jit
def _relations(params: Tagger, sentence: Sentence):
    out = _intermediates(params, sentence)
    if "relation_from" not in out:
        return None
    return models.relation_scores(out, jnp.asarray(sentence.mask))


@jax.jit
def _attention(params: Tagger, sentence: Sentence):
    return _intermediates(params, sentence).get("attention")


def _intermediates(params: Tagger, sentence: Sentence) -> dict[str, Any]:
    return models.apply_with_intermediates(params.model, params.weights, sentence)[1]
