"""WordPiece: splits tokens into pieces, in windows of limited length.

Wu et al., "Google's Neural Machine Translation System", 2016, as in Devlin et al.
(2019). The library `tokenizers` (extra `bert`) does the splitting.
"""

from __future__ import annotations

import dataclasses
import functools
import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from jaxner import errors
from jaxner.errors import InputError
from jaxner.types import Pieces

_UNKNOWN, _BEGIN, _END = "[UNK]", "[CLS]", "[SEP]"
_LOWER, _ACCENTS, _CHINESE = "lowercase", "strip_accents", "handle_chinese_chars"
# The names of the normalisation's options in tokenizer_config.json.
_CONFIG = {_LOWER: "do_lower_case", _CHINESE: "tokenize_chinese_chars"}


@dataclasses.dataclass(frozen=True)
class WordPiece:
    """A vocabulary of word pieces, and the normalisation of words.

    Attributes:
        vocab: The piece of each id.
        max_length: Maximum number of pieces in a window, including two special pieces.
        lowercase: Whether to lower-case words.
        strip_accents: Whether to remove accents.
        chinese_chars: Whether to split Chinese characters.
        max_chars: Words with more characters are one unknown piece.
    """

    vocab: tuple[str, ...]
    max_length: int = 512
    lowercase: bool = False
    strip_accents: bool = False
    chinese_chars: bool = True
    max_chars: int = 100

    def __post_init__(self):
        if absent := [p for p in (_UNKNOWN, _BEGIN, _END) if p not in self._ids]:
            raise InputError(
                f"A vocabulary of word pieces needs {_UNKNOWN}, {_BEGIN} and {_END}; "
                f"missing: {', '.join(absent)}"
            )
        if self.max_length < 3:
            raise InputError(
                f"Expected windows of at least 3 pieces, got {self.max_length}"
            )

    @functools.cached_property
    def _ids(self) -> dict[str, int]:
        return {piece: i for i, piece in enumerate(self.vocab)}

    @functools.cached_property
    def _tokenizer(self) -> Any:
        try:
            import tokenizers
        except ImportError:
            raise errors.needs("A tagger with word pieces", "tokenizers") from None
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

        Each piece is read in one window, and all pieces of a token in the same window
        unless the token is longer than a window; see `windows`.
        """
        pieces = self.split(tokens)
        capacity = self.max_length - 2
        # Units that are never split: tokens, unless too long for a window.
        units = [
            unit
            for ids in pieces
            for unit in ([ids] if len(ids) <= capacity else [[i] for i in ids])
        ]
        lengths = [len(unit) for unit in units]
        chosen = windows(lengths, capacity)
        ends = np.cumsum([0, *lengths])
        size = max(int(ends[end] - ends[start]) for start, end in chosen) + 2
        ids = np.zeros((len(chosen), size), np.int32)
        mask = np.zeros((len(chosen), size), bool)
        for row, present, (start, end) in zip(ids, mask, chosen, strict=True):
            inside = [i for unit in units[start:end] for i in unit]
            row[: len(inside) + 2] = [self._ids[_BEGIN], *inside, self._ids[_END]]
            present[: len(inside) + 2] = True
        # The place of each piece in the concatenated windows.
        homes = np.repeat(_homes(lengths, chosen), lengths)
        firsts = np.array([ends[start] for start, _ in chosen])
        places = homes * size + 1 + np.arange(len(homes)) - firsts[homes]
        longest = max(map(len, pieces), default=1)
        positions = np.full((len(tokens), longest), -1, np.int32)
        counts = np.array([len(ids) for ids in pieces], int)
        positions[np.arange(longest) < counts[:, None]] = places
        return Pieces(ids, mask, positions)


def windows(lengths: Sequence[int], capacity: int) -> list[tuple[int, int]]:
    """Returns first and last (exclusive) unit of windows over a sequence of units.

    A window begins about half a window after the previous one and holds as many units
    as fit; the last window reaches back as far as possible.

    Args:
        lengths: Pieces of each unit, at most `capacity`.
        capacity: Maximum number of pieces in a window.

    Example:
        >>> windows([1, 1, 1, 1, 1, 1, 1], 4)
        [(0, 4), (2, 6), (3, 7)]
        >>> windows([2, 1], 4)
        [(0, 2)]
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


def _homes(lengths: Sequence[int], chosen: Sequence[tuple[int, int]]) -> np.ndarray:
    """Returns the window with the most context around each unit.

    This is the window whose nearer edge is farthest, in pieces. The ends of the
    sentence do not count as edges.
    """
    ends = np.cumsum([0, *lengths])
    homes = np.zeros(len(lengths), int)
    best = np.full(len(lengths), -1.0)
    for window, (start, end) in enumerate(chosen):
        left = ends[start:end] - ends[start] if start else np.inf
        right = ends[end] - ends[start + 1 : end + 1]
        right = right if end < len(lengths) else np.inf
        room = np.broadcast_to(np.minimum(left, right), (end - start,))
        better = room > best[start:end]
        homes[start:end][better] = window
        best[start:end][better] = room[better]
    return homes


def read(folder: str | os.PathLike[str], max_length: int = 512) -> WordPiece:
    """Returns the vocabulary of a local Hugging Face folder.

    `tokenizer.json` has everything. Without it, `vocab.txt` has the pieces and
    `tokenizer_config.json` the normalisation. If no file says whether to lower-case
    words, the reader does so if no piece has an upper-case letter.

    Args:
        folder: Folder of these files.
        max_length: Maximum number of pieces in a window of the encoder.

    Raises:
        FileNotFoundError: Both files are missing.
        InputError: The vocabulary is not for WordPiece, or a file is malformed.
    """
    whole, listed = Path(folder, "tokenizer.json"), Path(folder, "vocab.txt")
    config = Path(folder, "tokenizer_config.json")
    names, max_chars = _CONFIG, 100
    if whole.is_file():
        path, content, names = whole, read_json(whole), {}
        model, options = content.get("model"), content.get("normalizer") or {}
        if not isinstance(model, dict) or not isinstance(options, dict):
            raise InputError("expected objects as model and normalizer", path)
        ids = model.get("vocab")
        if model.get("type", "WordPiece") != "WordPiece" or not isinstance(ids, dict):
            raise InputError("expected a model of type WordPiece with a vocab", path)
        if sorted(ids.values(), key=str) != sorted(range(len(ids)), key=str):
            raise InputError("ids of pieces must be 0, 1, 2, …", path)
        vocab = tuple(sorted(ids, key=ids.__getitem__))
        max_chars = model.get("max_input_chars_per_word", max_chars)
    elif listed.is_file():
        vocab = tuple(_text(listed).removesuffix("\n").split("\n"))
        path, options = config, read_json(config) if config.is_file() else {}
    else:
        raise FileNotFoundError(
            f"No vocabulary in {folder}: expected tokenizer.json or vocab.txt"
        )

    def choice(name: str, default: bool) -> bool:
        value = options.get(names.get(name, name))
        if not (value is None or isinstance(value, bool)):
            name = names.get(name, name)
            raise InputError(f"expected true or false as {name}, got {value!r}", path)
        return default if value is None else value

    cased = [p for p in vocab if not (p.startswith("[") and p.endswith("]"))]
    lowercase = choice(_LOWER, all(piece == piece.lower() for piece in cased))
    accents = choice(_ACCENTS, lowercase)  # as in Devlin et al.
    chinese = choice(_CHINESE, True)
    if type(max_chars) is not int:
        raise InputError(f"max_input_chars_per_word is {max_chars!r}", path)
    try:
        return WordPiece(vocab, max_length, lowercase, accents, chinese, max_chars)
    except InputError as error:
        raise InputError(error.message, folder) from None


def read_json(path: Path) -> dict[str, Any]:
    """Returns the JSON object in a file; raises InputError if it is anything else."""
    try:
        content = json.loads(_text(path))
    except json.JSONDecodeError as error:
        raise InputError(f"not JSON: {error}", path) from None
    if not isinstance(content, Mapping):
        raise InputError(f"expected a JSON object, got {str(content)[:40]!r}", path)
    return dict(content)


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise InputError(f"not UTF-8: {error}", path) from None
