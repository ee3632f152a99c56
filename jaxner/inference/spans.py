"""Exact probabilities of spans: those of a labelling, given ones, or all.

A span is an entity of a labelling if one begins at its first token, continues up to
its last, and ends there. `LabelSpans` says whether a label continues the span of the
label before it, so these functions know neither strings nor schemes. A probability is
the sum over all labellings that contain this span, ill-formed ones included.

The distribution over labellings is written as a Markov chain,

    p(y) = p(y_0) Π_t p(y_{t+1} | y_t),
    p(y_{t+1} = j | y_t = i) ∝ exp(transitions[i, j] + heads[t+1, j]),
    heads[t, j] = emissions[t, j] + beta_t(j),

and a span needs only the part of the chain within it. Nothing is divided or subtracted,
so float32 loses no digits. Shape letters: `T` tokens, `L` labels, `K` types, `N` spans,
`W` widths. Time is O(T·L²) for the spans of one labelling, O(T·L²·N) for given spans
and O(T·L²·W) for all; memory is O(T·L) times 1, N or W.

References:
    Culotta and McCallum, "Confidence Estimation for Information Extraction",
    HLT-NAACL 2004: the constrained forward-backward algorithm.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax.nn import logsumexp
from jaxtyping import Array, Bool, Float, Int

from jaxner.inference import messages
from jaxner.types import Potentials

Mask = Bool[Array, " T"]


class LabelSpans(NamedTuple):
    """The span types of labels, and which labels continue a span.

    `jaxner.data.label_spans.label_types` returns both for a list of label names.

    Attributes:
        types: The type of each label's span; -1 outside all spans.
        goes_on: `goes_on[i, j]`: label j after label i continues the span of i, which
            has the same type.

    Example:
        >>> io = LabelSpans(jnp.array([-1, 0]), jnp.array([[False] * 2, [False, True]]))
        >>> io.goes_on.shape
        (2, 2)
    """

    types: Int[Array, " L"]
    goes_on: Bool[Array, "L L"]


class _Chain(NamedTuple):
    """Scores whose softmaxes are the chain's probabilities, in nats.

    Attributes:
        transitions: From label to label; zero for independent labels.
        start: Scores of the first label.
        heads: `emissions + beta`: the scores of a token's labels, including all later
            tokens.
        follows: Whether another token follows each token.
    """

    transitions: Float[Array, "L L"]
    start: Float[Array, " L"]
    heads: Float[Array, "T L"]
    follows: Bool[Array, " T"]

    def first(self) -> Float[Array, " L"]:
        """Returns p(y_0)."""
        return jax.nn.softmax(self.start + self.heads[0])

    def step(self, head: Float[Array, " L"]) -> Float[Array, "L L"]:
        """Returns p(y_{t+1} | y_t), one row per y_t, from the heads at t+1."""
        return jax.nn.softmax(self.transitions + head[None], axis=1)


def _chain_of(potentials: Potentials, mask: Mask) -> _Chain:
    emissions = potentials.emissions
    follows = jnp.append(mask[1:], False)
    if potentials.transitions is None:
        size = emissions.shape[1]
        none = jnp.zeros((size, size), emissions.dtype)
        return _Chain(none, none[0], emissions, follows)
    _, transitions, start, end = messages.chain(potentials)

    def back(head, inputs):
        emission, follows = inputs
        beta = logsumexp(transitions + head[None], axis=1)
        # Scores that grow with T would lose the small differences between labels.
        head = emission + jnp.where(follows, beta - jnp.max(beta), end)
        return head, head

    _, heads = jax.lax.scan(back, end, (emissions, follows), reverse=True)
    return _Chain(transitions, start, heads, follows)


def _next_heads(chain: _Chain) -> Float[Array, "T L"]:
    """Returns the heads at the next token; those at the last token are not used."""
    return jnp.concatenate([chain.heads[1:], chain.heads[-1:]])


def _beginnings(chain: _Chain, spans: LabelSpans, mask: Mask) -> Float[Array, "T L"]:
    """Computes p(a span begins at t, and its label there is j)."""
    is_in_span = spans.types >= 0

    def step(before, head):
        pairs = before[:, None] * chain.step(head)
        begins = jnp.sum(jnp.where(spans.goes_on, 0.0, pairs), axis=0)
        return jnp.sum(pairs, axis=0), begins

    first = chain.first()
    _, later = jax.lax.scan(step, first, chain.heads[1:])
    begins = jnp.concatenate([first[None], later])
    return jnp.where(mask[:, None] & is_in_span[None], begins, 0.0)


def _ends(steps: Float[Array, "L L"], follows, spans: LabelSpans) -> Float[Array, " L"]:
    """Computes p(the span of y_t ends at t | y_t); 1 at the last token."""
    ends = jnp.sum(jnp.where(spans.goes_on, 0.0, steps), axis=1)
    return jnp.where(follows, ends, 1.0)


def _times(steps: Float[Array, "L L"], after: Float[Array, "N L"]):
    """Multiplies each vector by the matrix, in full float32 on accelerators, too."""
    return jnp.einsum("ij,nj->ni", steps, after, precision=jax.lax.Precision.HIGHEST)


def _remainders(
    chain: _Chain,
    spans: LabelSpans,
    is_last: Bool[Array, "T N"],
    is_inner: Bool[Array, "T N"],
) -> Float[Array, "T N L"]:
    """Computes p(the span continues from t to exactly its last token | y_t).

    Args:
        chain: The chain of the sentence.
        spans: Span types of labels.
        is_last: Whether the token is the last one of each span.
        is_inner: Whether it is another token of each span.
    """

    def back(after, inputs):
        head, follows, is_last, is_inner = inputs
        steps = chain.step(head)
        ends = _ends(steps, follows, spans)
        goes_on = _times(jnp.where(spans.goes_on, steps, 0.0), after)
        rest = jnp.where(is_inner[:, None], goes_on, 0.0)
        rest = jnp.where(is_last[:, None], ends[None], rest)
        return rest, rest

    heads = chain.heads
    nothing = jnp.zeros((is_last.shape[1], heads.shape[1]), heads.dtype)
    inputs = (_next_heads(chain), chain.follows, is_last, is_inner)
    return jax.lax.scan(back, nothing, inputs, reverse=True)[1]


def _read(labels: Int[Array, " T"], mask: Mask, spans: LabelSpans):
    """Returns the type of each token's span, if it continues, and if it begins."""
    types = jnp.where(mask, spans.types[labels], -1)
    follows = spans.goes_on[labels[:-1], labels[1:]] & mask[1:]
    no = jnp.zeros(min(1, len(mask)), bool)
    begins = (types >= 0) & ~jnp.concatenate([no, follows])
    return types, jnp.concatenate([follows, no]), begins


def bounds(labels: Int[Array, " T"], mask: Mask, spans: LabelSpans):
    """Reads the spans of a labelling; see `inference.entity_bounds`."""
    types, goes_on, begins = _read(labels, mask, spans)
    places = jnp.arange(1, len(mask) + 1, dtype=jnp.int32)
    last = jnp.where(goes_on, jnp.iinfo(jnp.int32).max, places)
    ends = jax.lax.cummin(last, reverse=True)
    return begins, jnp.where(begins, ends, 0), jnp.where(begins, types, -1)


def of_labelling(
    potentials: Potentials, labels: Int[Array, " T"], mask: Mask, spans: LabelSpans
) -> Float[Array, " T"]:
    """Computes the probability of each span of a labelling; see `inference`."""
    if not mask.shape[0]:
        return jnp.zeros(0, potentials.emissions.dtype)
    chain = _chain_of(potentials, mask)
    types, goes_on, begins = _read(labels, mask, spans)
    inside = types >= 0
    rest = _remainders(
        chain, spans, (inside & ~goes_on)[:, None], (inside & goes_on)[:, None]
    )[:, 0]
    fits = begins[:, None] & (spans.types[None] == types[:, None])
    return jnp.sum(jnp.where(fits, _beginnings(chain, spans, mask) * rest, 0.0), axis=1)


def of_given(
    potentials: Potentials, given: Int[Array, "N 3"], mask: Mask, spans: LabelSpans
) -> Float[Array, " N"]:
    """Computes the probability of each given span; see `inference`."""
    start, end, types = given.T
    length = mask.shape[0]
    if not length:
        return jnp.zeros(len(given), potentials.emissions.dtype)
    chain = _chain_of(potentials, mask)
    place = jnp.arange(length)[:, None]
    inside = (start[None] <= place) & (place < end[None])
    is_last = place == end[None] - 1
    rest = _remainders(chain, spans, inside & is_last, inside & ~is_last)
    count = jnp.sum(mask)
    exists = (start >= 0) & (start < end) & (end <= count) & (types >= 0)
    at = jnp.clip(start, 0, length - 1)
    begins = _beginnings(chain, spans, mask)[at]
    fits = exists[:, None] & (spans.types[None] == types[:, None])
    found = begins * rest[at, jnp.arange(len(given))]
    return jnp.sum(jnp.where(fits, found, 0.0), axis=1)


def table(
    potentials: Potentials, mask: Mask, spans: LabelSpans, num_types: int, width: int
) -> Float[Array, "T W K"]:
    """Computes the probability of every span up to a width; see `inference`."""
    length, size = potentials.emissions.shape
    if not length:
        shape = (0, width, num_types)
        return jnp.zeros(shape, potentials.emissions.dtype)
    chain = _chain_of(potentials, mask)

    def back(after, inputs):
        head, follows = inputs
        steps = chain.step(head)
        ends = _ends(steps, follows, spans)
        inner = jnp.where(spans.goes_on & follows, steps, 0.0)
        longer = _times(inner, after[:-1])
        rest = jnp.concatenate([ends[None], longer])
        return rest, rest

    nothing = jnp.zeros((width, size), potentials.emissions.dtype)
    inputs = (_next_heads(chain), chain.follows)
    _, rest = jax.lax.scan(back, nothing, inputs, reverse=True)
    begins = _beginnings(chain, spans, mask)
    is_type = spans.types[:, None] == jnp.arange(num_types)[None]
    highest = jax.lax.Precision.HIGHEST
    return jnp.einsum(
        "tl,twl,lk->twk", begins, rest, is_type.astype(begins.dtype), precision=highest
    )


def log_probability(
    potentials: Potentials, labels: Int[Array, " T"], mask: Mask
) -> Float[Array, ""]:
    """Computes the log-probability of a labelling; see `inference`.

    Sums the logs of the chain's probabilities, each exact to rounding; the difference
    of score and log Z would cancel.
    """
    if not mask.shape[0]:
        return jnp.zeros((), potentials.emissions.dtype)
    chain = _chain_of(potentials, mask)
    first = jax.nn.log_softmax(chain.start + chain.heads[0])[labels[0]]
    rows = chain.transitions[labels[:-1]] + chain.heads[1:]
    logs = jax.nn.log_softmax(rows, axis=1)
    later = jnp.take_along_axis(logs, labels[1:, None], axis=1)[:, 0]
    total = first + jnp.sum(jnp.where(mask[1:], later, 0.0))
    return jnp.where(mask[0], total, 0.0)
