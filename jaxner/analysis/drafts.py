"""Draft, refined label and uncertainty of each token (UANet, Tables 1 and 7).

Two kinds of taggers have drafts: taggers with a refinement, such as UANet, and the
label attention network (LAN), whose layers attend to the labels and so give a
distribution over labels before the last layer decides. Gui et al. "slightly modified
the code" of LAN to estimate uncertainties, but do not say how. Here LAN's draft is a
layer's attention weights, averaged over the heads, and passes have dropout as in
`jaxner.sample`. Only LAN's last layer is trained on gold labels, so an earlier layer's
draft may be poor: its accuracy is part of the result.

Shape letters: `M` passes, `T` tokens, `L` labels.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from jaxner import inference, models, tagging
from jaxner.analysis import sweeps
from jaxner.data.corpora import Split
from jaxner.evaluation import detection
from jaxner.models.lan import LabelAttention
from jaxner.models.mc_dropout import Keys
from jaxner.tagger import Tagger
from jaxner.types import batch_axes

LAN_SAMPLES = 8
"""Default number of passes for a LAN, the same as UANet's."""


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

    changes: detection.Changes
    final: detection.Changes
    detection: detection.Detection


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
        ValueError: The tagger has no draft, or no such layer.

    Example:
        >>> from jaxner.data import corpora
        >>> found = traces(tagging.load("runs/uanet"), corpora.load("sample", "dev"))
        >>> len(found[0].draft) == len(found[0].uncertainty)
        True
    """
    model: Any = params.model
    gamma = -np.inf  # a LAN has no threshold and refines all labels
    if model.refinement is not None:
        if layer is not None:
            raise ValueError("layer is for a LAN, but this tagger has a refinement")
        gamma = float(model.refinement.threshold)
        count = model.mc_dropout.num_samples if samples is None else samples
        readings = sweeps.read(params, split, [count], key)
    else:
        own = model.mc_dropout.num_samples or LAN_SAMPLES
        readings = _of_lan(
            params, split, own if samples is None else samples, key, layer
        )
    decode = params.vocabulary.decode
    found = []
    for one in readings:
        draft, refined, entropy = (np.asarray(field)[:, 0] for field in one)
        final = np.where(entropy > gamma, refined, draft)
        names = (decode(ids.tolist()) for ids in (draft, refined, final))
        first, second, last = names
        found.append(Trace(first, second, entropy.tolist(), last))
    return found


def table1(gold: Sequence[Sequence[str]], found: Sequence[Trace]) -> Table1:
    """Returns the tokens that the refinement corrects and breaks.

    Args:
        gold: The right labels of each sentence.
        found: What `traces` returned.

    Example:
        >>> its = table1([["A", "B"]], [Trace(["A", "A"], ["B", "B"], [0.1, 0.9], ["A", "B"])])
        >>> (its.changes.mended, its.changes.broken), (its.final.mended, its.final.broken)
        ((1, 1), (1, 0))

    References:
        Gui et al. (2020), Table 1.
    """  # noqa: E501 - the example is one line
    drafts, refined, entropies, final = (
        [getattr(trace, field) for trace in found] for field in Trace._fields
    )
    entropy = np.concatenate([np.zeros(0), *entropies])
    wrong = [
        a != b
        for right, labels in zip(gold, drafts, strict=True)
        for a, b in zip(right, labels, strict=True)
    ]
    return Table1(
        detection.changes(gold, drafts, refined, entropy),
        detection.changes(gold, drafts, final, entropy),
        detection.detect(entropy, np.array(wrong, bool)),
    )


def _of_lan(
    params: Tagger, split: Split, samples: int, key: Array | None, layer: int | None
) -> list[sweeps.Reading]:
    encoder: Any = params.model.encoder
    if not isinstance(encoder, LabelAttention):
        raise ValueError(
            "This tagger has no draft, since it has no refinement and is not a LAN. "
            "Use a run of configs/uanet.py or configs/lan.py."
        )
    last = encoder.num_layers - 1
    layer = last if layer is None else layer
    if not 1 <= layer <= last:
        raise ValueError(
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
        reading = sweeps.Reading(draft, refined, inference.entropy(mean))
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
