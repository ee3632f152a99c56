"""The rows of the papers' other tables: measured and published values."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from jaxner.analysis import lengths, parts
from jaxner.analysis.drafts import Table1, Trace
from jaxner.analysis.lengths import Part
from jaxner.evaluation.chunks import Recall
from jaxner.evaluation.detection import Changes
from jaxner.reproduce.figures import Figure

Row = dict[str, Any]
BASELINE = "baseline"


def by_length(runs: Mapping[str, Sequence[Part]], mentions: bool) -> list[Row]:
    """Returns scores by length, with a column for each run.

    Args:
        runs: The parts of each run, for the same sentences.
        mentions: Whether parts are of mentions; adds a row for mentions of several
            tokens.

    Example:
        >>> from jaxner.evaluation.scoring import Counts
        >>> one = [Part(1, None, 2, Counts(1, 2, 2))]
        >>> by_length({"a": one, "b": one}, mentions=False)
        [{'tokens': '1+', 'sentences': 2, 'a': 50.0, 'b': 50.0, 'b − a': 0.0}]
    """
    listed = {name: list(found) for name, found in runs.items()}
    if mentions and any(p.first == 2 for p in next(iter(listed.values()))):
        for found in listed.values():
            found.append(lengths.multi_token(found))
    rows = []
    first = next(iter(listed))
    for place, part in enumerate(listed[first]):
        its = {name: found[place].percent for name, found in listed.items()}
        rest = {f"{n} − {first}": x - its[first] for n, x in its.items() if n != first}
        count = {"mentions" if mentions else "sentences": part.items}
        rows.append({"tokens": part.name, **count, **its, **rest})
    return rows


def changes(its: Table1, figure: Figure, threshold: float | None) -> list[Row]:
    """Returns the changes by a refinement, as in UANet's Table 1.

    A row has the changed tokens and their mean uncertainty, then all tokens with a
    right (✓) or wrong (✗) draft and their mean uncertainty, which the paper compares.

    Args:
        its: Measured changes.
        figure: Published values, for a refinement of all tokens.
        threshold: The tagger's Γ; None if it refines all tokens.

    Example:
        >>> from jaxner.analysis import drafts
        >>> from jaxner.reproduce import figures
        >>> one = drafts.Trace(["A"], ["B"], [0.5], ["B"])
        >>> rows = changes(drafts.table1([["B"]], [one]), figures.load("changes"), None)
        >>> [(row["change"], row["tokens"], row["paper"]) for row in rows]
        [('✓ → ✗', 0, 39), ('✗ → ✓', 1, 54)]
    """
    drafted = its.detection
    kinds = (
        ("✓ → ✗", "broken", drafted.mean_right, drafted.right),
        ("✗ → ✓", "mended", drafted.mean_wrong, drafted.wrong),
    )
    rows = []
    settings: list[tuple[str, Changes]] = [("all", its.changes)]
    if threshold is not None:
        settings.append((f"u > {threshold:g}", its.final))
    for where, found in settings:
        is_paper = where == "all"
        for name, field, mean, count in kinds:
            rows.append(
                {
                    "refined": where,
                    "change": name,
                    "tokens": getattr(found, field),
                    "paper": figure.value(name, "tokens") if is_paper else None,
                    "u": getattr(found, f"{field}_uncertainty"),
                    "such drafts": count,
                    "their u": mean,
                    "paper u": (
                        figure.value(name, "uncertainty") if is_paper else None
                    ),
                }
            )
    return rows


def tokens(
    words: Sequence[str], trace: Trace, figure: Figure, gold: Sequence[str] | None
) -> list[Row]:
    """Returns a sentence with a row for each token, as in UANet's Table 7.

    Where the sentence has the words of a published mention, the rows also show its
    published labels and uncertainties.

    Args:
        words: The tokens.
        trace: Labels of the tokens.
        figure: Published values.
        gold: Right labels, if known.

    Example:
        >>> from jaxner.reproduce import figures
        >>> found = Trace(["O", "O"], ["S-LOC", "O"], [0.5, 0.0], ["S-LOC", "O"])
        >>> tokens(["Rome", "fell"], found, figures.load("tokens"), None)[0]
        {'token': 'Rome', 'draft': 'O', 'refined': 'S-LOC', 'u': 0.5, 'final': 'S-LOC'}
    """
    rows: list[Row] = []
    for place, word in enumerate(words):
        row: Row = {"token": word}
        if gold is not None:
            row["gold"] = gold[place]
        row["draft"], row["refined"] = trace.draft[place], trace.refined[place]
        row["u"], row["final"] = trace.uncertainty[place], trace.final[place]
        rows.append(row)
    for mention, its in figure.values.items():
        size = len(mention.split())
        each = [dict(zip(its, x, strict=True)) for x in _columns(its.values())]
        for start in range(len(words) - size + 1):
            if list(words[start : start + size]) == mention.split():
                for row in rows:  # all rows have the same columns
                    row.setdefault("paper", None)
                for row, published in zip(rows[start:], each, strict=False):
                    row["paper"] = published
    return rows


def chunk_recall(
    found: Mapping[str, Mapping[str, Recall]], figure: Figure
) -> list[Row]:
    """Returns chunk recalls: the whole tagger's, and the change with each part alone.

    Args:
        found: Recalls by part, then by chunk label, including `parts.WHOLE`.
        figure: Published values; available values follow in extra rows.

    Example:
        >>> from jaxner.reproduce import figures
        >>> found = {"all": {"I": Recall(4, 4)}, "hidden": {"I": Recall(4, 1)}}
        >>> chunk_recall(found, figures.load("chunk-recall"))[0]
        {'label': 'I', 'tokens': 4, 'HC': 100.0, 'H': -75.0}
        >>> chunk_recall(found, figures.load("chunk-recall"))[1]["H"]
        -28.18
    """
    rows: list[Row] = []
    for label, whole in found[parts.WHOLE].items():
        row: Row = {"label": label, "tokens": whole.gold}
        for part, its in found.items():
            percent = 100 * (its[label].share or 0.0)
            is_whole = part == parts.WHOLE
            row[part_name(part)] = percent if is_whole else percent - row["HC"]
        rows.append(row)
        if label in figure.values:
            its = {part_name(part): figure.value(label, part) for part in found}
            rows.append({"label": "paper", "tokens": None, **its})
    return rows


def part_name(part: str) -> str:
    """Returns the paper's name for a part of [H; C]; HC is the whole.

    Example:
        >>> [part_name(x) for x in ("all", "hidden", "context", "context2", BASELINE)]
        ['HC', 'H', 'C', 'C2', 'baseline']
    """
    names = {parts.WHOLE: "HC", "hidden": "H"}
    return names.get(part, part.replace("context", "C"))


def _columns(texts: Iterable[str]) -> list[tuple[str, ...]]:
    """Returns the columns of texts that have the same number of words."""
    return list(zip(*(text.split() for text in texts), strict=True))
