"""Reading pre-trained word vectors: the text formats of GloVe and of word2vec.

One word per line, then its numbers, between blanks; word2vec puts a line with the
numbers of words and of dimensions first. Nothing is lost in silence: rows that can't be
used are counted, and the first of them quoted with their lines.
"""

import os
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from jaxner.data.readers.files import DAMAGED_GZIP, open_binary

_BLOCK = 1 << 20  # bytes: about a thousand rows of 100 dimensions
_HEAD = 1000  # rows that tell the number of dimensions
_QUOTED = 5  # malformed rows that are quoted
_BEARABLE = 0.1  # share of rows that may be malformed
_CONTROLS = bytes({*range(9), *range(14, 32)})
# First bytes of files that are given for vectors in text format.
_OTHER_FORMATS = {
    b"PK\x03\x04": "a zip archive; unpack it and give the text file in it",
    b"BZh": "a bzip2 file; unpack it",
    b"\xfd7zXZ": "an xz file; unpack it",
    b"\x93NUMPY": "a NumPy array, without words",
    b"\x89HDF": "an HDF5 file",
    b"\xba\x16\x4f\x2f": "a fastText model; give the .vec file that comes with it",
    **{bytes([0x80, n]): "a pickle, which is never loaded" for n in range(2, 6)},
}


@dataclass(frozen=True)
class Vectors:
    """Word vectors as they stand in a file.

    Attributes:
        words: The words in the file's order, each once.
        values: Their vectors, float32 [N, D].
        malformed: How many rows could not be used.
        duplicates: How many rows were left out as their word had come before.
        notes: What was found odd: quotations of malformed rows, a header that announces
            another number of rows.
    """

    words: tuple[str, ...]
    values: np.ndarray
    malformed: int = 0
    duplicates: int = 0
    notes: tuple[str, ...] = ()


def read(path: str | os.PathLike[str], dim: int | None = None) -> Vectors:
    r"""Reads word vectors in text format, plain or gzipped.

    The last D fields of a row are its numbers, all before them is the word: GloVe 840B
    has words such as `. . .`. D comes from the header line, else from the most frequent
    number of fields in the first 1,000 rows. A row is malformed if it has too few
    fields, no word, a field that is no finite float32, or bytes that aren't UTF-8. Of
    rows with the same word the first counts.

    Args:
        path: The file; gzip is told by its content, not by its name.
        dim: The number of dimensions that the file must have; None: whatever it has.

    Returns:
        The words and their vectors.

    Raises:
        ValueError: The file has another format or number of dimensions, or is damaged,
            or no row, or less than nine tenths of them, can be used.
        FileNotFoundError: There is no such file.

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
        raise ValueError(f"{path}: expected rows of a word and its numbers, got none")
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
    number: int  # of the next line, from 1
    words: dict[str, None] = field(default_factory=dict)  # keeps the order
    chunks: list[np.ndarray] = field(default_factory=list)
    malformed: int = 0
    duplicates: int = 0
    quotes: list[str] = field(default_factory=list)

    def add(self, lines: Sequence[bytes]) -> None:
        """Adds the rows of a block of lines; a line of blanks is no row."""
        rows = [(n, line) for n, line in enumerate(lines, self.number) if line]
        self.number += len(lines)
        cut = [self._cut(line) for _, line in rows]
        values = _floats([numbers for _, numbers in cut], self.dim)
        if values is None:
            # Something is no number. One row at a time is slow, but tells which.
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
        """Cuts a row into word and numbers; the word is empty if that fails."""
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
        """Ends the reading: raises if too few rows were any good."""
        rows = len(self.words) + self.duplicates + self.malformed
        notes = []
        if self.malformed:
            quotes = "; ".join(self.quotes)
            notes.append(f"{self.malformed:,} of {rows:,} rows are malformed: {quotes}")
        if not self.words or self.malformed > _BEARABLE * rows:
            raise ValueError(
                f"{path}: expected rows of a word and {self.dim} numbers; "
                + (notes[0] if notes else "there are none")
            )
        if header and header[0] != rows:
            notes.append(f"the header announces {header[0]:,} rows, there are {rows:,}")
        values = np.empty((len(self.words), self.dim), np.float32)
        at = 0
        # Each chunk is freed once it is copied: the vectors are never held twice.
        self.chunks.reverse()
        while self.chunks:
            chunk = self.chunks.pop()
            values[at : at + len(chunk)] = chunk
            at += len(chunk)
        counts = (self.malformed, self.duplicates)
        return Vectors(tuple(self.words), values, *counts, tuple(notes))


def _floats(rows: Sequence[str], dim: int) -> np.ndarray | None:
    """Parses rows of numbers; None if any of them is not `dim` numbers."""
    # NumPy skips empty rows, and warns if there is no other.
    if not all(rows):
        return None if rows else np.empty((0, dim), np.float32)
    try:
        values = np.loadtxt(rows, np.float32, comments=None, ndmin=2)
    except ValueError:
        return None
    return values if values.shape == (len(rows), dim) else None


def _blocks(path: str | os.PathLike[str]) -> Iterator[list[bytes]]:
    """Yields the lines in blocks, without blanks at their ends, tabs made blanks."""
    try:
        with open_binary(path) as file:
            block = file.read(_BLOCK)
            _check_format(path, block)
            block, rest = block.removeprefix(b"\xef\xbb\xbf"), b""
            while block:
                following = file.read(_BLOCK)
                lines = (rest + block).replace(b"\t", b" ").split(b"\n")
                # The last line goes on in the next block, if there is one.
                rest = lines.pop() if following else b""
                yield [line.rstrip(b" \r") for line in lines]
                block = following
    except DAMAGED_GZIP as error:
        raise ValueError(
            f"{path}: damaged gzip file ({error}); get it again"
        ) from error


def _check_format(path: str | os.PathLike[str], head: bytes) -> None:
    """Raises for files that hold no text, and says what they are."""
    what = next((v for k, v in _OTHER_FORMATS.items() if head.startswith(k)), "")
    controls = len(head) - len(head.translate(None, _CONTROLS))
    if not what and (b"\0" in head or controls > len(head) / 100):
        what = "a binary file; word2vec's binary format must be saved as text"
        if head[8:9] == b"{":
            what = "a safetensors file"
    if what:
        raise ValueError(f"{path}: expected word vectors in text format, got {what}")


def _header(lines: Sequence[bytes]) -> tuple[int, int] | None:
    """Reads word2vec's first line: the numbers of words and of dimensions."""
    fields = lines[0].split() if lines else []
    if len(fields) != 2 or not all(text.isdigit() for text in fields):
        return None
    words, dim = map(int, fields)
    # In a file of one dimension this may be the row of a word that is a number.
    return None if _dimensions(lines[1:]) == 1 != dim else (words, dim)


def _dimensions(lines: Sequence[bytes]) -> int:
    """Finds the most frequent number of numbers in a row, the lowest of several."""
    counts = Counter(len(line.split()) - 1 for line in lines[:_HEAD] if line)
    return min(counts, key=lambda dim: (-counts[dim], dim), default=0)
