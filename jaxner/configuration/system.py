"""Builds a config file's `get_config` from the settings of a system."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from ml_collections import ConfigDict

from jaxner import fields
from jaxner.configuration import arguments, sections
from jaxner.models import CHARACTERS, ENCODERS, HEADS
from jaxner.models.options import encoder_sections

PARTS = ("encoder", "head", "chars")
"""Arguments that every config takes: another part in the place of its own."""
# What a part hands on to another one in its place; sizes are the new one's own.
_KEPT = {
    "encoder": ("initializer", "forget_bias"),
    "head": ("dropout", "initializer"),
    "chars": ("dropout", "initializer", "table_initializer"),
}
_SWITCHES = ("crf", "softmax")  # of configs, which mean `head=crf` and `head=softmax`


def options(**defaults: Any) -> Callable[[Callable], Callable]:
    """Makes a `get_config` from what sets the options of a system.

    Args:
        **defaults: The system's own options after the colon, and their defaults. Every
            system has three more: `encoder`, `head` and `chars` name a part that
            stands in the place of the system's own. It has its own defaults, but keeps
            dropout and the way weights are drawn where it can.

    Returns:
        A decorator of a function that gets the sections of a run, and the options.

    Example:
        >>> @options(wide=False)
        ... def get_config(config, arg):
        ...     config.model.representation = {"words": {"dim": 100}, "chars": None}
        ...     size = 400 if arg.wide else 200
        ...     config.model.encoder = {"name": "grn", "hidden_dim": size}
        ...     config.model.head = {"name": "crf"}
        ...     config.optimizer = {"name": "adam", "learning_rate": 1e-3}
        >>> get_config("conll2003,wide").model.encoder.hidden_dim
        400
        >>> get_config("encoder=bilstm,head=softmax").model.encoder.num_layers
        1
    """
    defaults = {"dataset": "sample", **dict.fromkeys(PARTS, ""), **defaults}

    def decorate(set_up: Callable[[Any, Any], None]) -> Callable:
        def make(arg: Any) -> Any:
            arg, config = ConfigDict(arg), sections.base(arg.dataset)
            set_up(config, arg)
            _replace_parts(config.model, arg)
            return sections.complete(config)

        @functools.wraps(set_up)
        def get_config(arg: str | None = "") -> Any:
            given = arguments.parse_arg(arg, **defaults)
            _agree(given)
            config = make(given)
            if any(given[part] for part in PARTS):
                _check_effects(make, config, given, defaults)
            return config

        return get_config

    return decorate


def _agree(arg: Any) -> None:
    """Lets a config's own switch, and the argument that means the same, say the same.

    Raises:
        ValueError: A part is unknown, or both are given and differ.
    """
    for link in filter(None, arg.encoder.split("+")):
        arguments.known("encoder", link, sorted(ENCODERS.keys() - {"chain"}))
    if arg.head:
        arguments.known("head", arg.head, sorted(HEADS))
    if arg.chars:
        known = (*sorted(CHARACTERS), "none", "true", "false")
        arguments.known("chars", arg.chars, known)
    for switch in set(_SWITCHES) & set(arg):
        if arg[switch] and arg.head not in ("", switch):
            raise ValueError(f"{switch} and head={arg.head} are two heads: choose one")
        arg[switch] |= arg.head == switch


def _replace_parts(model: Any, arg: Any) -> None:
    if arg.encoder and arg.encoder != _name(model.encoder):
        names = arg.encoder.split("+")
        links = [_in_place_of(model.encoder, "encoder", name) for name in names]
        model.encoder = functools.reduce(_chain, links)
        _fit_noise(model)
    if arg.head or arg.encoder:
        _replace_head(model, arg)
    if arg.chars in ("none", "false"):
        model.representation.chars = None
    elif arg.chars not in ("", "true"):
        own = model.representation.get("chars") or ConfigDict({"name": ""})
        if own.get("name", "cnn") != arg.chars:
            model.representation.chars = _in_place_of(own, "chars", arg.chars)


def _replace_head(model: Any, arg: Any) -> None:
    """Gives the model the head of one's choice; reads scores of labels as scores.

    Raises:
        ValueError: The head reads scores, and the encoder gives features.
    """
    *_, last = encoder_sections("", model.encoder)
    gives_scores = "num_labels" in fields.names(last.module)
    own = model.head.name
    if own == "scores":  # it is a CRF, or independent labels, too
        own = ("softmax", "crf")[model.head.get("transitions", False)]
    is_misread = model.head.name == "scores" and not gives_scores
    if arg.head and (is_misread or arg.head not in (own, model.head.name)):
        model.head = _in_place_of(model.head, "head", arg.head)
    elif is_misread:
        raise ValueError(
            f"encoder={arg.encoder} gives features, and head 'scores' takes scores of "
            "the labels: add head=softmax or head=crf"
        )
    elif gives_scores and not arg.head and own in ("crf", "softmax"):
        scores = {"name": "scores", "transitions": own == "crf"}
        model.head = ConfigDict(scores)
    if model.head.name == "scores" and not gives_scores:
        raise ValueError("head=scores takes scores of the labels: add encoder=lan")


def _name(encoder: Any) -> str:
    """Names an encoder as the argument does: `bilstm+projection` is a chain."""
    if encoder.name == "chain":
        return f"{_name(encoder.first)}+{_name(encoder.then)}"
    return encoder.name


def _chain(first: Any, then: Any) -> Any:
    return ConfigDict({"name": "chain", "first": first, "then": then})


def _in_place_of(old: Any, part: str, name: str) -> Any:
    """Returns the section of a part that stands in the place of another one."""
    tables = {"encoder": ENCODERS, "chars": CHARACTERS}
    kind = tables[part][name] if part in tables else HEADS[name][0]
    known, new = fields.of(kind), ConfigDict({"name": name})
    for option in set(_KEPT[part]) & set(old) & set(known):
        if fields.fits(old[option], known[option].hint):
            new[option] = old[option]
    return new


def _fit_noise(model: Any) -> None:
    """Lets the passes of MC dropout differ: an encoder may have no dropout of its own.

    Then the features behind it are dropped, as often as those of a draft's BiLSTM.
    """
    drafts = model.mc_dropout
    if drafts.get("num_samples") and tuple(drafts.parts) == ("encoder",):
        drafts.parts = ("head",)
        model.head.dropout = model.head.get("dropout") or 0.25


def _check_effects(make: Callable, config: Any, arg: Any, defaults: Any) -> None:
    """Checks that each option still says something beside the parts that were chosen.

    Raises:
        ValueError: One belongs to a part that is not there.
    """
    parts = ", ".join(f"{part}={arg[part]}" for part in PARTS if arg[part])
    for option, default in defaults.items():
        if option in ("dataset", *PARTS, *_SWITCHES) or arg[option] == default:
            continue
        without = ConfigDict({**arg.to_dict(), option: default})
        if make(without).to_dict() == config.to_dict():
            raise ValueError(
                f"{option}={arg[option]} changes nothing beside {parts}: leave it out"
            )
