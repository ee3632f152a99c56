"""Files with one array per sentence: HDF5, `.npz` and `.safetensors`, read lazily.

Every class of `KINDS` has the same methods: `keys`, `shape` and `get` of an array, the
file's record of its text (`tokens`, `sentence_to_index`, or None), and `write`;
`data.contextual` describes them. These classes do not check files; `opened` returns a
`Checked` file, whose errors name the file.
"""

from __future__ import annotations

import contextlib
import json
import math
import zipfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from jaxner import errors
from jaxner.data.readers import files

Arrays = Mapping[str, np.ndarray]


class HDF5:
    """An HDF5 file, as AllenNLP's `elmo` writes it."""

    def __init__(self, path: Path):
        self.path, self._file = path, _h5py().File(path, "r")

    def keys(self) -> Iterable[str]:
        """Returns the names of all entries."""
        return self._file.keys()

    def shape(self, key: str) -> tuple[int, ...]:
        """Returns the shape of an array without reading the array."""
        return self._file[key].shape

    def get(self, key: str) -> np.ndarray:
        """Returns an array."""
        found = self._file[key]
        _check_unpacked(found.id.get_storage_size(), found.nbytes)
        return found[()]

    def tokens(self) -> Any:
        """Returns the sentences, as tokens joined by spaces."""
        return self._strings("tokens")

    def sentence_to_index(self) -> Any:
        """Returns the number of each sentence."""
        found = self._strings("sentence_to_index")
        return None if found is None else json.loads(found[0])

    def _strings(self, name: str) -> list[str] | None:
        if name not in self._file:
            return None
        found = self._file[name]
        _check_unpacked(found.id.get_storage_size(), found.nbytes)
        return np.atleast_1d(found.asstr()[()]).tolist()

    @staticmethod
    def write(path: Path, arrays: Arrays, sentences: Sequence[str]) -> None:
        """Writes arrays and their sentences."""
        with _h5py().File(path, "w") as file:
            for key, array in arrays.items():
                file.create_dataset(key, data=array)
            kind = _h5py().string_dtype()
            file.create_dataset("tokens", data=sentences, dtype=kind)


class Npz:
    """NumPy's archive of arrays."""

    def __init__(self, path: Path):
        self.path = path
        with zipfile.ZipFile(path) as archive:
            members = archive.infolist()
        packed = [m for m in members if m.compress_type != zipfile.ZIP_STORED]
        _check_unpacked(
            sum(m.compress_size for m in packed), sum(m.file_size for m in packed)
        )
        self._sizes = {m.filename.removesuffix(".npy"): m.file_size for m in members}
        self._file = np.load(path, allow_pickle=False)

    def keys(self) -> Iterable[str]:
        """Returns the names of all entries."""
        return self._file.files

    def shape(self, key: str) -> tuple[int, ...]:
        """Returns the shape of an array without reading the array."""
        with self._file.zip.open(f"{key}.npy") as member:
            if np.lib.format.read_magic(member) == (1, 0):
                header = np.lib.format.read_array_header_1_0(member)
            else:
                header = np.lib.format.read_array_header_2_0(member)
            shape, _, dtype = header
            held = self._sizes[key] - member.tell()
        declared = math.prod(shape) * dtype.itemsize
        if declared != held and not dtype.hasobject:  # which NumPy refuses to read
            raise ValueError(
                f"its header declares {declared:,} bytes of {dtype} {shape}, but "
                f"{held:,} follow. The file is damaged: get it again"
            )
        return shape

    def get(self, key: str) -> np.ndarray:
        """Returns an array."""
        self.shape(key)  # NumPy allocates what the header declares
        return self._file[key]

    def tokens(self) -> Any:
        """Returns the sentences, as tokens joined by spaces."""
        return self.get("tokens").tolist() if "tokens" in self._file else None

    def sentence_to_index(self) -> None:
        """Returns None: such files have no index."""
        return None

    @staticmethod
    def write(path: Path, arrays: Arrays, sentences: Sequence[str]) -> None:
        """Writes arrays and their sentences."""
        entries: Any = {**arrays, "tokens": np.array(sentences, dtype=str)}
        np.savez(path, **entries)


class Safetensors:
    """Tensors with a header of JSON."""

    def __init__(self, path: Path):
        self.path, self._file = path, _safetensors().safe_open(path, "np")

    def keys(self) -> Iterable[str]:
        """Returns the names of all entries."""
        return self._file.keys()

    def shape(self, key: str) -> tuple[int, ...]:
        """Returns the shape of an array without reading the array."""
        return tuple(self._file.get_slice(key).get_shape())

    def get(self, key: str) -> np.ndarray:
        """Returns an array."""
        return self._file.get_tensor(key)

    def tokens(self) -> Any:
        """Returns the sentences, as tokens joined by spaces."""
        found = (self._file.metadata() or {}).get("tokens")
        return None if found is None else json.loads(found)

    def sentence_to_index(self) -> None:
        """Returns None: such files have no index."""
        return None

    @staticmethod
    def write(path: Path, arrays: Arrays, sentences: Sequence[str]) -> None:
        """Writes arrays and their sentences."""
        about = {"tokens": json.dumps(sentences)}
        _safetensors().numpy.save_file(arrays, path, metadata=about)


def _check_unpacked(held: int, declared: int) -> None:
    """Raises ValueError if compressed arrays unpack to more than the limit."""
    most = files.unpacked_limit()
    if declared > max(held, most):
        raise ValueError(
            f"{held:,} bytes would unpack to {declared:,}, more than {most:,}. If that "
            f"is right, set {files.LIMIT_VARIABLE}={declared}"
        )


KINDS = {".hdf5": HDF5, ".h5": HDF5, ".npz": Npz, ".safetensors": Safetensors}


def kind_of(path: Path) -> Any:
    """Returns the class for the ending of a path; raises ValueError if unknown."""
    if path.suffix not in KINDS:
        raise ValueError(
            f"{path}: unknown ending {path.suffix!r}; known: {', '.join(KINDS)}"
        )
    return KINDS[path.suffix]


class Checked:
    """A file whose errors name the file, for every library.

    Args:
        path: The file.
        inside: File opened by one of `KINDS`.
    """

    def __init__(self, path: Path, inside: Any):
        self.path, self._inside = path, inside

    def keys(self) -> Iterable[str]:
        """Returns the names of all entries."""
        return self._inside.keys()

    def shape(self, key: str) -> tuple[int, ...]:
        """Returns the shape of an array without reading the array."""
        with _named(self.path, key):
            return self._inside.shape(key)

    def get(self, key: str) -> np.ndarray:
        """Returns an array."""
        with _named(self.path, key):
            return self._inside.get(key)

    def tokens(self) -> list[str] | None:
        """Returns the sentences, as tokens joined by spaces; None if missing."""
        with _named(self.path, "tokens"):
            found = self._inside.tokens()
            if found is None:
                return None
            if not isinstance(found, list) or {*map(type, found)} - {str}:
                raise ValueError("expected a list with one string for each sentence")
            return found

    def sentence_to_index(self) -> dict[str, int] | None:
        """Returns the number of each sentence; None if missing."""
        with _named(self.path, "sentence_to_index"):
            found = self._inside.sentence_to_index()
            if found is None:
                return None
            if not isinstance(found, dict):
                raise ValueError("expected a JSON object from sentence to number")
            return {sentence: int(number) for sentence, number in found.items()}


@contextlib.contextmanager
def _named(path: Path, entry: str) -> Iterator[None]:
    try:
        yield
    except Exception as error:  # errors differ by library
        raise ValueError(f"{path}: {entry!r} cannot be read: {error}") from None


def opened(path: Path) -> Checked:
    """Returns an open file.

    Raises:
        FileNotFoundError: The file is missing.
        ImportError: The library for it is not installed.
        ValueError: The file's ending is unknown, or its content is malformed.
    """
    kind = kind_of(path)
    if not path.is_file():
        raise FileNotFoundError(f"No file of vectors at {path}")
    try:
        return Checked(path, kind(path))
    except ImportError:
        raise
    except Exception as error:  # errors differ by library
        raise ValueError(f"{path} cannot be read: {error}") from None


def _h5py() -> Any:
    try:
        import h5py
    except ImportError:
        raise errors.needs("An HDF5 file", "h5py") from None
    return h5py


def _safetensors() -> Any:
    try:
        import safetensors
        import safetensors.numpy
    except ImportError:
        raise errors.needs("A .safetensors file", "safetensors") from None
    return safetensors
