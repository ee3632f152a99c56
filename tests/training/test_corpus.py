"""The steps of a run: batches in blocks, on several devices, all the same."""

import contextlib
import functools
import itertools

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from jaxner import models
from jaxner.data import batching
from jaxner.data.batching import Batches
from jaxner.training import cluster, objectives, optim, step
from jaxner.training.corpus import Corpus
from jaxner.training.objectives import Objective
from tests.marks import slow
from tests.sentences import spelled

LABELS, SEED, SIZE = 5, 3, 4
KEY = jax.random.fold_in(jax.random.key(SEED), 1)


def text(count=23, seed=0):
    """Sentences in which words occur again and again, and their labels."""
    rng = np.random.default_rng(seed)
    chars = rng.integers(1, 20, (9, 6)) * (np.arange(6) < rng.integers(1, 7, (9, 1)))
    sentences, labels = [], []
    for _ in range(count):
        words = rng.integers(0, 9, rng.integers(1, 9)).astype(np.int32)
        mask = np.ones(len(words), bool)
        own = chars[words].astype(np.int32)
        sentences.append(spelled(words + 2, own, mask, 0 * words))
        labels.append(rng.integers(0, LABELS, len(words)).astype(np.int32))
    return sentences, labels


CNN = {"name": "cnn", "dim": 4, "num_filters": 3}
LSTM = {"name": "lstm", "dim": 4, "hidden_dim": 3}
NOISY = {**CNN, "dropout": 0.5}
PLAIN = Objective()
SMALL = "projection", "softmax"  # what a step does with its batch is the same with any
LARGE = "bilstm", "crf"


def model_with(chars, dropout=0.3, parts=SMALL):
    return models.build(
        num_labels=LABELS,
        num_trained_words=11,
        num_frozen_words=0,
        num_chars=20,
        representation={
            "words": {"dim": 6},
            "chars": chars,
            "dropout": dropout,
            "word_dropout": dropout,
        },
        encoder={"name": parts[0], "hidden_dim": 4},
        head={"name": parts[1], "dropout": dropout},
    )


@pytest.fixture
def make():
    def make(
        chars=CNN,
        blocks=1,
        objective=PLAIN,
        shapes=2,
        place=cluster.ALONE,
        parts=SMALL,
        **options,
    ):
        sentences, labels = text()
        model = model_with(chars, parts=parts)
        batches = Batches.make(
            sentences,
            labels,
            batch_size=SIZE,
            num_blocks=blocks,
            num_shapes=shapes,
            chars=step.character_rows(model),
            parts=place.num_parts,
        )
        given = {"name": "sgd", "learning_rate": 0.1, "clip_norm": 1.0, **options}
        tx = optim.build(given, batches.num_batches)
        sizes = objectives.Sizes(SIZE, batches.mean_tokens)
        recipe = step.Recipe(model, tx, objective, sizes)
        weights = models.init(model, jax.random.key(0))
        corpus = Corpus(
            batches,
            recipe,
            weights["frozen"],
            seed=SEED,
            place=place,
        )
        return corpus, recipe, place.state(step.init(weights["params"], tx))

    return make


def trained(corpus, state, epochs=2):
    state = jax.tree.map(jnp.copy, state)  # the one given stays as it is
    for epoch in range(epochs):
        for new, _ in corpus.epoch(state, epoch):
            state = new
    return state


def whole(drawn):
    """A batch as drawn: one block, whose sentences do not share words."""
    sentences, labels = text()
    batch = batching.pad([sentences[i] for i in drawn], 9)
    ids = np.zeros(batch.words.shape, np.int32)
    for row, i in zip(ids, drawn, strict=True):
        row[: len(labels[i])] = labels[i]
    return batch, ids


@functools.cache  # several tests have the same model
def value_and_grad_of(model, objective, sizes):
    def loss_of(params, batch, labels, number):
        weights = {"params": params, "frozen": {}}
        rows, key = jnp.arange(len(labels)), jax.random.fold_in(KEY, number)
        return objectives.sentence_loss(
            model, weights, batch, labels, rows, key, objective, sizes
        ) + objectives.weight_loss(model, params, objective)

    return jax.jit(jax.value_and_grad(loss_of))


def by_definition(batches, recipe, state, epochs=2):
    """The same steps by `jax.grad` of the loss of each whole batch."""
    value_and_grad = value_and_grad_of(recipe.model, recipe.objective, recipe.sizes)

    @jax.jit
    def update(params, opt_state, grads):
        updates, opt_state = recipe.tx.update(grads, opt_state, params)
        return optax.apply_updates(params, updates), opt_state

    count, params, opt_state, total = state
    for epoch in range(epochs):
        for drawn in batches.draw(SEED, epoch):
            loss, grads = value_and_grad(params, *whole(drawn), count)
            params, opt_state = update(params, opt_state, grads)
            count, total = count + 1, total + loss
    return step.State(count, params, opt_state, total)


def assert_close(state, other):
    assert int(state.step) == int(other.step) > 0
    pairs = zip(jax.tree.leaves(state), jax.tree.leaves(other), strict=True)
    for ours, theirs in pairs:
        np.testing.assert_allclose(ours, theirs, rtol=2e-4, atol=2e-6)


# --- Blocks ---------------------------------------------------------------------------


@pytest.mark.parametrize("blocks", [2, *slow(1, 3)])
@pytest.mark.parametrize(
    ("chars", "parts"),
    [(CNN, SMALL), *slow((CNN, LARGE), (LSTM, LARGE), (None, LARGE))],
)
def test_blocks_of_a_batch_update_as_the_whole_batch(make, chars, parts, blocks):
    corpus, recipe, state = make(chars, blocks, momentum=0.9, parts=parts)
    most = max(len(corpus.batches.blocks(d)) for d in corpus.batches.draw(SEED, 0))
    assert most == {1: 1, 2: 2, 3: 2}[blocks]  # of 4, 2 and 2 rows
    ours = trained(corpus, state)
    assert int(ours.step) == 2 * corpus.batches.num_batches
    assert_close(ours, by_definition(corpus.batches, recipe, state))


@pytest.mark.parametrize(
    "objective",
    [
        Objective("token", orthogonality=0.1),
        *slow(
            Objective("sum", dropout_penalty=0.1),
            Objective(dropout_penalty=0.1, dropout_penalty_form="ma"),
        ),
    ],
)
def test_all_terms_are_added_over_blocks_and_those_of_weights_once(make, objective):
    parts = LARGE if objective.orthogonality else SMALL  # it is of LSTMs
    corpus, recipe, state = make(None, 4, objective=objective, name="adam", parts=parts)
    assert corpus.batches.rows == 1
    ours = trained(corpus, state, epochs=1)
    assert_close(ours, by_definition(corpus.batches, recipe, state, epochs=1))


@pytest.mark.parametrize(("reduction", "share"), [("token", 2), *slow(("sentence", 1))])
def test_the_divisor_of_a_mean_is_the_same_for_all_batches(make, reduction, share):
    corpus, recipe, state = make(blocks=2, objective=Objective(reduction))
    batches = corpus.batches
    assert batches.mean_tokens == batches.num_tokens / 23 * SIZE
    divisor = {1: SIZE, 2: batches.mean_tokens}[share]
    added = jax.jit(step.add_block, static_argnums=0)
    for drawn in batches.draw(SEED, 0):
        loss = []
        for objective in (recipe.objective, Objective("sum")):
            sums = step.no_sums(state.params)
            its = recipe._replace(objective=objective)
            for _, block in batches.blocks(drawn):
                sums = added(its, state.params, {}, block, state.step, KEY, sums)
            loss.append(float(sums.loss))
        assert loss[0] * divisor == pytest.approx(loss[1], rel=1e-5)
    assert len(drawn) == 3  # the last one, too, which is smaller


compiled_loss = jax.jit(
    objectives.sentence_loss, static_argnames=("model", "objective")
)


def one_sentence(model, row, number, mates=(), chars=None):
    """The loss of sentence 0, which has mates without tokens that count."""
    sentences, labels = text()
    weights = models.init(model, jax.random.key(0))
    found = []
    for here in ([0, *mates], [*mates]):
        if not here:
            continue
        batches = Batches.make(
            [sentences[i] for i in here],
            [labels[i] for i in here],
            batch_size=len(here),
            chars=chars or step.character_rows(model),
        )
        ((_, block),) = batches.blocks(np.arange(len(here)))
        # The place in this little batch is no place in the real one.
        places = [row, *range(10, 20)] if here[0] == 0 else list(range(10, 20))
        block = block._replace(rows=np.array(places)[block.rows])
        key = jax.random.fold_in(KEY, number)
        sizes = objectives.Sizes(1, 1)
        loss = compiled_loss(model, weights, *block, key, Objective("sum"), sizes)
        found.append(float(loss))
    return found[0] - sum(found[1:])


def test_masks_depend_on_the_run_the_step_and_the_place_alone():
    model = model_with(CNN)
    loss = one_sentence(model, 2, 7)
    assert one_sentence(model, 2, 7, [3, 8, 5]) == pytest.approx(loss, rel=1e-4)
    assert one_sentence(model, 2, 7, [11]) == pytest.approx(loss, rel=1e-4)
    others = one_sentence(model, 1, 7), one_sentence(model, 2, 8)
    for other in others:
        assert other != pytest.approx(loss, rel=1e-3)


# --- Dropout among the characters -----------------------------------------------------


@pytest.mark.parametrize(
    ("chars", "listed"), [(CNN, "distinct"), (NOISY, "token"), (None, "none")]
)
def test_characters_are_listed_as_the_model_needs_them(chars, listed):
    assert step.character_rows(model_with(chars)) == listed


@pytest.mark.parametrize(("listed", "differ"), [("token", True), ("distinct", False)])
def test_each_token_has_a_mask_of_characters_of_its_own(listed, differ):
    model = model_with(NOISY, dropout=0.0)
    chars = np.tile(np.arange(1, 7, dtype=np.int32), (2, 1))
    twice = spelled(np.array([3, 3], np.int32), chars, np.ones(2, bool))
    labels = np.zeros(2, np.int32)
    batches = Batches.make([twice] * 2, [labels] * 2, batch_size=2, chars=listed)
    ((_, block),) = batches.blocks(np.arange(2))
    batch = jax.tree.map(jnp.asarray, block.sentences)
    weights, key = models.init(model, jax.random.key(0)), jax.random.key(0)
    rngs = models.Keys.of(key)._replace(chars=key).rngs()

    def represent(words, index, mask):
        sentence = batch._replace(words=words, char_index=index, mask=mask, caps=None)
        return model.apply(weights, sentence, train=True, rngs=rngs, method="represent")

    found = jax.vmap(represent)(batch.words, batch.char_index, batch.mask)
    features = np.asarray(found).reshape(4, -1)
    assert len(np.unique(features, axis=0)) == (4 if differ else 1)


def test_blocks_draw_other_masks_of_characters():
    model = model_with(NOISY, dropout=0.0)
    losses = [one_sentence(model, row, 7) for row in (0, 1, 1)]
    assert losses[1] == losses[2] != pytest.approx(losses[0], rel=1e-4)


@pytest.mark.slow
def test_a_model_with_dropout_among_the_characters_learns_in_blocks(make):
    corpus, _, state = make(NOISY, 2, learning_rate=0.3)
    losses = []
    for epoch in range(12):
        state = step.reset_loss(state)
        for new, _ in corpus.epoch(state, epoch):
            state = new
        losses.append(float(state.loss))
    assert np.isfinite(losses).all()
    assert losses[-1] < 0.98 * losses[0]


# --- Devices --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("blocks", "parts"), [(4, SMALL), *slow((4, LARGE), (1, LARGE))]
)
def test_devices_take_the_steps_of_one(make, blocks, parts):
    """Empty sentences fill a last batch of 3, and blocks of 1."""
    place = cluster.placement(2)
    corpus, _, state = make(CNN, blocks, place=place, parts=parts)
    assert {len(a.sharding.device_set) for a in jax.tree.leaves(state)} == {2}
    single, _, alone = make(CNN, blocks, parts=parts)
    assert_close(trained(corpus, state), trained(single, alone))


# --- Epochs ---------------------------------------------------------------------------


@pytest.mark.parametrize("blocks", [2, *slow(1)])
def test_an_epoch_goes_on_where_it_was_left(make, blocks):
    corpus, _, state = make(blocks=blocks)
    done, there = 0, []
    current = jax.tree.map(jnp.copy, state)
    for new, _ in corpus.epoch(current, 1):
        done += 1
        there.append((done, jax.tree.map(jnp.copy, new)))
        assert int(there[-1][1].step) == done
    assert done == corpus.batches.num_batches
    again, _, fresh = make(blocks=blocks)
    for skip, state in there[:-1]:
        state = jax.tree.map(jnp.copy, state)
        for new, _ in again.epoch(state, 1, skip):
            state = new
        assert_close(state, there[-1][1])
    assert not list(corpus.epoch(fresh, 1, done))


def test_steps_tell_their_tokens(make):
    corpus, _, state = make()
    drawn = corpus.batches.draw(SEED, 0)
    expected = [sum(len(corpus.batches.labels[i]) for i in one) for one in drawn]
    assert [tokens for _, tokens in corpus.epoch(state, 0)] == expected


# --- Programs -------------------------------------------------------------------------


@pytest.mark.parametrize("blocks", [2])
def test_a_program_is_compiled_once_for_each_shape(make, blocks):
    corpus, _, state = make(blocks=blocks)
    total = len(corpus.batches.shapes) + 1
    assert len(corpus.batches.shapes) > 1
    assert corpus.num_compiled() == (0, total)
    told = []

    @contextlib.contextmanager
    def compiling(what):
        told.append(what)
        yield

    for epoch in range(3):
        for new, _ in corpus.epoch(state, epoch, compiling=compiling):
            state = new
            assert corpus.num_compiled() == (len(told), total)
    assert len({*told}) == len(told) == total
    assert "Compiling the optimizer's step" in told
    rows = corpus.batches.rows
    wanted = f"Compiling shape 1 of {len(corpus.batches.shapes)} ({rows} sentences × "
    assert any(one.startswith(wanted) for one in told)


@pytest.mark.parametrize("blocks", [2, 1])
def test_a_compilation_that_is_broken_off_costs_no_step(make, blocks):
    corpus, _, state = make(blocks=blocks)
    again, _, fresh = make(blocks=blocks)
    done, calls = 0, itertools.count()

    class Compiling(contextlib.AbstractContextManager):
        """Breaks off every other compilation, at its end."""

        def __exit__(self, *error):
            if broken := next(calls) % 2 == 0:
                corpus._programs.popitem()
            return broken

    for _ in range(20):
        for new, _ in corpus.epoch(state, 0, done, lambda what: Compiling()):
            state, done = new, done + 1
    assert done == corpus.batches.num_batches
    for new, _ in again.epoch(fresh, 0):
        fresh = new
    assert_close(state, fresh)


def test_an_error_of_a_compilation_reaches_the_caller(make):
    corpus, _, state = make()

    @contextlib.contextmanager
    def compiling(what):
        yield
        raise ValueError(f"no memory: {what}")

    with pytest.raises(ValueError, match="no memory: Compiling shape"):
        next(corpus.epoch(state, 0, compiling=compiling))


@pytest.mark.slow
def test_training_known_words_alone_is_training_all():
    """A table of all words, trained densely, gives the same as the rows of the text."""
    sentences, labels = text()
    batches = Batches.make(
        sentences, labels, batch_size=SIZE, num_shapes=1, chars="none"
    )
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
        weights = models.init(model, jax.random.key(0))
        words = weights["params"]["representation"]["words"]
        words["trained"] = jnp.asarray(table[: 40 - frozen])
        if frozen:
            held = weights["frozen"]["representation"]["words"]
            held["vectors"] = jnp.asarray(table[40 - frozen :])
        options = {"name": "adam", "learning_rate": 0.05, "clip_norm": 1.0}
        tx = optim.build(options, batches.num_batches)
        sizes = objectives.Sizes(SIZE, batches.mean_tokens)
        recipe = step.Recipe(model, tx, Objective(), sizes)
        corpus = Corpus(batches, recipe, weights["frozen"], seed=SEED)
        state = trained(corpus, step.init(weights["params"], tx))
        ends.append(state.params)
    dense = ends[0]["representation"]["words"].pop("trained")
    rows = ends[1]["representation"]["words"].pop("trained")
    np.testing.assert_allclose(dense[:11], rows, rtol=1e-4, atol=1e-6)
    np.testing.assert_array_equal(dense[11:], table[11:])
    jax.tree.map(
        lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-6), *ends
    )
