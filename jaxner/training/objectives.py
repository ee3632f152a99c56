"""Objectives: what training minimises, in nats. `B` sentences, `T` tokens.

The loss of a batch is a sum of named terms, each a pure function: the likelihood of the
labels, over the stages of the model, and regularisers.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from jaxner import inference, models
from jaxner.arguments import check_mapping
from jaxner.fields import OneOf, Weight, check_fields
from jaxner.models import Keys
from jaxner.types import AnyPotentials, Potentials, Sentence, Weights, batch_axes

REDUCTIONS = ("sentence", "token", "sum")
"""How a batch's losses combine: mean over sentences, mean over tokens, or sum.

Each published learning rate belongs to one of these.
"""

STAGES = ("last", "mean", "sum")
"""Stages that train on the labels: the last, the mean of all, or the sum of all."""

DROPOUT_PENALTIES = ("strubell", "ma")
"""Scales of expectation-linear dropout; see `dropout_gap`."""

ORTHOGONALITY_FORMS = ("pairs", "identity")
"""Penalties on LSTM units: orthogonal pairs, or kernels of norm 1 as well."""


@dataclasses.dataclass(frozen=True)
class Objective:
    """The terms of the loss; hashable, so that a compiled step can depend on them.

    Attributes:
        reduction: One of `REDUCTIONS`.
        stages: One of `STAGES`, also for the dropout penalty.
        dropout_penalty: Weight of expectation-linear dropout; 0 for none.
        dropout_penalty_form: One of `DROPOUT_PENALTIES`.
        orthogonality: Weight of `orthogonality`; 0 for none.
        orthogonality_form: One of `ORTHOGONALITY_FORMS`.

    Example:
        >>> Objective(reduction="token").stages
        'last'
    """

    reduction: Annotated[str, OneOf(REDUCTIONS)] = "sentence"
    stages: Annotated[str, OneOf(STAGES)] = "last"
    dropout_penalty: Weight = 0.0
    dropout_penalty_form: Annotated[str, OneOf(DROPOUT_PENALTIES)] = "strubell"
    orthogonality: Weight = 0.0
    orthogonality_form: Annotated[str, OneOf(ORTHOGONALITY_FORMS)] = "pairs"

    def __post_init__(self):
        check_fields(self)

    @classmethod
    def of(cls, options: Mapping[str, Any]) -> Objective:
        """Returns the objective of a config's section `objective`.

        Raises:
            ValueError: An option or a value is unknown.
        """
        check_mapping("objective", options, "{'reduction': 'token'}")
        known = [field.name for field in dataclasses.fields(cls)]
        for option in options:
            if option not in known:
                raise ValueError(f"Unknown option objective.{option}; known: {known}")
        return cls(**options)


def negative_log_likelihood(
    potentials: AnyPotentials, labels: Int[Array, " T"], mask: Bool[Array, " T"]
) -> Float[Array, ""]:
    """Returns -log p(labels | sentence), in nats; 0 for a sentence without tokens.

    Example:
        >>> import jax.numpy as jnp
        >>> potentials, one = Potentials(jnp.zeros((1, 2))), jnp.array([True])
        >>> float(jnp.exp(-negative_log_likelihood(potentials, jnp.array([0]), one)))
        0.5
    """
    gold = inference.score(potentials, labels, mask)
    return inference.log_partition(potentials, mask) - gold


def dropout_gap(
    dropped: AnyPotentials, full: AnyPotentials, mask: Bool[Array, " T"]
) -> Float[Array, ""]:
    """Returns the squared distance between the emissions with and without dropout.

    Expectation-linear dropout keeps the expectation of this distance small; one draw of
    the masks estimates it. Strubell et al. add half the distance for each sentence,
    regardless of batch size; Ma et al. add the mean over the sentences. The gradient
    flows through both passes. (Strubell et al.'s code also counts padding.)

    Example:
        >>> import jax.numpy as jnp
        >>> one, two = (Potentials(jnp.full((2, 2), x)) for x in (1.0, 2.0))
        >>> float(dropout_gap(one, two, jnp.array([True, False])))
        2.0

    References:
        Ma, Gao, Hu, Yu, Deng and Hovy, "Dropout with Expectation-linear
        Regularization", ICLR 2017; Strubell et al. (2017), section 4.3.
    """
    if not (isinstance(dropped, Potentials) and isinstance(full, Potentials)):
        raise ValueError(
            "objective.dropout_penalty needs scores of labels that do not depend on "
            "earlier labels, which head 'seq2seq' lacks; set it to 0"
        )
    gap = jnp.sum((dropped.emissions - full.emissions) ** 2, axis=1)
    return jnp.sum(jnp.where(mask, gap, 0.0))


def orthogonality(
    kernels: Sequence[Float[Array, "K N N"]], form: str = "pairs"
) -> Float[Array, ""]:
    """Returns the penalty on similar units, summed over layers and directions.

    The rows of Φ are the flattened recurrent kernels of the units' cell candidates. The
    paper does not say whether each direction has its own Φ; here it has. "identity" is
    literally the paper's equation, ‖ΦΦᵀ - I‖². Its diagonal pulls the squared norm of
    each kernel to 1, whereas Glorot's draw gives about the size of the state, 32; this
    starves the units. "pairs", the default, excludes the diagonal, in line with the
    paper's text: the sum over all pairs of units of their squared product, each pair in
    both orders.

    Args:
        kernels: Kernels of the units, for each layer and direction, from
            `models.candidate_kernels`.
        form: One of `ORTHOGONALITY_FORMS`.

    Raises:
        ValueError: `kernels` is empty.

    Example:
        >>> import jax.numpy as jnp
        >>> forward, backward = jnp.full((2, 1, 1), 3.0), jnp.zeros((2, 1, 1))
        >>> kernels = [forward, backward]
        >>> float(orthogonality(kernels))  # two units forwards, 9 in both orders
        162.0
        >>> float(orthogonality(kernels, "identity"))  # 9 - 1, and 0 - 1 backwards
        292.0

    References:
        Žukov-Gregorič et al. (2018), eq. 1, without its outer sum, whose index does not
        occur in it.
    """
    if not kernels:
        raise ValueError("objective.orthogonality needs an encoder with LSTMs")
    total = jnp.zeros(())
    for kernel in kernels:
        rows = kernel.reshape(kernel.shape[0], -1)
        products = jnp.dot(rows, rows.T, precision=jax.lax.Precision.HIGHEST)
        same = jnp.eye(len(rows))
        if form == "identity":
            total += jnp.sum((products - same) ** 2)
        else:
            total += jnp.sum(jnp.where(same > 0, 0.0, products) ** 2)
    return total


def batch_loss(
    model: models.Model,
    weights: Weights,
    batch: Sentence,
    labels: Int[Array | np.ndarray, "B T"],
    key: Array | None = None,
    objective: Objective = Objective(),
) -> Float[Array, ""]:
    """Returns the loss of one batch, in nats; ignores sentences without tokens.

    Args:
        model: What `models.build` returned.
        weights: Its weights.
        batch: Sentences with a leading batch axis.
        labels: Label ids; ignored under padding. On a mesh with Explicit axes they are
            moved to where the batch's sentences lie.
        key: Draws the dropout masks; None for no dropout.
        objective: The terms.

    Returns:
        The loss in nats; by default the mean over the sentences.

    Raises:
        TypeError: An argument has another type, or labels have another shape.

    Example:
        >>> import jaxner
        >>> tagger = jaxner.load("runs/grn")
        >>> batch = jaxner.encode(tagger, [["Rome", "fell"]])
        >>> labels = jnp.array([tagger.vocabulary.label_ids(["S-LOC", "O"])])
        >>> float(batch_loss(tagger.model, tagger.weights, batch, labels)) > 0
        True
    """
    models.check_inputs(model, weights, batch, key, is_batch=True)
    models.check_labels(labels, batch, getattr(model.head, "num_labels", None))
    if not isinstance(objective, Objective):
        raise TypeError(f"Expected a jaxner.Objective, got {objective!r}.")
    labels = jnp.asarray(labels)
    rows = jnp.arange(labels.shape[0])
    sizes = sizes_of(batch)
    loss = sentence_loss(model, weights, batch, labels, rows, key, objective, sizes)
    return loss + weight_loss(model, weights["params"], objective)


class Sizes(NamedTuple):
    """Divisors of the sums over a batch, for objectives with a mean.

    In training they are the same for all batches of a corpus, so that all sentences, or
    tokens, have equal weight, and gradients of parts of a batch can be added.

    Attributes:
        sentences: Sentences in a batch.
        tokens: Mean number of tokens in a batch.
    """

    sentences: Any
    tokens: Any


def sizes_of(batch: Sentence) -> Sizes:
    """Returns the numbers of sentences and tokens in a batch, at least 1 each."""
    return Sizes(
        sentences=jnp.maximum(jnp.sum(jnp.any(batch.mask, axis=1)), 1),
        tokens=jnp.maximum(jnp.sum(batch.mask), 1),
    )


def weight_loss(
    model: models.Model, params: Any, objective: Objective
) -> Float[Array, ""]:
    """Returns the terms that depend on the weights alone."""
    if not objective.orthogonality:
        return jnp.zeros(())
    kernels = models.candidate_kernels(params["encoder"])
    penalty = orthogonality(kernels, objective.orthogonality_form)
    return objective.orthogonality * penalty


def sentence_loss(
    model: models.Model,
    weights: Weights,
    batch: Sentence,
    labels: Int[Array, "B T"],
    rows: Int[Array, " B"],
    key: Array | None,
    objective: Objective,
    sizes: Sizes,
) -> Float[Array, ""]:
    """Returns the terms that are sums over sentences, for a batch or a part of it.

    Args:
        model: What `models.build` returned.
        weights: Its weights.
        batch: Sentences with a leading batch axis.
        labels: Label ids; ignored under padding.
        rows: Index of each sentence in its batch, which determines its masks.
        key: The batch's key, which draws the dropout masks; None for no dropout.
        objective: The terms.
        sizes: Divisors of the sums.
    """
    losses, gaps = _sentence_terms(model, weights, batch, labels, rows, key, objective)
    size = {"sum": 1, "token": sizes.tokens, "sentence": sizes.sentences}
    loss = jnp.sum(losses) / size[objective.reduction]
    if objective.dropout_penalty and key is not None:
        scale = {"strubell": 0.5, "ma": 1 / sizes.sentences}
        share = scale[objective.dropout_penalty_form]
        loss += objective.dropout_penalty * share * jnp.sum(gaps)
    return loss


def _sentence_terms(model, weights, batch, labels, rows, key, objective):
    """Returns the terms of each sentence, [B] each."""

    def terms(weights, sentence, labels, keys):
        def over_stages(term, *stages):
            chosen = list(zip(*stages, strict=True))
            chosen = chosen[-1:] if objective.stages == "last" else chosen
            total = jnp.sum(jnp.stack([term(*stage) for stage in chosen]))
            return total / (len(chosen) if objective.stages == "mean" else 1)

        stages, _ = models.apply_stages(model, weights, sentence, keys)
        loss = over_stages(
            lambda p: negative_log_likelihood(p, labels, sentence.mask), stages
        )
        if not objective.dropout_penalty or keys is None:
            return loss, jnp.zeros(())
        # Both passes see the same words.
        quiet = Keys(words=keys.words)
        full, _ = models.apply_stages(model, weights, sentence, quiet)
        return loss, over_stages(
            lambda p, q: dropout_gap(p, q, sentence.mask), stages, full
        )

    def one(sentence, labels, keys):
        return models.automatic(terms, weights, sentence, labels, keys)

    axes = batch_axes(batch)
    labels = models.beside(batch.words, labels)
    if key is None:
        return jax.vmap(lambda s, y: one(s, y, None), (axes, 0))(batch, labels)
    shared, drawn = jax.random.split(key)
    own = jax.vmap(lambda row: Keys.of(jax.random.fold_in(drawn, row)))(rows)
    own = models.beside(batch.words, own)
    keys = own._replace(shared=shared)
    if batch.chars.ndim == 2:
        chars = jax.random.fold_in(jax.random.fold_in(shared, 1), rows[0])
        keys = keys._replace(chars=chars)  # each block draws its own masks
    key_axes: Any = Keys()._replace(
        dropout=0, words=0
    )  # the other keys are the batch's
    return jax.vmap(one, in_axes=(axes, 0, key_axes))(batch, labels, keys)
