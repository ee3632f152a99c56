"""Vectors that another program has computed for each token of a text, in its context.

A file holds one array for each sentence, under its number from 0 ("0", "1", …): of
shape `[T, D]` for one layer, or `[S, T, D]` for several. That is what AllenNLP's `elmo`
command writes (HDF5; Peters et al., 2018); `.npz` and `.safetensors` are read in the
same layout.

So that the text can be checked, a file must say which sentences it is for, each as its
tokens with blanks between them: in HDF5 as `sentence_to_index`, a JSON object from
sentence to number, as AllenNLP has it; in HDF5 and `.npz` also as `tokens`, an array of
strings; in `.safetensors` as `tokens` in the metadata, a JSON list of strings.

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

_ABOUT = ("sentence_to_index", "tokens")
_REMEDY = (
    "Compute the vectors anew from exactly these tokens: one sentence a line, in the "
    "order of the file, blanks between tokens, no line -DOCSTART-."
)


class TokenVectors:
    """The vectors of one sentence, which are read when they are asked for.

    `np.asarray` gives the array `[T, S, D]`.

    Attributes:
        path: The file.
        sizes: S and D.

    Args:
        file: Where they are.
        key: Under which name.
        sizes: S and D.
    """

    def __init__(self, file: arrayfiles.Checked, key: str, sizes: tuple[int, int]):
        self._file, self._key = file, key
        self.path, self.sizes = file.path, sizes

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        del copy  # what is read is new
        where = f"{self.path}, sentence {int(self._key) + 1}"
        return np.asarray(_by_token(self._file.get(self._key), where), dtype)


class Contextual(Sequence[TokenVectors]):
    """The vectors of a text, sentence by sentence.

    Attributes:
        path: The file.
        num_layers: Vectors of each token, S.
        dim: Dimensions of each, D.
        sizes: Both.

    Args:
        file: An open file.
        sizes: S and D.
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
    """Opens a file of vectors, and checks that it is of a text.

    The vectors themselves are read later.

    Args:
        path: Ends in `.hdf5`, `.h5`, `.npz` or `.safetensors`.
        sentences: The tokens of the text.

    Raises:
        FileNotFoundError: There is no such file.
        ImportError: The extra `contextual` (or `bert`) is not installed.
        ValueError: The file is of another text, does not say of which, or is
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
            f"{path} has the vectors of {len(keys):,} sentences, the text has "
            f"{len(wanted):,}. {_REMEDY}"
        )
    if keys != wanted:
        raise ValueError(
            f"{path}: expected the keys '0' to '{len(wanted) - 1}', got also "
            f"{', '.join(sorted(keys - wanted)[:5])}. {_REMEDY}"
        )
    sizes = {_sizes(file, i, tokens) for i, tokens in enumerate(sentences)}
    if len(sizes) > 1:
        raise ValueError(
            f"{path}: expected as many layers and dimensions in each sentence, got "
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
        path: As for `read`.
        vectors: `[T, D]` or `[S, T, D]` for each sentence.
        sentences: Its tokens.

    Raises:
        ValueError: Vectors and tokens are not as many, or the path ends otherwise.
    """
    joined = [" ".join(tokens) for tokens in sentences]
    arrays = {}
    for i, (array, tokens) in enumerate(zip(vectors, sentences, strict=True)):
        prepare(array, tokens, f"sentence {i + 1}")
        arrays[str(i)] = np.ascontiguousarray(array)
    arrayfiles.kind_of(Path(path)).write(Path(path), arrays, joined)


def wanted(vectors: Any, tokens: Sequence[str], sizes: tuple[int, int] | None) -> Any:
    """Checks that the vectors of a sentence are what a tagger asks for.

    Args:
        vectors: As for `prepare`; `TokenVectors`, of which only the sizes are left to
            be checked; or None.
        tokens: Of the sentence.
        sizes: S and D; None if the tagger takes no vectors.

    Returns:
        The vectors token by token, or None.

    Raises:
        ValueError: They are missing, of another size, or not asked for.
    """
    if sizes is None:
        if vectors is not None:
            raise ValueError("This tagger takes no vectors; expected vectors=None.")
        return None
    layers, dim = sizes
    if vectors is None:
        raise ValueError(
            f"This tagger needs vectors of {layers} layers and {dim} dimensions for "
            "each token, got none. Give `vectors` in code, or a file of them: "
            "--contextual of evaluate.py, --config.data.contextual of train.py."
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
    """Checks the vectors of one sentence.

    Args:
        vectors: `[T, D]`, or `[S, T, D]`.
        tokens: Of the sentence.
        where: Begins the message of an error.
        sizes: What S and D must be.

    Returns:
        The vectors token by token.

    Raises:
        ValueError: Another number of tokens, layers or dimensions, or a NaN.

    Example:
        >>> prepare(np.zeros((3, 2, 5)), ["Old", "Rome"], "here").shape
        (2, 3, 5)
    """
    array = _by_token(np.asarray(vectors), where)
    if len(array) != len(tokens):
        raise ValueError(
            f"{where}: expected vectors of {len(tokens)} tokens, got {len(array)}"
        )
    if sizes is not None:
        check_sizes(where, array.shape[1:], sizes)
    return array


def sizes_of(path: str | os.PathLike[str]) -> tuple[int, int]:
    """Tells layers and dimensions of a file, those of its first sentence.

    Raises:
        FileNotFoundError, ImportError, ValueError: As for `read`.
    """
    file = arrayfiles.opened(Path(path))
    if "0" not in set(file.keys()):
        raise ValueError(f"{path}: expected the keys '0', '1', …, got no '0'")
    return _sizes(file, 0)


def check_sizes(where: object, found: Sequence[int], sizes: Sequence[int]) -> None:
    """Checks layers and dimensions.

    Args:
        where: Begins the message of an error.
        found: S and D as they are.
        sizes: What they must be.

    Raises:
        ValueError: They are others.
    """
    if tuple(found) != tuple(sizes):
        raise ValueError(
            f"{where}: expected {sizes[0]} layers of {sizes[1]} dimensions, got "
            f"{found[0]} of {found[1]}; a tagger takes vectors like those it was "
            "trained on"
        )


def _by_token(array: np.ndarray, where: str) -> np.ndarray:
    if array.ndim not in (2, 3) or array.dtype.kind != "f":
        raise ValueError(
            f"{where}: expected floats of shape (tokens, dimensions) or (layers, "
            f"tokens, dimensions), got {array.dtype} {array.shape}"
        )
    with np.errstate(over="ignore"):  # it is told below
        array = array.astype(np.float32, copy=False)
    if not np.isfinite(array).all():
        raise ValueError(f"{where}: a vector is not finite in single precision")
    return array[:, None] if array.ndim == 2 else array.transpose(1, 0, 2)


def _sizes(
    file: arrayfiles.Checked, i: int, tokens: Sequence[str] | None = None
) -> tuple[int, int]:
    """Gives layers and dimensions of a sentence; checks how many tokens it has."""
    shape = file.shape(str(i))
    where = f"{file.path}, sentence {i + 1} (key '{i}')"
    if len(shape) not in (2, 3):
        raise ValueError(
            f"{where}: expected the shape (tokens, dimensions) or (layers, tokens, "
            f"dimensions), got {shape}"
        )
    if tokens is not None and shape[-2] != len(tokens):
        raise ValueError(
            f"{where}: expected vectors of {len(tokens)} tokens, got {shape[-2]}. The "
            f"text has here: {_shown(' '.join(tokens))}. {_REMEDY}"
        )
    return (1 if len(shape) == 2 else shape[0]), shape[-1]


def _check_tokens(file: arrayfiles.Checked, sentences: Sequence[Sequence[str]]) -> None:
    """Checks the text itself."""
    listed, index = file.tokens(), file.sentence_to_index()
    texts = [" ".join(" ".join(tokens).split()) for tokens in sentences]
    if listed is not None:
        if len(listed) != len(texts):
            raise ValueError(
                f"{file.path}: 'tokens' lists {len(listed):,} sentences, there are "
                f"vectors of {len(texts):,}"
            )
        found = [" ".join(text.split()) for text in listed]
    elif index is not None:
        found = _by_index(index, texts)
    else:
        raise ValueError(
            f"{file.path} does not say of which text its vectors are: it has neither "
            "'tokens' nor 'sentence_to_index'. Write it with jaxner.data.contextual."
            "write, or with AllenNLP's elmo command without --forget-sentences, which "
            "adds sentence_to_index."
        )
    for i, (text, other) in enumerate(zip(texts, found, strict=True)):
        if text != other:
            raise ValueError(
                f"{file.path} is of another text. Sentence {i + 1} (key '{i}'): "
                f"expected {_shown(text)}, got {_shown(other)}. {_REMEDY}"
            )


def _by_index(index: Mapping[str, int], texts: Sequence[str]) -> list[str]:
    """Finds the sentence of each number, as far as `sentence_to_index` tells.

    It has one number for a sentence that occurs several times, the last one. So a
    number that is not there belongs to some sentence with a higher one; to which of
    them cannot be told, and the text is believed.
    """
    last: dict[str, int] = {}
    for sentence, number in index.items():
        sentence = " ".join(sentence.split())
        last[sentence] = max(number, last.get(sentence, -1))
    numbered = {number: " ".join(s.split()) for s, number in index.items()}
    unknown = "a sentence that it does not list from there on"
    return [
        numbered.get(i, text if last.get(text, -1) > i else unknown)
        for i, text in enumerate(texts)
    ]


def _shown(text: str) -> str:
    return repr(text if len(text) <= 80 else f"{text[:77]}…")
