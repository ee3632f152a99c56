"""The content of a report on one prediction, as JSON values.

The labels may come from a tagger of this library or from another program: this module
sees only tokens, labels and, if known, probabilities. `pages` lays out the report.
"""

from __future__ import annotations

import collections
import dataclasses
from collections.abc import Iterable, Mapping, Sequence, Set
from typing import Any

import numpy as np

from jaxner.data import schemes
from jaxner.data.schemes import Span
from jaxner.evaluation import breakdowns, errors, intervals, rules, summary, tags, tally
from jaxner.evaluation.errors import Pair

Labels = Sequence[Sequence[str]]
Value = dict[str, Any]

EXAMPLES = 5
"""Examples of each kind of error."""
RANKED = 10
"""Number of confident mistakes, and of uncertain hits."""
WINDOW = 9
"""Tokens of context on each side."""
SHADES = 10
"""Number of colours for uncertainty."""


@dataclasses.dataclass(frozen=True)
class Training:
    """Facts about the training text.

    Attributes:
        words: The distinct words of the training text.
        in_vectors: Words with a pretrained vector.
        mentions: How often each string is an entity in the training text.
    """

    words: Set[str]
    in_vectors: Set[str]
    mentions: collections.Counter[str]


@dataclasses.dataclass(frozen=True)
class Prediction:
    """Gold and predicted labels of a text.

    Attributes:
        tokens: The tokens of each sentence; None if unknown.
        gold: The gold labels of each sentence.
        predicted: The predicted labels of each sentence.
        scheme: Scheme of the labels, or `schemes.TAGS`.
        rule: Rule for reading spans, one of `rules.RULES`.
        certainty: Probability of each predicted label, by sentence and token.
        entity_certainty: Probability of a predicted entity, by sentence, start, end and
            type.
        training: Facts about the training text, if known.

    Example:
        >>> Prediction(None, [["B-LOC", "O"]], [["O", "O"]], "BIO").words
        [['·', '·']]
    """

    tokens: Labels | None
    gold: Labels
    predicted: Labels
    scheme: str
    rule: str = "conlleval"
    certainty: Sequence[Sequence[float]] | None = None
    entity_certainty: Mapping[tuple[int, int, int, str], float] | None = None
    training: Training | None = None

    @property
    def words(self) -> Labels:
        """The tokens; dots if they are unknown."""
        return self.tokens or [["·"] * len(labels) for labels in self.gold]

    @property
    def span_rule(self) -> str:
        """The rule, if all its spans have lengths; else "conlleval"."""
        return self.rule if self.rule in rules.WITH_LENGTHS else "conlleval"


def describe(its: Prediction, *, rounds: int = intervals.ROUNDS) -> Value:
    """Describes a prediction: scores, groups, errors, examples, certainty.

    Args:
        its: The prediction.
        rounds: Rounds of the bootstrap.

    Returns:
        JSON values; None where undefined.

    Raises:
        ValueError: As `scoring.score`.

    Example:
        >>> one = Prediction([["Rome"]], [["B-LOC"]], [["O"]], "BIO")
        >>> describe(one, rounds=5)["errors"]["counts"]["missed"]
        1
    """
    if its.scheme == schemes.TAGS:
        return _of_tags(its, rounds) | _certainty(its)
    found = errors.pairs(its.gold, its.predicted, its.span_rule, its.scheme)
    of = {"rule": its.rule, "scheme": its.scheme, "rounds": rounds}
    parts = summary.summarise(its.gold, its.predicted, **of)
    return {
        **parts,
        "types": _types(parts),
        "span_rule": its.span_rule,
        "breakdowns": _breakdowns(its, found),
        "confusion": _confusion(found),
        "errors": _errors(its, found),
        **_ranked(its, found),
        **_certainty(its),
    }


def _types(parts: Value) -> list[Value]:
    """Returns a row for each type: counts, and figures with the bounds of F1."""
    rows = []
    for kind, counts in parts["scores"]["by_type"].items():
        bounds = parts["figures"][f"f1 {kind}"]
        rows.append({"type": kind, **counts, "low": bounds["low"]})
        rows[-1]["high"] = bounds["high"]
    return rows


def _breakdowns(its: Prediction, found: Sequence[Pair]) -> list[Value]:
    groups = {
        "Entity length (tokens)": breakdowns.by_length(found),
        "Mention length (tokens), finer": breakdowns.by_length(found, (1, 2, 3, 4)),
        "Sentence length (tokens)": breakdowns.by_sentence_length(found, its.gold),
    }
    if its.training and its.tokens:
        known = its.training
        groups["Times the same string is an entity in training"] = (
            breakdowns.by_frequency(found, its.tokens, known.mentions)
        )
        groups["Least known word of the entity"] = breakdowns.by_known_words(
            found, its.tokens, known.words, known.in_vectors
        )
    return [
        {
            "name": name,
            "rows": [{"group": row.group, **row.counts.to_dict()} for row in rows],
        }
        for name, rows in groups.items()
    ]


def _confusion(found: Sequence[Pair]) -> Value:
    spans = [span for pair in found for span in (pair.gold, pair.predicted) if span]
    types = sorted({span.type for span in spans})
    table = errors.confusion(found, types)
    return {"types": [*types, errors.OUTSIDE], "counts": table.tolist()}


def _errors(its: Prediction, found: Sequence[Pair]) -> Value:
    examples: dict[str, list[Value]] = {kind: [] for kind in errors.KINDS}
    for pair in found:
        if pair.kind and len(examples[pair.kind]) < EXAMPLES:
            examples[pair.kind].append(_example(its, pair))
    largest = errors.largest(found)
    total = sum(number for _, number in largest)
    return {
        "counts": errors.counts(found),
        "total": total,
        "largest": [
            {"error": name, "count": number, "share": 100 * number / total}
            for name, number in largest[:12]
        ],
        "examples": examples,
    }


def _ranked(its: Prediction, found: Sequence[Pair]) -> Value:
    """Returns the most confident mistakes and the least certain hits."""
    chances = its.entity_certainty
    if chances is None:
        return {}
    known = [
        (chances[pair.sentence, *pair.predicted], pair)
        for pair in found
        if pair.predicted and (pair.sentence, *pair.predicted) in chances
    ]
    wrong = sorted((x for x in known if x[1].kind), key=lambda x: -x[0])
    right = sorted((x for x in known if not x[1].kind), key=lambda x: x[0])
    return {
        name: [_example(its, pair, p) for p, pair in rows[:RANKED]]
        for name, rows in (("confident_mistakes", wrong), ("uncertain_hits", right))
    }


def _example(its: Prediction, pair: Pair, chance: float | None = None) -> Value:
    """Returns a pair in its context, gold beside predicted."""
    words = its.words[pair.sentence]
    spans = [span for span in (pair.gold, pair.predicted) if span]
    begin = max(0, min(span.start for span in spans) - WINDOW)
    end = min(len(words), max(span.end for span in spans) + WINDOW)
    sides = {
        "gold": (its.gold[pair.sentence], pair.gold),
        "predicted": (its.predicted[pair.sentence], pair.predicted),
    }
    return {
        "sentence": pair.sentence,
        "error": pair.name if pair.kind else None,
        "probability": chance,
        "cut": [begin > 0, end < len(words)],
        **{
            name: _pieces(words, schemes.to_spans(labels), focus, begin, end)
            for name, (labels, focus) in sides.items()
        },
    }


def _pieces(
    words: Sequence[str],
    spans: Iterable[Span],
    focus: Span | None,
    begin: int,
    end: int,
) -> list[Value]:
    """Splits a text into entities and the words between them."""

    def between(first: int, last: int) -> Value:
        return {"text": " ".join(words[first:last]), "type": None, "focus": False}

    cut: list[Value] = []
    at = begin
    wanted = list(spans)
    if focus is not None and focus not in wanted:  # read by a stricter rule
        wanted = sorted([s for s in wanted if not _overlap(s, focus)] + [focus])
    for span in wanted:
        first, last = max(span.start, begin), min(span.end, end)
        if first >= last:
            continue
        if first > at:
            cut.append(between(at, first))
        text = " ".join(words[first:last])
        cut.append({"text": text, "type": span.type, "focus": span == focus})
        at = last
    if at < end:
        cut.append(between(at, end))
    return cut


def _overlap(one: Span, other: Span) -> bool:
    return one.start < other.end and other.start < one.end


def _certainty(its: Prediction) -> Value:
    """Returns the least certain sentences, with the probability of each label."""
    if its.certainty is None:
        return {}
    least = [min(row, default=1.0) for row in its.certainty]
    order = sorted(range(len(least)), key=least.__getitem__)[:RANKED]
    return {
        "uncertain_text": [
            {
                "sentence": i,
                "tokens": [
                    {
                        "text": word,
                        "gold": right,
                        "predicted": label,
                        "probability": p,
                        "shade": min(int((1 - p) * SHADES), SHADES - 1),
                    }
                    for word, right, label, p in zip(
                        its.words[i],
                        its.gold[i],
                        its.predicted[i],
                        map(float, its.certainty[i]),
                        strict=True,
                    )
                ],
            }
            for i in order
        ]
    }


def _of_tags(its: Prediction, rounds: int) -> Value:
    known = its.training.words if its.training and its.tokens else None
    scores = tags.score(its.gold, its.predicted, tokens=its.tokens, known_words=known)
    new = None
    if known is not None:
        new = [[word not in known for word in words] for words in its.words]
    found = intervals.bootstrap(
        tally.of_tags(its.gold, its.predicted, new), rounds=rounds
    )
    wrong = collections.Counter(
        (a, b)
        for rows in zip(its.gold, its.predicted, strict=True)
        for a, b in zip(*rows, strict=True)
        if a != b
    )
    total = wrong.total()
    return {
        "scores": scores.to_dict(),
        "figures": {name: summary.in_percent(x) for name, x in found.items()},
        "intervals": {"rounds": rounds, "level": intervals.LEVEL, "seed": 0},
        "types": [
            {"type": kind, **counts.to_dict(), "low": None, "high": None}
            for kind, counts in scores.by_type.items()
        ],
        "errors": {
            "counts": {},
            "total": total,
            "largest": [
                {"error": f"{a} as {b}", "count": n, "share": 100 * n / total}
                for (a, b), n in wrong.most_common(12)
            ],
            "examples": {},
        },
    }


def plain(value: Any) -> Any:
    """Returns arrays and numbers as JSON values; nan and infinity become None."""
    if isinstance(value, Mapping):
        return {str(name): plain(item) for name, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    if isinstance(value, (np.ndarray, np.generic)):
        return plain(value.tolist())
    if isinstance(value, float) and not np.isfinite(value):
        return None
    return value
