"""Objectives: what training minimises, in nats. `B` sentences, `T` tokens.

The loss of a batch is a sum of named terms, each a pure function: the likelihood of the
labels, over the stages of the model, and regularisers.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Annotated, Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jaxtyping import Array, Bool, Float, Int, PyTree

from jaxner import fields, inference, models
from jaxner.arguments import expect
from jaxner.errors import InputError
from jaxner.fields import Weight, check_fields
from jaxner.models import Keys
from jaxner.types import (
    FORBIDDEN,
    AnyPotentials,
    Potentials,
    Sentence,
    Weights,
    batch_axes,
)
from jaxner.wording import shown


@dataclasses.dataclass(frozen=True)
class Objective:
    """The terms of the loss; hashable, so that a compiled step can depend on them.

    Attributes:
        reduction: How the losses of a batch combine: mean over sentences, mean over
            tokens, or sum.
        stages: Stages of the encoder that train on the labels, and that the dropout
            penalty counts: the last, the mean of all, or their sum.
        dropout_penalty: Weight of expectation-linear dropout; 0 for none.
        dropout_penalty_form: "strubell" adds half the squared distance for each
            sentence, "ma" the mean over sentences.
        orthogonality: Weight of the penalty on similar LSTM units; 0 for none.
        orthogonality_form: "pairs" makes units orthogonal; "identity" also pulls the
            norm of each kernel to 1.
        retain: Weight of the cross-entropy to the labels of the run in `init_from`, at
            each token (Monaikul et al., AAAI 2021); 0 for none.
        partial: Whether O in the data may be any type that only that run knows.
        hidden_labels: Labels of these types.
        new_labels: Labels that only this run knows.
    """

    reduction: Literal["sentence", "token", "sum"] = "sentence"
    stages: Literal["last", "mean", "sum"] = "last"
    dropout_penalty: Weight = 0.0
    dropout_penalty_form: Literal["strubell", "ma"] = "strubell"
    orthogonality: Weight = 0.0
    orthogonality_form: Literal["pairs", "identity"] = "pairs"
    retain: Weight = 0.0
    partial: bool = False
    hidden_labels: Annotated[tuple[int, ...], fields.DERIVED] = ()
    new_labels: Annotated[tuple[int, ...], fields.DERIVED] = ()

    def __post_init__(self):
        check_fields(self)


def negative_log_likelihood(
    potentials: AnyPotentials,
    labels: Int[Array, " T"],
    mask: Bool[Array, " T"],
    hidden: tuple[int, ...] = (),
) -> Float[Array, ""]:
    """Returns -log p(labels | sentence), in nats; 0 for a sentence without tokens.

    With `hidden`, label 0 (O) stands for itself or one of these, and p is the sum over
    all labellings that agree.
    """
    total = inference.log_partition(potentials, mask)
    if not hidden or not isinstance(potentials, Potentials):
        return total - inference.score(potentials, labels, mask)
    emissions = potentials.emissions
    may_be = jnp.zeros(emissions.shape[1], bool).at[jnp.array((0, *hidden))].set(True)
    is_gold = jax.nn.one_hot(labels, emissions.shape[1], dtype=bool)
    agrees = jnp.where((labels == 0)[:, None], may_be[None], is_gold)
    numerator = potentials._replace(emissions=jnp.where(agrees, emissions, FORBIDDEN))
    return total - inference.log_partition(numerator, mask)


def forgetting(
    potentials: AnyPotentials,
    old_probabilities: Float[Array, "T L"],
    mask: Bool[Array, " T"],
    other_labels: tuple[int, ...],
) -> Float[Array, ""]:
    """Returns the cross-entropy of marginals to those of an old tagger, in nats.

    The `other_labels` count as label 0 (O), as the old tagger would say.
    """
    chances = inference.marginals(potentials, mask)
    sums = chances.at[:, 0].add(chances[:, jnp.array(other_labels, int)].sum(axis=1))
    terms = jnp.sum(old_probabilities * inference.logs(sums), axis=1)
    return -jnp.sum(jnp.where(mask, terms, 0.0))


def dropout_gap(
    noisy: AnyPotentials, full: AnyPotentials, mask: Bool[Array, " T"]
) -> Float[Array, ""]:
    """Returns the squared distance between the emissions with and without dropout.

    Expectation-linear dropout keeps the expectation of this distance small; one draw of
    the masks estimates it. Strubell et al. add half the distance for each sentence,
    regardless of batch size (their code also counts padding); Ma et al. add the mean
    over the sentences. The gradient flows through both passes.

    References:
        Ma, Gao, Hu, Yu, Deng and Hovy, "Dropout with Expectation-linear
        Regularization", ICLR 2017; Strubell et al. (2017), section 4.3.
    """
    if not (isinstance(noisy, Potentials) and isinstance(full, Potentials)):
        raise InputError("objective.dropout_penalty needs another head than 'seq2seq'")
    gap = jnp.sum((noisy.emissions - full.emissions) ** 2, axis=1)
    return jnp.sum(jnp.where(mask, gap, 0.0))


def orthogonality(
    kernels: Sequence[Float[Array, "K N N"]], form: str = "pairs"
) -> Float[Array, ""]:
    """Returns the penalty on similar units, summed over layers and directions.

    The rows of Φ are the flattened recurrent kernels of the units' cell candidates,
    from `models.candidate_kernels`; each direction has its own Φ. "identity" is the
    paper's equation, ‖ΦΦᵀ - I‖², whose diagonal pulls each kernel's squared norm from
    Glorot's (about the size of the state) to 1, and starves the units. "pairs" excludes
    the diagonal, in line with the paper's text: the squared products of all pairs of
    units, each in both orders.

    Raises:
        ValueError: `kernels` is empty.

    References:
        Žukov-Gregorič et al. (2018), eq. 1, without its outer sum over an unused index.
    """
    if not kernels:
        raise ValueError("objective.orthogonality needs an encoder with LSTMs")
    total = jnp.zeros(())
    for kernel in kernels:
        rows = kernel.reshape(kernel.shape[0], -1)
        products = jnp.dot(rows, rows.T, precision=jax.lax.Precision.HIGHEST)
        identity = jnp.eye(len(rows))
        wrong = products * (1 - identity) if form == "pairs" else products - identity
        total += jnp.sum(wrong**2)
    return total


Labels = Array | tuple[Array, Array]
"""Label ids, [B, T], perhaps with what an old tagger says, [B, T, L]."""


class Sizes(NamedTuple):
    """Divisors of the sums over a batch: its sentences, and its tokens.

    In training they are the same for all batches of a corpus, so that all sentences, or
    tokens, have equal weight, and gradients of parts of a batch can be added.
    """

    sentences: float | Array
    tokens: float | Array


def batch_loss(
    model: models.Model,
    weights: Weights,
    batch: Sentence,
    labels: Int[Array | np.ndarray, "B T"],
    key: Array | None = None,
    objective: Objective = Objective(),
) -> Float[Array, ""]:
    """Returns the loss of one batch, in nats.

    Args:
        batch: Sentences with a leading axis; those without tokens are ignored.
        labels: Label ids; ignored under padding. A constrained head gives ill-formed
            ones a loss of 1e30. On a mesh with Explicit axes they are
            moved to where the batch's sentences lie.
        key: Draws the dropout masks; None for no dropout.
        objective: The terms; by default the mean over the sentences.

    Raises:
        TypeError: An argument has another type, or labels have another shape.

    Example:
        >>> import jaxner
        >>> tagger = jaxner.load("runs/grn")
        >>> batch = jaxner.encode(tagger, [["Rome", "fell"]])
        >>> labels = jnp.array([tagger.vocabulary.label_ids(["S-LOC", "O"])])
        >>> float(jaxner.loss(tagger.model, tagger.weights, batch, labels)) > 0
        True
    """
    models.check_inputs(model, weights, batch, key, is_batch=True)
    _check_labels(labels, batch, getattr(model.head, "num_labels", None))
    expect(isinstance(objective, Objective), "a jaxner.Objective", objective)
    if objective.retain or objective.partial > bool(objective.hidden_labels):
        raise InputError("retain and partial need jaxner.train with init_from.")
    labels = jnp.asarray(labels)
    rows, is_sentence = jnp.arange(labels.shape[0]), jnp.any(batch.mask, axis=1)
    counts = jnp.sum(is_sentence), jnp.sum(batch.mask)
    sizes = Sizes(*(jnp.maximum(count, 1).astype(jnp.float32) for count in counts))
    loss = sentence_loss(model, weights, batch, labels, rows, key, objective, sizes)
    return loss + weight_loss(model, weights["params"], objective)


def _check_labels(labels: object, batch: Sentence, num_labels: int | None) -> None:
    """Raises an error unless labels fit a batch; checks ranges only outside `jit`."""
    shape, dtype = getattr(labels, "shape", None), getattr(labels, "dtype", None)
    is_whole = dtype is not None and jnp.issubdtype(dtype, jnp.integer)
    if shape != batch.words.shape or not is_whole:
        content = shown(labels) if shape is None else f"{dtype} {list(shape)}"
        raise TypeError(
            f"Expected an array of label ids, integers {list(batch.words.shape)} as of "
            f"the batch's words, got {content}."
        )
    if isinstance(labels, Tracer) or isinstance(batch.mask, Tracer):
        return
    ids = np.asarray(labels)[np.asarray(batch.mask)]
    wrong = ids[(ids < 0) | (ids >= (num_labels or ids.max(initial=0) + 1))]
    if wrong.size:
        bound = "" if num_labels is None else f" to {num_labels - 1}"
        raise InputError(
            f"Expected label ids from 0{bound} at the tokens of the batch, got "
            f"{wrong[0]}; under padding any id will do, such as 0."
        )


def weight_loss(
    model: models.Model, params: PyTree[Array], objective: Objective
) -> Float[Array, ""]:
    """Returns the terms that depend on the weights alone."""
    if not objective.orthogonality:
        return jnp.zeros((), jnp.float32)
    kernels = models.candidate_kernels(params.get("encoder", {}))
    penalty = orthogonality(kernels, objective.orthogonality_form)
    return objective.orthogonality * penalty


def sentence_loss(
    model: models.Model,
    weights: Weights,
    batch: Sentence,
    labels: Labels,
    rows: Int[Array, " B"],
    key: Array | None,
    objective: Objective,
    sizes: Sizes,
) -> Float[Array, ""]:
    """Returns the terms that are sums over sentences, for a batch or a part of it.

    `rows`, the index of each sentence in its batch, determines its dropout masks.
    """
    batch = jax.tree.map(jnp.asarray, batch)
    labels = models.beside(batch.words, labels)
    keys, key_axes = _keys(batch, rows, key)

    def over_stages(
        term: Callable[..., Array], *stages: Sequence[AnyPotentials]
    ) -> Array:
        groups = list(zip(*stages, strict=True))
        groups = groups[-1:] if objective.stages == "last" else groups
        total = jnp.sum(jnp.stack([term(*stage) for stage in groups]))
        return total / (len(groups) if objective.stages == "mean" else 1)

    def terms(weights: Weights, sentence: Sentence, labels: Labels, keys: Keys):
        """Returns the likelihood and the dropout gap of a sentence."""
        is_noisy, mask = keys.dropout is not None, sentence.mask
        stages, parts = model.apply(weights, sentence, train=is_noisy, rngs=keys.rngs())
        ids, old_probabilities = labels if isinstance(labels, tuple) else (labels, None)
        hidden = objective.hidden_labels
        loss = over_stages(
            lambda p: negative_log_likelihood(p, ids, mask, hidden), stages
        )
        if model.language_model is not None:
            loss += model.language_model.weight * jnp.sum(parts["neighbours"])
        if old_probabilities is not None:
            distance = forgetting(
                stages[-1], old_probabilities, mask, objective.new_labels
            )
            loss += objective.retain * distance
        if not objective.dropout_penalty or not is_noisy:
            return loss, jnp.zeros(())
        # Both passes see the same words.
        rngs = Keys(words=keys.words).rngs()
        full, _ = model.apply(weights, sentence, train=False, rngs=rngs)
        return loss, over_stages(lambda p, q: dropout_gap(p, q, mask), stages, full)

    operands = weights, batch, labels, keys
    axes = None, batch_axes(batch), 0, key_axes
    losses, gaps = jax.vmap(models.automatic(terms, operands), axes)(*operands)
    size = {"sum": 1, "token": sizes.tokens, "sentence": sizes.sentences}
    loss = jnp.sum(losses) / size[objective.reduction]
    if objective.dropout_penalty and key is not None:
        scale = {"strubell": 0.5, "ma": 1 / sizes.sentences}
        share = scale[objective.dropout_penalty_form]
        loss += objective.dropout_penalty * share * jnp.sum(gaps)
    return loss


def _keys(batch: Sentence, rows: Array, key: Array | None) -> tuple[Keys, Keys | None]:
    """Returns the keys of each sentence, and their axes: other keys are the batch's."""
    if key is None:
        return Keys(), None
    shared, base = jax.random.split(key)
    keys = jax.vmap(lambda row: Keys.of(jax.random.fold_in(base, row)))(rows)
    keys = models.beside(batch.words, keys)._replace(shared=shared)
    if batch.chars.ndim == 2:  # each block draws its own masks
        chars = jax.random.fold_in(jax.random.fold_in(shared, 1), rows[0])
        keys = keys._replace(chars=chars)
    return keys, Keys._make((0, 0, None, None))
