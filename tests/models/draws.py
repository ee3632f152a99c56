"""Models, weights and features for the tests of models, and an LSTM cell in NumPy."""

import functools
import inspect

import jax
import jax.numpy as jnp
import numpy as np
from scipy import special

from jaxner import models
from tests.sentences import spelled

sigmoid, softmax = special.expit, functools.partial(special.softmax, axis=-1)
SENTENCE = spelled(jnp.array([2, 3, 4]), jnp.ones((3, 2), int), jnp.ones(3, bool))


def weights_of(model, *inputs, scale=1.0, seed=0):
    """Random weights with no zeros in them, so that no term can be forgotten."""
    start = functools.partial(models.init, model)
    if inputs:
        train = inspect.signature(type(model).__call__).parameters.keys() & {"train"}
        start = lambda key: model.init(key, *inputs, **dict.fromkeys(train, False))  # noqa: E731
    rng = np.random.default_rng(seed)
    return jax.tree.map(
        lambda leaf: jnp.asarray(scale * rng.normal(size=leaf.shape), leaf.dtype),
        jax.eval_shape(start, jax.random.key(0)),
    )


def features(length, padding=0, dim=6, rest=100.0, seed=0):
    """Random features and their mask; what stands under padding must not matter."""
    x = np.random.default_rng(seed).normal(size=(length + padding, dim))
    x[length:] *= rest
    return jnp.asarray(x, jnp.float32), jnp.arange(length + padding) < length


@jax.jit(static_argnames=("model", "method"))
def apply(model, weights, *inputs, key=None, method="__call__", **keys):
    """Applies a module that takes `train`, with dropout if there are keys."""
    rngs = keys if key is None else {"dropout": key, **keys}
    return model.apply(weights, *inputs, train=bool(rngs), rngs=rngs, method=method)


def build(**parts):
    """A small model, by default of words alone, a BiLSTM and a softmax."""
    small = {
        **{"num_labels": 3, "num_trained": 9, "num_frozen": 0, "num_chars": 4},
        "representation": {"words": {"dim": 6}, "chars": None, "dropout": 0.0},
        "encoder": {"name": "bilstm", "hidden_dim": 3},
        "head": {"name": "softmax", "dropout": 0.0},
    }
    return models.build(**{**small, **parts})


def in_float64(weights):
    return jax.tree.map(lambda a: np.asarray(a, np.float64), weights["params"])


def dense(p, x):
    return np.asarray(x, np.float64) @ p["kernel"] + p["bias"]


def convolve(rows, kernel, bias, width, dilation=1):
    """Sums over taps from left to right, zeros outside of the rows."""
    result = []
    for t in range(len(rows)):
        total = np.array(bias)
        for k in range(width):
            index = t + dilation * (k - width // 2)
            if 0 <= index < len(rows):
                size = len(rows[index])
                total = total + rows[index] @ kernel[k * size : (k + 1) * size]
        result.append(total)
    return np.array(result)


def lstm(p, rows, direction, unit=0, begin=(0.0, 0.0)):
    """The outputs of one cell, in the order of the rows, and its last h and c."""
    w, u, b = (p[name][direction, unit] for name in ("input", "recurrent", "bias"))
    h, c = (np.zeros(b.shape[1]) + start for start in begin)
    states = []
    order = -1 if direction else 1
    for x in rows[::order]:
        i, f, o, g = (x @ w[:, k] + h @ u[:, k] + b[k] for k in range(4))
        c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
        h = sigmoid(o) * np.tanh(c)
        states.append(h)
    return states[::order], (h, c)


def close(actual, expected, tolerance=1e-5):
    """Two trees of arrays are the same but for rounding."""
    pairs = zip(jax.tree.leaves(actual), jax.tree.leaves(expected), strict=True)
    for left, right in pairs:
        np.testing.assert_allclose(left, right, rtol=tolerance, atol=tolerance)
