"""The vocabulary: maps tokens to ids, and ids to labels.

It depends on the training split and the vector file alone, never on dev or test. Shape
letters: `T` tokens, `C` characters, `V` words, `D` dimensions.
"""

from __future__ import annotations

import collections
import dataclasses
import functools
import hashlib
import json
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from jaxner.checked import checked
from jaxner.data import (
    contextual,
    features,
    label_ids,
    ranking,
    unique_words,
)
from jaxner.data.sentences import check_one, check_text, strings
from jaxner.data.vectors import Vectors
from jaxner.data.wordpiece import WordPiece
from jaxner.fields import Count
from jaxner.types import Sentence, WordVectors

PADDING, UNKNOWN = 0, 1
MAX_CHARACTERS = 128
"""Maximum characters read of a word: a long word would use as much memory as a text."""
_MOST_SEEN = 1 << 16  # tokens
_SPECIAL = ("<pad>", "<unk>")
SEPARATOR = label_ids.SEPARATOR


@dataclasses.dataclass(frozen=True, eq=False)
class Vocabulary:
    """The words, characters and labels of a tagger, and its rules for looking up words.

    Compares and hashes by a fingerprint of its content, computed once, so that a
    vocabulary of any size can be a static argument of `jax.jit`.

    Attributes:
        words: The word of each id; 0 is padding and 1 the unknown word.
        num_trained: Number of words with trained vectors, which come first.
        chars: The character of each id; 0 is padding and 1 the unknown character.
        label_names: The label of each id; the last is `SEPARATOR` in a tagger of
            documents.
        scheme: The label scheme, one of `schemes.SCHEMES`, or `schemes.TAGS`.
        lowercase: Whether to lower-case words before looking them up; characters keep
            their case.
        zero_digits: Whether to replace digits by 0 first.
        unescape: Whether to undo treebank escapes first.
        lowercase_fallback: Whether an unknown word falls back to its lower case.
        singletons: First and last (exclusive) id of the words that occur once in the
            training text; see `Representation.singleton_dropout`.
        typed_unknowns: Whether an unknown character keeps its type; see `char_types`.
        vector_sizes: Layers and dimensions of the precomputed vectors of each token;
            None without vectors.
        pieces: Splits tokens into the pieces of a pretrained encoder; None without an
            encoder.
        encoder_sizes: Attributes of this encoder, as names and values; see
            `models.bert`.

    Example:
        >>> vocabulary, _ = build([["Rome", "wins"]], ["LOC"], scheme="BIO")
        >>> vocabulary.encode(["Rome", "loses"]).words.tolist()
        [2, 1]
    """

    words: tuple[str, ...]
    num_trained: int
    chars: tuple[str, ...]
    label_names: tuple[str, ...]
    scheme: str
    lowercase: bool
    zero_digits: bool = False
    unescape: bool = False
    lowercase_fallback: bool = True
    singletons: tuple[int, int] = (0, 0)
    typed_unknowns: bool = False
    vector_sizes: tuple[int, int] | None = None
    pieces: WordPiece | None = None
    encoder_sizes: tuple[tuple[str, Any], ...] | None = None

    @functools.cached_property
    def fingerprint(self) -> str:
        """The SHA-256 of the content."""
        return hashlib.sha256(self.to_json().encode()).hexdigest()

    @functools.cached_property
    def _hash(self) -> int:
        return hash(self.fingerprint)

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        return isinstance(other, Vocabulary) and self.fingerprint == other.fingerprint

    def __repr__(self) -> str:
        return (
            f"Vocabulary({len(self.words):,} words, {len(self.chars)} characters, "
            f"{len(self.label_names)} labels, {self.fingerprint[:8]})"
        )

    @functools.cached_property
    def _word_ids(self) -> dict[str, int]:
        # The special entries are not words: a text may contain "<unk>".
        start = len(_SPECIAL)
        return {word: i for i, word in enumerate(self.words[start:], start)}

    @functools.cached_property
    def _char_ids(self) -> dict[str, int]:
        start = len(_SPECIAL)
        return {char: i for i, char in enumerate(self.chars[start:], start)}

    @functools.cached_property
    def _label_ids(self) -> dict[str, int]:
        return {label: i for i, label in enumerate(self.label_names)}

    @property
    def reads_documents(self) -> bool:
        """Whether the tagger reads documents with separators, not single sentences."""
        return self.label_names[-1] == SEPARATOR

    @functools.cached_property
    def char_types(self) -> tuple[int, ...]:
        """The type of each character id; see `features.char_type`.

        With `typed_unknowns`, four more ids follow those of `chars`, one for unknown
        characters of each type. They share the vector of the unknown character.
        """
        start = len(_SPECIAL)
        known = (0,) * start + tuple(map(features.char_type, self.chars[start:]))
        more = range(1, len(features.CHAR_TYPES) + 1) if self.typed_unknowns else ()
        return (*known, *more)

    def _char_id(self, char: str) -> int:
        found = self._char_ids.get(char)
        if found is not None:
            return found
        kind = features.char_type(char) if self.typed_unknowns else 0
        return len(self.chars) + kind - 1 if kind else UNKNOWN

    def normalise(self, token: str) -> str:
        """Returns the token by the rules: unescaped, and with digits as 0."""
        return features.normal(token, self.zero_digits, self.unescape)

    def word_id(self, token: str) -> int:
        """Returns the id of a token or its lower case, else of the unknown word."""
        return self._id_of_normal(self.normalise(token))

    def _id_of_normal(self, token: str) -> int:
        case = self.lowercase, self.lowercase_fallback
        found = features.look_up(token, self._word_ids, case)
        return UNKNOWN if found is None else self._word_ids[found]

    def encode(self, tokens: Sequence[str], vectors: Any = None) -> Sentence:
        """Returns one encoded sentence, without padding.

        Args:
            tokens: Words of the sentence; may be empty.
            vectors: For a tagger with precomputed vectors: an array [T, D] or [S, T,
                D], or `TokenVectors`, which are read when needed.

        Returns:
            NumPy arrays: `words` [T]; `chars` [U, C] of the distinct words, where C is
            the length of the longest (1 to `MAX_CHARACTERS`); `char_index` [T], `mask`
            [T] and `caps` [T]; and, if the tagger needs them, `vectors` and `pieces`.

        Raises:
            TypeError: `tokens` is not a list of strings.
            ValueError: Vectors are missing, unexpected, or of another size.
        """
        check_one(tokens)
        vectors = contextual.wanted(vectors, tokens, self.vector_sizes)
        pieces = None
        if self.pieces is not None:
            # The encoder handles case and digits itself, but never saw escapes.
            texts = [features.normal(token, False, self.unescape) for token in tokens]
            pieces = self.pieces.encode(texts)
        known = [self._encode_token(token) for token in tokens]
        words = np.array([word for word, _, _ in known], np.int32)
        caps = np.array([caps for _, caps, _ in known], np.int32)
        unique, index = unique_words.number(spelled for _, _, spelled in known)
        chars = unique_words.rows(unique, max(map(unique_words.length, unique)) or 1)
        mask = np.ones(len(tokens), bool)
        return Sentence(words, chars, index, mask, caps, vectors, pieces)

    def _encode_token(self, token: str) -> tuple[int, int, bytes]:
        """Returns word id, capitalisation class and characters (int32) of a token."""
        found = self._seen.get(token)
        if found is None:
            normal = self.normalise(token)
            ids = [self._char_id(char) for char in normal[:MAX_CHARACTERS]]
            spelled = np.array(ids, np.int32).tobytes()
            found = self._id_of_normal(normal), int(features.caps(normal)), spelled
            if len(self._seen) >= _MOST_SEEN:
                self._seen.clear()
            self._seen[token] = found
        return found

    @functools.cached_property
    def _seen(self) -> dict[str, tuple[int, int, bytes]]:
        return {}  # a text has few distinct tokens, each looked up once

    def forget(self) -> None:
        """Empties the cache of encoded tokens; results stay the same."""
        self._seen.clear()

    def label_ids(self, labels: Sequence[str]) -> np.ndarray:
        """Returns the ids of labels.

        Raises:
            TypeError: `labels` is not a list of strings.
            ValueError: A label is not in the label set.
        """
        return label_ids.ids_of(labels, self._label_ids)

    def decode(self, ids: Iterable[int] | np.ndarray) -> list[str]:
        """Returns the labels of ids.

        Raises:
            ValueError: Ids are not whole numbers from 0 to the number of labels.
        """
        return label_ids.names_of(ids, self.label_names)

    def to_json(self) -> str:
        """Returns the content as JSON."""
        return json.dumps(
            {f.name: getattr(self, f.name) for f in dataclasses.fields(self)},
            ensure_ascii=False,
            default=WordPiece.to_dict,
        )

    @classmethod
    def from_json(cls, text: str) -> Vocabulary:
        """Returns the vocabulary that `to_json` wrote."""
        content: dict[str, Any] = json.loads(text)
        for name in ("words", "chars", "label_names"):
            content[name] = tuple(content[name])
        if bounds := content.get("singletons"):
            content["singletons"] = tuple(bounds)
        if sizes := content.get("vector_sizes"):
            content["vector_sizes"] = tuple(sizes)
        if pieces := content.get("pieces"):
            content["pieces"] = WordPiece.of(pieces)
        if sizes := content.get("encoder_sizes"):
            content["encoder_sizes"] = tuple(map(tuple, sizes))
        return cls(**content)


@checked
def build(
    sentences: Sequence[Sequence[str]],
    types: Iterable[str],
    *,
    scheme: str = "BIOES",
    vectors: Vectors | None = None,
    lowercase: bool = False,
    zero_digits: bool = False,
    min_count: Count = 1,
    train_words: bool = True,
    alphabet: str | None = None,
    documents: bool = False,
    unescape: bool = False,
    lowercase_fallback: bool = True,
    typed_unknowns: bool = False,
) -> tuple[Vocabulary, WordVectors | None]:
    """Returns a vocabulary of the training sentences and a vector file.

    Args:
        sentences: Tokens of the training split.
        types: Entity types or tags of the training split.
        scheme: Label scheme for training.
        vectors: Pretrained vectors; the vocabulary includes all their words.
        lowercase: Whether to lower-case words before looking them up.
        zero_digits: Whether to replace digits by 0 first.
        min_count: Rarer training words without a vector are unknown.
        train_words: Whether to train word vectors. If not, only the unknown word's
            vector is trained, and words without a pretrained vector are unknown.
        alphabet: Known characters; None for those of the training words.
        documents: Whether to add the label of separators, for documents.
        unescape: Whether to undo treebank escapes first.
        lowercase_fallback: Whether an unknown word falls back to its lower case.
        typed_unknowns: Whether an unknown character keeps its type, if it is one of
            `features.CHAR_TYPES`.

    Returns:
        The vocabulary, and vectors aligned with it (None without vectors).

    Raises:
        TypeError: `sentences`, `types` or `vectors` has another type.
        ValueError: An option is wrong, or a tag equals the label of separators.

    Example:
        >>> vocabulary, _ = build([["Rome", "wins"]], ["LOC"], scheme="BIO")
        >>> vocabulary.label_names
        ('O', 'B-LOC', 'I-LOC')
        >>> vocabulary.encode(["Rome", "loses"]).words.tolist()
        [2, 1]
    """
    check_text(sentences)
    types = strings("types", types, "['LOC', 'PER']")
    if not isinstance(vectors, Vectors | None):
        raise TypeError(f"vectors must be what vectors.read returns, got {vectors!r}")
    tokens = collections.Counter(token for sentence in sentences for token in sentence)
    tokens = ranking.counted(
        tokens, lambda token: features.normal(token, zero_digits, unescape)
    )
    case = lowercase, lowercase_fallback
    counts = ranking.counted(tokens, str.lower) if lowercase else tokens
    given = {} if vectors is None else {w: i for i, w in enumerate(vectors.words)}
    # A lower-cased word never matches a cased key.
    reachable = [w for w in given if not lowercase or w == w.lower()]
    frequent = [word for word, count in counts.items() if count >= min_count]
    ranks = ranking.rank(tokens, reachable, frequent if train_words else None, case)
    first = len(_SPECIAL) + ranks.first_once
    if alphabet is None:
        alphabet = "".join({char for token in tokens for char in token})
    vocabulary = Vocabulary(
        words=(*_SPECIAL, *ranks.trained, *ranks.frozen),
        num_trained=len(_SPECIAL) + len(ranks.trained),
        chars=(*_SPECIAL, *sorted(set(alphabet))),
        label_names=label_ids.names(types, scheme) + (SEPARATOR,) * documents,
        scheme=scheme,
        lowercase=lowercase,
        zero_digits=zero_digits,
        unescape=unescape,
        lowercase_fallback=lowercase_fallback,
        singletons=(first, first + ranks.num_once),
        typed_unknowns=typed_unknowns,
    )
    if vectors is None:
        return vocabulary, None
    words = vocabulary.words[len(_SPECIAL) :]
    aligned = ranking.align(words, len(ranks.trained), vectors, given, counts, case)
    return vocabulary, aligned._replace(rows=aligned.rows + len(_SPECIAL))
