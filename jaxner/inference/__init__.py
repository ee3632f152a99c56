"""Inference over the label sequences of one sentence.

Each function takes any `Potentials`; those without transitions bypass all scans, which
is settled while tracing. Shape letters: `T` tokens, `L` labels.
"""

from __future__ import annotations

from jaxtyping import Array, Bool, Float, Int

from jaxner.inference import crf, independent
from jaxner.inference.crf import Constraints as Constraints
from jaxner.inference.crf import constrain as constrain
from jaxner.types import FORBIDDEN as FORBIDDEN
from jaxner.types import Potentials


def _kernels(potentials: Potentials):
    return independent if potentials.transitions is None else crf


def score(
    potentials: Potentials, labels: Int[Array, " T"], mask: Bool[Array, " T"]
) -> Float[Array, ""]:
    """Scores one labelling, unnormalised, in nats; see `crf.score`."""
    return _kernels(potentials).score(potentials, labels, mask)


def log_partition(potentials: Potentials, mask: Bool[Array, " T"]) -> Float[Array, ""]:
    """Computes log Z, in nats; see `crf.log_partition`."""
    return _kernels(potentials).log_partition(potentials, mask)


def marginals(potentials: Potentials, mask: Bool[Array, " T"]) -> Float[Array, "T L"]:
    """Computes p(label at t), zero under padding; see `crf.marginals`."""
    return _kernels(potentials).marginals(potentials, mask)


def viterbi(potentials: Potentials, mask: Bool[Array, " T"]) -> Int[Array, " T"]:
    """Finds the best labelling, 0 under padding; see `crf.viterbi`."""
    return _kernels(potentials).viterbi(potentials, mask)
