"""Contextual vectors of tokens, precomputed by another program.

A file holds one array for each sentence, named by its number from 0 ("0", "1", …), with
shape `[T, D]` for one layer or `[S, T, D]` for several. AllenNLP's `elmo` command
writes this layout (HDF5; Peters et al., 2018); `.npz` and `.safetensors` files have the
same.

To allow a check of the text, a file must list its sentences, each as tokens joined by
spaces: in HDF5 as `sentence_to_index`, a JSON object from sentence to number
(AllenNLP's form); in HDF5 and `.npz` also as `tokens`, an array of strings; in
`.safetensors` as `tokens` in the metadata, a JSON list of strings.

Shape letters: `T` tokens, `S` layers, `D` dimensions.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, overload

import numpy as np
from jaxtyping import Float

from jaxner.data import arrayfiles
from jaxner.wording import counted

_ABOUT = ("sentence_to_index", "tokens")
_REMEDY = (
    "Compute the vectors again from exactly these tokens: one sentence per line, in "
    "the order of the file, spaces between tokens, no line -DOCSTART-."
)


class TokenVectors:
    """The vectors of one sentence, read lazily.

    `np.asarray` returns the array `[T, S, D]`.

    Attributes:
        path: The file.
        sizes: Number of layers and dimensions, S and D.

    Args:
        file: File with the vectors.
        key: Name of the array in the file.
        sizes: Number of layers and dimensions, S and D.
    """

    def __init__(self, file: arrayfiles.Checked, key: str, sizes: tuple[int, int]):
        self._file, self._key = file, key
        self.path, self.sizes = file.path, sizes

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        del copy  # always a new array
        where = f"{self.path}, sentence {int(self._key) + 1}"
        return np.asarray(_by_token(self._file.get(self._key), where), dtype)


class Contextual(Sequence[TokenVectors]):
    """The vectors of a text, sentence by sentence.

    Attributes:
        path: The file.
        num_layers: Number of vectors of each token, S.
        dim: Dimensions of each vector, D.
        sizes: (S, D).

    Args:
        file: An open file.
        sizes: Number of layers and dimensions, S and D.
        count: Number of sentences.
    """

    def __init__(self, file: arrayfiles.Checked, sizes: tuple[int, int], count: int):
        self._file, self._count = file, count
        self.path, self.sizes = file.path, sizes
        self.num_layers, self.dim = sizes

    def __len__(self) -> int:
        return self._count

    @overload
    def __getitem__(self, index: int) -> TokenVectors: ...
    @overload
    def __getitem__(self, index: slice) -> list[TokenVectors]: ...
    def __getitem__(self, index: int | slice) -> Any:
        chosen = range(self._count)[index]
        if isinstance(chosen, range):
            return [TokenVectors(self._file, str(i), self.sizes) for i in chosen]
        return TokenVectors(self._file, str(chosen), self.sizes)


def read(
    path: str | os.PathLike[str], sentences: Sequence[Sequence[str]]
) -> Contextual:
    """Returns the vectors of a text, after checking that the file belongs to it.

    The vectors themselves are read later.

    Args:
        path: File ending in `.hdf5`, `.h5`, `.npz` or `.safetensors`.
        sentences: Tokens of each sentence of the text.

    Raises:
        FileNotFoundError: The file is missing.
        ImportError: The extra `contextual` (or `bert`) is not installed.
        ValueError: The file belongs to another text, does not list its text, or is
            malformed.

    Example:
        >>> import tempfile
        >>> path = Path(tempfile.mkdtemp(), "vectors.npz")
        >>> write(path, [np.zeros((2, 5))], [["Old", "Rome"]])
        >>> np.asarray(read(path, [["Old", "Rome"]])[0]).shape
        (2, 1, 5)
    """
    file = arrayfiles.opened(Path(path))
    keys = set(file.keys()) - set(_ABOUT)
    wanted = {str(i) for i in range(len(sentences))}
    if len(keys) != len(wanted) or not keys:
        raise ValueError(
            f"{path} has vectors of {counted(len(keys), 'sentence')}, but the text has "
            f"{len(wanted):,}. {_REMEDY}"
        )
    if keys != wanted:
        raise ValueError(
            f"{path}: expected only the keys '0' to '{len(wanted) - 1}', got also "
            f"{', '.join(sorted(keys - wanted)[:5])}. {_REMEDY}"
        )
    sizes = {_sizes(file, i, tokens) for i, tokens in enumerate(sentences)}
    if len(sizes) > 1:
        raise ValueError(
            f"{path}: expected equal layers and dimensions in all sentences, got "
            f"{' and '.join(map(str, sorted(sizes)))}"
        )
    _check_tokens(file, sentences)
    return Contextual(file, sizes.pop(), len(wanted))


def write(
    path: str | os.PathLike[str],
    vectors: Sequence[np.ndarray],
    sentences: Sequence[Sequence[str]],
) -> None:
    """Writes a file that `read` reads.

    Args:
        path: As in `read`.
        vectors: `[T, D]` or `[S, T, D]` for each sentence.
        sentences: Tokens of each sentence.

    Raises:
        ValueError: The numbers of vectors and tokens differ, or the ending of the path
            is unknown.
    """
    joined = [" ".join(tokens) for tokens in sentences]
    arrays = {}
    for i, (array, tokens) in enumerate(zip(vectors, sentences, strict=True)):
        prepare(array, tokens, f"sentence {i + 1}")
        arrays[str(i)] = np.ascontiguousarray(array)
    arrayfiles.kind_of(Path(path)).write(Path(path), arrays, joined)


def wanted(vectors: Any, tokens: Sequence[str], sizes: tuple[int, int] | None) -> Any:
    """Returns the vectors of a sentence, after checking that they fit a tagger.

    Args:
        vectors: As in `prepare`; `TokenVectors`, for which only the sizes are checked;
            or None.
        tokens: Tokens of the sentence.
        sizes: S and D; None if the tagger takes no vectors.

    Raises:
        ValueError: Vectors are missing, unexpected, or of another size.
    """
    if sizes is None:
        if vectors is not None:
            raise ValueError("This tagger takes no vectors; expected vectors=None")
        return None
    layers, dim = sizes
    if vectors is None:
        raise ValueError(
            f"This tagger needs vectors of {counted(layers, 'layer')} and {dim} "
            "dimensions for each token, got none. Pass `vectors` in code, or a file: "
            "--contextual of jaxner evaluate, --config.data.contextual of jaxner train."
        )
    if isinstance(vectors, TokenVectors):
        check_sizes(vectors.path, vectors.sizes, sizes)
        return vectors
    return prepare(vectors, tokens, "vectors", sizes)


def prepare(
    vectors: Any,
    tokens: Sequence[str],
    where: str,
    sizes: tuple[int, int] | None = None,
) -> Float[np.ndarray, "T S D"]:
    """Returns the vectors of one sentence by token, after checking them.

    Args:
        vectors: `[T, D]`, or `[S, T, D]`.
        tokens: Tokens of the sentence.
        where: Start of error messages.
        sizes: Expected S and D.

    Returns:
        The vectors token by token.

    Raises:
        ValueError: The number of tokens, layers or dimensions is wrong, or a value is
            not finite.

    Example:
        >>> prepare(np.zeros((3, 2, 5)), ["Old", "Rome"], "here").shape
        (2, 3, 5)
    """
    array = _by_token(np.asarray(vectors), where)
    if len(array) != len(tokens):
        raise ValueError(
            f"{where}: expected vectors of {counted(len(tokens), 'token')}, got "
            f"{len(array)}"
        )
    if sizes is not None:
        check_sizes(where, array.shape[1:], sizes)
    return array


def sizes_of(path: str | os.PathLike[str]) -> tuple[int, int]:
    """Returns layers and dimensions of a file, from its first sentence.

    Raises:
        FileNotFoundError, ImportError, ValueError: As for `read`.
    """
    file = arrayfiles.opened(Path(path))
    if "0" not in set(file.keys()):
        raise ValueError(f"{path}: expected the keys '0', '1', …, got no '0'")
    return _sizes(file, 0)


def check_sizes(where: object, found: Sequence[int], sizes: Sequence[int]) -> None:
    """Raises ValueError if layers or dimensions are wrong.

    Args:
        where: Start of the error message.
        found: Actual S and D.
        sizes: Expected S and D.
    """
    if tuple(found) != tuple(sizes):
        raise ValueError(
            f"{where}: expected {counted(sizes[0], 'layer')} of {sizes[1]} dimensions, "
            f"got {found[0]} of {found[1]}; a tagger needs vectors like those it was "
            "trained on"
        )


def _by_token(array: np.ndarray, where: str) -> np.ndarray:
    if array.ndim not in (2, 3) or array.dtype.kind != "f":
        raise ValueError(
            f"{where}: expected floats of shape (tokens, dimensions) or (layers, "
            f"tokens, dimensions), got {array.dtype} {array.shape}"
        )
    with np.errstate(over="ignore"):  # reported below
        array = array.astype(np.float32, copy=False)
    if not np.isfinite(array).all():
        raise ValueError(f"{where}: a vector is not finite in single precision")
    return array[:, None] if array.ndim == 2 else array.transpose(1, 0, 2)


def _sizes(
    file: arrayfiles.Checked, i: int, tokens: Sequence[str] | None = None
) -> tuple[int, int]:
    """Returns layers and dimensions of a sentence, after checking its length."""
    shape = file.shape(str(i))
    where = f"{file.path}, sentence {i + 1} (key '{i}')"
    if len(shape) not in (2, 3):
        raise ValueError(
            f"{where}: expected the shape (tokens, dimensions) or (layers, tokens, "
            f"dimensions), got {shape}"
        )
    if tokens is not None and shape[-2] != len(tokens):
        raise ValueError(
            f"{where}: expected vectors of {counted(len(tokens), 'token')}, got "
            f"{shape[-2]}. The text here: {_shown(' '.join(tokens))}. {_REMEDY}"
        )
    return (1 if len(shape) == 2 else shape[0]), shape[-1]


def _check_tokens(file: arrayfiles.Checked, sentences: Sequence[Sequence[str]]) -> None:
    """Raises ValueError if the file lists another text."""
    listed, index = file.tokens(), file.sentence_to_index()
    texts = [" ".join(" ".join(tokens).split()) for tokens in sentences]
    if listed is not None:
        if len(listed) != len(texts):
            raise ValueError(
                f"{file.path}: 'tokens' lists {counted(len(listed), 'sentence')}, but "
                f"the file has vectors of {len(texts):,}"
            )
        found = [" ".join(text.split()) for text in listed]
    elif index is not None:
        found = _by_index(index, texts)
    else:
        raise ValueError(
            f"{file.path} does not list its text: it has neither 'tokens' nor "
            "'sentence_to_index'. Write it with jaxner.data.contextual.write, or with "
            "AllenNLP's elmo command without --forget-sentences, which adds "
            "sentence_to_index."
        )
    for i, (text, other) in enumerate(zip(texts, found, strict=True)):
        if text != other:
            raise ValueError(
                f"{file.path} belongs to another text. Sentence {i + 1} (key '{i}'): "
                f"expected {_shown(text)}, got {_shown(other)}. {_REMEDY}"
            )


def _by_index(index: Mapping[str, int], texts: Sequence[str]) -> list[str]:
    """Returns the sentence of each number, as far as `sentence_to_index` has it.

    For a repeated sentence, the index has only the last number. A missing number thus
    belongs to some sentence with a higher number. Which one is unknown, so this
    function trusts the text.
    """
    last: dict[str, int] = {}
    for sentence, number in index.items():
        sentence = " ".join(sentence.split())
        last[sentence] = max(number, last.get(sentence, -1))
    numbered = {number: " ".join(s.split()) for s, number in index.items()}
    unknown = "a sentence that it does not list from here on"
    return [
        numbered.get(i, text if last.get(text, -1) > i else unknown)
        for i, text in enumerate(texts)
    ]


def _shown(text: str) -> str:
    return repr(text if len(text) <= 80 else f"{text[:77]}…")
