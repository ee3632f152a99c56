"""bfloat16 and rematerialisation: the same model, computed more cheaply."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxner import models
from jaxner.training import objectives
from tests.marks import slow
from tests.models import draws
from tests.sentences import spelled

LABELS = 5
ENCODERS = {
    "bilstm": {"name": "bilstm", "hidden_dim": 6, "state_dropout": 0.2},
    "grn": {"name": "grn", "hidden_dim": 6},
    "idcnn": {"name": "idcnn", "hidden_dim": 6, "num_blocks": 2},
    "attention": {
        "name": "chain",
        "first": {"name": "bilstm", "hidden_dim": 5},
        "then": {"name": "attention", "num_heads": 2},
    },
    "transformer": {"name": "transformer", "num_heads": 2, "head_dim": 4},
    "lan": {"name": "lan", "hidden_dim": 4, "num_layers": 2, "num_heads": 2},
}
REFINEMENT = {"num_layers": 1, "num_heads": 2, "head_dim": 4, "label_dim": 6}


def build(encoder, head="crf", refinement=None, **options):
    return draws.build(
        num_labels=LABELS,
        num_trained_words=11,
        num_chars=20,
        representation={
            "words": {"dim": 6},
            "chars": {"name": "cnn", "dim": 4, "num_filters": 3},
            "dropout": 0.2,
        },
        encoder=encoder,
        head={"name": head},
        refinement=refinement,
        **options,
    )


def batch():
    rng = np.random.default_rng(0)
    sentences = []
    for length in (7, 4):
        words = rng.integers(0, 9, 7).astype(np.int32)
        chars = rng.integers(1, 20, (7, 5)).astype(np.int32)
        sentences.append(spelled(words, chars, np.arange(7) < length, 0 * words))
    stacked = jax.tree.map(lambda *leaves: jnp.stack(leaves), *sentences)
    return stacked, jnp.asarray(rng.integers(0, LABELS, (2, 7)))


def loss_and_gradient(model, weights, key=None):
    sentences, labels = batch()

    @jax.jit
    def compute(params):
        def loss(params):
            given = {**weights, "params": params}
            return objectives.batch_loss(model, given, sentences, labels, key)

        return jax.value_and_grad(loss)(params)

    return compute(weights["params"])


def flat(tree):
    return np.concatenate([np.ravel(leaf) for leaf in jax.tree.leaves(tree)])


@pytest.mark.parametrize("wanted", [None, "tensorfloat32"])
@pytest.mark.parametrize("name", ["grn", "attention"])
def test_products_are_exact_unless_jax_is_asked_for_less(name, wanted):
    model = build(ENCODERS[name])
    weights = models.init(model, jax.random.key(0))
    sentences, labels = batch()

    def loss(params):
        given = {**weights, "params": params}
        return objectives.batch_loss(model, given, sentences, labels)

    with jax.default_matmul_precision(wanted):
        text = jax.jit(jax.grad(loss)).lower(weights["params"]).as_text()
    products = [line for line in text.splitlines() if "dot_general" in line]
    exact = [line for line in products if "precision = [HIGHEST, HIGHEST]" in line]
    assert len(products) > 5
    assert (len(exact) == len(products)) == (wanted is None)


FAST = ("bilstm", "idcnn")
CASES = [
    *((name, None) for name in FAST),
    *slow(*((name, None) for name in ENCODERS if name not in FAST)),
    *slow(("bilstm", REFINEMENT)),
]


@pytest.mark.parametrize(("name", "refinement"), CASES)
def test_bfloat16_is_float32_rounded(name, refinement):
    head = "scores" if name == "lan" else "crf"
    full, low = (
        build(ENCODERS[name], head, refinement, dtype=dtype) for dtype in models.DTYPES
    )
    weights = models.init(full, jax.random.key(0))
    same = models.init(low, jax.random.key(0))
    assert jax.tree.map(jnp.shape, weights) == jax.tree.map(jnp.shape, same)
    assert {leaf.dtype.name for leaf in jax.tree.leaves(same)} == {"float32"}
    key = jax.random.key(1)
    loss, gradient = loss_and_gradient(full, weights, key)
    rounded, its = loss_and_gradient(low, weights, key)
    assert rounded.dtype == jnp.float32
    assert {leaf.dtype.name for leaf in jax.tree.leaves(its)} == {"float32"}
    assert float(rounded) == pytest.approx(float(loss), rel=0.02)
    assert float(rounded) != float(loss)
    ours, theirs = flat(its), flat(gradient)
    assert np.linalg.norm(ours - theirs) < 0.05 * np.linalg.norm(theirs)


def test_distances_beyond_256_tokens_stay_apart():
    from jaxner.models.transformer import RelativeAttention

    module = RelativeAttention(1, 4, attention_dropout=0.0)
    draws = np.random.default_rng(0)
    x = jnp.asarray(draws.normal(size=(600, 4)), jnp.bfloat16)
    mask = jnp.ones(600, bool)
    weights = module.init(jax.random.key(0), x, x, mask, train=False)
    # Weights depend on the distance alone.
    zero = jax.tree.map(jnp.zeros_like, weights)
    eye = jnp.eye(4).reshape(weights["params"]["value"].shape)
    bias = 8 * jnp.ones_like(weights["params"]["position_bias"])
    own = {"value": eye, "position": jnp.eye(4), "position_bias": bias}
    given = {"params": {**zero["params"], **own}}

    def found(dtype):
        params = jax.tree.map(lambda w: w.astype(dtype), given)
        its = x.astype(dtype)
        return np.asarray(module.apply(params, its, its, mask, train=False), float)

    exact = found(jnp.float32)
    assert np.abs(found(jnp.bfloat16) - exact).mean() < 0.1 * np.abs(exact).mean()


@pytest.mark.parametrize("name", ["idcnn", *slow("bilstm", "grn")])
def test_rematerialisation_changes_no_gradient(name):
    plain, lean = (build(ENCODERS[name], remat=remat) for remat in (False, True))
    weights, key = models.init(plain, jax.random.key(0)), jax.random.key(1)
    expected, found = (loss_and_gradient(m, weights, key) for m in (plain, lean))
    assert jax.tree.structure(expected) == jax.tree.structure(found)
    np.testing.assert_allclose(flat(found), flat(expected), rtol=1e-5, atol=1e-6)
