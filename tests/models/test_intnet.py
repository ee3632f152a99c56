"""IntNet against an independent NumPy reading."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxner.models import IntNet

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
