"""The programs that `benchmarks.crf` compares: jaxner, a plain scan, and PyTorch.

Each rival has three runs for given potentials: log Z, its gradient by all potentials,
and the best labels.
"""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks import measure
from jaxner import inference
from jaxner.types import Potentials

OURS, PLAIN, PYTORCH, STRUCT = "jaxner", "plain scan", "pytorch-crf", "torch-struct"
Run = Callable[[], Any]


def plain_log_partition(potentials: Any, mask: Any) -> Any:
    emissions, transitions, start, end = potentials

    def step(alpha, inputs):
        emission, is_token = inputs
        scores = jax.nn.logsumexp(alpha[:, None] + transitions, axis=0) + emission
        return jnp.where(is_token, scores, alpha), None

    first = start + emissions[0]
    last, _ = jax.lax.scan(step, first, (emissions[1:], mask[1:]))
    return jax.nn.logsumexp(last + end)


def plain_viterbi(potentials: Any, mask: Any) -> Any:
    emissions, transitions, start, end = potentials

    def step(best, inputs):
        emission, is_token = inputs
        totals = best[:, None] + transitions
        origins = jnp.where(is_token, jnp.argmax(totals, 0), jnp.arange(len(best)))
        scores = jnp.max(totals, axis=0) + emission
        return jnp.where(is_token, scores, best), origins

    first = start + emissions[0]
    last, origins = jax.lax.scan(step, first, (emissions[1:], mask[1:]))
    final = jnp.argmax(last + end)
    _, labels = jax.lax.scan(
        lambda label, origins: (origins[label], origins[label]),
        final,
        origins,
        reverse=True,
    )
    return jnp.append(labels, final)


def jax_runs(log_partition: Any, viterbi: Any, potentials: Potentials) -> list[Run]:
    given = jax.tree.map(jnp.asarray, potentials)
    mask = jnp.ones(given.emissions.shape[:2], bool)
    axes = (Potentials(0, None, None, None), 0)  # type: ignore
    totals = jax.vmap(log_partition, axes)
    slopes = jax.grad(lambda p, mask: jnp.sum(totals(p, mask)))
    kernels = (totals, slopes, jax.vmap(viterbi, axes))
    return [functools.partial(jax.jit(kernel), given, mask) for kernel in kernels]


def pytorch_runs(potentials: Potentials) -> list[Run]:
    torch = importlib.import_module("torch")
    crf = importlib.import_module("torchcrf").CRF(potentials.emissions.shape[-1])
    given = [torch.from_numpy(np.array(leaf)) for leaf in potentials]
    emissions = given[0].transpose(0, 1).contiguous().requires_grad_()
    mask = torch.ones(emissions.shape[:2], dtype=torch.bool)
    leaves = [emissions, crf.transitions, crf.start_transitions, crf.end_transitions]
    with torch.no_grad():
        for parameter, values in zip(leaves[1:], given[1:], strict=True):
            parameter.copy_(values)

    def total():
        with torch.no_grad():
            return crf._compute_normalizer(emissions, mask)

    def gradient():
        found = torch.autograd.grad(
            crf._compute_normalizer(emissions, mask).sum(), leaves
        )
        return Potentials(found[0].transpose(0, 1), *found[1:])

    def best():
        with torch.no_grad():
            return crf.decode(emissions, mask)

    return [total, gradient, best]


def struct_runs(potentials: Potentials) -> list[Run]:
    torch = importlib.import_module("torch")
    struct = importlib.import_module("torch_struct")
    struct.LinearChainCRF.arg_constraints = {}  # PyTorch warns if missing
    leaves = [torch.from_numpy(np.array(x)).requires_grad_() for x in potentials]

    def distribution():
        # One score for each pair of neighbours, [B, T-1, label after, label before].
        emissions, transitions, start, end = leaves
        pairs = emissions[:, 1:, :, None] + transitions.T
        first = torch.zeros_like(pairs[:1, :, :1])
        first[:, 0] = 1.0
        last = torch.zeros_like(pairs[:1, :, :, :1])
        last[:, -1] = 1.0
        begin = (start + emissions[:, 0])[:, None, None]
        return struct.LinearChainCRF(pairs + first * begin + last * end[:, None])

    def total():
        with torch.no_grad():
            return distribution().partition.detach()

    def gradient():
        return Potentials(*torch.autograd.grad(distribution().partition.sum(), leaves))

    def best():
        pairs = distribution().argmax.detach()  # an indicator of the best pairs
        after = pairs.sum(-1).argmax(-1)
        return torch.cat([pairs[:, 0].sum(-2).argmax(-1)[:, None], after], dim=1)

    return [total, gradient, best]


RIVALS: dict[str, Callable[[Potentials], list[Run]]] = {
    OURS: functools.partial(jax_runs, inference.log_partition, inference.viterbi),
    PLAIN: functools.partial(jax_runs, plain_log_partition, plain_viterbi),
    PYTORCH: pytorch_runs,
    STRUCT: struct_runs,
}
MODULES = {PYTORCH: ("torch", "torchcrf"), STRUCT: ("torch", "torch_struct")}
"""The module that a PyTorch rival imports."""


def installed(wanted: Sequence[str], report: measure.Report) -> list[str]:
    """Returns the installed rivals; reports the missing ones."""
    names = [OURS]
    for name in wanted:
        try:
            for module in MODULES.get(name, ()):
                importlib.import_module(module)
        except ImportError as error:
            report.say(
                f"Skipped {name}: {error}. Install the rivals: pip install -e "
                "'.[benchmarks]'"
            )
        else:
            names.append(name)
    return names
