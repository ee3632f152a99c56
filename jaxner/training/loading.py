"""Loads the splits of a run, including a dev split taken out of train."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from jaxner.data import corpora, dividing, schemes, splits
from jaxner.data.splits import Split
from jaxner.training import inputs
from jaxner.workdir import Workdir


def load_split(options: Mapping[str, Any], name: str) -> Split:
    """Loads one split of the configured corpus.

    Args:
        options: The section `data` of a config: `name` of a known corpus, or `dir` of
            your own; the options in `READING`; `scheme`, which says whether labels are
            tags; `contextual` (see `inputs.find`); `split_dev` and `split_seed`, the
            share of train that becomes dev and the seed of that draw.
        name: "train", "dev" or "test".
    """
    split = _split(options, name)
    return inputs.with_vectors(split, inputs.find(options, name))


def load_file(
    options: Mapping[str, Any], path: str, vectors: str | None = None
) -> Split:
    """Loads a file with the reading options of the configured corpus.

    Args:
        options: As in `load_split`.
        path: The file.
        vectors: File with precomputed vectors of its tokens; None for none.
    """
    return inputs.with_vectors(splits.read(path, **_reading(options)), vectors)


def reading_of(folder: str) -> dict[str, Any]:
    """Returns how a run reads its files, as keywords of `splits.read`.

    Not the format, which is that of its own files alone. A folder of `jaxner.save`
    does not hold this: the result is empty.

    Args:
        folder: Folder of the run.
    """
    run = Workdir(folder)
    if not (run.path / "config.json").exists():
        return {}
    reading = _reading(run.read_json("config.json")["data"])
    return {k: v for k, v in reading.items() if k != "format"}


def _reading(options: Mapping[str, Any]) -> dict[str, Any]:
    # Options that the run did not set, or that are newer than the run, have defaults.
    reading = {k: options[k] for k in READING if options.get(k) is not None}
    # A span scheme is that of the model; the scheme of the file is detected.
    is_tags = options.get("scheme") == schemes.TAGS
    return reading | ({"scheme": schemes.TAGS} if is_tags else {})


READING = ("format", "token_column", "label_column", "comments", "encoding", "unfit")
"""Options of a config for reading files."""


def training_words(options: Mapping[str, Any]) -> frozenset[str] | None:
    """Returns the distinct words of the training text; None if it is missing.

    Args:
        options: As in `load_split`.
    """
    try:
        return _split(options, "train").words()
    except FileNotFoundError:
        return None


def _split(options: Mapping[str, Any], name: str) -> Split:
    """Loads a split without vectors; takes dev out of train if so configured."""
    share = options.get("split_dev")
    if share and name in ("train", "dev"):
        _check_alone(options)
        train = _file(options, "train")
        return dividing.divide(train, share, options["split_seed"])[name == "dev"]
    try:
        return _file(options, name)
    except FileNotFoundError as error:
        if name != "dev":
            raise
        hint = "To take a tenth of train instead: --config.data.split_dev=0.1"
        raise FileNotFoundError(f"{error}. {hint}") from None


def _file(options: Mapping[str, Any], name: str) -> Split:
    place = options["dir"]
    known = None if place else options["name"]
    return corpora.load(known, name, directory=place, **_reading(options))


def _check_alone(options: Mapping[str, Any]) -> None:
    """Raises ValueError if there is also a dev file, or if vectors would not match."""
    if options.get("contextual"):
        raise ValueError(
            "--config.data.split_dev does not go with --config.data.contextual, whose "
            "files have the vectors of whole splits; divide text and vectors beforehand"
        )
    try:
        path = corpora.find(options["dir"] or options["name"], "dev")
    except FileNotFoundError:
        return
    raise ValueError(
        f"There is a dev file, {path}: leave --config.data.split_dev out, or remove it"
    )


def describe(options: Mapping[str, Any], dev: Split) -> dict[str, Any]:
    """Returns a record of the sentences of train that became dev; empty if none."""
    if not options.get("split_dev"):
        return {}
    lines = [example.line for example in dev.examples]
    checksum = hashlib.sha256(json.dumps(lines).encode()).hexdigest()
    about = {"share": options["split_dev"], "seed": options["split_seed"]}
    its = {"path": str(dev.path), "sha256": checksum, **about, "first_lines": lines}
    return {"dev taken from train": its}
