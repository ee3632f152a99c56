"""Both forms of a convolution agree, and each is used where it is faster."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxner.models import layers as convolution
from jaxner.models.layers import convolve
from tests.models import draws

DIM, SIZE = 6, 7


def count_products(function, *arguments, platform="cpu"):
    trace = jax.jit(function).trace(*arguments)
    text = trace.lower(lowering_platforms=(platform,)).as_text()
    return text.count("stablehlo.dot_general")


@pytest.mark.parametrize(("width", "dilation"), [(5, 3), (3, 1), (3, 3)])
@pytest.mark.parametrize("length", [0, 5, 13])
@pytest.mark.usefixtures("float64")
def test_both_forms_are_the_sum_over_taps(width, dilation, length, monkeypatch):
    # The fast algorithm is taken however little there is to do.
    monkeypatch.setattr(convolution, "_FEATURES", 0)
    monkeypatch.setattr(convolution, "_SHARE", np.inf)
    rng, shapes = np.random.default_rng(0), ((length, DIM), (width * DIM, SIZE))
    x, kernel = (rng.normal(size=shape) for shape in shapes)
    expected = draws.convolve(x, kernel, np.zeros(SIZE), width, dilation)
    form = {"width": width, "dilation": dilation}
    for by_tiles in (False, True):
        run = functools.partial(convolve, **form, by_tiles=by_tiles)
        is_fast = by_tiles and width == 3 and length
        assert count_products(run, x, kernel) == (6 if is_fast else 1)
        np.testing.assert_allclose(
            jax.jit(run)(x, kernel), expected.reshape(length, SIZE), rtol=0, atol=1e-12
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
        layer = lambda x: convolve(x, kernel, width, dilation, by_tiles=by_tiles)  # noqa: E731
        return jax.vmap(layer)(x)

    x, kernel = jnp.zeros((2, length, dim)), jnp.zeros((width * dim, 100))
    assert count_products(run, x, kernel) == products
    assert count_products(functools.partial(run, by_tiles=False), x, kernel) == 1
    for target in ("cuda", "tpu"):  # the target decides, not this machine
        assert count_products(run, x, kernel, platform=target) == 1
    low = (array.astype(jnp.bfloat16) for array in (x, kernel))
    assert count_products(run, *low) == 1
