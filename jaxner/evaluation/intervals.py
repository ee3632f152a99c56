"""Bootstrap intervals of figures, over sentences.

Source: Efron and Tibshirani, "An Introduction to the Bootstrap" (1993), the percentile
interval. The bootstrap resamples sentences, so an interval says nothing about other
training seeds.
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


def check(rounds: int, level: float = LEVEL) -> None:
    """Raises `ValueError` if resampling cannot use these numbers."""
    if rounds < 1 or not 0 < level < 1:
        raise ValueError(
            f"Expected at least one round and a level between 0 and 1, got {rounds} "
            f"and {level}"
        )


def bootstrap(
    tally: Tally, *, rounds: int = ROUNDS, level: float = LEVEL, seed: int = 0
) -> dict[str, Interval]:
    """Computes an interval for each figure of a tally.

    Args:
        tally: What `tally.of_spans` or `tally.of_tags` returned.
        rounds: Number of resampled sets of sentences.
        level: Share of the rounds whose figure lies within the bounds.
        seed: Seed of the draws; equal seeds give equal bounds.

    Returns:
        By name, the figure over all sentences and its bounds. Rounds in which a figure
        is undefined do not count for it.

    Raises:
        ValueError: `rounds` is below 1, or the level is outside (0, 1).

    Example:
        >>> from jaxner.evaluation import tally
        >>> its = tally.of_spans([["B-A"], ["O"]] * 50, [["B-A"], ["B-A"]] * 50)
        >>> found = bootstrap(its)["precision"]
        >>> found.value, round(found.low, 1), round(found.high, 1)
        (0.5, 0.4, 0.6)
    """
    check(rounds, level)
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
    """Yields how often each round draws each sentence, some rounds at a time, `[r, S]`.

    Args:
        size: Number of sentences, S.
        rounds: Number of rounds in total.
        seed: Seed of the draws.
    """
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
    """Returns quantiles of each column, ignoring nan; nan for columns of nan.

    Args:
        values: Figures of each round, `[rounds, F]`.
        shares: The quantiles, from 0 to 1.

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
    """Returns the number; None for nan."""
    return None if np.isnan(value) else value
