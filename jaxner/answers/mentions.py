"""The entities of texts and tokens, read from arrays; without models.

Shape letters: `T` tokens, `N` labellings.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import jax.numpy as jnp
import numpy as np

from jaxner import fields
from jaxner.arguments import expect
from jaxner.data import schemes, tokens
from jaxner.data.corpora import Split
from jaxner.data.schemes import LabelTypes, label_types
from jaxner.data.tokens import Token, Tokenizer
from jaxner.data.vocabulary import Vocabulary, is_list
from jaxner.driver import sentences_of
from jaxner.errors import InputError
from jaxner.types import Minima, Vectors

if TYPE_CHECKING:
    from jax import Array
    from jaxtyping import Bool, Float, Int

    Least = Minima | Array


_WORST = {"entropy": np.max, "mutual_information": np.max, "vote_share": np.min}


class Entity(NamedTuple):
    """An entity of a text.

    Attributes:
        text: The text of the entity, `text[start_char:end_char]`.
        start, end: Index of its first token, and of its last plus one: in the sentence,
            or in all tokens of a raw text.
        start_char, end_char: Its first character, and its last plus one: in the raw
            text; for tokens, in the tokens joined by single spaces.
        type: Its type, such as "PER".
        probability: Probability of exactly this entity, from 0 to 1: the sum over all
            labellings of the sentence that contain it.
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

    A batch adds a leading axis; several labellings add an axis `N` before `T`.

    Attributes:
        labels: Label ids; 0 under padding.
        label_probability: Probability of each of these labels.
        start: True at the first token of each entity, where the fields below are, too.
        end: Last token plus one; 0 elsewhere.
        type: Index of the type in `entity_types(tagger)`; -1 elsewhere.
        probability: Probability of the entity; 0 elsewhere.

    Example:
        >>> import jax, jaxner
        >>> tagger = jaxner.load("runs/grn")
        >>> batch = jaxner.encode(tagger, ["Rome", "fell"])
        >>> arrays = jax.jit(jaxner.entities)(tagger, batch)
        >>> arrays.probability.shape, arrays.start.dtype
        ((2,), dtype('bool'))
    """

    labels: Int[Array, " T"]
    label_probability: Float[Array, " T"]
    start: Bool[Array, " T"]
    end: Int[Array, " T"]
    type: Int[Array, " T"]
    probability: Float[Array, " T"]

    def only(self, starts: Array) -> EntityArrays:
        """Returns only the entities whose first tokens are `starts`."""
        return self._replace(
            start=starts,
            end=jnp.where(starts, self.end, 0),
            type=jnp.where(starts, self.type, -1),
            probability=jnp.where(starts, self.probability, 0.0),
        )


def check_spans(vocabulary: Vocabulary) -> None:
    """Raises InputError if a tagger returns tags, which are not spans."""
    if vocabulary.scheme == schemes.TAGS:
        raise InputError(
            "This tagger gives each token a tag, such as a part of speech: there are "
            "no entities. See jaxner.tag and jaxner.marginals."
        )


def types_of(tagger: Any) -> LabelTypes:
    """Returns the span types of the tagger's labels; tags have none."""
    names = tagger.vocabulary.span_labels
    if tagger.vocabulary.scheme == schemes.TAGS:
        names = ["O"] * len(names)  # tags are outside all spans
    return label_types(tuple(names))


def entities(
    find: Callable[..., Any],
    tagger: Any,
    text_or_tokens: Any,
    *,
    min_probability: Least = 0.0,
    raw: bool = False,
    tokenizer: str | Tokenizer | None = None,
    split_sentences: bool = True,
    documents: Sequence[Hashable] | None = None,
    vectors: Vectors = None,
) -> Any:
    """Returns what `jaxner.entities` does; `find` maps tokens to `EntityArrays`."""
    if isinstance(min_probability, (jnp.ndarray, np.ndarray)):  # whose value is known
        fields.check("min_probability", min_probability.tolist(), fields.Share)
    is_one = isinstance(text_or_tokens, str)
    if is_one or raw:
        if documents is not None or vectors is not None:
            raise TypeError("Raw text takes no documents and no vectors.")
        texts = [text_or_tokens] if is_one else text_or_tokens
        is_text = is_list(texts) and all(isinstance(text, str) for text in texts)
        expect(is_text, "a text or a list of texts (raw=True)", texts)
        reader = tokens.resolve(tokenizer or tagger.tokenizer)
        token_texts = [
            tokens.read(text, reader, split_sentences=split_sentences) for text in texts
        ]
        sentences = [[token.text for token in s] for text in token_texts for s in text]
        documents = [i for i, text in enumerate(token_texts) for _ in text]
        answers = find(sentences, documents=documents or None)
    else:
        if tokenizer is not None:
            raise TypeError("Tokens need no tokenizer: give raw text, or leave it out.")
        if isinstance(text_or_tokens, Split):
            sentences, is_one = [list(e.tokens) for e in text_or_tokens.examples], False
        else:
            sentences, is_one = sentences_of(text_or_tokens)
        answers = find(text_or_tokens, documents=documents, vectors=vectors)
        answers = [answers] if is_one else answers
        texts = [" ".join(words) for words in sentences]
        token_texts = [[joined(words)] for words in sentences]
    lists, rest, types = [], iter(answers), types_of(tagger)
    for text, parts in zip(texts, token_texts, strict=True):
        arrays = list(itertools.islice(rest, len(parts)))
        lists.append(read_entities(types, text, parts, arrays, min_probability))
    return lists[0] if is_one else lists


def read_entities(
    types: LabelTypes,
    text: str,
    sentences: Sequence[Sequence[Token]],
    answers: Sequence[EntityArrays],
    min_probability: Least = 0.0,
) -> list[Entity]:
    """Returns the entities of a text from the arrays of each of its sentences."""
    entities, offset = [], 0
    for words, answer in zip(sentences, answers, strict=True):
        for (start, end, kind), chance in sorted(read_spans(types, answer).items()):
            if chance >= least_of(min_probability, kind):
                first, last = words[start].start, words[end - 1].end
                offsets = (start + offset, end + offset, first, last)
                entities.append(Entity(text[first:last], *offsets, kind, chance))
        offset += len(words)
    return entities


def least_certain(values: Mapping[str, Any], start: int, end: int) -> dict[str, float]:
    """Returns the uncertainty of an entity's least certain token, by name."""
    return {
        name: float(worst(values[name][start:end])) for name, worst in _WORST.items()
    }


def check_least(types: Sequence[str], min_probability: Least) -> None:
    """Raises an error unless a minimum is a probability, or one for each of types."""
    is_each = isinstance(min_probability, Mapping)
    for kind, value in min_probability.items() if is_each else ():
        fields.check_word("type in min_probability", kind, types)
        fields.check(f"min_probability of {kind}", value, fields.Share)
    if not is_each and not isinstance(min_probability, (jnp.ndarray, np.ndarray)):
        fields.check("min_probability", min_probability, fields.Share)


def least_of(min_probability: Least, kind: str) -> Any:
    """Returns the minimum probability of a type; 0 if a mapping does not name it."""
    is_each = isinstance(min_probability, Mapping)
    return min_probability.get(kind, 0.0) if is_each else min_probability


def joined(words: Sequence[str]) -> list[Token]:
    """Returns the tokens of words that single spaces separate."""
    starts = itertools.accumulate((len(word) + 1 for word in words), initial=0)
    rows = zip(words, starts, strict=False)
    return [Token(word, start, start + len(word)) for word, start in rows]


def with_ends(answer: EntityArrays, axis: int) -> EntityArrays:
    """Replaces the widths of entities by their ends, once documents are split."""
    positions = np.arange(answer.start.shape[axis], dtype=np.int32)
    positions = positions[:, None] if axis == -2 else positions
    ends = answer.end + np.broadcast_to(positions, answer.start.shape)
    return answer._replace(end=ends * answer.start.astype(ends.dtype))


def read_spans(
    types: LabelTypes, answer: EntityArrays
) -> dict[tuple[int, int, str], float]:
    """Returns the probability of each (start, end, type) in one sentence's `arrays`."""
    chances: dict[tuple[int, int, str], float] = {}
    for indices in np.argwhere(answer.start):
        cell = tuple(indices)
        span = (int(indices[0]), int(answer.end[cell]), types.names[answer.type[cell]])
        chances.setdefault(span, float(answer.probability[cell]))
    return chances
