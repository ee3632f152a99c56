"""Refinement: its reading of the draft, Γ, the joint loss, and what trains it.

The two streams have a NumPy reading of their own in test_transformer.py.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxner import inference, models
from jaxner.types import Potentials, WordVectors
from tests.marks import slow
from tests.models import draws
from tests.sentences import spelled

LABELS = 3
STREAMS = {"num_layers": 1, "num_heads": 2, "head_dim": 2}


def build(drafts="softmax", mc_dropout=None, **options):
    return draws.build(
        num_frozen_words=2,
        representation={"words": {"dim": 6}, "chars": None, "dropout": 0.2},
        encoder={"name": "bilstm", "hidden_dim": 3, "output_dropout": 0.4},
        head={"name": drafts, "dropout": 0.0},
        mc_dropout={"num_samples": 2, "parts": ("encoder",), **(mc_dropout or {})},
        refinement={
            "label_scale": 1.0,
            "label_dim": 5,
            "head": {"name": "softmax", "dropout": 0.1},
            **STREAMS,
            **options,
        },
    )


def sentence(length=4, padded=None):
    padded = padded or length
    words = jnp.zeros(padded, jnp.int32).at[:length].set(jnp.arange(2, 2 + length))
    return spelled(
        words, jnp.zeros((padded, 1), jnp.int32), jnp.arange(padded) < length
    )


predict, drafted, refine = (
    jax.jit(f, static_argnums=0)
    for f in (models.predict, models.drafted, models.refine)
)


def draw(model):
    weights = models.init(model, jax.random.key(0))
    return jax.tree.map(lambda leaf: leaf * 2, weights)


CHANCES = jnp.array(
    [[0.7, 0.2, 0.1], [0.1, 0.8, 0.1], [0.3, 0.3, 0.4], [0.0, 0.0, 1.0]]
)


def streams_given(model, weights, read):
    """The output of streams and head for given label vectors."""
    refinement = model.refinement
    params = weights["params"]["refinement"]
    x = model.representation.apply(
        {
            "params": params["representation"],
            "frozen": weights["frozen"]["refinement"]["representation"],
        },
        sentence(),
        train=False,
    )
    features = refinement.streams.apply(
        {"params": params["streams"]}, x, read, sentence().mask, train=False
    )
    head = params["head"]["emissions"]
    return np.asarray(features) @ np.asarray(head["kernel"]) + np.asarray(head["bias"])


@pytest.mark.parametrize("soft", [False, *slow(True)])
def test_the_draft_is_read_as_mean_vectors_or_as_the_likeliest(soft):
    model = build(soft=soft)
    weights = draw(model)
    table = np.asarray(weights["params"]["refinement"]["label_vectors"])
    chances = np.asarray(CHANCES) if soft else np.eye(LABELS)[CHANCES.argmax(axis=1)]
    found = refine(model, weights, sentence(), CHANCES).emissions
    read = jnp.asarray(chances @ table, jnp.float32)
    np.testing.assert_allclose(found, streams_given(model, weights, read), atol=1e-5)


def test_vectors_are_filled_into_both_representations():
    weights = models.init(build(), jax.random.key(0))
    rng = np.random.default_rng(0)
    trained = rng.normal(size=(2, 6)).astype(np.float32)
    frozen = rng.normal(size=(2, 6)).astype(np.float32)
    vectors = WordVectors(np.array([3, 5]), trained, frozen, 1.0, 1.0)
    filled = models.with_vectors(weights, vectors)
    for params, rest in (
        (filled["params"], filled["frozen"]),
        (filled["params"]["refinement"], filled["frozen"]["refinement"]),
    ):
        table = params["representation"]["words"]["trained"]
        np.testing.assert_array_equal(table[jnp.array([3, 5])], trained)
        np.testing.assert_array_equal(
            rest["representation"]["words"]["vectors"], frozen
        )
    drawn = weights["params"]["representation"]["words"]["trained"]
    kept = filled["params"]["representation"]["words"]["trained"]
    np.testing.assert_array_equal(kept[4], drawn[4])


@pytest.mark.parametrize("num_trained", [7, 2])
def test_words_are_divided_by_the_deviation_of_the_vocabulary(num_trained):
    """Of the training words' vectors, drawn ones included; padding is no word."""
    rng = np.random.default_rng(0)
    trained = rng.normal(size=(2, num_trained, 6)).astype(np.float32)
    trained[:, 0] = 1e6  # padding
    frozen = (7 * rng.normal(size=(2, 4, 6))).astype(np.float32)
    other = np.ones((3, 6), np.float32)

    def tree(name, values):
        first, second = ({"words": {name: jnp.asarray(each)}} for each in values)
        own = {"representation": second, "trained": jnp.asarray(other)}
        return {"representation": first, "refinement": own}

    weights = {"params": tree("trained", trained), "frozen": tree("vectors", frozen)}
    found = models.standardise_words(weights)
    for i, part in enumerate((lambda tree: tree, lambda tree: tree["refinement"])):
        rows = trained[i, 1:]
        if num_trained == 2:  # all but the unknown word is frozen
            rows = np.concatenate([rows, frozen[i]])
        table, rest = (part(found[name])["representation"]["words"] for name in weights)
        std = rows.astype(np.float64).std()
        np.testing.assert_allclose(table["trained"], trained[i] / std, rtol=1e-5)
        np.testing.assert_allclose(rest["vectors"], frozen[i] / std, rtol=1e-5)
    np.testing.assert_array_equal(found["params"]["refinement"]["trained"], other)


# --- Γ -----------------------------------------------------------------------------


def thresholded(threshold, head="softmax"):
    model = build(head, threshold=threshold)
    weights = draw(build(head))
    if head == "crf":
        rng = np.random.default_rng(1)
        weights["params"]["head"]["transitions"] = jnp.asarray(
            rng.normal(size=(LABELS, LABELS)), jnp.float32
        )
    return model, weights, predict(model, weights, sentence())


@pytest.mark.parametrize("head", ["softmax", "crf"])
def test_threshold_takes_the_refinement_where_the_draft_is_uncertain(head):
    model, weights, _ = thresholded(0.0, head)
    draft, chances = drafted(model, weights, sentence())
    refined = refine(model, weights, sentence(), chances)
    entropies = np.sort(np.asarray(inference.entropy(chances)))
    between = float(entropies[1:3].mean())
    uncertain = np.asarray(inference.entropy(chances)) > between
    assert 0 < uncertain.sum() < len(uncertain)
    found = np.asarray(thresholded(between, head)[2].emissions)
    np.testing.assert_allclose(np.exp(found).sum(axis=1), 1, rtol=1e-5)
    logs = jax.nn.log_softmax(refined.emissions)
    np.testing.assert_allclose(found[uncertain], logs[uncertain], atol=1e-5)
    if head == "softmax":
        drafts = jax.nn.log_softmax(draft.emissions)
    else:
        drafts = np.log(inference.marginals(draft, sentence().mask))
    np.testing.assert_allclose(found[~uncertain], drafts[~uncertain], atol=1e-5)


def test_mixing_keeps_the_best_labels_of_both():
    rng = np.random.default_rng(0)
    draft, refined = (
        Potentials(jnp.asarray(rng.normal(size=(4, LABELS)), jnp.float32) * 5)
        for _ in range(2)
    )
    mask, uncertain = jnp.ones(4, bool), jnp.array([True, False, True, False])
    mixed = inference.viterbi(models.mix(draft, refined, uncertain, mask), mask)
    parts = [np.argmax(p.emissions, axis=1) for p in (refined, draft)]
    np.testing.assert_array_equal(mixed, np.where(uncertain, *parts))
