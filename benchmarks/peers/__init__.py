"""Other taggers, all behind one small interface; extras of the benchmarks only.

Nothing here imports JAX, so that the first answer of a peer is its own.
"""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple, Protocol, Self, runtime_checkable

INSTALL = "pip install -e '.[benchmarks]'"
# Module below this package that has a class `Tagger`, and its options.
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
    """A sentence with its labels, in BIO or BIOES as the peer likes.

    Attributes:
        tokens: Its words.
        labels: One for each.
    """

    tokens: Sequence[str]
    labels: Sequence[str]


class Peer(Protocol):
    """A tagger that is compared with ours."""

    def __init__(self, train: Sequence[Labelled], **options: Any):
        """Draws weights; words, characters and labels are those of some sentences."""
        ...

    def tune(
        self, batch: int | None, sentences: Sequence[Sequence[str]] | None = None
    ) -> None:
        """Tries what is fastest for batches of that size, before anything is timed.

        Args:
            batch: As in `epoch` or `tag`.
            sentences: That are to be tagged; None: the peer is to be trained. It may
                train on a few batches for it.
        """
        ...

    def first_step(self, batch: int) -> None:
        """Trains on so many sentences, once."""
        ...

    def epoch(self, batch: int) -> int:
        """Trains on all the sentences once; returns how many tokens they have."""
        ...

    def tag(
        self, sentences: Sequence[Sequence[str]], batch: int | None = None
    ) -> list[list[str]]:
        """Labels sentences, `batch` at once; None: as many as the peer likes."""
        ...


@runtime_checkable
class StoredPeer(Peer, Protocol):
    """One that can be written and read again, without any pickle."""

    def save(self, folder: Path) -> None:
        """Writes the tagger to a folder."""
        ...

    @classmethod
    def load(cls, folder: Path) -> Self:
        """Reads it."""
        ...


def build(name: str, train: Sequence[Labelled]) -> Peer:
    """Builds a peer for a training corpus.

    Args:
        name: One of `NAMES`.
        train: Sentences, their labels in BIOES.

    Raises:
        MissingError: Its package is not installed; the message says how to install it.
    """
    return tagger(name)(train, **_KNOWN[name][1])


def tagger(name: str) -> Any:
    """Returns the class of a peer.

    Raises:
        MissingError: As in `build`.
    """
    return importlib.import_module(f"{__name__}.{_KNOWN[name][0]}").Tagger


def need(package: str) -> Any:
    """Imports a package that only peers need.

    Raises:
        MissingError: It is not installed.
    """
    try:
        return importlib.import_module(package)
    except ImportError as error:
        raise MissingError(f"{package} is not installed ({error}): {INSTALL}") from None
