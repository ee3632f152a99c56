"""Monte Carlo dropout: several passes of one tagger, each with its own masks.

The passes are one `jax.vmap` over PRNG keys, so what comes before the first mask is
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
from jaxner.fields import Count, OneOf, Seed, check_fields
from jaxner.types import FORBIDDEN, AnyPotentials, Potentials, Sentence, Weights

PARTS = ("representation", "encoder", "head")
"""The parts of a tagger that may have dropout in a pass."""

AVERAGES = ("scores", "probabilities")
"""What is averaged over the passes before a label is chosen."""


class Keys(NamedTuple):
    """What one pass draws from; None switches a kind of noise off.

    Attributes:
        dropout: Dropout masks of the sentence.
        words: Which words count as unknown (word dropout).
        shared: Dropout masks that all sentences of a batch share.
        chars: Dropout among the characters of a batch whose sentences share them. None:
            each sentence draws its own masks, from `dropout`.
    """

    dropout: Array | None = None
    words: Array | None = None
    shared: Array | None = None
    chars: Array | None = None

    @classmethod
    def of(cls, key: Array) -> Keys:
        """Derives the keys of one sentence from one key."""
        return cls(key, jax.random.fold_in(key, 1), jax.random.fold_in(key, 2))

    def rngs(self) -> dict[str, Array]:
        """Gives the streams that are on, as Flax names them."""
        return {name: key for name, key in self._asdict().items() if key is not None}


@dataclasses.dataclass(frozen=True)
class MCDropout:
    """How labels are drafted when a tagger is used: in one pass, or in several.

    Attributes:
        num_samples: Passes with dropout, M; 0: one pass without.
        parts: Those of `PARTS` that have dropout in them. What comes before the first
            of them is the same in every pass.
        average: One of `AVERAGES`. Labels are chosen by the mean of the scores in the
            code of Gui et al. (2020), and by the mean of the probabilities in eq. 4 (of
            a CRF: of its marginals, token by token). How uncertain they are is told by
            the probabilities, in both.
        seed: Of the masks, where no key is given; see `sentence_key`.

    Raises:
        ValueError: A part or an average is unknown, or a number is none.
    """

    num_samples: Count = 0
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
    """Derives the key of a sentence from one key and its words.

    So every sentence has masks of its own, as in the authors' code, and yet neither the
    batch nor the padding decides them. Sentences of equal words have equal masks.
    """
    places = jnp.arange(len(sentence.words), dtype=jnp.uint32)
    # A sum over the tokens that tells their order; 2654435761 is Knuth's multiplier.
    mixed = (sentence.words.astype(jnp.uint32) + 1) * (2 * places + 1)
    mixed = (mixed ^ (mixed >> 15)) * jnp.uint32(2654435761)
    number = jnp.sum(jnp.where(sentence.mask, mixed, 0), dtype=jnp.uint32)
    return jax.random.fold_in(key, number)


def pass_keys(key: Array, num_samples: int) -> Array:
    """Derives the key of each pass; those of fewer passes are the first of more."""
    return jax.vmap(lambda i: jax.random.fold_in(key, i))(jnp.arange(num_samples))


def represent(
    model: nn.Module, weights: Weights, sentence: Sentence
) -> Float[Array, "T D"]:
    """Computes the features of each token without dropout.

    Draft and refinement may share them, and so may the passes. They are handed on, for
    where there is a loop in them (BERT's layers) XLA computes them each time.
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
    """Computes the draft's potentials in several passes.

    Args:
        model: What `build` returned.
        weights: What `init` returned, or its like after training.
        sentence: One sentence; `jax.vmap` this function for a batch.
        keys: One for each pass; see `pass_keys`.
        x: What `represent` returns, if it is known.

    Returns:
        Potentials whose emissions are `[M, T, L]`; the rest is the same in all passes.

    Raises:
        ValueError: The head's labels depend on all labels before them, so that it has
            no potentials.
    """

    def one(key):
        parts, keys = model.mc_dropout.parts, Keys.of(key)
        if "representation" not in parts:
            keys = keys._replace(words=None)
        potentials = _draft(model, weights, sentence, keys.rngs(), parts, x)
        if not isinstance(potentials, Potentials):
            raise ValueError(
                "Several passes of a head whose labels depend on all labels before "
                "them ('seq2seq') have no common scores; take 'softmax' or 'crf'"
            )
        return potentials.emissions, potentials._replace(emissions=None)

    # What no mask touches is not mapped, and is returned as it is.
    emissions, rest = jax.vmap(one, out_axes=(0, None))(keys)
    return rest._replace(emissions=emissions)


def probabilities(samples: Potentials, mask: Array) -> Float[Array, "M T L"]:
    """Computes p(label at t) in each pass: marginals, in the case of a CRF."""
    rest = samples._replace(emissions=None)
    each = jax.vmap(lambda e: inference.marginals(rest._replace(emissions=e), mask))
    return each(samples.emissions)


def predict(
    model: nn.Module, weights: Weights, sentence: Sentence, key: Array | None = None
):
    """Computes the potentials by which a tagger labels a sentence.

    Args:
        model: What `build` returned; its `mc_dropout` says how it drafts labels, its
            `refinement.threshold` which of them are replaced.
        weights: What `init` returned, or its like after training.
        sentence: One sentence; `jax.vmap` this function for a batch.
        key: Of the passes' masks; None: that of `mc_dropout.seed`.

    Returns:
        The draft's potentials. With a refinement: log-probabilities, the refinement's
        where the draft is uncertain, and else the draft's (of a CRF: its marginals).

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
    """Computes the draft's potentials in one pass without dropout.

    `x` is as in `sample`.
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

    The arguments are those of `predict` and `sample`. Probabilities, `[T, L]`, are None
    where there is one pass and nothing asks for them.
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
    """Averages the passes: the potentials to choose labels by, and probabilities.

    Args:
        samples: What `sample` returned.
        mask: Of the sentence.
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
    """Computes the refinement's potentials, given the probabilities of a draft."""
    x = represent(model, weights, sentence) if x is None else x
    output = model.apply(weights, x, sentence, chances, method="refine")
    refined: Any = _with_known_separators(model, output, sentence)
    return refined


def mix(draft: Potentials, refined: Potentials, uncertain: Array, mask: Array):
    """Takes the refinement's log-probabilities at the uncertain tokens.

    Independent labels are as likely as they were, so that the best labelling of the
    mixture is the mixture of the best ones, and may be constrained like any other. A
    CRF takes part by its marginals: each of its tokens then has the label that is
    likeliest there, which need not be that of its best labelling.
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
    """Gives the separators their label, which is the last one, and no token else."""
    if not model.separators:
        return potentials
    emissions = potentials.emissions
    is_label = jnp.arange(emissions.shape[1]) == emissions.shape[1] - 1
    is_separator = sentence.mask & (sentence.words == 0)
    fits = is_separator[:, None] == is_label[None]
    return potentials._replace(emissions=jnp.where(fits, emissions, FORBIDDEN))
