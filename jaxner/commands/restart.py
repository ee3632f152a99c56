"""The flag that chooses a restart in a folder, and its loading."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from absl import flags

from jaxner import tagging
from jaxner.tagger import Ensemble
from jaxner.training import cluster
from jaxner.workdir import Workdir


def define(values: flags.FlagValues) -> None:
    """Declares the flag."""
    about = "For a folder of restarts: a seed, or all, to average them."
    flags.DEFINE_string("restart", None, about, flag_values=values)


def read(text: str | None) -> int | str | None:
    """Parses `--restart`: a number, or "all".

    Raises:
        ValueError: The text is neither.

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


def folder_of(folder: str, seed: int | str) -> str:
    """Returns the folder of one restart; of all of them, the folder itself."""
    return folder if seed == "all" else str(Workdir(folder).seed(int(seed)).path)


def name_of(params: tagging.Tagger, seed: int | str) -> str:
    """Returns how a report calls what `load` returned: "restart 3"."""
    if isinstance(params, Ensemble):
        return f"ensemble of {len(params)}"
    return f"restart {seed}"
