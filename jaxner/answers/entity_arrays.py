"""Finds the entities of encoded sentences as arrays, with probabilities.

Shape letters: `B` sentences, `T` tokens, `N` labellings.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from jaxner import inference, tagging
from jaxner.answers.probabilities import count_passes
from jaxner.arguments import check_tagger
from jaxner.data import schemes
from jaxner.data.schemes import LabelTypes, label_types
from jaxner.tagger import Ensemble, Tagger


class EntityArrays(NamedTuple):
    """The entities of encoded sentences, as arrays.

    A batch adds a leading axis; several labellings add an axis `N` before `T`.

    Attributes:
        labels: Label ids; 0 under padding.
        label_probability: Probability of each of these labels.
        start: True at the first token of each entity.
        end: Last token plus one, at the first token of each entity; 0 elsewhere.
        type: Index of the type in `entity_types(params)`, at the first token; -1
            elsewhere.
        probability: Probability of the entity, at the first token; 0 elsewhere.

    Example:
        >>> import jaxner
        >>> params = jaxner.load("runs/grn")
        >>> batch = jaxner.encode(params, ["Rome", "fell"])
        >>> found = jax.jit(jaxner.entities)(params, batch)
        >>> found.probability.shape, found.start.dtype
        ((2,), dtype('bool'))
    """

    labels: Int[Array, " T"]
    label_probability: Float[Array, " T"]
    start: Bool[Array, " T"]
    end: Int[Array, " T"]
    type: Int[Array, " T"]
    probability: Float[Array, " T"]


def entity_types(params: Tagger) -> tuple[str, ...]:
    """Returns the entity types of a tagger, in the order of their ids.

    Args:
        params: What `load` returned.

    Raises:
        ValueError: The tagger returns tags, which are not spans.

    Example:
        >>> from jaxner import load
        >>> "PER" in entity_types(load("runs/grn"))
        True
    """
    check_tagger(params)
    if params.vocabulary.scheme == schemes.TAGS:
        raise ValueError(
            "This tagger gives each token a tag, such as a part of speech: there are "
            "no entities. See jaxner.tag and jaxner.marginals."
        )
    return types_of(params).names


def types_of(params: Tagger) -> LabelTypes:
    """Returns the span types of the tagger's labels; tags have none."""
    names = tagging.outside_at_separators(params.vocabulary)
    if params.vocabulary.scheme == schemes.TAGS:
        names = ["O"] * len(names)  # tags are outside all spans
    return label_types(names)


def arrays(
    params: Tagger,
    tokens: Any,
    *,
    n_best: int = 1,
    decoding: str = "viterbi",
    constrained: bool = False,
    documents: Sequence[Hashable] | None = None,
    key: Array | None = None,
    num_samples: int | None = None,
    vectors: Any = None,
) -> Any:
    """Finds entities as `EntityArrays`, for strings, too; none for a tagger of tags.

    The arguments are those of `entities`.

    Returns:
        NumPy arrays `[T]` or, for n labellings, `[T, N]`; a list of them for several
        sentences; JAX arrays with a leading batch axis for an encoded batch.
    """
    tagging.check_decoding(decoding, key)
    found = tagging.over(
        _entities,
        params,
        tokens,
        key,
        documents=documents,
        vectors=vectors,
        passes=max(count_passes(params, num_samples), n_best // 4),
        num_samples=num_samples,
        decoding=decoding,
        constrained=constrained or decoding == "constrained",
        n_best=n_best,
    )
    several = n_best > 1
    if isinstance(found, list):
        return [_with_ends(one, several) for one in found]
    return _with_ends(found, several)


def _with_ends(found: EntityArrays, several: bool) -> EntityArrays:
    """Replaces the widths of entities by their ends, once documents are split.

    Args:
        found: Arrays whose last axis (or last but one) is that of the tokens.
        several: Whether an axis of labellings follows that of the tokens.
    """
    library = np if isinstance(found.start, np.ndarray) else jnp
    length = found.start.shape[-2 if several else -1]
    positions = library.arange(length, dtype=np.int32)
    positions = positions[:, None] if several else positions
    ends = found.end + library.broadcast_to(positions, found.start.shape)
    return found._replace(end=library.where(found.start, ends, 0))


def only(found: EntityArrays, kept: Bool[Array, "*S"]) -> EntityArrays:
    """Returns only the entities whose first token is kept."""
    return found._replace(
        start=kept,
        end=jnp.where(kept, found.end, 0),
        type=jnp.where(kept, found.type, -1),
        probability=jnp.where(kept, found.probability, 0.0),
    )


def _entities(params, sentence, *, key, num_samples, decoding, constrained, n_best):
    """Computes `EntityArrays` of one sentence, `[T]` or, for n labellings, `[T, N]`.

    In these, `end` is the entity's number of tokens; `_with_ends` replaces it.
    """
    mask = sentence.mask
    names = types_of(params)
    spans = inference.LabelSpans(jnp.asarray(names.types), jnp.asarray(names.goes_on))
    found = tagging.predict(params, sentence, key, num_samples, constrained=constrained)
    tokens = found.mean(lambda p: inference.marginals(p, mask))

    def one(labels, exists):
        chances = found.mean(
            lambda p: inference.entity_probabilities(p, labels, mask, spans)
        )
        of_labels = jnp.take_along_axis(tokens, labels[:, None], axis=1)[:, 0]
        starts, ends, types = inference.entity_bounds(labels, mask, spans)
        widths = ends - jnp.arange(len(mask), dtype=jnp.int32)
        # Rounding errors may exceed 1.
        chances = jnp.minimum(chances, 1.0)
        arrays = EntityArrays(labels, of_labels, starts, widths, types, chances)
        return only(arrays, starts & exists)

    if n_best == 1:
        of = (params, found, sentence, key, decoding)
        return one(tagging.labels_of(*of, constrained=constrained), True)
    if isinstance(params, Ensemble):
        labels, chances = tagging.best_labellings(params, found, sentence, n_best)
        return jax.vmap(one, out_axes=-1)(labels, chances > 0)
    labels, scores = inference.n_best(found.potentials, mask, n_best)
    return jax.vmap(one, out_axes=-1)(labels, jnp.isfinite(scores))


def spans_of(params: Tagger, found: Any) -> dict[tuple[int, int, str], float]:
    """Returns the entities of one sentence from its `arrays`.

    Returns:
        The probability of each entity, by (first token, last token plus one, type).
    """
    return read_spans(types_of(params), found)


def read_spans(types: LabelTypes, found: Any) -> dict[tuple[int, int, str], float]:
    """Returns what `spans_of` returns, given the types."""
    chances: dict[tuple[int, int, str], float] = {}
    for where in np.argwhere(found.start):
        at = tuple(where)
        span = (int(where[0]), int(found.end[at]), types.names[found.type[at]])
        chances.setdefault(span, float(found.probability[at]))
    return chances
