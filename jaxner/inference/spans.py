"""Exact probabilities of spans: those of a labelling, given ones, or all.

A span is an entity of a labelling if one begins at its first token, continues up to
its last, and ends there; `LabelSpans` says which labels continue a span. A probability
is the sum over all labellings that contain this span, ill-formed ones included; one
pass computes all (the constrained forward-backward algorithm of Culotta and McCallum,
"Confidence Estimation for Information Extraction", HLT-NAACL 2004).

The distribution over labellings is a Markov chain from right to left,

    p(y) = p(y_n) Π_t p(y_t | y_{t+1}),
    p(y_t = i | y_{t+1} = j) ∝ exp(alpha_t(i) + transitions[i, j]),

and a span needs only the part of the chain within it. Nothing is divided or subtracted,
so float32 loses no digits. Shape letters: `T` tokens, `L` labels, `K` types, `N` spans,
`W` widths. Time is O(T·L²) for the spans of one labelling, O(T·L²·N) for given spans
and O(T·L²·W) for all; memory is O(T·L) times 1, N or W.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax.nn import log_softmax, softmax
from jaxtyping import Array, Bool, Float, Int, PyTree

from jaxner import fields
from jaxner.inference import crf
from jaxner.inference.crf import HIGHEST, Mask, varying
from jaxner.types import Potentials


class LabelSpans(NamedTuple):
    """The span types of labels, -1 outside all spans, and which labels continue a span.

    `goes_on[i, j]`: label j after label i continues the span of i. `label_types` of the
    data package returns both for a list of label names.
    """

    types: Int[Array, " L"]
    goes_on: Bool[Array, "L L"]


def _alphas(potentials: Potentials, mask: Mask) -> Float[Array, "T L"]:
    """Returns scores whose softmax is p(label at t | the past)."""
    if not crf.is_chain(potentials):
        return potentials.emissions
    return crf.forward(potentials, mask)[0]


def _next(array: Array) -> Array:
    """Returns the row of the next token; zero or False at the last."""
    return jnp.concatenate([array, jnp.zeros_like(array[:1])])[-array.shape[0] :]


def _scan(
    potentials: Potentials,
    mask: Mask,
    spans: LabelSpans,
    extend: Callable[..., Float[Array, "N L"]],
    inputs: PyTree,
    number: int,
) -> Float[Array, "T N L"]:
    """Returns p(y_t = j, a span of each of N rows ends at t), in one scan.

    `extend` returns p(a span of each row reaches t | y_t): from the probabilities that
    one begins at t, `[L]`, that a row's span goes on, `[N, L]`, and a row of `inputs`.
    """
    emissions, transitions, _, _ = crf.chain(potentials)
    alphas, is_chain = _alphas(potentials, mask), crf.is_chain(potentials)
    if is_chain:
        chances = crf.expected(potentials, alphas, mask).emissions
    else:
        chances = crf.marginals(Potentials(emissions), mask)

    def step(carry, row):
        alpha, chance, next_ends, follows, inputs = row
        reaches = extend(*carry, inputs)
        if is_chain:
            before = jnp.ones_like(chance)
            steps = softmax(alpha[:, None] + transitions, axis=0)  # p(y_t | y_{t+1})
        else:  # p(y_t) beside the rules, which all tokens share
            before, steps = chance, 1.0
        inner = jnp.where(spans.goes_on, steps, 0.0)
        outer = jnp.where(spans.goes_on, 0.0, steps)
        rest = before * jnp.dot(outer, next_ends, precision=HIGHEST)
        ends = jnp.where(follows, rest, chance)
        goes_on = jnp.dot(before[None] * reaches, inner, precision=HIGHEST)
        begins = jnp.dot(before, outer, precision=HIGHEST)
        return (begins, goes_on), ends[None] * reaches

    first = jnp.ones_like(transitions[0])
    carry = first, jnp.zeros((number, len(first)), first.dtype)
    carry = varying(carry, alphas, transitions, mask, *jax.tree.leaves(inputs))
    rows = alphas, chances, _next(chances), _next(mask), inputs
    return jax.lax.scan(step, carry, rows)[1]


def _in_place(begins, goes_on, inputs):
    """Extends spans that are given by their first tokens and those inside."""
    is_first, is_inside = inputs
    rest = jnp.where(is_inside[:, None], goes_on, 0.0)
    return jnp.where(is_first[:, None], begins[None], rest)


def _read(labels: Int[Array, " T"], mask: Mask, spans: LabelSpans):
    """Returns the type of each token's span, if it continues, and if it begins."""
    types = jnp.where(mask, spans.types[labels], -1)
    follows = spans.goes_on[labels[:-1], labels[1:]] & mask[1:]
    begins = (types >= 0) & ~jnp.append(False, follows)[: mask.shape[0]]
    return types, jnp.append(follows, False)[: mask.shape[0]], begins


def entity_bounds(labels: Int[Array, " T"], mask: Mask, label_spans: LabelSpans):
    """Returns the entities of a labelling.

    Whether an entity begins at each token; where one does, its last token plus one
    (else 0), and its type (else -1).
    """
    types, goes_on, begins = _read(labels, mask, label_spans)
    places = jnp.arange(1, mask.shape[0] + 1, dtype=jnp.int32)
    last = jnp.where(goes_on, jnp.iinfo(jnp.int32).max, places)
    ends = jax.lax.cummin(last, reverse=True)
    return begins, jnp.where(begins, ends, 0), jnp.where(begins, types, -1)


def entity_probabilities(
    potentials: Potentials,
    labels: Int[Array, " T"],
    mask: Mask,
    label_spans: LabelSpans,
) -> Float[Array, " T"]:
    """Returns the probability of each entity of a labelling, at its first token.

    Zero at other tokens. The same entity has the same bounds and type, with any labels.

    Example:
        >>> bio = LabelSpans(  # O, B, I
        ...     jnp.array([-1, 0, 0]), jnp.zeros((3, 3), bool).at[1:, 2].set(True)
        ... )
        >>> even = Potentials(jnp.zeros((2, 3)))
        >>> labels, mask = jnp.array([1, 2]), jnp.ones(2, bool)
        >>> chances = entity_probabilities(even, labels, mask, bio)
        >>> [round(x, 4) for x in chances.tolist()]  # B I and I I, of nine labellings
        [0.2222, 0.0]
    """
    types, _, begins = _read(labels, mask, label_spans)
    flags = begins[:, None], (types >= 0)[:, None]
    ending = _scan(potentials, mask, label_spans, _in_place, flags, 1)[:, 0]
    fits = label_spans.types[None] == types[:, None]
    by_end = jnp.sum(ending, axis=1, where=fits)
    _, ends, _ = entity_bounds(labels, mask, label_spans)
    return jnp.where(begins, by_end[ends - 1], 0.0) if mask.shape[0] else by_end


def span_probabilities(
    potentials: Potentials,
    spans: Int[Array, "N 3"],
    mask: Mask,
    label_spans: LabelSpans,
) -> Float[Array, " N"]:
    """Returns the probability that each span is an entity.

    `spans` holds first token, last token plus one, and type id of each span; spans may
    overlap. A span that does not fit the sentence has the probability 0.
    """
    start, end, types = spans.T
    index = jnp.arange(mask.shape[0])[:, None]
    flags = index == start[None], (start[None] < index) & (index < end[None])
    ending = _scan(potentials, mask, label_spans, _in_place, flags, len(spans))
    exists = (start >= 0) & (start < end) & (end <= jnp.sum(mask)) & (types >= 0)
    is_last = (index == end[None] - 1) & exists[None]
    fits = is_last[:, :, None] & (label_spans.types[None] == types[:, None])[None]
    return jnp.sum(ending, axis=(0, 2), where=fits)


def span_table(
    potentials: Potentials,
    mask: Mask,
    label_spans: LabelSpans,
    num_types: int,
    max_width: int,
) -> Float[Array, "T W K"]:
    """Returns the probability of every span of up to `max_width` tokens.

    At `[t, w, k]` stands the probability that the w + 1 tokens from t to t + w are an
    entity of type k; 0 if they exceed the sentence. Both numbers are static.

    Raises:
        ValueError: `max_width` is below 1.

    Example:
        >>> io = LabelSpans(jnp.array([-1, 0]), jnp.array([[False] * 2, [False, True]]))
        >>> even, mask = Potentials(jnp.zeros((3, 2))), jnp.ones(3, bool)
        >>> span_table(even, mask, io, num_types=1, max_width=2)[..., 0].tolist()
        [[0.25, 0.125], [0.125, 0.125], [0.25, 0.0]]
    """
    fields.check("max_width", max_width, fields.Size)

    def widen(begins, goes_on, _):
        return jnp.concatenate([begins[None], goes_on[:-1]])

    ending = _scan(potentials, mask, label_spans, widen, (), max_width)
    is_type = label_spans.types[:, None] == jnp.arange(num_types)[None]
    by_end = jnp.dot(ending, is_type.astype(ending.dtype), precision=HIGHEST)
    width = jnp.arange(max_width)
    last = jnp.arange(mask.shape[0])[:, None] + width[None]
    return by_end.at[last, width[None]].get(mode="fill", fill_value=0.0)


def log_probability(
    potentials: Potentials, labels: Int[Array, " T"], mask: Mask
) -> Float[Array, ""]:
    """Returns the log-probability of one labelling, in nats.

    More precise than `score` - `log_partition`; large and negative if forbidden.
    """
    _, transitions, _, end = crf.chain(potentials)
    steps = jnp.where(_next(mask)[:, None], transitions.T[_next(labels)], end[None])
    logs = log_softmax(_alphas(potentials, mask) + steps, axis=1)
    return jnp.sum(jnp.take_along_axis(logs, labels[:, None], 1)[:, 0], where=mask)
