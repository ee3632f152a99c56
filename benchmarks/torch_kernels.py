"""PyTorch's runs of the kernels in `benchmarks.kernels`.

Each has one thread or all, whichever was faster in a pilot.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from benchmarks.peers import threads

AVAILABLE = importlib.util.find_spec("torch") is not None

_NAMES = ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
_ORDER = [0, 1, 3, 2]  # PyTorch's gates are input, forget, candidate, output


Rival = tuple[Callable[[], Any], Callable[[], list[np.ndarray]]]
"""A run, and a function that returns its results in our order."""


def lstm(backward: bool, arguments: Sequence[Any], cotangent: Any) -> Rival:
    """Returns `torch.nn.LSTM` for the arguments of `benchmarks.kernels.our_lstm`."""
    import torch  # pyright: ignore[reportMissingImports]

    x, into, across, bias = (np.asarray(a) for a in arguments)
    batch, length, dim = x.shape
    size = bias.shape[3]
    module = torch.nn.LSTM(dim, size, bidirectional=True)
    names = [f"{name}_l0{way}" for way in ("", "_reverse") for name in _NAMES]
    values = [
        weights[way, 0][..., _ORDER, :].reshape(-1, 4 * size).squeeze().T
        for way in (0, 1)
        for weights in (into, across, bias, np.zeros_like(bias))
    ]
    with torch.no_grad():
        for name, value in zip(names, values, strict=True):
            getattr(module, name).copy_(torch.tensor(value.copy()))
    given = np.asarray(cotangent).reshape(batch, length, 2 * size).swapaxes(0, 1)
    run, inputs, result = _prepare(module, x.swapaxes(0, 1), given, backward)

    def tell() -> list[np.ndarray]:
        shape = (batch, length, 2, 1, size)
        found = [result().swapaxes(0, 1).reshape(shape)]
        if backward:
            found.append(inputs.grad.numpy().swapaxes(0, 1))
        for name, weights in zip(
            _NAMES[: 3 * backward], (into, across, bias), strict=False
        ):
            ways = (getattr(module, f"{name}_l0{way}").grad for way in ("", "_reverse"))
            turned = np.stack([way.numpy().T for way in ways])
            gates = turned.reshape(*weights.shape)[..., _ORDER, :]
            found.append(gates)
        return found

    return run, tell


def convolution(width: int, dilation: int) -> Callable[..., Rival]:
    """Returns a function that prepares `torch.nn.Conv1d`."""

    def prepare(backward: bool, arguments: Sequence[Any], cotangent: Any) -> Rival:
        import torch  # pyright: ignore[reportMissingImports]

        x, kernel = (np.asarray(a) for a in arguments)
        shape = (width, x.shape[2], kernel.shape[1])
        reach = dilation * (width // 2)
        module = torch.nn.Conv1d(
            *shape[1:], width, padding=reach, dilation=dilation, bias=False
        )
        with torch.no_grad():
            taps = kernel.reshape(shape).transpose(2, 1, 0)
            module.weight.copy_(torch.tensor(taps.copy()))
        given = np.asarray(cotangent).swapaxes(1, 2)
        run, inputs, result = _prepare(module, x.swapaxes(1, 2), given, backward)

        def tell() -> list[np.ndarray]:
            found = [result().swapaxes(1, 2)]
            if backward:
                slope: Any = module.weight.grad
                found.append(inputs.grad.numpy().swapaxes(1, 2))
                found.append(slope.numpy().transpose(2, 1, 0).reshape(kernel.shape))
            return found

        return run, tell

    return prepare


def _prepare(
    module: Any, x: np.ndarray, cotangent: np.ndarray, backward: bool
) -> tuple[Callable[[], None], Any, Callable[[], np.ndarray]]:
    """Returns a function that runs a module, its input, and one for its last result."""
    import torch  # pyright: ignore[reportMissingImports]

    inputs = torch.tensor(x.copy(), requires_grad=backward)
    given = torch.tensor(cotangent.copy())
    last: list[Any] = [None]

    def forward() -> Any:
        result = module(inputs)
        last[0] = result[0] if isinstance(result, tuple) else result
        return last[0]

    def run() -> None:
        if backward:
            module.zero_grad()
            inputs.grad = None
            forward().backward(given)
            return
        with torch.no_grad():
            forward()

    run = threads.on(threads.pilot(run).threads, run)
    return run, inputs, lambda: last[0].detach().numpy()
