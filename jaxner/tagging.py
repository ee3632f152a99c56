"""Tagging: from strings to the device and back.

`over` maps a function of one encoded sentence over tokens in any form: it checks and
encodes them, sorts them by length, pads batches to few shapes, computes each batch with
its distinct words read once, and returns one result per sentence, without padding.
`tag`, `entities`, `marginals`, uncertainty and scoring all use it.

Shape letters: `B` sentences, `T` tokens, `L` labels, `N` labellings, `M` passes.
"""

from __future__ import annotations

import bisect
import collections
import functools
import re
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from jaxner import devices, fields, inference, models
from jaxner.arguments import check_documents, check_tagger, shown
from jaxner.data import batching, schemes
from jaxner.data.batching import Shape
from jaxner.data.corpora import Split
from jaxner.data.vocabulary import SEPARATOR, Vocabulary, is_one_sentence
from jaxner.errors import InputError
from jaxner.fields import checked
from jaxner.models import check_key
from jaxner.tagger import Ensemble
from jaxner.tagger import Tagger as Tagger
from jaxner.tagger import build as build
from jaxner.tagger import load as load
from jaxner.types import AnyPotentials, Potentials, Sentence, batch_axes

DECODINGS = ("viterbi", "constrained", "independent", "max_marginal", "sampled")
"""Ways to choose labels; see `tag`."""

Decoding = Annotated[str, fields.OneOf(DECODINGS, "n best labellings: jaxner.n_best")]

if TYPE_CHECKING:
    Tokens = Sequence[str] | Sequence[Sequence[str]] | Split | Sentence
else:  # what callers give is checked by `sentences_of`
    Tokens = Any
"""One sentence, several, a split, or what `encode` returned."""

# Maximum positions and characters in a batch of several sentences. On a CPU, larger
# batches do not fit its caches and are slower.
_TOKENS = {"cpu": 1 << 11, "gpu": 1 << 14, "tpu": 1 << 14}
_CHARS = 1 << 17
_FEW_WORDS = 1 << 8
# Characters of short words, which most are, and of long words.
_SHORT_WORD, _LONG_WORD = 12, 24
_LONG_SHARE = 8  # a batch reads one in so many words apart
# Maximum number of batches in flight: enough to keep a device busy without holding the
# results of the whole text there.
_PENDING = 16
SEVERAL_WORDS = re.compile(r"\S[ \t\r\n]+\S")


def sentences_of(tokens: Any) -> tuple[list[list[str]], bool]:
    """Returns the sentences that a caller gave, and whether it was a single one."""
    is_one = is_one_sentence(tokens)
    sentences = [list(tokens)] if is_one else [list(sentence) for sentence in tokens]
    for sentence in sentences:
        for token in sentence:
            # The first test is fast, and true of hardly any token.
            if not token.isalnum() and SEVERAL_WORDS.search(token):
                raise InputError(
                    f"Expected tokens, got {token[:40]!r} with white space inside: for "
                    "texts, call jaxner.entities; or split them into tokens."
                )
    return sentences, is_one


def encode(params: Tagger, sentences: Tokens, *, vectors: Any = None) -> Sentence:
    """Returns encoded tokens, for `tag` inside your own transformations.

    Takes one sentence or several. Arguments and errors are those of `tag`.

    Returns:
        Arrays for one sentence, or a batch padded to its longest sentence with a
        leading batch axis on every field, so that a plain `jax.vmap` maps over it. A
        tagger of documents adds a separator before and after the sentence, so T is two
        more than the number of tokens.

    Example:
        >>> params = load("runs/grn")
        >>> encode(params, [["Rome", "is", "old"], ["Yes"]]).mask.tolist()
        [[True, True, True], [True, False, False]]
    """
    check_tagger(params)
    tokens, is_one = sentences_of(sentences)
    encoded = _encoded(params, tokens, _of_each(vectors, is_one))
    if params.vocabulary.reads_documents:
        encoded = [batching.join([sentence]) for sentence in encoded]
    if is_one:
        return jax.tree.map(jnp.asarray, encoded[0])
    length = max((len(s.words) for s in encoded), default=0)
    return jax.tree.map(jnp.asarray, batching.pad(encoded, length))


def _of_each(vectors: Any, is_one: bool) -> Any:
    return [vectors] if is_one and vectors is not None else vectors


def _encoded(params: Tagger, sentences: Any, vectors: Any) -> list[Sentence]:
    """Returns each sentence encoded separately, without padding."""
    if vectors is None:
        vectors = [None] * len(sentences)
    if not hasattr(vectors, "__len__") or isinstance(vectors, (str, bytes, Mapping)):
        raise TypeError(
            "Expected vectors as an array for one sentence, or a list of arrays for "
            f"several, got {shown(vectors)}."
        )
    if len(vectors) != len(sentences):
        raise InputError(
            f"Expected one array of vectors per sentence, {len(sentences)}, got "
            f"{len(vectors)}."
        )
    return [*map(params.vocabulary.encode, sentences, vectors)]


def encode_one(params: Tagger, tokens: Sequence[str], vectors: Any = None) -> Sentence:
    """Returns one encoded sentence, padded to one of few shapes, without separators."""
    check_tagger(params)
    sentences, is_one = sentences_of(tokens)
    if sentences and not is_one:
        raise TypeError("Expected one sentence (a list of strings), got several")
    encoded = params.vocabulary.encode(tokens, vectors)
    length, width = round_up(len(tokens), encoded.chars.shape[1])
    padded = batching.pad([encoded], Shape(length, length + 1, width))
    alone = jax.tree.map(lambda array: array[0], padded._replace(chars=None))
    return alone._replace(chars=padded.chars)


# The driver.


def over(
    function: Callable[..., Any],
    params: Tagger,
    sentences: Any,
    key: Array | None = None,
    *,
    documents: Sequence[Hashable] | None = None,
    vectors: Any = None,
    passes: int = 0,
    **options: Hashable,
) -> Any:
    """Maps a function of one encoded sentence over tokens in any form.

    `function` maps `(params, sentence, key=key, **options)` to a tree of arrays `[T,
    …]`, options static. It must be a module-level function: each new function compiles
    again. `passes`, per sentence in one call, reduce the batch size. Sentences may also
    be a list of what `Vocabulary.encode` returned; else arguments are those of `tag`.

    Returns, for one sentence, a tree of NumPy arrays without padding; a list of trees
    for several; JAX arrays `[T, …]` or `[B, T, …]` for what `encode` returned, inside
    the caller's `jit`, `vmap` or `shard_map`.
    """
    check_tagger(params)
    if key is not None:
        check_key(key)
    if isinstance(sentences, Sentence):
        if documents is not None or vectors is not None:
            raise TypeError(
                "documents and vectors need strings, but tokens are encoded sentences"
            )
        return _mapped(functools.partial(function, **options), params, sentences, key)
    is_one = False
    if not isinstance(sentences, Split) and not _is_encoded(sentences):
        sentences, is_one = sentences_of(sentences)
    static = {"function": function, "options": tuple(options.items())}
    results = over_batches(
        functools.partial(_batch, params, key=key, **static),
        params,
        sentences,
        documents=documents,
        vectors=_of_each(vectors, is_one),
        passes=passes,
    )
    return results[0] if is_one else results


def _mapped(function: Callable[..., Any], params: Tagger, arrays: Sentence, key) -> Any:
    """Applies a function of one sentence to encoded arrays, `[T]` or `[B, T]`."""
    rank = np.ndim(arrays.words)
    if rank not in (1, 2):
        raise TypeError(
            f"Expected encoded words of shape [T] or [B, T], got {rank} axes. Map over "
            "further axes with jax.vmap."
        )

    def whole(params: Tagger, sentence: Sentence, key: Any) -> Any:
        return function(params, sentence, key=key)

    def run(sentence: Sentence) -> Any:
        return models.automatic(whole, params, sentence, key)

    arrays = jax.tree.map(jnp.asarray, arrays)
    return run(arrays) if rank == 1 else jax.vmap(run, (batch_axes(arrays),))(arrays)


@functools.partial(jax.jit, static_argnames=("function", "options"))
def _batch(params, batch, key, *, function, options):
    def whole(params, batch, key):
        compute = functools.partial(function, params, key=key, **dict(options))
        return jax.vmap(compute, in_axes=(batch_axes(batch),))(batch)

    return models.automatic(whole, params, batch, key)  # the sentences share words


def _is_encoded(sentences: Any) -> bool:
    first = next(iter(sentences), None) if isinstance(sentences, list | tuple) else None
    return isinstance(first, Sentence)


def over_batches(
    compute: Callable[..., Any],
    params: Tagger,
    sentences: Any,
    *,
    documents: Sequence[Hashable] | None = None,
    vectors: Any = None,
    passes: int = 0,
    labels: Sequence[np.ndarray] | None = None,
) -> list[Any]:
    """Returns for each sentence the results `[T, …]` of a function of batches.

    As `over`, but `compute` maps a batch, whose sentences share their distinct words,
    to a tree of arrays `[B, T, …]`. With the label ids of each sentence, it receives
    them as a second argument, `[B, T]`, 0 under padding; separators have the last one.
    """
    if isinstance(sentences, Split):
        numbers = [example.document for example in sentences.examples]
        documents = numbers if documents is None and any(numbers) else documents
        vectors = sentences.vectors
        sentences = [list(example.tokens) for example in sentences.examples]
    encoded = sentences
    if not _is_encoded(sentences):
        encoded = _encoded(params, sentences, vectors)
    check_documents(documents, len(encoded))
    if not models.character_readers(params.model):
        encoded = [batching.without_characters(sentence) for sentence in encoded]
    if not params.vocabulary.reads_documents:
        return _in_batches(compute, params.weights, encoded, passes, labels)
    members = batching.groups(range(len(encoded)) if documents is None else documents)
    joined = [batching.join([encoded[i] for i in group]) for group in members]
    if labels is not None:
        last = len(params.vocabulary.label_names) - 1
        labels = [batching.join_labels([labels[i] for i in g], last) for g in members]
    results: list[Any] = [None] * len(encoded)
    trees = _in_batches(compute, params.weights, joined, passes, labels)
    for group, whole, tree in zip(members, joined, trees, strict=True):
        lengths = [len(encoded[i].words) for i in group]
        places = batching.split(np.arange(len(whole.words)), lengths)
        for i, place in zip(group, places, strict=True):
            results[i] = jax.tree.map(lambda array, at=place: array[at], tree)
    return results


def _in_batches(
    compute: Callable[..., Any],
    weights: Any,
    sentences: Sequence[Sentence],
    passes: int,
    labels: Sequence[np.ndarray] | None,
) -> list[Any]:
    """Returns the results for each sentence; up to `_PENDING` batches are in flight."""
    results: list[Any] = [None] * len(sentences)
    pending: collections.deque[tuple[list[int], Any]] = collections.deque()

    def fetch() -> None:
        rows, arrays = pending.popleft()
        arrays = devices.fetch(arrays)
        for row, i in enumerate(rows):
            n = len(sentences[i].words)
            results[i] = jax.tree.map(lambda a, r=row, n=n: a[r][:n], arrays)

    for rows, batch in _batches(sentences, weights, max(passes, 1)):
        more: list[Any] = []
        if labels is not None:
            count, length = batch.words.shape
            more = [batching.pad_labels([labels[i] for i in rows], length, count)]
        pending.append((rows, compute(batch, *more)))
        if len(pending) == _PENDING:
            fetch()
    while pending:
        fetch()
    return results


def _batches(
    sentences: Sequence[Sentence], weights: Any, passes: int
) -> Iterator[tuple[list[int], Sentence]]:
    """Yields the indices of the sentences in each batch, and the batch."""
    mesh = devices.mesh_of(weights)
    parts = 1 if mesh is None else mesh.size
    near = None if mesh is None else devices.own_parts(mesh)
    sizes = [(len(s.words), s.chars.shape[1]) for s in sentences]
    platform = devices.platform_of(weights)
    most, fills = _TOKENS.get(platform, 1 << 12) // passes, platform != "cpu"
    for (tokens, chars), count, rows in plan(sizes, most, parts, fills):
        here = [sentences[i] for i in rows]
        words, long, longest = count * tokens + 1, 0, chars
        if words > _FEW_WORDS and not fills:
            # In large batches, half of the tokens are padding or repeated words.
            if sum(len(s.chars) for s in here) <= words // 2:
                words //= 2
            if chars == _LONG_WORD and _count_long(here) <= words // _LONG_SHARE:
                chars, long = _SHORT_WORD, words // _LONG_SHARE
        count, words, long = (-(-n // parts) * parts for n in (count, words, long))
        here = batching.without_far_vectors(here, count, parts, near)
        shape = Shape(tokens, words, chars, long, longest)
        batch = batching.pad(here, shape, count)
        yield rows, batch if mesh is None else devices.split(batch, mesh)


def _count_long(sentences: Sequence[Sentence]) -> int:
    """Returns how many words are longer than a short one, at most."""
    at = slice(_SHORT_WORD, _SHORT_WORD + 1)
    return sum(int(np.count_nonzero(s.chars[:, at])) for s in sentences)


def plan(
    sizes: Sequence[tuple[int, int]],
    most: int,
    parts: int = 1,
    fills: bool = False,
    doublings: int = 1,
) -> Iterator[tuple[tuple[int, int], int, list[int]]]:
    """Yields the padded size, the number of rows and the sentences of each batch.

    `sizes` are tokens, and characters of the longest word. `most` is the maximum number
    of positions in a batch of several sentences, on each of `parts` devices. A batch
    has as many rows as there are sentences of its size; or, if it `fills`, as there are
    in all: on accelerators, where compiling and launching cost more than padding. Rows
    are powers of 2, 4, …: with more `doublings` from one to the next, fewer programs.
    """
    least = min(2, max((chars for _, chars in sizes), default=1))  # 1: none are read
    rounded = [round_up(tokens, max(chars, least)) for tokens, chars in sizes]
    keys = [(chars, tokens) for tokens, chars in rounded]
    order = sorted(range(len(keys)), key=keys.__getitem__)
    while order:
        tokens, chars = rounded[order[-1]]
        share = max(1, min(most, _CHARS // chars) // tokens)
        most_rows = parts << ((share.bit_length() - 1) // doublings * doublings)
        shorter = bisect.bisect_left(order, keys[order[-1]], key=keys.__getitem__)
        count = len(sizes) if fills else len(order) - shorter
        bits = max(count - 1, 0).bit_length()
        count = min(most_rows, 1 << (-(-bits // doublings) * doublings))
        rows = [order.pop()]
        while order and len(rows) < count and rounded[order[-1]][0] <= tokens:
            rows.append(order.pop())
        yield (tokens, chars), count, rows


def round_up(tokens: int, chars: int) -> tuple[int, int]:
    """Returns sizes rounded up, so that sentences share few compiled programs.

    Tokens: 8, 16, 24, 32, 48, 64, …. Characters: 24; for rare words, 128, 256, …, and
    at least 32 tokens; or 1 if the model reads no characters.
    """
    least = 8 if chars <= _LONG_WORD else 32
    padded = max(least, _next_power(tokens))
    if padded > max(16, least) and tokens <= 3 * padded // 4:
        padded = 3 * padded // 4
    width = _LONG_WORD if chars <= _LONG_WORD else max(128, _next_power(chars))
    return padded, width if chars > 1 else 1


def _next_power(count: int) -> int:
    return 1 << max(count - 1, 0).bit_length()


# Labels.


@checked
def tag(
    params: Tagger,
    tokens: Tokens,
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
    arrays, the call works inside your own `jit`, `vmap` or `shard_map`; there, bind
    `decoding` and `constrained` with `functools.partial`.

    Args:
        params: What `load` returned.
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
        >>> params = load("runs/grn")
        >>> labels = tag(params, [["Rome", "is", "old"], []])
        >>> [len(sentence) for sentence in labels]
        [3, 0]
        >>> ids = jax.jit(tag)(params, encode(params, ["Rome", "is", "old"]))
        >>> params.vocabulary.decode(ids.tolist()) == labels[0]
        True
    """
    check_tagger(params)
    check_draws(decoding, key)
    ids = over(
        choose,
        params,
        tokens,
        key,
        documents=documents,
        vectors=vectors,
        passes=params.model.mc_dropout.num_samples,
        decoding=decoding,
        constrained=constrained,
    )
    if isinstance(tokens, Sentence):
        return ids
    decode = params.vocabulary.decode
    return [decode(row) for row in ids] if isinstance(ids, list) else decode(ids)


def label_split(
    params: Tagger, split: Split, **options: Any
) -> tuple[list[Sequence[str]], list[list[str]]]:
    """Returns gold labels of a split, and those of `tag`, in the tagger's scheme."""
    examples = split.to_scheme(params.vocabulary.scheme)
    return [e.labels for e in examples], tag(params, split, **options)


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

    def mean(self, compute: Callable[[Any], Any]) -> Any:
        """Returns the mean over the passes of what `compute` returns."""
        if self.passes is None:
            return compute(self.potentials)
        return inference.mean_over_passes(compute, self.passes)

    def map(self, change: Callable[[Any], Any]) -> Predictive:
        """Returns a distribution with all potentials changed."""
        passes = self.passes and inference.each_pass(change, self.passes)
        return Predictive(change(self.potentials), passes)


def predict(
    params: Tagger,
    sentence: Sentence,
    key: Array | None = None,
    num_samples: int | None = None,
    *,
    constrained: bool = False,
) -> Predictive:
    """Computes the distribution over the labellings of one sentence.

    The arguments are those of `entities`; a refinement, which has one distribution,
    ignores `num_samples`. For an ensemble, the distribution is the mean over its
    members, and the logarithms of the mean marginals choose the labels: a mean of
    scores would give more weight to members with larger scores.
    """
    if isinstance(params, Ensemble):
        predicted = _of_members(params, sentence, key)
    else:
        predicted = _of_passes(params, sentence, key, num_samples)
    return predicted.map(lambda p: constrain(params, p)) if constrained else predicted


def _of_passes(params, sentence, key, num_samples) -> Predictive:
    """Computes the distribution of one tagger: that of its passes, if it has any."""
    model, weights, dropout = params.model, params.weights, params.model.mc_dropout
    predicted = Predictive(models.predict(model, weights, sentence, key))
    count = dropout.num_samples if num_samples is None else num_samples
    if count and model.refinement is None:
        key = jax.random.key(dropout.seed) if key is None else key
        keys = models.pass_keys(models.sentence_key(key, sentence), count)
        passes = models.sample(model, weights, sentence, keys)
        predicted = predicted._replace(passes=passes)
    if not isinstance(predicted.potentials, Potentials):
        return predicted
    return predicted.map(lambda p: inference.at_temperature(p, params.temperature))


def _of_members(params: Ensemble, sentence: Sentence, key: Any) -> Predictive:
    def member(weights, temperature):
        potentials = models.predict(params.model, weights, sentence, key)
        return inference.at_temperature(potentials, temperature)

    degrees = jnp.asarray(params.temperature, jnp.float32)
    degrees = jnp.broadcast_to(degrees, (len(params),))
    passes: Any = jax.vmap(member)(params.weights, degrees)
    mean = Predictive(passes, passes).mean(
        lambda p: inference.marginals(p, sentence.mask)
    )
    logs = jnp.log(jnp.maximum(mean, jnp.finfo(mean.dtype).tiny))
    return Predictive(Potentials(logs), passes)


def constrain(params: Tagger, potentials: Any) -> Any:
    """Forbids labellings that are ill-formed; separators count as outside all spans."""
    vocabulary = params.vocabulary
    allowed = schemes.allowed(outside_at_separators(vocabulary), vocabulary.scheme)
    rules = inference.Constraints(*map(jnp.asarray, allowed))
    return inference.constrain(potentials, rules)


def outside_at_separators(vocabulary: Vocabulary) -> list[str]:
    """Returns the label names, with `O` for separators."""
    return ["O" if name == SEPARATOR else name for name in vocabulary.label_names]


def choose(
    params: Tagger,
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
    predicted = predict(params, sentence, key, count, constrained=constrained)
    return labels_of(params, predicted, sentence, key, decoding, constrained)


def labels_of(
    params: Tagger,
    predicted: Predictive,
    sentence: Sentence,
    key: Any,
    decoding: Decoding,
    constrained: bool,
) -> Int[Array, " T"]:
    """Returns label ids chosen from a distribution that `predict` returned.

    A drawn labelling depends on the key and the words, not on the batch or padding;
    with several passes, a pass is drawn first.
    """
    mask, chosen = sentence.mask, predicted.potentials
    if decoding == "sampled":
        key = models.sentence_key(key, sentence)
        if predicted.passes is not None:
            first, key = jax.random.split(key)
            number = jax.random.randint(first, (), 0, len(predicted.passes.emissions))
            chosen = inference.one_pass(predicted.passes, number)
        return inference.sample(chosen, mask, key)
    if decoding in ("viterbi", "constrained"):
        return inference.viterbi(chosen, mask)
    if decoding == "max_marginal":
        chosen = Potentials(predicted.mean(lambda p: inference.marginals(p, mask)))
    elif isinstance(chosen, Potentials):
        chosen = Potentials(chosen.emissions)
    else:
        raise InputError(
            "Each label of an autoregressive head (head 'seq2seq') depends on all "
            "before it: there are no independent labels. Take another decoding."
        )
    # The best label of each token alone may not fit its neighbours.
    return inference.viterbi(constrain(params, chosen) if constrained else chosen, mask)


def best_labellings(
    params: Tagger, predicted: Predictive, sentence: Sentence, n: int
) -> tuple[Int[Array, "N T"], Float[Array, " N"]]:
    """Returns the n best labellings and their probabilities, the most probable first.

    With several passes, `potentials` choose the labellings, and their mean probability
    orders them. For an ensemble, they are the most probable on average among the n best
    of each member. A missing labelling (there are fewer than n) has probability 0.
    """
    mask = sentence.mask
    if isinstance(params, Ensemble):
        assert predicted.passes is not None
        each = inference.each_pass(
            lambda p: inference.n_best(p, mask, n), predicted.passes
        )
        labels = each[0].reshape(-1, mask.shape[0])
        exists = jnp.isfinite(each[1].reshape(-1)) & _is_first(labels)
    else:
        labels, scores = inference.n_best(predicted.potentials, mask, n)
        exists = jnp.isfinite(scores)

    def chances_of(potentials):
        def log_chance(y):
            return inference.log_probability(potentials, y, mask)

        return jnp.exp(jax.vmap(log_chance)(labels))

    chances = jnp.where(exists, predicted.mean(chances_of), 0.0)
    if predicted.passes is None:
        return labels, chances
    order = jnp.argsort(-chances)[:n]
    return labels[order], chances[order]


def _is_first(labels: Int[Array, "N T"]) -> Bool[Array, " N"]:
    """Returns which labellings are the first of their kind in the list."""
    equal = jnp.all(labels[:, None] == labels[None], axis=-1)
    return ~jnp.any(jnp.tril(equal, -1), axis=1)
