"""A tagger's labels of a split, with the probability of each label and entity."""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxner import inference, models, tagging
from jaxner.data import schemes
from jaxner.data.label_spans import label_types
from jaxner.data.splits import Split
from jaxner.data.vocab import SEPARATOR
from jaxner.tagger import Tagger
from jaxner.types import batch_axes


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
        constrained: As in `jaxner.tag`; probabilities are unconstrained.

    Example:
        >>> from jaxner.data import corpora
        >>> found = label(tagging.load("runs/grn"), corpora.load("sample", "dev"))
        >>> all(0 <= p <= 1 for p in found.entities.values())
        True
    """
    vocabulary = params.vocabulary

    def compute(batch):
        return _compute(params, batch, constrained=constrained)

    passes = params.model.mc_dropout.num_samples
    try:
        rows = tagging.over_split(params, split, compute, passes)
    except ValueError:  # an autoregressive head has no marginals
        _, labels = tagging.label_split(params, split, constrained=constrained)
        return Labelled([list(row) for row in labels], None, None)
    labels = [vocabulary.decode(ids.tolist()) for ids, _, _ in rows]
    certainty = [np.clip(chances, 0.0, 1.0).tolist() for _, chances, _ in rows]
    if vocabulary.scheme == schemes.TAGS:
        return Labelled(labels, certainty, None)
    entities = {
        (i, span.start, span.end, span.type): min(float(row[2][span.start]), 1.0)
        for i, (row, own) in enumerate(zip(rows, labels, strict=True))
        for span in schemes.to_spans(own)
    }
    return Labelled(labels, certainty, entities)


@functools.partial(jax.jit, static_argnames="constrained")
def _compute(params: Tagger, batch: Any, *, constrained: bool):
    vocabulary = params.vocabulary
    names = ["O" if n == SEPARATOR else n for n in vocabulary.label_names]
    if vocabulary.scheme == schemes.TAGS:
        names = ["O"] * len(names)
    types = label_types(names)
    spans = inference.LabelSpans(jnp.asarray(types.types), jnp.asarray(types.goes_on))

    def one(sentence):
        potentials: Any = models.predict(params.model, params.weights, sentence, None)
        mask = sentence.mask
        chances = inference.marginals(potentials, mask)
        allowed = potentials
        if constrained:
            grammar = schemes.allowed(names, vocabulary.scheme)
            constraints = inference.Constraints(*map(jnp.asarray, grammar))
            allowed = inference.constrain(potentials, constraints)
        labels = inference.viterbi(allowed, mask)
        own = jnp.take_along_axis(chances, labels[:, None], axis=1)[:, 0]
        entities = inference.entity_probabilities(potentials, labels, mask, spans)
        return labels, own, entities

    return jax.vmap(one, in_axes=(batch_axes(batch),))(batch)
