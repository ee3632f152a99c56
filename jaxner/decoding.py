"""How labels are chosen from a tagger's distribution over labellings.

Shape letters: `T` tokens, `L` labels, `N` labellings, `M` passes.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from jaxner import inference, models
from jaxner.data import schemes
from jaxner.data.vocab import SEPARATOR, Vocabulary
from jaxner.tagger import Ensemble, Tagger
from jaxner.types import AnyPotentials, Potentials, Sentence

DECODINGS = ("viterbi", "constrained", "independent", "max_marginal", "sampled")
"""Ways to choose labels:

viterbi        the most probable labelling
constrained    the most probable one that is well-formed in the label scheme
independent    each token's best label by its own scores, without transitions
max_marginal   each token's most probable label: the fewest wrong labels are expected
sampled        a labelling drawn with its probability
"""


class Predictive(NamedTuple):
    """What a tagger says of a sentence, as a distribution over labellings.

    Attributes:
        potentials: Those by which labels are chosen.
        passes: Those of several passes, emissions `[M, T, L]`, whose probabilities are
            averaged; None: the probabilities are those of `potentials`.
    """

    potentials: AnyPotentials
    passes: Potentials | None = None

    def mean(self, compute: Callable[[Any], Any]) -> Any:
        """Returns what `compute` makes of the potentials, averaged over the passes."""
        if self.passes is None:
            return compute(self.potentials)
        return inference.mean_over_passes(compute, self.passes)

    def log_mean(self, compute: Callable[[Any], Any]) -> Any:
        """Does as `mean`, for what is the log of a probability."""
        if self.passes is None:
            return compute(self.potentials)
        logs = inference.each_pass(compute, self.passes)
        return jax.nn.logsumexp(logs, axis=0) - math.log(len(logs))

    def map(self, change: Callable[[Any], Any]) -> Predictive:
        """Changes the potentials of all passes alike."""
        if self.passes is None:
            return Predictive(change(self.potentials))
        each = [change(self.potentials), change(self.passes)]
        return Predictive(*each)


def check(decoding: str, key: Array | None) -> None:
    """Checks the choice of a decoding.

    Raises:
        ValueError: It is unknown, or draws without a key.
    """
    if decoding not in DECODINGS:
        known = ", ".join(DECODINGS)
        hint = "; see jaxner.n_best" if decoding == "n_best" else ""
        raise ValueError(f"Unknown decoding {decoding!r}; known: {known}{hint}")
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
        params: What `load` returned; scores are divided by its temperature.
        sentence: One sentence; `jax.vmap` this function for a batch.
        key: Of the dropout masks; None: those of the config.
        num_samples: Passes with dropout, over which probabilities are averaged; None:
            as many as the tagger's config says. A refinement has one distribution.
        constrained: Whether ill-formed labellings are ruled out.
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
    """Computes the distribution of an ensemble: the mean of its members'.

    Labels are chosen by the logarithms of the mean marginals, without transitions: a
    mean of probabilities weighs the members equally, whereas a mean of scores weighs
    one the more, the larger its scores are.
    """

    def member(weights):
        potentials = models.predict(params.model, weights, sentence, key)
        if isinstance(params.temperature, float) and params.temperature == 1.0:
            return potentials
        return inference.at_temperature(potentials, params.temperature)

    passes: Any = jax.vmap(member)(params.weights)
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
    """Returns what the label scheme allows.

    A separator ends and begins sentences, as a token outside of all spans does.
    """
    allowed = schemes.allowed(outside_at_separators(vocabulary), vocabulary.scheme)
    return inference.Constraints(*map(jnp.asarray, allowed))


def outside_at_separators(vocabulary: Vocabulary) -> list[str]:
    """Returns the label names, `O` in the place of that of separators."""
    return ["O" if name == SEPARATOR else name for name in vocabulary.label_names]


def choose(
    params: Tagger,
    sentence: Sentence,
    key: Array | None = None,
    *,
    decoding: str = "viterbi",
    constrained: bool = False,
) -> Int[Array, " T"]:
    """Chooses the label ids of one sentence; 0 under padding.

    Args:
        params: What `load` returned.
        sentence: One sentence; `jax.vmap` this function for a batch.
        key: Of dropout masks and of draws.
        decoding: One of `DECODINGS`.
        constrained: Whether ill-formed labellings are ruled out.

    Raises:
        ValueError: As `check`; or the head is autoregressive, and the decoding needs
            probabilities.
    """
    check(decoding, key)

    def label(params: Tagger, sentence: Sentence, key: Any) -> Any:
        return _choose(params, sentence, key, decoding, constrained)

    return models.automatic(label, params, sentence, key)


def _choose(params: Tagger, sentence: Sentence, key, decoding: str, constrained: bool):
    mask = sentence.mask
    if isinstance(params, Ensemble) and decoding != "max_marginal":
        constrained = constrained or decoding == "constrained"
        found = predict(params, sentence, key, constrained=constrained)
        if decoding == "sampled":
            return draw(found, sentence, key)
        return inference.viterbi(found.potentials, mask)
    if decoding in ("viterbi", "constrained"):
        potentials = models.predict(params.model, params.weights, sentence, key)
        if constrained or decoding == "constrained":
            potentials = inference.constrain(potentials, constraints(params.vocabulary))
        return inference.viterbi(potentials, mask)
    if decoding == "independent":
        potentials = models.predict(params.model, params.weights, sentence, key)
        alone = _without_transitions(potentials)
        if constrained:
            alone = inference.constrain(alone, constraints(params.vocabulary))
        return inference.viterbi(alone, mask)
    found = predict(params, sentence, key, constrained=constrained)
    if decoding == "max_marginal":
        chances = found.mean(lambda p: inference.marginals(p, mask))
        return jnp.argmax(chances, axis=-1).astype(jnp.int32)
    return draw(found, sentence, key)


def _without_transitions(potentials: AnyPotentials) -> Potentials:
    if not isinstance(potentials, Potentials):
        raise ValueError(
            "Each label of an autoregressive head (head 'seq2seq') depends on all "
            "before it: there are no independent labels. Take another decoding."
        )
    return Potentials(potentials.emissions)


def draw(found: Predictive, sentence: Sentence, key: Any) -> Int[Array, " T"]:
    """Draws a labelling with its probability.

    Of several passes, one is drawn first. The draw depends on the key and the words,
    but neither on the batch nor on the padding.
    """
    mask = sentence.mask
    key = models.sentence_key(key, sentence)
    if found.passes is None:
        return inference.sample(found.potentials, mask, key)
    first, second = jax.random.split(key)
    number = jax.random.randint(first, (), 0, len(found.passes.emissions))
    return inference.sample(inference.one_pass(found.passes, number), mask, second)


def best_labellings(
    found: Predictive, sentence: Sentence, n: int
) -> tuple[Int[Array, "N T"], Float[Array, " N"]]:
    """Finds the n best labellings and their probabilities, the most probable first.

    Of several passes, they are those that the potentials which choose labels find
    best, by their mean probability. A labelling that does not exist has probability 0.
    """
    mask = sentence.mask
    labels, scores = inference.n_best(found.potentials, mask, n)

    def each(potentials):
        def one(y):
            return inference.log_probability(potentials, y, mask)

        return jnp.exp(jax.vmap(one)(labels))

    chances = jnp.where(jnp.isfinite(scores), found.mean(each), 0.0)
    if found.passes is None:
        return labels, chances
    order = jnp.argsort(-chances)
    return labels[order], chances[order]
