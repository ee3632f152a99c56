"""Checks of the arguments of public functions, besides numbers, switches and words."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from jaxner.errors import InputError
from jaxner.wording import shown


def expect(is_right: object, demand: str, value: object) -> None:
    """Raises TypeError, with what was expected and what came, unless it is right."""
    if not is_right:
        raise TypeError(f"Expected {demand}, got {shown(value)}.")


def check_tagger(tagger: object) -> None:
    """Raises TypeError unless a value is a tagger; RuntimeError as `check_fork`."""
    from jaxner import devices  # which imports JAX

    devices.check_fork()
    names = ("weights", "model", "vocabulary")
    parts: list[Any] = [getattr(tagger, name, None) for name in names]
    is_whole = None not in parts and isinstance(parts[0], Mapping)
    demand = "a tagger with weights, model and vocabulary, as jaxner.load returns it"
    expect(is_whole and "params" in parts[0], demand, tagger)


def check_single(tagger: object) -> None:
    """Raises as `check_tagger`; InputError if a value is an ensemble."""
    check_tagger(tagger)
    if hasattr(tagger, "member"):
        message = "An ensemble is several taggers: write each by ensemble.member(i)."
        raise InputError(message)


def check_reads_text(tagger: Any) -> None:
    """Raises InputError if a tagger needs more than a text has."""
    if tagger.vocabulary.vector_sizes is not None:
        raise InputError(
            "The tagger reads precomputed vectors, which a text has none of: for a "
            "labelled file, jaxner evaluate has --contextual; in Python, jaxner.tag "
            "takes `vectors`"
        )


def check_vocabulary(vocabulary: object) -> None:
    """Raises TypeError unless a value is a vocabulary."""
    demand = "a vocabulary, the first that jaxner.build_vocabulary returns"
    expect(hasattr(vocabulary, "label_names"), demand, vocabulary)


def check_folder(workdir: Any) -> None:
    """Raises TypeError or InputError unless a value can be the path of a folder."""
    demand = "the path of a run folder, such as 'runs/grn'"
    expect(isinstance(workdir, (str, os.PathLike)), demand, workdir)
    path = os.fspath(workdir)
    if not path or "\0" in path:
        raise InputError(f"Expected {demand}, got {path!r}; '.' is the current folder.")
    if os.path.isfile(path):
        raise NotADirectoryError(f"Expected {demand}, got the file {path}.")


def check_documents(documents: Any, number: int) -> None:
    """Raises an error unless documents are a list, one for each sentence, or None."""
    if documents is None:
        return
    is_list = hasattr(documents, "__len__") and hasattr(documents, "__iter__")
    demand = "documents as a list with the document of each sentence, such as [0, 0, 1]"
    expect(is_list and not isinstance(documents, (str, bytes, dict)), demand, documents)
    if len(documents) != number:
        raise InputError(
            f"Expected one document per sentence, {number}, got {len(documents)}."
        )
