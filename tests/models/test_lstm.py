"""The LSTM kernel and its encoders against an independent NumPy reading."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import Array
from jax.sharding import Mesh, PartitionSpec

from jaxner.models import candidate_kernels
from jaxner.models.chain import Chain, Projection
from jaxner.models.lan import LabelAttention
from jaxner.models.lstm import BiLSTM, bilstm
from jaxner.models.recurrence import Carry, lstm_scan

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
run_batch = jax.jit(  # the key "shared" is that of the batch
    jax.vmap(apply, in_axes=(None, None, 0, 0, {"dropout": 0, "shared": None})),
    static_argnums=0,
)


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


def test_two_directions_that_never_mix(float64):
    """The forward half of Baseline-BiLSTM knows nothing of the tokens to come."""
    x, mask = draw_sentence(4)
    changed = x.at[3].add(1.0)
    for cross in (False, True):
        model = BiLSTM(hidden_dim=SIZE, num_layers=2, cross=cross)
        weights = draw_weights(model)
        left, right = run(model, weights, x, mask), run(model, weights, changed, mask)
        assert np.allclose(left[:3, :SIZE], right[:3, :SIZE]) is not cross
        assert not np.allclose(left[:3, SIZE:], right[:3, SIZE:])


class Weights(NamedTuple):
    """What is trained of some cells, of which the first axis counts them."""

    input: Array
    bias: Array
    state: Array


def plain_scan(carry, x, weights, mask, state_mask):
    """The kernel's equations as a loop, which JAX differentiates by itself."""

    def step(carry, inputs):
        h, c = carry
        x_t, mask_t = inputs
        i, f, o, g = (
            jnp.einsum("gd,gdm->gm", x_t, weights.input[:, :, k])
            + weights.bias[:, k]
            + jnp.einsum("gn,gnm->gm", h * state_mask, weights.state[:, :, k])
            for k in range(4)
        )
        new = jax.nn.sigmoid(f) * c + jax.nn.sigmoid(i) * jnp.tanh(g)
        real = mask_t[:, None]
        c = jnp.where(real, new, c)
        h = jnp.where(real, jax.nn.sigmoid(o) * jnp.tanh(new), h)
        return (h, c), jnp.where(real, h, 0.0)

    end, outputs = jax.lax.scan(step, tuple(carry), (x, mask))
    return outputs, Carry(*end)


def draw_recurrence(mask):
    rng = np.random.default_rng(0)
    length, cells = mask.shape

    def draw(*shape):
        return jnp.asarray(rng.normal(size=shape))

    carry, end = (Carry(draw(cells, SIZE), draw(cells, SIZE)) for _ in range(2))
    weights = Weights(
        draw(cells, 3, 4, SIZE), draw(cells, 4, SIZE), draw(cells, SIZE, 4, SIZE)
    )
    x, outputs = draw(length, cells, 3), draw(length, cells, SIZE)
    state_mask = jnp.asarray([[0.0, 2.0], [1.5, 1.0]])
    return carry, x, weights, jnp.asarray(mask), state_mask, (outputs, end)


def weigh(results, weights):
    """The sum of all results, each with its own weight."""
    products = jax.tree.map(lambda x, w: jnp.sum(x * w), results, weights)
    return sum(jax.tree.leaves(products))


MASKS = {  # [T, G]: each of the two cells has its own
    "full": np.ones((5, 2), bool),
    "padding": np.array([[1, 0], [1, 0], [1, 1], [0, 1], [0, 1]], bool),
    "holes": np.array([[1, 0], [0, 1], [1, 0], [0, 0], [1, 1]], bool),
    "nothing": np.zeros((5, 2), bool),
}


def flat(weights):
    """Lays the gates of each cell side by side."""
    return [leaf.reshape(*leaf.shape[:-2], -1) for leaf in weights]


def run_cells(carry, x, weights, mask, state_mask):
    """Runs the kernel for every cell."""
    over_cells = jax.vmap(lstm_scan, (0, 1, 0, 0, 0, 1, 0), (1, 0))
    return over_cells(carry, x, *flat(weights), mask, state_mask)


def derivatives(function):
    def loss(*arguments):
        return weigh(function(*arguments[:-1]), arguments[-1])

    def slope(*arguments):
        """A number that depends on all first derivatives."""
        grads = jax.grad(loss, argnums=(0, 1, 2))(*arguments)
        return sum(jnp.sum(jnp.sin(leaf)) for leaf in jax.tree.leaves(grads))

    first = jax.value_and_grad(loss, argnums=(0, 1, 2))
    return jax.jit(first), jax.jit(jax.grad(slope, argnums=(0, 1, 2)))


PLAIN = derivatives(plain_scan)
OURS = derivatives(run_cells)


def assert_close(found, expected):
    for left, right in zip(*map(jax.tree.leaves, (found, expected)), strict=True):
        np.testing.assert_allclose(left, right, rtol=1e-11, atol=1e-13)


@pytest.mark.parametrize("case", MASKS)
def test_derivatives_equal_those_of_a_plain_loop(case, float64):
    arguments = draw_recurrence(MASKS[case])
    for run, plain in zip(OURS, PLAIN, strict=True):  # first and second derivatives
        assert_close(run(*arguments), plain(*arguments))


def test_derivatives_of_a_batch_equal_those_of_its_sentences(float64):
    """Forwards and backwards, inside and around `vmap`, with one kernel for all."""
    one, other = (draw_recurrence(MASKS[k]) for k in ("padding", "full"))
    carry, x, kernel, mask, state_mask, weights = jax.tree.map(
        lambda *leaves: jnp.stack(leaves), one, other
    )
    kernel = jax.tree.map(lambda leaf: leaf[0], kernel)
    tangent = jax.tree.map(jnp.cos, kernel)

    def loss(kernel, *rest):
        carry, x, mask, state_mask, weights = rest
        results = run_cells(carry, x, kernel, mask, state_mask)
        return weigh(results, weights)

    rest = carry, jnp.stack([x[0], 2 * x[1]]), mask, state_mask, weights
    over = (None, 0, 0, 0, 0, 0)

    @jax.jit
    def both_ways(kernel):
        each = jax.vmap(jax.grad(loss), over)(kernel, *rest)
        total = lambda kernel: jnp.sum(jax.vmap(loss, over)(kernel, *rest))  # noqa: E731
        _, slope = jax.jvp(total, [kernel], [tangent])
        return each, jax.grad(total)(kernel), slope

    each, summed, slope = both_ways(kernel)
    for number in range(2):
        sentence = jax.tree.map(lambda leaf, n=number: leaf[n], rest)
        expected = PLAIN[0](sentence[0], sentence[1], kernel, *sentence[2:])[1][2]
        assert_close(jax.tree.map(lambda leaf, n=number: leaf[n], each), expected)
    assert_close(summed, jax.tree.map(lambda leaf: jnp.sum(leaf, axis=0), each))
    np.testing.assert_allclose(slope, weigh(summed, tangent), rtol=1e-11)


def test_state_mask_has_no_gradient_and_leaves_memory_and_output_alone(float64):
    *arguments, state_mask, weights = draw_recurrence(MASKS["full"])

    def loss(state_mask):
        return weigh(run_cells(*arguments, state_mask), weights)

    assert not jax.jit(jax.grad(loss))(state_mask).any()
    # With all states masked, what is left is the memory.
    found, end = jax.jit(run_cells)(*arguments, jnp.zeros((2, SIZE)))
    carry, x, weights, _ = arguments
    projected = jnp.einsum("tgd,gdkm->tgkm", x, weights.input) + weights.bias[None]
    projected, c = np.asarray(projected), np.asarray(carry.memory)
    for t in range(5):
        i, f, o, g = (projected[t, :, k] for k in range(4))
        c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
        np.testing.assert_allclose(found[t], sigmoid(o) * np.tanh(c), rtol=1e-12)
    np.testing.assert_allclose(end.memory, c, rtol=1e-12)
    np.testing.assert_array_equal(end.state, found[-1])


def test_the_size_of_a_batch_may_be_left_open():
    """A program for batches of any size, by `jax.export`."""
    (size,) = jax.export.symbolic_shape("b")
    model = BiLSTM(hidden_dim=SIZE)
    weights = draw_weights(model)
    mask = jnp.arange(5) < 4

    @jax.jit
    def read_all(x):
        return jax.vmap(lambda x: apply(model, weights, x, mask))(x)

    shape = jax.ShapeDtypeStruct((size, 5, DIM), jnp.float32)
    exported = jax.export.export(read_all)(shape)
    for count in (2, 70):
        x = jnp.linspace(-1.0, 1.0, count * 5 * DIM).reshape(count, 5, DIM)
        np.testing.assert_allclose(exported.call(x), read_all(x), atol=1e-6)


@pytest.mark.parametrize("case", MASKS)
def test_a_sentence_may_be_read_in_two_parts(case, float64):
    """The final carry of one is the initial carry of the other."""
    carry, x, weights, mask, state_mask, _ = draw_recurrence(MASKS[case])
    run = jax.jit(run_cells)
    whole, end = run(carry, x, weights, mask, state_mask)
    left, middle = run(carry, x[:2], weights, mask[:2], state_mask)
    right, last = run(middle, x[2:], weights, mask[2:], state_mask)
    np.testing.assert_allclose(whole, jnp.concatenate([left, right]), rtol=1e-12)
    for one, other in zip(end, last, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-12)
    if case == "nothing":
        for one, other in zip(end, carry, strict=True):
            np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("units", [1, 3])
def test_gradients_of_a_batch_are_one_product(units):
    """No array holds a kernel for each sentence."""
    batch, length, dim, size = 64, 5, 8, 32
    kernels = [(2, units, dim, 4, size), (2, units, size, 4, size), (2, units, 4, size)]
    shapes = [(batch, length, dim), *kernels]
    structs = [jax.ShapeDtypeStruct(shape, jnp.float32) for shape in shapes]
    mask, ones = jnp.ones(length, bool), jnp.ones((2, units, size))

    def loss(x, *weights):
        one = lambda x: bilstm(x[:, None, None], mask, *weights, ones)[0]  # noqa: E731
        return jnp.sum(jnp.square(jax.vmap(one)(x)))

    text = jax.jit(jax.grad(loss, argnums=(0, 1, 2, 3))).lower(*structs).as_text()
    for rows in (dim, size):
        assert f"tensor<{units}x{rows}x{4 * size}xf32>" in text
        for shape in (f"{batch}x{units}x{rows}", f"{units}x{batch}x{rows}"):
            assert f"tensor<{shape}x{4 * size}xf32>" not in text


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


def test_padding_changes_nothing():
    weights = draw_weights(FULL)
    alone = run(FULL, weights, *draw_sentence(3))
    found = run(FULL, weights, *draw_sentence(3, 4))
    np.testing.assert_allclose(found[:3], alone, rtol=1e-5, atol=1e-6)
    assert not found[3:].any()


@pytest.mark.parametrize("model", [NOISY, SHARED])
def test_dropout_is_the_same_whatever_the_padding(model):
    weights = draw_weights(model)
    short = run(model, weights, *draw_sentence(3), keys(1))
    padded = run(model, weights, *draw_sentence(3, 4), keys(1))
    np.testing.assert_allclose(padded[:3], short, rtol=1e-5, atol=1e-6)
    assert not np.allclose(short, run(model, weights, *draw_sentence(3)))


def test_batch_mates_change_nothing():
    weights = draw_weights(FULL)
    sentences = [draw_sentence(n, 4 - n, seed=n) for n in (1, 4, 0, 3)]
    x, mask = (jnp.stack(leaves) for leaves in zip(*sentences, strict=True))
    together = jax.jit(jax.vmap(lambda x, mask: apply(FULL, weights, x, mask)))(x, mask)
    for sentence, found in zip(sentences, together, strict=True):
        alone = run(FULL, weights, *sentence)
        np.testing.assert_allclose(found, alone, rtol=1e-5, atol=1e-6)
    assert not together[2].any()


def test_a_batch_shares_its_masks_where_it_is_asked_to():
    weights = draw_weights(NOISY)
    x, mask = (jnp.stack([leaf, leaf]) for leaf in draw_sentence(3))
    pair = jax.random.split(jax.random.key(1))
    own = run_batch(NOISY, weights, x, mask, keys(pair, 2))
    shared = run_batch(SHARED, weights, x, mask, keys(pair, 2))
    assert not np.allclose(own[0], own[1])
    np.testing.assert_array_equal(shared[0], shared[1])
    # The masks of the batch are new in the next one.
    assert not np.allclose(shared, run_batch(SHARED, weights, x, mask, keys(pair, 3)))


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
    with pytest.raises(ValueError, match="input_mask 'x' of BiLSTM; known: unit, sh"):
        BiLSTM(input_mask="x")


def test_masks_keep_the_expectation():
    """With gates half open and small inputs a cell is linear in its masked input."""
    model = BiLSTM(hidden_dim=1, input_dropout=0.25, output_dropout=0.4)
    params = {
        "input": jnp.zeros((2, 1, 1, 4, 1)).at[:, :, :, 3].set(1.0),
        "recurrent": jnp.zeros((2, 1, 1, 4, 1)),
        "bias": jnp.zeros((2, 1, 4, 1)),
    }
    weights = {"params": {"layer1": params}}
    x, mask = jnp.full((1, 1), 1e-2), jnp.ones(1, bool)
    plain = float(run(model, weights, x, mask)[0, 0])
    count = 4000
    found = run_batch(
        model,
        weights,
        jnp.tile(x[None], (count, 1, 1)),
        jnp.tile(mask[None], (count, 1)),
        keys(jax.random.split(jax.random.key(0), count)),
    )
    relative = np.asarray(found) / plain
    kept = relative[relative > 0]
    assert len(kept) / relative.size == pytest.approx(0.75 * 0.6, abs=0.03)
    np.testing.assert_allclose(kept, 1 / (0.75 * 0.6), rtol=1e-3)
    assert relative.mean() == pytest.approx(1.0, abs=0.06)


def test_state_dropout_spares_the_first_token_and_the_output():
    model = BiLSTM(hidden_dim=4, state_dropout=0.5)
    weights = draw_weights(model)
    x, mask = draw_sentence(3)
    plain, noisy = run(model, weights, x, mask), run(model, weights, x, mask, keys(1))
    np.testing.assert_allclose(noisy[0, :4], plain[0, :4], rtol=1e-6)
    np.testing.assert_allclose(noisy[2, 4:], plain[2, 4:], rtol=1e-6)
    assert not np.allclose(noisy[1], plain[1])
    assert np.all(noisy != 0)


def test_rates_of_zero_need_no_keys():
    weights = draw_weights(FULL)
    x, mask = draw_sentence(3)
    plain = run(FULL, weights, x, mask)
    np.testing.assert_array_equal(run(FULL, weights, x, mask, {}), plain)
    np.testing.assert_array_equal(run(NOISY, weights, x, mask), plain)


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


def test_gradients_reach_every_parameter():
    weights = draw_weights(NOISY)
    x, mask = draw_sentence(4, 2)
    loss = lambda w: jnp.sum(apply(FULL, w, x, mask) ** 2)  # noqa: E731
    for path, leaf in jax.tree_util.tree_leaves_with_path(
        jax.jit(jax.grad(loss))(weights)
    ):
        assert jnp.isfinite(leaf).all()
        assert leaf.any(), jax.tree_util.keystr(path)


@pytest.mark.parametrize("cross", [True, False])
@pytest.mark.parametrize("num_units", [1, 3])
def test_parameter_tree_is_a_contract(cross, num_units):
    """Names and shapes: old checkpoints depend on them."""
    n, m, k = 5, 7, num_units
    model = BiLSTM(hidden_dim=n, num_units=k, num_layers=2, cross=cross)
    params = jax.eval_shape(lambda: draw_weights(model, dim=m))["params"]
    above = 2 * n if cross else n
    shapes = {
        "/".join(part.key for part in path): leaf.shape
        for path, leaf in jax.tree_util.tree_leaves_with_path(params)
    }
    assert shapes == {
        "layer1/input": (2, k, m, 4, n),
        "layer1/recurrent": (2, k, n, 4, n),
        "layer1/bias": (2, k, 4, n),
        "layer2/input": (2, k, above, 4, n),
        "layer2/recurrent": (2, k, n, 4, n),
        "layer2/bias": (2, k, 4, n),
    }
    for layer, dim in (("layer1", m), ("layer2", above)):
        count = sum(leaf.size for leaf in params[layer].values())
        assert count == 2 * k * (4 * (n * dim + n**2) + 4 * n)


@pytest.mark.parametrize(
    ("initializer", "fans"),  # of the input's and the state's matrix; D = 60, N = 20
    [
        ("glorot", (80, 40)),
        ("glorot_fused", (160, 160)),
        ("kaiming", (60, 20)),
        ("normal", None),
    ],
)
def test_initialisation(initializer, fans):
    model = BiLSTM(hidden_dim=20, num_units=2, initializer=initializer, forget_bias=0.5)
    x, mask = jnp.zeros((1, 60)), jnp.ones(1, bool)
    weights = jax.jit(lambda key: model.init(key, x, mask, train=False))
    layer = weights(jax.random.key(0))["params"]["layer1"]
    for number, name in enumerate(("input", "recurrent")):
        leaf = layer[name]
        if fans is None:
            assert jnp.std(leaf) == pytest.approx(1.0, rel=0.05)
            assert jnp.abs(leaf).max() > 2.5
        else:
            bound = (6 / fans[number]) ** 0.5
            assert 0.97 * bound < jnp.abs(leaf).max() <= bound * (1 + 1e-6)
            assert jnp.std(leaf) == pytest.approx(bound / 3**0.5, rel=0.05)
    expected = np.zeros((2, 2, 4, 20))
    expected[:, :, 1] = 0.5
    np.testing.assert_array_equal(layer["bias"], expected)


def test_candidate_kernels_are_those_that_the_encoder_names():
    params = draw_weights(FULL)["params"]
    found = candidate_kernels(FULL, params)
    assert len(found) == 4  # two layers, two directions
    for number, kernels in enumerate(found):
        layer, direction = divmod(number, 2)
        recurrent = params[f"layer{layer + 1}"]["recurrent"]
        np.testing.assert_array_equal(kernels, recurrent[direction][:, :, 3])


def test_candidate_kernels_of_other_encoders():
    plain = Projection(hidden_dim=4)
    assert candidate_kernels(plain, {"recurrent": jnp.ones((2, 1, 3, 4, 3))}) == []
    chain = Chain(
        Chain(plain, FULL), LabelAttention(3, 2, hidden_dim=SIZE, num_heads=2)
    )
    found = candidate_kernels(chain, draw_weights(chain)["params"])
    expected = [(2, SIZE, SIZE)] * 4 + [(1, SIZE, SIZE)] * 4
    assert [kernels.shape for kernels in found] == expected


def test_settings_are_checked():
    with pytest.raises(ValueError, match=r"Unknown pool 'max' of BiLSTM.*concat, mean"):
        BiLSTM(pool="max")
    with pytest.raises(ValueError, match=r"dropout_scope 'token'.*sentence, batch"):
        BiLSTM(dropout_scope="token")
    with pytest.raises(ValueError, match=r"initializer 'xavier'.*glorot, glorot_fused"):
        BiLSTM(initializer="xavier")
    with pytest.raises(ValueError, match=r"num_units of BiLSTM must be at least 1.* 0"):
        BiLSTM(num_units=0)
    with pytest.raises(ValueError, match=r"state_dropout of BiLSTM.*\[0, 1\).* 1\.0"):
        BiLSTM(state_dropout=1.0)


def test_models_compare_by_value():
    assert BiLSTM(hidden_dim=3) == BiLSTM(hidden_dim=3)
    assert hash(BiLSTM(hidden_dim=3)) == hash(BiLSTM(hidden_dim=3))
    assert BiLSTM() != BiLSTM(cross=False)


@pytest.mark.slow
def test_inside_shard_map():
    """Sentences are spread, weights are not; also the gradient of their sum."""
    model, mask = BiLSTM(SIZE, num_layers=2), jnp.ones(5, bool)
    x = jax.random.normal(jax.random.key(0), (4, 5, DIM))
    weights = model.init(jax.random.key(1), x[0], mask, train=False)

    def total(weights, x):
        def one(x):
            return model.apply(weights, x, mask, train=False)[0]

        return jnp.sum(jax.vmap(one)(x) ** 2)

    def spread(weights, x):
        value, slopes = jax.value_and_grad(total)(weights, x)
        return jax.lax.psum(value, "data"), slopes

    both = jax.shard_map(
        spread,
        mesh=Mesh(np.array(jax.devices()[:2]), ("data",)),
        in_specs=(PartitionSpec(), PartitionSpec("data")),
        out_specs=PartitionSpec(),
    )
    found, expected = jax.jit(both)(weights, x), jax.value_and_grad(total)(weights, x)
    for left, right in zip(*map(jax.tree.leaves, (found, expected)), strict=True):
        np.testing.assert_allclose(left, right, rtol=1e-4, atol=1e-6)
