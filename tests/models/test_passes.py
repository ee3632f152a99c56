"""Passes with dropout, the refinement of their draft, and what is predicted from them.

The two streams have a NumPy reading of their own in test_encoders.py.
"""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxner import inference, models
from jaxner.models.model import map_named, named
from jaxner.types import Potentials
from tests.models import draws
from tests.models.test_own_modules import Own

LABELS, PASSES = 3, 3
LSTM = {"name": "bilstm", "hidden_dim": 3, "input_dropout": 0.2, "output_dropout": 0.4}
QUIET = {**LSTM, "input_dropout": 0.0, "output_dropout": 0.0}


def build(encoder=LSTM, head="softmax", rates=(0.3, 0.3), **options):
    """A model with rates of dropout of its representation and of its head."""
    words = {"words": {"dim": 6}, "chars": None, "dropout": rates[0]}
    head = {"name": head, "dropout": rates[1]} if isinstance(head, str) else head
    return draws.build(representation=words, encoder=encoder, head=head, **options)


def refining(head="softmax", **options):
    """A model with a refinement of a draft of two passes."""
    streams = {"num_layers": 1, "num_heads": 2, "head_dim": 2}
    small = {"label_scale": 1.0, "label_dim": 5, "head": {"name": "softmax"}}
    mc_dropout = {"num_samples": 2, "parts": ("encoder",)}
    refinement = {**small, **streams, **options}
    parts = {"num_frozen": 2, "mc_dropout": mc_dropout, "refinement": refinement}
    return build(head=head, **parts)


predict = jax.jit(models.predict, static_argnums=0)
passes_of = jax.jit(models.passes, static_argnums=(0, 4))
marginals = jax.jit(inference.marginals)


def emissions(model):
    inputs = draws.weights_of(model), draws.SENTENCE, jax.random.key(0), PASSES
    return np.asarray(passes_of(model, *inputs).emissions)


@pytest.mark.parametrize("part", ["head", "encoder", "representation"])
def test_only_the_named_part_has_dropout(part):
    """Rates of the others at 0 change nothing; that of the part itself does."""
    passes = emissions(build(mc_dropout={"parts": (part,)}))
    assert np.ptp(passes, axis=0).max() > 0.01
    rates = [0.3 if name == part else 0.0 for name in ("representation", "head")]
    model = build(LSTM if part == "encoder" else QUIET, rates=rates)
    np.testing.assert_allclose(passes, emissions(model), atol=1e-6)


def test_masks_without_a_key_do_not_depend_on_an_option_of_jax():
    model, programs = refining(), []
    for name in ("threefry2x32", "rbg"):
        with jax.default_prng_impl(name):
            compute = functools.partial(models.predict, model)
            inputs = draws.weights_of(model), draws.SENTENCE
            programs.append(str(jax.make_jaxpr(compute)(*inputs)))
    assert programs[0] == programs[1]


@pytest.mark.parametrize("average", ["scores", "probabilities"])
def test_prediction_from_the_mean_of_scores_or_of_probabilities(average):
    mc_dropout = {"num_samples": PASSES, "average": average, "seed": 5}
    model, mask = build(head="crf", mc_dropout=mc_dropout), draws.SENTENCE.mask
    inputs = draws.weights_of(model), draws.SENTENCE
    predicted = predict(model, *inputs)
    passes = passes_of(model, *inputs, jax.random.key(5), PASSES)
    if average == "scores":
        mean = np.mean(passes.emissions, axis=0)
        assert predicted.transitions is not None
    else:
        rows = (passes._replace(emissions=e) for e in passes.emissions)
        chances = [marginals(potentials, mask) for potentials in rows]
        mean = np.log(np.mean(chances, axis=0))
    np.testing.assert_allclose(predicted.emissions, mean, atol=1e-5)


CHANCES = jnp.array([[0.7, 0.2, 0.1], [0.1, 0.8, 0.1], [0.3, 0.3, 0.4]])


@pytest.mark.parametrize("soft", [False, True])
def test_the_draft_is_read_as_mean_vectors_or_as_the_likeliest(soft):
    model = refining(soft=soft)
    weights, refinement = draws.weights_of(model), model.refinement
    params = weights["params"]["refinement"]
    chances = CHANCES if soft else jnp.eye(LABELS)[CHANCES.argmax(axis=1)]
    reader = {"params": params["representation"]}
    reader["frozen"] = weights["frozen"]["refinement"]["representation"]
    x = draws.apply(refinement.representation, reader, draws.SENTENCE)
    streams = x, chances @ params["label_vectors"], draws.SENTENCE.mask
    features = draws.apply(refinement.streams, {"params": params["streams"]}, *streams)
    head = draws.in_float64(weights)["refinement"]["head"]
    expected = draws.dense(head["emissions"], features)
    inputs = draws.SENTENCE, None, CHANCES  # it reads words of its own
    emissions = draws.apply(model, weights, *inputs, method="refine").emissions
    np.testing.assert_allclose(emissions, expected, rtol=1e-4, atol=1e-4)


def of_edges(x):
    """Scores without transitions, but with those of a sentence's start."""
    return Potentials(x[:, :LABELS], None, jnp.array([0.0, 2.0, -1.0]))


@pytest.mark.parametrize("head", ["crf", Own(of_edges)], ids=["crf", "edges"])
def test_the_refinement_decides_where_the_draft_is_uncertain(head):
    model = refining(head)
    weights = draws.weights_of(model)
    inputs, mask = (weights, draws.SENTENCE), draws.SENTENCE.mask
    passes = passes_of(model, *inputs, None, 2)
    answers = inference.each_pass(lambda p: marginals(p, mask), passes)
    chances = jnp.mean(answers, axis=0)
    entropies = inference.entropy(chances)
    threshold = float(np.sort(entropies)[:2].mean())
    is_uncertain = np.asarray(entropies) > threshold
    assert is_uncertain.sum() == 2
    final = predict(refining(head, threshold=threshold), *inputs)
    logs = np.asarray(final.emissions)
    np.testing.assert_allclose(np.exp(logs).sum(axis=1), 1, rtol=1e-5)
    second = draws.apply(model, *inputs, None, chances, method="refine")
    draft = passes._replace(emissions=jnp.mean(passes.emissions, axis=0))
    for potentials, rows in ((second, is_uncertain), (draft, ~is_uncertain)):
        expected = np.log(marginals(potentials, mask))
        np.testing.assert_allclose(logs[rows], expected[rows], atol=1e-5)


@pytest.mark.parametrize("num_trained", [9, 2])
def test_words_are_divided_by_the_deviation_of_the_vocabulary(num_trained):
    """Of the training words' vectors; padding is no word."""

    def changed(name, leaf):
        if name.endswith("words/vectors"):
            return 7 * leaf
        is_table = name.endswith("words/trained")
        return leaf[:num_trained].at[0].set(1e6) if is_table else leaf

    weights = map_named(changed, draws.weights_of(refining()))
    new, old = named(models.standardise_words(weights)), named(weights)
    for part in ("", "refinement/"):
        table = f"params/{part}representation/words/trained"
        frozen = f"frozen/{part}representation/words/vectors"
        rows = [old[table][1:]]
        if num_trained == 2:  # all but the unknown word is frozen
            rows.append(old[frozen])
        deviation = np.concatenate(rows).astype(np.float64).std()
        for name in (table, frozen):
            draws.close(new[name], old[name] / deviation)
