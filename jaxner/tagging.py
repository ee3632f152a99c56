"""Tagging: from strings to the device and back.

`over` maps a function of one encoded sentence over tokens in any form, in
batches of `driver`. `tag`, `entities`, `marginals`, uncertainty and scoring use it.

Shape letters: `B` sentences, `T` tokens, `L` labels, `N` labellings, `M` passes.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Hashable, Sequence
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, PyTree

from jaxner import devices, driver, fields, inference, models
from jaxner.arguments import check_tagger
from jaxner.data import batching, schemes
from jaxner.data.corpora import Split
from jaxner.driver import check_key, over_batches
from jaxner.errors import InputError
from jaxner.fields import checked
from jaxner.tagger import Ensemble
from jaxner.tagger import Tagger as Tagger
from jaxner.tagger import load as load
from jaxner.types import AnyPotentials, Potentials, Sentence, Vectors, batch_axes

R = TypeVar("R")

DECODINGS = ("viterbi", "constrained", "independent", "max_marginal", "sampled")
"""Ways to choose labels; see `tag`."""

Decoding = Annotated[str, fields.OneOf(DECODINGS, "n best labellings: jaxner.n_best")]

if TYPE_CHECKING:
    Tokens = Sequence[str] | Sequence[Sequence[str]] | Split | Sentence
else:  # what callers give is checked by `driver`
    Tokens = Any
"""One sentence, several, a split, or what `encode` returned."""


def encode(tagger: Tagger, sentences: Tokens, *, vectors: Vectors = None) -> Sentence:
    """Returns encoded tokens, for `tag` inside your own transformations.

    Takes one sentence or several. Arguments and errors are those of `tag`.

    Returns:
        Arrays for one sentence, or a batch padded to its longest sentence with a
        leading batch axis on every field, so that a plain `jax.vmap` maps over it. A
        tagger of documents adds a separator before and after the sentence, so T is two
        more than the number of tokens.

    Example:
        >>> tagger = load("runs/grn")
        >>> encode(tagger, [["Rome", "is", "old"], ["Yes"]]).mask.tolist()
        [[True, True, True], [True, False, False]]
    """
    check_tagger(tagger)
    text = driver.text_of(tagger, sentences, vectors=vectors)
    if text.is_one:
        return jax.tree.map(jnp.asarray, text.rows[0])
    length = max((len(row.words) for row in text.rows), default=0)
    return jax.tree.map(jnp.asarray, batching.pad(text.rows, length))


def over(
    function: Callable[..., PyTree],
    tagger: Tagger,
    sentences: Tokens | Sequence[Sentence],
    key: Array | None = None,
    *,
    documents: Sequence[Hashable] | None = None,
    vectors: Vectors = None,
    passes: int = 0,
    **options: Hashable,
) -> PyTree:
    """Maps a function of one encoded sentence over tokens in any form.

    `function` maps `(tagger, sentence, key, **options)` to a tree of arrays `[T, …]`,
    options static; each new function compiles again. `passes`, per sentence in one
    call, reduce the batch size. Sentences may also be a list of what
    `Vocabulary.encode` returned.

    Returns a tree of NumPy arrays without padding, or a list of trees; JAX arrays
    `[T, …]` or `[B, T, …]` for what `encode` returned.
    """
    check_tagger(tagger)
    if key is not None:
        check_key(key)
    if isinstance(sentences, Sentence):
        if documents is not None or vectors is not None:
            raise TypeError(
                "documents and vectors need strings, but tokens are encoded sentences"
            )
        return _mapped(functools.partial(function, **options), tagger, sentences, key)
    static = {
        "function": function,
        "options": tuple(options.items()),
        "platform": devices.platform_of(tagger.weights),
    }
    return over_batches(
        functools.partial(_program(), tagger, key=key, **static),
        tagger,
        sentences,
        documents=documents,
        vectors=vectors,
        passes=passes,
    )


def _mapped(
    function: Callable[..., R], tagger: Tagger, arrays: Sentence, key: Array | None
) -> R:
    """Applies a function of one sentence to encoded arrays, `[T]` or `[B, T]`."""
    rank = np.ndim(arrays.words)
    if rank not in (1, 2):
        raise TypeError(
            f"Expected encoded words of shape [T] or [B, T], got {rank} axes. Map over "
            "further axes with jax.vmap."
        )

    operands = tagger, jax.tree.map(jnp.asarray, arrays), key
    compute = models.automatic(function, operands)
    axes = None, batch_axes(arrays), None
    return (compute if rank == 1 else jax.vmap(compute, axes))(*operands)


def _batch(tagger, batch, key, *, function, options, platform):
    axes = None, batch_axes(batch), None
    compute = jax.vmap(functools.partial(function, **dict(options)), axes)
    operands = tagger, batch, key  # the sentences share words
    with devices.targeting(platform):
        return models.automatic(compute, operands)(*operands)


@functools.cache
def _program() -> Callable[..., PyTree]:
    options = devices.compiler_options()
    static = "function", "options", "platform"
    return jax.jit(_batch, static_argnames=static, compiler_options=options)


# Labels.


@checked
def tag(
    tagger: Tagger,
    tokens: Tokens,
    *,
    decoding: Decoding = "viterbi",
    constrained: bool = False,
    documents: Sequence[Hashable] | None = None,
    key: Array | None = None,
    vectors: Vectors = None,
) -> Any:
    """Returns the labels of tokens.

    Strings go through the model in batches of similar length, padded to few shapes. No
    sentence is truncated, and neither padding nor batch changes a label. With encoded
    arrays, the call works inside your own `jit`, `vmap` or `shard_map`; there, bind
    `decoding` and `constrained` with `functools.partial`.

    Args:
        tagger: What `load` returned.
        tokens: One sentence as a list of strings, a list of such lists, a `Split`, or
            what `encode` returned. For raw texts, see `entities`.
        decoding: How labels are chosen: "viterbi" (the most probable labelling),
            "constrained" (the most probable well-formed one), "independent" (without
            transitions), "max_marginal" (each token's most probable label) or "sampled"
            (drawn with its probability).
        constrained: Exclude ill-formed labellings (tags have none), in any decoding.
        documents: Document of each sentence, for a tagger of documents; by default,
            each sentence is a document.
        key: Draws the labels for "sampled", which needs a key, and the masks of dropout
            passes (None: with a key from the config, the same in every call).
        vectors: For a tagger with precomputed vectors: an array [T, D] or, with S
            layers, [S, T, D], for each sentence.

    Returns:
        A list of label strings, a list of such lists, or label ids of the shape of
        `tokens.words`, 0 under padding.

    Raises:
        TypeError: `tokens` is something else, or encoded with documents or vectors.
        InputError: A token has white space inside; the decoding is unknown, or needs a
            key or a head with label probabilities; or documents or vectors do not fit.

    Example:
        >>> tagger = load("runs/grn")
        >>> labels = tag(tagger, [["Rome", "is", "old"], []])
        >>> [len(sentence) for sentence in labels]
        [3, 0]
        >>> ids = jax.jit(tag)(tagger, encode(tagger, ["Rome", "is", "old"]))
        >>> tagger.vocabulary.decode(ids.tolist()) == labels[0]
        True
    """
    check_tagger(tagger)
    check_draws(decoding, key)
    ids = over(
        choose,
        tagger,
        tokens,
        key,
        documents=documents,
        vectors=vectors,
        passes=tagger.model.mc_dropout.num_samples,
        decoding=decoding,
        constrained=constrained,
    )
    is_encoded = isinstance(tokens, Sentence)
    return ids if is_encoded else driver.of_every(tagger.vocabulary.decode, ids)


def label_split(
    tagger: Tagger, split: Split, **options: Any
) -> tuple[list[Sequence[str]], list[list[str]]]:
    """Returns gold labels of a split, and those of `tag`, in the tagger's scheme."""
    examples = split.to_scheme(tagger.vocabulary.scheme)
    return [e.labels for e in examples], tag(tagger, split, **options)


def check_draws(decoding: Decoding, key: Array | None) -> None:
    """Raises InputError if a decoding draws without a key."""
    if decoding == "sampled" and key is None:
        raise InputError(
            "Decoding 'sampled' draws labels: give a key, such as jax.random.key(0)"
        )


class Predictive(NamedTuple):
    """The distribution over the labellings of a sentence.

    `potentials` choose the labels. With several passes, emissions `[M, T, L]`, their
    probabilities are averaged; else `potentials` give the probabilities.
    """

    potentials: AnyPotentials
    passes: Potentials | None = None

    def mean(self, compute: Callable[[AnyPotentials], R]) -> R:
        """Returns the mean over the passes of what `compute` returns."""
        if self.passes is None:
            return compute(self.potentials)
        return inference.mean_over_passes(compute, self.passes)

    def map(self, change: Callable[[PyTree], PyTree]) -> Predictive:
        """Returns a distribution with all potentials changed."""
        passes = self.passes and inference.each_pass(change, self.passes)
        return Predictive(change(self.potentials), passes)


def predict(
    tagger: Tagger,
    sentence: Sentence,
    key: Array | None = None,
    num_samples: int | None = None,
    *,
    constrained: bool = False,
) -> Predictive:
    """Computes the distribution over the labellings of one sentence; see `entities`.

    A refinement has one distribution: it ignores `num_samples`. For an ensemble, it is
    the mean over the members, and the logarithms of the mean marginals choose labels: a
    mean of scores would give more weight to members with larger scores.
    """
    model, weights = tagger.model, tagger.weights
    if isinstance(tagger, Ensemble):
        predictive = _of_members(tagger, sentence, key)
    else:
        predictive = Predictive(models.predict(model, weights, sentence, key))
        count = model.mc_dropout.num_samples if num_samples is None else num_samples
        if count and model.refinement is None:
            passes = models.passes(model, weights, sentence, key, count)
            predictive = predictive._replace(passes=passes)
        if isinstance(predictive.potentials, Potentials):
            predictive = predictive.map(
                lambda p: inference.at_temperature(p, tagger.temperature)
            )
    if constrained or _has_rules(tagger):
        predictive = predictive.map(lambda p: constrain(tagger, p))
    return predictive


def _has_rules(tagger: Tagger) -> bool:
    """Returns whether the head, and what its scores are used for, is constrained."""
    return getattr(tagger.model.head, "constrained", False)


def _of_members(tagger: Ensemble, sentence: Sentence, key: Array | None) -> Predictive:
    def member(weights, temperature):
        potentials = models.predict(tagger.model, weights, sentence, key)
        return inference.at_temperature(potentials, temperature)

    degrees = jnp.asarray(tagger.temperature, jnp.float32)
    degrees = jnp.broadcast_to(degrees, (len(tagger),))
    passes = jax.vmap(member)(tagger.weights, degrees)
    mean = Predictive(passes, passes).mean(
        lambda p: inference.marginals(p, sentence.mask)
    )
    return Predictive(Potentials(inference.logs(mean)), passes)


def constrain(tagger: Tagger, potentials: AnyPotentials) -> AnyPotentials:
    """Forbids labellings that are ill-formed; separators count as outside all spans."""
    vocabulary = tagger.vocabulary
    grammar = schemes.allowed(vocabulary.span_labels, vocabulary.scheme)
    rules = inference.Constraints(*map(jnp.asarray, grammar))
    return inference.constrain(potentials, rules)


def choose(
    tagger: Tagger,
    sentence: Sentence,
    key: Array | None = None,
    *,
    decoding: Decoding = "viterbi",
    constrained: bool = False,
) -> Int[Array, " T"]:
    """Returns the label ids of one sentence, 0 under padding; `over` maps it."""
    constrained = constrained or decoding == "constrained"
    # Passes change the other labels only in an ensemble.
    count = None if decoding in ("max_marginal", "sampled") else 0
    predictive = predict(tagger, sentence, key, count, constrained=constrained)
    return labels_of(tagger, predictive, sentence, key, decoding, constrained)


def labels_of(
    tagger: Tagger,
    predictive: Predictive,
    sentence: Sentence,
    key: Array | None,
    decoding: Decoding,
    constrained: bool,
) -> Int[Array, " T"]:
    """Returns label ids chosen from a distribution that `predict` returned.

    A drawn labelling depends on the key and the words, not on the batch or padding;
    with several passes, a pass is drawn first.
    """
    mask, potentials = sentence.mask, predictive.potentials
    if decoding == "sampled":
        # `key` itself has drawn the masks of passes and of a refinement's draft.
        assert key is not None
        draw = models.sentence_key(jax.random.split(key)[1], sentence)
        if predictive.passes is not None:
            first, draw = jax.random.split(draw)
            number = jax.random.randint(first, (), 0, len(predictive.passes.emissions))
            potentials = inference.one_pass(predictive.passes, number)
        return inference.sample(potentials, mask, draw)
    if decoding in ("viterbi", "constrained"):
        return inference.viterbi(potentials, mask)
    if decoding == "max_marginal":
        potentials = Potentials(predictive.mean(lambda p: inference.marginals(p, mask)))
    elif isinstance(potentials, Potentials):
        potentials = Potentials(potentials.emissions)
    else:
        raise InputError(
            "Each label of an autoregressive head (head 'seq2seq') depends on all "
            "before it: there are no independent labels. Take another decoding."
        )
    # The best label of each token alone may not fit its neighbours.
    if constrained or _has_rules(tagger):
        potentials = constrain(tagger, potentials)
    return inference.viterbi(potentials, mask)


def best_labellings(
    tagger: Tagger, predictive: Predictive, sentence: Sentence, n: int
) -> tuple[Int[Array, "N T"], Float[Array, " N"], Bool[Array, " N"]]:
    """Returns the n best labellings, how probable they are, and whether they exist.

    The most probable come first. With several passes, `potentials` choose the
    labellings, and their mean probability orders them. For an ensemble, they are the
    most probable on average among the n best of each member.
    """
    mask = sentence.mask
    if isinstance(tagger, Ensemble):
        assert predictive.passes is not None
        results = inference.each_pass(
            lambda p: inference.n_best(p, mask, n), predictive.passes
        )
        labels = results[0].reshape(-1, mask.shape[0])
        equal = jnp.all(labels[:, None] == labels[None], axis=-1)
        is_first = ~jnp.any(jnp.tril(equal, -1), axis=1)
        exists = jnp.isfinite(results[1].reshape(-1)) & is_first
    else:
        labels, scores = inference.n_best(predictive.potentials, mask, n)
        exists = jnp.isfinite(scores)

    def chances_of(potentials):
        of_each = jax.vmap(inference.log_probability, (None, 0, None))
        return jnp.exp(of_each(potentials, labels, mask))

    chances = jnp.where(exists, predictive.mean(chances_of), 0.0)
    if predictive.passes is None:
        return labels, chances, exists
    order = jnp.argsort(jnp.where(exists, -chances, 1.0))[:n]
    return labels[order], chances[order], exists[order]
