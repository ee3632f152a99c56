"""Optimizers against the update rules that the papers' frameworks use."""

import inspect

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxner.training import optimizers


def test_sgd_with_momentum_decay_and_clipping():
    """v ← μv + clip(g); θ ← θ - lr·v, with lr = 0.02 / (1 + 0.02·epoch)."""
    options = {
        "name": "sgd",
        "learning_rate": 0.02,
        "momentum": 0.9,
        "decay": 0.02,
        "clip_norm": 5.0,
    }
    tx = optimizers.build(options, steps_per_epoch=2)
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
        gradients = {name: jnp.asarray(g, jnp.float32) for name, g in grads.items()}
        updates, state = tx.update(gradients, state, params)
        params = {name: params[name] + updates[name] for name in params}
    for name, value in theta.items():
        np.testing.assert_allclose(params[name], value, rtol=1e-5)


# --- Adam as TensorFlow computes it -----------------------------------------------


def numpy_steps(grads, rates, b1=0.9, b2=0.999, eps=1e-8, nesterov=False):
    """The change of the parameters at each step, from the formulas themselves."""
    m, v, updates = 0.0, 0.0, []
    for t, (g, rate) in enumerate(zip(grads, rates, strict=True), start=1):
        m = b1 * m + (1 - b1) * g
        v = b2 * v + (1 - b2) * g**2
        top = b1 * m + (1 - b1) * g if nesterov else m
        alpha = rate * np.sqrt(1 - b2**t) / (1 - b1**t)
        updates.append(-alpha * top / (np.sqrt(v) + eps))
    return np.array(updates)


def steps_of(tx, grads):
    """The same from an optimizer, jitted and with a donated state as in training."""
    update = jax.jit(tx.update, donate_argnums=1)
    state, updates = tx.init({"w": jnp.asarray(grads[0])}), []
    for grad in grads:
        step, state = update({"w": jnp.asarray(grad)}, state)
        updates.append(step["w"])
    return np.array(updates)


def draw_grads(count):
    """Gradients from far below to far above an epsilon of 1e-4."""
    scales = np.array([1e-5, 1e-3, 1.0, 10.0])
    return scales * np.random.default_rng(0).normal(size=(count, 4))


@pytest.mark.parametrize("name", ["adam_eps_hat", "nadam"])
@pytest.mark.parametrize(
    "betas", [{}, {"b2": 0.9, "eps": 1e-4}, {"b1": 0.5, "b2": 0.99, "eps": 1e-6}]
)
@pytest.mark.usefixtures("float64")
def test_adam_of_tensorflow_equals_its_formula(name, betas):
    grads = draw_grads(7)
    options = {"name": name, "learning_rate": 0.01, "decay": 0.5, **betas}
    steps = steps_of(optimizers.build(options, steps_per_epoch=3), grads)
    rates = [0.01 / (1 + 0.5 * (step // 3)) for step in range(7)]
    expected = numpy_steps(grads, rates, **betas, nesterov=name == "nadam")
    np.testing.assert_allclose(steps, expected, rtol=1e-6)  # of the float32 schedule


@pytest.mark.parametrize("kind", [optimizers.adam_eps_hat, optimizers.nadam])
def test_adam_of_tensorflow_takes_a_tree_of_any_precision(kind):
    assert list(inspect.signature(kind).parameters)[1:] == ["b1", "b2", "eps"]
    params = {"a": jnp.ones(2, jnp.bfloat16), "b": [jnp.ones((1, 3))], "c": {}}
    tx = kind(0.1)
    updates, state = jax.jit(tx.update)(params, tx.init(params))
    assert jax.tree.map(jnp.result_type, updates) == {
        "a": jnp.bfloat16,
        "b": [jnp.float32],
        "c": {},
    }
    shapes = [jax.tree.map(jnp.result_type, s) for s in (state, tx.init(params))]
    assert shapes[0] == shapes[1]  # so that a step compiles once


def test_equal_options_give_the_same_object():
    options = {"name": "sgd", "learning_rate": 0.1}
    assert optimizers.build(options, 3) is optimizers.build(dict(options), 3)
    assert optimizers.build(options, 3) is not optimizers.build(options, 4)


# --- Clips of parts, and what they record ---------------------------------------------


@pytest.mark.parametrize("clip", optimizers.CLIPS)
def test_parts_are_clipped_together_or_each_by_itself(clip):
    """θ ← θ - lr·s·g, with s from all gradients or from those of the part."""
    options = {
        "name": "sgd",
        "learning_rate": 0.5,
        "clip_norm": 2.0,
        "clip": clip,
        "parts": {"late": {"name": "sgd", "learning_rate": 0.25}},
    }
    tx = optimizers.build(options, steps_per_epoch=3)
    rng = np.random.default_rng(0)
    params = {"model": {"early": jnp.ones(3), "late": {"w": jnp.ones(4)}}}
    state, update = tx.init(params), jax.jit(tx.update)
    for scale in (0.1, 10.0, 1.0):
        early, late = scale * rng.normal(size=3), scale * rng.normal(size=4)
        grads = {
            "model": {"early": jnp.asarray(early), "late": {"w": jnp.asarray(late)}}
        }
        norms = optimizers.part_norms(grads, ("late",))
        assert float(norms["late"]) == pytest.approx(np.linalg.norm(late), rel=1e-5)
        assert float(norms["rest"]) == pytest.approx(np.linalg.norm(early), rel=1e-5)
        updates, state = update(grads, state, params)
        pair = updates["model"]["early"], updates["model"]["late"]["w"]
        joint = np.linalg.norm([*early, *late])
        for update_, grad, rate in zip(pair, (early, late), (0.5, 0.25), strict=True):
            norm = joint if clip == "joint" else np.linalg.norm(grad)
            expected = -rate * grad * min(1.0, 2.0 / norm)
            np.testing.assert_allclose(update_, expected, rtol=1e-5)


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
    tx = optimizers.build({**plain, "parts": {"bert": {**plain, **options}}}, 1)
    updates, _ = tx.update(params, tx.init(params), params)
    moved = updates["bert"]
    assert (-moved["layers"]["key"]["kernel"][:, 0, 1]).tolist() == layers
    assert (-moved["words"]["embedding"]).tolist() == [[pieces] * 2] * 4
    for leaf in (moved["final_norm"]["scale"], updates["head"]):
        assert leaf.tolist() == [-1, -1]
    tx = optimizers.build({**plain, **options}, 1)
    with pytest.raises(ValueError, match="pretrained encoder"):
        tx.update(params["head"], tx.init(params["head"]))
