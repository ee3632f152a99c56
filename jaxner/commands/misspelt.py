"""What an unknown option of `jaxner train` may have meant."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from jaxner.configuration import shipped

_SHOWN = 3


def suggestion(option: str, arguments: Sequence[str]) -> str:
    """Returns a question with similar options of the config in a command line.

    Args:
        option: The unknown option, such as "--num_epochs".
        arguments: The command line, with `--config=FILE`.

    Returns:
        The question, or "" if there is no similar option, or no config.

    Example:
        >>> suggestion("--epochs", ["--config=grn", "--epochs=3"])
        'Did you mean --config.num_epochs?'
    """
    wanted = option.lstrip("-").rpartition(".")[2]
    known = _options(arguments)
    found = [name for name in known if name.rpartition(".")[2] == wanted]
    if not found:
        by_end = {name.rpartition(".")[2]: name for name in known}
        close = difflib.get_close_matches(wanted, by_end, 1, 0.7)
        found = [by_end[end] for end in close]
    if not found or len(found) > _SHOWN:
        return ""
    return f"Did you mean {' or '.join(f'--config.{name}' for name in found)}?"


def _options(arguments: Sequence[str]) -> list[str]:
    """Returns the names of all options of the config; none if it cannot be read."""
    for argument, after in zip(arguments, [*arguments[1:], ""], strict=True):
        flag, equals, value = argument.partition("=")
        if flag in ("-config", "--config"):
            try:
                return list(_flat(shipped.load(value if equals else after).to_dict()))
            except Exception:  # a config is Python; its own error is told elsewhere
                return []
    return []


def _flat(config: Mapping[str, Any], prefix: str = "") -> Iterator[str]:
    for name, value in config.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}"
