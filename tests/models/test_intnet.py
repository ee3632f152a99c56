"""IntNet against an independent NumPy reading."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxner.models.intnet import IntNet

NUM_CHARS = 7
WORDS = [[3, 1, 6], [2], [], [1, 2, 3, 4, 5, 6, 1, 2, 3], [5, 5]]


def pad(rows, width):
    padded = np.zeros((len(rows), width), np.int32)
    for row, chars in zip(padded, rows, strict=True):
        row[: len(chars)] = chars
    return jnp.asarray(padded)


def init(module):
    return module.init(jax.random.key(0), pad([[1]], 1), train=False)


def draw_weights(module, seed=0):
    rng = np.random.default_rng(seed)
    return jax.tree.map(
        lambda leaf: jnp.asarray(rng.normal(size=leaf.shape) / 2, leaf.dtype),
        jax.eval_shape(lambda: init(module)),
    )


def numpy_convolution(p, rows, width):
    """ReLU of a convolution over one word, one tap of one character at a time."""
    outputs = []
    for i in range(len(rows)):
        total = p["bias"].copy()
        for k in range(width):
            j = i + k - width // 2
            if 0 <= j < len(rows):
                size = len(rows[j])
                total = total + rows[j] @ p["kernel"][k * size : (k + 1) * size]
        outputs.append(np.maximum(total, 0))
    return np.array(outputs)


def numpy_intnet(p, chars, num_blocks):
    """Features of one word: [the first convolutions; block 1; block 2; …]."""
    rows = p["table"][chars]
    parts = [numpy_convolution(p[f"first_conv{w}"], rows, w) for w in (3, 5)]
    for block in range(1, num_blocks + 1):
        before = np.concatenate(parts, axis=1)
        narrow = numpy_convolution(p[f"block{block}_narrow"], before, 1)
        parts += [
            numpy_convolution(p[f"block{block}_conv{w}"], narrow, w) for w in (3, 5)
        ]
    return np.concatenate(parts, axis=1).max(axis=0)


@pytest.mark.parametrize("num_blocks", [0, 2])
def test_forward_pass_equals_numpy(num_blocks):
    module = IntNet(NUM_CHARS, dim=3, num_filters=4, growth=2, num_blocks=num_blocks)
    weights = draw_weights(module)
    p = jax.tree.map(lambda leaf: np.asarray(leaf, np.float64), weights["params"])
    found = jax.jit(lambda chars: module.apply(weights, chars, train=False))(
        pad(WORDS, 9)
    )
    assert found.shape == (len(WORDS), 8 + 4 * num_blocks)
    assert 0 < (np.asarray(found) > 0).mean() < 1
    for row, word in zip(found, WORDS, strict=True):
        if word:
            expected = numpy_intnet(p, word, num_blocks)
            np.testing.assert_allclose(row, expected, rtol=1e-5, atol=1e-5)
        else:
            assert not row.any()


def test_sizes_of_hire_ner():
    """64, 96, 128 and 160 features, from vectors of 32."""
    shapes = jax.eval_shape(lambda: init(IntNet(80)))["params"]
    expected = {"table": (80, 32)}
    for width in (3, 5):
        expected[f"first_conv{width}"] = {"kernel": (32 * width, 32), "bias": (32,)}
    for block, before in ((1, 64), (2, 96), (3, 128)):
        expected[f"block{block}_narrow"] = {"kernel": (before, 16), "bias": (16,)}
        for width in (3, 5):
            expected[f"block{block}_conv{width}"] = {
                "kernel": (16 * width, 16),
                "bias": (16,),
            }
    assert jax.tree.map(jnp.shape, shapes) == expected
    count = sum(leaf.size for leaf in jax.tree.leaves(shapes))
    assert count == 80 * 32 + 8256 + sum((64 + 32 * b) * 16 + 16 for b in range(3)) + (
        3 * (8 * 256 + 32)
    )


def test_initialisation():
    weights = jax.jit(lambda: init(IntNet(80, initializer="glorot")))()["params"]
    for name, width, sizes in (
        ("first_conv5", 5, (32, 32)),
        ("block3_narrow", 1, (128, 16)),
        ("block2_conv3", 3, (16, 16)),
    ):
        bound = (6 / (width * sum(sizes))) ** 0.5
        largest = float(jnp.abs(weights[name]["kernel"]).max())
        assert 0.97 * bound < largest <= bound * (1 + 1e-6)
        assert not weights[name]["bias"].any()


def test_biases_are_drawn_where_pytorch_is_meant():
    weights = jax.jit(lambda: init(IntNet(80, initializer="torch")))()["params"]
    for name, fan_in in (
        ("first_conv5", 160),
        ("block3_narrow", 128),
        ("block1_conv3", 48),
    ):
        for part in ("kernel", "bias"):
            largest = float(jnp.abs(weights[name][part]).max())
            assert 0.7 < largest * fan_in**0.5 <= 1 + 1e-6


def test_wrong_settings_say_what_would_work():
    with pytest.raises(ValueError, match="of IntNet must be 1, 3, 5, …, 999, got 4"):
        IntNet(NUM_CHARS, widths=(3, 4))
    with pytest.raises(ValueError, match="Expected odd widths of IntNet, got none"):
        IntNet(NUM_CHARS, widths=())
    with pytest.raises(ValueError, match="growth of IntNet must be at least 1, got 0"):
        IntNet(NUM_CHARS, growth=0)
    with pytest.raises(ValueError, match="'x' of IntNet; known: kaiming, glorot"):
        IntNet(NUM_CHARS, initializer="x")
    with pytest.raises(ValueError, match="'x' of IntNet; known: kaiming, glorot, n"):
        IntNet(NUM_CHARS, table_initializer="x")
