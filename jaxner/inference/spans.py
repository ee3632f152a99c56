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
from jax.nn import log_softmax, logsumexp, softmax
from jaxtyping import Array, Bool, Float, Int

from jaxner.inference.crf import chain
from jaxner.inference.independent import varying
from jaxner.types import Potentials

HIGHEST = jax.lax.Precision.HIGHEST  # accelerators would round products to 8 or 10 bits
Mask = Bool[Array, " T"]


class LabelSpans(NamedTuple):
    """The span types of labels, and which labels continue a span.

    `label_types` of the data package returns both for a list of label names.

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
    """The scores whose softmaxes are the chain's probabilities, in nats.

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

    def step(self, head: Float[Array, " L"]) -> Float[Array, "L L"]:
        """Returns p(y_{t+1} | y_t), one row per y_t, from the heads at t+1."""
        return softmax(self.transitions + head[None], axis=1)

    def next_heads(self) -> Float[Array, "T L"]:
        """Returns the heads at the next token; those at the last token do not count."""
        return jnp.concatenate([self.heads[1:], self.heads[-1:]])


def _chain_of(potentials: Potentials, mask: Mask) -> _Chain:
    emissions, transitions, start, end = chain(potentials)
    follows = jnp.append(mask, False)[1:]
    if potentials.transitions is None:
        return _Chain(transitions, start, emissions, follows)

    def back(head, inputs):
        emission, follows = inputs
        beta = logsumexp(transitions + head[None], axis=1)
        # Scores that grow with T would swamp the differences between labels.
        head = emission + jnp.where(follows, beta - jnp.max(beta), end)
        return head, head

    first = varying(end, emissions, transitions, mask)
    _, heads = jax.lax.scan(back, first, (emissions, follows), reverse=True)
    return _Chain(transitions, start, heads, follows)


def _beginnings(chain: _Chain, spans: LabelSpans, mask: Mask) -> Float[Array, "T L"]:
    """Returns p(a span begins at t, and its label there is j)."""

    def step(before, head):
        pairs = before[:, None] * chain.step(head)
        begins = jnp.sum(jnp.where(spans.goes_on, 0.0, pairs), axis=0)
        return jnp.sum(pairs, axis=0), begins

    first = softmax(chain.start[None] + chain.heads[:1], axis=1)
    _, later = jax.lax.scan(step, jnp.sum(first, axis=0), chain.heads[1:])
    begins = jnp.concatenate([first, later])
    return jnp.where(mask[:, None] & (spans.types >= 0)[None], begins, 0.0)


def _ends(steps: Float[Array, "L L"], follows, spans: LabelSpans) -> Float[Array, " L"]:
    """Returns p(the span of y_t ends at t | y_t); 1 at the last token."""
    ends = jnp.sum(jnp.where(spans.goes_on, 0.0, steps), axis=1)
    return jnp.where(follows, ends, 1.0)


def _times(steps: Float[Array, "L L"], after: Float[Array, "N L"]):
    """Returns the product of the matrix and each vector."""
    return jnp.einsum("ij,nj->ni", steps, after, precision=HIGHEST)


def _remainders(
    chain: _Chain,
    spans: LabelSpans,
    is_last: Bool[Array, "T N"],
    is_inner: Bool[Array, "T N"],
) -> Float[Array, "T N L"]:
    """Returns p(the span continues from t to exactly its last token | y_t).

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
    nothing = varying(nothing, heads, is_last)
    inputs = (chain.next_heads(), chain.follows, is_last, is_inner)
    return jax.lax.scan(back, nothing, inputs, reverse=True)[1]


def _read(labels: Int[Array, " T"], mask: Mask, spans: LabelSpans):
    """Returns the type of each token's span, if it continues, and if it begins."""
    types = jnp.where(mask, spans.types[labels], -1)
    follows = spans.goes_on[labels[:-1], labels[1:]] & mask[1:]
    begins = (types >= 0) & ~jnp.append(False, follows)[: len(mask)]
    return types, jnp.append(follows, False)[: len(mask)], begins


def entity_bounds(labels: Int[Array, " T"], mask: Mask, label_spans: LabelSpans):
    """Returns the entities of a labelling.

    Returns:
        Whether an entity begins at each token; where one does, its last token plus one
        (else 0), and its type (else -1).

    Example:
        >>> import jax.numpy as jnp
        >>> io = LabelSpans(jnp.array([-1, 0]), jnp.array([[False] * 2, [False, True]]))
        >>> bounds = entity_bounds(jnp.array([0, 1, 1]), jnp.ones(3, bool), io)
        >>> [array.tolist() for array in bounds]
        [[False, True, False], [0, 3, 0], [-1, 0, -1]]
    """
    types, goes_on, begins = _read(labels, mask, label_spans)
    places = jnp.arange(1, len(mask) + 1, dtype=jnp.int32)
    last = jnp.where(goes_on, jnp.iinfo(jnp.int32).max, places)
    ends = jax.lax.cummin(last, reverse=True)
    return begins, jnp.where(begins, ends, 0), jnp.where(begins, types, -1)


def entity_probabilities(
    potentials: Potentials,
    labels: Int[Array, " T"],
    mask: Mask,
    label_spans: LabelSpans,
) -> Float[Array, " T"]:
    """Returns the probability of each entity of a labelling, in one pass.

    This is the total probability of all labellings with the same entity: same first
    token, same last token and same type, with any labels.

    Returns:
        The probability at the first token of each entity; 0 elsewhere. Differentiable
        in forward and reverse mode.

    Example:
        >>> import jax.numpy as jnp
        >>> bio = LabelSpans(  # O, B, I
        ...     jnp.array([-1, 0, 0]), jnp.zeros((3, 3), bool).at[1:, 2].set(True)
        ... )
        >>> even = Potentials(jnp.zeros((2, 3)))
        >>> labels, mask = jnp.array([1, 2]), jnp.ones(2, bool)
        >>> chances = entity_probabilities(even, labels, mask, bio)
        >>> [round(x, 4) for x in chances.tolist()]  # B I and I I, of nine labellings
        [0.2222, 0.0]
    """
    chain = _chain_of(potentials, mask)
    types, goes_on, begins = _read(labels, mask, label_spans)
    inside = types >= 0
    rest = _remainders(
        chain, label_spans, (inside & ~goes_on)[:, None], (inside & goes_on)[:, None]
    )[:, 0]
    fits = begins[:, None] & (label_spans.types[None] == types[:, None])
    return jnp.sum(_beginnings(chain, label_spans, mask) * rest, axis=1, where=fits)


def span_probabilities(
    potentials: Potentials,
    given: Int[Array, "N 3"],
    mask: Mask,
    label_spans: LabelSpans,
) -> Float[Array, " N"]:
    """Returns the probability that each given span is an entity, in one pass.

    Args:
        potentials: Potentials of a CRF or of independent labels.
        given: First token, last token plus one, and type id of each span; they may
            overlap. A span that does not fit the sentence has the probability 0.
        mask: True at the tokens.
        label_spans: Which spans labels write.

    Example:
        >>> import jax.numpy as jnp
        >>> io = LabelSpans(jnp.array([-1, 0]), jnp.array([[False] * 2, [False, True]]))
        >>> even, mask = Potentials(jnp.zeros((3, 2))), jnp.ones(3, bool)
        >>> given = jnp.array([[0, 1, 0], [1, 2, 0], [0, 3, 0]])
        >>> span_probabilities(even, given, mask, io).tolist()
        [0.25, 0.125, 0.125]
    """
    start, end, types = given.T
    chain = _chain_of(potentials, mask)
    place = jnp.arange(len(mask))[:, None]
    inside = (start[None] <= place) & (place < end[None])
    is_last = place == end[None] - 1
    rest = _remainders(chain, label_spans, inside & is_last, inside & ~is_last)
    begins = _beginnings(chain, label_spans, mask)[:, None]
    exists = (start < end) & (end <= jnp.sum(mask)) & (types >= 0)
    is_first = (place == start[None]) & exists[None]
    fits = is_first[:, :, None] & (label_spans.types[None] == types[:, None])[None]
    return jnp.sum(begins * rest, axis=(0, 2), where=fits)


def span_table(
    potentials: Potentials,
    mask: Mask,
    label_spans: LabelSpans,
    num_types: int,
    max_width: int,
) -> Float[Array, "T W K"]:
    """Returns the probability of every span of up to `max_width` tokens, in one pass.

    Args:
        potentials: Potentials of a CRF or of independent labels.
        mask: True at the tokens.
        label_spans: Which spans labels write.
        num_types: Number of types, K; static.
        max_width: Tokens of the longest span, W; static. Longer spans have no entry.

    Returns:
        At `[t, w, k]` the probability that the w + 1 tokens from t to t + w are an
        entity of type k; 0 if they exceed the sentence.

    Raises:
        ValueError: `max_width` is below 1.

    Example:
        >>> import jax.numpy as jnp
        >>> io = LabelSpans(jnp.array([-1, 0]), jnp.array([[False] * 2, [False, True]]))
        >>> even, mask = Potentials(jnp.zeros((3, 2))), jnp.ones(3, bool)
        >>> span_table(even, mask, io, num_types=1, max_width=2)[..., 0].tolist()
        [[0.25, 0.125], [0.125, 0.125], [0.25, 0.0]]
    """
    if max_width < 1:
        raise ValueError(f"Expected a width of at least 1 token, got {max_width}")
    chain = _chain_of(potentials, mask)

    def back(after, inputs):
        head, follows = inputs
        steps = chain.step(head)
        ends = _ends(steps, follows, label_spans)
        inner = jnp.where(label_spans.goes_on & follows, steps, 0.0)
        rest = jnp.concatenate([ends[None], _times(inner, after[:-1])])
        return rest, rest

    heads = chain.heads
    nothing = varying(jnp.zeros((max_width, heads.shape[1]), heads.dtype), heads, mask)
    inputs = (chain.next_heads(), chain.follows)
    _, rest = jax.lax.scan(back, nothing, inputs, reverse=True)
    begins = _beginnings(chain, label_spans, mask)
    is_type = (label_spans.types[:, None] == jnp.arange(num_types)[None]).astype(
        heads.dtype
    )
    return jnp.einsum("tl,twl,lk->twk", begins, rest, is_type, precision=HIGHEST)


def log_probability(
    potentials: Potentials, labels: Int[Array, " T"], mask: Mask
) -> Float[Array, ""]:
    """Returns the log-probability of one labelling, in nats.

    This is `score` minus `log_partition`, more precise in float32. A forbidden
    labelling has a large negative number.

    Example:
        >>> import jax.numpy as jnp
        >>> potentials = Potentials(jnp.zeros((2, 4)))
        >>> two = jnp.array([1, 3])
        >>> value = log_probability(potentials, two, jnp.ones(2, bool))
        >>> round(float(jnp.exp(value)), 4)
        0.0625
    """
    chain = _chain_of(potentials, mask)
    rows = jnp.concatenate([chain.start[None], chain.transitions[labels]])[:-1]
    logs = log_softmax(rows + chain.heads, axis=1)
    return jnp.sum(jnp.take_along_axis(logs, labels[:, None], 1)[:, 0], where=mask)
