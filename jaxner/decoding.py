"""Decoding: chooses labels from a tagger's distribution over labellings.

Shape letters: `T` tokens, `L` labels, `N` labellings, `M` passes.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Annotated, Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from jaxner import fields, inference, models
from jaxner.data import schemes
from jaxner.data.vocab import SEPARATOR, Vocabulary
from jaxner.tagger import Ensemble, Tagger
from jaxner.types import AnyPotentials, Potentials, Sentence

DECODINGS = ("viterbi", "constrained", "independent", "max_marginal", "sampled")
"""Ways to choose labels:

viterbi        the most probable labelling
constrained    the most probable labelling that is well-formed in the label scheme
independent    each token's best label by its own scores, without transitions
max_marginal   each token's most probable label: minimises the expected wrong labels
sampled        a labelling drawn from the distribution
"""

Decoding = Annotated[str, fields.OneOf(DECODINGS, "n best labellings: jaxner.n_best")]


class Predictive(NamedTuple):
    """The distribution over the labellings of a sentence.

    Attributes:
        potentials: The potentials that choose the labels.
        passes: Potentials of several passes, emissions `[M, T, L]`, whose
            probabilities are averaged; None: `potentials` give the probabilities.
    """

    potentials: AnyPotentials
    passes: Potentials | None = None

    def mean(self, compute: Callable[[Any], Any]) -> Any:
        """Returns the mean over the passes of what `compute` returns."""
        if self.passes is None:
            return compute(self.potentials)
        return inference.mean_over_passes(compute, self.passes)

    def log_mean(self, compute: Callable[[Any], Any]) -> Any:
        """Returns the log of the mean probability; `compute` returns its log."""
        if self.passes is None:
            return compute(self.potentials)
        logs = inference.each_pass(compute, self.passes)
        return jax.nn.logsumexp(logs, axis=0) - math.log(len(logs))

    def map(self, change: Callable[[Any], Any]) -> Predictive:
        """Returns a distribution with all potentials changed."""
        if self.passes is None:
            return Predictive(change(self.potentials))
        each = [change(self.potentials), change(self.passes)]
        return Predictive(*each)


def check(decoding: Decoding, key: Array | None) -> None:
    """Checks the name of a decoding, and that there is a key if it draws.

    Raises:
        ValueError: The name is unknown, or the decoding draws and `key` is None.
    """
    fields.check("decoding", decoding, Decoding)
    if decoding == "sampled" and key is None:
        raise ValueError(
            "Decoding 'sampled' draws labels: give a key, such as jax.random.key(0)"
        )


def predict(
    params: Tagger,
    sentence: Sentence,
    key: Array | None = None,
    num_samples: int | None = None,
    *,
    constrained: bool = False,
) -> Predictive:
    """Computes the distribution over the labellings of one sentence.

    Args:
        params: What `load` returned; divides scores by its temperature.
        sentence: One sentence; `jax.vmap` adds the batch.
        key: Draws the dropout masks; None: the seed of the config draws them.
        num_samples: Number of passes with dropout, whose probabilities are averaged;
            None: the number in the tagger's config. Ignored with a refinement, which
            has a single distribution, and by an ensemble, which averages its members.
        constrained: Whether to forbid ill-formed labellings.
    """
    if isinstance(params, Ensemble):
        return _of_members(params, sentence, key, constrained)
    model, weights = params.model, params.weights
    found = Predictive(models.predict(model, weights, sentence, key))
    own = model.mc_dropout
    count = own.num_samples if num_samples is None else num_samples
    if count and model.refinement is None:
        key = jax.random.key(own.seed) if key is None else key
        keys = models.pass_keys(models.sentence_key(key, sentence), count)
        passes = models.sample(model, weights, sentence, keys)
        found = found._replace(passes=passes)
    degrees: Any = params.temperature  # may be traced
    is_warm = not isinstance(degrees, float) or degrees != 1.0
    if is_warm and isinstance(found.potentials, Potentials):
        found = found.map(lambda p: inference.at_temperature(p, degrees))
    if constrained:
        allowed = constraints(params.vocabulary)
        found = found.map(lambda p: inference.constrain(p, allowed))
    return found


def _of_members(
    params: Ensemble, sentence: Sentence, key: Array | None, constrained: bool
) -> Predictive:
    """Computes the distribution of an ensemble: the mean over its members.

    The logarithms of the mean marginals choose the labels, without transitions. A mean
    of probabilities weighs all members equally; a mean of scores would give more weight
    to members with larger scores.
    """

    def member(weights, temperature):
        potentials = models.predict(params.model, weights, sentence, key)
        if isinstance(params.temperature, float) and params.temperature == 1.0:
            return potentials
        return inference.at_temperature(potentials, temperature)

    degrees = jnp.asarray(params.temperature, jnp.float32)
    own = jnp.broadcast_to(degrees, (len(params),))
    passes: Any = jax.vmap(member)(params.weights, own)
    chances = inference.mean_over_passes(
        lambda one: inference.marginals(one, sentence.mask), passes
    )
    mean = Potentials(jnp.log(jnp.maximum(chances, jnp.finfo(chances.dtype).tiny)))
    if not constrained:
        return Predictive(mean, passes)
    allowed = constraints(params.vocabulary)
    each: Any = jax.vmap(lambda one: inference.constrain(one, allowed))(passes)
    return Predictive(inference.constrain(mean, allowed), each)


def constraints(vocabulary: Vocabulary) -> inference.Constraints:
    """Returns the labels and transitions that the label scheme allows.

    A separator between sentences counts as a token outside all spans.
    """
    allowed = schemes.allowed(outside_at_separators(vocabulary), vocabulary.scheme)
    return inference.Constraints(*map(jnp.asarray, allowed))


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
    """Returns the label ids of one sentence; 0 under padding.

    Args:
        params: What `load` returned.
        sentence: One sentence; `jax.vmap` adds the batch.
        key: Draws dropout masks and labellings.
        decoding: One of `DECODINGS`.
        constrained: Whether to forbid ill-formed labellings.

    Raises:
        ValueError: As `check`; or the head is autoregressive, and the decoding needs
            probabilities.
    """
    check(decoding, key)

    def label(params: Tagger, sentence: Sentence, key: Any) -> Any:
        return _choose(params, sentence, key, decoding, constrained)

    return models.automatic(label, params, sentence, key)


def _choose(
    params: Tagger, sentence: Sentence, key, decoding: Decoding, constrained: bool
):
    constrained = constrained or decoding == "constrained"
    if isinstance(params, Ensemble) or decoding in ("max_marginal", "sampled"):
        found = predict(params, sentence, key, constrained=constrained)
    else:  # neither passes nor temperature change these labels
        potentials = models.predict(params.model, params.weights, sentence, key)
        if constrained:
            potentials = inference.constrain(potentials, constraints(params.vocabulary))
        found = Predictive(potentials)
    return labels_of(params, found, sentence, key, decoding, constrained=constrained)


def labels_of(
    params: Tagger,
    found: Predictive,
    sentence: Sentence,
    key: Array | None,
    decoding: Decoding,
    *,
    constrained: bool = False,
) -> Int[Array, " T"]:
    """Returns label ids chosen from the distribution over labellings.

    Args:
        params: What `load` returned.
        found: What `predict` returned, constrained if `constrained` is True.
        sentence: One sentence.
        key: Draws labellings.
        decoding: One of `DECODINGS`.
        constrained: Whether to forbid ill-formed labellings.
    """
    mask = sentence.mask
    if decoding == "sampled":
        return draw(found, sentence, key)
    if decoding == "max_marginal":
        chances = found.mean(lambda p: inference.marginals(p, mask))
        if not constrained:
            return jnp.argmax(chances, axis=-1).astype(jnp.int32)
        # The best label of each token alone may not fit its neighbours.
        expected = inference.constrain(
            Potentials(chances), constraints(params.vocabulary)
        )
        return inference.viterbi(expected, mask)
    # The potentials of an ensemble have no transitions.
    if decoding == "independent" and not isinstance(params, Ensemble):
        alone = _without_transitions(found.potentials)
        if constrained:
            alone = inference.constrain(alone, constraints(params.vocabulary))
        return inference.viterbi(alone, mask)
    return inference.viterbi(found.potentials, mask)


def _without_transitions(potentials: AnyPotentials) -> Potentials:
    if not isinstance(potentials, Potentials):
        raise ValueError(
            "Each label of an autoregressive head (head 'seq2seq') depends on all "
            "before it: there are no independent labels. Take another decoding."
        )
    return Potentials(potentials.emissions)


def draw(found: Predictive, sentence: Sentence, key: Any) -> Int[Array, " T"]:
    """Draws a labelling from the distribution.

    With several passes, draws a pass first. The result depends on the key and the
    words, not on the batch or padding.
    """
    mask = sentence.mask
    key = models.sentence_key(key, sentence)
    if found.passes is None:
        return inference.sample(found.potentials, mask, key)
    first, second = jax.random.split(key)
    number = jax.random.randint(first, (), 0, len(found.passes.emissions))
    return inference.sample(inference.one_pass(found.passes, number), mask, second)


def best_labellings(
    params: Tagger, found: Predictive, sentence: Sentence, n: int
) -> tuple[Int[Array, "N T"], Float[Array, " N"]]:
    """Returns the n best labellings and their probabilities, the most probable first.

    With several passes, `potentials` choose the labellings, and their mean probability
    orders them. For an ensemble, they are the most probable on average among the n best
    of each member. A missing labelling (there are fewer than n) has probability 0.

    Args:
        params: What `load` returned.
        found: What `predict` returned.
        sentence: One sentence.
        n: Number of labellings.
    """
    mask = sentence.mask
    if isinstance(params, Ensemble):
        assert found.passes is not None
        each = inference.each_pass(lambda p: inference.n_best(p, mask, n), found.passes)
        labels = each[0].reshape(-1, mask.shape[0])
        exists = jnp.isfinite(each[1].reshape(-1)) & _is_first(labels)
    else:
        labels, scores = inference.n_best(found.potentials, mask, n)
        exists = jnp.isfinite(scores)

    def chances_of(potentials):
        def one(y):
            return inference.log_probability(potentials, y, mask)

        return jnp.exp(jax.vmap(one)(labels))

    chances = jnp.where(exists, found.mean(chances_of), 0.0)
    if found.passes is None:
        return labels, chances
    order = jnp.argsort(-chances)[:n]
    return labels[order], chances[order]


def _is_first(labels: Int[Array, "N T"]) -> Bool[Array, " N"]:
    """Returns which labellings are the first of their kind in the list."""
    equal = jnp.all(labels[:, None] == labels[None], axis=-1)
    return ~jnp.any(jnp.tril(equal, -1), axis=1)
