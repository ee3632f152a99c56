"""Vectors that other programs computed: of words, and of tokens in their sentences.

Files for `read_contextual` have one array for each sentence, named by its number from 0
("0", "1", …), `[T, D]` for one layer or `[S, T, D]` for several, as AllenNLP's `elmo`
command lays them out (Peters et al., 2018). A file must list its sentences, each as
tokens joined by spaces: as `tokens`, an array of strings (in `.safetensors`, a JSON
list in the metadata), or in AllenNLP's form, `sentence_to_index`, a JSON object from
sentence to number.

Shape letters: `T` tokens, `S` layers, `D` dimensions, `N` words.
"""

from __future__ import annotations

import array
import contextlib
import itertools
import json
import os
import weakref
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from jaxner import errors, outputs
from jaxner.data.sources import opened
from jaxner.errors import InputError
from jaxner.wording import counted

_HEAD = 1000  # rows for detecting the number of dimensions
_NUM_QUOTES = 5  # malformed rows to quote
_BEARABLE = 0.1  # maximum share of malformed rows


@dataclass(frozen=True)
class Vectors:
    """The word vectors of a file."""

    words: tuple[str, ...]  # distinct, in the file's order
    values: np.ndarray  # float32 [N, D]
    malformed: int = 0  # unusable rows
    duplicates: int = 0  # rows skipped because their word occurred before
    notes: tuple[str, ...] = ()  # quotes of malformed rows; a header that is wrong


def read(path: str | os.PathLike[str]) -> Vectors:
    r"""Returns the word vectors of a text file in the format of GloVe or word2vec.

    The last D fields of a row, between spaces, are numbers, and everything before them
    is the word: GloVe 840B has words such as `. . .`. D comes from word2vec's first
    line (numbers of words and dimensions), else from the most frequent number of fields
    in the first 1,000 rows. A row is malformed if it has too few fields, no word, a
    field that is not a finite float32, or bytes that are not UTF-8; more than a tenth
    of these is an InputError. If several rows have the same word, the first counts.
    """
    lines = _lines(path)
    head = [*itertools.islice(lines, _HEAD)]
    size, header = _sizes_of(head)
    first = 0 if header is None else 1
    rows = [row for row in head[first:] if row] if first else []
    longer = sum(_row(row, size + 1)[1] is not None for row in rows)
    if 2 * longer > len(rows):  # else numbers would be in the words
        message = f"the header announces {size:,} dimensions, most rows have more"
        raise InputError(message, path)
    words: dict[str, None] = {}  # keeps the order
    numbers, quotes, num_malformed, duplicates = array.array("f"), [], 0, 0
    for line, row in enumerate(itertools.chain(head[first:], lines), first + 1):
        if not row:
            continue
        word, values = _row(row, max(size, 1))
        if values is None:
            num_malformed += 1
            quotes.append(f"line {line}: {row[:80]!r}")
            del quotes[_NUM_QUOTES:]
        elif word in words:
            duplicates += 1
        else:
            words[word] = None
            numbers.frombytes(values.tobytes())
    count, notes = len(words) + duplicates + num_malformed, []
    if num_malformed:
        examples = "; ".join(quotes)
        notes.append(f"{num_malformed:,} of {count:,} rows are malformed: {examples}")
    if not words or num_malformed > _BEARABLE * count:
        problem = notes[0] if notes else "found none"
        raise InputError(f"expected rows of a word and its numbers; {problem}", path)
    if header not in (None, count):
        notes.append(f"the header announces {header:,} rows, the file has {count:,}")
    table = np.frombuffer(numbers, np.float32).reshape(len(words), size)
    return Vectors(tuple(words), table, num_malformed, duplicates, tuple(notes))


def width(path: str | os.PathLike[str]) -> int:
    """Returns the dimensions of the vectors of a file, by its first lines."""
    return _sizes_of([*itertools.islice(_lines(path), _HEAD)])[0]


def _lines(path: str | os.PathLike[str]) -> Iterator[bytes]:
    with opened(path) as file:
        for number, line in enumerate(file):
            if number < 10 and b"\0" in line:
                message = "expected word vectors as text, got a binary file; gensim's "
                raise InputError(f"{message}save_word2vec_format writes text", path)
            line = line if number else line.removeprefix(b"\xef\xbb\xbf")
            yield line.replace(b"\t", b" ").rstrip()


def _row(row: bytes, dim: int) -> tuple[str, np.ndarray | None]:
    """Returns word and numbers of a row; None for the numbers of a malformed one."""
    name, *fields = row.rsplit(None, dim)
    try:
        word = name.strip(b" ").decode()
        with np.errstate(over="ignore"):
            values = np.array(fields, np.float32)
    except ValueError:
        return "", None
    is_good = word and len(values) == dim and np.isfinite(values).all()
    return word, values if is_good else None


def _sizes_of(lines: Sequence[bytes]) -> tuple[int, int | None]:
    """Returns the dimensions, and the number of rows that word2vec's first line says.

    Without such a line, the most frequent number of dimensions; on a tie, the smallest.
    """
    fields = lines[0].split() if lines else []
    if len(fields) == 2 and all(x.isdigit() and len(x) < 10 for x in fields):
        return int(fields[1]), int(fields[0])
    counts = Counter(len(line.split()) - 1 for line in lines if line)
    return min(counts, key=lambda dim: (-counts[dim], dim), default=0), None


class TokenVectors:
    """The vectors of one sentence, read by `np.asarray`, `[T, S, D]`; `sizes`: S, D."""

    def __init__(
        self, path: Path, arrays: Any, number: int, count: int, sizes: tuple[int, int]
    ):
        self._arrays, self._number, self._count = arrays, number, count
        self.path, self.sizes = path, sizes

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        del copy  # always a new array
        with _reading(self.path):
            values = self._arrays[str(self._number)][:]
        place = f"sentence {self._number + 1}"
        return np.asarray(_by_token(values, self._count, place, self.path), dtype)


def read_contextual(
    path: str | os.PathLike[str], sentences: Sequence[Sequence[str]]
) -> list[TokenVectors]:
    """Returns the vectors of a text, to be read later, if the file belongs to it."""
    path, vectors = Path(path), []
    with _reading(path):
        arrays = _opened(path)
        texts = _texts(arrays, path)
        last = {texts[i]: i for i in sorted(texts)}
        keys = {*arrays.keys()} - {"sentence_to_index", "tokens"}
        if keys != {str(i) for i in range(len(sentences))}:
            count = counted(len(keys), "sentence")
            raise _another(path, f"has vectors of {count}, the text {len(sentences):,}")
        for i, tokens in enumerate(sentences):
            text, (count, sizes) = _cleaned(" ".join(tokens)), _sizes(arrays[str(i)])
            # AllenNLP lists only the last number of a repeated sentence: a number that
            # is missing belongs to some sentence with a higher one.
            is_right = texts.get(i, text) == text and last.get(text, -1) >= i
            if count != len(tokens) or not is_right:
                place = f"sentence {i + 1} has {counted(count, 'vector')}"
                raise _another(path, f"{place}, and the text here is {text[:80]!r}")
            vectors.append(TokenVectors(path, arrays, i, count, sizes))
            check_sizes(path, sizes, vectors[0].sizes)
    return vectors


def _another(path: Path, problem: str) -> InputError:
    message = f"belongs to another text: {problem}. Compute the vectors again from "
    message += "exactly these tokens, one sentence per line, without -DOCSTART-"
    return InputError(message, path)


def write_contextual(
    path: str | os.PathLike[str],
    vectors: Sequence[np.ndarray],
    sentences: Sequence[Sequence[str]],
) -> None:
    """Writes vectors `[T, D]` or `[S, T, D]` of sentences for `read_contextual`."""
    texts = [" ".join(tokens) for tokens in sentences]
    arrays: dict[str, Any] = {}
    for i, (values, tokens) in enumerate(zip(vectors, sentences, strict=True)):
        _by_token(values, len(tokens), f"sentence {i + 1}")
        arrays[str(i)] = np.ascontiguousarray(values)
    library = _library(Path(path))
    with outputs.writing(path) as file:
        if library is np:
            np.savez(file, **arrays, tokens=np.array(texts, dtype=str))
        else:
            metadata = {"tokens": json.dumps(texts)}
            file.write(library.numpy.save(arrays, metadata=metadata))


def contextual_sizes(path: str | os.PathLike[str]) -> tuple[int, int]:
    """Returns layers and dimensions of a file; errors are as of `read_contextual`."""
    with _reading(Path(path)):
        return _sizes(_opened(Path(path))["0"])[1]


def fitting(vectors: Any, tokens: Sequence[str], sizes: tuple[int, int] | None) -> Any:
    """Returns the vectors of a sentence, [T, S, D], if they fit the sizes of a tagger.

    `TokenVectors` stay in their file. Sizes are S and D; None: it takes no vectors.
    """
    if sizes is None:
        if vectors is not None:
            raise InputError("This tagger takes no vectors; expected vectors=None")
        return None
    if vectors is None:
        layers, dim = counted(sizes[0], "layer"), sizes[1]
        message = f"This tagger needs vectors of {layers} and {dim} dimensions for "
        raise InputError(f"{message}each token, got no `vectors`.")
    if isinstance(vectors, TokenVectors):
        check_sizes(vectors.path, vectors.sizes, sizes)
        return vectors
    by_token = _by_token(np.asarray(vectors), len(tokens), "vectors")
    check_sizes(None, by_token.shape[1:], sizes)
    return by_token


def check_sizes(
    path: str | os.PathLike[str] | None, file_sizes: Sequence[int], sizes: Sequence[int]
) -> None:
    """Raises InputError if layers or dimensions, S and D, are not those expected."""
    if tuple(file_sizes) != tuple(sizes):
        raise InputError(
            f"expected {counted(sizes[0], 'layer')} of {sizes[1]} dimensions, got "
            f"{file_sizes[0]} of {file_sizes[1]}; a tagger needs vectors like those of "
            "its training",
            path,
        )


def _by_token(
    values: np.ndarray, count: int, place: str, path: Path | None = None
) -> np.ndarray:
    """Returns the vectors of `count` tokens as float32 [T, S, D], after all checks."""
    if values.ndim not in (2, 3) or values.dtype.kind != "f":
        raise InputError(
            f"{place}: expected floats of shape (tokens, dimensions) or (layers, "
            f"tokens, dimensions), got {values.dtype} {values.shape}",
            path,
        )
    if values.shape[-2] != count:
        message = f"expected vectors of {counted(count, 'token')}"
        raise InputError(f"{place}: {message}, got {values.shape[-2]}", path)
    with np.errstate(over="ignore"):  # reported below
        values = values.astype(np.float32, copy=False)
    if not np.isfinite(values).all():
        raise InputError(f"{place}: a vector is not finite in single precision", path)
    return values[:, None] if values.ndim == 2 else values.transpose(1, 0, 2)


def _opened(path: Path) -> Any:
    """Returns a mapping to the arrays of a file, which are read by `[:]`."""
    library = _library(path)
    if not path.is_file():
        raise FileNotFoundError(f"No file of vectors at {path}")
    if library is np:
        file: Any = np.load(path, allow_pickle=False)
        weakref.finalize(file, file.fid.close)
        return file
    file = library.safe_open(path, "np")
    texts = json.loads((file.metadata() or {}).get("tokens", "[]"))
    keys = file.keys()
    return {key: file.get_slice(key) for key in keys} | {"tokens": texts}


def _sizes(array: Any) -> tuple[int, tuple[int, int]]:
    """Returns the tokens of a sentence, and layers and dimensions."""
    shape = array.shape if hasattr(array, "shape") else array.get_shape()
    layers, tokens, dim = shape if len(shape) == 3 else (1, *shape)
    return tokens, (layers, dim)


def _texts(arrays: Any, path: Path) -> dict[int, str]:
    """Returns the text of each number that a file lists."""
    texts, index = (
        np.atleast_1d(arrays.get(name, [])).tolist()
        for name in ("tokens", "sentence_to_index")
    )
    if texts:
        return {i: _cleaned(text) for i, text in enumerate(texts)}
    if index:
        return {int(n): _cleaned(text) for text, n in json.loads(index[0]).items()}
    message = "lists no text, as 'tokens' or 'sentence_to_index': write it with "
    message += "write_contextual, or AllenNLP's elmo without --forget-sentences"
    raise InputError(message, path)


@contextlib.contextmanager
def _reading(path: Path) -> Iterator[None]:
    """Errors of reading name the file; they differ by library."""
    try:
        yield
    except (ImportError, FileNotFoundError, InputError):
        raise
    except Exception as error:
        raise InputError(f"cannot be read: {error}", path) from None


def _cleaned(text: str) -> str:
    return " ".join(text.split())


def _library(path: Path) -> Any:
    """Returns the library that reads and writes a file: NumPy or safetensors."""
    if path.suffix == ".npz":
        return np
    if path.suffix == ".safetensors":
        errors.optional("safetensors.numpy", "A .safetensors file")
        return errors.optional("safetensors", "A .safetensors file")
    message = "expected .npz or .safetensors; docs/context.md converts HDF5"
    raise InputError(message, path)
