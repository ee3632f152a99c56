"""A tagger's labels of a split, with the probability of each label and entity."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from jaxner import tagging
from jaxner.answers import entity_arrays
from jaxner.data import schemes
from jaxner.data.splits import Split
from jaxner.tagger import Tagger


class Labelled(NamedTuple):
    """What a tagger says of a split.

    Attributes:
        labels: Predicted labels of each sentence.
        certainty: The probability of each of them; None without probabilities.
        entities: That of each predicted entity: sentence, start, end, type.
    """

    labels: list[list[str]]
    certainty: list[list[float]] | None
    entities: dict[tuple[int, int, int, str], float] | None


def label(params: Tagger, split: Split, *, constrained: bool = False) -> Labelled:
    """Labels a split, with exact probabilities where the head has any.

    Args:
        params: What `load` returned.
        split: Its sentences.
        constrained: As in `jaxner.tag`.

    Example:
        >>> from jaxner.data import corpora
        >>> found = label(tagging.load("runs/grn"), corpora.load("sample", "dev"))
        >>> all(0 <= p <= 1 for p in found.entities.values())
        True
    """
    numbers = [example.document for example in split.examples]
    try:
        found = entity_arrays.arrays(
            params,
            [list(example.tokens) for example in split.examples],
            constrained=constrained,
            documents=numbers if any(numbers) else None,
            vectors=split.vectors,
        )
    except ValueError:  # an autoregressive head has no marginals
        _, labels = tagging.label_split(params, split, constrained=constrained)
        return Labelled([list(row) for row in labels], None, None)
    labels = [params.vocabulary.decode(one.labels.tolist()) for one in found]
    certainty = [np.clip(one.label_probability, 0.0, 1.0).tolist() for one in found]
    if params.vocabulary.scheme == schemes.TAGS:
        return Labelled(labels, certainty, None)
    entities = {
        (i, *span): chance
        for i, one in enumerate(found)
        for span, chance in entity_arrays.spans_of(params, one).items()
    }
    return Labelled(labels, certainty, entities)
