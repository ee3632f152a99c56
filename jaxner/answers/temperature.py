"""The temperature that calibrates probabilities, and thresholds with guarantees.

Shape letters: `B` sentences, `T` tokens.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import math
import os
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from jaxner import fields, inference, tagging
from jaxner.answers.entities import predict
from jaxner.checkpoints import Checkpoints
from jaxner.data import schemes
from jaxner.data.corpora import Split
from jaxner.errors import InputError
from jaxner.evaluation import report
from jaxner.evaluation.calibration import Calibration, ThresholdCurve, threshold_curve
from jaxner.evaluation.guarantees import Guarantee, bounded, rows_of
from jaxner.evaluation.report import Prediction
from jaxner.runs import CALIBRATION, Workdir
from jaxner.tagger import Tagger
from jaxner.types import batch_axes

LOWEST, HIGHEST = 1 / 20, 20.0  # the range of temperatures to try
_GRID = 13  # temperatures that bracket the best one; the middle one is 1


class Fit(NamedTuple):
    """A fitted temperature."""

    temperature: float  # 1 if no other is better
    before: float  # negative log-likelihood at temperature 1, in nats per token
    after: float  # the same at the fitted temperature; never above `before`
    sentences: int  # in the fit
    left_out: int  # sentences with a label that training never saw


class Measured(NamedTuple):
    """The calibration of labels and, unless they are tags, of entities; their curve."""

    tokens: Calibration
    entities: Calibration | None
    curve: ThresholdCurve | None

    def to_dict(self) -> dict[str, Any]:
        """Returns the figures of each unit; None for the entities of tags."""
        entities = self.entities.to_dict() if self.entities else None
        return {"tokens": self.tokens.to_dict(), "entities": entities}


class _Block(NamedTuple):
    """The parts of a batch that the fit needs, `[B, …]` each."""

    predicted: tagging.Predictive
    mask: Array
    labels: np.ndarray
    """Gold label ids; -1 where there are none that the tagger knows."""


def fit(tagger: Tagger, split: Split) -> Fit:
    """Fits the temperature that makes the gold labels of a split most probable.

    Minimises the negative log-likelihood (a proper scoring rule) of each token's gold
    label by its marginal probability, which users see: Guo, Pleiss, Sun and Weinberger,
    "On Calibration of Modern Neural Networks", ICML 2017. The likelihood of whole
    labellings gave worse calibration in most of our runs. Marginals are exact: under
    the CRF with its scores divided by the temperature, or the mean over the passes of a
    tagger with Monte Carlo dropout.

    The split is one that training did not see, with gold labels in any scheme. The
    tagger's own temperature is ignored. `ValueError`: no sentence has known labels; the
    head is autoregressive.
    """
    tagger = dataclasses.replace(tagger, temperature=1.0)
    label_names = set(tagger.vocabulary.label_names)
    examples = split.to_scheme(tagger.vocabulary.scheme)
    is_known = [label_names.issuperset(example.labels) for example in examples]
    total = sum(len(x.tokens) for x in itertools.compress(examples, is_known))
    if not total:
        raise InputError(
            f"No sentence of {split.path} has only labels that training saw: nothing "
            "to fit a temperature on."
        )
    blocks: list[_Block] = []

    def compute(batch):
        labels = np.full(batch.mask.shape, -1)
        predicted = jax.device_get(_predicted(tagger, batch))
        blocks.append(_Block(predicted, batch.mask, labels))
        number = np.full_like(labels, len(blocks) - 1)
        return np.stack([number, *np.indices(labels.shape)], axis=-1)

    passes = tagger.model.mc_dropout.num_samples
    places = tagging.over_batches(compute, tagger, split, passes=passes)
    rows = zip(places, examples, strict=True)
    for index, example in itertools.compress(rows, is_known):
        ids = tagger.vocabulary.label_ids(list(example.labels))
        for (number, *token), label in zip(index.tolist(), ids, strict=True):
            blocks[number].labels[*token] = label

    def loss(temperature: float) -> float:
        degrees = jnp.float32(temperature)
        return sum(float(_block_loss(block, degrees)) for block in blocks) / total

    return Fit(*_minimised(loss), sum(is_known), is_known.count(False))


def _minimised(loss: Callable[[float], float]) -> tuple[float, float, float]:
    """Returns the best temperature, and the loss at 1 and there."""
    from scipy import optimize  # imported here, because it takes a while

    def of_log(x: np.ndarray) -> float:
        return loss(math.exp(np.clip(x, *limits).item()))

    limits = math.log(LOWEST), math.log(HIGHEST)
    best = optimize.brute(of_log, [limits], Ns=_GRID, finish=optimize.fmin)
    temperature = round(math.exp(np.clip(best, *limits).item()), 4)
    start, end = loss(1.0), loss(temperature)
    return (temperature, start, end) if end < start else (1.0, start, start)


@jax.jit
def _predicted(tagger, batch) -> tagging.Predictive:
    predict = functools.partial(tagging.predict, tagger)
    return jax.vmap(predict, in_axes=(batch_axes(batch),))(batch)


@jax.jit
def _block_loss(block: _Block, temperature):
    """Sums the negative log-likelihood, in nats."""

    def loss(predictive, mask, labels):
        result = predictive.map(lambda p: inference.at_temperature(p, temperature))
        chances = result.mean(lambda p: inference.marginals(p, mask))
        gold = jnp.take_along_axis(chances, labels[:, None], axis=1)[:, 0]
        return -jnp.sum(jnp.where(labels >= 0, inference.logs(gold), 0.0))

    return jnp.sum(jax.vmap(loss)(*block))


def measure(tagger: Tagger, split: Split, *, n_best: int = 1) -> Measured:
    """Measures the calibration of a tagger's probabilities, at its temperature.

    Entities are those of the `n_best` labellings: above 1, the curve reaches recalls
    beyond that of the best labelling. `ValueError`: the head is autoregressive.
    """
    prediction = predict(tagger, split, n_best=n_best)
    if prediction.certainty is None:
        raise InputError("This tagger's head has no probabilities to measure.")
    figures = report.calibrated(prediction)
    if prediction.entity_certainty is None:
        return Measured(figures["tokens"], None, None)
    curve = threshold_curve(*prediction.outcomes(), len(prediction.gold_entities))
    return Measured(**figures, curve=curve)


def guarantees(
    prediction: Prediction, types: Sequence[str], risk: float, **options: Any
) -> list[Guarantee]:
    """Returns thresholds of types (default: all that can have one); see `bounded`."""
    type_names = schemes.types_of(label for row in prediction.gold for label in row)
    if not type_names:
        raise InputError("Thresholds need labelled entities, and there are none.")
    for kind in types:
        fields.check_word("type", kind, type_names)
    promises, refusals = [], []
    for kind in types or type_names:
        try:
            promises.append(bounded(rows_of(prediction, kind), kind, risk, **options))
        except InputError as error:
            refusals.append(error)
    if refusals and (types or not promises):
        raise refusals[0]
    return promises


def guaranteed(workdir: str | os.PathLike[str]) -> dict[str, Any]:
    """Returns the options of `jaxner.entities` that `calibrate --risk` has stored.

    They are the threshold of each type, and the number of labellings. `InputError`:
    the run has none for its best checkpoint.
    """
    run = Workdir(workdir)
    file = run.path / CALIBRATION
    fit = run.read_json(CALIBRATION) if file.is_file() else {}
    record = fit.get("guarantees")
    if record:
        step = Checkpoints(run.part("best"), read_only=True).step
        record = record if fit["step"] == step else None
    if not record:
        raise InputError(
            f"{run.path} has no thresholds for its best checkpoint: run jaxner "
            "calibrate --risk"
        )
    thresholds = {row["type"]: row["threshold"] for row in record["types"]}
    return {"min_probability": thresholds, "n_best": record["n_best"]}
