"""Computes probabilities of labels and labellings, and the n best labellings.

Shape letters: `B` sentences, `T` tokens, `L` labels, `N` labellings.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any, NamedTuple

import jax.numpy as jnp
from jaxtyping import Array

from jaxner import inference, tagging
from jaxner.arguments import check_tagger
from jaxner.data import schemes
from jaxner.data.corpora import Split
from jaxner.fields import Labellings, Passes, checked
from jaxner.tagger import Ensemble, Tagger
from jaxner.types import Sentence


class Labelling(NamedTuple):
    """A whole labelling of a sentence.

    Attributes:
        labels: The label of each token; label ids `[N, T]` for encoded sentences.
        probability: Probability of the labelling, 0 to 1; `[N]` for encoded sentences.

    Example:
        >>> Labelling(["S-LOC", "O"], 0.9).labels
        ['S-LOC', 'O']
    """

    labels: Any
    probability: Any


@checked
def marginals(
    params: Tagger,
    tokens: Any,
    *,
    constrained: bool = False,
    documents: Sequence[Hashable] | None = None,
    key: Array | None = None,
    num_samples: Passes | None = None,
    vectors: Any = None,
) -> Any:
    """Computes the probability of each label at each token.

    Args:
        params: What `load` returned.
        tokens: As in `tag`: one sentence, several, or what `encode` returned.
        constrained: Whether to forbid ill-formed labellings.
        documents: As in `tag`.
        key: Draws the dropout masks; None: the seed of the config draws them.
        num_samples: Number of passes with dropout, whose probabilities are averaged;
            None: the number in the tagger's config, 0 for most. Not for an ensemble,
            which averages over its members.
        vectors: As in `tag`.

    Returns:
        `[T, L]`, columns in the order of `params.vocabulary.label_names`; a list of
        such arrays for several sentences; `[B, T, L]`, 0 under padding, for an encoded
        batch.

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
        _marginals,
        params,
        tokens,
        key,
        documents=documents,
        vectors=vectors,
        passes=count_passes(params, num_samples),
        num_samples=num_samples,
        constrained=constrained,
    )


@checked
def count_passes(params: Tagger, num_samples: Passes | None) -> int:
    """Returns the number of passes, which determines the batch size.

    Raises:
        ValueError: The number is negative, or given for an ensemble or a tagger with a
            refinement.
    """
    check_tagger(params)
    if isinstance(params, Ensemble):
        if num_samples:
            raise ValueError(
                "An ensemble averages over its members, not over passes with dropout: "
                "leave num_samples out, or take one member, ensemble.member(0)."
            )
        return len(params)
    if num_samples is None:
        return params.model.mc_dropout.num_samples
    if num_samples and params.model.refinement is not None:
        raise ValueError(
            "The labels of a refinement have one distribution: its draft's passes are "
            "set by mc_dropout.num_samples in the config. Leave num_samples out."
        )
    return num_samples


def _marginals(params, sentence, *, key, num_samples, constrained):
    found = tagging.predict(params, sentence, key, num_samples, constrained=constrained)
    return found.mean(lambda p: inference.marginals(p, sentence.mask))


@checked
def n_best(
    params: Tagger,
    tokens: Any,
    n: Labellings = 10,
    *,
    constrained: bool = False,
    key: Array | None = None,
    num_samples: Passes | None = None,
    vectors: Any = None,
) -> Any:
    """Finds the n most probable labellings of each sentence, with their probabilities.

    Of an ensemble, they are the most probable on average among the n best labellings
    of each member.

    Args:
        params: What `load` returned.
        tokens: As in `tag`: one sentence, several, or what `encode` returned.
        n: Number of labellings; static. Time grows with n; 100 is fine.
        constrained: Whether to forbid ill-formed labellings.
        key: As in `marginals`.
        num_samples: As in `marginals`.
        vectors: As in `tag`.

    Returns:
        A list of `Labelling`, the most probable first, shorter than n if fewer exist; a
        list of such lists for several sentences. For an encoded sentence, a `Labelling`
        of arrays `[N, T]` and `[N]`; for an encoded batch, `[B, N, T]` and `[B, N]`. In
        arrays, missing labellings have probability 0.

    Raises:
        TypeError: As `tag`.
        ValueError: n is below 1; the head is autoregressive; or the tagger labels whole
            documents, so that labellings of sentences are undefined.

    Example:
        >>> from jaxner import load
        >>> first, second = n_best(load("runs/grn"), ["Rome", "fell"], 2)
        >>> len(first.labels), first.probability >= second.probability
        (2, True)
    """
    check_tagger(params)
    if params.vocabulary.reads_documents:
        raise ValueError(
            "This tagger labels documents as one: the best labellings of a sentence "
            "are not defined. See jaxner.entities for the probability of each entity."
        )
    # One row per token, since `over` splits by token.
    found = tagging.over(
        _n_best,
        params,
        tokens,
        key,
        vectors=vectors,
        passes=max(count_passes(params, num_samples), n // 4),
        num_samples=num_samples,
        constrained=constrained,
        n=n,
    )
    if isinstance(tokens, Sentence):
        labels, chances = found
        return Labelling(jnp.moveaxis(labels, -1, -2), _of_any_token(chances))
    if tagging.is_one_sentence(tokens):
        return _named(params, found)
    return [_named(params, one) for one in found]


def oracle_split(
    params: Tagger, split: Split, n: int, *, constrained: bool = False
) -> tuple[Sequence[Sequence[str]], list[list[str]]]:
    """Labels a split by the best of the n best labellings, judged by the gold labels.

    The best labelling of a sentence has the highest F1 of entities (for tags, the most
    correct tags); ties go to the more probable one. The score of this choice is an
    upper bound for any choice among n labellings.

    Args:
        params: What `load` returned.
        split: Sentences with gold labels, in any scheme.
        n: As in `n_best`.
        constrained: As in `n_best`.

    Returns:
        The gold and the chosen labels of each sentence, in the tagger's scheme.

    Raises:
        ValueError: As `n_best`.

    Example:
        >>> from jaxner import load
        >>> from jaxner.data import corpora
        >>> dev = corpora.load("sample", "dev")
        >>> gold, chosen = oracle_split(load("runs/grn"), dev, 2)
        >>> [len(labels) for labels in gold] == [len(labels) for labels in chosen]
        True
    """
    scheme = params.vocabulary.scheme
    examples = split.to_scheme(scheme)
    tokens = [list(example.tokens) for example in examples]
    found = n_best(params, tokens, n, constrained=constrained, vectors=split.vectors)
    gold = [example.labels or () for example in examples]
    chosen = []
    for right, several in zip(gold, found, strict=True):
        nearness = [_nearness(right, one.labels, scheme) for one in several]
        chosen.append(several[nearness.index(max(nearness))].labels)
    return gold, chosen


def _nearness(gold: Sequence[str], labels: Sequence[str], scheme: str) -> float:
    if scheme == schemes.TAGS:
        return sum(a == b for a, b in zip(gold, labels, strict=True))
    right, found = (set(schemes.to_spans(y)) for y in (gold, labels))
    return 2 * len(right & found) / max(len(right) + len(found), 1)


def _of_any_token(chances: Array) -> Array:
    """Returns the probabilities of labellings, which are repeated at each token."""
    if not chances.shape[-2]:
        empty = jnp.zeros((*chances.shape[:-2], chances.shape[-1]), chances.dtype)
        return empty.at[..., 0].set(1.0)
    return chances[..., 0, :]


def _n_best(params, sentence, *, key, num_samples, constrained, n):
    found = tagging.predict(params, sentence, key, num_samples, constrained=constrained)
    labels, chances = tagging.best_labellings(params, found, sentence, n)
    length = sentence.mask.shape[0]
    return labels.T, jnp.broadcast_to(chances[None], (length, n))


def _named(params: Tagger, found: Any) -> list[Labelling]:
    labels, chances = found
    if not len(labels):
        return [Labelling([], 1.0)]
    return [
        Labelling(params.vocabulary.decode(ids.tolist()), float(chance))
        for ids, chance in zip(labels.T, chances[0], strict=True)
        if chance > 0
    ]
