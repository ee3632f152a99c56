"""Contextual inputs of a run: vector files, and the folder of an encoder."""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from jaxner import pretrained
from jaxner.data import corpora, pieces, vectors
from jaxner.data.splits import Split
from jaxner.data.vocabulary import Vocabulary
from jaxner.wording import counted

_MARK = "{split}"


def find(options: Mapping[str, Any], split: str) -> Path | None:
    """Returns the file of a split's vectors.

    Args:
        options: The section `data` of a config: `contextual`, a path with {split} for
            the name of the split, and `dir`. Tries the path itself, the corpus's
            folder, and the data folder.
        split: "train", "dev" or "test".

    Returns:
        The file; None if the run uses no such vectors.

    Raises:
        FileNotFoundError: The file is missing.
        ValueError: The path is the same for all splits.
    """
    pattern = options.get("contextual")
    if not pattern:
        return None
    if _MARK not in pattern:
        raise ValueError(
            f"Expected {_MARK} in --config.data.contextual, since each split has its "
            f"own file, got {pattern!r}; an example is elmo/{_MARK}.hdf5"
        )
    name = pattern.replace(_MARK, split)
    own = [Path(options["dir"])] if options.get("dir") else []
    data = corpora.data_folder()
    tried = [place / name for place in (Path(), *own, data / "vectors", data)]
    if there := [path for path in tried if path.is_file()]:
        return there[0]
    sought = ", ".join(dict.fromkeys(map(str, tried)))
    raise FileNotFoundError(f"No file of vectors for {split}; tried {sought}")


def with_vectors(split: Split, path: str | Path | None) -> Split:
    """Returns a split with the vectors of a file, after checking that they match.

    Raises:
        FileNotFoundError, ImportError, ValueError: As for `vectors.read_contextual`.
    """
    if path is None:
        return split
    sentences = [example.tokens for example in split.examples]
    return dataclasses.replace(split, vectors=vectors.read_contextual(path, sentences))


def complete(
    vocabulary: Vocabulary,
    options: Mapping[str, Any],
    train: Split,
    log: Callable[[str], object],
    dev: Split | None = None,
) -> Vocabulary:
    """Returns a vocabulary with the facts of the contextual inputs.

    Args:
        vocabulary: Vocabulary of the words.
        options: The section `data` of a config: `pretrained`, a Hugging Face folder.
        train: Training split, with vectors if the run uses them.
        log: Gets lines for the user.
        dev: Dev split; if given, compares the sizes of its vectors, and of test's, with
            train's before training.

    Raises:
        FileNotFoundError, ImportError, ValueError: As for `pretrained.sizes` and
            `pieces.read`; or config and vocabulary do not fit; or the splits have
            vectors of different sizes.
    """
    if train.vectors is not None:
        sizes = train.vectors.sizes
        size = f"{counted(sizes[0], 'layer')} of {counted(sizes[1], 'dimension')}"
        log(f"{train.vectors.path}: {size}")
        vocabulary = dataclasses.replace(vocabulary, vector_sizes=sizes)
        if dev is not None:
            _check_others(sizes, options, dev)
    if folder := options.get("pretrained"):
        sizes = pretrained.sizes(folder)
        cut = pieces.read(folder, sizes["max_position_embeddings"])
        if len(cut.vocab) > sizes["vocab_size"]:
            raise ValueError(
                f"{folder}: the vocabulary has {len(cut.vocab):,} word pieces, "
                f"config.json says {sizes['vocab_size']:,}"
            )
        if len(cut.vocab) < sizes["vocab_size"]:
            log(
                f"{folder}: the vocabulary has {len(cut.vocab):,} word pieces, "
                f"config.json says {sizes['vocab_size']:,}; the rest are not used"
            )
        case = "lower-cased" if cut.lowercase else "cased"
        log(f"{folder}: BERT, {len(cut.vocab):,} {case} word pieces")
        attributes = tuple(sorted(sizes.items()))
        vocabulary = dataclasses.replace(
            vocabulary, pieces=cut, encoder_sizes=attributes
        )
    return vocabulary


def _check_others(
    sizes: tuple[int, int], options: Mapping[str, Any], dev: Split
) -> None:
    """Raises ValueError if dev's or test's vectors have other sizes than train's."""
    if dev.vectors is not None:
        vectors.check_sizes(dev.vectors.path, dev.vectors.sizes, sizes)
    try:
        corpora.find(options["dir"] or options["name"], "test")
        path = find(options, "test")
    except FileNotFoundError:
        return  # the run does not score test
    if path is not None:
        vectors.check_sizes(path, vectors.contextual_sizes(path), sizes)


def describe(options: Mapping[str, Any]) -> dict[str, dict[str, str]]:
    """Returns paths and checksums of the files, for the record of a run."""
    files = {f"contextual {name}": find(options, name) for name in ("train", "dev")}
    if folder := options.get("pretrained"):
        for path in sorted(Path(folder).iterdir()):
            if path.suffix in (".json", ".txt", ".safetensors"):
                files[f"pretrained {path.name}"] = path
    record = {}
    for name, path in files.items():
        if path is not None:
            with path.open("rb") as file:
                checksum = hashlib.file_digest(file, "sha256").hexdigest()
            record[name] = {"path": str(path), "sha256": checksum}
    return record
