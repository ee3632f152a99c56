"""How far a figure would move with other sentences: bootstrap intervals.

Source: Efron and Tibshirani, "An Introduction to the Bootstrap" (1993), the percentile
interval. Sentences are the units that are drawn; nothing is said of other seeds of the
training.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from jaxner.evaluation.tally import Tally

ROUNDS = 1_000
LEVEL = 0.95
_AT_ONCE = 1 << 22  # draws in memory


class Interval(NamedTuple):
    """A figure and its bounds, as fractions; None where undefined."""

    value: float | None
    low: float | None
    high: float | None


def bootstrap(
    tally: Tally, *, rounds: int = ROUNDS, level: float = LEVEL, seed: int = 0
) -> dict[str, Interval]:
    """Computes an interval for each figure of a tally.

    Args:
        tally: What `tally.of_spans` or `tally.of_tags` returned.
        rounds: How many times sentences are drawn.
        level: Share of the rounds whose figure lies within the bounds.
        seed: Of the draws; equal seeds give equal bounds.

    Returns:
        By name, the figure of all sentences and its bounds. A round in which a figure
        is undefined does not count for it.

    Raises:
        ValueError: There is no round, or the level is outside (0, 1).

    Example:
        >>> from jaxner.evaluation import tally
        >>> its = tally.of_spans([["B-A"], ["O"]] * 50, [["B-A"], ["B-A"]] * 50)
        >>> found = bootstrap(its)["precision"]
        >>> found.value, round(found.low, 1), round(found.high, 1)
        (0.5, 0.4, 0.6)
    """
    if rounds < 1 or not 0 < level < 1:
        raise ValueError(
            f"Expected at least one round and a level between 0 and 1, got {rounds} "
            f"and {level}"
        )
    counts = tally.counts.astype(np.float64)
    totals = [drawn @ counts for drawn in draws(len(counts), rounds, seed)]
    found = tally.figures(np.concatenate(totals))
    bounds = quantiles(found, ((1 - level) / 2, (1 + level) / 2))
    return {
        name: Interval(value, *map(defined, its))
        for (name, value), its in zip(
            tally.of_all.items(), bounds.T.tolist(), strict=True
        )
    }


def draws(size: int, rounds: int, seed: int) -> Iterator[np.ndarray]:
    """Yields how often each sentence is drawn in each of some rounds, `[r, S]`."""
    generator = np.random.default_rng(seed)
    step = max(1, min(rounds, _AT_ONCE // max(size, 1)))
    for begin in range(0, rounds, step):
        count = min(step, rounds - begin)
        if not size:
            yield np.zeros((count, 0))
            continue
        places = generator.integers(size, size=(count, size))
        places += size * np.arange(count)[:, None]
        drawn = np.bincount(places.ravel(), minlength=count * size)
        yield drawn.reshape(count, size).astype(np.float64)


def quantiles(values: np.ndarray, shares: tuple[float, ...]) -> np.ndarray:
    """Returns quantiles of each column, without nan; nan where nothing else is.

    Args:
        values: `[rounds, F]`.
        shares: From 0 to 1.

    Returns:
        `[len(shares), F]`.
    """
    found = np.full((len(shares), values.shape[1]), np.nan)
    for column, its in enumerate(values.T):
        known = its[~np.isnan(its)]
        if len(known):
            found[:, column] = np.quantile(known, shares)
    return found


def defined(value: float) -> float | None:
    """Returns a number; None in the place of nan."""
    return None if np.isnan(value) else value
