"""The temperature at which a tagger's probabilities are honest, fitted on dev.

Shape letters: `B` sentences, `T` tokens, `G` temperatures.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxner import batched, decoding, inference, tagging
from jaxner.answers import entity_arrays
from jaxner.data import schemes
from jaxner.data.splits import Split
from jaxner.evaluation.calibration import (
    Calibration,
    ThresholdCurve,
    calibration,
    match,
    threshold_curve,
)
from jaxner.tagger import Tagger
from jaxner.types import batch_axes

LOWEST, HIGHEST = 1 / 20, 20.0
"""Between these temperatures the best one is looked for."""
# Each round narrows the range to an eighth: to 0.15 percent in the end.
_POINTS, _ROUNDS = 17, 4


class Fit(NamedTuple):
    """A fitted temperature.

    Attributes:
        temperature: At which the gold labels are the most probable.
        before: Negative log-likelihood of the gold labels at temperature 1, in nats a
            token.
        after: The same at the fitted one.
        sentences: How many it was fitted on.
        left_out: Sentences left out, since training never saw one of their labels.
    """

    temperature: float
    before: float
    after: float
    sentences: int
    left_out: int


class Measured(NamedTuple):
    """How honest a tagger's probabilities are on a split.

    Attributes:
        tokens: Of the predicted labels.
        entities: Of the predicted entities; None of a tagger of tags.
        curve: Precision and recall over the threshold; None of a tagger of tags.
    """

    tokens: Calibration
    entities: Calibration | None
    curve: ThresholdCurve | None


def fit(params: Tagger, split: Split) -> Fit:
    """Fits the temperature that makes the gold labels of a split the most probable.

    The likelihood is exact: that of whole labellings, under the CRF whose scores are
    divided by the temperature, or under the mean over the passes of a tagger that
    samples. In 1/temperature its log is concave for a single pass.

    Args:
        params: What `load` returned; its own temperature is not looked at.
        split: Sentences that training did not see, with gold labels in any scheme.

    Raises:
        ValueError: No sentence has known labels; the head is autoregressive.

    Example:
        >>> from jaxner import load
        >>> from jaxner.data import corpora
        >>> found = fit(load("runs/grn"), corpora.load("sample", "dev"))
        >>> 0.05 <= found.temperature <= 20 and found.after <= found.before
        True

    References:
        Guo, Pleiss, Sun and Weinberger, "On Calibration of Modern Neural Networks",
        ICML 2017.
    """
    params = dataclasses.replace(params, temperature=1.0)
    known = set(params.vocabulary.label_names)
    examples = split.to_scheme(params.vocabulary.scheme)
    kept = [i for i, e in enumerate(examples) if known.issuperset(e.labels or ())]
    total = sum(len(examples[i].tokens) for i in kept)
    if not total:
        raise ValueError(
            f"No sentence of {split.path} has only labels that training saw: nothing "
            "to fit a temperature on."
        )
    losses = functools.partial(_losses, params, split, examples, kept)
    low, high = math.log(LOWEST), math.log(HIGHEST)
    before = math.nan
    for number in range(_ROUNDS):
        points = np.linspace(low, high, _POINTS)
        found = losses(np.exp(points)) / total
        if not number:
            before = float(found[_POINTS // 2])  # that of temperature 1
        best = int(np.argmin(found))
        low, high = points[max(best - 1, 0)], points[min(best + 1, _POINTS - 1)]
    temperature = round(float(np.exp(points[best])), 4)
    left_out = len(examples) - len(kept)
    return Fit(temperature, before, float(found[best]), len(kept), left_out)


def _losses(params, split: Split, examples, kept, temperatures) -> np.ndarray:
    """Sums the negative log-likelihood at each temperature, in nats."""
    chosen = [examples[i] for i in kept]
    vectors = None if split.vectors is None else [split.vectors[i] for i in kept]
    encoded = tagging.encode_each(params, [list(e.tokens) for e in chosen], vectors)
    labels = [
        np.array(params.vocabulary.label_ids(list(e.labels or ())), np.int32)
        for e in chosen
    ]
    degrees = jnp.asarray(temperatures, jnp.float32)

    def compute(batch, labels):
        return _batch_losses(params, batch, labels, degrees)

    found = batched.over_documents(
        params,
        compute,
        encoded,
        documents_of(chosen),
        passes=max(params.model.mc_dropout.num_samples, 1) * 2,
        labels=labels,
    )
    sums = [one.astype(np.float64).sum(axis=0) for one in found]
    return np.sum(sums, axis=0)


def documents_of(examples: Sequence[Any]) -> list[int] | None:
    """Returns the document of each sentence; None where the file does not say it."""
    numbers = [example.document for example in examples]
    return numbers if any(numbers) else None


@jax.jit
def _batch_losses(params, batch, labels, degrees):
    def one(sentence, labels):
        found = decoding.predict(params, sentence)
        mask = sentence.mask

        def at(temperature):
            cooled = found.map(lambda p: inference.at_temperature(p, temperature))
            return -cooled.log_mean(
                lambda p: inference.log_probability(p, labels, mask)
            )

        # Spread over the tokens, since sentences are cut out of documents.
        is_word = mask & (sentence.words > 0)
        shares = is_word / jnp.maximum(jnp.sum(is_word), 1)
        return shares[:, None] * jax.vmap(at)(degrees)[None]

    return jax.vmap(one, in_axes=(batch_axes(batch), 0))(batch, labels)


def measure(params: Tagger, split: Split, *, n_best: int = 1) -> Measured:
    """Measures how honest a tagger's probabilities are, at its temperature.

    Args:
        params: What `load` returned.
        split: Sentences with gold labels, in any scheme.
        n_best: Of how many labellings entities are taken; above 1, the curve reaches
            recalls beyond that of the best labelling.

    Raises:
        ValueError: The head is autoregressive.

    Example:
        >>> from jaxner import load
        >>> from jaxner.data import corpora
        >>> found = measure(load("runs/grn"), corpora.load("sample", "dev"))
        >>> 0 <= found.entities.error <= 1
        True
    """
    vocabulary = params.vocabulary
    examples = split.to_scheme(vocabulary.scheme)
    found = entity_arrays.arrays(
        params,
        [list(example.tokens) for example in examples],
        n_best=n_best,
        documents=documents_of(examples),
        vectors=split.vectors,
    )
    labels = [one.labels if n_best == 1 else one.labels[:, 0] for one in found]
    chances = [
        one.label_probability if n_best == 1 else one.label_probability[:, 0]
        for one in found
    ]
    right = [
        [vocabulary.label_names[i] == label for i, label in zip(*pair, strict=True)]
        for pair in zip(labels, (e.labels or () for e in examples), strict=True)
    ]
    tokens = calibration(np.minimum(_joined(chances), 1.0), _joined(right))
    if vocabulary.scheme == schemes.TAGS:
        return Measured(tokens, None, None)
    predicted = [entity_arrays.spans_of(params, one) for one in found]
    gold = [schemes.to_spans(list(e.labels or ())) for e in examples]
    came_true = match(gold, predicted)
    of_entities = [chance for one in predicted for chance in one.values()]
    curve = threshold_curve(of_entities, came_true, sum(map(len, gold)))
    return Measured(tokens, calibration(of_entities, came_true), curve)


def _joined(arrays: Sequence[Any]) -> np.ndarray:
    return np.concatenate([np.zeros(0), *arrays])
