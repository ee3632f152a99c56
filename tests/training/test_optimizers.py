"""Optimizers against the update rules that the papers' frameworks use."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxner.training import optimizers

PARTS = {"late": {"name": "sgd", "learning_rate": 0.25}}
ARRAY = {"late/w": PARTS["late"]}


@pytest.mark.parametrize(
    ("clip", "parts"),
    [("joint", {}), ("joint", PARTS), ("parts", PARTS), ("joint", ARRAY)],
)
def test_sgd_has_momentum_decay_and_a_clip_of_all_or_of_each_part(clip, parts):
    """v ← μv + s·g; θ ← θ - lr·v, with lr = 0.02 / (1 + 0.02·epoch).

    s is from all gradients or from those of the part, which has options of its own.
    """
    options = {"name": "sgd", "learning_rate": 0.02, "momentum": 0.9, "decay": 0.02}
    options |= {"clip_norm": 5.0, "clip": clip, "parts": parts}
    tx = optimizers.build(options, steps_per_epoch=2)
    rng = np.random.default_rng(0)
    params = {"model": {"early": jnp.ones(3), "late": {"w": jnp.ones(4)}}}
    state, update = tx.init(params), jax.jit(tx.update)
    velocities = [np.zeros(3), np.zeros(4)]
    for step in range(7):
        scale = 10.0 if step % 2 else 0.1  # above and below the clip
        first, second = scale * rng.normal(size=3), scale * rng.normal(size=4)
        tree = {"model": {"early": first, "late": {"w": second}}}
        grads = jax.tree.map(jnp.asarray, tree)
        (path,) = parts or PARTS
        norms = optimizers.part_norms(grads, (path,))
        assert float(norms[path]) == pytest.approx(np.linalg.norm(second), rel=1e-5)
        assert float(norms["rest"]) == pytest.approx(np.linalg.norm(first), rel=1e-5)
        updates, state = update(grads, state, params)
        pair = updates["model"]["early"], updates["model"]["late"]["w"]
        values = 0.02 / (1 + 0.02 * (step // 2)), 0.9
        settings = values, (0.25, 0.0) if parts else values
        for i, grad in enumerate((first, second)):
            rate, momentum = settings[i]
            norm = np.linalg.norm([*first, *second] if clip == "joint" else grad)
            velocities[i] = momentum * velocities[i] + grad * min(1.0, 5.0 / norm)
            np.testing.assert_allclose(pair[i], -rate * velocities[i], rtol=1e-5)


@pytest.mark.parametrize("name", ["adam_eps_hat", "nadam"])
@pytest.mark.parametrize(
    "betas", [{}, {"b2": 0.9, "eps": 1e-4}, {"b1": 0.5, "b2": 0.99, "eps": 1e-6}]
)
@pytest.mark.usefixtures("float64")
def test_adam_of_tensorflow_equals_its_formula(name, betas):
    # From far below to far above an epsilon of 1e-4.
    scales = np.array([1e-5, 1e-3, 1.0, 10.0])
    grads = scales * np.random.default_rng(0).normal(size=(7, 4))
    options = {"name": name, "learning_rate": 0.01, "decay": 0.5, **betas}
    tx = optimizers.build(options, steps_per_epoch=3)
    update = jax.jit(tx.update, donate_argnums=1)  # as in training
    b1, b2, eps = ({"b1": 0.9, "b2": 0.999, "eps": 1e-8} | betas).values()
    state, m, v = tx.init(jnp.asarray(grads[0])), 0.0, 0.0
    for t, g in enumerate(grads, start=1):
        step, state = update(jnp.asarray(g), state)
        m = b1 * m + (1 - b1) * g
        v = b2 * v + (1 - b2) * g**2
        top = b1 * m + (1 - b1) * g if name == "nadam" else m
        rate = 0.01 / (1 + 0.5 * ((t - 1) // 3))  # in float32
        alpha = rate * np.sqrt(1 - b2**t) / (1 - b1**t)
        np.testing.assert_allclose(step, -alpha * top / (np.sqrt(v) + eps), rtol=1e-6)


@pytest.mark.parametrize("kind", [optimizers.adam_eps_hat, optimizers.nadam])
def test_adam_of_tensorflow_takes_a_tree_of_any_precision(kind):
    params = {"a": jnp.ones(2, jnp.bfloat16), "b": [jnp.ones((1, 3))], "c": {}}
    tx = kind(0.1)
    updates, state = jax.jit(tx.update)(params, tx.init(params))
    kinds = {"a": jnp.bfloat16, "b": [jnp.float32], "c": {}}
    assert jax.tree.map(jnp.result_type, updates) == kinds
    shapes = [jax.tree.map(jnp.result_type, s) for s in (state, tx.init(params))]
    assert shapes[0] == shapes[1]  # so that a step compiles once


def test_equal_options_give_the_same_object():
    options = {"name": "sgd", "learning_rate": 0.5}
    for rate in (np.float32(0.5), jnp.float32(0.5)):
        equal = {**options, "learning_rate": rate}
        assert optimizers.build(options, 3) is optimizers.build(equal, 3)
    assert optimizers.build(options, 3) is not optimizers.build(options, 4)


def test_wrong_options_are_refused():
    part = {"name": "sgd", "learning_rate": 0.1}
    for options in (
        {"clip": "parts", "clip_norm": 1.0},
        {"clip": "parts", "parts": {"a": part}},
        {"parts": {"a": {**part, "clip_norm": 1.0}}},
        {"warmup": 0.1},
        {"b1": 0.9},
        {"name": "adam_eps_hat", "momentum": 0.9},
        {"name": "lion"},
    ):
        with pytest.raises(ValueError, match=r"optimizer"):
            optimizers.build(part | options, 1)
    missing = optimizers.build({**part, "parts": {"bert": part}}, 1)
    with pytest.raises(ValueError, match="no parameters below this path"):
        missing.init({"w": jnp.ones(1)})


@pytest.mark.parametrize(
    ("options", "layers", "pieces"),
    [
        ({"layer_decay": 0.5}, [0.25, 0.5, 1], 0.125),
        ({"frozen_layers": 1}, [0, 1, 1], 0),
        ({"layer_decay": 0.5, "frozen_layers": 2}, [0, 0, 1], 0),
    ],
)
def test_lower_layers_of_an_encoder_move_less_or_not_at_all(options, layers, pieces):
    encoder = {
        "layers": {"key": {"kernel": jnp.ones((3, 2, 2))}},
        "words": {"embedding": jnp.ones((4, 2))},
        "final_norm": {"scale": jnp.ones(2)},
    }
    params = {"bert": encoder, "head": jnp.ones(2)}
    plain = {"name": "sgd", "learning_rate": 1.0}
    for part in ({**plain, "parts": {"bert": {**plain, **options}}}, plain | options):
        tx = optimizers.build(part, 1)
        updates, _ = tx.update(params, tx.init(params), params)
        update = updates["bert"]
        assert (-update["layers"]["key"]["kernel"][:, 0, 1]).tolist() == layers
        assert (-update["words"]["embedding"]).tolist() == [[pieces] * 2] * 4
        for leaf in (update["final_norm"]["scale"], updates["head"]):
            assert leaf.tolist() == [-1, -1]
    tx = optimizers.build({**plain, **options}, 1)
    with pytest.raises(ValueError, match="pretrained encoder"):
        tx.update(params["head"], tx.init(params["head"]))
