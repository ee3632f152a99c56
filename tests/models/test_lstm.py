"""The LSTM kernel and its encoders against an independent NumPy reading."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxner.models import BiLSTM
from jaxner.models.layers import bilstm

DIM, SIZE = 3, 2


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def numpy_cell(inputs, kernel, recurrent, bias, state_mask=1.0):
    """Outputs of one cell, token by token, in the order in which `inputs` come."""
    h, c, outputs = np.zeros(bias.shape[1]), np.zeros(bias.shape[1]), []
    for x in inputs:
        received = h * state_mask
        i, f, o, g = (
            x @ kernel[:, gate] + received @ recurrent[:, gate] + bias[gate]
            for gate in range(4)
        )
        c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
        h = sigmoid(o) * np.tanh(c)
        outputs.append(h)
    return outputs


def numpy_bilstm(params, sentence, num_units, num_layers, cross, pool):
    """Features of one sentence without padding: `[Hf; Hb]` of all units."""
    p = jax.tree.map(lambda leaf: np.asarray(leaf, np.float64), params)
    forwards, backwards = [], []
    for k in range(num_units):
        below_f = below_b = [np.asarray(x, np.float64) for x in sentence]
        for number in range(1, num_layers + 1):
            layer = p[f"layer{number}"]
            cells = [
                [layer[name][d, k] for name in ("input", "recurrent", "bias")]
                for d in range(2)
            ]
            if cross and number > 1:
                both = [np.concatenate(z) for z in zip(below_f, below_b, strict=True)]
                below_f = below_b = both
            read_f = numpy_cell(below_f, *cells[0])
            read_b = numpy_cell(below_b[::-1], *cells[1])[::-1]
            below_f, below_b = read_f, read_b
        forwards.append(np.array(below_f))
        backwards.append(np.array(below_b))
    if pool == "mean":
        forwards, backwards = [sum(forwards) / num_units], [sum(backwards) / num_units]
    return np.concatenate(forwards + backwards, axis=1)


def apply(model, weights, x, mask, keys=None):
    rngs = keys or {}
    return model.apply(weights, x, mask, train=keys is not None, rngs=rngs)[0]


run = jax.jit(apply, static_argnums=0)


def draw_weights(model, dim=DIM, seed=0):
    """Random weights with no zeros in them, so that no term can be forgotten."""
    rng = np.random.default_rng(seed)
    x, mask = jnp.zeros((1, dim)), jnp.ones(1, bool)
    shapes = jax.eval_shape(lambda: model.init(jax.random.key(0), x, mask, train=False))
    return jax.tree.map(
        lambda leaf: jnp.asarray(rng.normal(size=leaf.shape), leaf.dtype), shapes
    )


def draw_sentence(length, padding=0, dim=DIM, seed=0):
    rng = np.random.default_rng(seed)
    x = np.zeros((length + padding, dim), np.float32)
    x[:length] = rng.normal(size=(length, dim))
    return jnp.asarray(x), jnp.arange(length + padding) < length


@pytest.mark.parametrize("num_units", [1, 3])
@pytest.mark.parametrize("num_layers", [1, 2])
@pytest.mark.parametrize("cross", [True, False])
@pytest.mark.parametrize("pool", ["concat", "mean"])
def test_forward_pass_equals_numpy(num_units, num_layers, cross, pool, float64):
    choice = {"num_units": num_units, "num_layers": num_layers}
    choice |= {"cross": cross, "pool": pool}
    model = BiLSTM(hidden_dim=SIZE, **choice)
    weights = jax.tree.map(lambda leaf: leaf.astype(float), draw_weights(model))
    x, mask = draw_sentence(4, padding=2)
    found = run(model, weights, x.astype(float), mask)
    expected = numpy_bilstm(weights["params"], x[:4], **choice)
    assert found.dtype == jnp.float64
    np.testing.assert_allclose(found[:4], expected, rtol=1e-12, atol=1e-12)
    assert not found[4:].any()


def test_the_memory_is_a_sum_in_float32():
    """In bfloat16, a sum of 8 would not grow by 0.02 any more."""
    length, low = 400, jnp.bfloat16
    zeros = jnp.zeros((2, 1, 1, 4, 1), low)
    bias = jnp.zeros((2, 1, 4, 1), low).at[:, :, 0:2].set(20.0).at[:, :, 3].set(0.02)
    x, mask = jnp.zeros((length, 1, 1, 1), low), jnp.ones(length, bool)
    outputs, end = bilstm(x, mask, zeros, zeros, bias, jnp.ones((2, 1, 1), low))
    assert (outputs.dtype, end.state.dtype) == (low, low)
    np.testing.assert_allclose(end.memory, 0.02 * length, rtol=1e-2)


FULL = BiLSTM(hidden_dim=SIZE, num_units=2, num_layers=2)
NOISY = FULL.clone(input_dropout=0.4, state_dropout=0.3, output_dropout=0.2)
SHARED = NOISY.clone(dropout_scope="batch")


def keys(dropout, shared=0):
    if isinstance(dropout, int):
        dropout = jax.random.key(dropout)
    return {"dropout": dropout, "shared": jax.random.key(shared)}


@pytest.mark.parametrize("model", [NOISY, SHARED])
def test_dropout_is_the_same_whatever_the_padding(model):
    weights = draw_weights(model)
    short = run(model, weights, *draw_sentence(3), keys(1))
    padded = run(model, weights, *draw_sentence(3, 4), keys(1))
    np.testing.assert_allclose(padded[:3], short, rtol=1e-5, atol=1e-6)
    assert not np.allclose(short, run(model, weights, *draw_sentence(3)))


def test_masks_are_constant_over_time_and_each_cell_has_its_own():
    """Cells that remember nothing show what each mask does to an input that stays."""
    model = BiLSTM(hidden_dim=3, num_units=2, input_dropout=0.5, output_dropout=0.5)
    weights = draw_weights(model, dim=5)
    layer = weights["params"]["layer1"]
    layer["recurrent"] = jnp.zeros_like(layer["recurrent"])
    layer["bias"] = layer["bias"].at[:, :, 1].set(-1e4)  # all is forgotten
    layer["input"] = layer["input"].at[:, :, :, 1].set(0.0)
    x, mask = jnp.tile(jnp.arange(1.0, 6.0) / 9, (4, 1)), jnp.ones(4, bool)
    found = run(model, weights, x, mask, keys(5))
    np.testing.assert_array_equal(found[1:], found[:-1])
    zeros = np.asarray(found[0] == 0).reshape(4, 3)
    assert zeros.any()
    assert not zeros.all()
    assert len({tuple(row) for row in zeros}) > 1
    # Of four equal cells, no two see the same input.
    model = model.clone(output_dropout=0.0)
    alike = jax.tree.map(lambda leaf: jnp.broadcast_to(leaf[:1, :1], leaf.shape), layer)
    found = run(model, {"params": {"layer1": alike}}, x, mask, keys(5))
    assert len({tuple(row) for row in np.asarray(found[0]).reshape(4, 3)}) == 4


@pytest.mark.parametrize("num_units", [2, 3])
def test_one_input_mask_for_all_cells_of_a_layer(num_units):
    """The cells see the same features, so equal cells give the same."""
    model = BiLSTM(
        hidden_dim=3, num_units=num_units, input_dropout=0.5, input_mask="shared"
    )
    weights = draw_weights(model, dim=5)
    layer = weights["params"]["layer1"]
    alike = jax.tree.map(lambda leaf: jnp.broadcast_to(leaf[:1, :1], leaf.shape), layer)
    weights = {"params": {"layer1": alike}}
    x, mask = jnp.arange(1.0, 6.0)[None] / 9, jnp.ones(1, bool)
    found = np.asarray(run(model, weights, x, mask, keys(5)))
    np.testing.assert_allclose(found, np.tile(found[:, :3], 2 * num_units), rtol=1e-6)
    # It is the input twofold where the mask keeps it: one of the 32 masks there are.
    plain = model.clone(input_dropout=0.0)
    masks = (np.arange(32)[:, None] >> np.arange(5)) % 2
    same = [
        np.allclose(found, run(plain, weights, 2 * x * kept[None], mask), rtol=1e-4)
        for kept in masks
    ]
    assert sum(same) == 1
    assert not same[0]
    assert not same[-1]


def test_state_dropout_spares_the_first_token_and_the_output():
    model = BiLSTM(hidden_dim=4, state_dropout=0.5)
    weights = draw_weights(model)
    x, mask = draw_sentence(3)
    plain, noisy = run(model, weights, x, mask), run(model, weights, x, mask, keys(1))
    np.testing.assert_allclose(noisy[0, :4], plain[0, :4], rtol=1e-6)
    np.testing.assert_allclose(noisy[2, 4:], plain[2, 4:], rtol=1e-6)
    assert not np.allclose(noisy[1], plain[1])
    assert np.all(noisy != 0)


@pytest.mark.parametrize("model", [FULL, NOISY])
def test_no_token_and_no_sentence(model):
    weights = draw_weights(model)

    def total(weights, x, mask):
        return jnp.sum(apply(model, weights, x, mask, keys(0)))

    x, mask = draw_sentence(0)
    assert run(model, weights, x, mask, keys(0)).shape == (0, 8)
    for padding in (0, 2):  # no token at all, and padding alone
        gradient = jax.jit(jax.grad(total))(weights, *draw_sentence(0, padding))
        for leaf in jax.tree.leaves(gradient):
            np.testing.assert_array_equal(leaf, jnp.zeros_like(leaf))
    nobody = jax.tree.map(lambda leaf: leaf[None][:0], draw_sentence(3))
    batch = jax.vmap(lambda x, mask: apply(model, weights, x, mask, keys(0)))(*nobody)
    assert batch.shape == (0, 3, 8)
