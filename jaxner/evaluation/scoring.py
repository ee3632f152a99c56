"""Entity-level precision, recall and F1, and the number of ill-formed labels.

Scorers disagree about ill-formed labels, so every result includes its rule and the
number of ill-formed predictions. If that number is 0, the rules agree.

Source: the CoNLL shared tasks' scorer conlleval; seqeval 1.2.2 for its strict mode.
"""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from importlib.metadata import PackageNotFoundError, version
from typing import Any, ClassVar, NamedTuple

import numpy as np

from jaxner.data.schemes import detect
from jaxner.evaluation import coded, reading, rules
from jaxner.evaluation.coded import Labels
from jaxner.evaluation.counts import Counts as Counts
from jaxner.evaluation.counts import percent, ratio

# seqeval's default mode knows BIOES but not BILOU, which only renames two prefixes.
_RESPELT = {"L": "E", "U": "S"}


class Averages(NamedTuple):
    """Means of the figures over types, 0 to 1; None where undefined."""

    precision: float | None
    recall: float | None
    f1: float | None


def _averages(by_type: dict[str, Counts], weight: Callable[[Counts], int]) -> Averages:
    weights = [weight(counts) for counts in by_type.values()]
    sums = [
        sum(w * (getattr(counts, name) or 0.0) for w, counts in pairs)
        for name in Averages._fields
        for pairs in [zip(weights, by_type.values(), strict=True)]
    ]
    return Averages(*(ratio(total, sum(weights)) for total in sums))


@dataclass(frozen=True)
class Scores:
    """The scores of predictions against gold labels.

    Attributes:
        overall: Counts over all types; its figures are the micro averages.
        by_type: Counts per entity type of either side, types sorted.
        tokens: Number of tokens.
        correct_tokens: Tokens whose label equals the gold label as a string.
        sentences: Number of sentences.
        ill_formed: Positions where predictions violate the grammar of `scheme`.
        ill_formed_sentences: Sentences with such a position.
        rule: Rule for reading spans.
        scheme: Expected scheme of the predictions.

    Example:
        >>> scores = score([["B-PER", "O"]], [["B-PER", "B-LOC"]])
        >>> scores.precision, scores.by_type["PER"].f1, scores.accuracy
        (0.5, 1.0, 0.5)
    """

    overall: Counts
    by_type: dict[str, Counts]
    tokens: int
    correct_tokens: int
    sentences: int
    ill_formed: int
    ill_formed_sentences: int
    rule: str
    scheme: str

    main_figure: ClassVar[str] = "f1"

    @property
    def precision(self) -> float | None:
        """Overall precision, 0 to 1; None without predicted spans."""
        return self.overall.precision

    @property
    def recall(self) -> float | None:
        """Overall recall, 0 to 1; None without gold spans."""
        return self.overall.recall

    @property
    def f1(self) -> float | None:
        """Overall (micro-averaged) F1, 0 to 1; None without any spans."""
        return self.overall.f1

    @property
    def macro(self) -> Averages:
        """Means over the types; undefined figures count as 0, as in seqeval."""
        return _averages(self.by_type, lambda counts: 1)

    @property
    def weighted(self) -> Averages:
        """Means over the types, each weighted by its number of gold spans.

        Undefined figures count as 0, as in seqeval.
        """
        return _averages(self.by_type, lambda counts: counts.gold)

    @property
    def accuracy(self) -> float | None:
        """Share of tokens with the gold label, 0 to 1; high because most are O."""
        return ratio(self.correct_tokens, self.tokens)

    def figures(self) -> dict[str, float | int | None]:
        """Returns the figures of an epoch in percent, and the ill-formed labels."""
        figures = {"precision": self.precision, "recall": self.recall, "f1": self.f1}
        its: dict[str, float | int | None]
        its = {name: percent(figure) for name, figure in figures.items()}
        return its | {"ill_formed": self.ill_formed}

    def to_dict(self) -> dict[str, Any]:
        """Returns all values as JSON, and jaxner's version; figures in percent."""
        by_type = {kind: counts.to_dict() for kind, counts in self.by_type.items()}
        means = {
            f"{name}_{figure}": percent(value)
            for name, its in (("macro", self.macro), ("weighted", self.weighted))
            for figure, value in its._asdict().items()
        }
        rest = {"accuracy": percent(self.accuracy), "jaxner": jaxner_version()} | means
        plain = self.overall.to_dict() | rest | vars(self) | {"by_type": by_type}
        return {name: x for name, x in plain.items() if name != "overall"}


def score(
    gold: Labels,
    predicted: Labels,
    *,
    rule: str = "conlleval",
    scheme: str | None = None,
) -> Scores:
    """Returns the scores of predicted labels against gold labels, by entity.

    A predicted span counts if a gold span has the same boundaries and the same type.
    `rules` describes how each rule reads ill-formed labels; with `conlleval`, the two
    sides may have different schemes.

    Args:
        gold: The gold labels of each sentence.
        predicted: The predicted labels of each sentence.
        rule: One of `rules.RULES`.
        scheme: Scheme of the predictions, for counting ill-formed labels; by default,
            detected from `gold`.

    Returns:
        The counts, overall and per type.

    Raises:
        ValueError: The two sides differ in their number of sentences or tokens, a label
            is malformed, rule or scheme is unknown, or the rule cannot read the labels.

    Example:
        >>> scores = score([["B-PER", "I-PER", "O"]], [["I-PER", "I-PER", "O"]])
        >>> scores.f1, scores.ill_formed
        (1.0, 1)
        >>> score([["B-PER"]], [["I-PER"]], rule="strict").f1
        0.0
    """
    rules.known(rule)
    labels = coded.code(gold, predicted)
    return score_coded(labels, rule, detect(gold) if scheme is None else scheme)


def score_coded(labels: coded.Coded, rule: str, scheme: str) -> Scores:
    """Returns the scores of labels from `coded.code`; see `score` for arguments."""
    broken = reading.ill_formed(labels.predicted, labels.layout, scheme)
    gold, predicted, correct = reading.in_both(labels, rule, scheme)
    size = len(labels.types)
    numbers = [
        np.bincount(kinds, minlength=size).tolist()
        for kinds in (predicted.type[correct], predicted.type, gold.type)
    ]
    by_type = {
        kind: Counts(*its)
        for kind, *its in zip(labels.types, *numbers, strict=True)
        if its[1] or its[2]
    }
    return Scores(
        overall=sum(by_type.values(), Counts()),
        by_type=by_type,
        tokens=len(labels.gold.ids),
        correct_tokens=int((labels.gold.ids == labels.predicted.ids).sum()),
        sentences=len(labels.layout.lengths),
        ill_formed=int(broken.sum()),
        ill_formed_sentences=len(np.unique(labels.layout.sentence[broken])),
        rule=rule,
        scheme=scheme,
    )


def score_with_seqeval(
    gold: Labels, predicted: Labels, *, scheme: str | None = None
) -> Scores:
    """Returns the scores of seqeval, which reads and counts the spans itself.

    This is a slower second opinion for final reports, independent of `score`. seqeval
    receives the labels themselves, with BILOU's L and U as E and S.

    Args:
        gold: As in `score`.
        predicted: As in `score`.
        scheme: As in `score`.

    Returns:
        The counts of seqeval's default mode, which is conlleval's rule; token counts
        and ill-formed labels come from `score`.

    Raises:
        ValueError: As in `score`.

    Example:
        >>> score_with_seqeval([["B-PER", "O"]], [["B-PER", "B-LOC"]]).precision
        0.5
    """
    # Imported here, because seqeval imports scikit-learn, which takes seconds.
    from seqeval.metrics import sequence_labeling as seqeval

    ours = score(gold, predicted, scheme=scheme)
    # seqeval raises an error without sentences; an extra empty one adds no span.
    sides = [
        [[_RESPELT.get(x[0], x[0]) + x[1:] for x in labels] for labels in (*side, [])]
        for side in (gold, predicted)
    ]
    found = [Counter(kind for kind, *_ in seqeval.get_entities(side)) for side in sides]
    options: dict[str, Any] = {"average": None, "zero_division": 0}  # as in Counts
    _, recall, _, support = seqeval.precision_recall_fscore_support(*sides, **options)
    # seqeval does not return the number of correct spans: recall times support.
    correct = np.rint(np.multiply(recall, support)).astype(int).tolist()
    by_type = {
        kind: Counts(number, found[1][kind], found[0][kind])
        for kind, number in zip(sorted(found[0] | found[1]), correct, strict=True)
    }
    return replace(
        ours,
        overall=sum(by_type.values(), Counts()),
        by_type=by_type,
        rule="conlleval",
    )


def jaxner_version() -> str:
    """Returns the version of this package."""
    try:
        return version("jaxner")
    except PackageNotFoundError:  # a checkout that is not installed
        return "not installed"
