"""Drafts and refinements: sweeps over Γ and M, and changed tokens (UANet).

Two kinds of taggers have drafts: taggers with a refinement, such as UANet, and the
label attention network (LAN), whose layers attend to the labels and so give a
distribution over labels before the last layer decides. Gui et al. "slightly modified
the code" of LAN to estimate uncertainties, but do not say how. Here LAN's draft is a
layer's attention weights, averaged over the heads, and passes have dropout as in
`jaxner.sample`. Only LAN's last layer is trained on gold labels, so an earlier layer's
draft may be poor: its accuracy is part of the result.

Source: Gui et al., "Uncertainty-Aware Label Refinement for Sequence Labeling", EMNLP
2020, Figure 4, Tables 1 and 7.

Shape letters: `T` tokens, `N` numbers of passes, `M` passes, `L` labels.
"""

from __future__ import annotations

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
from jaxner.errors import InputError
from jaxner.evaluation import calibration, errors
from jaxner.evaluation.report import Table, fixed, number
from jaxner.evaluation.scoring import Labels, Task
from jaxner.models import Keys
from jaxner.models.lan import LabelAttention
from jaxner.tagger import Tagger
from jaxner.types import batch_axes

if TYPE_CHECKING:
    AnyArray = Any

THRESHOLDS = tuple(round(0.05 * i, 2) for i in range(21))
SAMPLES = (1, 2, 4, 8, 16)
LAN_SAMPLES = 8
"""Default number of passes for a LAN, the same as UANet's."""


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


# --- Sweeps ---------------------------------------------------------------------------


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
    changes: errors.Changes


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
    detection: calibration.Detection
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
    its own threshold, without retraining. For a run without dropout passes the number
    is 0, one pass without dropout. Fewer passes are a prefix of more passes. Decoding
    is unconstrained.

    Args:
        params: What `load` returned. Without a refinement, only the draft is scored.
            With one, a CRF contributes its marginals, as in tagging.
        split: Sentences with gold labels.
        thresholds: Values of Γ, in nats.
        samples: Values of M, at least 1.
        key: Draws the masks; None for a key from `mc_dropout.seed`.

    Raises:
        InputError: A number of passes is below 1, or no setting is given.

    Example:
        >>> from jaxner import load
        >>> from jaxner.data import corpora
        >>> dev = corpora.load("sample", "dev")
        >>> found = sweep(load("runs/grn"), dev, samples=[1, 4])
        >>> [point.samples for point in found.by_samples]
        [1, 4]
    """
    model: Any = params.model
    default = model.mc_dropout.num_samples
    if not samples or min(samples) < 1:
        raise InputError(f"Expected numbers of passes ≥ 1, got {list(samples)}")
    if not all(np.isfinite(gamma) for gamma in thresholds):
        raise InputError(f"Expected finite thresholds, got {list(thresholds)}")
    scheme = params.vocabulary.scheme
    task, examples = Task(scheme), split.to_scheme(scheme)
    gold = [example.labels or () for example in examples]
    tokens = [example.tokens for example in examples]
    counts = sorted({*samples, default})
    readings = read(params, split, counts, key)

    def percent(labels: Labels) -> float:
        figure = getattr(task.score(tokens, gold, labels), task.main_figure)
        return float("nan") if figure is None else 100 * figure

    @functools.cache
    def drafts(count: int):
        """Returns what does not depend on Γ."""
        place = counts.index(count)
        each = [Reading(*(field[:, place] for field in x)) for x in readings]
        entropy = np.concatenate([np.zeros(0), *(x.entropy for x in each)])
        sides = [
            [params.vocabulary.decode(getattr(x, side).tolist()) for x in each]
            for side in ("draft", "refined")
        ]
        return each, entropy, sides[0], [percent(labels) for labels in sides]

    def point(count: int, gamma: float) -> Point:
        each, entropy, labels, scores = drafts(count)
        mixed = [
            params.vocabulary.decode(
                np.where(x.entropy > gamma, x.refined, x.draft).tolist()
            )
            for x in each
        ]
        changes = errors.changes(gold, labels, mixed, entropy)
        draft, refined = scores
        return Point(count, float(gamma), draft, refined, percent(mixed), changes)

    own = np.inf if model.refinement is None else float(model.refinement.threshold)
    tried = () if model.refinement is None else thresholds
    _, entropy, labels, _ = drafts(default)
    return Sweep(
        [point(default, gamma) for gamma in tried],
        [point(count, own) for count in samples],
        calibration.detect(entropy, _wrong(gold, labels)),
        task.main_figure,
    )


def _wrong(gold: Labels, labels: Labels) -> np.ndarray:
    sides = chain(*gold), chain(*labels)
    return np.array([a != b for a, b in zip(*sides, strict=True)], bool)


def panels(found: Sweep) -> list[tuple[dict[str, list[tuple[float, float]]], str]]:
    """Returns the lines over Γ and over M, and the label of each x-axis."""
    names = {"draft": "draft", "refined": "refinement", "score": "mixed by Γ"}
    if not found.by_threshold:
        names = {"draft": "draft"}
    axes = (
        (found.by_threshold, "threshold", "threshold Γ (nats)"),
        (found.by_samples, "samples", "passes M"),
    )
    return [
        (
            {
                name: [(float(getattr(p, field)), getattr(p, key)) for p in points]
                for key, name in names.items()
            },
            label,
        )
        for points, field, label in axes
        if points
    ]


def read(
    params: Tagger, split: Split, counts: Sequence[int], key: Array | None = None
) -> list[Reading]:
    """Returns draft and refinement of each sentence, for each number of passes.

    `counts` are the numbers; 0 is one pass without dropout.
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


# --- Traces ---------------------------------------------------------------------------


class Trace(NamedTuple):
    """The draft, the refinement and the final labels of one sentence.

    Attributes:
        draft: Labels of the draft.
        refined: Labels of the refinement, at every token.
        uncertainty: Entropy of the draft, in nats.
        final: Labels that the tagger predicts. With a threshold Γ: the refined label
            where the draft's uncertainty exceeds Γ, else the draft's.
    """

    draft: list[str]
    refined: list[str]
    uncertainty: list[float]
    final: list[str]


class Table1(NamedTuple):
    """The changes by a refinement, and the uncertainty of the drafts.

    Attributes:
        changes: Changed tokens from the draft to the refined labels.
        final: Changed tokens from the draft to the tagger's predictions.
        detection: Mean uncertainty of all right and all wrong draft labels, which the
            paper's text compares.
    """

    changes: errors.Changes
    final: errors.Changes
    detection: calibration.Detection


def has_drafts(params: Tagger) -> bool:
    """Returns whether a tagger has a refinement or is a LAN."""
    model: Any = params.model
    return model.refinement is not None or isinstance(model.encoder, LabelAttention)


def traces(
    params: Tagger,
    split: Split,
    *,
    key: Array | None = None,
    samples: int | None = None,
    layer: int | None = None,
) -> list[Trace]:
    """Returns draft, refined label and uncertainty of each token of a split.

    Args:
        params: A tagger with a refinement, or a LAN.
        split: The sentences to label.
        key: Draws the dropout masks; None for a key from `mc_dropout.seed`.
        samples: Number of passes with dropout; 0 for one pass without dropout; None for
            the tagger's own number, or `LAN_SAMPLES` for a LAN without one.
        layer: For a LAN, the layer (from 1) whose attention is the draft; None for the
            last but one.

    Raises:
        InputError: The tagger has no draft, or no such layer.

    Example:
        >>> from jaxner.data import corpora
        >>> found = traces(tagging.load("runs/uanet"), corpora.load("sample", "dev"))
        >>> len(found[0].draft) == len(found[0].uncertainty)
        True
    """
    model: Any = params.model
    count = model.mc_dropout.num_samples if samples is None else samples
    gamma = -np.inf  # a LAN has no threshold and refines all labels
    if not has_drafts(params):
        raise InputError(
            "This tagger has no draft, since it has no refinement and is not a LAN. "
            "Use a run of configs/uanet.py or configs/lan.py."
        )
    if model.refinement is None:
        default = LAN_SAMPLES if samples is None else 0
        readings = _of_lan(params, split, count or default, key, layer)
    elif layer is None:
        gamma = float(model.refinement.threshold)
        readings = read(params, split, [count], key)
    else:
        raise InputError("layer is for a LAN, but this tagger has a refinement")
    decode = params.vocabulary.decode
    found = []
    for one in readings:
        draft, refined, entropy = (np.asarray(field)[:, 0] for field in one)
        final = np.where(entropy > gamma, refined, draft)
        labels = [decode(ids.tolist()) for ids in (draft, refined, final)]
        found.append(Trace(labels[0], labels[1], entropy.tolist(), labels[2]))
    return found


def table1(gold: Labels, found: Sequence[Trace]) -> Table1:
    """Returns the tokens that the refinement corrects and breaks.

    Args:
        gold: The right labels of each sentence.
        found: What `traces` returned.

    Example:
        >>> trace = Trace(["A", "A"], ["B", "B"], [0.1, 0.9], ["A", "B"])
        >>> table = table1([["A", "B"]], [trace])
        >>> (table.changes.mended, table.changes.broken), table.final[:2]
        ((1, 1), (1, 0))

    References:
        Gui et al. (2020), Table 1.
    """
    drafts = [trace.draft for trace in found]
    entropy = np.concatenate([np.zeros(0), *(trace.uncertainty for trace in found)])
    return Table1(
        errors.changes(gold, drafts, [trace.refined for trace in found], entropy),
        errors.changes(gold, drafts, [trace.final for trace in found], entropy),
        calibration.detect(entropy, _wrong(gold, drafts)),
    )


def _of_lan(
    params: Tagger, split: Split, samples: int, key: Array | None, layer: int | None
) -> list[Reading]:
    encoder: Any = params.model.encoder
    last: int = encoder.num_layers - 1
    layer = last if layer is None else layer
    if not 1 <= layer <= last:
        raise InputError(
            f"Expected a layer from 1 to {last} (the last but one of this LAN), got "
            f"{layer}"
        )
    key = jax.random.key(params.model.mc_dropout.seed) if key is None else key

    def compute(batch):
        return _read_lan(params, batch, key, samples=samples, layer=layer)

    return tagging.over_batches(compute, params, split, passes=samples)


@functools.partial(jax.jit, static_argnames=("samples", "layer"))
def _read_lan(params, batch, key, *, samples, layer):
    model, weights = params.model, params.weights

    def one(sentence):
        if samples:
            keys = models.pass_keys(models.sentence_key(key, sentence), samples)
            read = functools.partial(_pass, model, weights, sentence, layer)
            chances, drawn = jax.vmap(lambda k: read(Keys.of(k).rngs()))(keys)
        else:
            chances, drawn = jax.tree.map(
                lambda array: array[None], _pass(model, weights, sentence, layer, {})
            )
        mean = jnp.mean(chances, axis=0)
        rest = jax.tree.map(lambda array: array[0], drawn._replace(emissions=None))
        # Transitions are the same in all passes; mean scores decide the labels.
        final = rest._replace(emissions=jnp.mean(drawn.emissions, axis=0))
        refined = inference.viterbi(final, sentence.mask)
        draft = jnp.argmax(mean, axis=1).astype(refined.dtype)
        reading = Reading(draft, refined, inference.entropy(mean))
        return jax.tree.map(lambda array: array[:, None], reading)

    return jax.vmap(one, in_axes=(batch_axes(batch),))(batch)


def _pass(model, weights, sentence, layer, rngs):
    """Returns a layer's mean attention to the labels `[T, L]`, and the potentials."""
    on = bool(rngs)
    parts = model.mc_dropout.parts
    inside = on and "representation" in parts
    x = model.apply(
        weights, sentence, train=inside, rngs=rngs if inside else {}, method="represent"
    )
    stages, out = model.apply(
        weights, x, sentence, train=on, parts=parts, rngs=rngs, method="draft"
    )
    chances = jnp.mean(out["label_attention"][layer - 1], axis=0)
    return jnp.where(sentence.mask[:, None], chances, 0.0), stages[-1]


def table(points: Sequence[Point], varied: str, figure: str, title: str) -> Table:
    """Returns a row for each point; without a refinement, only M and the figure."""
    title = f"{title}: {figure} by {varied}"
    if not varied:
        rows = [[number(point.samples), fixed(point.score)] for point in points]
        return Table(["M", figure], rows, "M: passes with dropout", f"{title}M")
    rows = [
        [
            number(point.samples),
            *map(fixed, (point.threshold, point.draft, point.refined, point.score)),
            number(point.changes.mended),
            fixed(point.changes.mended_uncertainty, 3),
            number(point.changes.broken),
            fixed(point.changes.broken_uncertainty, 3),
        ]
        for point in points
    ]
    columns = ["M", "Γ", "draft", "refined", "mixed", "mended", "u", "broken", "u"]
    note = (
        "M: passes; Γ: threshold in nats; mixed: the refined label where the draft's "
        "uncertainty is above Γ; mended, broken: tokens that this corrects and spoils; "
        "u: their mean uncertainty in nats"
    )
    return Table(columns, rows, note, title)
