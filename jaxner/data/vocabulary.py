"""The vocabulary: maps tokens to ids, and labels to ids and back.

It depends on the training split and the vector file alone, never on dev or test. Shape
letters: `T` tokens, `U` distinct words, `C` characters.
"""

from __future__ import annotations

import collections
import contextlib
import dataclasses
import functools
import hashlib
import json
import re
import string
import unicodedata
from collections.abc import Callable, Container, Iterable, Sequence
from typing import Any

import numpy as np

from jaxner.arguments import expect
from jaxner.data import schemes
from jaxner.data.pieces import PieceTokenizer
from jaxner.data.vectors import Vectors, fitting
from jaxner.errors import InputError
from jaxner.fields import Count, checked
from jaxner.types import Caps, Sentence, WordVectors
from jaxner.wording import shown

PADDING, UNKNOWN = 0, 1  # the first two ids of words, and of characters
SEPARATOR = "<sep>"  # the label of separators between the sentences of a document
MAX_CHARACTERS = 128  # read of a word: a long one would use as much memory as a text
CHAR_TYPES = {
    "upper": string.ascii_uppercase,
    "lower": string.ascii_lowercase,
    "digit": string.digits,
    "punctuation": string.punctuation,
}
"""The types of characters, from 1, and their characters, as in Li, Fu and Ma (2020); 0
is any other character."""

_SPECIAL = ("<pad>", "<unk>")  # not words: a text may contain "<unk>"
_CACHE_SIZE = 1 << 16  # tokens
_TYPE_OF = {c: i for i, chars in enumerate(CHAR_TYPES.values(), 1) for c in chars}
_DIGIT = re.compile(r"\d")
_ESCAPES = {
    "-LRB-": "(", "-RRB-": ")", "-LSB-": "[", "-RSB-": "]", "-LCB-": "{", "-RCB-": "}",
    "/.": ".", "/?": "?", "/-": "-",
}  # fmt: skip


def caps(token: str) -> Caps:
    """Returns the capitalisation class of a token."""
    if not token:
        return Caps.NONE
    if all(char.isupper() for char in token):
        return Caps.ALL
    if token.isupper():
        return Caps.ALL_FIRST if token[0].isupper() else Caps.ALL_LATER
    if token[0].isupper():
        return Caps.FIRST
    if any(char.isupper() for char in token):
        return Caps.LATER
    return Caps.LOWER if token.islower() else Caps.UNCASED


def is_one_sentence(tokens: Any) -> bool:
    """Returns whether tokens are strings, not lists of them; TypeError if neither."""
    is_one = is_list(tokens) and any(isinstance(token, str) for token in tokens)
    for sentence in [tokens] if is_one or not is_list(tokens) else tokens:
        if not is_list(sentence) or not all(isinstance(x, str) for x in sentence):
            raise TypeError(
                "Expected a list of strings (one sentence), a list of such lists, or "
                f"what jaxner.encode returned, got {shown(sentence)}. For texts, call "
                "jaxner.entities; of another iterable, give list(tokens)."
            )
    return is_one


def is_list(value: object) -> bool:
    """Returns whether a value is a list, a tuple or an array, perhaps of strings."""
    if isinstance(value, np.ndarray):
        return value.ndim > 0 and value.dtype.kind in "OTU"
    return isinstance(value, (list, tuple))


def check_text(sentences: object) -> None:
    """Raises TypeError unless a value is a list of sentences, each of strings."""
    if is_one_sentence(sentences):
        raise TypeError("Expected several sentences, got one: give [sentence].")


def strings(name: str, values: Any, example: str) -> list[str]:
    """Returns the strings of an iterable; raises TypeError if it is anything else."""
    is_several = isinstance(values, Iterable) and not isinstance(values, (str, bytes))
    items: list[Any] = list(values) if is_several else [values]
    is_right = is_several and all(isinstance(item, str) for item in items)
    expect(is_right, f"{name} as a list of strings, such as {example}", values)
    return items


def length(word: bytes) -> int:
    """Returns the number of characters in a word, given as the bytes of their ids."""
    return -(-len(word) // 4)


def spell(words: Sequence[bytes], width: int, count: int = 0) -> np.ndarray:
    """Returns the character ids of words, [U, C], in at least `count` rows.

    A word is the bytes of its character ids (int32), so that a long word does not
    lengthen others; one with more than `width` characters is cut off.
    """
    size = 4 * width
    buffer = b"".join([word[:size].ljust(size, b"\0") for word in words])
    buffer = buffer.ljust(size * count, b"\0")
    return np.frombuffer(buffer, np.int32).reshape(max(len(words), count), width)


@dataclasses.dataclass(frozen=True, eq=False)
class Vocabulary:
    """The words, characters and labels of a tagger, and its rules for looking up words.

    Compares and hashes by a fingerprint of its content, computed once, so that it can
    be a static argument of `jax.jit` at any size. The rules are those of `build`.

    Attributes:
        words: The word of each id; 0 is padding and 1 the unknown word.
        num_trained: Number of words with trained vectors, which come first.
        chars: The character of each id; 0 is padding and 1 the unknown character.
        label_names: The label of each id, last `SEPARATOR` in a tagger of documents.
        scheme: The label scheme, one of `schemes.SCHEMES`, or `schemes.TAGS`.
        singletons: First and last (exclusive) id of the words that occur once in the
            training text (and have no vector, if built so), for `singleton_dropout`.
        vector_sizes: Layers and dimensions of the precomputed vectors of each token.
        pieces: Splits tokens into the pieces of a pretrained encoder.
        encoder_sizes: What `models.pretrained.sizes` says of this encoder.

    Example:
        >>> from jaxner import build_vocabulary
        >>> vocabulary, _ = build_vocabulary([["Rome", "wins"]], ["LOC"], scheme="BIO")
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
    pieces: PieceTokenizer | None = None
    encoder_sizes: tuple[tuple[str, Any], ...] | None = None

    @functools.cached_property
    def fingerprint(self) -> str:
        """The SHA-256 of the content."""
        # As `outputs.write_text` has it: half of a surrogate pair is no UTF-8.
        text = self.to_json().encode("utf-8", "backslashreplace")
        return hashlib.sha256(text).hexdigest()

    def __hash__(self) -> int:
        return hash(self.fingerprint)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Vocabulary) and self.fingerprint == other.fingerprint

    def __repr__(self) -> str:
        return (
            f"Vocabulary({len(self.words):,} words, {len(self.chars)} characters, "
            f"{len(self.label_names)} labels, {self.fingerprint[:8]})"
        )

    @functools.cached_property
    def _ids(self) -> tuple[dict[str, int], dict[str, int], dict[str, int]]:
        """The ids of words, of characters and of labels."""
        first, last = len(_SPECIAL), len(self.chars) - 1
        char_types = _TYPE_OF if self.typed_unknowns else {}
        unknown = {char: last + kind for char, kind in char_types.items()}
        return (
            {word: i for i, word in enumerate(self.words[first:], first)},
            unknown | {char: i for i, char in enumerate(self.chars[first:], first)},
            {label: i for i, label in enumerate(self.label_names)},
        )

    @functools.cached_property
    def _seen(self) -> dict[str, tuple[int, int, bytes]]:
        return {}  # a text has few distinct tokens, each looked up once

    @property
    def types(self) -> tuple[str, ...]:
        """The types of entities, or the tags."""
        names = self.label_names[: -1 if self.reads_documents else None]
        return names if self.scheme == schemes.TAGS else schemes.types_of(names)

    @property
    def span_labels(self) -> list[str]:
        """The label names, with `O` for separators."""
        return ["O" if name == SEPARATOR else name for name in self.label_names]

    @property
    def reads_documents(self) -> bool:
        """Whether the tagger reads documents with separators, not single sentences."""
        return self.label_names[-1:] == (SEPARATOR,)

    @functools.cached_property
    def char_types(self) -> tuple[int, ...]:
        """The type of each character id; see `CHAR_TYPES`.

        With `typed_unknowns`, four more ids follow those of `chars`, one for unknown
        characters of each type. They share the vector of the unknown character.
        """
        types = [0, 0, *(_TYPE_OF.get(c, 0) for c in self.chars[len(_SPECIAL) :])]
        if self.typed_unknowns:
            types += range(1, len(CHAR_TYPES) + 1)
        return tuple(types)

    def normalise(self, token: str) -> str:
        """Returns the token by the rules: composed (NFC), unescaped, with digits as 0.

        Digits become 0 as in Lample et al. (2016); the escapes are OntoNotes'.
        """
        token = unicodedata.normalize("NFC", token)
        token = _ESCAPES.get(token, token) if self.unescape else token
        return _DIGIT.sub("0", token) if self.zero_digits else token

    def look_up(self, token: str, inventory: Container[str]) -> str | None:
        """Returns the known word for a normalised token, itself or its lower case."""
        if not self.lowercase and token in inventory:
            return token
        lower_token = token.lower()
        uses_lower = self.lowercase or self.lowercase_fallback
        return lower_token if uses_lower and lower_token in inventory else None

    def word_id(self, token: str) -> int:
        """Returns the id of a token or its lower case, else of the unknown word."""
        word = self.look_up(self.normalise(token), self._ids[0])
        return self._ids[0].get(word, UNKNOWN) if word else UNKNOWN

    def encode(self, tokens: Sequence[str], vectors: object = None) -> Sentence:
        """Returns one sentence, maybe empty, as NumPy arrays without padding.

        `chars` [U, C] are those of the distinct words; C is the length of the longest,
        1 to `MAX_CHARACTERS`. A tagger with precomputed vectors needs `vectors`: an
        array [T, D] or [S, T, D], or `TokenVectors`, which are read when needed.
        `InputError`: vectors are missing, unexpected, or of another size.
        """
        if not is_one_sentence(tokens) and len(tokens):
            raise TypeError("Expected one sentence (a list of strings), got several")
        vectors = fitting(vectors, tokens, self.vector_sizes)
        pieces = None
        if self.pieces is not None:
            # The encoder handles case and digits itself, but never saw escapes.
            escapes = _ESCAPES if self.unescape else {}
            pieces = self.pieces.encode([escapes.get(token, token) for token in tokens])
        entries = [self._encode_token(token) for token in tokens]
        ids = np.array([entry[:2] for entry in entries], np.int32).reshape(-1, 2)
        rows = {b"": 0}  # of each distinct word
        index = [rows.setdefault(entry[2], len(rows)) for entry in entries]
        chars = spell(list(rows), max(map(length, rows)) or 1)
        return Sentence(
            ids[:, 0].copy(),
            chars,
            np.array(index, np.int32),
            np.ones(len(tokens), bool),
            ids[:, 1].copy(),
            vectors,
            pieces,
        )

    def _encode_token(self, token: str) -> tuple[int, int, bytes]:
        """Returns word id, capitalisation class and characters (int32) of a token."""
        entry = self._seen.get(token)
        if entry is None:
            normal = self.normalise(token)
            ids = self._ids[1]
            chars = [ids.get(char, UNKNOWN) for char in normal[:MAX_CHARACTERS]]
            spelling = np.array(chars, np.int32).tobytes()
            entry = self.word_id(token), int(caps(normal)), spelling
            if len(self._seen) >= _CACHE_SIZE:
                self._seen.clear()
            self._seen[token] = entry
        return entry

    def forget(self) -> None:
        """Empties the cache of encoded tokens; results stay the same."""
        self._seen.clear()

    def label_ids(self, labels: Sequence[str]) -> np.ndarray:
        """Returns the ids of labels, [T]; an unknown label is an InputError."""
        labels, ids = strings("labels", labels, "['B-LOC', 'O']"), self._ids[2]
        if unknown := [label for label in labels if label not in ids]:
            raise InputError(
                f"Label {unknown[0]!r} does not occur in the training data; known "
                f"labels: {', '.join(self.label_names)}"
            )
        return np.array([ids[label] for label in labels], np.int32)

    def decode(self, ids: Iterable[Any]) -> list[str]:
        """Returns the labels of one sentence's ids; `InputError`: an id is unknown."""
        names = self.label_names
        try:
            numbers = ids.tolist() if isinstance(ids, np.ndarray) else list(ids)
            if min(numbers, default=0) >= 0:
                return [names[i] for i in numbers]
        except (TypeError, LookupError):
            pass
        last = len(names) - 1
        raise InputError(
            f"Expected ids of one sentence, from 0 to {last}, got {shown(ids)}."
        )

    def to_json(self) -> str:
        """Returns the content as JSON."""
        return json.dumps(
            {f.name: getattr(self, f.name) for f in dataclasses.fields(self)},
            ensure_ascii=False,
            default=dataclasses.asdict,
        )

    @classmethod
    def from_json(cls, text: str) -> Vocabulary:
        """Returns the vocabulary that `to_json` wrote."""
        content: dict[str, Any] = json.loads(text)
        for name, value in content.items():
            if isinstance(value, list):
                content[name] = tuple(value)
        if pieces := content.get("pieces"):
            content["pieces"] = PieceTokenizer(**pieces)
        if sizes := content.get("encoder_sizes"):
            content["encoder_sizes"] = tuple(map(tuple, sizes))
        vocabulary = cls(**content)
        for name in ("words", "chars", "label_names"):
            if {*map(type, content[name])} != {str}:
                raise InputError(f"expected {name} as an array of strings")
        if vocabulary.num_trained not in range(1, len(vocabulary.words) + 1):
            raise InputError("expected num_trained as a number of words")
        bounds, ids = vocabulary.singletons, range(len(vocabulary.words) + 1)
        if not isinstance(bounds, tuple) or [x in ids for x in bounds] != [True, True]:
            raise InputError("expected singletons as two ids of words")
        return vocabulary


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
    singletons_with_vectors: bool = True,
    alphabet: str | None = None,
    documents: bool = False,
    unescape: bool = False,
    lowercase_fallback: bool = True,
    typed_unknowns: bool = False,
) -> tuple[Vocabulary, WordVectors | None]:
    """Returns a vocabulary of the training sentences and a vector file.

    With `vectors`, also returns these aligned with the vocabulary, else None.

    Args:
        sentences: Tokens of the training split.
        types: Its entity types or tags; labels ("B-LOC", "O") count as their types.
        scheme: Label scheme for training.
        vectors: Pretrained vectors; the vocabulary includes all their words.
        lowercase: Whether to lower-case words before looking them up; not characters.
        zero_digits: Whether to replace digits by 0 first.
        min_count: Occurrences that a training word without a vector needs to be known.
        train_words: Whether to train word vectors. If not, only the unknown word's
            vector is trained, and words without a pretrained vector are unknown.
        singletons_with_vectors: Whether words that occur once count as singletons
            (`singleton_dropout`) if they have a vector.
        alphabet: Known characters; None for those of the training words.
        documents: Whether to add the label of separators, for documents.
        unescape: Whether to undo treebank escapes first: -LRB- is a bracket.
        lowercase_fallback: Whether an unknown word falls back to its lower case.
        typed_unknowns: Whether unknown ASCII characters keep a type (upper, digit, …).

    Example:
        >>> from jaxner import build_vocabulary
        >>> vocabulary, _ = build_vocabulary([["Rome", "wins"]], ["LOC"], scheme="BIO")
        >>> vocabulary.label_names
        ('O', 'B-LOC', 'I-LOC')
    """
    check_text(sentences)
    label_names = _label_names(strings("types", types, "['LOC', 'PER']"), scheme)
    is_right = isinstance(vectors, Vectors | None)
    expect(is_right, "vectors as jaxner.data.vectors.read returns them", vectors)
    rules = Vocabulary(
        (),
        0,
        (),
        label_names + ((SEPARATOR,) if documents else ()),
        scheme,
        lowercase=lowercase,
        zero_digits=zero_digits,
        unescape=unescape,
        lowercase_fallback=lowercase_fallback,
        typed_unknowns=typed_unknowns,
    )
    tokens = collections.Counter(token for sentence in sentences for token in sentence)
    tokens = _recounted(tokens, rules.normalise)
    counts = _recounted(tokens, str.lower) if lowercase else tokens
    rows: dict[str, int] = {}
    for i, word in enumerate(() if vectors is None else vectors.words):
        rows.setdefault(unicodedata.normalize("NFC", word), i)
    # A lower-cased word never matches a cased key.
    reachable = [word for word in rows if not lowercase or word == word.lower()]
    known_words = {*reachable}
    if train_words:
        known_words |= {word for word, n in counts.items() if n >= min_count}

    # Only words that some training token maps to can receive gradients; these are
    # trained, the most frequent first, so that singletons are the last of them. If no
    # word is trained, singletons come first.
    uses = _recounted(tokens, lambda token: rules.look_up(token, known_words))
    singletons = {word for word, count in uses.items() if count == 1}
    if not singletons_with_vectors:
        singletons = {x for x in singletons if rules.look_up(x, rows) is None}
    if train_words:
        trained_words = sorted(uses, key=lambda x: (-uses[x], x in singletons, x))
        frozen = [word for word in reachable if word not in uses]
        first = len(_SPECIAL) + len(trained_words) - len(singletons)
    else:
        trained_words = []
        frozen = sorted(reachable, key=lambda word: word not in singletons)
        first = len(_SPECIAL)
    if alphabet is None:
        alphabet = "".join({char for token in tokens for char in token})
    vocabulary = dataclasses.replace(
        rules,
        words=(*_SPECIAL, *trained_words, *frozen),
        num_trained=len(_SPECIAL) + len(trained_words),
        chars=(*_SPECIAL, *sorted(set(alphabet))),
        singletons=(first, first + len(singletons)),
    )
    if vectors is None:
        return vocabulary, None
    sources = [rules.look_up(word, rows) for word in trained_words]
    matched_words = [word for word in counts if rules.look_up(word, rows) is not None]
    word_vectors = WordVectors(
        rows=np.array([i for i, s in enumerate(sources, 2) if s is not None], np.int64),
        trained=vectors.values[[rows[s] for s in sources if s is not None]],
        frozen=vectors.values[[rows[word] for word in frozen]],
        types_matched=len(matched_words) / max(len(counts), 1),
        tokens_matched=sum(counts[w] for w in matched_words) / max(counts.total(), 1),
    )
    return vocabulary, word_vectors


def _label_names(types: Sequence[str], scheme: str) -> tuple[str, ...]:
    """Returns the label set of entity types (or of their labels), or of tags."""
    # Without either, B is a type.
    if scheme != schemes.TAGS and any(kind == "O" or "-" in kind for kind in types):
        kinds: Sequence[str] = ()
        with contextlib.suppress(InputError):
            kinds = schemes.types_of(types)
        if "O" in types and not kinds:
            message = "'O' is the label of tokens outside all entities: give entity "
            raise InputError(f"{message}types, such as ['LOC', 'PER']")
        types = kinds or types
    names = schemes.label_names(types, scheme)
    if SEPARATOR in names:
        message = f"{SEPARATOR!r} is reserved for separators between sentences"
        raise InputError(f"{message}: rename this tag")
    return names


def _recounted(
    tokens: collections.Counter[str], change: Callable[[str], str | None]
) -> collections.Counter[str]:
    """Returns the counts of tokens after a change; None: the token is left out."""
    counts: collections.Counter[str] = collections.Counter()
    for token, count in tokens.items():
        if (word := change(token)) is not None:
            counts[word] += count
    return counts
