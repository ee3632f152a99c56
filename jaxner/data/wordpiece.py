"""WordPiece: tokens as pieces of words, in windows of limited length.

Wu et al., "Google's Neural Machine Translation System", 2016, as in Devlin et al.
(2019). The pieces are found by the library `tokenizers` (extra `bert`).
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

from jaxner.types import Pieces

_UNKNOWN, _BEGIN, _END = "[UNK]", "[CLS]", "[SEP]"


@dataclasses.dataclass(frozen=True)
class WordPiece:
    """A vocabulary of word pieces, and how words are made ready for it.

    Attributes:
        vocab: The piece of each id.
        max_length: The most pieces in a window, the two special ones included.
        lowercase: Whether words are lower-cased.
        strip_accents: Whether accents are removed.
        chinese_chars: Whether Chinese characters stand alone.
        max_chars: Longer words are one unknown piece.
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
                f"Expected the pieces {_UNKNOWN}, {_BEGIN} and {_END} in a vocabulary "
                f"of word pieces, got none for {', '.join(absent)}"
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
            raise ImportError(
                "A tagger with word pieces needs tokenizers: pip install 'jaxner[bert]'"
            ) from None
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
        """Splits each token into pieces.

        Args:
            tokens: The words of a sentence.

        Returns:
            The ids of the pieces of each, at least one: a token of which nothing is
            left, such as one of control characters, is unknown.
        """
        found = self._tokenizer.encode(
            list(tokens), is_pretokenized=True, add_special_tokens=False
        )
        pieces: list[list[int]] = [[] for _ in tokens]
        for i, piece in zip(found.word_ids, found.ids, strict=True):
            pieces[i].append(piece)
        return [ids or [self._ids[_UNKNOWN]] for ids in pieces]

    def encode(self, tokens: Sequence[str]) -> Pieces:
        """Lays the pieces of a sentence out in windows; none is left out.

        Args:
            tokens: The words of the sentence.

        Returns:
            One window, or several that overlap (see `windows`), as NumPy arrays. Each
            piece is read in one of them; those of a token in the same one, but for a
            token that is longer than a window.
        """
        tokens = list(tokens)
        pieces = self.split(tokens)
        capacity = self.max_length - 2
        # What is never torn apart: a token, unless no window can hold it.
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
        places = np.full((len(tokens), max(map(len, pieces), default=1)), -1, np.int32)
        start = 0
        for row, own in zip(places, pieces, strict=True):
            row[: len(own)] = flat[start : start + len(own)]
            start += len(own)
        return Pieces(ids, mask, places)

    def to_dict(self) -> dict[str, Any]:
        """Gives the content for a JSON file."""
        return dataclasses.asdict(self)

    @classmethod
    def of(cls, content: Mapping[str, Any]) -> WordPiece:
        """Makes one from what `to_dict` gave."""
        return cls(**{**content, "vocab": tuple(content["vocab"])})


def windows(lengths: Sequence[int], capacity: int) -> list[tuple[int, int]]:
    """Cuts a sequence of units into overlapping windows.

    A window begins about half a window after the one before it, and holds as many units
    as fit; the last one reaches back as far as it can.

    Args:
        lengths: Pieces of each unit; none more than `capacity`.
        capacity: The most pieces in a window.

    Returns:
        The first unit of each window, and the one after its last.

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
    """Finds the window that shows most of what stands around each unit.

    That is the one where the nearer of its edges is farthest, in pieces. The ends of
    the sentence are no edges: nothing is hidden behind them.
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
    """Reads the vocabulary of a local Hugging Face folder.

    `tokenizer.json` says all; without it `vocab.txt` has the pieces, and `tokenizer_
    config.json` says how words are made ready. Where nothing says whether they are
    lower-cased, they are if no piece has an upper-case letter.

    Args:
        folder: Holds these files.
        max_length: The most pieces in a window that the encoder can read.

    Raises:
        FileNotFoundError: There is neither file.
        ValueError: The vocabulary is not one of word pieces, or a file is malformed.
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
            f"{folder} has no vocabulary: expected tokenizer.json or vocab.txt."
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
            lowercase if accents is None else accents,  # as Devlin et al. do
            True if chinese is None else chinese,
            max_chars,
        )
    except ValueError as error:
        raise ValueError(f"{folder}: {error}") from None


def read_json(path: Path) -> dict[str, Any]:
    """Reads a JSON object.

    Args:
        path: The file.

    Raises:
        ValueError: It is no JSON, or no object.
    """
    try:
        content = json.loads(_text(path))
    except json.JSONDecodeError as error:
        raise ValueError(f"{path} is no JSON: {error}") from None
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
    """Reads a `tokenizer.json`: pieces, length of the longest word, and `_facts`."""
    content = read_json(path)
    model = _object(content.get("model"), f"{path}, model")
    kind = model.get("type", "WordPiece")
    if kind != "WordPiece":
        raise ValueError(f"{path}: unknown type {kind!r} of model; known: WordPiece")
    ids = _object(model.get("vocab"), f"{path}, model, vocab")
    # By type, for True is an int as well.
    if {type(i) for i in ids.values()} != {int} or set(ids.values()) != set(
        range(len(ids))
    ):
        raise ValueError(f"{path}: the ids of its pieces are not 0, 1, 2, …")
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
    """Reads how words are made ready, under the names of a `BertNormalizer`."""
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
