"""Chunk recall: how often a token's position in a span is found, for any type.

Source: Li, Fu and Ma (2020), section "Entity-Chunking".
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from rich.table import Table
from rich.text import Text

from jaxner.evaluation.coded import LETTERS, code
from jaxner.evaluation.counts import ratio, shown

_ORDER = "OSUBIEL"


class Recall(NamedTuple):
    """Numbers of tokens, and of those found."""

    gold: int
    found: int

    @property
    def share(self) -> float | None:
        """The recall, from 0 to 1; None without such tokens."""
        return ratio(self.found, self.gold)


def recalls(
    gold: Sequence[Sequence[str]], predicted: Sequence[Sequence[str]]
) -> dict[str, Recall]:
    """Returns the recall of each chunk label.

    Args:
        gold: The labels of each sentence.
        predicted: The same, in the same scheme.

    Returns:
        For each prefix of the gold labels (O, S, B, I, E in BIOES), its recall.

    Raises:
        ValueError: Sentences or labels are missing, or a label is malformed.

    Example:
        >>> found = recalls([["B-PER", "E-PER", "O"]], [["B-LOC", "O", "O"]])
        >>> {prefix: recall.share for prefix, recall in found.items()}
        {'O': 1.0, 'B': 1.0, 'E': 0.0}
    """
    labels = code(gold, predicted)
    right, guessed = labels.gold.prefix, labels.predicted.prefix
    totals = np.bincount(right, minlength=len(LETTERS)).tolist()
    found = np.bincount(right[right == guessed], minlength=len(LETTERS)).tolist()
    recalls = dict(zip(LETTERS, map(Recall, totals, found), strict=True))
    return {prefix: recalls[prefix] for prefix in _ORDER if recalls[prefix].gold}


def table(found: dict[str, Recall], title: str | None = None) -> Table:
    """Returns recalls as a table, in percent.

    Args:
        found: What `recalls` returned.
        title: What was scored; printed verbatim.

    Example:
        >>> table({"O": Recall(2, 1)}).row_count
        1
    """
    laid_out = Table(title=None if title is None else Text(title))
    laid_out.add_column("chunk label")
    for name in ("recall", "gold", "found"):
        laid_out.add_column(name, justify="right")
    for prefix, recall in found.items():
        cells = (shown(recall.share), f"{recall.gold:,}", f"{recall.found:,}")
        laid_out.add_row(prefix, *cells)
    return laid_out
