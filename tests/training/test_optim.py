"""Optimizers against the update rules that the papers' frameworks use."""

import jax.numpy as jnp
import numpy as np
import pytest

from jaxner.training import optim


def test_sgd_with_momentum_decay_and_clipping():
    """v ← μv + clip(g); θ ← θ - lr·v, with lr = 0.02 / (1 + 0.02·epoch)."""
    options = {
        "name": "sgd",
        "learning_rate": 0.02,
        "momentum": 0.9,
        "decay": 0.02,
        "clip_norm": 5.0,
    }
    tx = optim.build(options, steps_per_epoch=2)
    rng = np.random.default_rng(0)
    theta = {"a": rng.normal(size=3), "b": rng.normal(size=(2, 2))}
    velocity = {name: np.zeros_like(value) for name, value in theta.items()}
    params = {name: jnp.asarray(value, jnp.float32) for name, value in theta.items()}
    state = tx.init(params)
    for step in range(7):
        scale = 10.0 if step % 2 else 0.1  # above and below the clip
        grads = {name: scale * rng.normal(size=v.shape) for name, v in theta.items()}
        norm = np.sqrt(sum((g**2).sum() for g in grads.values()))
        for name, grad in grads.items():
            clipped = grad * min(1.0, 5.0 / norm)
            velocity[name] = 0.9 * velocity[name] + clipped
            theta[name] = theta[name] - 0.02 / (1 + 0.02 * (step // 2)) * velocity[name]
        given = {name: jnp.asarray(g, jnp.float32) for name, g in grads.items()}
        updates, state = tx.update(given, state, params)
        params = {name: params[name] + updates[name] for name in params}
    for name, value in theta.items():
        np.testing.assert_allclose(params[name], value, rtol=1e-5)


def test_unknown_optimizers_name_the_known_ones():
    with pytest.raises(ValueError, match="Unknown optimizer 'sdg'; known: adam, sgd"):
        optim.build({"name": "sdg", "learning_rate": 0.1}, 1)


def test_equal_options_give_the_same_object():
    options = {"name": "sgd", "learning_rate": 0.1}
    assert optim.build(options, 3) is optim.build(dict(options), 3)
    assert optim.build(options, 3) is not optim.build(options, 4)
