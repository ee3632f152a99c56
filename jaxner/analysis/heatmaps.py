"""Heat maps: what a tagger's encoder lays open of how tokens depend on each other."""

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
    """Computes how strongly each token relates to each other one.

    Args:
        params: A tagger whose encoder is a GRN with a relation layer.
        tokens: One sentence.
        vectors: Of its tokens, for a tagger that needs them; as in `tag`.

    Returns:
        For token i (row) and j, the strength in [0, 1] of j's part in the features of
        i; see `models.relation_scores`.

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
            "This tagger has no relation layer: it needs the encoder 'grn' with a "
            "relation other than 'none'."
        )
    return np.asarray(scores)[: len(tokens), : len(tokens)]


def attention(
    params: Tagger, tokens: Sequence[str], *, vectors: Any = None
) -> Float[np.ndarray, "M T T"]:
    """Computes the attention weights of each of `M` heads.

    Args:
        params: A tagger whose encoder has a layer of self-attention.
        tokens: One sentence.
        vectors: Of its tokens, for a tagger that needs them; as in `tag`.

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
            "This tagger has no attention: it needs the encoder 'attention', such as "
            "at the end of a chain."
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
