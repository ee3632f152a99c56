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
from jaxner.fields import OneOf, Weight, check_fields
from jaxner.models import Keys
from jaxner.types import AnyPotentials, Potentials, Sentence, Weights, batch_axes

REDUCTIONS = ("sentence", "token", "sum")
"""How the papers add sentences up: the mean over the sentences of a batch, the mean
over its tokens, or the sum. Published learning rates are tied to them."""

STAGES = ("last", "mean", "sum")
"""Which stages of a model are held against the labels: the last one alone, all with
equal weights that sum to 1, or all with a weight of 1."""

DROPOUT_PENALTIES = ("strubell", "ma")
"""How expectation-linear dropout is scaled; see `dropout_gap`."""

ORTHOGONALITY_FORMS = ("pairs", "identity")
"""What the penalty on the units of an LSTM wants: that each two are orthogonal, or also
that the kernel of each has a norm of 1; see `orthogonality`."""


@dataclasses.dataclass(frozen=True)
class Objective:
    """What is minimised; hashable, so that a compiled step can depend on it.

    Attributes:
        reduction: One of `REDUCTIONS`.
        stages: One of `STAGES`. The dropout penalty is over the same stages.
        dropout_penalty: Weight of expectation-linear dropout; 0: none.
        dropout_penalty_form: One of `DROPOUT_PENALTIES`.
        orthogonality: Weight of `orthogonality`; 0: none.
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
        """Reads the section `objective` of a config.

        Raises:
            ValueError: An option or a value is unknown.
        """
        known = [field.name for field in dataclasses.fields(cls)]
        for option in options:
            if option not in known:
                raise ValueError(f"Unknown option objective.{option}; known: {known}")
        return cls(**options)


def negative_log_likelihood(
    potentials: AnyPotentials, labels: Int[Array, " T"], mask: Bool[Array, " T"]
) -> Float[Array, ""]:
    """Computes -log p(labels | sentence), in nats; 0 for a sentence without tokens.

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
    """Computes the squared distance of the emissions with dropout and without.

    Its expectation is what expectation-linear dropout keeps small, and one draw of the
    masks estimates it. Strubell et al. add half of it for each sentence of the batch,
    whatever the batch's size; Ma et al. the mean over the sentences. Both gradients go
    through both passes. (The authors' code of the former counts padding, too.)

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
            "objective.dropout_penalty compares scores of labels, which head 'seq2seq' "
            "has none of before its labels are known; set it to 0"
        )
    gap = jnp.sum((dropped.emissions - full.emissions) ** 2, axis=1)
    return jnp.sum(jnp.where(mask, gap, 0.0))


def orthogonality(
    kernels: Sequence[Float[Array, "K N N"]], form: str = "pairs"
) -> Float[Array, ""]:
    """Computes the penalty on units that compute alike, over all layers and directions.

    The rows of Φ are the recurrent kernels of the units' cell candidates, flattened.
    The paper does not say whether Φ is one per direction; here it is.

    "identity" is the letter of the paper's equation, ‖ΦΦᵀ - I‖². Its diagonal also
    pulls the squared norm of each kernel to 1, where Glorot's draw gives about the size
    of the state, 32: that starves the units. "pairs", the default, leaves the diagonal
    out, and so is what the paper's text wants: the sum over all pairs of units of their
    squared product, each pair in both orders.

    Args:
        kernels: Those of the units, for each layer and direction, as
            `models.candidate_kernels` returns them.
        form: One of `ORTHOGONALITY_FORMS`.

    Raises:
        ValueError: There are none.

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
        raise ValueError("objective.orthogonality needs an encoder with LSTMs.")
    total = jnp.zeros(())
    for kernel in kernels:
        rows = kernel.reshape(kernel.shape[0], -1)
        products, same = rows @ rows.T, jnp.eye(len(rows))
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
    """Computes the loss of one batch; sentences without tokens do not count.

    Args:
        model: What `models.build` returned.
        weights: Its weights.
        batch: Sentences with a leading batch axis.
        labels: Label ids; ignored under padding.
        key: Source of all dropout; None for none.
        objective: The terms.

    Returns:
        In nats; by default the mean over the sentences.

    Example:
        >>> import jaxner
        >>> tagger = jaxner.load("runs/grn")
        >>> batch = jaxner.encode(tagger, [["Rome", "fell"]])
        >>> labels = jnp.array([tagger.vocabulary.label_ids(["S-LOC", "O"])])
        >>> float(batch_loss(tagger.model, tagger.weights, batch, labels)) > 0
        True
    """
    labels = jnp.asarray(labels)
    rows = jnp.arange(labels.shape[0])
    sizes = sizes_of(batch)
    loss = sentence_loss(model, weights, batch, labels, rows, key, objective, sizes)
    return loss + weight_loss(model, weights["params"], objective)


class Sizes(NamedTuple):
    """What the sums over a batch are divided by, if the objective asks for a mean.

    In training these are the same for all batches of a corpus, so that every sentence,
    or token, counts as much as any other, and the gradients of parts of a batch can be
    added.

    Attributes:
        sentences: In a batch.
        tokens: In a batch, on average.
    """

    sentences: Any
    tokens: Any


def sizes_of(batch: Sentence) -> Sizes:
    """Counts what a batch holds; at least 1 of each."""
    return Sizes(
        sentences=jnp.maximum(jnp.sum(batch.mask[:, 0]), 1),
        tokens=jnp.maximum(jnp.sum(batch.mask), 1),
    )


def weight_loss(
    model: models.Model, params: Any, objective: Objective
) -> Float[Array, ""]:
    """Computes the terms that depend on the weights alone."""
    if not objective.orthogonality:
        return jnp.zeros(())
    kernels = models.candidate_kernels(model.encoder, params["encoder"])
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
    """Computes the terms that are sums over sentences, of a batch or of a part of it.

    Args:
        model: What `models.build` returned.
        weights: Its weights.
        batch: Sentences with a leading batch axis.
        labels: Label ids; ignored under padding.
        rows: The place of each sentence in its batch, which decides its masks.
        key: Of the batch: source of all dropout; None for none.
        objective: The terms.
        sizes: What the sums are divided by.
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
    """Computes for each sentence the terms that are sums over sentences, [B] each."""

    def one(sentence, labels, keys):
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

    axes = batch_axes(batch)
    if key is None:
        return jax.vmap(lambda s, y: one(s, y, None), (axes, 0))(batch, labels)
    shared, drawn = jax.random.split(key)
    own = jax.vmap(lambda row: Keys.of(jax.random.fold_in(drawn, row)))(rows)
    keys = own._replace(shared=shared)
    if batch.chars.ndim == 2:
        chars = jax.random.fold_in(jax.random.fold_in(shared, 1), rows[0])
        keys = keys._replace(chars=chars)  # other blocks draw other masks
    key_axes: Any = Keys()._replace(dropout=0, words=0)  # others are the batch's
    return jax.vmap(one, in_axes=(axes, 0, key_axes))(batch, labels, keys)
