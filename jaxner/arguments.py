"""Checks of the arguments of public functions, besides numbers, switches and words."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from jaxner.errors import InputError
from jaxner.wording import shown as shown


def check_tagger(params: Any) -> None:
    """Raises TypeError unless a value is a tagger."""
    if isinstance(params, (str, os.PathLike)):
        raise TypeError(
            f"Expected a tagger, got {shown(params)}: call "
            f"jaxner.load({os.fspath(params)!r})."
        )
    parts = [getattr(params, name, None) for name in ("weights", "model", "vocabulary")]
    if None in parts or not isinstance(parts[0], Mapping) or "params" not in parts[0]:
        raise TypeError(
            "Expected a tagger with weights, model and vocabulary, as jaxner.load "
            f"returns it, got {shown(params)}."
        )


def check_vocabulary(vocabulary: Any) -> None:
    """Raises TypeError unless a value is a vocabulary."""
    if not hasattr(vocabulary, "label_names"):
        raise TypeError(
            "Expected a vocabulary, the first that jaxner.build_vocabulary returns, "
            f"got {shown(vocabulary)}."
        )


def check_folder(workdir: Any) -> None:
    """Raises TypeError or InputError unless a value can be the path of a folder."""
    wanted = "Expected the path of a run folder, such as 'runs/grn'"
    if not isinstance(workdir, (str, os.PathLike)) or isinstance(workdir, bytes):
        raise TypeError(f"{wanted}, got {shown(workdir)}.")
    path = os.fspath(workdir)
    if not path or "\0" in path:
        raise InputError(f"{wanted}, got {path!r}; '.' is the current folder.")
    if os.path.isfile(path):
        raise NotADirectoryError(f"{wanted}, got the file {path}.")


def check_documents(documents: Any, number: int) -> None:
    """Raises an error unless documents are a list, one for each sentence, or None."""
    if documents is None:
        return
    is_list = hasattr(documents, "__len__") and hasattr(documents, "__iter__")
    if not is_list or isinstance(documents, (str, bytes, dict)):
        raise TypeError(
            "Expected documents as a list with the document of each sentence, such as "
            f"[0, 0, 1], got {shown(documents)}."
        )
    if len(documents) != number:
        raise InputError(
            f"Expected one document per sentence, {number}, got {len(documents)}."
        )


def check_mapping(name: str, value: Any, example: str) -> None:
    """Raises TypeError unless a value is a dictionary whose keys are strings."""
    if not isinstance(value, Mapping) or any(not isinstance(key, str) for key in value):
        raise TypeError(
            f"Expected {name} as a dictionary, such as {example}, got {shown(value)}."
        )
