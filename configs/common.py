"""What the configs share: arguments, and the sections of a run."""

from __future__ import annotations

import difflib
from typing import Any

from ml_collections import ConfigDict, config_dict

DATASETS = ("sample", "conll2003", "wnut17", "ontonotes5", "files")


def parse_arg(arg: str | None, **defaults: Any) -> Any:
    """Reads the part of `--config file.py:ARG` after the colon.

    Args:
        arg: Comma-separated `name=value`; the first option may be given bare,
            and so may a switch that is to be True.
        **defaults: The options; a value is read as the type of its default.

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


def base(dataset: str) -> Any:
    """Returns the sections of a run that do not depend on the system.

    Args:
        dataset: One of `DATASETS`.

    Raises:
        ValueError: The data set is unknown.
    """
    if dataset not in DATASETS:
        raise ValueError(
            f"Unknown data set {dataset!r}; known: {', '.join(DATASETS)}. 'files' are "
            "your own, in --config.data.dir=FOLDER."
        )
    config: Any = ConfigDict()
    config.seed = 0
    config.num_epochs = 20
    config.patience = 0  # epochs without a better dev F1 before stopping; 0: never
    config.batch_size = 10
    config.tensorboard = False

    config.data = ConfigDict()
    config.data.name = dataset
    config.data.dir = config_dict.placeholder(str)  # a folder instead of a known name
    config.data.token_column = config_dict.placeholder(int)
    config.data.label_column = config_dict.placeholder(int)
    config.data.comments = config_dict.placeholder(str)  # how comment lines begin
    config.data.encoding = "utf-8"
    config.data.scheme = "BIOES"  # what the model is trained on
    config.data.lowercase = False
    config.data.min_count = 1  # rarer training words without a vector are unknown
    config.data.vectors = config_dict.placeholder(str)  # a file, or a name in the data
    config.data.min_vector_match = 0.5  # of the distinct training words
    config.data.num_shapes = 6  # padded lengths; each is compiled once

    config.model = ConfigDict()
    config.objective = ConfigDict({"reduction": "sentence"})
    config.optimizer = ConfigDict()
    config.evaluation = ConfigDict({"constrained": False})
    return config
