"""Objectives: reductions, stages, regularisers, and what does not count."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.test_util import check_grads

from jaxner import inference, models
from jaxner.data.batching import Shape, pad, pad_labels
from jaxner.training import objectives
from jaxner.training.objectives import Objective
from tests.models import draws
from tests.sentences import spelled

STAGES = {"name": "idcnn", "hidden_dim": 4, "dilations": (1,), "num_blocks": 3}
SHAPE = Shape(6, 9, 4)  # the sentences of a batch share the characters of words
LSTM = {"name": "bilstm", "hidden_dim": 3, "num_units": 4, "num_layers": 2}


def build(head="softmax", encoder=STAGES, chars="cnn"):
    """A model of three stages with every kind of noise, and its weights."""
    words = {"dim": 3, "initializer": "kaiming"}
    chars = {"name": chars, "dim": 3}
    noise = {"dropout": 0.3, "word_dropout": 0.3}
    model = draws.build(
        num_trained=20,
        num_chars=9,
        representation={"words": words, "chars": chars, **noise},
        encoder=encoder,
        head={"name": head, "dropout": 0.3},
    )
    return model, draws.weights_of(model, scale=0.5)


def texts():
    """Three sentences that share words, and their labels."""
    rng = np.random.default_rng(0)
    spelling = rng.integers(1, 9, (20, 4)).astype(np.int32)
    words = [rng.integers(2, 9, n).astype(np.int32) for n in (2, 5, 2)]
    sentences = [spelled(w, spelling[w], np.ones(len(w), bool)) for w in words]
    return sentences, [rng.integers(0, 3, len(w)).astype(np.int32) for w in words]


def batch_of(sentences, labels):
    """A batch with two rows of padding."""
    gold = pad_labels(labels, 6, len(labels) + 2)
    return pad(sentences, SHAPE, len(labels) + 2), jnp.asarray(gold)


def terms_by_hand(model, weights, sentences, labels, key):
    """Losses of the stages and gaps to a pass without dropout, sentence by sentence."""
    shared, base = jax.random.split(key)

    @jax.jit
    def terms_of(sentence, gold, noise, words):
        noisy, full = (
            model.apply(weights, sentence, train=is_noisy, rngs=rngs)[0]
            for rngs, is_noisy in ((noise, True), (words, False))
        )
        loss = objectives.negative_log_likelihood
        pairs = zip(noisy, full, strict=True)
        gaps = [jnp.sum((p.emissions - q.emissions) ** 2) for p, q in pairs]
        return [loss(p, gold, sentence.mask) for p in noisy], gaps

    rows = []
    for i, sentence in enumerate(sentences):
        sentence = jax.tree.map(jnp.asarray, sentence)
        keys = models.Keys.of(jax.random.fold_in(base, i))._replace(shared=shared)
        words = models.Keys(words=keys.words)  # both passes see the same words
        rows.append(terms_of(sentence, labels[i], keys.rngs(), words.rngs()))
    return [np.array(terms, float) for terms in zip(*rows, strict=True)]


def loss_by_hand(objective, losses, gaps, num_sentences, num_tokens):
    """Strubell et al. add half of the gaps; Ma et al. their mean over sentences."""
    over_stages = {"last": lambda x, axis: x[:, -1], "mean": np.mean, "sum": np.sum}
    terms = (over_stages[objective.stages](x, axis=1) for x in (gaps, losses))
    gap, loss = (np.sum(term) for term in terms)
    size = {"sentence": num_sentences, "token": num_tokens, "sum": 1}
    share = {"strubell": 0.5, "ma": 1 / num_sentences}
    penalty = share[objective.dropout_penalty_form] * gap
    return loss / size[objective.reduction] + objective.dropout_penalty * penalty


OBJECTIVES = [
    Objective("token"),
    Objective("sum", "mean"),
    Objective("token", "mean", dropout_penalty=1.0, dropout_penalty_form="ma"),
    Objective("sentence", "sum", dropout_penalty=1.0),
]


def test_the_loss_is_that_of_sentences_alone():
    """Padded, with empty rows, and with words that the batch reads once."""
    (model, weights), key = build(), jax.random.key(7)
    batch, labels = batch_of(*texts())
    assert batch.chars.ndim == 2
    terms = terms_by_hand(model, weights, *texts(), key)
    assert np.ptp(terms[0], axis=1).min() > 1e-3  # the stages do differ
    assert (terms[1] > 1e-3).all()
    sizes, ends = objectives.Sizes(8, 30.5), (OBJECTIVES[0], OBJECTIVES[-1])

    @jax.jit
    def losses(weights, batch, labels):
        data, rows = (model, weights, batch, labels), jnp.arange(5)
        return [objectives.batch_loss(*data, key, x) for x in OBJECTIVES], [
            objectives.sentence_loss(*data, rows, key, x, sizes) for x in ends
        ]

    expected = [loss_by_hand(x, *terms, 3, 9) for x in OBJECTIVES]
    pair = [loss_by_hand(x, *terms, *sizes) for x in ends]
    both = zip(losses(weights, batch, labels), (expected, pair), strict=True)
    for values, right in both:
        np.testing.assert_allclose(values, right, rtol=1e-4)
    empty = jax.jit(objectives.batch_loss, static_argnums=0)
    assert empty(model, weights, *batch_of([], []), None) == 0


def test_what_an_old_tagger_says_counts_by_its_weight():
    (model, weights), (batch, gold) = build(head="crf"), batch_of(*texts())
    says = np.random.default_rng(1).dirichlet(np.ones(3), gold.shape)
    labels = gold, jnp.asarray(says, jnp.float32)
    sizes = objectives.Sizes(1, 1.0)

    def loss(retain):
        objective = Objective("sum", "last", retain=retain, new_labels=(2,))
        rest = jnp.arange(5), None, objective, sizes
        return objectives.sentence_loss(model, weights, batch, labels, *rest)

    @jax.jit
    def chances_of(sentence):
        stages, _ = model.apply(weights, sentence, train=False)
        return inference.marginals(stages[-1], sentence.mask)

    right, (whole, plain) = 0.0, jax.jit(lambda: (loss(2.0), loss(0.0)))()
    for sentence, rows in zip(texts()[0], says, strict=False):
        chances = chances_of(jax.tree.map(jnp.asarray, sentence))
        old = chances.at[:, 0].add(chances[:, 2])  # label 2 is new
        right -= float((rows[: len(old)] * jnp.log(old)).sum())
    assert float(whole - plain) == pytest.approx(2 * right, rel=1e-5)


def test_a_language_model_adds_its_losses_whatever_the_padding():
    parts = {"encoder": {"name": "bilstm", "hidden_dim": 3}, "head": {"name": "crf"}}
    task = {"weight": 0.5, "num_words": 5}
    model = draws.build(**parts, language_model=task)
    weights = draws.weights_of(model)
    batch, labels = batch_of(*texts())
    loss = jax.jit(objectives.batch_loss, static_argnums=(0, 5))
    with_task, without_task = (
        loss(kind, weights, batch, labels, None, Objective("sum"))
        for kind in (model, model.clone(language_model=None))
    )
    params, right = weights["params"], 0.0
    table = params["representation"]["words"]["trained"]
    task_loss = jax.jit(model.language_model.apply)
    for sentence in texts()[0]:
        sentence = jax.tree.map(jnp.asarray, sentence)
        words, mask = sentence.words, sentence.mask
        x = draws.apply(model, weights, sentence, method="represent")
        x = draws.apply(model.encoder, {"params": params["encoder"]}, x, mask)[0]
        part = {"params": params["language_model"]}
        losses = task_loss(part, x, words, mask, table)
        right += 0.5 * float(losses.sum())
    assert float(with_task - without_task) == pytest.approx(right, rel=1e-4)


def test_gradient_of_the_dropout_penalty_flows_through_both_passes(float64):
    (model, weights), (batch, gold) = build(), batch_of(*texts())
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


def test_orthogonality_equals_numpy():
    """Also that of LSTMs within a chain."""
    chain = {"name": "chain", "first": LSTM, "then": {"name": "projection"}}
    model, weights = build(encoder=chain)
    first = weights["params"]["encoder"]["first"]
    for form in ("pairs", "identity"):
        expected = numpy_orthogonality([first["layer1"], first["layer2"]], form)
        assert expected > 10
        objective = Objective(orthogonality=0.1, orthogonality_form=form)
        penalty = objectives.weight_loss(model, weights["params"], objective)
        assert float(penalty) == pytest.approx(0.1 * expected, rel=1e-3)
    data = weights, *batch_of([], []), None
    loss = jax.jit(objectives.batch_loss, static_argnums=(0, 5))
    terms = jax.jit(objectives.weight_loss, static_argnums=(0, 2))
    # Of no sentence: nothing else.
    assert loss(model, *data, objective) == terms(model, weights["params"], objective)


def test_orthogonality_needs_lstms():
    # Those of characters are not the units that the paper compares.
    model, weights = build(chars="lstm")
    for params in (weights["params"], {}):  # an encoder without weights has no entry
        with pytest.raises(ValueError, match=r"encoder with LSTMs"):
            objectives.weight_loss(model, params, Objective(orthogonality=0.1))
