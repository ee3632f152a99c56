"""The kernels of `benchmarks.kernels` as plain equations in JAX."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

from jaxner.models.relative import shift, sinusoids


def lstm(x, input_kernel, kernel, bias):
    """Returns an LSTM's outputs for a batch, by a plain scan in each direction."""
    size = bias.shape[3]

    def cell(x, into, across, bias):
        def step(carry, x):
            h, c = carry
            gates = jnp.einsum("d,kdgn->kgn", x, into) + bias
            gates = gates + jnp.einsum("kn,kngm->kgm", h, across)
            i, f, o = (jax.nn.sigmoid(gates[:, k]) for k in range(3))
            c = f * c + i * jnp.tanh(gates[:, 3])
            h = o * jnp.tanh(c)
            return (h, c), h

        zero = jnp.zeros((len(bias), size))
        return jax.lax.scan(step, (zero, zero), x)[1]

    def one(x):
        forward = cell(x, input_kernel[0], kernel[0], bias[0])
        backward = cell(x[::-1], input_kernel[1], kernel[1], bias[1])[::-1]
        return jnp.stack([forward, backward], axis=1)

    return jax.vmap(one)(x)


def attention(x: Any, weights: Any, relative: bool) -> Any:
    """Returns attention with the scores of all pairs of tokens at once."""
    p = weights["params"]
    q, k, v = (
        jnp.einsum("td,dmk->mtk", x, p[name]) for name in ("query", "key", "value")
    )
    if relative:
        distances = jnp.arange(-len(x), len(x) + 1, dtype=x.dtype)
        table = sinusoids(distances, q.shape[2]) @ p["position"]
        by_distance = (q + p["position_bias"][:, None]) @ table.T
        q = q + p["content_bias"][:, None]
    scores = jnp.einsum("mtk,msk->mts", q, k)
    if relative:
        scores = scores + shift(by_distance)
    shares = jax.nn.softmax(scores / q.shape[2] ** 0.5, axis=2)
    gathered = jnp.einsum("mts,msk->tmk", shares, v).reshape(len(x), -1)
    return gathered if relative else jnp.concatenate([x, gathered], axis=1)
