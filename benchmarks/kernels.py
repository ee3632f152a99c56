"""The CRF, LSTM, convolution and relation beside their plain forms.

    python -m benchmarks.kernels --quick
    python -m benchmarks.kernels --only crf lstm --rounds 9 --json kernels.json

Each kernel runs forward and with the gradient by all its arguments. `plain` is the
equation in JAX. All results are compared first, and the gradients. Columns:
milliseconds of ours, times as fast as the plain form.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks import measure
from jaxner import inference
from jaxner.models import layers
from jaxner.models.grn import gated_sum
from jaxner.types import Potentials


class Case(NamedTuple):
    """Two functions of a sentence; the first `num_batched` arguments are of a batch."""

    ours: Callable[..., Any]
    plain: Callable[..., Any]
    arguments: Sequence[Any]
    num_batched: int = 1


def draw(*shapes: tuple[int, ...], scale: float = 1.0) -> list[jax.Array]:
    """Returns arrays of normal numbers."""
    rng = np.random.default_rng(0)
    return [jnp.asarray(scale * rng.normal(size=x), jnp.float32) for x in shapes]


def log_partition(emissions, *rest):
    mask = jnp.ones(len(emissions), bool)
    return inference.log_partition(Potentials(emissions, *rest), mask)


def plain_log_partition(emissions, transitions, start, end):
    def step(alpha, emission):
        scores = jax.nn.logsumexp(alpha[:, None] + transitions, axis=0)
        return scores + emission, None

    last, _ = jax.lax.scan(step, start + emissions[0], emissions[1:])
    return jax.nn.logsumexp(last + end)


def crf(labels: int, tokens: int, batch: int) -> Case:
    """Returns log Z."""
    shapes = (batch, tokens, labels), (labels, labels), (labels,), (labels,)
    return Case(log_partition, plain_log_partition, draw(*shapes))


def bilstm(x, into, across, bias):
    mask, ones = jnp.ones(len(x), bool), jnp.ones((*bias.shape[:2], bias.shape[3]))
    return layers.bilstm(x[:, None, None], mask, into, across, bias, ones)[0]


def plain_bilstm(x, into, across, bias):
    def direction(x, into, across, bias):
        def step(carry, x):
            h, c = carry
            gates = jnp.einsum("d,kdgn->kgn", x, into) + bias
            gates = gates + jnp.einsum("kn,kngm->kgm", h, across)
            i, f, o = (jax.nn.sigmoid(gates[:, k]) for k in range(3))
            c = f * c + i * jnp.tanh(gates[:, 3])
            h = o * jnp.tanh(c)
            return (h, c), h

        zero = jnp.zeros((len(bias), bias.shape[2]))
        return jax.lax.scan(step, (zero, zero), x)[1]

    forward = direction(x, into[0], across[0], bias[0])
    backward = direction(x[::-1], into[1], across[1], bias[1])[::-1]
    return jnp.stack([forward, backward], axis=1)


def lstm(batch: int, length: int, dim: int, size: int, units: int) -> Case:
    """Returns LSTMs in both directions, with the sizes of our systems."""
    into = (2, units, dim, 4, size)
    shapes = into, (2, units, size, 4, size), (2, units, 4, size)
    arguments = [*draw((batch, length, dim)), *draw(*shapes, scale=size**-0.5)]
    return Case(bilstm, plain_bilstm, arguments)


def convolution(
    batch: int, length: int, dim: int, size: int, width: int, dilation: int
) -> Case:
    """Returns a convolution over tokens; the plain form is XLA's."""
    reach = dilation * (width // 2)

    def plain(x, kernel):
        taps = kernel.reshape(width, dim, size)
        return jax.lax.conv_general_dilated(
            x[None], taps, (1,), [(reach, reach)], rhs_dilation=(dilation,),
            dimension_numbers=("NWC", "WIO", "NWC"),
        )[0]  # fmt: skip

    options = {"width": width, "dilation": dilation, "by_tiles": True}
    ours = functools.partial(layers.convolve, **options)
    arguments = draw((batch, length, dim), (width * dim, size), scale=0.1)
    return Case(ours, plain, arguments)


def relation(batch: int, length: int) -> Case:
    """Returns GRN's gated sum with 400 features."""

    def plain(a, b, x):
        return jnp.sum(jax.nn.sigmoid(a[:, None] + b[None]) * x[None], axis=1)

    arguments = draw(*((batch, length, 400),) * 3)
    return Case(gated_sum, plain, arguments, num_batched=3)


KERNELS: dict[Callable[..., Case], list[tuple[int, ...]]] = {
    crf: [(9, 32, 32), (37, 32, 32), (9, 128, 128), (73, 128, 32)],
    lstm: [(10, 32, 200, 200, 1), (10, 32, 150, 16, 8), (128, 32, 200, 200, 1)],
    convolution: [
        *((1, 32, 300, 300, 3, 1), (10, 32, 300, 300, 3, 2), (128, 16, 130, 400, 5, 1))
    ],
    relation: [(1, 64), (1, 128), (10, 128), (1, 512)],
}
"""Kernels and their sizes; `--quick` has the first two."""


def measured(case: Case, backward: bool, rounds: int) -> dict[str, Any]:
    """Returns the figures of a case, forward or with the gradient."""
    count = len(case.arguments)
    axes = [0 if i < case.num_batched else None for i in range(count)]

    def compiled(form: Callable[..., Any]) -> Callable[[], Any]:
        batched = jax.vmap(form, axes)
        function = lambda *arguments: batched(*arguments).sum()  # noqa: E731
        function = jax.grad(function, range(count)) if backward else batched
        program = jax.jit(function).lower(*case.arguments).compile()
        return lambda: jax.block_until_ready(program(*case.arguments))

    runs = {"ours": compiled(case.ours), "plain": compiled(case.plain)}
    ours, plain = (jax.tree.leaves(run()) for run in runs.values())
    for left, right in zip(ours, plain, strict=True):
        limit = 3e-3 * max(float(np.abs(right).max(initial=0.0)), 1e-3)
        np.testing.assert_allclose(left, right, rtol=0, atol=limit)
    timings = measure.compare(runs, rounds)
    speedup = timings["ours"].speedup(timings["plain"])
    return {"ours, ms": 1e3 * timings["ours"].seconds.median, "× plain": speedup}


def main(argv: Sequence[str] | None = None) -> None:
    """Runs the benchmark."""
    made, names = measure.parser(__doc__), [kernel.__name__ for kernel in KERNELS]
    made.add_argument("--only", nargs="+", choices=names, default=names)
    options = measure.parse(made, argv)
    report = measure.Report(options.json)
    for kernel, sizes in KERNELS.items():
        if kernel.__name__ in options.only:
            columns = inspect.signature(kernel).parameters
            rows = [
                dict(zip(columns, size, strict=True))
                | {"pass": "gradient" if backward else "forward"}
                | measured(kernel(*size), backward, options.rounds)
                for size in sizes[: 2 if options.quick else None]
                for backward in (False, True)
            ]
            report.table(f"{kernel.__name__}: times as fast as its plain form", rows)


if __name__ == "__main__":
    main()
