"""Accuracy of labels that are tags, such as parts of speech, and not spans.

Every token has a tag, so the figure is the share of tokens with the right tag. As usual
since Ratnaparkhi (1996), there are separate figures for words of the training text and
for other words ("out of vocabulary").
"""

from collections import Counter
from collections.abc import Sequence, Set
from dataclasses import dataclass
from itertools import chain
from typing import Any, ClassVar

from jaxner.data.schemes import TAGS
from jaxner.evaluation.counts import Counts, ratio
from jaxner.evaluation.scoring import jaxner_version
from jaxner.wording import counted

Labels = Sequence[Sequence[str]]


@dataclass(frozen=True)
class TagScores:
    """The scores of predicted tags against gold tags.

    Attributes:
        by_type: Counts per tag of either side, tags sorted.
        tokens: Number of tokens.
        correct_tokens: Tokens with the gold tag.
        oov_tokens: Tokens whose word, spelled exactly so, is not in the training text;
            None if that text is unknown.
        correct_oov_tokens: Those among them with the gold tag.
        sentences: Number of sentences.
    """

    by_type: dict[str, Counts]
    tokens: int
    correct_tokens: int
    oov_tokens: int | None
    correct_oov_tokens: int | None
    sentences: int

    main_figure: ClassVar[str] = "accuracy"

    @property
    def accuracy(self) -> float | None:
        """Share of tokens with the gold tag, 0 to 1; None without tokens."""
        return ratio(self.correct_tokens, self.tokens)

    @property
    def oov_accuracy(self) -> float | None:
        """Accuracy on words not in the training text; None without such words."""
        if not self.oov_tokens or self.correct_oov_tokens is None:
            return None
        return self.correct_oov_tokens / self.oov_tokens

    @property
    def known_accuracy(self) -> float | None:
        """Accuracy on words of the training text; None without such words."""
        if self.oov_tokens is None or self.correct_oov_tokens is None:
            return None
        if self.oov_tokens == self.tokens:
            return None
        correct = self.correct_tokens - self.correct_oov_tokens
        return correct / (self.tokens - self.oov_tokens)

    def figures(self) -> dict[str, float]:
        """Returns the defined figures of an epoch, in percent."""
        figures = {
            "accuracy": self.accuracy,
            "known_accuracy": self.known_accuracy,
            "oov_accuracy": self.oov_accuracy,
        }
        return {n: 100 * x for n, x in figures.items() if x is not None}

    def to_dict(self) -> dict[str, Any]:
        """Returns all values as JSON, with jaxner's version; figures in percent."""
        by_type = {kind: counts.to_dict() for kind, counts in self.by_type.items()}
        rest = {"by_type": by_type, "scheme": TAGS, "jaxner": jaxner_version()}
        return self.figures() | vars(self) | rest


def score(
    gold: Labels,
    predicted: Labels,
    *,
    tokens: Labels | None = None,
    known_words: Set[str] | None = None,
) -> TagScores:
    """Returns the scores of predicted tags against gold tags, by token.

    A gold tag unknown to the tagger counts as missed.

    Args:
        gold: The gold tags of each sentence.
        predicted: The predicted tags of each sentence.
        tokens: The words of each sentence, to separate known and unknown words.
        known_words: The distinct words of the training text.

    Returns:
        The counts, overall and per tag.

    Raises:
        ValueError: The sides differ in their number of sentences or tokens.

    Example:
        >>> scores = score([["DET", "NOUN"]], [["DET", "VERB"]])
        >>> scores.accuracy, scores.by_type["NOUN"].recall
        (0.5, 0.0)
    """
    _check_aligned(gold, "predicted", predicted)
    pairs = Counter(zip(chain(*gold), chain(*predicted), strict=True))
    right: Counter[str] = Counter()
    guessed: Counter[str] = Counter()
    for (tag, guess), number in pairs.items():
        right[tag] += number
        guessed[guess] += number
    oov, correct_oov = None, None
    if tokens is not None and known_words is not None:
        _check_aligned(gold, "words", tokens)
        rows = zip(chain(*tokens), chain(*gold), chain(*predicted), strict=True)
        new = [tag == guess for word, tag, guess in rows if word not in known_words]
        oov, correct_oov = len(new), sum(new)
    return TagScores(
        by_type={
            tag: Counts(pairs[tag, tag], guessed[tag], right[tag])
            for tag in sorted(right | guessed)
        },
        tokens=right.total(),
        correct_tokens=sum(pairs[tag, tag] for tag in right),
        oov_tokens=oov,
        correct_oov_tokens=correct_oov,
        sentences=len(gold),
    )


def _check_aligned(gold: Labels, what: str, other: Labels) -> None:
    if len(gold) != len(other):
        raise ValueError(
            f"Expected as many {what} as gold sentences, got {len(gold)} gold and "
            f"{len(other)} {what}; score the same split, in the same order"
        )
    for index, (tags, row) in enumerate(zip(gold, other, strict=True)):
        if len(tags) != len(row):
            raise ValueError(
                f"Sentence {index} (counted from 0): gold has "
                f"{counted(len(tags), 'tag')}, {what} {len(row)}; expected one per "
                "token on both sides"
            )
