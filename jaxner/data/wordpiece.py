"""WordPiece: splits tokens into pieces, in windows of limited length.

Wu et al., "Google's Neural Machine Translation System", 2016, as in Devlin et al.
(2019). The library `tokenizers` (extra `bert`) does the splitting.
"""

from __future__ import annotations

import dataclasses
import functools
import json
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from jaxner import errors
from jaxner.types import Pieces

_UNKNOWN, _BEGIN, _END = "[UNK]", "[CLS]", "[SEP]"


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
        absent = [p for p in (_UNKNOWN, _BEGIN, _END) if p not in self._ids]
        if absent:
            raise ValueError(
                f"A vocabulary of word pieces needs {_UNKNOWN}, {_BEGIN} and {_END}; "
                f"missing: {', '.join(absent)}"
            )
        if self.max_length < 3:
            raise ValueError(
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
        """Returns the pieces of each token.

        Args:
            tokens: Words of a sentence.

        Returns:
            Ids of the pieces of each token, at least one: a token without any, such as
            one of control characters, is the unknown piece.
        """
        found = self._tokenizer.encode(
            list(tokens), is_pretokenized=True, add_special_tokens=False
        )
        pieces: list[list[int]] = [[] for _ in tokens]
        for i, piece in zip(found.word_ids, found.ids, strict=True):
            pieces[i].append(piece)
        return [ids or [self._ids[_UNKNOWN]] for ids in pieces]

    def encode(self, tokens: Sequence[str]) -> Pieces:
        """Returns all pieces of a sentence in windows.

        Args:
            tokens: Words of the sentence.

        Returns:
            One window or several overlapping windows (see `windows`), as NumPy arrays.
            Each piece is read in one window, and all pieces of a token in the same
            window unless the token is longer than a window.
        """
        tokens = list(tokens)
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
        homes = _homes(lengths, chosen)
        ends = np.cumsum([0, *lengths])
        size = max(int(ends[end] - ends[start]) for start, end in chosen) + 2
        ids = np.zeros((len(chosen), size), np.int32)
        mask = np.zeros((len(chosen), size), bool)
        for row, present, (start, end) in zip(ids, mask, chosen, strict=True):
            inside = [i for unit in units[start:end] for i in unit]
            row[: len(inside) + 2] = [self._ids[_BEGIN], *inside, self._ids[_END]]
            present[: len(inside) + 2] = True
        flat = [
            home * size + 1 + int(ends[unit] - ends[chosen[home][0]]) + i
            for unit, home in enumerate(homes)
            for i in range(lengths[unit])
        ]
        positions = np.full(
            (len(tokens), max(map(len, pieces), default=1)), -1, np.int32
        )
        start = 0
        for row, own in zip(positions, pieces, strict=True):
            row[: len(own)] = flat[start : start + len(own)]
            start += len(own)
        return Pieces(ids, mask, positions)

    def to_dict(self) -> dict[str, Any]:
        """Returns the content for a JSON file."""
        return dataclasses.asdict(self)

    @classmethod
    def of(cls, content: Mapping[str, Any]) -> WordPiece:
        """Returns the vocabulary that `to_dict` described."""
        return cls(**{**content, "vocab": tuple(content["vocab"])})


def windows(lengths: Sequence[int], capacity: int) -> list[tuple[int, int]]:
    """Returns overlapping windows over a sequence of units.

    A window begins about half a window after the previous one and holds as many units
    as fit; the last window reaches back as far as possible.

    Args:
        lengths: Pieces of each unit, at most `capacity`.
        capacity: Maximum number of pieces in a window.

    Returns:
        First and last (exclusive) unit of each window.

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


def _homes(lengths: Sequence[int], chosen: Sequence[tuple[int, int]]) -> list[int]:
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
    return homes.tolist()


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
        ValueError: The vocabulary is not for WordPiece, or a file is malformed.
    """
    folder = Path(folder)
    whole, listed = folder / "tokenizer.json", folder / "vocab.txt"
    if whole.is_file():
        vocab, max_chars, facts = _whole(whole)
    elif listed.is_file():
        vocab, max_chars = tuple(_text(listed).removesuffix("\n").split("\n")), 100
        facts = _facts(folder / "tokenizer_config.json")
    else:
        raise FileNotFoundError(
            f"No vocabulary in {folder}: expected tokenizer.json or vocab.txt"
        )
    lowercase = facts.get("lowercase")
    if lowercase is None:
        cased = (p for p in vocab if not (p.startswith("[") and p.endswith("]")))
        lowercase = all(piece == piece.lower() for piece in cased)
    accents = facts.get("strip_accents")
    chinese = facts.get("handle_chinese_chars")
    try:
        return WordPiece(
            vocab,
            max_length,
            lowercase,
            lowercase if accents is None else accents,  # as in Devlin et al.
            True if chinese is None else chinese,
            max_chars,
        )
    except ValueError as error:
        raise ValueError(f"{folder}: {error}") from None


def read_json(path: Path) -> dict[str, Any]:
    """Returns the JSON object in a file.

    Args:
        path: The file.

    Raises:
        ValueError: The file is not a JSON object.
    """
    try:
        content = json.loads(_text(path))
    except json.JSONDecodeError as error:
        raise ValueError(f"{path} is not JSON: {error}") from None
    return _object(content, path)


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise ValueError(f"{path} is not UTF-8: {error}") from None


def _object(content: Any, where: object) -> dict[str, Any]:
    if not isinstance(content, dict):
        raise ValueError(f"{where}: expected a JSON object, got {str(content)[:40]!r}")
    return content


def _whole(path: Path) -> tuple[tuple[str, ...], int, dict[str, Any]]:
    """Returns pieces, maximum word length and `_facts` of a `tokenizer.json`."""
    content = read_json(path)
    model = _object(content.get("model"), f"{path}, model")
    kind = model.get("type", "WordPiece")
    if kind != "WordPiece":
        raise ValueError(f"{path}: unknown type {kind!r} of model; known: WordPiece")
    ids = _object(model.get("vocab"), f"{path}, model, vocab")
    # By type, since True is an int too.
    if {type(i) for i in ids.values()} != {int} or set(ids.values()) != set(
        range(len(ids))
    ):
        raise ValueError(f"{path}: ids of pieces must be 0, 1, 2, …")
    longest = model.get("max_input_chars_per_word", 100)
    if type(longest) is not int or longest < 1:
        raise ValueError(
            f"{path}: expected a whole number above 0 as max_input_chars_per_word, got "
            f"{longest!r}"
        )
    facts = _object(content.get("normalizer") or {}, f"{path}, normalizer")
    vocab = tuple(sorted(ids, key=ids.__getitem__))
    return vocab, longest, _choices(facts, _NAMES.values(), path)


_NAMES = {
    "do_lower_case": "lowercase",
    "strip_accents": "strip_accents",
    "tokenize_chinese_chars": "handle_chinese_chars",
}


def _facts(path: Path) -> dict[str, Any]:
    """Returns the normalisation, with the option names of `BertNormalizer`."""
    content = _choices(read_json(path) if path.is_file() else {}, _NAMES, path)
    return {_NAMES[name]: value for name, value in content.items()}


def _choices(
    content: Mapping[str, Any], names: Iterable[str], path: Path
) -> dict[str, bool | None]:
    found = {name: content[name] for name in names if name in content}
    for name, value in found.items():
        if not (value is None or isinstance(value, bool)):
            raise ValueError(
                f"{path}: expected true, false or null as {name}, got {value!r}"
            )
    return found
