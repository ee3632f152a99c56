"""WordPiece: splits tokens into pieces, in windows of limited length.

Wu et al., "Google's Neural Machine Translation System", 2016, as in Devlin et al.
(2019). The library `tokenizers` (extra `bert`) does the splitting.
"""

from __future__ import annotations

import dataclasses
import functools
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from jaxner import disk, errors
from jaxner.data import formats
from jaxner.errors import InputError
from jaxner.types import Pieces

_UNKNOWN, _BEGIN, _END = "[UNK]", "[CLS]", "[SEP]"
_MAX_CHARS = "max_input_chars_per_word"


@dataclasses.dataclass(frozen=True)
class WordPiece:
    """A vocabulary of word pieces, and the normalisation of words.

    Attributes:
        vocab: The piece of each id.
        max_length: Maximum number of pieces in a window, including two special pieces.
        lowercase, strip_accents, chinese_chars: The options of BERT's normaliser.
        max_chars: Words with more characters are one unknown piece.
    """

    vocab: tuple[str, ...]
    max_length: int = 512
    lowercase: bool = False
    strip_accents: bool = False
    chinese_chars: bool = True
    max_chars: int = 100

    def __post_init__(self):
        if not {_UNKNOWN, _BEGIN, _END} <= self._ids.keys():
            raise InputError(f"expected pieces {_UNKNOWN}, {_BEGIN} and {_END}")
        if self.max_length < 3:
            raise InputError(
                f"Expected windows of at least 3 pieces, got {self.max_length}"
            )

    @functools.cached_property
    def _ids(self) -> dict[str, int]:
        return {piece: i for i, piece in enumerate(self.vocab)}

    @functools.cached_property
    def _tokenizer(self) -> Any:
        tokenizers = errors.optional("tokenizers", "A tagger with word pieces")
        model = tokenizers.models.WordPiece(
            self._ids, unk_token=_UNKNOWN, max_input_chars_per_word=self.max_chars
        )
        tokenizer = tokenizers.Tokenizer(model)
        tokenizer.normalizer = tokenizers.normalizers.BertNormalizer(
            clean_text=True,
            handle_chinese_chars=self.chinese_chars,
            strip_accents=self.strip_accents,
            lowercase=self.lowercase,
        )
        tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.BertPreTokenizer()
        return tokenizer

    def split(self, tokens: Sequence[str]) -> list[list[int]]:
        """Returns the ids of the pieces of each token, at least one.

        A token without pieces, such as one of control characters, is the unknown piece.
        """
        encoded = self._tokenizer.encode(
            list(tokens), is_pretokenized=True, add_special_tokens=False
        )
        pieces: list[list[int]] = [[] for _ in tokens]
        for i, piece in zip(encoded.word_ids, encoded.ids, strict=True):
            pieces[i].append(piece)
        return [ids or [self._ids[_UNKNOWN]] for ids in pieces]

    def encode(self, tokens: Sequence[str]) -> Pieces:
        """Returns all pieces of a sentence in one or several overlapping windows.

        Each piece is read in the window with the most context around it, and all pieces
        of a token in the same window unless the token is longer than a window.
        """
        pieces = self.split(tokens)
        capacity = self.max_length - 2
        units: list[list[int]] = []  # which are never split
        for ids in pieces:
            units += [ids] if len(ids) <= capacity else [[i] for i in ids]
        lengths = [len(unit) for unit in units]
        chosen = windows(lengths, capacity)
        ends = np.cumsum([0, *lengths])
        size = max(int(ends[end] - ends[start]) for start, end in chosen) + 2
        rows = np.zeros((len(chosen), size), np.int32)
        mask = np.zeros((len(chosen), size), bool)
        for row, present, (start, end) in zip(rows, mask, chosen, strict=True):
            inside = [i for unit in units[start:end] for i in unit]
            row[: len(inside) + 2] = [self._ids[_BEGIN], *inside, self._ids[_END]]
            present[: len(inside) + 2] = True
        homes = np.repeat(_homes(ends, chosen), lengths)
        firsts = np.array([ends[start] for start, _ in chosen])
        places = homes * size + 1 + np.arange(len(homes)) - firsts[homes]
        longest = max(map(len, pieces), default=1)
        positions = np.full((len(tokens), longest), -1, np.int32)
        counts = np.array([len(ids) for ids in pieces], int)
        positions[np.arange(longest) < counts[:, None]] = places
        return Pieces(rows, mask, positions)


def windows(lengths: Sequence[int], capacity: int) -> list[tuple[int, int]]:
    """Returns first and last (exclusive) unit of windows over a sequence of units.

    A window begins about half a window after the previous one and holds as many units
    as fit; the last window reaches back as far as possible. `lengths` are the pieces of
    each unit, at most `capacity`.
    """
    ends = np.cumsum([0, *lengths])
    # The first unit from which the rest fits in one window.
    last = int(np.searchsorted(ends, ends[-1] - capacity))
    chosen, start = [], 0
    while start < last:
        end = int(np.searchsorted(ends, ends[start] + capacity, side="right")) - 1
        chosen.append((start, end))
        half = int(np.searchsorted(ends, ends[start] + capacity // 2))
        start = min(max(half, start + 1), end, last)
    return [*chosen, (start, len(lengths))]


def _homes(ends: np.ndarray, chosen: Sequence[tuple[int, int]]) -> np.ndarray:
    """Returns the window whose nearer inner edge is farthest from each unit."""
    room = np.full((len(chosen), len(ends) - 1), -1.0)
    for row, (start, end) in zip(room, chosen, strict=True):
        left = ends[start:end] - ends[start] if start else np.inf
        right = ends[end] - ends[start + 1 : end + 1]
        row[start:end] = np.minimum(left, right if end < len(ends) - 1 else np.inf)
    return np.argmax(room, axis=0)


def read(folder: str | os.PathLike[str], max_length: int = 512) -> WordPiece:
    """Returns the vocabulary of a local Hugging Face folder.

    `tokenizer.json` has everything; without it, `vocab.txt` has the pieces and
    `tokenizer_config.json` the normalisation. If no file says whether to lower-case
    words, the reader does so if no piece has an upper-case letter.
    """
    path, listed = Path(folder, "tokenizer.json"), Path(folder, "vocab.txt")
    lower, chinese, max_chars = "lowercase", "handle_chinese_chars", 100
    if path.is_file():
        content = formats.read_json(path)
        options = content.get("normalizer") or {}
        try:
            model = content["model"]
            vocab = tuple(sorted(model["vocab"], key=model["vocab"].__getitem__))
            is_fit = [model["vocab"][piece] for piece in vocab] == [*range(len(vocab))]
            is_fit &= model.get("type", "WordPiece") == "WordPiece"
            max_chars = int(model.get(_MAX_CHARS, max_chars))
        except (AttributeError, KeyError, TypeError, ValueError):
            is_fit = False
        if not is_fit or not isinstance(options, dict):
            message = "expected a WordPiece model whose pieces have the ids 0, 1, 2, …"
            raise InputError(message, path)
    elif listed.is_file():
        vocab = tuple(disk.read_text(listed).removesuffix("\n").split("\n"))
        path = Path(folder, "tokenizer_config.json")
        options = formats.read_json(path) if path.is_file() else {}
        lower, chinese = "do_lower_case", "tokenize_chinese_chars"
    else:
        raise FileNotFoundError(
            f"No vocabulary in {folder}: expected tokenizer.json or vocab.txt"
        )

    def choice(name: str, default: bool) -> bool:
        value = default if options.get(name) is None else options[name]
        if not isinstance(value, bool):
            raise InputError(f"expected true or false as {name}, got {value!r}", path)
        return value

    plain = [p for p in vocab if not (p.startswith("[") and p.endswith("]"))]
    lowercase = choice(lower, all(piece == piece.lower() for piece in plain))
    accents = choice("strip_accents", lowercase)  # as in Devlin et al.
    is_chinese = choice(chinese, True)
    try:
        return WordPiece(vocab, max_length, lowercase, accents, is_chinese, max_chars)
    except InputError as error:
        raise InputError(error.message, folder) from None
