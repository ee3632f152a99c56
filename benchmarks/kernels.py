r"""The CRF, LSTM, convolution and relation beside their plain forms and PyTorch.

    python -m benchmarks.kernels --quick
    python -m benchmarks.kernels --only crf lstm --rounds 9 --json kernels.json

Each kernel runs forward and with the gradient by all its arguments. `plain` is the
equation in JAX, `torch` is `pytorch-crf`, `torch.nn.LSTM` and `conv1d`, with one thread
or all, whichever was faster. All results are compared first, and the gradients of ours
and plain. Columns: milliseconds of ours, times as fast as each rival.
"""

from __future__ import annotations

import functools
import importlib
import importlib.util
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks import measure, peers
from jaxner import inference
from jaxner.models import layers
from jaxner.models.grn import gated_sum
from jaxner.types import Potentials


class Case(NamedTuple):
    """A kernel at one size.

    `ours` and `plain` are functions of one sentence; of their arguments, the first
    `num_batched` have a leading batch axis. `torch` gets all arguments as tensors, and
    returns a function of nothing, and the tensors by which to differentiate.
    """

    ours: Callable[..., Any]
    plain: Callable[..., Any]
    arguments: Sequence[Any]
    torch: Callable[..., tuple[Callable[[], Any], list[Any]]] | None = None
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


def torch_crf(emissions, transitions, start, end):
    torch: Any = importlib.import_module("torch")
    module = importlib.import_module("torchcrf").CRF(len(start))
    emissions = emissions.transpose(0, 1).contiguous()
    mask = torch.ones(emissions.shape[:2], dtype=torch.bool)
    module.transitions, module.start_transitions, module.end_transitions = (
        torch.nn.Parameter(leaf) for leaf in (transitions, start, end)
    )
    run = lambda: module._compute_normalizer(emissions, mask)  # noqa: E731
    return run, [emissions, *module.parameters()]


def crf(labels: int, tokens: int, batch: int) -> Case:
    """Returns log Z."""
    shapes = (batch, tokens, labels), (labels, labels), (labels,), (labels,)
    return Case(log_partition, plain_log_partition, draw(*shapes), torch_crf)


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


def torch_bilstm(x, into, across, bias):
    torch: Any = importlib.import_module("torch")
    size = bias.shape[3]
    module = torch.nn.LSTM(x.shape[2], size, bidirectional=True)
    state = {
        # PyTorch's gates are input, forget, candidate, output.
        f"{name}_l0{way}": array[side, 0][..., [0, 1, 3, 2], :].flatten(-2).T
        for side, way in enumerate(("", "_reverse"))
        for name, array in (
            *(("weight_ih", into), ("weight_hh", across)),
            *(("bias_ih", bias), ("bias_hh", 0 * bias)),
        )
    }
    module.load_state_dict(state)
    x = x.transpose(0, 1).contiguous()

    run = lambda: module(x)[0].transpose(0, 1).unflatten(2, (2, 1, size))  # noqa: E731
    return run, [x, *module.parameters()]


def lstm(batch: int, length: int, dim: int, size: int, units: int) -> Case:
    """Returns LSTMs in both directions, with the sizes of our systems."""
    into = (2, units, dim, 4, size)
    shapes = into, (2, units, size, 4, size), (2, units, 4, size)
    arguments = [*draw((batch, length, dim)), *draw(*shapes, scale=size**-0.5)]
    torch = torch_bilstm if units == 1 else None
    return Case(bilstm, plain_bilstm, arguments, torch)


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

    def torch(x, kernel):
        conv1d = importlib.import_module("torch").nn.functional.conv1d
        x = x.transpose(1, 2).contiguous()
        taps = kernel.unflatten(0, (width, dim)).permute(2, 1, 0).contiguous()
        run = functools.partial(conv1d, x, taps, padding=reach, dilation=dilation)
        return lambda: run().transpose(1, 2), [x, taps]

    options = {"width": width, "dilation": dilation, "by_tiles": True}
    ours = functools.partial(layers.convolve, **options)
    arguments = draw((batch, length, dim), (width * dim, size), scale=0.1)
    return Case(ours, plain, arguments, torch)


def relation(batch: int, length: int) -> Case:
    """Returns GRN's gated sum with 400 features."""

    def plain(a, b, x):
        return jnp.sum(jax.nn.sigmoid(a[:, None] + b[None]) * x[None], axis=1)

    arguments = draw(*((batch, length, 400),) * 3)
    return Case(gated_sum, plain, arguments, num_batched=3)


KERNELS: dict[str, tuple[Callable[..., Case], str, list[tuple[int, ...]]]] = {
    "crf": (crf, "L T B", [(9, 32, 32), (37, 32, 32), (9, 128, 128), (73, 128, 32)]),
    "lstm": (
        lstm,
        "B T D N K",
        [(10, 32, 200, 200, 1), (10, 32, 150, 16, 8), (128, 32, 200, 200, 1)],
    ),
    "convolution": (
        convolution,
        "B T D H width dilation",
        [(1, 32, 300, 300, 3, 1), (10, 32, 300, 300, 3, 2), (128, 16, 130, 400, 5, 1)],
    ),
    "relation": (relation, "B T", [(1, 64), (1, 128), (10, 128), (1, 512)]),
}
"""Kernels, the names of their sizes, and sizes; `--quick` has the first two."""


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
    if case.torch is not None and importlib.util.find_spec("torch"):
        torch: Any = importlib.import_module("torch")
        form, leaves = case.torch(*(torch.tensor(np.array(x)) for x in case.arguments))
        for leaf in leaves:
            leaf.requires_grad_()

        def rival() -> Any:
            with torch.set_grad_enabled(backward):
                result = form()
            if not backward:
                return result.numpy()
            torch.autograd.grad(result.sum(), leaves)  # in PyTorch's own order

        runs["torch"] = peers.with_best_threads(rival)
    ours = jax.tree.leaves(runs["ours"]())
    for name, run in runs.items():
        for left, right in zip(ours, jax.tree.leaves(run()), strict=False):
            limit = 3e-3 * max(float(np.abs(right).max(initial=0.0)), 1e-3)
            np.testing.assert_allclose(left, right, rtol=0, atol=limit, err_msg=name)
    timings = measure.compare(runs, rounds)
    row: dict[str, Any] = {"ours, ms": 1e3 * timings["ours"].seconds.median}
    for name in ("plain", "torch"):
        timing = timings.get(name)
        row[f"× {name}"] = timing and timings["ours"].speedup(timing)
    return row


def main(argv: Sequence[str] | None = None) -> None:
    """Runs the benchmark."""
    made = measure.parser(__doc__)
    made.add_argument("--only", nargs="+", choices=KERNELS, default=[*KERNELS])
    options = measure.parse(made, argv)
    report = measure.Report(options.json)
    for name in options.only:
        kernel, columns, sizes = KERNELS[name]
        rows = [
            {
                **dict(zip(columns.split(), size, strict=True)),
                "pass": "gradient" if backward else "forward",
                **measured(kernel(*size), backward, options.rounds),
            }
            for size in sizes[: 2 if options.quick else None]
            for backward in (False, True)
        ]
        report.table(f"{name}: times as fast as each rival", rows)


if __name__ == "__main__":
    main()
