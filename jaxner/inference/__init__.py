"""Inference over the label sequences of one sentence.

Each function takes what any head returns. Potentials without transitions bypass all
scans, and those of an autoregressive head have a beam search and no marginals, which is
settled while tracing. Shape letters: `T` tokens, `L` labels, `N` labellings.
"""

from __future__ import annotations

from typing import Any

from jaxtyping import Array, Bool, Float, Int, Key

from jaxner.inference import autoregressive, crf, independent
from jaxner.inference.crf import Constraints as Constraints
from jaxner.inference.uncertainty import Uncertainty as Uncertainty
from jaxner.inference.uncertainty import entropy as entropy
from jaxner.inference.uncertainty import summarise as summarise
from jaxner.types import FORBIDDEN as FORBIDDEN
from jaxner.types import AnyPotentials, Autoregressive


def _kernels(potentials: AnyPotentials) -> Any:
    if isinstance(potentials, Autoregressive):
        return autoregressive
    return independent if potentials.transitions is None else crf


def _closed_kernels(potentials: AnyPotentials, wanted: str) -> Any:
    """Returns the kernels of a head whose labellings can be summed over."""
    if isinstance(potentials, Autoregressive):
        raise ValueError(
            f"{wanted} needs sums or maxima over all L^T labellings, and those of an "
            "autoregressive head (head 'seq2seq') have no closed form. Take the head "
            "'softmax' or 'crf'."
        )
    return _kernels(potentials)


def constrain(potentials: AnyPotentials, constraints: Constraints) -> AnyPotentials:
    """Forbids what the constraints rule out; see `crf.constrain`."""
    if isinstance(potentials, Autoregressive):
        return autoregressive.constrain(potentials, constraints)
    return crf.constrain(potentials, constraints)


def score(
    potentials: AnyPotentials, labels: Int[Array, " T"], mask: Bool[Array, " T"]
) -> Float[Array, ""]:
    """Scores one labelling, in nats, unnormalised; see `crf.score`.

    That of an autoregressive head is normalised: its log partition is 0.
    """
    return _kernels(potentials).score(potentials, labels, mask)


def log_partition(
    potentials: AnyPotentials, mask: Bool[Array, " T"]
) -> Float[Array, ""]:
    """Computes log Z, in nats; see `crf.log_partition`."""
    return _kernels(potentials).log_partition(potentials, mask)


def marginals(
    potentials: AnyPotentials, mask: Bool[Array, " T"]
) -> Float[Array, "T L"]:
    """Computes p(label at t), zero under padding; see `crf.marginals`.

    Raises:
        ValueError: The head is autoregressive.
    """
    return _kernels(potentials).marginals(potentials, mask)


def viterbi(potentials: AnyPotentials, mask: Bool[Array, " T"]) -> Int[Array, " T"]:
    """Finds the best labelling, 0 under padding; see `crf.viterbi`.

    That of an autoregressive head is found by beam search, and need not be the best.
    """
    return _kernels(potentials).viterbi(potentials, mask)


def n_best(
    potentials: AnyPotentials, mask: Bool[Array, " T"], n: int
) -> tuple[Int[Array, "N T"], Float[Array, " N"]]:
    """Finds the n best labellings and their scores, in nats; see `crf.n_best`.

    Raises:
        ValueError: n is below 1, or the head is autoregressive.
    """
    return _closed_kernels(potentials, "n_best").n_best(potentials, mask, n)


def sample(
    potentials: AnyPotentials, mask: Bool[Array, " T"], key: Key[Array, ""]
) -> Int[Array, " T"]:
    """Draws a labelling with its probability, 0 under padding; see `crf.sample`.

    Raises:
        ValueError: The head is autoregressive.
    """
    return _closed_kernels(potentials, "sample").sample(potentials, mask, key)


def labelling_entropy(
    potentials: AnyPotentials, mask: Bool[Array, " T"]
) -> Float[Array, ""]:
    """Computes the entropy of the distribution over whole labellings, in nats.

    `entropy` is that of single probabilities, token by token; see
    `crf.labelling_entropy`.

    Raises:
        ValueError: The head is autoregressive.
    """
    kernels = _closed_kernels(potentials, "labelling_entropy")
    return kernels.labelling_entropy(potentials, mask)
