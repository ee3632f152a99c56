"""Objectives: the reductions, and that empty sentences do not count."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxner import models
from jaxner.data.batching import Shape, pad
from jaxner.training import objectives, optim, step
from jaxner.types import Sentence

batch_loss = jax.jit(objectives.batch_loss, static_argnames=("model", "reduction"))


@pytest.fixture(scope="module")
def setting():
    model = models.build(
        num_labels=3,
        num_trained_words=20,
        num_frozen_words=0,
        num_chars=5,
        representation={"words": {"dim": 4}, "chars": None, "dropout": 0.0},
        encoder={"name": "grn", "hidden_dim": 4},
        head={"name": "crf", "dropout": 0.0},
    )
    rng = np.random.default_rng(0)
    sentences = [
        Sentence(
            rng.integers(1, 20, n).astype(np.int32),
            np.ones((n, 1), np.int32),
            np.ones(n, bool),
        )
        for n in (2, 5)
    ]
    labels = [rng.integers(0, 3, n).astype(np.int32) for n in (2, 5)]
    return model, models.init(model, 0), sentences, labels


def batch_of(sentences, labels, count):
    padded = np.zeros((count, 6), np.int32)
    for row, ids in zip(padded, labels, strict=False):
        row[: len(ids)] = ids
    return pad(sentences, Shape(6, 1), count), jnp.asarray(padded)


@pytest.mark.parametrize(
    ("reduction", "divisor"), [("sentence", 2), ("token", 7), ("sum", 1)]
)
@pytest.mark.parametrize("count", [2, 5])
def test_reductions(setting, reduction, divisor, count):
    model, weights, sentences, labels = setting
    alone = [
        batch_loss(model, weights, *batch_of([s], [y], 1), None, "sum")
        for s, y in zip(sentences, labels, strict=True)
    ]
    batch = batch_of(sentences, labels, count)
    found = batch_loss(model, weights, *batch, None, reduction)
    assert float(found) == pytest.approx(float(sum(alone)) / divisor, rel=1e-5)


def test_unknown_reduction(setting):
    model, weights, sentences, labels = setting
    with pytest.raises(ValueError, match="Unknown reduction 'mean'; known: sentence"):
        objectives.batch_loss(
            model, weights, *batch_of(sentences, labels, 2), None, "mean"
        )


def test_a_step_changes_every_parameter_and_counts(setting):
    model, weights, sentences, labels = setting
    tx = optim.build({"name": "sgd", "learning_rate": 0.1}, 1)
    state = step.init(jax.tree.map(jnp.copy, weights["params"]), tx)
    batch = batch_of(sentences, labels, 2)
    after = step.train_step(
        model, tx, state, {}, *batch, jax.random.key(0), reduction="sentence"
    )
    assert int(after.step) == 1
    assert float(after.loss) > 0
    for old, new in zip(
        jax.tree.leaves(weights["params"]), jax.tree.leaves(after.params), strict=True
    ):
        assert not np.array_equal(old, new)
