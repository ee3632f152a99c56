r"""Recurrent, convolution, relation and attention kernels beside their plain forms.

    python -m benchmarks.kernels --quick
    python -m benchmarks.kernels --only lstm,relation --rounds 9 --json kernels.json

Every kernel runs forward, and with the gradient by inputs and weights, beside its plain
form in JAX and PyTorch's kernel, if there is one (`torch.nn.LSTM`, `Conv1d`). PyTorch
has one thread or all, whichever was faster in a short pilot of the same call. The
benchmark first compares all results. After each time comes the speedup over PyTorch or,
without one, over the plain form; compile time has its own column. Memory is XLA's
temporary memory beside arguments and results; PyTorch reports no such figure on a CPU.
The last tables show which targets are met, and the share of the LSTM's time that its
matrix products would take at the speed of large ones on this machine.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Annotated, Any

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks import plain_kernels, torch_kernels
from benchmarks.measure import Report, compare, show_seconds
from jaxner import fields
from jaxner.fields import OneOf
from jaxner.models import lstm
from jaxner.models.attention import SelfAttention
from jaxner.models.convolution import convolve, windows
from jaxner.models.relation import gated_sum
from jaxner.models.relative import RelativeAttention

OURS, PLAIN, TORCH = "ours", "plain", "torch"
PASSES = ("forward", "with gradient")


class Program:
    """A compiled function and its arguments.

    Attributes:
        compile_seconds: Seconds to compile.
        mebibytes: Temporary memory, in MiB.
    """

    def __init__(self, function: Callable[..., Any], arguments: Sequence[Any]):
        start = time.perf_counter()
        self._compiled = jax.jit(function).lower(*arguments).compile()
        self.compile_seconds = time.perf_counter() - start
        memory: Any = self._compiled.memory_analysis()
        self.mebibytes = memory.temp_size_in_bytes / 2**20
        self._arguments = arguments

    def __call__(self) -> Any:
        return self._compiled(*self._arguments)


def with_gradient(function: Callable[..., Any]) -> Callable[..., Any]:
    """Returns a function for a result and its gradient by all but the last argument.

    The last argument is the gradient of the loss by the result.
    """

    def run(*arguments: Any) -> Any:
        *primals, cotangent = arguments
        result, pull = jax.vjp(function, *primals)
        return result, pull(cotangent)

    return run


def draw(*shapes: tuple[int, ...], scale: float = 1.0) -> list[jax.Array]:
    """Returns arrays of normal numbers."""
    rng = np.random.default_rng(0)
    return [
        jnp.asarray(scale * rng.normal(size=shape), jnp.float32) for shape in shapes
    ]


def check(found: Mapping[str, Any], tolerance: float = 2e-3) -> None:
    """Raises AssertionError if the rivals' results differ.

    Args:
        found: Trees of the same shape, by rival.
        tolerance: Largest allowed difference, relative to the largest number.
    """
    first, *others = (jax.tree.leaves(tree) for tree in found.values())
    for leaves in others:
        for left, right in zip(leaves, first, strict=True):
            left, right = np.asarray(left), np.asarray(right)
            scale = max(float(np.abs(right).max(initial=0.0)), 1e-3)
            np.testing.assert_allclose(left, right, rtol=0, atol=tolerance * scale)


def measure(
    sizes: Mapping[str, Any],
    forms: Mapping[str, Callable[..., Any]],
    arguments: Sequence[Any],
    rounds: int,
    rival: Callable[..., torch_kernels.Rival] | None = None,
) -> list[dict[str, Any]]:
    """Returns timings of a kernel's forms, forward and with gradient, after a check.

    Args:
        sizes: First columns of the rows.
        forms: Functions of the arguments; the plain form is named `PLAIN`.
        arguments: Inputs and weights.
        rounds: Samples of each form.
        rival: Prepares PyTorch's run, to compare with; None to compare with the plain
            form.

    Returns:
        Two rows with a `Timing` of every form.
    """
    shape = jax.eval_shape(forms[OURS], *arguments).shape
    (cotangent,) = draw(shape)
    rows = []
    for name in PASSES:
        backward = name == PASSES[1]
        given = [*arguments, cotangent] if backward else arguments
        runs: dict[str, Any] = {
            form: Program(with_gradient(function) if backward else function, given)
            for form, function in forms.items()
        }
        programs, results = dict(runs), {form: run() for form, run in runs.items()}
        if rival is not None:
            runs[TORCH], tell = rival(backward, arguments, cotangent)
            runs[TORCH]()
            results[TORCH] = tell()
        check(results)
        found = compare(runs, PLAIN if rival is None else TORCH, rounds)
        rows.append(
            {**sizes, "pass": name, **found}
            | {f"{form}, MiB": run.mebibytes for form, run in programs.items()}
            | {"compile": show_seconds(programs[OURS].compile_seconds)}
        )
    return rows


def our_lstm(x, input_kernel, kernel, bias):
    """Returns the outputs of `jaxner.models.lstm.bilstm`."""
    mask, ones = jnp.ones(x.shape[1], bool), jnp.ones((*bias.shape[:2], bias.shape[3]))

    def one(x):
        return lstm.bilstm(x[:, None, None], mask, input_kernel, kernel, bias, ones)[0]

    return jax.vmap(one)(x)


def time_lstm(quick: bool, rounds: int) -> list[dict[str, Any]]:
    """Returns timings for the batches, lengths and sizes of our systems."""
    sizes = [(10, 32, 200, 200, 1), (32, 32, 200, 200, 1), (10, 32, 150, 16, 8)]
    if not quick:
        sizes += [(1, 32, 200, 200, 1), (128, 32, 200, 200, 1), (32, 32, 100, 100, 1)]
        sizes += [(10, 128, 400, 200, 1), (32, 16, 400, 100, 1), (32, 32, 150, 32, 16)]
    rows = []
    for batch, length, dim, size, units in sizes:
        columns = dict(zip("BTDNK", (batch, length, dim, size, units), strict=True))
        cells = (2, units)
        (x,) = draw((batch, length, dim))
        weights = draw(
            (*cells, dim, 4, size), (*cells, size, 4, size), (*cells, 4, size),
            scale=size**-0.5,
        )  # fmt: skip
        rival = torch_kernels.lstm if units == 1 and torch_kernels.AVAILABLE else None
        forms = {OURS: our_lstm, PLAIN: plain_kernels.lstm}
        rows += measure(columns, forms, [x, *weights], rounds, rival)
    return rows


def time_convolution(quick: bool, rounds: int) -> list[dict[str, Any]]:
    """Returns timings by width and dilation; the plain form is XLA's convolution."""

    def forms(width: int, dilation: int) -> dict[str, Callable[..., Any]]:
        def ours(x, kernel):
            one = partial(convolve, width=width, dilation=dilation, by_tiles=True)
            return jax.vmap(one, (0, None))(x, kernel)

        def by_windows(x, kernel):
            """Returns the convolution as one product."""
            return windows(x, width, dilation) @ kernel

        def plain(x, kernel):
            taps = kernel.reshape(width, x.shape[2], kernel.shape[1])
            reach = dilation * (width // 2)
            return jax.lax.conv_general_dilated(
                x, taps, (1,), [(reach, reach)], rhs_dilation=(dilation,),
                dimension_numbers=("NWC", "WIO", "NWC"),
            )  # fmt: skip

        return {OURS: ours, PLAIN: plain, "windows": by_windows}

    sizes = [(1, 32, 300, 300, 3, 1), (10, 32, 300, 300, 3, 2)]
    if not quick:
        sizes += [(10, 16, 300, 300, 3, 1), (128, 16, 300, 300, 3, 1)]
        sizes += [(10, 16, 130, 400, 5, 1), (128, 16, 130, 400, 5, 1)]
        sizes += [(1, 128, 300, 300, 3, 2), (10, 128, 300, 300, 3, 4)]
    rows = []
    for batch, length, dim, size, width, dilation in sizes:
        columns = {"B": batch, "T": length, "D": dim, "H": size}
        columns |= {"width": width, "dilation": dilation}
        arguments = draw((batch, length, dim), (width * dim, size), scale=0.1)
        rival = None
        if torch_kernels.AVAILABLE:
            rival = torch_kernels.convolution(width, dilation)
        rows += measure(columns, forms(width, dilation), arguments, rounds, rival)
    return rows


def time_relation(quick: bool, rounds: int) -> list[dict[str, Any]]:
    """Returns timings of GRN's gated sum with 400 features."""

    def plain(a, b, x):
        return jnp.sum(jax.nn.sigmoid(a[:, :, None] + b[:, None]) * x[:, None], axis=2)

    sizes = [(1, 64), (1, 128)] if quick else [(1, 64), (1, 128), (10, 128), (1, 512)]
    rows = []
    for batch, length in sizes:
        arguments = draw(*((batch, length, 400),) * 3)
        forms = {OURS: jax.vmap(gated_sum), PLAIN: plain}
        rows += measure({"B": batch, "T": length}, forms, arguments, rounds)
    return rows


def time_attention(quick: bool, rounds: int) -> list[dict[str, Any]]:
    """Returns timings of both kinds of attention, below and above one query block."""
    rows = []
    for length in (64, 512) if quick else (64, 512, 1024, 2048):
        (x,) = draw((length, 64))
        mask = jnp.ones(length, bool)
        for model in (RelativeAttention(4, 16, 0.0), SelfAttention(4, 16)):
            relative = isinstance(model, RelativeAttention)
            count = 2 if relative else 1
            weights = model.init(jax.random.key(0), *(x,) * count, mask, train=False)

            def ours(x, weights, model=model, count=count, mask=mask):
                out: Any = model.apply(weights, *(x,) * count, mask, train=False)
                return out[0] if isinstance(out, tuple) else out

            forms = {
                OURS: ours,
                PLAIN: partial(plain_kernels.attention, relative=relative),
            }
            columns = {"attention": type(model).__name__, "T": length}
            rows += measure(columns, forms, [x, weights], rounds)
    return rows


SECTIONS: dict[str, Callable[[bool, int], list[dict[str, Any]]]] = {
    "lstm": time_lstm,
    "convolution": time_convolution,
    "relation": time_relation,
    "attention": time_attention,
}


def peak(size: int = 2048) -> float:
    """Returns the operations per second of a large matrix product."""
    x, y = draw((size, size), (size, size))
    product = Program(jnp.matmul, [x, y])
    return 2 * size**3 / compare({OURS: product}, OURS, 5)[OURS].seconds.low


def products(row: Mapping[str, Any]) -> float:
    """Returns the operations of matrix products in a pass of an LSTM."""
    forward = (
        2 * 2 * row["K"] * row["B"] * row["T"] * (row["D"] + row["N"]) * 4 * row["N"]
    )
    return forward * (3 if row["pass"] == PASSES[1] else 1)


def targets(tables: Mapping[str, list[dict[str, Any]]]) -> list[dict[str, Any]]:
    """Returns a row for each target, and whether it is met."""
    found = []

    def add(target, row, needed, ratio):
        what = ", ".join(f"{k}={row[k]}" for k in ("B", "T", "N") if k in row)
        met = "yes" if ratio >= needed else "no"
        found.append({"target": target, "at": what, "× rival": ratio, "met": met})

    for row in tables.get("relation", ()):
        if row["T"] >= 128:
            name = f"relation, {row['pass']}: ≥ 10 × the plain form"
            add(name, row, 10, row[OURS].ratio.median)
    for row in tables.get("lstm", ()):
        if TORCH not in row or row["pass"] == PASSES[0] or row["B"] not in (10, 32):
            continue
        needed = {10: 1.0, 32: 1 / 1.3}[row["B"]]
        name = f"LSTM: ≥ {needed:.2f} × torch.nn.LSTM"
        add(name, row, needed, row[OURS].ratio.median)
    return found


def main(arguments: Sequence[str] | None = None) -> None:
    """Runs the benchmark and prints a summary."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="few sizes")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--json", help="file for the figures")
    parser.add_argument(
        "--only", default=",".join(SECTIONS), help="kernels, separated by commas"
    )
    options = parser.parse_args(arguments)
    names = options.only.split(",")
    known = Annotated[str, OneOf(SECTIONS)]
    for name in names:
        fields.check("part", name, known, " of benchmarks.kernels")
    report, tables = Report(options.json), {}
    if not torch_kernels.AVAILABLE:
        report.say("PyTorch is not installed: pip install -e '.[benchmarks]'")
    for name in names:
        tables[name] = SECTIONS[name](options.quick, options.rounds)
        for with_torch in (True, False):  # a table's rows have equal columns
            rows = [row for row in tables[name] if (TORCH in row) == with_torch]
            if rows:
                report.table(f"{name}, beside torch" if with_torch else name, rows)
    if "lstm" in tables:
        speed = peak()
        report.say(f"Large matrix products: {speed / 1e9:.0f} GFLOP/s")
        columns = ("B", "T", "D", "N", "K", "pass")
        rows = [
            {column: row[column] for column in columns}
            | {"share": products(row) / speed / row[OURS].seconds.median}
            for row in tables["lstm"]
        ]
        report.table("share of matrix products at that speed in our LSTM's time", rows)
    if rows := targets(tables):
        report.table("targets", rows)


if __name__ == "__main__":
    main()
