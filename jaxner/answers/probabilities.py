"""Probabilities of labels and labellings: exact, or over passes with dropout.

Shape letters: `B` sentences, `M` passes, `T` tokens, `L` labels, `N` labellings.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from jaxner import driver, fields, inference, models, tagging
from jaxner.arguments import check_tagger
from jaxner.data.corpora import Split
from jaxner.errors import InputError
from jaxner.evaluation import scoring
from jaxner.fields import Labellings, Passes, Samples, checked
from jaxner.inference import Uncertainty as Uncertainty
from jaxner.tagger import Ensemble, Tagger
from jaxner.tagging import Tokens
from jaxner.types import Sentence, Vectors


class Labelling(NamedTuple):
    """A whole labelling of a sentence.

    For encoded sentences, `labels` are ids `[N, T]`, and `probability` is `[N]`.
    """

    labels: Any
    probability: Any


@checked
def count_passes(tagger: Tagger, num_samples: Passes | None) -> int:
    """Returns the number of passes, which determines the batch size."""
    check_tagger(tagger)
    if isinstance(tagger, Ensemble):
        if num_samples:
            raise InputError(
                "An ensemble averages over its members, not over passes with dropout: "
                "leave num_samples out, or take one member, ensemble.member(0)."
            )
        return len(tagger)
    if num_samples is None:
        return tagger.model.mc_dropout.num_samples
    if num_samples and tagger.model.refinement is not None:
        raise InputError(
            "The labels of a refinement have one distribution: its draft's passes are "
            "set by mc_dropout.num_samples in the config. Leave num_samples out."
        )
    return num_samples


@checked
def marginals(
    tagger: Tagger,
    tokens: Tokens,
    *,
    constrained: bool = False,
    key: Array | None = None,
    num_samples: Passes | None = None,
    documents: Sequence[Hashable] | None = None,
    vectors: Vectors = None,
) -> Any:
    """Returns the probability of each label at each token.

    The arguments are those of `tag` and, for passes with dropout, of `entities`.

    Returns:
        `[T, L]`, columns in the order of `tagger.labels`; a list of such arrays for
        several sentences; `[B, T, L]`, 0 under padding, for an encoded batch.

    Raises:
        TypeError: As `tag`.
        ValueError: The head is autoregressive; or `num_samples` is negative, or given
            for an ensemble or a tagger with a refinement.

    Example:
        >>> from jaxner import load
        >>> chances = marginals(load("runs/grn"), ["Rome", "fell"])
        >>> chances.shape[0], chances.sum(axis=1).round(4).tolist()
        (2, [1.0, 1.0])
    """
    return tagging.over(
        compute_marginals,
        tagger,
        tokens,
        key,
        documents=documents,
        vectors=vectors,
        passes=count_passes(tagger, num_samples),
        num_samples=num_samples,
        constrained=constrained,
    )


def compute_marginals(tagger, sentence, key, *, num_samples, constrained):
    """Computes the probability of each label of one sentence, [T, L]."""
    predictive = tagging.predict(
        tagger, sentence, key, num_samples, constrained=constrained
    )
    return predictive.mean(lambda p: inference.marginals(p, sentence.mask))


@checked
def n_best(
    tagger: Tagger,
    tokens: Tokens,
    n: Labellings = 10,
    *,
    constrained: bool = False,
    key: Array | None = None,
    num_samples: Passes | None = None,
    vectors: Vectors = None,
) -> Any:
    """Returns the n most probable labellings of each sentence, and how probable.

    For an ensemble, they are the most probable on average among the n best labellings
    of each member. Other arguments are as in `marginals`. `n` is static:
    `jax.jit(n_best, static_argnames="n")`; time grows with it, and 100 is fine.

    Returns:
        A list of `Labelling`, the most probable first, shorter than n if fewer exist; a
        list of such lists for several sentences. For an encoded sentence, a `Labelling`
        of arrays `[N, T]` and `[N]`; for an encoded batch, `[B, N, T]` and `[B, N]`. In
        arrays, missing labellings have probability 0.

    Raises:
        TypeError: As `tag`; or n is traced by `jax.jit`.
        ValueError: n is below 1; the head is autoregressive; or the tagger labels whole
            documents, so that labellings of sentences are undefined.

    Example:
        >>> from jaxner import load
        >>> first, second = n_best(load("runs/grn"), ["Rome", "fell"], 2)
        >>> len(first.labels), first.probability >= second.probability
        (2, True)
    """
    check_tagger(tagger)
    if tagger.vocabulary.reads_documents:
        raise InputError(
            "This tagger labels documents as one: the best labellings of a sentence "
            "are not defined. See jaxner.entities for the probability of each entity."
        )
    # One row per token, since `over` splits by token.
    answer = tagging.over(
        _n_best,
        tagger,
        tokens,
        key,
        vectors=vectors,
        passes=max(count_passes(tagger, num_samples), n // 4),
        num_samples=num_samples,
        constrained=constrained,
        n=n,
    )
    if isinstance(tokens, Sentence):
        labels, chances, _ = answer
        if not chances.shape[-2]:  # no token, so one labelling
            empty = jnp.zeros((*chances.shape[:-2], n), chances.dtype)
            chances = empty.at[..., 0].set(1.0)[..., None, :]
        return Labelling(jnp.moveaxis(labels, -1, -2), chances[..., 0, :])
    return driver.of_every(lambda arrays: _named(tagger, *arrays), answer)


def _n_best(tagger, sentence, key, *, num_samples, constrained, n):
    predictive = tagging.predict(
        tagger, sentence, key, num_samples, constrained=constrained
    )
    best = tagging.best_labellings(tagger, predictive, sentence, n)
    return best[0].T, *(jnp.broadcast_to(x, best[0].T.shape) for x in best[1:])


def _named(tagger: Tagger, labels: Any, chances: Any, exists: Any) -> list[Labelling]:
    if not len(labels):
        return [Labelling([], 1.0)]
    return [
        Labelling(tagger.vocabulary.decode(ids.tolist()), float(chance))
        for ids, chance in zip(labels.T[exists[0]], chances[0][exists[0]], strict=True)
    ]


def oracle_split(
    tagger: Tagger,
    split: Split,
    n: int,
    *,
    rule: str = "conlleval",
    constrained: bool = False,
) -> tuple[Sequence[Sequence[str]], list[list[str]]]:
    """Returns gold labels of a split, and the best of the n best labellings.

    No other choice has a higher F1 of entities over the split, or more correct tags.
    Ties go to the more probable one.
    """
    scheme = tagger.vocabulary.scheme
    examples = split.to_scheme(scheme)
    candidates = n_best(tagger, split, n, constrained=constrained)
    gold = [example.labels for example in examples]

    sides = [[x.labels for x in row] for row in candidates]
    tables = [
        scoring.count([right] * len(row), row, rule, scheme).sum(1)
        for right, row in zip(gold, sides, strict=True)
    ]
    # F1 is a ratio of sums: Dinkelbach's method finds its maximum.
    # It starts above 0: of labellings with nothing right, the emptiest is best.
    choices, f1, last = [0] * len(gold), 1e-9, 0.0
    while f1 > last:
        choices = [int(np.argmax(2 * x[:, 0] - f1 * x[:, 1])) for x in tables]
        rows = [x[i] for x, i in zip(tables, choices, strict=True)]
        last, f1 = f1, scoring.total(np.array(rows)).f1 or 0.0
    return gold, [row[i] for row, i in zip(sides, choices, strict=True)]


def sample(
    tagger: Tagger,
    tokens: Tokens,
    key: Array,
    num_samples: int | Any = 8,
    *,
    documents: Sequence[Hashable] | None = None,
    vectors: Vectors = None,
) -> Any:
    """Returns the label probabilities of several passes with dropout.

    Dropout is on in the parts that the config names in `mc_dropout.parts`. For a tagger
    with a refinement, these are passes of the draft. The temperature has no effect.
    Source: Gal and Ghahramani, "Dropout as a Bayesian Approximation", ICML 2016.

    Args:
        tagger: What `load` returned; an ensemble is an InputError.
        tokens: As in `tag`, like `documents`, `vectors` and type errors.
        key: Draws the masks. The masks of a sentence depend on the key and its words,
            not on its batch or padding.
        num_samples: Number of passes, M, at least 1; static under `jit`. Fewer passes
            are a prefix of more passes.

    Returns:
        Probabilities `[M, T, L]` (a CRF's marginals), zero under padding; a list of
        such arrays for several sentences; `[B, M, T, L]` for an encoded batch.

    Example:
        >>> from jaxner import load
        >>> samples = sample(load("runs/grn"), ["Rome", "fell"], jax.random.key(0), 3)
        >>> samples.shape[:2]
        (3, 2)
    """
    context = {"documents": documents, "vectors": vectors}
    answer = _passes(_samples, tagger, tokens, key, num_samples, context)
    # `over` needs tokens on the first axis. `np.moveaxis` takes JAX's arrays, too.
    return jax.tree.map(lambda array: np.moveaxis(array, -2, -3), answer)


def uncertainty(
    tagger: Tagger,
    tokens: Tokens,
    key: Array,
    num_samples: int | Any = 8,
    *,
    documents: Sequence[Hashable] | None = None,
    vectors: Vectors = None,
) -> Any:
    """Returns the labels and their uncertainty over several passes with dropout.

    For a tagger with a refinement, the uncertainty is the draft's, and `labels` are the
    draft's by mean probability. Arguments and errors are those of `sample`.

    Returns:
        An `Uncertainty`, whose `labels` are strings if `tokens` are; a list of them for
        several sentences; arrays with a leading batch axis for an encoded batch.

    Example:
        >>> from jaxner import load
        >>> answer = uncertainty(load("runs/grn"), ["Rome", "fell"], jax.random.key(0))
        >>> len(answer.labels), answer.entropy.shape
        (2, (2,))
    """
    context = {"documents": documents, "vectors": vectors}
    answer = _passes(compute_summary, tagger, tokens, key, num_samples, context)
    if isinstance(tokens, Sentence):
        return answer

    def named(summary: Uncertainty) -> Uncertainty:
        labels = tagger.vocabulary.decode(summary.labels.tolist())
        return summary._replace(labels=labels)

    return driver.of_every(named, answer)


def _passes(function, tagger, tokens, key, num_samples, context) -> Any:
    driver.check_key(key)
    fields.check("num_samples", num_samples, Samples)
    if isinstance(tagger, Ensemble):
        raise InputError(
            "Passes with dropout are of one tagger, not of an ensemble: call it with "
            "ensemble.member(0). jaxner.marginals(ensemble, tokens) averages over the "
            "members."
        )
    options = {"passes": num_samples, "num_samples": num_samples, **context}
    return tagging.over(function, tagger, tokens, key, **options)


def _probabilities(tagger, sentence, key, num_samples):
    """Computes `[M, T, L]` without temperature: thresholds are for raw scores."""
    model, weights = tagger.model, tagger.weights
    passes = models.passes(model, weights, sentence, key, num_samples)
    return inference.each_pass(lambda p: inference.marginals(p, sentence.mask), passes)


def _samples(tagger, sentence, key, num_samples):
    return jnp.moveaxis(_probabilities(tagger, sentence, key, num_samples), 0, 1)


def compute_summary(tagger, sentence, key, num_samples):
    """Computes the `Uncertainty` of one sentence."""
    return inference.summarise(_probabilities(tagger, sentence, key, num_samples))
