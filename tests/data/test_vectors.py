"""Word vectors: every row is read, counted as a duplicate, or quoted."""

import gzip
import os
import pickle
import re
import struct
import zipfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jaxner.data import vectors

letters = st.sampled_from("\xa0\x85\u2028é組.") | st.characters(
    exclude_characters=" \t\r\n", exclude_categories=["Cs", "Cc"]
)
parts = st.lists(st.text(letters, min_size=1, max_size=3), min_size=1, max_size=3)
numbers = st.floats(width=32, allow_nan=False, allow_infinity=False)


@pytest.fixture
def file(tmp_path):
    """Writes a file and returns its path."""

    def make(content, name="vectors.txt"):
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    return make


@settings(max_examples=80)
@given(
    words=st.lists(parts.map(" ".join), min_size=1, max_size=8),
    dim=st.integers(2, 5),
    header=st.booleans(),
    mark=st.booleans(),
    zipped=st.booleans(),
    newline=st.sampled_from([b"\n", b"\r\n", b" \n"]),
    data=st.data(),
)
def test_all_words_and_numbers_are_read(
    tmp_path_factory, words, dim, header, mark, zipped, newline, data
):
    row = st.lists(numbers, min_size=dim, max_size=dim)
    rows = [data.draw(row) for _ in words]
    lines = [
        " ".join([word, *map(repr, row)]).encode()
        for word, row in zip(words, rows, strict=True)
    ]
    # Words with blanks are rare; most rows must tell the dimension, or the header.
    if any(" " in word for word in words):
        header = True
    if header:
        lines.insert(0, f"{len(words)} {dim}".encode())
    content = b"\xef\xbb\xbf" * (mark or words[0][0] == "\ufeff") + newline.join(lines)
    path = tmp_path_factory.getbasetemp() / "random.txt"
    path.write_bytes(gzip.compress(content, 1) if zipped else content)

    first = dict(reversed([*zip(words, rows, strict=True)]))
    result = vectors.read(path)

    assert result.words == tuple(dict.fromkeys(words))
    expected = np.array([first[word] for word in result.words], np.float32)
    np.testing.assert_array_equal(result.values, expected)
    assert result.values.dtype == np.float32
    assert result.malformed == 0
    assert result.duplicates == len(words) - len(first)
    assert result.notes == ()


def test_words_may_hold_blanks(file):
    rows = ["the 0.5 1 2", ", 1 2 3", ". . . 3 2 1", "at name@domain.com 1 1 1"]
    result = vectors.read(file("\n".join(rows)))
    assert result.words == ("the", ",", ". . .", "at name@domain.com")
    assert result.values[2].tolist() == [3, 2, 1]


def test_files_of_many_blocks_are_read_whole(file, monkeypatch):
    monkeypatch.setattr(vectors, "_BLOCK", 64)
    lines = [f"w{n} {n} {-n / 8}" for n in range(1000)]
    lines[500] += " \t"
    lines[700] = "broken 1"
    result = vectors.read(file("\n".join(lines)))
    assert result.words == tuple(f"w{n}" for n in range(1000) if n != 700)
    assert result.values[-1].tolist() == [999, -999 / 8]
    assert result.notes == ("1 of 1,000 rows are malformed: line 701: b'broken 1'",)


@pytest.mark.parametrize(
    "row",
    [
        "word 1 2",
        "word 1 x 3",
        "word 1 nan 3",
        "word inf 2 3",
        "word 1e60 2 3",
        "word 1-2 3",
        "word 1,2 3 4x",
        "word 1_0 2 3",
        "word 1  2",
        " 1 2 3",
        "1 2 3",
        "word 1 2 é",
        b"\xff\xfe 1 2 3",
    ],
)
def test_malformed_rows_are_counted_and_quoted(file, row):
    row = row if isinstance(row, bytes) else row.encode()
    good = [b"w%d 1 2 3" % n for n in range(20)]
    result = vectors.read(file(b"\n".join([*good, row, b"last 4 5 6", b""])))
    assert result.words == (*(f"w{n}" for n in range(20)), "last")
    assert result.values[-1].tolist() == [4, 5, 6]
    assert result.malformed == 1
    assert result.notes == (f"1 of 22 rows are malformed: line 21: {row!r}",)


def test_the_first_of_equal_words_counts(file):
    result = vectors.read(file("a 1 2\nb 3 4\na 5 6\n"))
    assert (result.words, result.duplicates) == (("a", "b"), 1)
    assert result.values.tolist() == [[1, 2], [3, 4]]


def test_a_header_that_announces_other_rows_is_noted(file):
    result = vectors.read(file("3 2\na 1 2\nb 3 4\n"))
    assert result.words == ("a", "b")
    assert result.notes == ("the header announces 3 rows, but the file has 2",)


def test_numbers_may_be_words_of_one_dimension(file):
    assert vectors.read(file("7 5\n8 6\n9 7\n")).words == ("7", "8", "9")


def test_tabs_separate_too(file):
    assert vectors.read(file("a\t1\t2\nb\t3\t4\n")).values.tolist() == [[1, 2], [3, 4]]


def test_too_many_malformed_rows_are_refused(file):
    rows = [f"w{n} 1 2" for n in range(17)] + ["x 1", "y z"]
    with pytest.raises(ValueError, match=r"2 of 19 rows are .*18: b'x 1'; line 19"):
        vectors.read(file("\n".join(rows)))
    assert vectors.read(file("\n".join(rows[:-1]))).malformed == 1


@pytest.mark.parametrize("text", ["", "\n\n", "3 50\n", "word\nword\n"])
def test_files_without_rows_are_refused(file, text):
    with pytest.raises(ValueError, match="expected rows of a word and its numbers"):
        vectors.read(file(text))


def test_a_text_of_other_kind_is_refused(file):
    message = r"2 of 2 rows are malformed: line 1: b'Some text is here\.'"
    with pytest.raises(ValueError, match=message):
        vectors.read(file("Some text is here.\nNo number in it.\n"))


def test_other_dimensions_than_expected_are_refused(file):
    path = file("a 1 2\nb 3 4\n")
    with pytest.raises(ValueError, match="expected 100 dimensions, got 2"):
        vectors.read(path, dim=100)
    assert vectors.read(path, dim=2).values.shape == (2, 2)


def _word2vec(path):
    rows = [b"w%d " % n + struct.pack("<4f", n, 0.1, -n, 7) + b"\n" for n in range(9)]
    path.write_bytes(b"9 4\n" + b"".join(rows))


def _safetensors(path):
    path.write_bytes(struct.pack("<Q", 2) + b"{}" + b"\0" * 8)


def _numpy(path):
    with path.open("wb") as out:
        np.save(out, np.ones(2))


def _zip(path):
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("glove.txt", "a 1 2\n")


@pytest.mark.parametrize(
    ("save", "what"),
    [
        (_word2vec, "a binary file; word2vec's binary format"),
        (_safetensors, "a safetensors file"),
        (_zip, "a zip archive; unpack it"),
        (lambda path: path.write_bytes(pickle.dumps({"a": [1.0]})), "a pickle"),
        (_numpy, "a NumPy array"),
    ],
)
def test_other_formats_are_refused_by_name(tmp_path, save, what):
    path = tmp_path / "vectors.bin"
    save(path)
    message = re.escape("expected word vectors in text format, got " + what)
    with pytest.raises(ValueError, match=message):
        vectors.read(path)


def test_damaged_gzip_is_reported(file):
    text = "\n".join(f"w{n} {n} {n}" for n in range(999)).encode()
    with pytest.raises(ValueError, match="damaged gzip file"):
        vectors.read(file(gzip.compress(text)[:-20]))


def test_missing_files_are_named(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"No file .*glove\.txt"):
        vectors.read(tmp_path / "glove.txt")


@pytest.mark.slow
def test_a_real_file_is_read_whole():
    folder = os.environ.get("JAXNER_DATA")
    path = Path(folder or "", "vectors", "glove.6B.50d.compact.txt.gz")
    if not folder or not path.exists():
        pytest.skip("JAXNER_DATA is not set, or holds no vectors")
    result = vectors.read(path, dim=50)
    assert result.values.shape == (126_034, 50)
    assert (result.malformed, result.duplicates, result.notes) == (0, 0, ())
    with gzip.open(path, "rt", encoding="utf-8", newline="\n") as lines:
        for index, line in zip(range(2000), lines, strict=False):
            word, *row = line.rstrip("\n").split(" ")
            assert result.words[index] == word
            expected = np.array([float(text) for text in row], np.float32)
            np.testing.assert_array_equal(result.values[index], expected)
