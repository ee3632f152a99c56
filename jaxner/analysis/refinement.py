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


def _mixed(draft: Any, refined: Any, entropy: Any, gamma: float) -> list[str]:
    """Returns the refined labels where the entropy is above Γ, else the draft's."""
    rows = zip(draft, refined, entropy, strict=True)
    return [second if value > gamma else first for first, second, value in rows]


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
    model: Any = params.model
    passes = model.mc_dropout.num_samples
    scheme, decode = params.vocabulary.scheme, params.vocabulary.decode
    task, examples = Task(scheme), split.to_scheme(scheme)
    gold = [example.labels for example in examples]
    tokens = [example.tokens for example in examples]
    counts = sorted({*samples, passes})
    readings = read(params, split, counts)

    def percent(labels: Labels) -> float:
        figure = getattr(task.score(tokens, gold, labels), task.main_figure)
        return float("nan") if figure is None else 100 * figure

    @functools.cache
    def of_passes(count: int) -> Any:
        """Returns all that does not depend on Γ: labels, entropy and scores."""
        each = [
            [np.asarray(side)[:, counts.index(count)] for side in reading]
            for reading in readings
        ]
        labels = [[decode(row[i].tolist()) for row in each] for i in range(2)]
        return labels, [row[2] for row in each], [percent(side) for side in labels]

    def point(count: int, gamma: float) -> Point:
        labels, entropy, scores = of_passes(count)
        rows = zip(*labels, entropy, strict=True)
        mixed = [_mixed(a, b, values, gamma) for a, b, values in rows]
        changes = errors.changes(gold, labels[0], mixed, np.concatenate(entropy))
        draft, refined = scores
        return Point(count, float(gamma), draft, refined, percent(mixed), changes)

    refinement = model.refinement
    threshold = np.inf if refinement is None else float(refinement.threshold)
    tried = () if refinement is None else thresholds
    labels, entropy, _ = of_passes(passes)
    return Sweep(
        [point(passes, gamma) for gamma in tried],
        [point(count, threshold) for count in samples],
        _detected(gold, labels[0], np.concatenate(entropy)),
        task.main_figure,
    )


def _detected(gold: Labels, labels: Labels, entropy: Any) -> calibration.Detection:
    sides = chain(*gold), chain(*labels)
    wrong = np.array([a != b for a, b in zip(*sides, strict=True)], bool)
    return calibration.detect(entropy, wrong)


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


def table(
    points: Sequence[Point], varied: str, figure: str, title: str
) -> report.Table:
    """Returns a row for each point; without a refinement, only M and the figure."""
    rows = [point._asdict() | point.changes._asdict() for point in points]
    title = f"{title}: {figure} by {varied or 'M'}"
    if not varied:
        heads, note = {"samples": "M", "score": figure}, "M: passes with dropout"
        return report.table(rows, "samples score", note, title, heads)
    means = {"mended_uncertainty": "u", "broken_uncertainty": "u"}
    for row in rows:
        row["threshold"] = report.shown(row["threshold"])
        row.update({key: report.shown(row[key], 3) for key in means})
    columns = "samples threshold draft refined score"
    columns += " mended mended_uncertainty broken broken_uncertainty"
    note = (
        "M: passes; Γ: threshold in nats; mixed: the refined label where the draft's "
        "uncertainty is above Γ; mended, broken: tokens that this corrects and spoils; "
        "u: their mean uncertainty in nats"
    )
    heads = {"samples": "M", "threshold": "Γ", "score": "mixed", **means}
    return report.table(rows, columns, note, title, heads)


def read(params: Tagger, split: Split, counts: Sequence[int]) -> list[Reading]:
    """Returns the readings of each sentence, for each number of passes; see `sweep`."""
    options: Any = {"passes": max(counts), "counts": tuple(counts)}
    return tagging.over(_of_draft, params, split, **options)


def _of_draft(params, sentence, *, key, counts):
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


# --- Traces ---------------------------------------------------------------------------


class Trace(NamedTuple):
    """The labels of a sentence's draft and refinement, the draft's entropy in nats.

    The final labels are those that the tagger predicts. With a threshold Γ: the refined
    label where the entropy exceeds Γ, else the draft's.
    """

    draft: list[str]
    refined: list[str]
    uncertainty: list[float]
    final: list[str]


class Table1(NamedTuple):
    """What changes from the draft to the refined labels, and to the tagger's."""

    changes: errors.Changes
    final: errors.Changes
    detection: calibration.Detection


def has_drafts(params: Tagger) -> bool:
    """Returns whether a tagger has a refinement or is a LAN of several layers."""
    model: Any = params.model
    is_lan = isinstance(model.encoder, LabelAttention) and model.encoder.num_layers > 1
    return model.refinement is not None or is_lan


def traces(params: Tagger, split: Split) -> list[Trace]:
    """Returns draft, refined label and uncertainty of each token of a split."""
    model: Any = params.model
    passes = model.mc_dropout.num_samples
    if not has_drafts(params):
        raise InputError(
            "This tagger has no draft, since it has no refinement and is not a LAN. "
            "Use a run of configs/uanet.py or configs/lan.py."
        )
    if model.refinement is None:
        gamma = -np.inf  # a LAN has no threshold and refines all labels
        readings = read_lan(params, split, passes or LAN_SAMPLES)
    else:
        gamma = float(model.refinement.threshold)
        readings = read(params, split, [passes])
    traced = []
    for reading in readings:
        *ids, entropy = (np.asarray(x)[:, 0] for x in reading)
        draft, refined = (params.vocabulary.decode(x.tolist()) for x in ids)
        final = _mixed(draft, refined, entropy, gamma)
        traced.append(Trace(draft, refined, entropy.tolist(), final))
    return traced


def table1(gold: Labels, traced: Sequence[Trace]) -> Table1:
    """Returns the tokens that a refinement corrects and breaks: the paper's Table 1."""
    drafts = [trace.draft for trace in traced]
    entropy = np.concatenate([trace.uncertainty for trace in traced])
    return Table1(
        errors.changes(gold, drafts, [trace.refined for trace in traced], entropy),
        errors.changes(gold, drafts, [trace.final for trace in traced], entropy),
        _detected(gold, drafts, entropy),
    )


def read_lan(params: Tagger, split: Split, samples: int) -> list[Reading]:
    """Returns draft and labels of a LAN; see `read`."""
    options: Any = {"passes": samples, "samples": samples}
    return tagging.over(_of_lan, params, split, **options)


def _of_lan(params, sentence, *, key, samples):
    model, mask = params.model, sentence.mask
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
