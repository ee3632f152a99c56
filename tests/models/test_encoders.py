"""Encoders against independent NumPy readings of their papers, token by token."""

import functools
import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.test_util import check_grads

from jaxner import models
from jaxner.models import GRN, IDCNN, BiLSTM, Chain, LabelAttention, layers
from jaxner.models import bilstm as attention
from jaxner.models import transformer as relative
from jaxner.models.grn import gated_sum
from jaxner.models.transformer import RelativeAttention
from tests.models import draws

KEY = jax.random.key(0)
LENGTH, PADDING = 7, 3


# --- Readings of papers: what a model's stages are, and what else it tells ------------

PARTS = {None: [0, 1, 2, 3], ("context1", "hidden"): [0, 1], ("context",): [1, 2, 3]}


def numpy_attention(m, p, x):
    """The heads of the paper one after the other, one token at a time."""
    parts, alphas = [x], []
    for head in range(p["query"].shape[1]):
        w_q, w_k, w_v = (p[name][:, head] for name in ("query", "key", "value"))
        scores = [[q @ w_q @ (k @ w_k) / w_q.shape[1] ** 0.5 for k in x] for q in x]
        alphas.append(draws.softmax(np.array(scores)))
        parts.append(alphas[-1] @ (x @ w_v))
    parts = [part * (i in PARTS[m.keep]) for i, part in enumerate(parts)]
    margins = (0, 0), (0, PADDING), (0, PADDING)
    return [np.concatenate(parts, axis=1)], {"attention": np.pad(alphas, margins)}


def numpy_grn(m, p, x):
    """Eq. 2 to 8."""
    if widths := {"all": [1, 3, 5], "branch3": [3], "none": []}[m.context]:
        cells = [(p[f"conv{k}"]["kernel"], p[f"conv{k}"]["bias"], k) for k in widths]
        x = np.max([np.tanh(draws.convolve(x, *cell)) for cell in cells], axis=0)
    if m.relation == "none":
        return [x], {}
    scores = draws.dense(p["from"], x)[:, None] + draws.dense(p["to"], x)[None]
    terms = scores if m.relation == "fusion" else draws.sigmoid(scores) * x[None]
    return [np.tanh(terms.mean(axis=1))], {}


def numpy_idcnn(m, p, x):
    """Eq. 7 to 10: what each block gives, b^(1) to b^(L_b)."""
    rows, stages = np.maximum(draws.convolve(x, **p["initial"], width=3), 0), []
    for i in range(1, m.num_blocks + 1):
        block = p["block" if m.share else f"block{i}"]
        for j, dilation in enumerate(m.dilations, 1):
            cell = {**block[f"conv{j}"], "width": 3, "dilation": dilation}
            rows = np.maximum(draws.convolve(rows, **cell), 0)
        stages.append(rows)
    return stages, {}


def numpy_chain(m, p, x):
    """The second one reads each stage of the first."""
    stages, _ = numpy_idcnn(m.first, p["first"], x)
    parts = [numpy_idcnn(m.then, p["then"], h)[0] for h in stages]
    return [*itertools.chain(*parts)], {}


def numpy_bilstm(m, p, x):
    """`[Hf; Hb]` of all units."""
    sides = [[], []]
    for unit in range(m.num_units):
        pair = [x, x]
        for number in range(1, m.num_layers + 1):
            if m.cross and number > 1:
                pair = [np.concatenate(pair, axis=1)] * 2
            layer = p[f"layer{number}"]
            pair = [np.array(draws.lstm(layer, pair[d], d, unit)[0]) for d in (0, 1)]
        for side, rows in zip(sides, pair, strict=True):
            side.append(rows)
    if m.pool == "mean":
        sides = [[sum(side) / m.num_units] for side in sides]
    return [np.concatenate([*sides[0], *sides[1]], axis=1)], {}


def numpy_lan(m, p, rows):
    """The scores, and the weights of the layers below the last."""

    def project(x, name, heads):
        x = np.maximum(draws.dense(p[name], x), 0)
        return np.stack(np.split(x, heads, axis=1))

    first, attention = None, []
    for layer in range(1, m.num_layers + 1):
        begin = first or [(0.0, 0.0)] * 2
        cells = [draws.lstm(p[f"lstm{layer}"], rows, d, begin=begin[d]) for d in (0, 1)]
        first = first or [end for _, end in cells]
        h = np.concatenate([states for states, _ in cells], axis=1)
        heads, name = 1 if layer == m.num_layers else m.num_heads, f"attention{layer}"
        queries = project(h, f"{name}_query", heads)
        keys = project(p["labels"], f"{name}_key", heads)
        scores = queries @ keys.swapaxes(1, 2) / queries.shape[2] ** 0.5
        if layer == m.num_layers:
            extra = {"label_attention": np.stack(attention)} if attention else {}
            return [scores[0]], extra
        attention.append(draws.softmax(scores))
        answers = attention[-1] @ project(p["labels"], f"{name}_value", heads)
        rows = np.concatenate([h, np.concatenate(answers, axis=1) + h], axis=1)


def norm(p, x):
    gaps = x - x.mean(axis=1, keepdims=True)
    deviation = np.sqrt((gaps**2).mean(axis=1, keepdims=True) + 1e-12)
    return gaps / deviation * p["scale"] + p["bias"]


def encoding(distance, dim):
    """R of one distance, number by number."""
    angles = [distance / 10_000 ** (n / max(dim // 2 - 1, 1)) for n in range(dim // 2)]
    return np.array([*map(np.sin, angles), *map(np.cos, angles)])


def numpy_relative(p, x, y, position=None):
    """The heads one after the other, pair by pair."""
    heads = []
    position = p["position"] if position is None else position
    for head in range(p["query"].shape[1]):
        w_q, w_k, w_v = (p[name][:, head] for name in ("query", "key", "value"))
        u, v = p["content_bias"][head], p["position_bias"][head]
        scores = np.zeros((len(x), len(y)))
        for i, x_i in enumerate(x):
            for j, y_j in enumerate(y):
                r, query = encoding(j - i, len(u)) @ position, x_i @ w_q
                scores[i, j] = (query + u) @ (y_j @ w_k) + (query + v) @ r
        heads.append(draws.softmax(scores / len(u) ** 0.5) @ (y @ w_v))
    return np.concatenate(heads, axis=1)


def numpy_layer(p, x, form="code", keys=None, position=None):
    keys = x if keys is None else keys
    mixture = numpy_relative(p["attention"], x, keys, position)
    if form == "paper":
        mixture = draws.dense(p["projection"], mixture)
    h = norm(p["norm1"], mixture + keys)
    output = draws.dense(p["narrow"], np.maximum(draws.dense(p["widen"], h), 0))
    return output if form == "paper" else norm(p["norm2"], h + output)


def numpy_transformer(m, p, x):
    x = draws.dense(p["input"], x)
    for number in range(1, m.num_layers + 1):
        x = numpy_layer(p[f"layer{number}"], x)
    return [x], {}


def numpy_two_stream(m, p, x, y):
    h = draws.dense(p["input"], x)
    for number in range(1, m.num_layers):
        h = numpy_layer(p[f"layer{number}"], h, m.form)
    last, position = p[f"layer{m.num_layers}"], p.get("position")
    by_words = numpy_layer(last, h, m.form, position=position)
    if not m.labels:
        return [by_words], {}
    y = draws.dense(p["label_input"], y)
    if m.form == "code":
        by_labels = numpy_relative(p["label_attention"], h, y)
    else:
        by_labels = numpy_layer(p["label_layer"], h, m.form, y, position)
    return [np.concatenate([by_words, by_labels], axis=1)], {}


ATTENTION = models.SelfAttention(3)
LAN = LabelAttention(5, hidden_dim=2, num_heads=2)
STREAMS = models.TwoStream(2, 4, num_layers=2)
READINGS = {
    numpy_attention: [
        *(ATTENTION.clone(keep=keep) for keep in PARTS),
        ATTENTION.clone(head_dim=5),
    ],
    numpy_grn: [
        *(GRN(6, "all", "gated"), GRN(6, "branch3", "attention")),
        *(GRN(6, "none", "fusion"), GRN(6, "all", "none")),
    ],
    numpy_idcnn: [IDCNN(5, (4, 1, 3), 2, True), IDCNN(5, (1, 2, 1), 2, False)],
    numpy_chain: [Chain(IDCNN(4, (1, 2), 2), IDCNN(3, (2,), 2))],
    numpy_bilstm: [
        BiLSTM(2, 3, 2, cross=True, pool="mean", state_dropout=0.3),
        BiLSTM(2, 2, 2, cross=False, pool="concat"),
    ],
    numpy_lan: [LAN.clone(num_layers=1), LAN.clone(num_layers=3, num_heads=4)],
    numpy_transformer: [models.RelativeTransformer(2, 4, num_layers=2)],
    numpy_two_stream: [
        STREAMS,
        STREAMS.clone(labels=False),
        STREAMS.clone(form="paper"),
    ],
}


@pytest.mark.parametrize(
    ("reading", "model"), [(f, model) for f in READINGS for model in READINGS[f]]
)
def test_an_encoder_equals_its_reading(reading, model, float64):
    dims = (6, 3) if reading is numpy_two_stream else (6,)
    rest = 0.0 if isinstance(model, (GRN, IDCNN, Chain)) else 100.0
    pairs = [draws.features(LENGTH, PADDING, dim, rest, seed=dim) for dim in dims]
    inputs, mask = [x.astype(float) for x, _ in pairs], pairs[0][1]
    weights = draws.weights_of(model, *inputs, mask, scale=0.7)
    weights = jax.tree.map(lambda leaf: leaf.astype(float), weights)

    @jax.jit
    def run(weights, inputs):
        output = model.apply(weights, *inputs, mask, train=False)
        states, extra = output if isinstance(output, tuple) else (output, {})
        return states if isinstance(states, tuple) else (states,), extra

    states, extra = run(weights, inputs)
    p = jax.tree.map(np.asarray, weights.get("params"))
    expected, facts = reading(model, p, *(np.asarray(x[:LENGTH]) for x in inputs))
    for stage, rows in zip(states, expected, strict=True):
        np.testing.assert_allclose(stage[:LENGTH], rows, rtol=1e-9, atol=1e-9)
        assert not stage[LENGTH:].any()
    for name, fact in facts.items():
        value = extra[name][tuple(map(slice, fact.shape))]
        np.testing.assert_allclose(value, fact, rtol=1e-9, atol=1e-9)
    # Of these, the backward pass is written by hand.
    if reading is numpy_bilstm or getattr(model, "relation", "") == "gated":

        @jax.jit
        def loss(weights, inputs):
            rngs = {"dropout": KEY}
            states, _ = model.apply(weights, *inputs, mask, train=True, rngs=rngs)
            return jnp.sum(jnp.sin(states))

        check_grads(loss, (weights, inputs), order=1, modes=["rev"])


@pytest.mark.parametrize("length", [7, 0])
@pytest.mark.parametrize(
    ("module", "model", "keys"),
    [
        (attention, ATTENTION, 0),
        (relative, RelativeAttention(2, 4, attention_dropout=0.5), 1),
    ],
)
def test_blocks_of_queries_equal_the_whole(module, model, keys, length, monkeypatch):
    """Values, gradients and dropped weights of two blocks and a half."""
    x, mask = draws.features(length, 10 - length)
    inputs = (x,) * (1 + keys)
    weights = draws.weights_of(model, *inputs, mask)

    @jax.jit
    def run(weights, inputs, key=KEY):
        def loss(weights, inputs):
            h = model.apply(weights, *inputs, mask, train=True, rngs={"dropout": key})
            return jnp.sum(jnp.sin(h if keys else h[0])), h

        return jax.value_and_grad(loss, argnums=(0, 1), has_aux=True)(weights, inputs)

    expected = run(weights, inputs)
    second = run(weights, inputs, jax.random.key(1))
    assert (second[0][0] != expected[0][0]) == (length * keys > 0)
    jax.clear_caches()
    monkeypatch.setattr(attention, "WHOLE", 4)
    monkeypatch.setattr(module, "BLOCK", 4)
    draws.close(run(weights, inputs), expected, 1e-4)


# --- The gated relation network -------------------------------------------------------


def test_relation_scores_are_scaled_norms_of_gates():
    model, (x, mask) = GRN(6), draws.features(7, 3, rest=0)
    _, arrays = draws.apply(model, draws.weights_of(model, x, mask), x, mask)
    a, b = (arrays[f"relation_{name}"][:7] for name in ("from", "to"))
    norms = np.linalg.norm(draws.sigmoid(a[:, None] + b[None]), axis=2)
    scores = models.relation_scores(arrays, mask)
    draws.close(scores[:7, :7], (norms - norms.min()) / np.ptp(norms), 1e-4)
    assert not scores[7:].any()
    assert not scores[:, 7:].any()


def test_saturated_gates_stay_finite():
    model = GRN(6, context="none")
    x, mask = draws.features(5, 4)
    weights = draws.weights_of(model, x, mask, scale=1e4)
    loss = lambda weights: jnp.sum(draws.apply(model, weights, x, mask)[0])  # noqa: E731
    for leaf in jax.tree.leaves(jax.grad(loss)(weights)):
        assert np.isfinite(leaf).all()


def test_relation_memory_is_linear_in_the_sentence():
    """The gradient contains no array of T·T·H numbers."""

    def temporary_bytes(length, dim=16):
        x = jax.ShapeDtypeStruct((length, dim), jnp.float32)
        loss = lambda a, b, x: jnp.sum(gated_sum(a, b, x))  # noqa: E731
        grad = jax.jit(jax.grad(loss, argnums=(0, 1, 2)))
        return grad.lower(x, x, x).compile().memory_analysis().temp_size_in_bytes

    small, large = temporary_bytes(256), temporary_bytes(1024)
    assert large < 6 * small
    assert large < 1024 * 1024 * 16


# --- LSTMs ----------------------------------------------------------------------------


def test_the_memory_is_a_sum_in_float32():
    """In bfloat16, a sum of 8 would not grow by 0.02 any more."""
    length, low = 400, jnp.bfloat16
    zeros = jnp.zeros((2, 1, 1, 4, 1), low)
    bias = jnp.zeros((2, 1, 4, 1), low).at[:, :, 0:2].set(20.0).at[:, :, 3].set(0.02)
    x, mask = jnp.zeros((length, 1, 1, 1), low), jnp.ones(length, bool)
    outputs, end = layers.bilstm(x, mask, zeros, zeros, bias, jnp.ones((2, 1, 1), low))
    assert (outputs.dtype, end.state.dtype) == (low, low)
    np.testing.assert_allclose(end.memory, 0.02 * length, rtol=1e-2)


def test_masks_are_constant_over_time_and_each_cell_has_its_own():
    """Cells that remember nothing show what each mask does to an input that stays."""
    model = BiLSTM(hidden_dim=3, num_units=2, input_dropout=0.5, output_dropout=0.5)
    x, mask = jnp.tile(jnp.arange(1.0, 6.0) / 9, (4, 1)), jnp.ones(4, bool)
    layer = draws.weights_of(model, x, mask)["params"]["layer1"]
    layer["recurrent"] = jnp.zeros_like(layer["recurrent"])
    layer["bias"] = layer["bias"].at[:, :, 1].set(-1e4)  # all is forgotten
    layer["input"] = layer["input"].at[:, :, :, 1].set(0.0)
    key = jax.random.key(5)
    states, _ = draws.apply(model, {"params": {"layer1": layer}}, x, mask, key=key)
    np.testing.assert_array_equal(states[1:], states[:-1])
    zeros = np.asarray(states[0] == 0).reshape(4, 3)
    assert zeros.any()
    assert not zeros.all()
    assert len({tuple(row) for row in zeros}) > 1
    # Of four equal cells, no two see the same input, or all do.
    cell = jax.tree.map(lambda leaf: jnp.broadcast_to(leaf[:1, :1], leaf.shape), layer)
    for input_mask, number in (("unit", 4), ("shared", 1)):
        twin = model.clone(output_dropout=0.0, input_mask=input_mask)
        states, _ = draws.apply(twin, {"params": {"layer1": cell}}, x, mask, key=key)
        cells = np.asarray(states[0]).reshape(4, 3).round(5)
        assert len({tuple(row) for row in cells}) == number


def test_state_dropout_spares_the_first_token_and_the_output():
    model = BiLSTM(hidden_dim=4, state_dropout=0.5)
    x, mask = draws.features(3)
    weights = draws.weights_of(model, x, mask)
    run = lambda key: draws.apply(model, weights, x, mask, key=key)[0]  # noqa: E731
    plain, noisy = map(run, (None, KEY))
    np.testing.assert_allclose(noisy[0, :4], plain[0, :4], rtol=1e-6)
    np.testing.assert_allclose(noisy[2, 4:], plain[2, 4:], rtol=1e-6)
    assert not np.allclose(noisy[1], plain[1])
    assert np.all(noisy != 0)


def test_padding_changes_no_gradient_of_a_carry():
    """LAN's upper layers begin with a state, and padding comes first backwards."""
    model = LAN.clone(num_layers=2)
    x, mask = draws.features(4, 2, rest=0.0)
    weights = draws.weights_of(model, x, mask)
    loss = lambda *point: (draws.apply(model, *point)[0] ** 2).sum()  # noqa: E731
    slope = jax.jit(jax.grad(loss))
    draws.close(slope(weights, x, mask), slope(weights, x[:4], mask[:4]), 1e-4)


# --- Convolutions: both forms agree, and each is used where it is faster --------------


def count_products(function, *arguments, platform="cpu"):
    trace = jax.jit(function).trace(*arguments)
    text = trace.lower(lowering_platforms=(platform,)).as_text()
    return text.count("stablehlo.dot_general")


@pytest.mark.parametrize(("width", "dilation"), [(5, 3), (3, 1), (3, 3)])
@pytest.mark.parametrize("length", [0, 5, 13])
@pytest.mark.usefixtures("float64")
def test_both_forms_are_the_sum_over_taps(width, dilation, length, monkeypatch):
    # The fast algorithm is taken however little there is to do.
    monkeypatch.setattr(layers, "_FEATURES", 0)
    monkeypatch.setattr(layers, "_SHARE", np.inf)
    rng, shapes = np.random.default_rng(0), ((length, 6), (width * 6, 7))
    x, kernel = (rng.normal(size=shape) for shape in shapes)
    expected = draws.convolve(x, kernel, np.zeros(7), width, dilation)
    form = {"width": width, "dilation": dilation}
    for by_tiles in (False, True):
        run = functools.partial(layers.convolve, **form, by_tiles=by_tiles)
        is_fast = by_tiles and width == 3 and length
        assert count_products(run, x, kernel) == (6 if is_fast else 1)
        np.testing.assert_allclose(
            jax.jit(run)(x, kernel), expected.reshape(length, 7), rtol=0, atol=1e-12
        )


@pytest.mark.parametrize(
    ("length", "dim", "width", "dilation", "products"),
    [
        (16, 100, 3, 1, 6),
        (16, 99, 3, 1, 1),  # few features: the transforms would take longer
        (20, 100, 3, 4, 6),
        (18, 100, 3, 8, 1),  # most of the tiles would be padding
    ],
)
def test_the_fast_form_is_taken_where_it_pays(length, dim, width, dilation, products):
    def run(x, kernel, by_tiles=True):
        layer = lambda x: layers.convolve(x, kernel, width, dilation, by_tiles=by_tiles)  # noqa: E731
        return jax.vmap(layer)(x)

    x, kernel = jnp.zeros((2, length, dim)), jnp.zeros((width * dim, 100))
    assert count_products(run, x, kernel) == products
    assert count_products(functools.partial(run, by_tiles=False), x, kernel) == 1
    for target in ("cuda", "tpu"):  # the target decides, not this machine
        assert count_products(run, x, kernel, platform=target) == 1
    low = (array.astype(jnp.bfloat16) for array in (x, kernel))
    assert count_products(run, *low) == 1
