"""bfloat16 and rematerialisation: the same model, computed more cheaply."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.flatten_util import ravel_pytree

from jaxner import models
from jaxner.models.transformer import RelativeAttention
from jaxner.training import objectives
from tests.marks import slow
from tests.models import draws
from tests.models.test_product import BATCH, GOLD, build

REFINEMENT = {"num_layers": 1, "num_heads": 2, "head_dim": 4, "label_dim": 6}


def gradient_of(model, weights):
    """A compiled function of the trained weights: the loss of a batch, its gradient."""

    def loss(params):
        whole = {**weights, "params": params}
        return objectives.batch_loss(model, whole, BATCH, GOLD, jax.random.key(1))

    return jax.jit(jax.value_and_grad(loss))


@pytest.mark.parametrize("precision", [None, "tensorfloat32"])
def test_products_are_exact_unless_jax_is_asked_for_less(precision):
    model = build("attention", "crf", "words, cnn")
    key = jax.random.key(0)
    weights = jax.jit(lambda: models.init(model, key))()
    with jax.default_matmul_precision(precision):
        text = gradient_of(model, weights).lower(weights["params"]).as_text()
    products = [line for line in text.splitlines() if "dot_general" in line]
    exact = [line for line in products if "precision = [HIGHEST, HIGHEST]" in line]
    assert len(products) > 5
    assert (len(exact) == len(products)) == (precision is None)


@pytest.mark.parametrize("name", ["grn", *slow("attention", "parallel")])
def test_bfloat16_is_float32_rounded(name):
    options = {"representation": "words, cnn"}
    options["refinement"] = REFINEMENT if name == "parallel" else None
    dtypes = ("float32", "bfloat16")
    full, low = (build(name, "crf", **options, dtype=x) for x in dtypes)
    weights = models.init(full, jax.random.key(0))
    twin = models.init(low, jax.random.key(0))
    jax.tree.map(np.testing.assert_array_equal, weights, twin)
    loss, gradient = gradient_of(full, weights)(weights["params"])
    value, slope = gradient_of(low, weights)(weights["params"])
    kinds = {leaf.dtype.name for leaf in jax.tree.leaves((twin, value, slope))}
    assert kinds == {"float32"}
    assert float(value) == pytest.approx(float(loss), rel=0.02)
    assert float(value) != float(loss)
    (rough, _), (right, _) = map(ravel_pytree, (slope, gradient))
    assert np.linalg.norm(rough - right) < 0.05 * np.linalg.norm(right)


def test_distances_beyond_256_tokens_stay_apart():
    module = RelativeAttention(1, 4, attention_dropout=0.0)
    x = jnp.asarray(np.random.default_rng(0).normal(size=(600, 4)), jnp.bfloat16)
    mask = jnp.ones(600, bool)
    # Weights depend on the distance alone.
    zeros = jax.tree.map(jnp.zeros_like, draws.weights_of(module, x, x, mask))
    changes = {"value": jnp.eye(4)[:, None], "position": jnp.eye(4)}
    changes["position_bias"] = jnp.full((1, 4), 8.0)

    def states(dtype):
        params = jax.tree.map(lambda w: w.astype(dtype), zeros["params"] | changes)
        rows = x.astype(dtype)
        return np.asarray(draws.apply(module, {"params": params}, rows, rows, mask))

    exact, low = states(jnp.float32), states(jnp.bfloat16).astype(float)
    assert np.abs(low - exact).mean() < 0.1 * np.abs(exact).mean()


def test_rematerialisation_changes_no_gradient():
    plain, lean = (build("idcnn", "crf", "words", remat=x) for x in (False, True))
    weights = models.init(plain, jax.random.key(0))
    draws.close(*(gradient_of(m, weights)(weights["params"]) for m in (lean, plain)))
