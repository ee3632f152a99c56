"""Inference for labels that depend on all labels before; see `types.Autoregressive`.

No sums over labellings are needed, since the label probabilities of a token sum to one.
Exact maxima are not possible, since each history of labels has its own state; hence the
beam search. Shape letters: `T` tokens, `L` labels, `N` state size, `K` hypotheses of
the beam.

References:
    Zhang, Chen, Zhao, Liu and Yin, "Learning Tag Dependencies for Sequence Tagging",
    IJCAI 2018.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from jaxner.inference.crf import Constraints
from jaxner.inference.varying import varying
from jaxner.types import FORBIDDEN, Autoregressive

_EXACT = jax.lax.Precision.HIGHEST


def _read(potentials: Autoregressive, carry, gates):
    """Returns the new h and c after an LSTM step, for any number of hypotheses."""
    state, memory = carry
    gates = gates + jnp.einsum(
        "...n,ngm->...gm", state, potentials.recurrent, precision=_EXACT
    )
    i, f, o = (jax.nn.sigmoid(gates[..., k, :]) for k in range(3))
    memory = f * memory + i * jnp.tanh(gates[..., 3, :])
    return o * jnp.tanh(memory), memory


def _log_probabilities(potentials: Autoregressive, words, states):
    """Returns log p(label) from the words' terms [B, M] and states [B, N]."""
    sums = words + jnp.dot(states, potentials.from_state, precision=_EXACT)
    kernel, bias = potentials.output_kernel, potentials.output_bias
    if kernel is not None and bias is not None:
        sums = jnp.dot(jnp.tanh(sums), kernel, precision=_EXACT) + bias[None]
    return jax.nn.log_softmax(sums, axis=-1)


def score(
    potentials: Autoregressive, labels: Int[Array, " T"], mask: Bool[Array, " T"]
) -> Float[Array, ""]:
    """Returns the log-probability of one labelling, in nats.

    Constraints have no effect on it.

    Args:
        potentials: Potentials of the sentence.
        labels: Label ids; ignored under padding.
        mask: True at the tokens.

    Example:
        >>> import jax.numpy as jnp
        >>> potentials = Autoregressive(
        ...     words=jnp.array([[0.0, 0.0], [0.0, 9.0]]),  # and no label adds to them
        ...     word_gates=None, previous=jnp.zeros((3, 4, 1)),
        ...     recurrent=jnp.zeros((1, 4, 1)), from_state=jnp.zeros((1, 2)),
        ...     output_kernel=None, output_bias=None, beam=jnp.zeros(1),
        ... )
        >>> value = score(potentials, jnp.array([1, 1]), jnp.array([True, False]))
        >>> round(float(jnp.exp(value)), 4)
        0.5
    """
    zero = jnp.zeros(potentials.recurrent.shape[0], potentials.words.dtype)
    if not labels.shape[0]:
        return jnp.sum(zero)
    none = jnp.array([potentials.previous.shape[0] - 1], labels.dtype)
    gates = potentials.previous[jnp.concatenate([none, labels[:-1]])]
    if potentials.word_gates is not None:
        gates = gates + potentials.word_gates

    def step(carry, gates):
        carry = _read(potentials, carry, gates)
        return carry, carry[0]

    first = varying((zero, zero), gates, potentials.recurrent)
    _, states = jax.lax.scan(step, first, gates)
    logs = _log_probabilities(potentials, potentials.words, states)
    chosen = jnp.take_along_axis(logs, labels[:, None], axis=1)[:, 0]
    return jnp.sum(jnp.where(mask, chosen, 0.0))


def log_partition(
    potentials: Autoregressive, mask: Bool[Array, " T"]
) -> Float[Array, ""]:
    """Returns 0: the probabilities of all labellings sum to one."""
    del mask
    return jnp.zeros((), potentials.words.dtype)


def marginals(potentials: Autoregressive, mask: Bool[Array, " T"]) -> Any:
    """Raises ValueError: marginals need sums over all L^T labellings.

    Sums over the hypotheses of a beam would not be probabilities of the model.
    """
    raise ValueError(
        "Label probabilities need sums over all L^T labellings if each label depends "
        "on all before it (head 'seq2seq'). For uncertainty, a refinement or "
        "`marginals`, use head 'softmax' or 'crf'."
    )


def constrain(potentials: Autoregressive, constraints: Constraints) -> Autoregressive:
    """Returns potentials whose beam search obeys the constraints.

    The probabilities of the labels do not change.

    Args:
        potentials: Potentials of the model.
        constraints: See `crf.constrain`.
    """
    allowed = jnp.concatenate([constraints.transitions, constraints.start[None]])
    last = constraints.end
    if potentials.allowed is not None and potentials.allowed_last is not None:
        allowed, last = allowed & potentials.allowed, last & potentials.allowed_last
    return potentials._replace(allowed=allowed, allowed_last=last)


def viterbi(potentials: Autoregressive, mask: Bool[Array, " T"]) -> Int[Array, " T"]:
    """Returns a probable labelling, by beam search; 0 under padding.

    With one hypothesis, the search takes the best label of each token, given those
    before; with as many hypotheses as labellings, it is exact. It avoids labels from
    which no allowed end is reachable, so constraints hold if any labelling obeys them.

    Args:
        potentials: Potentials; the length of `beam` is the beam width.
        mask: True at the tokens.

    Example:
        >>> import jax.numpy as jnp
        >>> potentials = Autoregressive(
        ...     words=jnp.array([[0.0, 0.0], [0.0, 9.0]]),  # and no label adds to them
        ...     word_gates=None, previous=jnp.zeros((3, 4, 1)),
        ...     recurrent=jnp.zeros((1, 4, 1)), from_state=jnp.zeros((1, 2)),
        ...     output_kernel=None, output_bias=None, beam=jnp.zeros(1),
        ... )
        >>> viterbi(potentials, jnp.array([True, True])).tolist()
        [0, 1]
    """
    width, length = potentials.beam.shape[0], mask.shape[0]
    if not length:
        return jnp.zeros(0, jnp.int32)
    zeros = jnp.zeros((width, potentials.recurrent.shape[0]), potentials.words.dtype)
    none = jnp.full(width, potentials.previous.shape[0] - 1, jnp.int32)
    begin = varying((potentials.beam, none, (zeros, zeros)), potentials.words, mask)
    inputs = (potentials.words, potentials.word_gates, _hopeful(potentials, mask), mask)
    _, (parents, labels) = jax.lax.scan(
        lambda beam, inputs: _extend(potentials, beam, inputs), begin, inputs
    )

    def back(place, inputs):
        parents, labels = inputs
        return parents[place], labels[place]

    # Hypotheses are sorted, the best first.
    first = varying(jnp.zeros((), jnp.int32), parents)
    _, best = jax.lax.scan(back, first, (parents, labels), reverse=True)
    return jnp.where(mask, best, 0)


def _hopeful(potentials: Autoregressive, mask) -> Bool[Array, "T L"] | None:
    """Returns from which labels of each token an allowed end is reachable."""
    if potentials.allowed is None:
        return None
    allowed = potentials.allowed[:-1]

    def back(after, is_token):
        before = jnp.any(allowed & after[None, :], axis=1)
        return jnp.where(is_token, before, after), after

    last = varying(potentials.allowed_last, mask)
    return jax.lax.scan(back, last, mask, reverse=True)[1]


def _extend(potentials: Autoregressive, beam, inputs):
    """Returns the best extensions of all hypotheses by one token."""
    scores, last, carry = beam
    words, word_gates, hopeful, is_token = inputs
    gates = potentials.previous[last]
    if word_gates is not None:
        gates = gates + word_gates[None]
    read = _read(potentials, carry, gates)
    logs = _log_probabilities(potentials, words[None], read[0])
    if potentials.allowed is not None:
        logs = jnp.where(potentials.allowed[last] & hopeful[None], logs, FORBIDDEN)
    totals = scores[:, None] + logs
    best, places = jax.lax.top_k(totals.reshape(totals.size), len(scores))
    parents, labels = jnp.divmod(places.astype(jnp.int32), totals.shape[1])
    # Subtract the best score at each token: scores that grow with T would swamp the
    # deciding differences.
    extended = (best - best[0], labels, jax.tree.map(lambda x: x[parents], read))
    kept = jax.tree.map(lambda x, y: jnp.where(is_token, x, y), extended, beam)
    itself = jnp.arange(len(scores), dtype=jnp.int32)
    return kept, (jnp.where(is_token, parents, itself), kept[1])
