"""Scores of entities and of tags: spans by the rules of the papers' scorers.

A rule is a function from the labels of a sentence to its spans. The rules agree on
well-formed labels but differ on ill-formed ones (`docs/evaluation.md` says how), so
every score names its rule and the number of ill-formed predictions. Tags, such as parts
of speech, are spans of one token each. All scores are functions of counts: correct,
predicted and gold spans of each sentence and type.

Source: conlleval.pl; seqeval 1.2.2; `src/eval_f1.py` of iesl/dilated-cnn-ner,
`utils/metric.py` of jiesutd/NCRFpp.
"""

from __future__ import annotations

import dataclasses
import operator
from collections.abc import Callable, Mapping, Sequence, Set
from functools import partial
from itertools import chain
from typing import Any, NamedTuple

import numpy as np

from jaxner import __version__, fields
from jaxner.arguments import expect
from jaxner.data import schemes
from jaxner.data.schemes import TAGS, Span
from jaxner.errors import InputError

Labels = Sequence[Sequence[str]]
Rule = Callable[[Sequence[str]], list[Span]]

SINGLE = 0  # the end of a span that has only a start (ncrfpp)
NO_END = -1  # of a span that counts as predicted but never as correct (idcnn)

# --- Rules ----------------------------------------------------------------------------


def idcnn(labels: Sequence[str]) -> list[Span]:
    """Returns the spans that the program of Strubell et al. reads.

    It turns L into I and U into B, so only an O, a start or another type ends a span. A
    span directly before an I or L of another type never counts as correct.
    """
    bio_labels = [label[:1].translate(_BIO_PREFIXES) + label[1:] for label in labels]
    next_labels = [*bio_labels[1:], "O"]
    return [
        span._replace(end=NO_END) if next_labels[span.end - 1][0] == "I" else span
        for span in schemes.to_spans(bio_labels)
    ]


_BIO_PREFIXES = str.maketrans("MELSUW", "IIIBBB")


def ncrfpp(labels: Sequence[str]) -> list[Span]:
    """Returns the spans that NCRF++ reads, from B to the next E, and each S."""
    parts = [schemes.parse(label) for label in labels]
    prefixes = [_BIOES.get(prefix, prefix) for prefix, _ in parts]
    marks = [i for i, prefix in enumerate(prefixes) if prefix in "BSE"]
    spans = []
    for mark, next_mark in zip(marks, [*marks[1:], None], strict=False):
        if prefixes[mark] == "E":
            continue
        end = SINGLE
        if prefixes[mark] == "B" and next_mark is not None:
            end = next_mark + 1 if prefixes[next_mark] == "E" else next_mark
        spans.append(Span(mark, end, parts[mark][1]))
    return spans


_BIOES = {"L": "E", "U": "S"}


def each_token(labels: Sequence[str]) -> list[Span]:
    """Returns a span for each tag."""
    return [Span(i, i + 1, label) for i, label in enumerate(labels)]


_READERS: dict[str, Callable[..., list[Span]]] = {
    "conlleval": schemes.to_spans,
    "strict": schemes.strict_spans,  # of a scheme
    "idcnn": idcnn,
    "ncrfpp": ncrfpp,
}
RULES = tuple(_READERS)
WITH_LENGTHS = ("conlleval", "strict")  # under which every span has a length
# In other schemes, their programs misread well-formed labels.
_SCHEMES = {"ncrfpp": ("BIOES", "BILOU"), "idcnn": ("BIO", "BIOES", "BILOU")}


def with_lengths(rule: str) -> str:
    """Returns a rule if all its spans have lengths; else "conlleval"."""
    return rule if rule in WITH_LENGTHS else "conlleval"


def reads(rule: str, scheme: str) -> bool:
    """Returns whether a rule is defined for labels of a scheme."""
    return scheme in _SCHEMES.get(rule, schemes.SCHEMES)


def reader(rule: str, scheme: str) -> Rule:
    """Returns the function that reads the spans of a sentence, by a rule."""
    fields.check_word("rule", rule, RULES)
    schemes.label_names((), scheme)  # raises the error of unknown schemes
    if scheme == TAGS:
        return each_token
    if not reads(rule, scheme):
        raise InputError(
            f"Rule {rule!r} reads {' or '.join(_SCHEMES[rule])}, not {scheme!r}, whose "
            "well-formed labels its program misreads; convert the labels, or take rule "
            "'conlleval'"
        )
    read = _READERS[rule]
    return partial(read, scheme=scheme) if rule == "strict" else read


# --- Counts and their figures ---------------------------------------------------------


def figures(counts: np.ndarray) -> np.ndarray:
    """Returns precision, recall and F1, `[..., 3]`, nan where undefined.

    `counts` are correct, predicted and gold spans, `[..., 3]`. Precision is undefined
    without predictions, recall without gold spans, F1 without either.
    """
    correct, predicted, gold = np.moveaxis(counts, -1, 0)
    parts = np.stack([correct, correct, 2 * correct], -1)
    return _ratio(parts, np.stack([predicted, gold, predicted + gold], -1))


def means(values: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """Returns the macro and the weighted mean of a figure over types, `[..., 2]`.

    Takes its values, `[..., types]`, and the counts, `[..., types, 3]`. The macro mean
    is over the types with spans; the other weights each type by its gold spans. An
    undefined value counts as 0, as in seqeval.
    """
    weights = counts.any(-1), counts[..., 2]
    sums = [(np.nan_to_num(values) * weight).sum(-1) for weight in weights]
    return _ratio(np.stack(sums, -1), np.stack([x.sum(-1) for x in weights], -1))


def _ratio(part: Any, whole: Any) -> np.ndarray:
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.where(whole > 0, part / whole, np.nan)


def defined(values: np.ndarray) -> list[float | None]:
    """Returns figures as numbers; None where undefined."""
    return [None if np.isnan(x) else x for x in values.tolist()]


def percents(values: Mapping[str, float | None]) -> dict[str, Any]:
    """Returns fractions by name in percent; None stays None."""
    return {name: None if x is None else 100 * x for name, x in values.items()}


class Averages(NamedTuple):
    """Means of the figures over types, 0 to 1; None where undefined."""

    precision: float | None
    recall: float | None
    f1: float | None


FIGURES = Averages._fields


class Counts(NamedTuple):
    """Counts of correct, predicted and gold spans (or tags), and their figures.

    The figures are fractions from 0 to 1, None where undefined: see `figures`. `+` adds
    the counts.
    """

    correct: int = 0
    predicted: int = 0
    gold: int = 0

    @property
    def precision(self) -> float | None:
        """Share of the predicted spans that are correct."""
        return defined(figures(np.array(self)))[0]

    @property
    def recall(self) -> float | None:
        """Share of the gold spans that are predicted."""
        return defined(figures(np.array(self)))[1]

    @property
    def f1(self) -> float | None:
        """Harmonic mean of precision and recall."""
        return defined(figures(np.array(self)))[2]

    def __add__(self, other: Counts) -> Counts:  # type: ignore[override]
        return Counts(*map(sum, zip(self, other, strict=True)))

    def to_dict(self) -> dict[str, Any]:
        """Returns the figures in percent, not rounded, and the counts."""
        return percents({x: getattr(self, x) for x in FIGURES}) | self._asdict()


def total(counts: np.ndarray) -> Counts:
    """Returns the sum of counts `[..., 3]`."""
    return Counts(*counts.reshape(-1, 3).sum(0).tolist())


def count(
    gold: Labels,
    predicted: Labels,
    rule: str = "conlleval",
    scheme: str = "BIOES",
    types: Sequence[str] | None = None,
) -> np.ndarray:
    """Returns correct, predicted and gold spans, `[sentences, types, 3]`."""
    read = reader(rule, scheme)
    kinds = check_labels(gold, predicted, scheme) if types is None else types
    column = {kind: i for i, kind in enumerate(kinds)}
    counts = np.zeros((len(gold), max(len(column), 1), 3), np.int64)
    for table, *sides in zip(counts, gold, predicted, strict=True):
        gold_spans, guesses = map(read, sides)
        findable = {span for span in gold_spans if span.end != NO_END}
        correct = [span for span in guesses if span in findable]
        for side, spans in enumerate((correct, guesses, gold_spans)):
            for span in spans:
                table[column[span.type], side] += 1
    return counts


def count_tokens(
    gold: Labels,
    predicted: Labels,
    scheme: str,
    tokens: Labels | None = None,
    known_words: Set[str] | None = None,
) -> dict[str, np.ndarray]:
    """Returns, by accuracy, right tokens and, twice, all tokens, `[sentences, 3]`.

    If words and training text are known, tokens outside and inside it are counted, too.
    """
    sentence = np.repeat(np.arange(len(gold)), [len(labels) for labels in gold])
    read = str if scheme == TAGS else schemes.parse  # M is I, and W is S
    sides = (map(read, chain(*labels)) for labels in (gold, predicted))
    right = np.fromiter(map(operator.eq, *sides), bool)
    groups = {"accuracy": np.ones(len(right), bool)}
    if tokens is not None and known_words is not None:
        new = np.array([word not in known_words for word in chain(*tokens)], bool)
        groups |= {"oov_accuracy": new, "known_accuracy": ~new}
    counts = {}
    for name, group in groups.items():
        sides = sentence[group & right], sentence[group]
        correct, whole = (np.bincount(x, minlength=len(gold)) for x in sides)
        counts[name] = np.stack([correct, whole, whole], 1)
    return counts


def check_labels(
    gold: Labels, predicted: Labels, scheme: str | None = None
) -> tuple[str, ...]:
    """Checks the labels of both sides, and returns their types, sorted."""
    if len(gold) != len(predicted):
        raise InputError(
            f"Expected as many predicted as gold sentences, got {len(gold)} gold and "
            f"{len(predicted)} predicted; score the same split, in the same order"
        )
    for i, (right, guess) in enumerate(zip(gold, predicted, strict=True)):
        flat = next((x for x in (right, guess) if isinstance(x, str)), None)
        expect(flat is None, "a list of labels for each sentence", flat)
        if len(right) != len(guess):
            raise InputError(
                f"Sentence {i} (counted from 0): gold has {len(right)} labels, "
                f"predicted {len(guess)}; expected one label per token on both sides"
            )
    labels = chain(*gold, *predicted)
    return tuple(sorted({*labels})) if scheme == TAGS else schemes.types_of(labels)


# --- Scores ---------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True, eq=False)
class Scores:
    """The scores of predictions against gold labels; fractions, None where undefined.

    Attributes:
        counts: Correct, predicted and gold spans, `[sentences, types, 3]`.
        types: Types of either side, sorted.
        token_counts: Right and all tokens by accuracy: see `count_tokens`.
        ill_formed: Positions where predictions violate the grammar of `scheme`.
        ill_formed_sentences: Sentences with such a position.
    """

    counts: np.ndarray
    types: tuple[str, ...]
    token_counts: dict[str, np.ndarray]
    ill_formed: int
    ill_formed_sentences: int
    rule: str
    scheme: str

    def __repr__(self) -> str:
        """Shows main figures in percent; `to_dict` has all."""
        pairs = (f"{k}={x and round(x, 2)}" for k, x in self.figures().items())
        return f"Scores({', '.join(pairs)})"

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
        rows = zip(self.types, self.counts.sum(0).tolist(), strict=False)
        return {kind: Counts(*row) for kind, row in rows if any(row)}

    @property
    def precision(self) -> float | None:
        """Overall precision."""
        return self.overall.precision

    @property
    def recall(self) -> float | None:
        """Overall recall."""
        return self.overall.recall

    @property
    def f1(self) -> float | None:
        """Overall (micro-averaged) F1."""
        return self.overall.f1

    @property
    def macro(self) -> Averages:
        """Means over the types with spans: see `means`."""
        return self._means()[0]

    @property
    def weighted(self) -> Averages:
        """As `macro`, but each type is weighted by its number of gold spans."""
        return self._means()[1]

    def _means(self) -> list[Averages]:
        counts = self.counts.sum(0)
        values = np.stack([means(x, counts) for x in figures(counts).T], axis=1)
        return [Averages(*defined(row)) for row in values]

    @property
    def by_accuracy(self) -> dict[str, Counts]:
        """Right tokens and, twice, all tokens by accuracy: see `count_tokens`."""
        return {name: total(counts) for name, counts in self.token_counts.items()}

    def _share(self, accuracy: str) -> float | None:
        return self.by_accuracy.get(accuracy, Counts()).recall

    @property
    def accuracy(self) -> float | None:
        """Share of tokens with the gold label."""
        return self._share("accuracy")

    @property
    def oov_accuracy(self) -> float | None:
        """Accuracy on words that, spelled exactly so, are not in the training text."""
        return self._share("oov_accuracy")

    @property
    def known_accuracy(self) -> float | None:
        """Accuracy on words of the training text."""
        return self._share("known_accuracy")

    def figures(self) -> dict[str, Any]:
        """Returns main figures in percent and `ill_formed`; of tags, accuracies."""
        of_tags = "accuracy", "known_accuracy", "oov_accuracy"
        names = of_tags if self.has_tags else FIGURES
        values = percents({name: getattr(self, name) for name in names})
        if self.has_tags:
            return {name: x for name, x in values.items() if x is not None}
        return values | {"ill_formed": self.ill_formed}

    def to_dict(self) -> dict[str, Any]:
        """Returns all values as JSON, and jaxner's version; figures in percent."""
        values, token_counts = self.figures(), self.by_accuracy["accuracy"]
        if self.has_tags:
            new = self.by_accuracy.get("oov_accuracy")
            values["oov_tokens"] = new and new.gold
            values["correct_oov_tokens"] = new and new.correct
        else:
            values |= self.overall.to_dict() | percents({"accuracy": self.accuracy})
            for mean in ("macro", "weighted"):
                averages = getattr(self, mean)._asdict()
                values |= percents({f"{mean}_{x}": y for x, y in averages.items()})
            values["rule"] = self.rule
            values["ill_formed_sentences"] = self.ill_formed_sentences
        return values | {
            "tokens": token_counts.gold,
            "correct_tokens": token_counts.correct,
            "sentences": len(self.counts),
            "scheme": self.scheme,
            "by_type": {kind: x.to_dict() for kind, x in self.by_type.items()},
            "jaxner": __version__,
        }


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
    With `conlleval`, the two sides may have different schemes.

    Args:
        rule: One of `RULES`; unused for tags.
        scheme: Scheme of the predictions, for counting ill-formed labels; by default,
            detected from `gold`. `schemes.TAGS`: the labels are tags.
        tokens: The words, to score tags of known and unknown words separately.
        known_words: The distinct words of the training text.

    Raises:
        InputError: The sides differ in their numbers of sentences or tokens, a label is
            malformed and no tag, or rule or scheme is unknown or unfit for the labels.

    Example:
        >>> scores = score([["B-PER", "I-PER", "O"]], [["I-PER", "I-PER", "O"]])
        >>> scores.f1, scores.ill_formed
        (1.0, 1)
        >>> score([["B-PER"]], [["I-PER"]], rule="strict").f1
        0.0
        >>> score([["DET", "NOUN"]], [["DET", "VERB"]], scheme="tags").accuracy
        0.5
    """
    types = check_labels(gold, predicted, scheme)
    scheme = schemes.fitting(gold)[0] if scheme is None else scheme
    breaches = [len(schemes.violations(labels, scheme)) for labels in predicted]
    words = tokens if scheme == TAGS else None
    return Scores(
        count(gold, predicted, rule, scheme, types),
        types,
        count_tokens(gold, predicted, scheme, words, known_words),
        ill_formed=sum(breaches),
        ill_formed_sentences=sum(map(bool, breaches)),
        rule=rule,
        scheme=scheme,
    )


@dataclasses.dataclass(frozen=True)
class Task:
    """How a run is scored; takes what `score` does, and tests the rule at once."""

    scheme: str
    known_words: Set[str] | None = None
    rule: str = "conlleval"

    def __post_init__(self):
        reader(self.rule, self.scheme)

    @property
    def has_tags(self) -> bool:
        """Whether labels are tags instead of spans."""
        return self.scheme == TAGS

    @property
    def main_figure(self) -> str:
        """The name of the figure that chooses the best epoch."""
        return "accuracy" if self.has_tags else "f1"

    def score(
        self,
        tokens: Labels | None,
        gold: Labels,
        predicted: Labels,
        rule: str | None = None,
    ) -> Scores:
        """Returns the scores by a rule, by default the task's; see `score`."""
        options: dict[str, Any] = {"tokens": tokens, "known_words": self.known_words}
        return score(
            gold, predicted, rule=rule or self.rule, scheme=self.scheme, **options
        )
