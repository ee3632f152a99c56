"""Choosing Γ and M of a trained tagger without training it again (UANet, Figure 4).

Every number of passes is drafted and refined once; thresholds are then applied on the
host. Shape letters: `T` tokens, `N` numbers of passes, `L` labels.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from jaxner import inference, models, tagging
from jaxner.data.splits import Split
from jaxner.evaluation import detection
from jaxner.evaluation.tasks import Task
from jaxner.params import Params

if TYPE_CHECKING:
    AnyArray = Any

THRESHOLDS = tuple(round(0.05 * i, 2) for i in range(21))
SAMPLES = (1, 2, 4, 8, 16)


class Reading(NamedTuple):
    """What a tagger says of one sentence, for each number of passes.

    Attributes:
        draft: Label ids of the draft.
        refined: Label ids of the refinement; those of the draft if there is none.
        entropy: Of the draft, in nats.
    """

    draft: Int[AnyArray, "T N"]
    refined: Int[AnyArray, "T N"]
    entropy: Float[AnyArray, "T N"]


class Point(NamedTuple):
    """One setting, and what it gives.

    Attributes:
        samples: Passes, M.
        threshold: Γ, in nats.
        draft: Score of the draft alone, in percent; F1, or accuracy of tags.
        refined: Score of the refinement alone, in percent.
        score: Score of the labels that Γ mixes from both, in percent.
        changes: Tokens that the refinement mends and breaks.
    """

    samples: int
    threshold: float
    draft: float
    refined: float
    score: float
    changes: detection.Changes


class Sweep(NamedTuple):
    """The settings that were tried, and how well errors are told from right labels.

    Attributes:
        by_threshold: One number of passes, all thresholds; empty without a refinement.
        by_samples: One threshold, all numbers of passes.
        detection: Of wrong draft labels by their entropy, at the run's M.
        figure: "f1" or "accuracy".
    """

    by_threshold: list[Point]
    by_samples: list[Point]
    detection: detection.Detection
    figure: str


def sweep(
    params: Params,
    split: Split,
    *,
    thresholds: Sequence[float] = THRESHOLDS,
    samples: Sequence[int] = SAMPLES,
    key: Array | None = None,
) -> Sweep:
    """Scores a split for many thresholds and numbers of passes.

    Thresholds are tried with the run's own number of passes, and numbers of passes with
    its own threshold; where the run samples nothing, its number is 0, one pass without
    dropout. The passes of a smaller number are the first of a larger one. Nothing is
    constrained.

    Args:
        params: What `load` returned. Without a refinement the draft alone is scored;
            with one, a CRF takes part by its marginals, as in tagging.
        split: Sentences with gold labels.
        thresholds: Values of Γ, in nats.
        samples: Values of M, from 1.
        key: Of the masks; None: that of `sampling.seed`.

    Raises:
        ValueError: A number of passes is below 1, or nothing is to be tried.

    Example:
        >>> from jaxner import load
        >>> from jaxner.data import corpora
        >>> dev = corpora.load("sample", "dev")
        >>> [point.samples for point in sweep(load("runs/grn"), dev).by_samples]
        [1, 2, 4, 8, 16]
    """
    model: Any = params.model
    own = model.sampling.num_samples
    if not samples or min(samples) < 1:
        raise ValueError(f"Expected numbers of passes from 1, got {list(samples)}")
    if not all(np.isfinite(g) for g in thresholds):
        raise ValueError(f"Expected finite thresholds, got {list(thresholds)}")
    counts = sorted({*samples, own})
    readings = read(params, split, counts, key)
    examples = split.to_scheme(params.lexicon.scheme)
    point = functools.partial(
        _point,
        params,
        Task(params.lexicon.scheme),
        [example.tokens for example in examples],
        [example.labels or () for example in examples],
    )
    gamma = np.inf if model.refinement is None else float(model.refinement.threshold)

    def at(count, threshold):
        place = counts.index(count)
        return point([_at(r, place) for r in readings], count, threshold)

    by_threshold = [at(own, g) for g in thresholds] if np.isfinite(gamma) else []
    by_samples = [at(count, gamma) for count in samples]
    drafts = [_at(r, counts.index(own)) for r in readings]
    gold = np.array([y for e in examples for y in e.labels or ()], object)
    labels = np.array(_names(params, [r.draft for r in drafts]), object)
    wrong = labels != gold
    entropy = np.concatenate([r.entropy for r in drafts] or [np.zeros(0)])
    found = detection.detect(entropy, wrong)
    return Sweep(
        by_threshold, by_samples, found, Task(params.lexicon.scheme).main_figure
    )


def read(
    params: Params, split: Split, counts: Sequence[int], key: Array | None = None
) -> list[Reading]:
    """Drafts and refines every sentence of a split, for each number of passes.

    Args:
        params: What `load` returned.
        split: Its sentences.
        counts: Numbers of passes; 0: one without dropout.
        key: As in `sweep`.
    """
    key = jax.random.key(params.model.sampling.seed) if key is None else key

    def compute(batch):
        return _read(params, batch, key, counts=tuple(counts))

    return tagging.over_split(params, split, compute, passes=max(counts))


@functools.partial(jax.jit, static_argnames="counts")
def _read(params, batch, key, *, counts):
    def one(sentence):
        model, weights = params.model, params.weights
        keys = models.pass_keys(models.sentence_key(key, sentence), max(counts))
        drawn = models.sample(model, weights, sentence, keys)
        each = []
        for count in counts:
            if count:
                first = drawn._replace(emissions=drawn.emissions[:count])
                over = model.sampling.average
                draft, chances = models.average(first, sentence.mask, over)
            else:
                draft = models.draft(model, weights, sentence)
                chances = inference.marginals(draft, sentence.mask)
            each.append(_read_one(params, sentence, draft, chances))
        return jax.tree.map(lambda *leaves: jnp.stack(leaves, axis=1), *each)

    return jax.vmap(one)(batch)


def _read_one(params, sentence, draft, chances):
    mask, entropy = sentence.mask, inference.entropy(chances)
    if params.model.refinement is None:
        labels = inference.viterbi(draft, mask)
        return Reading(labels, labels, entropy)
    refined = models.refine(params.model, params.weights, sentence, chances)
    first, second = (
        inference.viterbi(models.mix(draft, refined, uncertain, mask), mask)
        for uncertain in (jnp.zeros_like(mask), jnp.ones_like(mask))
    )
    return Reading(first, second, entropy)


def _at(reading: Reading, place: int) -> Reading:
    return Reading(*(field[:, place] for field in reading))


def _names(params, ids) -> list[str]:
    return [name for one in ids for name in params.lexicon.decode(one.tolist())]


def _point(params, task, tokens, gold, readings, count, threshold) -> Point:
    mixed = [np.where(r.entropy > threshold, r.refined, r.draft) for r in readings]
    labelled = [
        [params.lexicon.decode(ids.tolist()) for ids in side]
        for side in (
            [r.draft for r in readings],
            [r.refined for r in readings],
            mixed,
        )
    ]
    draft, refined, score = (
        100 * getattr(task.score(tokens, gold, its), task.main_figure)
        for its in labelled
    )
    entropy = np.concatenate([r.entropy for r in readings] or [np.zeros(0)])
    changes = detection.changes(gold, labelled[0], labelled[2], entropy)
    return Point(count, float(threshold), draft, refined, score, changes)
