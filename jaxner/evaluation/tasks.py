"""The two tasks: entities, which F1 measures, and tags, which accuracy measures."""

from collections.abc import Sequence, Set
from dataclasses import dataclass

from jaxner.data.schemes import TAGS
from jaxner.evaluation import rules, scoring, tags
from jaxner.evaluation.scoring import Scores
from jaxner.evaluation.tags import TagScores

Labels = Sequence[Sequence[str]]


@dataclass(frozen=True)
class Task:
    """How predictions are scored, which the label scheme decides.

    Attributes:
        scheme: That of the tagger: one of `schemes.SCHEMES`, or `schemes.TAGS`.
        known_words: The distinct words of the training text, if they are known: tags of
            other words are also counted apart.
        rule: How spans are read where `score` is not told, one of `rules.RULES`; it
            does not concern tags.

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
        """Whether labels are tags, and not spans."""
        return self.scheme == TAGS

    @property
    def main_figure(self) -> str:
        """The key of the figure that picks the best epoch."""
        return (TagScores if self.has_tags else Scores).main_figure

    def score(
        self,
        tokens: Labels,
        gold: Labels,
        predicted: Labels,
        rule: str | None = None,
    ) -> Scores | TagScores:
        """Scores predicted labels.

        Args:
            tokens: The words of each sentence.
            gold: The right labels of each sentence.
            predicted: The predicted ones.
            rule: How spans are read: one of `rules.RULES`, or "seqeval" for a second
                opinion on conlleval's; None: by the task's rule.

        Raises:
            ValueError: As `scoring.score` and `tags.score`; or tags are to be strict.
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
