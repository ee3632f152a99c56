"""A tagger's labels of a split, the probability of each, and their calibration."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Array

from jaxner import tagging
from jaxner.answers import entity_arrays
from jaxner.data import schemes
from jaxner.data.corpora import Split
from jaxner.evaluation import calibration, errors
from jaxner.evaluation.describing import Prediction, Value
from jaxner.tagger import Tagger

_CURVE = 200  # points of a curve that are kept


class Labelled(NamedTuple):
    """A tagger's labels of a split, with probabilities.

    Attributes:
        labels: Predicted labels of each sentence.
        certainty: Probability of each of these labels; None without probabilities.
        entities: Probability of each predicted entity, by (sentence, start, end, type);
            None without probabilities, and for a tagger of tags.
    """

    labels: list[list[str]]
    certainty: list[list[float]] | None
    entities: dict[tuple[int, int, int, str], float] | None


def label(
    params: Tagger,
    split: Split,
    *,
    decoding: str = "viterbi",
    constrained: bool = False,
    key: Array | None = None,
) -> Labelled:
    """Labels a split, with exact probabilities if the head has any.

    Args:
        params: What `load` returned.
        split: The sentences.
        decoding: As in `jaxner.tag`.
        constrained: As in `jaxner.tag`.
        key: As in `jaxner.tag`.

    Example:
        >>> from jaxner.data import corpora
        >>> found = label(tagging.load("runs/grn"), corpora.load("sample", "dev"))
        >>> all(0 <= p <= 1 for p in found.entities.values())
        True
    """
    numbers = [example.document for example in split.examples]
    how: Any = {"decoding": decoding, "constrained": constrained, "key": key}
    try:
        found = entity_arrays.arrays(
            params,
            [list(example.tokens) for example in split.examples],
            documents=numbers if any(numbers) else None,
            vectors=split.vectors,
            **how,
        )
    except ValueError:  # an autoregressive head has no marginals
        _, labels = tagging.label_split(params, split, **how)
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


def calibration_of(its: Prediction) -> Value:
    """Returns the calibration of a prediction, and precision and recall by threshold.

    Args:
        its: Labels with probabilities; without them, the result is empty.

    Returns:
        `calibration` of `tokens` and, if there are any, of `entities`; and
        `thresholds`: precision and recall of the entities at each threshold.

    Example:
        >>> one = Prediction(None, [["O"]], [["O"]], "BIOES", certainty=[[0.9]])
        >>> calibration_of(one)["calibration"]["tokens"]["count"]
        1
    """
    if its.certainty is None:
        return {}
    right = [
        a == b
        for rows in zip(its.gold, its.predicted, strict=True)
        for a, b in zip(*rows, strict=True)
    ]
    chances = [chance for row in its.certainty for chance in row]
    found: Value = {"tokens": calibration.calibration(chances, right).to_dict()}
    if its.entity_certainty is None:
        return {"calibration": found}
    pairs = errors.pairs(its.gold, its.predicted, its.span_rule, its.scheme)
    known = [
        (its.entity_certainty[pair.sentence, *pair.predicted], pair.kind is None)
        for pair in pairs
        if pair.predicted and (pair.sentence, *pair.predicted) in its.entity_certainty
    ]
    chances, right = [x[0] for x in known], [x[1] for x in known]
    found["entities"] = calibration.calibration(chances, right).to_dict()
    gold = sum(pair.gold is not None for pair in pairs)
    curve = calibration.threshold_curve(chances, right, gold).to_dict()
    step = -(-len(curve["thresholds"]) // _CURVE) or 1
    thinned = {name: values[::step] for name, values in curve.items()}
    return {"calibration": found, "thresholds": thinned if chances else {}}
