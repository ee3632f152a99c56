"""The two tasks: entities, measured by F1, and tags, measured by accuracy."""

from collections.abc import Sequence, Set
from dataclasses import dataclass

from jaxner.data.schemes import TAGS
from jaxner.evaluation import rules, scoring, tags
from jaxner.evaluation.scoring import Scores
from jaxner.evaluation.tags import TagScores

Labels = Sequence[Sequence[str]]


@dataclass(frozen=True)
class Task:
    """How to score predictions: by spans or by tags, depending on the label scheme.

    Attributes:
        scheme: The tagger's scheme: one of `schemes.SCHEMES`, or `schemes.TAGS`.
        known_words: The distinct words of the training text, or None; tags of other
            words are also counted separately.
        rule: Default rule for reading spans, one of `rules.RULES`; unused for tags.

    Raises:
        ValueError: The rule is unknown, or cannot read labels of the scheme.

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
        if self.has_tags:
            rules.known(self.rule)
        else:
            rules.check(self.rule, self.scheme)

    @property
    def has_tags(self) -> bool:
        """Whether labels are tags instead of spans."""
        return self.scheme == TAGS

    @property
    def main_figure(self) -> str:
        """The name of the figure that chooses the best epoch."""
        return (TagScores if self.has_tags else Scores).main_figure

    def score(
        self,
        tokens: Labels,
        gold: Labels,
        predicted: Labels,
        rule: str | None = None,
    ) -> Scores | TagScores:
        """Returns the scores of predicted labels.

        Args:
            tokens: The words of each sentence.
            gold: The gold labels of each sentence.
            predicted: The predicted labels of each sentence.
            rule: Rule for reading spans: one of `rules.RULES`, or "seqeval" for a
                second opinion on "conlleval"; None for the task's rule.

        Raises:
            ValueError: As `scoring.score` and `tags.score`; or the rule is "strict"
                and the labels are tags.
        """
        if self.has_tags:
            if rule == "strict":
                raise ValueError("Rule 'strict' reads spans, and the labels are tags")
            return tags.score(
                gold, predicted, tokens=tokens, known_words=self.known_words
            )
        rule = self.rule if rule is None else rule
        if rule == "seqeval":
            return scoring.score_with_seqeval(gold, predicted, scheme=self.scheme)
        return scoring.score(gold, predicted, rule=rule, scheme=self.scheme)
