"""Scores as text: one line, or a table with a row per entity type or tag."""

from rich.table import Table
from rich.text import Text

from jaxner.evaluation.counts import Counts, shown
from jaxner.evaluation.scoring import Scores
from jaxner.evaluation.tags import TagScores
from jaxner.wording import counted

UNDEFINED = "In the means, a type's undefined figure (–) counts as 0, as in seqeval."
"""Stands below tables of types."""


def summary_line(scores: Scores | TagScores) -> str:
    """Returns the overall figures in one line, in percent.

    Args:
        scores: What `score` returned.

    Returns:
        Precision, recall and F1, the rule, and the number of ill-formed predictions;
        for tags, the accuracy over all, known and unknown words.

    Example:
        >>> from jaxner.evaluation.scoring import score
        >>> summary_line(score([["B-PER"], ["O"]], [["I-PER"], ["O"]]))
        'P 100.00  R 100.00  F1 100.00 (conlleval rule; 1 ill-formed label in 1 of 2 sentences)'
    """  # noqa: E501 - the example's output is one line
    if isinstance(scores, TagScores):
        known, oov = scores.known_accuracy, scores.oov_accuracy
        apart = [f"known words {100 * known:.2f}"] if known is not None else []
        apart += [f"out of vocabulary {100 * oov:.2f}"] if oov is not None else []
        note = f" ({', '.join(apart)})" if apart else ""
        return f"accuracy {shown(scores.accuracy)}{note}"
    precision, recall, f1 = _figures(scores.overall)
    return f"P {precision}  R {recall}  F1 {f1} ({caption(scores)})"


def caption(scores: Scores) -> str:
    """Returns the rule and the number of ill-formed predictions."""
    return f"{scores.rule} rule; {_ill_formed(scores)}"


def short_line(scores: Scores | TagScores) -> str:
    """Returns the overall figures in half a line, in percent, without the rule.

    Example:
        >>> from jaxner.evaluation.scoring import score
        >>> short_line(score([["B-PER"], ["O"]], [["I-PER"], ["O"]]))
        'P 100.00 R 100.00 F1 100.00  1 ill-formed'
    """
    if isinstance(scores, TagScores):
        parts = [f"accuracy {shown(scores.accuracy)}"]
        if scores.known_accuracy is not None:
            parts.append(f"known {shown(scores.known_accuracy)}")
        if scores.oov_accuracy is not None:
            parts.append(f"new {shown(scores.oov_accuracy)}")
        return "  ".join(parts)
    precision, recall, f1 = _figures(scores.overall)
    odd = f"  {scores.ill_formed:,} ill-formed" if scores.ill_formed else ""
    return f"P {precision} R {recall} F1 {f1}{odd}"


def per_type_table(scores: Scores | TagScores, title: str | None = None) -> Table:
    """Returns a table of figures per entity type (or tag) and overall, in percent.

    Args:
        scores: What `score` returned.
        title: What was scored, such as `CoNLL-2003 test`; printed verbatim.

    Returns:
        A table with a row per type, sorted, then a row for all types together and rows
        for the means over types. The caption gives the rule and the number of
        ill-formed predictions. For tags, a row per tag; the title gives the accuracy.

    Example:
        >>> from jaxner.evaluation.scoring import score
        >>> per_type_table(score([["B-PER"]], [["B-PER"]]), "test").row_count
        4
    """
    if isinstance(scores, TagScores):
        return _tag_table(scores, title)
    below = caption(scores)
    if any(None in (its.precision, its.recall) for its in scores.by_type.values()):
        below += f"\n{UNDEFINED}"
    table = Table(
        # `Text`, because rich reads brackets in a string as markup.
        title=None if title is None else Text(title),
        caption=Text(below),
    )
    _add_types(table, "type", scores.by_type)
    table.add_section()
    table.add_row("overall", *_cells(scores.overall), style="bold")
    for name, its in (("macro", scores.macro), ("weighted", scores.weighted)):
        table.add_row(f"{name} mean", *map(shown, its))
    return table


def _tag_table(scores: TagScores, title: str | None) -> Table:
    parts: list[tuple[str, int, float | None]]
    parts = [("all tokens", scores.tokens, scores.accuracy)]
    if scores.oov_tokens is not None:
        known = scores.tokens - scores.oov_tokens
        parts.append(("known words", known, scores.known_accuracy))
        parts.append(("out of vocabulary", scores.oov_tokens, scores.oov_accuracy))
    lines = [] if title is None else [title]
    for name, tokens, accuracy in parts:
        lines.append(f"accuracy, {name}: {shown(accuracy)} of {tokens:,}")
    table = Table(title=Text("\n".join(lines)))
    _add_types(table, "tag", scores.by_type)
    return table


def _add_types(table: Table, head: str, by_type: dict[str, Counts]) -> None:
    """Adds the columns, and a row per type."""
    table.add_column(head)
    for name in ("precision", "recall", "F1", "gold", "predicted", "correct"):
        table.add_column(name, justify="right")
    for kind, counts in sorted(by_type.items()):
        table.add_row(Text(kind), *_cells(counts))


def _cells(counts: Counts) -> list[str]:
    """Returns the cells of a row after the type."""
    numbers = (counts.gold, counts.predicted, counts.correct)
    return [*_figures(counts), *(f"{number:,}" for number in numbers)]


def _figures(counts: Counts) -> list[str]:
    """Returns precision, recall and F1 in percent, with two decimals."""
    return [shown(x) for x in (counts.precision, counts.recall, counts.f1)]


def _ill_formed(scores: Scores) -> str:
    """Returns the number of ill-formed labels, and of their sentences, as text."""
    sentences = counted(scores.sentences, "sentence")
    if not scores.ill_formed:
        return f"no ill-formed label in {sentences}"
    labels = counted(scores.ill_formed, "ill-formed label")
    return f"{labels} in {scores.ill_formed_sentences:,} of {sentences}"
