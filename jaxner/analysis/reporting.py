"""The content of a report on a trained tagger, beyond its labels.

`evaluation.describing` describes the labels. This module adds probabilities,
calibration and, if the model has them, the papers' pictures: relations (Chen et al.,
2019, Figure 4); attention, and chunk recall with parts of it zeroed (Li et al., 2020);
Γ and M, and draft, refined label and uncertainty of each token (Gui et al., 2020,
Figure 4 and Table 7).
"""

from __future__ import annotations

import collections
import dataclasses
import time

import jax
import numpy as np

from jaxner import tagging
from jaxner.analysis import certainty, drafts, heatmaps, parts, sweeps
from jaxner.data import schemes
from jaxner.data.corpora import Split
from jaxner.evaluation import breakdowns, describing, intervals
from jaxner.evaluation.describing import Prediction, Training, Value
from jaxner.evaluation.detection import Changes
from jaxner.tagger import Ensemble, Tagger

_EXAMPLE = (5, 14)  # minimum and maximum tokens of the sentence in heat maps
_TRACED = 2  # number of sentences traced token by token
_MAPS = 6  # maximum number of attention heads in heat maps


def describe(
    params: Tagger,
    split: Split,
    train: Split | None = None,
    *,
    has_vectors: bool = False,
    rule: str = "conlleval",
    decoding: str = "viterbi",
    constrained: bool = False,
    seed: int = 0,
    rounds: int = intervals.ROUNDS,
) -> tuple[Value, Prediction]:
    """Describes a tagger on a split.

    Args:
        params: What `load` returned.
        split: Sentences with gold labels, in any scheme.
        train: The training text, if available.
        has_vectors: Whether words outside the training text may have vectors.
        rule: Rule for reading spans, one of `rules.RULES`.
        decoding: As in `jaxner.tag`.
        constrained: As in `jaxner.tag`.
        seed: Seed of the draws for the decoding "sampled".
        rounds: Rounds of the bootstrap.

    Returns:
        JSON values for `pages`, and the prediction that they describe.

    Example:
        >>> from jaxner.data import corpora
        >>> dev = corpora.load("sample", "dev")
        >>> found, _ = describe(tagging.load("runs/grn"), dev, rounds=10)
        >>> sorted(found["calibration"])
        ['entities', 'tokens']
    """
    scheme = params.vocabulary.scheme
    key = jax.random.key(seed) if decoding == "sampled" else None
    how: Value = {"decoding": decoding, "constrained": constrained, "key": key}
    found = certainty.label(params, split, **how)
    prediction = Prediction(
        tokens=[list(example.tokens) for example in split.examples],
        gold=[list(e.labels or ()) for e in split.to_scheme(scheme)],
        predicted=found.labels,
        scheme=scheme,
        rule=rule,
        certainty=found.certainty,
        entity_certainty=found.entities,
        training=None
        if train is None
        else _training(params, split, train, has_vectors),
    )
    its = describing.describe(prediction, rounds=rounds)
    its |= certainty.calibration_of(prediction)
    its |= _uncalibrated(params, split, prediction, how)
    its["speed"] = [["tagging, tokens a second", _speed(params, split, how)]]
    its["decoding"] = {"name": decoding, "constrained": constrained}
    if decoding == "sampled":
        its["decoding"]["seed"] = seed
    if isinstance(params, Ensemble):
        its["inside_note"] = (
            f"This is an ensemble of {len(params)} taggers: a report of one of them "
            "(--restart SEED) shows what is inside."
        )
    elif scheme != schemes.TAGS:
        its |= _inside(params, split, prediction)
        if decoding != "viterbi":
            its["inside_note"] = "The labels of this part are those by Viterbi."
    return describing.plain(its), prediction


def _training(
    params: Tagger, split: Split, train: Split, has_vectors: bool
) -> Training:
    spelled = sorted({token for e in split.examples for token in e.tokens})
    known: set[str] = set()
    if has_vectors:
        ids = params.vocabulary.encode(spelled).words
        known = {word for word, i in zip(spelled, ids, strict=False) if i > 1}
    labels = [e.labels or () for e in train.examples]
    mentions: collections.Counter[str] = collections.Counter()
    if params.vocabulary.scheme != schemes.TAGS:
        mentions = breakdowns.mentions([e.tokens for e in train.examples], labels)
    return Training(train.words(), known, mentions)


def _uncalibrated(params: Tagger, split: Split, its: Prediction, how: Value) -> Value:
    """Returns the temperature, and the calibration without it."""
    degrees = np.atleast_1d(params.temperature)
    if its.certainty is None or (degrees == 1.0).all():
        return {}
    plain = dataclasses.replace(params, temperature=1.0)
    found = certainty.label(plain, split, **how)
    of = {"certainty": found.certainty, "entity_certainty": found.entities}
    before = dataclasses.replace(its, predicted=found.labels, **of)
    return {
        "temperature": degrees.tolist(),
        "calibration_before": certainty.calibration_of(before)["calibration"],
    }


def _speed(params: Tagger, split: Split, how: Value) -> str:
    """Returns the speed in tokens per second, without compilation."""
    tokens = sum(len(example.tokens) for example in split.examples)
    tagging.label_split(params, split, **how)
    start = time.perf_counter()
    tagging.label_split(params, split, **how)
    return f"{tokens / max(time.perf_counter() - start, 1e-9):,.0f}"


def _inside(params: Tagger, split: Split, its: Prediction) -> Value:
    """Returns pictures and tables of the model's inside."""
    pictures = _maps(params, split)
    tables = []
    if params.model.refinement is not None:
        pictures += _swept(params, split)
    try:
        found = drafts.traces(params, split)
    except ValueError:  # neither a refinement nor label attention
        found = []
    if found:
        tables += [_changed(its, found), *_traced(its, found)]
    if parts.is_attentive(params):
        tables.append(_zeroed(params, split))
    return {"pictures": pictures, "tables": tables}


def _maps(params: Tagger, split: Split) -> list[Value]:
    """Returns heat maps of a sentence with entities; empty if the encoder has none."""
    least, most = _EXAMPLE
    fitting = [e for e in split.examples if least <= len(e.tokens) <= most]
    fitting = fitting or [e for e in split.examples if len(e.tokens) <= 2 * most]
    if not fitting or split.vectors is not None:
        return []
    entities = [len(schemes.to_spans(e.labels or ())) for e in fitting]
    words = list(fitting[int(np.argmax(entities))].tokens)
    found = []
    for name, read, title in (
        ("relations", heatmaps.relations, "Relations of the GRN"),
        ("attention", heatmaps.attention, "Attention"),
    ):
        try:
            maps = read(params, words)
        except ValueError:  # this encoder has none
            continue
        heads = [maps] if maps.ndim == 2 else list(maps)[:_MAPS]
        named = {f"head {i + 1}": x for i, x in enumerate(heads)}
        what = "strength" if name == "relations" else "weight"
        found.append(
            {
                "kind": "heat maps",
                "title": title,
                "note": f"Row i, column j: how much of token i's context is token j's "
                f"({what}, 0 to 1).",
                "maps": {"": heads[0]} if len(heads) == 1 else named,
                "rows": words,
                "columns": words,
                "label": what,
            }
        )
    return found


def _swept(params: Tagger, split: Split) -> list[Value]:
    """Returns F1 over Γ and over M."""
    swept = sweeps.sweep(params, split, samples=[1, 2, 4, 8])
    found = []
    for points, field, name in (
        (swept.by_threshold, "threshold", "threshold Γ (nats)"),
        (swept.by_samples, "samples", "passes M"),
    ):
        lines = {
            line: [(float(getattr(p, field)), getattr(p, key)) for p in points]
            for line, key in (("draft", "draft"), ("mixed by Γ", "score"))
        }
        found.append(
            {
                "kind": "curves",
                "title": f"{swept.figure.upper()} over the {name.split(' (')[0]}",
                "note": "Gui et al. (2020), Figure 4.",
                "lines": lines,
                "across": name,
                "up": f"{swept.figure} (%)",
            }
        )
    return found


def _changed(its: Prediction, found: list[drafts.Trace]) -> Value:
    """Returns what refining changes (UANet, Table 1)."""
    table = drafts.table1(its.gold, found)
    names = list(Changes._fields)
    rows = [
        ["refined everywhere", *table.changes],
        ["as the tagger does", *table.final],
    ]
    return {
        "title": "What refining changes",
        "note": "Tokens; mean uncertainty of the draft in nats. Gui et al. (2020), "
        "Table 1.",
        "columns": ["", *(name.replace("_", ", ") for name in names)],
        "rows": rows,
    }


def _traced(its: Prediction, found: list[drafts.Trace]) -> list[Value]:
    """Returns the sentences that refining changes most, token by token."""
    moved = [
        sum(a != b for a, b in zip(one.draft, one.final, strict=True)) for one in found
    ]
    order = sorted(range(len(found)), key=lambda i: -moved[i])[:_TRACED]
    columns = ["token", "gold", "draft", "uncertainty (nats)", "refined", "final"]
    return [
        {
            "title": f"Token by token, sentence {i + 1}",
            "note": "Gui et al. (2020), Table 7.",
            "columns": columns,
            "rows": [list(row) for row in rows],
        }
        for i in order
        for rows in [
            zip(
                *(its.words[i], its.gold[i], found[i].draft, found[i].uncertainty),
                *(found[i].refined, found[i].final),
                strict=True,
            )
        ]
    ]


def _zeroed(params: Tagger, split: Split) -> Value:
    """Returns chunk recall with all parts of the attention zeroed but one."""
    found = parts.recalls(params, split)
    labels = list(found[parts.WHOLE])
    rows = [
        [part, *(None if x is None else 100 * x for x in shares)]
        for part, its in found.items()
        for shares in [[its[name].share if name in its else None for name in labels]]
    ]
    return {
        "title": "Chunk recall with one part of the attention",
        "note": "All other parts are zeroed; percent. Li et al. (2020).",
        "columns": ["part kept", *labels],
        "rows": rows,
    }
