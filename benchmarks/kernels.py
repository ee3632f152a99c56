r"""The CRF, LSTM, convolution and relation beside their plain forms and PyTorch.

    python -m benchmarks.kernels --quick
    python -m benchmarks.kernels --only crf lstm --rounds 9 --json kernels.json

Each kernel runs forward and with the gradient by all its arguments. `plain` is the
equation in JAX, `torch` is `pytorch-crf`, `torch.nn.LSTM` and `Conv1d`, with one thread
or all, whichever was faster. All results are compared first. Columns: milliseconds of
ours, times as fast as each rival.
"""

from __future__ import annotations

import functools
import importlib
import importlib.util
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks import measure, peers
from jaxner import inference
from jaxner.models import layers
from jaxner.models.grn import gated_sum
from jaxner.types import Potentials

HAS_TORCH = importlib.util.find_spec("torch") is not None


class Case(NamedTuple):
    """A kernel at one size; `torch` returns PyTorch's run, with a gradient or not."""

    sizes: dict[str, int]
    ours: Callable[..., Any]
    plain: Callable[..., Any]
    arguments: Sequence[Any]
    torch: Callable[[bool], Callable[[], Any]] | None = None


def draw(*shapes: tuple[int, ...], scale: float = 1.0) -> list[jax.Array]:
    """Returns arrays of normal numbers."""
    rng = np.random.default_rng(0)
    return [jnp.asarray(scale * rng.normal(size=x), jnp.float32) for x in shapes]


def with_gradient(function: Callable[..., Any]) -> Callable[..., Any]:
    """Returns a function for a result and the gradient of its sum by all arguments."""

    def run(*arguments: Any) -> Any:
        result, pull = jax.vjp(function, *arguments)
        return result, pull(jnp.ones_like(result))

    return run


def plain_log_partition(potentials: Any) -> Any:
    """Returns log Z by a scan of logsumexp, for a batch."""
    emissions, transitions, start, end = potentials

    def step(alpha, emission):
        scores = jax.nn.logsumexp(alpha[:, :, None] + transitions[None], axis=1)
        return scores + emission, None

    first = start[None] + emissions[:, 0]
    last, _ = jax.lax.scan(step, first, emissions[:, 1:].swapaxes(0, 1))
    return jax.nn.logsumexp(last + end[None], axis=1)


def crf(quick: bool) -> Iterator[Case]:
    """Yields log Z by the numbers of labels, tokens and sentences."""
    axes = (Potentials(0, None, None, None), 0)  # type: ignore
    sizes = [(9, 32, 32), (37, 32, 32)]
    if not quick:
        sizes += [(9, 32, 1), (9, 128, 128), (17, 32, 32), (73, 32, 32), (73, 128, 32)]
    for labels, tokens, batch in sizes:
        shapes = (batch, tokens, labels), (labels, labels), (labels,), (labels,)
        potentials = Potentials(*draw(*shapes))
        mask = jnp.ones((batch, tokens), bool)
        totals = jax.vmap(inference.log_partition, axes)
        yield Case(
            {"L": labels, "T": tokens, "B": batch},
            functools.partial(lambda f, m, p: f(p, m), totals, mask),
            plain_log_partition,
            [potentials],
            functools.partial(torch_crf, potentials),
        )


def torch_crf(potentials: Potentials, backward: bool) -> Callable[[], Any]:
    """Returns pytorch-crf's log Z."""
    torch: Any = importlib.import_module("torch")
    labels = potentials.emissions.shape[2]
    module = importlib.import_module("torchcrf").CRF(labels)
    emissions = torch.tensor(np.array(potentials.emissions.swapaxes(0, 1)))
    emissions.requires_grad_()
    mask = torch.ones(emissions.shape[:2], dtype=torch.bool)
    leaves = [module.transitions, module.start_transitions, module.end_transitions]
    with torch.no_grad():
        for leaf, values in zip(leaves, potentials[1:], strict=True):
            leaf.copy_(torch.tensor(np.array(values)))

    def run() -> Any:
        with torch.set_grad_enabled(backward):
            total = module._compute_normalizer(emissions, mask)
        if not backward:
            return total.numpy()
        slopes = torch.autograd.grad(total.sum(), [emissions, *leaves])
        slopes = [slopes[0].transpose(0, 1), *slopes[1:]]
        return [total.detach().numpy(), *(x.numpy() for x in slopes)]

    return run


def our_lstm(x, into, across, bias):
    """Returns our LSTM's outputs of a batch, [B, T, 2, K, N]."""
    mask, ones = jnp.ones(x.shape[1], bool), jnp.ones((*bias.shape[:2], bias.shape[3]))

    def run(x):
        return layers.bilstm(x[:, None, None], mask, into, across, bias, ones)[0]

    return jax.vmap(run)(x)


def plain_lstm(x, into, across, bias):
    """Returns an LSTM's outputs of a batch, by a plain scan in each direction."""

    def cell(x, into, across, bias):
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

    def run(x):
        forward = cell(x, into[0], across[0], bias[0])
        backward = cell(x[::-1], into[1], across[1], bias[1])[::-1]
        return jnp.stack([forward, backward], axis=1)

    return jax.vmap(run)(x)


def bilstm(quick: bool) -> Iterator[Case]:
    """Yields batches, lengths and sizes of our systems."""
    sizes = [(10, 32, 200, 200, 1), (10, 32, 150, 16, 8)]
    if not quick:
        sizes += [(1, 32, 200, 200, 1), (32, 32, 200, 200, 1), (128, 32, 200, 200, 1)]
    for batch, length, dim, size, units in sizes:
        (x,) = draw((batch, length, dim))
        shapes = (
            (2, units, dim, 4, size),
            (2, units, size, 4, size),
            (2, units, 4, size),
        )
        arguments = [x, *draw(*shapes, scale=size**-0.5)]
        rival = functools.partial(torch_lstm, arguments) if units == 1 else None
        columns = dict(zip("BTDNK", (batch, length, dim, size, units), strict=True))
        yield Case(columns, our_lstm, plain_lstm, arguments, rival)


def torch_lstm(arguments: Sequence[Any], backward: bool) -> Callable[[], Any]:
    """Returns `torch.nn.LSTM`, whose gates are input, forget, candidate, output."""
    torch: Any = importlib.import_module("torch")
    x, into, across, bias = map(np.array, arguments)
    batch, length, dim = x.shape
    size = bias.shape[3]
    module = torch.nn.LSTM(dim, size, bidirectional=True)
    with torch.no_grad():
        for side, way in enumerate(("", "_reverse")):
            for name, values in (
                ("weight_ih", into),
                ("weight_hh", across),
                ("bias_ih", bias),
                ("bias_hh", np.zeros_like(bias)),
            ):
                gates = values[side, 0][..., [0, 1, 3, 2], :].reshape(-1, 4 * size)
                leaf = getattr(module, f"{name}_l0{way}")
                leaf.copy_(torch.tensor(gates.squeeze().T.copy()))

    def result(y: Any) -> Any:
        return y[0].transpose(0, 1).reshape(batch, length, 2, 1, size)

    return torch_run(module, x.swapaxes(0, 1), result, backward)


def torch_run(
    module: Any, x: np.ndarray, result: Callable[[Any], Any], backward: bool
) -> Callable[[], Any]:
    """Returns a run of a module, with the gradient by input and weights if asked."""
    torch: Any = importlib.import_module("torch")
    inputs = torch.tensor(x.copy(), requires_grad=backward)

    def run() -> Any:
        with torch.set_grad_enabled(backward):
            y = result(module(inputs))
        if backward:
            module.zero_grad()
            inputs.grad = None
            y.sum().backward()
        return [y.detach().numpy()]

    return run


def convolution(quick: bool) -> Iterator[Case]:
    """Yields widths and dilations; the plain form is XLA's convolution."""
    sizes = [(1, 32, 300, 300, 3, 1), (10, 32, 300, 300, 3, 2)]
    if not quick:
        sizes += [(10, 16, 300, 300, 3, 1), (128, 16, 300, 300, 3, 1)]
        sizes += [(10, 16, 130, 400, 5, 1), (10, 128, 300, 300, 3, 4)]
    for batch, length, dim, size, width, dilation in sizes:
        reach = dilation * (width // 2)

        def ours(x, kernel, width=width, dilation=dilation):
            run = functools.partial(layers.convolve, width=width, dilation=dilation)
            return jax.vmap(functools.partial(run, by_tiles=True), (0, None))(x, kernel)

        def plain(x, kernel, width=width, dilation=dilation, reach=reach):
            taps = kernel.reshape(width, x.shape[2], kernel.shape[1])
            return jax.lax.conv_general_dilated(
                x, taps, (1,), [(reach, reach)], rhs_dilation=(dilation,),
                dimension_numbers=("NWC", "WIO", "NWC"),
            )  # fmt: skip

        arguments = draw((batch, length, dim), (width * dim, size), scale=0.1)
        sizes_of = {"B": batch, "T": length, "D": dim, "H": size}
        yield Case(
            {**sizes_of, "width": width, "dilation": dilation},
            ours,
            plain,
            arguments,
            functools.partial(torch_convolution, arguments, width, dilation),
        )


def torch_convolution(
    arguments: Sequence[Any], width: int, dilation: int, backward: bool
) -> Callable[[], Any]:
    """Returns `torch.nn.Conv1d`."""
    torch: Any = importlib.import_module("torch")
    x, kernel = map(np.array, arguments)
    module = torch.nn.Conv1d(
        x.shape[2],
        kernel.shape[1],
        width,
        padding=dilation * (width // 2),
        dilation=dilation,
        bias=False,
    )
    taps = kernel.reshape(width, x.shape[2], kernel.shape[1]).transpose(2, 1, 0)
    with torch.no_grad():
        module.weight.copy_(torch.tensor(taps.copy()))
    return torch_run(module, x.swapaxes(1, 2), lambda y: y.transpose(1, 2), backward)


def relation(quick: bool) -> Iterator[Case]:
    """Yields GRN's gated sum with 400 features."""

    def plain(a, b, x):
        return jnp.sum(jax.nn.sigmoid(a[:, :, None] + b[:, None]) * x[:, None], axis=2)

    for batch, length in [(1, 64), (1, 128)] + ([] if quick else [(10, 128), (1, 512)]):
        arguments = draw(*((batch, length, 400),) * 3)
        yield Case({"B": batch, "T": length}, jax.vmap(gated_sum), plain, arguments)


KERNELS: dict[str, Callable[[bool], Iterator[Case]]] = {
    "crf": crf,
    "lstm": bilstm,
    "convolution": convolution,
    "relation": relation,
}


def check(name: str, ours: Any, rivals: Any, tolerance: float = 3e-3) -> None:
    """Raises AssertionError if two forms differ."""
    for left, right in zip(
        jax.tree.leaves(ours), jax.tree.leaves(rivals), strict=False
    ):
        left, right = np.asarray(left), np.asarray(right)
        scale = tolerance * max(float(np.abs(right).max(initial=0.0)), 1e-3)
        np.testing.assert_allclose(left, right, rtol=0, atol=scale, err_msg=name)


def measured(case: Case, backward: bool, rounds: int) -> dict[str, Any]:
    """Returns the row of a case, forward or with the gradient."""
    runs: dict[str, Callable[[], Any]] = {}
    for name, form in (("ours", case.ours), ("plain", case.plain)):
        function = with_gradient(form) if backward else form
        compiled = jax.jit(function).lower(*case.arguments).compile()
        runs[name] = functools.partial(
            lambda f: jax.block_until_ready(f(*case.arguments)), compiled
        )
    if HAS_TORCH and case.torch is not None:
        run, threads = case.torch(backward), peers.Threads()
        threads.choose("kernel", run)

        def chosen() -> Any:
            with threads.of("kernel"):
                return run()

        runs["torch"] = chosen
    results = {name: run() for name, run in runs.items()}
    for name, result in results.items():
        check(name, results["ours"], result)
    timings = measure.compare(runs, rounds)
    row: dict[str, Any] = {**case.sizes, "pass": "gradient" if backward else "forward"}
    row["ours, ms"] = 1e3 * timings["ours"].seconds.median
    for name in ("plain", "torch"):
        rival = timings.get(name)
        row[f"× {name}"] = rival and timings["ours"].speedup(rival)
    return row


def main(argv: Sequence[str] | None = None) -> None:
    """Runs the benchmark."""
    made = measure.parser(__doc__)
    made.add_argument("--only", nargs="+", choices=KERNELS, default=[*KERNELS])
    options = measure.parse(made, argv)
    report = measure.Report(options.json)
    for name in options.only:
        report.table(
            f"{name}: times as fast as each rival",
            [
                measured(case, backward, options.rounds)
                for case in KERNELS[name](options.quick)
                for backward in (False, True)
            ],
        )


if __name__ == "__main__":
    main()
