"""Compares the data options of a config with the vocabulary that came of them.

Taggers look words up and name labels by the vocabulary. Other commands read the config,
so an edited config would score or resume by other rules than those of the training.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from jaxner.data.vocabulary import PADDING, UNKNOWN, Vocabulary
from jaxner.integrity import DamagedFileError

SAME = (
    *("scheme", "lowercase", "lowercase_fallback", "zero_digits", "unescape"),
    "typed_unknowns",
)
"""Options that the vocabulary holds under the same name."""
_NUM_SPECIAL = len((PADDING, UNKNOWN))


def check(file: Path, options: Any, vocabulary: Vocabulary, remedy: str) -> None:
    """Checks that the options in a file are those of a vocabulary.

    Options that leave no trace in the vocabulary, such as `min_count`, change no label
    of a trained tagger, and are not compared. Neither are options that are missing: an
    earlier version wrote the file.

    Args:
        file: The config's file, for the error.
        options: Its section `data`.
        vocabulary: The vocabulary of the run.
        remedy: What else to do, in sentences.

    Raises:
        DamagedFileError: An option differs; the message names both values.
    """
    if not isinstance(options, Mapping):
        raise DamagedFileError(file, "has no section data", remedy)
    found = list(differences(options, vocabulary))
    if found:
        there = "; ".join(f"data.{name} is {is_!r}" for name, is_, _ in found)
        was = "; ".join(f"data.{name} {was}" for name, _, was in found)
        raise DamagedFileError(
            file,
            f"{there}, but the tagger's vocabulary was built with {was}",
            f"Put that back. {remedy}",
        )


def differences(
    options: Mapping[str, Any], vocabulary: Vocabulary
) -> Iterator[tuple[str, Any, str]]:
    """Yields the options that differ: name, value, and the vocabulary's value as text.

    Example:
        >>> from jaxner.data.vocabulary import build
        >>> vocabulary, _ = build([["Rome"]], ["LOC"], scheme="BIO")
        >>> list(differences({"scheme": "BIOES", "lowercase": False}, vocabulary))
        [('scheme', 'BIOES', "= 'BIO'")]
    """
    built: dict[str, Any] = {name: getattr(vocabulary, name) for name in SAME}
    built["unit"] = "document" if vocabulary.reads_documents else "sentence"
    for name, value in built.items():
        given = options.get(name, value)
        if given != value or type(given) is not type(value):  # 0 is not False
            yield name, given, f"= {value!r}"
    chars = "".join(vocabulary.chars[_NUM_SPECIAL:])
    alphabet = options.get("alphabet")
    is_text = isinstance(alphabet, str)
    if alphabet is not None and not (is_text and set(alphabet) == set(chars)):
        yield "alphabet", alphabet, f"= {chars!r}"
    trained = options.get("train_words", True)
    has_trained = vocabulary.num_trained > _NUM_SPECIAL
    if type(trained) is not bool or (has_trained and not trained):
        yield "train_words", trained, f"= {has_trained}"
    for name, fact in (
        ("contextual", vocabulary.vector_sizes),
        ("pretrained", vocabulary.pieces),
    ):
        if name in options and bool(options[name]) != (fact is not None):
            yield name, options[name], "= None" if fact is None else "set"
