"""Objectives: reductions, stages, regularisers, and what does not count."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxner import models
from jaxner.data.batching import Shape, pad
from jaxner.training import objectives, optimizers, step
from jaxner.training.objectives import Objective
from tests.marks import slow
from tests.sentences import spelled

batch_loss = jax.jit(objectives.batch_loss, static_argnames=("model", "objective"))


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
        spelled(
            rng.integers(1, 20, n).astype(np.int32),
            np.ones((n, 1), np.int32),
            np.ones(n, bool),
        )
        for n in (2, 5)
    ]
    labels = [rng.integers(0, 3, n).astype(np.int32) for n in (2, 5)]
    return model, models.init(model, jax.random.key(0)), sentences, labels


def batch_of(sentences, labels, count):
    padded = np.zeros((count, 6), np.int32)
    for row, ids in zip(padded, labels, strict=False):
        row[: len(ids)] = ids
    return pad(sentences, Shape(6, 2, 1), count), jnp.asarray(padded)


@pytest.mark.parametrize(
    ("reduction", "divisor"), [("sentence", 2), ("token", 7), ("sum", 1)]
)
@pytest.mark.parametrize("count", [2, 5])
def test_reductions(setting, reduction, divisor, count):
    model, weights, sentences, labels = setting
    alone = [
        batch_loss(model, weights, *batch_of([s], [y], 1), None, Objective("sum"))
        for s, y in zip(sentences, labels, strict=True)
    ]
    batch = batch_of(sentences, labels, count)
    found = batch_loss(model, weights, *batch, None, Objective(reduction))
    assert float(found) == pytest.approx(float(sum(alone)) / divisor, rel=1e-5)


@pytest.mark.parametrize(
    ("reduction", "divisor"), [("token", 30.5), *slow(("sentence", 8), ("sum", 1))]
)
def test_losses_of_parts_of_a_batch_add_up(setting, reduction, divisor):
    """The divisor is the mean size of a batch, whatever a part contains."""
    model, weights, sentences, labels = setting
    objective, sizes = Objective(reduction), objectives.Sizes(8, 30.5)
    args = model, weights
    total = batch_loss(*args, *batch_of(sentences, labels, 4), None, Objective("sum"))
    found = 0.0
    for i, (sentence, its) in enumerate(zip(sentences, labels, strict=True)):
        batch = jax.tree.map(jnp.asarray, batch_of([sentence], [its], 2))
        rows = jnp.array([i, 0])
        found += float(
            objectives.sentence_loss(*args, *batch, rows, None, objective, sizes)
        )
    assert found == pytest.approx(float(total) / divisor, rel=1e-5)


def test_sizes_count_sentences_with_tokens_alone(setting):
    _, _, sentences, labels = setting
    batch, _ = batch_of(sentences, labels, 5)
    assert tuple(map(int, objectives.sizes_of(batch))) == (2, 7)
    none, _ = batch_of([], [], 3)
    assert tuple(map(int, objectives.sizes_of(none))) == (1, 1)


@pytest.mark.parametrize("shared", [True, *slow(False)])
def test_shared_and_own_characters_give_the_same_loss(shared):
    """Reading words once per batch or in each sentence gives the same numbers."""
    model = models.build(
        num_labels=3,
        num_trained_words=20,
        num_frozen_words=0,
        num_chars=9,
        representation={
            "words": {"dim": 3},
            "chars": {"name": "cnn", "dim": 3, "num_filters": 2},
            "dropout": 0.3,
        },
        encoder={"name": "grn", "hidden_dim": 3},
        head={"name": "crf"},
    )
    rng = np.random.default_rng(2)
    spelling = rng.integers(1, 9, (20, 4)).astype(np.int32)
    words = [np.array(w, np.int32) for w in ([2, 3, 2], [3, 5], [7])]
    sentences = [spelled(w, spelling[w], np.ones(len(w), bool)) for w in words]
    labels = [np.zeros(len(w), np.int32) for w in words]
    gold = np.zeros((3, 6), np.int32)
    batch = pad(sentences, Shape(6, 9, 4)) if shared else pad(sentences, 6)
    assert batch.chars.ndim == (2 if shared else 3)
    weights = models.init(model, jax.random.key(0))
    found = batch_loss(model, weights, batch, gold, jax.random.key(1))
    by_one = 0.0
    for i, sentence in enumerate(sentences):
        keys = keys_of(jax.random.key(1), i)
        its = jax.tree.map(jnp.asarray, sentence)
        stages, _ = run_stages(model, weights, its, keys)
        by_one += float(run_nll(stages[-1], labels[i], its.mask)) / 3
    assert float(found) == pytest.approx(by_one, rel=1e-4)


def test_unknown_values():
    with pytest.raises(ValueError, match=r"Unknown reduction 'mean' of .*: sentence"):
        Objective("mean")
    with pytest.raises(
        ValueError, match="Unknown stages 'first' of Objective; known: last, mean"
    ):
        Objective(stages="first")
    with pytest.raises(ValueError, match=r"Unknown option objective\.rate; known: "):
        Objective.of({"rate": 1})


def test_a_step_changes_every_parameter_and_counts(setting):
    model, weights, sentences, labels = setting
    tx = optimizers.build({"name": "sgd", "learning_rate": 0.1}, 1)
    state = step.init(jax.tree.map(jnp.copy, weights["params"]), tx)
    batch = batch_of(sentences, labels, 2)
    recipe = step.Recipe(model, tx, Objective(), objectives.sizes_of(batch[0]))
    given = state.params, {}, *batch, jnp.arange(2), jax.random.key(0)
    after = step.update(recipe, state, *step.loss_and_gradient(recipe, *given))
    assert int(after.step) == 1
    assert float(after.sums["loss"]) > 0
    for old, new in zip(
        jax.tree.leaves(weights["params"]), jax.tree.leaves(after.params), strict=True
    ):
        assert not np.array_equal(old, new)


# --- Terms over the stages of a model -------------------------------------------------


def staged(dropout=0.3, word_dropout=0.3, head="softmax", encoder=None):
    """Three stages, and every kind of noise."""
    three = {"name": "idcnn", "hidden_dim": 4, "dilations": (1,), "num_blocks": 3}
    return models.build(
        num_labels=3,
        num_trained_words=20,
        num_frozen_words=0,
        num_chars=5,
        representation={
            "words": {"dim": 3, "initializer": "kaiming"},
            "chars": None,
            "dropout": dropout,
            "word_dropout": word_dropout,
        },
        encoder=encoder or three,
        head={"name": head, "dropout": dropout},
    )


def random_weights(model, seed=0):
    rng = np.random.default_rng(seed)
    shapes = jax.eval_shape(lambda: models.init(model, jax.random.key(0)))
    return jax.tree.map(
        lambda leaf: jnp.asarray(rng.uniform(-0.6, 0.9, leaf.shape), leaf.dtype), shapes
    )


# Not compiled: these tests run each of many programs once.
run_stages, run_gap = models.apply_stages, objectives.dropout_gap
run_nll = jax.jit(objectives.negative_log_likelihood)


def keys_of(key, index):
    """Keys of one sentence of a batch: its own ones, and that which all share."""
    shared, drawn = jax.random.split(key)
    own = models.Keys.of(jax.random.fold_in(drawn, index))
    return own._replace(shared=shared)


def row(batch, labels, i):
    one = jax.tree.map(lambda leaf: jnp.asarray(leaf[i]), batch._replace(chars=None))
    return one._replace(chars=jnp.asarray(batch.chars)), labels[i]


@pytest.mark.parametrize(
    ("name", "noisy"), [("softmax", False), ("softmax", True), ("crf", True)]
)
def test_likelihood_of_the_stages(setting, name, noisy):
    _, _, sentences, labels = setting
    model = staged(head=name)
    weights = random_weights(model)
    batch, gold = batch_of(sentences, labels, 3)
    key = jax.random.key(7) if noisy else None
    expected = np.zeros(3)
    for i in range(2):
        sentence, its_gold = row(batch, gold, i)
        keys = keys_of(key, i) if noisy else None
        stages, _ = run_stages(model, weights, sentence, keys)
        assert len(stages) == 3
        for j, potentials in enumerate(stages):
            expected[j] += run_nll(potentials, its_gold, sentence.mask)
    assert len(set(np.round(expected, 3))) == 3  # the stages do differ
    for stages, total in (
        ("last", expected[2]),
        ("mean", expected.mean()),
        ("sum", expected.sum()),
    ):
        objective = Objective("sum", stages)
        found = objectives.batch_loss(model, weights, batch, gold, key, objective)
        assert float(found) == pytest.approx(total, rel=1e-4)


def test_one_stage_is_last_mean_and_sum(setting):
    model, weights, sentences, labels = setting
    batch = batch_of(sentences, labels, 3)
    found = {
        float(
            objectives.batch_loss(
                model, weights, *batch, None, Objective(stages=stages)
            )
        )
        for stages in objectives.STAGES
    }
    assert len(found) == 1


def penalties(model, weights, batch, gold, key, **options):
    """What the dropout penalty adds to the loss."""
    plain = objectives.batch_loss(
        model, weights, batch, gold, key, Objective(**options)
    )
    whole = Objective(**options, dropout_penalty=1.0)
    return float(objectives.batch_loss(model, weights, batch, gold, key, whole) - plain)


def numpy_gaps(model, weights, batch, gold, key):
    """Squared differences of both passes, for each stage, by hand."""
    count = len(gold)
    total = np.zeros(3)
    for i in range(count):
        sentence, _ = row(batch, gold, i)
        keys = keys_of(key, i)
        noisy, _ = run_stages(model, weights, sentence, keys)
        quiet, _ = run_stages(model, weights, sentence, models.Keys(words=keys.words))
        tokens = int(sentence.mask.sum())
        for j, (p, q) in enumerate(zip(noisy, quiet, strict=True)):
            p, q = np.asarray(p.emissions), np.asarray(q.emissions)
            total[j] += np.sum((p[:tokens] - q[:tokens]).astype(np.float64) ** 2)
    return total


def test_dropout_penalty_of_both_papers(setting):
    """Strubell et al.: half of the sum; Ma et al.: the mean over real sentences."""
    _, _, sentences, labels = setting
    model = staged()
    weights = random_weights(model)
    batch, gold = batch_of(sentences, labels, 3)
    key = jax.random.key(5)
    gaps = numpy_gaps(model, weights, batch, gold, key)
    assert (gaps > 0.1).all()
    for form, share in (("strubell", 1 / 2), ("ma", 1 / 2)):  # two sentences are real
        for stages, total in (("last", gaps[2]), ("sum", gaps.sum())):
            options = {"dropout_penalty_form": form, "stages": stages}
            found = penalties(model, weights, batch, gold, key, **options)
            assert found == pytest.approx(share * total, rel=1e-3)
    found = penalties(model, weights, batch, gold, key, stages="mean")
    assert found == pytest.approx(gaps.mean() / 2, rel=1e-3)


def test_dropout_penalty_of_a_batch_of_three(setting):
    """The two forms differ, whatever the reduction of the likelihood."""
    _, _, sentences, labels = setting
    model = staged()
    weights = random_weights(model)
    batch, gold = batch_of([*sentences, sentences[0]], [*labels, labels[0]], 3)
    key = jax.random.key(6)
    gap = numpy_gaps(model, weights, batch, gold, key)[2]
    for form, total in (("strubell", gap / 2), ("ma", gap / 3)):
        for reduction in ("sentence", "token"):
            found = penalties(
                model,
                weights,
                batch,
                gold,
                key,
                reduction=reduction,
                dropout_penalty_form=form,
            )
            assert found == pytest.approx(total, rel=1e-3)
    weight = Objective(dropout_penalty=0.25)
    plain = objectives.batch_loss(model, weights, batch, gold, key, Objective())
    found = objectives.batch_loss(model, weights, batch, gold, key, weight) - plain
    assert float(found) == pytest.approx(gap / 8, rel=1e-3)


def test_both_passes_see_the_same_words(setting):
    """Word dropout alone is no dropout that a penalty could see."""
    _, _, sentences, labels = setting
    model = staged(dropout=0.0, word_dropout=0.5)
    weights = random_weights(model)
    batch = batch_of(sentences, labels, 3)
    key = jax.random.key(1)
    assert penalties(model, weights, *batch, key) == 0.0
    noisy = objectives.batch_loss(model, weights, *batch, key, Objective())
    quiet = objectives.batch_loss(model, weights, *batch, None, Objective())
    assert float(noisy) != pytest.approx(float(quiet), rel=1e-3)


def test_dropout_penalty_is_nothing_without_dropout(setting):
    _, _, sentences, labels = setting
    model = staged(dropout=0.0, word_dropout=0.0)
    weights = random_weights(model)
    batch = batch_of(sentences, labels, 3)
    assert penalties(model, weights, *batch, jax.random.key(1), stages="sum") == 0.0
    assert penalties(staged(), weights, *batch, None) == 0.0  # nor without a key


def test_gradient_of_the_dropout_penalty_flows_through_both_passes(setting):
    _, _, sentences, labels = setting
    model = staged()
    weights = random_weights(model)
    batch, gold = batch_of(sentences, labels, 3)
    key = jax.random.key(5)

    def penalty(params, stop):
        """The definition, with either pass held fast."""
        weights, total = {"params": params, "frozen": {}}, 0.0
        for i in range(2):
            sentence, _ = row(batch, gold, i)
            keys = keys_of(key, i)
            noisy, _ = models.apply_stages(model, weights, sentence, keys)
            words = models.Keys(words=keys.words)
            quiet, _ = models.apply_stages(model, weights, sentence, words)
            p, q = noisy[-1].emissions, quiet[-1].emissions
            p = jax.lax.stop_gradient(p) if stop == "noisy" else p
            q = jax.lax.stop_gradient(q) if stop == "quiet" else q
            total += jnp.sum(jnp.where(sentence.mask[:, None], (p - q) ** 2, 0.0)) / 2
        return total

    def added(params):
        weights = {"params": params, "frozen": {}}
        plain, whole = Objective(), Objective(dropout_penalty=1.0)
        arguments = (model, weights, batch, gold, key)
        return objectives.batch_loss(*arguments, whole) - objectives.batch_loss(
            *arguments, plain
        )

    @jax.jit
    def gradients(params):
        return [jax.grad(added)(params)] + [
            jax.grad(penalty)(params, stop) for stop in ("none", "noisy", "quiet")
        ]

    found, both, *one_sided = gradients(weights["params"])
    for leaf, expected in zip(
        jax.tree.leaves(found), jax.tree.leaves(both), strict=True
    ):
        np.testing.assert_allclose(leaf, expected, rtol=1e-3, atol=1e-3)
    assert any(leaf.any() for leaf in jax.tree.leaves(found))
    for other in one_sided:
        kernel = other["head"]["emissions"]["kernel"]
        assert not np.allclose(kernel, both["head"]["emissions"]["kernel"], rtol=0.05)


def test_padding_is_no_part_of_the_dropout_penalty(setting):
    _, _, sentences, labels = setting
    model = staged()
    weights = random_weights(model)
    found = []
    for length in (6, 9):
        gold = np.zeros((3, length), np.int32)
        for line, ids in zip(gold, labels, strict=False):
            line[: len(ids)] = ids
        batch = pad(sentences, Shape(length, 2, 1), 3), jnp.asarray(gold)
        key = jax.random.key(2)
        found.append(penalties(model, weights, *batch, key, stages="sum"))
    assert found[0] > 0.1
    assert found[1] == pytest.approx(found[0], rel=1e-4)
    # What the passes give under padding does not matter, either.
    one, two = (models_potentials(seed) for seed in (0, 1))
    mask = jnp.arange(4) < 2
    gap = float(run_gap(one, two, mask))
    difference = np.asarray(one.emissions - two.emissions, np.float64)[:2]
    assert gap == pytest.approx(np.sum(difference**2), rel=1e-5)


def models_potentials(seed):
    values = np.random.default_rng(seed).normal(size=(4, 3))
    return objectives.Potentials(jnp.asarray(values, jnp.float32))


# --- Orthogonality --------------------------------------------------------------------

LSTM = {"name": "bilstm", "hidden_dim": 3, "num_units": 4, "num_layers": 2}


def numpy_orthogonality(layers, form):
    """‖ΦΦᵀ - I‖² of each layer and direction by loops, or only its pairs."""
    total = 0.0
    for layer in layers:
        kernels = np.asarray(layer["recurrent"], np.float64)
        for direction in (0, 1):
            units = [kernels[direction, k, :, 3].ravel() for k in range(4)]
            for k, one in enumerate(units):
                for m, other in enumerate(units):
                    if k != m or form == "identity":
                        total += (one @ other - (k == m)) ** 2
    return total


@pytest.mark.parametrize("form", objectives.ORTHOGONALITY_FORMS)
def test_orthogonality_equals_numpy(form, setting):
    _, _, sentences, labels = setting
    model = staged(dropout=0.0, word_dropout=0.0, encoder=LSTM)
    weights = random_weights(model)
    encoder = weights["params"]["encoder"]
    expected = numpy_orthogonality([encoder["layer1"], encoder["layer2"]], form)
    assert expected > 10
    kernels = models.candidate_kernels(encoder)
    found = float(objectives.orthogonality(kernels, form))
    assert found == pytest.approx(expected, rel=1e-5)
    batch = batch_of(sentences, labels, 3)
    plain = objectives.batch_loss(model, weights, *batch, None, Objective())
    whole = objectives.batch_loss(
        *(model, weights, *batch, None),
        Objective(orthogonality=0.01, orthogonality_form=form),
    )
    assert float(whole - plain) == pytest.approx(0.01 * expected, rel=1e-4)


def test_longer_kernels_cost_pairs_nothing():
    """Orthogonal rows of norm 2: no pair is alike, but no norm is 1."""
    rows = 2 * np.linalg.qr(np.random.default_rng(0).normal(size=(9, 9)))[0][:4]
    kernels = [jnp.asarray(rows.reshape(4, 3, 3))] * 2
    assert float(objectives.orthogonality(kernels)) == pytest.approx(0, abs=1e-9)
    # 4 - 1 for each of four units in both directions.
    found = float(objectives.orthogonality(kernels, "identity"))
    assert found == pytest.approx(2 * 4 * 3**2, rel=1e-5)


def test_orthogonality_is_zero_for_orthonormal_rows():
    rows = np.linalg.qr(np.random.default_rng(0).normal(size=(9, 9)))[0][:4]
    kernels = [jnp.asarray(rows.reshape(4, 3, 3))] * 2
    for form in objectives.ORTHOGONALITY_FORMS:
        found = float(objectives.orthogonality(kernels, form))
        assert found == pytest.approx(0, abs=1e-9)


def test_orthogonality_sees_the_lstms_within_a_chain():
    attention = {"name": "attention", "num_heads": 2}
    model = staged(encoder={"name": "chain", "first": LSTM, "then": attention})
    params = random_weights(model)["params"]
    first = params["encoder"]["first"]
    expected = numpy_orthogonality([first["layer1"], first["layer2"]], "pairs")
    kernels = models.candidate_kernels(params["encoder"])
    found = float(objectives.orthogonality(kernels))
    assert found == pytest.approx(expected, rel=1e-5)


def test_orthogonality_needs_lstms():
    objective = Objective(orthogonality=0.1)
    model = staged()
    params = random_weights(model)["params"]
    with pytest.raises(ValueError, match=r"objective\.orthogonality needs .* LSTMs"):
        objectives.weight_loss(model, params, objective)
    # Those of characters are not the units that the paper compares.
    model = models.build(
        num_labels=3,
        num_trained_words=2,
        num_frozen_words=0,
        num_chars=5,
        representation={"words": None, "chars": {"name": "lstm"}},
        encoder={"name": "grn", "hidden_dim": 2},
        head={"name": "softmax"},
    )
    params = random_weights(model)["params"]
    with pytest.raises(ValueError, match=r"needs an encoder with LSTMs"):
        objectives.weight_loss(model, params, objective)


# --- Weights of another run -----------------------------------------------------------


def test_transfer_takes_what_has_the_same_name_and_shape():
    """From a sentence model to one of documents: one more label, three blocks."""

    def tagger(labels, blocks, frozen=4):
        return models.build(
            num_labels=labels,
            num_trained_words=7,
            num_frozen_words=frozen,
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
    for part in ("encoder", "representation"):
        for found, expected in zip(
            jax.tree.leaves(merged["params"][part]),
            jax.tree.leaves(old["params"][part]),
            strict=True,
        ):
            np.testing.assert_array_equal(found, expected)
    for found, expected in zip(
        jax.tree.leaves(merged["params"]["head"]),
        jax.tree.leaves(new["params"]["head"]),
        strict=True,
    ):
        np.testing.assert_array_equal(found, expected)
    vectors = merged["frozen"]["representation"]["words"]["vectors"]
    np.testing.assert_array_equal(
        vectors, old["frozen"]["representation"]["words"]["vectors"]
    )
    again, none = models.transfer(old, old)
    assert none == []
    assert jax.tree.structure(again) == jax.tree.structure(old)
    # A source that knows more, or lacks a collection, does no harm.
    without = {"params": old["params"], "frozen": {}}
    _, kept = models.transfer(new, without)
    assert "frozen/representation/words/vectors" in kept
    _, kept = models.transfer(without, old)
    assert kept == []
