"""Drafts and refinements: sweeps over Γ and M, and changed tokens (UANet).

Two kinds of taggers have drafts: taggers with a refinement, such as UANet, and the
label attention network (LAN), whose layers attend to the labels and so give a
distribution over labels before the last layer decides. Gui et al. "slightly modified
the code" of LAN to estimate uncertainties, but do not say how. Here LAN's draft is the
attention weights of its last layer but one, averaged over the heads, and passes have
dropout as in `jaxner.sample`. Only LAN's last layer is trained on gold labels, so the
draft may be poor: its accuracy is part of the result.

Source: Gui et al., "Uncertainty-Aware Label Refinement for Sequence Labeling", EMNLP
2020, Figure 4, Tables 1 and 7.

Shape letters: `T` tokens, `N` numbers of passes, `M` passes, `L` labels.
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
from jaxtyping import Float, Int

from jaxner import inference, models, tagging
from jaxner.data.corpora import Split
from jaxner.errors import InputError
from jaxner.evaluation import calibration, errors, report
from jaxner.evaluation.report import Prediction
from jaxner.evaluation.scoring import Labels, Task
from jaxner.models import Keys
from jaxner.models.lan import LabelAttention
from jaxner.tagger import Tagger

if TYPE_CHECKING:
    AnyArray = Any

THRESHOLDS = tuple(round(0.05 * i, 2) for i in range(21))
SAMPLES = (1, 2, 4, 8, 16)
LAN_SAMPLES = 8
"""Number of passes for a LAN trained without a number of its own; as UANet's."""


class Reading(NamedTuple):
    """Label ids of draft and refinement (without one, the draft), and entropy, nats."""

    draft: Int[AnyArray, "T N"]
    refined: Int[AnyArray, "T N"]
    entropy: Float[AnyArray, "T N"]


@dataclasses.dataclass(frozen=True)
class Drafts:
    """The labels of drafts and refinements of a text, and the drafts' entropy, nats.

    Where the entropy is above the threshold Γ, the refined labels are final, else the
    draft's.
    """

    gold: Labels
    draft: Labels
    refined: Labels
    entropy: Sequence[Sequence[float]]
    threshold: float

    @property
    def final(self) -> Labels:
        """The labels that the tagger returns."""
        rows = zip(self.draft, self.refined, self.entropy, strict=True)
        return [
            [b if u > self.threshold else a for a, b, u in zip(*row, strict=True)]
            for row in rows
        ]

    def changes(self, labels: Labels) -> errors.Changes:
        """Returns the tokens of the draft that other labels correct and break."""
        entropy = np.fromiter(chain(*self.entropy), float)
        return errors.changes(self.gold, self.draft, labels, entropy)

    @property
    def detection(self) -> calibration.Detection:
        """How well the entropy detects the draft's errors."""
        sides = chain(*self.gold), chain(*self.draft)
        wrong = np.array([a != b for a, b in zip(*sides, strict=True)], bool)
        return calibration.detect(np.fromiter(chain(*self.entropy), float), wrong)


def drafts(params: Tagger, split: Split) -> Drafts:
    """Returns the drafts of a split, as the tagger makes them.

    `InputError`: the tagger has none.
    """
    passes, refinement = params.model.mc_dropout.num_samples, params.model.refinement
    if not has_drafts(params):
        raise InputError(
            "This tagger has no draft, since it has no refinement and is not a LAN. "
            "Use a run of configs/uanet.py or configs/lan.py."
        )
    if refinement is None:  # a LAN, which has no threshold and refines all labels
        readings = read(params, split, [passes or LAN_SAMPLES], of_lan)
        return _drafts(params, split, readings, 0, -np.inf)
    readings = read(params, split, [passes])
    return _drafts(params, split, readings, 0, float(refinement.threshold))


def _drafts(
    params: Tagger, split: Split, readings: list[Reading], column: int, gamma: float
) -> Drafts:
    """Returns the drafts of one of the numbers of passes."""
    sides = [[np.asarray(side)[:, column].tolist() for side in x] for x in readings]
    decode, scheme = params.vocabulary.decode, params.vocabulary.scheme
    draft, refined = ([decode(side[i]) for side in sides] for i in range(2))
    gold = [example.labels for example in split.to_scheme(scheme)]
    return Drafts(gold, draft, refined, [side[2] for side in sides], gamma)


def has_drafts(params: Tagger) -> bool:
    """Returns whether a tagger has a refinement or is a LAN of several layers."""
    model: Any = params.model
    is_lan = isinstance(model.encoder, LabelAttention) and model.encoder.num_layers > 1
    return model.refinement is not None or is_lan


# --- Sweeps ---------------------------------------------------------------------------


class Point(NamedTuple):
    """The scores of one setting of M and Γ, in percent: F1, or accuracy for tags."""

    samples: int
    threshold: float
    draft: float
    refined: float
    score: float
    changes: errors.Changes


class Sweep(NamedTuple):
    """The scores of all settings, and how well the draft's entropy detects errors.

    There are no thresholds without a refinement; the figure is "f1" or "accuracy".
    """

    by_threshold: list[Point]
    by_samples: list[Point]
    detection: calibration.Detection
    figure: str


def sweep(
    params: Tagger,
    split: Split,
    *,
    thresholds: Sequence[float] = THRESHOLDS,
    samples: Sequence[int] = SAMPLES,
) -> Sweep:
    """Returns the scores of a split for many thresholds and numbers of passes.

    Varies the threshold Γ (nats) at the run's own number of passes M, and M at the
    run's own threshold, without retraining; 0 is one pass without dropout. Fewer passes
    are a prefix of more. Without a refinement, only the draft is scored; with one, a
    CRF contributes its marginals, as in tagging.
    """
    passes, task = params.model.mc_dropout.num_samples, Task(params.vocabulary.scheme)
    refinement: Any = params.model.refinement
    gamma = np.inf if refinement is None else float(refinement.threshold)
    counts = sorted({*samples, passes})
    readings = read(params, split, counts)
    by_count = {
        count: _drafts(params, split, readings, i, gamma)
        for i, count in enumerate(counts)
    }

    def percent(made: Drafts, labels: Labels) -> float:
        scores = Prediction(None, made.gold, labels, task.scheme).scores
        figure = getattr(scores, task.main_figure)
        return float("nan") if figure is None else 100 * figure

    @functools.cache
    def sides(count: int) -> tuple[float, float]:
        made = by_count[count]
        return percent(made, made.draft), percent(made, made.refined)

    def point(count: int, threshold: float) -> Point:
        made = dataclasses.replace(by_count[count], threshold=threshold)
        draft, refined = sides(count)
        score, changes = percent(made, made.final), made.changes(made.final)
        return Point(count, threshold, draft, refined, score, changes)

    tried = () if refinement is None else thresholds
    by_threshold = [point(passes, float(threshold)) for threshold in tried]
    by_samples = [point(count, gamma) for count in samples]
    return Sweep(by_threshold, by_samples, by_count[passes].detection, task.main_figure)


def panels(swept: Sweep) -> list[tuple[dict[str, list[tuple[float, float]]], str]]:
    """Returns the lines over Γ and over M, and the label of each x-axis."""
    names = {"draft": "draft", "refinement": "refined", "mixed by Γ": "score"}

    def lines(points: Sequence[Point], varied: str):
        return {
            name: [(float(getattr(p, varied)), getattr(p, figure)) for p in points]
            for name, figure in names.items()
        }

    over_samples = lines(swept.by_samples, "samples")
    if not swept.by_threshold:
        return [({"draft": over_samples["draft"]}, "passes M")]
    over_thresholds = lines(swept.by_threshold, "threshold")
    return [(over_thresholds, "threshold Γ (nats)"), (over_samples, "passes M")]


def table(swept: Sweep, title: str) -> report.Table:
    """Returns a row for each point; without a refinement, only M and the figure."""
    means = {"mended_uncertainty": "u", "broken_uncertainty": "u"}
    rows = []
    for point in (*swept.by_threshold, *swept.by_samples):
        row = {**point._asdict(), "threshold": report.shown(point.threshold)}
        uncertainties = {x: report.shown(getattr(point.changes, x), 3) for x in means}
        rows.append({**row, **point.changes._asdict(), **uncertainties})
    heads = {"samples": "M", "threshold": "Γ", "score": "mixed", **means}
    columns, note = "samples draft", "M: passes with dropout; there is no refinement"
    if swept.by_threshold:
        columns = "samples threshold draft refined score"
        columns += " mended mended_uncertainty broken broken_uncertainty"
        note = (
            "M: passes; Γ: threshold in nats; mixed: the refined label where the "
            "draft's uncertainty is above Γ; mended, broken: tokens that this corrects "
            "and spoils; u: their mean uncertainty in nats"
        )
    return report.table(rows, columns, note, f"{title}: {swept.figure}", heads)


# --- Passes ---------------------------------------------------------------------------


def read(
    params: Tagger, split: Split, counts: Sequence[int], compute: Any = None
) -> list[Reading]:
    """Returns the readings of each sentence, for each number of passes; see `sweep`.

    `compute` is `of_draft`, the default, or `of_lan`, which takes one number.
    """
    options: Any = {"passes": max(counts), "counts": tuple(counts)}
    return tagging.over(compute or of_draft, params, split, **options)


def of_draft(params, sentence, *, key, counts):
    """Computes the `Reading` of a sentence; without a refinement, of its draft."""
    del key  # the one of the config draws the masks
    model, weights, mask = params.model, params.weights, sentence.mask
    x = models.represent(model, weights, sentence)
    each = []
    for count in counts:
        passes = dataclasses.replace(model.mc_dropout, num_samples=count)
        again = model.clone(mc_dropout=passes)
        draft, chances = models.drafted(again, weights, sentence, x=x)
        if chances is None:
            chances = inference.marginals(draft, mask)
        if model.refinement is None:
            first = second = inference.viterbi(draft, mask)
        else:
            refined = models.refine(model, weights, sentence, chances, x)
            first, second = (
                inference.viterbi(models.mix(draft, refined, uncertain, mask), mask)
                for uncertain in (jnp.zeros_like(mask), jnp.ones_like(mask))
            )
        each.append(Reading(first, second, inference.entropy(chances)))
    return jax.tree.map(lambda *leaves: jnp.stack(leaves, axis=1), *each)


def of_lan(params, sentence, *, key, counts):
    """Computes the `Reading` of a sentence by a LAN."""
    model, mask, (samples,) = params.model, sentence.mask, counts
    drawn = functools.partial(_pass, model, params.weights, sentence)
    if samples:
        key = models.sentence_key(jax.random.key(model.mc_dropout.seed), sentence)
        keys = models.pass_keys(key, samples)
        passes = jax.vmap(lambda k: drawn(Keys.of(k).rngs()))(keys)
        # Transitions are the same in all passes; mean scores decide the labels.
        chances, final = jax.tree.map(lambda array: jnp.mean(array, axis=0), passes)
    else:
        chances, final = drawn({})
    refined = inference.viterbi(final, mask)
    draft = jnp.argmax(chances, axis=1).astype(refined.dtype)
    reading = Reading(draft, refined, inference.entropy(chances))
    return jax.tree.map(lambda array: array[:, None], reading)


def _pass(model, weights, sentence, rngs):
    """Returns a layer's mean attention to the labels `[T, L]`, and the potentials."""
    parts = model.mc_dropout.parts
    is_inside = bool(rngs) and "representation" in parts
    how = {"train": is_inside, "rngs": rngs if is_inside else {}, "method": "represent"}
    x = model.apply(weights, sentence, **how)
    how = {"train": bool(rngs), "parts": parts, "rngs": rngs, "method": "draft"}
    stages, out = model.apply(weights, x, sentence, **how)
    chances = jnp.mean(out["label_attention"][-1], axis=0)
    return jnp.where(sentence.mask[:, None], chances, 0.0), stages[-1]
