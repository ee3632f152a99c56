"""The steps of a run: batches in blocks, on several devices, all the same."""

import contextlib
import functools

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from jaxner import models
from jaxner.data import batching
from jaxner.training import cluster, objectives, optimizers, step
from jaxner.training.corpus import Corpus, character_rows
from jaxner.training.objectives import Objective
from tests.models import draws
from tests.sentences import spelled

LABELS, SEED, SIZE, LENGTH = 5, 3, 4, 24
CHIP = cluster.ONE_DEVICE
KEY = jax.random.fold_in(jax.random.key(SEED), 1)


@pytest.fixture(autouse=True)
def _costs(monkeypatch):
    """Neither blocks nor programs cost anything: else each small batch would be one."""
    monkeypatch.setattr(batching, "_BLOCK", 0)
    monkeypatch.setattr(batching, "_PROGRAM", 0)


def text(count=23, seed=0):
    """Sentences in which words occur again and again, one of them long; labels."""
    rng = np.random.default_rng(seed)
    chars = rng.integers(1, 20, (9, 6)) * (np.arange(6) < rng.integers(1, 7, (9, 1)))
    chars = np.pad(chars, ((0, 1), (0, 14)))
    chars[9] = rng.integers(1, 20, 20)
    sentences, labels = [], []
    for number in range(count):
        words = rng.integers(0, 9, rng.integers(1, LENGTH)).astype(np.int32)
        words[:1] = 9 if number == 3 else words[:1]
        mask = np.ones(len(words), bool)
        characters = chars[words].astype(np.int32)
        sentences.append(spelled(words + 2, characters, mask, 0 * words))
        labels.append(rng.integers(0, LABELS, len(words)).astype(np.int32))
    return sentences, labels


CNN = {"name": "cnn", "dim": 4, "num_filters": 3}


def model_with(chars, encoder="projection"):
    """A small model; what a step does with its batch is the same with any."""
    representation = {"words": {"dim": 6}, "chars": chars}
    return draws.build(
        num_labels=LABELS,
        num_trained=12,
        num_chars=20,
        representation={**representation, "dropout": 0.3, "word_dropout": 0.3},
        encoder={"name": encoder, "hidden_dim": 4},
        head={"name": "softmax", "dropout": 0.3},
    )


class Trainer:
    """A small model and its corpus; `options` are those of the optimizer."""

    def __init__(self, model, blocks, objective, place=CHIP, seeds=(SEED,), **options):
        self.seeds = seeds
        sizes = {"batch_size": SIZE, "num_blocks": blocks, "num_shapes": 2}
        self.corpus = Corpus(*text(), model, place=place, **sizes)
        self.batches = self.corpus.batches
        settings = {"name": "sgd", "learning_rate": 0.1, "clip_norm": 1.0, **options}
        tx = optimizers.build(settings, self.batches.num_batches)
        sizes = objectives.Sizes(SIZE, self.batches.mean_tokens)
        self.recipe = step.Recipe(model, tx, objective, sizes, place=place)
        self.weights = models.init(model, jax.random.key(0))
        params = self.weights["params"]
        stack = jax.tree.map(lambda a: jnp.stack([a] * len(seeds)), params)
        self.state = step.placed(jax.vmap(lambda p: step.init(p, tx))(stack), place)
        keys = [jax.random.fold_in(jax.random.key(seed), 1) for seed in seeds]
        keys = place.weights(jnp.stack(keys))
        self.waits = []
        options = {"compiling": lambda x: contextlib.nullcontext(self.waits.append(x))}
        self.step = step.Step(self.recipe, self.corpus, {}, keys, **options)

    def train(self, epochs=2):
        # A step takes nothing from the host: all has been put on the devices.
        with self.step, jax.transfer_guard("disallow"):
            for epoch in range(epochs):
                for plan, blocks, _ in self.corpus.epoch(self.seeds, epoch):
                    self.state = self.step(self.state, plan, blocks)
        return self.restart(0)

    def restart(self, number):
        return jax.tree.map(lambda a: np.asarray(a)[number], self.state)


def whole(indices):
    """A batch as drawn: one block, whose sentences do not share words."""
    sentences, labels = text()
    batch = batching.pad([sentences[i] for i in indices], LENGTH)
    return batch, batching.pad_labels([labels[i] for i in indices], LENGTH)


@functools.cache  # several tests have the same model
def value_and_grad_of(model, objective, sizes):
    def loss_of(params, batch, labels, number):
        weights = {"params": params, "frozen": {}}
        rows, key = jnp.arange(len(labels)), jax.random.fold_in(KEY, number)
        return objectives.sentence_loss(
            model, weights, batch, labels, rows, key, objective, sizes
        ) + objectives.weight_loss(model, params, objective)

    return jax.jit(jax.value_and_grad(loss_of))


def by_definition(trainer, epochs=2):
    """The same steps by `jax.grad` of the loss of each whole batch."""
    recipe, params = trainer.recipe, trainer.weights["params"]
    value_and_grad = value_and_grad_of(recipe.model, recipe.objective, recipe.sizes)
    update = jax.jit(recipe.tx.update)
    count, opt_state, total = 0, recipe.tx.init(params), 0.0
    for epoch in range(epochs):
        for rows in trainer.batches.draw(SEED, epoch):
            rows = rows[rows < len(trainer.batches.sentences)]
            loss, grads = value_and_grad(params, *whole(rows), count)
            updates, opt_state = update(grads, opt_state, params)
            params = optax.apply_updates(params, updates)
            count, total = count + 1, total + loss
    return step.State(count, params, opt_state, {"loss": total})


def assert_close(state, expected):
    assert int(state.step) == int(expected.step) > 0
    pairs = zip(jax.tree.leaves(state), jax.tree.leaves(expected), strict=True)
    for left, right in pairs:
        np.testing.assert_allclose(left, right, rtol=2e-4, atol=2e-6)


# One: the gradient and the update at once. None: blocks of several sizes.
@pytest.mark.slow
@pytest.mark.parametrize("blocks", [None, 1, 2])
def test_blocks_of_restarts_update_as_the_whole_batch_of_each(blocks):
    seeds = (7, SEED)
    trainer = Trainer(model_with(CNN), blocks, Objective(), seeds=seeds, momentum=0.9)
    steps = trainer.corpus.epoch(seeds, 0)
    assert max(len(sizes) for _, sizes, _ in steps) == (blocks or SIZE)
    trainer.train()
    assert_close(trainer.restart(1), by_definition(trainer))
    assert trainer.restart(1).step == 2 * trainer.batches.num_batches
    losses = trainer.state.sums["loss"]
    assert losses[0] != losses[1]
    programs = {*trainer.batches.shapes, *([None] if blocks != 1 else [])}
    assert len(trainer.waits) == len(programs)
    assert {*trainer.waits} == programs


@pytest.mark.slow
@pytest.mark.parametrize("blocks", [1, None])
def test_devices_take_the_steps_of_one(blocks):
    """Empty sentences fill a last batch of 3, and blocks of one sentence."""
    place = cluster.placement(2)
    trainer = Trainer(model_with(CNN), blocks, Objective(), place, momentum=0.9)
    assert {shape.rows for shape in trainer.batches.shapes} == {4 if blocks else 2}
    assert {len(a.sharding.device_set) for a in jax.tree.leaves(trainer.state)} == {2}
    assert_close(trainer.train(), by_definition(trainer))


@pytest.mark.slow
def test_all_terms_are_added_over_blocks_and_those_of_weights_once():
    terms = {"orthogonality": 0.1, "orthogonality_form": "identity"}
    objective = Objective("token", dropout_penalty=0.1, **terms)
    trainer = Trainer(model_with(None, "bilstm"), 4, objective, name="adam")
    assert_close(trainer.train(1), by_definition(trainer, 1))


def test_each_token_has_a_mask_of_characters_of_its_own():
    """With dropout among characters, a word that occurs twice is read twice."""
    assert character_rows(model_with(CNN)) == "distinct"
    assert character_rows(model_with(None)) == "none"
    noisy = model_with({**CNN, "dropout": 0.5})
    assert character_rows(noisy) == "token"
    chars = np.tile(np.arange(1, 7, dtype=np.int32), (2, 1))
    pair = spelled(np.array([3, 3], np.int32), chars, np.ones(2, bool))
    labels = np.zeros(2, np.int32)
    corpus = Corpus([pair] * 2, [labels] * 2, noisy, batch_size=2)
    ((plan, _, tokens),) = corpus.epoch([0], 0)
    assert sorted(plan.index[0].tolist()) == [1, 2, 3, 4]
    assert tokens == 4
