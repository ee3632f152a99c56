"""Loads the data of a run, from the data options of its config."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import jax
import numpy as np
from rich.markup import escape

from jaxner import models
from jaxner.data import audit, batching, corpora, schemes, vectors
from jaxner.data.splits import Split
from jaxner.data.vectors import Vectors
from jaxner.data.vocabulary import UNKNOWN, Vocabulary, build
from jaxner.errors import InputError
from jaxner.training import environment, inputs, loading
from jaxner.training.loading import READING as READING
from jaxner.training.loading import load_file as load_file
from jaxner.training.loading import load_split as load_split
from jaxner.training.loading import reading_of as reading_of
from jaxner.training.loading import training_words as training_words
from jaxner.types import Sentence, Weights, WordVectors
from jaxner.wording import counted


def splits_to_score(options: Mapping[str, Any], log: Callable[[str], object]):
    """Returns the splits to score at the end, without opening a file.

    Args:
        options: The section `data` of a config.
        log: Gets a line for the user if there is no test split.
    """
    try:
        corpora.find(options["dir"] or options["name"], "test")
        inputs.find(options, "test")
    except FileNotFoundError as error:
        log(f"No test split, so the run scores only dev at the end. {error}")
        return ("dev",)
    return ("dev", "test")


def read_vectors(path: Path, word_dim: int | None) -> Vectors:
    """Returns the vectors of a file, after checking their length.

    Args:
        path: The file.
        word_dim: Length of the model's word vectors; None if it has none.

    Raises:
        ValueError: The vectors have another length.
    """
    given = vectors.read(path)
    dim = given.values.shape[1]
    if word_dim is None:
        raise ValueError(
            f"The model has no words, so {path} is of no use: leave out "
            "--config.data.vectors, or choose a config whose representation has words"
        )
    if word_dim != dim:
        raise ValueError(
            f"{path} has vectors of {dim} dimensions, but the model expects "
            f"{word_dim}. Set --config.model.representation.words.dim={dim}."
        )
    return given


def describe_vectors(path: Path, given: Vectors) -> str:
    """Returns a line about the vectors, and a line for each note."""
    size, dim = given.values.shape
    line = f"{path.name}: {counted(size, 'vector')} of {counted(dim, 'dimension')}"
    if given.malformed or given.duplicates:
        line += f"; skipped {counted(given.malformed, 'malformed row')} and "
        line += counted(given.duplicates, "repeated word")
    return "\n  ".join([line, *given.notes])


def build_vocabulary(
    options: Mapping[str, Any], train: Split, given: Vectors | None
) -> tuple[Vocabulary, WordVectors | None]:
    """Returns the vocabulary of the training split and the word vectors.

    Args:
        options: `min_vector_match`, the share of the distinct training words that must
            have a vector; `unit`, "sentence" or "document"; and those of `build`:
            `scheme`, `lowercase`, `lowercase_fallback`, `zero_digits`, `unescape`,
            `min_count`, `train_words`, `alphabet`, `typed_unknowns`.
        train: The training split.
        given: Pretrained vectors.

    Raises:
        ValueError: The vectors match too few words, or the vocabulary would be empty.
    """
    if given is None and not options["train_words"]:
        raise ValueError(
            "Without pretrained or trained word vectors, every word is unknown: set "
            "--config.data.vectors or --config.data.train_words=True."
        )
    look_up = {name: options[name] for name in _LOOK_UP}
    look_up["min_count"] = _min_count(options)
    vocabulary, aligned = build(
        [example.tokens for example in train.examples],
        train.types(),
        scheme=options["scheme"],
        vectors=given,
        documents=options["unit"] == "document",
        **look_up,
    )
    floor = options["min_vector_match"]
    if aligned is not None and aligned.types_matched < floor:
        raise ValueError(
            f"{describe_match(aligned)}; expected at least {floor:.0%} of the words. "
            "Do the vectors have the same language, and does --config.data.lowercase "
            "suit them? --config.data.min_vector_match sets this minimum."
        )
    return vocabulary, aligned


def start_from(
    trained: tuple[Weights, Vocabulary],
    weights: Weights,
    vocabulary: Vocabulary,
    log: Callable[[str], object],
) -> Weights:
    """Returns weights copied from a trained run where names and shapes agree.

    Heads keep their drawn weights if the labels differ. The optimizer starts fresh; in
    the code of Strubell et al. (2017) it continues.

    Args:
        trained: Weights and vocabulary of that run.
        weights: Freshly drawn weights.
        vocabulary: Vocabulary of these weights.
        log: Gets a line for the user.

    Raises:
        ValueError: The trained run has other words or characters, or no weights agree.
    """
    source, old = trained
    known = ("words", "chars", "pieces")
    if any(getattr(old, name) != getattr(vocabulary, name) for name in known):
        raise ValueError(
            f"The run in --config.init_from has other words or characters ({old!r}) "
            f"than this run ({vocabulary!r}), so its weights do not fit. Train it on "
            "the same data, with the same vectors and look-up rules."
        )
    if old.label_names != vocabulary.label_names:
        params = {k: v for k, v in source["params"].items() if "head" not in k}
        source = {**source, "params": params}
    merged, kept = models.transfer(weights, source)
    drawn = [name for name in kept if name.startswith("params/")]
    if len(drawn) == len(jax.tree.leaves(weights["params"])):
        raise ValueError("No weights of the run in --config.init_from fit this model")
    log(f"Started from trained weights; freshly drawn: {', '.join(drawn) or 'none'}")
    return merged


def _min_count(options: Mapping[str, Any]) -> int:
    """Returns how often a word without a vector has to occur to be known."""
    alone = options.get("min_count_without_vectors")
    return options["min_count"] if options["vectors"] or alone is None else alone


def _few_words(
    options: Mapping[str, Any], train: Split, vocabulary: Vocabulary
) -> list[audit.Finding]:
    """Warns if few of the training words are known."""
    words = train.words()
    known = sum(vocabulary.word_id(word) != UNKNOWN for word in words)
    rule = f"{_min_count(options)}"
    if not options["vectors"] and options.get("min_count_without_vectors") is not None:
        rule += ", --config.data.min_count_without_vectors"
    return audit.vocabulary(len(words), known, rule, str(train.path))


def _warn(findings: Iterable[audit.Finding], log: Callable[[str], object]) -> None:
    for finding in findings:
        log(f"WARNING  {escape(str(finding))}")


_LOOK_UP = (
    *("lowercase", "lowercase_fallback", "zero_digits", "unescape"),
    *("min_count", "train_words", "alphabet", "typed_unknowns"),
)


def describe_match(aligned: WordVectors) -> str:
    """Returns a line on how many training words have a vector."""
    return (
        f"vectors: {aligned.types_matched:.1%} of the distinct training words and "
        f"{aligned.tokens_matched:.1%} of the tokens have a vector; "
        f"{len(aligned.frozen):,} known words occur only in the vector file"
    )


def log_unknown_tags(
    split: Split, vocabulary: Vocabulary, log: Callable[[str], object]
) -> None:
    """Logs tags of a split that do not occur in training (a table shows types)."""
    if vocabulary.scheme == schemes.TAGS:
        _log_unseen(split, vocabulary.label_names, "tags", log)


def _log_unseen(split: Split, known: Iterable[str], what: str, log) -> None:
    unseen = sorted(set(split.types()) - set(known))
    if unseen:
        name = split.split or split.name
        names = ", ".join(unseen)
        log(f"{name} has {what} that train lacks, which the tagger will miss: {names}")


def _check_types(train: Split, dev: Split, log: Callable[[str], object]) -> None:
    has_tags = train.scheme == schemes.TAGS
    if has_tags and len(train.types()) < 2:
        raise ValueError(
            f"{train.path} has only one tag, {train.types()[0]}. Is "
            "--config.data.label_column right?"
        )
    if not train.types():
        raise ValueError(
            f"{train.path} has no entities: all its labels are O. Is "
            "--config.data.label_column right?"
        )
    _log_unseen(dev, train.types(), "tags" if has_tags else "types", log)


def encode_split(
    split: Split, vocabulary: Vocabulary
) -> tuple[list[Sentence], list[np.ndarray]]:
    """Returns encoded sentences and labels, or documents if the vocabulary needs them.

    Raises:
        ValueError: The vocabulary needs documents, but the file does not mark them.
    """
    examples = split.to_scheme(vocabulary.scheme)
    vectors = split.vectors or [None] * len(examples)
    sentences = [
        vocabulary.encode(example.tokens, given)
        for example, given in zip(examples, vectors, strict=True)
    ]
    labels = [vocabulary.label_ids(example.labels or ()) for example in examples]
    if not vocabulary.reads_documents:
        return sentences, labels
    numbers = [example.document for example in examples]
    if not any(numbers):
        raise InputError(
            "does not mark where documents begin: no line -DOCSTART-. Put one before "
            "each document, or set --config.data.unit=sentence.",
            split.path,
        )
    separator = len(vocabulary.label_names) - 1
    return batching.joined(numbers, sentences, labels, separator)


@dataclasses.dataclass(frozen=True)
class Data:
    """The data of a run.

    Attributes:
        vocabulary: Vocabulary of the training split and the vectors.
        vectors: Vectors of the vocabulary's words, or None.
        sentences: The training split.
        labels: Label ids of each sentence.
        dev: The split that picks the best epoch.
        words: The distinct words of the training split.
        record: Versions, devices, and hashes of the files; see `environment.describe`.
    """

    vocabulary: Vocabulary
    vectors: WordVectors | None
    sentences: list[Sentence]
    labels: list[np.ndarray]
    dev: Split
    words: frozenset[str]
    record: dict[str, Any]


def load_data(
    options: Mapping[str, Any],
    *,
    word_dim: int | None,
    log: Callable[[str], object],
) -> Data:
    """Returns the data of a run; logs what it finds.

    Args:
        options: The section `data` of a config.
        word_dim: Length of the model's word vectors; None if it has none.
        log: Gets lines for the user.

    Raises:
        FileNotFoundError: A file is missing.
        ValueError: A file is malformed, or the vectors do not fit the model or the
            corpus.
    """
    train, dev = (load_split(options, name) for name in ("train", "dev"))
    log(f"{train.summary()}\n{dev.summary()}")
    _warn([*audit.at_start(train), *audit.at_start(dev)], log)
    _check_types(train, dev, log)
    path, given = None, None
    if options["vectors"]:
        path = corpora.find_vectors(options["vectors"])
        given = read_vectors(path, word_dim)
        log(describe_vectors(path, given))
    vocabulary, aligned = build_vocabulary(options, train, given)
    if aligned is not None:
        log(describe_match(aligned))
    _warn(_few_words(options, train, vocabulary), log)
    vocabulary = inputs.complete(vocabulary, options, train, log, dev)
    sentences, labels = encode_split(train, vocabulary)
    record = environment.describe([train, dev], path)
    record["data"] |= inputs.describe(options) | loading.describe(options, dev)
    return Data(vocabulary, aligned, sentences, labels, dev, train.words(), record)
