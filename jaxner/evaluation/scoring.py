"""Scores of entities and of tags: spans by the rules of the papers' scorers.

A rule is a function from the labels of a sentence to its spans. The rules agree on
well-formed labels but differ on ill-formed ones, so every score names its rule and the
number of ill-formed predictions.

conlleval   every chunk: the scorer of the CoNLL shared tasks, seqeval's default mode
strict      only well-formed spans (Li et al., 2020; seqeval's strict mode)
idcnn       as conlleval, but a predicted span never counts as correct if an I or L of
            another type follows directly (Strubell et al., 2017)
ncrfpp      from a B to the next E, whatever is between; the types of I and E are
            ignored (NCRF++, and UANet of Gui et al., 2020)

Tags, such as parts of speech, are spans of one token each. All scores are functions of
counts: correct, predicted and gold spans of each sentence and type.

Source: conlleval.pl; seqeval 1.2.2; `src/eval_f1.py` of iesl/dilated-cnn-ner,
`utils/metric.py` of jiesutd/NCRFpp.
"""

from __future__ import annotations

import dataclasses
import operator
from collections import Counter
from collections.abc import Callable, Sequence, Set
from functools import lru_cache, partial
from importlib.metadata import PackageNotFoundError, version
from itertools import chain, pairwise
from typing import Any, NamedTuple

import numpy as np

from jaxner.data import schemes
from jaxner.data.schemes import TAGS, Span
from jaxner.errors import InputError
from jaxner.wording import counted, shown

Labels = Sequence[Sequence[str]]
Rule = Callable[[Sequence[str]], list[Span]]

ALONE = 0
"""The end of a span that has only a start (ncrfpp)."""
LOST = -1
"""The end of a span that counts as predicted but never as correct (idcnn)."""

# --- Rules ----------------------------------------------------------------------------


def strict(labels: Sequence[str], scheme: str) -> list[Span]:
    """Returns the spans that seqeval's strict mode reads from labels of a scheme."""
    found, start = [], None
    for i, (before, label) in enumerate(pairwise(["O", *labels, "O"])):
        begins, continues, ends = _step(before, label, scheme)
        if start is not None and not continues:
            if ends:
                found.append(Span(start, i, schemes.parse(before)[1]))
            start = None
        if start is None and begins:
            start = i
    return found


# The starts, insides and ends of spans: the prefixes of two neighbours, and whether
# their types must be equal (=), must differ (!) or may be any (*); a dot is any prefix.
_STRICT = {
    "IOB1": ("OI* II! BI* IB= BB=", "BI= II=", "II! IO* IB* BO* BI! BB="),
    "BIO": (".B*", "BI= II=", "II! IO* IB* BO* BI! BB*"),
    "BIOES": (".B* .S*", "BI= BE= II= IE=", "S.* E.*"),
    "BILOU": (".B* .U*", "BI= BL= II= IL=", "U.* L.*"),
    "IOE1": ("OI* II! EI* EE=", "II= IE=", "II! IO* IE! EI= EE="),
    "IOE2": ("OI* OE* EI* EE* II! IE!", "IE= II=", "E.*"),
}


@lru_cache(maxsize=1 << 16)
def _step(before: str, label: str, scheme: str) -> list[bool]:
    """Returns whether a span starts, goes on and ends between two labels."""
    (a, first), (b, second) = schemes.parse(before), schemes.parse(label)
    same = "=" if first == second else "!"
    fitting = {f"{a}{b}*", f".{b}*", f"{a}.*", f"{a}{b}{same}"}
    return [not fitting.isdisjoint(x.split()) for x in _STRICT[scheme]]


def idcnn(labels: Sequence[str]) -> list[Span]:
    """Returns the spans that the program of Strubell et al. reads.

    It turns L into I and U into B, so only an O, a start or another type ends a span.
    """
    merged = [_MERGED[label[0]] + label[1:] for label in labels]
    after = [*merged[1:], "O"]
    return [
        span._replace(end=LOST) if after[span.end - 1][0] == "I" else span
        for span in schemes.to_spans(merged)
    ]


_MERGED = {"O": "O", "B": "B", "I": "I", "E": "I", "L": "I", "S": "B", "U": "B"}


def ncrfpp(labels: Sequence[str]) -> list[Span]:
    """Returns the spans that NCRF++ reads: only B, S and E matter."""
    prefixes = [_RESPELT.get(label[0], label[0]) for label in labels]
    marks = [i for i, prefix in enumerate(prefixes) if prefix in "BSE"]
    found = []
    for mark, after in zip(marks, [*marks[1:], None], strict=False):
        if prefixes[mark] == "E":
            continue
        end = ALONE
        if prefixes[mark] == "B" and after is not None:
            end = after + 1 if prefixes[after] == "E" else after
        found.append(Span(mark, end, labels[mark][2:]))
    return found


_RESPELT = {"L": "E", "U": "S"}


def each_token(labels: Sequence[str]) -> list[Span]:
    """Returns a span for each token, whose type is its tag."""
    return [Span(i, i + 1, label) for i, label in enumerate(labels)]


RULES = ("conlleval", "strict", "idcnn", "ncrfpp")
"""The names of the rules."""
WITH_LENGTHS = ("conlleval", "strict")
"""Rules under which every span has a length."""


def reader(rule: str, scheme: str) -> Rule:
    """Returns the function that reads the spans of a sentence, by a rule.

    Raises:
        InputError: The rule is unknown, or cannot read labels of the scheme.

    Example:
        >>> labels = ["B-PER", "O", "E-LOC"]
        >>> [(span.start, span.end) for span in reader("conlleval", "BIOES")(labels)]
        [(0, 1), (2, 3)]
    """
    check_rule(rule, scheme)
    if scheme == TAGS:
        return each_token
    if rule == "strict":
        return partial(strict, scheme=scheme)
    return {"conlleval": schemes.to_spans, "idcnn": idcnn, "ncrfpp": ncrfpp}[rule]


def reads(rule: str, scheme: str) -> bool:
    """Returns whether a rule is defined for labels of a scheme."""
    limited = {"ncrfpp": ("BIOES", "BILOU"), "strict": schemes.SCHEMES}
    return scheme in limited.get(rule, (scheme,))


def check_rule(rule: str, scheme: str) -> None:
    """Raises `InputError` if a rule is unknown or cannot read labels of a scheme."""
    if rule not in RULES:
        raise InputError(f"Unknown rule {rule!r}; known: {', '.join(RULES)}")
    if scheme not in (*schemes.SCHEMES, TAGS):
        schemes.label_names((), scheme)  # raises the error of unknown schemes
    if scheme != TAGS and not reads(rule, scheme):
        raise InputError(
            f"Rule 'ncrfpp' reads BIOES or BILOU, not {scheme!r}: in other schemes no "
            "label ends a span; convert the labels, or take rule 'conlleval'"
        )


# --- Counts ---------------------------------------------------------------------------


class Counts(NamedTuple):
    """Counts of spans (or tags), and precision, recall and F1.

    The figures are fractions from 0 to 1, None where undefined: precision without
    predictions, recall without gold spans, F1 without either. `+` adds the counts.

    Attributes:
        correct: Predicted spans with the boundaries and type of a gold span.
        predicted: Predicted spans.
        gold: Gold spans.

    Example:
        >>> (Counts(1, 2, 3) + Counts(2, 2, 3)).precision
        0.75
        >>> Counts(0, 0, 3).precision, Counts(0, 0, 3).f1
        (None, 0.0)
    """

    correct: int = 0
    predicted: int = 0
    gold: int = 0

    @property
    def precision(self) -> float | None:
        """Share of the predicted spans that are correct."""
        return ratio(self.correct, self.predicted)

    @property
    def recall(self) -> float | None:
        """Share of the gold spans that were found."""
        return ratio(self.correct, self.gold)

    @property
    def f1(self) -> float | None:
        """Harmonic mean of precision and recall."""
        return ratio(2 * self.correct, self.predicted + self.gold)

    def __add__(self, other: Counts) -> Counts:  # type: ignore[override]
        return Counts(*map(sum, zip(self, other, strict=True)))

    def to_dict(self) -> dict[str, float | int | None]:
        """Returns the counts, and the figures in percent, not rounded."""
        figures = {"precision": self.precision, "recall": self.recall, "f1": self.f1}
        return {name: percent(x) for name, x in figures.items()} | self._asdict()


class Averages(NamedTuple):
    """Means of the figures over types, 0 to 1; None where undefined."""

    precision: float | None
    recall: float | None
    f1: float | None


def ratio(part: int | float, whole: int | float) -> float | None:
    """Returns part / whole; None where whole is 0."""
    return part / whole if whole else None


def percent(figure: int | float | None) -> int | float | None:
    """Returns a fraction in percent; None stays None."""
    return None if figure is None else 100 * figure


def count(
    gold: Labels,
    predicted: Labels,
    rule: str = "conlleval",
    scheme: str = "BIOES",
    types: Sequence[str] | None = None,
) -> np.ndarray:
    """Returns the span counts of each sentence and type, by a rule.

    Args:
        gold: As in `score`.
        predicted: As in `score`.
        rule: As in `score`.
        scheme: As in `score`.
        types: The types, in order; by default, those of the labels, sorted.

    Returns:
        Correct, predicted and gold spans, `[sentences, types, 3]`.

    Example:
        >>> gold, predicted = [["B-PER", "E-PER"]], [["B-PER", "E-LOC"]]
        >>> [int(count(gold, predicted, rule)[..., 0].sum()) for rule in RULES]
        [0, 0, 0, 1]
    """
    read = reader(rule, scheme)
    kinds = check_labels(gold, predicted, scheme) if types is None else types
    if rule == "strict" and scheme != TAGS:
        _check_prefixes(gold, predicted, scheme)
    column = {kind: i for i, kind in enumerate(kinds)}
    shape = len(gold), max(len(column), 1), 3
    cells: list[int] = []
    for row, sides in enumerate(zip(gold, predicted, strict=True)):
        expected = guessed = read(sides[0])
        if not all(map(operator.eq, *sides)):
            guessed = read(sides[1])
        known = set(expected)
        correct = [s for s in guessed if s in known and s.end != LOST]
        for place, spans in enumerate((correct, guessed, expected)):
            cells += [(row * shape[1] + column[s.type]) * 3 + place for s in spans]
    size = shape[0] * shape[1] * shape[2]
    return np.bincount(np.array(cells, np.int64), minlength=size).reshape(shape)


def total(counts: np.ndarray) -> Counts:
    """Returns the sum of counts `[..., 3]`."""
    return Counts(*counts.reshape(-1, 3).sum(0).tolist())


def check_labels(
    gold: Labels, predicted: Labels, scheme: str | None = None
) -> tuple[str, ...]:
    """Checks the labels of both sides, and returns their types, sorted.

    Raises:
        TypeError: A side is not a list of sentences.
        InputError: The sides differ in their numbers of sentences or tokens, or a label
            is malformed and no tag.
    """
    for name, side in (("gold", gold), ("predicted", predicted)):
        if not hasattr(side, "__len__"):
            raise TypeError(
                f"Expected {name} as a list of sentences, got {shown(side)}"
            )
    if len(gold) != len(predicted):
        raise InputError(
            f"Expected as many predicted as gold sentences, got {len(gold)} gold and "
            f"{len(predicted)} predicted; score the same split, in the same order"
        )
    for i, (right, guessed) in enumerate(zip(gold, predicted, strict=True)):
        if len(right) != len(guessed):
            raise InputError(
                f"Sentence {i} (counted from 0): gold has "
                f"{counted(len(right), 'label')}, predicted {len(guessed)}; expected "
                "one label per token on both sides"
            )
    names = set(chain.from_iterable(gold)).union(chain.from_iterable(predicted))
    if scheme == TAGS:
        return tuple(sorted(names))
    try:
        parsed = {schemes.parse(name) for name in names}
    except ValueError:
        raise _malformed(gold, predicted) from None
    return tuple(sorted({kind for _, kind in parsed if kind}))


def _check_prefixes(gold: Labels, predicted: Labels, scheme: str) -> None:
    names = set(chain.from_iterable(gold)).union(chain.from_iterable(predicted))
    known = {name[0] for name in schemes.label_names(["x"], scheme)}
    if foreign := sorted({name[0] for name in names} - known):
        raise InputError(
            f"Rule 'strict' reads gold and predicted labels as {scheme}, which has no "
            f"label {foreign[0]}-…; convert the labels, or name their scheme"
        )


def _malformed(gold: Labels, predicted: Labels) -> InputError:
    """Returns the error of the first malformed label, with its position."""
    for i, sides in enumerate(zip(gold, predicted, strict=True)):
        for name, labels in zip(("gold", "predicted"), sides, strict=True):
            for position, label in enumerate(labels):
                try:
                    schemes.parse(label)
                except ValueError as error:
                    where = f"Sentence {i} (counted from 0), {name}"
                    return InputError(f"{where}: Position {position}: {error}")
    raise AssertionError("Expected a malformed label")


# --- Scores ---------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True, eq=False)
class Scores:
    """The scores of predictions against gold labels.

    Attributes:
        counts: Correct, predicted and gold spans, `[sentences, types, 3]`; in one row
            for all sentences if seqeval counted them.
        types: Types of either side, sorted.
        tokens: Number of tokens.
        correct_tokens: Tokens whose label equals the gold label as a string.
        sentences: Number of sentences.
        ill_formed: Positions where predictions violate the grammar of `scheme`.
        ill_formed_sentences: Sentences with such a position.
        rule: Rule for reading spans.
        scheme: Expected scheme of the predictions, or `schemes.TAGS`.
        oov_tokens: For tags, tokens whose word, spelled exactly so, is not in the
            training text; None if that text is unknown.
        correct_oov_tokens: Those among them with the gold tag.

    Example:
        >>> scores = score([["B-PER", "O"]], [["B-PER", "B-LOC"]])
        >>> scores.precision, scores.by_type["PER"].f1, scores.accuracy
        (0.5, 1.0, 0.5)
    """

    counts: np.ndarray
    types: tuple[str, ...]
    tokens: int
    correct_tokens: int
    sentences: int
    ill_formed: int
    ill_formed_sentences: int
    rule: str
    scheme: str
    oov_tokens: int | None = None
    correct_oov_tokens: int | None = None

    @property
    def has_tags(self) -> bool:
        """Whether labels are tags instead of spans."""
        return self.scheme == TAGS

    @property
    def overall(self) -> Counts:
        """Counts over all types; its figures are the micro averages."""
        return total(self.counts)

    @property
    def by_type(self) -> dict[str, Counts]:
        """Counts per type with a span on either side, types sorted."""
        each = map(Counts._make, self.counts.sum(0).tolist())
        pairs = zip(self.types, each, strict=False)
        return {kind: x for kind, x in pairs if x.predicted or x.gold}

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
        return self._averages([1] * len(self.by_type))

    @property
    def weighted(self) -> Averages:
        """As `macro`, but each type is weighted by its number of gold spans."""
        return self._averages([counts.gold for counts in self.by_type.values()])

    def _averages(self, weights: Sequence[int]) -> Averages:
        pairs = list(zip(weights, self.by_type.values(), strict=True))
        sums = [
            sum(weight * (getattr(counts, name) or 0.0) for weight, counts in pairs)
            for name in Averages._fields
        ]
        return Averages(*(ratio(x, sum(weights)) for x in sums))

    @property
    def accuracy(self) -> float | None:
        """Share of tokens with the gold label, 0 to 1."""
        return ratio(self.correct_tokens, self.tokens)

    @property
    def oov_accuracy(self) -> float | None:
        """Accuracy on words not in the training text; None without such words."""
        return ratio(self.correct_oov_tokens or 0, self.oov_tokens or 0)

    @property
    def known_accuracy(self) -> float | None:
        """Accuracy on words of the training text; None without such words."""
        if self.oov_tokens is None or self.correct_oov_tokens is None:
            return None
        right = self.correct_tokens - self.correct_oov_tokens
        return ratio(right, self.tokens - self.oov_tokens)

    def figures(self) -> dict[str, float | int | None]:
        """Returns the figures of an epoch in percent, and the ill-formed labels.

        For tags, these are the defined accuracies.
        """
        names = ("precision", "recall", "f1")
        if self.has_tags:
            names = ("accuracy", "known_accuracy", "oov_accuracy")
        figures = {name: percent(getattr(self, name)) for name in names}
        if self.has_tags:
            return {name: x for name, x in figures.items() if x is not None}
        return figures | {"ill_formed": self.ill_formed}

    def to_dict(self) -> dict[str, Any]:
        """Returns all values as JSON, and jaxner's version; figures in percent."""
        names = ["tokens", "correct_tokens", "sentences"]
        found: dict[str, Any] = {}
        if self.has_tags:
            found |= self.figures()
            names += ["oov_tokens", "correct_oov_tokens"]
        else:
            found |= self.overall.to_dict() | {"accuracy": percent(self.accuracy)}
            for name, means in (("macro", self.macro), ("weighted", self.weighted)):
                for figure, value in means._asdict().items():
                    found[f"{name}_{figure}"] = percent(value)
            names += ["ill_formed", "ill_formed_sentences", "rule"]
        found |= {name: getattr(self, name) for name in names}
        by_type = {kind: counts.to_dict() for kind, counts in self.by_type.items()}
        about = {"scheme": self.scheme, "jaxner": jaxner_version()}
        return found | {"by_type": by_type} | about


def score(
    gold: Labels,
    predicted: Labels,
    *,
    rule: str = "conlleval",
    scheme: str | None = None,
    tokens: Labels | None = None,
    known_words: Set[str] | None = None,
) -> Scores:
    """Returns the scores of predicted labels against gold labels, by entity or tag.

    A predicted span counts if a gold span has the same boundaries and the same type.
    The module describes how each rule reads ill-formed labels; with `conlleval`, the
    two sides may have different schemes. A gold tag unknown to the tagger counts as
    missed.

    Args:
        gold: The gold labels of each sentence.
        predicted: The predicted labels of each sentence.
        rule: One of `RULES`; unused for tags.
        scheme: Scheme of the predictions, for counting ill-formed labels; by default,
            detected from `gold`. `schemes.TAGS`: the labels are tags.
        tokens: The words of each sentence, to separate known and unknown words of tags.
        known_words: The distinct words of the training text.

    Returns:
        The counts, overall and per type.

    Raises:
        InputError: The two sides differ in their number of sentences or tokens, a label
            is malformed, rule or scheme is unknown, or the rule cannot read the labels.

    Example:
        >>> scores = score([["B-PER", "I-PER", "O"]], [["I-PER", "I-PER", "O"]])
        >>> scores.f1, scores.ill_formed
        (1.0, 1)
        >>> score([["B-PER"]], [["I-PER"]], rule="strict").f1
        0.0
        >>> score([["DET", "NOUN"]], [["DET", "VERB"]], scheme="tags").accuracy
        0.5
    """
    check_rule(rule, "BIOES")
    types = check_labels(gold, predicted, scheme)
    scheme = schemes.detect(gold) if scheme is None else scheme
    counts = count(gold, predicted, rule, scheme, types)
    same = list(map(operator.eq, chain(*gold), chain(*predicted)))
    broken = [len(schemes.violations(labels, scheme)) for labels in predicted]
    oov: list[bool] | None = None
    if scheme == TAGS and tokens is not None and known_words is not None:
        words = zip(chain(*tokens), same, strict=True)
        oov = [is_right for word, is_right in words if word not in known_words]
    return Scores(
        counts,
        types,
        tokens=len(same),
        correct_tokens=sum(same),
        sentences=len(gold),
        ill_formed=sum(broken),
        ill_formed_sentences=sum(map(bool, broken)),
        rule=rule,
        scheme=scheme,
        oov_tokens=None if oov is None else len(oov),
        correct_oov_tokens=None if oov is None else sum(oov),
    )


def score_with_seqeval(
    gold: Labels, predicted: Labels, *, scheme: str | None = None
) -> Scores:
    """Returns the scores of seqeval, which reads and counts the spans itself.

    This is a slower second opinion for final reports, independent of `score`. seqeval
    receives the labels themselves, with BILOU's L and U as E and S.

    Returns:
        The counts of seqeval's default mode, which is conlleval's rule; token counts
        and ill-formed labels come from `score`.
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
    types = tuple(sorted(found[0] | found[1]))
    # seqeval does not return the number of correct spans: recall times support.
    correct = np.rint(np.multiply(recall, support)).astype(int).tolist()
    rows = [(n, found[1][x], found[0][x]) for n, x in zip(correct, types, strict=True)]
    counts = np.array(rows, np.int64).reshape(1, -1, 3)
    return dataclasses.replace(ours, counts=counts, types=types)


@dataclasses.dataclass(frozen=True)
class Task:
    """How to score predictions: by spans or by tags, depending on the label scheme.

    Attributes:
        scheme: The tagger's scheme: one of `schemes.SCHEMES`, or `schemes.TAGS`.
        known_words: The distinct words of the training text, or None; tags of other
            words are also counted separately.
        rule: Default rule for reading spans, one of `RULES`; unused for tags.

    Raises:
        InputError: The rule is unknown, or cannot read labels of the scheme.

    Example:
        >>> Task("BIOES").main_figure, Task("tags").main_figure
        ('f1', 'accuracy')
        >>> Task("tags").score([["a", "b"]], [["X", "Y"]], [["X", "X"]]).accuracy
        0.5
    """

    scheme: str
    known_words: Set[str] | None = None
    rule: str = "conlleval"

    def __post_init__(self):
        check_rule(self.rule, self.scheme)

    @property
    def has_tags(self) -> bool:
        """Whether labels are tags instead of spans."""
        return self.scheme == TAGS

    @property
    def main_figure(self) -> str:
        """The name of the figure that chooses the best epoch."""
        return "accuracy" if self.has_tags else "f1"

    def score(
        self, tokens: Labels, gold: Labels, predicted: Labels, rule: str | None = None
    ) -> Scores:
        """Returns the scores of predicted labels; see `score`.

        The rule "seqeval" is a second opinion on "conlleval"; None is the task's rule.
        """
        if rule == "seqeval" and not self.has_tags:
            return score_with_seqeval(gold, predicted, scheme=self.scheme)
        rule = self.rule if rule in (None, "seqeval") else rule
        words = {"tokens": tokens, "known_words": self.known_words}
        return score(gold, predicted, rule=rule, scheme=self.scheme, **words)


def jaxner_version() -> str:
    """Returns the version of this package."""
    try:
        return version("jaxner")
    except PackageNotFoundError:  # a checkout that is not installed
        return "not installed"
