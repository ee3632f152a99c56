"""Checks of a config, before a run reads or writes anything.

Each error is a line that names the option, says what came and what would work.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import math
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import jax

from jaxner import fields
from jaxner.models import options
from jaxner.models.options import Section
from jaxner.training import optimizers, schema

_ANY_SIZE = 10**6  # stands for sizes that the data will give


def check(config: Mapping[str, Any]) -> None:
    """Checks all values of a config, each by itself and then together.

    Raises:
        ValueError: An option is unknown; or a value is out of range, not among the
            choices, of another type, or can not be beside another one.
    """
    for section in schema.sections(config):
        _check_section(section)
    _check_paths(config)
    _check_parts(config)
    with _naming("--config.optimizer"):
        optimizers.build(config["optimizer"], 1, config["num_epochs"])


def _check_section(section: Section) -> None:
    for name, value in section.values.items():
        if name in section.inner:
            continue
        if name not in section.fields:
            known = ", ".join(sorted((*section.fields, *section.inner)))
            flag = section.flag(name)
            raise ValueError(f"Unknown option {flag}; known: {known}{_hint(section)}")
        fields.check(section.flag(name), value, section.fields[name].hint)
    if section.module is not None:
        with _naming(section.flag()):
            _make(section)


def _hint(section: Section) -> str:
    part = section.path.rpartition(".")[2]
    if part not in ("encoder", "head", "chars"):
        return ""
    return f". Another part is an argument of the config: --config FILE:{part}=NAME"


def _make(section: Section) -> None:
    """Makes the module of a section, which checks its options together."""
    own = {name: section.values[name] for name in section.values if name != "name"}
    known = fields.of(section.module)
    given = {k: tuple(v) if isinstance(v, list) else v for k, v in own.items()}
    derived = {
        field.name: _ANY_SIZE
        for field in dataclasses.fields(section.module)
        if field.default is dataclasses.MISSING and field.name not in known
    }
    section.module(**{k: v for k, v in given.items() if k in known}, **derived)


@contextlib.contextmanager
def _naming(flag: str) -> Iterator[None]:
    try:
        yield
    except ValueError as error:
        raise ValueError(f"{flag}: {error}") from None


def _check_paths(config: Mapping[str, Any]) -> None:
    """Checks that folders are no files, and files no folders, where they exist."""
    data = config["data"]
    if data["name"] == "files" and not data["dir"]:
        raise ValueError(
            "--config.data.dir must be the folder with your train, dev and test files, "
            "got none: add --config.data.dir=FOLDER"
        )
    for option in ("data.dir", "data.pretrained", "init_from"):
        *parents, name = option.split(".")
        given = functools.reduce(lambda section, one: section[one], parents, config)
        check_folder(f"--config.{option}", given.get(name))
    for option in ("dir", "pretrained"):
        check_there(f"--config.data.{option}", data.get(option))
    check_file("--config.data.vectors", data["vectors"])


def check_folder(flag: str, given: str | os.PathLike[str] | None) -> None:
    """Checks that what should be a folder is not a file; it need not be there.

    Raises:
        NotADirectoryError: It is a file.
    """
    if given and Path(given).is_file():
        raise NotADirectoryError(
            f"{flag} must be a folder, got a file: {given} is a file in "
            f"{Path(given).absolute().parent}"
        )


def check_there(flag: str, given: str | os.PathLike[str] | None) -> None:
    """Checks that a folder is there.

    Raises:
        FileNotFoundError: It is not.
    """
    if given and not Path(given).exists():
        raise FileNotFoundError(f"{flag}: there is no folder {given}")


def check_file(flag: str, given: str | os.PathLike[str] | None) -> None:
    """Checks that what should be a file is not a folder; it need not be there.

    Raises:
        IsADirectoryError: It is a folder.
    """
    if given and Path(given).is_dir():
        raise IsADirectoryError(f"{flag} must be a file, got the folder {given}")


def _check_parts(config: Mapping[str, Any]) -> None:
    """Checks that the parts of the model can be together."""
    model, data = config["model"], config["data"]
    parts = model["representation"]
    if not any(map(parts.get, ("words", "chars", "vectors", "bert"))):
        raise ValueError(
            "--config.model.representation needs words, chars, vectors or bert; all "
            "are None"
        )
    for part, option in (("vectors", "contextual"), ("bert", "pretrained")):
        if (parts.get(part) is None) != (not data.get(option)):
            missing, there = f"--config.data.{option}", f"model.representation.{part}"
            if data.get(option):
                missing, there = there, missing
            raise ValueError(f"{there} needs {missing}, which is not given")
    encoders = list(options.model_sections({**model, "refinement": None}))
    encoders = [s for s in encoders if s.path.startswith("model.encoder")]
    gives_scores = "num_labels" in fields.names(encoders[-1].module)
    if model["head"]["name"] == "scores" and not gives_scores:
        raise ValueError(
            "--config.model.head.name 'scores' takes the scores of an encoder such as "
            "'lan'; for features, take head=softmax or head=crf"
        )
    has_lstm = any(hasattr(s.module, "forget_bias") for s in encoders)
    if config["objective"].get("orthogonality") and not has_lstm:
        raise ValueError(
            "--config.objective.orthogonality needs an encoder with LSTMs, such as "
            "'bilstm'; set it to 0"
        )
    if model["head"]["name"] == "seq2seq":
        _check_seq2seq(config)


def _check_seq2seq(config: Mapping[str, Any]) -> None:
    """Checks that nothing asks for scores of labels before labels are known."""
    model = config["model"]
    draws = (model.get("mc_dropout") or {}).get("num_samples")
    asks = {
        "model.refinement": (model.get("refinement") is not None, "take it out"),
        "model.mc_dropout.num_samples": (draws, "set it to 0"),
        "objective.dropout_penalty": (
            config["objective"].get("dropout_penalty"),
            "set it to 0 (dr=false)",
        ),
        "data.unit": (config["data"]["unit"] == "document", "set it to 'sentence'"),
    }
    for option, (is_set, remedy) in asks.items():
        if is_set:
            raise ValueError(
                f"--config.{option} needs scores of the labels, which head 'seq2seq' "
                f"has none of before its labels are known: take another head, or "
                f"{remedy}"
            )


def check_memory(weights: Any) -> None:
    """Checks that a model's weights fit into the machine's memory.

    Args:
        weights: Anything with shapes and dtypes.

    Raises:
        ValueError: They do not.
    """
    leaves = jax.tree.leaves(weights)
    needed = sum(math.prod(leaf.shape) * leaf.dtype.itemsize for leaf in leaves)
    most = _memory()
    if needed > most:
        count = sum(math.prod(leaf.shape) for leaf in leaves)
        raise ValueError(
            f"The model has {count:,} weights ({needed / 2**30:,.0f} GiB), more than "
            f"this machine has memory ({most / 2**30:,.0f} GiB): set smaller sizes in "
            "--config.model"
        )


def _memory() -> float:
    try:
        return float(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    except (AttributeError, ValueError, OSError):  # not on Windows
        return math.inf
