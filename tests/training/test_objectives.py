"""Objectives: reductions, stages, regularisers, and what does not count."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.test_util import check_grads

from jaxner import models
from jaxner.data.batching import Shape, pad, pad_labels
from jaxner.training import objectives
from jaxner.training.objectives import Objective
from tests.marks import slow
from tests.sentences import spelled

batch_loss = jax.jit(objectives.batch_loss, static_argnames=("model", "objective"))
# Not compiled: these tests run each of many programs once.
run_stages = models.apply_stages
run_nll = jax.jit(objectives.negative_log_likelihood)


def build(encoder, head, words=None, chars=None, **options):
    """A model of three labels."""
    sizes = {"num_labels": 3, "num_trained_words": 20, "num_frozen_words": 0}
    options = {"words": words or {"dim": 4}, "chars": chars, **options}
    return models.build(
        **sizes, num_chars=9, representation=options, encoder=encoder, head=head
    )


GRN = {"name": "grn", "hidden_dim": 4}
STAGED = {"name": "idcnn", "hidden_dim": 4, "dilations": (1,), "num_blocks": 3}
LSTM = {"name": "bilstm", "hidden_dim": 3, "num_units": 4, "num_layers": 2}


def staged(dropout=0.3, word_dropout=0.3, head="softmax", encoder=STAGED):
    """Three stages, and every kind of noise."""
    words = {"dim": 3, "initializer": "kaiming"}
    noise = {"dropout": dropout, "word_dropout": word_dropout}
    return build(encoder, {"name": head, "dropout": dropout}, words, **noise)


def random_weights(model, seed=0):
    rng = np.random.default_rng(seed)
    shapes = jax.eval_shape(lambda: models.init(model, jax.random.key(0)))
    return jax.tree.map(
        lambda leaf: jnp.asarray(rng.uniform(-0.6, 0.9, leaf.shape), leaf.dtype), shapes
    )


@pytest.fixture(scope="module")
def texts():
    """Two sentences and their labels."""
    rng = np.random.default_rng(0)
    sentences = [
        spelled(
            rng.integers(1, 20, n).astype(np.int32),
            np.ones((n, 1), np.int32),
            np.ones(n, bool),
        )
        for n in (2, 5)
    ]
    return sentences, [rng.integers(0, 3, n).astype(np.int32) for n in (2, 5)]


@pytest.fixture(scope="module")
def setting(texts):
    model = build(GRN, {"name": "crf", "dropout": 0.0}, dropout=0.0)
    return model, models.init(model, jax.random.key(0)), *texts


@pytest.fixture(scope="module")
def noisy(texts):
    """A model of three stages, its weights, and a batch of which a row is padding."""
    model = staged()
    return model, random_weights(model), *batch_of(*texts, 3)


def batch_of(sentences, labels, count, length=6):
    batch = pad(sentences, Shape(length, 2, 1), count)
    return batch, jnp.asarray(pad_labels(labels, length, count))


@pytest.mark.parametrize(
    ("reduction", "size", "mean"),
    [("sentence", 2, 8), ("token", 7, 30.5), ("sum", 1, 1)],
)
def test_reductions(setting, reduction, size, mean):
    """By the sizes of the batch, without its empty rows, or by the mean ones."""
    model, weights, sentences, labels = setting
    objective, sizes = Objective(reduction), objectives.Sizes(8, 30.5)
    args = model, weights
    alone = [
        batch_loss(*args, *batch_of([s], [y], 1), None, Objective("sum"))
        for s, y in zip(sentences, labels, strict=True)
    ]
    batch = batch_of(sentences, labels, 5)
    loss = batch_loss(*args, *batch, None, objective)
    assert float(loss) == pytest.approx(float(sum(alone)) / size, rel=1e-5)
    rows = jnp.arange(5)
    loss = objectives.sentence_loss(*args, *batch, rows, None, objective, sizes)
    assert float(loss) == pytest.approx(float(sum(alone)) / mean, rel=1e-5)
    assert batch_loss(*args, *batch_of([], [], 5), None, objective) == 0


@pytest.mark.parametrize("shared", [True, *slow(False)])
def test_shared_and_own_characters_give_the_same_loss(shared):
    """Reading words once per batch or in each sentence gives the same numbers."""
    chars = {"name": "cnn", "dim": 3, "num_filters": 2}
    model = build(GRN, {"name": "crf"}, chars=chars, dropout=0.3)
    rng = np.random.default_rng(2)
    spelling = rng.integers(1, 9, (20, 4)).astype(np.int32)
    words = [np.array(w, np.int32) for w in ([2, 3, 2], [3, 5], [7])]
    sentences = [spelled(w, spelling[w], np.ones(len(w), bool)) for w in words]
    batch = pad(sentences, Shape(6, 9, 4)) if shared else pad(sentences, 6)
    assert batch.chars.ndim == (2 if shared else 3)
    weights = models.init(model, jax.random.key(0))
    gold = np.zeros((3, 6), np.int32)
    loss = batch_loss(model, weights, batch, gold, jax.random.key(1))
    by_sentence = 0.0
    for i, sentence in enumerate(sentences):
        sentence = jax.tree.map(jnp.asarray, sentence)
        keys = keys_of(jax.random.key(1), i)
        stages, _ = run_stages(model, weights, sentence, keys)
        labels = np.zeros(len(words[i]), np.int32)
        by_sentence += float(run_nll(stages[-1], labels, sentence.mask)) / 3
    assert float(loss) == pytest.approx(by_sentence, rel=1e-4)


# --- Terms over the stages of a model -------------------------------------------------


def keys_of(key, index):
    """Keys of one sentence of a batch: its own ones, and that which all share."""
    shared, drawn = jax.random.split(key)
    keys = models.Keys.of(jax.random.fold_in(drawn, index))
    return keys._replace(shared=shared)


def row(batch, labels, i):
    item = jax.tree.map(lambda leaf: jnp.asarray(leaf[i]), batch._replace(chars=None))
    return item._replace(chars=jnp.asarray(batch.chars)), labels[i]


@pytest.mark.parametrize(
    ("name", "is_noisy"), [("softmax", False), *slow(("softmax", True), ("crf", True))]
)
def test_likelihood_of_the_stages(texts, name, is_noisy):
    model = staged(head=name)
    weights = random_weights(model)
    batch, gold = batch_of(*texts, 3)
    key = jax.random.key(7) if is_noisy else None
    expected = np.zeros(3)
    for i in range(2):
        sentence, labels = row(batch, gold, i)
        keys = keys_of(key, i) if is_noisy else None
        stages, _ = run_stages(model, weights, sentence, keys)
        expected += [run_nll(stage, labels, sentence.mask) for stage in stages]
    assert len(set(np.round(expected, 3))) == 3  # the stages do differ
    for stages, total in (
        ("last", expected[2]),
        ("mean", expected.mean()),
        ("sum", expected.sum()),
    ):
        objective = Objective("sum", stages)
        loss = objectives.batch_loss(model, weights, batch, gold, key, objective)
        assert float(loss) == pytest.approx(total, rel=1e-4)


def penalties(model, weights, batch, gold, key, **options):
    """What the dropout penalty adds to the loss."""
    plain = objectives.batch_loss(
        model, weights, batch, gold, key, Objective(**options)
    )
    whole = Objective(**options, dropout_penalty=1.0)
    return float(objectives.batch_loss(model, weights, batch, gold, key, whole) - plain)


def numpy_gaps(model, weights, batch, gold, key):
    """Squared differences of both passes, for each stage, by hand."""
    total = np.zeros(3)
    for i in range(len(gold)):
        sentence, _ = row(batch, gold, i)
        keys = keys_of(key, i)
        tokens = int(sentence.mask.sum())
        passes = keys, models.Keys(words=keys.words)
        dropped, full = (run_stages(model, weights, sentence, k)[0] for k in passes)
        for j, (p, q) in enumerate(zip(dropped, full, strict=True)):
            difference = np.asarray(p.emissions - q.emissions, np.float64)[:tokens]
            total[j] += np.sum(difference**2)
    return total


def test_dropout_penalty_of_both_papers(noisy, texts):
    """Strubell et al.: half of the sum; Ma et al.: the mean over real sentences."""
    model, weights, batch, gold = noisy
    key = jax.random.key(5)
    gaps = numpy_gaps(model, weights, batch, gold, key)
    assert (gaps > 0.1).all()
    for form, stages, total in (
        ("strubell", "last", gaps[2] / 2),
        ("ma", "last", gaps[2] / 2),  # two sentences are real
        ("ma", "sum", gaps.sum() / 2),
        ("strubell", "mean", gaps.mean() / 2),
    ):
        options = {"dropout_penalty_form": form, "stages": stages}
        penalty = penalties(model, weights, batch, gold, key, **options)
        assert penalty == pytest.approx(total, rel=1e-3)
    # In a batch of three the forms differ, whatever the reduction of the likelihood.
    batch, gold = batch_of([*texts[0], texts[0][0]], [*texts[1], texts[1][0]], 3)
    gap = numpy_gaps(model, weights, batch, gold, key)[2]
    for form, total, reduction in (
        ("strubell", gap / 2, "sentence"),
        ("ma", gap / 3, "token"),
    ):
        options = {"dropout_penalty_form": form, "reduction": reduction}
        penalty = penalties(model, weights, batch, gold, key, **options)
        assert penalty == pytest.approx(total, rel=1e-3)


def test_both_passes_see_the_same_words(texts):
    """Word dropout alone is no dropout that a penalty could see."""
    model = staged(dropout=0.0, word_dropout=0.5)
    weights = random_weights(model)
    batch = batch_of(*texts, 3)
    key = jax.random.key(1)
    assert penalties(model, weights, *batch, key) == 0.0
    losses = [float(batch_loss(model, weights, *batch, k)) for k in (key, None)]
    assert losses[0] != pytest.approx(losses[1], rel=1e-3)
    assert penalties(staged(), weights, *batch, None) == 0.0  # nor without a key


def test_gradient_of_the_dropout_penalty_flows_through_both_passes(noisy, float64):
    model, weights, batch, gold = noisy
    params = jax.tree.map(lambda leaf: leaf.astype(float), weights["params"])

    @jax.jit
    def added(params):
        weights = {"params": params, "frozen": {}}
        arguments = model, weights, batch, gold, jax.random.key(5)
        plain, whole = Objective(), Objective(dropout_penalty=1.0)
        return objectives.batch_loss(*arguments, whole) - objectives.batch_loss(
            *arguments, plain
        )

    assert all(leaf.any() for leaf in jax.tree.leaves(jax.grad(added)(params)["head"]))
    check_grads(added, (params,), 1, ["rev"], rtol=1e-3, eps=1e-3)


# --- Orthogonality --------------------------------------------------------------------


def numpy_orthogonality(layers, form):
    """‖ΦΦᵀ - I‖² of each layer and direction by loops, or only its pairs."""
    total = 0.0
    for layer in layers:
        kernels = np.asarray(layer["recurrent"], np.float64)
        for direction in (0, 1):
            units = [kernels[direction, k, :, 3].ravel() for k in range(4)]
            for k, left in enumerate(units):
                for m, right in enumerate(units):
                    if k != m or form == "identity":
                        total += (left @ right - (k == m)) ** 2
    return total


@pytest.mark.parametrize("form", objectives.ORTHOGONALITY_FORMS)
def test_orthogonality_equals_numpy(form, texts):
    """Also that of LSTMs within a chain."""
    chain = {"name": "chain", "first": LSTM, "then": {"name": "projection"}}
    model = staged(dropout=0.0, word_dropout=0.0, encoder=chain)
    weights = random_weights(model)
    first = weights["params"]["encoder"]["first"]
    expected = numpy_orthogonality([first["layer1"], first["layer2"]], form)
    assert expected > 10
    plain, whole = (
        batch_loss(model, weights, *batch_of(*texts, 3), None, objective)
        for objective in (
            Objective(),
            Objective(orthogonality=0.01, orthogonality_form=form),
        )
    )
    assert float(whole - plain) == pytest.approx(0.01 * expected, rel=1e-3)


def test_orthogonality_needs_lstms():
    # Those of characters are not the units that the paper compares.
    chars = {"name": "lstm"}
    for model in (staged(), build(GRN, {"name": "softmax"}, chars=chars)):
        params = random_weights(model)["params"]
        with pytest.raises(ValueError, match=r"encoder with LSTMs"):
            objectives.weight_loss(model, params, Objective(orthogonality=0.1))


# --- Weights of another run -----------------------------------------------------------


def test_transfer_takes_what_has_the_same_name_and_shape():
    """From a sentence model to one of documents: one more label, three blocks."""

    def tagger(labels, blocks):
        return models.build(
            num_labels=labels,
            num_trained_words=7,
            num_frozen_words=4,
            num_chars=5,
            representation={"words": {"dim": 3}, "chars": None},
            encoder={"name": "idcnn", "hidden_dim": 4, "num_blocks": blocks},
            head={"name": "crf", "boundaries": False},
        )

    old, new = random_weights(tagger(3, 1), 1), random_weights(tagger(4, 3), 2)
    merged, kept = models.transfer(new, old)
    head = "params/head/"
    names = {"emissions/kernel", "emissions/bias", "transitions"}
    assert set(kept) == {head + name for name in names}
    for part, source in (("encoder", old), ("representation", old), ("head", new)):
        jax.tree.map(
            np.testing.assert_array_equal,
            merged["params"][part],
            source["params"][part],
        )
    jax.tree.map(np.testing.assert_array_equal, merged["frozen"], old["frozen"])
    again, missing = models.transfer(old, old)
    assert missing == []
    assert jax.tree.structure(again) == jax.tree.structure(old)
    # A source that knows more, or lacks a collection, does no harm.
    without = {"params": old["params"], "frozen": {}}
    _, kept = models.transfer(new, without)
    assert "frozen/representation/words/vectors" in kept
    _, kept = models.transfer(without, old)
    assert kept == []
