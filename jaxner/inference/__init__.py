"""Inference over the label sequences of one sentence.

Each function takes the output of any head: `potentials`, scores in nats; `mask`, True
at the tokens; `labels`, label ids, ignored under padding. Potentials without
transitions skip all scans, and those of an autoregressive head have a beam search and
no marginals; tracing decides which. Shape letters: `T` tokens, `L` labels, `N`
labellings or spans, `K` types, `W` widths.
"""

from __future__ import annotations

from typing import Any

import jax
from jaxtyping import Array, Bool, Float, Int, Key

from jaxner.inference import autoregressive, crf, independent, spans
from jaxner.inference.crf import Constraints as Constraints
from jaxner.inference.passes import each_pass as each_pass
from jaxner.inference.passes import mean_over_passes as mean_over_passes
from jaxner.inference.passes import one_pass as one_pass
from jaxner.inference.spans import LabelSpans as LabelSpans
from jaxner.inference.uncertainty import Uncertainty as Uncertainty
from jaxner.inference.uncertainty import entropy as entropy
from jaxner.inference.uncertainty import summarise as summarise
from jaxner.types import FORBIDDEN as FORBIDDEN
from jaxner.types import AnyPotentials, Autoregressive, Potentials


def _kernels(potentials: AnyPotentials) -> Any:
    if isinstance(potentials, Autoregressive):
        return autoregressive
    return independent if potentials.transitions is None else crf


def _closed(potentials: AnyPotentials, wanted: str) -> Potentials:
    """Returns potentials with sums over labellings; raises ValueError otherwise."""
    if isinstance(potentials, Autoregressive):
        raise ValueError(
            f"{wanted} needs sums or maxima over all L^T labellings, which have no "
            "closed form for an autoregressive head (head 'seq2seq'). Use head "
            "'softmax' or 'crf'."
        )
    return potentials


def constrain(potentials: AnyPotentials, constraints: Constraints) -> AnyPotentials:
    """Returns potentials that obey the constraints; see `crf.constrain`."""
    if isinstance(potentials, Autoregressive):
        return autoregressive.constrain(potentials, constraints)
    return crf.constrain(potentials, constraints)


def score(
    potentials: AnyPotentials, labels: Int[Array, " T"], mask: Bool[Array, " T"]
) -> Float[Array, ""]:
    """Returns the unnormalised score of one labelling, in nats; see `crf.score`.

    For an autoregressive head, the score is normalised: the log partition is 0.

    Example:
        >>> one, y = Potentials(jax.numpy.array([[0.0, 2.5]])), jax.numpy.array([1])
        >>> float(score(one, y, y > 0))
        2.5
    """
    return _kernels(potentials).score(potentials, labels, mask)


def log_partition(
    potentials: AnyPotentials, mask: Bool[Array, " T"]
) -> Float[Array, ""]:
    """Returns log Z, in nats; see `crf.log_partition`.

    Example:
        >>> even, mask = Potentials(jax.numpy.zeros((2, 4))), jax.numpy.ones(2, bool)
        >>> round(float(log_partition(even, mask)), 4)  # log 4²
        2.7726
    """
    return _kernels(potentials).log_partition(potentials, mask)


def marginals(
    potentials: AnyPotentials, mask: Bool[Array, " T"]
) -> Float[Array, "T L"]:
    """Returns p(label at t), zero under padding; see `crf.marginals`.

    Raises:
        ValueError: The head is autoregressive.

    Example:
        >>> even, mask = Potentials(jax.numpy.zeros((2, 4))), jax.numpy.ones(2, bool)
        >>> marginals(even, mask)[0].tolist()
        [0.25, 0.25, 0.25, 0.25]
    """
    return _kernels(potentials).marginals(potentials, mask)


def viterbi(potentials: AnyPotentials, mask: Bool[Array, " T"]) -> Int[Array, " T"]:
    """Returns the best labelling, 0 under padding; see `crf.viterbi`.

    For an autoregressive head, this uses beam search and may miss the best.

    Example:
        >>> one = Potentials(jax.numpy.array([[0.0, 2.5], [1.0, 0.0]]))
        >>> viterbi(one, jax.numpy.ones(2, bool)).tolist()
        [1, 0]
    """
    return _kernels(potentials).viterbi(potentials, mask)


def n_best(
    potentials: AnyPotentials, mask: Bool[Array, " T"], n: int
) -> tuple[Int[Array, "N T"], Float[Array, " N"]]:
    """Returns the n best labellings and their scores, in nats; see `crf.n_best`.

    Raises:
        ValueError: n is below 1, or the head is autoregressive.

    Example:
        >>> one, y = Potentials(jax.numpy.array([[0.0, 2.5]])), jax.numpy.array([1])
        >>> [array.tolist() for array in n_best(one, y > 0, 2)]
        [[[1], [0]], [2.5, 0.0]]
    """
    return _kernels(_closed(potentials, "n_best")).n_best(potentials, mask, n)


def sample(
    potentials: AnyPotentials, mask: Bool[Array, " T"], key: Key[Array, ""]
) -> Int[Array, " T"]:
    """Returns a labelling drawn by its probability, 0 under padding; see `crf.sample`.

    Raises:
        ValueError: The head is autoregressive.

    Example:
        >>> even, mask = Potentials(jax.numpy.zeros((2, 4))), jax.numpy.ones(2, bool)
        >>> sample(even, mask, jax.random.key(0)).shape
        (2,)
    """
    return _kernels(_closed(potentials, "sample")).sample(potentials, mask, key)


def labelling_entropy(
    potentials: AnyPotentials, mask: Bool[Array, " T"]
) -> Float[Array, ""]:
    """Returns the entropy of the distribution over whole labellings, in nats.

    For the entropy at each token, use `entropy`; see `crf.labelling_entropy`.

    Raises:
        ValueError: The head is autoregressive.

    Example:
        >>> even, mask = Potentials(jax.numpy.zeros((2, 4))), jax.numpy.ones(2, bool)
        >>> round(float(labelling_entropy(even, mask)), 4)  # log 4²
        2.7726
    """
    kernels = _kernels(_closed(potentials, "labelling_entropy"))
    return kernels.labelling_entropy(potentials, mask)


def log_probability(
    potentials: AnyPotentials, labels: Int[Array, " T"], mask: Bool[Array, " T"]
) -> Float[Array, ""]:
    """Returns the log-probability of one labelling, in nats.

    This is `score` minus `log_partition`, more precise in float32. A forbidden
    labelling has a large negative number.

    Args:
        potentials: Output of any head.
        labels: Label ids; ignored under padding.
        mask: True at the tokens.

    Example:
        >>> import jax.numpy as jnp
        >>> potentials = Potentials(jnp.zeros((2, 4)))
        >>> two = jnp.array([1, 3])
        >>> value = log_probability(potentials, two, jnp.ones(2, bool))
        >>> round(float(jnp.exp(value)), 4)
        0.0625
    """
    if isinstance(potentials, Autoregressive):
        return autoregressive.score(potentials, labels, mask)
    return spans.log_probability(potentials, labels, mask)


def entity_bounds(
    labels: Int[Array, " T"], mask: Bool[Array, " T"], label_spans: LabelSpans
) -> tuple[Bool[Array, " T"], Int[Array, " T"], Int[Array, " T"]]:
    """Returns the entities of a labelling.

    Args:
        labels: Label ids; ignored under padding.
        mask: True at the tokens.
        label_spans: Which spans labels write.

    Returns:
        Whether an entity begins at each token; where one does, its last token plus one
        (else 0), and its type (else -1).

    Example:
        >>> import jax.numpy as jnp
        >>> io = LabelSpans(jnp.array([-1, 0]), jnp.array([[False] * 2, [False, True]]))
        >>> found = entity_bounds(jnp.array([0, 1, 1]), jnp.ones(3, bool), io)
        >>> [array.tolist() for array in found]
        [[False, True, False], [0, 3, 0], [-1, 0, -1]]
    """
    return spans.bounds(labels, mask, label_spans)


def entity_probabilities(
    potentials: AnyPotentials,
    labels: Int[Array, " T"],
    mask: Bool[Array, " T"],
    label_spans: LabelSpans,
) -> Float[Array, " T"]:
    """Returns the probability of each entity of a labelling, in one pass.

    This is the total probability of all labellings with the same entity: same first
    token, same last token and same type, with any labels.

    Args:
        potentials: Potentials of a CRF or of independent labels.
        labels: A labelling, such as that of `viterbi`; ignored under padding.
        mask: True at the tokens.
        label_spans: Which spans labels write.

    Returns:
        The probability at the first token of each entity; 0 elsewhere. Differentiable
        in forward and reverse mode.

    Raises:
        ValueError: The head is autoregressive.

    Example:
        >>> import jax.numpy as jnp
        >>> bio = LabelSpans(  # O, B, I
        ...     jnp.array([-1, 0, 0]), jnp.zeros((3, 3), bool).at[1:, 2].set(True)
        ... )
        >>> even = Potentials(jnp.zeros((2, 3)))
        >>> labels, mask = jnp.array([1, 2]), jnp.ones(2, bool)
        >>> found = entity_probabilities(even, labels, mask, bio)
        >>> [round(x, 4) for x in found.tolist()]  # B I and I I, of nine labellings
        [0.2222, 0.0]
    """
    closed = _closed(potentials, "entity_probabilities")
    return spans.of_labelling(closed, labels, mask, label_spans)


def span_probabilities(
    potentials: AnyPotentials,
    given: Int[Array, "N 3"],
    mask: Bool[Array, " T"],
    label_spans: LabelSpans,
) -> Float[Array, " N"]:
    """Returns the probability that each given span is an entity, in one pass.

    Args:
        potentials: Potentials of a CRF or of independent labels.
        given: First token, last token plus one, and type id of each span; they may
            overlap. A span that does not fit the sentence has the probability 0.
        mask: True at the tokens.
        label_spans: Which spans labels write.

    Raises:
        ValueError: The head is autoregressive.

    Example:
        >>> import jax.numpy as jnp
        >>> io = LabelSpans(jnp.array([-1, 0]), jnp.array([[False] * 2, [False, True]]))
        >>> even, mask = Potentials(jnp.zeros((3, 2))), jnp.ones(3, bool)
        >>> given = jnp.array([[0, 1, 0], [1, 2, 0], [0, 3, 0]])
        >>> span_probabilities(even, given, mask, io).tolist()
        [0.25, 0.125, 0.125]
    """
    closed = _closed(potentials, "span_probabilities")
    return spans.of_given(closed, given, mask, label_spans)


def span_table(
    potentials: AnyPotentials,
    mask: Bool[Array, " T"],
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
        ValueError: `max_width` is below 1, or the head is autoregressive.

    Example:
        >>> import jax.numpy as jnp
        >>> io = LabelSpans(jnp.array([-1, 0]), jnp.array([[False] * 2, [False, True]]))
        >>> even, mask = Potentials(jnp.zeros((3, 2))), jnp.ones(3, bool)
        >>> span_table(even, mask, io, num_types=1, max_width=2)[..., 0].tolist()
        [[0.25, 0.125], [0.125, 0.125], [0.25, 0.0]]
    """
    closed = _closed(potentials, "span_table")
    if max_width < 1:
        raise ValueError(f"Expected a width of at least 1 token, got {max_width}")
    return spans.table(closed, mask, label_spans, num_types, max_width)


def at_temperature(
    potentials: AnyPotentials, temperature: float | Float[Array, ""]
) -> AnyPotentials:
    """Returns all scores divided by a temperature; the best labelling stays the same.

    Probabilities become p(y)^(1/temperature), renormalised: closer to each other above
    1, further apart below.

    Args:
        potentials: Potentials of a CRF or of independent labels.
        temperature: Above 0.

    Raises:
        ValueError: The head is autoregressive.

    Example:
        >>> import jax.numpy as jnp
        >>> potentials = Potentials(jnp.array([[2.0, 0.0]]))
        >>> at_temperature(potentials, 2.0).emissions.tolist()
        [[1.0, 0.0]]

    References:
        Guo, Pleiss, Sun and Weinberger, "On Calibration of Modern Neural Networks",
        ICML 2017.
    """
    closed = _closed(potentials, "at_temperature")
    return jax.tree.map(lambda scores: scores / temperature, closed)
