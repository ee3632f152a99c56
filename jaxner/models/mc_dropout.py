"""Monte Carlo dropout: several passes of one tagger, each with its own masks.

The passes are one `jax.vmap` over PRNG keys, so everything before the first mask is
computed once. Shape letters: `M` passes, `T` tokens, `L` labels.

Gal and Ghahramani, "Dropout as a Bayesian Approximation", ICML 2016; Gui et al.,
"Uncertainty-Aware Label Refinement for Sequence Labeling", EMNLP 2020, eq. 4.
"""

from __future__ import annotations

import dataclasses
from typing import Annotated, Any, NamedTuple

import flax.linen as nn
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from jaxner import inference
from jaxner.fields import OneOf, Passes, Seed, check_fields
from jaxner.types import FORBIDDEN, AnyPotentials, Potentials, Sentence, Weights

PARTS = ("representation", "encoder", "head")
"""Parts of a tagger that can have dropout in a pass."""

AVERAGES = ("scores", "probabilities")
"""What to average over the passes before choosing labels."""


class Keys(NamedTuple):
    """The PRNG keys of one pass; None switches a kind of noise off.

    Attributes:
        dropout: For the dropout masks of the sentence.
        words: For word dropout: which words count as unknown.
        shared: For dropout masks that all sentences of a batch share.
        chars: For dropout on characters that the sentences of a batch share. None: each
            sentence draws its own masks from `dropout`.
    """

    dropout: Array | None = None
    words: Array | None = None
    shared: Array | None = None
    chars: Array | None = None

    @classmethod
    def of(cls, key: Array) -> Keys:
        """Returns the keys of one sentence, derived from one key."""
        return cls(key, jax.random.fold_in(key, 1), jax.random.fold_in(key, 2))

    def rngs(self) -> dict[str, Array]:
        """Returns the keys that are not None, by Flax's stream names."""
        return {name: key for name, key in self._asdict().items() if key is not None}


@dataclasses.dataclass(frozen=True)
class MCDropout:
    """How a tagger drafts labels at prediction time: in one pass or several.

    Attributes:
        num_samples: Number of passes with dropout, M; 0 for one pass without dropout.
        parts: Which of `PARTS` have dropout. Parts before the first of these are
            computed once.
        average: One of `AVERAGES`. The code of Gui et al. (2020) chooses labels by mean
            scores, eq. 4 by mean probabilities (for a CRF, mean marginals of each
            token). The uncertainty comes from the probabilities in both cases.
        seed: Seed of the masks if the caller gives no key; see `sentence_key`.

    Raises:
        ValueError: A part or average is unknown, or a number is negative or not an
            integer.
    """

    num_samples: Passes = 0
    parts: tuple[Annotated[str, OneOf(PARTS)], ...] = PARTS
    average: Annotated[str, OneOf(AVERAGES)] = "scores"
    seed: Seed = 0

    def __post_init__(self):
        given = (self.parts,) if isinstance(self.parts, str) else tuple(self.parts)
        object.__setattr__(self, "parts", given)
        check_fields(self)
        if not self.parts:
            raise ValueError(f"Expected parts of MCDropout, some of {', '.join(PARTS)}")


def sentence_key(key: Array, sentence: Sentence) -> Array:
    """Returns the key of a sentence, derived from one key and the sentence's words.

    Every sentence has its own masks, as in the authors' code, independent of batch and
    padding. Sentences with the same words have the same masks.
    """
    positions = jnp.arange(len(sentence.words), dtype=jnp.uint32)
    # An order-dependent hash of the words; 2654435761 is Knuth's multiplier.
    mixed = (sentence.words.astype(jnp.uint32) + 1) * (2 * positions + 1)
    mixed = (mixed ^ (mixed >> 15)) * jnp.uint32(2654435761)
    number = jnp.sum(jnp.where(sentence.mask, mixed, 0), dtype=jnp.uint32)
    return jax.random.fold_in(key, number)


def pass_keys(key: Array, num_samples: int) -> Array:
    """Returns the key of each pass; fewer passes get a prefix of the keys of more."""
    return jax.vmap(lambda i: jax.random.fold_in(key, i))(jnp.arange(num_samples))


def represent(
    model: nn.Module, weights: Weights, sentence: Sentence
) -> Float[Array, "T D"]:
    """Returns the features of each token without dropout.

    Draft, refinement and passes can share these features. Callers pass them on
    explicitly, because XLA would recompute any loop in them (BERT's layers) each time.
    """
    x: Any = model.apply(weights, sentence, train=False, method="represent")
    return x


def sample(
    model: nn.Module,
    weights: Weights,
    sentence: Sentence,
    keys: Array,
    x: Float[Array, "T D"] | None = None,
):
    """Returns the draft's potentials in several passes.

    Args:
        model: What `build` returned.
        weights: What `init` returned, or its like after training.
        sentence: One sentence; `jax.vmap` this function for a batch.
        keys: One for each pass; see `pass_keys`.
        x: What `represent` returned, if already computed.

    Returns:
        Potentials with emissions `[M, T, L]`; the other fields are the same in all
        passes.

    Raises:
        ValueError: The head is autoregressive ("seq2seq") and has no potentials.
    """

    def one(key):
        parts, keys = model.mc_dropout.parts, Keys.of(key)
        if "representation" not in parts:
            keys = keys._replace(words=None)
        potentials = _draft(model, weights, sentence, keys.rngs(), parts, x)
        if not isinstance(potentials, Potentials):
            raise ValueError(
                "Monte Carlo dropout needs head 'softmax' or 'crf': the passes of "
                "head 'seq2seq' have no common scores"
            )
        return potentials.emissions, potentials._replace(emissions=None)

    # Fields without dropout have no pass axis.
    emissions, rest = jax.vmap(one, out_axes=(0, None))(keys)
    return rest._replace(emissions=emissions)


def probabilities(samples: Potentials, mask: Array) -> Float[Array, "M T L"]:
    """Returns p(label at t) in each pass; for a CRF, its marginals."""
    rest = samples._replace(emissions=None)
    each = jax.vmap(lambda e: inference.marginals(rest._replace(emissions=e), mask))
    return each(samples.emissions)


def predict(
    model: nn.Module, weights: Weights, sentence: Sentence, key: Array | None = None
):
    """Returns the potentials by which a tagger labels a sentence.

    Args:
        model: What `build` returned; `mc_dropout` says how it drafts labels,
            `refinement.threshold` which labels the refinement replaces.
        weights: What `init` returned, or its like after training.
        sentence: One sentence; `jax.vmap` this function for a batch.
        key: Draws the masks of the passes; None for a key from `mc_dropout.seed`.

    Returns:
        The draft's potentials. With a refinement: log-probabilities, the refinement's
        where the draft is uncertain, the draft's elsewhere (for a CRF, log-marginals).

    References:
        Gui et al. (2020), section 3.3.
    """
    x = represent(model, weights, sentence)
    first, chances = drafted(model, weights, sentence, key, x)
    if model.refinement is None:
        return first
    refined = refine(model, weights, sentence, chances, x)
    uncertain = inference.entropy(chances) > model.refinement.threshold
    return mix(first, refined, uncertain, sentence.mask)


def draft(
    model: nn.Module,
    weights: Weights,
    sentence: Sentence,
    x: Float[Array, "T D"] | None = None,
) -> AnyPotentials:
    """Returns the draft's potentials in one pass without dropout.

    For `x`, see `sample`.
    """
    return _draft(model, weights, sentence, {}, PARTS, x)


def drafted(
    model: nn.Module,
    weights: Weights,
    sentence: Sentence,
    key: Array | None = None,
    x: Float[Array, "T D"] | None = None,
) -> tuple[Any, Any]:
    """Returns the draft's potentials, over all passes, and its label probabilities.

    For the arguments, see `predict` and `sample`. The probabilities, `[T, L]`, are None
    with a single pass and no refinement.
    """
    mc_dropout = model.mc_dropout
    if not mc_dropout.num_samples:
        single = draft(model, weights, sentence, x)
        wanted = model.refinement is not None
        return single, inference.marginals(single, sentence.mask) if wanted else None
    key = jax.random.key(mc_dropout.seed) if key is None else key
    keys = pass_keys(sentence_key(key, sentence), mc_dropout.num_samples)
    samples = sample(model, weights, sentence, keys, x)
    return average(samples, sentence.mask, mc_dropout.average)


def average(samples: Potentials, mask: Array, over: str):
    """Returns averages over the passes: potentials for decoding, and probabilities.

    Args:
        samples: What `sample` returned.
        mask: False under padding.
        over: One of `AVERAGES`.
    """
    chances = jnp.mean(probabilities(samples, mask), axis=0)
    if over == "scores":
        scores = jnp.mean(samples.emissions, axis=0)
        return samples._replace(emissions=scores), chances
    return Potentials(_log(chances)), chances


def refine(
    model: nn.Module,
    weights: Weights,
    sentence: Sentence,
    chances: Float[Array, "T L"],
    x: Float[Array, "T D"] | None = None,
) -> Potentials:
    """Returns the refinement's potentials, given the draft's probabilities."""
    x = represent(model, weights, sentence) if x is None else x
    output = model.apply(weights, x, sentence, chances, method="refine")
    refined: Any = _with_known_separators(model, output, sentence)
    return refined


def mix(draft: Potentials, refined: Potentials, uncertain: Array, mask: Array):
    """Returns log-probabilities: the refinement's where uncertain, else the draft's.

    With independent labels, the best labelling of the mixture is the mixture of the
    best labellings, and constraints apply as usual. A CRF contributes its marginals: a
    token's most probable label, which may differ from that of the best labelling.
    """
    logs = []
    for potentials in (draft, refined):
        if potentials.transitions is None:
            logs.append(jax.nn.log_softmax(potentials.emissions, axis=-1))
        else:
            logs.append(_log(inference.marginals(potentials, mask)))
    return Potentials(jnp.where(uncertain[:, None], logs[1], logs[0]))


def _log(chances):
    return jnp.log(jnp.maximum(chances, jnp.finfo(chances.dtype).tiny))


def _draft(model, weights, sentence, rngs, parts, x) -> Any:
    if rngs and "representation" in parts:
        x = model.apply(weights, sentence, train=True, rngs=rngs, method="represent")
    elif x is None:
        x = represent(model, weights, sentence)
    stages, _ = model.apply(
        weights, x, sentence, train=bool(rngs), parts=parts, rngs=rngs, method="draft"
    )
    return _with_known_separators(model, stages[-1], sentence)


def _with_known_separators(
    model: Any, potentials: Any, sentence: Sentence
) -> AnyPotentials:
    """Returns potentials that give separators, and only them, the last label."""
    if not model.separators:
        return potentials
    emissions = potentials.emissions
    is_label = jnp.arange(emissions.shape[1]) == emissions.shape[1] - 1
    is_separator = sentence.mask & (sentence.words == 0)
    fits = is_separator[:, None] == is_label[None]
    return potentials._replace(emissions=jnp.where(fits, emissions, FORBIDDEN))
