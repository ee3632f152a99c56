"""Pieces: splits tokens for pretrained encoders, in windows of limited length.

The library `tokenizers` (extra `bert`) does the splitting, by any `tokenizer.json`:
WordPiece (Devlin et al., 2019), byte-level BPE (Radford et al., 2019) or Unigram (Kudo,
2018).
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import json
import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from jaxner import errors, outputs
from jaxner.data import spans
from jaxner.errors import InputError
from jaxner.types import Pieces

_NORMALISATION = {
    "do_lower_case": "lowercase",
    "strip_accents": "strip_accents",
    "tokenize_chinese_chars": "handle_chinese_chars",
}
"""What a tokenizer_config.json calls BERT's options in tokenizer.json."""
_UNKNOWN = ("[UNK]", "<unk>")
_PADDING, _MASK = ("[PAD]", "<pad>"), ("[MASK]", "<mask>")
_HALF = re.compile("[\ud800-\udfff]")  # of a surrogate pair, which is no character
_LONG = 512  # characters of a token; time and memory grow with those of the longest
_RARE = "\U00013000"  # a hieroglyph, of which no vocabulary here knows


@dataclasses.dataclass(frozen=True)
class PieceTokenizer:
    """The content of a `tokenizer.json`, and the length of the encoder's windows.

    InputError: the library cannot read the content, or windows have no room.
    """

    json: str
    max_length: int = 512  # pieces of a window, including special ones

    def __post_init__(self):
        special = sum(map(len, self._special))
        if self.max_length <= special:
            raise InputError(
                f"Expected windows of more than {special} pieces, got {self.max_length}"
            )

    @functools.cached_property
    def _tokenizer(self) -> Any:
        tokenizers = errors.optional("tokenizers", "A pretrained encoder")
        try:
            tokenizer = tokenizers.Tokenizer.from_str(self.json)
            tokenizer.encode(_RARE)  # fails if its model names a piece that is missing
        except Exception as error:  # the library raises nothing narrower
            raise InputError(f"cannot be read: {error}") from None
        tokenizer.no_truncation()
        tokenizer.no_padding()
        tokenizer.encode_special_tokens = True  # "[SEP]" in a text is a word
        return tokenizer

    @functools.cached_property
    def size(self) -> int:
        """The largest id plus one: some ids may stand for nothing."""
        return max(self._tokenizer.get_vocab().values()) + 1

    @functools.cached_property
    def _unknown(self) -> int:
        names = getattr(self._tokenizer.model, "unk_token", None) or "", *_UNKNOWN
        ids = map(self._tokenizer.token_to_id, names)
        candidates = [i for i in ids if i is not None]
        if not candidates:
            raise InputError(f"expected a piece {' or '.join(_UNKNOWN)}")
        return candidates[0]

    @functools.cached_property
    def _special(self) -> tuple[list[int], list[int]]:
        """The ids that begin and end a window."""
        whole = self._tokenizer.encode(["a"], is_pretokenized=True)
        places = [i for i, word in enumerate(whole.word_ids) if word is not None]
        first, last = (places[0], places[-1]) if places else (len(whole), len(whole))
        return whole.ids[:first], whole.ids[last + 1 :]

    @property
    def special(self) -> dict[str, tuple[int, str]]:
        """The id of each special piece and the piece, by transformers' name of it."""
        (begin, close), get = self._special, self._tokenizer.token_to_id
        ids = {"unk": [self._unknown], "cls": begin, "sep": close[-1:]}
        for name, spellings in {"pad": _PADDING, "mask": _MASK}.items():
            ids[name] = [i for i in map(get, spellings) if i is not None]
        firsts = {name: piece_ids[0] for name, piece_ids in ids.items() if piece_ids}
        return {name: (i, self._tokenizer.id_to_token(i)) for name, i in firsts.items()}

    def split(self, tokens: Sequence[str]) -> list[list[int]]:
        """Returns the ids of each token's pieces, or of the unknown piece."""
        encoding = self._tokenizer.encode(
            [_HALF.sub("\ufffd", token[:_LONG]) for token in tokens],
            is_pretokenized=True,
            add_special_tokens=False,
        )
        begin, close = self._special
        special = {*begin, *close}  # which Unigram models also know as words
        pieces: list[list[int]] = [[] for _ in tokens]
        for i, piece in zip(encoding.word_ids, encoding.ids, strict=True):
            pieces[i].append(self._unknown if piece in special else piece)
        return [ids or [self._unknown] for ids in pieces]

    def encode(self, tokens: Sequence[str]) -> Pieces:
        """Returns all pieces of a sentence in one or several overlapping windows.

        Each piece is read in the window with the most context around it, and all pieces
        of a token in the same window unless the token is longer than a window.
        """
        pieces = self.split(tokens)
        begin, close = self._special
        extra = len(begin) + len(close)
        capacity = self.max_length - extra
        units: list[list[int]] = []  # which are never split
        for ids in pieces:
            units += [ids] if len(ids) <= capacity else [[i] for i in ids]
        lengths = [len(unit) for unit in units]
        bounds = windows(lengths, capacity)
        ends = np.cumsum([0, *lengths])
        size = max(int(ends[end] - ends[start]) for start, end in bounds) + extra
        rows = np.zeros((len(bounds), size), np.int32)
        mask = np.zeros((len(bounds), size), bool)
        for row, present, (start, end) in zip(rows, mask, bounds, strict=True):
            piece_ids = [i for unit in units[start:end] for i in unit]
            row[: len(piece_ids) + extra] = [*begin, *piece_ids, *close]
            present[: len(piece_ids) + extra] = True
        homes = np.repeat(_homes(ends, bounds), lengths)
        firsts = np.array([ends[start] for start, _ in bounds])
        places = homes * size + len(begin) + np.arange(len(homes)) - firsts[homes]
        longest = max(map(len, pieces), default=1)
        positions = np.full((len(tokens), longest), -1, np.int32)
        counts = np.array([len(ids) for ids in pieces], int)
        positions[np.arange(longest) < counts[:, None]] = places
        return Pieces(rows, mask, positions)


def windows(lengths: Sequence[int], capacity: int) -> list[tuple[int, int]]:
    """Returns start and end of windows over units, whose `lengths` are in pieces.

    A window begins about half a window after the previous one and holds as many units
    as fit; the last window reaches back as far as possible.
    """
    ends = np.cumsum([0, *lengths])
    # The first unit from which the rest fits in one window.
    last = int(np.searchsorted(ends, ends[-1] - capacity))
    bounds, start = [], 0
    while start < last:
        end = int(np.searchsorted(ends, ends[start] + capacity, side="right")) - 1
        bounds.append((start, end))
        half = int(np.searchsorted(ends, ends[start] + capacity // 2))
        start = min(max(half, start + 1), end, last)
    return [*bounds, (start, len(lengths))]


def _homes(ends: np.ndarray, bounds: Sequence[tuple[int, int]]) -> np.ndarray:
    """Returns the window whose nearer inner edge is farthest from each unit."""
    homes, most = np.zeros(len(ends) - 1, int), np.full(len(ends) - 1, -1.0)
    for i, (start, end) in enumerate(bounds):
        left = ends[start:end] - ends[start] if start else np.inf
        right = ends[end] - ends[start + 1 : end + 1]
        room = np.minimum(left, right if end < len(ends) - 1 else np.inf)
        homes[start:end][room > most[start:end]] = i
        most[start:end] = np.maximum(room, most[start:end])
    return homes


def word_pieces(vocab: Sequence[str], lowercase: bool = False) -> PieceTokenizer:
    """Returns BERT's tokenizer of the piece of each id; lower case has no accents."""
    ids = {piece: i for i, piece in enumerate(vocab)}
    if absent_pieces := [p for p in ("[UNK]", "[CLS]", "[SEP]") if p not in ids]:
        raise InputError(f"expected a piece {absent_pieces[0]}")
    tokenizers = errors.optional("tokenizers", "A pretrained encoder")
    tokenizer = tokenizers.BertWordPieceTokenizer(ids, lowercase=lowercase)
    return PieceTokenizer(tokenizer.to_str())


def read(folder: str | os.PathLike[str], max_length: int = 512) -> PieceTokenizer:
    """Returns the tokenizer of a local Hugging Face folder.

    It has tokenizer.json; or vocab.txt with BERT's pieces, whose words are lower-cased
    if no piece has an upper-case letter. tokenizer_config.json, if there, has the last
    word on BERT's normalisation, as in transformers. Each token begins a word of its
    own, with the space that such pieces have in a text.
    """
    paths = Path(folder, "tokenizer.json"), Path(folder, "vocab.txt")
    path = next((path for path in paths if path.is_file()), None)
    if path is None:
        slow = itertools.chain(*map(Path(folder).glob, ("*.model", "merges.txt")))
        hint = f"; {conversion(Path(folder))}" if any(slow) else ""
        message = f"No tokenizer in {folder}: expected tokenizer.json or vocab.txt"
        raise FileNotFoundError(message + hint)
    try:
        if path == paths[0]:
            content = spans.read_json(path)
        else:
            vocab = outputs.read_text(path).removesuffix("\n").split("\n")
            plain = [p for p in vocab if not (p.startswith("[") and p.endswith("]"))]
            is_lower = all(piece == piece.lower() for piece in plain)
            content = json.loads(word_pieces(vocab, is_lower).json)
        _add_spaces(content.get("pre_tokenizer"))
        normalizer = content.get("normalizer")
        if isinstance(normalizer, dict) and normalizer.get("type") == "BertNormalizer":
            normalizer |= _normalisation(folder)
        tokenizer = PieceTokenizer(json.dumps(content, ensure_ascii=False), max_length)
        tokenizer.split([""])  # fails unless a piece stands for what is unknown
        return tokenizer
    except InputError as error:
        raise InputError(error.message, error.path or path) from None


def _add_spaces(part: object) -> None:
    """Makes each token begin with a space, in a pre-tokenizer or a list of them."""
    if isinstance(part, list):
        for inner in part:
            _add_spaces(inner)
    if isinstance(part, dict):
        if part.get("type") == "ByteLevel":
            part["add_prefix_space"] = True
        if part.get("type") == "Metaspace":
            part |= {"add_prefix_space": True, "prepend_scheme": "always"}
        _add_spaces(part.get("pretokenizers"))


def conversion(folder: Path, kinds: str = "t.AutoTokenizer, t.AutoModel") -> str:
    """Returns a hint with the command that writes the files that are read."""
    path, head = folder / "config.json", "ForTokenClassification"
    if path.is_file() and head in outputs.read_text(path):  # AutoModel would drop it
        kinds = kinds.replace("t.AutoModel", f"t.AutoModel{head}")
    return (
        "convert the folder (pip install torch transformers sentencepiece protobuf): "
        f'python -c "import transformers as t; f = {str(folder)!r}; [x.from_pretrained'
        f'(f).save_pretrained(f) for x in ({kinds},)]"'
    )


def _normalisation(folder: str | os.PathLike[str]) -> dict[str, bool | None]:
    """Returns what tokenizer_config.json says, for the classes that read it there."""
    path = Path(folder, "tokenizer_config.json")
    options = spans.read_json(path) if path.is_file() else {}
    if options.get("tokenizer_class") in (
        "PreTrainedTokenizerFast",
        "TokenizersBackend",
    ):
        return {}
    choices: dict[str, bool | None]
    choices = {n: x for n in _NORMALISATION if (x := options.get(n)) is not None}
    for name, value in choices.items():
        if not isinstance(value, bool):
            raise InputError(f"expected true or false as {name}, got {value!r}", path)
    if "do_lower_case" in choices:  # which accents follow unless they have an option
        choices.setdefault("strip_accents", None)
    return {_NORMALISATION[name]: value for name, value in choices.items()}
