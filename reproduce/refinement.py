"""Drafts and refinements: what refining changes, and scores over Γ and M (UANet).

Two kinds of taggers have drafts: taggers with a refinement, such as UANet, and the
label attention network (LAN), whose layers attend to the labels and so give a
distribution over labels before the last layer decides. Gui et al. "slightly modified
the code" of LAN to estimate uncertainties, but do not say how. Here LAN's draft is the
attention weights of its last layer but one, averaged over the heads, and passes have
dropout as in `jaxner.sample`. Only LAN's last layer is trained on gold labels, so the
draft may be poor.

Source: Gui et al., "Uncertainty-Aware Label Refinement for Sequence Labeling", EMNLP
2020, Figure 4, Tables 1 and 7.

Shape letters: `T` tokens, `L` labels.
"""

import dataclasses
from collections.abc import Iterator, Sequence
from itertools import chain
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from scipy import stats

from jaxner import inference, models, tagging
from jaxner.data.corpora import Split
from jaxner.errors import InputError
from jaxner.evaluation import scoring
from jaxner.evaluation.scoring import Labels
from jaxner.models import Keys
from jaxner.models.lan import LabelAttention
from jaxner.tagger import Tagger

THRESHOLDS = tuple(round(0.05 * i, 2) for i in range(21))
SAMPLES = (1, 2, 4, 8, 16)
LAN_SAMPLES = 8
"""Number of passes for a LAN trained without a number of its own; as UANet's."""


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

    def changes(self, labels: Labels) -> dict[str, dict[str, float]]:
        """Returns the tokens of the draft that other labels change, right (✓) or not.

        A kind, as in Table 1, has their number and mean entropy, nan without any.
        """
        right, old, new = map(_flat, (self.gold, self.draft, labels))
        return {
            "✗ → ✓": self._summary((old != right) & (new == right)),
            "✓ → ✗": self._summary((old == right) & (new != right)),
            "✗ → ✗": self._summary((old != right) & (new != right) & (old != new)),
        }

    @property
    def detection(self) -> dict[str, Any]:
        """How well the entropy separates the draft's wrong tokens from right ones.

        "auroc" is the probability that a wrong token is more uncertain than a right
        one, ties counting half; nan where undefined.
        """
        entropy, wrong = _flat(self.entropy), _flat(self.gold) != _flat(self.draft)
        high, low, auroc = entropy[wrong], entropy[~wrong], float("nan")
        if len(high) and len(low):
            statistic = stats.mannwhitneyu(high, low).statistic
            auroc = float(statistic / (len(high) * len(low)))
        sides = {"✗": self._summary(wrong), "✓": self._summary(~wrong)}
        return {**sides, "auroc": auroc}

    def _summary(self, places: np.ndarray) -> dict[str, float]:
        values = _flat(self.entropy)[places]
        mean = float(values.mean()) if len(values) else float("nan")
        return {"tokens": len(values), "uncertainty": mean}


def _flat(rows: Sequence[Sequence[Any]]) -> np.ndarray:
    return np.array([*chain(*rows)])


def drafts(tagger: Tagger, split: Split, passes: int | None = None) -> Drafts:
    """Returns the drafts of a split, by the tagger's own number of passes or another.

    `InputError`: the tagger has none.
    """
    model: Any = tagger.model
    is_lan = isinstance(model.encoder, LabelAttention) and model.encoder.num_layers > 1
    if model.refinement is None and not is_lan:
        raise InputError(
            "This tagger has no draft, since it has no refinement and is not a LAN. "
            "Use a run of configs/uanet.py or configs/lan.py."
        )
    compute, gamma = of_lan, -np.inf  # a LAN refines all labels
    passes_default = model.mc_dropout.num_samples or LAN_SAMPLES * is_lan
    count = passes_default if passes is None else passes
    if model.refinement is not None:
        compute, gamma = of_refinement, float(model.refinement.threshold)
    dropout = dataclasses.replace(model.mc_dropout, num_samples=count)
    tagger = dataclasses.replace(tagger, model=model.clone(mc_dropout=dropout))
    answers = tagging.over(compute, tagger, split, passes=count)
    draft, refined, entropy = (
        [np.asarray(answer[i]).tolist() for answer in answers] for i in range(3)
    )
    gold = [x.labels for x in split.to_scheme(tagger.vocabulary.scheme)]
    decode = tagger.vocabulary.decode
    return Drafts(gold, [*map(decode, draft)], [*map(decode, refined)], entropy, gamma)


def sweep(
    tagger: Tagger,
    split: Split,
    thresholds: Sequence[float] = THRESHOLDS,
    samples: Sequence[int] = SAMPLES,
) -> Iterator[tuple[str, dict[str, float]]]:
    """Yields F1 in percent over Γ at the tagger's M, then over M at its Γ (Figure 4).

    F1 is by conlleval's rule, or accuracy for tags; nothing is trained again. The
    paper's figure shows differences from the first point; these are the scores.
    """
    base, scheme = drafts(tagger, split), tagger.vocabulary.scheme
    if tagger.model.refinement is None:
        raise InputError(
            "This tagger has no threshold Γ: use a run of configs/uanet.py"
        )
    figure = scoring.Task(scheme).main_figure
    settings = [(f"Γ={x}", dataclasses.replace(base, threshold=x)) for x in thresholds]
    of_samples = ((f"M={count}", drafts(tagger, split, count)) for count in samples)
    for name, point in chain(settings, of_samples):
        row = {}
        for side in ("draft", "refined", "final"):
            scores = scoring.score(base.gold, getattr(point, side), scheme=scheme)
            value = getattr(scores, figure)
            row[side] = float("nan") if value is None else 100 * value
        yield name, row


def of_refinement(tagger, sentence, key):
    """Computes label ids of draft and refinement, and the draft's entropy, `[T]`."""
    model, mask = tagger.model, sentence.mask

    def labels_at(threshold):
        variant = model.clone(refinement=model.refinement.clone(threshold=threshold))
        final = models.predict(variant, tagger.weights, sentence, key)
        return inference.viterbi(final, mask)

    draft_model = model.clone(refinement=None)
    drafting = dataclasses.replace(tagger, model=draft_model, temperature=1.0)
    chances = tagging.predict(drafting, sentence, key).mean(
        lambda p: inference.marginals(p, mask)
    )
    # The draft's labels where no entropy is above Γ, the refinement's where all are.
    return labels_at(np.inf), labels_at(-1.0), inference.entropy(chances)


def of_lan(tagger, sentence, key):
    """Computes what `of_refinement` does, by a LAN."""
    model, mask = tagger.model, sentence.mask
    if samples := model.mc_dropout.num_samples:
        key = jax.random.key(model.mc_dropout.seed) if key is None else key
        passes = jax.vmap(lambda k: _pass(tagger, sentence, Keys.of(k).rngs()))(
            models.pass_keys(key, sentence, samples)
        )
        # Transitions are the same in all passes; mean scores decide the labels.
        chances, final = jax.tree.map(lambda array: jnp.mean(array, axis=0), passes)
    else:
        chances, final = _pass(tagger, sentence, {})
    refined = inference.viterbi(final, mask)
    draft = jnp.argmax(chances, axis=1).astype(refined.dtype)
    return draft, refined, inference.entropy(chances)


def _pass(tagger, sentence, rngs):
    """Returns a layer's mean attention to the labels `[T, L]`, and the potentials."""
    model, weights, parts = tagger.model, tagger.weights, tagger.model.mc_dropout.parts
    x = None
    if not rngs or "representation" not in parts:
        x = model.apply(weights, sentence, train=False, method="represent")
    options = {"parts": parts if rngs else (), "rngs": rngs, "method": "draft"}
    stages, values = model.apply(weights, sentence, x, **options)
    chances = jnp.mean(values["label_attention"][-1], axis=0)
    return jnp.where(sentence.mask[:, None], chances, 0.0), stages[-1]
