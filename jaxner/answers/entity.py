"""Finds the entities of texts, with offsets and probabilities."""

from __future__ import annotations

import functools
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import core as jax_core
from jaxtyping import Array

from jaxner import fields, tagging
from jaxner.answers.entity_arrays import (
    arrays,
    entity_types,
    only,
    read_spans,
    types_of,
)
from jaxner.data import tokens
from jaxner.data.schemes import LabelTypes
from jaxner.data.tokens import Token
from jaxner.fields import Labellings, Passes, checked
from jaxner.tagger import Tagger
from jaxner.tagging import Decoding
from jaxner.types import Sentence


class Entity(NamedTuple):
    """An entity of a text.

    Attributes:
        text: The text of the entity, `text[start_char:end_char]`.
        start: Index of its first token: in the sentence, or in all tokens of a raw
            text.
        end: Index of its last token plus one.
        start_char: Its first character in the raw text; for tokens, in the tokens
            joined by single spaces.
        end_char: Its last character plus one.
        type: Its type, such as "PER".
        probability: Probability of exactly this entity, from 0 to 1: the sum over all
            labellings of the sentence that contain it.

    Example:
        >>> found = Entity("Rome", 0, 1, 0, 4, "LOC", 0.97)
        >>> "Rome fell"[found.start_char : found.end_char]
        'Rome'
    """

    text: str
    start: int
    end: int
    start_char: int
    end_char: int
    type: str
    probability: float


@checked
def entities(
    params: Tagger,
    text_or_tokens: Any,
    *,
    min_probability: Any = 0.0,
    n_best: Labellings = 1,
    raw: bool = False,
    tokenizer: str | Callable[[str], Iterable[Any]] | None = None,
    tokeniser: str | Callable[[str], Iterable[Any]] | None = None,
    split_sentences: bool = True,
    decoding: Decoding = "viterbi",
    constrained: bool = False,
    documents: Sequence[Hashable] | None = None,
    key: Array | None = None,
    num_samples: Passes | None = None,
    vectors: Any = None,
) -> Any:
    """Finds the entities of a text, each with its exact probability.

    These are the entities of the labelling that `tag` returns, or of the n best ones.
    For an ensemble, a probability is the mean of the members' exact probabilities.

    Args:
        params: What `load` returned: a tagger, or the ensemble of a folder of restarts.
        text_or_tokens: A raw text (a string) or a list of texts; or tokens as in `tag`:
            one sentence as a list of strings, a list of such lists, or what `encode`
            returned. A list of strings has texts if any has white space inside.
        min_probability: Minimum probability of the entities, from 0 to 1.
        n_best: Number of labellings to take entities from; static. Above 1, each entity
            appears once, entities may overlap, and those of lower-ranked labellings may
            be more probable.
        raw: Whether the strings of a list are texts, even if none has white space.
        tokenizer: For raw text, "words" or "whitespace", or a function from a text to
            its tokens, in order: substrings or pairs (start, end), or lists of these,
            one for each sentence. None: "words", `jaxner.data.tokens.tokenise`.
        tokeniser: The same, in the other spelling.
        split_sentences: Whether to split a raw text into sentences; otherwise it is one
            sentence.
        decoding: How labels are chosen, as in `tag`; not with n_best. Each entity has
            its probability under all labellings, whatever the decoding.
        constrained: Whether to forbid ill-formed labellings.
        documents: As in `tag`. For a tagger that reads documents, each raw text is a
            document.
        key: Draws the dropout masks; None: the seed of the config draws them. Also
            draws for the decoding "sampled", which needs a key.
        num_samples: Number of passes with dropout, whose probabilities are averaged;
            None: the number in the tagger's config, 0 for most. Not for an ensemble,
            which averages over its members.
        vectors: As in `tag`; not for raw text.

    Returns:
        A list of `Entity`, from left to right; a list of such lists for several texts
        or sentences; `EntityArrays` for encoded sentences.

    Raises:
        TypeError: As `tag`; or documents or vectors are given for raw text.
        ValueError: As `tag`; the tagger returns tags; `n_best` is below 1;
            `min_probability` is outside [0, 1]; a tokenizer returns tokens that do not
            occur in the text; or `num_samples` is given for an ensemble.

    Example:
        >>> from jaxner import load
        >>> params, text = load("runs/grn"), "Ms. Preston left  Lakeside."
        >>> found = entities(params, text)
        >>> all(text[e.start_char : e.end_char] == e.text for e in found)
        True
        >>> all(0 < e.probability <= 1 for e in found)
        True
    """
    _check(n_best, min_probability, decoding)
    entity_types(params)
    find = functools.partial(
        arrays,
        params,
        n_best=n_best,
        decoding=decoding,
        constrained=constrained,
        key=key,
        num_samples=num_samples,
    )
    texts = tagging.texts_of(text_or_tokens)
    if texts is not None or raw:
        if documents is not None or vectors is not None:
            raise TypeError(
                "Raw text takes no documents and no vectors: each text is a document, "
                "and vectors are of tokens. Give tokens, as lists of strings."
            )
        texts = _texts(text_or_tokens) if texts is None else texts
        read = [
            tokens.read(
                text, tokenizer, tokeniser=tokeniser, split_sentences=split_sentences
            )
            for text in texts
        ]
        results = _of_texts(find, types_of(params), texts, read)
        results = [_likely(own, min_probability) for own in results]
        return results[0] if isinstance(text_or_tokens, str) else results
    if tokenizer is not None or tokeniser is not None:
        raise TypeError("Tokens need no tokenizer: give raw text, or leave it out.")
    found = find(text_or_tokens, documents=documents, vectors=vectors)
    if isinstance(text_or_tokens, Sentence):
        if n_best > 1:
            found = jax.tree.map(lambda array: jnp.moveaxis(array, -1, -2), found)
        return only(found, found.start & (found.probability >= min_probability))
    is_one = tagging.is_one_sentence(text_or_tokens)
    sentences = [text_or_tokens] if is_one else text_or_tokens
    pairs = zip(sentences, [found] if is_one else found, strict=True)
    results = [_of_tokens(types_of(params), *pair) for pair in pairs]
    results = [_likely(own, min_probability) for own in results]
    return results[0] if is_one else results


def _check(n_best: int, min_probability: Any, decoding: Decoding) -> None:
    if n_best > 1 and decoding not in ("viterbi", "constrained"):
        raise ValueError(
            f"The {n_best} best labellings are not those of decoding={decoding!r}: "
            "leave out n_best or decoding."
        )
    if isinstance(min_probability, jax_core.Tracer):
        return
    is_array = isinstance(min_probability, jax.Array) and not min_probability.ndim
    value = min_probability.item() if is_array else min_probability
    fields.check("min_probability", value, fields.Share)


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


def _of_texts(find, types, texts, read) -> list[list[Entity]]:
    """Labels the sentences of all texts together, and groups the entities by text."""
    sentences = [[t.text for t in one] for parts in read for one in parts]
    documents = [i for i, parts in enumerate(read) for _ in parts]
    found = iter(find(sentences, documents=documents or None))
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
    for (start, end, kind), chance in sorted(read_spans(types, found).items()):
        first, last = placed[start].start, placed[end - 1].end
        place = (start + before, end + before, first, last)
        yield Entity(text[first:last], *place, kind, chance)
