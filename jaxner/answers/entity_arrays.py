"""Entities of label ids as arrays, with their probabilities.

Shape letters: `B` sentences, `T` tokens, `N` labellings.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from jaxner import decoding as decodings
from jaxner import inference
from jaxner.answers.mapping import over_tokens
from jaxner.answers.probabilities import count_passes
from jaxner.data import schemes
from jaxner.data.label_spans import LabelTypes, label_types
from jaxner.tagger import Ensemble, Tagger


class EntityArrays(NamedTuple):
    """The entities of encoded sentences, as arrays.

    Of a batch each has a leading axis; of several labellings, an axis `N` before `T`.

    Attributes:
        labels: Label ids; 0 under padding.
        label_probability: The probability of each of these labels.
        start: True at the first token of an entity.
        end: There, its last token plus one; else 0.
        type: There, the type's place in `entity_types(params)`; else -1.
        probability: There, the probability of the entity; else 0.

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

    Raises:
        ValueError: The tagger gives tags, which are no spans.

    Example:
        >>> from jaxner import load
        >>> "PER" in entity_types(load("runs/grn"))
        True
    """
    if params.vocabulary.scheme == schemes.TAGS:
        raise ValueError(
            "This tagger gives each token a tag, such as a part of speech: there are "
            "no entities. See jaxner.tag and jaxner.marginals."
        )
    return types_of(params).names


def types_of(params: Tagger) -> LabelTypes:
    """Returns which spans the tagger's labels write; those of tags write none."""
    names = decodings.outside_at_separators(params.vocabulary)
    if params.vocabulary.scheme == schemes.TAGS:
        names = ["O"] * len(names)  # tags are outside of all spans
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
    """Finds entities as `EntityArrays`, of strings, too; of a tagger of tags, none.

    The arguments are those of `entities`.

    Returns:
        NumPy arrays `[T]` or, of n labellings, `[T, N]`; a list of such for several
        sentences; JAX arrays with a leading batch axis for an encoded batch.
    """
    decodings.check(decoding, key)
    found = over_tokens(
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
    """Turns widths into ends, now that sentences are cut out of their documents.

    Args:
        found: Tokens are the last axis, or the last but one.
        several: Whether there is an axis of labellings behind that of the tokens.
    """
    library = np if isinstance(found.start, np.ndarray) else jnp
    places = library.arange(found.start.shape[-2 if several else -1], dtype=np.int32)
    places = places[:, None] if several else places
    ends = found.end + library.broadcast_to(places, found.start.shape)
    return found._replace(end=library.where(found.start, ends, 0))


def only(found: EntityArrays, kept: Bool[Array, "*S"]) -> EntityArrays:
    """Leaves out all entities but those that begin at the places that are kept."""
    return found._replace(
        start=kept,
        end=jnp.where(kept, found.end, 0),
        type=jnp.where(kept, found.type, -1),
        probability=jnp.where(kept, found.probability, 0.0),
    )


def _entities(params, sentence, *, key, num_samples, decoding, constrained, n_best):
    """Computes `EntityArrays` of one sentence, `[T]` or, of n labellings, `[T, N]`.

    Where an entity begins, `end` is its number of tokens.
    """
    mask = sentence.mask
    names = types_of(params)
    spans = inference.LabelSpans(jnp.asarray(names.types), jnp.asarray(names.goes_on))
    found = decodings.predict(
        params, sentence, key, num_samples, constrained=constrained
    )
    tokens = found.mean(lambda p: inference.marginals(p, mask))

    def one(labels, exists):
        chances = found.mean(
            lambda p: inference.entity_probabilities(p, labels, mask, spans)
        )
        of_labels = jnp.take_along_axis(tokens, labels[:, None], axis=1)[:, 0]
        starts, ends, types = inference.entity_bounds(labels, mask, spans)
        widths = ends - jnp.arange(len(mask), dtype=jnp.int32)
        # Rounding may make it a digit more than 1.
        chances = jnp.minimum(chances, 1.0)
        arrays = EntityArrays(labels, of_labels, starts, widths, types, chances)
        return only(arrays, starts & exists)

    if n_best == 1:
        of = (params, found, sentence, key, decoding)
        return one(decodings.labels_of(*of, constrained=constrained), True)
    if isinstance(params, Ensemble):
        labels, chances = decodings.best_labellings(params, found, sentence, n_best)
        return jax.vmap(one, out_axes=-1)(labels, chances > 0)
    labels, scores = inference.n_best(found.potentials, mask, n_best)
    return jax.vmap(one, out_axes=-1)(labels, jnp.isfinite(scores))


def spans_of(params: Tagger, found: Any) -> dict[tuple[int, int, str], float]:
    """Reads the entities of one sentence from what `arrays` returns for it.

    Returns:
        The probability of each: first token, last token plus one, type.
    """
    return read_spans(types_of(params), found)


def read_spans(types: LabelTypes, found: Any) -> dict[tuple[int, int, str], float]:
    """Does as `spans_of`, where the types are known."""
    chances: dict[tuple[int, int, str], float] = {}
    for where in np.argwhere(found.start):
        at = tuple(where)
        span = (int(where[0]), int(found.end[at]), types.names[found.type[at]])
        chances.setdefault(span, float(found.probability[at]))
    return chances
