"""Other taggers behind one small interface, for the benchmarks only.

This package does not import JAX, so that a peer's first answer is its own.
"""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple, Protocol, Self, runtime_checkable

INSTALL = "pip install -e '.[benchmarks]'"
# Module in this package with a class `Tagger`, and options.
_KNOWN: dict[str, tuple[str, dict[str, Any]]] = {
    "PyTorch": ("torch_crf", {}),
    "Flair": ("flair_tagger", {"characters": True}),
    "Flair, words only": ("flair_tagger", {"characters": False}),
    "spaCy": ("spacy_ner", {}),
}
NAMES = tuple(_KNOWN)


class MissingError(ImportError):
    """A peer's package is not installed."""


class Labelled(NamedTuple):
    """A sentence and its labels, in the peer's scheme (BIO or BIOES).

    Attributes:
        tokens: Words.
        labels: Label of each word.
    """

    tokens: Sequence[str]
    labels: Sequence[str]


class Peer(Protocol):
    """A tagger to compare with ours."""

    def __init__(self, train: Sequence[Labelled], **options: Any):
        """Draws weights for the words, characters and labels of some sentences."""
        ...

    def tune(
        self, batch: int | None, sentences: Sequence[Sequence[str]] | None = None
    ) -> None:
        """Chooses the fastest settings for a batch size, before the benchmark.

        Args:
            batch: As in `epoch` or `tag`.
            sentences: Sentences to tag; None for training, which may train on a few
                batches.
        """
        ...

    def first_step(self, batch: int) -> None:
        """Takes one training step on `batch` sentences."""
        ...

    def epoch(self, batch: int) -> int:
        """Trains on all sentences once; returns their number of tokens."""
        ...

    def tag(
        self, sentences: Sequence[Sequence[str]], batch: int | None = None
    ) -> list[list[str]]:
        """Labels sentences in batches; None for the peer's own batch size."""
        ...


@runtime_checkable
class StoredPeer(Peer, Protocol):
    """A peer that can be saved and loaded without pickles."""

    def save(self, folder: Path) -> None:
        """Writes the tagger to a folder."""
        ...

    @classmethod
    def load(cls, folder: Path) -> Self:
        """Returns the tagger in a folder."""
        ...


def build(name: str, train: Sequence[Labelled]) -> Peer:
    """Returns a peer for a training corpus.

    Args:
        name: One of `NAMES`.
        train: Sentences, with labels in BIOES.

    Raises:
        MissingError: The peer's package is not installed; the message says how to
            install it.
    """
    return tagger(name)(train, **_KNOWN[name][1])


def tagger(name: str) -> Any:
    """Returns the class of a peer.

    Raises:
        MissingError: As in `build`.
    """
    return importlib.import_module(f"{__name__}.{_KNOWN[name][0]}").Tagger


def need(package: str) -> Any:
    """Returns an imported package that only peers need.

    Raises:
        MissingError: The package is not installed.
    """
    try:
        return importlib.import_module(package)
    except ImportError as error:
        raise MissingError(f"{package} is not installed ({error}): {INSTALL}") from None
