"""Tagging: where strings meet arrays.

Shape letters: `B` sentences, `T` tokens, `C` characters.
"""

from __future__ import annotations

import dataclasses
import functools
import os
from collections.abc import Sequence
from typing import Any, overload

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from jaxner import inference, models
from jaxner.data import batching, schemes
from jaxner.data.splits import Split
from jaxner.data.vocab import Lexicon
from jaxner.types import Sentence, Weights
from jaxner.workdir import Workdir

# Sentences are tagged in batches of at most so many positions (or one by one), so that
# memory stays bounded whatever the corpus.
_BATCH_TOKENS = 1 << 12
_BATCH_CHARS = 1 << 17


@functools.partial(
    jax.tree_util.register_dataclass,
    data_fields=["weights"],
    meta_fields=["model", "lexicon"],
)
@dataclasses.dataclass(frozen=True)
class Params:
    """A trained tagger: one pytree, whose leaves are the weights.

    Model and lexicon are static and hashable, so `Params` passes through `jax.jit`,
    `jax.device_put` and `jax.tree.map`.

    Attributes:
        weights: Arrays.
        model: Computes potentials from them.
        lexicon: Turns tokens into ids, and ids into labels.
    """

    weights: Weights
    model: models.Tagger
    lexicon: Lexicon

    def __repr__(self) -> str:
        count = sum(np.size(leaf) for leaf in jax.tree.leaves(self.weights))
        return f"Params({count:,} weights, {self.lexicon!r})"


def build_model(lexicon: Lexicon, options: dict[str, Any]) -> models.Tagger:
    """Builds a model whose sizes are those of a lexicon.

    Args:
        lexicon: Gives the sizes.
        options: `representation`, `encoder` and `head`, as in `models.build`.
    """
    return models.build(
        num_labels=len(lexicon.label_names),
        num_trained_words=lexicon.num_trained,
        num_frozen_words=len(lexicon.words) - lexicon.num_trained,
        num_chars=len(lexicon.chars),
        **options,
    )


def load(workdir: str | os.PathLike[str]) -> Params:
    """Loads the best checkpoint of a run.

    Args:
        workdir: The folder that `train.py` wrote.

    Returns:
        The tagger, on the default device.

    Raises:
        FileNotFoundError: The folder holds no run, or no checkpoint yet.

    Example:
        >>> params = load("runs/grn")
        >>> len(tag(params, ["Rome", "is", "old"]))
        3
    """
    folder = Workdir(workdir)
    config, lexicon = folder.read_json("config.json"), folder.lexicon()
    model = build_model(lexicon, config["model"])
    like = jax.eval_shape(functools.partial(models.init, model, 0))
    with folder.best(read_only=True) as best:
        params, _ = best.restore(like["params"])
    weights = {"params": params, "frozen": folder.load_frozen(like["frozen"])}
    return Params(weights, model, lexicon)


def encode(
    params: Params, sentences: Sequence[str] | Sequence[Sequence[str]]
) -> Sentence:
    """Encodes tokens for `tag` under a transformation of the caller's.

    Args:
        params: What `load` returned.
        sentences: One sentence (a list of strings) or several.

    Returns:
        Arrays for one sentence ([T], [T, C], [T]), or a batch padded to its longest
        sentence ([B, T], [B, T, C], [B, T]).

    Raises:
        TypeError: The argument is neither.

    Example:
        >>> params = load("runs/grn")
        >>> encode(params, [["Rome", "is", "old"], ["Yes"]]).mask.tolist()
        [[True, True, True], [True, False, False]]
    """
    if _is_one_sentence(sentences):
        one: Any = list(sentences)
        return jax.tree.map(jnp.asarray, params.lexicon.encode(one))
    encoded = [params.lexicon.encode(list(tokens)) for tokens in sentences]
    width = max((s.chars.shape[1] for s in encoded), default=1)
    length = max((len(s.words) for s in encoded), default=0)
    batch = batching.pad(encoded, batching.Shape(length, width))
    return jax.tree.map(jnp.asarray, batch)


@overload
def tag(
    params: Params, tokens: Sentence, *, constrained: bool = ...
) -> Int[Array, ...]: ...
@overload
def tag(
    params: Params, tokens: Sequence[str], *, constrained: bool = ...
) -> list[str]: ...
@overload
def tag(
    params: Params, tokens: Sequence[Sequence[str]], *, constrained: bool = ...
) -> list[list[str]]: ...
def tag(params: Params, tokens: Any, *, constrained: bool = False) -> Any:
    """Labels tokens.

    Strings are labelled in batches of similar length, each padded to one of few shapes;
    nothing is truncated, and neither the padding nor the batch changes a label. Arrays
    are labelled as they are, so the call can stand inside the caller's `jit`, `vmap` or
    `shard_map`.

    Args:
        params: What `load` returned.
        tokens: One sentence as a list of strings, a list of such lists, or what
            `encode` returned for either.
        constrained: Whether labellings that are ill-formed in the label scheme are
            ruled out. A Python bool: under `jit`, bind it with `functools.partial`.

    Returns:
        A list of label strings, a list of such lists, or label ids of the shape of
        `tokens.words`, 0 under padding.

    Raises:
        TypeError: `tokens` is none of these.

    Example:
        >>> params = load("runs/grn")
        >>> labels = tag(params, [["Rome", "is", "old"], []])
        >>> [len(sentence) for sentence in labels]
        [3, 0]
        >>> ids = jax.jit(tag)(params, encode(params, ["Rome", "is", "old"]))
        >>> params.lexicon.decode(ids.tolist()) == labels[0]
        True
    """
    if isinstance(tokens, Sentence):
        rank = np.ndim(tokens.words)
        if rank not in (1, 2):
            raise TypeError(
                f"Expected encoded words of shape [T] or [B, T], got {rank} axes. Map "
                "over further axes with jax.vmap."
            )
        one = functools.partial(_label_ids, params, constrained=constrained)
        arrays = jax.tree.map(jnp.asarray, tokens)
        return one(arrays) if rank == 1 else jax.vmap(one)(arrays)
    single = _is_one_sentence(tokens)
    chosen = [tokens] if single else tokens
    encoded = [params.lexicon.encode(list(sentence)) for sentence in chosen]
    ids = label_ids(params, encoded, constrained=constrained)
    labels = [params.lexicon.decode(sentence.tolist()) for sentence in ids]
    return labels[0] if single else labels


def label_split(
    params: Params, split: Split, *, constrained: bool = False
) -> tuple[Sequence[Sequence[str]], Sequence[list[str]]]:
    """Labels the sentences of a split.

    Args:
        params: What `load` returned.
        split: Sentences with gold labels, in any scheme.
        constrained: As in `tag`.

    Returns:
        The gold and the predicted labels of each sentence, in the tagger's scheme.

    Example:
        >>> from jaxner.data import corpora
        >>> dev = corpora.load("sample", "dev")
        >>> gold, predicted = label_split(load("runs/grn"), dev)
        >>> [len(labels) for labels in gold] == [len(labels) for labels in predicted]
        True
    """
    examples = split.to_scheme(params.lexicon.scheme)
    tokens = [example.tokens for example in examples]
    gold = [example.labels or () for example in examples]
    return gold, tag(params, tokens, constrained=constrained)


def relations(params: Params, tokens: Sequence[str]) -> Float[np.ndarray, "T T"]:
    """Computes how strongly each token relates to each other one.

    Args:
        params: A tagger whose encoder is a GRN with a relation layer.
        tokens: One sentence.

    Returns:
        For token i (row) and j, the strength in [0, 1] of j's part in the features of
        i; see `models.relation_scores`.

    Raises:
        ValueError: The encoder has no relation layer.

    Example:
        >>> relations(load("runs/grn"), ["Rome", "is", "old"]).shape
        (3, 3)

    References:
        Chen et al. (2019), Figure 4.
    """
    if not len(tokens):
        return np.zeros((0, 0), np.float32)
    if not _is_one_sentence(tokens):
        raise TypeError("Expected one sentence, a list of strings, got several.")
    sentence = params.lexicon.encode(tokens)
    padded = batching.pad([sentence], _shape_for(*sentence.chars.shape))
    scores = _relations(params, jax.tree.map(lambda array: array[0], padded))
    if scores is None:
        raise ValueError(
            "This tagger has no relation layer: it needs the encoder 'grn' with a "
            "relation other than 'none'."
        )
    return np.asarray(scores)[: len(tokens), : len(tokens)]


@jax.jit
def _relations(params: Params, sentence: Sentence):
    _, out = models.apply_with_intermediates(params.model, params.weights, sentence)
    if "relation_from" not in out:
        return None
    return models.relation_scores(out, sentence.mask)


def label_ids(
    params: Params, sentences: Sequence[Sentence], *, constrained: bool = False
) -> list[Int[np.ndarray, " T"]]:
    """Labels encoded sentences of any lengths; answers in the order of the input.

    Args:
        params: What `load` returned.
        sentences: Without padding, as `Lexicon.encode` returns them.
        constrained: As in `tag`.
    """
    groups: dict[batching.Shape, list[int]] = {}
    for i, sentence in enumerate(sentences):
        groups.setdefault(_shape_for(*sentence.chars.shape), []).append(i)
    pending: list[tuple[list[int], Any]] = []
    for shape, members in groups.items():
        size = min(_largest_batch(shape), _next_power(len(members)))
        for start in range(0, len(members), size):
            chunk = members[start : start + size]
            batch = batching.pad([sentences[i] for i in chunk], shape, size)
            pending.append((chunk, _decode(params, batch, constrained=constrained)))
    ids: list[Any] = [None] * len(sentences)
    for chunk, decoded in pending:  # all are under way before the first is awaited
        for i, row in zip(chunk, np.asarray(decoded), strict=False):
            ids[i] = row[: len(sentences[i].words)]
    return ids


@functools.partial(jax.jit, static_argnames="constrained")
def _decode(params: Params, batch: Sentence, *, constrained: bool):
    one = functools.partial(_label_ids, params, constrained=constrained)
    return jax.vmap(one)(batch)


def _label_ids(params: Params, sentence: Sentence, *, constrained: bool):
    potentials = models.apply(params.model, params.weights, sentence)
    if constrained:
        lexicon = params.lexicon
        allowed = schemes.allowed(lexicon.label_names, lexicon.scheme)
        constraints = inference.Constraints(*map(jnp.asarray, allowed))
        potentials = inference.constrain(potentials, constraints)
    return inference.viterbi(potentials, sentence.mask)


def _largest_batch(shape: batching.Shape) -> int:
    tokens, chars = shape
    return max(1, min(_BATCH_TOKENS // tokens, _BATCH_CHARS // (tokens * chars)))


def _shape_for(length: int, width: int) -> batching.Shape:
    """Rounds up to powers of two, so that lengths share compiled programs."""
    return batching.Shape(max(8, _next_power(length)), max(16, _next_power(width)))


def _next_power(count: int) -> int:
    return 1 << max(count - 1, 0).bit_length()


def _is_one_sentence(tokens: Any) -> bool:
    """Tells a list of strings from a list of lists; anything else is an error."""
    wanted = (
        "Expected a list of strings (one sentence), a list of such lists, or what "
        "jaxner.encode returned; got "
    )
    if isinstance(tokens, str):
        raise TypeError(
            f"{wanted}the string {tokens[:40]!r}. Split it into tokens first."
        )
    if not isinstance(tokens, (list, tuple, np.ndarray)):
        raise TypeError(f"{wanted}{type(tokens).__name__}.")
    if isinstance(tokens, np.ndarray) and tokens.dtype.kind not in "UO":
        raise TypeError(f"{wanted}an array of {tokens.dtype}.")
    if all(isinstance(token, str) for token in tokens) and len(tokens):
        return True
    for i, sentence in enumerate(tokens):
        if isinstance(sentence, str) or not isinstance(
            sentence, (list, tuple, np.ndarray)
        ):
            raise TypeError(
                f"{wanted}a list whose item {i} is {type(sentence).__name__}."
            )
        for j, token in enumerate(sentence):
            if not isinstance(token, str):
                raise TypeError(
                    f"{wanted}{type(token).__name__} as token {j} of sentence {i}."
                )
    return False
