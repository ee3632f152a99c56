"""Entity-level precision, recall and F1, and how many labels were ill-formed.

Scorers disagree about ill-formed labels, so every result carries the name of its rule
and the number of ill-formed predictions. Where that is 0, the rules agree.

Source: the CoNLL shared tasks' scorer conlleval; seqeval 1.2.2 for its strict mode.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from importlib.metadata import PackageNotFoundError, version
from itertools import chain
from operator import eq
from typing import Any, ClassVar, NamedTuple

import numpy as np

from jaxner.data.schemes import Span, detect, parse, to_spans, violations

RULES: tuple[str, ...] = ("conlleval", "strict")

# The first and last prefix of a well-formed span of one token, and of a longer one;
# what `to_spans` finds between them is always an I.
_WELL_FORMED = {"BIO": ("BB", "BI"), "BIOES": ("SS", "BE"), "BILOU": ("UU", "BL")}
# seqeval's default mode knows BIOES but not BILOU, its respelling.
_RESPELT = {"L": "E", "U": "S"}

Labels = Sequence[Sequence[str]]
_Spans = list[list[Span]]


class Counts(NamedTuple):
    """Numbers of spans (or tags), and the figures that follow from them.

    The figures are fractions from 0 to 1, 0.0 where undefined. `+` adds the numbers.

    Attributes:
        correct: Predicted spans whose boundaries and type are those of a gold span.
        predicted: Predicted spans.
        gold: Gold spans.

    Example:
        >>> (Counts(1, 2, 3) + Counts(2, 2, 3)).precision
        0.75
    """

    correct: int = 0
    predicted: int = 0
    gold: int = 0

    @property
    def precision(self) -> float:
        """Share of the predicted spans that are correct."""
        return self.correct / (self.predicted or 1)

    @property
    def recall(self) -> float:
        """Share of the gold spans that were found."""
        return self.correct / (self.gold or 1)

    @property
    def f1(self) -> float:
        """Harmonic mean of precision and recall."""
        return 2 * self.correct / (self.predicted + self.gold or 1)

    def __add__(self, other: "Counts") -> "Counts":  # type: ignore[override]
        return Counts(*map(sum, zip(self, other, strict=True)))

    def to_dict(self) -> dict[str, float | int]:
        """Gives figures, in percent and not rounded, and numbers."""
        figures = {"precision": self.precision, "recall": self.recall, "f1": self.f1}
        return {name: 100 * x for name, x in figures.items()} | self._asdict()


@dataclass(frozen=True)
class Scores:
    """What one comparison of predictions with gold labels found.

    Attributes:
        overall: Counts over all types; its figures are the micro averages.
        by_type: Counts per entity type of either side, types sorted.
        tokens: Number of tokens.
        correct_tokens: Tokens whose label, as it is spelled, is the gold one.
        sentences: Number of sentences.
        ill_formed: Positions at which predictions break the grammar of `scheme`.
        ill_formed_sentences: Sentences with such a position.
        rule: By which rule spans were read.
        scheme: The scheme that predictions were expected to be in.
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
    def precision(self) -> float:
        """Overall precision, 0 to 1."""
        return self.overall.precision

    @property
    def recall(self) -> float:
        """Overall recall, 0 to 1."""
        return self.overall.recall

    @property
    def f1(self) -> float:
        """Overall (micro-averaged) F1, 0 to 1."""
        return self.overall.f1

    @property
    def accuracy(self) -> float:
        """Share of tokens with the gold label, 0 to 1; flattered by the O tokens."""
        return self.correct_tokens / (self.tokens or 1)

    def figures(self) -> dict[str, float | int]:
        """Gives the figures of an epoch, in percent, and the number of ill-formed."""
        figures = {"precision": self.precision, "recall": self.recall, "f1": self.f1}
        percent = {name: 100 * figure for name, figure in figures.items()}
        return percent | {"ill_formed": self.ill_formed}

    def to_dict(self) -> dict[str, Any]:
        """Gives everything as JSON values, and jaxner's version; figures in percent."""
        by_type = {kind: counts.to_dict() for kind, counts in self.by_type.items()}
        rest = {"accuracy": 100 * self.accuracy, "jaxner": jaxner_version()}
        plain = self.overall.to_dict() | rest | vars(self) | {"by_type": by_type}
        return {name: x for name, x in plain.items() if name != "overall"}


def score(
    gold: Labels,
    predicted: Labels,
    *,
    rule: str = "conlleval",
    scheme: str | None = None,
) -> Scores:
    """Scores predicted labels against gold ones, entity by entity.

    A predicted span counts if a gold span has the same boundaries and the same type.

    Under the rule `conlleval` ill-formed labels have spans too (`to_spans`), as in
    seqeval's default mode, and the two sides may be in different schemes. Under
    `strict`, as in seqeval's strict mode, only spans that are well-formed in `scheme`
    count (BIO: B I*; BIOES: S or B I* E; of one type), in gold labels too.

    Args:
        gold: The right labels of each sentence.
        predicted: The predicted labels of each sentence.
        rule: `conlleval` or `strict`.
        scheme: The scheme of the predictions, by which ill-formed ones are counted;
            by default the one that `detect` finds in `gold`.

    Returns:
        The counts, overall and per type.

    Raises:
        ValueError: The two sides differ in their number of sentences or tokens, a label
            is malformed, rule or scheme is unknown, or `strict` cannot read the labels.

    Example:
        >>> scores = score([["B-PER", "I-PER", "O"]], [["I-PER", "I-PER", "O"]])
        >>> scores.f1, scores.ill_formed
        (1.0, 1)
        >>> score([["B-PER"]], [["I-PER"]], rule="strict").f1
        0.0
    """
    if rule not in RULES:
        raise ValueError(f"Unknown rule {rule!r}; known: {', '.join(RULES)}")
    gold_spans, predicted_spans = _read(gold, predicted)
    scheme = detect(gold) if scheme is None else scheme
    if rule == "strict":
        gold_spans = well_formed(gold, gold_spans, scheme)
        predicted_spans = well_formed(predicted, predicted_spans, scheme)
    by_type = _count(gold_spans, predicted_spans)
    breaches = [len(violations(labels, scheme)) for labels in predicted]
    return Scores(
        overall=sum(by_type.values(), Counts()),
        by_type=by_type,
        tokens=sum(map(len, gold)),
        correct_tokens=sum(map(eq, chain(*gold), chain(*predicted))),
        sentences=len(gold),
        ill_formed=sum(breaches),
        ill_formed_sentences=sum(map(bool, breaches)),
        rule=rule,
        scheme=scheme,
    )


def score_with_seqeval(
    gold: Labels, predicted: Labels, *, scheme: str | None = None
) -> Scores:
    """Scores as `score` does, but lets the library seqeval read and count the spans.

    A second opinion for final reports, slower. Nothing of `score`'s reading of spans
    goes into it: seqeval gets the labels themselves, only BILOU's L and U as E and S.

    Args:
        gold: As in `score`.
        predicted: As in `score`.
        scheme: As in `score`.

    Returns:
        The counts of seqeval's default mode; tokens and ill-formed labels by `score`.

    Raises:
        ValueError: As in `score`.

    Example:
        >>> score_with_seqeval([["B-PER", "O"]], [["B-PER", "B-LOC"]]).precision
        0.5
    """
    # Here, because seqeval imports scikit-learn, which takes seconds.
    from seqeval.metrics import sequence_labeling as seqeval

    ours = score(gold, predicted, scheme=scheme)
    # One more empty sentence adds no span; without any sentence seqeval raises.
    sides = [
        [[_RESPELT.get(x[0], x[0]) + x[1:] for x in labels] for labels in (*side, [])]
        for side in (gold, predicted)
    ]
    found = [Counter(kind for kind, *_ in seqeval.get_entities(side)) for side in sides]
    options: dict[str, Any] = {"average": None, "zero_division": 0}  # as in Counts
    _, recall, _, support = seqeval.precision_recall_fscore_support(*sides, **options)
    # seqeval keeps the number of correct spans to itself: it is recall times support.
    correct = np.rint(np.multiply(recall, support)).astype(int).tolist()
    by_type = {
        kind: Counts(number, found[1][kind], found[0][kind])
        for kind, number in zip(sorted(found[0] | found[1]), correct, strict=True)
    }
    return replace(
        ours,
        overall=sum(by_type.values(), Counts()),
        by_type=by_type,
        rule=f"seqeval {version('seqeval')} (default mode)",
    )


def _read(gold: Labels, predicted: Labels) -> tuple[_Spans, _Spans]:
    """Reads the spans of both sides; errors name the sentence."""
    if len(gold) != len(predicted):
        raise ValueError(
            f"Expected as many predicted as gold sentences, got {len(gold)} gold and "
            f"{len(predicted)} predicted; score the same split, in the same order"
        )
    spans: tuple[_Spans, _Spans] = ([], [])
    for index, (right, labels) in enumerate(zip(gold, predicted, strict=True)):
        try:
            if len(right) != len(labels):
                raise ValueError(
                    f"gold has {len(right)} labels, predicted {len(labels)}; expected "
                    "one label per token on both sides"
                )
            spans[0].append(to_spans(right))
            spans[1].append(to_spans(labels))
        except ValueError as error:
            raise ValueError(f"Sentence {index} (counted from 0): {error}") from None
    return spans


def well_formed(sentences: Labels, spans: _Spans, scheme: str) -> _Spans:
    """Keeps the spans that are written as the scheme demands."""
    if scheme not in _WELL_FORMED:
        raise ValueError(
            f"Rule 'strict' is defined for {', '.join(_WELL_FORMED)}, not for "
            f"{scheme!r}; convert both sides to one of them, or use rule 'conlleval'"
        )
    written = _WELL_FORMED[scheme]
    prefixes = {x: parse(x)[0] for labels in sentences for x in labels}
    known = {*"OBI", *"".join(written)}
    foreign = sorted(x for x, prefix in prefixes.items() if prefix not in known)
    if foreign:
        raise ValueError(
            f"Rule 'strict' reads gold and predicted labels as {scheme}, which has no "
            f"{foreign[0]!r}; convert the labels, or pass the scheme that they are in"
        )
    return [
        [x for x in found if prefixes[y[x.start]] + prefixes[y[x.end - 1]] in written]
        for y, found in zip(sentences, spans, strict=True)
    ]


def _count(gold: _Spans, predicted: _Spans) -> dict[str, Counts]:
    """Counts spans per type, types sorted."""
    # No side holds a span twice, so a set loses nothing.
    shared = [set(a) & set(b) for a, b in zip(gold, predicted, strict=True)]
    correct, guessed, right = (
        Counter(span.type for spans in side for span in spans)
        for side in (shared, predicted, gold)
    )
    return {
        kind: Counts(correct[kind], guessed[kind], right[kind])
        for kind in sorted(right | guessed)
    }


def jaxner_version() -> str:
    """Gives the version of this package."""
    try:
        return version("jaxner")
    except PackageNotFoundError:  # a bare checkout
        return "not installed"
