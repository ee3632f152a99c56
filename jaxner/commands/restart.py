"""The flag that chooses among the restarts in a folder, and what it loads."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from absl import flags

from jaxner import tagging
from jaxner.training import cluster


def define(values: flags.FlagValues) -> None:
    """Declares the flag."""
    about = "For a folder of restarts: a seed, or all, to average them."
    flags.DEFINE_string("restart", None, about, flag_values=values)


def read(text: str | None) -> int | str | None:
    """Reads `--restart`: a number, or "all".

    Raises:
        ValueError: It is neither.

    Example:
        >>> read("3"), read("all"), read(None)
        (3, 'all', None)
    """
    if text is None or text == "all":
        return text
    if not (text.isascii() and text.isdigit()):
        raise ValueError(f"Expected --restart to be a number or 'all', got {text!r}")
    return int(text)


def load(values: flags.FlagValues, changes: Mapping[str, Any]) -> tagging.Tagger:
    """Loads the tagger of `--workdir` and `--restart` onto all devices."""
    params = tagging.load(values.workdir, changes, seed=read(values.restart))
    return cluster.placement().tagger(params)
