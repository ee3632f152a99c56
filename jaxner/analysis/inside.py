"""The inside of encoders: relations, attention weights, and their parts.

Sources: Chen et al. (2019), Figure 4, for relations; Li, Fu and Ma (2020), the
attention heat maps and the section "Entity-Chunking". No part is retrained.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from jaxner import models, tagging
from jaxner.data.corpora import Split
from jaxner.data.schemes import TAGS
from jaxner.errors import InputError
from jaxner.evaluation import errors
from jaxner.evaluation.errors import Recall
from jaxner.models import Chain, SelfAttention
from jaxner.tagger import Tagger
from jaxner.types import Sentence

WHOLE = "all"
"""Name of the unchanged tagger: H and all contexts, HC^all."""


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
        InputError: The encoder has no relation layer.

    Example:
        >>> relations(tagging.load("runs/grn"), ["Rome", "is", "old"]).shape
        (3, 3)

    References:
        Chen et al. (2019), Figure 4.
    """
    found = maps(params, tokens, vectors=vectors)
    if "relations" not in found:
        raise InputError(
            "This tagger has no relation layer; relations need the encoder 'grn' with "
            "a relation other than 'none'"
        )
    return found["relations"]


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
        InputError: The encoder has no attention.

    Example:
        >>> attention(tagging.load("runs/att"), ["Rome", "is", "old"]).shape
        (5, 3, 3)

    References:
        Li, Fu and Ma (2020), the attention heat maps.
    """
    found = maps(params, tokens, vectors=vectors)
    if "attention" not in found:
        raise InputError(
            "This tagger has no attention; heat maps of attention need the encoder "
            "'attention', for example at the end of a chain"
        )
    return found["attention"]


def maps(
    params: Tagger, tokens: Sequence[str], *, vectors: Any = None
) -> dict[str, np.ndarray]:
    """Returns the maps that a tagger's encoder has of a sentence, by name.

    The names are "relations" `[T, T]` and "attention" `[M, T, T]`.
    """
    found = _maps(params, tagging.encode_one(params, tokens, vectors))
    size = len(tokens)
    return {name: np.asarray(x)[..., :size, :size] for name, x in found.items()}


@jax.jit
def _maps(params: Tagger, sentence: Sentence) -> dict[str, Any]:
    out = models.apply_stages(params.model, params.weights, sentence)[1]
    found = {name: out[name] for name in ("attention",) if name in out}
    if "relation_from" in out:
        mask = jnp.asarray(sentence.mask)
        found["relations"] = models.relation_scores(out, mask)
    return found


def parts(params: Tagger) -> list[str]:
    """Returns the parts of a tagger's attention: `hidden`, `context`, `context1`, ….

    Raises:
        InputError: The encoder does not end in attention.

    Example:
        >>> parts(tagging.load("runs/att"))[:4]
        ['hidden', 'context', 'context1', 'context2']
    """
    heads = _attention(params).num_heads
    return ["hidden", "context", *(f"context{i + 1}" for i in range(heads))]


def only(params: Tagger, part: str) -> Tagger:
    """Returns the tagger with zero vectors in all parts but one.

    `part` is one of `parts`, or "all".
    """
    layer, model = _attention(params), params.model
    kept = layer.clone(keep=None if part == WHOLE else (part,))
    encoder: Any = model.encoder
    encoder = encoder.clone(then=kept) if isinstance(encoder, Chain) else kept
    return dataclasses.replace(params, model=model.clone(encoder=encoder))


def chunk_recalls(
    params: Tagger, split: Split, *, constrained: bool = False
) -> dict[str, dict[str, Recall]]:
    """Returns the recall of each chunk label with each part alone.

    Returns:
        Recalls by part, then by chunk label; the whole tagger (`WHOLE`) first.

    Raises:
        InputError: The tagger has no attention, or its labels are tags.

    Example:
        >>> from jaxner.data import corpora
        >>> dev = corpora.load("sample", "dev")
        >>> found = chunk_recalls(tagging.load("runs/att"), dev)
        >>> list(found)[:3], list(found["all"])
        (['all', 'hidden', 'context'], ['O', 'S', 'B', 'I', 'E'])
    """
    if params.vocabulary.scheme == TAGS:
        raise InputError("Chunk labels need spans; the labels of this tagger are tags")
    return {
        part: chunk_recall(only(params, part), split, constrained=constrained)
        for part in (WHOLE, *parts(params))
    }


def chunk_recall(
    params: Tagger, split: Split, *, constrained: bool = False
) -> dict[str, Recall]:
    """Returns the recall of each chunk label for any tagger; see `chunk_recalls`."""
    labels = tagging.label_split(params, split, constrained=constrained)
    return errors.chunk_recall(*labels)


def is_attentive(params: Tagger) -> bool:
    """Returns whether a tagger's encoder ends in attention.

    Example:
        >>> is_attentive(tagging.load("runs/grn"))
        False
    """
    return isinstance(_last(params), SelfAttention)


def _last(params: Tagger) -> Any:
    encoder: Any = params.model.encoder
    return encoder.then if isinstance(encoder, Chain) else encoder


def _attention(params: Tagger) -> SelfAttention:
    last = _last(params)
    if not isinstance(last, SelfAttention):
        raise InputError(
            "This tagger has no attention; use a run whose encoder ends in "
            "'attention' (configs/cross_bilstm.py)"
        )
    return last
