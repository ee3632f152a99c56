"""Passes with dropout, and what is predicted from them.

A refinement is checked against a NumPy reading in test_refinement.py.
"""

import functools

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
WORDS = {"words": {"dim": 6}, "chars": None}
ENCODERS = {
    "bilstm": LSTM,
    "grn": {"name": "grn", "hidden_dim": 4},
    "idcnn": {"name": "idcnn", "hidden_dim": 4, "dilations": (1, 2)},
    "transformer": {
        "name": "transformer",
        "num_layers": 1,
        "num_heads": 2,
        "head_dim": 2,
        "attention_dropout": 0.5,
    },
    "lan": {"name": "lan", "hidden_dim": 2, "num_layers": 2, "num_heads": 2},
}
CHARACTERS = {
    "none": None,
    "cnn": {"name": "cnn", "dim": 3, "num_filters": 3, "dropout": 0.5},
    "lstm": {"name": "lstm", "dim": 3, "hidden_dim": 2, "dropout": 0.5},
    "intnet": {"name": "intnet", "dim": 3, "num_filters": 2, "growth": 2},
}


def build(encoder="bilstm", head="softmax", dropout=0.3, mc_dropout=None, chars="none"):
    words = {"words": {"dim": 6}, "chars": CHARACTERS[chars], "dropout": dropout}
    return draws.build(
        representation=words,
        encoder=ENCODERS[encoder] if isinstance(encoder, str) else encoder,
        head={"name": head} if head == "scores" else {"name": head, "dropout": dropout},
        mc_dropout=mc_dropout,
    )


def sentence(length=3, padded=None, width=2):
    padded = padded or length
    words, chars = np.zeros(padded, np.int32), np.zeros((padded, width), np.int32)
    words[:length] = np.arange(2, 2 + length)
    chars[:length, :2] = 1
    given = spelled(words, chars, np.arange(padded) < length)
    return jax.tree.map(jnp.asarray, given)


@functools.partial(jax.jit, static_argnums=0)
def weights_of(model):
    """Scores far from uniform, so that labels and entropies differ."""
    drawn = models.init(model, jax.random.key(0))
    return jax.tree.map(lambda leaf: leaf * 3, drawn)


sample = jax.jit(models.sample, static_argnums=0)


def emissions(model, keys, given=None):
    given = sentence() if given is None else given
    return sample(model, weights_of(model), given, keys).emissions


@pytest.mark.parametrize("head", ["softmax", "crf"])
def test_no_dropout_means_no_mutual_information(head):
    model = build(QUIET, head, dropout=0.0)
    keys = models.pass_keys(jax.random.key(0), PASSES)
    samples = models.sample(model, weights_of(model), sentence(), keys)
    chances = models.probabilities(samples, sentence().mask)
    assert chances.shape == (PASSES, 3, LABELS)
    found = inference.summarise(chances)
    np.testing.assert_allclose(found.mutual_information, 0, atol=1e-6)
    assert (found.entropy > 0).all()


@pytest.mark.parametrize("parts", [("head",), ("encoder",), ("representation",)])
def test_only_the_named_parts_have_dropout(parts):
    """Rates of the others at 0 change nothing; that of the part itself does."""
    mc_dropout = {"parts": parts}
    keys = models.pass_keys(jax.random.key(0), PASSES)
    found = np.asarray(emissions(build(mc_dropout=mc_dropout), keys))
    assert np.ptp(found, axis=0).max() > 0.01
    rates = {part: 0.3 if part in parts else 0.0 for part in ("head", "representation")}
    others = draws.build(
        representation={**WORDS, "dropout": rates["representation"]},
        encoder=LSTM if "encoder" in parts else QUIET,
        head={"name": "softmax", "dropout": rates["head"]},
    )
    np.testing.assert_allclose(found, emissions(others, keys), atol=1e-6)


@pytest.mark.parametrize(
    ("encoder", "chars"),
    [
        ("bilstm", "none"),
        *slow(("grn", "none"), ("idcnn", "none"), ("transformer", "none")),
        *slow(("lan", "none"), ("idcnn", "cnn"), ("idcnn", "intnet")),
        *slow(("idcnn", "lstm")),
    ],
)
def test_padding_and_batch_mates_change_no_sample(encoder, chars):
    """Nor a longer word in the batch; masks are drawn by place."""
    model = build(encoder, "scores" if encoder == "lan" else "softmax", chars=chars)
    weights = weights_of(model)
    keys = models.pass_keys(jax.random.key(0), 2)
    alone = emissions(model, keys)
    assert np.abs(alone[0] - alone[1]).max() > 1e-4
    batch = jax.tree.map(
        lambda *leaves: jnp.stack(leaves),
        *(sentence(3, 5, 4), sentence(5, 5, 4), sentence(0, 5, 4)),
    )
    passes = jax.vmap(models.sample, in_axes=(None, None, 0, None))
    together = jax.jit(passes, static_argnums=0)(model, weights, batch, keys).emissions
    np.testing.assert_allclose(together[0, :, :3], alone, rtol=1e-5, atol=1e-5)


def test_sentences_have_masks_of_their_own_whatever_their_padding():
    key = jax.random.key(0)
    one, padded = sentence(3), sentence(3, 6, 5)
    other = one._replace(words=one.words[::-1])
    keys = [
        jax.random.key_data(models.sentence_key(key, s)).tolist()
        for s in (one, padded, other, sentence(4))
    ]
    assert keys[0] == keys[1]
    assert len({tuple(k) for k in keys}) == 3


def test_prediction_from_the_mean_of_scores_or_of_probabilities():
    given = sentence()
    own = models.sentence_key(jax.random.key(5), given)
    keys = models.pass_keys(own, PASSES)
    found = {}
    for over in ("scores", "probabilities"):
        mc_dropout = {"num_samples": PASSES, "average": over, "seed": 5}
        model = build(mc_dropout=mc_dropout)
        found[over] = models.predict(model, weights_of(model), given).emissions
        samples = np.asarray(emissions(model, keys), np.float64)
        chances = np.exp(samples) / np.exp(samples).sum(axis=-1, keepdims=True)
        wanted = {
            "scores": samples.mean(axis=0),
            "probabilities": np.log(chances.mean(axis=0)),
        }
        np.testing.assert_allclose(found[over], wanted[over], atol=1e-5)


def test_a_crf_keeps_its_transitions_and_samples_its_marginals():
    model = build(head="crf", mc_dropout={"num_samples": PASSES})
    weights, given = weights_of(model), sentence()
    rng = np.random.default_rng(0)
    weights["params"]["head"]["transitions"] = jnp.asarray(
        rng.normal(size=(LABELS, LABELS)), jnp.float32
    )
    own = models.sentence_key(jax.random.key(0), given)
    keys = models.pass_keys(own, PASSES)
    samples = models.sample(model, weights, given, keys)
    assert samples.transitions.shape == (LABELS, LABELS)
    chances = models.probabilities(samples, given.mask)
    one = samples._replace(emissions=samples.emissions[1])
    np.testing.assert_allclose(
        chances[1], inference.marginals(one, given.mask), rtol=1e-5
    )
    predicted = models.predict(model, weights, given)
    assert predicted.transitions is not None
    np.testing.assert_allclose(
        predicted.emissions, samples.emissions.mean(axis=0), atol=1e-5
    )


def test_a_head_without_scores_labels_no_documents_and_has_no_dropout_gap():
    from jaxner.data import vocabulary as vocab
    from jaxner.tagger import build as build_tagger
    from jaxner.training import objectives

    vocabulary, _ = vocab.build([["a"]], ["LOC"], documents=True)
    options = {
        "representation": {"words": {"dim": 6}, "chars": None},
        "encoder": LSTM,
        "head": {"name": "seq2seq"},
    }
    with pytest.raises(ValueError, match="'seq2seq' has no scores"):
        build_tagger(vocabulary, **options)
    model = build(head="seq2seq")
    one = models.apply(model, weights_of(model), sentence())
    with pytest.raises(ValueError, match="dropout_penalty needs scores"):
        objectives.dropout_gap(one, one, sentence().mask)
