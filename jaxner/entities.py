"""Entities with probabilities: where spans of label ids meet text.

Shape letters: `B` sentences, `T` tokens, `N` labellings.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from jaxner import decoding, inference, tagging
from jaxner.data import schemes, tokens
from jaxner.data.label_spans import LabelTypes, label_types
from jaxner.data.tokens import Token
from jaxner.mapping import over_tokens
from jaxner.probabilities import count_passes
from jaxner.tagger import Tagger
from jaxner.types import Sentence


class Entity(NamedTuple):
    """An entity of a text.

    Attributes:
        text: As it stands in the text: `text[start_char:end_char]`.
        start: Its first token: of the sentence, or of all tokens of a raw text.
        end: Its last token plus one.
        start_char: Its first character in the raw text; of tokens, in the tokens joined
            by single spaces.
        end_char: Its last character plus one.
        type: Such as "PER".
        probability: That exactly this entity stands there, from 0 to 1: the summed
            probability of all labellings of the sentence in which it does.
    """

    text: str
    start: int
    end: int
    start_char: int
    end_char: int
    type: str
    probability: float


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
        >>> from jaxner import encode, load
        >>> params = load("runs/grn")
        >>> found = jax.jit(entities)(params, encode(params, ["Rome", "fell"]))
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
    return _types(params).names


def _types(params: Tagger) -> LabelTypes:
    names = decoding.outside_at_separators(params.vocabulary)
    if params.vocabulary.scheme == schemes.TAGS:
        names = ["O"] * len(names)  # tags are outside of all spans
    return label_types(names)


def entities(
    params: Tagger,
    text_or_tokens: Any,
    *,
    min_probability: float = 0.0,
    n_best: int = 1,
    raw: bool | None = None,
    tokeniser: Callable[[str], Iterable[Any]] | None = None,
    split_sentences: bool = True,
    constrained: bool = False,
    documents: Sequence[Hashable] | None = None,
    key: Array | None = None,
    num_samples: int | None = None,
    vectors: Any = None,
) -> Any:
    """Finds the entities of a text, each with its exact probability.

    The entities are those of the labelling that `tag` returns, or of the n best ones.

    Args:
        params: What `load` returned.
        text_or_tokens: A raw text (a string), or tokens as in `tag`: one sentence as a
            list of strings, a list of such lists, or what `encode` returned.
        min_probability: Less probable entities are left out.
        n_best: Of how many labellings; static. Above 1, entities may overlap: each is
            told once, and those that are not of the best labelling may be the more
            probable ones.
        raw: Whether a string of a list is a text of its own; None: it is a token.
        tokeniser: For raw text, from a text to its tokens, in order: strings that stand
            in it or pairs (start, end), or lists of these, one for each sentence.
            None: `jaxner.data.tokens.tokenise`.
        split_sentences: Whether a raw text is parted into sentences; or it is one.
        constrained: Whether ill-formed labellings are ruled out.
        documents: As in `tag`. For a tagger that reads documents, a raw text is one.
        key: Of the dropout masks; None: those of the config.
        num_samples: Passes with dropout, over which probabilities are averaged; None:
            as many as the tagger's config says, which is 0 for most.
        vectors: As in `tag`; not for raw text.

    Returns:
        A list of `Entity`, from left to right; a list of such lists for several texts
        or sentences; `EntityArrays` for encoded sentences.

    Raises:
        TypeError: As `tag`; or documents or vectors are given for raw text.
        ValueError: As `tag`; the tagger gives tags; or a tokeniser returns what does
            not stand in the text.

    Example:
        >>> from jaxner import load
        >>> params, text = load("runs/grn"), "Ms. Preston left  Lakeside."
        >>> found = entities(params, text)
        >>> all(text[e.start_char : e.end_char] == e.text for e in found)
        True
        >>> all(0 < e.probability <= 1 for e in found)
        True
    """
    if n_best < 1:
        raise ValueError(f"Expected at least one labelling, got n_best={n_best}")
    entity_types(params)
    types = _types(params)
    is_raw = isinstance(text_or_tokens, str) or bool(raw)
    choice: dict[str, Any] = {
        "num_samples": num_samples,
        "constrained": constrained,
        "n_best": n_best,
    }
    if is_raw:
        if documents is not None or vectors is not None:
            raise TypeError(
                "Raw text takes no documents and no vectors: each text is a document, "
                "and vectors are of tokens. Give tokens, as lists of strings."
            )
        texts = _texts(text_or_tokens)
        read = [
            tokens.read(text, tokeniser=tokeniser, split_sentences=split_sentences)
            for text in texts
        ]
        results = _of_texts(params, types, texts, read, key, choice)
        results = [_likely(own, min_probability) for own in results]
        return results[0] if isinstance(text_or_tokens, str) else results
    if tokeniser is not None:
        raise TypeError("Tokens need no tokeniser: give raw text, or leave it out.")
    found = arrays(
        params,
        text_or_tokens,
        key=key,
        documents=documents,
        vectors=vectors,
        **choice,
    )
    if isinstance(text_or_tokens, Sentence):
        if n_best > 1:
            found = jax.tree.map(lambda array: jnp.moveaxis(array, -1, -2), found)
        return _only(found, found.start & (found.probability >= min_probability))
    if tagging.is_one_sentence(text_or_tokens):
        return _likely(_of_tokens(types, text_or_tokens, found), min_probability)
    pairs = zip(text_or_tokens, found, strict=True)
    return [
        _likely(_of_tokens(types, sentence, one), min_probability)
        for sentence, one in pairs
    ]


def _likely(found: list[Entity], min_probability: float) -> list[Entity]:
    return [entity for entity in found if entity.probability >= min_probability]


def _texts(given: Any) -> list[str]:
    texts = [given] if isinstance(given, str) else given
    if not isinstance(texts, (list, tuple)):
        kind = type(texts).__name__
        raise TypeError(f"Expected a text or a list of texts (raw=True), got {kind}")
    for i, text in enumerate(texts):
        if not isinstance(text, str):
            raise TypeError(
                f"Expected a list of texts (raw=True), got {type(text).__name__} as "
                f"text {i}"
            )
    return list(texts)


def _of_texts(params, types, texts, read, key, choice) -> list[list[Entity]]:
    """Labels the sentences of all texts together, and parts the entities by text."""
    sentences = [[t.text for t in one] for parts in read for one in parts]
    documents = [i for i, parts in enumerate(read) for _ in parts]
    found = iter(
        arrays(params, sentences, key=key, documents=documents or None, **choice)
    )
    results = []
    for text, parts in zip(texts, read, strict=True):
        own: list[Entity] = []
        before = 0
        for one in parts:
            own.extend(_named(types, text, one, next(found), before))
            before += len(one)
        results.append(own)
    return results


def _of_tokens(types: LabelTypes, sentence: Sequence[str], found: Any) -> list[Entity]:
    placed, start = [], 0
    for token in sentence:
        placed.append(Token(token, start, start + len(token)))
        start += len(token) + 1
    return list(_named(types, " ".join(sentence), placed, found, 0))


def _named(
    types: LabelTypes, text: str, placed: Sequence[Token], found: Any, before: int
) -> Iterator[Entity]:
    """Yields the entities of one sentence; `found` has arrays `[T]` or `[T, N]`."""
    for (start, end, kind), chance in sorted(_spans(types, found).items()):
        first, last = placed[start].start, placed[end - 1].end
        place = (start + before, end + before, first, last)
        yield Entity(text[first:last], *place, kind, chance)


def spans_of(params: Tagger, found: Any) -> dict[tuple[int, int, str], float]:
    """Reads the entities of one sentence from what `arrays` returns for it.

    Returns:
        The probability of each: first token, last token plus one, type.
    """
    return _spans(_types(params), found)


def _spans(types: LabelTypes, found: Any) -> dict[tuple[int, int, str], float]:
    chances: dict[tuple[int, int, str], float] = {}
    for where in np.argwhere(found.start):
        at = tuple(where)
        span = (int(where[0]), int(found.end[at]), types.names[found.type[at]])
        chances.setdefault(span, float(found.probability[at]))
    return chances


def arrays(
    params: Tagger,
    tokens: Any,
    *,
    n_best: int = 1,
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
    return over_tokens(
        _entities,
        params,
        tokens,
        key,
        documents=documents,
        vectors=vectors,
        passes=max(count_passes(params, num_samples), n_best // 4),
        num_samples=num_samples,
        constrained=constrained,
        n_best=n_best,
    )


def _only(found: EntityArrays, kept: Bool[Array, "*S"]) -> EntityArrays:
    """Leaves out all entities but those that begin at the places that are kept."""
    return found._replace(
        start=kept,
        end=jnp.where(kept, found.end, 0),
        type=jnp.where(kept, found.type, -1),
        probability=jnp.where(kept, found.probability, 0.0),
    )


def _entities(params, sentence, *, key, num_samples, constrained, n_best):
    """Computes `EntityArrays` of one sentence, `[T]` or, of n labellings, `[T, N]`."""
    mask = sentence.mask
    names = _types(params)
    spans = inference.LabelSpans(jnp.asarray(names.types), jnp.asarray(names.goes_on))
    found = decoding.predict(
        params, sentence, key, num_samples, constrained=constrained
    )
    tokens = found.mean(lambda p: inference.marginals(p, mask))

    def one(labels, exists):
        chances = found.mean(
            lambda p: inference.entity_probabilities(p, labels, mask, spans)
        )
        of_labels = jnp.take_along_axis(tokens, labels[:, None], axis=1)[:, 0]
        starts, ends, types = inference.entity_bounds(labels, mask, spans)
        # Rounding may make it a digit more than 1.
        chances = jnp.minimum(chances, 1.0)
        arrays = EntityArrays(labels, of_labels, starts, ends, types, chances)
        return _only(arrays, starts & exists)

    if n_best == 1:
        return one(inference.viterbi(found.potentials, mask), True)
    labels, scores = inference.n_best(found.potentials, mask, n_best)
    return jax.vmap(one, out_axes=-1)(labels, jnp.isfinite(scores))
