"""Chunk recall with single parts of an attention encoder, the others zeroed.

Source: Li, Fu and Ma (2020), section "Entity-Chunking". No part is retrained.
"""

from __future__ import annotations

import dataclasses
from typing import Any

from jaxner import tagging
from jaxner.data import schemes
from jaxner.data.corpora import Split
from jaxner.evaluation import chunks
from jaxner.evaluation.chunks import Recall
from jaxner.models.attention import SelfAttention
from jaxner.models.chain import Chain
from jaxner.tagger import Tagger

WHOLE = "all"
"""Name of the unchanged tagger: H and all contexts, HC^all."""


def parts(params: Tagger) -> list[str]:
    """Returns the parts of a tagger's attention: `hidden`, `context`, `context1`, ….

    Raises:
        ValueError: The encoder does not end in attention.

    Example:
        >>> parts(tagging.load("runs/att"))[:4]
        ['hidden', 'context', 'context1', 'context2']
    """
    heads = _attention(params).num_heads
    return ["hidden", "context", *(f"context{i + 1}" for i in range(heads))]


def only(params: Tagger, part: str) -> Tagger:
    """Returns the tagger with zero vectors in all parts but one.

    Args:
        params: A tagger whose encoder ends in attention.
        part: One of `parts`, or "all".

    Raises:
        ValueError: The part is unknown, or the encoder does not end in attention.
    """
    attention, model = _attention(params), params.model
    kept = attention.clone(keep=None if part == WHOLE else (part,))
    encoder: Any = model.encoder
    encoder = encoder.clone(then=kept) if isinstance(encoder, Chain) else kept
    return dataclasses.replace(params, model=model.clone(encoder=encoder))


def recalls(
    params: Tagger, split: Split, *, constrained: bool = False
) -> dict[str, dict[str, Recall]]:
    """Returns the recall of each chunk label with each part alone.

    Args:
        params: A tagger whose encoder ends in attention.
        split: Sentences with gold labels; in the paper OntoNotes 5 dev.
        constrained: As in `jaxner.tag`.

    Returns:
        Recalls by part, then by chunk label; the whole tagger (`WHOLE`) first.

    Raises:
        ValueError: The tagger has no attention, or its labels are tags.

    Example:
        >>> from jaxner.data import corpora
        >>> found = recalls(tagging.load("runs/att"), corpora.load("sample", "dev"))
        >>> list(found)[:3], list(found["all"])
        (['all', 'hidden', 'context'], ['O', 'S', 'B', 'I', 'E'])
    """
    if params.vocabulary.scheme == schemes.TAGS:
        raise ValueError("Chunk labels need spans; the labels of this tagger are tags")
    return {
        part: of_tagger(only(params, part), split, constrained=constrained)
        for part in (WHOLE, *parts(params))
    }


def of_tagger(
    params: Tagger, split: Split, *, constrained: bool = False
) -> dict[str, Recall]:
    """Returns the recall of each chunk label for any tagger; see `recalls`."""
    return chunks.recalls(*tagging.label_split(params, split, constrained=constrained))


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
        raise ValueError(
            "This tagger has no attention; use a run whose encoder ends in "
            "'attention' (configs/cross_bilstm.py)"
        )
    return last
