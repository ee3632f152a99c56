"""Vectors that other programs computed: of words, and of tokens in their sentences.

`read` reads the text formats of GloVe and word2vec: each line has a word and its
numbers, separated by spaces; word2vec adds a first line with the numbers of words and
dimensions. The reader counts unusable rows and quotes the first of them.

`read_contextual` reads files with one array for each sentence, named by its number from
0 ("0", "1", …), `[T, D]` for one layer or `[S, T, D]` for several. AllenNLP's `elmo`
command writes this layout (HDF5; Peters et al., 2018); `.npz` and `.safetensors` files
have the same. To allow a check of the text, a file must list its sentences, each as
tokens joined by spaces: in HDF5 as `sentence_to_index`, a JSON object from sentence to
number (AllenNLP's form); in HDF5 and `.npz` also as `tokens`, an array of strings; in
`.safetensors` as `tokens` in the metadata, a JSON list of strings.

Shape letters: `T` tokens, `S` layers, `D` dimensions, `N` words.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import os
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from jaxner import errors
from jaxner.data.formats import DAMAGED_GZIP, open_binary
from jaxner.errors import InputError
from jaxner.wording import counted

_BLOCK = 1 << 20  # bytes: about a thousand rows of 100 dimensions
_HEAD = 1000  # rows for detecting the number of dimensions
_QUOTED = 5  # malformed rows to quote
_BEARABLE = 0.1  # maximum share of malformed rows
# First bytes of files that users mistake for text.
_OTHER_FORMATS = {
    b"PK\x03\x04": "a zip archive; unpack it and use the text file inside",
    b"\x93NUMPY": "a NumPy array, without words",
    b"\x89HDF": "an HDF5 file",
    b"\x80": "a pickle, which jaxner never loads",
}
_SUFFIXES = (".hdf5", ".h5", ".npz", ".safetensors")
_REMEDY = (
    "Compute the vectors again from exactly these tokens: one sentence per line, in "
    "the order of the file, spaces between tokens, no line -DOCSTART-."
)


@dataclass(frozen=True)
class Vectors:
    """The word vectors of a file.

    Attributes:
        words: Distinct words in the file's order.
        values: Their vectors, float32 [N, D].
        malformed: Number of unusable rows.
        duplicates: Number of rows skipped because their word occurred before.
        notes: Problems found: quotes of malformed rows, a header with a wrong number of
            rows.
    """

    words: tuple[str, ...]
    values: np.ndarray
    malformed: int = 0
    duplicates: int = 0
    notes: tuple[str, ...] = ()


def read(path: str | os.PathLike[str], dim: int | None = None) -> Vectors:
    r"""Returns the word vectors of a text file, plain or gzipped.

    The last D fields of a row are numbers, and everything before them is the word:
    GloVe 840B has words such as `. . .`. D comes from the header line, else from the
    most frequent number of fields in the first 1,000 rows. A row is malformed if it has
    too few fields, no word, a field that is not a finite float32, or bytes that are not
    UTF-8. If several rows have the same word, the first counts.

    Args:
        path: The file; its content shows whether it is gzipped, not its name.
        dim: Required number of dimensions; None for any.

    Raises:
        InputError: The file has another format or number of dimensions, is damaged or
            empty, or less than nine tenths of its rows are usable.
        FileNotFoundError: The file is missing.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     with open(f"{folder}/vectors.txt", "w") as file:
        ...         _ = file.write("the 0.5 -1\n, 0.25 2\n. . . 1 1\n")
        ...     read(file.name).words
        ('the', ',', '. . .')
    """
    blocks = _blocks(path)
    first = next(blocks, [])
    header = _header(first)
    first = first[1:] if header else first
    size = header[1] if header else _dimensions(first)
    if size < 1 or not any(first):
        raise InputError("empty; expected rows of a word and its numbers", path)
    if dim not in (None, size):
        raise InputError(f"expected {dim} dimensions, got {size}", path)
    words: dict[str, None] = {}  # keeps the order
    chunks, quotes = [], []
    malformed, duplicates, line = 0, 0, 2 if header else 1
    for lines in itertools.chain([first], blocks):
        rows = [(n, text) for n, text in enumerate(lines, line) if text]
        line += len(lines)
        cut = [_cut(text, size) for _, text in rows]
        values = _values([numbers for _, numbers in cut], size)
        good = np.all(np.isfinite(values), axis=1)
        kept = []
        for i, ((n, text), (word, _)) in enumerate(zip(rows, cut, strict=True)):
            if not word or not good[i]:
                malformed += 1
                quotes.append(f"line {n}: {text[:80]!r}")
                del quotes[_QUOTED:]
            elif word in words:
                duplicates += 1
            else:
                words[word] = None
                kept.append(i)
        chunks.append(values[kept])
    count, notes = len(words) + duplicates + malformed, []
    if malformed:
        which = "; ".join(quotes)
        notes.append(f"{malformed:,} of {count:,} rows are malformed: {which}")
    if not words or malformed > _BEARABLE * count:
        what = notes[0] if notes else "found none"
        raise InputError(f"expected rows of a word and {size} numbers; {what}", path)
    if header and header[0] != count:
        notes.append(
            f"the header announces {header[0]:,} rows, but the file has {count:,}"
        )
    table = np.empty((len(words), size), np.float32)
    end = len(table)
    while chunks:  # frees each chunk, so that memory never holds the vectors twice
        chunk = chunks.pop()
        table[end - len(chunk) : end] = chunk
        end -= len(chunk)
    return Vectors(tuple(words), table, malformed, duplicates, tuple(notes))


def _cut(line: bytes, dim: int) -> tuple[str, str]:
    """Returns word and numbers of a row; the word is empty if that fails."""
    if line.count(b" ") == dim:
        word, _, numbers = line.partition(b" ")
    else:
        word, *fields = line.rsplit(b" ", dim)
        numbers = b" ".join(fields)
    try:
        return word.strip(b" ").decode(), numbers.decode("ascii")
    except UnicodeDecodeError:
        return "", ""


def _values(rows: Sequence[str], dim: int) -> np.ndarray:
    """Returns parsed rows of numbers, [N, D]; NaN where a field is not a number."""
    values = _floats(rows, dim)
    if values is None:  # reading row by row is slow, but finds the malformed ones
        nan = np.full((1, dim), np.nan, np.float32)
        each = [_floats([row], dim) for row in rows]
        values = np.concatenate([nan if row is None else row for row in each])
    return values


def _floats(rows: Sequence[str], dim: int) -> np.ndarray | None:
    """Returns parsed rows of numbers; None if any row does not have `dim` numbers."""
    if not rows:
        return np.empty((0, dim), np.float32)
    if not all(rows):  # which NumPy skips
        return None
    try:
        values = np.loadtxt(rows, np.float32, comments=None, ndmin=2)
    except ValueError:
        return None
    return values if values.shape == (len(rows), dim) else None


def _blocks(path: str | os.PathLike[str]) -> Iterator[list[bytes]]:
    """Yields stripped lines in blocks, with tabs replaced by spaces."""
    try:
        with open_binary(path) as file:
            block = file.read(_BLOCK)
            what = next(
                (v for k, v in _OTHER_FORMATS.items() if block.startswith(k)), ""
            )
            if b"\0" in block:
                what = what or "a binary file; save it as text"
            if what:
                raise InputError(f"expected word vectors as text, got {what}", path)
            block, rest = block.removeprefix(b"\xef\xbb\xbf"), b""
            while block:
                following = file.read(_BLOCK)
                lines = (rest + block).replace(b"\t", b" ").split(b"\n")
                # The last line may continue in the next block.
                rest = lines.pop() if following else b""
                yield [line.rstrip(b" \r") for line in lines]
                block = following
    except DAMAGED_GZIP as error:
        raise InputError(f"damaged gzip file ({error})", path) from error


def _header(lines: Sequence[bytes]) -> tuple[int, int] | None:
    """Returns the numbers of words and dimensions in word2vec's first line."""
    fields = lines[0].split() if lines else []
    if len(fields) != 2 or not all(text.isdigit() for text in fields):
        return None
    words, dim = map(int, fields)
    # In a file of one dimension, this may be the row of a numeric word.
    return None if _dimensions(lines[1:]) == 1 != dim else (words, dim)


def _dimensions(lines: Sequence[bytes]) -> int:
    """Returns the most frequent number of dimensions; on a tie, the smallest."""
    counts = Counter(len(line.split()) - 1 for line in lines[:_HEAD] if line)
    return min(counts, key=lambda dim: (-counts[dim], dim), default=0)


class TokenVectors:
    """The vectors of one sentence, read by `np.asarray`, `[T, S, D]`.

    Attributes:
        path: The file.
        sizes: Number of layers and dimensions, S and D.
    """

    def __init__(self, file: _Arrays, key: str, sizes: tuple[int, int]):
        self._file, self._key = file, key
        self.path, self.sizes = file.path, sizes

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        del copy  # always a new array
        where = f"sentence {int(self._key) + 1}"
        array = _by_token(self._file.array(self._key), where, self.path)
        return np.asarray(array, dtype)


class Contextual(list[TokenVectors]):
    """The vectors of a text, sentence by sentence.

    Attributes:
        path: The file.
        sizes: Number of layers and dimensions, S and D.
    """

    def __init__(self, file: _Arrays, sizes: tuple[int, int]):
        numbers = range(len(file.keys))
        super().__init__(TokenVectors(file, str(i), sizes) for i in numbers)
        self.path, self.sizes = file.path, sizes


def read_contextual(
    path: str | os.PathLike[str], sentences: Sequence[Sequence[str]]
) -> Contextual:
    """Returns the vectors of a text, after checking that the file belongs to it.

    The vectors themselves are read later.

    Args:
        path: File ending in `.hdf5`, `.h5`, `.npz` or `.safetensors`.
        sentences: Tokens of each sentence of the text.

    Raises:
        FileNotFoundError: The file is missing.
        ImportError: `h5py` or `safetensors` is not installed.
        InputError: The file belongs to another text, does not list its text, or is
            malformed.

    Example:
        >>> import tempfile
        >>> path = Path(tempfile.mkdtemp(), "vectors.npz")
        >>> write_contextual(path, [np.zeros((2, 5))], [["Old", "Rome"]])
        >>> np.asarray(read_contextual(path, [["Old", "Rome"]])[0]).shape
        (2, 1, 5)
    """
    file = _Arrays(Path(path))
    if not sentences or file.keys != {str(i) for i in range(len(sentences))}:
        raise InputError(
            f"has vectors of {counted(len(file.keys), 'sentence')}, but the text has "
            f"{len(sentences):,}, with the keys '0', '1', …. {_REMEDY}",
            path,
        )
    listed, sizes = file.texts(len(sentences)), None
    for i, tokens in enumerate(sentences):
        where, text = (
            f"sentence {i + 1} (key '{i}')",
            " ".join(" ".join(tokens).split()),
        )
        count, size = file.sizes(str(i))
        if count != len(tokens) or not listed(i, text):
            raise InputError(
                f"belongs to another text: {where} has {counted(count, 'vector')}, "
                f"and the text here is {text[:80]!r}. {_REMEDY}",
                path,
            )
        sizes = sizes or size
        check_sizes(path, size, sizes)
    assert sizes is not None
    return Contextual(file, sizes)


def write_contextual(
    path: str | os.PathLike[str],
    vectors: Sequence[np.ndarray],
    sentences: Sequence[Sequence[str]],
) -> None:
    """Writes a file that `read_contextual` reads.

    Args:
        path: As in `read_contextual`.
        vectors: `[T, D]` or `[S, T, D]` for each sentence.
        sentences: Tokens of each sentence.

    Raises:
        InputError: The numbers of vectors and tokens differ, or the ending of the path
            is unknown.
    """
    kind = _kind(Path(path))
    texts = [" ".join(tokens) for tokens in sentences]
    arrays: dict[str, Any] = {}
    for i, (array, tokens) in enumerate(zip(vectors, sentences, strict=True)):
        _prepared(array, tokens, f"sentence {i + 1}")
        arrays[str(i)] = np.ascontiguousarray(array)
    if kind == "npz":
        np.savez(path, **arrays, tokens=np.array(texts, dtype=str))
    elif kind == "safetensors":
        about = {"tokens": json.dumps(texts)}
        _library(kind).numpy.save_file(arrays, path, metadata=about)
    else:
        h5py = _library(kind)
        with h5py.File(path, "w") as file:
            for key, array in arrays.items():
                file.create_dataset(key, data=array)
            file.create_dataset("tokens", data=texts, dtype=h5py.string_dtype())


def contextual_sizes(path: str | os.PathLike[str]) -> tuple[int, int]:
    """Returns layers and dimensions of a file, from its first sentence.

    Raises:
        FileNotFoundError, ImportError, InputError: As for `read_contextual`.
    """
    return _Arrays(Path(path)).sizes("0")[1]


def fitting(vectors: Any, tokens: Sequence[str], sizes: tuple[int, int] | None) -> Any:
    """Returns the vectors of a sentence by token, [T, S, D], if they fit a tagger.

    Args:
        vectors: `[T, D]` or `[S, T, D]`; `TokenVectors`, which stay in their file; or
            None.
        tokens: Tokens of the sentence.
        sizes: S and D; None if the tagger takes no vectors.

    Raises:
        InputError: Vectors are missing, unexpected, not finite, or of another size.

    Example:
        >>> fitting(np.zeros((3, 2, 5)), ["Old", "Rome"], (3, 5)).shape
        (2, 3, 5)
    """
    if sizes is None:
        if vectors is not None:
            raise InputError("This tagger takes no vectors; expected vectors=None")
        return None
    if vectors is None:
        raise InputError(
            f"This tagger needs vectors of {counted(sizes[0], 'layer')} and {sizes[1]} "
            "dimensions for each token, got none: pass `vectors`."
        )
    if isinstance(vectors, TokenVectors):
        check_sizes(vectors.path, vectors.sizes, sizes)
        return vectors
    array = _prepared(vectors, tokens, "vectors")
    check_sizes(None, array.shape[1:], sizes)
    return array


def check_sizes(
    path: str | os.PathLike[str] | None, got: Sequence[int], sizes: Sequence[int]
) -> None:
    """Raises InputError if layers or dimensions, S and D, are not those expected."""
    if tuple(got) != tuple(sizes):
        raise InputError(
            f"expected {counted(sizes[0], 'layer')} of {sizes[1]} dimensions, got "
            f"{got[0]} of {got[1]}; a tagger needs vectors like those it was trained "
            "on",
            path,
        )


def _prepared(vectors: Any, tokens: Sequence[str], where: str) -> np.ndarray:
    array = _by_token(np.asarray(vectors), where)
    if len(array) != len(tokens):
        raise InputError(
            f"{where}: expected vectors of {counted(len(tokens), 'token')}, got "
            f"{len(array)}"
        )
    return array


def _by_token(array: np.ndarray, where: str, path: Path | None = None) -> np.ndarray:
    if array.ndim not in (2, 3) or array.dtype.kind != "f":
        raise InputError(
            f"{where}: expected floats of shape (tokens, dimensions) or (layers, "
            f"tokens, dimensions), got {array.dtype} {array.shape}",
            path,
        )
    with np.errstate(over="ignore"):  # reported below
        array = array.astype(np.float32, copy=False)
    if not np.isfinite(array).all():
        raise InputError(f"{where}: a vector is not finite in single precision", path)
    return array[:, None] if array.ndim == 2 else array.transpose(1, 0, 2)


class _Arrays:
    """An open file with one array per sentence; every error names the file.

    Attributes:
        path: The file.
        keys: The names of the arrays.
    """

    def __init__(self, path: Path):
        self.path, self._kind = path, _kind(path)
        if not path.is_file():
            raise FileNotFoundError(f"No file of vectors at {path}")
        with self._named("the file"):
            if self._kind == "npz":
                self._file: Any = np.load(path, allow_pickle=False)
                names = self._file.files  # fails for a single array
            elif self._kind == "safetensors":
                self._file = _library(self._kind).safe_open(path, "np")
                names = self._file.keys()
            else:
                self._file = _library(self._kind).File(path, "r")
                names = self._file.keys()
            self.keys = {*names} - {"sentence_to_index", "tokens"}

    @contextlib.contextmanager
    def _named(self, what: str) -> Iterator[None]:
        try:
            yield
        except (ImportError, InputError):
            raise
        except Exception as error:  # errors differ by library
            raise InputError(f"{what} cannot be read: {error}", self.path) from None

    def array(self, key: str) -> np.ndarray:
        """Returns an array."""
        with self._named(repr(key)):
            if self._kind == "safetensors":
                return self._file.get_tensor(key)
            return self._file[key][()]

    def sizes(self, key: str) -> tuple[int, tuple[int, int]]:
        """Returns the tokens of a sentence, and layers and dimensions; reads no array.

        Raises:
            InputError: There is no such array, or it has another number of axes.
        """
        with self._named(repr(key)):
            if self._kind == "npz":
                with self._file.zip.open(f"{key}.npy") as member:
                    major, _ = np.lib.format.read_magic(member)
                    name = f"read_array_header_{major}_0"
                    shape = getattr(np.lib.format, name)(member)[0]
            elif self._kind == "safetensors":
                shape = tuple(self._file.get_slice(key).get_shape())
            else:
                shape = self._file[key].shape
            layers, tokens, dim = shape if len(shape) == 3 else (1, *shape)
        return tokens, (layers, dim)

    def texts(self, count: int) -> Callable[[int, str], bool]:
        """Returns whether the file may list a text as that of a sentence's number."""
        with self._named("'tokens'"):
            listed = self._strings("tokens")
            if listed is not None:
                texts = [" ".join(text.split()) for text in listed]
                if len(texts) != count:
                    raise InputError(
                        f"'tokens' lists {counted(len(texts), 'sentence')}, but the "
                        f"file has vectors of {count:,}",
                        self.path,
                    )
                return lambda i, text: texts[i] == text
        with self._named("'sentence_to_index'"):
            index = self._strings("sentence_to_index")
            if index is None:
                raise InputError(
                    "does not list its text: it has neither 'tokens' nor "
                    "'sentence_to_index'. Write it with "
                    "jaxner.data.vectors.write_contextual, or with AllenNLP's elmo "
                    "command without --forget-sentences.",
                    self.path,
                )
            numbers: Mapping[str, Any] = json.loads(index[0])
            pairs = [(" ".join(text.split()), int(n)) for text, n in numbers.items()]
        # For a repeated sentence, the index has only the last number. A missing number
        # thus belongs to some sentence with a higher number.
        last: dict[str, int] = {}
        for text, i in pairs:
            last[text] = max(i, last.get(text, -1))
        numbered = {i: text for text, i in pairs}
        return lambda i, text: (
            numbered[i] == text if i in numbered else last.get(text, -1) > i
        )

    def _strings(self, name: str) -> list[Any] | None:
        """Returns an entry with strings; None if there is none."""
        if self._kind == "safetensors":
            entry = (self._file.metadata() or {}).get(name)
            return None if entry is None else list(json.loads(entry))
        if name not in self._file:
            return None
        if self._kind == "npz":
            return self._file[name].tolist()
        return np.atleast_1d(self._file[name].asstr()[()]).tolist()


def _kind(path: Path) -> str:
    if path.suffix not in _SUFFIXES:
        raise InputError(
            f"unknown ending {path.suffix!r}; known: {', '.join(_SUFFIXES)}", path
        )
    return "hdf5" if path.suffix == ".h5" else path.suffix[1:]


def _library(kind: str) -> Any:
    """Returns the library that reads and writes a kind of file."""
    try:
        if kind == "hdf5":
            import h5py as library
        else:
            import safetensors as library
            import safetensors.numpy
    except ImportError as error:
        raise errors.needs(f"A .{kind} file", str(error.name)) from None
    return library
