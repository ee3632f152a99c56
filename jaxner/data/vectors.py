"""Reads pretrained word vectors in the text formats of GloVe and word2vec.

Each line has a word and its numbers, separated by spaces; word2vec adds a first line
with the numbers of words and dimensions. The reader counts unusable rows and quotes the
first of them with their line numbers.
"""

import os
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from jaxner.data.readers.files import DAMAGED_GZIP, open_binary

_BLOCK = 1 << 20  # bytes: about a thousand rows of 100 dimensions
_HEAD = 1000  # rows for detecting the number of dimensions
_QUOTED = 5  # malformed rows to quote
_BEARABLE = 0.1  # maximum share of malformed rows
_CONTROLS = bytes({*range(9), *range(14, 32)})
# First bytes of files that users mistake for text.
_OTHER_FORMATS = {
    b"PK\x03\x04": "a zip archive; unpack it and use the text file inside",
    b"BZh": "a bzip2 file; unpack it",
    b"\xfd7zXZ": "an xz file; unpack it",
    b"\x93NUMPY": "a NumPy array, without words",
    b"\x89HDF": "an HDF5 file",
    b"\xba\x16\x4f\x2f": "a fastText model; use the .vec file that comes with it",
    **{bytes([0x80, n]): "a pickle, which jaxner never loads" for n in range(2, 6)},
}


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

    Returns:
        The words and their vectors.

    Raises:
        ValueError: The file has another format or number of dimensions, is damaged or
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
    found = header[1] if header else _dimensions(first)
    if found < 1 or not any(first):
        raise ValueError(f"{path} is empty; expected rows of a word and its numbers")
    if dim not in (None, found):
        raise ValueError(f"{path}: expected {dim} dimensions, got {found}")
    table = _Table(found, number=2 if header else 1)
    table.add(first)
    for lines in blocks:
        table.add(lines)
    return table.vectors(path, header)


@dataclass
class _Table:
    """The rows read so far."""

    dim: int
    number: int  # next line, from 1
    words: dict[str, None] = field(default_factory=dict)  # keeps the order
    chunks: list[np.ndarray] = field(default_factory=list)
    malformed: int = 0
    duplicates: int = 0
    quotes: list[str] = field(default_factory=list)

    def add(self, lines: Sequence[bytes]) -> None:
        """Adds the rows of a block of lines; ignores blank lines."""
        rows = [(n, line) for n, line in enumerate(lines, self.number) if line]
        self.number += len(lines)
        cut = [self._cut(line) for _, line in rows]
        values = _floats([numbers for _, numbers in cut], self.dim)
        if values is None:
            # Some field is not a number. Reading row by row is slow, but finds it.
            single = [_floats([numbers], self.dim) for _, numbers in cut]
            nan = np.full((1, self.dim), np.nan, np.float32)
            values = np.concatenate([nan if row is None else row for row in single])
        good = np.all(np.isfinite(values), axis=1)
        kept = []
        for index, (number, line) in enumerate(rows):
            word = cut[index][0]
            if not word or not good[index]:
                self.malformed += 1
                if len(self.quotes) < _QUOTED:
                    shown = line if len(line) <= 80 else line[:77] + b"..."
                    self.quotes.append(f"line {number}: {shown!r}")
            elif word in self.words:
                self.duplicates += 1
            else:
                self.words[word] = None
                kept.append(index)
        self.chunks.append(values if len(kept) == len(rows) else values[kept])

    def _cut(self, line: bytes) -> tuple[str, str]:
        """Returns word and numbers of a row; the word is empty if that fails."""
        if line.count(b" ") == self.dim:
            word, _, numbers = line.partition(b" ")
        else:
            word, *fields = line.rsplit(b" ", self.dim)
            numbers = b" ".join(fields)
        try:
            return word.strip(b" ").decode(), numbers.decode("ascii")
        except UnicodeDecodeError:
            return "", ""

    def vectors(
        self, path: str | os.PathLike[str], header: tuple[int, int] | None
    ) -> Vectors:
        """Returns the vectors; raises ValueError if too few rows were usable."""
        rows = len(self.words) + self.duplicates + self.malformed
        notes = []
        if self.malformed:
            quotes = "; ".join(self.quotes)
            notes.append(f"{self.malformed:,} of {rows:,} rows are malformed: {quotes}")
        if not self.words or self.malformed > _BEARABLE * rows:
            raise ValueError(
                f"{path}: expected rows of a word and {self.dim} numbers; "
                + (notes[0] if notes else "found none")
            )
        if header and header[0] != rows:
            notes.append(
                f"the header announces {header[0]:,} rows, but the file has {rows:,}"
            )
        values = np.empty((len(self.words), self.dim), np.float32)
        at = 0
        # Frees each chunk after copying it, so that memory never holds the vectors
        # twice.
        self.chunks.reverse()
        while self.chunks:
            chunk = self.chunks.pop()
            values[at : at + len(chunk)] = chunk
            at += len(chunk)
        counts = (self.malformed, self.duplicates)
        return Vectors(tuple(self.words), values, *counts, tuple(notes))


def _floats(rows: Sequence[str], dim: int) -> np.ndarray | None:
    """Returns parsed rows of numbers; None if any row does not have `dim` numbers."""
    # NumPy skips empty rows, and warns if all are empty.
    if not all(rows):
        return None if rows else np.empty((0, dim), np.float32)
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
            _check_format(path, block)
            block, rest = block.removeprefix(b"\xef\xbb\xbf"), b""
            while block:
                following = file.read(_BLOCK)
                lines = (rest + block).replace(b"\t", b" ").split(b"\n")
                # The last line may continue in the next block.
                rest = lines.pop() if following else b""
                yield [line.rstrip(b" \r") for line in lines]
                block = following
    except DAMAGED_GZIP as error:
        raise ValueError(
            f"{path}: damaged gzip file ({error}); download it again"
        ) from error


def _check_format(path: str | os.PathLike[str], head: bytes) -> None:
    """Raises ValueError for files that are not text, naming their kind."""
    what = next((v for k, v in _OTHER_FORMATS.items() if head.startswith(k)), "")
    controls = len(head) - len(head.translate(None, _CONTROLS))
    if not what and (b"\0" in head or controls > len(head) / 100):
        what = "a binary file; word2vec's binary format must be saved as text"
        if head[8:9] == b"{":
            what = "a safetensors file"
    if what:
        raise ValueError(f"{path}: expected word vectors in text format, got {what}")


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
