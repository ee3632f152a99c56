"""Steps over the corpus on the device compute what single steps on the host do."""

import threading
import time

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxner import models
from jaxner.data import batching
from jaxner.data.batching import Batches
from jaxner.training import corpus as resident
from jaxner.training import objectives, optim, step
from jaxner.training.corpus import Corpus
from jaxner.types import Sentence
from tests import tiny

LABELS, KEY = 5, jax.random.fold_in(jax.random.key(3), 1)


def text(count=23, seed=0):
    """Sentences in which words occur again and again, and their labels."""
    rng = np.random.default_rng(seed)
    spelled = rng.integers(1, 20, (9, 6)) * (np.arange(6) < rng.integers(1, 7, (9, 1)))
    sentences, labels = [], []
    for _ in range(count):
        words = rng.integers(0, 9, rng.integers(1, 9))
        mask = np.ones(len(words), bool)
        sentences.append(
            Sentence(words + 2, spelled[words].astype(np.int32), mask, 0 * words)
        )
        labels.append(rng.integers(0, LABELS, len(words)).astype(np.int32))
    return sentences, labels


def model_with(chars, dropout=0.3):
    return models.build(
        num_labels=LABELS,
        num_trained_words=11,
        num_frozen_words=0,
        num_chars=20,
        representation={"words": {"dim": 6}, "chars": chars, "dropout": dropout},
        encoder={"name": "bilstm", "hidden_dim": 4},
        head={"name": "crf", "dropout": 0.0},
    )


CNN = {"name": "cnn", "dim": 4, "num_filters": 3}
LSTM = {"name": "lstm", "dim": 4, "hidden_dim": 3}


@pytest.fixture
def make():
    def make(chars=CNN, length=1, name="sgd", shapes=2, tell=print, **options):
        sentences, labels = text()
        batches = Batches.make(sentences, labels, batch_size=4, num_shapes=shapes)
        given = {"name": name, "learning_rate": 0.1, "clip_norm": 1.0, **options}
        tx = optim.build(given, batches.num_batches)
        model = model_with(chars)
        recipe = step.Recipe(model, tx, objectives.Objective())
        weights = models.init(model, 0)
        corpus = Corpus(
            batches,
            recipe,
            weights["frozen"],
            seed=3,
            steps_per_call=length,
            tell=tell,
        )
        return corpus, recipe, step.init(weights["params"], tx)

    return make


def trained(corpus, state, epochs=2):
    for epoch in range(epochs):
        for block in corpus.epoch(epoch):
            state = corpus.take_steps(state, block)
    return state


def by_single_steps(corpus, recipe, state, epochs=2):
    """The batches of the same order, one after the other, from the host."""
    for epoch in range(epochs):
        for block in corpus.epoch(epoch):
            bucket = corpus.batches.buckets[block.bucket]
            for i in range(block.count):
                rows = block.rows._replace(words=None)
                batch, labels = batching.take(bucket, rows, i)
                state = step.train_step(
                    recipe.model,
                    recipe.tx,
                    state,
                    {},
                    batch,
                    labels,
                    KEY,
                    objective=recipe.objective,
                )
    return state


def assert_close(state, other):
    assert int(state.step) == int(other.step) > 0
    pairs = zip(jax.tree.leaves(state), jax.tree.leaves(other), strict=True)
    for ours, theirs in pairs:
        np.testing.assert_allclose(ours, theirs, rtol=2e-4, atol=2e-6)


@pytest.mark.parametrize("length", [1, 3, 50])
@pytest.mark.parametrize(
    "chars",
    [
        CNN,
        pytest.param(LSTM, marks=pytest.mark.slow),
        pytest.param({**CNN, "dropout": 0.5}, marks=pytest.mark.slow),
        None,
    ],
)
def test_steps_in_one_call_are_single_steps(make, chars, length):
    corpus, recipe, state = make(chars, length, momentum=0.9)
    ours = trained(corpus, jax.tree.map(jnp.copy, state))
    assert int(ours.step) == 2 * corpus.batches.num_batches
    assert_close(ours, by_single_steps(corpus, recipe, state))


def test_steps_in_one_call_are_single_steps_with_adam(make):
    corpus, recipe, state = make(CNN, 3, name="adam")
    ours = trained(corpus, jax.tree.map(jnp.copy, state))
    assert_close(ours, by_single_steps(corpus, recipe, state))


@pytest.mark.parametrize(
    ("chars", "once"), [(CNN, True), ({**CNN, "dropout": 0.5}, False), (None, False)]
)
def test_words_are_read_once_where_no_mask_is_drawn_for_each(make, chars, once):
    corpus, _, _ = make(chars)
    blocks = list(corpus.epoch(0))
    assert all((block.rows.words is not None) == once for block in blocks)


def test_more_distinct_words_than_foreseen_are_read_all_the_same(make, monkeypatch):
    told = []
    corpus, recipe, state = make(CNN, 2, tell=told.append)
    monkeypatch.setattr(resident, "_programs", {})
    narrow(corpus, monkeypatch)
    assert corpus.compile(state) == 2
    assert not told
    ours = trained(corpus, jax.tree.map(jnp.copy, state), epochs=1)
    assert told == ["Compiling the steps of one more shape …"] * 2
    assert_close(ours, by_single_steps(corpus, recipe, state, epochs=1))


def narrow(corpus, monkeypatch):
    """Foresees fewer distinct words than any batch has."""
    rooms = [(2, most) for _, most in corpus.batches.rooms]
    monkeypatch.setitem(corpus.batches.__dict__, "rooms", rooms)


def test_examples_have_the_usual_shape_whatever_words_they_hold(make, monkeypatch):
    corpus, _, _ = make()
    narrow(corpus, monkeypatch)
    for block in corpus.batches.examples(3, True):
        tokens = corpus.batches.buckets[block.bucket].labels.shape[1]
        assert block.rows.words.shape == (3, 2)
        assert block.rows.places.shape == (3, 4, tokens)
    for block in corpus.batches.examples(3, False):
        assert block.rows.words is block.rows.places is None


@pytest.mark.parametrize(("chars", "count"), [(CNN, 2), (None, 0)])
def test_programs_that_are_left_for_later_are_counted(make, monkeypatch, chars, count):
    corpus, _, _ = make(chars)
    assert corpus.num_rare == 0  # there are so few words that all have room
    narrow(corpus, monkeypatch)
    assert corpus.num_rare == count


@pytest.mark.parametrize("length", [1, 2, 3])
def test_an_epoch_goes_on_where_it_was_left(make, length):
    corpus, _, _ = make(length=length)

    def batches(skip=0):
        return [
            rows.tolist()
            for block in corpus.epoch(1, skip)
            for rows in block.rows.rows[: block.count]
        ]

    for skip in range(corpus.batches.num_batches + 1):
        assert batches(skip) == batches()[skip:]


def test_blocks_tell_their_tokens(make):
    corpus, _, _ = make(length=3)
    tokens = [block.tokens for block in corpus.epoch(0)]
    assert sum(tokens) == corpus.batches.num_tokens


def test_everything_is_compiled_before_the_first_step(make, monkeypatch):
    monkeypatch.setattr(resident, "_programs", {})
    corpus, _, state = make(length=2)
    assert corpus.compile(state) == len(corpus.batches.shapes)
    assert corpus.compile(state) == 0
    lower = pytest.fail
    monkeypatch.setattr(corpus, "_lower", lambda *a: lower("compiled in an epoch"))
    trained(corpus, state)


@pytest.mark.parametrize(
    ("setting", "value"),
    [("jax_default_matmul_precision", "float32"), ("jax_debug_nans", True)],
)
def test_programs_of_another_setting_are_others(make, monkeypatch, setting, value):
    monkeypatch.setattr(resident, "_programs", {})
    corpus, _, state = make()
    count = len(corpus.batches.shapes)
    assert corpus.compile(state) == count
    again, _, _ = make()
    assert again.compile(state) == 0
    before = getattr(jax.config, setting)
    jax.config.update(setting, value)
    try:
        assert again.compile(state) == count
        assert again.compile(state) == 0
    finally:
        jax.config.update(setting, before)
    assert again.compile(state) == 0


def test_programs_of_another_device_are_others(make, monkeypatch):
    monkeypatch.setattr(resident, "_programs", {})
    corpus, _, state = make()
    block, other = next(corpus.epoch(0)), jax.devices()[1]
    states = state, jax.device_put(state, other), jax.device_put(state, other)
    names = [corpus._name(corpus._arguments(its, block)) for its in states]
    assert names[0] != names[1] == names[2]


def test_compiling_leaves_off_when_asked(make, monkeypatch):
    monkeypatch.setattr(resident, "_programs", {})
    corpus, _, state = make(length=2)
    assert corpus.compile(state, stop=True) == 0


class Later:
    """A request to stop that comes when the first program is being compiled."""

    def __init__(self):
        self.lowered = 0

    def __bool__(self):
        return self.lowered > 2


def test_compiling_can_be_left_off_half_way(make, monkeypatch):
    """More programs wait than there are cores, and nobody waits for them."""
    monkeypatch.setattr(resident, "_programs", {})
    monkeypatch.setattr(resident.os, "cpu_count", lambda: 1)
    corpus, _, state = make(shapes=6)
    assert len(corpus.batches.buckets) > 3
    stop, running = Later(), threading.Event()

    class Slow:
        def compile(self):
            running.wait(5)

    def lower(*arguments):
        stop.lowered += 1
        return Slow()

    monkeypatch.setattr(corpus, "_lower", lower)
    before = time.monotonic()
    try:
        assert corpus.compile(state, stop) == 0
        assert time.monotonic() - before < 4  # it would hang for good
    finally:
        running.set()


def test_examples_have_the_shapes_of_an_epoch(make):
    corpus, _, _ = make()
    blocks = list(corpus.batches.examples(3, True))
    assert [block.bucket for block in blocks] == list(range(len(blocks)))
    assert len(blocks) == len(corpus.batches.buckets)
    shapes = {jax.tree.map(np.shape, b.rows) for b in corpus.batches.examples(1, True)}
    seen = {jax.tree.map(np.shape, b.rows) for b in corpus.epoch(0)}
    assert shapes == seen


def test_the_oldest_programs_make_room(make, monkeypatch):
    monkeypatch.setattr(resident, "_programs", {})
    monkeypatch.setattr(resident, "_MOST_PROGRAMS", 1)
    corpus, recipe, state = make()
    assert len(corpus.batches.buckets) > 1
    ours = trained(corpus, jax.tree.map(jnp.copy, state), epochs=1)
    assert len(resident._programs) == 1
    assert_close(ours, by_single_steps(corpus, recipe, state, epochs=1))


def test_no_steps_in_a_call_are_refused(make):
    with pytest.raises(ValueError, match="steps_per_call must be at least 1, got 0"):
        make(length=0)


def test_training_known_words_alone_is_training_all():
    """A table of all words, trained densely, gives the same as the rows of the text."""
    sentences, labels = text()
    batches = Batches.make(sentences, labels, batch_size=4, num_shapes=1)
    rng = np.random.default_rng(0)
    table = rng.normal(size=(40, 6)).astype(np.float32)
    ends = []
    for frozen in (0, 29):
        model = models.build(
            num_labels=LABELS,
            num_trained_words=40 - frozen,
            num_frozen_words=frozen,
            num_chars=20,
            representation={"words": {"dim": 6}, "chars": None, "dropout": 0.0},
            encoder={"name": "bilstm", "hidden_dim": 4},
            head={"name": "crf", "dropout": 0.0},
        )
        weights = models.init(model, 0)
        words = weights["params"]["representation"]["words"]
        words["trained"] = jnp.asarray(table[: 40 - frozen])
        if frozen:
            held = weights["frozen"]["representation"]["words"]
            held["vectors"] = jnp.asarray(table[40 - frozen :])
        options = {"name": "adam", "learning_rate": 0.05, "clip_norm": 1.0}
        tx = optim.build(options, batches.num_batches)
        recipe = step.Recipe(model, tx, objectives.Objective())
        corpus = Corpus(batches, recipe, weights["frozen"], seed=3)
        state = trained(corpus, step.init(weights["params"], tx))
        ends.append(state.params)
    dense = ends[0]["representation"]["words"].pop("trained")
    rows = ends[1]["representation"]["words"].pop("trained")
    np.testing.assert_allclose(dense[:11], rows, rtol=1e-4, atol=1e-6)
    np.testing.assert_array_equal(dense[11:], table[11:])
    jax.tree.map(
        lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-6), *ends
    )


def test_steps_per_call_is_an_option_of_a_run(corpus, tmp_path):
    from train import main_run

    config = tiny.config(corpus, num_epochs=1)
    config.steps_per_call = 3
    assert main_run(config, tmp_path / "run")["best_epoch"] == 1
