"""Thresholds on probabilities whose risk on new text has a bound, from few sentences.

The unit is the sentence, since the entities of one sentence depend on each other. A
risk is a mean over sentences: of the share of gold entities that are missed (over
sentences that have any), or of the share of wrong entities among those that are kept
(over sentences that keep any). The bounds hold if the sentences that are measured and
those to come are drawn alike, whatever the tagger and its probabilities.
"""

from __future__ import annotations

import bisect
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal, NamedTuple, get_args

import numpy as np

from jaxner import fields
from jaxner.errors import InputError
from jaxner.evaluation.report import Prediction
from jaxner.wording import counted

Of = Literal["misses", "errors"]  # what a risk is of; see `bounded`
_STARTS = (0.99, 0.9, 0.75, 0.5)  # of the sequences of tests, fixed before any data
_NO_CANDIDATE = -1.0  # the probability of a gold entity that is no candidate

Row = Sequence[tuple[float, bool]]
"""The entities of one type in a sentence: probability, and whether it is gold."""


class Guarantee(NamedTuple):
    """A threshold for entities of a type, and the bound that it keeps.

    `confidence` is the share of draws of the sentences for which the risk is kept; None
    if the mean over all draws is.
    """

    type: str
    of: str
    risk: float
    confidence: float | None
    threshold: float
    sentences: int  # of which the measured risk is the mean
    measured: float  # on the sentences that chose the threshold


def rows_of(prediction: Prediction, kind: str) -> list[Row]:
    """Returns the candidates of a type, and the gold entities among none of them."""
    gold, chances = prediction.gold_entities, prediction.entity_certainty or {}
    rows: list[list[tuple[float, bool]]] = [[] for _ in prediction.gold]
    for entity in dict.fromkeys([*chances, *gold]):
        if entity[3] == kind:
            chance = chances.get(entity, _NO_CANDIDATE)
            rows[entity[0]].append((chance, entity in gold))
    return [*rows]


def risk_on(prediction: Prediction, row: Mapping[str, Any]) -> tuple[float | None, int]:
    """Returns the risk of a guarantee on a text, None without any, and sentences."""
    rows = rows_of(prediction, row["type"])
    shares = losses(rows, row["threshold"], row["of"])
    return (float(shares.mean()) if len(shares) else None), len(shares)


def losses(rows: Sequence[Row], threshold: float, of: str) -> np.ndarray:
    """Returns the share of misses or errors of each sentence that has any to share.

    Example:
        >>> rows = [[(0.9, True), (0.4, True), (0.6, False)], [(0.3, False)]]
        >>> losses(rows, 0.5, "misses").tolist(), losses(rows, 0.2, "errors").tolist()
        ([0.5], [0.3333333333333333, 1.0])
    """

    def outcomes() -> Iterator[list[bool]]:
        for row in rows:
            if of == "misses":
                yield [chance < threshold for chance, is_gold in row if is_gold]
            else:
                yield [not is_gold for chance, is_gold in row if chance >= threshold]

    return np.array([sum(x) / len(x) for x in outcomes() if x])


def bounded(
    rows: Sequence[Row], kind: str, risk: float, of: Of, confidence: float = 0.9
) -> Guarantee:
    """Returns the threshold of a type whose risk is at most `risk`.

    For misses, the highest one by conformal risk control (Angelopoulos, Bates, Fisch,
    Lei and Schuster, ICLR 2024): the mean risk, over draws of these sentences and of a
    new one, is at most `risk`; an error here counts as no risk. For errors, whose share
    need not fall with the threshold, the lowest one by Learn then Test (Angelopoulos,
    Bates, Candès, Jordan and Lei, 2021): from each of four starts, thresholds are
    tested downwards in steps of 0.01 until one fails, by the p-value of Hoeffding and
    Bentkus (Bates et al., JACM 2021); for a share `confidence` of draws, the risk is at
    most `risk`.

    `InputError`: the sentences are too few, no threshold reaches the risk, or an
    argument is wrong: `risk` and `confidence` lie between 0 and 1.
    """
    fields.check_word("of", of, get_args(Of))
    for name, value in {"risk": risk, "confidence": confidence}.items():
        fields.check(name, value, fields.Chance)
    find = _for_misses if of == "misses" else _for_errors
    threshold = find(rows, kind, risk, 1 - confidence)
    values = losses(rows, threshold, of)
    level = None if of == "misses" else confidence
    mean = float(values.mean())
    return Guarantee(kind, of, risk, level, threshold, len(values), mean)


def _for_misses(rows: Sequence[Row], kind: str, risk: float, _: float) -> float:
    def bound(threshold: float) -> float:
        shares = losses(rows, threshold, "misses")
        return (shares.sum() + 1) / (len(shares) + 1)

    _check_count(len(losses(rows, 0.0, "misses")), math.ceil(1 / risk - 1), kind, risk)
    if (minimum := bound(0.0)) > risk:
        raise InputError(
            f"No threshold misses at most {risk:g} of {kind}: the least risk within "
            f"reach is {minimum:.4f}. More labellings (n_best) find more entities."
        )
    chances = sorted({p for row in rows for p, is_gold in row if is_gold})
    # Rounded down, since a text in another batch may lose the last digit. The lowest
    # one of a candidate keeps the risk, as 0 does.
    steps = [math.floor(p * 1e6) / 1e6 for p in chances]
    return steps[bisect.bisect_right(steps, risk, key=bound) - 1]


def _for_errors(rows: Sequence[Row], kind: str, risk: float, level: float) -> float:
    level /= len(_STARTS)
    minimum = math.ceil(math.log(level) / math.log1p(-risk))
    _check_count(len(losses(rows, 0.0, "errors")), minimum, kind, risk)

    def passed(risk: float) -> Iterator[float]:
        for start in _STARTS:
            for step in range(round(100 * start), -1, -1):
                if p_value(losses(rows, step / 100, "errors"), risk) > level:
                    break
                yield step / 100

    lowest = min(passed(risk), default=None)
    if lowest is None:
        risks = (x / 100 for x in range(1, 100) if any(passed(x / 100)))
        raise InputError(
            f"No threshold keeps at most {risk:g} wrong entities among those of {kind} "
            f"with this confidence: the least risk within reach is {next(risks, 1)}."
        )
    return lowest


def _check_count(count: int, minimum: int, kind: str, risk: float) -> None:
    if count < minimum:
        raise InputError(
            f"A risk of {risk:g} for {kind} needs at least "
            f"{counted(minimum, 'sentence')} with such entities, got {count}."
        )


def p_value(shares: np.ndarray, risk: float) -> float:
    """Returns a p-value of a mean above `risk`, of shares from 0 to 1.

    Example:
        >>> round(p_value(np.zeros(45), 0.05), 3)  # as exact as the binomial test
        0.099
    """
    from scipy import stats  # which takes long to import

    if not len(shares):
        return 1.0
    count, mean = len(shares), min(float(shares.mean()), risk)
    parts = (mean, risk), (1 - mean, 1 - risk)
    distance = sum(a * math.log(a / b) for a, b in parts if a)
    errors = math.ceil(round(float(shares.sum()), 9))
    bentkus = math.e * float(stats.binom.cdf(errors, count, risk))
    return min(math.exp(-count * distance), bentkus, 1.0)
