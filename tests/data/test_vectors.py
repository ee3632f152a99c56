"""Vectors: rows of words are read, counted or quoted; those of tokens fit a text."""

import gzip
import json
import pickle
import struct

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jaxner.data import vectors
from jaxner.errors import InputError

letters = st.sampled_from("\xa0\x85\u2028é組.") | st.characters(
    exclude_characters=" \t\r\n0123456789", exclude_categories=["Cs", "Cc"]
)
# A word may be a number, but if most words end with one, the header is wrong.
parts = st.lists(st.text(letters, min_size=1, max_size=3), min_size=1, max_size=3)
parts |= st.sampled_from([["7"], ["1.5"], ["7", "x"]])
numbers = st.floats(width=32, allow_nan=False, allow_infinity=False)


@settings(max_examples=80)
@given(
    words=st.lists(parts.map(" ".join), min_size=1, max_size=8),
    dim=st.integers(2, 5),
    header=st.booleans(),
    mark=st.booleans(),
    is_zip=st.booleans(),
    newline=st.sampled_from([b"\n", b"\r\n", b" \n"]),
    data=st.data(),
)
def test_all_words_and_numbers_are_read(
    tmp_path_factory, words, dim, header, mark, is_zip, newline, data
):
    row = st.lists(numbers, min_size=dim, max_size=dim)
    rows = [data.draw(row) for _ in words]
    lines = [
        " ".join([word, *map(repr, row)]).encode()
        for word, row in zip(words, rows, strict=True)
    ]
    # Words with blanks are rare; most rows must tell the dimension, or the header.
    if header or any(" " in word for word in words):
        lines.insert(0, f"{len(words)} {dim}".encode())
    content = b"\xef\xbb\xbf" * (mark or words[0][0] == "\ufeff") + newline.join(lines)
    path = tmp_path_factory.getbasetemp() / "random.txt"
    path.write_bytes(gzip.compress(content, 1) if is_zip else content)
    first = dict(reversed([*zip(words, rows, strict=True)]))
    result = vectors.read(path)
    assert result.words == tuple(dict.fromkeys(words))
    expected = np.array([first[word] for word in result.words], np.float32)
    np.testing.assert_array_equal(result.values, expected)
    assert result.values.dtype == np.float32
    assert (result.malformed, result.notes) == (0, ())
    assert result.duplicates == len(words) - len(first)


def test_words_may_hold_blanks_and_numbers_be_words(file):
    rows = [". . . 3 2 1", "at name@domain.com 1 1 1", "the 0.5 1 2", ", 1 2 3"]
    result = vectors.read(file("\n".join(["5 3", *rows[::-1]])))
    assert result.words == (",", "the", "at name@domain.com", ". . .")
    assert result.values[3].tolist() == [3, 2, 1]
    assert result.notes == ("the header announces 5 rows, the file has 4",)
    for size, message in ((2, "have more"), (4, "malformed"), (10**9 - 1, "malformed")):
        with pytest.raises(InputError, match=message):
            vectors.read(file("\n".join([f"4 {size}", *rows[-2:], "to 3 2 1"])))
    result = vectors.read(
        file("\n".join([f"4 {10**30}", *rows, *[f"w{i}  3  2 1" for i in range(9)]]))
    )
    assert (len(result.words), result.malformed) == (13, 1)
    assert vectors.read(file("a\t1\t2\nb\t3\t4\n")).values.tolist() == [[1, 2], [3, 4]]


def test_malformed_rows_are_counted_and_quoted(file):
    good = [b"w%d %d 2 3" % (n, n) for n in range(3000)]  # more than the head
    wrong = [b"w 1 2", b"w 1 nan 3", b"w 1e60 2 3", b"w 1  2", b" 1 2 3"]
    for row in (*wrong, b"\xff\xfe 1 2 3", "w 1 2 é".encode()):
        result = vectors.read(file(b"\n".join([*good[:2000], row, *good[2000:], b""])))
        assert result.words == tuple(f"w{n}" for n in range(3000))
        assert result.values[:, 0].tolist() == [*range(3000)]
        assert result.malformed == 1
        assert result.notes == (f"1 of 3,001 rows are malformed: line 2001: {row!r}",)


def test_files_that_are_no_vectors_are_refused(file, tmp_path):
    rows = [f"w{n} 1 2" for n in range(17)] + ["x 1", "y z"]
    assert vectors.read(file("\n".join(rows[:-1]))).malformed == 1
    text = "\n".join(f"w{n} {n} {n}" for n in range(999)).encode()
    bad = ["", "\n\n", "3 50\n", "word\nword\n", "Some text.\nNo number.\n"]
    bad += [b"9 4\n" + struct.pack("<4f", *range(4)), pickle.dumps({"a": [1.0]})]
    for content in (*bad, "\n".join(rows), gzip.compress(text)[:-20]):
        path = file(content)
        with pytest.raises(InputError) as error:
            vectors.read(path)
        assert error.value.path == path
    with pytest.raises(InputError, match="got a binary file"):
        vectors.read(file(bad[-2]))
    with pytest.raises(FileNotFoundError):
        vectors.read(tmp_path / "glove.txt")


TEXT = [["EU", "rejects", "call"], ["Old"], ["EU", "rejects", "call"]]


def arrays(*leading, dtype=np.float32):
    rng = np.random.default_rng(0)
    return [rng.normal(size=(*leading, len(s), 4)).astype(dtype) for s in TEXT]


def elmo(path, arrays, index):
    """Writes what a file of AllenNLP's command holds."""
    entries = {str(i): array for i, array in enumerate(arrays)}
    np.savez(path, **entries, sentence_to_index=np.array([index]))
    return path


@pytest.mark.parametrize("suffix", [".npz", ".safetensors"])
@pytest.mark.parametrize("leading", [(), (3,)])
def test_what_is_written_is_read(suffix, leading, tmp_path):
    pytest.importorskip({".safetensors": "safetensors"}.get(suffix, "numpy"))
    path, values = tmp_path / f"train{suffix}", arrays(*leading)
    vectors.write_contextual(path, values, TEXT)
    (tmp_path / "usual").touch()
    assert path.stat().st_mode == (tmp_path / "usual").stat().st_mode
    result = vectors.read_contextual(path, TEXT)
    assert (len(result), *result[0].sizes) == (3, *(leading or (1,)), 4)
    assert vectors.contextual_sizes(path) == result[0].sizes
    for i, array in enumerate(values):
        right = array.reshape(-1, *array.shape[-2:]).transpose(1, 0, 2)
        np.testing.assert_array_equal(np.asarray(result[i]), right)
    with pytest.raises(InputError, match="sentence 2 "):
        vectors.read_contextual(path, [TEXT[0], ["New"], TEXT[2]])


def test_a_repeated_sentence_has_its_last_number_in_the_index(tmp_path):
    a, b, c = ["a", "b"], ["c", "d"], ["e", "f"]
    # Numbers: a 2, b 1; a 1, b 3. At 2 there may be b, which comes later, but not a.
    wrong_texts = ([a, a, b], [b, a, a], [c, b, a]), ([a, a, a, b], [a, a, c, b])
    for text, texts in zip(([a, b, a], [a, a, b, b]), wrong_texts, strict=True):
        index = json.dumps({" ".join(s): str(i) for i, s in enumerate(text)})
        path = elmo(tmp_path / "a.npz", [np.zeros((2, 4))] * len(text), index)
        assert len(vectors.read_contextual(path, text)) == len(text)
        for wrong in texts:
            with pytest.raises(InputError, match="belongs to another text"):
                vectors.read_contextual(path, wrong)


TOKENS = {"tokens": [" ".join(sentence) for sentence in TEXT]}
GOOD = {str(i): array for i, array in enumerate(arrays())}


@pytest.mark.parametrize(
    "entries",
    [
        {str(i + 1): array for i, array in enumerate(arrays())} | TOKENS,
        GOOD | {"1": GOOD["1"][:, :2]} | TOKENS,
        {key: array[None, None] for key, array in GOOD.items()} | TOKENS,
        {key: array.astype(int) for key, array in GOOD.items()} | TOKENS,
        {key: np.full(a.shape, 1e39) for key, a in GOOD.items()} | TOKENS,
        GOOD,  # no text
        GOOD | {"tokens": [1, 2, 3]},
        GOOD | {"tokens": ["EU rejects call"]},
    ],
)
def test_malformed_archives_are_refused(entries, tmp_path):
    path = tmp_path / "a.npz"
    np.savez(path, **entries)
    with pytest.raises(InputError, match=r"a\.npz: "):
        np.asarray(vectors.read_contextual(path, TEXT)[0])


def test_other_files_are_refused(tmp_path):
    for name in ("a.txt", "a.hdf5", "a.h5"):
        with pytest.raises(InputError, match=r"\.npz.*\.safetensors"):
            vectors.read_contextual(tmp_path / name, TEXT)
    with pytest.raises(FileNotFoundError):
        vectors.read_contextual(tmp_path / "a.npz", TEXT)
    np.save(tmp_path / "a.npy", np.zeros((2, 2)))
    (tmp_path / "a.npy").rename(tmp_path / "b.npz")
    (tmp_path / "c.npz").write_bytes(b"PK")
    elmo(tmp_path / "d.npz", arrays(), index="{")
    for name in ("b.npz", "c.npz", "d.npz"):
        with pytest.raises(InputError, match=rf"{name}: cannot be read"):
            vectors.read_contextual(tmp_path / name, TEXT)
    with pytest.raises(InputError, match="sentence 2: expected vectors of 1 token, g"):
        vectors.write_contextual(tmp_path / "a.npz", [arrays()[0]] * 3, TEXT)
