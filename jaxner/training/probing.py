"""Probing: trains a small model on a probe, in one compiled loop, and tests it.

Shape letters: `B` sentences, `T` tokens.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import flax.linen as nn
import jax
import numpy as np
import optax
from jaxtyping import Array, Float, Int

from jaxner import inference, models, tagger
from jaxner.data import batching, probes
from jaxner.data.probes import Case, Probe
from jaxner.data.vocabulary import Vocabulary
from jaxner.data.vocabulary import build as build_vocabulary
from jaxner.training import objectives
from jaxner.training.objectives import Objective
from jaxner.types import Sentence, Weights

SOFTMAX = {"name": "softmax"}
WORDS = {"words": {"dim": 16}}


class Result(NamedTuple):
    """The share of scored test tokens with the right label, and all test labels."""

    accuracy: float
    labels: tuple[tuple[str, ...], ...]


def fit(
    probe: Probe,
    *,
    encoder: Mapping[str, Any] | nn.Module,
    head: Mapping[str, Any] = SOFTMAX,
    representation: Mapping[str, Any] = WORDS,
    objective: Mapping[str, Any] = {},
    steps: int = 500,
    learning_rate: float = 0.01,
    seed: int = 0,
) -> Result:
    """Returns the test labels of a model trained on a probe with Adam.

    Every step uses all training sentences, without dropout, whatever the options say.
    Success shows that a model can do the task. Failure only shows that it did not learn
    the task, unless there is a proof. Many blocks with identity initialisation, IDCNN's
    default, hardly learn from the far end of their field, since all taps on the way are
    zero.

    Args:
        encoder: Options or your own module, as for `models.build`; so are `head` and
            `representation`.
        objective: Options of `Objective`.
        learning_rate: Adam's initial rate, which falls linearly to zero.

    Raises:
        ValueError: An option is unknown.

    Example:
        >>> from jaxner.data import probes
        >>> fit(probes.xor(), encoder={"name": "grn", "hidden_dim": 16}).accuracy
        1.0
        >>> baseline = {"name": "bilstm", "hidden_dim": 8, "cross": False}
        >>> fit(probes.xor(), encoder=baseline).accuracy <= 0.75
        True
    """
    parts: Any = {"encoder": encoder, "head": head, "representation": representation}
    vocabulary, model = build(probe, **parts)
    batch, labels = encode(vocabulary, probe.train)
    test, _ = encode(vocabulary, probe.test)
    how = Objective.of(objective)
    weights = models.init(model, jax.random.key(seed))
    ids = _fit(model, how, weights, batch, labels, test, steps, learning_rate)
    predicted = tuple(
        tuple(vocabulary.decode(row[: len(case.tokens)]))
        for row, case in zip(np.asarray(ids), probe.test, strict=True)
    )
    return Result(probe.accuracy(predicted), predicted)


def build(
    probe: Probe,
    *,
    encoder: Mapping[str, Any] | nn.Module,
    head: Mapping[str, Any] = SOFTMAX,
    representation: Mapping[str, Any] = WORDS,
) -> tuple[Vocabulary, models.Model]:
    """Returns the vocabulary of a probe, and the model that `fit` trains."""
    tokens = [case.tokens for case in probe.train]
    vocabulary, _ = build_vocabulary(tokens, probe.types, scheme=probes.SCHEME)
    parts: dict[str, Any] = {"encoder": encoder, "head": head}
    return vocabulary, tagger.build(vocabulary, representation=representation, **parts)


def encode(
    vocabulary: Vocabulary, cases: Sequence[Case]
) -> tuple[Sentence, Int[np.ndarray, "B T"]]:
    """Returns sentences as one batch, and the label ids."""
    sentences = [vocabulary.encode(case.tokens) for case in cases]
    gold = [vocabulary.label_ids(case.labels) for case in cases]
    length = max(len(s.words) for s in sentences)
    return batching.pad(sentences, length), batching.pad_labels(gold, length)


@functools.partial(jax.jit, static_argnames=("model", "objective"))
def _fit(
    model: models.Model,
    objective: Objective,
    weights: Weights,
    batch: Sentence,
    labels: Int[Array, "B T"],
    test: Sentence,
    steps: int | Int[Array, ""],
    learning_rate: float | Float[Array, ""],
) -> Int[Array, "B T"]:
    """Returns test labels after all steps; one program for any steps and rate."""
    # Context through many layers has a small gradient at first. Adam takes long steps
    # along it once β2 lets it forget earlier large gradients: 0.9, as in Strubell et
    # al. (2017); with 0.999, most deep encoders stay at chance. The falling rate ends
    # the long steps.
    tx = optax.adam(lambda count: learning_rate * (1 - count / steps), b2=0.9)
    frozen = weights["frozen"]

    def loss_of(params):
        weights = {"params": params, "frozen": frozen}
        return objectives.batch_loss(model, weights, batch, labels, None, objective)

    def step(_, state):
        params, opt_state = state
        updates, opt_state = tx.update(jax.grad(loss_of)(params), opt_state, params)
        return optax.apply_updates(params, updates), opt_state

    state = weights["params"], tx.init(weights["params"])
    params, _ = jax.lax.fori_loop(0, steps, step, state)

    def best(sentence):
        weights = {"params": params, "frozen": frozen}
        return inference.viterbi(models.apply(model, weights, sentence), sentence.mask)

    return jax.vmap(best)(test)
