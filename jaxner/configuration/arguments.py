"""The part of `--config file.py:ARG` after the colon."""

from __future__ import annotations

import difflib
from typing import Any

from ml_collections import ConfigDict


def parse_arg(arg: str | None, **defaults: Any) -> Any:
    """Returns the options in the part of `--config file.py:ARG` after the colon.

    Args:
        arg: Comma-separated `name=value`; the first option needs no name, and a switch
            needs no value to be True.
        **defaults: The options; their defaults determine the types.

    Returns:
        The options.

    Raises:
        ValueError: An option is unknown, or its value has the wrong type.

    Example:
        >>> parse_arg("wnut17,quick", dataset="sample", quick=False).quick
        True
    """
    options = ConfigDict(defaults)
    first = next(iter(defaults))
    for i, part in enumerate(filter(None, (arg or "").split(","))):
        name, equals, value = part.partition("=")
        if not equals:
            is_switch = isinstance(defaults.get(part), bool)
            if i and not is_switch:
                raise ValueError(_unknown(part, defaults))
            name, value = (part, "true") if is_switch else (first, part)
        if name not in defaults:
            raise ValueError(_unknown(name, defaults))
        options[name] = _read(name, value, defaults[name])
    return options


def _read(name: str, value: str, default: Any) -> Any:
    if isinstance(default, bool):
        if value.lower() not in ("true", "false"):
            raise ValueError(f"Expected {name}=true or {name}=false, got {value!r}")
        return value.lower() == "true"
    try:
        return type(default)(value)
    except ValueError:
        kind = type(default).__name__
        raise ValueError(f"Expected {name}=<{kind}>, got {value!r}") from None


def _unknown(name: str, defaults: dict[str, Any]) -> str:
    close = difflib.get_close_matches(name, defaults, 1)
    hint = f" Did you mean {close[0]!r}?" if close else ""
    return f"Unknown config option {name!r}; known: {', '.join(defaults)}.{hint}"


def known(name: str, value: str, values: Any) -> None:
    """Raises ValueError if an option's value is not in `values`."""
    if value not in values:
        raise ValueError(
            f"Unknown {name} {value!r}; known: {', '.join(filter(None, values))}"
        )
