"""Scores a trained tagger for many Γ and M, without retraining (UANet, Figure 4).

Drafts and refines once for each number of passes; the host then applies the thresholds.
Shape letters: `T` tokens, `N` numbers of passes, `L` labels.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from jaxner import inference, models, tagging
from jaxner.data.corpora import Split
from jaxner.data.vocabulary import Vocabulary
from jaxner.evaluation import detection
from jaxner.evaluation.tasks import Task
from jaxner.tagger import Tagger
from jaxner.types import batch_axes

if TYPE_CHECKING:
    AnyArray = Any

THRESHOLDS = tuple(round(0.05 * i, 2) for i in range(21))
SAMPLES = (1, 2, 4, 8, 16)


class Reading(NamedTuple):
    """Draft and refinement of one sentence, for each number of passes.

    Attributes:
        draft: Label ids of the draft.
        refined: Label ids of the refinement; without one, those of the draft.
        entropy: Entropy of the draft, in nats.
    """

    draft: Int[AnyArray, "T N"]
    refined: Int[AnyArray, "T N"]
    entropy: Float[AnyArray, "T N"]


class Point(NamedTuple):
    """The scores of one setting.

    Attributes:
        samples: Number of passes, M.
        threshold: Γ, in nats.
        draft: Score of the draft alone, in percent: F1, or accuracy for tags.
        refined: Score of the refinement alone, in percent.
        score: Score of the labels mixed by Γ, in percent.
        changes: Tokens that the refinement corrects and breaks.
    """

    samples: int
    threshold: float
    draft: float
    refined: float
    score: float
    changes: detection.Changes


class Sweep(NamedTuple):
    """The scores of all settings, and how well entropy detects errors.

    Attributes:
        by_threshold: One number of passes, all thresholds; empty if the tagger has no
            refinement.
        by_samples: One threshold, all numbers of passes.
        detection: Detection of wrong draft labels by entropy, at the run's M.
        figure: "f1" or "accuracy".
    """

    by_threshold: list[Point]
    by_samples: list[Point]
    detection: detection.Detection
    figure: str


def sweep(
    params: Tagger,
    split: Split,
    *,
    thresholds: Sequence[float] = THRESHOLDS,
    samples: Sequence[int] = SAMPLES,
    key: Array | None = None,
) -> Sweep:
    """Returns the scores of a split for many thresholds and numbers of passes.

    Varies the threshold at the run's own number of passes, and the number of passes at
    its own threshold. For a run without dropout passes the number is 0, one pass
    without dropout. Fewer passes are a prefix of more passes. Decoding is
    unconstrained.

    Args:
        params: What `load` returned. Without a refinement, only the draft is scored.
            With one, a CRF contributes its marginals, as in tagging.
        split: Sentences with gold labels.
        thresholds: Values of Γ, in nats.
        samples: Values of M, at least 1.
        key: Draws the masks; None for a key from `mc_dropout.seed`.

    Raises:
        ValueError: A number of passes is below 1, or no setting is given.

    Example:
        >>> from jaxner import load
        >>> from jaxner.data import corpora
        >>> dev = corpora.load("sample", "dev")
        >>> found = sweep(load("runs/grn"), dev, samples=[1, 4])
        >>> [point.samples for point in found.by_samples]
        [1, 4]
    """
    model: Any = params.model
    own = model.mc_dropout.num_samples
    if not samples or min(samples) < 1:
        raise ValueError(f"Expected numbers of passes ≥ 1, got {list(samples)}")
    if not all(np.isfinite(g) for g in thresholds):
        raise ValueError(f"Expected finite thresholds, got {list(thresholds)}")
    counts = sorted({*samples, own})
    readings = read(params, split, counts, key)
    of_count = {
        count: _Scored.of(params, split, [_at(r, place) for r in readings], count)
        for place, count in enumerate(counts)
    }
    refinement = model.refinement
    gamma = np.inf if refinement is None else float(refinement.threshold)
    tried = () if refinement is None else thresholds
    drafts = of_count[own]
    return Sweep(
        [drafts.point(g) for g in tried],
        [of_count[count].point(gamma) for count in samples],
        drafts.detection(),
        drafts.task.main_figure,
    )


def read(
    params: Tagger, split: Split, counts: Sequence[int], key: Array | None = None
) -> list[Reading]:
    """Returns draft and refinement of each sentence, for each number of passes.

    Args:
        params: What `load` returned.
        split: The sentences to label.
        counts: Numbers of passes; 0 for one pass without dropout.
        key: As in `sweep`.
    """
    key = jax.random.key(params.model.mc_dropout.seed) if key is None else key

    def compute(batch):
        return _read(params, batch, key, counts=tuple(counts))

    return tagging.over_batches(compute, params, split, passes=max(counts))


@functools.partial(jax.jit, static_argnames="counts")
def _read(params, batch, key, *, counts):
    def one(sentence):
        model, weights = params.model, params.weights
        keys = models.pass_keys(models.sentence_key(key, sentence), max(counts))
        x = models.represent(model, weights, sentence)
        drawn = models.sample(model, weights, sentence, keys, x)
        each = []
        for count in counts:
            if count:
                first = drawn._replace(emissions=drawn.emissions[:count])
                over = model.mc_dropout.average
                draft, chances = models.average(first, sentence.mask, over)
            else:
                draft = models.draft(model, weights, sentence, x)
                chances = inference.marginals(draft, sentence.mask)
            each.append(_read_one(params, sentence, x, draft, chances))
        return jax.tree.map(lambda *leaves: jnp.stack(leaves, axis=1), *each)

    return jax.vmap(one, in_axes=(batch_axes(batch),))(batch)


def _read_one(params, sentence, x, draft, chances):
    mask, entropy = sentence.mask, inference.entropy(chances)
    if params.model.refinement is None:
        labels = inference.viterbi(draft, mask)
        return Reading(labels, labels, entropy)
    refined = models.refine(params.model, params.weights, sentence, chances, x)
    first, second = (
        inference.viterbi(models.mix(draft, refined, uncertain, mask), mask)
        for uncertain in (jnp.zeros_like(mask), jnp.ones_like(mask))
    )
    return Reading(first, second, entropy)


def _at(reading: Reading, place: int) -> Reading:
    return Reading(*(field[:, place] for field in reading))


@dataclasses.dataclass(frozen=True)
class _Scored:
    """The readings for one number of passes, with everything independent of Γ."""

    vocabulary: Vocabulary
    task: Task
    count: int
    tokens: list[Sequence[str]]
    gold: list[Sequence[str]]
    readings: list[Reading]
    drafts: list[list[str]]
    entropy: np.ndarray
    draft: float
    refined: float

    @classmethod
    def of(cls, params: Tagger, split: Split, readings: list[Reading], count: int):
        """Returns the scored labels of draft and refinement."""
        vocabulary = params.vocabulary
        task, examples = Task(vocabulary.scheme), split.to_scheme(vocabulary.scheme)
        tokens: list[Sequence[str]] = [example.tokens for example in examples]
        gold: list[Sequence[str]] = [example.labels or () for example in examples]
        drafts, refined = (
            [vocabulary.decode(getattr(r, side).tolist()) for r in readings]
            for side in ("draft", "refined")
        )
        entropy = np.concatenate([r.entropy for r in readings] or [np.zeros(0)])
        scores = [_percent(task, tokens, gold, its) for its in (drafts, refined)]
        return cls(
            vocabulary, task, count, tokens, gold, readings, drafts, entropy, *scores
        )

    def point(self, threshold: float) -> Point:
        """Returns the scores of draft and refinement mixed by a threshold."""
        mixed = [
            self.vocabulary.decode(
                np.where(r.entropy > threshold, r.refined, r.draft).tolist()
            )
            for r in self.readings
        ]
        score = _percent(self.task, self.tokens, self.gold, mixed)
        changes = detection.changes(self.gold, self.drafts, mixed, self.entropy)
        return Point(
            self.count, float(threshold), self.draft, self.refined, score, changes
        )

    def detection(self) -> detection.Detection:
        """Returns how well entropy detects wrong labels of the draft."""
        gold, drafts = (
            np.array(list(chain(*side)), object) for side in (self.gold, self.drafts)
        )
        return detection.detect(self.entropy, drafts != gold)


def _percent(task: Task, tokens, gold, labels) -> float:
    figure = getattr(task.score(tokens, gold, labels), task.main_figure)
    return float("nan") if figure is None else 100 * figure
