"""Passes with dropout, the refinement of their draft, and what is predicted from them.

The two streams have a NumPy reading of their own in test_encoders.py.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxner import inference, models
from tests.marks import slow
from tests.models import draws
from tests.sentences import spelled

LABELS, PASSES = 3, 3
LSTM = {"name": "bilstm", "hidden_dim": 3, "input_dropout": 0.2, "output_dropout": 0.4}
QUIET = {**LSTM, "input_dropout": 0.0, "output_dropout": 0.0}
ENCODERS = {
    "bilstm": LSTM,
    "transformer": {"name": "transformer", "num_layers": 1, "num_heads": 2}
    | {"head_dim": 2, "attention_dropout": 0.5},
    "lan": {"name": "lan", "hidden_dim": 2, "num_layers": 2, "num_heads": 2},
}
CHARACTERS = {
    "cnn": {"name": "cnn", "dim": 3, "num_filters": 3, "dropout": 0.5},
    "lstm": {"name": "lstm", "dim": 3, "hidden_dim": 2, "dropout": 0.5},
    "intnet": {"name": "intnet", "dim": 3, "num_filters": 2, "growth": 2},
}


def build(encoder=LSTM, head="softmax", rates=(0.3, 0.3), chars=None, **more):
    """A model with rates of dropout of its representation and of its head."""
    words = {"words": {"dim": 6}, "chars": chars, "dropout": rates[0]}
    rate = {} if head == "scores" else {"dropout": rates[1]}
    return draws.build(
        representation=words, encoder=encoder, head={"name": head, **rate}, **more
    )


def refining(head="softmax", **options):
    """A model with a refinement of a draft of two passes."""
    streams = {"num_layers": 1, "num_heads": 2, "head_dim": 2}
    small = {"label_scale": 1.0, "label_dim": 5, "head": {"name": "softmax"}}
    mc_dropout = {"num_samples": 2, "parts": ("encoder",)}
    refinement = {**small, **streams, **options}
    more = {"num_frozen": 2, "mc_dropout": mc_dropout, "refinement": refinement}
    return build(head=head, **more)


def sentence(length=3, padded=None, width=2):
    padded = padded or length
    words, chars = np.zeros(padded, np.int32), np.zeros((padded, width), np.int32)
    words[:length] = np.arange(2, 2 + length)
    chars[:length, :2] = 1
    whole = spelled(words, chars, np.arange(padded) < length)
    return jax.tree.map(jnp.asarray, whole)


KEYS = models.pass_keys(jax.random.key(0), PASSES)
predict, drafted, refine, sample = (
    jax.jit(f, static_argnums=0)
    for f in (models.predict, models.drafted, models.refine, models.sample)
)


def emissions(model, keys=KEYS):
    return np.asarray(
        sample(model, draws.weights_of(model), sentence(), keys).emissions
    )


# --- Passes ---------------------------------------------------------------------------


@pytest.mark.parametrize("part", ["head", "encoder", "representation"])
def test_only_the_named_part_has_dropout(part):
    """Rates of the others at 0 change nothing; that of the part itself does."""
    passes = emissions(build(mc_dropout={"parts": (part,)}))
    assert np.ptp(passes, axis=0).max() > 0.01
    rates = [0.3 if name == part else 0.0 for name in ("representation", "head")]
    dropped = build(LSTM if part == "encoder" else QUIET, rates=rates)
    np.testing.assert_allclose(passes, emissions(dropped), atol=1e-6)


@pytest.mark.parametrize(
    ("encoder", "chars"),
    [("bilstm", "cnn"), *slow(("transformer", "intnet"), ("lan", "lstm"))],
)
def test_padding_and_batch_mates_change_no_sample(encoder, chars):
    """Nor a longer word in the batch; masks are drawn by place."""
    head = "scores" if encoder == "lan" else "softmax"
    model = build(ENCODERS[encoder], head, chars=CHARACTERS[chars])
    alone = emissions(model)
    assert np.abs(alone[0] - alone[1]).max() > 1e-4
    sentences = sentence(3, 5, 4), sentence(5, 5, 4), sentence(0, 5, 4)
    batch = jax.tree.map(lambda *leaves: jnp.stack(leaves), *sentences)
    passes = jax.jit(jax.vmap(models.sample, (None, None, 0, None)), static_argnums=0)
    together = passes(model, draws.weights_of(model), batch, KEYS).emissions
    np.testing.assert_allclose(together[0, :, :3], alone, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("over", ["scores", "probabilities"])
def test_prediction_from_the_mean_of_scores_or_of_probabilities(over):
    mc_dropout = {"num_samples": PASSES, "average": over, "seed": 5}
    model, mask = build(head="crf", mc_dropout=mc_dropout), sentence().mask
    key = models.sentence_key(jax.random.key(5), sentence())
    weights, keys = draws.weights_of(model), models.pass_keys(key, PASSES)
    predicted = predict(model, weights, sentence())
    passes = sample(model, weights, sentence(), keys)
    if over == "scores":
        mean = np.mean(passes.emissions, axis=0)
        assert predicted.transitions is not None
    else:
        each = (passes._replace(emissions=e) for e in passes.emissions)
        chances = [inference.marginals(potentials, mask) for potentials in each]
        mean = np.log(np.mean(chances, axis=0))
    np.testing.assert_allclose(predicted.emissions, mean, atol=1e-5)


# --- The refinement -------------------------------------------------------------------

CHANCES = jnp.array([[0.7, 0.2, 0.1], [0.1, 0.8, 0.1], [0.3, 0.3, 0.4]])


@pytest.mark.parametrize("soft", [False, True])
def test_the_draft_is_read_as_mean_vectors_or_as_the_likeliest(soft):
    model = refining(soft=soft)
    weights, refinement = draws.weights_of(model), model.refinement
    params = weights["params"]["refinement"]
    chances = CHANCES if soft else jnp.eye(LABELS)[CHANCES.argmax(axis=1)]
    reader = {"params": params["representation"]}
    reader["frozen"] = weights["frozen"]["refinement"]["representation"]
    x = draws.apply(refinement.representation, reader, sentence())
    read = x, chances @ params["label_vectors"], sentence().mask
    features = draws.apply(refinement.streams, {"params": params["streams"]}, *read)
    head = draws.in_float64(weights)["refinement"]["head"]
    expected = draws.dense(head["emissions"], features)
    emissions = refine(model, weights, sentence(), CHANCES).emissions
    np.testing.assert_allclose(emissions, expected, rtol=1e-4, atol=1e-4)


def test_the_refinement_decides_where_the_draft_is_uncertain():
    model = refining("crf")
    weights = draws.weights_of(model)
    draft, chances = drafted(model, weights, sentence())
    entropies = inference.entropy(chances)
    threshold = float(np.sort(entropies)[:2].mean())
    uncertain = np.asarray(entropies) > threshold
    assert uncertain.sum() == 2
    decided = predict(refining("crf", threshold=threshold), weights, sentence())
    logs = np.asarray(decided.emissions)
    np.testing.assert_allclose(np.exp(logs).sum(axis=1), 1, rtol=1e-5)
    refined = refine(model, weights, sentence(), chances)
    for potentials, is_chosen in ((refined, uncertain), (draft, ~uncertain)):
        each = np.log(inference.marginals(potentials, sentence().mask))
        np.testing.assert_allclose(logs[is_chosen], each[is_chosen], atol=1e-5)


# --- Word vectors ---------------------------------------------------------------------


def tables(weights):
    """The word tables of the draft and of the refinement: trained, and frozen."""
    for part in (lambda tree: tree, lambda tree: tree["refinement"]):
        params, frozen = (part(weights[name]) for name in ("params", "frozen"))
        yield (
            params["representation"]["words"]["trained"],
            frozen["representation"]["words"]["vectors"],
        )


@pytest.mark.parametrize("num_trained", [9, 2])
def test_words_are_divided_by_the_deviation_of_the_vocabulary(num_trained):
    """Of the training words' vectors; padding is no word."""
    weights = draws.weights_of(refining())
    rng = np.random.default_rng(0)
    for part in (weights, {k: v["refinement"] for k, v in weights.items()}):
        trained = rng.normal(size=(num_trained, 6)).astype(np.float32)
        trained[0] = 1e6
        frozen = (7 * rng.normal(size=(4, 6))).astype(np.float32)
        part["params"]["representation"]["words"]["trained"] = jnp.asarray(trained)
        part["frozen"]["representation"]["words"]["vectors"] = jnp.asarray(frozen)
    pairs = zip(tables(weights), tables(models.standardise_words(weights)), strict=True)
    for old, new in pairs:
        rows = [old[0][1:]]
        if num_trained == 2:  # all but the unknown word is frozen
            rows.append(old[1])
        deviation = np.concatenate(rows).astype(np.float64).std()
        draws.close(new, [table / deviation for table in old])
