"""Tagging: from strings to labels.

Shape letters: `B` sentences, `T` tokens, `C` characters.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any, overload

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Int

from jaxner import batched
from jaxner.arguments import check_tagger, shown
from jaxner.checked import checked
from jaxner.data import documents as joining
from jaxner.data import padding, shapes
from jaxner.data.sentences import check_one
from jaxner.data.sentences import is_one_sentence as is_one_sentence
from jaxner.data.splits import Split
from jaxner.decoding import Decoding, choose
from jaxner.models import check_key
from jaxner.tagger import Tagger as Tagger
from jaxner.tagger import build_model as build_model
from jaxner.tagger import load as load
from jaxner.types import Sentence, batch_axes


def encode(
    params: Tagger,
    sentences: Sequence[str] | Sequence[Sequence[str]],
    *,
    vectors: Any = None,
) -> Sentence:
    """Returns encoded tokens, for `tag` inside your own transformations.

    Args:
        params: What `load` returned.
        sentences: One sentence (a list of strings) or several.
        vectors: As in `tag`.

    Returns:
        Arrays for one sentence, or a batch padded to its longest sentence with a
        leading batch axis on every field, so that a plain `jax.vmap` maps over it. A
        tagger of documents adds a separator before and after the sentence, so T is two
        more than the number of tokens.

    Raises:
        TypeError: `sentences` has another type.
        ValueError: Vectors are missing, unexpected, or of another size.

    Example:
        >>> params = load("runs/grn")
        >>> encode(params, [["Rome", "is", "old"], ["Yes"]]).mask.tolist()
        [[True, True, True], [True, False, False]]
    """
    check_tagger(params)
    is_one = is_one_sentence(sentences)
    encoded = encode_each(params, sentences, vectors)
    if params.vocabulary.reads_documents:
        encoded = [joining.join([sentence]) for sentence in encoded]
    if is_one:
        return jax.tree.map(jnp.asarray, encoded[0])
    length = max((len(s.words) for s in encoded), default=0)
    return jax.tree.map(jnp.asarray, padding.stack(encoded, length))


def encode_each(params: Tagger, sentences: Any, vectors: Any = None) -> list[Sentence]:
    """Returns each sentence encoded separately, without padding.

    Args:
        params: What `load` returned.
        sentences: As for `encode`.
        vectors: As in `tag`.

    Raises:
        TypeError, ValueError: As for `encode`.
    """
    check_tagger(params)
    if is_one_sentence(sentences):
        sentences, vectors = [sentences], None if vectors is None else [vectors]
    given = [None] * len(sentences) if vectors is None else vectors
    if not hasattr(given, "__len__") or isinstance(given, (str, bytes, Mapping)):
        raise TypeError(
            "Expected vectors as an array for one sentence, or a list of arrays for "
            f"several, got {shown(given)}."
        )
    if len(given) != len(sentences):
        raise ValueError(
            f"Expected one array of vectors per sentence, {len(sentences)}, got "
            f"{len(given)}."
        )
    return [
        params.vocabulary.encode(list(tokens), own)
        for tokens, own in zip(sentences, given, strict=True)
    ]


def encode_one(params: Tagger, tokens: Sequence[str], vectors: Any = None) -> Sentence:
    """Returns one encoded sentence, padded to one of few shapes, without separators.

    Raises:
        TypeError: `tokens` is not one sentence.
    """
    check_tagger(params)
    check_one(tokens)
    sentence = params.vocabulary.encode(tokens, vectors)
    length, width = batched.round_up(len(tokens), sentence.chars.shape[1])
    shape = shapes.Shape(length, length + 1, width)
    padded = padding.pad([sentence], shape)
    alone = jax.tree.map(lambda array: array[0], padded._replace(chars=None))
    return alone._replace(chars=padded.chars)


@overload
def tag(
    params: Tagger,
    tokens: Sentence,
    *,
    decoding: Decoding = ...,
    constrained: bool = ...,
    key: Array | None = ...,
) -> Int[Array, ...]: ...
@overload
def tag(
    params: Tagger,
    tokens: Sequence[str],
    *,
    decoding: Decoding = ...,
    constrained: bool = ...,
    key: Array | None = ...,
    vectors: Any = ...,
) -> list[str]: ...
@overload
def tag(
    params: Tagger,
    tokens: Sequence[Sequence[str]],
    *,
    decoding: Decoding = ...,
    constrained: bool = ...,
    documents: Sequence[Hashable] | None = ...,
    key: Array | None = ...,
    vectors: Any = ...,
) -> list[list[str]]: ...
@checked
def tag(
    params: Tagger,
    tokens: Any,
    *,
    decoding: Decoding = "viterbi",
    constrained: bool = False,
    documents: Sequence[Hashable] | None = None,
    key: Array | None = None,
    vectors: Any = None,
) -> Any:
    """Returns the labels of tokens.

    Strings go through the model in batches of similar length, padded to few shapes. No
    sentence is truncated, and neither padding nor batch changes a label. With encoded
    arrays, the call works inside your own `jit`, `vmap` or `shard_map`.

    Args:
        params: What `load` returned.
        tokens: One sentence as a list of strings, a list of such lists, or what
            `encode` returned for either.
        decoding: How labels are chosen: "viterbi" (the most probable labelling),
            "constrained" (the most probable well-formed one), "independent" (without
            transitions), "max_marginal" (each token's most probable label) or
            "sampled" (drawn with its probability). Under `jit`, bind it with
            `functools.partial`.
        constrained: Whether to exclude ill-formed labellings (tags have none), in any
            decoding. A Python bool, to be bound like `decoding`.
        documents: Document of each sentence, for a tagger of documents; by default,
            each sentence is a document.
        key: Draws the dropout masks, for a tagger with dropout passes; None for a key
            from its config, the same in every call. Also draws for "sampled", which
            needs a key.
        vectors: For a tagger with precomputed vectors: an array [T, D] or, with S
            layers, [S, T, D], for each sentence.

    Returns:
        A list of label strings, a list of such lists, or label ids of the shape of
        `tokens.words`, 0 under padding.

    Raises:
        TypeError: `tokens` has another type, or `documents` or `vectors` come with
            encoded sentences.
        ValueError: The decoding is unknown, or needs a key or a head with label
            probabilities; or the number of documents or vectors is wrong; or vectors
            are missing, unexpected, or of another size.

    Example:
        >>> params = load("runs/grn")
        >>> labels = tag(params, [["Rome", "is", "old"], []])
        >>> [len(sentence) for sentence in labels]
        [3, 0]
        >>> ids = jax.jit(tag)(params, encode(params, ["Rome", "is", "old"]))
        >>> params.vocabulary.decode(ids.tolist()) == labels[0]
        True
    """
    check_tagger(params)
    if key is not None:
        check_key(key)
    if isinstance(tokens, Sentence):
        if documents is not None:
            raise TypeError("documents needs strings, but tokens are encoded sentences")
        if vectors is not None:
            raise TypeError(
                "vectors needs strings; encoded sentences contain their vectors, see "
                "`encode`"
            )
        rank = np.ndim(tokens.words)
        if rank not in (1, 2):
            raise TypeError(
                f"Expected encoded words of shape [T] or [B, T], got {rank} axes. Map "
                "over further axes with jax.vmap."
            )
        one = functools.partial(
            choose, params, key=key, decoding=decoding, constrained=constrained
        )
        arrays = jax.tree.map(jnp.asarray, tokens)
        return one(arrays) if rank == 1 else _map(one, arrays)
    encoded = encode_each(params, tokens, vectors)
    ids = label_ids(
        params,
        encoded,
        decoding=decoding,
        constrained=constrained,
        documents=documents,
        key=key,
    )
    labels = [params.vocabulary.decode(sentence.tolist()) for sentence in ids]
    return labels[0] if is_one_sentence(tokens) else labels


def label_split(
    params: Tagger,
    split: Split,
    *,
    decoding: Decoding = "viterbi",
    constrained: bool = False,
    key: Array | None = None,
) -> tuple[Sequence[Sequence[str]], Sequence[list[str]]]:
    """Returns the gold and the predicted labels of a split.

    Args:
        params: What `load` returned.
        split: Sentences with gold labels, in any scheme.
        decoding: As in `tag`.
        constrained: As in `tag`.
        key: As in `tag`.

    Returns:
        The gold and the predicted labels of each sentence, in the tagger's scheme.

    Example:
        >>> from jaxner.data import corpora
        >>> dev = corpora.load("sample", "dev")
        >>> gold, predicted = label_split(load("runs/grn"), dev)
        >>> [len(labels) for labels in gold] == [len(labels) for labels in predicted]
        True
    """
    gold = [e.labels or () for e in split.to_scheme(params.vocabulary.scheme)]

    def decode(batch):
        return _decode(params, batch, key, decoding=decoding, constrained=constrained)

    ids = over_split(params, split, decode, params.model.mc_dropout.num_samples)
    return gold, [params.vocabulary.decode(sentence.tolist()) for sentence in ids]


def over_split(
    params: Tagger, split: Split, compute: Callable[[Sentence], Any], passes: int = 0
) -> list[Any]:
    """Returns the results of a function for each sentence of a split.

    Args:
        params: What `load` returned.
        split: Sentences, with documents and vectors if any.
        compute: Maps a batch to a tree of arrays `[B, T, …]`.
        passes: Number of passes with dropout; 0 for one pass without dropout.
    """
    sentences = encode_each(params, [e.tokens for e in split.examples], split.vectors)
    # If the file does not mark documents, each sentence is a document.
    numbers = [example.document for example in split.examples]
    documents = numbers if any(numbers) else None
    return batched.over_documents(params, compute, sentences, documents, passes)


def label_ids(
    params: Tagger,
    sentences: Sequence[Sentence],
    *,
    decoding: Decoding = "viterbi",
    constrained: bool = False,
    documents: Sequence[Hashable] | None = None,
    key: Array | None = None,
) -> list[Int[np.ndarray, " T"]]:
    """Returns the label ids of encoded sentences, in the order of the input.

    Args:
        params: What `load` returned.
        sentences: Without padding, as `Vocabulary.encode` returns them.
        decoding: As in `tag`.
        constrained: As in `tag`.
        documents: As in `tag`.
        key: As in `tag`.
    """

    def decode(batch):
        return _decode(params, batch, key, decoding=decoding, constrained=constrained)

    passes = params.model.mc_dropout.num_samples
    return batched.over_documents(params, decode, sentences, documents, passes)


@functools.partial(jax.jit, static_argnames=("decoding", "constrained"))
def _decode(params: Tagger, batch: Sentence, key, **choice):
    return _map(functools.partial(choose, params, key=key, **choice), batch)


def _map(one: Callable[[Sentence], Any], batch: Sentence) -> Any:
    return jax.vmap(one, in_axes=(batch_axes(batch),))(batch)
