"""Inference for labels that depend on all labels before; see `types.Autoregressive`.

No sums over labellings are needed, since the label probabilities of a token sum to one.
Exact maxima are not possible, since each history of labels has its own state; hence the
beam search. For the paper see `models.seq2seq`. Shape letters: `T` tokens, `L` labels,
`N` state size, `K` hypotheses of the beam.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from jaxner.inference.crf import HIGHEST, Constraints, Mask, varying
from jaxner.types import FORBIDDEN, Autoregressive


def _read(potentials: Autoregressive, carry, gates):
    """Returns the new h and c after an LSTM step, for any number of hypotheses."""
    state, memory = carry
    gates = gates + jnp.einsum(
        "...n,ngm->...gm", state, potentials.recurrent, precision=HIGHEST
    )
    i, f, o = (jax.nn.sigmoid(gates[..., k, :]) for k in range(3))
    memory = f * memory + i * jnp.tanh(gates[..., 3, :])
    return o * jnp.tanh(memory), memory


def _log_probabilities(potentials: Autoregressive, words, states):
    """Returns log p(label) from the words' terms [B, M] and states [B, N]."""
    sums = words + jnp.dot(states, potentials.from_state, precision=HIGHEST)
    kernel, bias = potentials.output_kernel, potentials.output_bias
    if kernel is not None and bias is not None:
        sums = jnp.dot(jnp.tanh(sums), kernel, precision=HIGHEST) + bias[None]
    return jax.nn.log_softmax(sums, axis=-1)


def score(
    potentials: Autoregressive, labels: Int[Array, " T"], mask: Mask
) -> Float[Array, ""]:
    """Returns the log-probability of one labelling, in nats, whatever is allowed."""
    zero = jnp.zeros(potentials.recurrent.shape[0], potentials.words.dtype)
    begin = jnp.array([potentials.previous.shape[0] - 1], labels.dtype)
    gates = potentials.previous[jnp.concatenate([begin, labels])[:-1]]
    if potentials.word_gates is not None:
        gates = gates + potentials.word_gates

    def step(carry, gates):
        carry = _read(potentials, carry, gates)
        return carry, carry[0]

    first = varying((zero, zero), gates, potentials.recurrent)
    _, states = jax.lax.scan(step, first, gates)
    logs = _log_probabilities(potentials, potentials.words, states)
    label_logs = jnp.take_along_axis(logs, labels[:, None], axis=1)[:, 0]
    return jnp.sum(label_logs, where=mask)


log_probability = score


def log_partition(potentials: Autoregressive, mask: Mask) -> Float[Array, ""]:
    """Returns 0: the probabilities of all labellings sum to one."""
    del mask
    return jnp.zeros((), potentials.words.dtype)


def constrain(potentials: Autoregressive, constraints: Constraints) -> Autoregressive:
    """Returns potentials whose beam search obeys constraints, and all those before."""
    allowed = jnp.concatenate([constraints.transitions, constraints.start[None]])
    last = constraints.end
    if potentials.allowed is not None and potentials.allowed_last is not None:
        allowed, last = allowed & potentials.allowed, last & potentials.allowed_last
    return potentials._replace(allowed=allowed, allowed_last=last)


def viterbi(potentials: Autoregressive, mask: Mask) -> Int[Array, " T"]:
    """Returns a probable labelling, by beam search; 0 under padding.

    With one hypothesis (the length of `beam`) it is greedy; with as many as labellings,
    exact. It avoids labels from which no allowed end is reachable, so constraints hold
    if any labelling obeys them.
    """
    width = potentials.beam.shape[0]
    zeros = jnp.zeros((width, potentials.recurrent.shape[0]), potentials.words.dtype)
    begin = jnp.full(width, potentials.previous.shape[0] - 1, jnp.int32)
    begin = varying((potentials.beam, begin, (zeros, zeros)), potentials.words, mask)
    inputs = (potentials.words, potentials.word_gates, _hopeful(potentials, mask), mask)
    _, (parents, labels) = jax.lax.scan(
        lambda beam, inputs: _extend(potentials, beam, inputs), begin, inputs
    )

    def back(index, inputs):
        parents, labels = inputs
        return parents[index], labels[index]

    # Hypotheses are sorted, the best first.
    first = varying(jnp.zeros((), jnp.int32), parents)
    _, best = jax.lax.scan(back, first, (parents, labels), reverse=True)
    return jnp.where(mask, best, 0)


def _hopeful(potentials: Autoregressive, mask: Mask) -> Bool[Array, "T L"] | None:
    """Returns from which labels of each token an allowed end is reachable, or None."""
    if potentials.allowed is None:
        return None
    allowed = potentials.allowed[:-1]

    def back(next_labels, is_token):
        labels = jnp.any(allowed & next_labels[None, :], axis=1)
        return jnp.where(is_token, labels, next_labels), next_labels

    last = varying(potentials.allowed_last, mask)
    return jax.lax.scan(back, last, mask, reverse=True)[1]


def _extend(potentials: Autoregressive, beam, inputs):
    """Returns the best extensions of all hypotheses by one token."""
    scores, last, carry = beam
    words, word_gates, hopeful, is_token = inputs
    gates = potentials.previous[last]
    if word_gates is not None:
        gates = gates + word_gates[None]
    carry = _read(potentials, carry, gates)
    logs = _log_probabilities(potentials, words[None], carry[0])
    if potentials.allowed is not None:
        logs = jnp.where(potentials.allowed[last] & hopeful[None], logs, FORBIDDEN)
    totals = scores[:, None] + logs
    best, places = jax.lax.top_k(totals.ravel(), len(scores))
    parents, labels = jnp.divmod(places.astype(jnp.int32), totals.shape[1])
    # Scores that grow with T would swamp the differences that decide.
    new_beam = (best - best[0], labels, jax.tree.map(lambda x: x[parents], carry))
    beam = jax.tree.map(lambda x, y: jnp.where(is_token, x, y), new_beam, beam)
    indices = jnp.arange(len(scores), dtype=jnp.int32)
    return beam, (jnp.where(is_token, parents, indices), beam[1])
