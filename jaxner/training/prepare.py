"""From the data options of a config to what a run trains on."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from jaxner.data import corpora, vectors, vocab
from jaxner.data.batching import Batches
from jaxner.data.splits import Split
from jaxner.data.vocab import Lexicon
from jaxner.types import WordVectors


def load_split(options: Mapping[str, Any], name: str) -> Split:
    """Loads one split of the configured corpus.

    Args:
        options: `name` of a known corpus, or `dir` of one of your own; `token_column`
            and `label_column`, or None.
        name: "train", "dev" or "test".
    """
    return corpora.load(
        None if options["dir"] else options["name"],
        name,
        directory=options["dir"],
        token_column=options["token_column"],
        label_column=options["label_column"],
    )


def build_lexicon(
    options: Mapping[str, Any], train: Split, word_dim: int | None
) -> tuple[Lexicon, WordVectors | None]:
    """Builds the lexicon from the training split and the configured vector file.

    Args:
        options: `vectors`, a file or None; `min_vector_match`, the share of the
            distinct training words that must have a vector; `scheme`, `lowercase` and
            `min_count` as in `vocab.build`.
        train: The training split.
        word_dim: Length of the model's word vectors; None if it has none.

    Raises:
        ValueError: The vectors have another length, or match too few words.
    """
    given = None
    if options["vectors"]:
        path = corpora.find_vectors(options["vectors"])
        given = vectors.read(path)
        dim = given.values.shape[1]
        if word_dim != dim:
            raise ValueError(
                f"{path} has vectors of {dim} dimensions, the model expects "
                f"{word_dim}. Set --config.model.representation.words.dim={dim}."
            )
    lexicon, aligned = vocab.build(
        [example.tokens for example in train.examples],
        train.types(),
        scheme=options["scheme"],
        vectors=given,
        lowercase=options["lowercase"],
        min_count=options["min_count"],
    )
    floor = options["min_vector_match"]
    if aligned is not None and aligned.types_matched < floor:
        raise ValueError(
            f"{describe_match(aligned)}; expected at least {floor:.0%} of the words. "
            "Are the vectors of the same language, and is --config.data.lowercase "
            "right for them? --config.data.min_vector_match sets the floor."
        )
    return lexicon, aligned


def describe_match(aligned: WordVectors) -> str:
    """Says how many training words have a vector."""
    return (
        f"vectors: {aligned.types_matched:.1%} of the distinct training words and "
        f"{aligned.tokens_matched:.1%} of the tokens have one; {len(aligned.frozen):,} "
        "words are known from the vectors alone"
    )


def make_batches(
    lexicon: Lexicon, train: Split, *, batch_size: int, num_shapes: int
) -> Batches:
    """Encodes the training split and pads it into batches."""
    examples = train.to_scheme(lexicon.scheme)
    return Batches.make(
        [lexicon.encode(example.tokens) for example in examples],
        [lexicon.label_ids(example.labels or ()) for example in examples],
        batch_size=batch_size,
        num_shapes=num_shapes,
    )
